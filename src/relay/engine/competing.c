/*
 * The engine competing: rows are claimed, not read ahead.
 *
 * A claim takes a run of messages of each key that it gets.  The database keeps other
 * rows of these keys from being claimed.  The relay extends its claims while anything is
 * in memory.
 *
 * When a claim expires, its message may be the one that ended its relay.  A relay with
 * nothing else in memory takes over expired claims in batches, and claims fresh rows in
 * between.  If a batch expires again, the next batches are smaller.  In the end one
 * message is tried alone, with its attempt recorded.
 */
#include <stdlib.h>

#include "relay/engine/engine.h"
#include "relay/engine/competing.h"
#include "relay/engine/extend.h"
#include "relay/hold/claimed.h"
#include "relay/relay.h"

enum { BLOCKED_US = 50000, FRESH_LEAST = 8, CAREFUL_CLAIMS = 16, CHECK_US = 50000 };

typedef struct wh_competing {
	bool more;             /* There may be rows to claim. */
	int64_t expires_at_us; /* When the first claim of any relay expires; WH_NEVER. */
	int64_t due_at_us;     /* When the first failed row is due; WH_NEVER. */
	/* The claims of the messages in memory had expired before: claim no
	 * other rows. */
	bool taking_over;
	int64_t fresh_most;    /* After a batch of expired claims, claim at most this many
				  fresh rows; 0: no limit. */
	int64_t look_again_us; /* When to look again whether claims are still expired. */
	wh_claim_place place;  /* Where the next claim goes on in the table. */
	bool freed;            /* Keys became free, perhaps of rows before `place`. */
	/* Number of claims to make without texts yet; see store/unreadable.c. */
	int late_texts_claims;
	wh_marks marks; /* The marks of the store, while the table is reopened. */
} wh_competing;

static wh_competing *state_of(const wherry_relay *r)
{
	return r->state;
}

/* ---- the state ---- */

static wherry_code make(wherry_relay *r, wherry_error *err)
{
	wh_competing *c = calloc(1, sizeof(*c));

	if (!c)
		return wh_oom(err);
	c->expires_at_us = c->due_at_us = WH_NEVER;
	wh_claim_rewind(&c->place);
	r->state = c;
	return WHERRY_OK;
}

static void forget_place(wherry_relay *r)
{
	wh_competing *c = state_of(r);

	wh_claim_rewind(&c->place);
	wh_marks_clear(&c->marks);
	if (r->store)
		wh_marks_clear(&r->store->marks);
}

static void free_state(wherry_relay *r)
{
	wh_competing *c = state_of(r);

	wh_claim_rewind(&c->place);
	wh_marks_clear(&c->marks);
	free(c);
}

static wherry_code attach(wherry_relay *r, wherry_error *err)
{
	wh_relay_settings *s = &r->set;
	wh_competing *c = state_of(r);

	(void)err;
	if (s->claim_us < s->lasts_us || r->store->layout.by_claim)
		s->lasts_us = s->claim_us;
	if (s->renew_us > s->claim_us / 3)
		s->renew_us = s->claim_us / 3;
	if (c->marks.n) {
		r->store->marks = c->marks;
		c->marks = (wh_marks){0};
	}
	return WHERRY_OK;
}

/* Keep the marks of claimed rows while the table is reopened. */
static void detach(wherry_relay *r, int64_t now)
{
	wh_competing *c = state_of(r);

	(void)now;
	if (!r->store || c->marks.n)
		return;
	c->marks = r->store->marks;
	r->store->marks = (wh_marks){0};
}

static void resume(wherry_relay *r, int64_t now)
{
	wh_competing *c = state_of(r);

	(void)now;
	c->more = true;
}

/* ---- the lease ---- */

static wherry_code take_lease(wherry_relay *r, wherry_error *err)
{
	return wh_store_join_as(r->store, r->set.name, r->set.lease_us, &r->lease, err);
}

static void begin(wherry_relay *r, int64_t now)
{
	wh_competing *c = state_of(r);

	c->expires_at_us = c->due_at_us = now; /* Unknown yet: ask at once. */
}

static void forget(wherry_relay *r)
{
	state_of(r)->more = false;
}

static wherry_claim_options options_of(const wherry_relay *r)
{
	int64_t room = wh_intake_room(r);

	return WHERRY_CLAIM_OPTIONS(.limit = room < r->set.batch ? room : r->set.batch,
				    .lasts_us = r->set.claim_us,
				    .unordered = !r->set.ordered);
}

typedef struct claiming {
	wherry_relay *r;
	int64_t n;
} claiming;

