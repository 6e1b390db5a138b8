/*
 * What every destination promises, written once: each promise is a test, run on every back
 * end.
 *
 * A back end is a row of functions: how to start what messages are delivered to, in
 * another process where that can be, how to make it refuse, hang and die, and what has
 * arrived there.  It says what it can play; tests of the rest are left out.
 *
 * Message n of a test has the message id "m-n", a body that begins with its number, and
 * the topic "conformance".
 */
#ifndef PUBLISHER_SUITE_H
#define PUBLISHER_SUITE_H

#include "wherry_test.h"

#include <wherry/wherry.h>

#include "publish/driver.h"

/* What a destination shall make of a message. */
typedef enum publisher_fate {
	FATE_REJECTED,  /* refuse it for good: WHERRY_REJECTED */
	FATE_OVERSIZED, /* it is too large: WHERRY_REJECTED */
	FATE_RETRY,     /* not now: WHERRY_RETRY */
	FATE_THROTTLED, /* slower: WHERRY_THROTTLED */
	FATE_UNKNOWN,   /* no answer within the delivery timeout: WHERRY_UNKNOWN */
	FATE_COUNT
} publisher_fate;

typedef enum publisher_play {
	PLAY_WELL, /* as it should, at the same address as ever, with all that arrived */
	PLAY_KILLED, /* gone at once, its connections too */
	PLAY_HANGS,  /* takes what it is sent and answers nothing */
	PLAY_DENIES /* refuses the credentials, or the right to write, whatever is sent */
} publisher_play;

typedef struct publisher_backend {
	const char *name; /* stands before the names of its tests */
	size_t many;      /* messages that it takes in a second or two; 0: 1000 */

	unsigned plays; /* 1 << PLAY_… */
	unsigned alone; /* 1 << FATE_…: what a message that is sent by itself may meet */
	unsigned mixed; /* 1 << FATE_…: what one may meet among others that are well */
	bool cancels;   /* it ends what is in flight when it is asked to */

	/* Start it, well; url receives what a publisher of it is opened with.  Given, stop()
	 * it.  NULL: it cannot run here, and all its tests are passed over. */
	void *(*start)(char *url, size_t cap);
	void (*stop)(void *place);

	/* Settings that its publisher needs.  NULL: none. */
	void (*prepare)(void *place, wherry_config *config);

	/* See publisher_play.  NULL: it can nothing. */
	void (*play)(void *place, publisher_play how);

	/* Change a message, or tell the server of it, so that this becomes of it each time it
	 * is sent.  text is room for what the message borrows.  NULL: it can nothing. */
	void (*doom)(void *place, publisher_fate fate, wherry_message *msg, char *text,
		     size_t cap);

	/* The numbers of the messages that have arrived, of one key in their order, with
	 * repetitions; how many there are, at most cap.  pub is open.  NULL: nobody knows. */
	size_t (*arrived)(void *place, wherry_publisher *pub, int *numbers, size_t cap);
} publisher_backend;

/* Run the tests of these back ends; for main(). */
int publisher_suite_run(const publisher_backend *const *backends, size_t n);

/* ---- for the suite ---- */

enum { MESSAGES_MOST = 2000, DOOMED_CAP = 2 << 20 };

/* Where one message is on its course. */
typedef struct publisher_leg {
	enum { LEG_READY, LEG_IN_FLIGHT, LEG_OVER } stage;
	bool behind; /* it was in flight when one before it in its key failed */
	int receipts[WHERRY_UNKNOWN + 1]; /* by verdict, but for those behind another */
	wh_receipt last;                  /* the last one */
	int64_t ready_us;                 /* not before */
} publisher_leg;

typedef struct publisher_fixture {
	const publisher_backend *backend;
	void *place;
	char url[1024];
	wherry_config *config;
	wherry_publisher *pub;
	wherry_message messages[MESSAGES_MOST]; /* [n] is message n */
	char texts[MESSAGES_MOST][48];
	publisher_leg legs[MESSAGES_MOST];
	size_t n, n_keys; /* 0 keys: they have none */
	size_t n_over, n_errors;
	size_t n_denied;    /* receipts that say so */
	wherry_error error; /* the destination's last */
	wherry_error first_error;
	char *doomed; /* what a doomed message borrows */
	size_t bad;   /* which one that is, counted from 1: it has one attempt */

	/* Called by suite_course() again and again; may play. */
	void (*meanwhile)(struct publisher_fixture *f);
} publisher_fixture;

/* Make n messages, with keys k0, k1, … in turn. */
void suite_messages(publisher_fixture *f, size_t n, size_t n_keys);

void suite_set(publisher_fixture *f, const char *key, const char *value);
void suite_open(publisher_fixture *f);

/*
 * What a relay does, without a database: hand over in order, one message per key at once
 * where the publisher is not ordered; send again what came back, ahead of its key; open
 * anew after an error.  Until all are over.
 */
void suite_course(publisher_fixture *f);

/* Each message that was delivered is there, no other, and of each key the first arrivals
 * are in order. */
void suite_arrivals(publisher_fixture *f);

/* Poll for what the publisher waits for, for at most a twentieth of a second. */
void suite_wait(publisher_fixture *f);

#endif
