#include "queue_places.h"

#include <stdlib.h>

#include <wherry/inbox.h>

void queue_place_make(queue_place *place, const char *url)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_queue_options text = WHERRY_QUEUE_OPTIONS(.payload = "text");
	wherry_config *config = NULL;

	(void)snprintf(place->url, sizeof(place->url), "%s", url);
	(void)snprintf(place->to, sizeof(place->to), "%s#jobs", url);
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.create", "on", &err));
	WHERRY_PASS(wherry_db_open(url, config, &place->db, &err));
	wherry_config_free(config);
	WHERRY_PASS(wherry_queue_create(
		place->db, "jobs", strncmp(url, "sqlite", 6) == 0 ? NULL : &text, &err));
	WHERRY_PASS(wherry_inbox_create(place->db, NULL, &err));
	WHERRY_PASS(wherry_queue_open(place->db, "jobs", &place->queue, &err));
}

void queue_place_clear(queue_place *place)
{
	wherry_queue_close(place->queue);
	wherry_db_close(place->db);
	if (*place->temp.dir)
		wherry_temp_clear(&place->temp);
}

void *queue_place_sqlite(char *url, size_t cap)
{
	queue_place *place = calloc(1, sizeof(*place));
	char path[200];

	assert_non_null(place);
	(void)snprintf(path, sizeof(path), "sqlite:%s",
		       wherry_temp_make(&place->temp, "jobs.db"));
	queue_place_make(place, path);
	(void)snprintf(url, cap, "%s", place->to);
	return place;
}

void queue_place_stop(void *arg)
{
	queue_place_clear(arg);
	free(arg);
}

void queue_place_doom(void *place, publisher_fate fate, wherry_message *msg, char *text,
		      size_t cap)
{
	msg->headers = "[]";
}

typedef struct numbers {
	int *list;
	size_t n, cap;
	int64_t last;
} numbers;

static wherry_code take(void *ctx, const wherry_queue_message *msg)
{
	numbers *out = ctx;

	if (out->n < out->cap)
		out->list[out->n++] = (int)strtol(msg->message_id + 2, NULL, 10);
	out->last = msg->id;
	return WHERRY_OK;
}

size_t queue_place_arrived(void *arg, wherry_publisher *pub, int *list, size_t cap)
{
	const queue_place *place = arg;
	wherry_error err = WHERRY_ERROR_INIT;
	numbers out = {.list = list, .cap = cap};
	int64_t before = -1;

	while (out.last != before) {
		const wherry_queue_filter filter =
			WHERRY_QUEUE_FILTER(.after_id = out.last, .limit = 1000);

		before = out.last;
		WHERRY_PASS(wherry_queue_peek(place->queue, &filter, take, &out, &err));
	}
	return out.n;
}

/* Deliver it through a new publisher. */
static void deliver(const queue_place *place, const wherry_message *msg)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;
	size_t taken = 0, n = 0;
	wh_receipt receipt;

	WHERRY_PASS(wherry_publisher_open(place->to, NULL, &pub, &err));
	WHERRY_PASS(wh_publisher_submit(pub, &msg, 1, &taken, &err));
	assert_int_equal(taken, 1);
	while (!n) {
		WHERRY_PASS(wh_publisher_collect(pub, &receipt, 1, &n, &err));
		wh_sleep(&wh_env_system, n ? 0 : 1000);
	}
	assert_int_equal(receipt.verdict, WHERRY_DELIVERED);
	wherry_publisher_close(pub);
}

static size_t count(queue_place *place)
{
	int list[16];

	return queue_place_arrived(place, NULL, list, 16);
}

void queue_place_delivers_once(queue_place *place)
{
	wherry_message msg = WHERRY_MESSAGE(.message_id = "m-7", .topic = "t",
					    .body = "{}", .body_len = 2);

	deliver(place, &msg);
	deliver(place, &msg);
	assert_int_equal(count(place), 1);
}

static wherry_code copy_headers(void *ctx, const wherry_queue_message *msg)
{
	(void)snprintf(ctx, 200, "%s", msg->headers);
	return WHERRY_OK;
}

/* Deliver a message, and compare the headers that it has in the queue. */
static void headers_are(queue_place *place, const wherry_message *msg, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char headers[200] = "";

	deliver(place, msg);
	WHERRY_PASS(wherry_queue_show(place->queue, msg->message_id, copy_headers,
				      headers, &err));
	assert_string_equal(headers, wanted);
}

void queue_place_carries_key_and_trace(queue_place *place)
{
	headers_are(place,
		    &WHERRY_MESSAGE(.message_id = "m-1", .topic = "t", .body = "{}",
				    .body_len = 2),
		    "{}");
	headers_are(place,
		    &WHERRY_MESSAGE(.message_id = "m-2", .topic = "t", .body = "{}",
				    .body_len = 2, .key = "k \"7\"", .trace_id = "t9"),
		    "{\"key\":\"k \\\"7\\\"\",\"trace-id\":\"t9\"}");
	headers_are(place,
		    &WHERRY_MESSAGE(.message_id = "m-3", .topic = "t", .body = "{}",
				    .body_len = 2, .aggregate_type = "order",
				    .aggregate_id = "42", .headers = "{\"a\":\"b\"}"),
		    "{\"a\":\"b\",\"key\":\"42\"}");
	headers_are(place,
		    &WHERRY_MESSAGE(.message_id = "m-4", .topic = "t", .body = "{}",
				    .body_len = 2, .key = "k",
				    .headers = "{\"key\":\"mine\"}"),
		    "{\"key\":\"mine\"}");
}

/* Is a message new to the inbox?  It counts as accepted from now on. */
static bool is_new(queue_place *place, wherry_inbox *inbox, const char *message_id)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool is = false;

	WHERRY_PASS(wherry_db_begin(place->db, &err));
	WHERRY_PASS(wherry_inbox_accept(inbox, "jobs", message_id, &is, &err));
	WHERRY_PASS(wherry_db_commit(place->db, &err));
	return is;
}

void queue_place_purges_its_inbox(queue_place *place)
{
	wherry_message msg = WHERRY_MESSAGE(.message_id = "m-7", .topic = "t",
					    .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	const char mark = strchr(place->url, '?') ? '&' : '?';
	int64_t n = 0, oldest_us = 0;
	wherry_inbox *inbox = NULL;

	WHERRY_PASS(wherry_inbox_open(place->db, NULL, &inbox, &err));
	assert_true(is_new(place, inbox, "old"));
	(void)snprintf(place->to, sizeof(place->to), "%s%cinbox_retention=1h#jobs",
		       place->url, mark);
	deliver(place, &msg);
	while (oldest_us < 3000) /* The database counts milliseconds. */
		WHERRY_PASS(wherry_inbox_count(inbox, &n, &oldest_us, &err));
	assert_int_equal(n, 2); /* Both are young. */
	(void)snprintf(place->to, sizeof(place->to), "%s%cinbox_retention=1ms#jobs",
		       place->url, mark);
	msg.message_id = "m-8";
	deliver(place, &msg);
	assert_true(is_new(place, inbox, "old"));
	assert_false(is_new(place, inbox, "m-8"));
	wherry_inbox_close(inbox);
}
