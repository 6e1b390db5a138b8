/*
 * Counts the messages that wait in outboxes and queues.  A separate thread runs the
 * queries, so that relays go on working.  It runs them only when somebody reads the
 * metrics.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/url.h"
#include "daemon/daemon.h"
#include "db/driver.h"
#include "relay/engine/engine.h"
#include "relay/source.h"

enum { FRESH_US = 2 * WH_SECOND, WAIT_US = WH_SECOND, IDLE_US = 300 * WH_SECOND };

/* One outbox or queue, read through a separate connection. */
typedef struct seen {
	char name[WH_PLAN_NAME + 1];
	char *from;
	wherry_config *config;
	wherry_db *db;
	wh_source source;
	wh_wal *wal; /* NULL: not streamed from a WAL. */
	int old_log; /* See wh_db_options.old_log. */
	bool wanted;
	wh_backlog_view view;
} seen;

struct wh_backlogs {
	wh_daemon *daemon;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t asked, answered;
	bool stop, ask;
	int64_t round_us; /* When the last round ended. */
	seen *seen;       /* Changed by the thread only. */
	size_t n;
};

static void let_go(seen *s)
{
	wh_wal_close(s->wal);
	wh_source_close(&s->source);
	wherry_db_close(s->db);
	s->wal = NULL;
	s->db = NULL;
}

static void drop_log(seen *s)
{
	if (s->old_log > 0)
		(void)close(s->old_log);
	s->old_log = 0;
}

static void forget(seen *s)
{
	let_go(s);
	drop_log(s);
	wherry_config_free(s->config);
	free(s->from);
}

static wherry_code open_seen(seen *s, wherry_error *err)
{
	wh_db_options options = wh_db_options_of(s->config, &wh_env_system);
	char *url = NULL;
	wherry_code code = wh_source_take_url(s->from, s->config, &url, err);

	options.create = false;
	options.old_log = s->old_log;
	if (code == WHERRY_OK)
		code = wh_db_open(url, &options, &s->db, err);
	free(url);
	if (code == WHERRY_OK)
		drop_log(s);
	if (code == WHERRY_OK)
		code = wh_source_open_set(s->db, s->config, &s->source, err);
	if (code != WHERRY_OK || !s->source.outbox)
		return code;
	code = wh_wal_open(s->source.outbox, wherry_config_get(s->config, "stream.slot"),
			   wherry_config_get(s->config, "stream.publication"), &s->wal,
			   err);
	/* INVALID: there is no WAL to read. */
	return code == WHERRY_INVALID ? WHERRY_OK : code;
}

static void take_partitions(void *ctx, const wh_partition_holder *who)
{
	wh_backlog_view *view = ctx;
	wh_partition_lease *lease = &view->partition_leases[view->n_partition_leases];

	if (view->n_partition_leases == WH_PARTITIONS)
		return;
	(void)snprintf(lease->owner, sizeof(lease->owner), "%s", who->owner);
	lease->epoch = who->epoch;
	lease->n = who->n;
	view->n_partition_leases++;
}

static wherry_code ask(seen *s, wh_backlog_view *view, wherry_error *err)
{
	wherry_code code;

	if (wh_db_replaced(s->db, true)) {
		wh_db_keep_log(s->db, &s->old_log);
		let_go(s);
	}
	code = s->source.store ? WHERRY_OK : open_seen(s, err);
	if (code == WHERRY_OK)
		code = wh_source_backlog(&s->source, &view->backlog, err);
	if (code == WHERRY_OK)
		code = wh_store_holder(s->source.store, &view->holder, err);
	if (code == WHERRY_OK)
		wh_holder_look(s->source.store, &view->holder);
	if (code == WHERRY_OK)
		code = wh_partitions_list(s->source.store, take_partitions, view, err);
	if (code == WHERRY_OK && s->wal)
		code = wh_wal_watch(s->wal, &view->log, err);
	if (code == WHERRY_OK)
		view->reads_log = wh_engine_reads_log(wh_engine_for(s->source.store));
	return code;
}

/* Do two entries read the same outbox of the same database? */
static bool are_same(const seen *a, const seen *b)
{
	char *one, *two;
	bool same;

	if (!a->source.outbox || !b->source.outbox ||
	    !wh_same_outbox(a->source.outbox, b->source.outbox))
		return false;
	one = wh_url_database(a->from);
	two = wh_url_database(b->from);
	same = one && two && strcmp(one, two) == 0;
	free(one);
	free(two);
	return same;
}

