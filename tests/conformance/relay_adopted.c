/*
 * The relay on a table of another program, and the tests that do not run there.
 */
#include "relay_adopted.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "outbox/adopt.h"
#include "relay_log.h"

static const char sqlite_table[] =
	"CREATE TABLE events(id INTEGER PRIMARY KEY, message_id TEXT NOT NULL DEFAULT (lower(hex(randomblob(18)))), "
	"topic TEXT NOT NULL, aggregate_type TEXT NOT NULL DEFAULT '', aggregate_id TEXT NOT NULL DEFAULT '', "
	"partition_key TEXT, headers TEXT NOT NULL DEFAULT '{}', trace_id TEXT, "
	"created_at DATETIME NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')), payload NOT NULL, "
	"published_at DATETIME)";

static const char postgres_table[] =
	"CREATE TABLE events(id bigserial PRIMARY KEY, message_id text NOT NULL DEFAULT gen_random_uuid()::text, "
	"topic text NOT NULL, aggregate_type text NOT NULL DEFAULT '', aggregate_id text NOT NULL DEFAULT '', "
	"partition_key text, headers json NOT NULL DEFAULT '{}', trace_id text, "
	"created_at timestamptz NOT NULL DEFAULT now(), payload bytea NOT NULL, published_at timestamptz, "
	"CONSTRAINT outbox_sane CHECK (topic IS NOT NULL))";

static const char mssql_table[] =
	"CREATE TABLE events(id BIGINT IDENTITY PRIMARY KEY, message_id NVARCHAR(255) NOT NULL DEFAULT LOWER(CAST(NEWID() AS NVARCHAR(36))), "
	"topic NVARCHAR(255) NOT NULL, aggregate_type NVARCHAR(255) NOT NULL DEFAULT N'', aggregate_id NVARCHAR(255) NOT NULL DEFAULT N'', "
	"partition_key NVARCHAR(1024), headers NVARCHAR(MAX) NOT NULL DEFAULT N'{}', trace_id NVARCHAR(255), "
	"created_at DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME(), payload NVARCHAR(MAX) NOT NULL, published_at DATETIME2(3), "
	"CONSTRAINT outbox_sane CHECK (topic IS NOT NULL))";

static void adopt(wherry_db *db, const char *done)
{
	const wh_adopt_options options = {.as = "outbox", .done = done};
	static wh_adoption adoption;
	wherry_error err = WHERRY_ERROR_INIT;
	bool made;

	WHERRY_PASS(wh_db_script(db,
				 strcmp(db->driver->scheme, "sqlite") == 0 ? sqlite_table
				 : strcmp(db->driver->scheme, "mssql") == 0
					 ? mssql_table
					 : postgres_table,
				 &err));
	WHERRY_PASS(wh_adoption_plan(db, "events", &options, &adoption, &err));
	WHERRY_PASS(wh_adoption_run(&adoption, &made, &err));
	assert_true(made);
	wh_adoption_clear(&adoption);
}

void relay_adopt_deleted(wherry_db *db)
{
	adopt(db, "delete");
}

void relay_adopt_marked(wherry_db *db)
{
	adopt(db, "published_at");
}

void relay_adopted_put(relay_fixture *f, const char *keys)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf sql = WH_BUF_INIT(64 * 1024);
	/* Babelfish gives all rows of a statement the same row version. */
	const bool alone = strcmp(f->other->driver->scheme, "mssql") == 0;

	for (size_t i = 0; keys[i]; i++) {
		if (i && !alone)
			wh_buf_puts(&sql, ", ");
		else
			wh_buf_printf(
				&sql,
				"%sINSERT INTO events(topic, partition_key, payload) VALUES ",
				i ? "; " : "");
		if (keys[i] == '-')
			wh_buf_puts(&sql, "('t', NULL, '{}')");
		else
			wh_buf_printf(&sql, "('t', '%c', '{}')", keys[i]);
	}
	WHERRY_PASS(wh_db_script(f->other, wh_buf_str(&sql), &err));
	wh_buf_clear(&sql);
}

void relay_adopted_check(relay_fixture *f)
{
	assert_int_equal(
		relay_number(
			f,
			"SELECT count(*) FROM native AS n JOIN events AS e ON e.id = n.id "
			"WHERE e.published_at IS NOT NULL AND n.status <> 2"),
		0);
}

const char relay_adopted_sqlite_views[] = RELAY_LOG_SQLITE_VIEWS("events");
const char relay_adopted_postgres_views[] = RELAY_LOG_POSTGRES_VIEWS("events");

/* "outbox" becomes "events". */
static void on_events(const char *sql, char *out, size_t cap)
{
	size_t n = 0;

	for (const char *p = sql; *p && n + 8 < cap;) {
		const bool word = strncmp(p, "outbox", 6) == 0 && p[6] != '_' &&
				  !isalnum((unsigned char)p[6]) &&
				  (p == sql || p[-1] == ' ');

		if (word) {
			memcpy(out + n, "events", 6);
			n += 6;
			p += 6;
		} else {
			out[n++] = *p++;
		}
	}
	out[n] = 0;
}

