#include "relay/engine/feed.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/settings.h"
#include "relay/engine/feed_parts.h"

enum {
	/* While transactions are open that are older than the slot. */
	LOOK_US = 100000,
	/* The server keeps its WAL for the slot.  So not for longer than this. */
	PATIENCE_US = 60 * 1000000,
	/* The WAL is behind for so long: the table is faster. */
	BEHIND_US = 5 * 1000000,
	CONFIRM_US = 1000000,
};

enum { OFF, MAKING, READY, ON };

static const wh_fsm_state states[] = {
	[OFF] = {"off", WH_BIT(MAKING)},
	[MAKING] = {"making", WH_BIT(OFF) | WH_BIT(READY)},
	[READY] = {"ready", WH_BIT(OFF) | WH_BIT(ON)},
	[ON] = {"on", WH_BIT(OFF)},
};

/* ---- the state ---- */

bool wh_feed_is_on(const wherry_relay *r)
{
	return wh_feed_of(r) && wh_feed_of(r)->fsm.state == ON;
}

wherry_code wh_feed_make(wherry_relay *r, wherry_error *err)
{
	enum { TABLE, WAL };
	wh_feed *d;

	if (wh_config_choice(r->config, WH_RELAY_SOURCE) != WAL)
		return WHERRY_OK;
	d = calloc(1, sizeof(*d));
	if (!d)
		return wh_oom(err);
	d->fsm = (wh_fsm){states, "relay.wal", OFF};
	d->behind_us = WH_NEVER;
	wh_log_of(r)->feed = d;
	return WHERRY_OK;
}

static void turn_off(wherry_relay *r, const char *why)
{
	wh_feed *d = wh_feed_of(r);

	wh_stream_close(d->stream);
	d->stream = NULL;
	d->caught_up = false;
	d->behind_us = WH_NEVER;
	if (d->fsm.state == OFF)
		return;
	/* Commits woke nobody meanwhile. */
	wh_reader_of(r)->news = true;
	wh_fsm_move(&d->fsm, OFF, &r->env, why);
}

void wh_feed_free(wherry_relay *r)
{
	wh_feed *d = wh_feed_of(r);

	wh_taken_clear(&wh_log_of(r)->taken);
	if (!d)
		return;
	wh_stream_close(d->stream);
	wh_wal_close(d->wal);
	free(d->topics);
	free(d);
	wh_log_of(r)->feed = NULL;
}

wherry_code wh_feed_attach(wherry_relay *r, wherry_error *err)
{
	wh_feed *d = wh_feed_of(r);

	if (!d)
		return WHERRY_OK;
	wh_feed_detach(r);
	return wh_wal_open_log(r->outbox,
			       wh_config_text(r->config, WH_STREAM_PUBLICATION), &d->wal,
			       err);
}

void wh_feed_detach(wherry_relay *r)
{
	wh_feed *d = wh_feed_of(r);

	if (!d)
		return;
	turn_off(r, "the database is closed");
	wh_wal_close(d->wal);
	d->wal = NULL;
}

wherry_code wh_feed_load(wherry_relay *r, wherry_error *err)
{
	wh_feed *d = wh_feed_of(r);

	if (!d)
		return WHERRY_OK;
	free(d->topics);
	d->topics = NULL;
	return wh_subscription_topics(r->outbox, &d->topics, err);
}

void wh_feed_forget(wherry_relay *r)
{
	wh_taken_clear(&wh_log_of(r)->taken);
	if (!wh_feed_of(r))
		return;
	turn_off(r, "the lease is lost");
	wh_feed_of(r)->retry_us = 0;
}

/* ---- connecting ---- */

/* The WAL cannot be read: read the table, and try again later. */
static void give_up(wherry_relay *r, int64_t now, const char *why)
{
	static const wh_backoff backoff = {WH_EXPONENTIAL, WH_SECOND, 60 * WH_SECOND,
					   false, 0};
	wh_feed *d = wh_feed_of(r);

	turn_off(r, "trouble");
	d->failures++;
	d->retry_us = wh_later(now, wh_backoff_delay(&backoff, d->failures, &r->env));
	if (strcmp(why, d->why) == 0)
		return;
	(void)snprintf(d->why, sizeof(d->why), "%s", why);
	wh_relay_say(r, WHERRY_LOG_WARN, "reads-table", wh_log_text("why", why),
		     wh_log_note("the relay reads the table instead of the WAL; it tries "
				 "again later"));
}

/* Read the table for a while, since that is better now. */
static void leave(wherry_relay *r, int64_t now, int64_t pause_us, const char *why)
{
	wh_feed *d = wh_feed_of(r);

	if (d->fsm.state == OFF)
		return;
	turn_off(r, why);
	d->retry_us = wh_later(now, pause_us);
	wh_relay_say(r, WHERRY_LOG_INFO, "reads-table", wh_log_text("why", why));
}

