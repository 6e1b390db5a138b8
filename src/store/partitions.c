#include "store/partitions.h"

#include <stdio.h>
#include <string.h>

#include "store/leases.h"
#include "store/relay_report.h"
#include "store/sessions.h"

enum { RELAYS_MOST = 256, SUSPECTS_MOST = 1000000 };

int wh_partitions_count(uint64_t mask)
{
	int n = 0;

	for (; mask; mask &= mask - 1)
		n++;
	return n;
}

uint64_t wh_partitions_first(uint64_t mask, int most)
{
	uint64_t taken = 0;

	for (; mask && most > 0; most--) {
		taken |= mask & (~mask + 1);
		mask &= mask - 1;
	}
	return taken;
}

int wh_partitions_fair(int64_t n_others)
{
	return (int)((WH_PARTITIONS + n_others) / (n_others + 1));
}

/* ---- the columns of a lease ---- */

/* Columns of partitions-take and partitions-renew, after those of a lease. */
enum { MASK = 6, N_OTHERS, OTHERS, EXPIRY, TOO_LONG };

typedef struct taking {
	wherry_lease lease;
	wh_partitions partitions;
} taking;

static int64_t to_us(int64_t ms)
{
	return ms < 0 ? -1 : ms * 1000;
}

static wherry_code take_shared(void *ctx, const wh_row *row, wherry_error *err)
{
	taking *t = ctx;

	t->partitions = (wh_partitions){
		.mine = (uint64_t)wh_row_int(row, MASK),
		.others = (uint64_t)wh_row_int(row, OTHERS),
		.n_others = wh_row_int(row, N_OTHERS),
		.expiry_us = to_us(wh_row_int(row, EXPIRY)),
		.n_too_long = wh_row_int(row, TOO_LONG),
	};
	return wh_store_take_lease(&t->lease, row, err);
}

/* How a renewal changes the relay's share. */
typedef struct change {
	bool change;
	uint64_t mask;
	int64_t unclean;
} change;

static wherry_code renew(wh_store *store, wherry_lease *lease, const change *how,
			 wh_partitions *out, wherry_error *err)
{
	taking t = {.lease = *lease};
	wh_report_values said = wh_report_now(store);
	const wh_param params[] = {
		wh_store_lease_name(store),
		WH_INT_PARAM("number", lease->number),
		WH_INT_PARAM("epoch", lease->epoch),
		WH_TEXT_PARAM("holder", wh_view_of(lease->holder)),
		WH_INT_PARAM("lasts", wh_ms(lease->lasts_us)),
		WH_INT_PARAM("suspects", lease->suspects || how->change),
		WH_INT_PARAM("change", how->change),
		WH_INT_PARAM("mask", (int64_t)how->mask),
		WH_INT_PARAM("unclean", how->unclean),
		WH_REPORT_PARAMS_OF(said),
	};
	wherry_code code;

	t.lease.epoch = 0;
	code = wh_db_run(store->db, store->stmt.partitions_renew, params,
			 sizeof(params) / sizeof(*params), take_shared, &t, NULL, err);
	if (code != WHERRY_OK)
		return wh_store_missing(store->model, store->name.ptr, code, err);
	if (!t.lease.epoch)
		return wh_store_stale(store, err);
	/* Keep the caller's count, which is newer. */
	t.lease.suspects = lease->suspects;
	*lease = t.lease;
	*out = t.partitions;
	return WHERRY_OK;
}

wherry_code wh_partitions_renew(wh_store *store, wherry_lease *lease, wh_partitions *out,
				wherry_error *err)
{
	return renew(store, lease, &(change){.change = false}, out, err);
}

/* ---- the shares of all relays ---- */

typedef struct holder {
	int32_t number;
	int64_t epoch;
	bool lives, clean;
	bool orphaned; /* The lease has not expired, but its process has ended. */
	wh_engine engine;
	int64_t unclean, window;
	uint64_t mask;
} holder;

/* A relay that takes partitions. */
typedef struct sharing {
	wh_store *store;
	wherry_lease *lease;
	wh_partitions partitions;
	int64_t window;
	holder holders[RELAYS_MOST];
	int n_holders;
	uint64_t gained;
	int64_t suspects, unclean;
} sharing;

