#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

#include "outbox/outbox.h"
#include "publish/parts.h"
#include "store/relay_report.h"
#include "store/sessions.h"

wherry_code wh_is_silent(const wh_session *s, const wherry_outbox_status *st,
			 bool *out_silent, wherry_error *err)
{
	wh_sessions sessions = {0};
	wherry_code code = wh_sessions_look(&s->outbox->store, -1, &sessions, err);

	*out_silent = wh_sessions_lack(&sessions, st->owner, st->epoch);
	return code;
}

bool wh_is_refused(const wherry_outbox_status *st)
{
	return st->lease_left_us > 0 && strcmp(st->state, WH_STATE_RETRYING) == 0;
}

static void put_refusal(wh_buf *why, const wherry_outbox_status *st)
{
	wh_report_put_refusal(why, st->destination, st->error, st->state_us);
	wh_buf_printf(why, "; %s tries it again and again", st->owner);
}

static void put_relay(wh_buf *why, const wh_why *s)
{
	const wherry_outbox_status *st = &s->status;

	if (st->paused)
		wh_buf_printf(why, "the outbox is paused: `wherry resume%s`",
			      s->session->target);
	else if (*s->session->outbox->store.limits)
		wh_buf_puts(why, "the next that claims rows takes it, a relay or the "
				 "program whose table it is");
	else if (st->lease_left_us <= 0)
		wh_buf_puts(why, "no relay is running: " WH_HOW_TO_RELAY);
	else if (s->silent)
		wh_buf_printf(
			why,
			"relay %s has no session of the database: it connects again, "
			"or another relay takes over in seconds; if none stands by, " WH_HOW_TO_RELAY,
			st->owner);
	else if (wh_is_refused(st))
		put_refusal(why, st);
	else
		wh_buf_printf(why, "%s relays this outbox and will come to it",
			      st->owner);
}

/* Append that a message of the key is dead.  Only the relay's settings say whether the
 * key is parked. */
static void put_parked(wh_buf *why, const wh_why *s, const wherry_row *row)
{
	if (!row->parked_by)
		return;
	wh_buf_printf(why,
		      "%smessage %" PRId64
		      " of its key is dead: with --on-dead park nothing of the key is "
		      "delivered until `wherry retry%s %" PRId64 "`",
		      why->len ? "; " : "", row->parked_by, s->session->target,
		      row->parked_by);
}

static void put_retry(wh_buf *why, const wh_why *s, const wherry_row *row)
{
	int64_t left = wh_since(row->next_retry_at_us, s->now_us);
	char span[WH_SPAN_LEN];

	if (row->message->attempts > 0)
		wh_buf_printf(why,
			      "attempt %" PRId32 " failed: ", row->message->attempts);
	else
		wh_buf_puts(why, "the destination refused it, which counts as no "
				 "attempt: ");
	wh_buf_printf(why, "%s; ", row->last_error ? row->last_error : "no reason given");
	if (row->held_by)
		wh_buf_printf(why, "it waits behind message %" PRId64 " of its key",
			      row->held_by);
	else if (left > 0)
		wh_buf_printf(why, "the next is due in %s", wh_span_text(left, span));
	else
		put_relay(why, s);
	if (wh_is_refused(&s->status) && !s->silent && (row->held_by || left > 0)) {
		wh_buf_puts(why, "; ");
		put_refusal(why, &s->status);
	}
	put_parked(why, s, row);
}

/* Append why a message is pending: a message of its key holds it, or it waits for a
 * relay. */
static void put_pending(wh_buf *why, const wh_why *s, const wherry_row *row)
{
	bool relayed = *s->session->outbox->store.limits ||
		       (s->status.lease_left_us > 0 && !s->status.paused);

	if (relayed && row->held_by)
		wh_buf_printf(why, "waits behind message %" PRId64 " of its key",
			      row->held_by);
	else if (!relayed || !row->parked_by)
		put_relay(why, s);
	put_parked(why, s, row);
}

/* Append who has claimed a message.  Claims of competing relays have an expiry; a relay
 * that tries a suspect alone writes none. */
static void put_claim(wh_buf *why, const wh_why *s, const wherry_row *row)
{
	int64_t left_us = wh_since(row->next_retry_at_us, s->now_us);
	char span[WH_SPAN_LEN], left[WH_SPAN_LEN];

	(void)wh_span_text(wh_since(s->now_us, row->claimed_at_us), span);
	if (*s->session->outbox->store.limits)
		wh_buf_printf(why,
			      "it was claimed %s ago; if its claim expires, the next "
			      "that claims rows takes it up",
			      span);
	else if (row->next_retry_at_us && left_us <= 0)
		wh_buf_printf(
			why,
			"it was claimed %s ago, by a relay that is gone: its claim expired "
			"%s ago, and the next relay takes it up; " WH_HOW_TO_RELAY,
			span, wh_span_text(-left_us, left));
	else if (row->next_retry_at_us)
		wh_buf_printf(why,
			      "a relay claimed it %s ago; if that one is gone, the "
			      "claim expires in %s, and the next takes it up",
			      span, wh_span_text(left_us, left));
	else
		wh_buf_printf(
			why,
			"a relay has tried it alone for %s; if that one is gone, the "
			"next relay takes it up",
			span);
}

void wh_put_why(wh_buf *why, const wh_why *s, const wherry_row *row)
{
	const wherry_message *m = row->message;
	char span[WH_SPAN_LEN], at[WH_TIME_LEN];

	switch (row->state) {
	case WHERRY_PENDING:
		put_pending(why, s, row);
		break;
	case WHERRY_PROCESSING:
		put_claim(why, s, row);
		break;
	case WHERRY_DONE:
		if (!row->processed_at_us) {
			wh_buf_puts(why, "delivered");
			break;
		}
		wh_time_print(row->processed_at_us, at);
		wh_buf_printf(
			why, "delivered %s ago, at %s",
			wh_span_text(wh_since(s->now_us, row->processed_at_us), span),
			at);
		break;
	case WHERRY_FAILED:
		put_retry(why, s, row);
		break;
	case WHERRY_DEAD:
		wh_buf_printf(why,
			      "given up after %" PRId32
			      " attempt%s: %s; remove the cause, then "
			      "`wherry retry%s %" PRId64 "`",
			      m->attempts, wh_plural(m->attempts),
			      row->last_error ? row->last_error : "no reason given",
			      s->session->target, m->id);
		break;
	}
}