static wherry_code prepare(wh_feed *d, int64_t now, wherry_error *err)
{
	wh_wal_state state;
	wherry_code code = wh_wal_look(d->wal, &state, err);

	if (code == WHERRY_OK && state.published && !state.has_table) {
		code = wh_wal_publish_again(d->wal, err);
		if (code == WHERRY_OK)
			code = wh_wal_look(d->wal, &state, err);
	}
	if (code == WHERRY_OK)
		code = wh_wal_check(d->wal, &state, err);
	if (code == WHERRY_OK)
		code = wh_feed_check_standbys(d, now, err);
	if (code == WHERRY_OK && !state.published)
		code = wh_wal_publish(d->wal, err);
	return code;
}

static wherry_code connect(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wh_feed *d = wh_feed_of(r);
	wherry_code code = prepare(d, now, &why);

	if (code != WHERRY_OK && wherry_code_remedy(code) != WHERRY_REMEDY_FIX) {
		if (err)
			*err = why;
		return code;
	}
	if (code == WHERRY_OK)
		code = wh_stream_open(r->db,
				      &(wh_stream_options){
					      .slot = d->wal->slot,
					      .publication = d->wal->publication,
					      .schema = d->wal->schema,
					      .table = d->wal->table,
					      .columns = d->wal->columns,
					      .confirm_us = CONFIRM_US,
					      .create = true,
					      .temporary = true,
				      },
				      &d->stream, &why);
	if (code != WHERRY_OK) {
		give_up(r, now, why.message);
		return WHERRY_OK;
	}
	d->since_us = now;
	wh_fsm_move(&d->fsm, MAKING, &r->env, "connected");
	return WHERRY_OK;
}

/* Transactions below first_tx may have committed before the slot's first position, so that they do not come, and
 * be invisible still.  So the table is read until they all have ended. */
static wherry_code make_slot(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wh_feed *d = wh_feed_of(r);
	char *snapshot = NULL;
	bool ready = false;
	wherry_code code = d->stream->driver->ready(d->stream, &ready, &why);

	if (code != WHERRY_OK)
		give_up(r, now, why.message);
	if (code != WHERRY_OK || !ready)
		return WHERRY_OK;
	code = wh_wal_snapshot(d->wal, &snapshot, err);
	if (code != WHERRY_OK)
		return code;
	d->first_tx = wh_snapshot_xmax(snapshot);
	free(snapshot);
	d->caught_up = false;
	d->look_us = now;
	wh_fsm_move(&d->fsm, READY, &r->env, "the slot is made");
	return WHERRY_OK;
}

static void start(wherry_relay *r, int64_t now)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wh_feed *d = wh_feed_of(r);

	if (d->stream->driver->start(d->stream, 0, &why) != WHERRY_OK) {
		give_up(r, now, why.message);
		return;
	}
	d->received = 0;
	d->failures = 0;
	d->why[0] = 0;
	d->behind_us = WH_NEVER;
	wh_fsm_move(&d->fsm, ON, &r->env, "the table is read");
	wh_relay_say(r, WHERRY_LOG_INFO, "streaming",
		     wh_log_text("slot", d->stream->driver->slot(d->stream)));
}

static void receive(wherry_relay *r, int64_t now)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wh_feed *d = wh_feed_of(r);
	bool all = false;
	wherry_code code = wh_feed_pull(r, now, &all, &why);

	if (code == WHERRY_OK)
		code = d->stream->driver->confirm(d->stream, now, d->received, false,
						  &why);
	if (code != WHERRY_OK) {
		give_up(r, now, why.message);
		return;
	}
	if (all)
		d->behind_us = WH_NEVER;
	else if (d->behind_us == WH_NEVER)
		d->behind_us = wh_later(now, BEHIND_US);
	if (now >= d->behind_us)
		leave(r, now, 2 * BEHIND_US, "the WAL is behind");
}

/* ---- the step ---- */

/* A handler acknowledges its message in its transaction, which must see the row. */
static bool is_useless(wherry_relay *r)
{
	static const char why[] = "handlers write to the rows of their messages";
	wh_feed *d = wh_feed_of(r);

	if (!(r->caps & WH_PUB_ACKS))
		return false;
	if (strcmp(d->why, why) != 0)
		give_up(r, wh_monotonic(&r->env), why);
	return true;
}

