/*
 * Rows that are not delivered yet, as the statements of every model return them to a relay:
 * id, state, attempts, generation, created_at, due_in, message_id, topic, aggregate_type,
 * aggregate_id, key, headers, trace_id, body.
 */
#ifndef WH_STORE_OPEN_ROW_H
#define WH_STORE_OPEN_ROW_H

#include <wherry/message.h>

#include "store/store.h"

/* Limits of a row that a relay handles; src/relay/flaw.c has the texts.  The native schemas say
 * the same in their constraints. */
enum { WH_TEXT_MOST = 1024 * 1024, WH_COUNT_MOST = 1000000000 };
#define WH_TIME_MOST_US 253402300800000000LL /* the year 10000 */

/* An open row while it is visited; strings are borrowed for the visit. */
typedef struct wh_open_row {
	int64_t id;
	wherry_state state;
	int32_t attempts;
	int32_t generation;
	int64_t created_at_us;
	int64_t due_in_us; /* until it may be tried again, 0: now */
	wh_view message_id, topic, aggregate_type, aggregate_id, key, headers, trace_id;
	const char *odd; /* a column that should be an integer and is not; or NULL */
	const char *
		unreadable; /* the database's message; then there are no texts; or NULL */
	bool no_body;       /* the body is left out */
	const wh_row *row;  /* for wh_open_body() */
} wh_open_row;

typedef wherry_code (*wh_open_fn)(void *ctx, const wh_open_row *row, wherry_error *err);

/* The body of the row being visited: read only when asked for. */
wh_view wh_open_body(const wh_open_row *row);

/* What wh_take_open() gives rows to. */
typedef struct wh_open_reader {
	wh_open_fn visit;
	void *ctx;
	int64_t n;    /* rows */
	int64_t last; /* id visited */
} wh_open_reader;

/* A wh_row_fn for statements that return the columns above; ctx is a wh_open_reader. */
wherry_code wh_take_open(void *ctx, const wh_row *row, wherry_error *err);

/* The same for a row that is known by this id. */
wherry_code wh_take_open_as(wh_open_reader *v, int64_t id, const wh_row *row,
			    wherry_error *err);

#endif
