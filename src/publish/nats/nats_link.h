/*
 * A link, as its thread and libnats' threads see it.
 */
#ifndef WH_PUBLISH_NATS_LINK_H
#define WH_PUBLISH_NATS_LINK_H

#include <pthread.h>
#include <stdatomic.h>

#include "publish/nats/nats.h"

typedef enum wh_nats_making {
	WH_NATS_MAKING,
	WH_NATS_MADE,
	WH_NATS_NOT_MADE
} wh_nats_making;

enum { WH_NATS_HEARD = 64 };

typedef struct wh_nats_answers {
	wh_nats_answer *all;
	size_t n, cap;
} wh_nats_answers;

struct wh_nats_link {
	wh_nats_settings *set;
	pthread_t thread;
	int answers_fd; /* Readable: there are answers, or the link failed. */
	int wake_fd;    /* Wakes the thread. */
	char inbox[WH_NATS_REPLY_LEN - 24];

	/* The thread's. */
	natsConnection *connection;
	natsSubscription *replies;
	bool writing; /* libnats has bytes to write. */

	/* libnats' thread's: answers that it has not yet given to the relay. */
	wh_nats_answer heard[WH_NATS_HEARD];
	size_t n_heard;

	atomic_size_t
		max_payload; /* The most bytes of a message that the server takes; 0: it has not said so yet. */

	pthread_mutex_t lock; /* Guards the rest. */
	pthread_cond_t changed;
	int sock; /* -1: not connected */
	bool leaving, abandoned, ended;
	bool subscribed, deaf; /* deaf: no answer will be delivered any more. */
	bool connected, closed;
	wh_nats_making stream;
	wherry_error error; /* OK: it has not failed. */
	wh_nats_batch *out, *last_out;
	wh_nats_answers answers;

	wh_nats_answers lent; /* The relay's: what it took last. */
};

/* Make a descriptor readable. */
void wh_nats_ring(int fd);
void wh_nats_hush(int fd);

/* The link has failed.  The first error is kept. */
void wh_nats_link_fail(wh_nats_link *link, const wherry_error *why);

/* Give answers to the relay, which frees their texts. */
void wh_nats_link_push(wh_nats_link *link, const wh_nats_answer *answers, size_t n);

/* Free a link whose thread has ended. */
void wh_nats_link_destroy(wh_nats_link *link);

#endif