wherry_code wh_feed_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_feed *d = wh_feed_of(r);
	wherry_code code = WHERRY_OK;

	if (!d || is_useless(r))
		return WHERRY_OK;
	if (r->stats.paused || r->target & WHERRY_UNTIL_EMPTY) {
		leave(r, now, 0, r->stats.paused ? "paused" : "until empty");
		return WHERRY_OK;
	}
	if (d->fsm.state == OFF && d->caught_up && now >= d->retry_us)
		code = connect(r, now, err);
	if (code == WHERRY_OK && d->fsm.state == MAKING)
		code = make_slot(r, now, err);
	if (d->fsm.state == ON) {
		receive(r, now);
		return code;
	}
	if (d->fsm.state != OFF && now >= wh_later(d->since_us, PATIENCE_US))
		leave(r, now, PATIENCE_US, "transactions stay open");
	if (d->fsm.state == READY && now >= d->look_us) {
		wh_reader_of(r)->news = true;
		d->look_us = wh_later(now, LOOK_US);
	}
	return code;
}

/* ---- looks ---- */

bool wh_feed_is_due(const wherry_relay *r, int64_t now)
{
	const wh_log *f = wh_log_of(r);

	return f->feed && f->taken.n && now >= f->feed->check_us;
}

bool wh_feed_met(wherry_relay *r, int64_t id, wh_view message_id)
{
	wh_taken_one *one = wh_taken_find(&wh_log_of(r)->taken, id);

	if (!one)
		return false;
	one->met = true;
	return wh_taken_is(one, message_id);
}

void wh_feed_looked(wherry_relay *r, int64_t now, const wh_log_found *found)
{
	wh_log *f = wh_log_of(r);
	wh_feed *d = f->feed;
	bool same = found && found->event == WH_LOG_SAME;
	bool all = same && !found->more;
	size_t before = f->taken.n;

	if (!d)
		return;
	if (wh_taken_looked(&f->taken, same ? &f->read : NULL, all))
		wh_reader_sweep(r, now);
	d->check_us = all || f->taken.n == before ? wh_later(now, WH_FEED_CHECK_US) : now;
	if (!found)
		return;
	if (!same)
		leave(r, now, 0, "the table is another one");
	d->caught_up = !found->more;
	if (d->fsm.state == READY && d->caught_up &&
	    wh_snapshot_xmin(f->read.seen) >= d->first_tx)
		start(r, now);
}

/* When its key is free again, it is read from the table, where it may not be visible yet. */
void wh_feed_noted(wherry_relay *r, int64_t id)
{
	wh_taken_one *one = wh_taken_find(&wh_log_of(r)->taken, id);

	if (one)
		one->held = true;
}

/* ---- the lease ---- */

bool wh_feed_verifies(wherry_relay *r)
{
	int64_t now = wh_monotonic(&r->env);
	wh_feed *d = wh_feed_of(r);

	if (now < wh_later(d->verified_us, WH_FEED_CHECK_US))
		return false;
	d->verified_us = now;
	return true;
}

void wh_feed_verified(wherry_relay *r, int64_t now)
{
	if (wh_feed_of(r))
		wh_feed_of(r)->verified_us = now;
}

wherry_code wh_feed_finish(wherry_relay *r, wherry_error *err)
{
	if (!wh_feed_of(r))
		return WHERRY_OK;
	turn_off(r, "the relay ends");
	return wh_feed_leave_done(r, err);
}

/* ---- when to step, and for what to wait ---- */

int64_t wh_feed_deadline(const wherry_relay *r, int64_t now)
{
	const wh_log *f = wh_log_of(r);
	const wh_feed *d = f->feed;
	int64_t at = WH_NEVER;

	if (!d || r->stats.paused || r->target & WHERRY_UNTIL_EMPTY ||
	    r->caps & WH_PUB_ACKS)
		return at;
	if (f->taken.n && !f->waits && !f->reader.sweeping)
		at = d->check_us;
	if (d->fsm.state == OFF)
		return d->caught_up ? wh_sooner(at, d->retry_us) : at;
	if (d->fsm.state == READY)
		at = wh_sooner(at, d->look_us);
	if (d->fsm.state != ON)
		return wh_sooner(at, wh_later(d->since_us, PATIENCE_US));
	if (wh_feed_has_room(r) && d->stream->driver->waiting(d->stream))
		return now;
	at = wh_sooner(at, d->behind_us);
	return wh_sooner(at, d->stream->driver->deadline(d->stream));
}

int wh_feed_fd(const wherry_relay *r, short *out_events)
{
	const wh_feed *d = wh_feed_of(r);
	int fd;

	*out_events = 0;
	if (!d || r->fsm.state != WH_LEADING || r->stats.paused ||
	    (d->fsm.state != MAKING && d->fsm.state != ON))
		return -1;
	fd = d->stream->driver->fd(d->stream, out_events);
	/* Rows that come stay in the socket. */
	if (d->fsm.state == ON && !wh_feed_has_room(r))
		*out_events = (short)(*out_events & ~POLLIN);
	return *out_events ? fd : -1;
}
