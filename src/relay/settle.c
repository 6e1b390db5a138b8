/*
 * Decides the result of a message, and writes it.
 *
 *     delivered            done
 *     retry, unknown       failed, attempts + 1; dead when the attempts are used up
 *     rejected             dead, unless the destination may reject all (probe.c)
 *     throttled            ready again, in its place, later; no attempt is counted
 *
 * A failed message holds its key.  If an ordered publisher has already taken later
 * messages of the key, they come back undelivered, and no attempt is counted.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "relay/dead_letters.h"
#include "relay/engine/engine.h"
#include "relay/hooks.h"
#include "relay/settle.h"

enum { THROTTLE_US = 1000000 };

void wh_entry_gone(wherry_relay *r, wh_entry *e)
{
	wh_key *key = e->key;

	r->destination.n_failed_probes -= e->failed_probe;
	wh_settle_unpass(e);
	if (r->engine->left)
		r->engine->left(r, e);
	if (r->collecting) {
		wh_entry_move(r, e, WH_GONE);
		e->key = NULL;
	} else {
		if (e->stage != WH_UNLISTED)
			wh_entry_move(r, e, WH_UNLISTED);
		wh_window_drop(&r->window, e);
	}
	if (!key)
		return;
	key->owned--;
	wh_keys_drop(&r->keys, key);
}

/* Remove a message from memory because its key is held. */
static void leave_alone(wherry_relay *r, wh_entry *e)
{
	r->engine->hold->leave(r, e);
}

/* Remove all ready and waiting messages of a key from memory. */
static void hold_followers(wherry_relay *r, wh_key *key)
{
	for (wh_entry *e = r->window.ready.head, *next; e; e = next) {
		next = e->next;
		if (e->key == key)
			leave_alone(r, e);
	}
	while (key->waiting.head)
		leave_alone(r, key->waiting.head);
}

void wh_settle_put(wherry_relay *r, wh_entry *e, int64_t now)
{
	int64_t at = e->fate == WH_FATE_DONE ? wh_later(now, r->set.ack_delay_us) : now;

	if (e->failed_probe && e->key && e->fate == WH_FATE_DONE)
		wh_key_set_due(&r->keys, e->key, now);
	wh_entry_move(r, e, WH_SETTLED);
	if (r->window.settled.n >= (size_t)r->set.round_trip)
		at = now;
	if (at < r->flush_at_us)
		r->flush_at_us = at;
}

void wh_settle_back(wherry_relay *r, wh_entry *e)
{
	e->fate = WH_FATE_BACK;
	wh_settle_put(r, e, wh_monotonic(&r->env));
}

void wh_settle_held(wherry_relay *r, wh_entry *e, int64_t now)
{
	wh_key *key = e->key;

	if (key) {
		wh_key_hold(&r->keys, key, WH_NEVER);
		key->broken = key->leaving = key->in_flight > 0;
		hold_followers(r, key);
	}
	if (e->fate != WH_FATE_DEAD || !wh_dead_letters_take(r, e, now))
		wh_settle_put(r, e, now);
}

static void settle_failure(wherry_relay *r, wh_entry *e, const char *why, int64_t now)
{
	e->error = wh_window_copy(&r->window, e, why);
	r->engine->hold->failed(r, e, now);
}

void wh_settle_poison(wherry_relay *r, wh_entry *e, int64_t now)
{
	wh_entry_move(r, e, WH_UNLISTED);
	e->fate = WH_FATE_DEAD;
	e->take_back = e->tried; /* A recorded attempt is taken back. */
	e->tried = true;         /* So that no attempt is counted. */
	settle_failure(r, e, e->poison, now);
}

static void settle_retry(wherry_relay *r, wh_entry *e, const wh_receipt *receipt,
			 const char *why, int64_t now)
{
	int32_t attempts = e->msg.attempts + 1;

	e->not_counted = e->take_back = false;
	e->fate = attempts >= r->set.attempts ? WH_FATE_DEAD : WH_FATE_FAILED;
	e->delay_us = wh_backoff_delay(&r->set.retry, attempts, &r->env);
	if (receipt->retry_after_us > e->delay_us)
		e->delay_us = receipt->retry_after_us;
	wh_report_failure(r, e, now, why);
	settle_failure(r, e, why, now);
}

