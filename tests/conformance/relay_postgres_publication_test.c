/*
 * The stream engine and a publication that does not send all of the outbox: a list of columns,
 * a row filter, a table that is not in it.
 */
#include "relay_postgres_debezium.h"

#define NARROW "outbox (id, aggregatetype, aggregateid, type)"

static void drop(void)
{
	assert_true(postgres_raw(postgres_here.url, "DROP PUBLICATION IF EXISTS mine",
				 NULL, 0));
	postgres_leave_slots();
}

static void publish(relay_fixture *f, const char *what)
{
	char sql[400];

	relay_set(f, "stream.publication", "mine");
	(void)snprintf(sql, sizeof(sql), "CREATE PUBLICATION mine FOR TABLE %s", what);
	relay_sql(f, sql);
}

static void stream(relay_fixture *f)
{
	relay_stream(f, &f->a);
	relay_quiet(f, &f->a);
}

/* ---- at the start ---- */

static void refused(relay_fixture *f, const char *what, const char *names)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_relay *relay = NULL;

	publish(f, what);
	assert_int_equal(wherry_relay_open(f->url, "null:", f->config, &relay, &err),
			 WHERRY_INVALID);
	assert_non_null(strstr(err.message, "'mine'"));
	assert_non_null(strstr(err.message, names));
	assert_non_null(strstr(err.message, "ALTER PUBLICATION"));
}

static void a_publication_without_a_column_is_refused(void **state)
{
	refused(*state, NARROW, "(payload)");
}

static void a_publication_with_a_row_filter_is_refused(void **state)
{
	refused(*state, "outbox WHERE (id <> 'x')", "id");
}

static void a_publication_of_updates_alone_is_refused(void **state)
{
	refused(*state, "outbox WITH (publish = 'update')", "publish = 'insert'");
}

/* ---- under a relay ---- */

static wherry_code run_until_it_fails(relay_fixture *f, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	int64_t by_us = relay_deadline();

	while (code == WHERRY_OK && wh_monotonic(&wh_env_system) < by_us) {
		f->offset_us += WH_SECOND;
		code = wherry_relay_step(f->a.relay, &f->a.wake_us, &f->a.finished, err);
	}
	return code;
}

WHERRY_CASE(a_relay_whose_publication_is_changed_ends, relay_fixture *f)
{
	static const char *const ways[][2] = {
		{"ALTER PUBLICATION mine SET TABLE " NARROW, "payload"},
		{"ALTER PUBLICATION mine SET TABLE outbox WHERE (id > '5')", "id > '5'"},
		{"ALTER PUBLICATION mine DROP TABLE outbox", "does not have the outbox"},
	};

	for (int i = 0; i < 3; i++) {
		wherry_error err = WHERRY_ERROR_INIT;

		relay_fresh(f);
		debezium_hourly(f);
		publish(f, "outbox");
		stream(f);
		relay_put(f, "a");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
		relay_sql(f, ways[i][0]);
		relay_put(f, "ab");
		assert_int_equal(run_until_it_fails(f, &err), WHERRY_INVALID);
		assert_non_null(strstr(err.message, ways[i][1]));
		RELAY_DELIVERED(f, 1);
	}
}

static const relay_test own[] = {
	RELAY_TEST(a_publication_without_a_column_is_refused, 0),
	RELAY_TEST(a_publication_with_a_row_filter_is_refused, 0),
	RELAY_TEST(a_publication_of_updates_alone_is_refused, 0),
	RELAY_TEST(a_relay_whose_publication_is_changed_ends, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "publication", DEBEZIUM_TARGET, .drop = drop, .own = own};

	return postgres_start_logical() ? relay_suite(&target, 1) : 0;
}
