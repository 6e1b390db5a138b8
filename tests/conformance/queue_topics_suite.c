#include "queue_suite.h"

static wherry_topics *topics_of(queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;

	WHERRY_PASS(wherry_topics_open(f->db, NULL, &topics, &err));
	return topics;
}

static int64_t publish(wherry_topics *topics, const char *topic, const char *body)
{
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.body = body, .body_len = strlen(body),
				     .correlation_id = "c", .expires_us = 60000000);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_topics_publish(topics, topic, &msg, &n, &err));
	return n;
}

static wherry_code note(void *ctx, const char *topic, const char *queue)
{
	char *text = ctx;
	size_t len = strlen(text);

	(void)snprintf(text + len, 200 - len, "%s>%s ", topic, queue);
	return WHERRY_OK;
}

WHERRY_CASE(a_message_goes_to_every_queue_that_has_subscribed, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = topics_of(f);
	wherry_queue *mails = NULL;
	char text[200] = "";

	WHERRY_PASS(wherry_queue_create(f->db, "mails", NULL, &err));
	WHERRY_PASS(wherry_queue_open(f->db, "mails", &mails, &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "jobs", &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "mails", &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "mails", &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "sent", "mails", &err));
	WHERRY_PASS(wherry_topics_list(topics, NULL, note, text, &err));
	assert_string_equal(text, "paid>jobs paid>mails sent>mails ");
	assert_int_equal(publish(topics, "paid", "1"), 2);
	assert_int_equal(publish(topics, "sent", "2"), 1);
	assert_int_equal(publish(topics, "lost", "3"), 0);
	assert_string_equal(queue_text(f, "SELECT topic || correlation_id FROM jobs"),
			    "paidc");
	assert_int_equal(queue_int(f, "SELECT count(*) FROM jobs AS a, mails AS b WHERE "
				      "a.message_id = b.message_id AND a.expires_at IS "
				      "NOT NULL"),
			 1);
	(void)queue_lease(f->queue, 9, "1");
	(void)queue_lease(mails, 9, "1 2");
	WHERRY_PASS(wherry_topics_unsubscribe(topics, "paid", "jobs", &err));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_topics_unsubscribe(topics, "paid", "jobs", &err));
	assert_int_equal(publish(topics, "paid", "4"), 1);
	WHERRY_PASS(wherry_queue_drop(mails, &err));
	assert_int_equal(publish(topics, "paid", "5"), 0);
	wherry_queue_close(mails);
	wherry_topics_close(topics);
}

WHERRY_CASE(a_rolled_back_publication_reaches_nobody, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = topics_of(f);

	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "jobs", &err));
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_int_equal(publish(topics, "paid", "1"), 1);
	wherry_db_rollback(f->db);
	(void)queue_lease(f->queue, 9, "");
	wherry_topics_close(topics);
}

WHERRY_CASE(topics_refuse_what_is_not_there, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = topics_of(f);
	wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1);

	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_topics_subscribe(topics, "paid", "tasks", &err));
	assert_non_null(strstr(err.message, "'tasks'"));
	WHERRY_FAILS(WHERRY_INVALID, wherry_topics_subscribe(topics, "", "jobs", &err));
	assert_non_null(strstr(err.message, "the topic is empty"));
	msg.headers = "[]";
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_topics_publish(topics, "paid", &msg, NULL, &err));
	wherry_topics_close(topics);
	WHERRY_PASS(wherry_queue_drop(f->queue, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_topics_open(f->db, NULL, &topics, &err));
}

const queue_case queue_topics_cases[] = {
	QUEUE_OWNER_CASE(a_message_goes_to_every_queue_that_has_subscribed, true),
	QUEUE_OWNER_CASE(a_rolled_back_publication_reaches_nobody, true),
	QUEUE_OWNER_CASE(topics_refuse_what_is_not_there, true),
	{NULL, NULL, false, false, false, false},
};
