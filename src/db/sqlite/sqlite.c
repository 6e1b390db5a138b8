/*
 * SQLite.
 *
 * Own connections use WAL and synchronous=EXTRA.  They begin with BEGIN IMMEDIATE, so a
 * reader never becomes a writer later: SQLite would answer that with BUSY_SNAPSHOT
 * instead of waiting.  The busy handler first waits for fractions of a millisecond.
 *
 * Borrowed connections use savepoints, and no setting of the handle is changed.
 */
#include "db/sqlite/sqlite.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <wherry/sqlite.h>

#include "base/arena.h"

typedef struct sqlite_stmt {
	const wh_stmt *stmt; /* The statement that was prepared; compared by address. */
	sqlite3_stmt *handle;
	/* SQLite's number of the i-th given parameter; 0: not used. */
	int slot[WH_STMT_PARAMS];
	const char *name[WH_STMT_PARAMS];
} sqlite_stmt;

/* A row, valid during the visit. */
typedef struct sqlite_row {
	sqlite3_stmt *stmt;
	wh_arena blobs; /* Copies of blobs, valid during the visit. */
	bool failed;    /* Memory for a copy ran out. */
} sqlite_row;

/* Begin a call: from now on an interrupt ends its wait for a lock. */
static void begin_call(sqlite_db *s)
{
	s->seen = atomic_load(&s->interrupts);
	s->interrupted = false;
}

/* Called by SQLite while the file is locked; returns 0 to give up.  Most locks last for
 * one commit, so retry soon at first, then less often. */
static int on_busy(void *ctx, int count)
{
	static const int waits_us[] = {100, 200, 300, 500, 1000, 1000, 2000, 2000, 5000};
	sqlite_db *s = ctx;
	int64_t now = wh_monotonic(s->base.env);
	int last = (int)(sizeof(waits_us) / sizeof(*waits_us)) - 1;

	if (count == 0)
		s->busy_since_us = now;
	s->interrupted = atomic_load(&s->interrupts) != s->seen;
	if (s->interrupted)
		return 0;
	if (now - s->busy_since_us >= s->busy_timeout_us)
		return 0;
	wh_sleep(s->base.env, waits_us[count < last ? count : last]);
	return 1;
}

static void sqlite_close(wherry_db *db)
{
	sqlite_db *s = (sqlite_db *)db;

	wh_sqlite_unwatch(s);
	for (size_t i = 0; i < s->n_stmts; i++)
		sqlite3_finalize(s->stmts[i].handle);
	free(s->stmts);
	free(s->named);
	for (int i = 0; i < WH_SQLITE_UNDOS; i++)
		sqlite3_finalize(s->undo[i]);
	for (int i = 0; i < WH_SQLITE_STEPS; i++)
		sqlite3_finalize(s->steps[i]);
	if (!s->borrowed)
		sqlite3_close_v2(s->handle);
	free(s);
}

static wherry_code make(const char *path, const wh_env *env, sqlite_db **out,
			wherry_error *err)
{
	size_t len = strlen(path);
	sqlite_db *s = calloc(1, sizeof(*s) + len + 1);

	if (!s)
		return wh_oom(err);
	s->base.driver = &wh_db_sqlite;
	s->base.env = env;
	s->watch.fd = -1;
	memcpy(s->path, path, len);
	*out = s;
	return WHERRY_OK;
}

static wherry_code exec(sqlite_db *s, const char *sql, const char *doing,
			wherry_error *err)
{
	int rc;

	begin_call(s);
	rc = sqlite3_exec(s->handle, sql, NULL, NULL, NULL);
	return rc == SQLITE_OK ? WHERRY_OK : wh_sqlite_fail(s, rc, doing, err);
}

/* SQLite opens a read-only file without an error.  Refuse it here if it must be
 * written. */
