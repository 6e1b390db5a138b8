#include "queue_nservicebus_suite.h"

static const nservicebus_app *app;
static const outbox_backend *first;

int nservicebus_make(void **state)
{
	*state = queue_fixture_make_layout(first, "nservicebus");
	return 0;
}

int nservicebus_drop(void **state)
{
	queue_fixture_drop(*state);
	return 0;
}

static wherry_code see(void *ctx, const wherry_queue_message *m)
{
	nservicebus_seen *s = ctx;
	size_t len = strlen(s->fields);

	(void)snprintf(s->fields + len, sizeof(s->fields) - len, "%s%s|%s|%s|%s|%.*s",
		       s->n++ ? " " : "", m->message_id, m->topic ? m->topic : "-",
		       m->correlation_id ? m->correlation_id : "-",
		       m->reply_to ? m->reply_to : "-", (int)m->body_len,
		       (const char *)m->body);
	return WHERRY_OK;
}

const char *nservicebus_receive(queue_fixture *f, nservicebus_seen *s)
{
	const wherry_receive_options options = WHERRY_RECEIVE_OPTIONS(.limit = 9);
	wherry_error err = WHERRY_ERROR_INIT;

	*s = (nservicebus_seen){.n = 0};
	WHERRY_PASS(wherry_queue_receive(f->queue, &options, see, s, NULL, &err));
	return s->fields;
}

wherry_code nservicebus_note_finding(void *ctx, const char *what, const char *repair)
{
	char *text = ctx;
	size_t len = strlen(text);

	(void)snprintf(text + len, 8000 - len, "%s\n", repair);
	return WHERRY_OK;
}

int64_t nservicebus_publish(wherry_topics *topics, const char *topic, const char *body)
{
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.body = body, .body_len = strlen(body));
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_topics_publish(topics, topic, &msg, &n, &err));
	return n;
}

/* ---- both at once ---- */

WHERRY_CASE(what_we_send_is_a_row_of_theirs, queue_fixture *f)
{
	static const char wanted[] =
		"{\"a\\/b\":\"\\uD83D\\uDE80 \\\" \xc3\xa9\",\"n\":null,"
		"\"NServiceBus.CorrelationId\":\"c1\","
		"\"NServiceBus.ReplyToAddress\":\"web\","
		"\"NServiceBus.EnclosedMessageTypes\":\"Shop.OrderPlaced\","
		"\"NServiceBus.MessageId\":\"m1\",\"NServiceBus.TimeSent\":\"20";
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(
			.message_id = "m1", .topic = "Shop.OrderPlaced",
			.correlation_id = "c1", .reply_to = "web",
			.headers =
				"{\"a/b\":\"\xf0\x9f\x9a\x80 \\\" \xc3\xa9\",\"n\":null}",
			.body = "{}", .body_len = 2, .expires_us = 60000000);
	const char *headers;

	WHERRY_PASS(wherry_queue_send(f->queue, &msg, NULL, &err));
	headers = queue_text(f, "SELECT headers FROM jobs");
	assert_int_equal(strncmp(headers, wanted, strlen(wanted)), 0);
	assert_string_equal(headers + strlen(headers) - 4, " Z\"}");
	assert_int_equal(app->expiring(f, 40, 60), 1);
	assert_string_equal(app->receive(f), "{}");
	assert_string_equal(app->receive(f), "");
}

WHERRY_CASE(what_they_send_is_received, queue_fixture *f)
{
	static const char headers[] = "{\"NServiceBus.MessageId\":\"m1\","
				      "\"NServiceBus.CorrelationId\":\"c1\","
				      "\"NServiceBus.ReplyToAddress\":\"web\","
				      "\"NServiceBus.EnclosedMessageTypes\":\"A, B\","
				      "\"x\":\"a\\/b\"}";
	nservicebus_seen s;

	app->send(f, "NULL", headers, "1");
	assert_string_equal(nservicebus_receive(f, &s), "m1|A, B|c1|web|1");
	app->send_bare(f, "11111111-2222-3333-4444-555555555555", "");
	assert_string_equal(nservicebus_receive(f, &s),
			    "11111111-2222-3333-4444-555555555555|-|-|-|");
	app->send(f, "NULL", "null", "3");
	(void)queue_lease(f->queue, 1, "3");
	app->send(f, "NULL", "{}", "4");
	queue_takes(f, 1, "4");
}

