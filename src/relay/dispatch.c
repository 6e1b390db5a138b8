/*
 * Submits messages to the publisher, and collects its receipts.
 *
 * Only a publisher that is `ordered` may have several messages of one key in flight.
 * With any other, one message of a key is in flight and the rest wait behind it.
 * Messages of different keys may always be in flight together.
 */
#include <inttypes.h>
#include <poll.h>

#include "relay/engine/engine.h"
#include "relay/hooks.h"
#include "relay/settle.h"

static bool is_suspect(const wh_entry *e)
{
	return e->losses >= 2;
}

/* A suspect came back because the connection was lost: its recorded attempt was not
 * made.  wh_suspect_step() removes the attempt from the row. */
static void suspect_back(wherry_relay *r, const wh_entry *e)
{
	if (e->tried && !is_suspect(e) && r->engine->records_attempts)
		r->untried_id = e->msg.id;
}

wherry_code wh_suspect_step(wherry_relay *r, wherry_error *err)
{
	wh_entry *e = r->untried_id ? wh_window_find(&r->window, r->untried_id) : NULL;
	wherry_code code;

	if (e && e->tried && (e->stage == WH_READY || e->stage == WH_WAITING)) {
		code = wh_store_untry(r->store, &r->lease, e->msg.id, e->msg.message_id,
				      e->msg.attempts + 1, err);
		if (code != WHERRY_OK)
			return code;
		e->tried = false;
	}
	r->untried_id = 0;
	return WHERRY_OK;
}

/* The connection was lost while this message was in flight: take it back.  The loss
 * counts against the message only if the destination answered something since the last
 * loss.  Otherwise the destination is down. */
static void take_down(wherry_relay *r, wh_entry *e)
{
	wh_key *key = e->key;

	if (!e->losses || r->destination.answered > e->lost_at)
		e->losses++;
	e->lost_at = r->destination.answered;
	wh_entry_move(r, e, WH_UNLISTED);
	suspect_back(r, e);
	if (!key) {
		if (e->probe)
			wh_settle_failed_probe(r, e);
		wh_entry_move(r, e, WH_READY);
		return;
	}
	key->owned++; /* Keep the key until the end. */
	if (!wh_settle_behind(r, e)) {
		if (e->probe)
			wh_settle_failed_probe(r, e);
		wh_entry_move(r, e, WH_READY);
	}
	key->owned--;
	wh_key_landed(r, key);
	wh_key_advance(r, key);
	wh_keys_drop(&r->keys, key);
}

/* The connection failed.  The first time, wh_down() logs it. */
static void not_reached(wherry_relay *r, int64_t now, const char *why)
{
	if (r->destination.down)
		wh_report_failure(r, NULL, now, why);
	wh_down(r, now, why);
}

/*
 * The connection was lost, and with it the receipts of the messages in flight.  They are
 * taken back, in order.  A message that was in flight at two losses may be the cause and
 * is a suspect: it is submitted alone, after its attempt was recorded.
 */
static void publisher_lost(wherry_relay *r, int64_t now, const wherry_error *why)
{
	size_t n_in_flight = r->window.in_flight.n, suspects = 0;

	while (r->window.in_flight.tail) {
		wh_entry *e = r->window.in_flight.tail;

		suspects += e->losses == 1 && r->destination.answered > e->lost_at;
		take_down(r, e);
	}
	if (suspects)
		wh_relay_say(r, WHERRY_LOG_WARN, "suspects",
			     wh_log_int("n", (int64_t)suspects),
			     wh_log_int("in_flight", (int64_t)n_in_flight),
			     wh_log_note("the connection was lost twice while these "
					 "messages were in flight; they are tried one at "
					 "a time"));
	if (r->to) {
		wherry_publisher_close(r->pub);
		r->pub = NULL;
	} else {
		wh_publisher_drop(r->pub);
	}
	r->destination.width = 1;
	r->destination.probes_left = 0;
	not_reached(r, now, why->message);
}

