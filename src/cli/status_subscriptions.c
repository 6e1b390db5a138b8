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

typedef struct names {
	int n;
	char names[MOST][64], topics[MOST][1024];
} names;

static wherry_code note(void *ctx, const wherry_subscription_state *s)
{
	names *l = ctx;

	if (l->n == MOST)
		return WHERRY_OK;
	(void)snprintf(l->names[l->n], sizeof(l->names[0]), "%s", s->name);
	(void)snprintf(l->topics[l->n++], sizeof(l->topics[0]), "%s", s->topics);
	return WHERRY_OK;
}

static wherry_code look_at(const wh_session *s, const wh_subscription_at *at,
			   wh_subscription_fn visit, void *ctx, wherry_error *err)
{
	wh_subscription_at known = *at;
	wherry_outbox *outbox = NULL;
	wherry_code code =
		wherry_subscription_open(s->db, s->table, at->name, &outbox, err);

	if (code == WHERRY_OK)
		code = wherry_outbox_status(outbox, &known.status, sizeof(known.status),
					    err);
	if (code == WHERRY_OK)
		visit(ctx, &known);
	wherry_outbox_close(outbox);
	return code == WHERRY_NOTFOUND ? WHERRY_OK : code; /* It was dropped meanwhile. */
}

wherry_code wh_look_at_subscriptions(const wh_session *s, wh_subscription_fn visit,
				     void *ctx, wherry_error *err)
{
	names *l = calloc(1, sizeof(*l));
	wherry_code code;

	if (!l)
		return wh_oom(err);
	code = wherry_subscription_list(s->outbox, note, l, err);
	for (int i = 0; code == WHERRY_OK && i < l->n; i++) {
		const wh_subscription_at at = {.name = l->names[i],
					       .topics = l->topics[i],
					       .nth = i,
					       .of = l->n};

		code = look_at(s, &at, visit, ctx, err);
	}
	free(l);
	return code;
}

/* ---- lines and JSON ---- */

static void put_json(void *ctx, const wh_subscription_at *at)
{
	const wherry_status *st = &at->status;
	wh_buf *out = ctx;

	wh_buf_puts(out, at->nth ? ",{\"name\":" : "{\"name\":");
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
	wh_buf_putc(out, '}');
}

static void put_text(void *ctx, const wh_subscription_at *at)
{
	const wherry_status *st = &at->status;
	wh_buf *out = ctx;
	char span[WH_SPAN_LEN];

	/* The line of the only subscription would say the same as those of the outbox. */
	if (at->of == 1 && strcmp(at->name, WH_SUBSCRIPTION_OF_RELAYS) == 0)
		return;
	wh_buf_printf(out, "subscription  %s%s%s: %" PRId64 " pending", at->name,
		      *at->topics ? ", topics " : "", at->topics,
		      st->count[WHERRY_PENDING] + st->count[WHERRY_PROCESSING]);
	if (st->ready)
		wh_buf_printf(out, " (the oldest for %s)",
			      wh_span_text(st->oldest_ready_us, span));
	wh_buf_printf(out, ", %" PRId64 " failed, %" PRId64 " dead%s; %s%s\n",
		      st->count[WHERRY_FAILED], st->count[WHERRY_DEAD],
		      st->paused ? ", paused" : "",
		      st->lease_left_us > 0 ? "relay " : "no relay",
		      st->lease_left_us > 0 ? st->owner : "");
}

wherry_code wh_put_subscriptions(wh_buf *out, const wh_session *s, bool json,
				 wherry_error *err)
{
	return wh_look_at_subscriptions(s, json ? put_json : put_text, out, err);
}
