/*
 * Messages in memory, from the moment they are read until what became of them is written.
 *
 * The rows of one read share a batch, which owns all their memory and goes when the last
 * of them is gone.
 */
#ifndef WH_RELAY_WINDOW_H
#define WH_RELAY_WINDOW_H

#include "base/arena.h"
#include "relay/keys.h"

typedef struct wh_batch wh_batch;

/* See stages.c. */
typedef enum wh_stage {
	WH_LOOSE,       /* On no list: it was just read, or is being decided upon. */
	WH_WAITING,     /* Behind another message of its key. */
	WH_READY,       /* It may be submitted. */
	WH_IN_FLIGHT,   /* It is submitted, no receipt has come yet. */
	WH_DYING,       /* It dies once the dead-letter destination has taken it. */
	WH_DEAD_LETTER, /* It is submitted there. */
	WH_SETTLED,     /* Its result is known, and not written yet. */
	WH_UNWRITABLE,  /* The database refused to write that; it is tried again. */
	WH_GONE,        /* It is forgotten once all receipts at hand are seen. */
	WH_STAGES
} wh_stage;

typedef enum wh_fate {
	WH_FATE_DONE,
	WH_FATE_FAILED, /* to be tried again after delay_us */
	WH_FATE_DEAD,
	WH_FATE_BACK /* pending again, or failed, for the relay that claims it next */
} wh_fate;

typedef struct wh_entry {
	wherry_message msg; /* first: a receipt names the entry by it */
	wh_batch *batch;
	wh_key *key;                  /* NULL: not ordered */
	struct wh_entry *next, *prev; /* in the list of its stage, or of its key */
	struct wh_entry *bucket_next; /* by id */
	int64_t order;   /* among all: its id, or the place at which it came */
	int64_t version; /* wh_db_version() before it was read; 0: not known */
	uint64_t tx;     /* its transaction in the stream; 0: it was read */
	wh_stage stage;
	wh_fate fate;
	int64_t delay_us;
	const char *error;                 /* in the batch's memory */
	const wherry_message *dead_letter; /* In the batch's memory; NULL: not made. */
	const char *poison; /* static: why it cannot be submitted and must die; or NULL */
	bool tried;         /* its attempt was recorded before it was submitted */
	bool untried;       /* and then it was not submitted: it had to die */
	bool probe;         /* submitted to see whether the destination is back */
	bool failed_probe;  /* It probed, and the destination did not take it. */
	bool uncounted;     /* It was refused, and that does not count as an attempt. */
	bool written;       /* its handler has acknowledged it */
	bool replaced;      /* its row is gone, and another message has its id */
	const char *heir;   /* of a claimed row: the message that has its id; or NULL */
	int losses;         /* of the connection while it was in flight; 2: suspect */
	int64_t lost_at;    /* what had been answered when it was lost last */
} wh_entry;

void wh_list_append(wh_list *list, wh_entry *e);
void wh_list_prepend(wh_list *list, wh_entry *e);
void wh_list_remove(wh_list *list, wh_entry *e);

/* Where it belongs by its order; nearly always at the end. */
void wh_list_insert(wh_list *list, wh_entry *e);

struct wh_batch {
	wh_batch *next;
	wh_arena arena;
	size_t n; /* entries alive */
};

typedef struct wh_window {
	wh_list ready, in_flight, dying, letters, settled, unwritable, gone;
	size_t n_undelivered; /* of the settled: whose fate is another than DONE */
	wh_entry **buckets;   /* by id; as many as the window holds, rounded up */
	size_t n_buckets;
	size_t n;        /* entries alive */
	int64_t added;   /* since the beginning */
	size_t bytes;    /* of the batches alive */
	wh_batch *spare; /* one kept for the next read */
	wh_batch *batch; /* the one being filled */
} wh_window;

wherry_code wh_window_init(wh_window *w, size_t most, wherry_error *err);
void wh_window_empty(wh_window *w); /* forget all that is in it; takes no memory */
void wh_window_clear(wh_window *w);

/* Open a batch for the rows of one read; close it when they are in. */
wherry_code wh_window_begin(wh_window *w, wherry_error *err);
void wh_window_end(wh_window *w);

/* Copy a row into the open batch; NULL: out of memory. */
wh_entry *wh_window_add(wh_window *w, const wh_open_row *row);
wh_entry *wh_window_find(const wh_window *w, int64_t id);

/* Memory that lives as long as the entry's batch; NULL: out of memory. */
void *wh_window_alloc(wh_window *w, wh_entry *e, size_t n);

/* A copy of text that lives as long as the entry's batch; NULL: out of memory. */
const char *wh_window_copy(wh_window *w, wh_entry *e, const char *text);

/* Of none it is known any more what version of the database it was read from. */
void wh_window_forget_versions(wh_window *w);

/* The lowest id in memory, INT64_MAX if there is none.  Walks all of them. */
int64_t wh_window_lowest(const wh_window *w);

/* The ids in memory above one and up to another; out has room for as many as the window
 * holds.  Walks all of them. */
size_t wh_window_ids(const wh_window *w, int64_t above, int64_t upto, int64_t *out);

/* Forget an entry, which is in no list. */
void wh_window_drop(wh_window *w, wh_entry *e);

#endif
