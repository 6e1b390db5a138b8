/*
 * Rows that no relay can handle, written with plain SQL: each dies alone, with a reason that
 * names what is wrong with it, and its neighbours go on.
 */
#include "relay_suite.h"

#include <stdio.h>
#include <string.h>

static bool on_sqlite(const relay_fixture *f)
{
	return strncmp(f->url, "sqlite", 6) == 0;
}

static bool on_mssql(const relay_fixture *f)
{
	return strncmp(f->url, "mssql", 5) == 0;
}

static void run_on(relay_fixture *f, const char *sqlite, const char *postgres,
		   const char *mssql)
{
	relay_sql(f, on_sqlite(f) ? sqlite : on_mssql(f) ? mssql : postgres);
}

/* As in a table that was made before the constraints. */
static void drop_constraints(relay_fixture *f)
{
	static const char alter[] = "ALTER TABLE outbox DROP CONSTRAINT outbox_sane";

	run_on(f, "PRAGMA ignore_check_constraints = ON", alter, alter);
}

static bool died_because(relay_fixture *f, int64_t id, const char *why)
{
	char sql[400];

	(void)snprintf(sql, sizeof(sql),
		       "SELECT count(*) FROM outbox WHERE id = %lld AND status = 4 AND "
		       "last_error LIKE '%s%%'",
		       (long long)id, why);
	return relay_number(f, sql) == 1;
}

/* Where a column of SQL Server has a length, it refuses what is too long for it. */
static const struct {
	const char *columns, *sqlite, *postgres, *mssql, *why;
} long_values[] = {
	{"partition_key, payload", "printf('%.*c', 3000000, 'k'), '{}'",
	 "repeat('k', 3000000), '{}'", NULL,
	 "partition_key is longer than its limit of 1048576 bytes"},
	{"aggregate_id, payload", "printf('%.*c', 2000000, 'k'), '{}'",
	 "repeat('k', 2000000), '{}'", NULL, "aggregate_id is longer than its limit"},
	{"headers, payload",
	 "'{\"a\": \"' || printf('%.*c', 2000000, 'k') || '\"}', '{}'",
	 "('{\"a\": \"' || repeat('k', 2000000) || '\"}')::json, '{}'",
	 "CONCAT('{\"a\": \"', REPLICATE(CAST(N'k' AS NVARCHAR(MAX)), 2000000), '\"}'), '{}'",
	 "headers is longer than its limit"},
	{"payload", "zeroblob(20000000)", "decode(repeat('00', 20000000), 'hex')",
	 "REPLICATE(CAST(N'k' AS NVARCHAR(MAX)), 20000000)", "payload is "},
};

WHERRY_CASE(a_row_that_is_too_long_dies_alone, relay_fixture *f)
{
	int64_t id = 1;

	drop_constraints(f);
	relay_put(f, "a");
	for (size_t i = 0; i < sizeof(long_values) / sizeof(*long_values); i++) {
		const char *value = on_sqlite(f)  ? long_values[i].sqlite
				    : on_mssql(f) ? long_values[i].mssql
						  : long_values[i].postgres;
		char sql[300];

		(void)snprintf(sql, sizeof(sql),
			       "INSERT INTO outbox(topic, %s) VALUES ('t', %s)",
			       long_values[i].columns, value ? value : "NULL");
		if (value)
			relay_sql(f, sql);
	}
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	for (size_t i = 0; i < sizeof(long_values) / sizeof(*long_values); i++)
		if (!on_mssql(f) || long_values[i].mssql)
			RELAY_UNTIL(f, &f->a, died_because(f, ++id, long_values[i].why));
	RELAY_DELIVERED(f, 1, id + 1);
	assert_int_equal(relay_attempts(f, 2), 0);
}

/* Texts that look like something to a database, to JSON or to Wherry. */
static const char *const ordinary_texts[] = {
	"0",
	"7",
	"007",
	"-1",
	"1.0",
	"1048576",
	"1048577",
	"3000000",
	"2147483648",
	"9223372036854775807",
	"9223372036854775808",
	"1e400",
	"true",
	"null",
	"NULL",
	"NaN",
	"infinity",
	"{}",
	"[1]",
	"\"a\"",
	"2026-11-25",
	"2026-11-25T10:00:00Z",
	"018f6e2a-0b7e-7c11-8a53-4f3e9a1d2c3b",
	"01J9ZQ3V7K8M5N6P7Q8R9S0TAB",
	"507f1f77bcf86cd799439011",
	"V1StGXR8_Z5jdHi6B-myT",
	"a@example.org",
	"https://example.org/a?b=c#d",
	"a",
	" ",
	" a ",
	"Zo\u00eb",
	"\u5f20\u4f1f",
	"\u0645\u062d\u0645\u062f",
	"a,b",
	"a;b",
	"a'b",
	"a\"b",
	"a\\b",
	"\x01",
	"\x01"
	"3000000",
	"\x01"
	"a",
	"\x02"
	"1",
	"\x1f"
	"1",
	"\x7f",
	"a\tb",
	"a\nb",
	"%s",
	"$1",
	":name",
	"{table}",
	"--",
	"/* */",
};

