/*
 * Installs ticks of a schedule on a delayed queue, and removes them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "base/env.h"
#include "base/text.h"
#include "cron/cron.h"
#include "delayed/delayed.h"

enum {
	TARGET_ROOM = 200,
	SENDS_TO_ROOM = 300,
	QUEUE_SHOWN = 200,
	PREFIX_MOST = 100,
	UNDER_MOST = PREFIX_MOST + WH_CRON_HASH_MOST + 3
};

/* ---- names ---- */

static wherry_code check_word(const char *what, const char *word, size_t most,
			      wherry_error *err)
{
	size_t len = word ? strlen(word) : 0;

	if (!len)
		return wh_fail(err, WHERRY_INVALID, "the %s of ticks is empty", what);
	if (len > most)
		return wh_fail(err, WHERRY_TOOBIG,
			       "the %s '%.40s…' has %zu bytes, and may have %zu", what,
			       word, len, most);
	if (strchr(word, '/') || !wh_utf8_valid(word, len))
		return wh_fail(
			err, WHERRY_INVALID,
			"the %s '%.60s' must be UTF-8 without '/', which ends it in "
			"keys",
			what, word);
	return WHERRY_OK;
}

static wherry_code check_names(const char *prefix, const char *hash, wherry_error *err)
{
	wherry_code code = check_word("prefix", prefix, PREFIX_MOST, err);

	return code == WHERRY_OK ? check_word("hash", hash, WH_CRON_HASH_MOST, err)
				 : code;
}

wherry_code wherry_tick_key(const char *prefix, const char *hash, int64_t at_us,
			    char out[WHERRY_TICK_KEY_MOST + 1], wherry_error *err)
{
	wherry_code code;
	int64_t second = wh_floor_div(at_us, 1000000), day = wh_floor_div(second, WH_DAY);
	int of_day = (int)(second - day * WH_DAY);
	wh_date date;

	wh_error_clear(err);
	if (!out)
		return wh_fail(err, WHERRY_INVALID, "no place for the key");
	code = check_names(prefix, hash, err);
	if (code != WHERRY_OK)
		return code;
	if (second < WH_TIME_FIRST || second > WH_TIME_LAST)
		return wh_fail(err, WHERRY_INVALID,
			       "the time of a tick must be in the years 1 to 9999");
	date = wh_date_of(day);
	(void)snprintf(out, WHERRY_TICK_KEY_MOST + 1,
		       "%s/%s/%04d%02d%02d-%02d%02d%02d.%09d", prefix, hash, date.year,
		       date.month, date.day, of_day / 3600, of_day / 60 % 60, of_day % 60,
		       (int)wh_floor_mod(at_us, 1000000) * 1000);
	return WHERRY_OK;
}

/* ---- installing ---- */

typedef struct installing {
	wh_cron_place place;
	char target[TARGET_ROOM], sends_to[SENDS_TO_ROOM];
	wherry_delayed *queue;
	const wherry_tick *ticks;
	size_t n;
	int64_t created;
	int64_t found; /* Schedules that were uninstalled: 0 or 1. */
} installing;

static wherry_code check_place(const wherry_cron *cron, const wherry_delayed *queue,
			       const char *prefix, const char *hash, wherry_error *err)
{
	if (!cron || !queue)
		return wh_fail(err, WHERRY_INVALID, "no cron, or no delayed queue");
	if (cron->store.db != queue->store.db)
		return wh_fail(
			err, WHERRY_INVALID,
			"the cron and the delayed queue must be on one connection: "
			"ticks and what is remembered are one transaction");
	return check_names(prefix, hash, err);
}

/* Ticks that are removed from a queue. */
typedef struct removing {
	char under[UNDER_MOST]; /* Prefix of their keys. */
	/* Time of the earliest tick removed; WH_NEVER: none was removed. */
	int64_t first_us;
	int64_t n;
} removing;

/* The number that n digits form; -1: there are other characters. */
static int64_t digits(const char *text, size_t n)
{
	int64_t value = 0;

	for (; n; n--, text++) {
		if (*text < '0' || *text > '9')
			return -1;
		value = value * 10 + (*text - '0');
	}
	return value;
}

/* The time in the part of a tick's key behind the hash, Unix microseconds.  WH_NEVER: it
 * is not the key of a tick. */
