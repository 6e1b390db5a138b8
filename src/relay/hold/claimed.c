/*
 * Later messages of a failed message's key are given back.  The database keeps them from
 * being claimed.
 */
#include "relay/hold/claimed.h"

#include "relay/engine/competing.h"
#include "relay/hold/hold.h"

void wh_claimed_due(wherry_relay *r, int64_t now)
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

static void failure_written(wherry_relay *r, wh_entry *e, int64_t now)
{
	wh_competing_due(r, wh_failure_due(e, now));
	if (e->key)
		wh_key_set_due(&r->keys, e->key, now);
}

static void death_written(wherry_relay *r, wh_entry *e, int64_t now)
{
	if (e->key)
		wh_key_set_due(&r->keys, e->key, now);
}

static void leave(wherry_relay *r, wh_entry *e)
{
	wh_settle_back(r, e);
}

const wh_hold wh_hold_claimed = {
	.failed = wh_settle_held,
	.failed_again = wh_settle_put,
	.leave = leave,
	.failure_written = failure_written,
	.death_written = death_written,
	.beside_window = wh_failed_probes,
	.beside_window_most = WH_FAILED_PROBES_MOST,
	.bytes_beside = wh_bytes_again,
};
