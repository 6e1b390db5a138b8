#include "store/leases.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/uuid.h"
#include "store/fields.h"
#include "store/partitions.h"
#include "store/relay_report.h"
#include "store/sessions.h"

wherry_code wh_store_take_lease(void *ctx, const wh_row *row, wherry_error *err)
{
	wherry_lease *lease = ctx;

	(void)err;
	lease->epoch = wh_row_int(row, 0);
	lease->suspects = wh_row_int(row, 1);
	if (lease->suspects < 0)
		lease->suspects = 0; /* A role may write any number. */
	lease->paused = wh_row_int(row, 2) != 0;
	lease->control_version = wh_row_int(row, 3);
	lease->first_open = wh_row_int(row, 4);
	lease->last_open = wh_row_int(row, 5);
	return WHERRY_OK;
}

wherry_code wh_store_held(wh_store *store, const char *advice, wherry_error *err)
{
	wh_holder holder = {.epoch = 0};
	wherry_code code = wh_store_holder(store, &holder, err);

	if (code != WHERRY_OK)
		return code;
	/* If this fails, as for a role that only reads leases, the lease stays as it is. */
	if (wh_store_cut(store, NULL) == WHERRY_OK && wh_holder_lasts_too_long(&holder))
		holder.left_us = holder.lasts_us;
	return wh_fail(err, WHERRY_BUSY,
		       "%s '%s' is relayed by %.80s, whose lease lasts %" PRId64
		       " ms more%s",
		       store->model->name, store->name.ptr, holder.owner,
		       holder.left_us / 1000, advice);
}

typedef struct guarded {
	wh_store *store;
	wh_engine engine;
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

	g->out->epoch = 0;
	if (g->store->partitioned > 0)
		code = wh_db_run(g->store->db, g->store->stmt.partitions_lock, NULL, 0,
				 NULL, NULL, NULL, err);
	/* A lease is taken only if nobody has it, whatever the engine is. */
	if (code == WHERRY_OK && g->stmt != g->store->stmt.lease)
		code = wh_store_holder_of(g->store, 0, &last, err);
	if (code != WHERRY_OK)
		return code;
	who = last.epoch ? wh_engine_of(last.engine) : g->engine;
	if (last.left_us > 0 && wh_meet_now(g->engine, who) == WH_REFUSED)
		/* No epoch: the caller returns BUSY and names the holder. */
		return WHERRY_OK;
	return wh_db_run(g->store->db, g->stmt, g->params, g->n_params,
			 wh_store_take_lease, g->out, NULL, err);
}

/* Run a statement that takes the whole table for an engine ("lease" or "join"), while no
 * relay takes a partition.  Leaves the epoch 0 if the engine may not work beside the
 * holder's (see engines.c). */
static wherry_code guard(wh_store *store, wh_engine engine, const wh_stmt *stmt,
			 const wh_param *params, size_t n_params, wherry_lease *out,
			 wherry_error *err)
{
	guarded g = {store, engine, stmt, params, n_params, out};
	bool partitioned = false;
	wherry_code code = wh_store_partitioned(store, &partitioned, err);

	if (code != WHERRY_OK)
		return code;
	return partitioned ? wh_db_transact(store->db, run_guarded, &g, err)
			   : run_guarded(&g, err);
}

wherry_code wh_store_lease_as(wh_store *store, wh_engine engine, const char *owner,
			      int64_t lasts_us, int64_t window, wherry_lease *out,
			      wherry_error *err)
{
	wherry_lease lease = {.lasts_us = lasts_us};
	char process[WH_PROCESS_LEN];
	wherry_code code;

	if (!owner || !out || lasts_us <= 0)
		return wh_fail(err, WHERRY_INVALID,
			       "a lease needs a table, an owner and a time");
	code = wh_span_check("the lease", lasts_us, err);
	if (code != WHERRY_OK)
		return code;
	if (!store->stmt.lease)
		return wh_store_cannot(
			store,
			"where no relay can work alone: there is nowhere to keep a lease",
			err);
	(void)snprintf(lease.owner, sizeof(lease.owner), "%s", owner);
	code = wh_session_begin(store, lasts_us, out->holder, lease.holder, err);
	if (code != WHERRY_OK)
		return code;
	wh_self(store->db->env, process);
	const wh_param params[] = {
		wh_store_lease_name(store),
		WH_INT_PARAM("number", 0),
		WH_TEXT_PARAM("engine", wh_view_of(wh_engine_word(engine))),
		WH_TEXT_PARAM("owner", wh_view_of(lease.owner)),
		WH_TEXT_PARAM("holder", wh_view_of(lease.holder)),
		WH_INT_PARAM("lasts", wh_ms(lasts_us)),
		WH_INT_PARAM("window", window),
		WH_TEXT_PARAM("process", wh_view_of(process)),
		WH_TEXT_PARAM("destination", wh_report_now(store).destination),
	};
	code = guard(store, engine, store->stmt.lease, params,
		     sizeof(params) / sizeof(*params), &lease, err);
	if (code != WHERRY_OK || !lease.epoch)
		wh_session_end(store, lease.holder);
	if (code != WHERRY_OK)
		return wh_store_missing(store->model, store->name.ptr, code, err);
	if (lease.epoch) {
		*out = lease;
		return WHERRY_OK;
	}
	return wh_store_held(store, "", err);
}

