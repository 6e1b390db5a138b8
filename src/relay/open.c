/*
 * Opens and closes a relay: reads its settings, checks them against the destination and
 * the tables, and reopens the database.
 */
#include "relay/hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "config/settings.h"
#include "relay/dead_letters.h"
#include "relay/engine/engine.h"

static const wh_fsm_state states[] = {
	[WH_STANDBY] = {"standby", WH_BIT(WH_LEADING) | WH_BIT(WH_STOPPED)},
	[WH_LEADING] = {"leading", WH_BIT(WH_DRAINING) | WH_BIT(WH_LOST)},
	[WH_DRAINING] = {"draining", WH_BIT(WH_LOST) | WH_BIT(WH_STOPPED)},
	[WH_LOST] = {"lost", WH_BIT(WH_STANDBY) | WH_BIT(WH_STOPPED)},
	[WH_STOPPED] = {"stopped", 0},
};

enum {
	KEY_TEXT_MAX = 4 * 1024 * 1024, /* Two texts of the maximal length, and more. */
	FLAW_TEXT_MAX = 4096,
};

/* ---- settings ---- */

static void default_name(wherry_relay *r)
{
	char host[64] = "";

	(void)gethostname(host, sizeof(host) - 1);
	(void)snprintf(r->set.name, sizeof(r->set.name), "%s:%d:%04x", host,
		       (int)getpid(), (unsigned)(wh_random(&r->env) & 0xffff));
}

static void read_settings(wherry_relay *r)
{
	enum { ALONE_S = 300, CAPS = 10 };
	const wherry_config *c = r->config;
	wh_relay_settings *s = &r->set;
	int64_t third;

	(void)snprintf(s->name, sizeof(s->name), "%s", wh_config_text(c, WH_RELAY_NAME));
	if (!*s->name)
		default_name(r);
	s->claim_us = wh_config_int(c, WH_RELAY_CLAIM_TIMEOUT);
	s->ordered = wh_config_choice(c, WH_RELAY_ORDERING) == 0;
	s->park = wh_config_choice(c, WH_RELAY_ON_DEAD) == 1;
	s->log_level = (wherry_log_level)wh_config_choice(c, WH_LOG_LEVEL);
	s->window = wh_config_int(c, WH_RELAY_WINDOW);
	s->batch = wh_config_int(c, WH_RELAY_BATCH);
	if (s->batch > s->window)
		s->batch = s->window;
	s->window_bytes = wh_config_int(c, WH_RELAY_WINDOW_BYTES);
	s->held_keys = wh_config_int(c, WH_RELAY_HELD_KEYS);
	s->noted_most = WH_NOTED_MOST;
	s->lease_us = s->lasts_us = wh_config_int(c, WH_RELAY_LEASE);
	third = s->lease_us / 3;
	s->renew_us = wh_config_int(c, WH_RELAY_IDLE_INTERVAL);
	if (s->renew_us > third)
		s->renew_us = third;
	s->ack_delay_us = wh_config_int(c, WH_RELAY_ACK_DELAY);
	s->sweep_us = wh_config_int(c, WH_RELAY_SWEEP);
	s->stop_timeout_us = wh_config_int(c, WH_RELAY_STOP_TIMEOUT);
	s->timeout_us = wh_config_int(c, WH_RELAY_TIMEOUT);
	s->retention_us = wh_config_int(c, WH_OUTBOX_RETENTION);
	s->purge_every_us = wh_config_int(c, WH_RELAY_PURGE_EVERY);
	s->down_after = wh_config_int(c, WH_RELAY_DOWN_AFTER);
	s->attempts = (int32_t)wh_config_int(c, WH_RETRY_ATTEMPTS);
	s->retry = (wh_backoff){
		.strategy = (wh_strategy)wh_config_choice(c, WH_RETRY_STRATEGY),
		.base_us = wh_config_int(c, WH_RETRY_BASE),
		.cap_us = wh_config_int(c, WH_RETRY_CAP),
		.jitter = wh_config_switch(c, WH_RETRY_JITTER),
		.immediate = (int)wh_config_int(c, WH_RETRY_IMMEDIATE),
	};
	s->probe = s->retry;
	s->probe.strategy = WH_EXPONENTIAL;
	s->probe.jitter = false;
	s->probe.immediate = 0;
	s->alone_us = s->probe.cap_us < ALONE_S * WH_SECOND / CAPS
			      ? s->probe.cap_us * CAPS
			      : ALONE_S * WH_SECOND;
}

