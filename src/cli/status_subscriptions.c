/*
 * The subscriptions of a log, for `wherry status`.
 */
#include "cli/commands.h"

#include <wherry/subscription.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "outbox/outbox.h"

enum { MOST = 100 }; /* Their messages are counted. */

static wherry_code note(void *ctx, const wherry_subscription_state *s)
{
	wh_subscriptions *l = ctx;
	wh_subscription_at *at = &l->at[l->n];

	if (l->n == MOST)
		return WHERRY_OK;
	(void)snprintf(at->name, sizeof(at->name), "%s", s->name);
	(void)snprintf(at->topics, sizeof(at->topics), "%s", s->topics);
	at->moved_us = s->moved_us;
	at->kept_us = s->kept_us;
	l->n++;
	return WHERRY_OK;
}

/* Counting takes long, so the subscription of the session is not read again.  NOTFOUND: it was dropped meanwhile. */
static wherry_code look_at(const wh_session *s, const wherry_outbox_status *of_session,
			   wh_subscription_at *at, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_code code;

	if (strcmp(at->name, s->store->topic) == 0) {
		at->status = *of_session;
		return WHERRY_OK;
	}
	code = wherry_subscription_open(s->db, s->table, at->name, &outbox, err);
	if (code == WHERRY_OK)
		code = wherry_outbox_get_status(outbox, &at->status, sizeof(at->status),
						err);
	wherry_outbox_close(outbox);
	return code;
}

wherry_code wh_read_subscriptions(const wh_session *s,
				  const wherry_outbox_status *of_session,
				  wh_subscriptions *out, wherry_error *err)
{
	wherry_code code;
	int n = 0;

	*out = (wh_subscriptions){.at = calloc(MOST, sizeof(*out->at))};
	if (!out->at)
		return wh_oom(err);
	code = wherry_subscription_list(s->outbox, note, out, err);
	for (int i = 0; code == WHERRY_OK && i < out->n; i++) {
		code = look_at(s, of_session, &out->at[i], err);
		if (code == WHERRY_OK && n++ != i)
			out->at[n - 1] = out->at[i];
		code = code == WHERRY_NOTFOUND ? WHERRY_OK : code;
	}
	out->n = n;
	return code;
}

void wh_free_subscriptions(wh_subscriptions *s)
{
	free(s->at);
	*s = (wh_subscriptions){0};
}

const char *wh_or_more(const wherry_outbox_status *st, wherry_state state)
{
	return st->at_least >> state & 1 ? " or more" : "";
}

void wh_put_at_least(wh_buf *out, const wherry_outbox_status *st)
{
	const char *comma = "";

	wh_buf_puts(out, ",\"at_least\":[");
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		if (st->at_least >> i & 1) {
			wh_buf_printf(out, "%s\"%s\"", comma,
				      wherry_state_name((wherry_state)i));
			comma = ",";
		}
	wh_buf_putc(out, ']');
}

static void put_json(wh_buf *out, const wh_subscription_at *at)
{
	const wherry_outbox_status *st = &at->status;

	wh_buf_puts(out, "{\"name\":");
	wh_buf_json(out, at->name, strlen(at->name));
	wh_put_text_field(out, "topics", *at->topics ? at->topics : NULL);
	wh_buf_printf(out,
		      ",\"pending\":%" PRId64 ",\"failed\":%" PRId64 ",\"dead\":%" PRId64
		      ",\"oldest_ready_us\":%" PRId64 ",\"paused\":%s,\"relay\":",
		      st->count[WHERRY_PENDING] + st->count[WHERRY_PROCESSING],
		      st->count[WHERRY_FAILED], st->count[WHERRY_DEAD],
		      st->oldest_ready_us, st->paused ? "true" : "false");
	if (st->lease_left_us > 0)
		wh_buf_json(out, st->owner, strlen(st->owner));
	else
		wh_buf_puts(out, "null");
	wh_put_at_least(out, st);
	wh_buf_putc(out, '}');
}

static void put_text(wh_buf *out, const wh_subscription_at *at)
{
	const wherry_outbox_status *st = &at->status;
	char span[WH_SPAN_LEN];

	wh_buf_printf(out, "subscription  %s%s%s: %" PRId64 "%s pending", at->name,
		      *at->topics ? ", topics " : "", at->topics,
		      st->count[WHERRY_PENDING] + st->count[WHERRY_PROCESSING],
		      wh_or_more(st, WHERRY_PENDING));
	if (st->ready)
		wh_buf_printf(out, " (the oldest for %s)",
			      wh_span_text(st->oldest_ready_us, span));
	wh_buf_printf(out, ", %" PRId64 " failed, %" PRId64 " dead%s; %s%s\n",
		      st->count[WHERRY_FAILED], st->count[WHERRY_DEAD],
		      st->paused ? ", paused" : "",
		      st->lease_left_us > 0 ? "relay " : "no relay",
		      st->lease_left_us > 0 ? st->owner : "");
}

void wh_put_subscriptions(wh_buf *out, const wh_subscriptions *s, bool json)
{
	/* The line of the only subscription would say the same as those of the outbox. */
	bool alone = s->n == 1 && strcmp(s->at->name, WH_SUBSCRIPTION_OF_RELAYS) == 0;

	for (int i = 0; i < s->n && (json || !alone); i++) {
		if (json && i)
			wh_buf_putc(out, ',');
		(json ? put_json : put_text)(out, &s->at[i]);
	}
}
