/*
 * Finds the times of a schedule that need a tick, and calls a function to make each tick.
 */
#include <string.h>

#include "base/env.h"
#include "cron/cron.h"
#include "store/fields.h"

enum { LIMIT = 10000, TARGET_MOST = 200, NAME_MOST = 100, FASTER = 4, BEATS = 3 };

/* A tick that is late by less than this was not missed: no process is woken exactly on
 * time. */
static const int64_t late_us = 60 * WH_SECOND;

wherry_code wh_cron_next(const wherry_schedule *schedule, int64_t after_us,
			 int64_t *out_us, wherry_error *err)
{
	wherry_code code = wherry_schedule_next(schedule, after_us, out_us, err);

	if (code != WHERRY_NOTFOUND)
		return code;
	wh_error_clear(err);
	*out_us = WH_NEVER;
	return WHERRY_OK;
}

/* Set *out_us to just before the schedule's last time after from_us and up to now_us.  If
 * there is no such time, *out_us stays.  Searches longer and longer spans before now, so
 * that it visits few times. */
static wherry_code before_last(const wherry_schedule *schedule, int64_t from_us,
			       int64_t now_us, int64_t *out_us, wherry_error *err)
{
	int64_t at_us = WH_NEVER, begin_us = now_us;
	wherry_code code = WHERRY_OK;

	for (int64_t span_us = WH_SECOND; code == WHERRY_OK && begin_us > from_us;
	     span_us = wh_later(span_us, (FASTER - 1) * span_us)) {
		begin_us = now_us - from_us > span_us ? now_us - span_us : from_us;
		code = wh_cron_next(schedule, begin_us, &at_us, err);
		if (at_us <= now_us)
			break;
	}
	while (code == WHERRY_OK && at_us <= now_us) {
		*out_us = at_us - 1;
		code = wh_cron_next(schedule, at_us, &at_us, err);
	}
	return code;
}

wherry_code wh_cron_begin(const wh_cron_place *place, const wherry_schedule *schedule,
			  wherry_catch_up catch_up, int64_t *out_us, wherry_error *err)
{
	int64_t from_us =
		place->active && place->until_us ? place->until_us : place->now_us;
	int64_t recent_us = place->now_us - late_us, next_us = 0;
	wherry_code code = WHERRY_OK;

	*out_us = from_us;
	if (catch_up == WHERRY_CATCH_UP_ALL || from_us >= recent_us)
		return WHERRY_OK;
	*out_us = recent_us;
	if (catch_up == WHERRY_CATCH_UP_NONE)
		return WHERRY_OK;
	code = wh_cron_next(schedule, recent_us, &next_us, err);
	if (code == WHERRY_OK && next_us > place->now_us)
		code = before_last(schedule, from_us, place->now_us, out_us, err);
	return code;
}

typedef struct firing {
	wh_cron_place place;
	wh_cron_turn *turn;
	wh_cron_turn result; /* Copied to *turn after the commit. */
} firing;

/* Make the ticks that are due after *inout_at_us, which then receives the time of the
 * next tick.  *out_until_us receives the time of the last tick made. */
static wherry_code make_due(firing *f, int64_t *inout_at_us, int64_t *out_until_us,
			    wherry_error *err)
{
	wh_cron_turn *t = &f->result;
	wherry_code code;

	*out_until_us = *inout_at_us;
	code = wh_cron_next(t->schedule, *inout_at_us, inout_at_us, err);
	for (t->n = 0;
	     code == WHERRY_OK && *inout_at_us <= f->place.now_us && t->n < LIMIT;
	     t->n++) {
		code = t->fn(t->ctx, *inout_at_us, err);
		*out_until_us = *inout_at_us;
		if (code == WHERRY_OK)
			code = wh_cron_next(t->schedule, *inout_at_us, inout_at_us, err);
	}
	return code;
}

/* Is the other schedule abandoned?  See wh_cron_turn.gone_after_us. */
static bool is_gone(const firing *f, const wh_cron_other *other)
{
	int64_t after_us = f->result.gone_after_us;

	return after_us && other->until_us < f->place.now_us - after_us;
}

/*
 * Find where the schedule begins.  If it replaces another schedule, it begins where the
 * other one stopped: no tick is lost, and no tick is made twice.  It makes up for missed
 * ticks of that time only if the other schedule was abandoned.
 */