static wherry_code check_writable(sqlite_db *s, const wh_db_options *options,
				  wherry_error *err)
{
	if (options->must_write && sqlite3_db_readonly(s->handle, "main") == 1)
		return wh_fail(
			err, WHERRY_READONLY,
			"%s: the file cannot be written: check its owner and mode, and "
			"those of its folder",
			s->path);
	return WHERRY_OK;
}

/* Does the file have tables of Wherry's? */
static bool has_tables(sqlite_db *s)
{
	return sqlite3_table_column_metadata(s->handle, "main", "wherry_schema", NULL,
					     NULL, NULL, NULL, NULL, NULL) == SQLITE_OK;
}

/*
 * Set up an own connection.
 *
 * WAL lets producers commit while the relay reads.  A read-only database keeps its
 * journal mode, and so does one that is in use in another mode, or a file of another program
 * that a command only looks into.  Wherry works in every
 * journal mode.
 *
 * synchronous=EXTRA equals FULL in WAL mode.  With a rollback journal it also syncs the
 * folder after deleting the journal.  With FULL a power loss could bring the journal back
 * and undo a commit whose messages are delivered
 * (a_power_loss_takes_no_commit_of_a_rollback_journal).
 */
static wherry_code set_up(sqlite_db *s, const wh_db_options *options, wherry_error *err)
{
	wherry_code code;

	sqlite3_extended_result_codes(s->handle, 1);
	(void)sqlite3_busy_handler(s->handle, on_busy, s);
	/* Reads the file, so it fails if this is not a database. */
	code = exec(s, "PRAGMA schema_version", "", err);
	if (code != WHERRY_OK)
		return code;
	code = check_writable(s, options, err);
	if (code != WHERRY_OK)
		return code;
	if (sqlite3_db_readonly(s->handle, "main") == 0 &&
	    (options->create || options->must_write || has_tables(s))) {
		code = exec(s, "PRAGMA journal_mode=WAL", "", err);
		if (code != WHERRY_OK && code != WHERRY_BUSY)
			return code;
	}
	return exec(s,
		    options->full_sync ? "PRAGMA synchronous=EXTRA"
				       : "PRAGMA synchronous=NORMAL",
		    "", err);
}

/* The path has a folder, and that folder does not exist. */
static bool lacks_folder(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder =
		slash && slash > path ? strndup(path, (size_t)(slash - path)) : NULL;
	bool lacks = folder && access(folder, F_OK) != 0 &&
		     (errno == ENOENT || errno == ENOTDIR);

	free(folder);
	return lacks;
}

static wherry_code sqlite_open(const char *rest, const wh_db_options *options,
			       wherry_db **out, wherry_error *err)
{
	int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
	sqlite_db *s = NULL;
	wherry_code code;
	int rc;

	if (!*rest)
		return wh_fail(err, WHERRY_INVALID,
			       "sqlite: needs a file, as in sqlite:shop.db");
	if (strncmp(rest, "//", 2) == 0)
		/* Other programs write sqlite:///abs/path. */
		rest += rest[2] == '/' ? 2 : 0;
	code = make(rest, options->env, &s, err);
	if (code != WHERRY_OK)
		return code;
	s->busy_timeout_us = options->busy_timeout_us;
	wh_sqlite_note_name(s);
	s->base.shared = strcmp(rest, ":memory:") == 0;
	if (options->create || s->base.shared)
		flags |= SQLITE_OPEN_CREATE;
	rc = sqlite3_open_v2(rest, &s->handle, flags, NULL);
	if (rc == SQLITE_CANTOPEN && sqlite3_system_errno(s->handle) == EACCES) {
		code = wh_fail_native(
			err, WHERRY_DENIED, rc,
			"%s: permission denied: check the owner and mode of "
			"the file, and its folder's",
			rest);
		goto out;
	}
	if (rc == SQLITE_CANTOPEN && lacks_folder(rest)) {
		code = wh_fail_native(err, WHERRY_NOTFOUND, rc,
				      "%s: there is no folder '%.*s': create it first",
				      rest, (int)(strrchr(rest, '/') - rest), rest);
		goto out;
	}
	if (rc == SQLITE_CANTOPEN && !options->create) {
		code = wh_fail_native(err, WHERRY_NOTFOUND, rc,
				      "%s: no such file, or it cannot be opened", rest);
		(void)wh_repair(err, code, WHERRY_REPAIR_CREATE, 0, NULL);
		goto out;
	}
	if (rc != SQLITE_OK) {
		code = wh_sqlite_fail(s, rc, "", err);
		goto out;
	}
	code = wh_sqlite_check_log(s, options->old_log, err);
	if (code == WHERRY_OK)
		code = set_up(s, options, err);
	if (code != WHERRY_OK)
		goto out;
	wh_sqlite_note_log(s);
	*out = &s->base;
	s = NULL; /* Owned by the caller now. */
out:
	if (s)
		sqlite_close(&s->base);
	return code;
}

