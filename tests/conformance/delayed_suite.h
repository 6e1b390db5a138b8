/*
 * What every database promises of a delayed queue, written once: each promise is a test, run on
 * every back end of the outbox's suite.
 */
#ifndef WHERRY_DELAYED_SUITE_H
#define WHERRY_DELAYED_SUITE_H

#include "outbox_suite.h"

/* The state of every test: a queue "my-queue" of Java strings in the table "later" of an empty
 * database, with a clock that stands at 2024-01-01 10:00 UTC. */
typedef struct delayed_fixture {
	const outbox_backend *backend;
	const char *layout; /* NULL: native */
	void *place;
	wherry_db *db;
	wherry_delayed *queue;
	int64_t now_us;
} delayed_fixture;

typedef struct delayed_case {
	const char *name;
	void (*run)(void **state);
	bool several; /* It needs a second connection. */
	bool owner;   /* It makes or changes tables. */
} delayed_case;

#define DELAYED_CASE(run)                                                                \
	{                                                                                \
#run, run, false, false                                                  \
	}
#define DELAYED_CASE_OF_SEVERAL(run)                                                     \
	{                                                                                \
#run, run, true, false                                                   \
	}

#define DELAYED_OWNER_CASE(run)                                                          \
	{                                                                                \
#run, run, false, true                                                   \
	}

/* What producers and consumers call: the library, or on the back end of functions SQL that does the same. */
typedef struct delayed_calls {
	__typeof__(wherry_delayed_offer) *offer;
	__typeof__(wherry_delayed_offer_many) *offer_many;
	__typeof__(wherry_delayed_poll) *poll;
	__typeof__(wherry_delayed_ack) *ack;
	__typeof__(wherry_delayed_nack) *nack;
	__typeof__(wherry_delayed_extend) *extend;
	__typeof__(wherry_delayed_dead_letter) *dead_letter;
	__typeof__(wherry_delayed_drop_key) *drop_key;
	const suite_skip *skips; /* Ends with a row of NULL. */
} delayed_calls;

/* Those of the back end whose case runs. */
extern delayed_calls delayed_does;

/* Each ends with a row of NULL. */
extern const delayed_case delayed_offer_cases[], delayed_poll_cases[],
	delayed_settle_cases[], delayed_keys_cases[], delayed_dead_cases[],
	delayed_races_cases[], delayed_wait_cases[], delayed_defects_cases[],
	delayed_retry_cases[];

/* Cases that say nothing there: on the application's own connection SQLite waits for the lock of its
 * file as the application has set it, and only statements of our own connection to a server are
 * counted. */
#define DELAYED_SQLITE_LACKS                                                             \
	"borrowed: an_interrupted_poll_ends_and_leases_nothing",                         \
		"borrowed: a_try_that_takes_too_long_is_ended",                          \
		"a_poll_and_its_acknowledgement_are_two_statements"
#define DELAYED_POSTGRES_LACKS                                                           \
	"borrowed: a_poll_and_its_acknowledgement_are_two_statements"

/*
 * Run all of them on all of these back ends, and then the tests in `more`.
 *
 * layout: of the tables; NULL: native.  lacks: cases to leave out, everywhere ("CASE") or on a back
 * end ("BACKEND: CASE"); the list ends with NULL.
 */
int delayed_suite_run(const char *layout, const char *const *lacks,
		      const outbox_backend *const *backends, size_t n_backends,
		      const struct CMUnitTest *more, size_t n_more);

/* The fixture of a back end: for the tests in `more`. */
delayed_fixture *delayed_fixture_make(const outbox_backend *backend, const char *layout);
int delayed_fixture_drop(void **state);

/* ---- for the tests; they fail the test when something goes wrong ---- */

enum { SECOND_US = 1000000 };

/* SQL of another program. */
int64_t delayed_int(delayed_fixture *f, const char *sql);
void delayed_raw(delayed_fixture *f, const char *sql);

/* Let time pass; the leases of these tests last 5 s. */
void delayed_pass(delayed_fixture *f, double seconds);

/* Offer text that is due so many seconds from now. */
wherry_offer_outcome delayed_offer(delayed_fixture *f, const char *key, const char *text,
				   double seconds);
wherry_offer_outcome delayed_offer_absent(delayed_fixture *f, const char *key,
					  const char *text, double seconds);

/* Messages that were seen. */
typedef struct delayed_got {
	int64_t n;
	char tokens[300][80];
	int32_t attempts[300];
	bool redelivery[300];
	char text[8192]; /* Their bodies as "a b c". */
	char keys[8192];
} delayed_got;

/* A wherry_delayed_fn that notes what it sees in the delayed_got that ctx is. */
wherry_code delayed_note(void *ctx, const wherry_delayed_message *msg);

/* Poll under a lease of 5 s, and compare the bodies; borrowed until the next call. */
const delayed_got *delayed_polls(delayed_fixture *f, int64_t limit, const char *bodies);

/* Read a key; NULL: it has no message. */
const char *delayed_body(delayed_fixture *f, const char *key);
bool delayed_has(delayed_fixture *f, const char *key);

/* Acknowledge under a token, and compare the outcome. */
void delayed_acks(delayed_fixture *f, const char *token, wherry_ack_outcome wanted);

/* The counts as "due leased waiting dead". */
void delayed_counts(delayed_fixture *f, const char *wanted);

#endif
