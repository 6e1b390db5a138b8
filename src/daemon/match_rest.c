/*
 * The outboxes of a set that rest: who has the locks of their sleepers, whether they have work, and who
 * relays them.
 */
#include "daemon/match_set.h"

#include <stdlib.h>

enum {
	FOREIGN_US =
		5 * WH_SECOND, /* Between two looks at one that another process relays. */
	OTHER_US = 2 * WH_SECOND, /* Until the lock of another process is tried again. */
	YIELD_US = WH_SECOND,     /* So long the process with the lock goes first. */
	LAST_TRY_US = WH_SECOND,
	PROBE_STEP_US = 10 * WH_SECOND,
	GONE_US = 5 * WH_SECOND, /* Until one is looked at again for which that failed. */
	CALM_MOST_US = 16 * WH_SECOND,
	LOCKED_US = 250000 /* Until one is looked at again that somebody has locked. */
};

/* Outboxes of one statement. */
typedef struct set {
	wh_match **of;
	wh_match_row **rows; /* Theirs, in the same order. */
	size_t n;
} set;

static void put(set *s, wh_match *o)
{
	s->of[s->n] = o;
	s->rows[s->n++] = &o->row;
}

static wherry_code make_set(set *s, size_t most, wherry_error *err)
{
	s->n = 0;
	s->of = calloc(most + 1, sizeof(*s->of));
	s->rows = calloc(most + 1, sizeof(*s->rows));
	return s->of && s->rows ? WHERRY_OK : wh_oom(err);
}

static void clear_set(set *s)
{
	free(s->of);
	free(s->rows);
}

static int64_t sleep_until(const wh_match *o, int64_t now)
{
	int64_t due_us = wh_sooner(o->probe_us, o->upkeep_us);

	if (o->row.found.due_us > 0)
		due_us = wh_sooner(due_us, wh_later(now, o->row.found.due_us));
	if (o->row.lock == WH_LOCK_OTHER)
		due_us = wh_sooner(due_us, now + OTHER_US);
	return due_us;
}

/* Nothing is to be done: sleep, or try again to. */
static void lie_down(wh_match *o, int64_t now)
{
	o->yielded = false;
	o->due_us = sleep_until(o, now);
	if (now < o->stir_us) {
		o->due_us = wh_sooner(o->due_us, now + o->step_us);
		o->step_us = o->step_us * 4 < WH_MATCH_STIR_LAST_US
				     ? o->step_us * 4
				     : WH_MATCH_STIR_LAST_US;
		return;
	}
	if (o->row.lock != WH_LOCK_NONE) {
		o->step_us = WH_MATCH_TRY_US;
		return;
	}
	o->due_us = wh_sooner(o->due_us, now + o->step_us);
	o->step_us = o->step_us * 2 < LAST_TRY_US ? o->step_us * 2 : LAST_TRY_US;
}

/* Its database could not be asked, or has no outbox. */
static void take_trouble(wh_matches *m, wh_match *o, int64_t now)
{
	o->alerted = o->control = false;
	o->none_us = o->row.trouble != WH_MATCH_NONE ? 0 : o->none_us ? o->none_us : now;
	if (o->row.trouble == WH_MATCH_LOCKED) {
		wh_match_blame(o, o->row.why, now);
		o->due_us = now + LOCKED_US;
		return;
	}
	o->due_us = now + wh_match_around(2 * PROBE_STEP_US);
	if (o->row.trouble == WH_MATCH_FAILED) {
		wh_match_fail(m, o, o->row.why, now);
		return;
	}
	o->why[0] = 0;
	if (o->told_none)
		return;
	/* The outbox of a new database may be about to be made. */
	o->told_none = now - o->none_us >= WH_SECOND;
	if (!o->told_none)
		o->due_us = now + WH_SECOND;
	else
		wh_match_say(m, WHERRY_LOG_WARN, "no-outbox",
			     wh_log_text(wh_match_what(m->db), o->row.schema),
			     wh_log_text("why", o->row.why));
}

/* Decide what becomes of an outbox that was looked at.  True: its lock must be released. */
static bool decide(wh_matches *m, wh_match *o, int64_t now)
{
	const wh_match_found *f = &o->row.found;
	bool ours = o->row.lock == WH_LOCK_OURS;
	bool work = f->rows || f->due_us == 0 || (o->control && f->exceptions) ||
		    now >= o->upkeep_us;

	/* Rows may be written all the time, and to other tables. */
	if (work)
		o->calm_us = 0;
	else if (o->alerted)
		o->calm_us =
			o->calm_us * 2 < CALM_MOST_US ? o->calm_us * 2 : CALM_MOST_US;
	if (o->calm_us < WH_SECOND)
		o->calm_us = WH_SECOND;
	o->calm_at_us = now + o->calm_us;
	o->alerted = o->control = o->told_none = false;
	o->none_us = 0;
	/* In steps, so that one statement looks at many. */
	o->probe_us = wh_later(now, wh_match_around(2 * wh_match_probe_us(m->db)));
	o->probe_us += PROBE_STEP_US - o->probe_us % PROBE_STEP_US;
	o->foreign = f->leased_us > 0 && !f->ended;
	if (o->foreign) {
		o->due_us = now + (f->leased_us < FOREIGN_US ? f->leased_us : FOREIGN_US);
		o->yielded = true;
		return ours;
	}
	if (!work || f->paused) {
		o->why[0] = 0;
		lie_down(o, now);
		return false;
	}
	if (now < o->not_before_us) {
		o->due_us = o->not_before_us;
		return false;
	}
	if (o->row.lock == WH_LOCK_OTHER && !o->yielded && !f->ended) {
		o->yielded = true;
		o->due_us = now + YIELD_US;
		return false;
	}
	wh_match_want(m, o);
	return ours;
}