wherry_code wherry_sqlite_borrow(sqlite3 *handle, wherry_db **out, wherry_error *err)
{
	wh_error_clear(err);
	const char *path = handle ? sqlite3_db_filename(handle, "main") : NULL;
	sqlite_db *s;
	wherry_code code;

	if (!handle || !out)
		return wh_fail(err, WHERRY_INVALID, "no SQLite handle to borrow");
	code = make(path && *path ? path : ":memory:", &wh_env_system, &s, err);
	if (code != WHERRY_OK)
		return code;
	s->handle = handle;
	s->borrowed = true;
	s->base.shared = true;
	*out = &s->base;
	return WHERRY_OK;
}

sqlite3 *wherry_sqlite_handle(wherry_db *db)
{
	return db && db->driver == &wh_db_sqlite ? ((sqlite_db *)db)->handle : NULL;
}

/* ---- transactions ---- */

/*
 * Prepare a statement that rolls back.  A rollback is often needed because memory ran
 * out, so it is prepared before the transaction begins.  It is prepared each time,
 * because a change of schema would make it invalid.
 */
static wherry_code prepare_undo(sqlite_db *s, int which, wherry_error *err)
{
	static const char *const texts[] = {
		[WH_SQLITE_ROLLBACK] = "ROLLBACK",
		[WH_SQLITE_ROLLBACK_TO] = "ROLLBACK TO wherry",
		[WH_SQLITE_RELEASE] = "RELEASE wherry",
	};
	int rc;

	(void)sqlite3_finalize(s->undo[which]);
	rc = sqlite3_prepare_v2(s->handle, texts[which], -1, &s->undo[which], NULL);
	return rc == SQLITE_OK ? WHERRY_OK : wh_sqlite_fail(s, rc, "", err);
}

/* Begin or end a transaction.  The statements are prepared once: parsing them each time
 * took a tenth of a transaction that deletes a row. */
static wherry_code step(sqlite_db *s, int which, wherry_error *err)
{
	static const char *const texts[] = {
		[WH_SQLITE_BEGIN] = "BEGIN IMMEDIATE",
		[WH_SQLITE_COMMIT] = "COMMIT",
		[WH_SQLITE_BEGIN_INSIDE] = "SAVEPOINT wherry",
		[WH_SQLITE_COMMIT_INSIDE] = "RELEASE wherry",
	};
	wherry_code code = WHERRY_OK;
	int rc = SQLITE_OK;

	if (!s->steps[which])
		rc = sqlite3_prepare_v3(s->handle, texts[which], -1,
					SQLITE_PREPARE_PERSISTENT, &s->steps[which],
					NULL);
	if (rc != SQLITE_OK)
		return wh_sqlite_fail(s, rc, "", err);
	begin_call(s);
	rc = sqlite3_step(s->steps[which]);
	if (rc != SQLITE_DONE)
		code = wh_sqlite_fail(s, rc, "", err);
	(void)sqlite3_reset(s->steps[which]);
	return code;
}

static void undo(sqlite_db *s, int which)
{
	(void)sqlite3_step(s->undo[which]);
	(void)sqlite3_reset(s->undo[which]);
}

