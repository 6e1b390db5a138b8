#include "cli/commands.h"

#include <wherry/subscription.h>

#include <inttypes.h>

#include "cli/on_delayed.h"
#include "cli/on_inbox.h"
#include "cli/on_queue.h"
#include "outbox/stream.h"

/* Refuse while a relay holds the lease: it would go on delivering messages that it has
 * read. */
static bool relay_is_gone(const wh_session *s, const wherry_outbox_status *st)
{
	char span[WH_SPAN_LEN];

	if (st->lease_left_us <= 0)
		return true;
	(void)wh_complain("stop the relay first, or add --force",
			  "relay %s holds the lease of outbox '%s' for %s more",
			  st->owner, s->table, wh_span_text(st->lease_left_us, span));
	return false;
}

/* Drop the publication and the replication slot, for which the server would keep its WAL
 * forever.  Relays of a log have temporary slots. */
static wherry_code drop_slot(const wh_session *s, const wherry_config *config,
			     wherry_error *err)
{
	wh_wal_state state;
	wh_wal *wal = NULL;
	wherry_code code = WHERRY_OK;

	if (wh_wal_open_log(s->outbox, wherry_config_get(config, "stream.publication"),
			    &wal, NULL) != WHERRY_OK &&
	    wh_wal_open(s->outbox, wherry_config_get(config, "stream.slot"),
			wherry_config_get(config, "stream.publication"), &wal,
			NULL) != WHERRY_OK)
		return WHERRY_OK;
	if (wh_wal_look(wal, &state, NULL) == WHERRY_OK && state.has_slot)
		code = wh_wal_drop(wal, err);
	if (code == WHERRY_OK && state.published && wal->own)
		code = wh_wal_unpublish(wal, err);
	wh_wal_close(wal);
	return code;
}

static int64_t open_messages(const wherry_outbox_status *st)
{
	return st->count[WHERRY_PENDING] + st->count[WHERRY_PROCESSING] +
	       st->count[WHERRY_FAILED];
}

/* The table of another program stays. */
static wh_exit drop_adopted(const wh_args *args, wh_session *s,
			    const wherry_outbox_status *st)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;
	int64_t open = open_messages(st);

	if (!wh_confirm(
		    args, s->db, &status,
		    "forget outbox '%s' in %s with %" PRId64
		    "%s message%s to be delivered and %" PRId64
		    " dead, and the positions of its subscriptions; the table that it reads stays",
		    s->table, s->url, open, wh_or_more(st, WHERRY_PENDING),
		    wh_plural(open), st->count[WHERRY_DEAD]))
		return status;
	if (wh_store_drop(s->store, &err) != WHERRY_OK)
		return wh_report(&err);
	wh_audit(args, s->table, open + st->count[WHERRY_DEAD]);
	wh_print_deleted(args,
			 (const wh_count[]){{"undelivered", open},
					    {"dead", st->count[WHERRY_DEAD]},
					    {"delivered", st->count[WHERRY_DONE]},
					    {NULL, 0}},
			 "outbox '%s' is gone; the table that it read has its rows",
			 s->table);
	return WH_EXIT_DONE;
}

static wh_exit drop(const wh_args *args, wh_session *s, const wherry_outbox_status *st)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;
	int64_t open = open_messages(st);
	int64_t lost = open + st->count[WHERRY_DEAD];
	int64_t delivered = st->count[WHERRY_DONE];

	if (!wh_confirm(args, s->db, &status,
			"delete outbox '%s' in %s with %" PRId64
			"%s message%s to be delivered, %" PRId64 " dead and %" PRId64
			"%s delivered",
			s->table, s->url, open, wh_or_more(st, WHERRY_PENDING),
			wh_plural(open), st->count[WHERRY_DEAD], st->count[WHERRY_DONE],
			wh_or_more(st, WHERRY_DONE)))
		return status;
	if ((!wh_is_dry(args) && drop_slot(s, args->config, &err) != WHERRY_OK) ||
	    wh_store_drop(&s->outbox->store, &err) != WHERRY_OK)
		return wh_report(&err);
	wh_audit(args, s->table, lost + delivered);
	wh_print_deleted(args,
			 (const wh_count[]){{"undelivered", open},
					    {"dead", st->count[WHERRY_DEAD]},
					    {"delivered", delivered},
					    {NULL, 0}},
			 "outbox '%s' is gone, with %" PRId64
			 "%s message%s that %s not delivered",
			 s->table, lost, wh_or_more(st, WHERRY_PENDING), wh_plural(lost),
			 lost == 1 ? "was" : "were");
	return WH_EXIT_DONE;
}

