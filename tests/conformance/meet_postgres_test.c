/*
 * Which engines, layouts and options go together, and which relays work on one outbox at one
 * time.  Each cell of the tables in docs/internals/engines.md is tried with real relays; the
 * tables are then made of what was found, printed, and compared with that page.
 */
#include "relay_suite.h"

#include "outbox/outbox.h"
#include "postgres/server.h"

enum { ROUNDS = 2000 };

static const wh_engine engines[] = {WH_EXCLUSIVE, WH_PARTITIONED, WH_COMPETING, WH_STREAM,
				    WH_STREAM_KEEP};

static wherry_temp temp;
static char urls[WH_HOMES][200];

/* ---- outboxes ---- */

static const char *layout_of(wh_home home)
{
	static const char *const layouts[WH_HOMES] = {"native",          "native",
						      "event-bus",       "eventferry",
						      "eventferry-sole", "debezium"};

	return layouts[home];
}

/* A table for each. */
static const char *table_of(wh_home home)
{
	static const char *const tables[WH_HOMES] = {"outbox", "outbox", "bus",
						     "ferry",  "sole",   "debezium"};

	return tables[home];
}

static void run_sql(const char *sql)
{
	char none[64];

	assert_true(postgres_raw(postgres_here.url, sql, none, sizeof(none)));
}

static wherry_db *open_db(const char *url)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.create", "on", &err));
	WHERRY_PASS(wherry_db_open(url, config, &db, &err));
	wherry_config_free(config);
	return db;
}

static void make(wh_home home, const char *table, unsigned extras)
{
	const wh_make how = {.layout = layout_of(home), .extras = extras};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = open_db(urls[home]);

	WHERRY_PASS(wh_outbox_make(db, &how, table, &err));
	wherry_db_close(db);
}

static int set_up(void **state)
{
	(void)state;
	postgres_enter(urls[WH_NATIVE_POSTGRES], sizeof(*urls));
	memcpy(urls[WH_EVENTFERRY], urls[WH_NATIVE_POSTGRES], sizeof(*urls));
	memcpy(urls[WH_EVENTFERRY_SOLE], urls[WH_NATIVE_POSTGRES], sizeof(*urls));
	memcpy(urls[WH_DEBEZIUM], urls[WH_NATIVE_POSTGRES], sizeof(*urls));
	wherry_temp_make(&temp, "meet.db");
	(void)snprintf(urls[WH_NATIVE_SQLITE], sizeof(*urls), "sqlite:%s", temp.path);
	(void)snprintf(urls[WH_EVENT_BUS], sizeof(*urls), "sqlite:%s-bus", temp.path);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	wherry_temp_clear(&temp);
	postgres_leave_slots();
	return 0;
}

/* ---- relays ---- */

typedef struct relay {
	wherry_config *config;
	wherry_db *db;
	relay_fake *fake;
	wherry_relay *relay; /* NULL: it was refused, or has ended */
	wherry_error why;
	int n; /* messages delivered */
} relay;

static void set(relay *r, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (!r->config)
		WHERRY_PASS(wherry_config_new(&r->config, &err));
	WHERRY_PASS(wherry_config_set(r->config, key, value, &err));
}

static void set_engine(relay *r, wh_engine engine)
{
	static const char *const names[] = {"exclusive", "exclusive", "competing",
					    "stream", "stream"};

	set(r, "relay.engine", names[engine]);
	if (engine == WH_STREAM_KEEP)
		set(r, "relay.on_done", "keep");
}

static wherry_verdict accept_all(void *ctx, const wherry_message *msg)
{
	(void)ctx;
	(void)msg;
	return WHERRY_DELIVERED;
}

static void count(void *ctx, const wherry_message *msg, wherry_verdict verdict)
{
	(void)msg;
	(void)verdict;
	++*(int *)ctx;
}

