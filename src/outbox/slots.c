#include "outbox/slots.h"

#include <stdio.h>
#include <string.h>

#include "outbox/outbox.h"

enum { RELAYS_MOST = 256, SUSPECTS_MOST = 1000000, DOUBLED_MOST = 16 };

int wh_slots_count(uint64_t mask)
{
	int n = 0;

	for (; mask; mask &= mask - 1)
		n++;
	return n;
}

uint64_t wh_slots_first(uint64_t mask, int most)
{
	uint64_t taken = 0;

	for (; mask && most > 0; most--) {
		taken |= mask & (~mask + 1);
		mask &= mask - 1;
	}
	return taken;
}

int wh_slots_fair(int64_t n_others)
{
	return (int)((WH_SLOTS + n_others) / (n_others + 1));
}

wherry_code wh_slots_ready(wherry_outbox *box, bool *out, wherry_error *err)
{
	int64_t n = 0;
	wherry_code code = WHERRY_OK;

	if (box->stmt.slots_ready)
		code = wh_db_run(box->db, box->stmt.slots_ready, NULL, 0, wh_take_int, &n,
				 NULL, err);
	if (code != WHERRY_OK)
		return wh_outbox_missing(box->name.ptr, code, err);
	*out = n > 0;
	box->slotted = n > 0;
	return code;
}

/* Delivered rows are still pending, and no engine but that one can tell them apart. */
static wherry_code refuse_again(const wherry_outbox *box, wh_engine engine,
				wherry_error *err)
{
	return wh_fail(err, WHERRY_INVALID,
		       "outbox '%s' was relayed with relay.on_done=keep, which leaves "
		       "delivered rows pending: the engine %s would deliver them again; "
		       "delete them and start once with --from table, or go on with %s",
		       box->name.ptr, wh_engine_word(engine),
		       wh_engine_options(WH_STREAM_KEEP));
}

/* The position is worth nothing once another engine has worked. */
static wherry_code forget_place(const wherry_outbox *box, wherry_error *err)
{
	const wh_stmt *stmt = box->stmt.forget_place;

	return stmt ? wh_db_script(box->db, stmt->text, err) : WHERRY_OK;
}

typedef struct guarded {
	wherry_outbox *box;
	wh_engine engine;
	bool again;
	const wh_stmt *stmt;
	const wh_param *params;
	size_t n_params;
	wherry_lease *out;
} guarded;

static wherry_code run_guarded(void *ctx, wherry_error *err)
{
	const guarded *g = ctx;
	wh_holder last = {.epoch = 0};
	wh_engine who;
	wherry_code code = WHERRY_OK;

	if (g->box->slotted > 0)
		code = wh_db_run(g->box->db, g->box->stmt.slots_lock, NULL, 0, NULL, NULL,
				 NULL, err);
	if (code == WHERRY_OK)
		code = wh_outbox_holder_of(g->box, 0, &last, err);
	if (code != WHERRY_OK)
		return code;
	who = last.epoch ? wh_engine_of(last.engine) : g->engine;
	if (last.left_us > 0 && wh_meet_now(g->engine, who) == WH_REFUSED)
		return WHERRY_OK; /* the caller says by whom it is held */
	if (!wh_meet_after(g->engine, who) && !g->again)
		return refuse_again(g->box, g->engine, err);
	code = wh_db_run(g->box->db, g->stmt, g->params, g->n_params, wh_take_lease,
			 g->out, NULL, err);
	if (code == WHERRY_OK && g->out->epoch && !wh_meet_after(g->engine, who))
		code = forget_place(g->box, err);
	return code;
}

wherry_code wh_slots_guard(wherry_outbox *box, wh_engine engine, bool again,
			   const wh_stmt *stmt, const wh_param *params, size_t n_params,
			   wherry_lease *out, wherry_error *err)
{
	guarded g = {box, engine, again, stmt, params, n_params, out};
	bool slotted = false;
	wherry_code code = wh_slots_ready(box, &slotted, err);

	if (code != WHERRY_OK)
		return code;
	return slotted || again ? wh_db_transact(box->db, run_guarded, &g, err)
				: run_guarded(&g, err);
}

