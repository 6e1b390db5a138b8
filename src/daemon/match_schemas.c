/*
 * The list of schemas of a set of outboxes: which are new, and which are gone.
 */
#include "daemon/match_set.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum {
	OUTBOXES_MOST = 10000,
	LIST_US = 5 * WH_SECOND, /* Between two looks for schemas. */
	LIST_AGAIN_US = 100000   /* The same when one was renamed. */
};

static bool same_table(const wh_matches *a, const wh_matches *b)
{
	const char *one = a->plan.databases.value, *other = b->plan.databases.value;

	return !one == !other && (!one || strcmp(one, other) == 0) &&
	       strcmp(a->plan.from.value, b->plan.from.value) == 0 &&
	       strcmp(wh_config_text(a->plan.config, WH_RELAY_TABLE),
		      wh_config_text(b->plan.config, WH_RELAY_TABLE)) == 0;
}

/* Does the schema match an earlier relay of the file?  The patterns decide, and not which relay
 * found it first. */
static bool is_of_another(wh_matches *m, const char *schema, char other[WH_PLAN_NAME + 1])
{
	wh_daemon *d = m->daemon;
	bool had = false;

	(void)pthread_mutex_lock(&d->lock);
	for (size_t i = 0; i < d->n_matches && d->matches[i] != m && !had; i++) {
		const wh_plan_relay *plan = &d->matches[i]->plan;

		had = same_table(d->matches[i], m) &&
		      fnmatch(plan->match.value, schema, FNM_NOESCAPE) == 0;
		(void)snprintf(other, WH_PLAN_NAME + 1, "%s", plan->name);
	}
	(void)pthread_mutex_unlock(&d->lock);
	return had;
}

/* False: an earlier relay of the file has it. */
static bool is_free(wh_matches *m, const wh_match_row *row)
{
	char other[WH_PLAN_NAME + 1];

	if (!is_of_another(m, row->schema, other))
		return true;
	if (!m->told_twice)
		wh_match_say(
			m, WHERRY_LOG_ERROR, "matched-twice",
			wh_log_text(wh_match_what(m->db), row->schema),
			wh_log_text("by", other),
			wh_log_note(
				"the outbox matches two relays of the file, and the first "
				"one delivers its messages"));
	m->told_twice = true;
	return false;
}

static wh_match *make(const wh_match_row *row, int64_t now)
{
	wh_match *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->row = *row;
	wh_match_rest(o, now);
	o->stir_us = 0;
	o->upkeep_us = wh_later(
		now, (int64_t)(wh_random(&wh_env_system) % (uint64_t)WH_MATCH_UPKEEP_US));
	return o;
}

static void forget(wh_matches *m, wh_match *o)
{
	if (o->stage == WH_WANTED)
		wh_match_leave_queue(m, o);
	free(o);
}

/* Put new outboxes between the others.  added has room for all. */
static wherry_code merge(wh_matches *m, wh_match **added, size_t n, wherry_error *err)
{
	wh_match **all = calloc(m->n + n + 1, sizeof(*all)), **old = m->all;
	size_t i = 0, k = 0, at = 0;

	if (!all)
		return wh_oom(err);
	while (i < m->n || k < n)
		all[at++] = k == n || (i < m->n && m->all[i]->row.key < added[k]->row.key)
				    ? m->all[i++]
				    : added[k++];
	m->all = all;
	m->n = at;
	free(old);
	return WHERRY_OK;
}

