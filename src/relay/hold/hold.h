/*
 * Where messages wait that may not be sent yet, because a message of their key failed or died:
 *
 *     noted    their ids are noted; their rows are read again when it is time
 *     claimed  their rows are given back, and the database holds the key
 *     memory   the messages themselves wait in memory, in the queue of their key
 */
#ifndef WH_RELAY_HOLD_HOLD_H
#define WH_RELAY_HOLD_HOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wherry_relay;
struct wh_entry;
struct wh_key;

typedef struct wh_hold {
	/* A held key's messages stay in memory and are sent from there. */
	bool in_memory;
	/* A message failed or died: hold its key and what follows in it, and settle it. */
	void (*failed)(struct wherry_relay *r, struct wh_entry *e, int64_t now);
	/* It was to die, but its dead letter was not taken: it is failed again.  Its key is held
	 * already. */
	void (*failed_again)(struct wherry_relay *r, struct wh_entry *e, int64_t now);
	/* A message that is not in flight waits behind its key.  NULL if messages wait in
	 * memory: they are never left alone. */
	void (*leave)(struct wherry_relay *r, struct wh_entry *e);
	/* That it failed is written (optional: such messages are not written), that it died. */
	void (*failure_written)(struct wherry_relay *r, struct wh_entry *e, int64_t now);
	void (*death_written)(struct wherry_relay *r, struct wh_entry *e, int64_t now);
	/* Messages that may be in memory beside the window: now, and at most. */
	size_t (*beside_window)(const struct wherry_relay *r);
	size_t beside_window_most;
} wh_hold;

extern const wh_hold wh_hold_noted, wh_hold_claimed, wh_hold_memory;

#endif