static wherry_code open_relay(relay *r, wh_home home, const char *table, unsigned caps)
{
	set(r, "outbox.table", table);
	set(r, "relay.poll", "20ms");
	if (home == WH_EVENTFERRY_SOLE)
		set(r, "relay.sole", "on");
	r->why = (wherry_error)WHERRY_ERROR_INIT;
	r->db = open_db(urls[home]);
	r->fake = relay_fake_open(caps);
	assert_non_null(r->fake);
	r->fake->decide = accept_all;
	r->fake->note = count;
	r->fake->ctx = &r->n;
	return wherry_relay_open_on(r->db, &r->fake->base, r->config, &r->relay, &r->why);
}

static void close_relay(relay *r)
{
	wherry_relay_close(r->relay);
	if (r->fake)
		wherry_publisher_close(&r->fake->base);
	wherry_db_close(r->db);
	wherry_config_free(r->config);
	*r = (relay){.relay = NULL};
}

static int64_t epoch_of(const relay *r)
{
	wherry_relay_stats stats = {.epoch = 0};

	if (r->relay)
		wherry_relay_get_stats(r->relay, &stats);
	return stats.epoch;
}

/* One step; false: it was refused, and has ended. */
static bool step(relay *r)
{
	bool finished = false;
	int64_t wake_us = 0;

	if (!r->relay)
		return false;
	if (wherry_relay_step(r->relay, &wake_us, &finished, &r->why) == WHERRY_OK)
		return true;
	assert_int_equal(r->why.code, WHERRY_INVALID);
	wherry_relay_close(r->relay);
	r->relay = NULL;
	return false;
}

static bool leads(relay *r)
{
	for (int i = 0; i < ROUNDS && !epoch_of(r); i++) {
		if (!step(r))
			return false;
		wh_sleep(&wh_env_system, 2000);
	}
	return epoch_of(r) > 0;
}

/* ---- the page ---- */

static bool on_page(const char *text)
{
	static char page[64 * 1024];
	char path[300];
	FILE *file;
	size_t n;

	(void)snprintf(path, sizeof(path), "%s/docs/internals/engines.md",
		       getenv("WHERRY_SOURCE") ? getenv("WHERRY_SOURCE") : ".");
	file = fopen(path, "r");
	if (!file)
		return false;
	n = fread(page, 1, sizeof(page) - 1, file);
	page[n] = 0;
	(void)fclose(file);
	return strstr(page, text) != NULL;
}

typedef struct matrix {
	wh_buf text;
} matrix;

static void begin(matrix *m, const char *corner)
{
	m->text = (wh_buf)WH_BUF_INIT(64 * 1024);
	wh_buf_printf(&m->text, "| %s |", corner);
}

static void put(matrix *m, const char *cell)
{
	wh_buf_printf(&m->text, " %s |", cell);
}

static void end_head(matrix *m, int n)
{
	wh_buf_puts(&m->text, "\n|---|");
	for (int i = 0; i < n; i++)
		wh_buf_puts(&m->text, "---|");
}

static void row(matrix *m, const char *name)
{
	wh_buf_printf(&m->text, "\n| %s |", name);
}

static void compare(matrix *m)
{
	wh_buf_putc(&m->text, '\n');
	for (const char *line = wh_buf_str(&m->text); *line;) {
		int len = (int)strcspn(line, "\n");

		print_message("# %.*s\n", len, line);
		line += len + 1;
	}
	if (!on_page(wh_buf_str(&m->text)))
		fail_msg("docs/internals/engines.md does not show this table as it is");
	wh_buf_clear(&m->text);
}

