/*
 * What the tests of docs/internals/engines.md share: outboxes of each layout, real relays, and
 * tables that are made of what was found, printed, and compared with that page.
 */
#ifndef MEET_FIXTURE_H
#define MEET_FIXTURE_H

#include "relay_suite.h"

#include "outbox/outbox.h"
#include "postgres/server.h"
#include "relay/engine/engine.h"
#include "relay/relay.h"

enum { ROUNDS = 2000 };

/* The layouts that the page shows.  On SQL Server, and of an adopted table, they are the same. */
static const wh_home tried[] = {
	WH_LOG_SQLITE,     WH_LOG_POSTGRES,     WH_EVENT_BUS,      WH_EVENTFERRY,
	WH_DEBEZIUM,       WH_QUEUE_SQLITE,     WH_QUEUE_POSTGRES, WH_QUEUE_NSERVICEBUS,
	WH_DELAYED_SQLITE, WH_DELAYED_POSTGRES,
};
enum { N_TRIED = sizeof(tried) / sizeof(*tried) };

static wherry_temp temp;
static char urls[WH_HOMES][200];

/* ---- outboxes ---- */

static inline const char *layout_of(wh_home home)
{
	static const char *const layouts[WH_HOMES] = {
		[WH_EVENT_BUS] = "event-bus",   [WH_EVENTFERRY] = "eventferry",
		[WH_DEBEZIUM] = "debezium",     [WH_QUEUE_SQLITE] = "native",
		[WH_QUEUE_POSTGRES] = "native", [WH_QUEUE_NSERVICEBUS] = "nservicebus",
		[WH_LOG_SQLITE] = "log",        [WH_LOG_POSTGRES] = "log",
	};

	return layouts[home];
}

/* A table for each. */
static inline const char *table_of(wh_home home)
{
	static const char *const tables[WH_HOMES] = {
		[WH_EVENT_BUS] = "bus",          [WH_EVENTFERRY] = "ferry",
		[WH_DEBEZIUM] = "debezium",      [WH_QUEUE_SQLITE] = "jobs",
		[WH_QUEUE_POSTGRES] = "jobs",    [WH_QUEUE_NSERVICEBUS] = "endpoint",
		[WH_DELAYED_SQLITE] = "delayed", [WH_DELAYED_POSTGRES] = "delayed",
		[WH_LOG_SQLITE] = "outbox",      [WH_LOG_POSTGRES] = "outbox",
	};

	return tables[home];
}

static inline bool is_queue(wh_home home)
{
	return home >= WH_QUEUE_SQLITE && home <= WH_QUEUE_NSERVICEBUS;
}

static inline bool is_delayed(wh_home home)
{
	return home == WH_DELAYED_SQLITE || home == WH_DELAYED_POSTGRES;
}

static inline void run_sql(const char *sql)
{
	char none[64];

	assert_true(postgres_raw(postgres_here.url, sql, none, sizeof(none)));
}

static inline wherry_db *open_db(const char *url)
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

static inline void make(wh_home home, const char *table, unsigned extras)
{
	const wherry_queue_options queue =
		WHERRY_QUEUE_OPTIONS(.layout = layout_of(home));
	const wh_make how = {.layout = layout_of(home), .extras = extras};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = open_db(urls[home]);

	if (is_queue(home))
		WHERRY_PASS(wherry_queue_create(db, table, &queue, &err));
	else if (is_delayed(home))
		WHERRY_PASS(wherry_delayed_create(db, table, NULL, &err));
	else
		WHERRY_PASS(wh_outbox_make(db, &how, table, &err));
	wherry_db_close(db);
}