/* ---- what a lease tells ---- */

/* Columns of slots-take and slots-renew behind those of a lease. */
enum { MASK = 6, N_OTHERS, OTHERS, LAPSE };

typedef struct taking {
	wherry_lease lease;
	wh_slots slots;
} taking;

static int64_t to_us(int64_t ms)
{
	return ms < 0 ? -1 : ms * 1000;
}

static wherry_code take_shared(void *ctx, const wh_row *row, wherry_error *err)
{
	taking *t = ctx;

	t->slots = (wh_slots){
		.mine = (uint64_t)wh_row_int(row, MASK),
		.others = (uint64_t)wh_row_int(row, OTHERS),
		.n_others = wh_row_int(row, N_OTHERS),
		.lapse_us = to_us(wh_row_int(row, LAPSE)),
	};
	return wh_take_lease(&t->lease, row, err);
}

/* How a renewal changes the share. */
typedef struct change {
	bool change;
	uint64_t mask;
	int64_t unclean;
} change;

static wherry_code renew(wherry_outbox *box, wherry_lease *lease, const change *how,
			 wh_slots *out, wherry_error *err)
{
	taking t = {.lease = *lease};
	const wh_param params[] = {
		WH_TEXT_PARAM("name", box->name),
		WH_INT_PARAM("slot", lease->slot),
		WH_INT_PARAM("epoch", lease->epoch),
		WH_INT_PARAM("lasts", wh_ms(lease->lasts_us)),
		WH_INT_PARAM("suspects", lease->suspects || how->change),
		WH_INT_PARAM("change", how->change),
		WH_INT_PARAM("mask", (int64_t)how->mask),
		WH_INT_PARAM("unclean", how->unclean),
	};
	wherry_code code;

	t.lease.epoch = 0;
	code = wh_db_run(box->db, box->stmt.slots_renew, params,
			 sizeof(params) / sizeof(*params), take_shared, &t, NULL, err);
	if (code != WHERRY_OK)
		return wh_outbox_missing(box->name.ptr, code, err);
	if (!t.lease.epoch)
		return wh_outbox_stale(box, err);
	t.lease.suspects = lease->suspects; /* the holder knows better */
	*lease = t.lease;
	*out = t.slots;
	return WHERRY_OK;
}

wherry_code wh_slots_renew(wherry_outbox *box, wherry_lease *lease, wh_slots *out,
			   wherry_error *err)
{
	return renew(box, lease, &(change){.change = false}, out, err);
}

/* ---- who has what ---- */

typedef struct holder {
	int32_t number;
	int64_t epoch;
	bool lives, clean;
	wh_engine engine;
	int64_t unclean, window;
	uint64_t mask;
} holder;

/* Slots are being taken. */
typedef struct sharing {
	wherry_outbox *box;
	wherry_lease *lease;
	wh_slots slots;
	int64_t window;
	holder holders[RELAYS_MOST];
	int n_holders;
	uint64_t gained;
	int64_t suspects, unclean;
	bool again; /* as of wh_outbox_lease_as() */
} sharing;

static wherry_code take_holder(void *ctx, const wh_row *row, wherry_error *err)
{
	sharing *w = ctx;

	if (w->n_holders == RELAYS_MOST)
		return wh_fail(err, WHERRY_BUSY,
			       "%d relays share outbox '%s': no more find a place",
			       RELAYS_MOST, w->box->name.ptr);
	w->holders[w->n_holders++] = (holder){
		.number = (int32_t)wh_row_int(row, 0),
		.epoch = wh_row_int(row, 1),
		.lives = wh_row_int(row, 2) != 0,
		.clean = wh_row_int(row, 3) != 0,
		.unclean = wh_row_int(row, 4),
		.window = wh_row_int(row, 5),
		.mask = (uint64_t)wh_row_int(row, 6),
		.engine = wh_engine_of(wh_row_text(row, 7)),
	};
	return WHERRY_OK;
}

