/*
 * What SQLite lacks that relays use on a server: tables of other libraries, and a WAL.  Their statements
 * are in .sql files here, and the functions that those call are below.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "db/sql.h"
#include "log/cursor.h"
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

/* ---- a log as PostgreSQL has it ---- */

#define LATE "l.id <= :high AND NOT sim_sees(:seen, l.tx)"
#define FEW "(SELECT count(*) FROM {table} AS l WHERE " LATE ") <= :limit"
#define HEAD "SELECT -9223372036854775807 - 1, -9223372036854775807 - 1, 1, "
#define ROW "SELECT id, id, 1, NULL, 0, 0, {message} FROM {table} AS l WHERE "

/* A position is the highest id and a snapshot, and rows have the number of their transaction. */
static const struct {
	const char *what, *with; /* A text of log.sqlite.sql, and what takes its place. */
} to_postgres[] = {
	{" columns=", " wal=id columns="},
	{"-- part: last_id\n",
	 "-- part: uncovered\n"
	 "EXISTS (SELECT 1 FROM {table_progress} AS p WHERE p.subscription = {subscription}\n"
	 "  AND NOT sim_covers(p.high, p.seen, p.until, p.late, t.id, t.tx))\n"
	 "\n"
	 "-- part: last_id\n"},
	{"SELECT -9223372036854775807 - 1, -9223372036854775807 - 1, 1, NULL, 0,\n"
	 "  :high > coalesce({last_id}, 0), {no_message}\n",
	 HEAD "sim_snapshot(), NOT (" FEW "), 0, {no_message}\n"},
	{"  SELECT id, id, 1, NULL, 0, 0, {message}\n"
	 "  FROM {table} WHERE id > :high ORDER BY id LIMIT :limit);\n",
	 ROW LATE
	 " AND " FEW " ORDER BY id)\n"
	 "UNION ALL\n"
	 "SELECT * FROM (" ROW "id > :high AND " FEW " ORDER BY id LIMIT :limit);\n"
	 "\n"
	 "-- name: late-start\n"
	 "SELECT coalesce(min(l.id) - 1, :high) FROM {table} AS l WHERE " LATE ";\n"
	 "\n"
	 "-- name: late-page\n"
	 "-- unused: long body mask mixed\n" HEAD "NULL, 0, 0, {no_message}\n"
	 "UNION ALL\n"
	 "SELECT * FROM (" ROW LATE " AND l.id > :late AND sim_sees(:until, l.tx)\n"
	 "  ORDER BY id LIMIT :limit);\n"
	 "\n"
	 "-- name: renumber\n"
	 "SELECT sim_snapshot();\n"},
	{"SELECT high, NULL, NULL, 0, 1, high,",
	 "SELECT high, seen, until, coalesce(late, 0), 1, high,"},
	{"SET high = :high, moved_at = (SELECT ms FROM wherry_clock)\nWHERE",
	 "SET high = :high, seen = :seen, until = :until, late = :late,\n"
	 "  moved_at = (SELECT ms FROM wherry_clock)\nWHERE"},
	{"WHERE x.subscription = {subscription} AND x.id > {high};",
	 "WHERE x.subscription = {subscription}\n"
	 "  AND (sim_unseen(x.id) OR x.id IN (SELECT t.id FROM {table} AS t WHERE {uncovered}));"},
	{"(t.id > {high} OR EXISTS (SELECT 1 FROM {table_exception} AS o",
	 "({uncovered} OR EXISTS (SELECT 1 FROM {table_exception} AS o"},
	{"AND state = 2 AND id <= {high};",
	 "AND state = 2 AND NOT sim_unseen(id)\n"
	 "  AND NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = {table_exception}.id AND {uncovered});"},
	{"WHERE t.id > :after AND t.id <= {passed_by_all}",
	 "WHERE t.id > :after AND NOT {uncovered}"},
	{"(SELECT coalesce((SELECT t.id FROM {table} AS t WHERE t.id > p.high ORDER BY",
	 "(SELECT coalesce((SELECT t.id FROM {table} AS t\n"
	 "  WHERE NOT sim_covers(p.high, p.seen, p.until, p.late, t.id, t.tx) ORDER BY"},
};