static wherry_code take_holder(void *ctx, const wh_row *row, wherry_error *err)
{
	sharing *w = ctx;

	if (w->n_holders == RELAYS_MOST)
		return wh_fail(
			err, WHERRY_BUSY,
			"%s '%s' is shared by %d relays already, as many as can be",
			w->store->model->name, w->store->name.ptr, RELAYS_MOST);
	w->holders[w->n_holders++] = (holder){
		.number = (int32_t)wh_row_int(row, 0),
		.epoch = wh_row_int(row, 1),
		.lives = wh_row_int(row, 2) != 0,
		.clean = wh_row_int(row, 3) != 0,
		.unclean = wh_row_int(row, 4),
		.window = wh_row_int(row, 5),
		.mask = (uint64_t)wh_row_int(row, 6),
		.engine = wh_engine_of(wh_row_text(row, 7)),
		.orphaned = wh_row_int(row, 2) != 0 &&
			    wh_store_orphaned(w->store, wh_row_text(row, 10)),
	};
	return WHERRY_OK;
}

/* Expire the leases of processes that have ended, so that nobody waits for them. */
static wherry_code expire_orphans(sharing *w, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (int i = 0; code == WHERRY_OK && i < w->n_holders; i++) {
		holder *h = &w->holders[i];

		if (!h->orphaned)
			continue;
		code = wh_store_expire(w->store, h->number, h->epoch, err);
		h->lives = h->orphaned = false;
	}
	return code;
}

/* Read the leases, under a lock: no other relay takes partitions before the transaction
 * ends. */
static wherry_code look(sharing *w, wherry_error *err)
{
	const wh_param name = wh_store_lease_name(w->store);
	wherry_code code = wh_db_run(w->store->db, w->store->stmt.partitions_lock, NULL,
				     0, NULL, NULL, NULL, err);

	w->n_holders = 0;
	w->gained = 0;
	w->suspects = w->unclean = 0;
	if (code == WHERRY_OK)
		code = wh_store_cut(w->store, err);
	if (code == WHERRY_OK)
		code = wh_db_run(w->store->db, w->store->stmt.partitions_relays, &name, 1,
				 take_holder, w, NULL, err);
	if (code == WHERRY_OK)
		code = expire_orphans(w, err);
	return wh_store_missing(w->store->model, w->store->name.ptr, code, err);
}

/* When a lease ends uncleanly for the second time in a row, or more often, the messages in
 * flight become suspects, as in the statement "lease". */
static void suspect(sharing *w, const holder *h)
{
	if (h->clean)
		return;
	if (h->unclean > 0)
		w->suspects += h->window < SUSPECTS_MOST ? h->window : SUSPECTS_MOST;
	if (w->suspects > SUSPECTS_MOST)
		w->suspects = SUSPECTS_MOST;
	if (w->unclean < h->unclean + 1)
		w->unclean = h->unclean + 1;
}

/* Remove the partitions that are taken from expired leases. */
static wherry_code strip(sharing *w, wherry_error *err)
{
	for (int i = 0; i < w->n_holders; i++) {
		holder *h = &w->holders[i];
		const wh_param params[] = {
			wh_store_lease_name(w->store),
			WH_INT_PARAM("number", h->number),
			WH_INT_PARAM("epoch", h->epoch),
			WH_INT_PARAM("mask", (int64_t)w->gained),
		};
		int64_t changed = 0;
		wherry_code code;

		if (h->lives || !(h->mask & w->gained))
			continue;
		code = wh_db_run(w->store->db, w->store->stmt.partitions_strip, params, 4,
				 NULL, NULL, &changed, err);
		if (code != WHERRY_OK)
			return code;
		if (!changed)
			return wh_fail(err, WHERRY_BUSY,
				       "a relay of %s '%s' that seemed gone is not",
				       w->store->model->name, w->store->name.ptr);
		suspect(w, h);
		h->mask &= ~w->gained;
	}
	return WHERRY_OK;
}

/* Where positions say what was read, the relay gets those of its partitions. */
static wherry_code divide(const sharing *w, uint64_t mask, wherry_error *err)
{
	const wh_param param = WH_INT_PARAM("mask", (int64_t)mask);

	return w->store->stmt.progress_divide
		       ? wh_db_run(w->store->db, w->store->stmt.progress_divide, &param,
				   1, NULL, NULL, NULL, err)
		       : WHERRY_OK;
}

/* ---- joining ---- */

