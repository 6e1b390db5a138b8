/*
 * What SQLite lacks that relays use on a server: partitions and a stream of commits.  Their
 * statements, of which the relay's own are on PostgreSQL, stand in .sql files beside this one, and
 * the functions that those call are here.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "db/sql.h"
#include "outbox/meet.h"
#include "sim.h"

static char *texts[SIM_ENGINES]; /* of the outbox's statements, with each engine */

/* ---- statements ---- */

static char *read_file(const char *name)
{
	char path[1024];
	FILE *file;
	wh_buf text = WH_BUF_INIT(1 << 20);
	int c;

	(void)snprintf(path, sizeof(path), "%s/%s.sql", SIM_FOLDER, name);
	file = fopen(path, "r");
	while (file && (c = getc(file)) != EOF)
		wh_buf_putc(&text, (char)c);
	if (!file || fclose(file) != 0)
		abort(); /* the tests were built from here */
	return wh_buf_take(&text);
}

/* SQLite's statements and those that it has not, under one head line. */
static const char *with(sim_engine engine, const char *sqlite)
{
	wh_buf text = WH_BUF_INIT(1 << 20);
	char *more;

	if (texts[engine])
		return texts[engine];
	more = read_file("partitions");
	wh_buf_puts(&text, sqlite);
	wh_buf_puts(&text, more);
	free(more);
	texts[engine] = wh_buf_take(&text);
	return texts[engine];
}

/* Linked in place of wh_sql_embedded(). */
const char *__real_wh_sql_embedded(const char *model, const char *scheme);
const char *__wrap_wh_sql_embedded(const char *model, const char *scheme);
const char *__wrap_wh_sql_embedded(const char *model, const char *scheme)
{
	const char *text = __real_wh_sql_embedded(model, scheme);
	sim_engine engine = sim_store_world()->plan.engine;

	if (engine == SIM_PARTITIONED && strcmp(scheme, "sqlite") == 0)
		return with(engine, text);
	return text;
}

/* Linked in place of wh_meet_check(): any engine works here. */
wherry_code __wrap_wh_meet_check(wh_home at, wh_engine by, wh_ask ask, wherry_error *err);
wherry_code __wrap_wh_meet_check(wh_home at, wh_engine by, wh_ask ask, wherry_error *err)
{
	(void)at, (void)by, (void)ask, (void)err;
	return WHERRY_OK;
}

/* ---- functions ---- */

int sim_slot_of(const char *ordering_key, int64_t id)
{
	uint64_t hash = 14695981039346656037U;

	if (!ordering_key)
		return (int)(id & 63);
	for (const char *c = ordering_key; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211U;
	return (int)(hash >> 58);
}

static void slot(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	(void)n;
	sqlite3_result_int(ctx, sim_slot_of((const char *)sqlite3_value_text(args[0]),
					    sqlite3_value_int64(args[1])));
}

static void or_step(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	int64_t *sum = sqlite3_aggregate_context(ctx, sizeof(*sum));

	(void)n;
	if (sum)
		*sum |= sqlite3_value_int64(args[0]);
}

static void or_end(sqlite3_context *ctx)
{
	const int64_t *sum = sqlite3_aggregate_context(ctx, 0);

	sqlite3_result_int64(ctx, sum ? *sum : 0);
}

void sim_server_teach(sqlite3 *db)
{
	(void)sqlite3_create_function(db, "sim_slot", 2, SQLITE_UTF8, NULL, slot, NULL,
				      NULL);
	(void)sqlite3_create_function(db, "sim_or", 1, SQLITE_UTF8, NULL, NULL, or_step,
				      or_end);
}

/* Behind wherry_outbox_init(). */
void sim_server_prepare(sim_world *w)
{
	if (w->plan.engine == SIM_PARTITIONED)
		sim_sql(w,
			"ALTER TABLE wherry_slot ADD COLUMN mask INTEGER NOT NULL DEFAULT 0");
}