static bool reopen(wherry_relay *r, int64_t now)
{
	wherry_error why = WHERRY_ERROR_INIT;

	if (r->pub)
		return true;
	if (wh_publisher_open(r->to, r->config, wh_relay_env(r), &r->pub, &why) ==
	    WHERRY_OK) {
		r->caps = r->pub->driver->caps;
		wh_handlers_grant(r);
		return true;
	}
	not_reached(r, now, why.message);
	return false;
}

/* ---- submitting ---- */

enum { CHUNK = 256 };

static wherry_code submit(wherry_relay *r, const wherry_message *const *msgs, size_t n,
			  int64_t now, size_t *out_taken)
{
	wherry_error why = WHERRY_ERROR_INIT;
	int64_t at = wh_monotonic(&r->env);
	wherry_code code;

	*out_taken = 0;
	if (!wh_lease_allows(r, at)) {
		/* The step took longer than the lease had left, or must verify it again. */
		r->advanced |= wh_lease_is_doubtful(r, at);
		return WHERRY_OK;
	}
	code = wh_publisher_submit(r->pub, msgs, n, out_taken, &why);
	for (size_t i = 0; i < *out_taken; i++) {
		wh_entry *e = wh_window_find(&r->window, msgs[i]->id);

		wh_entry_move(r, e, WH_IN_FLIGHT);
	}
	if (code != WHERRY_OK)
		publisher_lost(r, now, &why);
	return code;
}

/* A message that cannot be submitted dies when nothing of its key is in flight. */
static bool settle_poisoned(wherry_relay *r, wh_entry *e, int64_t now)
{
	if (!e->poison || (e->key && e->key->in_flight))
		return false;
	wh_settle_poison(r, e, now);
	return true;
}

static bool may_submit(const wh_entry *e)
{
	return !e->poison && !is_suspect(e);
}

/* How many messages may be submitted.  More than the window may be in flight: refused
 * probes take no room in it, and are submitted again. */
static size_t room_in_flight(const wherry_relay *r)
{
	size_t window = (size_t)r->set.window;

	return r->window.in_flight.n < window ? window - r->window.in_flight.n : 0;
}

/* A message would have died: submit those that may show whether the destination refuses all.
 * False: refused messages must not be submitted before one of them was. */
static bool submit_untried(wherry_relay *r, int64_t now)
{
	wh_entry *untried[WH_PROBES_MOST];
	const wherry_message *msgs[WH_PROBES_MOST];
	size_t most = room_in_flight(r), n = 0, n_all, taken = 0;

	if (most > WH_PROBES_MOST)
		most = WH_PROBES_MOST;
	n_all = wh_probe_choose(r, untried, most);
	for (size_t i = 0; i < n_all; i++)
		if (may_submit(untried[i])) {
			untried[i]->probe = false;
			msgs[n++] = &untried[i]->msg;
		}
	if (!n_all && most)
		r->destination.doubts = false;
	return n ? submit(r, msgs, n, now, &taken) == WHERRY_OK && taken == n
		 : !r->destination.doubts;
}

static void submit_ready(wherry_relay *r, int64_t now)
{
	while (r->destination.doubts)
		if (!submit_untried(r, now))
			return;
	while (r->window.ready.n) {
		const wherry_message *msgs[CHUNK];
		size_t n = 0, taken, most = room_in_flight(r);

		if (settle_poisoned(r, r->window.ready.head, now))
			continue;
		for (wh_entry *e = r->window.ready.head;
		     e && may_submit(e) && n < CHUNK && n < most; e = e->next) {
			e->probe = false;
			msgs[n++] = &e->msg;
		}
		if (!n || submit(r, msgs, n, now, &taken) != WHERRY_OK || taken < n)
			return;
	}
}

/* If the connection was lost while a suspect was tried alone, and has worked
 * for others since, count that attempt against the suspect.  It dies when its
 * attempts are used up. */
static void charge(wherry_relay *r, wh_entry *e)
{
	if (!is_suspect(e) || !e->tried || r->destination.answered == e->lost_at)
		return;
	e->tried = false;
	if (++e->msg.attempts >= r->set.attempts)
		e->poison = "the connection ended each time it was tried, also alone";
}