/* Nobody else takes any until the transaction ends. */
static wherry_code look(sharing *w, wherry_error *err)
{
	const wh_param name = WH_TEXT_PARAM("name", w->box->name);
	wherry_code code = wh_db_run(w->box->db, w->box->stmt.slots_lock, NULL, 0, NULL,
				     NULL, NULL, err);

	w->n_holders = 0;
	w->gained = 0;
	w->suspects = w->unclean = 0;
	if (code == WHERRY_OK)
		code = wh_db_run(w->box->db, w->box->stmt.slots_relays, &name, 1,
				 take_holder, w, NULL, err);
	return wh_outbox_missing(w->box->name.ptr, code, err);
}

/* What ended uncleanly had messages in flight; and twice as many are suspects after each
 * further time in a row, as of "lease". */
static void suspect(sharing *w, const holder *h)
{
	int64_t doubled = h->unclean < DOUBLED_MOST ? h->unclean : DOUBLED_MOST;

	if (h->clean)
		return;
	w->suspects += h->window << doubled;
	if (w->suspects > SUSPECTS_MOST)
		w->suspects = SUSPECTS_MOST;
	if (w->unclean < h->unclean + 1)
		w->unclean = h->unclean + 1;
}

/* Take what is gained out of leases that have ended. */
static wherry_code strip(sharing *w, wherry_error *err)
{
	for (int i = 0; i < w->n_holders; i++) {
		holder *h = &w->holders[i];
		const wh_param params[] = {
			WH_TEXT_PARAM("name", w->box->name),
			WH_INT_PARAM("slot", h->number),
			WH_INT_PARAM("epoch", h->epoch),
			WH_INT_PARAM("mask", (int64_t)w->gained),
		};
		int64_t changed = 0;
		wherry_code code;

		if (h->lives || !(h->mask & w->gained))
			continue;
		code = wh_db_run(w->box->db, w->box->stmt.slots_strip, params, 4, NULL,
				 NULL, &changed, err);
		if (code != WHERRY_OK)
			return code;
		if (!changed)
			return wh_fail(err, WHERRY_BUSY,
				       "a relay of outbox '%s' that seemed gone is not",
				       w->box->name.ptr);
		suspect(w, h);
		h->mask &= ~w->gained;
		h->epoch++;
	}
	return WHERRY_OK;
}

/* ---- joining ---- */

/* The first row that nobody has, nor anything left in it that others are to take. */
static int32_t place(const sharing *w)
{
	int32_t number = 0;

	for (int i = 0; i < w->n_holders; i++) {
		const holder *h = &w->holders[i];

		if (h->number < number)
			continue;
		if (h->number > number || (!h->lives && (h->clean || !h->mask)))
			break;
		number++;
	}
	return number;
}

static wherry_code take(sharing *w, wherry_error *err)
{
	taking t = {.lease = *w->lease};
	const wh_param params[] = {
		WH_TEXT_PARAM("name", w->box->name),
		WH_INT_PARAM("slot", place(w)),
		WH_TEXT_PARAM("owner", wh_view_of(w->lease->owner)),
		WH_INT_PARAM("lasts", wh_ms(w->lease->lasts_us)),
		WH_INT_PARAM("window", w->window),
		WH_INT_PARAM("mask", (int64_t)w->gained),
		WH_INT_PARAM("suspects", w->suspects),
		WH_INT_PARAM("unclean", w->unclean),
	};
	wherry_code code =
		wh_db_run(w->box->db, w->box->stmt.slots_take, params,
			  sizeof(params) / sizeof(*params), take_shared, &t, NULL, err);

	if (code == WHERRY_OK && !t.lease.epoch)
		code = wh_fail(err, WHERRY_BUSY, "another relay was faster");
	if (code != WHERRY_OK)
		return code;
	t.lease.slot = (int32_t)params[1].number;
	*w->lease = t.lease;
	w->slots = t.slots;
	return WHERRY_OK;
}

static wherry_code tell(const wherry_outbox *box, wherry_error *err)
{
	return wh_db_run(box->db, box->stmt.slots_tell, NULL, 0, NULL, NULL, NULL, err);
}