/* If the setting is not set, the destination's preferred value; else, or if it has none,
 * `otherwise`. */
static int64_t preferred(const wherry_relay *r, wh_setting which, int64_t otherwise)
{
	int64_t value;

	if (!wh_config_is_set(r->config, which) &&
	    wh_publisher_prefers(r->pub->driver, (int)which, r->set.window, &value))
		return value;
	return otherwise;
}

static wherry_code apply_publisher(wherry_relay *r, wherry_error *err)
{
	wh_relay_settings *s = &r->set;

	r->caps = r->pub->driver->caps;
	s->window = preferred(r, WH_RELAY_WINDOW, s->window);
	s->window_bytes = preferred(r, WH_RELAY_WINDOW_BYTES, s->window_bytes);
	s->ack_delay_us = preferred(r, WH_RELAY_ACK_DELAY, s->ack_delay_us);
	s->attempts = (int32_t)preferred(r, WH_RETRY_ATTEMPTS, s->attempts);
	s->retry.base_us = preferred(r, WH_RETRY_BASE, s->retry.base_us);
	s->retry.cap_us = preferred(r, WH_RETRY_CAP, s->retry.cap_us);
	if (r->pub->driver->probe_cap_us && !wh_config_is_set(r->config, WH_RETRY_CAP))
		s->probe.cap_us = r->pub->driver->probe_cap_us;
	return wh_window_init(&r->window, (size_t)s->window + WH_FAILED_PROBES_MOST, err);
}

/* Does the configuration ask for this option?  meet.c has the names of the options. */
static bool asked(const wherry_relay *r, wh_ask ask)
{
	const wherry_config *c = r->config;

	switch (ask) {
	case WH_ASK_RELAY:
		return true;
	case WH_ASK_KEY:
		return wh_config_is_set(c, WH_RELAY_ORDERING) &&
		       wh_config_choice(c, WH_RELAY_ORDERING) == 0;
	case WH_ASK_PARK:
		return wh_config_choice(c, WH_RELAY_ON_DEAD) == 1;
	case WH_ASK_HANDLERS:
		return r->pub && r->pub->driver->caps & WH_PUB_ACKS;
	case WH_ASK_CREATE_PARTITIONS:
	case WH_ASK_CREATE_UNIQUE:
	case WH_ASK_CREATE_STREAM:
	case WH_ASK_CREATE_SEGMENTS:
	case WH_ASKS:
		break;
	}
	return false;
}

wherry_code wh_relay_meet(const wherry_relay *r, wherry_error *err)
{
	wh_home home = wh_home_of(r->store->model->name, r->store->layout.name,
				  r->db->driver->scheme);
	wherry_code code = WHERRY_OK;

	for (int ask = 0; code == WHERRY_OK && ask < WH_ASKS; ask++)
		if (asked(r, (wh_ask)ask))
			code = wh_meet_check(home, (wh_ask)ask, err);
	return code == WHERRY_OK && r->outbox ? wh_adopted_check(r->outbox, err) : code;
}

/* Turn off what the tables cannot do.  Return an error if the configuration
 * asks for it. */
static wherry_code apply_layout(wherry_relay *r, wherry_error *err)
{
	const wh_store *store = r->store;
	wh_relay_settings *s = &r->set;
	wherry_code code;

	code = wh_engine_choose(r, err);
	s->ordered = s->ordered && store->layout.ordered;
	if (code == WHERRY_OK)
		code = wh_relay_meet(r, err);
	if (code != WHERRY_OK)
		return code;
	if (store->layout.by_claim && !wh_config_is_set(r->config, WH_OUTBOX_RETENTION))
		s->retention_us = 0; /* Other programs may use delivered rows. */
	return WHERRY_OK;
}