/* Submit messages that probe together. */
static void submit_probes(wherry_relay *r, wh_entry **probes, size_t n, int64_t now)
{
	const wherry_message *msgs[WH_PROBES_MOST];
	size_t taken;

	for (size_t i = 0; i < n; i++) {
		probes[i]->probe = true;
		msgs[i] = &probes[i]->msg;
	}
	r->destination.probing |= !r->destination.probes_left;
	if (submit(r, msgs, n, now, &taken) == WHERRY_OK)
		r->destination.probes_left = n - taken;
}

/* Submit one message alone: a probe, or a suspect after recording its attempt. */
static wherry_code submit_one(wherry_relay *r, wh_entry *e, int64_t now,
			      wherry_error *err)
{
	const wherry_message *msg = &e->msg;
	wherry_code code;
	size_t taken;

	charge(r, e);
	if (settle_poisoned(r, e, now) || e->poison)
		return WHERRY_OK;
	if ((r->lease.suspects || is_suspect(e)) && !e->tried) {
		code = wh_settle_flush(r, now, e, err);
		if (e->locked)
			r->destination.probed = e->order;
		if (code != WHERRY_OK || !e->tried)
			return code;
	}
	e->probe = r->destination.probing = r->destination.down;
	if (r->destination.down)
		r->destination.probed = e->order;
	(void)submit(r, &msg, 1, now, &taken);
	return WHERRY_OK;
}

/* A suspect whose row others have locked cannot be tried, because its attempt cannot be
 * recorded: the next one is (a_suspect_that_is_locked_holds_up_no_other). */
static wherry_code submit_suspect(wherry_relay *r, int64_t now, wherry_error *err)
{
	enum { LOOK_US = 1000000 };
	wherry_code code = WHERRY_OK;
	size_t n = 0;

	if (wh_settle_asks_for_locks(r, now) && now >= r->suspects_at_us) {
		for (const wh_entry *e = r->window.ready.head; e && n < r->scratch.most;
		     e = e->next)
			r->scratch.done_ids[n++] = e->msg.id;
		code = wh_settle_leave_locked(r, r->scratch.done_ids, &n, now, err);
		r->suspects_at_us = wh_later(now, LOOK_US);
	}
	return code == WHERRY_OK ? submit_one(r, wh_probe_unlocked(r, now), now, err)
				 : code;
}

/* Acknowledge the suspects that were tried, so that after another unclean end they are not the first open
 * messages. */
static wherry_code acknowledge_tried(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = wh_settle_flush(r, now, NULL, err);

	return code == WHERRY_OK && r->engine->progress ? r->engine->progress(r, now, err)
							: code;
}

/* Submit suspects together. */
static wherry_code submit_group(wherry_relay *r, int64_t now, wherry_error *err)
{
	const wherry_message *msgs[CHUNK];
	wherry_code code = acknowledge_tried(r, now, err);
	size_t n = 0, taken;

	if (code != WHERRY_OK || settle_poisoned(r, r->window.ready.head, now))
		return code;
	for (wh_entry *e = r->window.ready.head;
	     e && may_submit(e) && n < CHUNK && n < r->suspect_group &&
	     n < (size_t)r->lease.suspects;
	     e = e->next) {
		e->probe = false;
		msgs[n++] = &e->msg;
	}
	if (n)
		(void)submit(r, msgs, n, now, &taken);
	return WHERRY_OK;
}

static wherry_code submit_alone(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_entry *probes[WH_PROBES_MOST];
	bool goes_on = r->destination.probes_left > 0;
	size_t n, most = goes_on ? r->destination.probes_left : r->destination.width;

	if (!r->destination.down && r->suspect_group > 1 && r->lease.suspects &&
	    !is_suspect(r->window.ready.head))
		return submit_group(r, now, err);
	if (!r->destination.down)
		return submit_suspect(r, now, err);
	if (most > (size_t)r->set.window)
		most = (size_t)r->set.window;
	n = wh_probe_choose(r, probes, most);
	if (n) {
		submit_probes(r, probes, n, now);
		return WHERRY_OK;
	}
	r->destination.probes_left = 0;
	return goes_on ? WHERRY_OK : submit_one(r, wh_probe_next(r), now, err);
}