/* Drop a subscription.  The messages stay. */
static wh_exit drop_subscription(const wh_args *args, wh_session *s,
				 const wherry_outbox_status *st)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;
	int64_t open = open_messages(st);

	if (!wh_confirm(args, s->db, &status,
			"drop subscription '%s' of outbox '%s' in %s, which has %" PRId64
			"%s message%s to be delivered and %" PRId64 " dead",
			args->table.queue, s->table, s->url, open,
			wh_or_more(st, WHERRY_PENDING), wh_plural(open),
			st->count[WHERRY_DEAD]))
		return status;
	if (wherry_subscription_drop(s->db, s->table, args->table.queue, &err) !=
	    WHERRY_OK)
		return wh_report(&err);
	wh_audit(args, s->table, open + st->count[WHERRY_DEAD]);
	wh_print_deleted(
		args,
		(const wh_count[]){{"undelivered", open},
				   {"dead", st->count[WHERRY_DEAD]},
				   {NULL, 0}},
		"subscription '%s' of outbox '%s' is gone; the messages are there",
		args->table.queue, s->table);
	return WH_EXIT_DONE;
}

/* The table was dropped by hand: drop what was beside it. */
static wh_exit drop_left(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status;

	if (!wh_confirm(
		    args, s->db, &status,
		    "drop what is left of outbox '%s' in %s, whose table is gone: the "
		    "positions of its subscriptions, and which messages failed",
		    s->table, s->url))
		return status;
	if (!wh_is_dry(args) && (wh_wal_unpublish_left(s->outbox, &err) != WHERRY_OK ||
				 wh_store_drop(&s->outbox->store, &err) != WHERRY_OK))
		return wh_report(&err);
	wh_audit(args, s->table, 0);
	wh_print_deleted(
		args,
		(const wh_count[]){
			{"undelivered", 0}, {"dead", 0}, {"delivered", 0}, {NULL, 0}},
		"what was left of outbox '%s' is gone", s->table);
	return WH_EXIT_DONE;
}

/* Open the outbox and read its status.  *out_left: its table is gone, and there is no status. */
static wh_exit open_or_left(const wh_args *args, wh_session *s, wherry_outbox_status *out,
			    bool *out_left)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *left = NULL;
	bool adopted;
	wherry_code code = wh_session_try(s, args, WH_OF_OUTBOX, &err);

	if (code == WHERRY_OK) /* A view may be there without its table. */
		code = wherry_outbox_get_status(s->outbox, out, sizeof(*out), &err);
	*out_left =
		code == WHERRY_NOTFOUND && !*args->table.queue &&
		wh_outbox_open_left(s->db, s->table, &left, &adopted, NULL) == WHERRY_OK;
	if (*out_left) {
		wherry_outbox_close(s->outbox);
		s->outbox = left;
		return WH_EXIT_DONE;
	}
	if (!s->outbox)
		return wh_session_table(s, args, WH_OF_OUTBOX);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

static wh_exit run_on_outbox(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status st = {0};
	bool left = false;
	wh_exit opened = open_or_left(args, s, &st, &left);

	if (opened != WH_EXIT_DONE)
		return opened;
	if (left)
		return drop_left(args, s);
	if (wh_store_can_drop(s->store, &err) != WHERRY_OK)
		return wh_report(&err);
	if (!wh_arg_on(args, "force") && !relay_is_gone(s, &st))
		return WH_EXIT_FAILED;
	if (*args->table.queue)
		return drop_subscription(args, s, &st);
	return s->store->layout.purges_soon ? drop_adopted(args, s, &st)
					    : drop(args, s, &st);
}

static const wh_option options[] = {
	WH_CONFIRM_OPTIONS,
	{"force", NULL, "Also while a relay holds the lease.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

static const wh_without no_force[] = {
	{"force", "it is for outboxes, whose relay may hold a lease"}, {NULL, NULL}};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run_on_outbox, .opens = true},
	[WH_OF_QUEUE] = {.run = wh_on_queue_drop, .without = no_force},
	[WH_OF_DELAYED] = {.use = "discard| --all"},
	[WH_OF_DELAYED_TABLE] = {.run = wh_on_delayed_drop, .without = no_force},
	[WH_OF_INBOX] = {.run = wh_on_inbox_drop, .without = no_force},
};

const wh_command wh_cmd_drop = {
	.name = "drop",
	.operands = "URL",
	.synopsis = "URL " WH_CONFIRM_USAGE " [--force] [--json]",
	.brief = "Remove a table and all its messages",
	.help = "Says how many messages would be lost, and asks. Of an outbox it removes the table "
		"and what is kept beside it; with the last outbox of the database "
		"everything else that `wherry create` made. A subscription of an outbox goes alone. A table of delayed queues goes with all its "
		"queues. Without an inbox every message counts as new.\n"
		"\n"
		"Examples:\n"
		"  wherry drop sqlite:shop.db#billing_outbox\n"
		"  wherry drop sqlite:shop.db --yes\n"
		"  wherry drop sqlite:shop.db#jobs\n"
		"  wherry drop sqlite:shop.db#outbox/audit\n"
		"  wherry drop sqlite:shop.db#delayed\n",
	.options = options,
	.kinds = kinds,
};
