/*
 * Rows that are not delivered yet, as the statements of every model return them to a
 * relay, with these columns: id, state, attempts, created_at, due_in,
 * message_id, topic, aggregate_type, aggregate_id, key, headers, trace_id, body.
 */
#ifndef WH_STORE_OPEN_ROW_H
#define WH_STORE_OPEN_ROW_H

#include <wherry/message.h>

#include "store/store.h"

/* Their columns, in order. */
enum {
	WH_OPEN_ID,
	WH_OPEN_STATUS,
	WH_OPEN_ATTEMPTS,
	WH_OPEN_CREATED_AT,
	WH_OPEN_DUE_IN,
	WH_OPEN_MESSAGE_ID,
	WH_OPEN_TOPIC,
	WH_OPEN_AGGREGATE_TYPE,
	WH_OPEN_AGGREGATE_ID,
	WH_OPEN_KEY,
	WH_OPEN_HEADERS,
	WH_OPEN_TRACE_ID,
	WH_OPEN_PAYLOAD,
	WH_OPEN_COLUMNS
};

/* Limits of a row that a relay handles; row_problem.c has their error messages.  The tables on SQLite and SQL Server
 * refuse most rows beyond them, those on PostgreSQL ids alone. */
enum { WH_TEXT_MOST = 1024 * 1024, WH_COUNT_MOST = 1000000000 };
#define WH_TIME_MOST_US 253402300800000000LL /* The year 10000. */

/* An open row, valid during the visit.  Its strings are borrowed. */
typedef struct wh_open_row {
	int64_t id;
	wherry_state state;
	int32_t attempts;
	int64_t created_at_us;
	int64_t due_in_us; /* Time until it may be tried again; 0: now. */
	wh_view message_id, topic, aggregate_type, aggregate_id, key, headers, trace_id;
	/* Name of a column that should be an integer and is not; NULL: none. */
	const char *odd;
	/* The database's message if it could not send the row, which then has no texts;
	 * NULL: it could. */
	const char *unreadable;
	bool no_body;      /* The body was not read. */
	const wh_row *row; /* Used by wh_open_body(). */
	int first;         /* Its first column in `row`. */
} wh_open_row;

typedef wherry_code (*wh_open_fn)(void *ctx, const wh_open_row *row, wherry_error *err);

/* The body of the row that is being visited.  It is read only by this call. */
wh_view wh_open_body(const wh_open_row *row);

/* Context of wh_take_open(): who visits the rows. */
typedef struct wh_open_reader {
	wh_open_fn visit;
	void *ctx;
	int64_t n;    /* Number of rows visited. */
	int64_t last; /* Id of the last visited row. */
} wh_open_reader;

/* A wh_row_fn for statements with the columns above; ctx is a wh_open_reader. */
wherry_code wh_take_open(void *ctx, const wh_row *row, wherry_error *err);

/* Like wh_take_open(), for a statement with more columns in front of these. */
wherry_code wh_take_open_at(wh_open_reader *v, int first, const wh_row *row,
			    wherry_error *err);

/* Like wh_take_open(), for a row that is known by another id. */
wherry_code wh_take_open_as(wh_open_reader *v, int64_t id, const wh_row *row,
			    wherry_error *err);

#endif
