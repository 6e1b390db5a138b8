/*
 * A stream of committed rows, read from the server's WAL on a separate connection.  Only
 * PostgreSQL has one, by logical replication.
 *
 * Only wh_stream_open(), start() and rows() wait, each for a round trip or for
 * connecting.  The stream confirms only positions that its caller reports as delivered.
 * The server keeps its WAL from the confirmed position on.
 */
#ifndef WH_DB_STREAM_H
#define WH_DB_STREAM_H

#include "db/driver.h"

typedef struct wh_stream wh_stream;

/* Which slot to read, and which rows.  Texts are borrowed for the call. */
typedef struct wh_stream_options {
	const char *slot; /* Name of the replication slot. */
	/* Name of the publication, which selects tables and rows. */
	const char *publication;
	const char *schema, *table; /* Rows of other tables are skipped. */
	/* Names of the columns of a visited row, in order, such as "id,status,,topic".
	 * An empty name: the column is NULL. */
	const char *columns;
	/* Shortest time between two confirmations of a moving position. */
	int64_t confirm_us;
	bool create; /* Create the slot; the stream begins there. */
	/* With `create`: the slot ends with the connection.  The number of the server's process is added to its name,
	 * which wh_stream_driver.slot returns. */
	bool temporary;
	/* With `create`: let rows() read the rows that were visible when the slot was
	 * created. */
	bool snapshot;
} wh_stream_options;

typedef enum wh_stream_kind {
	WH_STREAM_NOTHING, /* Nothing has arrived. */
	/* A message that does not concern the caller; more may follow. */
	WH_STREAM_OTHERS,
	WH_STREAM_BEGIN,   /* Begin of a committed transaction. */
	WH_STREAM_ROW,     /* A row that the transaction inserted. */
	WH_STREAM_END,     /* End of the transaction. */
	WH_STREAM_POSITION /* No event below this position will follow. */
} wh_stream_kind;

/* An event of the stream.  Positions are bytes of the WAL. */
typedef struct wh_stream_event {
	wh_stream_kind kind;
	/* BEGIN: position of the commit; END: end of the transaction; ROW: of the row;
	 * POSITION: see above. */
	int64_t at;
	int64_t committed_us; /* BEGIN, END: Unix time of the commit. */
	uint32_t xid;         /* BEGIN: number of the transaction. */
	size_t len;           /* Bytes that were received. */
	wh_row row; /* ROW: borrowed until the next call.  Texts do not end in NUL. */
} wh_stream_event;

typedef struct wh_stream_driver {
	void (*close)(wh_stream *s);

	/* Has the server created the slot that was requested?  It first waits until
	 * running transactions have ended. */
	wherry_code (*ready)(wh_stream *s, bool *out_ready, wherry_error *err);

	const char *(*slot)(const wh_stream *s); /* Name of the slot. */

	bool (*has_rows)(const wh_stream *s); /* Can rows() read more rows? */
	/* Visit up to `limit` rows of this SELECT, which has the columns of the options.
	 * It sees what was visible when the slot was created.  *out_more: there may be
	 * more.  Call it before start(). */
	wherry_code (*rows)(wh_stream *s, const char *select, int64_t limit,
			    wh_row_fn visit, void *ctx, bool *out_more,
			    wherry_error *err);

	/* Start the stream after this position, or after the confirmed position if that
	 * is higher. */
	wherry_code (*start)(wh_stream *s, int64_t from, wherry_error *err);

	/* Return the next event that has arrived, without waiting. */
	wherry_code (*next)(wh_stream *s, wh_stream_event *out, wherry_error *err);

	/* Confirm that everything up to `delivered` is delivered; this also tells the
	 * server that the reader is alive.  Sends a message only if the server asked for
	 * one, if one is due or with `ask`.  `ask`: request the server's position. */
	wherry_code (*confirm)(wh_stream *s, int64_t now_us, int64_t delivered, bool ask,
			       wherry_error *err);

	/* When confirm() must be called next. */
	int64_t (*deadline)(const wh_stream *s);
	int (*fd)(const wh_stream *s, short *out_events);
	/* More events may be in memory: call next() instead of polling. */
	bool (*waiting)(const wh_stream *s);
} wh_stream_driver;

struct wh_stream {
	const wh_stream_driver *driver;
};

/* Open a stream on a new connection, to the same database and as the same user as
 * `db`. */
wherry_code wh_stream_open(wherry_db *db, const wh_stream_options *options,
			   wh_stream **out, wherry_error *err);

void wh_stream_close(wh_stream *s); /* s may be NULL. */

#endif
