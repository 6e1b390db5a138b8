/*
 * Where messages wait that may not be submitted, because an earlier message of their key
 * failed or died:
 *
 *     noted    their ids are noted, and their rows are read again when the key is due
 *     claimed  their rows are given back, and the database holds the key
 *     memory   the messages stay in memory, in the queue of their key
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
	/* Messages of a held key stay in memory and are submitted from there. */
	bool in_memory;
	/* A message failed or died: hold its key and the key's later messages, and settle
	 * the message. */
	void (*failed)(struct wherry_relay *r, struct wh_entry *e, int64_t now);
	/* A dying message whose dead letter was not taken has failed instead.  Its key is
	 * held already. */
	void (*failed_again)(struct wherry_relay *r, struct wh_entry *e, int64_t now);
	/* Remove a message that is not in flight from memory, because its key is held.
	 * NULL if messages wait in memory. */
	void (*leave)(struct wherry_relay *r, struct wh_entry *e);
	/* The failure, or the death, of a message is written.  failure_written is
	 * optional: NULL if failures are not written. */
	void (*failure_written)(struct wherry_relay *r, struct wh_entry *e, int64_t now);
	void (*death_written)(struct wherry_relay *r, struct wh_entry *e, int64_t now);
	/* How many messages may be in memory beyond the window: now, and at most. */
	size_t (*beside_window)(const struct wherry_relay *r);
	size_t beside_window_most;
	/* Bytes of failed messages, which keep no new ones out. */
	size_t (*bytes_beside)(const struct wherry_relay *r);
} wh_hold;

extern const wh_hold wh_hold_noted, wh_hold_claimed, wh_hold_memory;

#endif
