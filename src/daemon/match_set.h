/*
 * Types and functions that the files of one set of outboxes share.  match.c has the thread,
 * match_relays.c the relays and the queue, match_schemas.c the list of schemas, match_rest.c the
 * outboxes that rest, match_set.c an outbox and the connection.  A set belongs to its thread; other
 * threads read its view.
 */
#ifndef WH_DAEMON_MATCH_SET_H
#define WH_DAEMON_MATCH_SET_H

#include <stdatomic.h>

#include "daemon/match.h"
#include "relay/relay.h"

/* After this time a relay runs for an outbox without work, too: it purges. */
#define WH_MATCH_UPKEEP_US (INT64_C(4) * 3600 * WH_SECOND)

enum {
	WH_MATCH_PROBE_US =
		60 * WH_SECOND,  /* Between two looks at an outbox that sleeps. */
	WH_MATCH_TRY_US = 50000, /* Until a lock that writers share is tried again. */
	/* After a change that a commit may follow, the looks: the first one, the longest time between two, and
	 * since when no more follow. */
	WH_MATCH_STIR_FIRST_US = 1000,
	WH_MATCH_STIR_LAST_US = 256000,
	WH_MATCH_STIR_US = WH_SECOND
};

/* Relays that run one after the other hand it on.  There are `connections` of them. */
typedef struct wh_match_slot {
	wh_brief brief;
	bool busy;
	int64_t left_us; /* When the last relay ended. */
} wh_match_slot;

typedef enum wh_match_stage { WH_RESTING, WH_WANTED, WH_AWAKE } wh_match_stage;

/* One outbox. */
typedef struct wh_match {
	wh_match_row row;
	wh_match_stage stage;
	struct wh_match *next; /* WH_WANTED: in the queue. */
	int64_t due_us;        /* WH_RESTING: when to look at it. */
	int64_t probe_us; /* WH_RESTING: when to look at it although nobody notified. */
	int64_t step_us; /* WH_RESTING: until the lock is tried again, or the next look after a change. */
	int64_t stir_us;       /* Until when looks follow each other after a change. */
	int64_t upkeep_us;     /* When a relay must run for it. */
	int64_t not_before_us; /* When its relay may run again after it failed. */
	int failures; /* In a row: it failed, or delivered nothing of its work. */
	bool alerted; /* WH_RESTING: somebody notified. */
	bool control; /* WH_RESTING: an operator or another relay did. */
	bool foreign; /* WH_RESTING: another process relays it. */
	bool yielded; /* WH_RESTING: the process with the lock was let go first. */
	bool listed;  /* It is in the list that is being read. */
	wh_pipeline *pipeline; /* WH_AWAKE. */
	wh_match_slot *slot;   /* WH_AWAKE; else of its last relay, or NULL. */
	int64_t began_us;      /* WH_AWAKE: since when. */
	wh_outbox_known known; /* Its last relay found this. */
	bool stopping;         /* WH_AWAKE: its relay was asked to stop. */
	char why[160];         /* Why its relay failed; "": it did not. */
	int64_t tell_us;       /* When to log that, if it is not dropped until then. */
	bool told;             /* It was logged. */
	/* The least time from a notification without work to the next look, and when that is over. */
	int64_t calm_us, calm_at_us;
	int64_t none_us; /* Since when it has no outbox; 0: it has. */
	bool told_none;  /* That was logged. */
} wh_match;

struct wh_matches {
	wh_plan_relay plan;
	wh_daemon *daemon;
	int bell; /* Of the process: written to when the thread has ended. */
	pthread_t thread;
	int wake; /* An eventfd: a relay ended, or stop is set. */
	atomic_bool stop;

	/* Of the thread alone. */
	wh_match_db *db; /* NULL: not connected. */
	int db_failures;
	int64_t connect_us, list_us;
	wh_match **all; /* In the order of their numbers. */
	size_t n, n_awake, n_waiting;
	size_t look_from; /* Where the next turn begins to look. */
	bool heard;       /* This turn heard a change that a commit may follow. */
	wh_match_slot *slots;
	size_t n_slots;
	atomic_size_t
		most; /* Slots in use, from the first: the set's share of the server. */
	atomic_bool crowded;      /* Outboxes wait for a relay; the relays read it. */
	wh_match *first, **last;  /* The queue. */
	int64_t first_us;         /* Since when `first` is the first. */
	wherry_relay_stats ended; /* Counters of relays that have ended. */
	int64_t restarts;
	bool told_nothing, told_twice, list_again;

	pthread_mutex_t lock; /* Guards the members below. */
	bool has_ended;
	wh_matches_view view;
};

#define wh_match_say(m, level, ...)                                                      \
	wh_line(&(m)->daemon->log, level, (m)->plan.name, __VA_ARGS__)

/* ---- match_set.c ---- */

/* Close the connection, and open it again after a while. */
void wh_match_disconnect(wh_matches *m, const char *why, int64_t now);
/* False: it failed, and the connection is closed. */
bool wh_match_check(wh_matches *m, wherry_code code, const wherry_error *err,
		    int64_t now);
wherry_code wh_match_listen_to(wh_matches *m, wh_match *const *of, size_t n, bool on,
			       wherry_error *err);
/* The outbox of this number; NULL: there is none. */
wh_match *wh_match_find(const wh_matches *m, int64_t key);
/* Begin to rest. */
void wh_match_rest(wh_match *o, int64_t due_us);
/* Say soon why it does not go on, unless it was said before. */
void wh_match_blame(wh_match *o, const char *why, int64_t now);
/* Somebody changes its file: look at it a few times. */
void wh_match_stir(wh_match *o, int64_t now);
/* Its relay failed, or the look at it did, or it did nothing although there is work ("").  It is not
 * started again for a while. */
void wh_match_fail(wh_matches *m, wh_match *o, const char *why, int64_t now);
int64_t wh_match_around(
	int64_t us); /* A random time from the half of this one to this one. */

/* ---- match_relays.c ---- */

void wh_match_want(wh_matches *m, wh_match *o); /* Let it wait for a relay. */
void wh_match_leave_queue(wh_matches *m, wh_match *o);
/* Start relays for those that wait, as many as may run. */
void wh_match_start_relays(wh_matches *m, int64_t now);
/* Other outboxes wait: let relays end that are idle, or whose time is over. */
void wh_match_hurry(wh_matches *m, int64_t now);
void wh_match_take_ended(wh_matches *m, int64_t now);
wherry_code wh_match_make_slots(wh_matches *m, wherry_error *err);
/* Close what no relay has used for a while.  Returns when to call it again. */
int64_t wh_match_close_unused(wh_matches *m, int64_t now);
void wh_match_free_slots(wh_matches *m);
/* Add what relays that run have counted. */
void wh_match_add_stats(wherry_relay_stats *sum, const wherry_relay_stats *of);

/* ---- match_schemas.c ---- */

/* Read the list of schemas: take new outboxes, and forget dropped ones. */
void wh_match_list_again(wh_matches *m, int64_t now);

/* ---- match_rest.c ---- */

/* Look at the outboxes that are due, and decide what becomes of them. */
void wh_match_settle(wh_matches *m, int64_t now);

#endif
