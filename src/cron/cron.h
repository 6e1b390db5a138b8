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
	/* Read by wh_cron_look(). */
	int64_t until_us; /* the latest tick that was made; 0: none */
	int64_t now_us;
	bool active;
} wh_cron_place;

/* Read what is remembered, and let nobody else change it; in a transaction. */
wherry_code wh_cron_look(wh_cron_place *place, wherry_error *err);

/* Ticks were made up to that time. */
wherry_code wh_cron_advance(wh_cron_place *place, int64_t until_us, wherry_error *err);

/* The ticks of this hash, or those of the others, were removed. */
wherry_code wh_cron_retire(wh_cron_place *place, bool others, wherry_error *err);

/* The first time of a schedule after an instant; WH_NEVER: there is none. */
wherry_code wh_cron_next(const wherry_schedule *schedule, int64_t after_us,
			 int64_t *out_us, wherry_error *err);

/* Where to begin, so that the times after *out_us up to now are those to make up for. */
wherry_code wh_cron_begin(const wh_cron_place *place, const wherry_schedule *schedule,
			  wherry_catch_up catch_up, int64_t *out_us, wherry_error *err);

#endif
