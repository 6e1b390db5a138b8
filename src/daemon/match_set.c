/*
 * An outbox of a set, and the connection of the set.
 */
#include "daemon/match_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"

int64_t wh_match_around(int64_t us)
{
	return us / 2 + (int64_t)(wh_random(&wh_env_system) % (uint64_t)(us / 2 + 1));
}

void wh_match_rest(wh_match *o, int64_t due_us)
{
	o->stage = WH_RESTING;
	o->due_us = due_us;
	o->row.lock = WH_LOCK_NONE;
	o->step_us = WH_MATCH_TRY_US;
	o->foreign = o->yielded = false;
}

void wh_match_stir(wh_match *o, int64_t now)
{
	if (now >= o->stir_us)
		o->step_us = WH_MATCH_STIR_FIRST_US;
	o->stir_us = now + WH_MATCH_STIR_US;
	o->due_us = wh_sooner(o->due_us, now + o->step_us);
}

void wh_match_blame(wh_match *o, const char *why, int64_t now)
{
	if (strcmp(o->why, why) == 0)
		return;
	o->tell_us = wh_later(now, WH_SECOND);
	o->told = false;
	(void)snprintf(o->why, sizeof(o->why), "%s", why);
}

/* Its relay failed, or the look at it did. */
void wh_match_fail(wh_matches *m, wh_match *o, const char *why, int64_t now)
{
	static const wh_backoff backoff = {WH_EXPONENTIAL, 500000, 30 * WH_SECOND, true,
					   0};

	o->failures++;
	o->not_before_us =
		wh_later(now, wh_backoff_delay(&backoff, o->failures, &wh_env_system));
	/* Its schema may have been dropped, which the list shows. */
	m->list_us = now;
	wh_match_blame(o, why, now);
}

void wh_match_disconnect(wh_matches *m, const char *why, int64_t now)
{
	static const wh_backoff backoff = {WH_EXPONENTIAL, 200000, 10 * WH_SECOND, true,
					   0};

	wh_match_close(m->db);
	m->db = NULL;
	m->db_failures++;
	m->connect_us =
		wh_later(now, wh_backoff_delay(&backoff, m->db_failures, &wh_env_system));
	if (m->db_failures == 1 || m->db_failures % 10 == 0)
		wh_match_say(m, WHERRY_LOG_WARN, "database-trouble",
			     wh_log_int("failures", m->db_failures),
			     wh_log_text("why", why));
	(void)pthread_mutex_lock(&m->lock);
	m->view.sum.health = WH_FAILING;
	(void)snprintf(m->view.sum.why, sizeof(m->view.sum.why), "%s", why);
	(void)pthread_mutex_unlock(&m->lock);
}

/* False: it failed, and the connection is closed. */
bool wh_match_check(wh_matches *m, wherry_code code, const wherry_error *err, int64_t now)
{
	if (code != WHERRY_OK)
		wh_match_disconnect(m, err->message, now);
	return code == WHERRY_OK;
}

wherry_code wh_match_listen_to(wh_matches *m, wh_match *const *of, size_t n, bool on,
			       wherry_error *err)
{
	int64_t *keys = calloc(n + 1, sizeof(*keys));
	wherry_code code;

	if (!keys)
		return wh_oom(err);
	for (size_t i = 0; i < n; i++)
		keys[i] = of[i]->row.key;
	code = wh_match_listen(m->db, keys, n, on, err);
	free(keys);
	return code;
}

wh_match *wh_match_find(const wh_matches *m, int64_t key)
{
	size_t low = 0, high = m->n;

	while (low < high) {
		size_t at = (low + high) / 2;

		if (m->all[at]->row.key == key)
			return m->all[at];
		if (m->all[at]->row.key < key)
			low = at + 1;
		else
			high = at;
	}
	return NULL;
}