static wherry_code begin(const firing *f, const wh_cron_other *other, int64_t *out_us,
			 wherry_error *err)
{
	const wh_cron_turn *t = &f->result;
	wh_cron_place from = f->place;

	if (from.active || !*other->hash)
		return wh_cron_begin(&from, t->schedule, t->catch_up, out_us, err);
	if (other->until_us > from.until_us)
		from.until_us = other->until_us;
	from.active = true;
	return wh_cron_begin(&from, t->schedule,
			     t->yields ? t->catch_up : WHERRY_CATCH_UP_NONE, out_us, err);
}

/* Must the schedule's row be written?  If it is written only to show that the schedule is
 * not abandoned, *inout_until_us becomes now. */
static bool is_news(const firing *f, int64_t next_us, int64_t *inout_until_us)
{
	const wh_cron_turn *t = &f->result;
	int64_t now_us = f->place.now_us;

	if (t->gone_after_us && next_us > now_us &&
	    f->place.until_us < now_us - t->gone_after_us / BEATS) {
		*inout_until_us = now_us;
		return true;
	}
	return t->n || !f->place.active;
}

static wherry_code fire(void *ctx, wherry_error *err)
{
	firing *f = ctx;
	wh_cron_turn *t = &f->result;
	wh_cron_other other = {.hash = ""};
	int64_t at_us = 0, until_us = 0;
	wherry_code code;

	*t = *f->turn;
	t->active[0] = 0;
	code = wh_cron_look(&f->place, err);
	if (code == WHERRY_OK && !f->place.active)
		code = wh_cron_active(&f->place, &other, err);
	if (code == WHERRY_OK && t->yields && *other.hash && !is_gone(f, &other)) {
		memcpy(t->active, other.hash, sizeof(t->active));
		t->n = 0;
		t->next_us = WH_NEVER;
		return WHERRY_OK;
	}
	if (code == WHERRY_OK)
		code = begin(f, &other, &at_us, err);
	if (code == WHERRY_OK)
		code = make_due(f, &at_us, &until_us, err);
	t->next_us = at_us == WH_NEVER         ? WH_NEVER
		     : at_us > f->place.now_us ? at_us - f->place.now_us
					       : 0;
	if (code != WHERRY_OK || !is_news(f, at_us, &until_us))
		return code;
	code = wh_cron_retire_others(&f->place, err);
	return code == WHERRY_OK ? wh_cron_advance(&f->place, until_us, err) : code;
}

static wherry_code check(const wherry_cron *cron, const char *target, const char *name,
			 wherry_error *err)
{
	const wh_field fields[] = {{"target", target, TARGET_MOST},
				   {"name of the schedule", name, NAME_MOST}};

	if (!cron || !target || !name)
		return wh_fail(err, WHERRY_INVALID, "no cron, no target or no name");
	return wh_fields_check(fields, 2, err);
}

wherry_code wh_cron_fire(wherry_cron *cron, wh_cron_turn *turn, wherry_error *err)
{
	firing f = {.turn = turn};
	char hash[WHERRY_HASH_LEN + 1];
	wherry_code code = check(cron, turn->target, turn->name, err);

	if (code == WHERRY_OK && !turn->fn)
		code = wh_fail(err, WHERRY_INVALID, "nobody makes the ticks");
	if (code == WHERRY_OK)
		code = wherry_schedule_hash(turn->schedule, hash, err);
	if (code != WHERRY_OK)
		return code;
	f.place = (wh_cron_place){.cron = cron,
				  .target = turn->target,
				  .name = turn->name,
				  .hash = hash,
				  .schedule = turn->schedule,
				  .sends_to = turn->sends_to};
	code = wh_db_transact(cron->store.db, fire, &f, err);
	if (code == WHERRY_OK)
		*turn = f.result;
	return code;
}

wherry_code wherry_cron_fire(wherry_cron *cron, const char *target, const char *name,
			     const wherry_schedule *schedule, wherry_catch_up catch_up,
			     wherry_tick_fn fn, void *ctx, int64_t *out_n,
			     int64_t *out_next_us, wherry_error *err)
{
	wh_error_clear(err);
	wh_cron_turn turn = {.target = target,
			     .name = name,
			     .schedule = schedule,
			     .catch_up = catch_up,
			     .fn = fn,
			     .ctx = ctx};
	wherry_code code = wh_cron_fire(cron, &turn, err);

	if (code != WHERRY_OK)
		return code;
	if (out_n)
		*out_n = turn.n;
	if (out_next_us)
		*out_next_us = turn.next_us;
	return WHERRY_OK;
}