/* The destination may refuse every message: this one waits, and no attempt is counted. */
static void settle_not_counted(wherry_relay *r, wh_entry *e, const wh_receipt *receipt,
			       const char *why, int64_t now)
{
	e->fate = WH_FATE_FAILED;
	e->not_counted = e->take_back = true;
	r->stats.refused++;
	e->delay_us = wh_probe_rest_us(r, now);
	if (receipt->retry_after_us > e->delay_us)
		e->delay_us = receipt->retry_after_us;
	wh_report_failure(r, e, now, why);
	settle_failure(r, e, why, now);
}

static void throttle(wherry_relay *r, const wh_receipt *receipt, int64_t now)
{
	int64_t wait =
		receipt->retry_after_us > 0 ? receipt->retry_after_us : THROTTLE_US;

	if (wh_later(now, wait) > r->destination.throttled_until_us)
		r->destination.throttled_until_us = wh_later(now, wait);
}

void wh_settle_failed_probe(wherry_relay *r, wh_entry *e)
{
	if (e->failed_probe || r->destination.n_failed_probes == WH_FAILED_PROBES_MOST ||
	    r->engine->hold->in_memory)
		return;
	e->failed_probe = true;
	r->destination.n_failed_probes++;
	if (!e->key)
		return;
	if (e->key->fsm.state != WH_KEY_HELD)
		wh_key_hold(&r->keys, e->key, WH_NEVER);
	hold_followers(r, e->key);
}

/* The destination is throttled: the message goes back to its place, and later ones of its
 * key follow when they come back. */
static void take_back(wherry_relay *r, wh_entry *e)
{
	if (e->key)
		wh_key_break(r, e->key);
	wh_entry_admit(r, e);
}

bool wh_settle_behind(wherry_relay *r, wh_entry *e)
{
	if (!e->key || !e->key->broken)
		return false;
	if (e->key->leaving)
		leave_alone(r, e);
	else
		wh_entry_admit(r, e);
	return true;
}

/* Then a place that takes no messages does not mean that the destination is down. */
static bool took_lately(const wherry_relay *r, int64_t now)
{
	enum { LATELY_US = 30000000 };

	return r->report.delivered_us > 0 && now - r->report.delivered_us < LATELY_US;
}

/* Does this refusal count as an attempt?  That of the only attempt does. */
static bool counts(wherry_relay *r, const wh_entry *e, const wh_receipt *receipt,
		   const char *why, int64_t now)
{
	bool last = e->msg.attempts > 0 && e->msg.attempts + 1 >= r->set.attempts;

	if (receipt->own)
		return true;
	if (!wh_probe_refused(r, e, receipt, now, why) || receipt->held)
		return false;
	return !last || wh_probe_may_die(r, e, now);
}

/* Decide the result of a message that was not delivered. */
static void settle_refusal(wherry_relay *r, wh_entry *e, const wh_receipt *receipt,
			   int64_t now)
{
	const char *why =
		*receipt->reason ? receipt->reason : "the destination gave no reason";

	if (wh_settle_behind(r, e))
		return;
	if (receipt->verdict == WHERRY_REJECTED && !wh_probe_rejects_all(r, e, receipt)) {
		wh_up(r); /* The destination answered about this message. */
		e->fate = WH_FATE_DEAD;
		wh_report_error(r, now, why);
		settle_failure(r, e, why, now);
		return;
	}
	if (receipt->verdict == WHERRY_THROTTLED) {
		throttle(r, receipt, now);
		take_back(r, e);
		return;
	}
	if (receipt->held && !r->destination.down && took_lately(r, now)) {
		wh_refused_add(&r->destination.refused, e->msg.id,
			       r->destination.answered, now);
		settle_not_counted(r, e, receipt, why, now);
		return;
	}
	if (counts(r, e, receipt, why, now))
		settle_retry(r, e, receipt, why, now);
	else
		settle_not_counted(r, e, receipt, why, now);
}