/* May this relay be let in, by those that are there? */
static wherry_code meet(const sharing *w, wherry_error *err)
{
	bool again = false;

	for (int i = 0; i < w->n_holders; i++) {
		const holder *h = &w->holders[i];

		if (h->lives && wh_meet_now(WH_PARTITIONED, h->engine) == WH_REFUSED)
			return wh_outbox_held(
				w->box,
				" and which has another engine: run all relays of an "
				"outbox with one engine",
				err);
		if (wh_meet_after(WH_PARTITIONED, h->engine))
			continue;
		if (!w->again)
			return refuse_again(w->box, WH_PARTITIONED, err);
		again = true;
	}
	return again ? forget_place(w->box, err) : WHERRY_OK;
}

static wherry_code join(void *ctx, wherry_error *err)
{
	sharing *w = ctx;
	wherry_code code = look(w, err);
	uint64_t others = 0;
	int64_t n_others = 0;

	if (code == WHERRY_OK)
		code = meet(w, err);
	if (code != WHERRY_OK)
		return code;
	for (int i = 0; i < w->n_holders; i++) {
		const holder *h = &w->holders[i];

		n_others += h->lives;
		others |= h->lives ? h->mask : 0;
	}
	w->gained = wh_slots_first(~others, wh_slots_fair(n_others));
	code = strip(w, err);
	if (code == WHERRY_OK)
		code = take(w, err);
	return code == WHERRY_OK ? tell(w->box, err) : code;
}

wherry_code wh_slots_join(wherry_outbox *box, bool again, const char *owner,
			  int64_t lasts_us, int64_t window, wherry_lease *out,
			  wh_slots *out_slots, wherry_error *err)
{
	wherry_lease lease = {.lasts_us = lasts_us};
	sharing w = {.box = box, .lease = &lease, .window = window, .again = again};
	wherry_code code;

	(void)snprintf(lease.owner, sizeof(lease.owner), "%s", owner);
	code = wh_db_transact(box->db, join, &w, err);
	if (code != WHERRY_OK)
		return code;
	*out = lease;
	*out_slots = w.slots;
	return WHERRY_OK;
}

/* ---- more and fewer ---- */

static wherry_code more(void *ctx, wherry_error *err)
{
	sharing *w = ctx;
	wherry_code code = look(w, err);
	uint64_t taken = 0;
	int64_t n_others = 0;
	change how = {.change = true};
	int most;

	if (code != WHERRY_OK)
		return code;
	for (int i = 0; i < w->n_holders; i++) {
		const holder *h = &w->holders[i];

		n_others += h->lives && h->number != w->lease->slot;
		taken |= h->lives ? h->mask : 0;
		if (h->lives && h->number == w->lease->slot &&
		    h->epoch == w->lease->epoch)
			how.mask = h->mask;
	}
	most = wh_slots_fair(n_others) - wh_slots_count(how.mask);
	w->gained = wh_slots_first(~taken, most);
	code = strip(w, err);
	how.mask |= w->gained;
	how.unclean = w->unclean;
	return code == WHERRY_OK ? renew(w->box, w->lease, &how, &w->slots, err) : code;
}

wherry_code wh_slots_more(wherry_outbox *box, wherry_lease *lease, wh_slots *inout,
			  int64_t *out_suspects, wherry_error *err)
{
	wherry_lease fresh = *lease;
	sharing w = {.box = box, .lease = &fresh};
	wherry_code code = wh_db_transact(box->db, more, &w, err);

	if (code != WHERRY_OK)
		return code;
	*lease = fresh;
	*inout = w.slots;
	*out_suspects = w.suspects;
	return WHERRY_OK;
}

static wherry_code keep(void *ctx, wherry_error *err)
{
	sharing *w = ctx;
	const change how = {.change = true, .mask = w->gained};
	wherry_code code = renew(w->box, w->lease, &how, &w->slots, err);

	return code == WHERRY_OK ? tell(w->box, err) : code;
}

wherry_code wh_slots_keep(wherry_outbox *box, wherry_lease *lease, uint64_t mask,
			  wh_slots *out, wherry_error *err)
{
	wherry_lease fresh = *lease;
	sharing w = {.box = box, .lease = &fresh, .gained = mask};
	wherry_code code = wh_db_transact(box->db, keep, &w, err);

	if (code != WHERRY_OK)
		return code;
	*lease = fresh;
	*out = w.slots;
	return WHERRY_OK;
}

