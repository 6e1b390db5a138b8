/*
 * Takes rows into memory, for all engines.
 */
#include <string.h>

#include "base/json.h"
#include "relay/engine/engine.h"
#include "relay/relay.h"
#include "store/row_problem.h"

static bool is_same(const wh_entry *e, const wh_open_row *row)
{
	const char *name = e->msg.message_id ? e->msg.message_id : "";
	size_t len = strlen(name);

	if (!row->message_id.ptr) /* The row was read without its texts. */
		return true;
	/* An entry keeps a message id only up to a NUL inside. */
	return len == row->message_id.len ||
			       (len < row->message_id.len && !row->message_id.ptr[len])
		       ? memcmp(name, row->message_id.ptr, len) == 0
		       : false;
}

void wh_intake_drop(wherry_relay *r, wh_entry *e)
{
	wh_key *key = e->key;
	bool held = e->failed_probe;

	wh_entry_move(r, e, WH_UNLISTED);
	if (!key) {
		wh_entry_gone(r, e);
		return;
	}
	key->owned++; /* Keep the key until the end. */
	wh_entry_gone(r, e);
	key->owned--;
	wh_key_advance(r, key);
	if (held && key->fsm.state == WH_KEY_HELD) /* Its key waited for this message. */
		wh_key_set_due(&r->keys, key, wh_monotonic(&r->env));
	wh_keys_drop(&r->keys, key);
}

bool wh_intake_knows(wherry_relay *r, const wh_open_row *row, bool *out_later)
{
	wh_entry *e = wh_window_find(&r->window, row->id);

	*out_later = false;
	if (!e || is_same(e, row))
		return e != NULL;
	if (e->stage == WH_READY || e->stage == WH_WAITING) {
		wh_intake_drop(r, e);
		return false;
	}
	e->replaced = *out_later = true;
	return true;
}

/* The row's place in the order of delivery. */
static int64_t place_of(wherry_relay *r, int64_t id)
{
	return r->engine->place ? r->engine->place(r, id) : id;
}

/* Was the row tried alone, and did its relay end before it wrote the result? */
static bool was_tried_alone(const wh_open_row *row)
{
	return row->state == WHERRY_PROCESSING;
}

wherry_code wh_row_key(wherry_relay *r, const wh_open_row *row, wherry_error *err)
{
	wh_buf_reset(&r->key_text);
	if (row->key.len > WH_TEXT_MOST || row->aggregate_type.len > WH_TEXT_MOST ||
	    row->aggregate_id.len > WH_TEXT_MOST)
		return WHERRY_OK;
	wh_key_write(&r->key_text, row, r->store->layout.by_aggregate);
	return wh_buf_check(&r->key_text, err);
}

/* Why the row cannot be handled and must die; NULL: it can be handled.  Valid until the next call. */
static const char *problem_of(wherry_relay *r, const wh_open_row *row)
{
	wh_buf *why = &r->row_check_text;

	wh_buf_reset(why);
	return wh_row_problem(r->store, row, r->engine->writes_rows, why)
		       ? wh_buf_str(why)
		       : NULL;
}

wherry_code wh_intake_add(wherry_relay *r, const wh_open_row *row, wherry_error *err)
{
	const char *poison = problem_of(r, row);
	wh_view body = wh_open_body(row);
	wh_open_row trimmed = *row;
	wh_key *key = NULL;
	wh_entry *e;

	if (poison)
		wh_row_trim(r->store, &trimmed);
	else if (r->store->layout.json && !wh_json_valid(body.ptr, body.len))
		poison = "its payload is not JSON";

	if (r->set.ordered && r->key_text.len) {
		key = wh_keys_get(&r->keys, (wh_view){r->key_text.ptr, r->key_text.len});
		if (!key)
			return wh_oom(err);
	}
	e = wh_window_add(&r->window, &trimmed);
	if (e && poison && !r->engine->writes_rows &&
	    !wh_window_keep(&r->window, e, row)) {
		wh_window_drop(&r->window, e);
		e = NULL;
	}
	if (!e) {
		if (key)
			wh_keys_drop(&r->keys, key);
		return wh_oom(err);
	}
	e->order = place_of(r, row->id);
	e->version = r->version;
	if (r->engine->admitted)
		r->engine->admitted(r, e);
	e->key = key;
	if (key)
		key->owned++;
	if (!poison && was_tried_alone(row) && row->attempts >= r->set.attempts)
		poison = "its relay ended each time it was tried, also alone";
	if (poison)
		e->poison = wh_window_copy(&r->window, e, poison);
	if (poison && !e->poison)
		e->poison =
			"the row cannot be handled, and there was no memory to say why";
	wh_entry_admit(r, e);
	return WHERRY_OK;
}

/* ---- room ---- */

size_t wh_relay_entries_most(const wherry_relay *r)
{
	return (size_t)r->set.window + r->engine->hold->beside_window_most;
}

size_t wh_bytes_again(const wherry_relay *r)
{
	return r->window.bytes_again;
}

static bool has_places(const wherry_relay *r)
{
	return r->window.n < (size_t)r->set.window + r->engine->hold->beside_window(r);
}

bool wh_intake_has_room(const wherry_relay *r)
{
	return has_places(r) &&
	       r->window.bytes <
		       (size_t)r->set.window_bytes + r->engine->hold->bytes_beside(r);
}

bool wh_intake_has_room_again(const wherry_relay *r)
{
	return has_places(r) && r->window.bytes_again < (size_t)r->set.window_bytes;
}

bool wh_intake_keys_left(const wherry_relay *r)
{
	return r->keys.n_held < (size_t)r->set.held_keys +
					r->destination.n_failed_probes +
					r->keys.n_refused;
}

int64_t wh_intake_room(const wherry_relay *r)
{
	return r->set.window + (int64_t)r->engine->hold->beside_window(r) -
	       (int64_t)r->window.n;
}
