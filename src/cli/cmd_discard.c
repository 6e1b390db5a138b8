#include "cli/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/again.h"
#include "cli/on_delayed.h"
#include "cli/on_queue.h"
#include "outbox/outbox.h"

enum { PAGE = 100 };

static char *copy(const char *text)
{
	return strdup(text ? text : "");
}

static wherry_code note(void *ctx, const wherry_row *row)
{
	wh_gone *gone = ctx;

	*gone = (wh_gone){row->message->id, wherry_state_name(row->state),
			  copy(row->message->topic), copy(row->message->message_id)};
	return WHERRY_OK;
}

static wh_exit discard(const wh_args *args, wh_session *s, const char *ident)
{
	wh_gone gone = {0};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_outbox_show(s->outbox, ident, note, &gone, &err);

	if (code == WHERRY_OK)
		code = wherry_outbox_discard(s->outbox, ident, &err);
	if (code == WHERRY_OK)
		wh_audit_message(args, s->table, &gone);
	free(gone.topic);
	free(gone.message_id);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

/* ---- by state ---- */

typedef struct page {
	wh_gone rows[PAGE];
	int64_t numbers[PAGE];
	size_t n;
	int64_t last;
} page;

static wherry_code take(void *ctx, const wherry_row *row)
{
	page *p = ctx;

	p->last = p->numbers[p->n] = row->message->id;
	(void)note(&p->rows[p->n], row);
	return p->rows[p->n].topic && p->rows[p->n++].message_id ? WHERRY_OK
								 : WHERRY_NOMEM;
}

/* Discard the messages of a page that are in one of the states still. */
static wherry_code discard_page(const wh_args *args, wh_session *s, page *p,
				unsigned states, int64_t *inout_n, wherry_error *err)
{
	bool gone[PAGE];
	wherry_code code =
		wh_outbox_discard_numbers(s->outbox, p->numbers, p->n, states, gone, err);

	for (size_t i = 0; code == WHERRY_OK && i < p->n; i++) {
		if (gone[i])
			wh_audit_message(args, s->table, &p->rows[i]);
		*inout_n += gone[i];
	}
	return code;
}

static wh_exit discard_states(const wh_args *args, wh_session *s, unsigned states,
			      int64_t *out_n)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	const size_t most = wh_is_dry(args) ? 1 : PAGE;
	page p = {.n = most};

	while (code == WHERRY_OK && p.n == most && !(wh_is_dry(args) && p.last)) {
		p.n = 0;
		code = wherry_outbox_list(s->outbox,
					  &WHERRY_OUTBOX_FILTER(.states = states,
								.after_id = p.last,
								.limit = (int64_t)most),
					  take, &p, &err);
		if (code == WHERRY_OK)
			code = discard_page(args, s, &p, states, out_n, &err);
		for (size_t i = 0; i < p.n; i++) {
			free(p.rows[i].topic);
			free(p.rows[i].message_id);
		}
	}
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

/* Count the messages in the states, and ask. */
static bool confirm_states(const wh_args *args, wh_session *s, unsigned states,
			   int64_t *out_n, wh_exit *status)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status st;
	int64_t n = 0;

	if (wherry_outbox_get_status(s->outbox, &st, sizeof(st), &err) != WHERRY_OK) {
		*status = wh_report(&err);
		return false;
	}
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		n += states & 1u << i ? st.count[i] : 0;
	*out_n = n;
	return wh_confirm(args, s->db, status,
			  "delete %" PRId64 "%s message%s of outbox '%s' for good", n,
			  states >> WHERRY_PENDING & 1 ? wh_or_more(&st, WHERRY_PENDING)
						       : "",
			  wh_plural(n), s->table);
}

/* ---- which ones ---- */

/* Exactly one of IDs, --state and --all; a delayed queue takes IDs with --state dead. */
static bool is_chosen(const wh_args *args)
{
	bool named = args->n_operands > 1, all = wh_arg_on(args, "all");
	const char *state = wh_arg(args, "state");

	if (named + all + (state != NULL) == 1 ||
	    (named && state && !all && *args->table.queue))
		return true;
	(void)wh_usage(args->command, "%s: wherry %s %s",
		       named || all || state ? "an ID, --state or --all: only one of them"
					     : "which messages? none is named",
		       args->command->name, args->command->synopsis);
	return false;
}

static wh_exit run_on_outbox(const wh_args *args, wh_session *s)
{
	const unsigned open = (1u << WHERRY_STATE_COUNT) - 1 - (1u << WHERRY_DONE);
	size_t named = args->n_operands - 1;
	wh_exit status = WH_EXIT_DONE;
	unsigned states = wh_arg_on(args, "all") ? open : 0;
	int64_t n = 0, counted = 0;

	if (!is_chosen(args) || !wh_arg_states(args, "state", wherry_state_name, &states))
		return WH_EXIT_USAGE;
	if (states & 1u << WHERRY_DONE)
		return wh_usage(args->command,
				"--state done: `wherry purge%s` deletes "
				"messages that were delivered",
				args->target);
	if (states ? !confirm_states(args, s, states, &counted, &status)
		   : !wh_confirm(args, s->db, &status, "delete %zu message%s for good",
				 named, wh_plural((int64_t)named)))
		return status;
	if (states)
		status = discard_states(args, s, states, &n);
	for (size_t i = 1; i < args->n_operands; i++) {
		wh_exit each = discard(args, s, wh_operand(args, i));

		n += each == WH_EXIT_DONE;
		if (each != WH_EXIT_DONE)
			status = each;
	}
	if (states && wh_is_dry(args) && status == WH_EXIT_DONE)
		n = counted;
	wh_print_discarded(args, n);
	return status;
}

static wh_exit run_on_queue(const wh_args *args, wh_session *s)
{
	return is_chosen(args) ? wh_on_queue_discard(args, s) : WH_EXIT_USAGE;
}

static wh_exit run_on_delayed(const wh_args *args, wh_session *s)
{
	return is_chosen(args) ? wh_on_delayed_discard(args, s) : WH_EXIT_USAGE;
}

static const wh_option options[] = {
	{"state", "STATES", "Those in these states, such as dead.", NULL, 0},
	{"all", NULL, "Every one that is not delivered; of a queue none that is leased.",
	 NULL, 0},
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run_on_outbox},
	[WH_OF_QUEUE] = {.run = run_on_queue},
	[WH_OF_DELAYED] = {.run = run_on_delayed},
	[WH_OF_INBOX] = {.use = "purge"},
};

const wh_command wh_cmd_discard = {
	.name = "discard",
	.operands = "URL [ID...]",
	.synopsis = "URL ID...|--state STATES|--all " WH_CONFIRM_USAGE " [--json]",
	.brief = "Delete messages that are not delivered, for good",
	.help = "A message is named by its number or its message id, in a delayed queue by its "
		"key, and a dead one there by its number and --state dead. Messages that are "
		"pending, in flight, failed or dead can be discarded; those behind them "
		"in their keys go on. A record of what went goes to standard error, or to syslog from "
		"a terminal. "
		"Messages of a queue can be discarded in every state; a receiver that has leased "
		"one cannot acknowledge it any more.\n"
		"\n"
		"Examples:\n"
		"  wherry discard sqlite:shop.db 42\n"
		"  wherry discard sqlite:shop.db 42 43 --yes\n"
		"  wherry discard sqlite:shop.db#jobs --state dead --yes\n"
		"  wherry discard sqlite:shop.db#delayed/mail order-7\n",
	.options = options,
	.kinds = kinds,
};
