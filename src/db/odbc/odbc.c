/*
 * Databases behind ODBC.  The connection string names the ODBC driver, and that driver
 * reports the database, whose dialect is used from then on.
 *
 * Nothing wakes a relay: it looks for rows at growing intervals, at last as often as
 * db.poll_interval says.  Before each look it rests for as long as its statements took since the
 * last look.  All times are UTC.  The whole result of a statement is in memory at once.
 */
#include "db/odbc/odbc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_LOOK_US = 1000 };

static void odbc_interrupt(wherry_db *db)
{
	odbc_db *s = (odbc_db *)db;

	(void)pthread_mutex_lock(&s->lock);
	if (s->running) {
		s->interrupted = true;
		if (!s->freetds)
			(void)SQLCancel(s->running);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

static void odbc_limit(wherry_db *db, int64_t until_us)
{
	odbc_db *s = (odbc_db *)db;

	if (!s->borrowed)
		s->limit_us = until_us == WH_NEVER ? 0 : until_us;
}

/* ---- statements ---- */

static wherry_code odbc_script(wherry_db *db, const char *sql, wherry_error *err)
{
	return wh_odbc_script((odbc_db *)db, sql, err);
}

static int64_t odbc_last_id(wherry_db *db)
{
	return ((odbc_db *)db)->last_id;
}

/* ---- looking for commits ---- */

static wherry_code odbc_watch(wherry_db *db, const wh_watch *whose, wherry_error *err)
{
	odbc_db *s = (odbc_db *)db;

	(void)whose;
	(void)err;
	s->watch.on = true;
	s->watch.step_us = FIRST_LOOK_US;
	s->watch.check_us = s->watch.spent_us = s->watch.looked_us = 0;
	return WHERRY_OK;
}

static int odbc_fd(wherry_db *db)
{
	(void)db;
	return -1;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* When to look again.  A relay of a slow server rests half of the time, for others.
 * Statements that go on, as for a message that is tried again and again, do not delay the
 * look for long. */
static int64_t next_look(const odbc_db *s)
{
	int64_t rested_us = s->watch.looked_us + least(s->watch.spent_us, WH_SECOND) +
			    least(s->watch.spent_us, ODBC_LOOK_US);

	return rested_us > s->watch.check_us ? rested_us : s->watch.check_us;
}

/* Commits cannot be noticed, so return true each time that it is time to look. */
static bool odbc_changed(wherry_db *db, const wh_look *look, int64_t *out_next_us)
{
	odbc_db *s = (odbc_db *)db;

	*out_next_us = WH_NEVER;
	if (!s->watch.on)
		return false;
	if (look->rows_read != s->watch.rows_read) {
		s->watch.rows_read = look->rows_read;
		s->watch.step_us = FIRST_LOOK_US;
	}
	if (look->now_us < next_look(s)) {
		*out_next_us = next_look(s);
		return false;
	}
	s->watch.spent_us = 0;
	s->watch.looked_us = look->now_us;
	s->watch.check_us = look->now_us + s->watch.step_us;
	s->watch.step_us *= 2;
	if (s->watch.step_us > s->watch.most_us)
		s->watch.step_us = s->watch.most_us;
	*out_next_us = s->watch.check_us;
	return true;
}

/* ---- the databases ---- */

#define ODBC_DRIVER                                                                      \
	.row = &wh_odbc_rows,                                                            \
	.transaction = {.begin = wh_odbc_begin,                                          \
			.commit = wh_odbc_commit,                                        \
			.rollback = wh_odbc_rollback,                                    \
			.is_open = wh_odbc_is_open},                                     \
	.commits = {.watch = odbc_watch, .fd = odbc_fd, .changed = odbc_changed}
#define ODBC_STATEMENT                                                                   \
	.run = wh_odbc_run, .script = odbc_script, .forget = wh_odbc_forget,             \
	.about_row = wh_odbc_about_row, .locked_out = wh_odbc_locked_out,                \
	.last_id = odbc_last_id
#define ODBC_CONNECTION                                                                  \
	.open = wh_odbc_open, .close = wh_odbc_close, .interrupt = odbc_interrupt

const wh_db_driver wh_odbc_postgres = {
	.scheme = "postgres",
	.late_commits = true,
	.failure_spreads = true,
	.connection = {ODBC_CONNECTION, .schema_of = wh_odbc_postgres_schema_of},
	.statement = {ODBC_STATEMENT, .code_of = wh_odbc_code_of},
	ODBC_DRIVER,
};

/* Many transactions take ids at once, before they commit.  A failed statement rolls its
 * transaction back with all savepoints (XACT_ABORT), so savepoints are of no use.  SQL
 * Server may lock the whole table if a statement has 5,000 locks on an index.  A row can
 * have two there, since its index entry may move. */
const wh_db_driver wh_db_mssql = {
	.scheme = "mssql",
	.late_commits = true,
	.reads_wait = true,
	.rows_most = 2000,
	.connection = {.check = wh_odbc_mssql_check,
		       .open = wh_odbc_open_mssql,
		       .close = wh_odbc_close,
		       .interrupt = odbc_interrupt,
		       .limit = odbc_limit,
		       .schema_of = wh_odbc_mssql_schema_of},
	.statement = {ODBC_STATEMENT, .code_of = wh_odbc_mssql_code_of},
	ODBC_DRIVER,
};

const wh_db_driver wh_db_odbc = {
	.scheme = "odbc",
	.connection = {ODBC_CONNECTION},
	.statement = {ODBC_STATEMENT, .code_of = wh_odbc_code_of},
	ODBC_DRIVER,
};