/* Look at each by itself, to find the one for which the statement fails. */
static wherry_code look_at_each(wh_matches *m, set *s, int64_t now, wherry_error *err)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++) {
		wh_match *o = s->of[i];
		wherry_code code = wh_match_look(m->db, &s->rows[i], 1, err);

		if (code != WHERRY_OK && wherry_code_remedy(code) == WHERRY_REMEDY_REOPEN)
			return code;
		if (code == WHERRY_OK) {
			s->of[kept] = o;
			s->rows[kept++] = &o->row;
			continue;
		}
		o->due_us = now + GONE_US;
		wh_match_fail(m, o, err->message, now);
	}
	s->n = kept;
	return WHERRY_OK;
}

/* A writer notified, and nothing speaks against a relay: no look is needed. */
static bool has_work(const wh_match *o, int64_t now)
{
	return o->alerted && !o->control && o->row.lock == WH_LOCK_OURS &&
	       !o->row.found.paused && now >= o->not_before_us;
}

static wherry_code want_alerted(wh_matches *m, set *s, int64_t now, wherry_error *err)
{
	s->n = 0;
	if (!wh_match_exact(m->db))
		return WHERRY_OK;
	for (size_t i = 0; i < m->n; i++) {
		wh_match *o = m->all[i];

		if (o->stage != WH_RESTING || !has_work(o, now))
			continue;
		put(s, o);
		o->alerted = false;
		wh_match_want(m, o);
	}
	return wh_match_wake(m->db, s->rows, s->n, err);
}

/* Collect outboxes that are due.  Of those to whose writers another process listens as well,
 * only the lock is asked for. */
static void collect(wh_matches *m, set *s, set *sleepers, int64_t now)
{
	size_t from = m->look_from < m->n ? m->look_from : 0,
	       most = wh_match_look_most(m->db);

	m->look_from = 0;
	for (size_t i = from; i < m->n; i++) {
		wh_match *o = m->all[i];

		if (o->stage != WH_RESTING || o->due_us > now)
			continue;
		if (s->n == most) { /* The next turn looks at the others. */
			m->look_from = i;
			return;
		}
		put(s, o);
		if (o->row.lock != WH_LOCK_OURS && !o->foreign)
			put(sleepers, o);
	}
}

/* Leave out those that sleep on as before. */
static void leave_out(set *s, int64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++) {
		wh_match *o = s->of[i];

		if (o->row.lock == WH_LOCK_OTHER && !o->alerted && !o->yielded &&
		    now < o->probe_us && now < o->upkeep_us && o->row.found.due_us <= 0) {
			o->due_us = sleep_until(o, now);
			continue;
		}
		s->of[kept] = o;
		s->rows[kept++] = &o->row;
	}
	s->n = kept;
}

static wherry_code look_at(wh_matches *m, set *s, int64_t now, wherry_error *err)
{
	wherry_code code = wh_match_look(m->db, s->rows, s->n, err);
	size_t released = 0;

	if (code != WHERRY_OK && wherry_code_remedy(code) != WHERRY_REMEDY_REOPEN)
		code = look_at_each(m, s, now, err);
	if (code != WHERRY_OK)
		return code;
	for (size_t i = 0; i < s->n; i++)
		if (s->of[i]->row.trouble != WH_MATCH_FINE)
			take_trouble(m, s->of[i], now);
		else if (decide(m, s->of[i], now))
			s->rows[released++] = &s->of[i]->row;
	return wh_match_wake(m->db, s->rows, released, err);
}

void wh_match_settle(wh_matches *m, int64_t now)
{
	wherry_error err = WHERRY_ERROR_INIT;
	set s = {.n = 0}, sleepers = {.n = 0};
	wherry_code code = make_set(&s, m->n, &err);

	if (code == WHERRY_OK)
		code = make_set(&sleepers, m->n, &err);
	if (code == WHERRY_OK)
		code = want_alerted(m, &s, now, &err);
	s.n = 0;
	if (code == WHERRY_OK)
		collect(m, &s, &sleepers, now);
	if (code == WHERRY_OK)
		code = wh_match_sleep(m->db, sleepers.rows, sleepers.n, &err);
	if (code == WHERRY_OK)
		leave_out(&s, now);
	if (code == WHERRY_OK && s.n)
		code = look_at(m, &s, now, &err);
	(void)wh_match_check(m, code, &err, now);
	clear_set(&s);
	clear_set(&sleepers);
}
