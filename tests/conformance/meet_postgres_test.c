/*
 * The engine of each layout, and the options that go with it, as docs/internals/engines.md says.
 */
#include "meet_fixture.h"

/* ---- engines ---- */

static const char *engine_of(wh_home home)
{
	char table[32];
	relay r = {.relay = NULL};
	wherry_code code;
	const char *out;

	(void)snprintf(table, sizeof(table), "box_%d", (int)home);
	make(home, table, 0);
	code = open_relay(&r, home, table, 0);
	(void)found(home, WH_ASK_RELAY, code, &r.why);
	out = r.relay ? wh_engine_name(r.relay->engine->id) : "no relay reads it";
	if (r.relay)
		assert_true(leads(&r));
	close_relay(&r);
	return out;
}

WHERRY_TEST_WITH(each_layout_has_the_engine_that_the_page_says, set_up, tear_down)
{
	matrix m;

	begin(&m, "layout");
	put(&m, "engine");
	end_head(&m, 1);
	for (int i = 0; i < N_TRIED; i++) {
		row(&m, wh_home_name(tried[i]));
		put(&m, engine_of(tried[i]));
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

static const char *tried_option(wh_home home, wh_ask ask)
{
	relay r = {.relay = NULL};
	wherry_code code;
	const char *out;

	set_ask(&r, ask);
	code = open_relay(&r, home, table_of(home),
			  ask == WH_ASK_HANDLERS ? WH_PUB_ACKS : 0);
	out = found(home, ask, code, &r.why);
	close_relay(&r);
	return out;
}

WHERRY_TEST_WITH(each_option_is_taken_or_refused_as_the_page_says, set_up, tear_down)
{
	static const struct {
		wh_home home;
		const char *name;
	} columns[] = {
		{WH_LOG_POSTGRES, "log"},      {WH_EVENT_BUS, "event-bus"},
		{WH_EVENTFERRY, "eventferry"}, {WH_DEBEZIUM, "debezium"},
		{WH_QUEUE_SQLITE, "queue"},    {WH_DELAYED_SQLITE, "delayed queue"},
	};
	enum { COLUMNS = sizeof(columns) / sizeof(*columns) };
	matrix m;

	for (int i = 0; i < COLUMNS; i++)
		make(columns[i].home, table_of(columns[i].home), 0);
	begin(&m, "option");
	for (int i = 0; i < COLUMNS; i++)
		put(&m, columns[i].name);
	end_head(&m, COLUMNS);
	for (int ask = WH_ASK_KEY; ask <= WH_ASK_HANDLERS; ask++) {
		row(&m, wh_ask_name((wh_ask)ask));
		for (int i = 0; i < COLUMNS; i++)
			put(&m, tried_option(columns[i].home, (wh_ask)ask));
	}
	compare(&m);
}

WHERRY_TEST_WITH(create_adds_what_a_layout_can_have_and_refuses_the_rest, set_up,
		 tear_down)
{
	static const unsigned extras[] = {WH_PARTITIONS_SHARED, WH_UNIQUE_IDS,
					  WH_STREAMED, WH_SEGMENTS};
	enum { N = sizeof(extras) / sizeof(*extras), N_OUTBOXES = 5 };
	matrix m;

	begin(&m, "layout");
	for (int i = 0; i < N; i++)
		put(&m, wh_ask_name((wh_ask)(WH_ASK_CREATE_PARTITIONS + i)));
	end_head(&m, N);
	for (int h = 0; h < N_OUTBOXES; h++) {
		wh_home home = tried[h];

		row(&m, wh_home_name(home));
		for (int i = 0; i < N; i++) {
			const wh_make how = {.layout = layout_of(home),
					     .extras = extras[i],
					     .segments = WH_SEGMENT_LEAST};
			wherry_error why = WHERRY_ERROR_INIT, same = WHERRY_ERROR_INIT;
			wherry_db *db = open_db(urls[home]);
			char *sql = NULL, table[32];
			wherry_code code;

			(void)snprintf(table, sizeof(table), "box_%d_%d", (int)home, i);
			code = wh_outbox_make(db, &how, table, &why);
			assert_int_equal(wh_outbox_make_sql(db->driver->scheme, &how,
							    table, &sql, &same),
					 code);
			if (code != WHERRY_OK)
				assert_string_equal(why.message, same.message);
			free(sql);
			wherry_db_close(db);
			put(&m, found(home, (wh_ask)(WH_ASK_CREATE_PARTITIONS + i), code,
				      &why));
		}
	}
	compare(&m);
}

int main(void)
{
	if (!postgres_start_logical())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