/* The claimed row has the id of another message in memory.  It is given back when that
 * message is settled. */
static wherry_code inherit(wherry_relay *r, const wh_open_row *row, wherry_error *err)
{
	wh_entry *e = wh_window_find(&r->window, row->id);

	e->second_claim = wh_window_copy(&r->window, e, row->message_id.ptr);
	return e->second_claim ? WHERRY_OK : wh_oom(err);
}

static wherry_code meet(void *ctx, const wh_open_row *row, wherry_error *err)
{
	claiming *w = ctx;
	wherry_relay *r = w->r;
	wherry_code code;
	bool later;

	w->n++;
	/* The row is in memory: the relay's own claim of it had expired. */
	if (wh_intake_knows(r, row, &later))
		return later ? inherit(r, row, err) : WHERRY_OK;
	code = wh_row_key(r, row, err);
	if (code == WHERRY_OK)
		code = wh_intake_add(r, row, err);
	/* The row was claimed alone, and its attempt is recorded. */
	if (code == WHERRY_OK && row->state == WHERRY_PROCESSING) {
		wh_window_find(&r->window, row->id)->tried = true;
		r->lease.suspects = 1;
	}
	return code;
}

/* ---- giving back ---- */

/* Give back the ready and waiting messages of a batch; NULL: of all batches. */
static void give_back_batch(wherry_relay *r, const wh_batch *batch)
{
	for (wh_entry *e = r->window.ready.head, *next; e; e = next) {
		next = e->next;
		if (!batch || e->batch == batch)
			wh_settle_back(r, e);
	}
	for (size_t i = 0; i < r->window.n_buckets; i++) {
		for (wh_entry *e = r->window.buckets[i]; e; e = e->bucket_next) {
			if (e->stage != WH_WAITING || (batch && e->batch != batch))
				continue;
			wh_settle_back(r, e);
		}
	}
}

static void let_go(wherry_relay *r)
{
	give_back_batch(r, NULL);
}

/* ---- claiming ---- */

/* A row that the database cannot send makes its claim fail: make the next
 * claims without texts. */
static wherry_code after_claim(wherry_relay *r, wherry_code code, const wherry_error *why,
			       wherry_error *err)
{
	wh_competing *c = state_of(r);

	if (!r->store->texts_after_claim && wh_db_about_row(r->db, code, why)) {
		r->store->texts_after_claim = c->more = true;
		c->late_texts_claims = CAREFUL_CLAIMS;
		return WHERRY_OK;
	}
	if (r->store->texts_after_claim && --c->late_texts_claims <= 0)
		r->store->texts_after_claim = false;
	if (code != WHERRY_OK && err)
		*err = *why;
	return code;
}

/* Claim expired rows, or else others.  *out_n: how many rows were claimed. */
static wherry_code claim(wherry_relay *r, const wherry_claim_options *options,
			 bool expired, int64_t *out_n, wherry_error *err)
{
	wh_competing *c = state_of(r);
	wherry_error why = WHERRY_ERROR_INIT;
	claiming w = {.r = r};
	const wh_batch *batch;
	bool more = false;
	wherry_code code = wh_window_begin(&r->window, err);

	if (code != WHERRY_OK)
		return code;
	batch = r->window.batch;
	if (!expired && c->place.after == INT64_MIN)
		c->freed = false;
	if (expired)
		code = wh_store_claim_expired_rows(r->store, &r->lease, options, meet, &w,
						   &why);
	else
		code = wh_store_claim_rows(r->store, &r->lease, options, &c->place, meet,
					   &w, &more, &why);
	if (code != WHERRY_OK && w.n)
		give_back_batch(r, batch); /* It is unknown whether they were claimed. */
	wh_window_end(&r->window);
	if (code == WHERRY_OK && !expired)
		c->more = more || c->freed;
	*out_n = w.n;
	return after_claim(r, code, &why, err);
}

/* Ask when to claim next.  A due row that was not claimed just now is blocked:
 * look again soon. */
static wherry_code look_ahead(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_competing *c = state_of(r);
	int64_t expiry_us, due_us;
	wherry_code code =
		wh_store_claim_next(r->store, r->set.claim_us, &expiry_us, &due_us, err);

	if (code != WHERRY_OK)
		return code;
	c->expires_at_us = wh_later(now, expiry_us);
	c->due_at_us = wh_later(now, due_us > 0 ? due_us : BLOCKED_US);
	return WHERRY_OK;
}

/* The last claim did not look at all rows: rows that it could not find wait for
 * a look at all rows. */
