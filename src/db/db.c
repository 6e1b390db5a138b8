#include "db/stream.h"

#include <wherry/retry.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/url.h"
#include "config/settings.h"

static const wh_db_driver *const drivers[] = {
	&wh_db_sqlite,
#ifdef WHERRY_POSTGRES
	&wh_db_postgres,
#endif
#ifdef WHERRY_ODBC
	&wh_db_mssql,
	&wh_db_odbc,
#endif
	NULL,
};

static const char *scheme_at(const void *ctx, size_t i)
{
	(void)ctx;
	return drivers[i] ? drivers[i]->scheme : NULL;
}

/* ---- the table ---- */

/* Function pointers of different types have no common type except this one. */
typedef void (*any_fn)(void);
#define FN(member) ((any_fn)driver->member)
#define NEEDED(member)                                                                   \
	{                                                                                \
#member, FN(member)                                                      \
	}

wherry_code wh_db_driver_check(const wh_db_driver *driver, wherry_error *err)
{
	static const wh_row_driver no_row;
	const wh_row_driver *row = driver->row ? driver->row : &no_row;
	const struct {
		const char *name;
		any_fn fn;
	} needed[] = {
		{"row.integer", (any_fn)row->integer},
		{"row.bytes", (any_fn)row->bytes},
		NEEDED(connection.open),
		NEEDED(connection.close),
		NEEDED(connection.interrupt),
		NEEDED(transaction.begin),
		NEEDED(transaction.commit),
		NEEDED(transaction.rollback),
		NEEDED(transaction.is_open),
		NEEDED(statement.run),
		NEEDED(statement.script),
		NEEDED(statement.last_id),
		NEEDED(statement.forget),
		NEEDED(statement.code_of),
		NEEDED(commits.watch),
		NEEDED(commits.fd),
		NEEDED(commits.changed),
		/* A driver needs old_log() if it has replaced(), and limit() if it calls
		 * on meanwhile(). */
		{"file.old_log",
		 driver->file.replaced ? FN(file.old_log) : FN(statement.run)},
		{"connection.limit",
		 driver->meanwhile ? FN(connection.limit) : FN(statement.run)},
	};

	if (!driver->scheme)
		return wh_fail(err, WHERRY_INVALID, "a database driver has no scheme");
	for (size_t i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (!needed[i].fn)
			return wh_fail(err, WHERRY_INVALID,
				       "the database driver '%s:' lacks %s",
				       driver->scheme, needed[i].name);
	return WHERRY_OK;
}

/* ---- by URL ---- */

static const wh_db_driver *find_driver(wh_view scheme)
{
	for (size_t i = 0; drivers[i]; i++)
		if (wh_view_eq(scheme, wh_view_of(drivers[i]->scheme)) ||
		    wh_view_eq(scheme, wh_view_of(drivers[i]->alias)))
			return drivers[i];
	return NULL;
}

const char *wh_db_scheme(wh_view scheme)
{
	const wh_db_driver *driver = find_driver(scheme);

	return driver ? driver->scheme : NULL;
}

wherry_code wherry_error_class(const char *scheme, int native, const char *sqlstate)
{
	const wh_db_driver *driver = scheme ? find_driver(wh_view_of(scheme)) : NULL;

	return driver ? driver->statement.code_of(native, sqlstate ? sqlstate : "")
		      : WHERRY_INVALID;
}

wh_param wh_bytes_param(const char *name, wh_type type, wh_view bytes)
{
	return (wh_param){name, bytes.ptr ? type : WH_NULL, 0, bytes};
}

wh_db_options wh_db_options_of(const wherry_config *config, const wh_env *env)
{
	return (wh_db_options){
		.env = env,
		.busy_timeout_us = wh_config_int(config, WH_DB_BUSY_TIMEOUT),
		.answer_us = wh_config_int(config, WH_DB_ANSWER_TIMEOUT),
		.look_us = wh_config_int(config, WH_DB_POLL_INTERVAL),
		.create = wh_config_switch(config, WH_DB_CREATE),
		.full_sync = wh_config_choice(config, WH_DB_SYNCHRONOUS) == 0,
	};
}

static wherry_code unknown_scheme(wh_view scheme, wherry_error *err)
{
	static const struct {
		const char *scheme, *library, *option;
	} left_out[] = {
		{"mssql", "ODBC, which SQL Server needs", "WHERRY_ODBC"},
		{"postgres", "libpq, which PostgreSQL needs", "WHERRY_POSTGRES"},
		{"postgresql", "libpq, which PostgreSQL needs", "WHERRY_POSTGRES"},
	};
	char name[32];
	const char *near;

	(void)snprintf(name, sizeof(name), "%.*s",
		       (int)(scheme.len < 30 ? scheme.len : 30), scheme.ptr);
	for (size_t i = 0; i < sizeof(left_out) / sizeof(*left_out); i++)
		if (wh_view_eq(scheme, wh_view_of(left_out[i].scheme)))
			return wh_fail(err, WHERRY_INVALID,
				       "%s: this program was built without %s: build it "
				       "with -D %s=ON",
				       left_out[i].scheme, left_out[i].library,
				       left_out[i].option);
	near = wh_nearest(name, scheme_at, NULL);
	return wh_fail(err, WHERRY_INVALID,
		       "no database is called '%s:'%s%s%s; known here: sqlite:%s%s", name,
		       near ? "; did you mean '" : "", near ? near : "",
		       near ? ":'?" : "",
		       find_driver(wh_view_of("postgres")) ? ", postgres:" : "",
		       find_driver(wh_view_of("mssql")) ? ", mssql:" : "");
}

wherry_code wh_db_known(const char *url, wherry_error *err)
{
	const wh_db_driver *driver;
	wh_url parts;
	wherry_code code = wh_url_parse(url, &parts, err);

	if (code != WHERRY_OK)
		return code;
	driver = find_driver(parts.scheme);
	if (!driver)
		return unknown_scheme(parts.scheme, err);
	code = wh_db_driver_check(driver, err);
	if (code == WHERRY_OK && driver->connection.check)
		code = driver->connection.check(parts.rest.ptr, err);
	return code;
}

/* In a plain file name %23 stands for #, which would begin the name of a table. */
static void decode_hashes(char *path)
{
	for (char *at = path; (at = strstr(at, "%23")); at++) {
		*at = '#';
		memmove(at + 1, at + 3, strlen(at + 3) + 1);
	}
}

/* Open the database of a URL, which may name a table. */
static wherry_code open_with(const wh_db_driver *driver, const char *url,
			     const wh_db_options *options, wherry_db **out,
			     wherry_error *err)
{
	char *database = wh_url_database(url), *rest;
	wherry_code code;

	if (!database)
		return wh_oom(err);
	rest = strchr(database, ':') + 1;
	if (driver != &wh_db_sqlite || strncmp(rest, "file:", 5) == 0) {
		code = driver->connection.open(rest, options, out, err);
	} else if (strchr(rest, '#')) {
		/* A second # is rather a mistake than a part of the name. */
		code = wh_fail(err, WHERRY_INVALID,
			       "write %%23 for a # in the name of the file '%.60s'",
			       rest);
	} else {
		decode_hashes(rest);
		code = driver->connection.open(rest, options, out, err);
	}
	free(database);
	return code;
}

wherry_code wh_db_open(const char *url, const wh_db_options *options, wherry_db **out,
		       wherry_error *err)
{
	const wh_db_driver *driver;
	wh_url parts;
	wherry_code code;

	if (!url)
		return wh_fail(err, WHERRY_INVALID, "no database URL: write sqlite:PATH");
	code = wh_url_parse(url, &parts, err);
	if (code != WHERRY_OK)
		return code;
	driver = find_driver(parts.scheme);
	if (!driver)
		return unknown_scheme(parts.scheme, err);
	code = wh_db_driver_check(driver, err);
	if (code != WHERRY_OK)
		return code;
	return open_with(driver, url, options, out, err);
}

wherry_code wherry_db_open(const char *url, const wherry_config *config, wherry_db **out,
			   wherry_error *err)
{
	wh_error_clear(err);
	wh_db_options options = wh_db_options_of(config, &wh_env_system);

	if (!out)
		return wh_fail(err, WHERRY_INVALID, "nowhere to put the connection");
	options.app_sql = true;
	return wh_db_open(url, &options, out, err);
}

wherry_code wh_db_open_own(const char *url, const wherry_config *config, wherry_db **out,
			   wherry_error *err)
{
	wh_db_options options = wh_db_options_of(config, &wh_env_system);

	return wh_db_open(url, &options, out, err);
}

void wherry_db_close(wherry_db *db)
{
	if (!db)
		return;
	wherry_db_rollback(db);
	db->driver->connection.close(db);
}

static wherry_code begin(wherry_db *db, bool quiet, wherry_error *err)
{
	wherry_code code = db->driver->transaction.begin(db, quiet, err);

	if (code == WHERRY_OK)
		db->depth++;
	return code;
}

wherry_code wh_db_begin(wherry_db *db, wherry_error *err)
{
	return begin(db, false, err);
}

wherry_code wherry_db_begin(wherry_db *db, wherry_error *err)
{
	wh_error_clear(err);
	if (!db)
		return wh_fail(err, WHERRY_INVALID, "no connection");
	if (db->depth)
		return wh_fail(err, WHERRY_INVALID, "a transaction is open already");
	return wh_db_begin(db, err);
}

wherry_code wh_db_rehearse(wherry_db *db, wherry_error *err)
{
	wherry_code code = wherry_db_begin(db, err);

	db->rehearses = code == WHERRY_OK;
	return code;
}

wherry_code wherry_db_commit(wherry_db *db, wherry_error *err)
{
	wh_error_clear(err);
	wherry_code code;

	if (!db || !db->depth)
		return wh_fail(err, WHERRY_INVALID, "no transaction of ours is open");
	code = db->driver->transaction.commit(db, err);
	if (code != WHERRY_OK)
		db->driver->transaction.rollback(db);
	db->depth--;
	return code;
}

void wherry_db_rollback(wherry_db *db)
{
	if (!db || !db->depth)
		return;
	db->driver->transaction.rollback(db);
	db->depth--;
}

bool wherry_db_in_transaction(wherry_db *db)
{
	return db && db->driver->transaction.is_open(db);
}

void wherry_db_interrupt(wherry_db *db)
{
	if (db)
		db->driver->connection.interrupt(db);
}

static wherry_code transact(wherry_db *db, bool quiet, wh_work_fn fn, void *ctx,
			    wherry_error *err)
{
	wherry_code code = begin(db, quiet, err);

	if (code != WHERRY_OK)
		return code;
	code = fn(ctx, err);
	if (code != WHERRY_OK) {
		wherry_db_rollback(db);
		return code;
	}
	return wherry_db_commit(db, err);
}

/* Did the server undo the transaction because of another one?  40001 is a serialization failure, 40P01 a
 * deadlock. */
static bool was_undone(wherry_code code, const wherry_error *err)
{
	return code == WHERRY_CONFLICT && (strcmp(err->sqlstate, "40001") == 0 ||
					   strcmp(err->sqlstate, "40P01") == 0);
}

typedef enum how { LOUDLY, QUIETLY, ALONE } how;

static wherry_code run_as(wherry_db *db, how as, wh_work_fn fn, void *ctx,
			  wherry_error *err)
{
	return as == ALONE ? fn(ctx, err) : transact(db, as == QUIETLY, fn, ctx, err);
}

static wherry_code again(wherry_db *db, how as, wh_work_fn fn, void *ctx,
			 wherry_error *err)
{
	enum { TRIES = 5, REST_US = 2000 };
	const bool whole = !wherry_db_in_transaction(db);
	wherry_error own = WHERRY_ERROR_INIT, *why = err ? err : &own;
	wherry_code code = run_as(db, as, fn, ctx, why);

	for (int i = 0; i < TRIES && whole && was_undone(code, why); i++) {
		wh_sleep(db->env, REST_US << i);
		wh_error_clear(why);
		code = run_as(db, as, fn, ctx, why);
	}
	return code;
}

wherry_code wh_db_again(wherry_db *db, wh_work_fn fn, void *ctx, wherry_error *err)
{
	return again(db, ALONE, fn, ctx, err);
}

wherry_code wh_db_transact(wherry_db *db, wh_work_fn fn, void *ctx, wherry_error *err)
{
	return again(db, LOUDLY, fn, ctx, err);
}

wherry_code wh_db_transact_quietly(wherry_db *db, wh_work_fn fn, void *ctx,
				   wherry_error *err)
{
	return again(db, QUIETLY, fn, ctx, err);
}

wherry_code wh_db_transact_once(wherry_db *db, bool quiet, wh_work_fn fn, void *ctx,
				wherry_error *err)
{
	return transact(db, quiet, fn, ctx, err);
}

#ifndef NDEBUG
/* Is a value given for each parameter?  A missing one is a bug in the caller, which tests
 * find. */
static bool all_given(const wh_stmt *stmt, const wh_param *params, size_t n)
{
	for (int i = 0; i < stmt->n_params; i++) {
		size_t at = 0;

		while (at < n && strcmp(params[at].name, stmt->params[i]) != 0)
			at++;
		if (at == n)
			return false;
	}
	return true;
}
#endif

wherry_code wh_db_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
		      size_t n_params, wh_row_fn visit, void *ctx, int64_t *out_changed,
		      wherry_error *err)
{
	assert(stmt && n_params <= WH_STMT_PARAMS);
	assert(all_given(stmt, params, n_params));
	return db->driver->statement.run(db, stmt, params, n_params, visit, ctx,
					 out_changed, err);
}

