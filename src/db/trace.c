#include "db/trace.h"

#include <stdlib.h>

#include "db/stream.h"

/* `base` has the properties of the inner connection, but the driver of the wrapper. */
typedef struct traced {
	wherry_db base;
	wherry_db *inner;
	wh_trace trace;
	int64_t began_us;
} traced;

static wherry_code before(traced *t, const char *op, const char *what, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (t->trace.before)
		code = t->trace.before(t->trace.ctx, op, what, err);
	t->began_us = wh_monotonic(t->base.env);
	return code;
}

static wherry_code after(traced *t, const char *op, const char *what, wherry_code code,
			 wherry_error *err)
{
	int64_t took_us = wh_monotonic(t->base.env) - t->began_us;

	if (t->trace.after)
		code = t->trace.after(t->trace.ctx, op, what, code, took_us, err);
	return code;
}

static void trace_close(wherry_db *db)
{
	traced *t = (traced *)db;

	wherry_db_close(t->inner);
	free(t);
}

static wherry_code trace_begin(wherry_db *db, bool quiet, wherry_error *err)
{
	traced *t = (traced *)db;
	wherry_code code = before(t, "begin", "", err);

	if (code != WHERRY_OK)
		return code;
	code = t->inner->driver->transaction.begin(t->inner, quiet, err);
	t->inner->depth += code == WHERRY_OK;
	code = after(t, "begin", "", code, err);
	if (code != WHERRY_OK)
		wherry_db_rollback(t->inner);
	return code;
}

static wherry_code trace_commit(wherry_db *db, wherry_error *err)
{
	traced *t = (traced *)db;
	wherry_code code = before(t, "commit", "", err);

	if (code != WHERRY_OK)
		return code;
	return after(t, "commit", "", wherry_db_commit(t->inner, err), err);
}

static void trace_rollback(wherry_db *db)
{
	traced *t = (traced *)db;

	wherry_db_rollback(t->inner);
	(void)after(t, "rollback", "", WHERRY_OK, NULL);
}

static bool trace_is_open(wherry_db *db)
{
	return wherry_db_in_transaction(((traced *)db)->inner);
}

static void pass_on_meanwhile(traced *t)
{
	t->inner->meanwhile = t->base.meanwhile;
	t->inner->meanwhile_ctx = t->base.meanwhile_ctx;
}

typedef struct row_reader {
	traced *t;
	wh_row_fn visit;
	void *ctx;
} row_reader;

static wherry_code trace_row(void *ctx, const wh_row *row, wherry_error *err)
{
	const row_reader *reader = ctx;

	reader->t->trace.row(reader->t->trace.ctx);
	return reader->visit(reader->ctx, row, err);
}

static wherry_code trace_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
			     size_t n_params, wh_row_fn visit, void *ctx,
			     int64_t *out_changed, wherry_error *err)
{
	traced *t = (traced *)db;
	row_reader reader = {t, visit, ctx};
	bool tells = visit && t->trace.row;
	wherry_code code = before(t, "run", stmt->name, err);

	if (code != WHERRY_OK)
		return code;
	pass_on_meanwhile(t);
	code = wh_db_run(t->inner, stmt, params, n_params, tells ? trace_row : visit,
			 tells ? &reader : ctx, out_changed, err);
	return after(t, "run", stmt->name, code, err);
}

static int64_t trace_last_id(wherry_db *db)
{
	return wh_db_last_id(((traced *)db)->inner);
}

static wherry_code trace_script(wherry_db *db, const char *sql, wherry_error *err)
{
	traced *t = (traced *)db;
	wherry_code code = before(t, "script", "", err);

	if (code != WHERRY_OK)
		return code;
	return after(t, "script", "", wh_db_script(t->inner, sql, err), err);
}

static void trace_forget(wherry_db *db, const wh_sql *sql)
{
	pass_on_meanwhile((traced *)db); /* The relay that set it may be gone. */
	wh_db_forget(((traced *)db)->inner, sql);
}

static wherry_code trace_watch(wherry_db *db, const wh_watch *whose, wherry_error *err)
{
	return wh_db_watch(((traced *)db)->inner, whose, err);
}

static int trace_fd(wherry_db *db)
{
	return wh_db_fd(((traced *)db)->inner);
}

