#include "cli/commands.h"

#include <inttypes.h>
#include <string.h>

#include "base/env.h"
#include "cli/on_queue.h"
#include "publish/parts.h"

typedef struct audit {
	wh_buf line;
	const wh_session *session;
} audit;

/* Log which message was discarded, and by whom. */
static wherry_code write_audit(void *ctx, const wherry_row *row)
{
	audit *a = ctx;
	char now[WH_TIME_LEN];

	wh_time_print(wh_now(&wh_env_system), now);
	wh_buf_printf(&a->line,
		      "discarded time=%s outbox=%s id=%" PRId64 " state=%s topic=", now,
		      a->session->table, row->message->id, wherry_state_name(row->state));
	wh_buf_json(&a->line, row->message->topic ? row->message->topic : "",
		    row->message->topic ? strlen(row->message->topic) : 0);
	wh_buf_puts(&a->line, " message_id=");
	wh_buf_json(&a->line, row->message->message_id ? row->message->message_id : "",
		    row->message->message_id ? strlen(row->message->message_id) : 0);
	return WHERRY_OK;
}

static wh_exit discard(wh_session *s, const char *ident)
{
	audit a = {WH_BUF_INIT(64 * 1024), s};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_outbox_show(s->box, ident, write_audit, &a, &err);

	if (code == WHERRY_OK)
		code = wherry_outbox_discard(s->box, ident, &err);
	if (code == WHERRY_OK)
		(void)fprintf(stderr, "%s\n", wh_buf_str(&a.line));
	wh_buf_clear(&a.line);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

static wh_exit run(wh_args *args)
{
	wh_exit status = WH_EXIT_DONE, each;
	wh_session s;
	int64_t n = 0;

	if (!wh_confirm(args, "delete %zu message%s for good", args->n_operands - 1,
			wh_plural((int64_t)args->n_operands - 1)))
		return WH_EXIT_USAGE;
	if (wh_is_on_queue(args))
		return wh_on_queue_discard(args);
	status = wh_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	for (size_t i = 1; i < args->n_operands; i++) {
		each = discard(&s, wh_operand(args, i));
		n += each == WH_EXIT_DONE;
		if (each != WH_EXIT_DONE)
			status = each;
	}
	wh_print_discarded(args, n);
	wh_session_close(&s);
	return status;
}

static const wh_option options[] = {
	{"yes", NULL, "Do not ask; required where there is no terminal.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_discard = {
	.name = "discard",
	.operands = "URL ID...",
	.synopsis = "URL ID... [--yes] [--json]",
	.brief = "Delete messages that are not delivered, for good",
	.help = "A message is named by its number or its message id. Messages that are "
		"pending, in flight, failed or dead can be discarded; those behind them "
		"in their keys go on. A line for each goes to standard error. "
		"Messages of a queue can be discarded in every state; a receiver that has leased "
		"one cannot acknowledge it any more.\n"
		"\n"
		"Examples:\n"
		"  wherry discard sqlite:shop.db 42\n"
		"  wherry discard sqlite:shop.db 42 43 --yes\n",
	.options = options,
	.run = run,
};