static void look_later(wherry_relay *r, int64_t now)
{
	wh_competing *c = state_of(r);
	int64_t at = c->place.scan_start.next_full_us;

	if (c->due_at_us <= now || (!c->more && at < c->due_at_us))
		c->due_at_us = at;
}

static wherry_code look_ahead_too(wherry_relay *r, int64_t now, wherry_error *err)
{
	int64_t before = wh_monotonic(&r->env);
	wherry_code code = look_ahead(r, now, err);

	wh_scan_start_looked_too(&state_of(r)->place.scan_start, r->db, before);
	return code;
}

/* Few large claims cost less than many small ones. */
static bool is_worth_it(const wherry_relay *r)
{
	int64_t least = r->set.window / 4;

	if (least > r->set.round_trip)
		least = r->set.round_trip;
	return wh_intake_has_room(r) && wh_intake_keys_left(r) &&
	       wh_intake_room(r) >= least;
}

static bool may_claim(const wherry_relay *r)
{
	wh_competing *c = state_of(r);

	return c->more && is_worth_it(r);
}

/* Expired rows come first, except for the fresh rows after each group of them. */
static bool expired_first(const wherry_relay *r, int64_t now)
{
	wh_competing *c = state_of(r);

	return now >= c->expires_at_us && !r->destination.down &&
	       !(c->fresh_most && may_claim(r));
}

/* Claim expired rows when nothing else is in memory.  While messages are in memory, look
 * whether other relays have taken the expired rows. */
static wherry_code expired_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_competing *c = state_of(r);
	wherry_claim_options options = options_of(r);
	wherry_code code;
	int64_t n;

	if (r->window.n && now < c->look_again_us)
		return WHERRY_OK;
	c->look_again_us = wh_later(now, BLOCKED_US);
	code = look_ahead(r, now, err);
	if (code != WHERRY_OK || now < c->expires_at_us || r->window.n)
		return code;
	code = claim(r, &options, true, &n, err);
	if (code != WHERRY_OK)
		return code;
	if (!n)
		c->expires_at_us = wh_later(now, BLOCKED_US);
	c->taking_over = n > 0;
	c->fresh_most = n > FRESH_LEAST ? n : FRESH_LEAST;
	return WHERRY_OK;
}

/* Room for failed messages; -1: none.  While the destination is down, they fill at most
 * half of the window; the other half is for new messages, which probe first. */
static int64_t failed_room(const wherry_relay *r)
{
	int64_t half = r->set.window > 1 ? r->set.window / 2 : 1;
	int64_t room =
		half + (int64_t)r->destination.n_failed_probes - (int64_t)r->window.n;

	if (r->window.bytes >= (size_t)r->set.window_bytes / 2)
		return -1;
	return room > 0 ? room : -1;
}

static wherry_code fresh_step(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_competing *c = state_of(r);
	wherry_claim_options options = options_of(r);
	wherry_code code;
	int64_t n;

	if (c->fresh_most && c->fresh_most < options.limit)
		options.limit = c->fresh_most;
	c->fresh_most = 0;
	if (r->destination.down)
		options.failed_most = failed_room(r);
	code = claim(r, &options, false, &n, err);
	if (code == WHERRY_OK && c->place.partial)
		look_later(r, now);
	else if (code == WHERRY_OK)
		code = look_ahead_too(r, now, err);
	if (code == WHERRY_OK && options.failed_most < 0 &&
	    c->due_at_us < r->destination.probe_at_us)
		c->due_at_us = r->destination.probe_at_us;
	return code;
}

/*
 * Give rows back before claiming others.  If the claim of these rows was rolled back, a
 * new claim would get them again, together with later rows of their keys.  Only the rows
 * in memory would be recognised (after_a_claim_that_failed_a_key_keeps_its_order).
 */
static wherry_code write_first(wherry_relay *r, int64_t now, wherry_error *err)
{
	for (const wh_entry *e = r->window.settled.head; e; e = e->next)
		if (e->fate == WH_FATE_BACK)
			return wh_settle_flush(r, now, NULL, err);
	return WHERRY_OK;
}

static wherry_code fetch(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_competing *c = state_of(r);
	wherry_code code = write_first(r, now, err);
	bool woken;

	if (code != WHERRY_OK || r->fsm.state != WH_LEADING || r->db_retry_at_us > now)
		return code;
	woken = wh_relay_woken(r, now);
	r->version = wh_db_version(r->db);

	if (woken) {
		c->more = c->freed = true;
		code = wh_operator_look(r, now, err);
	}
	if (code != WHERRY_OK || r->stats.paused)
		return code;
	if (now >= r->keys.first_due)
		wh_claimed_due(r, now);
	if (now >= c->due_at_us)
		c->more = true;
	c->taking_over &= r->window.n > 0;
	if (c->taking_over && !r->destination.down)
		return WHERRY_OK;
	if (expired_first(r, now)) {
		code = expired_step(r, now, err);
		if (code != WHERRY_OK || r->window.n)
			return code;
	}
	return may_claim(r) ? fresh_step(r, now, err) : WHERRY_OK;
}