/* The number of the first lease row that is free: its lease has ended and holds no
 * partitions that others must take. */
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
	char process[WH_PROCESS_LEN];

	wh_self(w->store->db->env, process);
	const wh_param params[] = {
		wh_store_lease_name(w->store),
		WH_INT_PARAM("number", place(w)),
		WH_TEXT_PARAM("owner", wh_view_of(w->lease->owner)),
		WH_TEXT_PARAM("holder", wh_view_of(w->lease->holder)),
		WH_INT_PARAM("lasts", wh_ms(w->lease->lasts_us)),
		WH_INT_PARAM("window", w->window),
		WH_INT_PARAM("mask", (int64_t)w->gained),
		WH_INT_PARAM("suspects", w->suspects),
		WH_INT_PARAM("unclean", w->unclean),
		WH_TEXT_PARAM("process", wh_view_of(process)),
		WH_TEXT_PARAM("destination", wh_report_now(w->store).destination),
	};
	wherry_code code =
		wh_db_run(w->store->db, w->store->stmt.partitions_take, params,
			  sizeof(params) / sizeof(*params), take_shared, &t, NULL, err);

	if (code == WHERRY_OK && !t.lease.epoch)
		code = wh_fail(err, WHERRY_BUSY, "another relay was faster");
	if (code != WHERRY_OK)
		return code;
	t.lease.number = (int32_t)params[1].number;
	*w->lease = t.lease;
	w->partitions = t.partitions;
	return WHERRY_OK;
}

/* Wake the relays that sleep, where they can be woken. */
static wherry_code tell(const wh_store *store, wherry_error *err)
{
	const wh_stmt *stmt = store->stmt.partitions_tell;

	return stmt ? wh_db_run(store->db, stmt, NULL, 0, NULL, NULL, NULL, err)
		    : WHERRY_OK;
}

/* Refuse to join if a working relay has another engine. */
static wherry_code meet(const sharing *w, wherry_error *err)
{
	for (int i = 0; i < w->n_holders; i++)
		if (w->holders[i].lives &&
		    wh_meet_now(WH_POSITIONS_SHARED, w->holders[i].engine) == WH_REFUSED)
			return wh_store_held(
				w->store, " and which has another engine: stop it first",
				err);
	return WHERRY_OK;
}

static wherry_code join(void *ctx, wherry_error *err)
{
	sharing *w = ctx;
	wherry_code code = look(w, err);
	uint64_t others = 0;
	int64_t n_others = 0;

	w->lease->epoch = 0;
	if (code == WHERRY_OK)
		code = meet(w, err);
	if (code != WHERRY_OK)
		return code;
	for (int i = 0; i < w->n_holders; i++) {
		const holder *h = &w->holders[i];

		n_others += h->lives;
		others |= h->lives ? h->mask : 0;
	}
	w->gained = wh_partitions_first(~others, wh_partitions_fair(n_others));
	code = strip(w, err);
	if (code == WHERRY_OK)
		code = take(w, err);
	if (code == WHERRY_OK)
		code = divide(w, w->gained, err);
	return code == WHERRY_OK ? tell(w->store, err) : code;
}

wherry_code wh_partitions_join(wh_store *store, const char *owner, int64_t lasts_us,
			       int64_t window, wherry_lease *out,
			       wh_partitions *out_partitions, wherry_error *err)
{
	wherry_lease lease = {.lasts_us = lasts_us};
	sharing w = {.store = store, .lease = &lease, .window = window};
	wherry_code code;

	(void)snprintf(lease.owner, sizeof(lease.owner), "%s", owner);
	code = wh_session_begin(store, lasts_us, out->holder, lease.holder, err);
	if (code != WHERRY_OK)
		return code;
	code = wh_db_transact(store->db, join, &w, err);
	if (code != WHERRY_OK) {
		wh_session_end(store, lease.holder);
		return code;
	}
	*out = lease;
	*out_partitions = w.partitions;
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

		n_others += h->lives && h->number != w->lease->number;
		taken |= h->lives ? h->mask : 0;
		if (h->lives && h->number == w->lease->number &&
		    h->epoch == w->lease->epoch)
			how.mask = h->mask;
	}
	most = wh_partitions_fair(n_others) - wh_partitions_count(how.mask);
	w->gained = wh_partitions_first(~taken, most);
	code = strip(w, err);
	how.mask |= w->gained;
	how.unclean = w->unclean;
	if (code == WHERRY_OK)
		code = renew(w->store, w->lease, &how, &w->partitions, err);
	return code == WHERRY_OK && w->gained ? divide(w, how.mask, err) : code;
}

wherry_code wh_partitions_more(wh_store *store, wherry_lease *lease, wh_partitions *inout,
			       int64_t *out_suspects, wherry_error *err)
{
	wherry_lease fresh = *lease;
	sharing w = {.store = store, .lease = &fresh};
	wherry_code code = wh_db_transact(store->db, more, &w, err);

	if (code != WHERRY_OK)
		return code;
	*lease = fresh;
	*inout = w.partitions;
	*out_suspects = w.suspects;
	return WHERRY_OK;
}