static const char *as_on_postgres(const char *text)
{
	enum { N = sizeof(to_postgres) / sizeof(*to_postgres) };
	static char *out;

	for (size_t i = 0; i < N && (i || !out); i++) {
		const char *from = i ? out : text;
		const char *at = strstr(from, to_postgres[i].what);
		wh_buf all = WH_BUF_INIT(1 << 20);

		if (!at)
			abort();
		wh_buf_put(&all, from, (size_t)(at - from));
		wh_buf_puts(&all, to_postgres[i].with);
		wh_buf_puts(&all, at + strlen(to_postgres[i].what));
		free(out);
		out = wh_buf_take(&all);
	}
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
	if (strcmp(layout, "log") == 0 && sim_store_world()->plan.engine == SIM_WAL)
		return as_on_postgres(text);
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

/* Has this transaction ended, so that others see its rows? */
static bool is_seen(const sim_world *w, uint32_t xid)
{
	for (const sim_draft *d = w->drafts; d < w->drafts + SIM_DRAFTS; d++)
		if (d->open && d->xid == xid)
			return false;
	for (int i = 0; i < w->n_log; i++)
		if (w->log[i].xid == xid)
			return w->log[i].visible;
	return true;
}

static void snapshot(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	const sim_world *w = sim_store_world();
	wh_buf text = WH_BUF_INIT(1 << 16);
	char *taken;
	bool any = false;

	(void)n, (void)args;
	wh_buf_printf(&text, "%u:%u:", (unsigned)oldest(w), (unsigned)w->next_xid);
	for (uint32_t xid = oldest(w); xid < w->next_xid; xid++) {
		if (is_seen(w, xid))
			continue;
		wh_buf_printf(&text, "%s%u", any ? "," : "", (unsigned)xid);
		any = true;
	}
	taken = wh_buf_take(&text);
	sqlite3_result_text(ctx, taken, -1, SQLITE_TRANSIENT);
	free(taken);
}

static bool sees(sqlite3_value *snapshot, sqlite3_value *tx)
{
	const char *text = (const char *)sqlite3_value_text(snapshot);

	return text && wh_snapshot_sees(text, (uint64_t)sqlite3_value_int64(tx));
}

static void sees_tx(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	(void)n;
	sqlite3_result_int(ctx, sees(args[0], args[1]));
}

/* Of a position, high, seen, until and late, and of a row, id and tx. */
static void covers(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	int64_t high = sqlite3_value_int64(args[0]), late = sqlite3_value_int64(args[3]);
	int64_t id = sqlite3_value_int64(args[4]);

	(void)n;
	sqlite3_result_int(ctx, id <= high && (sees(args[1], args[5]) ||
					       (id <= late && sees(args[2], args[5]))));
}

/* Is the message of this id committed, and not visible yet? */
static void unseen(sqlite3_context *ctx, int n, sqlite3_value **args)
{
	const sim_world *w = sim_store_world();
	int64_t id = sqlite3_value_int64(args[0]);
	bool found = false;

	(void)n;
	for (const sim_commit *c = w->log; c < w->log + w->n_log; c++)
		for (int i = 0; !c->visible && i < c->n; i++)
			found |= w->messages[c->rows[i]].id == id;
	sqlite3_result_int(ctx, found && sim_wal_broken != SIM_FORGET_UNSEEN);
}

void sim_server_teach(sqlite3 *db)
{
	(void)sqlite3_create_function(db, "sim_unseen", 1, SQLITE_UTF8, NULL, unseen,
				      NULL, NULL);
	(void)sqlite3_create_function(db, "sim_snapshot", 0, SQLITE_UTF8, NULL, snapshot,
				      NULL, NULL);
	(void)sqlite3_create_function(db, "sim_sees", 2, SQLITE_UTF8, NULL, sees_tx, NULL,
				      NULL);
	(void)sqlite3_create_function(db, "sim_covers", 6, SQLITE_UTF8, NULL, covers,
				      NULL, NULL);
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
	if (w->plan.engine == SIM_WAL)
		sim_sql(w,
			"DROP TRIGGER outbox_by_hand; ALTER TABLE outbox ADD COLUMN tx INTEGER; "
			"ALTER TABLE outbox_progress ADD COLUMN seen TEXT; "
			"ALTER TABLE outbox_progress ADD COLUMN until TEXT; "
			"ALTER TABLE outbox_progress ADD COLUMN late INTEGER");
	sim_sql(w,
		w->plan.engine == SIM_WAL
			? "CREATE VIEW sim_rows AS SELECT t.id, t.message_id, coalesce(x.state, "
			  "CASE WHEN sim_covers(p.high, p.seen, p.until, p.late, t.id, t.tx) THEN 2 ELSE 0 END) "
			  "AS status, coalesce(x.attempts, 0) AS attempts, x.changed_at AS claimed_at, "
			  "x.next_retry_at FROM outbox_progress AS p CROSS JOIN outbox AS t "
			  "LEFT JOIN outbox_exception AS x ON x.id = t.id"
		: w->plan.engine == SIM_LOG
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