/* A refusal names what was asked for and what to do instead, as meet.c has it. */
static const char *found(wh_home home, wh_engine engine, wh_ask ask, wherry_code code,
			 const wherry_error *why)
{
	static const char *const ways[] = {"leave ", "use ", "relay it with ", "set "};
	wherry_error said = WHERRY_ERROR_INIT;
	bool way = false;

	if (code != wh_meet_check(home, engine, ask, &said))
		print_error("%s, %s, %s: %s\n", wh_home_name(home),
			    wh_engine_name(engine), wh_ask_name(ask), why->message);
	assert_int_equal(wh_meet_check(home, engine, ask, &said), code);
	if (code == WHERRY_OK)
		return "yes";
	assert_int_equal(code, WHERRY_INVALID);
	if (!strstr(why->message, "relay.failed_only"))
		assert_string_equal(why->message, said.message);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		way |= strstr(why->message, ways[i]) != NULL;
	assert_true(way || strstr(why->message, "relay.engine=competing"));
	return "no";
}

/* ---- engines and layouts ---- */

/* The partitions of an outbox are made by init. */
static const char *tried_engine(wh_home home, wh_engine engine)
{
	const unsigned extras = engine == WH_PARTITIONED ? WH_SHARED : 0;
	wherry_error why = WHERRY_ERROR_INIT;
	char table[32];
	relay r = {.relay = NULL};
	wherry_code code;
	const char *out;

	(void)snprintf(table, sizeof(table), "box_%d_%d", (int)home, (int)engine);
	if (extras && !wh_meet_works(home, engine)) {
		const wh_make how = {.layout = layout_of(home), .extras = extras};
		wherry_db *db = open_db(urls[home]);

		code = wh_outbox_make(db, &how, table, &why);
		wherry_db_close(db);
		return found(home, WH_ENGINES, WH_ASK_INIT_PARTITIONS, code, &why);
	}
	make(home, table, extras);
	set_engine(&r, engine);
	if (engine == WH_STREAM)
		set(&r, "relay.on_done", "mark"); /* keep is the default of debezium */
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
	for (int e = 0; e < WH_ENGINES; e++)
		put(&m, wh_engine_name(engines[e]));
	end_head(&m, WH_ENGINES);
	for (int home = 0; home < WH_HOMES; home++) {
		row(&m, wh_home_name((wh_home)home));
		for (int e = 0; e < WH_ENGINES; e++)
			put(&m, tried_engine((wh_home)home, engines[e]));
	}
	compare(&m);
}

/* ---- options ---- */

static void set_ask(relay *r, wh_ask ask)
{
	static const char *const settings[WH_ASKS][2] = {
		[WH_ASK_KEY] = {"relay.ordering", "key"},
		[WH_ASK_STRICT] = {"relay.ordering", "key-strict"},
		[WH_ASK_PARK] = {"relay.on_dead", "park"},
		[WH_ASK_MARK] = {"relay.on_done", "mark"},
		[WH_ASK_DELETE] = {"relay.on_done", "delete"},
		[WH_ASK_ARCHIVE] = {"relay.on_done", "archive"},
		[WH_ASK_KEEP] = {"relay.on_done", "keep"},
		[WH_ASK_EXPIRY_ARCHIVE] = {"relay.on_expiry", "archive"},
		[WH_ASK_FAILED_ONLY] = {"relay.failed_only", "on"},
		[WH_ASK_SOLE] = {"relay.sole", "on"},
	};

	if (settings[ask][0])
		set(r, settings[ask][0], settings[ask][1]);
}

/* What is done with delivered messages makes it another engine: the relay that keeps its rows
 * is asked to keep them.  relay.sole makes it another column. */