int64_t wh_db_last_id(wherry_db *db)
{
	return db->driver->statement.last_id(db);
}

wherry_code wh_db_script(wherry_db *db, const char *sql, wherry_error *err)
{
	return db->driver->statement.script(db, sql, err);
}

void wh_db_forget(wherry_db *db, const wh_sql *sql)
{
	db->driver->statement.forget(db, sql);
}

int64_t wh_row_int(const wh_row *row, int column)
{
	return row->driver->integer(row, column);
}

wh_view wh_row_bytes(const wh_row *row, int column)
{
	return row->driver->bytes(row, column);
}

const char *wh_row_text(const wh_row *row, int column)
{
	return row->driver->bytes(row, column).ptr;
}

bool wh_row_is_int(const wh_row *row, int column)
{
	return !row->driver->is_int || row->driver->is_int(row, column);
}

bool wh_db_about_row(const wherry_db *db, wherry_code code, const wherry_error *err)
{
	return code != WHERRY_OK && db->driver->statement.about_row &&
	       db->driver->statement.about_row(err);
}

bool wh_db_locked_out(const wherry_db *db, wherry_code code, const wherry_error *err)
{
	return db && code == WHERRY_BUSY && db->driver->statement.locked_out &&
	       db->driver->statement.locked_out(err);
}