/* ---- opening ---- */

/* While a cluster fails over, a host may be silent: the others are asked soon.  If all hosts are slow,
 * they get their time at some of the tries. */
static int64_t time_for_host(const wherry_relay *r)
{
	int n = r->db_failures;

	return n >= 8 && !(n & (n - 1)) ? 0 : 2 * WH_SECOND;
}

static wherry_code open_db(wherry_relay *r, wherry_error *err)
{
	wh_db_options options = wh_db_options_of(r->config, wh_relay_env(r));
	wherry_code code;

	options.must_write = true;
	options.many_tables = r->brief;
	options.create = options.create && !r->awaits_file;
	options.old_log = r->old_log;
	/* The lease has expired then; others may take the locks. */
	options.idle_us = r->set.lease_us;
	if (options.busy_timeout_us > r->set.lease_us / 3)
		options.busy_timeout_us =
			r->set.lease_us / 3; /* So that a wait is shorter than a lease. */
	if (options.answer_us > r->set.lease_us / 3)
		options.answer_us = r->set.lease_us / 3;
	options.host_us = r->db_failures ? time_for_host(r) : 0;
	if (r->brief)
		r->brief->lineage = (wh_lineage){0};
	code = wh_db_open(r->from, &options, &r->db, err);
	if (code != WHERRY_OK)
		r->db = NULL;
	return code;
}

/* Choose how many messages are read or acknowledged at once: at most a third of the
 * window.  So one batch is read and another acknowledged while a third is in flight.  By
 * default the window has room for a fourth batch, so that late receipts arrive before
 * their batch is written. */
static void choose_round_trip(wherry_relay *r)
{
	wh_relay_settings *s = &r->set;

	s->round_trip = s->batch;
	if (r->db->driver->meanwhile && s->round_trip > (s->window + 2) / 3)
		s->round_trip = (s->window + 2) / 3;
}

static void free_scratch(wherry_relay *r)
{
	free(r->scratch.done_ids);
	free(r->scratch.names);
	free(r->scratch.back_ids);
	free(r->scratch.back_names);
	free(r->scratch.failures);
	free(r->scratch.lost);
	r->scratch.done_ids = r->scratch.back_ids = NULL;
	r->scratch.names = r->scratch.back_names = NULL;
	r->scratch.failures = NULL;
	r->scratch.lost = NULL;
	r->scratch.most = 0;
}

/* Allocate room for all messages that may be in memory at once; the engine
 * limits them. */
static wherry_code allocate(wherry_relay *r, wherry_error *err)
{
	size_t n = wh_relay_entries_most(r);

	if (n <= r->scratch.most)
		return WHERRY_OK;
	free_scratch(r);
	r->scratch.done_ids = calloc(n, sizeof(*r->scratch.done_ids));
	r->scratch.names = calloc(n, sizeof(*r->scratch.names));
	r->scratch.back_ids = calloc(n, sizeof(*r->scratch.back_ids));
	r->scratch.back_names = calloc(n, sizeof(*r->scratch.back_names));
	r->scratch.failures = calloc(n, sizeof(*r->scratch.failures));
	r->scratch.lost = calloc(n, sizeof(*r->scratch.lost));
	if (!r->scratch.done_ids || !r->scratch.names || !r->scratch.back_ids ||
	    !r->scratch.back_names || !r->scratch.failures || !r->scratch.lost)
		return wh_oom(err);
	r->scratch.most = n;
	return WHERRY_OK;
}

/* Which server is this?  A relay that never asked knows nothing of an earlier one. */
static void look_at_server(wherry_relay *r)
{
	const wh_lineage before = r->lineage;
	char text[160];

	if (r->brief && *r->brief->lineage.history) {
		r->lineage = r->brief->lineage;
		return;
	}
	if (wh_lineage_read(r->store, &r->lineage, NULL) != WHERRY_OK)
		return;
	if (r->brief)
		r->brief->lineage = r->lineage;
	if (!*before.history)
		return;
	r->restarted |= strcmp(before.since, r->lineage.since) != 0;
	if (strcmp(before.history, r->lineage.history) == 0)
		return;
	r->moved = true;
	(void)snprintf(text, sizeof(text), WH_OTHER_SERVER ": %s, and before %s",
		       r->lineage.history, before.history);
	wh_report_error(r, wh_monotonic(&r->env), text);
	wh_report_soon(r, wh_monotonic(&r->env));
	wh_relay_say(r, WHERRY_LOG_WARN, "failed-over",
		     wh_log_text("from", before.history),
		     wh_log_text("to", r->lineage.history),
		     wh_log_note("another server leads: system and timeline"));
}