wherry_code wh_store_stale(const wh_store *store, wherry_error *err)
{
	return wh_fail(
		err, WHERRY_STALE,
		"the lease on %s '%s' has expired or was taken over: nothing was changed",
		store->model->name, store->name.ptr);
}

wherry_code wh_store_renew(wh_store *store, wherry_lease *lease, wherry_error *err)
{
	wherry_lease fresh = *lease;
	wh_report_values said = wh_report_now(store);
	const wh_param params[] = {
		wh_store_lease_name(store),
		WH_INT_PARAM("number", lease->number),
		WH_INT_PARAM("epoch", lease->epoch),
		WH_TEXT_PARAM("holder", wh_view_of(lease->holder)),
		WH_INT_PARAM("lasts", wh_ms(lease->lasts_us)),
		WH_INT_PARAM("suspects", lease->suspects),
		WH_REPORT_PARAMS_OF(said),
	};
	wherry_code code = wh_span_check("the lease", lease->lasts_us, err);

	if (code != WHERRY_OK)
		return code;
	if (!store->stmt.renew)
		return WHERRY_OK; /* Layouts without leases have nothing to renew. */
	fresh.epoch = 0;
	code = wh_db_run(store->db, store->stmt.renew, params,
			 sizeof(params) / sizeof(*params), wh_store_take_lease, &fresh,
			 NULL, err);
	if (code != WHERRY_OK)
		return wh_store_missing(store->model, store->name.ptr, code, err);
	if (!fresh.epoch)
		return wh_store_stale(store, err);
	fresh.suspects = lease->suspects; /* Keep the caller's count, which is newer. */
	*lease = fresh;
	return WHERRY_OK;
}

wherry_code wh_store_release(wh_store *store, const wherry_lease *lease,
			     wherry_error *err)
{
	wh_report_values said = wh_report_now(store);
	const wh_param params[] = {
		wh_store_lease_name(store),
		WH_INT_PARAM("number", lease->number),
		WH_INT_PARAM("epoch", lease->epoch),
		WH_TEXT_PARAM("holder", wh_view_of(lease->holder)),
		WH_TEXT_PARAM("token", wh_view_of(lease->token)),
		WH_REPORT_PARAMS_OF(said),
	};
	const wh_stmt *stmt = *lease->token ? store->stmt.leave : store->stmt.release;
	int64_t changed = 0;
	wherry_code code;

	if (!stmt)
		return WHERRY_OK; /* Layouts without leases have nothing to release. */
	code = wh_db_run(store->db, stmt, params, sizeof(params) / sizeof(*params), NULL,
			 NULL, &changed, err);
	if (code != WHERRY_OK)
		return code;
	return changed ? WHERRY_OK : wh_store_stale(store, err);
}

static wherry_code take_yes(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)row;
	(void)err;
	*(bool *)ctx = true;
	return WHERRY_OK;
}

wherry_code wh_store_fence(wh_store *store, const wherry_lease *lease, wherry_error *err)
{
	const wh_param params[] = {
		wh_store_lease_name(store),
		WH_INT_PARAM("number", lease->number),
		WH_INT_PARAM("epoch", lease->epoch),
		WH_TEXT_PARAM("holder", wh_view_of(lease->holder)),
		WH_INT_PARAM("shared", *lease->token != 0),
	};
	const wh_stmt *stmt = store->stmt.fence;
	bool holds = false;
	wherry_code code;

	if (!stmt)
		/* In this layout each claim is checked by its own mark. */
		return WHERRY_OK;
	if (store->stmt.is_held && !wherry_db_in_transaction(store->db))
		stmt = store->stmt.is_held;
	code = wh_db_run(store->db, stmt, params, sizeof(params) / sizeof(*params),
			 take_yes, &holds, NULL, err);
	if (code != WHERRY_OK)
		return wh_store_missing(store->model, store->name.ptr, code, err);
	return holds ? WHERRY_OK : wh_store_stale(store, err);
}