/* How many messages before this one were passed over when it was tried, because a row was locked
 * or others probed first.  They are suspects still. */
static int64_t passed_over(const wherry_relay *r, const wh_entry *e)
{
	int64_t n = 0;

	for (const wh_entry *o = r->window.ready.head; o && o->order < e->order;
	     o = o->next) {
		n++;
		for (const wh_entry *w = o->key ? o->key->waiting.head : NULL;
		     w && w->order < e->order; w = w->next)
			n++;
	}
	return n;
}

/* So many suspects are left.  If none is, and the next unclean end would have fewer suspects than a window,
 * the lease must say first that these did no harm. */
static void take_off(wherry_relay *r, int64_t left)
{
	r->lease.suspects = left;
	if (left || !r->engine->groups_suspects)
		return;
	r->suspicion_ended = true;
	r->renew_at_us = 0;
}

/* A message behind the suspects is not a suspect, but may be tried before one whose row is locked
 * (a_suspect_that_is_locked_is_tried_alone_in_the_end). */
void wh_suspect_answered(wherry_relay *r, const wh_entry *e)
{
	if ((e->tried || r->suspect_group > 1) && r->lease.suspects > passed_over(r, e))
		take_off(r, r->lease.suspects - 1);
}

/* End the suspicion when the next message was read after all suspects. */
static void end_suspicion(wherry_relay *r)
{
	if (r->lease.suspects && r->engine->is_unsuspected &&
	    r->engine->is_unsuspected(r, r->window.ready.head))
		take_off(r, 0);
}

bool wh_dispatch_alone(const wherry_relay *r)
{
	const wh_entry *ready = r->window.ready.head, *sent = r->window.in_flight.head;

	return r->destination.down || r->lease.suspects || r->suspicion_ended ||
	       (ready && is_suspect(ready)) || (sent && is_suspect(sent));
}

/* Verify the lease after rows were read.  If another relay took over before the read,
 * earlier messages of these keys may be in flight there.  The relay's clock shows that
 * its lease expired, unless the database's clock was set forward.  Verify it too if it ends with the
 * session, which may have ended since. */
static wherry_code check_fence(wherry_relay *r, int64_t now, wherry_error *err)
{
	int64_t asked_us = wh_monotonic(&r->env);
	wherry_code code;

	if (!r->lease_unverified && !wh_lease_is_doubtful(r, asked_us))
		return WHERRY_OK;
	code = r->lease_unverified && r->waits_for_standbys
		       ? wh_lease_renew(r, asked_us, err)
		       : wh_store_fence(r->store, &r->lease, err);
	if (code == WHERRY_OK) {
		r->lease_unverified = false;
		r->fenced_us = asked_us;
	} else if (code == WHERRY_STALE && r->fsm.state == WH_LEADING)
		wh_lease_lost(r, now, "the lease had ended before rows were read");
	return code;
}

wherry_code wh_dispatch_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code;

	r->advanced = false;
	if (r->stats.paused || now >= r->held_until_us ||
	    now < r->destination.throttled_until_us || !r->window.ready.n)
		return WHERRY_OK;
	if (r->destination.down && now < r->destination.probe_at_us &&
	    !r->destination.probes_left)
		return WHERRY_OK;
	code = check_fence(r, now, err);
	if (code != WHERRY_OK || !reopen(r, now))
		return code;
	end_suspicion(r);
	if (r->suspicion_ended)
		return acknowledge_tried(r, now, err);
	if (wh_dispatch_alone(r))
		return r->window.in_flight.n && !r->destination.probes_left
			       ? WHERRY_OK
			       : submit_alone(r, now, err);
	submit_ready(r, now);
	return WHERRY_OK;
}

static void forget_gone(wherry_relay *r)
{
	while (r->window.gone.head) {
		wh_entry *e = r->window.gone.head;

		wh_entry_move(r, e, WH_UNLISTED);
		wh_window_drop(&r->window, e);
	}
}