/* Take the outboxes of the list that are new. */
static wherry_code add_new(wh_matches *m, const wh_match_row *rows, size_t n, int64_t now,
			   size_t *out_n, wherry_error *err)
{
	wh_match **added = calloc(n + 1, sizeof(*added));
	wherry_code code = added ? WHERRY_OK : wh_oom(err);
	size_t n_added = 0;

	for (size_t i = 0; code == WHERRY_OK && i < n; i++) {
		wh_match *o = wh_match_find(m, rows[i].key);

		if (!is_free(m, &rows[i]))
			continue;
		if (o) { /* One that was renamed is dropped, and then found again. */
			o->listed = strcmp(o->row.schema, rows[i].schema) == 0;
			m->list_again |= !o->listed;
			continue;
		}
		added[n_added] = make(&rows[i], now);
		if (!added[n_added])
			code = wh_oom(err);
		else
			added[n_added++]->listed = true;
	}
	if (code == WHERRY_OK)
		code = wh_match_listen_to(m, added, n_added, true, err);
	if (code == WHERRY_OK && n_added)
		code = merge(m, added, n_added, err);
	for (size_t i = 0; code != WHERRY_OK && i < n_added; i++)
		free(added[i]);
	free(added);
	*out_n = n_added;
	return code;
}

/* Forget the outboxes that are not in the list any more; those whose relay runs when it has
 * ended. */
static wherry_code drop_old(wh_matches *m, size_t *out_n, wherry_error *err)
{
	wh_match **gone = calloc(m->n + 1, sizeof(*gone));
	size_t n_gone = 0, kept = 0;
	wherry_code code = gone ? WHERRY_OK : wh_oom(err);

	for (size_t i = 0; gone && i < m->n; i++) {
		wh_match *o = m->all[i];

		if (!o->listed && o->stage == WH_AWAKE && !o->stopping) {
			wh_pipeline_stop(o->pipeline);
			o->stopping = true;
		}
		if (o->listed || o->stage == WH_AWAKE)
			m->all[kept++] = o;
		else
			gone[n_gone++] = o;
	}
	if (gone)
		m->n = kept;
	if (n_gone)
		code = wh_match_listen_to(m, gone, n_gone, false, err);
	for (size_t i = 0; i < n_gone; i++)
		forget(m, gone[i]);
	free(gone);
	*out_n = n_gone;
	return code;
}

static void tell_nothing(wh_matches *m, size_t n_schemas)
{
	if (!m->told_nothing)
		wh_match_say(m, WHERRY_LOG_WARN, "matches-nothing",
			     wh_log_text("match", m->plan.match.value),
			     wh_log_int("schemas", (int64_t)n_schemas),
			     wh_log_text("note", wh_match_none(m->db, n_schemas > 0)));
	m->told_nothing = true;
}

static wherry_code take_list(wh_matches *m, const wh_match_row *rows, size_t n,
			     int64_t now, wherry_error *err)
{
	size_t none = 0, added = 0, dropped = 0;
	wherry_code code;

	while (none < n && !rows[none].key)
		none++;
	for (size_t i = 0; i < m->n; i++)
		m->all[i]->listed = false;
	code = add_new(m, rows + none, n - none, now, &added, err);
	if (code == WHERRY_OK)
		code = drop_old(m, &dropped, err);
	if (code != WHERRY_OK)
		return code;
	if (!m->n)
		tell_nothing(m, none);
	if (added || dropped)
		wh_match_say(m, WHERRY_LOG_INFO, "matched",
			     wh_log_int("outboxes", (int64_t)m->n),
			     wh_log_int("added", (int64_t)added),
			     wh_log_int("dropped", (int64_t)dropped));
	return WHERRY_OK;
}

void wh_match_list_again(wh_matches *m, int64_t now)
{
	wh_match_row *rows = calloc(OUTBOXES_MOST, sizeof(*rows));
	wherry_error err = WHERRY_ERROR_INIT;
	size_t n = 0;
	wherry_code code =
		rows ? wh_match_list(m->db, rows, OUTBOXES_MOST, &n, &err) : wh_oom(&err);

	if (code == WHERRY_OK)
		code = take_list(m, rows, n, now, &err);
	free(rows);
	m->list_us = wh_later(now, m->list_again ? LIST_AGAIN_US : LIST_US);
	m->list_again = false;
	if (wh_match_check(m, code, &err, now))
		m->db_failures = 0;
}