static int64_t time_of(wh_view text)
{
	enum { FORM_LEN = 25 }; /* 20240101-110000.000000000 */
	const char *p = text.ptr;
	int64_t date, of_day, us;
	wh_date day;

	if (text.len != FORM_LEN || p[8] != '-' || p[15] != '.')
		return WH_NEVER;
	date = digits(p, 8);
	of_day = digits(p + 9, 6);
	us = digits(p + 16, 6);
	day = (wh_date){(int)(date / 10000), (int)(date / 100 % 100), (int)(date % 100)};
	if (date < 0 || of_day < 0 || us < 0 || day.month < 1 || day.month > 12)
		return WH_NEVER;
	of_day = of_day / 10000 * 3600 + of_day / 100 % 100 * 60 + of_day % 100;
	return (wh_date_days(day) * WH_DAY + of_day) * 1000000 + us;
}

static wherry_code take_removed(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_view key = wh_row_bytes(row, 0);
	removing *r = ctx;
	size_t under = strlen(r->under);
	int64_t at_us = key.len < under
				? WH_NEVER
				: time_of((wh_view){key.ptr + under, key.len - under});

	if (at_us < r->first_us)
		r->first_us = at_us;
	return wh_row_check(row, err);
}

/*
 * Remove ticks that nobody has polled.
 *
 * @param hash      Remove the ticks of this hash; NULL: of all hashes except place->hash.
 * @param after_us  Remove only ticks that are due after this time; 0: all ticks.  Ticks
 *                  that are late already stay: they would be lost if their schedule were
 *                  installed again.
 */
static wherry_code remove_ticks(wherry_delayed *queue, const wh_cron_place *place,
				const char *hash, int64_t after_us, removing *out,
				wherry_error *err)
{
	char own[UNDER_MOST];
	wherry_delayed_filter filter =
		WHERRY_DELAYED_FILTER(.prefix = out->under, .untouched = true,
				      .due_after_us = after_us);

	*out = (removing){.first_us = WH_NEVER};
	(void)snprintf(own, sizeof(own), "%s/%s/", place->name, place->hash);
	(void)snprintf(out->under, sizeof(out->under), "%s/%s%s", place->name,
		       hash ? hash : "", hash ? "/" : "");
	filter.except = hash ? NULL : own;
	return wh_delayed_drop_many(queue, &filter, take_removed, out, &out->n, err);
}

/* The time up to which ticks may have been done, just before the earliest tick
 * removed.  WH_NEVER: no tick was removed. */
static int64_t before(const removing *removed)
{
	return removed->first_us == WH_NEVER ? WH_NEVER : removed->first_us - 1000;
}

/* When a tick is due, in whole milliseconds, as delayed queues store times. */
static int64_t delivery(const wherry_tick *tick)
{
	int64_t us = tick->deliver_us ? tick->deliver_us : tick->at_us;

	return wh_floor_div(us, 1000) * 1000;
}

/*
 * May the tick have been done already?  No if it is later than the last tick made.
 *
 * Nor if it is due more than this later: then its message, if it is gone, was removed by
 * somebody else, or the clock was far ahead when the tick was made.  A shorter time
 * decides nothing: a consumer's clock may be ahead, and the database's clock may have
 * been set back.
 */
#define FAR_US (3600LL * WH_SECOND)

static bool may_be_done(const wh_cron_place *place, const wherry_tick *tick)
{
	return place->until_us &&
	       wh_floor_div(tick->at_us, 1000) * 1000 <= place->until_us &&
	       delivery(tick) <= wh_later(place->now_us, FAR_US);
}

typedef struct offers {
	char (*keys)[WHERRY_TICK_KEY_MOST + 1];
	wherry_delayed_message *messages;
	wherry_offer_outcome *outcomes;
	size_t n;
} offers;

static wherry_code fill(const installing *in, offers *o, wherry_error *err)
{
	for (size_t i = 0; i < in->n; i++) {
		const wherry_tick *tick = &in->ticks[i];
		wherry_code code = wherry_tick_key(in->place.name, in->place.hash,
						   tick->at_us, o->keys[o->n], err);

		if (code != WHERRY_OK)
			return wh_prefix(err, code, "tick %zu", i);
		if (may_be_done(&in->place, tick))
			continue;
		o->messages[o->n] =
			WHERRY_DELAYED_MESSAGE(.key = o->keys[o->n], .body = tick->body,
					       .body_len = tick->body_len,
					       .at_us = delivery(tick),
					       .if_absent = true);
		o->n++;
	}
	return WHERRY_OK;
}

static wherry_code offer_all(installing *in, wherry_error *err)
{
	offers o = {.keys = calloc(in->n, sizeof(*o.keys)),
		    .messages = calloc(in->n, sizeof(*o.messages)),
		    .outcomes = calloc(in->n, sizeof(*o.outcomes))};
	wherry_code code =
		o.keys && o.messages && o.outcomes ? fill(in, &o, err) : wh_oom(err);

	if (code == WHERRY_OK && o.n)
		code = wherry_delayed_offer_many(in->queue, o.messages, o.n, o.outcomes,
						 err);
	in->created = 0;
	for (size_t i = 0; code == WHERRY_OK && i < o.n; i++)
		in->created += o.outcomes[i] == WHERRY_CREATED;
	free(o.keys);
	free(o.messages);
	free(o.outcomes);
	return code;
}

