/*
 * The struct of a cron, and what the files of src/cron share.
 */
#ifndef WH_CRON_CRON_H
#define WH_CRON_CRON_H

#include <wherry/cron.h>

#include "cron/groups.h"
#include "store/store.h"

struct wherry_cron {
	wh_store store;    /* The part that every model has. */
	wh_cron_stmts own; /* Statements that only crons have. */
};

/* The model of crons: its only layout, and its statements. */
extern const wh_model wh_cron_model;

/* If code is NOTFOUND, set a message that says what is missing and how to create it.
 * Returns code. */
wherry_code wh_cron_failed(const wherry_cron *cron, wherry_code code, wherry_error *err);

/* A schedule whose ticks are made.  Target, name and hash identify its row. */
typedef struct wh_cron_place {
	wherry_cron *cron;
	const char *target, *name, *hash;
	/* The delayed queue whose clock is used; NULL: use the database's clock. */
	const wherry_delayed *queue;
	/* Stored for people to read; NULL: unknown. */
	const wherry_schedule *schedule;
	const char *sends_to;
	/* Read by wh_cron_look(). */
	/* Ticks were made up to this time, Unix microseconds; 0: none. */
	int64_t until_us;
	int64_t now_us;
	bool active;
} wh_cron_place;

/* Read the schedule's row into `place`, and lock the row.  Call it in a transaction. */
wherry_code wh_cron_look(wh_cron_place *place, wherry_error *err);

/* Record that the schedule is active and that its ticks were made up to until_us. */
wherry_code wh_cron_advance(wh_cron_place *place, int64_t until_us, wherry_error *err);

/*
 * Record that the schedule is not active: nobody makes its ticks any more.
 *
 * @param until_us  If the schedule becomes active again, ticks after this time are made
 *                  again.  WH_NEVER: no tick is made again.
 * @param out_n     Receives 1 if the cron remembers the schedule, else 0; may be NULL.
 */
wherry_code wh_cron_retire(const wh_cron_place *place, int64_t until_us, int64_t *out_n,
			   wherry_error *err);

/* Record that schedules with the same target and name but another hash are not active. */
wherry_code wh_cron_retire_others(const wh_cron_place *place, wherry_error *err);

/* Like wherry_cron_uninstall().  out_found: does the cron remember the schedule?  May be
 * NULL. */
wherry_code wh_cron_uninstall(wherry_cron *cron, wherry_delayed *queue,
			      const char *prefix, const char *hash, int64_t *out_n,
			      bool *out_found, wherry_error *err);

enum {
	WH_CRON_HASH_MOST = 64,    /* Bytes of a hash. */
	WH_CRON_TICKS_MOST = 10000 /* Ticks that one call installs. */
};

/* A call of wherry_cron_install_schedule(). */
typedef struct wh_cron_ahead {
	const wherry_schedule *schedule;
	int64_t ahead_us;
	wherry_catch_up catch_up;
	const void *body;
	size_t body_len;
	/* Filled in on success. */
	int64_t created;
	/* Time of the last tick if the call reached WH_CRON_TICKS_MOST; 0: it had
	 * fewer ticks. */
	int64_t up_to_us;
} wh_cron_ahead;

wherry_code wh_cron_install_ahead(wherry_cron *cron, wherry_delayed *queue,
				  const char *prefix, wh_cron_ahead *how,
				  wherry_error *err);

/* Another schedule that is active under the same name. */
typedef struct wh_cron_other {
	char hash[WH_CRON_HASH_MOST + 1]; /* "": there is no other schedule. */
	int64_t until_us;                 /* Its ticks were made up to this time. */
} wh_cron_other;

wherry_code wh_cron_active(const wh_cron_place *place, wh_cron_other *out,
			   wherry_error *err);

/* A call that makes the ticks of a schedule that are due; see wherry_cron_fire(). */
typedef struct wh_cron_turn {
	const char *target, *name;
	const char *sends_to; /* Where ticks go, in words; NULL: unknown. */
	const wherry_schedule *schedule;
	wherry_catch_up catch_up;
	wherry_tick_fn fn;
	void *ctx;
	bool yields; /* Make no tick if another schedule is active under this name. */
	/*
	 * Microseconds; 0: schedules are never abandoned.
	 *
	 * The caller repeats the call more often than this.  So the call also advances
	 * the time up to which ticks were made when no tick was due.  If another
	 * schedule's time was not advanced for this long, that schedule is abandoned, and
	 * this one does not yield to it.
	 */
	int64_t gone_after_us;
	/* Filled in on success. */
	int64_t n;       /* Number of ticks made. */
	int64_t next_us; /* Microseconds until the next tick; WH_NEVER: there is none. */
	char active[WH_CRON_HASH_MOST +
		    1]; /* Hash of the schedule that it yielded to; "": none. */
} wh_cron_turn;

wherry_code wh_cron_fire(wherry_cron *cron, wh_cron_turn *turn, wherry_error *err);

/* The first time of a schedule after an instant; WH_NEVER: there is none. */
wherry_code wh_cron_next(const wherry_schedule *schedule, int64_t after_us,
			 int64_t *out_us, wherry_error *err);

/* Find where to begin: ticks are needed for the times after *out_us up to now. */
wherry_code wh_cron_begin(const wh_cron_place *place, const wherry_schedule *schedule,
			  wherry_catch_up catch_up, int64_t *out_us, wherry_error *err);

#endif