void wh_settle_receipt(wherry_relay *r, const wh_receipt *receipt, int64_t now)
{
	wh_entry *e = wh_window_find(&r->window, receipt->message->id);
	bool lost = r->fsm.state == WH_LOST;
	wh_key *key;

	if (!e || e->stage != WH_IN_FLIGHT)
		return; /* A second receipt, or one from before a lost connection. */
	key = e->key;

	wh_entry_move(r, e, WH_UNLISTED);
	if (key)
		key->owned++; /* Keep the key until the end. */
	e->losses = 0;        /* The connection survived this message. */
	wh_suspect_answered(r, e);
	if (lost) {
		wh_entry_gone(r, e);
	} else if (receipt->verdict == WHERRY_DELIVERED) {
		wh_up(r);
		r->destination.taken++;
		r->destination.n_rejected = 0;
		r->report.delivered_us = now;
		wh_refused_remove(&r->destination.refused, e->msg.id);
		wh_latency_note(r, e);
		e->written = receipt->written;
		e->fate = WH_FATE_DONE;
		wh_settle_put(r, e, now);
	} else {
		settle_refusal(r, e, receipt, now);
	}
	if (!key)
		return;
	key->owned--;
	wh_key_landed(r, key);
	if (!lost)
		wh_key_advance(r, key);
	wh_keys_drop(&r->keys, key);
}

/* ---- writing ---- */

int64_t wh_failure_due(const wh_entry *e, int64_t now)
{
	enum { KEPT_US = 1000 }; /* Tables keep milliseconds. */

	return wh_later(now, wh_later(e->delay_us, KEPT_US));
}

static void after_failure(wherry_relay *r, wh_entry *e, int64_t now)
{
	if (!e->not_counted) {
		r->stats.retried++;
		wh_hook_settled(r, WHERRY_ON_FAILED, e);
	}
	if (r->engine->hold->failure_written)
		r->engine->hold->failure_written(r, e, now);
}

static void after_death(wherry_relay *r, wh_entry *e, int64_t now)
{
	r->stats.dead++;
	wh_refused_remove(&r->destination.refused, e->msg.id);
	wh_hook_settled(r, WHERRY_ON_DEAD, e);
	wh_relay_say(r, WHERRY_LOG_WARN, "dead", wh_log_int("id", e->msg.id),
		     wh_log_text("message_id", e->msg.message_id),
		     wh_log_text("topic", e->msg.topic), wh_log_text("why", e->error));
	r->engine->hold->death_written(r, e, now);
}

/* The row of a failed or dead message was not found, or another relay has claimed it:
 * that relay writes and counts its result. */
static void after_loss(wherry_relay *r, const wh_entry *e, int64_t now)
{
	if (r->engine->row_lost)
		r->engine->row_lost(r);
	if (e->key)
		wh_key_set_due(&r->keys, e->key, now);
}

int64_t wh_settle_next(const wherry_relay *r, int64_t now)
{
	if (!r->window.settled.n)
		return r->window.unwritable.n ? r->unwritable_at_us : WH_NEVER;
	return r->window.n_undelivered || r->window.settled.n >= (size_t)r->set.round_trip
		       ? now
		       : wh_later(now, r->set.ack_delay_us);
}

/* Another row with its id was claimed: give that row back. */
static void give_heir_back(wherry_relay *r, wh_entry *e, int64_t now)
{
	e->msg.message_id = e->second_claim;
	e->second_claim = NULL;
	e->replaced = false;
	e->fate = WH_FATE_BACK;
	wh_settle_put(r, e, now);
}

int64_t wh_purge_every_us(const wherry_relay *r)
{
	const bool soon = r->store && r->store->layout.purges_soon;

	return soon && r->set.purge_every_us > WH_SECOND ? WH_SECOND
							 : r->set.purge_every_us;
}

void wh_settle_after(wherry_relay *r, const wh_settlement *s, const wh_settled *settled,
		     size_t n, int64_t now)
{
	size_t nth = 0; /* Index into s->failed. */

	r->stats.delivered +=
		r->engine->claims_rows ? settled->n_done : (int64_t)s->n_done;
	while (n--) {
		wh_entry *e = r->window.settled.head;
		bool failed = e->fate == WH_FATE_FAILED || e->fate == WH_FATE_DEAD;

		wh_entry_move(r, e, WH_UNLISTED);
		if (failed && s->lost[nth++]) {
			after_loss(r, e, now);
		} else if (e->fate == WH_FATE_DONE) {
			r->stats.delivered += e->written;
			wh_hook_settled(r, WHERRY_ON_DELIVERED, e);
		} else if (e->fate == WH_FATE_FAILED) {
			after_failure(r, e, now);
		} else if (e->fate == WH_FATE_DEAD) {
			after_death(r, e, now);
		}
		if (e->second_claim)
			give_heir_back(r, e, now);
		else
			wh_entry_gone(r, e);
	}
	if (r->engine->written)
		r->engine->written(r);
	if (r->purge_idle && r->purge_at_us > wh_later(now, wh_purge_every_us(r)))
		r->purge_at_us = wh_later(now, wh_purge_every_us(r));
	r->purge_idle = false;
	r->flush_at_us = wh_settle_next(r, now);
	r->fenced_us = now;
	wh_hook_database_works(r);
}

