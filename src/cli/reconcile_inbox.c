/*
 * The inbox of a receiver, read like a destination.
 */
#include "cli/reconcile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "db/driver.h"
#include "inbox/groups.h"

/* The clocks of the outbox and of the inbox differ. */
static const int64_t margin_us = INT64_C(10) * 60 * 1000000;

typedef struct back {
	wh_readback base;
	wherry_db *db;
	wherry_inbox *inbox;
	char *consumer; /* NULL: all. */
	int64_t since_us;
	bool seen; /* The inbox is not empty: id and time of its oldest message. */
	char first[WH_STORED_ID];
	int64_t first_us;
	wh_stored_fn visit;
	void *ctx;
} back;

static wherry_code take_oldest(void *ctx, wh_view id, int64_t accepted_us,
			       wherry_error *err)
{
	back *b = ctx;

	(void)err;
	b->seen = true;
	b->first_us = b->base.tied_us = accepted_us;
	(void)snprintf(b->first, sizeof(b->first), "%.*s", (int)id.len, id.ptr);
	return WHERRY_OK;
}

static wherry_code take(void *ctx, wh_view id, int64_t accepted_us, wherry_error *err)
{
	const back *b = ctx;
	const wh_stored stored = {.id = id, .at_us = accepted_us};

	return b->visit(b->ctx, &stored, err);
}

static wherry_code read_all(wh_readback *base, wh_stored_fn visit, void *ctx,
			    wherry_error *err)
{
	back *b = (back *)base;
	int64_t from_us = b->since_us - margin_us;

	b->visit = visit;
	b->ctx = ctx;
	return wh_inbox_visit_accepted(b->inbox, b->consumer, from_us > 0 ? from_us : 0,
				       take, b, err);
}

/* An inbox does not say whether ids were purged.  To deliver what was handled would be worse than to leave it out. */
static void edge(wh_readback *base, const wherry_message *message, wh_edge *out)
{
	const back *b = (const back *)base;

	(void)message;
	*out = (wh_edge){.removed = b->seen, .first_us = b->first_us};
	(void)snprintf(out->first, sizeof(out->first), "%s", b->first);
}

static void close_back(wh_readback *base)
{
	back *b = (back *)base;

	wherry_inbox_close(b->inbox);
	wherry_db_close(b->db);
	free(b->consumer);
	wh_buf_clear(&b->base.notes);
	free(b);
}

static const wh_readback_driver driver = {
	.read = read_all,
	.edge = edge,
	.close = close_back,
};

/* The advice of others is about the outbox, so it is not taken over. */
static wherry_code open_inbox(back *b, const char *name, wherry_error *err)
{
	wherry_code code = wherry_inbox_open(b->db, name, &b->inbox, err);

	return code == WHERRY_NOTFOUND
		       ? wh_fail(err, code,
				 "--inbox: that database has no inbox '%s': name it as in "
				 "postgres://HOST/DB#NAME",
				 name)
		       : code;
}

wherry_code wh_reconcile_open_inbox(const wh_reconcile *r, const wh_readback_ask *ask,
				    wh_readback **out, wherry_error *err)
{
	const char *named = wh_url_table(r->inbox);
	back *b = calloc(1, sizeof(*b));
	wh_table_name name = {.table = "inbox"};
	wherry_code code = WHERRY_OK;

	if (!b)
		return wh_oom(err);
	b->base = (wh_readback){.driver = &driver, .notes = WH_BUF_INIT(64 * 1024)};
	b->since_us = ask->since_us;
	b->consumer = r->consumer ? strdup(r->consumer) : NULL;
	if (r->consumer && !b->consumer)
		code = wh_oom(err);
	if (code == WHERRY_OK && named)
		code = wh_table_name_read(named, &name, err);
	if (code == WHERRY_OK)
		code = wh_db_open_own(r->inbox, r->config, &b->db, err);
	if (code == WHERRY_OK)
		code = open_inbox(b, name.table, err);
	if (code == WHERRY_OK)
		code = wh_inbox_visit_oldest(b->inbox, b->consumer, take_oldest, b, err);
	if (code == WHERRY_OK && !b->seen)
		wh_buf_puts(&b->base.notes, "the inbox has no message\n");
	if (code == WHERRY_OK)
		*out = &b->base;
	else
		close_back(&b->base);
	return code;
}