/* Roll back an own transaction whose rollback failed.  After a change of schema even a
 * prepared ROLLBACK may need memory. */
static wherry_code settle_old(sqlite_db *s, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (s->stuck && !sqlite3_get_autocommit(s->handle))
		code = exec(s, "ROLLBACK", "", err);
	s->stuck = code != WHERRY_OK;
	return code;
}

static wherry_code sqlite_begin(wherry_db *db, bool quiet, wherry_error *err)
{
	sqlite_db *s = (sqlite_db *)db;
	wherry_code code = settle_old(s, err);
	bool inside = !sqlite3_get_autocommit(s->handle);

	(void)quiet; /* Relays see every commit to the file. */
	(void)wh_sqlite_replaced(db, true);
	if (code == WHERRY_OK)
		code = wh_sqlite_check_replaced(s, err);
	if (code != WHERRY_OK)
		return code;
	/* BEGIN does not report a read-only database. */
	if (sqlite3_db_readonly(s->handle, "main") == 1)
		return wh_sqlite_fail(s, SQLITE_READONLY, "", err);
	code = prepare_undo(s, inside ? WH_SQLITE_ROLLBACK_TO : WH_SQLITE_ROLLBACK, err);
	if (code == WHERRY_OK && inside)
		code = prepare_undo(s, WH_SQLITE_RELEASE, err);
	if (code == WHERRY_OK)
		code = step(s, inside ? WH_SQLITE_BEGIN_INSIDE : WH_SQLITE_BEGIN, err);
	if (code == WHERRY_OK)
		s->savepoints = inside ? s->savepoints + 1 : 0;
	return code;
}

static wherry_code sqlite_commit(wherry_db *db, wherry_error *err)
{
	sqlite_db *s = (sqlite_db *)db;
	wherry_code code =
		step(s, s->savepoints ? WH_SQLITE_COMMIT_INSIDE : WH_SQLITE_COMMIT, err);

	if (code == WHERRY_OK && s->savepoints)
		s->savepoints--;
	return code;
}

/* After some errors (disk full, out of memory) SQLite has rolled back already.  Then the
 * statements fail, which is ignored. */
static void sqlite_rollback(wherry_db *db)
{
	sqlite_db *s = (sqlite_db *)db;
	bool open = !sqlite3_get_autocommit(s->handle);

	if (open && s->savepoints) {
		undo(s, WH_SQLITE_ROLLBACK_TO);
		undo(s, WH_SQLITE_RELEASE);
	} else if (open) {
		undo(s, WH_SQLITE_ROLLBACK);
		s->stuck = !s->borrowed && !sqlite3_get_autocommit(s->handle);
	}
	if (s->savepoints)
		s->savepoints--;
}

/* A trigger's statements, and those of a function in a statement that writes, are part of that
 * statement, which is a transaction without BEGIN. */
static bool sqlite_in_transaction(wherry_db *db)
{
	sqlite_db *s = (sqlite_db *)db;

	return settle_old(s, NULL) != WHERRY_OK || !sqlite3_get_autocommit(s->handle) ||
	       (s->borrowed && sqlite3_txn_state(s->handle, "main") == SQLITE_TXN_WRITE);
}

/* ---- statements ---- */

static wherry_code prepare(sqlite_db *s, const wh_stmt *stmt, sqlite_stmt **out,
			   wherry_error *err)
{
	sqlite_stmt *grown, fresh = {.stmt = stmt};
	int rc;

	for (size_t i = 0; i < s->n_stmts; i++) {
		if (s->stmts[i].stmt == stmt) {
			*out = &s->stmts[i];
			return WHERRY_OK;
		}
	}
	grown = realloc(s->stmts, (s->n_stmts + 1) * sizeof(*grown));
	if (!grown)
		return wh_oom(err);
	s->stmts = grown;
	rc = sqlite3_prepare_v3(s->handle, stmt->text, -1, SQLITE_PREPARE_PERSISTENT,
				&fresh.handle, NULL);
	if (rc != SQLITE_OK)
		return wh_sqlite_fail(s, rc, "", err);
	s->stmts[s->n_stmts] = fresh;
	*out = &s->stmts[s->n_stmts++];
	return WHERRY_OK;
}