static int64_t latest(const installing *in)
{
	int64_t most = 0;

	for (size_t i = 0; i < in->n; i++)
		if (in->ticks[i].at_us > most)
			most = in->ticks[i].at_us;
	return most;
}

/* Remove the ticks of other hashes.  Active schedules become inactive, and their rows
 * record up to which time ticks may have been done. */
static wherry_code replace_others(installing *in, wherry_error *err)
{
	const wh_cron_place *place = &in->place;
	wh_cron_other active;
	removing r;
	wherry_code code;

	while ((code = wh_cron_active(place, &active, err)) == WHERRY_OK &&
	       *active.hash) {
		wh_cron_place other = *place;

		other.hash = active.hash;
		code = remove_ticks(in->queue, place, active.hash, place->now_us, &r,
				    err);
		if (code == WHERRY_OK)
			code = wh_cron_retire(&other, before(&r), NULL, err);
		if (code != WHERRY_OK)
			return code;
	}
	return code == WHERRY_OK
		       ? remove_ticks(in->queue, place, NULL, place->now_us, &r, err)
		       : code;
}

static wherry_code install(void *ctx, wherry_error *err)
{
	installing *in = ctx;
	wherry_code code = wh_cron_look(&in->place, err);

	if (code == WHERRY_OK)
		code = replace_others(in, err);
	if (code == WHERRY_OK && in->n)
		code = offer_all(in, err);
	if (code == WHERRY_OK)
		code = wh_cron_advance(&in->place, latest(in), err);
	return code;
}

/* Set the place of a schedule whose ticks go to in->queue. */
static void set_place(installing *in, wherry_cron *cron, const char *prefix,
		      const char *hash)
{
	const char *queue = in->queue->queue;

	(void)snprintf(in->target, sizeof(in->target), "delayed %s %s",
		       in->queue->store.name.ptr, wherry_delayed_kind(in->queue));
	(void)snprintf(in->sends_to, sizeof(in->sends_to), "delayed queue %.*s",
		       (int)wh_utf8_cut(queue, strlen(queue), QUEUE_SHOWN), queue);
	in->place = (wh_cron_place){.cron = cron,
				    .target = in->target,
				    .name = prefix,
				    .hash = hash,
				    .queue = in->queue,
				    .sends_to = in->sends_to};
}

wherry_code wherry_cron_install(wherry_cron *cron, wherry_delayed *queue,
				const char *prefix, const char *hash,
				const wherry_tick *ticks, size_t n, int64_t *out_created,
				wherry_error *err)
{
	wh_error_clear(err);
	installing in = {.queue = queue, .ticks = ticks, .n = n};
	wherry_code code = check_place(cron, queue, prefix, hash, err);

	if (code == WHERRY_OK && n && !ticks)
		code = wh_fail(err, WHERRY_INVALID, "there are no ticks to install");
	if (code != WHERRY_OK)
		return code;
	set_place(&in, cron, prefix, hash);
	code = wh_db_transact(cron->store.db, install, &in, err);
	if (code == WHERRY_OK && out_created)
		*out_created = in.created;
	return code;
}

/* ---- uninstalling ---- */

/* Write the schedule's row first: the lock of the row keeps others from installing ticks
 * meanwhile. */
static wherry_code uninstall(void *ctx, wherry_error *err)
{
	installing *in = ctx;
	removing r = {.n = 0};
	wherry_code code = wh_cron_retire(&in->place, WH_NEVER, &in->found, err);

	code = wh_cron_failed(in->place.cron, code, err);
	if (code == WHERRY_OK)
		code = remove_ticks(in->queue, &in->place, in->place.hash, 0, &r, err);
	if (code == WHERRY_OK && r.n)
		code = wh_cron_retire(&in->place, before(&r), NULL, err);
	in->created = r.n;
	return code;
}

wherry_code wh_cron_uninstall(wherry_cron *cron, wherry_delayed *queue,
			      const char *prefix, const char *hash, int64_t *out_n,
			      bool *out_found, wherry_error *err)
{
	wh_error_clear(err);
	installing in = {.queue = queue};
	wherry_code code = check_place(cron, queue, prefix, hash, err);

	if (code != WHERRY_OK)
		return code;
	set_place(&in, cron, prefix, hash);
	code = wh_db_transact(cron->store.db, uninstall, &in, err);
	if (code == WHERRY_OK && out_n)
		*out_n = in.created;
	if (code == WHERRY_OK && out_found)
		*out_found = in.found > 0;
	return code;
}

