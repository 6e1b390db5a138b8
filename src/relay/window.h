/*
 * The messages in memory: from the read of a row until the result of its message is
 * written.
 *
 * The rows of one read share a batch, which owns all their memory.  The batch is freed
 * with its last message.
 */
#ifndef WH_RELAY_WINDOW_H
#define WH_RELAY_WINDOW_H

#include "base/arena.h"
#include "relay/keys.h"

typedef struct wh_batch wh_batch;

/* See stages.c. */
typedef enum wh_stage {
	WH_UNLISTED, /* On no list: it was just read, or its next stage is being decided. */
	WH_WAITING,     /* In the queue of its key, behind another message. */
	WH_READY,       /* May be submitted. */
	WH_IN_FLIGHT,   /* Submitted, without a receipt yet. */
	WH_DYING,       /* To be submitted to the dead-letter destination. */
	WH_DEAD_LETTER, /* Submitted to the dead-letter destination. */
	WH_SETTLED,     /* Its result is known and not written yet. */
	WH_UNWRITABLE,  /* The database refused to write its result; it is retried. */
	WH_GONE,        /* Freed when all current receipts are processed. */
	WH_STAGES
} wh_stage;

typedef enum wh_fate {
	WH_FATE_DONE,
	WH_FATE_FAILED, /* To be tried again after delay_us. */
	WH_FATE_DEAD,
	WH_FATE_BACK /* Not tried: given back, for the next relay that claims it. */
} wh_fate;

/* A message in memory. */
typedef struct wh_entry {
	wherry_message msg;
	wh_batch *batch;
	wh_key *key;                  /* NULL: the message has no ordering key. */
	struct wh_entry *next, *prev; /* In the list of its stage, or of its key. */
	struct wh_entry *bucket_next; /* In the hash bucket of its id. */
	int64_t order; /* Its position in the order of delivery: its id, or its place. */
	int64_t version; /* wh_db_version() before its row was read; 0: unknown. */
	/* Number of its transaction in the stream; 0: the row was read from the table. */
	uint64_t tx;
	wh_stage stage;
	wh_fate fate;
	int64_t delay_us;
	const char *error; /* Why it failed or died; in the batch's memory. */
	/* Its dead letter, in the batch's memory; NULL: not made. */
	const wherry_message *dead_letter;
	/* Why it cannot be submitted and must die; NULL: it can be submitted. */
	const char *poison;
	/* All of a message that cannot be submitted, if no row keeps it; else NULL: msg lacks its
	 * body, and texts that are too long or not UTF-8.  In the batch's memory. */
	const wherry_message *whole;
	bool tried;     /* Its attempt was recorded in its row before it was submitted. */
	bool take_back; /* The attempt does not count: a recorded one is taken back. */
	bool probe;     /* It was submitted to see whether the destination is up again. */
	/* The connection was lost while it probed; it takes no room in the window. */
	bool failed_probe;
	bool not_counted; /* It was refused, which does not count as an attempt. */
	/* The message's handler has already acknowledged it in the database. */
	bool written;
	/* Others have locked its row; and its key knows so. */
	bool locked, passed;
	bool replaced; /* Its row is gone, and the row of another message has its id. */
	/* Message id of another claimed row with its id, to be given back; NULL: none. */
	const char *second_claim;
	int losses; /* Connection losses while it was in flight; from 2 on: suspect. */
	int64_t lost_at; /* wh_destination.answered when the connection was last lost. */
} wh_entry;

void wh_list_append(wh_list *list, wh_entry *e);
void wh_list_prepend(wh_list *list, wh_entry *e);
void wh_list_remove(wh_list *list, wh_entry *e);

/* Insert an entry by its order; nearly always at the end. */
void wh_list_insert(wh_list *list, wh_entry *e);

struct wh_batch {
	wh_batch *next;
	wh_arena arena;
	size_t n;   /* Messages that use it, plus 1 while it is open for more rows. */
	bool again; /* Its rows were in memory before and are read again. */
};

typedef struct wh_window {
	wh_list ready, in_flight, dying, dead_letters, settled, unwritable, gone;
	size_t n_undelivered; /* Settled messages whose fate is not DONE. */
	wh_entry **buckets;   /* Hash table by id. */
	size_t n_buckets;
	size_t n;      /* Messages in memory. */
	int64_t added; /* Messages taken in since the window was made. */
	size_t bytes;  /* Memory of all batches. */
	/* Of bytes: memory of messages that failed before, or wait behind such a one. */
	size_t bytes_again;
	wh_batch *spare; /* An empty batch, kept for the next read. */
	wh_batch *batch; /* The open batch. */
} wh_window;

wherry_code wh_window_init(wh_window *w, size_t most, wherry_error *err);
/* Forget all messages.  Needs no memory, so it cannot fail. */
void wh_window_empty(wh_window *w);
void wh_window_clear(wh_window *w);

/* Open a batch for the rows of one read.  After the last row, close it. */
wherry_code wh_window_begin(wh_window *w, wherry_error *err);
/* The same for rows that were in memory before. */
wherry_code wh_window_begin_again(wh_window *w, wherry_error *err);
void wh_window_end(wh_window *w);

/* Keep all of the row in e->whole; texts that are not UTF-8 are escaped.  False: out of memory. */
bool wh_window_keep(wh_window *w, wh_entry *e, const wh_open_row *row);

/* Copy a row into the open batch; NULL: out of memory. */
wh_entry *wh_window_add(wh_window *w, const wh_open_row *row);
wh_entry *wh_window_find(const wh_window *w, int64_t id);

/* Memory that lives as long as the entry's batch; NULL: out of memory. */
void *wh_window_alloc(wh_window *w, wh_entry *e, size_t n);

/* A copy of text that lives as long as the entry's batch; NULL: out of memory. */
const char *wh_window_copy(wh_window *w, wh_entry *e, const char *text);

/* Set the version of every message to 0 (unknown), after the database was reopened. */
void wh_window_forget_versions(wh_window *w);

/* The lowest id in memory; INT64_MAX: none.  Visits all messages. */
int64_t wh_window_lowest(const wh_window *w);

/* Forget an entry that is on no list. */
void wh_window_drop(wh_window *w, wh_entry *e);

#endif
