/*
 * Commands of operators while the relay works: pause and resume the outbox, retry and
 * discard messages.  Each command raises the outbox's control version.
 */
#include "relay/engine/engine.h"
#include "relay/relay.h"

void wh_operator_note(wherry_relay *r, int64_t version)
{
	if (version != r->control_version) {
		wh_relay_say(r, WHERRY_LOG_INFO, "operator-change",
			     wh_log_int("control_version", version));
		/* An operator who has repaired the destination need not wait for the
		 * next probe: `wherry resume`. */
		r->destination.probe_at_us = 0;
		r->destination.throttled_until_us = 0;
	}
	r->control_version = version;
}

void wh_operator_pause(wherry_relay *r, bool paused)
{
	if (paused != r->stats.paused)
		wh_relay_say(r, WHERRY_LOG_INFO, paused ? "paused" : "resumed");
	r->stats.paused = paused;
}

/* A commit may be a command of an operator: ask whether the outbox is paused, and for its
 * control version. */
wherry_code wh_operator_look(wherry_relay *r, int64_t now, wherry_error *err)
{
	bool paused = r->stats.paused;
	int64_t version = r->control_version, before = version;
	wherry_code code = r->engine->control
				   ? r->engine->control(r, &paused, &version, err)
				   : wh_store_control(r->store, &paused, &version, err);

	if (code != WHERRY_OK)
		return code;
	r->lease.paused = paused;
	wh_operator_pause(r, paused);
	wh_operator_note(r, version);
	if (version != before && r->engine->changed)
		r->engine->changed(r, now);
	return WHERRY_OK;
}