static const char *tried_option(wh_home home, wh_engine engine, wh_ask ask)
{
	bool done = ask >= WH_ASK_MARK && ask <= WH_ASK_KEEP;
	relay r = {.relay = NULL};
	wherry_code code;
	const char *out;

	if (done && (engine == WH_STREAM || engine == WH_STREAM_KEEP) &&
	    (engine == WH_STREAM_KEEP) != (ask == WH_ASK_KEEP))
		return "-";
	if (ask == WH_ASK_SOLE && home == WH_EVENTFERRY)
		return "-";
	set_engine(&r, engine);
	set_ask(&r, ask);
	code = open_relay(&r, home, engine == WH_PARTITIONED ? "shared" : table_of(home),
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
		{WH_NATIVE_SQLITE, WH_EXCLUSIVE, "SQLite: exclusive"},
		{WH_NATIVE_SQLITE, WH_COMPETING, "competing"},
		{WH_NATIVE_POSTGRES, WH_EXCLUSIVE, "PostgreSQL: exclusive"},
		{WH_NATIVE_POSTGRES, WH_PARTITIONED, "exclusive, partitions"},
		{WH_NATIVE_POSTGRES, WH_COMPETING, "competing"},
		{WH_NATIVE_POSTGRES, WH_STREAM, "stream"},
		{WH_NATIVE_POSTGRES, WH_STREAM_KEEP, "stream, keep"},
		{WH_EVENT_BUS, WH_COMPETING, "event-bus: competing"},
		{WH_EVENTFERRY, WH_COMPETING, "eventferry: competing"},
		{WH_EVENTFERRY_SOLE, WH_EXCLUSIVE, "eventferry, relay.sole: exclusive"},
		{WH_DEBEZIUM, WH_STREAM_KEEP, "debezium: stream, keep"},
	};
	enum { COLUMNS = sizeof(columns) / sizeof(*columns) };
	matrix m;

	(void)state;
	for (int home = 0; home < WH_HOMES; home++)
		make((wh_home)home, table_of((wh_home)home),
		     home <= WH_NATIVE_POSTGRES ? WH_STRICT : 0);
	make(WH_NATIVE_POSTGRES, "shared", WH_STRICT | WH_SHARED);
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

static void init_adds_what_a_layout_can_have_and_refuses_the_rest(void **state)
{
	static const unsigned extras[] = {WH_STRICT, WH_SHARED, WH_STREAMED};
	matrix m;

	(void)state;
	begin(&m, "layout");
	for (int i = 0; i < 3; i++)
		put(&m, wh_ask_name((wh_ask)(WH_ASK_INIT_STRICT + i)));
	end_head(&m, 3);
	for (int home = 0; home < WH_HOMES; home++) {
		row(&m, wh_home_name((wh_home)home));
		for (int i = 0; i < 3; i++) {
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
			put(&m, found((wh_home)home, WH_ENGINES,
				      (wh_ask)(WH_ASK_INIT_STRICT + i), code, &why));
		}
	}
	compare(&m);
}

/* ---- two relays ---- */

static int64_t share_of_second(void)
{
	char out[32];

	assert_true(
		postgres_raw(postgres_here.url,
			     "SELECT count(*) FROM wherry_lease WHERE owner = 'second' "
			     "AND mask <> 0",
			     out, sizeof(out)));
	return strtoll(out, NULL, 10);
}

/* Under the lock, whatever a look before it said. */
static void check_under_lock(wh_engine engine, wh_engine holder)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *box = NULL;
	wherry_lease lease = {.epoch = 0};
	wherry_db *db;
	wh_partitions partitions;
	wherry_code code;

	if (wh_meet_now(engine, holder) == WH_WORKS_BESIDE)
		return;
	if (engine == WH_PARTITIONED && holder == WH_EXCLUSIVE)
		return; /* it would get a share of nothing */
	db = open_db(urls[WH_NATIVE_POSTGRES]);
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &box, &err));
	if (engine == WH_PARTITIONED)
		code = wh_partitions_join(&box->store, false, "third", WH_SECOND, 1,
					  &lease, &partitions, &err);
	else if (engine == WH_COMPETING)
		code = wherry_outbox_join(box, "third", WH_SECOND, &lease, &err);
	else
		code = wh_store_lease_as(&box->store, engine, false, "third", WH_SECOND,
					 1, &lease, &err);
	assert_int_equal(code, WHERRY_BUSY);
	wherry_outbox_close(box);
	wherry_db_close(db);
}

/* The first leads.  An exclusive relay does, or stands by, since before the outbox had
 * partitions. */