void relay_adopted_translate(const char *sql, char *out, size_t cap)
{
	char text[4096];

	relay_log_translate(sql, text, sizeof(text));
	on_events(text, out, cap);
}

static const char *const excepted[] = {
	/* Messages are written by the owner's program, and not by wherry_outbox_enqueue(). */
	"a_rolled_back_message_is_never_delivered",
	"keys_are_the_explicit_one_or_the_aggregate",
	"window_bytes_bound_what_is_in_memory", "a_body_over_window_bytes_passes",
	"large_denied_messages_keep_no_small_ones",
	"large_failing_messages_keep_no_small_ones",
	"ordinary_texts_are_delivered_as_they_are",
	"a_step_inside_a_transaction_is_refused",
	/* The owner says what the table refuses. */
	"the_schema_refuses_what_it_can",
	/* The view writes headers again, and leaves out those that are not a JSON object. */
	"headers_that_are_none_are_kept_in_the_letter",
	"the_messages_own_headers_go_along",
	/* A message that is discarded keeps its row. */
	"a_key_goes_on_when_what_it_waits_for_is_discarded",
	/* Subscriptions pass a row at different times, so an idle relay looks every minute whether all have. */
	"an_idle_relay_runs_one_statement_in_ten_seconds", NULL};

/* Rows stay, and are there to be checked at the end. */
static const char *const purging[] = {
	"delivered_messages_are_purged_after_their_retention",
	"messages_after_an_idle_time_are_purged_as_soon",
	"a_table_that_goes_missing_is_an_error_to_fix", NULL};

static void add(const char **list, const char *const *names)
{
	while (*list)
		list++;
	while (*names)
		*list++ = *names++;
}

const char *const *relay_adopted_except(bool rows_stay, const char *const *more)
{
	static const char *lists[2][60];
	const char **list = lists[rows_stay];

	if (*list)
		return list;
	add(list, relay_log_except);
	add(list, excepted);
	add(list, more);
	if (rows_stay)
		add(list, purging);
	return list;
}

static void a_discarded_message_keeps_its_row_and_its_key_goes_on(void **state)
{
	relay_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "retry.base", "20s");
	relay_answers(f, 1, WHERRY_RETRY, -1);
	relay_put(f, "aa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_FAILED);
	WHERRY_PASS(wherry_outbox_discard(f->outbox, "1", &err));
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_DONE);
	assert_int_equal(relay_state(f, 1), WHERRY_DONE);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM events"), 2);
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_discard(f->outbox, "1", &err));
	relay_stop(f, &f->a);
	assert_int_equal(
		relay_number(f, "SELECT count(*) FROM events WHERE published_at IS NULL"),
		0);
}

static int64_t open_rows(relay_fixture *f)
{
	return relay_number(f, "SELECT count(*) FROM events WHERE published_at IS NULL");
}

static void a_delivered_row_is_marked_and_no_other(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "retry.attempts", "1");
	relay_answers(f, 2, WHERRY_REJECTED, -1);
	relay_put(f, "abc");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, open_rows(f) == 1);
	assert_int_equal(
		relay_number(f, "SELECT id FROM events WHERE published_at IS NULL"), 2);
	relay_put(f, "d");
	relay_stop(f, &f->a);
	assert_int_equal(open_rows(f),
			 relay_count(f, WHERRY_DEAD) + relay_count(f, WHERRY_PENDING));
	relay_answers(f, 2, WHERRY_DELIVERED, -1);
	assert_int_equal(relay_retry(f, 0), 1);
	relay_start(f, &f->a);
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	assert_int_equal(open_rows(f), 0);
	relay_check_once(f, 4);
}

/* As in a table that was restored from a dump of another server. */
static void a_row_of_a_transaction_to_come_stops_nobody(void **state)
{
	relay_fixture *f = *state;

	if (strncmp(f->url, "postgres", 8) != 0)
		return;
	relay_hourly(f);
	relay_put(f, "ab");
	relay_sql(f, "INSERT INTO events(wherry_tx, topic, partition_key, payload) "
		     "VALUES ('9000000000', 't', 'a', '{}')");
	relay_put(f, "b");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_check_order(f);
	relay_stop(f, &f->a);
	assert_int_equal(open_rows(f), 0);
}

const relay_test relay_adopted_tests[] = {
	RELAY_TEST(a_delivered_row_is_marked_and_no_other, 0),
	RELAY_TEST(a_discarded_message_keeps_its_row_and_its_key_goes_on, 0),
	RELAY_TEST(a_row_of_a_transaction_to_come_stops_nobody, 0),
	RELAY_TESTS_END,
};
