/*
 * Counts the messages of subscriptions that no relay of this process reads: nobody does, consumers or other processes.
 */
#include <stdio.h>
#include <string.h>

#include <wherry/subscription.h>

#include "daemon/daemon.h"

bool wh_same_outbox(const wherry_outbox *a, const wherry_outbox *b)
{
	return strcmp(a->store.names.schema, b->store.names.schema) == 0 &&
	       strcmp(a->store.names.table, b->store.names.table) == 0;
}

typedef struct list {
	bool (*served)(void *ctx, const char *subscription);
	void *ctx;
	wh_other *at;
	int n;
} list;

static wherry_code note(void *ctx, const wherry_subscription_state *s)
{
	list *l = ctx;

	if (l->n == WH_OTHERS_MOST || l->served(l->ctx, s->name))
		return WHERRY_OK;
	l->at[l->n] = (wh_other){.kept_us = s->kept_us, .moved_us = s->moved_us};
	(void)snprintf(l->at[l->n].name, sizeof(l->at->name), "%s", s->name);
	l->n++;
	return WHERRY_OK;
}

static wherry_code count(wherry_outbox *of, wh_other *at, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wh_holder holder = {.epoch = 0};
	wherry_code code = wherry_subscription_open(of->store.db, of->store.display_name,
						    at->name, &outbox, err);

	if (code == WHERRY_OK)
		code = wh_outbox_backlog(outbox, &at->backlog, err);
	if (code == WHERRY_OK)
		code = wh_store_holder(&outbox->store, &holder, err);
	at->led = holder.left_us > 0;
	wherry_outbox_close(outbox);
	return code;
}

wherry_code wh_others_read(wherry_outbox *outbox,
			   bool (*served)(void *ctx, const char *subscription), void *ctx,
			   wh_other out[WH_OTHERS_MOST], int *out_n, wherry_error *err)
{
	list l = {served, ctx, out, 0};
	wherry_code code = wherry_subscription_list(outbox, note, &l, err);
	int n = 0;

	for (int i = 0; code == WHERRY_OK && i < l.n; i++) {
		code = count(outbox, &out[i], err);
		if (code == WHERRY_OK)
			out[n++] = out[i];
		else if (code == WHERRY_NOTFOUND) /* It was dropped meanwhile. */
			code = WHERRY_OK;
	}
	*out_n = n;
	return code;
}