WHERRY_CASE(ordinary_texts_are_delivered_as_they_are, relay_fixture *f)
{
	enum { N = sizeof(ordinary_texts) / sizeof(*ordinary_texts) };
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < N; i++) {
		const char *text = ordinary_texts[i];
		const wherry_message message =
			WHERRY_MESSAGE(.message_id = text, .topic = text, .key = text,
				       .aggregate_type = text, .aggregate_id = text,
				       .trace_id = text, .body = "{}",
				       .body_len = WHERRY_TEXT);

		WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &message,
						  WHERRY_OWN_TRANSACTION, NULL, &err));
	}
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a,
		    relay_count(f, WHERRY_DONE) + relay_count(f, WHERRY_DEAD) == N);
	assert_int_equal(relay_count(f, WHERRY_DONE), N);
	for (size_t i = 0; i < f->n_events; i++) {
		const relay_event *event = &f->events[i];
		const char *text = ordinary_texts[event->id - 1];

		assert_int_equal(strncmp(event->key, text, sizeof(event->key) - 1), 0);
		assert_int_equal(strncmp(event->topic, text, sizeof(event->topic) - 1),
				 0);
	}
}

WHERRY_CASE(a_row_with_a_number_out_of_range_dies_alone, relay_fixture *f)
{
	drop_constraints(f);
	relay_put(f, "a");
	relay_sql(f, "INSERT INTO outbox(topic, partition_key, payload, attempts) VALUES "
		     "('t', 'b', '{}', 2147483647)");
	relay_sql(f, "INSERT INTO outbox(topic, partition_key, payload, attempts) VALUES "
		     "('t', 'b', '{}', -1)");
	run_on(f,
	       "INSERT INTO outbox(topic, partition_key, payload, created_at) VALUES "
	       "('t', 'b', '{}', 'yesterday')",
	       "INSERT INTO outbox(topic, partition_key, payload, created_at) VALUES "
	       "('t', 'b', '{}', 'infinity')",
	       "INSERT INTO outbox(topic, partition_key, payload, created_at) VALUES "
	       "('t', 'b', '{}', '19691231')");
	relay_put(f, "b");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 3);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 1, 5);
	assert_true(died_because(f, 2, "attempts is 2147483647"));
	assert_true(died_because(f, 3, "attempts is -1"));
	assert_true(died_because(f, 4, "created_at is not "));
}

/* SQL Server has no infinite times. */
WHERRY_CASE(an_infinite_time_stops_nothing, relay_fixture *f)
{
	wherry_outbox_status status;
	wherry_error err = WHERRY_ERROR_INIT;

	drop_constraints(f);
	relay_put(f, "ab");
	run_on(f,
	       "UPDATE outbox SET status = 3, next_retry_at = 9e999, created_at = 9e999 "
	       "WHERE id = 1",
	       "UPDATE outbox SET status = 3, next_retry_at = 'infinity', "
	       "created_at = '-infinity' WHERE id = 1",
	       NULL);
	run_on(f, "UPDATE outbox SET next_retry_at = 'x', claimed_at = 'x' WHERE id = 2",
	       "UPDATE outbox SET next_retry_at = '-infinity', claimed_at = 'infinity' "
	       "WHERE id = 2",
	       NULL);
	assert_int_equal(wherry_outbox_get_status(f->outbox, &status,
						  sizeof(wherry_outbox_status), &err),
			 WHERRY_OK);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_DONE);
}

static void low_ids(relay_fixture *f)
{
	drop_constraints(f);
	relay_put(f, "a");
	relay_sql(f, "INSERT INTO outbox(id, topic, payload) VALUES (0, 't', '{}')");
	relay_sql(f, "INSERT INTO outbox(id, topic, payload) VALUES (-5, 't', '{}')");
	relay_start(f, &f->a);
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_DEATHS);
	assert_int_equal(relay_state(f, 1), WHERRY_DONE);
	assert_true(died_because(f, 0, "id is 0: ids begin at 1"));
	assert_true(died_because(f, -5, "id is -5: ids begin at 1"));
}

