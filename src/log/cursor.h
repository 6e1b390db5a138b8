/*
 * Reads a log exactly: a table that producers only append to.
 *
 * Ids are given before a transaction commits, so "everything up to this id" is not what was
 * read.  A position therefore also has the snapshot of the statement that read last:
 *
 *       id  ▲        read            │  not read
 *           │                        │
 *     high ─┼────────────────────────┴───────────
 *           │  read  │ late: the snapshot did not
 *           │        │ see their transactions
 *           └────────┴──────────────────────────► transactions
 *
 * A look reads the late rows and those above `high` in one statement and thus in one snapshot,
 * which becomes that of the position.  If more rows are late than a look may return, a *round*
 * reads them page by page, up to the snapshot of the look that found them; rows above `high`
 * wait for its end, so that messages of a key stay in the order in which they became visible.
 *
 * On SQLite commits are in the order of ids: there are no snapshots and no late rows.
 *
 * On SQL Server a position is a row version.  Rows wait until no transaction with a lower version
 * is open, so none is late.
 */
#ifndef WH_LOG_CURSOR_H
#define WH_LOG_CURSOR_H

#include "db/driver.h"

/* Position up to which rows were read.  The caller stores it, in the transaction that takes the rows
 * over, or after they are delivered. */
typedef struct wh_position {
	int64_t high; /* Highest id read; on SQL Server, the last row version. */
	char *seen; /* Snapshot; on SQL Server, identity of the table; owned.  NULL on SQLite. */

	/* A round; until is NULL: none. */
	char *until;  /* Snapshot that it reads up to; owned. */
	int64_t late; /* Id of the last row that it read. */
} wh_position;

#define WH_POSITION_START ((wh_position){0})

void wh_position_clear(wh_position *at);

/* Set *out to a copy.  NOMEM leaves *out cleared. */
wherry_code wh_position_copy(wh_position *out, const wh_position *from,
			     wherry_error *err);

/* Had this transaction ended when the snapshot was taken?  snapshot: a text of PostgreSQL, "xmin:xmax:open,open". */
bool wh_snapshot_sees(const char *snapshot, uint64_t tx);

/* All transactions below this one had ended when the snapshot was taken; and the first one that had not begun. */
uint64_t wh_snapshot_xmin(const char *snapshot);
uint64_t wh_snapshot_xmax(const char *snapshot);

/* Was this committed row read?  On PostgreSQL alone. */
bool wh_position_covers(const wh_position *at, int64_t id, uint64_t tx);

/* A row of the log; borrowed for the visit.  The columns of its message begin at
 * WH_LOG_MESSAGE. */
enum { WH_LOG_MESSAGE = 6 };

typedef struct wh_log_row {
	int64_t id;
	int64_t at; /* See `high` of a position. */
	/* No position is between it and the row before, as with rows that one statement wrote on Babelfish: take both or
	 * none. */
	bool with_last;
	const wh_row *row;
} wh_log_row;

/* Take a row.  INTERRUPTED: there is no room for it; it is read again, and the rows before it
 * are not, except those with which it has to be taken. */
typedef wherry_code (*wh_log_fn)(void *ctx, const wh_log_row *row, wherry_error *err);

/* Event of the table since the last read. */
typedef enum wh_log_event {
	WH_LOG_SAME,
	/* Nothing was read: the table was restored on another server, and the numbers of its
	 * transactions mean nothing there.  Call wh_cursor_renumber(). */
	WH_LOG_RESTORED,
	/* The table was made again, or copied from another database.  It was read from its start. */
	WH_LOG_REPLACED
} wh_log_event;

/* Result of a read. */
typedef struct wh_log_found {
	wh_log_event event;
	/* There may be more rows.  False: every committed row was read; on SQL Server, except those
	 * that wait for an open transaction. */
	bool more;
} wh_log_found;

enum { WH_LOG_LIMITS = 4 };

typedef struct wh_cursor {
	wherry_db *db;
	wh_sql own; /* Statements of a table without a layout. */
	/* Further parameters of the statements that read: limits of the texts of a row, and the caller's
	 * share. */
	wh_param limits[WH_LOG_LIMITS];
	size_t n_limits;
	const wh_stmt *look, *now;
	/* NULL on a database without late rows. */
	const wh_stmt *late_start, *late_page, *renumber;
} wh_cursor;

/* table: its name, unquoted; schema: NULL if the database has none. */
wherry_code wh_cursor_open(wherry_db *db, const char *schema, const char *table,
			   wh_cursor **out, wherry_error *err);

/* The same over a table whose layout has the statements; `sql` is borrowed. */
wherry_code wh_cursor_open_layout(wherry_db *db, const wh_sql *sql, wh_cursor **out,
				  wherry_error *err);
void wh_cursor_close(wh_cursor *c);

/*
 * Read the rows after a position.
 *
 * Visits at most `limit` late rows and as many others, in the order of their ids (on SQL Server, of
 * their versions), and sets *at to the position behind them.  A row is read again only if the new
 * position is not stored; on SQL Server, also after its owner changed it.
 *
 * Transaction: none, or one that wrote nothing to the log; a transaction sees what it wrote
 * itself, and its snapshot does not say so.
 *
 * @return WHERRY_OK, also if visit ended the read with INTERRUPTED; what a read can fail with;
 *         what visit returned.  On failure *at is as before.  A row that the database cannot send
 *         makes a read fail (wh_db_about_row()) unless others were visited before it.
 */
wherry_code wh_cursor_read(wh_cursor *c, wh_position *at, int64_t limit, wh_log_fn visit,
			   void *ctx, wh_log_found *out, wherry_error *err);

/*
 * Give the rows of a restored table numbers that mean something on this server.
 *
 * Rows that producers wrote there before the first read cannot be distinguished from restored ones.  They
 * are read, unless somebody gave them ids below the position.
 *
 * Transaction: call it first in a transaction, and store *at in the same one.  The old position says
 * nothing about the new numbers.
 *
 * @return WHERRY_OK, also on a database without such numbers; what a write can fail with.
 */
wherry_code wh_cursor_renumber(wh_cursor *c, wh_position *at, wherry_error *err);

/* The position behind all rows that are committed now, exact to the transaction; on SQL Server, before
 * the first row of a transaction that is open.  Clears and sets *out. */
wherry_code wh_cursor_end(wh_cursor *c, wh_position *out, wherry_error *err);

/* The position behind all rows up to an id that are committed now: rows with a higher id are
 * read, and rows that are committed later. */
wherry_code wh_cursor_after(wh_cursor *c, int64_t id, wh_position *out,
			    wherry_error *err);

#endif