WHERRY_CASE(a_message_of_theirs_can_be_sent_on, queue_fixture *f)
{
	static const char headers[] = "{\"NServiceBus.MessageId\":\"m1\",\"x\":null}";
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.headers = headers, .body = "1", .body_len = 1);
	wherry_error err = WHERRY_ERROR_INIT;
	nservicebus_seen s;

	WHERRY_PASS(wherry_queue_send(f->queue, &msg, NULL, &err));
	WHERRY_PASS(wherry_queue_send_many(f->queue, &msg, 1, NULL, &err));
	assert_string_equal(nservicebus_receive(f, &s), "m1|-|-|-|1 m1|-|-|-|1");
}

/* ---- modes ---- */

WHERRY_CASE(a_lease_is_kept_beside_the_queue, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	(void)queue_send(f, 1);
	got = queue_lease(f->queue, 1, "1");
	assert_string_equal(app->receive(f), "");
	queue_counts(f, "0 1 0 0");
	WHERRY_PASS(wherry_queue_dead_letter(f->queue, got.token, got.ids, 1, "bad order",
					     NULL, &err));
	queue_counts(f, "0 0 0 1");
	assert_string_equal(queue_text(f, "SELECT last_error FROM jobs_received"),
			    "bad order");
	WHERRY_PASS(wherry_queue_retry(f->queue, got.ids[0], NULL, &err));
	assert_string_equal(app->receive(f), "1");
}

WHERRY_CASE(a_nack_keeps_the_attempts, queue_fixture *f)
{
	const wherry_nack later = WHERRY_NACK(.delay_us = 50000000, .error = "no route");
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got;

	(void)queue_send(f, 1);
	got = queue_lease(f->queue, 1, "1");
	WHERRY_PASS(
		wherry_queue_nack(f->queue, got.token, got.ids, 1, &later, NULL, &err));
	queue_counts(f, "0 0 1 0");
	(void)queue_lease(f->queue, 1, "");
	queue_minute(f);
	got = queue_lease(f->queue, 1, "1");
	assert_int_equal(got.attempts[0], 2);
	assert_string_equal(queue_text(f, "SELECT last_error FROM jobs_received"),
			    "no route");
}

WHERRY_CASE(a_message_that_kills_its_receivers_dies, queue_fixture *f)
{
	const wherry_receive_options options =
		WHERRY_RECEIVE_OPTIONS(.limit = 9, .max_attempts = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	queue_got got = {.n = 0};

	(void)queue_send(f, 1);
	(void)queue_lease(f->queue, 1, "1");
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "1");
	queue_minute(f);
	(void)queue_send(f, 2);
	WHERRY_PASS(
		wherry_queue_receive(f->queue, &options, queue_note, &got, NULL, &err));
	assert_string_equal(got.bodies, "2");
	queue_counts(f, "0 1 0 1");
}

static void poison_dies_in_every_mode(void **state)
{
	static const wherry_receive_mode modes[] = {WHERRY_LEASE, WHERRY_ATOMIC,
						    WHERRY_AT_MOST_ONCE};
	queue_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; i < 3; i++) {
		queue_got got;

		(void)queue_send(f, 1);
		app->send(f, "NULL", "{\"a\":", "2");
		app->send(f, "NULL", "[]", "3");
		app->send_bare(f, "11111111-2222-3333-4444-555555555555", "7");
		(void)queue_send(f, 4);
		if (modes[i] == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_begin(f->db, &err));
		got = queue_receive(f->queue, modes[i], 9);
		if (modes[i] == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_commit(f->db, &err));
		assert_string_equal(got.bodies, "1 4");
		assert_int_equal(
			queue_int(
				f,
				"SELECT count(*) FROM jobs_received WHERE state = 4 AND last_error LIKE '%%headers%%'"),
			3);
		assert_int_equal(
			queue_int(
				f,
				"SELECT count(*) FROM jobs_received WHERE headers IN ('{\"a\":', '[]', '7')"),
			3);
		queue_raw(f, "DELETE FROM jobs_received; DELETE FROM jobs");
	}
}

/* ---- numbers and uuids that received messages have ---- */

/* Each row of the queue gets a dead message with its number and uuid, as where a table is restored
 * beside the other. */
