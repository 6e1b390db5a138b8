/*
 * A stream of commits, read on a separate connection while the server writes its WAL.  Only
 * PostgreSQL has one, by logical replication.
 *
 * Only wh_stream_open(), start() and rows() wait, each for a round trip or the time to
 * connect.  The stream confirms only positions that its caller reports as delivered; the
 * server keeps its WAL from there on.
 */
#ifndef WH_DB_STREAM_H
#define WH_DB_STREAM_H

#include "db/driver.h"

typedef struct wh_stream wh_stream;

/* Where the log is read, and whose rows; all borrowed for the call. */
typedef struct wh_stream_options {
	const char *slot;           /* the replication slot's name */
	const char *publication;    /* selects the tables and rows that are sent */
	const char *schema, *table; /* rows of others are passed over */
	const char
		*columns; /* "id,status,,topic": what rows have, by place; empty: NULL */
	int64_t confirm_us; /* how often a moving position is sent, at most */
	bool create;        /* make the slot; begins then */
	bool snapshot;      /* and be ready to read what was visible then: rows() */
} wh_stream_options;

typedef enum wh_stream_kind {
	WH_STREAM_NOTHING, /* has come yet */
	WH_STREAM_OTHERS,  /* what did is of other tables: there may be more */
	WH_STREAM_BEGIN,   /* a transaction that has committed */
	WH_STREAM_ROW,     /* one that it inserted */
	WH_STREAM_END,     /* of the transaction */
	WH_STREAM_PLACE    /* nothing before this position is still to come */
} wh_stream_kind;

/* Positions are bytes of the log. */
typedef struct wh_stream_event {
	wh_stream_kind kind;
	int64_t at; /* BEGIN: of the commit; END: behind it; ROW: of the row; PLACE */
	int64_t committed_us; /* BEGIN, END: Unix time */
	uint32_t xid;         /* BEGIN: of the transaction */
	size_t len;           /* bytes that came */
	wh_row row; /* ROW: borrowed until the next call; texts do not end in NUL */
} wh_stream_event;

typedef struct wh_stream_driver {
	void (*close)(wh_stream *s);

	/* Is the slot made that was asked for?  Making one waits for transactions that run. */
	wherry_code (*ready)(wh_stream *s, bool *out_ready, wherry_error *err);

	bool (*has_rows)(const wh_stream *s); /* may more be read with this? */
	/* Rows that were visible when the slot was made: up to `limit` rows of this SELECT, with
	 * the columns of the options; *out_more: there may be more.  Call it before start(). */
	wherry_code (*rows)(wh_stream *s, const char *select, int64_t limit,
			    wh_row_fn visit, void *ctx, bool *out_more,
			    wherry_error *err);

	/* Begin behind this position, or behind what was confirmed if that is later. */
	wherry_code (*start)(wh_stream *s, int64_t from, wherry_error *err);

	/* Take one of what has come: how much at once is the caller's to say. */
	wherry_code (*next)(wh_stream *s, wh_stream_event *out, wherry_error *err);

	/* Confirm that everything up to `delivered` is delivered, which also shows that this side is
	 * alive.  `ask`: request the server's position.  Also answers the server when it asked for a
	 * reply, or when one is due. */
	wherry_code (*confirm)(wh_stream *s, int64_t now_us, int64_t delivered, bool ask,
			       wherry_error *err);

	int64_t (*deadline)(const wh_stream *s); /* of the next confirm() */
	int (*fd)(const wh_stream *s, short *out_events);
	bool (*waiting)(
		const wh_stream *s); /* more may be in memory: do not poll for it */
} wh_stream_driver;

struct wh_stream {
	const wh_stream_driver *driver;
};

/* Open one beside a connection, to the same database as the same user. */
wherry_code wh_stream_open(wherry_db *db, const wh_stream_options *options,
			   wh_stream **out, wherry_error *err);

void wh_stream_close(wh_stream *s); /* NULL is fine */

#endif