static void open_both(relay *first, wh_engine holder, relay *second, wh_engine newcomer)
{
	relay *both[] = {first, second};
	const wh_engine is[] = {holder, newcomer};

	make(WH_NATIVE_POSTGRES, "outbox", 0);
	for (int early = 1; early >= 0; early--) {
		for (int i = 0; i < 2; i++) {
			if ((is[i] == WH_EXCLUSIVE) != (early == 1))
				continue;
			set_engine(both[i], is[i]);
			set(both[i], "relay.name", i ? "second" : "first");
			assert_int_equal(
				open_relay(both[i], WH_NATIVE_POSTGRES, "outbox", 0),
				WHERRY_OK);
			if (!i)
				assert_true(leads(first));
		}
		if (early && (holder == WH_PARTITIONED || newcomer == WH_PARTITIONED))
			make(WH_NATIVE_POSTGRES, "outbox", WH_SHARED);
	}
}

static const char *meeting(relay *first, wh_engine holder, relay *second,
			   wh_engine newcomer)
{
	/* what must happen may take long on a busy machine; standing by is watched for a while */
	int most = wh_meet_now(newcomer, holder) == WH_STANDS_BY ? 100 : 20 * ROUNDS;

	for (int i = 0; i < most; i++) {
		assert_true(step(first));
		if (!step(second)) {
			assert_non_null(
				strstr(second->why.message, wh_engine_options(holder)));
			assert_non_null(strstr(second->why.message, "first"));
			return "refused";
		}
		if (epoch_of(second) && (newcomer != WH_PARTITIONED || share_of_second()))
			return "works beside it";
		wh_sleep(&wh_env_system, 2000);
	}
	return "stands by";
}

/* The first is gone, and its lease has expired. */
static const char *after(relay *first, relay *second, wh_engine newcomer)
{
	wherry_relay_close(first->relay);
	first->relay = NULL;
	run_sql("UPDATE wherry_lease SET expires_at = to_timestamp(0), clean = 0, members = '' "
		"WHERE owner = 'first'");
	if (!second->relay) {
		close_relay(second);
		set_engine(second, newcomer);
		set(second, "relay.name", "second");
		assert_int_equal(open_relay(second, WH_NATIVE_POSTGRES, "outbox", 0),
				 WHERRY_OK);
	}
	if (leads(second))
		return "takes over";
	assert_non_null(strstr(second->why.message, "--from table"));
	return "refused";
}

static void two_relays_meet_as_the_page_says(void **state)
{
	static const char *const words[] = {"refused", "stands by", "works beside it"};
	matrix now, later;

	(void)state;
	begin(&now, "newcomer");
	begin(&later, "newcomer");
	for (int i = 0; i < WH_ENGINES; i++) {
		put(&now, wh_engine_name(engines[i]));
		put(&later, wh_engine_name(engines[i]));
	}
	end_head(&now, WH_ENGINES);
	end_head(&later, WH_ENGINES);
	for (int i = 0; i < WH_ENGINES; i++) {
		row(&now, wh_engine_name(engines[i]));
		row(&later, wh_engine_name(engines[i]));
		for (int k = 0; k < WH_ENGINES; k++) {
			relay first = {.relay = NULL}, second = {.relay = NULL};
			const char *how;

			if (i || k) {
				tear_down(NULL);
				set_up(NULL);
			}
			open_both(&first, engines[k], &second, engines[i]);
			check_under_lock(engines[i], engines[k]);
			how = meeting(&first, engines[k], &second, engines[i]);
			assert_string_equal(how,
					    words[wh_meet_now(engines[i], engines[k])]);
			put(&now, how);
			how = after(&first, &second, engines[i]);
			assert_string_equal(how, wh_meet_after(engines[i], engines[k])
							 ? "takes over"
							 : "refused");
			put(&later, how);
			close_relay(&first);
			close_relay(&second);
		}
	}
	compare(&now);
	compare(&later);
}

/* ---- while a relay stands by ---- */

