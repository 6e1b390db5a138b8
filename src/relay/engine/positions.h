/*
 * Shared by the files of the engine log: positions.c moves and writes the position, positions_read.c
 * looks at the table, feed.c reads the WAL, and positions_take.c takes in what they bring.
 */
#ifndef WH_RELAY_ENGINE_POSITIONS_H
#define WH_RELAY_ENGINE_POSITIONS_H

#include "log/subscription.h"
#include "relay/engine/engine.h"
#include "relay/engine/reader.h"
#include "relay/engine/taken.h"

/* The rows of one look, or that came by the WAL in one step. */
typedef struct wh_log_part {
	wh_position to; /* The position behind them; owned. */
	bool loose; /* Its rows came by the WAL: a later look moves the position behind them. */
	int64_t rows;
	int64_t open;    /* Messages of it in memory. */
	int64_t left_us; /* When the first of them was settled; 0: none was. */
} wh_log_part;

typedef struct wh_known {
	wh_exception what;
	int64_t due_us;
	bool met;
} wh_known;

typedef struct wh_log {
	wh_reader reader; /* First; see wh_reader_of(). */
	wh_cursor *cursor;
	wh_share share;   /* The position is that of this share. */
	bool begun;       /* The position was read. */
	bool reopened;    /* Compare the stored position with the one in memory. */
	wh_position read; /* Behind the last look. */
	wh_position done; /* All before it is delivered, or an exception. */
	bool moved;       /* It is not written yet. */
	/* The position that the database has, and the one that it may have: it did not answer. */
	wh_position written, writing;
	int64_t since; /* Rows that were read behind `done`. */
	/* Most rows of a look, since a row cannot be sent; doubled by each look that succeeds; 0: no limit. */
	int64_t careful;
	bool waits; /* A row has the id of another message in flight, and is read when that has left. */

	/* The looks that have open messages, in their order. */
	wh_log_part *looks;
	size_t first, n, cap;
	uint64_t base; /* Number of the first one. */

	/* Messages that wait and are not exceptions yet. */
	int64_t *held;
	size_t n_held, held_most;

	/* Exceptions that the position does not cover.  Earlier messages of their keys may be none, so
	 * they are taken in by the looks. */
	wh_known *known;
	size_t n_known, known_cap;
	bool short_of_memory;

	/* New rows from the WAL; NULL: relay.source=table.  And what came that `read` does not cover. */
	struct wh_feed *feed;
	wh_taken taken;
	bool feeding; /* Rows of the WAL are taken in. */

	/* Handlers may have marked messages as done that the database need not know any more once the
	 * position covers them. */
	bool marked;
} wh_log;

static inline wh_log *wh_log_of(const wherry_relay *r)
{
	return r->state;
}

/* Read where the last relay ended. */
wherry_code wh_log_load(wherry_relay *r, wherry_error *err);

/* The database may be another one, or have gone back to an earlier time: if the stored position is not the
 * one in memory, give up the lease.  STALE: it was given up. */
wherry_code wh_log_compare(wherry_relay *r, int64_t now, wherry_error *err);

/* May there be rows to read, and room for them? */
bool wh_log_may_look(const wherry_relay *r, int64_t now);

/* Read what the position does not cover, and take it in. */
wherry_code wh_log_look(wherry_relay *r, int64_t now, wherry_error *err);

/* ---- positions_take.c ---- */

/* Read the exceptions that the position does not cover. */
wherry_code wh_log_load_known(wherry_relay *r, wherry_error *err);

/* Rows that are taken in are of a new part, until it ends.  to: the position behind them; NULL: none.  The part is
 * forgotten if it has neither rows nor a position. */
wherry_code wh_log_add_part(wherry_relay *r, wherry_error *err);
wherry_code wh_log_end_part(wherry_relay *r, int64_t rows, const wh_position *to,
			    wherry_error *err);

/* A wh_open_fn that takes a row in.  ctx begins with a wh_log_taker.  INTERRUPTED: another message in flight has its
 * id. */
typedef struct wh_log_taker {
	wherry_relay *r;
	int64_t now;
} wh_log_taker;

wherry_code wh_log_meet(void *ctx, const wh_open_row *row, wherry_error *err);

/* Is it dead, or did its handler, or a relay before that read the WAL, say that it is done? */
bool wh_log_passed(const wherry_relay *r, int64_t id);

/* Take in a row that came by the WAL, unless wh_log_passed(). */
wherry_code wh_log_take(wherry_relay *r, int64_t now, const wh_row *row,
			wherry_error *err);

#endif