wherry_code wh_store_join_as(wh_store *store, const char *owner, int64_t lasts_us,
			     wherry_lease *inout, wherry_error *err)
{
	wh_report_values said = wh_report_now(store);
	char process[WH_PROCESS_LEN];
	wherry_lease lease;
	wherry_code code;

	if (!owner || !inout || lasts_us <= 0)
		return wh_fail(err, WHERRY_INVALID,
			       "a lease needs a table, an owner and a time");
	code = wh_span_check("the lease", lasts_us, err);
	if (code != WHERRY_OK)
		return code;
	lease = *inout;
	lease.lasts_us = lasts_us;
	lease.epoch = 0;
	(void)snprintf(lease.owner, sizeof(lease.owner), "%s", owner);
	if (!*lease.token)
		wh_uuid7_now(store->db->env, lease.token);
	wh_self(store->db->env, process);
	const wh_param params[] = {
		wh_store_lease_name(store),
		WH_INT_PARAM("number", 0),
		WH_TEXT_PARAM("owner", wh_view_of(lease.owner)),
		WH_INT_PARAM("lasts", wh_ms(lasts_us)),
		WH_INT_PARAM("epoch", *inout->token ? inout->epoch : 0),
		WH_TEXT_PARAM("token", wh_view_of(lease.token)),
		WH_TEXT_PARAM("process", wh_view_of(process)),
		WH_REPORT_PARAMS_OF(said),
	};
	if (!store->stmt.claim)
		return wh_store_cannot(store, "whose rows are not claimed", err);
	if (!store->stmt.join) { /* A layout without leases: nothing is written. */
		lease.epoch = 1;
		*inout = lease;
		return WHERRY_OK;
	}
	if (inout->epoch)
		code = wh_db_run(store->db, store->stmt.join, params,
				 sizeof(params) / sizeof(*params), wh_store_take_lease,
				 &lease, NULL, err);
	else
		code = guard(store, WH_COMPETING, store->stmt.join, params,
			     sizeof(params) / sizeof(*params), &lease, err);
	if (code != WHERRY_OK)
		return wh_store_missing(store->model, store->name.ptr, code, err);
	if (lease.epoch) {
		*inout = lease;
		return WHERRY_OK;
	}
	return wh_store_held(store, ": that relay works alone; stop it first", err);
}

/* An age in microseconds; -1: NULL. */
static int64_t take_age(const wh_row *row, int column)
{
	int64_t us = wh_us(wh_row_int(row, column));

	if (!wh_row_text(row, column))
		return -1;
	return us > 0 ? us : 0;
}

static void take_text(char *out, size_t cap, const wh_row *row, int column)
{
	const char *text = wh_row_text(row, column);

	(void)snprintf(out, cap, "%s", text ? text : "");
}

static void take_report(wh_holder *out, const wh_row *row)
{
	enum { PROCESS = 4, STATE, SINCE, DESTINATION, DELIVERED, LAST, ERROR, ERROR_AT };

	take_text(out->process, sizeof(out->process), row, PROCESS);
	take_text(out->state, sizeof(out->state), row, STATE);
	out->state_us = take_age(row, SINCE);
	take_text(out->destination, sizeof(out->destination), row, DESTINATION);
	out->delivered = wh_row_int(row, DELIVERED);
	out->delivered_us = take_age(row, LAST);
	take_text(out->error, sizeof(out->error), row, ERROR);
	out->error_us = take_age(row, ERROR_AT);
}

static wherry_code take_holder(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_holder *out = ctx;
	int64_t left_us = wh_us(wh_row_int(row, 1));

	(void)err;
	(void)snprintf(out->owner, sizeof(out->owner), "%s", wh_row_text(row, 0));
	(void)snprintf(out->engine, sizeof(out->engine), "%s", wh_row_text(row, 3));
	out->left_us = left_us > 0 ? left_us : 0;
	out->ended_us = left_us < 0 ? -left_us : 0;
	out->epoch = wh_row_int(row, 2);
	out->lasts_us = wh_us(wh_row_int(row, 12));
	take_report(out, row);
	return WHERRY_OK;
}

wherry_code wh_store_holder(wh_store *store, wh_holder *out, wherry_error *err)
{
	return wh_store_holder_of(store, 0, out, err);
}

wherry_code wh_store_holder_of(wh_store *store, int32_t number, wh_holder *out,
			       wherry_error *err)
{
	const wh_param params[] = {wh_store_lease_name(store),
				   WH_INT_PARAM("number", number)};
	wh_holder holder = WH_HOLDER_NONE;
	const wh_stmt *look = store->stmt.lease_holder;
	wherry_code code = WHERRY_OK;

	if (look)
		code = wh_db_run(store->db, look, params, 2, take_holder, &holder, NULL,
				 err);
	if (code == WHERRY_OK)
		*out = holder;
	return wh_store_missing(store->model, store->name.ptr, code, err);
}

