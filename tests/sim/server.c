/*
 * What SQLite lacks that relays use on a server: tables of other libraries, and a WAL.  Their statements
 * are in .sql files here, and the functions that those call are below.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "db/sql.h"
#include "outbox/meet.h"
#include "sim.h"

extern const wh_sql_file sim_sql_files[]; /* Layouts that SQLite has only here. */
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

	if (strcmp(layout, "stream") == 0)
		return of_stream();
	if (sim_server_break && strcmp(layout, "log") == 0)
		return broken(text);
	for (const wh_sql_file *f = sim_sql_files; f->model; f++)
		if (strcmp(f->model, model) == 0 && strcmp(f->layout, layout) == 0 &&
		    strcmp(f->dialect, dialect) == 0)
			return f->text;
	return text;
}

/* Linked in place of wh_meet_check(): any option works here. */
wherry_code __wrap_wh_meet_check(wh_home at, wh_ask ask, wherry_error *err);
wherry_code __wrap_wh_meet_check(wh_home at, wh_ask ask, wherry_error *err)
{
	(void)at, (void)ask, (void)err;
	return WHERRY_OK;
}

/* ---- functions ---- */

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
		: w->plan.engine == SIM_COMPETING
			? "CREATE VIEW sim_rows AS SELECT * FROM outbox"
			: "CREATE VIEW sim_rows AS SELECT id, message_id, 0 AS status, 0 AS attempts, "
			  "0 AS claimed_at, NULL AS next_retry_at FROM outbox");
}
