/*
 * Calls that fail on purpose: the k-th of a kind, and as many behind it as one likes.
 *
 * The tests of this folder are linked so that what Wherry asks of others comes by here
 * first: memory (also SQLite's and Jansson's), connections and publishers that are opened
 * by a URL, what is submitted and collected.  The clock is here too: it stands until a
 * test moves it, for Wherry and for SQLite alike, so that a run is the same each time.
 */
#ifndef WHERRY_FAULT_H
#define WHERRY_FAULT_H

#include "wherry_test.h"

#include <limits.h>

#include <sqlite3.h>

#include "conformance/relay_fake.h"
#include "db/driver.h"
#include "db/trace.h"

typedef enum fault_kind {
	FAULT_DATABASE, /* a call is not made, and fails */
	FAULT_ANSWER,   /* it is made, and then said to have failed */
	FAULT_UNDONE, /* the server undoes the open transaction at a call, because of a deadlock */
	FAULT_PUBLISHER, /* open, submit or collect is not made, and fails */
	FAULT_RECEIPT,   /* submit or collect is made, and then said to have failed */
	FAULT_MEMORY,    /* an allocation, also of SQLite or Jansson */
	FAULT_OWN_MEMORY /* an allocation of Wherry's own */
} fault_kind;

enum { FAULT_ALL = INT_MAX / 2 }; /* how many: from there on every one */

typedef struct fault_plan {
	fault_kind kind;
	int at;           /* the first call that fails, from 1 */
	int n;            /* how many do, one behind the other */
	wherry_code with; /* the code they fail with; memory has its own */
} fault_plan;

/* Before main() does anything with SQLite. */
void fault_set_up(void);

void fault_arm(fault_plan plan);
void fault_arm_for(fault_plan plan, const char *op); /* only such calls count: "commit" */
void fault_disarm(void);
bool fault_hit(void);          /* did any call fail since fault_arm()? */
bool fault_over(void);         /* have all of them failed that should? */
const char *fault_where(void); /* which was the first */

/* Does each call fail with each code?  That takes long: WHERRY_FAULT_EVERY=1.  Otherwise each
 * call fails with one of several codes. */
bool fault_every(void);

/*
 * How far apart the calls of a sweep are that fail.
 *
 * @return 1: each call fails, with WHERRY_FAULT_EVERY=1; deep: with WHERRY_TEST_DEEP=1, as
 *         `./dev test deep` sets it; else usual.
 */
int fault_stride(int usual, int deep);

/* The clock: microseconds since 1970, for monotonic times too. */
extern _Atomic int64_t fault_clock_us;

/* Set the clock, and the random numbers, to where they began. */
void fault_rewind(void);

/* The environment of all that is opened here. */
extern const wh_env __wrap_wh_env_system;
#define fault_env (&__wrap_wh_env_system)

/* Put faults between a connection and its user; *db is taken and replaced. */
void fault_trace(wherry_db **db);

/* What "fake:" opens; its functions decide and note, and may be set at any time. */
typedef struct fault_destination {
	wherry_verdict (*decide)(void *ctx, const wherry_message *msg);
	void (*note)(void *ctx, const wherry_message *msg, wherry_verdict verdict);
	void *ctx;
	unsigned caps;
	relay_fake *open; /* the one that is, if any */
} fault_destination;

extern fault_destination fault_fake;

/* What "letters:" has taken, which takes dead letters. */
extern int fault_letters;

#endif