/* SQLite's number of the i-th given parameter.  It is remembered by the address of its
 * name, since a statement is always run from the same place. */
static int slot_of(sqlite_stmt *c, size_t i, const char *name)
{
	char full[40] = ":";

	if (c->name[i] == name)
		return c->slot[i];
	(void)snprintf(full + 1, sizeof(full) - 1, "%s", name);
	c->name[i] = name;
	c->slot[i] = sqlite3_bind_parameter_index(c->handle, full);
	return c->slot[i];
}

static int bind(sqlite_stmt *c, const wh_param *params, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int slot = slot_of(c, i, params[i].name), rc = SQLITE_OK;
		const wh_view *v = &params[i].bytes;

		if (!slot)
			/* SQLite's statement does not use this parameter. */
			continue;
		if (params[i].type == WH_INT)
			rc = sqlite3_bind_int64(c->handle, slot, params[i].number);
		else if (params[i].type == WH_TEXT)
			rc = sqlite3_bind_text64(c->handle, slot, v->ptr, v->len,
						 SQLITE_STATIC, SQLITE_UTF8);
		else if (params[i].type == WH_BLOB)
			rc = sqlite3_bind_blob64(c->handle, slot, v->ptr, v->len,
						 SQLITE_STATIC);
		else
			rc = sqlite3_bind_null(c->handle, slot);
		if (rc != SQLITE_OK)
			return rc;
	}
	return SQLITE_OK;
}

static wherry_code sqlite_run(wherry_db *db, const wh_stmt *stmt, const wh_param *params,
			      size_t n_params, wh_row_fn visit, void *ctx,
			      int64_t *out_changed, wherry_error *err)
{
	sqlite_db *s = (sqlite_db *)db;
	int64_t before = sqlite3_total_changes64(s->handle), changed;
	wherry_code code = settle_old(s, err);
	sqlite_stmt *c = NULL;
	sqlite_row seen = {.blobs = WH_ARENA_INIT};
	wh_row row = {.driver = wh_db_sqlite.row, .handle = &seen};
	int rc;

	if (code == WHERRY_OK)
		code = wh_sqlite_check_replaced(s, err);
	if (code == WHERRY_OK)
		code = prepare(s, stmt, &c, err);
	if (code != WHERRY_OK || !c)
		return code;
	seen.stmt = c->handle;
	begin_call(s);
	rc = bind(c, params, n_params);
	while (rc == SQLITE_OK && code == WHERRY_OK) {
		rc = sqlite3_step(seen.stmt);
		if (rc != SQLITE_ROW)
			break;
		rc = SQLITE_OK;
		wh_arena_reset(&seen.blobs);
		if (visit)
			code = visit(ctx, &row, err);
		if (seen.failed)
			code = wh_oom(err);
	}
	if (code == WHERRY_OK && rc != SQLITE_DONE)
		code = wh_sqlite_fail_row(s, rc, err);
	(void)sqlite3_reset(seen.stmt);
	wh_arena_clear(&seen.blobs);
	/* sqlite3_changes64() keeps its value if a statement changes nothing, the total
	 * does not.  The total includes rows changed by triggers. */
	changed = sqlite3_total_changes64(s->handle) - before;
	s->watch.triggered |= changed > sqlite3_changes64(s->handle);
	if (changed)
		changed = sqlite3_changes64(s->handle);
	if (out_changed && code == WHERRY_OK)
		*out_changed = changed;
	return code;
}

static int64_t sqlite_last_id(wherry_db *db)
{
	return sqlite3_last_insert_rowid(((sqlite_db *)db)->handle);
}

