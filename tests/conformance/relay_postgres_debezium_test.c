/*
 * What a relay reads from PostgreSQL's log and does not write to: the table of Debezium's
 * event router, and payloads of any JSON.
 */
#include "relay_suite.h"

#include "outbox/outbox.h"
#include "postgres/server.h"

#define DEBEZIUM                                                                         \
	"CREATE TABLE deb(id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, "    \
	"aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb)"
#define EVENT(n, key)                                                                    \
	"INSERT INTO deb VALUES ('00000000-0000-0000-0000-00000000000" #n "', 'order', " \
	"'" key "', 'Made', '{\"n\": " #n "}');"

typedef struct seen {
	char topic[40], key[20], headers[80], id[40], body[40];
	bool null;
} seen;

static seen last_seen;

static void look(relay_fixture *f, const wherry_message *msg)
{
	(void)snprintf(last_seen.topic, sizeof(last_seen.topic), "%s", msg->topic);
	(void)snprintf(last_seen.key, sizeof(last_seen.key), "%s",
		       msg->aggregate_id ? msg->aggregate_id : "");
	(void)snprintf(last_seen.headers, sizeof(last_seen.headers), "%s", msg->headers);
	(void)snprintf(last_seen.id, sizeof(last_seen.id), "%s", msg->message_id);
	last_seen.null = !msg->body;
	(void)snprintf(last_seen.body, sizeof(last_seen.body), "%.*s", (int)msg->body_len,
		       msg->body ? (const char *)msg->body : "");
}

static void debezium(relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "relay.table", "deb");
	relay_sql(f, DEBEZIUM);
	WHERRY_PASS(wherry_outbox_create(f->other, "deb", NULL, &err));
}

WHERRY_CASE(an_event_leaves_as_debezium_routes_it, relay_fixture *f)
{
	debezium(f);
	f->asked = look;
	relay_sql(f, EVENT(1, "7"));
	relay_stream(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	assert_string_equal(last_seen.topic, "outbox.event.order");
	assert_string_equal(last_seen.key, "7");
	assert_string_equal(last_seen.headers, "{\"type\":\"Made\"}");
	assert_string_equal(last_seen.id, "00000000-0000-0000-0000-000000000001");
	assert_string_equal(last_seen.body, "{\"n\": 1}");
	relay_sql(f, "BEGIN;" EVENT(2, "8") "DELETE FROM deb; COMMIT");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	assert_string_equal(last_seen.id, "00000000-0000-0000-0000-000000000002");
	relay_stop(f, &f->a);
	relay_set(f, "stream.topic", "{}-events");
	relay_stream(f, &f->a);
	relay_sql(f, EVENT(3, "9"));
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 3);
	assert_string_equal(last_seen.topic, "order-events");
}

WHERRY_CASE(a_payload_of_null_is_not_an_empty_one, relay_fixture *f)
{
	debezium(f);
	f->asked = look;
	relay_sql(f, EVENT(1, "7"));
	relay_stream(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	assert_false(last_seen.null);
	relay_sql(f, "INSERT INTO deb VALUES ('00000000-0000-0000-0000-000000000002', "
		     "'order', '7', 'Gone', NULL)");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	assert_true(last_seen.null);
}

WHERRY_CASE(events_of_an_aggregate_keep_their_order_when_one_is_tried_again,
	    relay_fixture *f)
{
	int64_t ids[4];

	debezium(f);
	relay_stream(f, &f->a);
	f->every = WHERRY_RETRY;
	relay_set(f, "relay.down_after", "1000");
	relay_sql(f, EVENT(1, "7") EVENT(2, "7") EVENT(3, "8") EVENT(4, "7"));
	RELAY_UNTIL(f, &f->a, f->n_events >= 2);
	f->every = WHERRY_DELIVERED;
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 4);
	for (size_t i = 0, n = 0; i < f->n_events; i++)
		if (f->events[i].verdict == WHERRY_DELIVERED)
			ids[n++] = f->events[i].id;
	for (int i = 1; i < 4; i++)
		assert_int_not_equal(ids[i], ids[i - 1]);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM deb"), 4);
}