/* The entries with the same outbox as one of them. */
typedef struct peers {
	const wh_backlogs *b;
	const seen *of;
} peers;

static bool is_served(void *ctx, const char *subscription)
{
	const peers *p = ctx;

	for (size_t i = 0; i < p->b->n; i++)
		if (are_same(&p->b->seen[i], p->of) &&
		    strcmp(p->b->seen[i].source.outbox->store.topic, subscription) == 0)
			return true;
	return false;
}

/* Count the subscriptions that no entry reads, for the first entry of their outbox.  If that fails, keep the old numbers. */
static void look_at_others(wh_backlogs *b, size_t at)
{
	seen *s = &b->seen[at];
	wh_other others[WH_OTHERS_MOST];
	peers p = {b, s};
	int n = 0;

	for (size_t i = 0; i < at; i++)
		if (are_same(&b->seen[i], s))
			goto out;
	if (!s->source.outbox || wh_others_read(s->source.outbox, is_served, &p, others,
						&n, NULL) != WHERRY_OK)
		return;
out:
	(void)pthread_mutex_lock(&b->lock);
	s->view.n_others = n;
	memcpy(s->view.others, others, (size_t)n * sizeof(*others));
	(void)pthread_mutex_unlock(&b->lock);
}

/* Count again.  If that fails, keep the old numbers and their time. */
static void look(wh_backlogs *b, seen *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_backlog_view view = {.seen_us = 0};

	if (ask(s, &view, &err) != WHERRY_OK) {
		wh_line(&b->daemon->log, WHERRY_LOG_DEBUG, s->name, "backlog-unknown",
			wh_log_text("why", err.message));
		let_go(s);
		return;
	}
	view.seen_us = wh_monotonic(&wh_env_system);
	view.n_others = s->view.n_others;
	memcpy(view.others, s->view.others, sizeof(view.others));
	(void)pthread_mutex_lock(&b->lock);
	s->view = view;
	(void)pthread_mutex_unlock(&b->lock);
}

static bool shows(const seen *s, const wh_plan_relay *plan)
{
	return strcmp(s->name, plan->name) == 0 &&
	       strcmp(s->from, plan->from.value) == 0 &&
	       wh_plan_same_settings(s->config, plan->config);
}

/* The entry of a relay's outbox or queue; NULL: out of memory. */
static seen *find_or_add(wh_backlogs *b, const wh_plan_relay *plan)
{
	seen *grown, added = {.view.seen_us = 0};

	for (size_t i = 0; b->seen && i < b->n; i++)
		if (shows(&b->seen[i], plan))
			return &b->seen[i];
	(void)snprintf(added.name, sizeof(added.name), "%s", plan->name);
	added.from = strdup(plan->from.value);
	if (!added.from ||
	    wh_config_copy(plan->config, &added.config, NULL) != WHERRY_OK) {
		forget(&added);
		return NULL;
	}
	(void)pthread_mutex_lock(&b->lock);
	grown = reallocarray(b->seen, b->n + 1, sizeof(*grown));
	if (grown) {
		b->seen = grown;
		b->seen[b->n++] = added;
	}
	(void)pthread_mutex_unlock(&b->lock);
	if (!grown)
		forget(&added);
	return grown ? &b->seen[b->n - 1] : NULL;
}

/* Make the list match the relays that the daemon runs now. */
static void match(wh_backlogs *b)
{
	for (size_t i = 0; b->seen && i < b->n; i++)
		b->seen[i].wanted = false;
	(void)pthread_mutex_lock(&b->daemon->lock);
	for (size_t i = 0; i < b->daemon->n; i++) {
		seen *s = find_or_add(b, wh_pipeline_plan(b->daemon->pipelines[i]));

		if (s)
			s->wanted = true;
	}
	(void)pthread_mutex_unlock(&b->daemon->lock);
	for (size_t i = b->n; b->seen && i-- > 0;) {
		seen gone = b->seen[i];

		if (gone.wanted)
			continue;
		(void)pthread_mutex_lock(&b->lock);
		b->seen[i] = b->seen[--b->n];
		(void)pthread_mutex_unlock(&b->lock);
		forget(&gone);
	}
}