static wherry_code sqlite_script(wherry_db *db, const char *sql, wherry_error *err)
{
	sqlite_db *s = (sqlite_db *)db;
	wherry_code code = settle_old(s, err);
	int rc;

	if (code != WHERRY_OK)
		return code;
	begin_call(s);
	rc = sqlite3_exec(s->handle, sql, NULL, NULL, NULL);
	return rc == SQLITE_OK ? WHERRY_OK : wh_sqlite_fail_row(s, rc, err);
}

static int64_t sqlite_row_int(const wh_row *row, int column)
{
	return sqlite3_column_int64(((sqlite_row *)row->handle)->stmt, column);
}

static bool sqlite_row_is_int(const wh_row *row, int column)
{
	int type = sqlite3_column_type(((sqlite_row *)row->handle)->stmt, column);

	return type == SQLITE_INTEGER || type == SQLITE_NULL;
}

/* Blobs are copied to append a NUL.  column_text() would append one too, but interprets a
 * blob as UTF-16 if the database uses UTF-16. */
static wh_view sqlite_row_bytes(const wh_row *row, int column)
{
	sqlite_row *seen = row->handle;
	int type = sqlite3_column_type(seen->stmt, column);
	wh_view view = {NULL, 0};

	if (type == SQLITE_NULL)
		return view;
	if (type == SQLITE_BLOB) {
		view.ptr = sqlite3_column_blob(seen->stmt, column);
		view.len = (size_t)sqlite3_column_bytes(seen->stmt, column);
		if (view.ptr || !view.len)
			view.ptr = wh_arena_copy(&seen->blobs, view.ptr, view.len);
		seen->failed |= !view.ptr;
	} else {
		view.ptr = (const char *)sqlite3_column_text(seen->stmt, column);
		view.len = (size_t)sqlite3_column_bytes(seen->stmt, column);
		seen->failed |= !view.ptr;
	}
	return view.ptr ? view : (wh_view){"", 0};
}

static bool sqlite_row_failed(const wh_row *row)
{
	return ((sqlite_row *)row->handle)->failed;
}

static void sqlite_forget(wherry_db *db, const wh_sql *sql)
{
	sqlite_db *s = (sqlite_db *)db;
	size_t kept = 0;

	for (size_t i = 0; i < s->n_stmts; i++) {
		if (s->stmts[i].stmt >= sql->stmts &&
		    s->stmts[i].stmt < sql->stmts + sql->n)
			sqlite3_finalize(s->stmts[i].handle);
		else
			s->stmts[kept++] = s->stmts[i];
	}
	s->n_stmts = kept;
}

static void sqlite_interrupt(wherry_db *db)
{
	sqlite_db *s = (sqlite_db *)db;

	atomic_fetch_add(&s->interrupts, 1);
	sqlite3_interrupt(s->handle);
}

static const wh_row_driver rows = {
	.integer = sqlite_row_int,
	.bytes = sqlite_row_bytes,
	.is_int = sqlite_row_is_int,
	.failed = sqlite_row_failed,
};

const wh_db_driver wh_db_sqlite = {
	.scheme = "sqlite",
	/* There is one writer at a time, and ids are taken while writing. */
	.late_commits = false,
	.row = &rows,
	.connection = {.open = sqlite_open,
		       .close = sqlite_close,
		       .interrupt = sqlite_interrupt},
	.transaction = {.begin = sqlite_begin,
			.commit = sqlite_commit,
			.rollback = sqlite_rollback,
			.is_open = sqlite_in_transaction},
	.statement = {.run = sqlite_run,
		      .script = sqlite_script,
		      .last_id = sqlite_last_id,
		      .forget = sqlite_forget,
		      .about_row = wh_sqlite_about_row,
		      .code_of = wh_sqlite_code_of},
	.commits = {.watch = wh_sqlite_watch,
		    .fd = wh_sqlite_fd,
		    .changed = wh_sqlite_changed,
		    .version = wh_sqlite_version},
	.file = {.replaced = wh_sqlite_replaced, .old_log = wh_sqlite_old_log},
};
