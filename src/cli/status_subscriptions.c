/*
 * The subscriptions of a log, for `wherry status`.
 */
#include "cli/commands.h"

#include <wherry/subscription.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 100 }; /* Their messages are counted. */

typedef struct listing {
	const wh_session *session;
	wh_buf *out;
	bool json;
	int n;
	char names[MOST][64], topics[MOST][1024];
} listing;

static wherry_code note(void *ctx, const wherry_subscription_state *s)
{
	listing *l = ctx;

	if (l->n == MOST)
		return WHERRY_OK;
	(void)snprintf(l->names[l->n], sizeof(l->names[0]), "%s", s->name);
	(void)snprintf(l->topics[l->n++], sizeof(l->topics[0]), "%s", s->topics);
	return WHERRY_OK;
}

static void put_json(listing *l, int i, const wherry_status *st)
{
	wh_buf_puts(l->out, i ? ",{\"name\":" : "{\"name\":");
	wh_buf_json(l->out, l->names[i], strlen(l->names[i]));
	wh_put_text_field(l->out, "topics", *l->topics[i] ? l->topics[i] : NULL);
	wh_buf_printf(l->out,
		      ",\"pending\":%" PRId64 ",\"failed\":%" PRId64 ",\"dead\":%" PRId64
		      ",\"oldest_ready_us\":%" PRId64 ",\"paused\":%s,\"relay\":",
		      st->count[WHERRY_PENDING] + st->count[WHERRY_PROCESSING],
		      st->count[WHERRY_FAILED], st->count[WHERRY_DEAD],
		      st->oldest_ready_us, st->paused ? "true" : "false");
	if (st->lease_left_us > 0)
		wh_buf_json(l->out, st->owner, strlen(st->owner));
	else
		wh_buf_puts(l->out, "null");
	wh_buf_putc(l->out, '}');
}

static void put_text(listing *l, int i, const wherry_status *st)
{
	char span[WH_SPAN_LEN];

	wh_buf_printf(l->out, "subscription  %s%s%s: %" PRId64 " pending", l->names[i],
		      *l->topics[i] ? ", topics " : "", l->topics[i],
		      st->count[WHERRY_PENDING] + st->count[WHERRY_PROCESSING]);
	if (st->ready)
		wh_buf_printf(l->out, " (the oldest for %s)",
			      wh_span_text(st->oldest_ready_us, span));
	wh_buf_printf(l->out, ", %" PRId64 " failed, %" PRId64 " dead%s; %s%s\n",
		      st->count[WHERRY_FAILED], st->count[WHERRY_DEAD],
		      st->paused ? ", paused" : "",
		      st->lease_left_us > 0 ? "relay " : "no relay",
		      st->lease_left_us > 0 ? st->owner : "");
}

static wherry_code put(listing *l, int i, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_status st;
	wherry_code code = wherry_subscription_open(l->session->db, l->session->table,
						    l->names[i], &outbox, err);

	if (code == WHERRY_OK)
		code = wherry_outbox_status(outbox, &st, sizeof(st), err);
	if (code == WHERRY_OK && l->json)
		put_json(l, i, &st);
	else if (code == WHERRY_OK)
		put_text(l, i, &st);
	wherry_outbox_close(outbox);
	return code == WHERRY_NOTFOUND ? WHERRY_OK : code; /* It was dropped meanwhile. */
}

wherry_code wh_put_subscriptions(wh_buf *out, const wh_session *s, bool json,
				 wherry_error *err)
{
	listing *l = calloc(1, sizeof(*l));
	wherry_code code;

	if (!l)
		return wh_oom(err);
	*l = (listing){.session = s, .out = out, .json = json};
	code = wherry_subscription_list(s->outbox, note, l, err);
	/* The lines of a single subscription say the same as those of the outbox. */
	for (int i = 0; code == WHERRY_OK && i < l->n && (json || l->n > 1); i++)
		code = put(l, i, err);
	free(l);
	return code;
}
