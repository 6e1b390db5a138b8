/*
 * Writes each message alone when the database refuses to write a batch, so that one row
 * does not hold up others.
 */
#include "relay/settle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "relay/engine/engine.h"

enum { REFUSED_US = 30000000, LOCKED_US = 1000000, LOOKED_FOR_US = 30000000 };

/* Replace characters in the error that a database may not be able to store. */
static void plain_reason(wherry_relay *r, wh_entry *e)
{
	size_t len = e->error ? strlen(e->error) : 0;
	char *text = len ? wh_window_alloc(&r->window, e, len + 1) : NULL;

	if (!text)
		return;
	for (size_t i = 0; i <= len; i++)
		text[i] = (unsigned char)e->error[i] < 0x80 ? e->error[i] : '?';
	e->error = text;
}

/* Write the result of the first settled message.  out->n: 0 if its claim was lost. */
static wherry_code write_first_alone(wherry_relay *r, wh_settlement *s, wh_settled *out,
				     wherry_error *err)
{
	wh_settled none = {0};

	*s = wh_settle_empty(r);
	*out = none;
	wh_settle_gather(r, s, 1);
	out->n_done = (int64_t)s->n_done;
	if (!(s->n_done || s->n_failed || s->n_back))
		return WHERRY_OK;
	return wh_store_settle(r->store, &r->lease, s, out, err);
}

/* The database refused to write the result of one message: that message waits,
 * others are written. */
static void refuse(wherry_relay *r, wh_entry *e, int64_t now, const char *why)
{
	wh_entry_move(r, e, WH_UNWRITABLE);
	r->unwritable_at_us = wh_later(now, REFUSED_US);
	wh_relay_say(r, WHERRY_LOG_ERROR, "write-refused", wh_log_int("id", e->msg.id),
		     wh_log_text("why", why),
		     wh_log_note("the database refuses to write what became of this "
				 "message; it is tried again, others go on"));
}

void wh_settle_retry_refused(wherry_relay *r, int64_t now)
{
	if (!r->window.unwritable.n || now < r->unwritable_at_us)
		return;
	while (r->window.unwritable.head) {
		wh_settle_unpass(r->window.unwritable.head);
		wh_entry_move(r, r->window.unwritable.head, WH_SETTLED);
	}
}

/* ---- rows that others have locked ---- */

void wh_settle_locked_out(wherry_relay *r, int64_t now)
{
	r->locks_until_us = wh_later(now, LOOKED_FOR_US);
}

static wherry_code take_locked(void *ctx, const wh_row *row, wherry_error *err)
{
	wherry_relay *r = ctx;
	wh_entry *e = wh_window_find(&r->window, wh_row_int(row, 0));

	(void)err;
	if (e)
		e->locked = true;
	return WHERRY_OK;
}

void wh_settle_unpass(wh_entry *e)
{
	if (e->passed && e->key)
		e->key->passed--;
	e->passed = false;
}

/* Its result waits: its row cannot be written to, or that of an earlier message of its key. */
static void pass_over(wherry_relay *r, wh_entry *e, int64_t at)
{
	if (e->key)
		e->key->passed++;
	e->passed = true;
	wh_entry_move(r, e, WH_UNWRITABLE);
	r->unwritable_at_us = at;
}

/* Log a locked row once, and let the status name it. */
static void tell(wherry_relay *r, const wh_entry *e, int64_t now)
{
	char why[80];

	wh_settle_locked_out(r, now);
	(void)snprintf(why, sizeof(why),
		       "another transaction has locked the row of message %" PRId64,
		       e->msg.id);
	wh_report_error(r, now, why);
	if (r->told_locked == e->msg.id)
		return;
	r->told_locked = e->msg.id;
	wh_relay_say(
		r, WHERRY_LOG_WARN, "row-locked", wh_log_int("id", e->msg.id),
		wh_log_note("another transaction has locked this row; what became of "
			    "its message is written when that transaction ends, and "
			    "others go on"));
}

bool wh_settle_asks_for_locks(const wherry_relay *r, int64_t now)
{
	return now < r->locks_until_us && r->store->stmt.locked;
}

/* Set wh_entry.locked of messages in memory. */
static wherry_code find_locked(wherry_relay *r, const int64_t *ids, size_t n,
			       wherry_error *err)
{
	wh_param param;
	wherry_code code = wh_store_ids(r->store, ids, n, &param, err);

	for (size_t i = 0; i < n; i++) {
		wh_entry *e = wh_window_find(&r->window, ids[i]);

		if (e)
			e->locked = false;
	}
	return code == WHERRY_OK ? wh_db_run(r->db, r->store->stmt.locked, &param, 1,
					     take_locked, r, NULL, err)
				 : code;
}

