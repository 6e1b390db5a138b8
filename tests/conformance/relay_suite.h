/*
 * What a relay promises, on any database: each promise is one test, named as a sentence.
 *
 * A test gets a fixture: an empty outbox, a producers' side and up to three relays, `a`, `b`
 * and `c`.  It steps them on its own thread until something holds, for at most a minute
 * unless the target says otherwise.
 * Messages are put by their keys: relay_put(f, "ab-") adds ids 1 and 2 with keys a and b,
 * and 3 with none.
 */
#ifndef RELAY_SUITE_H
#define RELAY_SUITE_H

#include "wherry_test.h"

#include <wherry/wherry.h>

#include "db/driver.h"
#include "db/trace.h"
#include "relay_fake.h"

/* What a database must be for a test to make sense on it. */
enum {
	RELAY_OTHERS = 1, /* others can connect to it as well */
	RELAY_ALONE = 2,  /* producers use the relay's own connection */
	RELAY_NUL = 4,    /* its text can have a NUL inside */
	RELAY_KEYS = 8,   /* its messages can have keys, headers and an aggregate */
	RELAY_LEASE = 16, /* a relay may have it alone, or pause it */
	RELAY_IN_ORDER =
		32, /* ids appear in their order; that they do not can be played */
	RELAY_THREADS = 64, /* The test starts threads; every target can do that. */
	RELAY_WOKEN =
		128 /* Commits wake its relays: of every target but those that poll. */
};

/* A kind of database the suite runs on. */
struct relay_test;
struct relay_fixture;

struct wh_model;

typedef struct relay_target {
	const char *name; /* "file" */
	const char *url;  /* what comes before the path of a new file */
	bool in_file;     /* it is in a file */
	void (*make)(char *url, size_t cap); /* or: a new one, at this URL; */
	/* From now on this URL is that of a role that was granted what relays need, so that only relays have it.
	 * NULL: they own the tables. */
	void (*lower)(const struct wh_model *model, const char *table, char *url,
		      size_t cap);
	/* Take one that another test of the target left with its tables, and say of one with new tables that it
	 * may be left.  NULL: each test makes its own. */
	bool (*again)(const void *recipe, char *url, size_t cap);
	void (*note)(const void *recipe);
	void (*drop)(void);           /* and gone again.  NULL: in a file, or url */
	unsigned is;                  /* RELAY_… */
	const char *setting;          /* that is on for its relays; NULL: none */
	const char *source;           /* relay.source; NULL: the default */
	const struct relay_test *own; /* of it alone; NULL: none */
	bool own_only;                /* and no others */
	unsigned extras;              /* that native tables are made with */
	bool leads;         /* its relays lead: no tests of those that compete */
	uint64_t schedules; /* made-up ones, 0: 80: where emptying it takes long, fewer */
	const char *a_nul;  /* RELAY_NUL: an expression for text with a NUL inside */

	/* Tests that run on it though their suite needs what it is not; ends with NULL. */
	const char *const *also;

	/* Tests that do not, for what only native tables have; ends with NULL. */
	const char *const *except;

	/* Nothing wakes its relays: they look four times a second. */
	bool polls;

	/* Where connecting takes long: tests use a connection one after the other.  NULL:
	 * each opens its own. */
	wherry_db *(*connect)(const wh_db_options *options);
	void (*disconnect)(wherry_db *db);
	int64_t patience_us; /* how long a test waits for something; 0: a minute */

	bool queue;         /* relays deliver the messages of a queue named "jobs" */
	bool delayed;       /* or of a delayed queue "jobs" in the table "later" */
	const char *layout; /* of that table; NULL: native */

	/* Its ids stay, and its messages have keys, though the tables are another program's. */
	bool keeps_ids;

	/* Its rows have no ids: message ids are numbers, and the aggregate is the key. */
	bool numbers;

	/* Where the tables are not native: what makes another program's, and views through which
	 * SQL about the native table works when it is translated. */
	const char *tables, *views;
	void (*translate)(const char *sql, char *out, size_t cap);

	/* Where the outbox is a table of another program: make it, write to it as relay_put() does, and check it when a
	 * test ends.  NULL: it is Wherry's own. */
	void (*adopt)(wherry_db *db);
	void (*put)(struct relay_fixture *f, const char *keys);
	void (*check)(struct relay_fixture *f);
	bool hides_done; /* The outbox has no rows that are done: the view "native" has. */
} relay_target;

