/*
 * What every database promises of an outbox, written once: each promise is a test, run on
 * every back end.
 *
 * A back end says how to make an empty database, how to connect to it, and how another
 * program would write SQL to it.
 */
#ifndef WHERRY_OUTBOX_SUITE_H
#define WHERRY_OUTBOX_SUITE_H

#include "wherry_test.h"

#include <wherry/wherry.h>

struct wh_model;
struct queue_calls;
struct delayed_calls;
struct inbox_calls;
struct outbox_calls;

/* A case that a back end leaves out, and why. */
typedef struct suite_skip {
	const char *name, *why;
} suite_skip;

typedef struct outbox_backend {
	const char *name;   /* stands before the names of its tests */
	bool several;       /* other connections and processes see the same database */
	unsigned lacks;     /* NEEDS_…: what its tables have no place for */
	const char *layout; /* of the outbox; NULL: native */

	/* An empty database, for one test; given, drop() it. */
	void *(*make)(void);
	void (*drop)(void *place);

	/* One that another test left with the tables of this recipe, which is any address; NULL: nobody did.  And
	 * say of one with new tables that it may be left.  NULL: each test makes its own. */
	void *(*again)(const void *recipe);
	void (*note)(void *place, const void *recipe);

	/* From now on connections are those of an ordinary role that was granted what it needs on this table; raw() is
	 * still its owner's.  NULL: the database has no roles. */
	void (*lower)(void *place, const struct wh_model *model, const char *table);

	/* A connection; NULL: it failed.  Threads: any. */
	wherry_db *(*connect)(void *place);
	bool (*disconnect)(wherry_db *db); /* false: something was left on it */

	/* Run SQL as a program that knows nothing of Wherry would, on a connection of its own
	 * where that can be.  out, if not NULL, receives the first column of the last row. */
	bool (*raw)(void *place, wherry_db *db, const char *sql, char *out, size_t cap);

	/* Does the beginning of a transaction say so?  Otherwise its first write does. */
	bool (*forbid_writing)(wherry_db *db);
	void (*fill_disk)(wherry_db *db, bool full);

	/* What workers call there instead of the library; NULL: the library. */
	const struct queue_calls *queue;
	const struct delayed_calls *delayed;
	const struct inbox_calls *inbox;
	const struct outbox_calls *outbox;
} outbox_backend;

/* A place for a test.  False: it is empty; the test makes the tables of the recipe, and notes it. */
static inline bool suite_enter(const outbox_backend *backend, const void *recipe,
			       void **place)
{
	*place = backend->again ? backend->again(recipe) : NULL;
	if (*place)
		return true;
	*place = backend->make();
	return false;
}

static inline void suite_note(const outbox_backend *backend, const void *recipe,
			      void *place)
{
	if (backend->note)
		backend->note(place, recipe);
}

/* Is a case in such a list, which ends with a row of NULL? */
static inline bool suite_skips(const suite_skip *skips, const char *name)
{
	for (; skips && skips->name; skips++)
		if (strcmp(skips->name, name) == 0)
			return true;
	return false;
}

/* The state of every test: an outbox named "outbox". */
typedef struct outbox_fixture {
	const outbox_backend *backend;
	void *place;
	wherry_db *db;
	wherry_outbox *outbox;
	int64_t sent;    /* where the backend lacks keys: messages, whose ids they are */
	char text[4096]; /* of fixture_text() */
} outbox_fixture;

/* Of outbox_case. */
enum {
	NEEDS_SEVERAL = 1,
	NEEDS_KEYS = 2,       /* and headers */
	NEEDS_LEASE = 4,      /* or a pause: relays that work alone */
	NEEDS_TOKEN = 8,      /* of claims, in a column of its own */
	NEEDS_EVENT_BUS = 16, /* the tables of outbox-event-bus */
	NEEDS_NUL = 32,       /* text with a NUL inside */
	NEEDS_CASELESS = 64,  /* names of tables in other letters are the same */
	NEEDS_IDENTS = 128,   /* names of tables are identifiers, without a schema */
	NEEDS_NATIVE = 256, /* what only a native table has: any text as a message id, any
				 bytes as a body, a claim that says until when, parked keys,
				 keys besides aggregates */
	NEEDS_MODELS = 512, /* outboxes and queues in the same database */
	NEEDS_ESCAPES = 1024, /* a server that reads escapes in JSON */
	NEEDS_REFUSAL = 2048, /* a database that can be made to refuse every write */
	NEEDS_OWNER = 8192,   /* of the tables: it makes or changes some */
	NEEDS_BYTES = 4096    /* any bytes as a body, in the tables that create makes */
};