WHERRY_CASE(a_row_whose_id_is_not_above_zero_dies_alone, relay_fixture *f)
{
	low_ids(f);
}

/* Its id is far above the others: those that follow are below what was read. */
static void a_row_inserted_below_the_cursor_is_delivered(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_sql(f, "INSERT INTO outbox(id, topic, payload) VALUES (900, 't', '{}')");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_quiet(f, &f->a);
	relay_sql(f, "INSERT INTO outbox(id, topic, payload) VALUES (90, 't', '{}')");
	f->offset_us += 6 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	if (relay_is_log(f)) /* Its rows have no state. */
		return;
	relay_sql(f, "INSERT INTO outbox(id, topic, payload, status) "
		     "VALUES (91, 't', '{}', 1)");
	f->offset_us += 6 * WH_SECOND;
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 1, 900, 90, 91);
}

/* A B-tree of PostgreSQL holds no more than 2,704 bytes. */
WHERRY_CASE(a_long_key_that_does_not_compress_is_delivered_in_order, relay_fixture *f)
{
	relay_answers(f, 2, WHERRY_RETRY, 1);
	relay_set(f, "retry.base", "1ms");
	relay_put(f, "a");
	run_on(f,
	       "INSERT INTO outbox(topic, partition_key, payload) VALUES "
	       "('t', hex(randomblob(4000)), '{}')",
	       "INSERT INTO outbox(topic, partition_key, payload) SELECT 't', "
	       "string_agg(md5(random()::text), ''), '{}' FROM generate_series(1, 250)",
	       "INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', "
	       "REPLICATE(CAST(NEWID() AS NVARCHAR(36)), 28), '{}')");
	relay_sql(f, "INSERT INTO outbox(topic, partition_key, payload) SELECT 't', "
		     "partition_key, '{}' FROM outbox WHERE id = 2");
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	assert_int_equal(relay_delivered(f), 4);
	relay_check_order(f);
}

/* lz4, which not every PostgreSQL has, makes a text a 255th as long, so that it fits into the index
 * of message ids.  On SQL Server a message id has at most 255 characters. */
WHERRY_CASE(a_long_message_id_is_acknowledged_with_the_others, relay_fixture *f)
{
	run_on(f,
	       "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < "
	       "1000) INSERT INTO outbox(message_id, topic, payload) SELECT CASE n WHEN 7 "
	       "THEN printf('%.*c', 600000, 'i') ELSE 'm' || n END, 't', '{}' FROM c",
	       "SELECT set_config(name, 'lz4', false) FROM pg_settings WHERE name = "
	       "'default_toast_compression' AND 'lz4' = ANY (enumvals); "
	       "INSERT INTO outbox(message_id, topic, payload) SELECT CASE n WHEN 7 "
	       "THEN repeat('i', (SELECT CASE count(*) WHEN 1 THEN 600000 ELSE 150000 END "
	       "FROM pg_settings WHERE name = 'default_toast_compression' AND setting = "
	       "'lz4')::integer) ELSE 'm' || n END, 't', '{}' FROM generate_series(1, 1000) AS n",
	       "WITH c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1000) "
	       "INSERT INTO outbox(message_id, topic, payload) SELECT CASE n WHEN 7 "
	       "THEN REPLICATE(N'i', 255) ELSE CONCAT('m', n) END, 't', '{}' FROM c "
	       "OPTION (MAXRECURSION 1000)");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1000);
	assert_int_equal(relay_delivered(f), 1000);
}

/* No result of the row with id 3 is written. */
static void refuse_the_third(relay_fixture *f)
{
	run_on(f,
	       "CREATE TRIGGER no BEFORE UPDATE ON outbox WHEN old.id = 3 AND "
	       "new.status <> 1 BEGIN SELECT RAISE(ABORT, 'no'); END",
	       "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
	       "RAISE 'no' USING ERRCODE = 'data_exception'; END$$; "
	       "CREATE TRIGGER no BEFORE UPDATE ON OUTBOX FOR EACH ROW "
	       "WHEN (old.id = 3 AND new.status <> 1) EXECUTE FUNCTION no()",
	       "CREATE TRIGGER no ON outbox AFTER UPDATE AS "
	       "IF EXISTS (SELECT 1 FROM inserted WHERE id = 3 AND status <> 1) THROW 50000, 'no', 1");
}