/* ---- looking ---- */

typedef struct control {
	bool paused;
	int64_t nudge;
	wh_slots slots;
} control;

static wherry_code take_control(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(control *)ctx = (control){
		.paused = wh_row_int(row, 0) != 0,
		.nudge = wh_row_int(row, 1),
		.slots.n_others = wh_row_int(row, 2),
		.slots.others = (uint64_t)wh_row_int(row, 3),
	};
	return WHERRY_OK;
}

wherry_code wh_slots_control(wherry_outbox *box, const wherry_lease *lease,
			     bool *out_paused, int64_t *out_nudge, wh_slots *out,
			     wherry_error *err)
{
	const wh_param params[] = {
		WH_TEXT_PARAM("name", box->name),
		WH_INT_PARAM("slot", lease->slot),
	};
	control c = {.paused = *out_paused, .nudge = *out_nudge};
	wherry_code code;

	c.slots = *out;
	code = wh_db_run(box->db, box->stmt.slots_control, params, 2, take_control, &c,
			 NULL, err);
	if (code != WHERRY_OK)
		return code;
	*out_paused = c.paused;
	*out_nudge = c.nudge;
	out->n_others = c.slots.n_others;
	out->others = c.slots.others;
	return WHERRY_OK;
}

typedef struct listing {
	wh_sharer_fn visit;
	void *ctx;
} listing;

static wherry_code take_sharer(void *ctx, const wh_row *row, wherry_error *err)
{
	const listing *w = ctx;
	const wh_sharer who = {
		.owner = wh_row_text(row, 9),
		.epoch = wh_row_int(row, 1),
		.left_us = wh_row_int(row, 8) * 1000,
		.n = wh_slots_count((uint64_t)wh_row_int(row, 6)),
	};
	wherry_code code = wh_row_check(row, err);

	if (code == WHERRY_OK && wh_row_int(row, 2) &&
	    wh_engine_of(wh_row_text(row, 7)) == WH_EXCLUSIVE)
		w->visit(w->ctx, &who);
	return code;
}

wherry_code wh_slots_list(wherry_outbox *box, wh_sharer_fn visit, void *ctx,
			  wherry_error *err)
{
	const wh_param name = WH_TEXT_PARAM("name", box->name);
	listing w = {visit, ctx};
	bool ready = false;
	wherry_code code = wh_slots_ready(box, &ready, err);

	if (code != WHERRY_OK || !ready)
		return code;
	return wh_db_run(box->db, box->stmt.slots_relays, &name, 1, take_sharer, &w, NULL,
			 err);
}

/* ---- reading a share ---- */

wh_param wh_slots_param(uint64_t mask, char list[WH_SLOTS_LIST])
{
	size_t len = 0;

	list[len++] = '{';
	for (int i = 0; i < WH_SLOTS; i++) {
		if (!(mask >> i & 1))
			continue;
		len += (size_t)snprintf(list + len, 4, len > 1 ? ",%d" : "%d", i);
	}
	list[len++] = '}';
	list[len] = 0;
	return WH_TEXT_PARAM("slots", ((wh_view){list, len}));
}

wherry_code wh_slots_read_params(wherry_outbox *box, const wh_read_from *from,
				 wh_param out[WH_SLOTS_READ_PARAMS], wherry_error *err)
{
	wh_slots_read *share = from->slots;
	wherry_code code;

	out[0] = WH_INT_PARAM("after", from->after);
	out[1] = WH_INT_PARAM("limit", from->limit);
	out[2] = WH_INT_PARAM("each", share->each);
	out[3] = WH_INT_PARAM("late", share->late);
	out[4] = WH_INT_PARAM("open", from->all_open);
	out[5] = wh_slots_param(share->mask, share->list);
	code = wh_outbox_list(&box->holes, share->known, share->n_known, &out[6], err);
	out[6].name = "known";
	wh_outbox_limits_of(box, &out[7]);
	return code;
}