static inline int set_up(void **state)
{
	postgres_enter(urls[WH_EVENTFERRY], sizeof(*urls));
	memcpy(urls[WH_DEBEZIUM], urls[WH_EVENTFERRY], sizeof(*urls));
	memcpy(urls[WH_QUEUE_NSERVICEBUS], urls[WH_EVENTFERRY], sizeof(*urls));
	memcpy(urls[WH_QUEUE_POSTGRES], urls[WH_EVENTFERRY], sizeof(*urls));
	memcpy(urls[WH_DELAYED_POSTGRES], urls[WH_EVENTFERRY], sizeof(*urls));
	memcpy(urls[WH_LOG_POSTGRES], urls[WH_EVENTFERRY], sizeof(*urls));
	wherry_temp_make(&temp, "meet.db");
	(void)snprintf(urls[WH_QUEUE_SQLITE], sizeof(*urls), "sqlite:%s", temp.path);
	memcpy(urls[WH_DELAYED_SQLITE], urls[WH_QUEUE_SQLITE], sizeof(*urls));
	memcpy(urls[WH_LOG_SQLITE], urls[WH_QUEUE_SQLITE], sizeof(*urls));
	(void)snprintf(urls[WH_EVENT_BUS], sizeof(*urls), "sqlite:%s-bus", temp.path);
	return 0;
}

static inline int tear_down(void **state)
{
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

static inline void set(relay *r, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (!r->config)
		WHERRY_PASS(wherry_config_new(&r->config, &err));
	WHERRY_PASS(wherry_config_set(r->config, key, value, &err));
}

static inline wherry_verdict accept_all(void *ctx, const wherry_message *msg)
{
	return WHERRY_DELIVERED;
}

static inline void count(void *ctx, const wherry_message *msg, wherry_verdict verdict)
{
	++*(int *)ctx;
}

static inline wherry_code open_relay(relay *r, wh_home home, const char *table,
				     unsigned caps)
{
	char delayed[80];

	(void)snprintf(delayed, sizeof(delayed), "%s/mail", table);
	if (is_delayed(home))
		set(r, "relay.table", delayed);
	else
		set(r, "relay.table", table);
	set(r, "relay.idle_interval", "20ms");
	r->why = (wherry_error)WHERRY_ERROR_INIT;
	r->db = open_db(urls[home]);
	r->fake = relay_fake_open(caps);
	assert_non_null(r->fake);
	r->fake->decide = accept_all;
	r->fake->note = count;
	r->fake->ctx = &r->n;
	return wherry_relay_open_on(r->db, &r->fake->base, r->config, &r->relay, &r->why);
}

static inline void close_relay(relay *r)
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
		wherry_relay_get_stats(r->relay, &stats, sizeof(wherry_relay_stats));
	return stats.epoch;
}

/* One step; false: it was refused, and has ended. */
static inline bool step(relay *r)
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

static inline bool leads(relay *r)
{
	for (int i = 0; i < ROUNDS && !epoch_of(r); i++) {
		if (!step(r))
			return false;
		wh_sleep(&wh_env_system, 2000);
	}
	return epoch_of(r) > 0;
}

/* ---- the page ---- */

static inline bool on_page(const char *text)
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

static inline void begin(matrix *m, const char *corner)
{
	m->text = (wh_buf)WH_BUF_INIT(64 * 1024);
	wh_buf_printf(&m->text, "| %s |", corner);
}

static inline void put(matrix *m, const char *cell)
{
	wh_buf_printf(&m->text, " %s |", cell);
}

static inline void end_head(matrix *m, int n)
{
	wh_buf_puts(&m->text, "\n|---|");
	for (int i = 0; i < n; i++)
		wh_buf_puts(&m->text, "---|");
}

static inline void row(matrix *m, const char *name)
{
	wh_buf_printf(&m->text, "\n| %s |", name);
}

static inline void compare(matrix *m)
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
static inline const char *found(wh_home home, wh_ask ask, wherry_code code,
				const wherry_error *why)
{
	static const char *const ways[] = {"leave ", "use "};
	wherry_error said = WHERRY_ERROR_INIT;
	bool way = false;

	if (code != wh_meet_check(home, ask, &said))
		print_error("%s, %s: %s\n", wh_home_name(home), wh_ask_name(ask),
			    why->message);
	assert_int_equal(wh_meet_check(home, ask, &said), code);
	if (code == WHERRY_OK)
		return "yes";
	assert_int_equal(code, WHERRY_INVALID);
	assert_string_equal(why->message, said.message);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		way |= strstr(why->message, ways[i]) != NULL;
	assert_true(way);
	return "no";
}

#endif