WHERRY_CASE(a_row_that_cannot_be_written_holds_up_no_other, relay_fixture *f)
{
	relay_hourly(f);
	relay_put(f, "abcde");
	refuse_the_third(f);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_put(f, "abde");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 8);
	assert_int_equal(relay_state(f, 3), WHERRY_PROCESSING);
	assert_int_equal(relay_delivered(f), 9);
	assert_true(relay_logged(f, "event=write-refused id=3 "));
	run_on(f, "DROP TRIGGER no", "DROP FUNCTION no() CASCADE", "DROP TRIGGER no");
}

WHERRY_CASE(a_failure_beside_a_row_that_cannot_be_written_is_recorded, relay_fixture *f)
{
	relay_hourly(f);
	relay_set(f, "retry.base", "1h");
	f->what[4] = WHERRY_RETRY;
	f->times[4] = -1;
	relay_put(f, "abcde");
	refuse_the_third(f);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_UNTIL(f, &f->a, relay_state(f, 4) == WHERRY_FAILED);
	assert_int_equal(relay_attempts(f, 4), 1);
	assert_int_equal(f->n_events, 5); /* each was tried once */
	run_on(f, "DROP TRIGGER no", "DROP FUNCTION no() CASCADE", "DROP TRIGGER no");
}

/* On PostgreSQL a key that is too long is written, and its message dies (a_row_that_is_too_long_dies_alone). */
WHERRY_CASE(the_schema_refuses_what_it_can, relay_fixture *f)
{
	static const char *const ids[] = {"0", "-9223372036854775808",
					  "9223372036854775807", "4611686018427387904"};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		char sql[200];

		(void)snprintf(sql, sizeof(sql),
			       "INSERT INTO outbox(id, topic, payload) "
			       "VALUES (%s, 't', '{}')",
			       ids[i]);
		assert_int_not_equal(wh_db_script(f->other, sql, &err), WHERRY_OK);
		assert_non_null(strstr(err.message, "onstraint"));
	}
	if (on_sqlite(f) || on_mssql(f)) {
		assert_int_not_equal(
			wh_db_script(
				f->other,
				on_sqlite(f)
					? "INSERT INTO outbox(topic, payload, partition_key) "
					  "VALUES ('t', '{}', printf('%.*c', 1048577, 'k'))"
					: "INSERT INTO outbox(topic, payload, partition_key) "
					  "VALUES ('t', '{}', REPLICATE(N'k', 1025))",
				&err),
			WHERRY_OK);
	}
	assert_int_equal(relay_number(f, "SELECT count(*) FROM outbox"), 0);
}

WHERRY_CASE(a_key_goes_on_when_what_it_waits_for_is_discarded, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "retry.base", "20s");
	relay_set(f, "retry.jitter", "off");
	relay_answers(f, 1, WHERRY_RETRY, -1);
	relay_put(f, "aa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	assert_int_equal(wherry_outbox_discard(f->outbox, "1", &err), WHERRY_OK);
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_DONE);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM outbox"), 1);
	assert_int_equal(wherry_outbox_discard(f->outbox, "2", &err), WHERRY_NOTFOUND);
}

const relay_test relay_rows_tests[] = {
	RELAY_TEST(a_row_that_is_too_long_dies_alone, RELAY_LEASE),
	RELAY_TEST(ordinary_texts_are_delivered_as_they_are, RELAY_LEASE),
	RELAY_TEST(a_row_with_a_number_out_of_range_dies_alone, RELAY_LEASE),
	RELAY_TEST(an_infinite_time_stops_nothing, RELAY_LEASE),
	RELAY_TEST(a_row_whose_id_is_not_above_zero_dies_alone, RELAY_LEASE),
	RELAY_TEST(a_row_inserted_below_the_cursor_is_delivered, RELAY_LEASE),
	RELAY_TEST(a_long_message_id_is_acknowledged_with_the_others, RELAY_LEASE),
	RELAY_TEST(a_long_key_that_does_not_compress_is_delivered_in_order, RELAY_LEASE),
	RELAY_TEST(a_row_that_cannot_be_written_holds_up_no_other, RELAY_KEYS),
	RELAY_TEST(a_failure_beside_a_row_that_cannot_be_written_is_recorded, RELAY_KEYS),
	RELAY_TEST(the_schema_refuses_what_it_can, RELAY_LEASE),
	RELAY_TEST(a_key_goes_on_when_what_it_waits_for_is_discarded, RELAY_LEASE),
	RELAY_TESTS_END,
};
