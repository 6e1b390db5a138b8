/*
 * Where relays compete: rows are claimed, not read; the database holds keys back.
 *
 * A claim takes a run of each key it gets.  What fails goes back with its retry time, and
 * what is behind it goes back pending.  Claims are extended while anything is in memory.
 * Of those that lapse one may be what ended its relay.  They are claimed in shares, with
 * nothing else in memory, and fresh ones in between; the fewer they are, the smaller the
 * share, in the end one alone, its attempt on record.
 */
#include "relay/relay.h"

enum { BLOCKED_US = 50000, FRESH_LEAST = 8, CAREFUL_CLAIMS = 16 };

static wherry_claim_options options_of(const wherry_relay *r)
{
	int64_t room = wh_read_room(r);

	return (wherry_claim_options){
		.limit = room < r->set.batch ? room : r->set.batch,
		.lasts_us = r->set.claim_us,
		.unordered = !r->set.ordered,
		.park = r->set.park,
		.failed_only = r->set.failed_only,
		.below_id = r->set.strict ? r->strict.solid + 1 : 0,
	};
}

typedef struct claiming {
	wherry_relay *r;
	int64_t n;
} claiming;

/* The row is claimed, and its id is that of a message in flight: it is given back after that. */
static wherry_code inherit(wherry_relay *r, const wh_open_row *row, wherry_error *err)
{
	wh_entry *e = wh_window_find(&r->window, row->id);

	e->heir = wh_window_copy(&r->window, e, row->message_id.ptr);
	return e->heir ? WHERRY_OK : wh_oom(err);
}

static wherry_code meet(void *ctx, const wh_open_row *row, wherry_error *err)
{
	claiming *w = ctx;
	wherry_relay *r = w->r;
	wherry_code code;
	bool later;

	w->n++;
	if (wh_read_knows(r, row, &later)) /* our own, which had lapsed */
		return later ? inherit(r, row, err) : WHERRY_OK;
	wh_flaw_key(r, row);
	if (r->box->layout.by_aggregate) {
		wh_buf_reset(&r->key_text);
		wh_buf_putc(&r->key_text, '=');
		wh_buf_put(&r->key_text, row->aggregate_id.ptr, row->aggregate_id.len);
	}
	code = wh_buf_check(&r->key_text, err);
	if (code == WHERRY_OK)
		code = wh_read_take_in(r, row, err);
	if (code == WHERRY_OK && row->state == WHERRY_PROCESSING) { /* alone */
		wh_window_find(&r->window, row->id)->tried = true;
		r->lease.suspects = 1;
	}
	return code;
}

/* ---- giving back ---- */

static void give_back(wherry_relay *r, wh_entry *e)
{
	wh_list_remove(&r->window.ready, e);
	if (e->key)
		e->key->active--;
	wh_settle_back(r, e);
}

/* Of these ready ones, and what waits behind them; NULL: of every batch. */
static void give_back_batch(wherry_relay *r, const wh_batch *batch)
{
	for (wh_entry *e = r->window.ready.head, *next; e; e = next) {
		next = e->next;
		if (!batch || e->batch == batch)
			give_back(r, e);
	}
	for (size_t i = 0; i < r->window.n_buckets; i++) {
		for (wh_entry *e = r->window.buckets[i]; e; e = e->bucket_next) {
			if (e->stage != WH_WAITING || (batch && e->batch != batch))
				continue;
			wh_key_remove(e->key, e);
			wh_settle_back(r, e);
		}
	}
}

void wh_claim_let_go(wherry_relay *r)
{
	give_back_batch(r, NULL);
}

/* ---- claiming ---- */

/* A row that the database cannot send fails its claim: the next ones are made carefully. */
static wherry_code after_claim(wherry_relay *r, wherry_code code, const wherry_error *why,
			       wherry_error *err)
{
	if (!r->box->careful && wh_db_about_row(r->db, code, why)) {
		r->box->careful = r->more = true;
		r->careful_claims = CAREFUL_CLAIMS;
		return WHERRY_OK;
	}
	if (r->box->careful && --r->careful_claims <= 0)
		r->box->careful = false;
	if (code != WHERRY_OK && err)
		*err = *why;
	return code;
}

/* Of those that lapsed, or of the others.  *out_n: how many it got. */
static wherry_code claim(wherry_relay *r, const wherry_claim_options *options,
			 bool lapsed, int64_t *out_n, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	claiming w = {.r = r};
	const wh_batch *batch;
	bool more = false;
	wherry_code code = wh_window_begin(&r->window, err);

	if (code != WHERRY_OK)
		return code;
	batch = r->window.batch;
	if (!lapsed && r->place.after == INT64_MIN)
		r->freed = false;
	if (lapsed)
		code = wh_outbox_claim_lapsed(r->box, &r->lease, options, meet, &w, &why);
	else
		code = wh_outbox_claim(r->box, &r->lease, options, &r->place, meet, &w,
				       &more, &why);
	if (code != WHERRY_OK && w.n)
		give_back_batch(r, batch); /* if they were claimed, nobody knows */
	wh_window_end(&r->window);
	if (code == WHERRY_OK && !lapsed)
		r->more = more || r->freed;
	*out_n = w.n;
	return after_claim(r, code, &why, err);
}

/* When the next may be claimed.  What is due and was not claimed just now is blocked: look
 * again soon. */
static wherry_code look_ahead(wherry_relay *r, int64_t now, wherry_error *err)
{
	int64_t lapse_us, due_us;
	wherry_code code = wh_outbox_claim_next(r->box, r->set.park && r->set.ordered,
						r->set.claim_us, &lapse_us, &due_us, err);

	if (code != WHERRY_OK)
		return code;
	r->lapse_at_us = wh_later(now, lapse_us);
	r->due_at_us = wh_later(now, due_us > 0 ? due_us : BLOCKED_US);
	return WHERRY_OK;
}