static void die_too(queue_fixture *f)
{
	queue_raw(f, "INSERT INTO jobs_received(id, row_id, state, attempts, headers) "
		     "SELECT seq, id, 4, 1, '{}' FROM jobs");
}

WHERRY_CASE(a_message_that_was_received_before_is_received, queue_fixture *f)
{
	(void)queue_send(f, 1);
	(void)queue_send(f, 2);
	die_too(f);
	(void)queue_lease(f->queue, 9, "1 2");
	queue_counts(f, "0 2 0 2");
}

WHERRY_CASE(poison_that_was_received_before_dies, queue_fixture *f)
{
	app->send_bare(f, "11111111-2222-3333-4444-555555555555", "7");
	(void)queue_send(f, 1);
	die_too(f);
	queue_takes(f, 9, "1");
	queue_counts(f, "0 0 0 3");
}

WHERRY_CASE(a_dead_message_whose_uuid_is_used_again_is_retried, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	for (int i = 0; i < 2; i++) {
		app->send_bare(f, "11111111-2222-3333-4444-555555555555", "7");
		queue_takes(f, 9, "");
	}
	app->send_bare(f, "11111111-2222-3333-4444-555555555555", "{}");
	die_too(f);
	WHERRY_PASS(wherry_queue_retry(f->queue, 0, &n, &err));
	assert_int_equal(n, 3);
	queue_counts(f, "4 0 0 0");
}

/* ---- expiry and delays ---- */

WHERRY_CASE(an_expired_message_is_dropped, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	app->send(f, "1000", "{}", "1");
	(void)queue_send_so(f, 2, 0, 30000000);
	(void)queue_send_so(f, 3, 0, 120000000);
	app->send(f, "NULL", "{}", "4");
	queue_minute(f);
	queue_counts(f, "4 0 0 0");
	(void)queue_lease(f->queue, 9, "3 4");
	assert_int_equal(queue_int(f, "SELECT COUNT(*) FROM jobs"), 0);
	for (int i = 0; i < 5; i++)
		app->send(f, "1000", "{}", "1");
	queue_minute(f);
	WHERRY_PASS(wherry_queue_expire(f->queue, 2, &n, &err));
	assert_int_equal(n, 5);
}

/* Upstream's time to live is an Int32 of milliseconds. */
WHERRY_CASE(an_expiry_of_25_days_is_kept, queue_fixture *f)
{
	(void)queue_send_so(f, 1, 0, 25LL * 86400 * 1000000);
	(void)queue_send_so(f, 2, 0, INT64_C(36500) * 86400 * 1000000);
	assert_int_equal(app->expiring(f, 599 * 3600, INT64_MAX / 1000000), 2);
	(void)queue_lease(f->queue, 9, "1 2");
}

WHERRY_CASE(a_delay_with_an_expiry_is_refused_by_name, queue_fixture *f)
{
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1, .delay_us = 1000000,
				     .expires_us = 1000000);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_queue_send(f->queue, &msg, NULL, &err));
	assert_non_null(strstr(err.message,
			       "nservicebus, which has no place for the expiry "
			       "of a delayed message"));
}

WHERRY_CASE(a_delayed_message_of_either_is_received_by_either, queue_fixture *f)
{
	(void)queue_send_so(f, 1, 50000000, 0);
	app->store(f, 40, "{}", "2");
	(void)queue_lease(f->queue, 9, "");
	queue_counts(f, "0 0 2 0");
	queue_minute(f);
	(void)queue_lease(f->queue, 1, "2"); /* it is due first */
	app->move(f);
	assert_string_equal(app->receive(f), "1");
}

/* ---- forwarding, subscriptions ---- */

WHERRY_CASE(a_rolled_back_receive_forwards_nothing, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *mails = NULL;

	WHERRY_PASS(wherry_queue_create(f->db, "mails", NULL, &err)); /* native */
	WHERRY_PASS(wherry_queue_open(f->db, "mails", &mails, &err));
	app->send(f, "NULL", "{\"NServiceBus.SqlServer.ForwardDestination\":\"mails\"}",
		  "7");
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_int_equal(queue_receive(f->queue, WHERRY_ATOMIC, 9).n, 0);
	wherry_db_rollback(f->db);
	queue_counts(f, "1 0 0 0");
	queue_takes(f, 9, "");
	(void)queue_lease(mails, 9, "7");
	wherry_queue_close(mails);
}