static void key_strict_is_looked_at_again_when_the_lease_is_taken(void **state)
{
	relay first = {.relay = NULL}, second = {.relay = NULL};

	(void)state;
	make(WH_NATIVE_POSTGRES, "outbox", WH_STRICT);
	set(&first, "relay.name", "first");
	assert_int_equal(open_relay(&first, WH_NATIVE_POSTGRES, "outbox", 0), WHERRY_OK);
	assert_true(leads(&first));
	set(&second, "relay.ordering", "key-strict");
	assert_int_equal(open_relay(&second, WH_NATIVE_POSTGRES, "outbox", 0), WHERRY_OK);
	assert_true(step(&second));
	run_sql("DROP TRIGGER outbox_number ON outbox");
	wherry_relay_stop(first.relay);
	close_relay(&first);
	assert_false(leads(&second));
	assert_non_null(strstr(second.why.message, "init --strict"));
	close_relay(&second);
	assert_int_equal(open_relay(&first, WH_NATIVE_POSTGRES, "outbox", 0), WHERRY_OK);
	assert_true(leads(&first)); /* the lease was given back */
	close_relay(&first);
}

/* Deliver until so many have been, and everything at hand is. */
static int deliver(relay *r, wh_engine engine, bool again, int least)
{
	bool finished = false;
	int64_t wake_us;
	int n;

	set_engine(r, engine);
	if (again)
		set(r, "stream.from", "table");
	if (open_relay(r, WH_NATIVE_POSTGRES, "outbox", 0) != WHERRY_OK || !leads(r))
		return -1;
	for (int i = 0; i < 5000 && r->n < least; i++) {
		assert_true(step(r));
		wh_sleep(&wh_env_system, 1000);
	}
	assert_true(r->n >= least);
	wherry_relay_stop(r->relay);
	for (int i = 0; i < 5000 && !finished; i++) {
		assert_int_equal(
			wherry_relay_step(r->relay, &wake_us, &finished, &r->why),
			WHERRY_OK);
		wh_sleep(&wh_env_system, 1000);
	}
	n = r->n;
	close_relay(r);
	return n;
}

static void an_engine_that_marks_rows_follows_one_that_does_not_when_it_is_told_to(
	void **state)
{
	static const char put_three[] =
		"INSERT INTO outbox(topic, payload) SELECT 't', '{}' FROM "
		"generate_series(1, 3)";
	static const wh_engine others[] = {WH_EXCLUSIVE, WH_PARTITIONED, WH_COMPETING,
					   WH_STREAM};

	(void)state;
	for (int i = 0; i < 4; i++) {
		relay r = {.relay = NULL};

		if (i) {
			tear_down(NULL);
			set_up(NULL);
		}
		make(WH_NATIVE_POSTGRES, "outbox",
		     others[i] == WH_PARTITIONED ? WH_SHARED : 0);
		run_sql(put_three);
		assert_int_equal(deliver(&r, WH_STREAM_KEEP, false, 3), 3);
		assert_int_equal(deliver(&r, others[i], false, 0), -1);
		assert_non_null(strstr(r.why.message, "relay.on_done=keep"));
		assert_non_null(strstr(r.why.message, "--from table"));
		close_relay(&r);
		assert_int_equal(deliver(&r, others[i], true, 3), 3);
		run_sql(put_three);
		assert_int_equal(deliver(&r, others[i], false, 3), 3);
		run_sql(put_three); /* and back: only what is open */
		assert_int_equal(deliver(&r, WH_STREAM_KEEP, false, 3), 3);
	}
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
			init_adds_what_a_layout_can_have_and_refuses_the_rest, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(two_relays_meet_as_the_page_says, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			key_strict_is_looked_at_again_when_the_lease_is_taken, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			an_engine_that_marks_rows_follows_one_that_does_not_when_it_is_told_to,
			set_up, tear_down),
	};

	if (!postgres_start_logical())
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