/* Keys that were held until their failure was written. */
static void free_keys(wherry_relay *r, int64_t now)
{
	r->keys.first_due = WH_NEVER;
	for (wh_key *key = r->keys.held, *next; key; key = next) {
		next = key->held_next;
		if (key->due_us <= now && !key->active) {
			key->broken = false;
			wh_key_drain(&r->keys, key);
			wh_key_free(&r->keys, key);
			wh_keys_drop(&r->keys, key);
		} else if (!key->active && key->due_us < r->keys.first_due) {
			r->keys.first_due = key->due_us;
		}
	}
}

static bool may_claim(const wherry_relay *r)
{
	return r->more && wh_read_worth_it(r);
}

/* What lapsed comes first, but for the fresh ones after each share of it. */
static bool lapsed_first(const wherry_relay *r, int64_t now)
{
	return now >= r->lapse_at_us && !r->down && !(r->fresh_most && may_claim(r));
}

/* First what is in memory must be through; others may have taken up what lapsed by then. */
static wherry_code lapsed_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_claim_options options = options_of(r);
	wherry_code code;
	int64_t n;

	if (r->window.n && now < r->look_again_us)
		return WHERRY_OK;
	r->look_again_us = wh_later(now, BLOCKED_US);
	code = look_ahead(r, now, err);
	if (code != WHERRY_OK || now < r->lapse_at_us || r->window.n)
		return code;
	code = claim(r, &options, true, &n, err);
	if (code != WHERRY_OK)
		return code;
	if (!n)
		r->lapse_at_us = wh_later(now, BLOCKED_US);
	r->sharing = n > 0;
	r->fresh_most = n > FRESH_LEAST ? n : FRESH_LEAST;
	return WHERRY_OK;
}

/* While the destination is down, failed messages fill at most half of the window: the rest is
 * for new ones, which are probed first. */
static int64_t failed_room(const wherry_relay *r)
{
	int64_t half = r->set.window > 1 ? r->set.window / 2 : 1;
	int64_t room = half + (int64_t)r->n_failed_probes - (int64_t)r->window.n;

	return room > 0 ? room : -1;
}

static wherry_code fresh_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = r->set.strict ? wh_strict_look(r, now, err) : WHERRY_OK;
	wherry_claim_options options = options_of(r);
	int64_t n;

	if (code != WHERRY_OK)
		return code;
	if (r->fresh_most && r->fresh_most < options.limit)
		options.limit = r->fresh_most;
	r->fresh_most = 0;
	if (r->down && !r->set.failed_only)
		options.failed_most = failed_room(r);
	code = claim(r, &options, false, &n, err);
	if (code == WHERRY_OK)
		code = look_ahead(r, now, err);
	if (code == WHERRY_OK && options.failed_most < 0 && r->due_at_us < r->probe_at_us)
		r->due_at_us = r->probe_at_us;
	return code;
}

/*
 * What is to be given back is written before anything is claimed: where its claim was rolled
 * back, a claim would get it again, with those behind it, of which it alone would be taken
 * for what is in memory already (after_a_claim_that_failed_a_key_keeps_its_order).
 */
static wherry_code write_first(wherry_relay *r, int64_t now, wherry_error *err)
{
	for (const wh_entry *e = r->window.settled.head; e; e = e->next)
		if (e->fate == WH_FATE_BACK)
			return wh_settle_flush(r, now, NULL, err);
	return WHERRY_OK;
}

wherry_code wh_claim_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_code code = write_first(r, now, err);
	bool woken;

	if (code != WHERRY_OK || r->fsm.state != WH_LEADING || r->db_retry_at_us > now)
		return code;
	woken = wh_db_changed(r->db, now, &r->check_us);
	r->version = wh_db_version(r->db);

	if (woken) {
		r->more = r->freed = true;
		code = wh_read_control(r, now, err);
	}
	if (code != WHERRY_OK || r->stats.paused)
		return code;
	if (now >= r->keys.first_due)
		free_keys(r, now);
	if (now >= r->due_at_us || now >= r->strict.look_us)
		r->more = true;
	r->sharing &= r->window.n > 0;
	if (r->sharing && !r->down)
		return WHERRY_OK;
	if (lapsed_first(r, now)) {
		code = lapsed_step(r, now, err);
		if (code != WHERRY_OK || r->window.n)
			return code;
	}
	return may_claim(r) ? fresh_step(r, now, err) : WHERRY_OK;
}

int64_t wh_claim_deadline(const wherry_relay *r, int64_t now)
{
	int64_t at = r->keys.first_due;

	if (r->sharing && r->window.n && !r->down)
		return at;
	if (lapsed_first(r, now) && r->window.n)
		return r->look_again_us < at ? r->look_again_us : at;
	if (lapsed_first(r, now))
		return now;
	if (r->lapse_at_us < at && r->lapse_at_us > now && !r->down)
		at = r->lapse_at_us;
	if (!wh_read_worth_it(r))
		return at;
	if (r->more)
		return now;
	if (r->strict.look_us < at)
		at = r->strict.look_us;
	return r->due_at_us < at ? r->due_at_us : at;
}

/* ---- extending ---- */

wherry_code wh_claim_extend(wherry_relay *r, wherry_error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < r->window.n_buckets; i++)
		for (const wh_entry *e = r->window.buckets[i]; e; e = e->bucket_next)
			if (e->stage != WH_SETTLED)
				r->back_ids[n++] = e->msg.id;
	if (!n)
		return WHERRY_OK;
	return wherry_outbox_extend(r->box, &r->lease, r->back_ids, n, r->set.claim_us,
				    NULL, err);
}