static wherry_code open_source(wherry_relay *r, wherry_error *err)
{
	wherry_code code;

	choose_round_trip(r);
	code = r->brief ? wh_brief_open_table(r, err)
			: wh_source_open_set(r->db, r->config, &r->source, err);
	if (code == WHERRY_OK) {
		r->store = r->source.store;
		r->model = r->store->model->name;
		r->outbox = r->source.outbox;
		r->store->report = &r->report;
		r->store->body_max = wh_config_int(r->config, WH_OUTBOX_BODY_MAX);
	}
	if (code == WHERRY_OK && r->outbox && !r->brief)
		code = wh_outbox_check_server(r->outbox, err);
	if (code == WHERRY_OK)
		code = apply_layout(r, err);
	if (code == WHERRY_OK)
		code = allocate(r, err);
	if (code == WHERRY_OK && r->engine->attach)
		code = r->engine->attach(r, err);
	if (code == WHERRY_OK)
		code = r->brief ? wh_db_watch(r->db, &(const wh_watch){0}, err)
				: wh_store_watch(r->store, err);
	if (code == WHERRY_OK)
		look_at_server(r);
	return code;
}

static wherry_code make_wake_ups(wherry_relay *r, wherry_error *err)
{
	r->batch_ids = calloc((size_t)r->set.batch, sizeof(*r->batch_ids));
	if (!r->batch_ids)
		return wh_oom(err);
	r->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (r->stop_fd < 0)
		return wh_fail(err, WHERRY_BUSY, "no descriptor left for the relay");
	return WHERRY_OK;
}

static wherry_code make(const wherry_config *config, const wh_env *env,
			wherry_relay **out, wherry_error *err)
{
	wherry_relay *r = calloc(1, sizeof(*r));
	wherry_code code;

	if (!r)
		return wh_oom(err);
	if (pthread_mutex_init(&r->shown.lock, NULL) != 0) {
		free(r);
		return wh_fail(err, WHERRY_BUSY, "no lock can be made");
	}
	r->stop_fd = -1;
	r->env = *env;
	r->fsm = (wh_fsm){states, "relay", WH_STANDBY};
	r->key_text = (wh_buf)WH_BUF_INIT(KEY_TEXT_MAX);
	r->row_check_text = (wh_buf)WH_BUF_INIT(FLAW_TEXT_MAX);
	r->flush_at_us = WH_NEVER;
	r->trouble_us = WH_NEVER;
	r->destination.width = 1;
	r->target_id = -1;
	r->stop_by_us = WH_NEVER;
	r->give_up_us = WH_NEVER;
	wh_keys_init(&r->keys, &r->env);
	code = wh_config_check(config, err);
	if (code == WHERRY_OK)
		code = wh_config_copy(config, &r->config, err);
	if (code == WHERRY_OK) {
		read_settings(r);
		code = make_wake_ups(r, err);
	}
	if (code != WHERRY_OK) {
		wherry_relay_close(r);
		return code;
	}
	*out = r;
	return WHERRY_OK;
}

static wherry_code take_urls(wherry_relay *r, const char *from, const char *to,
			     wherry_error *err)
{
	wherry_code code = wh_source_take_url(from, r->config, &r->from, err);

	if (code != WHERRY_OK)
		return code;
	r->to = strdup(to);
	return r->to ? WHERRY_OK : wh_oom(err);
}

