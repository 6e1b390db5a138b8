/*
 * A destination that a test holds in its hands: it says what can be done (ordered or not),
 * takes as much as the test lets it, and answers when and as the test says.
 *
 * It keeps an ordered destination's word, whatever the test says: once it refused a
 * message, those of its key that it takes until it told so are refused too; and once it
 * delivered one, those of its key before it are delivered.
 */
#ifndef RELAY_FAKE_H
#define RELAY_FAKE_H

#include <stdbool.h>

#include "publish/driver.h"

enum { RELAY_FAKE_MOST = 4096 };

/* A message that was taken and has no receipt yet. */
typedef struct relay_flight {
	const wherry_message *msg;
	bool doomed;   /* behind one of its key that was refused */
	bool sure;     /* before one of its key that was delivered */
	bool seen;     /* by a collect */
	bool answered; /* the test said: */
	wherry_verdict verdict;
	int64_t retry_after_us;
} relay_flight;

typedef struct relay_fake {
	wherry_publisher base;
	wh_publisher_driver driver; /* of its own, for the capabilities */

	/* What the test sets. */
	bool by_hand;              /* answer only what relay_fake_answer() was told of */
	bool slow;                 /* answer no earlier than at the second collect */
	size_t room;               /* in flight at once; 0: any number */
	size_t takes;              /* of one submit; 0: any number */
	wherry_code submit_fails;  /* with this, after taking `takes` */
	wherry_code collect_fails; /* with this, once the answered ones are told */
	int failures;              /* how many times yet; then all is well again */
	int64_t retry_after_us;    /* told with every answer it makes by itself */
	bool doubles;              /* each receipt is given twice */
	bool denies;               /* RETRY is a refusal such as of credentials */
	int64_t killer;            /* the connection is lost while this id is in flight */

	/* What it saw. */
	relay_flight flights[RELAY_FAKE_MOST]; /* in the order they were taken */
	size_t n;
	size_t most;     /* in flight at once, at most */
	size_t overlaps; /* messages taken while another of their key was in flight */
	size_t submits;  /* calls */
	size_t losses;   /* errors told */

	/* The verdict on a message, when not by hand; and what became of it, in the order
	 * in which the destination sees it. */
	wherry_verdict (*decide)(void *ctx, const wherry_message *msg);
	void (*note)(void *ctx, const wherry_message *msg, wherry_verdict verdict);
	/* The number by which the test knows a message; NULL: its id. */
	int64_t (*number)(void *ctx, const wherry_message *msg);
	void *ctx;
} relay_fake;

/* caps: WH_PUB_…; given, close with wherry_publisher_close(&fake->base). */
relay_fake *relay_fake_open(unsigned caps);

/* Is that message in flight, and not answered yet? */
bool relay_fake_holds(const relay_fake *fake, int64_t id);

/* Answer a message in flight; false: it is not.  The receipt is given with the next
 * collect. */
bool relay_fake_answer(relay_fake *fake, int64_t id, wherry_verdict verdict);

/* Lose the connection once, with this code, at the next collect. */
void relay_fake_break(relay_fake *fake, wherry_code code);

/* Forget what is in flight: its owner is gone. */
void relay_fake_drop(relay_fake *fake);

/* Are they ordered one behind the other? */
bool relay_same_key(const wherry_message *a, const wherry_message *b);

#endif
