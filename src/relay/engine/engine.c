#include "relay/engine/engine.h"

#include "config/settings.h"
#include "outbox/stream.h"
#include "relay/relay.h"

static const wh_engine_driver *const engines[WH_ENGINES] = {
	[WH_COMPETING] = &wh_engine_competing,
	[WH_STREAM] = &wh_engine_stream,
	[WH_POSITIONS] = &wh_engine_positions,
	[WH_POSITIONS_SHARED] = &wh_engine_positions_shared,
};

/* Does the layout have no statement that writes to rows? */
static bool is_only_streamed(const wh_store *store)
{
	return !store->stmt.fail;
}

wh_engine wh_engine_for(const wh_store *store)
{
	if (store->stmt.read_log)
		return WH_POSITIONS;
	return is_only_streamed(store) ? WH_STREAM : WH_COMPETING;
}

/* Change to an engine: make its state, then free the state of the old engine. */
static wherry_code change(wherry_relay *r, wh_engine to, wherry_error *err)
{
	const wh_engine_driver *old = r->engine;
	void *old_state = r->state, *made;
	wherry_code code;

	if (old && old->id == to)
		return WHERRY_OK;
	r->engine = engines[to];
	r->state = NULL;
	code = r->engine->make(r, err);
	if (code != WHERRY_OK) {
		if (r->state)
			r->engine->free(r);
		r->engine = old;
		r->state = old_state;
		return code;
	}
	made = r->state;
	r->state = old_state;
	if (old)
		old->free(r);
	r->state = made;
	return WHERRY_OK;
}

/* relay.source=wal says how one relay of a log finds new messages. */
static wherry_code check_source(const wherry_relay *r, wh_engine to, wherry_error *err)
{
	return wh_config_choice(r->config, WH_RELAY_SOURCE) == 0
		       ? WHERRY_OK
		       : wh_wal_meets(r->store, to == WH_POSITIONS_SHARED, err);
}

wherry_code wh_engine_choose(wherry_relay *r, wherry_error *err)
{
	wh_engine to = wh_engine_for(r->store);
	bool ready = false;
	wherry_code code = WHERRY_OK;

	if (r->engine && r->lease.epoch)
		return WHERRY_OK; /* The engine of a lease does not change. */
	if (to == WH_POSITIONS && r->brief && r->brief->known.found)
		ready = r->brief->known.partitioned; /* Taking the lease asks, too. */
	else if (to == WH_POSITIONS)
		code = wh_store_partitioned(r->store, &ready, err);
	if (code == WHERRY_OK && ready)
		to = WH_POSITIONS_SHARED;
	if (code == WHERRY_OK)
		code = check_source(r, to, err);
	return code == WHERRY_OK ? change(r, to, err) : code;
}