/* Wait until somebody asks.  After IDLE_US without a question, close the connections.
 * False: stop. */
static bool wait_for_question(wh_backlogs *b)
{
	int64_t until_us = wh_later(wh_monotonic(&wh_env_system), IDLE_US);
	struct timespec until = {until_us / WH_SECOND, until_us % WH_SECOND * 1000};
	bool late = false, stop;

	(void)pthread_mutex_lock(&b->lock);
	while (!b->stop && !b->ask) {
		if (late)
			(void)pthread_cond_wait(&b->asked, &b->lock);
		else
			late = pthread_cond_clockwait(&b->asked, &b->lock,
						      CLOCK_MONOTONIC, &until) != 0;
		if (late && !b->ask)
			for (size_t i = 0; i < b->n; i++)
				let_go(&b->seen[i]);
	}
	stop = b->stop;
	(void)pthread_mutex_unlock(&b->lock);
	return !stop;
}

static void *run(void *ctx)
{
	wh_backlogs *b = ctx;

	while (wait_for_question(b)) {
		match(b);
		for (size_t i = 0; i < b->n; i++)
			look(b, &b->seen[i]);
		for (size_t i = 0; i < b->n; i++)
			look_at_others(b, i);
		(void)pthread_mutex_lock(&b->lock);
		b->ask = false;
		b->round_us = wh_monotonic(&wh_env_system);
		(void)pthread_cond_broadcast(&b->answered);
		(void)pthread_mutex_unlock(&b->lock);
	}
	return NULL;
}

wherry_code wh_backlogs_start(wh_daemon *d, wh_backlogs **out, wherry_error *err)
{
	wh_backlogs *b = calloc(1, sizeof(*b));
	int failed;

	if (!b)
		return wh_oom(err);
	b->daemon = d;
	(void)pthread_mutex_init(&b->lock, NULL);
	(void)pthread_cond_init(&b->asked, NULL);
	(void)pthread_cond_init(&b->answered, NULL);
	failed = pthread_create(&b->thread, NULL, run, b);
	if (failed) {
		(void)pthread_cond_destroy(&b->answered);
		(void)pthread_cond_destroy(&b->asked);
		(void)pthread_mutex_destroy(&b->lock);
		free(b);
		return wh_fail_errno(err, failed, "cannot start a thread");
	}
	*out = b;
	return WHERRY_OK;
}

void wh_backlogs_stop(wh_backlogs *b)
{
	if (!b)
		return;
	(void)pthread_mutex_lock(&b->lock);
	b->stop = true;
	(void)pthread_cond_broadcast(&b->asked);
	(void)pthread_cond_broadcast(&b->answered);
	(void)pthread_mutex_unlock(&b->lock);
	(void)pthread_join(b->thread, NULL);
	for (size_t i = 0; i < b->n; i++)
		forget(&b->seen[i]);
	(void)pthread_cond_destroy(&b->answered);
	(void)pthread_cond_destroy(&b->asked);
	(void)pthread_mutex_destroy(&b->lock);
	free(b->seen);
	free(b);
}

void wh_backlogs_refresh(wh_backlogs *b)
{
	int64_t now = wh_monotonic(&wh_env_system), until_us = wh_later(now, WAIT_US);
	struct timespec until = {until_us / WH_SECOND, until_us % WH_SECOND * 1000};

	(void)pthread_mutex_lock(&b->lock);
	if (!b->round_us || now - b->round_us > FRESH_US) {
		b->ask = true;
		(void)pthread_cond_signal(&b->asked);
		while (b->ask && !b->stop &&
		       pthread_cond_clockwait(&b->answered, &b->lock, CLOCK_MONOTONIC,
					      &until) == 0)
			;
	}
	(void)pthread_mutex_unlock(&b->lock);
}

bool wh_backlogs_get(wh_backlogs *b, const char *name, wh_backlog_view *out)
{
	bool found = false;

	(void)pthread_mutex_lock(&b->lock);
	for (size_t i = 0; i < b->n && !found; i++)
		if (strcmp(b->seen[i].name, name) == 0 && b->seen[i].view.seen_us) {
			*out = b->seen[i].view;
			found = true;
		}
	(void)pthread_mutex_unlock(&b->lock);
	return found;
}