wherry_code wherry_cron_uninstall(wherry_cron *cron, wherry_delayed *queue,
				  const char *prefix, const char *hash, int64_t *out_n,
				  wherry_error *err)
{
	return wh_cron_uninstall(cron, queue, prefix, hash, out_n, NULL, err);
}

/* ---- the ticks of a schedule ---- */

typedef struct scheduling {
	installing in;
	wh_cron_ahead *how;
} scheduling;

/* Append ticks for the times after from_us and up to to_us that are not later than now +
 * ahead_us; the first one after now may be later. */
static wherry_code collect(const scheduling *s, int64_t from_us, int64_t to_us,
			   wherry_tick *ticks, size_t *n, wherry_error *err)
{
	int64_t now_us = s->in.place.now_us, at_us = from_us;
	wherry_code code;

	for (; *n < WH_CRON_TICKS_MOST; ++*n) {
		bool needed = at_us <= now_us;

		code = wh_cron_next(s->how->schedule, at_us, &at_us, err);
		if (code != WHERRY_OK)
			return code;
		if (at_us == WH_NEVER || at_us > to_us ||
		    (!needed && at_us > wh_later(now_us, s->how->ahead_us)))
			break;
		ticks[*n] = (wherry_tick){.at_us = at_us,
					  .body = s->how->body,
					  .body_len = s->how->body_len};
	}
	return WHERRY_OK;
}

/* Collect ticks that were not made yet, and behind them those whose message may be
 * gone. */
static wherry_code collect_all(scheduling *s, wherry_tick *ticks, wherry_error *err)
{
	installing *in = &s->in;
	int64_t from_us = 0;
	wherry_code code = wh_cron_begin(&in->place, s->how->schedule, s->how->catch_up,
					 &from_us, err);

	if (code == WHERRY_OK)
		code = collect(s, from_us, WH_NEVER, ticks, &in->n, err);
	if (code != WHERRY_OK)
		return code;
	if (in->n == WH_CRON_TICKS_MOST)
		s->how->up_to_us = ticks[in->n - 1].at_us;
	return from_us > in->place.now_us
		       ? collect(s, in->place.now_us, from_us, ticks, &in->n, err)
		       : WHERRY_OK;
}

static wherry_code install_schedule(void *ctx, wherry_error *err)
{
	scheduling *s = ctx;
	wherry_tick *ticks = calloc(WH_CRON_TICKS_MOST, sizeof(*ticks));
	wherry_code code = ticks ? wh_cron_look(&s->in.place, err) : wh_oom(err);

	s->in.n = 0;
	s->in.ticks = ticks;
	s->how->up_to_us = 0;
	if (code == WHERRY_OK)
		code = collect_all(s, ticks, err);
	if (code == WHERRY_OK)
		code = install(&s->in, err);
	s->how->created = s->in.created;
	free(ticks);
	return code;
}

wherry_code wh_cron_install_ahead(wherry_cron *cron, wherry_delayed *queue,
				  const char *prefix, wh_cron_ahead *how,
				  wherry_error *err)
{
	scheduling s = {.in = {.queue = queue}, .how = how};
	char hash[WHERRY_HASH_LEN + 1];
	wherry_code code;

	if (how->ahead_us < 0)
		return wh_fail(err, WHERRY_INVALID, "ahead_us is negative");
	code = wherry_schedule_hash(how->schedule, hash, err);
	if (code == WHERRY_OK)
		code = check_place(cron, queue, prefix, hash, err);
	if (code != WHERRY_OK)
		return code;
	set_place(&s.in, cron, prefix, hash);
	s.in.place.schedule = how->schedule;
	return wh_db_transact(cron->store.db, install_schedule, &s, err);
}

wherry_code wherry_cron_install_schedule(wherry_cron *cron, wherry_delayed *queue,
					 const char *prefix,
					 const wherry_schedule *schedule,
					 int64_t ahead_us, wherry_catch_up catch_up,
					 const void *body, size_t body_len,
					 int64_t *out_created, wherry_error *err)
{
	wh_error_clear(err);
	wh_cron_ahead how = {.schedule = schedule,
			     .ahead_us = ahead_us,
			     .catch_up = catch_up,
			     .body = body,
			     .body_len = body_len};
	wherry_code code = wh_cron_install_ahead(cron, queue, prefix, &how, err);

	if (code == WHERRY_OK && out_created)
		*out_created = how.created;
	return code;
}
