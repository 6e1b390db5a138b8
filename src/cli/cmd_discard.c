#include "cli/commands.h"

#include <stdlib.h>
#include <string.h>

#include "cli/on_queue.h"

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
	wherry_code code = wherry_outbox_show(s->box, ident, note, &gone, &err);

	if (code == WHERRY_OK)
		code = wherry_outbox_discard(s->box, ident, &err);
	if (code == WHERRY_OK)
		wh_audit_message(args, s->table, &gone);
	free(gone.topic);
	free(gone.message_id);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

static wh_exit run(wh_args *args)
{
	wh_exit status = WH_EXIT_DONE, each;
	wh_session s;
	int64_t n = 0;

	if (!wh_confirm(args, &status, "delete %zu message%s for good",
			args->n_operands - 1, wh_plural((int64_t)args->n_operands - 1)))
		return status;
	if (wh_is_on_queue(args))
		return wh_on_queue_discard(args);
	status = wh_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	for (size_t i = 1; i < args->n_operands; i++) {
		each = discard(args, &s, wh_operand(args, i));
		n += each == WH_EXIT_DONE;
		if (each != WH_EXIT_DONE)
			status = each;
	}
	wh_print_discarded(args, n);
	wh_session_close(&s);
	return status;
}

static const wh_option options[] = {
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_discard = {
	.name = "discard",
	.operands = "URL ID...",
	.synopsis = "URL ID... " WH_CONFIRM_USAGE " [--json]",
	.brief = "Delete messages that are not delivered, for good",
	.help = "A message is named by its number or its message id. Messages that are "
		"pending, in flight, failed or dead can be discarded; those behind them "
		"in their keys go on. A record of each goes to standard error. "
		"Messages of a queue can be discarded in every state; a receiver that has leased "
		"one cannot acknowledge it any more.\n"
		"\n"
		"Examples:\n"
		"  wherry discard sqlite:shop.db 42\n"
		"  wherry discard sqlite:shop.db 42 43 --yes\n",
	.options = options,
	.run = run,
};
