/*
 * One connection that looks at the outboxes of many schemas of a PostgreSQL database.
 */
#ifndef WH_DAEMON_MATCH_LOOK_H
#define WH_DAEMON_MATCH_LOOK_H

#include "base/process.h"
#include "daemon/plan.h"
#include "db/driver.h"
#include "store/name.h"

/* The holder of the lock of sleepers, without which writers notify nobody. */
typedef enum wh_match_lock {
	WH_LOCK_NONE, /* Nobody: writers share it. */
	WH_LOCK_OURS, /* This connection. */
	WH_LOCK_OTHER, /* Another session: its relay hears writers, and so does this one. */
} wh_match_lock;

/* The answer of a look at an outbox. */
typedef struct wh_match_found {
	bool rows;       /* A row is not covered by the position. */
	bool exceptions; /* A message waits or failed. */
	bool paused;
	int64_t due_us;    /* Time until an exception may be tried; -1: none may. */
	int64_t leased_us; /* Time that a relay has the lease; 0: none has. */
	bool ended;        /* The process of that relay has ended. */
} wh_match_found;

typedef struct wh_match_row {
	char schema[WH_NAME_MOST + 1];
	int64_t key; /* Number of the table; 0: the schema has no outbox. */
	wh_match_lock lock;
	wh_match_found found;
} wh_match_row;

typedef struct wh_match_db wh_match_db;

/* relay->match is the pattern. */
wherry_code wh_match_open(const wh_plan_relay *relay, wh_match_db **out,
			  wherry_error *err);
void wh_match_close(wh_match_db *m);

/* The name of the outbox in each schema. */
const char *wh_match_table(const wh_match_db *m);

int wh_match_fd(const wh_match_db *m); /* -1: it cannot listen, behind a pooler. */

/* Read up to `most` schemas in the order of their tables' numbers; those without an outbox come
 * first. */
wherry_code wh_match_list(wh_match_db *m, wh_match_row *out, size_t most, size_t *out_n,
			  wherry_error *err);

wherry_code wh_match_listen(wh_match_db *m, const int64_t *keys, size_t n, bool on,
			    wherry_error *err);

/* Notifications that have arrived; one of table 0: the connection is lost. */
size_t wh_match_heard(wh_match_db *m, wh_heard *out, size_t most);

/* Take the sleepers' locks: sets rows->lock.  Look afterwards. */
wherry_code wh_match_sleep(wh_match_db *m, wh_match_row *const *rows, size_t n,
			   wherry_error *err);
/* Release them. */
wherry_code wh_match_wake(wh_match_db *m, wh_match_row *const *rows, size_t n,
			  wherry_error *err);

/* Look into these outboxes: sets rows->found.  Fails if one of them is gone. */
wherry_code wh_match_look(wh_match_db *m, wh_match_row *const *rows, size_t n,
			  wherry_error *err);

#endif