wherry_code wh_settle_leave_locked(wherry_relay *r, int64_t *ids, size_t *inout_n,
				   int64_t now, wherry_error *err)
{
	const wh_entry *first = NULL;
	size_t n = *inout_n;
	wherry_code code;

	if (!n || !wh_settle_asks_for_locks(r, now))
		return WHERRY_OK;
	code = find_locked(r, ids, n, err);
	if (code != WHERRY_OK)
		return code;
	*inout_n = 0;
	for (size_t i = 0; i < n; i++) {
		const wh_entry *e = wh_window_find(&r->window, ids[i]);

		if (!e || !e->locked)
			ids[(*inout_n)++] = ids[i];
		else if (!first)
			first = e;
	}
	if (first)
		tell(r, first, now);
	return WHERRY_OK;
}

wherry_code wh_settle_pass_locked(wherry_relay *r, wh_entry *tried, int64_t now,
				  wherry_error *err)
{
	const wh_entry *first = NULL;
	size_t n = 0;
	wherry_code code;

	if (!wh_settle_asks_for_locks(r, now))
		return WHERRY_OK;
	wh_settle_sort(r);
	for (const wh_entry *e = r->window.settled.head; e; e = e->next)
		r->scratch.done_ids[n++] = e->msg.id;
	if (tried)
		r->scratch.done_ids[n++] = tried->msg.id;
	if (!n)
		return WHERRY_OK;
	code = find_locked(r, r->scratch.done_ids, n, err);
	for (wh_entry *e = r->window.settled.head, *next; code == WHERRY_OK && e;
	     e = next) {
		next = e->next;
		if (e->locked && !first)
			first = e;
		if (!e->locked && !(e->key && e->key->passed))
			continue;
		pass_over(r, e, wh_later(now, LOCKED_US));
		wh_settle_locked_out(r, now);
	}
	if (code == WHERRY_OK && tried && tried->locked) {
		tell(r, tried, now);
		return wh_fail(
			err, WHERRY_BUSY,
			"another transaction has locked the row of message %" PRId64,
			tried->msg.id);
	}
	if (first)
		tell(r, first, now);
	return code;
}

/* ---- rows that no statement sees yet ---- */

wherry_code wh_settle_pass_unseen(wherry_relay *r, const wh_entry *tried, int64_t now,
				  bool *out_tried, wherry_error *err)
{
	int64_t *ids = r->scratch.done_ids, at = wh_later(now, WH_UNSEEN_US);
	size_t n = 0;
	wherry_code code;

	*out_tried = false;
	if (!r->engine->unseen || !(tried || r->window.n_undelivered))
		return WHERRY_OK;
	for (const wh_entry *e = r->window.settled.head; e; e = e->next)
		if (e->fate != WH_FATE_DONE)
			ids[n++] = e->msg.id;
	if (tried)
		ids[n++] = tried->msg.id;
	code = r->engine->unseen(r, ids, &n, err);
	if (code != WHERRY_OK || !n)
		return code;
	for (size_t i = 0; i < n; i++) {
		wh_entry *e = wh_window_find(&r->window, ids[i]);

		if (e && e == tried)
			*out_tried = true;
		else if (e)
			pass_over(r, e, at);
	}
	for (wh_entry *e = r->window.settled.head, *next; e; e = next) {
		next = e->next;
		/* That one was delivered is written in any case: at a clean end it would come again. */
		if (e->fate != WH_FATE_DONE && e->key && e->key->passed)
			pass_over(r, e, at);
	}
	return WHERRY_OK;
}

wherry_code wh_settle_one_by_one(wherry_relay *r, int64_t now, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	wh_settlement s;
	wh_settled settled;

	for (size_t n = r->window.settled.n; code == WHERRY_OK && n; n--) {
		wh_entry *e;

		code = write_first_alone(r, &s, &settled, &why);
		e = r->window.settled.head;
		if (wh_db_about_row(r->db, code, &why) && e->fate != WH_FATE_DONE) {
			plain_reason(r, e);
			code = write_first_alone(r, &s, &settled, &why);
		}
		if (code == WHERRY_OK) {
			wh_settle_lost(r, &s, settled.n);
			wh_settle_after(r, &s, &settled, 1, now);
		} else if (wh_db_about_row(r->db, code, &why)) {
			refuse(r, e, now, why.message);
			code = WHERRY_OK;
		}
	}
	r->flush_at_us = wh_settle_next(r, now);
	if (code == WHERRY_STALE)
		wh_lease_lost(r, now, "an acknowledgement was refused");
	if (code != WHERRY_OK && err)
		*err = why;
	return code;
}

const char *wh_settle_cannot_try(wherry_relay *r, wh_entry *e, const char *why)
{
	const char *text = wh_window_copy(&r->window, e, why);

	return text ? text : "the database refuses to write its attempt";
}