typedef struct outbox_case {
	const char *name;
	void (*run)(void **state);
	unsigned needs;
} outbox_case;

#define CASE(run)                                                                        \
	{                                                                                \
#run, run, 0                                                             \
	}
#define CASE_THAT_NEEDS(run, needs)                                                      \
	{                                                                                \
#run, run, needs                                                         \
	}
#define CASE_OF_SEVERAL(run)                                                             \
	{                                                                                \
#run, run, NEEDS_SEVERAL                                                 \
	}

/* What producers call: the library, or on the back end of functions SQL that does the same. */
typedef struct outbox_calls {
	__typeof__(wherry_outbox_enqueue) *enqueue;
	__typeof__(wherry_outbox_enqueue_many) *enqueue_many;
	const suite_skip *skips; /* Ends with a row of NULL. */
} outbox_calls;

/* Those of the back end whose case runs. */
extern outbox_calls outbox_does;

/* What its outboxes are created with. */
extern wherry_outbox_options outbox_options;

/* Each ends with a row of NULL. */
extern const outbox_case outbox_enqueue_cases[];
extern const outbox_case outbox_field_cases[];
extern const outbox_case outbox_lease_cases[];
extern const outbox_case outbox_settle_cases[];
extern const outbox_case outbox_list_cases[];
extern const outbox_case outbox_admin_cases[];
extern const outbox_case outbox_schema_cases[];
extern const outbox_case outbox_event_bus_cases[], outbox_event_bus_claim_cases[];

/* Run all of them on all of these back ends, and then the tests in `more`. */
int outbox_suite_run(const outbox_backend *const *backends, size_t n_backends,
		     const struct CMUnitTest *more, size_t n_more);

/* ---- for the tests; they fail the test when something goes wrong ---- */

/* Connect once more, or again. */
wherry_db *fixture_connect(outbox_fixture *f);
void fixture_reopen(outbox_fixture *f);
void fixture_close(outbox_fixture *f);

/* SQL of another program. */
void fixture_raw(outbox_fixture *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int64_t fixture_int(outbox_fixture *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
const char *fixture_text(outbox_fixture *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* SQL of the application, on the connection of the outbox and in its transaction. */
void fixture_app(outbox_fixture *f, const char *sql);

/* Add a message under a message id of its own; key may be NULL. */
int64_t fixture_send_named(outbox_fixture *f, const char *message_id, const char *topic,
			   const char *key);

/* Add a message in a transaction of its own; returns its id. */
int64_t fixture_send(outbox_fixture *f, const char *topic, const char *key);
/* Add n of them; returns the first id.  The others follow it. */
int64_t fixture_send_many(outbox_fixture *f, int n);

/* A lease for a minute, with a window of 8; and as if that minute had passed. */
wherry_lease fixture_lease(outbox_fixture *f, const char *owner);
void fixture_expire(outbox_fixture *f);

/* Bring a message into a state as a relay would. */
void fixture_done(outbox_fixture *f, int64_t id);
void fixture_fail(outbox_fixture *f, int64_t id, int64_t delay_us);
void fixture_kill(outbox_fixture *f, int64_t id);
void fixture_try(outbox_fixture *f, int64_t id);

/* As if the first messages, up to this id, had been delivered so long ago; those of a log had been made then. */
void fixture_were_done(outbox_fixture *f, int64_t upto, int64_t ago_ms);

int64_t fixture_state(outbox_fixture *f, int64_t id); /* its status column */
int64_t fixture_count(outbox_fixture *f);             /* all rows */

/* Does the whole table look the same?  Returns a text to compare. */
const char *fixture_digest(outbox_fixture *f);

/* Let n others connect and work at once; `work` returns 0 when all went well.  Closes the
 * fixture's own connection meanwhile. */
typedef int (*fixture_work)(wherry_db *db, int which);
void fixture_processes(outbox_fixture *f, int n, fixture_work work);
void fixture_threads(outbox_fixture *f, int n, fixture_work work);

/* The ids listed, in their order: "1 3 4". */
void fixture_lists(outbox_fixture *f, const wherry_outbox_filter *filter,
		   const char *ids);

#endif