wherry_code wh_row_check(const wh_row *row, wherry_error *err)
{
	bool failed = row->driver->failed && row->driver->failed(row);

	return failed ? wh_oom(err) : WHERRY_OK;
}

void wh_db_limit(wherry_db *db, int64_t until_us)
{
	if (db->driver->connection.limit)
		db->driver->connection.limit(db, until_us);
}

wherry_code wh_db_watch(wherry_db *db, const wh_watch *whose, wherry_error *err)
{
	return db->driver->commits.watch(db, whose, err);
}

int wh_db_fd(wherry_db *db)
{
	return db->driver->commits.fd(db);
}

bool wh_db_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us)
{
	return db->driver->commits.changed(db, look, out_next_us);
}

int64_t wh_db_session(wherry_db *db)
{
	return db->driver->connection.session ? db->driver->connection.session(db) : 0;
}

wherry_code wh_db_schema_of(wherry_db *db, const char *table, bool own, char *out,
			    size_t cap, wherry_error *err)
{
	if (db->driver->connection.schema_of)
		return db->driver->connection.schema_of(db, table, own, out, cap, NULL,
							err);
	*out = 0;
	return WHERRY_OK;
}

wherry_code wh_db_only_schema_of(wherry_db *db, const char *table, char *out, size_t cap,
				 wherry_error *err)
{
	int64_t n = 0;
	wherry_code code = WHERRY_OK;

	*out = 0;
	if (db->driver->connection.schema_of)
		code = db->driver->connection.schema_of(db, table, false, out, cap, &n,
							err);
	if (code == WHERRY_OK && n > 1)
		return wh_fail(err, WHERRY_INVALID,
			       "%" PRId64 " schemas of the search path have a table "
			       "%.100s: name the schema",
			       n, table);
	return code;
}