/* Report what keeps the messages in flight, once. */
static void look_for_trouble(wherry_relay *r, int64_t now)
{
	const char *why = r->pub && r->window.in_flight.n && !r->destination.down
				  ? wh_publisher_trouble(r->pub)
				  : NULL;

	if ((why != NULL) == r->destination.stuck)
		return;
	r->destination.stuck = why != NULL;
	if (why)
		wh_report_error(r, now, why);
	wh_report_soon(r, now);
}

static void collect(wherry_relay *r, int64_t now)
{
	wherry_error why = WHERRY_ERROR_INIT;
	size_t n;

	while (r->pub && r->window.in_flight.n) {
		n = 0;
		if (wh_publisher_collect(r->pub, r->receipts, WH_RECEIPTS, &n, &why) !=
		    WHERRY_OK) {
			publisher_lost(r, now, &why);
			return;
		}
		r->now_us = n ? wh_now(&r->env) : 0;
		r->collecting = true;
		for (size_t i = 0; i < n; i++)
			wh_settle_receipt(r, &r->receipts[i], now);
		r->collecting = false;
		forget_gone(r);
		/* The publisher may have room for ready messages. */
		r->advanced |= n > 0;
		if (n < WH_RECEIPTS)
			return;
	}
}

void wh_collect_step(wherry_relay *r, int64_t now)
{
	collect(r, now);
	look_for_trouble(r, now);
}

/* ---- while the database is at work ---- */

bool wh_relay_yields(const wherry_relay *r)
{
	return r->engine->yields && r->engine->yields(r);
}

/* Not while messages are tried alone or the lease must be verified: that needs
 * the database. */
bool wh_meanwhile_submits(const wherry_relay *r)
{
	return r->db->driver->meanwhile && r->fsm.state == WH_LEADING &&
	       !wh_relay_yields(r) && !r->lease_unverified && r->pub &&
	       !r->stats.paused && !wh_dispatch_alone(r);
}

static bool submits_now(const wherry_relay *r, int64_t now)
{
	return r->window.ready.n && wh_meanwhile_submits(r) &&
	       now >= r->destination.throttled_until_us && wh_lease_allows(r, now);
}

static void dispatch_meanwhile(wherry_relay *r, int64_t now)
{
	if (!submits_now(r, now))
		return;
	r->advanced = false;
	submit_ready(r, now);
}

/* How long to wait while the database works, in microseconds, and for which descriptor.
 * If a receipt would make no submit possible, look for receipts once a millisecond. */
static int64_t wait_meanwhile(wherry_relay *r, int64_t now, struct pollfd *out)
{
	enum { LOOK_US = 1000 };
	int64_t at;

	out->fd = -1;
	if (!r->pub || !r->window.in_flight.n)
		return WH_SECOND;
	if (!wh_one_per_key(r) && !r->window.ready.n)
		return LOOK_US;
	out->fd = wh_publisher_fd(r->pub, &out->events);
	at = wh_publisher_deadline(r->pub);
	if (at <= now || (r->advanced && submits_now(r, now)))
		return 0;
	return at - now < WH_SECOND ? at - now : WH_SECOND;
}

static void meanwhile(void *ctx, int fd, int64_t until_us)
{
	wherry_relay *r = ctx;
	struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}};
	int64_t now;

	do {
		int64_t wait_us;

		now = wh_monotonic(&r->env);
		wh_collect_step(r, now);
		dispatch_meanwhile(r, now);
		wait_us = wait_meanwhile(r, now, &fds[1]);
		(void)ppoll(fds, 2,
			    &(struct timespec){wait_us / WH_SECOND,
					       wait_us % WH_SECOND * 1000},
			    NULL);
	} while (!fds[0].revents && now < until_us);
}

void wh_meanwhile_begin(wherry_relay *r)
{
	r->db->meanwhile_ctx = r;
	r->db->meanwhile = meanwhile;
}

void wh_meanwhile_end(wherry_relay *r)
{
	r->db->meanwhile = NULL;
}