/* One answer, in the order in which the destination gave them. */
typedef struct relay_event {
	int64_t id;
	int64_t at_us; /* by the fixture's clock */
	int32_t attempts;
	wherry_verdict verdict;
	size_t body_len;
	char key[16];
	char topic[16];
} relay_event;

/* One relay with what it works on. */
typedef struct relay_side {
	wherry_db *db;
	wherry_publisher *pub;
	relay_fake *fake; /* == pub, if it is one */
	wherry_relay *relay;
	int64_t wake_us;
	bool finished;
} relay_side;

enum { RELAY_IDS = 2048, RELAY_EVENTS = 8192, RELAY_LOG = 4 * 1024 * 1024 };

typedef struct relay_fixture {
	const relay_target *target;
	wherry_temp temp;
	char url[300];
	wherry_config *config;
	wherry_db *other;      /* the producers'; a.db where nobody else can connect */
	wherry_outbox *outbox; /* One of these; the others are NULL. */
	wherry_queue *queue;
	wherry_delayed *delayed;
	int64_t n_put; /* where the tables are another program's: the last message's id */
	relay_side a, b, c;

	wh_env env;        /* the databases' and so the relays' */
	int64_t offset_us; /* by which the relays' clock is ahead of the real one */
	int64_t frozen_us; /* if set, the relays' clock stands here, */
	int64_t tick_us;   /* and goes on by this with each turn */
	uint64_t random;
	uint64_t seed; /* of a made-up schedule: told when it fails */

	/* What destinations answer. */
	wherry_verdict every;           /* to all, unless: */
	wherry_verdict what[RELAY_IDS]; /* is answered to an id */
	int times[RELAY_IDS];           /* so many times yet; -1: always */
	void (*asked)(struct relay_fixture *f, const wherry_message *msg);
	const char *why; /* a message is not delivered; NULL: the test said so */
	relay_event events[RELAY_EVENTS];
	size_t n_events;

	char log[RELAY_LOG]; /* the relays' lines */
	size_t log_len;
} relay_fixture;

typedef struct relay_test {
	const char *name;
	void (*run)(void **state);
	unsigned needs; /* RELAY_… */
} relay_test;

#define RELAY_TEST(test, needs_)                                                         \
	{                                                                                \
#test, (test), (needs_)                                                  \
	}
#define RELAY_TESTS_END                                                                  \
	{                                                                                \
		NULL, NULL, 0                                                            \
	}

/* Each ends with RELAY_TESTS_END. */
extern const relay_test relay_order_tests[], relay_window_tests[], relay_failure_tests[],
	relay_dead_tests[], relay_down_tests[], relay_lease_tests[],
	relay_suspect_tests[], relay_stop_tests[], relay_wake_tests[],
	relay_empty_tests[], relay_fault_tests[], relay_competing_tests[],
	relay_expiry_tests[], relay_letters_tests[], relay_replaced_tests[],
	relay_replaced_claims_tests[], relay_rows_tests[];

/* For relay_target.also. */
extern const char *const relay_claiming_also[];

/* Run everything that makes sense on each of the targets; returns the failures. */
int relay_suite(const relay_target *targets, size_t n);

/* ---- before the relay ---- */

void relay_set(relay_fixture *f, const char *key, const char *value);

/* Leases last for half a second, or for a twentieth of relay_target.patience_us; returns it. */
int64_t relay_lease_briefly(relay_fixture *f);

/* A relay of the empty table renews its lease five times and reads no rows meanwhile; so it does
 * again when it has delivered one. */
void relay_only_renews(relay_fixture *f);

/* Nothing happens by the clock alone. */
void relay_hourly(relay_fixture *f);

/* Is the outbox a log? */
bool relay_on_log(const relay_fixture *f);

/* Give a side a fake destination instead of memory:. */
relay_fake *relay_use_fake(relay_fixture *f, relay_side *side, unsigned caps);

/* Two relays that were killed with messages of these keys in flight: they are suspects. */
relay_fake *relay_killed_with(relay_fixture *f, const char *keys);

/* Puts large messages in front of small ones: these leave although the destination refuses
 * all large ones, which do not fit into memory together. */
void relay_refuses_large(relay_fixture *f, bool denies);

/* The side's connection, opened by relay_start() if not before. */
void relay_connect(relay_fixture *f, relay_side *side);