/* Upstream's length is the distance of the last number from the first. */
WHERRY_CASE(the_length_counts_messages, queue_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status s;
	int64_t due = -7;

	app->send(f, "NULL",
		  "{\"NServiceBus.TimeSent\":\"2020-02-28 10:00:00:000001 Z\"}", "1");
	app->number(f, 4000000000000);
	queue_counts(f, "2 0 0 0");
	WHERRY_PASS(wherry_queue_get_status(f->queue, &s, sizeof(s), &err));
	assert_true(s.oldest_ready_us > 5LL * 365 * 86400 * 1000000);
	WHERRY_PASS(wherry_queue_next_due(f->queue, &due, &err));
	assert_int_equal(due, 0);
	queue_raw(f, "DELETE FROM jobs");
	WHERRY_PASS(wherry_queue_next_due(f->queue, &due, &err));
	assert_int_equal(due, -1);
	(void)queue_send_so(f, 1, 50000000, 0);
	WHERRY_PASS(wherry_queue_next_due(f->queue, &due, &err));
	assert_in_range((uint64_t)due, 1000000, 50000000);
}

WHERRY_CASE(one_publication_reaches_both_layouts_or_none, queue_fixture *f)
{
	const wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(.body = "9", .body_len = 1);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_topics *topics = NULL;
	wherry_queue *mails = NULL;

	WHERRY_PASS(wherry_queue_create(f->db, "mails", NULL, &err));
	WHERRY_PASS(wherry_queue_open(f->db, "mails", &mails, &err));
	WHERRY_PASS(wherry_topics_open(f->db, NULL, &topics, &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "jobs", &err));
	WHERRY_PASS(wherry_topics_subscribe(topics, "paid", "mails", &err));
	assert_int_equal(nservicebus_publish(topics, "paid", "1"), 2);
	(void)queue_lease(f->queue, 9, "1");
	(void)queue_lease(mails, 9, "1");
	queue_raw(f,
		  "INSERT INTO \"SubscriptionRouting\" VALUES ('nowhere', 'x', 'paid')");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_topics_publish(topics, "paid", &msg, NULL, &err));
	(void)queue_lease(f->queue, 9, "");
	(void)queue_lease(mails, 9, "");
	wherry_topics_close(topics);
	wherry_queue_close(mails);
}

/* ---- running them ---- */

int nservicebus_suite_run(const nservicebus_app *theirs,
			  const outbox_backend *const *backends, size_t n_backends,
			  const struct CMUnitTest *more, size_t n_more)
{
	static const struct CMUnitTest cases[] = {
		NSERVICEBUS_CASE(what_we_send_is_a_row_of_theirs),
		NSERVICEBUS_CASE(what_they_send_is_received),
		NSERVICEBUS_CASE(a_message_of_theirs_can_be_sent_on),
		NSERVICEBUS_CASE(a_lease_is_kept_beside_the_queue),
		NSERVICEBUS_CASE(a_nack_keeps_the_attempts),
		NSERVICEBUS_CASE(a_message_that_kills_its_receivers_dies),
		NSERVICEBUS_CASE(poison_dies_in_every_mode),
		NSERVICEBUS_CASE(a_message_that_was_received_before_is_received),
		NSERVICEBUS_CASE(poison_that_was_received_before_dies),
		NSERVICEBUS_CASE(a_dead_message_whose_uuid_is_used_again_is_retried),
		NSERVICEBUS_CASE(an_expired_message_is_dropped),
		NSERVICEBUS_CASE(an_expiry_of_25_days_is_kept),
		NSERVICEBUS_CASE(a_delay_with_an_expiry_is_refused_by_name),
		NSERVICEBUS_CASE(a_delayed_message_of_either_is_received_by_either),
		NSERVICEBUS_CASE(a_rolled_back_receive_forwards_nothing),
		NSERVICEBUS_CASE(the_length_counts_messages),
		NSERVICEBUS_CASE(one_publication_reaches_both_layouts_or_none),
	};
	struct CMUnitTest tests[100];
	size_t n = sizeof(cases) / sizeof(*cases);

	app = theirs;
	first = backends[0];
	assert_true(n + n_more <= sizeof(tests) / sizeof(*tests));
	memcpy(tests, cases, sizeof(cases));
	memcpy(tests + n, more, n_more * sizeof(*more));
	return queue_suite_run_layout("nservicebus", backends, n_backends, tests,
				      n + n_more);
}