static int by_id(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/*
 * Sort settled messages by id, whatever the order of their receipts.  An update of
 * neighbours costs a server less than one of scattered rows, and consecutive ids are sent
 * as two numbers.
 */
void wh_settle_sort(wherry_relay *r)
{
	wh_list *settled = &r->window.settled;
	int64_t last = INT64_MIN;
	bool ordered = true;
	size_t n = 0;

	for (const wh_entry *e = settled->head; e; e = e->next) {
		ordered &= e->msg.id > last;
		last = r->scratch.done_ids[n++] = e->msg.id;
	}
	if (ordered)
		return;
	qsort(r->scratch.done_ids, n, sizeof(*r->scratch.done_ids), by_id);
	for (size_t i = 0; i < n; i++) {
		wh_entry *e = wh_window_find(&r->window, r->scratch.done_ids[i]);

		wh_list_remove(settled, e);
		wh_list_append(settled, e);
	}
}

/* How many settled messages to write at once: as many as are read at once; see
 * choose_round_trip().  If a message failed or died, all are written, so that it does not wait
 * for lower ids. */
static size_t written_at_once(const wherry_relay *r)
{
	size_t n = r->window.settled.n, most = (size_t)r->set.round_trip;

	if (!r->db->driver->meanwhile || r->engine->claims_rows ||
	    !r->engine->writes_rows || r->fsm.state != WH_LEADING || n <= most ||
	    r->window.n_undelivered)
		return n;
	return most;
}

static void gather_back(wherry_relay *r, wh_settlement *s, const wh_entry *e)
{
	r->scratch.back_names[s->n_back] = wh_view_of(e->msg.message_id);
	r->scratch.back_ids[s->n_back++] = e->msg.id;
	if (e->poison) /* Its message id may be incomplete. */
		s->back_names = NULL;
}

void wh_settle_gather(wherry_relay *r, wh_settlement *s, size_t n)
{
	const wh_entry *e;

	wh_settle_sort(r);
	for (e = r->window.settled.head; n--; e = e->next) {
		if (e->written)
			continue;
		if (e->fate == WH_FATE_DONE) {
			r->scratch.names[s->n_done] =
				wh_view_of(e->msg.message_id ? e->msg.message_id : "");
			r->scratch.done_ids[s->n_done++] = e->msg.id;
			if (e->version != s->version)
				s->version = s->n_done > 1 ? 0 : e->version;
			continue;
		}
		if (e->fate == WH_FATE_BACK) {
			gather_back(r, s, e);
			continue;
		}
		r->scratch.failures[s->n_failed++] =
			WHERRY_FAILURE(.id = e->msg.id,
				       .message_id = e->poison ? NULL : e->msg.message_id,
				       .delay_us = e->delay_us,
				       .dead = e->fate == WH_FATE_DEAD,
				       .counted = e->tried, .not_counted = e->take_back,
				       .nth = e->poison ? 0 : e->msg.attempts + 1,
				       .error = e->error ? e->error : "");
	}
}

void wh_settle_lost(wherry_relay *r, const wh_settlement *s, int64_t changed)
{
	int64_t lost = (int64_t)(s->n_done + s->n_failed + s->n_back) - changed;

	if (!r->engine->claims_rows || lost <= 0)
		return;
	r->stats.stale += lost;
	wh_relay_say(r, WHERRY_LOG_WARN, "claims-lost", wh_log_int("n", lost),
		     wh_log_note("these claims expired and other relays took "
				 "them over, or a trigger or a policy ignores "
				 "the update; their messages may be delivered "
				 "twice"));
}

wh_settlement wh_settle_empty(wherry_relay *r)
{
	return (wh_settlement){
		.done = r->scratch.done_ids,
		.names = r->scratch.names,
		.failed = r->scratch.failures,
		.lost = r->scratch.lost,
		.back = r->scratch.back_ids,
		.back_names = r->scratch.back_names,
		.covered = r->engine->covers,
	};
}

wherry_code wh_settle_write(wherry_relay *r, const wh_settlement *s, wh_settled *out,
			    wherry_error *err)
{
	wherry_code code;

	if (!(s->n_done || s->n_failed || s->n_back || s->try_id))
		return WHERRY_OK;
	wh_meanwhile_begin(r);
	code = wh_store_settle(r->store, &r->lease, s, out, err);
	wh_meanwhile_end(r);
	return code;
}

static size_t settled_after(wherry_relay *r, wh_entry *tried, int64_t now,
			    bool *out_unseen, wherry_code *out_code, wherry_error *err)
{
	wh_settle_retry_refused(r, now);
	*out_code = wh_settle_pass_unseen(r, tried, now, out_unseen, err);
	if (*out_code == WHERRY_OK)
		*out_code = wh_settle_pass_locked(r, tried, now, err);
	return *out_code == WHERRY_OK ? written_at_once(r) : 0;
}

static wherry_code flush_failed(wherry_relay *r, int64_t now, wherry_code code,
				const wherry_error *why, wherry_error *err)
{
	if (err && *why->message)
		*err = *why;
	if (code == WHERRY_STALE)
		wh_lease_lost(r, now, "an acknowledgement was refused");
	return code;
}

/* The database refused to write one row of a batch, or only the attempt of
 * `tried`, which dies then. */
static wherry_code not_written(wherry_relay *r, int64_t now, wh_entry *tried, size_t n,
			       const char *why, wherry_error *err)
{
	if (tried && !n)
		tried->poison = wh_settle_cannot_try(r, tried, why);
	return wh_settle_one_by_one(r, now, err);
}

/* The message that was to be tried is locked: write the results of the others. */
static wherry_code flush_without(wherry_relay *r, int64_t now, wherry_code locked,
				 const wherry_error *why, wherry_error *err)
{
	wherry_code code = wh_settle_flush(r, now, NULL, err);

	return code == WHERRY_OK ? flush_failed(r, now, locked, why, err) : code;
}

/* The message that was to be tried is not visible yet: write the results of the others. */
static wherry_code flush_seen(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = wh_settle_flush(r, now, NULL, err);

	r->flush_at_us = wh_sooner(r->flush_at_us, wh_later(now, WH_UNSEEN_US));
	return code;
}

wherry_code wh_settle_flush(wherry_relay *r, int64_t now, wh_entry *try_next,
			    wherry_error *err)
{
	wh_settlement s = wh_settle_empty(r);
	wh_settled settled = {0};
	wherry_error why = WHERRY_ERROR_INIT;
	bool unseen;
	wherry_code code;
	size_t n = settled_after(r, try_next, now, &unseen, &code, &why);

	if (code != WHERRY_OK && try_next && try_next->locked)
		code = flush_without(r, now, code, &why, err);
	else if (code != WHERRY_OK && err)
		*err = why;
	if (code != WHERRY_OK)
		return code;
	if (unseen)
		return flush_seen(r, now, err);
	if (!n && !try_next) {
		r->flush_at_us = wh_settle_next(r, now);
		return WHERRY_OK;
	}
	if (try_next) {
		s.try_id = try_next->msg.id;
		s.try_name = try_next->msg.message_id;
		s.try_nth = try_next->msg.attempts + 1;
	}
	wh_settle_gather(r, &s, n);
	settled.n_done = (int64_t)s.n_done;
	code = r->engine->acknowledge
		       ? r->engine->acknowledge(r, try_next, &s, &settled, &why)
		       : wh_settle_write(r, &s, &settled, &why);
	if (wh_db_about_row(r->db, code, &why))
		return not_written(r, now, try_next, n, why.message, err);
	if (code != WHERRY_OK)
		return flush_failed(r, now, code, &why, err);
	if (try_next)
		try_next->tried = true;
	wh_settle_lost(r, &s, settled.n);
	wh_settle_after(r, &s, &settled, n, now);
	return WHERRY_OK;
}