bool wh_db_keeps_session(wherry_db *db)
{
	return db->driver->connection.keeps_session &&
	       db->driver->connection.keeps_session(db);
}

bool wh_db_has(wherry_db *db, wh_db_part part)
{
	return !db->driver->connection.has || db->driver->connection.has(db, part);
}

wherry_code wh_db_listen(wherry_db *db, const int64_t *keys, size_t n, bool on,
			 wherry_error *err)
{
	if (!db->driver->commits.listen)
		return wh_fail(err, WHERRY_INVALID,
			       "writers to a database of '%s:' do not notify",
			       db->driver->scheme);
	return n ? db->driver->commits.listen(db, keys, n, on, err) : WHERRY_OK;
}

size_t wh_db_heard(wherry_db *db, wh_heard *out, size_t most)
{
	return db->driver->commits.heard ? db->driver->commits.heard(db, out, most) : 0;
}

int64_t wh_db_version(wherry_db *db)
{
	return db->driver->commits.version ? db->driver->commits.version(db) : 0;
}

bool wh_db_replaced(wherry_db *db, bool look)
{
	return db && db->driver->file.replaced && db->driver->file.replaced(db, look);
}

void wh_db_keep_log(wherry_db *db, int *inout)
{
	if (*inout <= 0 && wh_db_replaced(db, false) && db->driver->file.old_log)
		*inout = db->driver->file.old_log(db);
}

wherry_code wh_stream_open(wherry_db *db, const wh_stream_options *options,
			   wh_stream **out, wherry_error *err)
{
	if (!db->driver->stream)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "'%s:' has no log to stream from: use postgres:",
			       db->driver->scheme);
	return db->driver->stream(db, options, out, err);
}

void wh_stream_close(wh_stream *s)
{
	if (s)
		s->driver->close(s);
}