static bool trace_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us)
{
	return wh_db_changed(((traced *)db)->inner, look, out_next_us);
}

static void trace_limit(wherry_db *db, int64_t until_us)
{
	wh_db_limit(((traced *)db)->inner, until_us);
}

static int64_t trace_session(wherry_db *db)
{
	return wh_db_session(((traced *)db)->inner);
}

static bool trace_keeps_session(wherry_db *db)
{
	return wh_db_keeps_session(((traced *)db)->inner);
}

static bool trace_has(wherry_db *db, wh_db_part part)
{
	return wh_db_has(((traced *)db)->inner, part);
}

static wherry_code trace_schema_of(wherry_db *db, const char *table, bool own, char *out,
				   size_t cap, int64_t *out_n, wherry_error *err)
{
	traced *t = (traced *)db;
	wherry_code code = before(t, "schema", table, err);

	if (code != WHERRY_OK)
		return code;
	return after(t, "schema", table,
		     t->inner->driver->connection.schema_of(t->inner, table, own, out,
							    cap, out_n, err),
		     err);
}

static wherry_code trace_stream(wherry_db *db, const wh_stream_options *options,
				wh_stream **out, wherry_error *err)
{
	traced *t = (traced *)db;
	wherry_code code = before(t, "stream", options->slot, err);

	if (code != WHERRY_OK)
		return code;
	return after(t, "stream", options->slot,
		     wh_stream_open(t->inner, options, out, err), err);
}

static int64_t trace_version(wherry_db *db)
{
	return wh_db_version(((traced *)db)->inner);
}

static bool trace_replaced(wherry_db *db, bool look)
{
	return wh_db_replaced(((traced *)db)->inner, look);
}

static void trace_interrupt(wherry_db *db)
{
	wherry_db_interrupt(((traced *)db)->inner);
}

/* Nobody opens a connection with it or converts errors, so it has no open(), code_of() and
 * old_log(). */
static const wh_db_driver trace_template = {
	.connection = {.close = trace_close,
		       .interrupt = trace_interrupt,
		       .limit = trace_limit,
		       .session = trace_session,
		       .keeps_session = trace_keeps_session,
		       .has = trace_has,
		       .schema_of = trace_schema_of},
	.transaction = {.begin = trace_begin,
			.commit = trace_commit,
			.rollback = trace_rollback,
			.is_open = trace_is_open},
	.statement = {.run = trace_run,
		      .script = trace_script,
		      .last_id = trace_last_id,
		      .forget = trace_forget},
	.commits = {.watch = trace_watch,
		    .fd = trace_fd,
		    .changed = trace_changed,
		    .version = trace_version},
	.file = {.replaced = trace_replaced},
	.stream = trace_stream,
};

typedef struct traced_with_driver {
	traced t;
	wh_db_driver driver; /* The template with properties of the inner driver. */
} traced_with_driver;

wherry_code wh_db_trace(wherry_db *inner, const wh_trace *trace, wherry_db **out,
			wherry_error *err)
{
	traced_with_driver *both = calloc(1, sizeof(*both));

	if (!both)
		return wh_oom(err);
	both->driver = trace_template;
	both->driver.scheme = inner->driver->scheme;
	both->driver.late_commits = inner->driver->late_commits;
	both->driver.reads_wait = inner->driver->reads_wait;
	both->driver.meanwhile = inner->driver->meanwhile;
	both->driver.failure_spreads = inner->driver->failure_spreads;
	both->driver.rows_most = inner->driver->rows_most;
	both->driver.row = inner->driver->row;
	both->driver.statement.about_row = inner->driver->statement.about_row;
	both->driver.statement.locked_out = inner->driver->statement.locked_out;
	if (!inner->driver->commits.version)
		both->driver.commits.version = NULL;
	if (!inner->driver->connection.schema_of)
		both->driver.connection.schema_of = NULL;
	both->t.base = *inner;
	both->t.base.driver = &both->driver;
	both->t.base.depth = 0;
	both->t.inner = inner;
	both->t.trace = *trace;
	*out = &both->t.base;
	return WHERRY_OK;
}

wherry_db *wh_db_untrace(wherry_db *db)
{
	wherry_db *inner;

	if (!db || db->driver->connection.close != trace_close)
		return db;
	inner = ((traced *)db)->inner;
	free(db);
	return inner;
}