/* Open the table; again if the connection that was taken over has broken. */
static wherry_code open_from(wherry_relay *r, wherry_error *err)
{
	bool used = r->db != NULL;
	wherry_code code = used ? WHERRY_OK : open_db(r, err);

	if (code == WHERRY_OK)
		code = open_source(r, err);
	if (code == WHERRY_OK || !used ||
	    wherry_code_remedy(code) != WHERRY_REMEDY_REOPEN)
		return code;
	wh_source_close(&r->source);
	wherry_db_close(r->db);
	*r->lease.holder = 0;
	code = open_db(r, err);
	return code == WHERRY_OK ? open_source(r, err) : code;
}

wherry_code wh_relay_open(const char *from, const char *to, const wherry_config *config,
			  wh_brief *brief, wherry_relay **out, wherry_error *err)
{
	wh_error_clear(err);
	wherry_relay *r;
	wherry_code code;

	if (!from || !to || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "a relay needs where from and where to");
	code = make(config, &wh_env_system, &r, err);
	if (code != WHERRY_OK)
		return code;
	r->brief = brief;
	wh_brief_take(r);
	code = take_urls(r, from, to, err);
	if (code == WHERRY_OK && !r->pub)
		code = wh_publisher_open(to, r->config, wh_relay_env(r), &r->pub, err);
	wh_report_init(r);
	if (code == WHERRY_OK)
		code = apply_publisher(r, err);
	if (code == WHERRY_OK)
		code = wh_dead_letters_open(r, err);
	if (code == WHERRY_OK)
		code = open_from(r, err);
	if (code != WHERRY_OK) {
		wherry_relay_close(r);
		return code;
	}
	*out = r;
	return WHERRY_OK;
}

wherry_code wherry_relay_open(const char *from, const char *to,
			      const wherry_config *config, wherry_relay **out,
			      wherry_error *err)
{
	return wh_relay_open(from, to, config, NULL, out, err);
}

wherry_code wherry_relay_open_on(wherry_db *db, wherry_publisher *publisher,
				 const wherry_config *config, wherry_relay **out,
				 wherry_error *err)
{
	wh_error_clear(err);
	wherry_relay *r;
	wherry_code code;

	if (!db || !publisher || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "a relay needs a connection and a publisher");
	code = make(config, db->env, &r, err);
	if (code != WHERRY_OK)
		return code;
	r->db = db;
	r->pub = publisher;
	wh_report_init(r);
	code = apply_publisher(r, err);
	if (code == WHERRY_OK)
		code = wh_dead_letters_open(r, err);
	if (code == WHERRY_OK)
		code = open_source(r, err);
	if (code != WHERRY_OK) {
		wherry_relay_close(r);
		return code;
	}
	*out = r;
	return WHERRY_OK;
}

/*
 * Give the lease back, so that another relay leads at once, and status says that this one ended.
 * Not while messages may still be delivered: the next leader could deliver later ones of their keys
 * before.  A destination that the relay opened delivers nothing more once it is closed.  Handlers
 * may go on, and so may a destination that the caller opened.  A relay whose stop timed out leaves
 * its lease to expire too: after a lease that was given back, each message starts afresh.
 */
static void release(wherry_relay *r, bool delivers_on)
{
	if (!r->store || !r->lease.epoch || r->engine->claims_rows || delivers_on)
		return;
	wh_report_update(r);
	if (wh_store_release(r->store, &r->lease, NULL) != WHERRY_OK)
		wh_relay_say(r, WHERRY_LOG_DEBUG, "lease-left-to-expire");
}

