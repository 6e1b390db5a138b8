/*
 * The database's log as the stream engine uses it: what it is called for an outbox, whether it
 * can be read, how far it was, and what died on the way.
 */
#ifndef WH_OUTBOX_STREAM_H
#define WH_OUTBOX_STREAM_H

#include "db/stream.h"
#include "outbox/outbox.h"

enum { WH_WAL_NAME = 64 };

typedef struct wh_wal {
	wherry_outbox *box; /* borrowed */
	wh_sql sql;
	char slot[WH_WAL_NAME], publication[WH_WAL_NAME];
	char schema[WH_WAL_NAME], table[WH_WAL_NAME];
	char columns[256]; /* as wh_stream_options has them */
	bool keeps_ids;    /* the table has a column with numeric ids */
	bool own;          /* the publication has the name that Wherry gives it */
} wh_wal;

/*
 * @param slot, publication  "": a name made of the database's and the table's.
 * @return WHERRY_INVALID: there is no wal, or none of this layout.
 */
wherry_code wh_wal_open(wherry_outbox *box, const char *slot, const char *publication,
			wh_wal **out, wherry_error *err);
void wh_wal_close(wh_wal *wal);

typedef struct wh_wal_state {
	bool logical;           /* the server writes what is needed */
	bool may;               /* this role may read it */
	bool has_slot;          /* there is one of that name, */
	bool ours;              /* which is as it should be; */
	bool lost;              /* the server gave it up */
	char kind[WH_WAL_NAME]; /* its plugin, or what else it is */
	int64_t reader;         /* process that reads it; 0: none */
	int64_t retained;       /* bytes of log it keeps */
	int64_t behind_us; /* how long what is confirmed took; 0: not known, or nothing is
			      open */
	int64_t unread_us; /* nobody reads it since; 0: not known: before version 17 */
	int64_t confirmed, flushed; /* positions: the slot's, and the log's end */
	bool published, publishes_inserts, has_table;
	char left_out[128]; /* columns that the publication does not send; "": none */
	char filter[128];   /* which rows it sends; "": all */
} wh_wal_state;

wherry_code wh_wal_look(wh_wal *wal, wh_wal_state *out, wherry_error *err);

/* How long what is not delivered waits: 0, it does not. */
typedef struct wh_wal_lag {
	int64_t us;
	const char
		*by; /* what says so: "rows", "reader", "slot", "relay"; NULL: nothing */
} wh_wal_lag;

/* Where rows are marked they say it; elsewhere the slot's reader, and when there is none the
 * server, if it is of version 17, or the relay that was there last. */
wherry_code wh_wal_behind(wh_wal *wal, const wh_wal_state *state, wh_wal_lag *out,
			  wherry_error *err);

/* The state of a replication slot, for status, doctor and metrics. */
typedef struct wh_wal_watched {
	bool any; /* there is a slot, or something died on the way */
	char slot[WH_WAL_NAME];
	wh_wal_state state;
	int64_t behind; /* bytes of log that are not delivered, */
	wh_wal_lag lag; /* and for how long */
	int64_t dead;   /* messages that no row can say so of */
} wh_wal_watched;

wherry_code wh_wal_watch(wh_wal *wal, wh_wal_watched *out, wherry_error *err);

/* Refuse what keeps it from being read, with the way out.  Not that something is missing
 * which can be made, nor a slot that is lost. */
wherry_code wh_wal_check(const wh_wal *wal, const wh_wal_state *state, wherry_error *err);

/* Make the publication. */
wherry_code wh_wal_publish(wh_wal *wal, wherry_error *err);

/* Put the table into the publication that Wherry made for one of the same name. */
wherry_code wh_wal_publish_again(wh_wal *wal, wherry_error *err);

/* End the process that reads the slot, if it is a relay of the same user.  Only the holder of
 * the lease may call it. */
wherry_code wh_wal_take_over(wh_wal *wal, bool *out_ended, wherry_error *err);

/* Drop the slot; nobody may be reading it. */
wherry_code wh_wal_drop(wh_wal *wal, wherry_error *err);

/* Drop the publication. */
wherry_code wh_wal_unpublish(wh_wal *wal, wherry_error *err);
/* Make it, with nothing of before; waits for transactions that run. */
wherry_code wh_wal_make(wh_wal *wal, wherry_error *err);

typedef struct wh_wal_now {
	int64_t written; /* all that was visible before is before it */
	int64_t flushed;
} wh_wal_now;

wherry_code wh_wal_position(wh_wal *wal, wh_wal_now *out, wherry_error *err);

/* How many of these transactions, which have committed, are not visible yet. */
wherry_code wh_wal_unseen(wh_wal *wal, const uint32_t *xids, size_t n, int64_t *out_n,
			  wherry_error *err);

/* Where a relay that marks nothing was. */
typedef struct wh_wal_place {
	bool known;
	int64_t at;
	char slot[WH_WAL_NAME];
	int32_t tries;
	char suspect[64]; /* "": none */
} wh_wal_place;

wherry_code wh_wal_dead(wh_wal *wal, int64_t *out_n, wherry_error *err); /* how many */
wherry_code wh_wal_tables(wh_wal *wal, wherry_error *err); /* make them, if need be */
wherry_code wh_wal_place_of(wh_wal *wal, wh_wal_place *out, wherry_error *err);

/* A dead message, to be kept where no row can say so. */
typedef struct wh_dead {
	const wherry_message *message;
	const char *error;
} wh_dead;

/* Write, under the fence, what died, how far everything is delivered (0: the table is not, so that
 * there is no position yet) and which message is tried alone (NULL: none). */
wherry_code wh_wal_settle(wh_wal *wal, const wherry_lease *lease, const wh_dead *dead,
			  size_t n_dead, int64_t at, const char *suspect, int32_t tries,
			  wherry_error *err);

/* The position alone, and not to disk at once; *out_moved: false, it is another's, or a
 * message is being tried alone: wh_wal_settle() says what is the matter. */
wherry_code wh_wal_move(wh_wal *wal, const wherry_lease *lease, int64_t at,
			bool *out_moved, wherry_error *err);

#endif