static char copied[16];

static void note_copied(relay_fixture *f, const wherry_message *msg)
{
	(void)snprintf(copied + strlen(copied), 2, "%c", msg->message_id[35]);
}

/* COPY writes several rows at one position of the log. */
WHERRY_CASE(events_that_are_copied_leave_in_their_order, relay_fixture *f)
{
	debezium(f);
	relay_stream(f, &f->a);
	*copied = 0;
	f->asked = note_copied;
	relay_sql(f,
		  "COPY deb FROM PROGRAM 'seq 1 6 | sed \"s/.*/00000000-0000-0000-0000-"
		  "00000000000&,order,7,Made,{}/\"' (FORMAT csv)");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 6);
	assert_string_equal(copied, "123456");
	for (size_t i = 1; i < 6; i++)
		assert_true(f->events[i].id > f->events[i - 1].id);
}

/* The table has no numbers, and 0 stands for a duplicate. */
WHERRY_CASE(an_enqueued_event_is_not_called_a_duplicate, relay_fixture *f)
{
	const wherry_message msg =
		WHERRY_MESSAGE(.message_id = "00000000-0000-0000-0000-000000000001",
			       .topic = "Made", .aggregate_type = "order",
			       .aggregate_id = "7", .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	debezium(f);
	WHERRY_PASS(wherry_outbox_open(f->other, "deb", &outbox, &err));
	WHERRY_PASS(
		wherry_outbox_enqueue(outbox, &msg, WHERRY_OWN_TRANSACTION, NULL, &err));
	assert_int_equal(
		wherry_outbox_enqueue(outbox, &msg, WHERRY_OWN_TRANSACTION, NULL, &err),
		WHERRY_DUPLICATE);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM deb"), 1);
	wherry_outbox_close(outbox);
}

/* A JSON string, a number, nothing: payloads like any other. */
WHERRY_CASE(defect_9_a_payload_may_be_any_json, relay_fixture *f)
{
	static const char *const bodies[] = {"\"hello\"", "42", "null", "[1, 2]"};
	char sql[200];

	debezium(f);
	f->asked = look;
	relay_stream(f, &f->a);
	for (size_t n = 0; n < 4; n++) {
		(void)snprintf(sql, sizeof(sql),
			       "INSERT INTO deb VALUES "
			       "('00000000-0000-0000-0000-00000000000%d', 'order', '7', "
			       "'Made', '%s')",
			       (int)n, bodies[n]);
		relay_sql(f, sql);
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == n + 1);
		assert_string_equal(last_seen.body, bodies[n]);
	}
}

WHERRY_CASE(a_message_that_is_only_streamed_cannot_be_discarded, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	debezium(f);
	WHERRY_PASS(wherry_outbox_open(f->other, "deb", &outbox, &err));
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_outbox_discard(outbox, "1", &err));
	assert_non_null(strstr(err.message, "debezium"));
	assert_non_null(strstr(err.message, "only streamed"));
	wherry_outbox_close(outbox);
}

/* A producer deletes the row in the transaction that writes it, so the stream has its only copy.
 * Each is one that a relay refuses before it has all of it, or that its index cannot hold. */