static wherry_code keep(void *ctx, wherry_error *err)
{
	sharing *w = ctx;
	const change how = {.change = true, .mask = w->gained};
	wherry_code code = renew(w->store, w->lease, &how, &w->partitions, err);

	if (code == WHERRY_OK)
		code = divide(w, w->gained, err);
	return code == WHERRY_OK ? tell(w->store, err) : code;
}

wherry_code wh_partitions_keep(wh_store *store, wherry_lease *lease, uint64_t mask,
			       wh_partitions *out, wherry_error *err)
{
	wherry_lease fresh = *lease;
	sharing w = {.store = store, .lease = &fresh, .gained = mask};
	wherry_code code = wh_db_transact(store->db, keep, &w, err);

	if (code != WHERRY_OK)
		return code;
	*lease = fresh;
	*out = w.partitions;
	return WHERRY_OK;
}

/* ---- looking ---- */

typedef struct control {
	bool paused;
	int64_t control_version;
	wh_partitions partitions;
} control;

static wherry_code take_control(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(control *)ctx = (control){
		.paused = wh_row_int(row, 0) != 0,
		.control_version = wh_row_int(row, 1),
		.partitions.n_others = wh_row_int(row, 2),
		.partitions.others = (uint64_t)wh_row_int(row, 3),
	};
	return WHERRY_OK;
}

wherry_code wh_partitions_control(wh_store *store, const wherry_lease *lease,
				  bool *out_paused, int64_t *out_version,
				  wh_partitions *out, wherry_error *err)
{
	const wh_param params[] = {
		wh_store_lease_name(store),
		WH_INT_PARAM("number", lease->number),
	};
	control c = {.paused = *out_paused, .control_version = *out_version};
	wherry_code code;

	c.partitions = *out;
	code = wh_db_run(store->db, store->stmt.partitions_control, params, 2,
			 take_control, &c, NULL, err);
	if (code != WHERRY_OK)
		return code;
	*out_paused = c.paused;
	*out_version = c.control_version;
	out->n_others = c.partitions.n_others;
	out->others = c.partitions.others;
	return WHERRY_OK;
}

typedef struct listing {
	const wh_store *store;
	wh_sessions sessions;
	wh_partition_holder_fn visit;
	void *ctx;
} listing;

static wherry_code visit_holder(void *ctx, const wh_row *row, wherry_error *err)
{
	const listing *w = ctx;
	wh_partition_holder who = {
		.owner = wh_row_text(row, 9),
		.epoch = wh_row_int(row, 1),
		.left_us = wh_us(wh_row_int(row, 8)),
		.n = wh_partitions_count((uint64_t)wh_row_int(row, 6)),
	};
	wherry_code code = wh_row_check(row, err);

	who.silent = wh_sessions_lack(&w->sessions, who.owner, who.epoch);
	if (code == WHERRY_OK && wh_row_int(row, 2) &&
	    wh_engine_may_share(wh_engine_of(wh_row_text(row, 7))) &&
	    !wh_store_orphaned(w->store, wh_row_text(row, 10)))
		w->visit(w->ctx, &who);
	return code;
}

wherry_code wh_partitions_list(wh_store *store, wh_partition_holder_fn visit, void *ctx,
			       wherry_error *err)
{
	const wh_param name = wh_store_lease_name(store);
	listing w = {.store = store, .visit = visit, .ctx = ctx};
	bool ready = false;
	wherry_code code = wh_store_partitioned(store, &ready, err);

	if (code == WHERRY_OK && ready)
		code = wh_sessions_look(store, -1, &w.sessions, err);
	if (code != WHERRY_OK || !ready)
		return code;
	return wh_db_run(store->db, store->stmt.partitions_relays, &name, 1, visit_holder,
			 &w, NULL, err);
}

/* ---- reading a share ---- */

wh_param wh_partitions_param(uint64_t mask, char list[WH_PARTITION_LIST])
{
	size_t len = 0;

	list[len++] = '{';
	for (int i = 0; i < WH_PARTITIONS; i++) {
		if (!(mask >> i & 1))
			continue;
		len += (size_t)snprintf(list + len, 4, len > 1 ? ",%d" : "%d", i);
	}
	list[len++] = '}';
	list[len] = 0;
	return WH_TEXT_PARAM("partitions", ((wh_view){list, len}));
}