typedef struct relays {
	const wh_store *store;
	wh_holder_fn visit;
	void *ctx;
} relays;

static wherry_code take_relay(void *ctx, const wh_row *row, wherry_error *err)
{
	const relays *r = ctx;
	wh_holder holder = WH_HOLDER_NONE;
	wherry_code code = take_holder(&holder, row, err);

	if (code != WHERRY_OK)
		return code;
	wh_holder_look(r->store, &holder);
	r->visit(r->ctx, &holder);
	return code;
}

wherry_code wh_store_relays(wh_store *store, wh_holder_fn visit, void *ctx,
			    wherry_error *err)
{
	const wh_param name = wh_store_lease_name(store);
	relays r = {store, visit, ctx};
	wherry_code code = WHERRY_OK;

	if (store->stmt.relays)
		code = wh_db_run(store->db, store->stmt.relays, &name, 1, take_relay, &r,
				 NULL, err);
	return wh_store_missing(store->model, store->name.ptr, code, err);
}

bool wh_store_orphaned(const wh_store *store, const char *process)
{
	return process && *process &&
	       wh_look_at_process(store->db->env, process) == WH_PROCESS_ENDED;
}

void wh_holder_look(const wh_store *store, wh_holder *holder)
{
	if (holder->left_us > 0 && wh_store_orphaned(store, holder->process))
		holder->left_us = 0;
}

bool wh_holder_may_return(const wh_store *store, const wh_holder *holder)
{
	enum { SOON_US = 15 * WH_SECOND };
	bool stopped = strcmp(holder->state, WH_STATE_STOPPED) == 0;
	/* A relay that begins again gives its lease back. */
	bool begins_again = stopped && wh_report_is_of_server(holder->error) &&
			    holder->error_us <= holder->state_us + WH_SECOND;
	int64_t since_us = stopped ? holder->state_us : holder->ended_us;

	return holder->epoch && holder->left_us <= 0 && since_us < SOON_US &&
	       (!stopped || begins_again) && !wh_store_orphaned(store, holder->process);
}

bool wh_holder_lasts_too_long(const wh_holder *holder)
{
	/* The database rounds both to milliseconds. */
	return holder->left_us > wh_later(holder->lasts_us, 1000);
}

wherry_code wh_store_cut(wh_store *store, wherry_error *err)
{
	const wh_param name = wh_store_lease_name(store);

	if (!store->stmt.leases_cut)
		return WHERRY_OK;
	return wh_db_run(store->db, store->stmt.leases_cut, &name, 1, NULL, NULL, NULL,
			 err);
}

wherry_code wh_store_expire(wh_store *store, int32_t number, int64_t epoch,
			    wherry_error *err)
{
	const wh_param params[] = {
		wh_store_lease_name(store),
		WH_INT_PARAM("number", number),
		WH_INT_PARAM("epoch", epoch),
	};

	return wh_db_run(store->db, store->stmt.lease_orphaned, params,
			 sizeof(params) / sizeof(*params), NULL, NULL, NULL, err);
}

typedef struct control {
	bool paused;
	int64_t control_version;
} control;

static wherry_code take_control(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(control *)ctx = (control){wh_row_int(row, 0) != 0, wh_row_int(row, 1)};
	return WHERRY_OK;
}

wherry_code wh_store_control(wh_store *store, bool *out_paused, int64_t *out_version,
			     wherry_error *err)
{
	const wh_param name = wh_store_lease_name(store);
	control c = {0};
	wherry_code code = WHERRY_OK;

	if (store->stmt.control)
		code = wh_db_run(store->db, store->stmt.control, &name, 1, take_control,
				 &c, NULL, err);
	if (code == WHERRY_OK) {
		*out_paused = c.paused;
		*out_version = c.control_version;
	}
	return code;
}

wherry_code wh_store_pause(wh_store *store, bool on, wherry_error *err)
{
	const wh_param params[] = {wh_store_lease_name(store), WH_INT_PARAM("on", on)};
	wherry_code code;

	if (!store->stmt.pause)
		return wh_store_cannot(store,
				       "which has nowhere to write that it is paused: "
				       "stop its relays instead",
				       err);
	code = wh_db_run(store->db, store->stmt.pause, params, 2, NULL, NULL, NULL, err);
	return wh_store_missing(store->model, store->name.ptr, code, err);
}

wherry_code wh_store_watch(wh_store *store, wherry_error *err)
{
	wh_watch whose = {.unheard = store->layout.unheard};
	wherry_code code =
		wh_store_ask(store, store->stmt.wake_key, NULL, 0, &whose.key, err);

	return code == WHERRY_OK ? wh_db_watch(store->db, &whose, err) : code;
}