/* Put a trace between relay a and its connection; copied. */
void relay_wrap(relay_fixture *f, const wh_trace *trace);

/* Open the side's relay. */
void relay_start(relay_fixture *f, relay_side *side);

/* Open the side's relay on a connection of its own, by the URL, which it opens again when that
 * is lost; its destination is memory:. */
void relay_start_by_url(relay_fixture *f, relay_side *side);

/* As relay_start(), with the engine stream, and wait until it reads the log.  What was logged before
 * is forgotten. */
void relay_stream(relay_fixture *f, relay_side *side);

/* Close it as a crash would: its lease stays as it is. */
void relay_vanish(relay_side *side);

/* The same, and the lease is unclean and expires at once. */
void relay_kill(relay_fixture *f, relay_side *side);

/* Stop it and wait until it has; then close it. */
void relay_stop(relay_fixture *f, relay_side *side);

/* Begin anew with an empty database; settings stay. */
void relay_fresh(relay_fixture *f);

/* ---- producers and operators ---- */

/* Add messages in one transaction, one for each character. */
void relay_put(relay_fixture *f, const char *keys);

void relay_sql(relay_fixture *f, const char *sql);
int64_t relay_number(relay_fixture *f, const char *sql); /* the first column */

/* Does the outbox keep the state of its messages beside them? */
bool relay_is_log(const relay_fixture *f);

wherry_state relay_state(relay_fixture *f, int64_t id);
int relay_attempts(relay_fixture *f, int64_t id);
int64_t relay_count(relay_fixture *f, wherry_state state);
int64_t relay_retry(relay_fixture *f, unsigned states);

/* Let the lease expire, or another one hold it for an hour. */
void relay_expire(relay_fixture *f);
void relay_steal(relay_fixture *f);

/* ---- steps ---- */

int64_t relay_deadline(void);
void relay_be_patient(int64_t us); /* how far away that is from now on */
int64_t relay_now(const relay_fixture *f);
wherry_relay_stats relay_stats(const relay_side *side);

/* One step and a short wait; fails the test past the deadline, naming what it waited for. */
void relay_turn(relay_fixture *f, relay_side *side, int64_t by_us, const char *what,
		int line, const char *file);

/* As relay_turn(), but waits as a program does: for the relay's descriptors or until
 * the relay wants to be stepped, and never looks earlier. */
void relay_turn_asleep(relay_fixture *f, relay_side *side, int64_t by_us,
		       const char *what, int line, const char *file);

#define RELAY_LOOP(turn, f, side, condition)                                             \
	do {                                                                             \
		int64_t relay_by_ = relay_deadline();                                    \
		while (!(condition))                                                     \
			turn((f), (side), relay_by_, #condition, __LINE__, __FILE__);    \
	} while (0)

/* Step until the condition holds. */
#define RELAY_UNTIL(f, side, condition) RELAY_LOOP(relay_turn, f, side, condition)
#define RELAY_ASLEEP_UNTIL(f, side, condition)                                           \
	RELAY_LOOP(relay_turn_asleep, f, side, condition)

/* Step until it has nothing to do at once: for what must not happen. */
void relay_quiet(relay_fixture *f, relay_side *side);

/* Move a clock that stands to where the relay wants to be stepped, and step. */
void relay_skip(relay_fixture *f, relay_side *side);

/* Run until empty, by wherry_relay_run(), for as long as a test waits. */
wherry_outcome relay_run_empty(relay_fixture *f, relay_side *side);

/* ---- what was delivered ---- */

/* The id gets this answer so many times, -1: always. */
void relay_answers(relay_fixture *f, int64_t id, wherry_verdict verdict, int times);

size_t relay_delivered(const relay_fixture *f); /* how many, duplicates too */
size_t relay_told(const relay_fixture *f, int64_t id, wherry_verdict verdict);

/* These ids were delivered, in this order, and no others. */
#define RELAY_DELIVERED(f, ...)                                                          \
	relay_check_delivered((f), (const int64_t[]){__VA_ARGS__},                       \
			      sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t),  \
			      __LINE__, __FILE__)
void relay_check_delivered(const relay_fixture *f, const int64_t *ids, size_t n, int line,
			   const char *file);

/* Each id from 1 to n was delivered once. */
void relay_check_once(const relay_fixture *f, int64_t n);

/* First deliveries of each key are in id order. */
void relay_check_order(const relay_fixture *f);

bool relay_logged(const relay_fixture *f, const char *text);

#endif