static int64_t deadline(const wherry_relay *r, int64_t now)
{
	wh_competing *c = state_of(r);
	int64_t at = r->keys.first_due;

	if (r->stats.paused)
		return WH_NEVER;
	if (c->taking_over && r->window.n && !r->destination.down)
		return at;
	if (expired_first(r, now) && r->window.n)
		return c->look_again_us < at ? c->look_again_us : at;
	if (expired_first(r, now))
		return now;
	if (c->expires_at_us < at && c->expires_at_us > now && !r->destination.down)
		at = c->expires_at_us;
	if (!is_worth_it(r))
		return at;
	if (c->more)
		return now;
	return c->due_at_us < at ? c->due_at_us : at;
}

/* ---- the lease ---- */

/* Renew the joint lease, and extend all claims. */
static wherry_code renew(wherry_relay *r, wherry_lease *inout, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code =
		wh_store_join_as(r->store, r->set.name, r->set.lease_us, inout, &why);

	if (code == WHERRY_OK && inout->epoch == r->lease.epoch)
		return wh_claims_extend(r, err);
	if (code == WHERRY_OK || (code == WHERRY_BUSY && !wh_error_of_database(&why)))
		return WHERRY_STALE;
	if (err)
		*err = why;
	return code;
}

/* Commits wake the relay, and due_at_us says when the next failed row is due.  If a commit was
 * missed, something is open: a claim takes five statements, and this question one. */
static wherry_code renewed(wherry_relay *r, int64_t now, int64_t version,
			   wherry_error *err)
{
	wh_competing *c = state_of(r);
	bool open = true;
	wherry_code code = WHERRY_OK;

	(void)now;
	(void)version;
	if (!c->more && !r->window.n && !r->stats.paused && !r->db->driver->reads_wait)
		code = wh_store_open_upto(r->store, INT64_MAX, &open, err);
	c->more = c->more || open;
	return code;
}

/* ---- results ---- */

static void written(wherry_relay *r)
{
	wh_competing *c = state_of(r);

	c->more = c->freed = true;
}

void wh_competing_due(wherry_relay *r, int64_t due_us)
{
	wh_competing *c = state_of(r);

	if (due_us < c->due_at_us)
		c->due_at_us = due_us;
}

/* ---- until empty ---- */

/* Also waits for messages that other relays have claimed. */
static wherry_code until_empty(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_competing *c = state_of(r);
	bool quiet = !c->more && !r->window.n && !r->keys.n_held;
	bool open = true;
	int64_t before;
	wherry_code code;

	if (now < r->empty_check_us)
		return WHERRY_OK;
	r->empty_check_us = wh_later(now, CHECK_US);
	/* In other layouts the target may not be an id: in event-bus it is a time. */
	if (r->store->stmt.claim_behind && wh_window_lowest(&r->window) <= r->target_id)
		return WHERRY_OK;
	before = wh_monotonic(&r->env);
	code = wh_store_open_upto(r->store, r->target_id, &open, err);
	r->empty_check_us += WH_FULL_SHARE * (wh_monotonic(&r->env) - before);
	if (code != WHERRY_OK)
		return code;
	if (!open)
		wh_until_empty_finish(r, r->stats.dead ? WHERRY_DEATHS : WHERRY_EMPTY);
	else if (r->fsm.state != WH_LEADING || !quiet)
		return WHERRY_OK;
	else
		c->more = true;
	return WHERRY_OK;
}

static bool is_partial(const wherry_relay *r)
{
	(void)r;
	return true;
}

const wh_engine_driver wh_engine_competing = {
	.id = WH_COMPETING,
	.hold = &wh_hold_claimed,
	.writes_rows = true,
	.claims_rows = true,
	.make = make,
	.free = free_state,
	.attach = attach,
	.detach = detach,
	.resume = resume,
	.replaced = forget_place,
	.take = take_lease,
	.begin = begin,
	.renew = renew,
	.renewed = renewed,
	.forget = forget,
	.fetch = fetch,
	.is_partial = is_partial,
	.written = written,
	.release_unsubmitted = let_go,
	.until_empty = until_empty,
	.deadline = deadline,
};
