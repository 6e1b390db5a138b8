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
static char *stream_text;

/* ---- statements ---- */

static void put_file(wh_buf *to, const char *name)
{
	char path[1024];
	FILE *file;
	int c;

	(void)snprintf(path, sizeof(path), "%s/%s.sql", SIM_FOLDER, name);
	file = fopen(path, "r");
	while (file && (c = getc(file)) != EOF)
		wh_buf_putc(to, (char)c);
	if (!file || fclose(file) != 0)
		abort(); /* the tests were built from here */
}

static const char *of_stream(void)
{
	wh_buf text = WH_BUF_INIT(1 << 20);

	if (!stream_text) {
		put_file(&text, "stream");
		stream_text = wh_buf_take(&text);
	}
	return stream_text;
}

/* SQLite's statements and those that it has not, under one head line. */
static const char *with(sim_engine engine, const char *sqlite)
{
	wh_buf text = WH_BUF_INIT(1 << 20);
	static const char columns[] =
		" stream=id,status,attempts,generation,created_at,,message_id,topic,"
		"aggregate_type,aggregate_id,partition_key,headers,trace_id,payload";
	static const char ours[] = "-- name: horizon\n"; /* that one is replaced */
	const char *head_end = strchr(sqlite, '\n'), *cut = strstr(sqlite, ours);

	if (texts[engine])
		return texts[engine];
	if (!head_end || !cut)
		abort();
	wh_buf_put(&text, sqlite, (size_t)(head_end - sqlite));
	if (engine != SIM_PARTITIONED)
		wh_buf_puts(&text, columns);
	wh_buf_put(&text, head_end, (size_t)(cut - head_end));
	wh_buf_puts(&text, strstr(cut + 1, "-- name: "));
	put_file(&text, "follow");
	if (engine == SIM_PARTITIONED)
		put_file(&text, "partitions");
	texts[engine] = wh_buf_take(&text);
	return texts[engine];
}

const sim_break *sim_server_break;

/* The statements of a log with a break. */
static const char *broken(const char *text)
{
	static char *out;
	static const sim_break *its;
	const sim_break *b = sim_server_break;
	const char *at = strstr(text, b->what);
	wh_buf all = WH_BUF_INIT(1 << 20);

	if (its == b)
		return out;
	if (!at || strstr(at + 1, b->what))
		abort(); /* it is there once */
	free(out);
	wh_buf_put(&all, text, (size_t)(at - text));
	wh_buf_puts(&all, b->with);
	wh_buf_puts(&all, at + strlen(b->what));
	out = wh_buf_take(&all);
	its = b;
	return out;
}

/* Linked in place of wh_sql_embedded(). */
const char *__real_wh_sql_embedded(const char *model, const char *layout,
				   const char *dialect);
const char *__wrap_wh_sql_embedded(const char *model, const char *layout,
				   const char *dialect);
const char *__wrap_wh_sql_embedded(const char *model, const char *layout,
				   const char *dialect)
{
	const char *text = __real_wh_sql_embedded(model, layout, dialect);
	sim_engine engine = sim_store_world()->plan.engine;

	if (strcmp(layout, "stream") == 0)
		return of_stream();
	if (sim_server_break && strcmp(layout, "log") == 0)
		return broken(text);
	if (engine >= SIM_PARTITIONED && strcmp(layout, "native") == 0)
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

static int partition_of(const char *ordering_key, int64_t id)
{
	uint64_t hash = 14695981039346656037U;

	if (!ordering_key)
		return (int)(id & 63);
	for (const char *c = ordering_key; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 1099511628211U;
	return (int)(hash >> 58);
}

static void partition(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	(void)n;
	sqlite3_result_int(ctx, partition_of((const char *)sqlite3_value_text(args[0]),
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

/* The oldest transaction that is not over, to those who look at the table. */
static uint32_t oldest(const sim_world *w)
{
	uint32_t xid = w->next_xid;

	for (const sim_draft *d = w->drafts; d < w->drafts + SIM_DRAFTS; d++)
		if (d->open && d->xid < xid)
			xid = d->xid;
	for (int i = 0; sim_streams(w) && i < w->n_log; i++)
		if (!w->log[i].visible && w->log[i].xid < xid)
			xid = w->log[i].xid;
	return xid;
}

static void wal(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	const char *what = (const char *)sqlite3_value_text(args[0]);
	const sim_world *w = sim_store_world();
	const struct {
		const char *name;
		int64_t value;
	} values[] = {
		{"end", w->wal_end},
		{"confirmed", w->slot.confirmed},
		{"slot", w->slot.there},
		{"lost", w->slot.lost},
		{"reader", sim_slot_reader(w)},
		{"oldest", oldest(w)},
		{"next", w->next_xid},
	};

	(void)n;
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
		if (strcmp(values[i].name, what) == 0)
			sqlite3_result_int64(ctx, values[i].value);
}

static void end_reader(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	(void)n, (void)args;
	sqlite3_result_int(ctx, sim_slot_end_reader(sim_store_world()));
}

static void drop_slot(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	(void)n, (void)args;
	sqlite3_result_int(ctx, sim_slot_drop(sim_store_world()));
}

void sim_server_teach(sqlite3 *db)
{
	(void)sqlite3_create_function(db, "sim_wal", 1, SQLITE_UTF8, NULL, wal, NULL,
				      NULL);
	(void)sqlite3_create_function(db, "sim_end_reader", 1, SQLITE_UTF8, NULL,
				      end_reader, NULL, NULL);
	(void)sqlite3_create_function(db, "sim_drop_slot", 1, SQLITE_UTF8, NULL,
				      drop_slot, NULL, NULL);
	(void)sqlite3_create_function(db, "sim_partition", 2, SQLITE_UTF8, NULL,
				      partition, NULL, NULL);
	(void)sqlite3_create_function(db, "sim_or", 1, SQLITE_UTF8, NULL, NULL, or_step,
				      or_end);
}

/* Behind wherry_outbox_create(). */
void sim_server_prepare(sim_world *w)
{
	sim_sql(w,
		w->plan.engine == SIM_LOG
			? "CREATE VIEW sim_rows AS SELECT t.id, t.message_id, "
			  "coalesce(x.state, CASE WHEN t.id > p.high THEN 0 ELSE 2 END) AS status, "
			  "coalesce(x.attempts, 0) AS attempts, x.changed_at AS claimed_at, "
			  "x.next_retry_at FROM outbox_progress AS p CROSS JOIN outbox AS t "
			  "LEFT JOIN outbox_exception AS x ON x.id = t.id"
			: "CREATE VIEW sim_rows AS SELECT * FROM outbox");
	if (w->plan.engine == SIM_PARTITIONED)
		sim_sql(w,
			"ALTER TABLE wherry_lease ADD COLUMN mask INTEGER NOT NULL DEFAULT 0");
}