void wherry_relay_close(wherry_relay *r)
{
	bool delivers_on;

	if (!r || wh_hooks_inside(r))
		return;
	delivers_on =
		r->stop_timed_out || ((r->window.in_flight.n || r->window.settled.n) &&
				      (!r->to || r->caps & WH_PUB_ACKS));
	if (wh_brief_leaves_pub(r)) {
		r->brief->pub = r->pub;
	} else if (r->to) {
		wherry_publisher_close(r->pub);
		r->pub = NULL;
	}
	/* The messages in flight are freed with the window. */
	if (!r->to && r->pub && r->window.in_flight.n)
		wh_publisher_drop(r->pub);
	wh_dead_letters_close(r);
	release(r, delivers_on);
	wh_hooks_close(r->hooks, r->set.stop_timeout_us);
	if (r->from && r->db && !wh_brief_leaves_db(r))
		r->db->closing = true;
	if (r->engine)
		r->engine->free(r);
	if (r->brief && r->outbox)
		r->brief->known = wh_outbox_know(r->outbox);
	wh_source_close(&r->source);
	if (wh_brief_leaves_db(r))
		wh_brief_leave_db(r);
	if (r->from)
		wherry_db_close(r->db);
	wh_window_clear(&r->window);
	wh_keys_clear(&r->keys);
	wh_refused_clear(&r->destination.refused);
	wh_buf_clear(&r->key_text);
	wh_buf_clear(&r->row_check_text);
	wherry_config_free(r->config);
	if (r->stop_fd >= 0)
		(void)close(r->stop_fd);
	if (r->old_log > 0)
		(void)close(r->old_log);
	free(r->batch_ids);
	free_scratch(r);
	free(r->from);
	free(r->to);
	(void)pthread_mutex_destroy(&r->shown.lock);
	free(r);
}

/* ---- opening again ---- */

void wh_relay_replaced(wherry_relay *r, int64_t now, const char *why)
{
	if (!r->awaits_file)
		wh_relay_say(r, WHERRY_LOG_WARN, "database-replaced",
			     wh_log_int("in_flight", (int64_t)r->window.in_flight.n),
			     wh_log_text("why", why),
			     wh_log_note("what the relay read from the old file is "
					 "forgotten"));
	r->awaits_file = true;
	if (r->fsm.state == WH_LEADING || r->fsm.state == WH_DRAINING)
		wh_lease_lost(r, now, "the database file was replaced or deleted");
	r->lease = (wherry_lease){0};
	r->held_until_us = now; /* So that no message of the old file is submitted. */
	r->target_id = -1;
	if (r->engine->replaced)
		r->engine->replaced(r);
	wh_db_keep_log(r->db, &r->old_log);
}

/* While the relay waits for a new database file, a missing or incomplete file is not a
 * fatal error. */
static wherry_code reopen_failed(const wherry_relay *r, wherry_code code)
{
	if (r->awaits_file && wherry_code_remedy(code) == WHERRY_REMEDY_FIX)
		return WHERRY_CLOSED;
	return code;
}

/* The relay has used this database before.  While a cluster fails over, or an operator
 * works on a server, it may refuse the login, lack the database, or be read only. */
static bool moves(wherry_code code)
{
	return code == WHERRY_DENIED || code == WHERRY_NOTFOUND ||
	       code == WHERRY_READONLY;
}

static void file_is_there(wherry_relay *r)
{
	if (!r->awaits_file)
		return;
	wh_relay_say(r, WHERRY_LOG_INFO, "database-reopened");
	r->awaits_file = false;
	if (r->old_log > 0)
		(void)close(r->old_log);
	r->old_log = -1;
}

wherry_code wh_relay_reopen(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code;

	if (wh_db_replaced(r->db, false) &&
	    (r->fsm.state == WH_LEADING || r->fsm.state == WH_DRAINING))
		wh_relay_replaced(r, now, "");
	if (wh_db_replaced(r->db, false))
		/* So that the first failure to open the new file is logged. */
		r->db_failures = 0;
	if (r->engine->detach)
		r->engine->detach(r, now);
	wh_source_close(&r->source);
	wherry_db_close(r->db);
	r->outbox = NULL;
	r->store = NULL;
	r->db = NULL;
	if (!r->lease.epoch) /* The new session has no lock of it. */
		*r->lease.holder = 0;
	code = open_db(r, err);
	if (code != WHERRY_OK)
		return moves(code) ? WHERRY_CLOSED : reopen_failed(r, code);
	code = open_source(r, err);
	if (code != WHERRY_OK)
		return reopen_failed(r, code);
	file_is_there(r);
	code = wh_lease_resume(r, now, err);
	if (code != WHERRY_OK)
		return code;
	wh_window_forget_versions(&r->window); /* They came from the old connection. */
	r->reopen_db = false;
	if (r->engine->resume)
		r->engine->resume(r, now);
	return WHERRY_OK;
}
