/*
 * Which engines, layouts and options go together, as docs/internals/engines.md says.
 */
#include "meet_fixture.h"

/* ---- engines and layouts ---- */

static const char *tried_engine(wh_home home, wh_engine engine)
{
	wherry_error why = WHERRY_ERROR_INIT;
	char table[32];
	relay r = {.relay = NULL};
	wherry_code code;
	const char *out;

	(void)snprintf(table, sizeof(table), "box_%d_%d", (int)home, (int)engine);
	if (home >= tried_upto)
		return found(home, engine, WH_ASK_ENGINE,
			     wh_meet_check(home, engine, WH_ASK_ENGINE, &why), &why);
	make(home, table, 0);
	set_engine(&r, engine);
	code = open_relay(&r, home, table, 0);
	out = found(home, engine, WH_ASK_ENGINE, code, &r.why);
	if (code == WHERRY_OK)
		assert_true(leads(&r));
	close_relay(&r);
	return out;
}

static void each_engine_works_on_the_layouts_that_the_page_says(void **state)
{
	matrix m;

	(void)state;
	begin(&m, "layout");
	for (int e = 0; e < N_ENGINES; e++)
		put(&m, wh_engine_name(engines[e]));
	end_head(&m, N_ENGINES);
	for (int home = 0; home < WH_HOMES; home++) {
		row(&m, wh_home_name((wh_home)home));
		for (int e = 0; e < N_ENGINES; e++)
			put(&m, tried_engine((wh_home)home, engines[e]));
	}
	compare(&m);
}

/* ---- options ---- */

static void set_ask(relay *r, wh_ask ask)
{
	static const char *const settings[WH_ASKS][2] = {
		[WH_ASK_KEY] = {"relay.ordering", "key"},
		[WH_ASK_PARK] = {"relay.on_dead", "park"},
	};

	if (settings[ask][0])
		set(r, settings[ask][0], settings[ask][1]);
}

static const char *tried_option(wh_home home, wh_engine engine, wh_ask ask)
{
	relay r = {.relay = NULL};
	wherry_code code;
	const char *out;

	set_engine(&r, engine);
	set_ask(&r, ask);
	code = open_relay(&r, home, table_of(home),
			  ask == WH_ASK_HANDLERS ? WH_PUB_ACKS : 0);
	out = found(home, engine, ask, code, &r.why);
	close_relay(&r);
	return out;
}

static void each_option_is_taken_or_refused_as_the_page_says(void **state)
{
	static const struct {
		wh_home home;
		wh_engine engine;
		const char *name;
	} columns[] = {
		{WH_EVENT_BUS, WH_COMPETING, "event-bus: competing"},
		{WH_EVENTFERRY, WH_COMPETING, "eventferry: competing"},
		{WH_DEBEZIUM, WH_STREAM, "debezium: stream"},
		{WH_QUEUE_SQLITE, WH_COMPETING, "queue, SQLite: competing"},
		{WH_QUEUE_POSTGRES, WH_COMPETING, "queue, PostgreSQL: competing"},
		{WH_DELAYED_SQLITE, WH_COMPETING, "delayed queue: competing"},
	};
	enum { COLUMNS = sizeof(columns) / sizeof(*columns) };
	matrix m;

	(void)state;
	for (int home = 0; home < (int)tried_upto; home++)
		make((wh_home)home, table_of((wh_home)home), 0);
	begin(&m, "option");
	for (int i = 0; i < COLUMNS; i++)
		put(&m, columns[i].name);
	end_head(&m, COLUMNS);
	for (int ask = WH_ASK_KEY; ask <= WH_ASK_HANDLERS; ask++) {
		row(&m, wh_ask_name((wh_ask)ask));
		for (int i = 0; i < COLUMNS; i++)
			put(&m, tried_option(columns[i].home, columns[i].engine,
					     (wh_ask)ask));
	}
	compare(&m);
}

static void create_adds_what_a_layout_can_have_and_refuses_the_rest(void **state)
{
	static const unsigned extras[] = {WH_PARTITIONS_SHARED, WH_UNIQUE_IDS,
					  WH_STREAMED};
	enum { N = sizeof(extras) / sizeof(*extras) };
	matrix m;

	(void)state;
	begin(&m, "layout");
	for (int i = 0; i < N; i++)
		put(&m, wh_ask_name((wh_ask)(WH_ASK_CREATE_PARTITIONS + i)));
	end_head(&m, N);
	for (int home = 0; home <= WH_DEBEZIUM; home++) {
		row(&m, wh_home_name((wh_home)home));
		for (int i = 0; i < N; i++) {
			const wh_make how = {.layout = layout_of((wh_home)home),
					     .extras = extras[i]};
			wherry_error why = WHERRY_ERROR_INIT, same = WHERRY_ERROR_INIT;
			wherry_db *db = open_db(urls[home]);
			char *sql = NULL, table[32];
			wherry_code code;

			(void)snprintf(table, sizeof(table), "box_%d_%d", home, i);
			code = wh_outbox_make(db, &how, table, &why);
			assert_int_equal(wh_outbox_make_sql(db->driver->scheme, &how,
							    table, &sql, &same),
					 code);
			if (code != WHERRY_OK)
				assert_string_equal(why.message, same.message);
			free(sql);
			wherry_db_close(db);
			put(&m,
			    found((wh_home)home, WH_ENGINES,
				  (wh_ask)(WH_ASK_CREATE_PARTITIONS + i), code, &why));
		}
	}
	compare(&m);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			each_engine_works_on_the_layouts_that_the_page_says, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			each_option_is_taken_or_refused_as_the_page_says, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			create_adds_what_a_layout_can_have_and_refuses_the_rest, set_up,
			tear_down),
	};

	if (!postgres_start_logical())
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
