/*
 * The public operations on subscriptions; the outbox "outbox" of the template has seven messages and the
 * subscription "audit".
 */
#include "operations.h"

static wherry_code subscription_create(world *w, wherry_error *err)
{
	return wherry_subscription_create(
		w->db, "outbox", "more",
		&WHERRY_SUBSCRIPTION_OPTIONS(.topics = "orders.*", .from = "now"), err);
}

static wherry_code subscription_create_again(world *w, wherry_error *err)
{
	return wherry_subscription_create(w->db, "outbox", "audit", NULL, err);
}

static wherry_code subscription_open(world *w, wherry_error *err)
{
	return wherry_subscription_open(w->db, "outbox", "audit",
					(wherry_outbox **)&w->out.made, err);
}

static void drop_box(world *w)
{
	wherry_outbox_close(w->out.made);
}

static wherry_code subscription_seek(world *w, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_code code =
		wherry_subscription_open(w->db, "outbox", "audit", &outbox, err);

	if (code == WHERRY_OK)
		code = wherry_subscription_seek(outbox, "3", err);
	wherry_outbox_close(outbox);
	return code;
}

static wherry_code subscription_set_topics(world *w, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_code code =
		wherry_subscription_open(w->db, "outbox", "audit", &outbox, err);

	if (code == WHERRY_OK)
		code = wherry_subscription_set_topics(outbox, "a.*", err);
	wherry_outbox_close(outbox);
	return code;
}

static wherry_code see(void *ctx, const wherry_subscription_state *s)
{
	world *w = ctx;

	w->rows_len += (size_t)snprintf(w->rows + w->rows_len,
					sizeof(w->rows) - w->rows_len, "%s ", s->name);
	return WHERRY_OK;
}

static wherry_code subscription_list(world *w, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_code code = wherry_outbox_open(w->db, "outbox", &outbox, err);

	w->rows_len = 0;
	if (code == WHERRY_OK)
		code = wherry_subscription_list(outbox, see, w, err);
	wherry_outbox_close(outbox);
	return code;
}

static wherry_code take(void *ctx, const wherry_row *row)
{
	world *w = ctx;

	w->rows_len +=
		(size_t)snprintf(w->rows + w->rows_len, sizeof(w->rows) - w->rows_len,
				 "%lld ", (long long)row->message->id);
	return WHERRY_OK;
}

static wherry_code subscription_consume(world *w, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_code code =
		wherry_subscription_open(w->db, "outbox", "audit", &outbox, err);

	w->rows_len = 0;
	if (code == WHERRY_OK)
		code = wherry_subscription_consume(outbox, 2, take, w, NULL, err);
	wherry_outbox_close(outbox);
	return code;
}

static wherry_code subscription_drop(world *w, wherry_error *err)
{
	return wherry_subscription_drop(w->db, "outbox", "audit", err);
}

/* clang-format off */
const operation subscription_operations[] = {
	{"subscription_create", subscription_create, NULL, NULL, NULL, 0},
	{"subscription_create of one that is there", subscription_create_again, NULL, NULL, NULL, 0},
	{"subscription_open", subscription_open, NULL, drop_box, NULL, 0},
	{"subscription_seek", subscription_seek, NULL, NULL, NULL, 0},
	{"subscription_set_topics", subscription_set_topics, NULL, NULL, NULL, 0},
	{"subscription_list", subscription_list, NULL, NULL, NULL, 0},
	{"subscription_consume", subscription_consume, NULL, NULL, NULL, OPERATION_ONCE},
	{"subscription_drop", subscription_drop, NULL, NULL, NULL, 0},
};
/* clang-format on */
const size_t n_subscription_operations =
	sizeof(subscription_operations) / sizeof(*subscription_operations);