WHERRY_CASE(a_message_that_dies_unread_is_kept_whole, relay_fixture *f)
{
	static const struct {
		const char *values; /* aggregatetype, aggregateid, type, payload */
		const char *kept;   /* what must be true in wherry_dead */
	} cases[] = {
		{"'order', 'k', 'Gone', to_jsonb(repeat('y', 2000000))",
		 "octet_length(payload) = 2000002 AND partition_key IS NULL AND "
		 "aggregate_id = 'k'"},
		{"repeat('o', 1100000), 'k', 'Gone', '{}'",
		 "octet_length(aggregate_type) = 1100000 AND payload = '{}'"},
		{"'order', repeat('k', 1100000), 'Gone', '{}'",
		 "octet_length(aggregate_id) = 1100000 AND payload = '{}'"},
		/* Its topic can be sent, though it is long, and is made as that of others is. */
		{"repeat('o', 100000), 'k', 'Gone', to_jsonb(repeat('y', 2000000))",
		 "topic = 'outbox.event.' || repeat('o', 100000)"},
		{"'order', 'k', repeat('g', 1100000), '{}'",
		 "octet_length(headers) = 1100000 AND payload = '{}'"},
	};
	enum { N = sizeof(cases) / sizeof(*cases) };
	char sql[400];

	debezium(f);
	relay_set(f, "outbox.body_max", "1MB");
	relay_sql(f,
		  "ALTER TABLE deb ALTER aggregatetype TYPE text, ALTER aggregateid TYPE "
		  "text, ALTER type TYPE text");
	relay_stream(f, &f->a);
	for (int64_t i = 0; i < N; i++) {
		(void)snprintf(sql, sizeof(sql),
			       "BEGIN; INSERT INTO deb VALUES ("
			       "'00000000-0000-0000-0000-00000000000%lld', %s); "
			       "DELETE FROM deb; COMMIT",
			       (long long)i, cases[i].values);
		relay_sql(f, sql);
	}
	relay_sql(f, EVENT(9, "9"));
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	RELAY_UNTIL(f, &f->a, relay_number(f, "SELECT count(*) FROM wherry_dead") == N);
	for (int64_t i = 0; i < N; i++) {
		(void)snprintf(
			sql, sizeof(sql),
			"SELECT count(*) FROM wherry_dead WHERE message_id LIKE '%%%lld' "
			"AND %s",
			(long long)i, cases[i].kept);
		if (relay_number(f, sql) != 1)
			fail_msg("%s", cases[i].values);
	}
}

/* The primary key of wherry_dead could not hold it where lz4 did in the table's. */
WHERRY_CASE(a_long_message_id_can_die, relay_fixture *f)
{
	debezium(f);
	relay_set(f, "outbox.body_max", "1KB");
	relay_sql(f, "ALTER TABLE deb ALTER id TYPE text");
	relay_stream(f, &f->a);
	relay_sql(f, "BEGIN; SET LOCAL default_toast_compression = 'lz4'; INSERT INTO "
		     "deb VALUES (repeat('i', 600000), 't', 'k', 'Made', "
		     "to_jsonb(repeat('y', 2000))), ('b', 't', 'l', 'Made', '{}'); "
		     "COMMIT");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM wherry_dead WHERE "
				    "octet_length(message_id) = 600000 AND "
				    "octet_length(payload) = 2002") == 1);
}

static const relay_test own[] = {
	RELAY_TEST(a_message_that_dies_unread_is_kept_whole, 0),
	RELAY_TEST(a_long_message_id_can_die, 0),
	RELAY_TEST(an_event_leaves_as_debezium_routes_it, 0),
	RELAY_TEST(a_message_that_is_only_streamed_cannot_be_discarded, 0),
	RELAY_TEST(events_of_an_aggregate_keep_their_order_when_one_is_tried_again, 0),
	RELAY_TEST(events_that_are_copied_leave_in_their_order, 0),
	RELAY_TEST(an_enqueued_event_is_not_called_a_duplicate, 0),
	RELAY_TEST(a_payload_of_null_is_not_an_empty_one, 0),
	RELAY_TEST(defect_9_a_payload_may_be_any_json, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "debezium",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
		.make = postgres_enter,
		.drop = postgres_leave_slots,
		.own = own,
		.own_only = true,
	};

	return postgres_start_logical() ? relay_suite(&target, 1) : 0;
}
