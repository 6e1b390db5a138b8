/*
 * A cron inside: what its files share.
 */
#ifndef WH_CRON_CRON_H
#define WH_CRON_CRON_H

#include <wherry/cron.h>

#include "cron/groups.h"
#include "store/store.h"

struct wherry_cron {
	wh_store store;    /* What every model has. */
	wh_cron_stmts own; /* Statements of crons alone. */
};

/* The one layout, and the statements. */
extern const wh_model wh_cron_model;

/* "There is no cron …" for WHERRY_NOTFOUND. */
wherry_code wh_cron_failed(const wherry_cron *cron, wherry_code code, wherry_error *err);

/* A schedule that ticks are made of. */
typedef struct wh_cron_place {
	wherry_cron *cron;
	const char *target, *name, *hash;
	const wherry_delayed *queue; /* whose clock counts; NULL: the database's */
	/* For people; NULL: not known. */
	const wherry_schedule *schedule;
	const char *sends_to;
	/* Read by wh_cron_look(). */
	int64_t until_us; /* ticks were made up to that time; 0: none */
	int64_t now_us;
	bool active;
} wh_cron_place;

/* Read what is remembered, and let nobody else change it; in a transaction. */
wherry_code wh_cron_look(wh_cron_place *place, wherry_error *err);

/* Ticks were made up to that time. */
wherry_code wh_cron_advance(wh_cron_place *place, int64_t until_us, wherry_error *err);

/* No more ticks of this hash are made.  Those after until_us are to be made again if it comes back;
 * WH_NEVER: none of those that were.  out_n: how many schedules are remembered, 0 or 1; may be NULL. */
wherry_code wh_cron_retire(const wh_cron_place *place, int64_t until_us, int64_t *out_n,
			   wherry_error *err);

/* No more ticks of the other hashes are made. */
wherry_code wh_cron_retire_others(const wh_cron_place *place, wherry_error *err);

/* As wherry_cron_uninstall().  out_found: false if the cron remembers no such schedule. */
wherry_code wh_cron_uninstall(wherry_cron *cron, wherry_delayed *queue,
			      const char *prefix, const char *hash, int64_t *out_n,
			      bool *out_found, wherry_error *err);

enum {
	WH_CRON_HASH_MOST = 64,    /* bytes of a hash */
	WH_CRON_TICKS_MOST = 10000 /* that one call installs */
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
	int64_t up_to_us; /* It had as many ticks as a call may, and this is the last; 0: it had less. */
} wh_cron_ahead;

wherry_code wh_cron_install_ahead(wherry_cron *cron, wherry_delayed *queue,
				  const char *prefix, wh_cron_ahead *how,
				  wherry_error *err);

/* Another schedule that is active under the same name. */
typedef struct wh_cron_other {
	char hash[WH_CRON_HASH_MOST + 1]; /* "": there is none */
	int64_t until_us;                 /* its ticks were made up to that time */
} wh_cron_other;

wherry_code wh_cron_active(const wh_cron_place *place, wh_cron_other *out,
			   wherry_error *err);

/* A call that makes the ticks of a schedule that are due; see wherry_cron_fire(). */
typedef struct wh_cron_turn {
	const char *target, *name;
	const char *sends_to; /* in words; NULL: not known */
	const wherry_schedule *schedule;
	wherry_catch_up catch_up;
	wherry_tick_fn fn;
	void *ctx;
	bool yields; /* Make no tick if another schedule is active under this name. */
	/*
	 * If not 0: this call is repeated more often than that.  It moves the time up to which
	 * ticks were made even if none was due, which shows that somebody is there.  If another
	 * schedule has not moved for so long, nobody makes its ticks, and this one no longer yields
	 * to it.
	 */
	int64_t gone_after_us;
	/* Filled in on success. */
	int64_t n;       /* ticks that were made */
	int64_t next_us; /* until the next one, microseconds; WH_NEVER: there is none */
	char active[WH_CRON_HASH_MOST +
		    1]; /* the schedule that it yielded to; "": none */
} wh_cron_turn;

wherry_code wh_cron_fire(wherry_cron *cron, wh_cron_turn *turn, wherry_error *err);

/* The first time of a schedule after an instant; WH_NEVER: there is none. */
wherry_code wh_cron_next(const wherry_schedule *schedule, int64_t after_us,
			 int64_t *out_us, wherry_error *err);

/* Where to begin, so that the times after *out_us up to now are those to make up for. */
wherry_code wh_cron_begin(const wh_cron_place *place, const wherry_schedule *schedule,
			  wherry_catch_up catch_up, int64_t *out_us, wherry_error *err);

#endif
