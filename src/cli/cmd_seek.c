#include "cli/commands.h"

#include <wherry/subscription.h>

#include <inttypes.h>

#include "outbox/outbox.h"

static wh_exit run_on_outbox(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status st;
	wherry_code code = wherry_subscription_seek(s->outbox, wh_operand(args, 1), &err);
	wh_buf json = WH_BUF_INIT(WH_OUTPUT_MOST);
	int64_t open;

	if (code == WHERRY_OK)
		code = wherry_outbox_get_status(s->outbox, &st, sizeof(st), &err);
	if (code != WHERRY_OK)
		return wh_call_failed(args, code, &err);
	open = st.count[WHERRY_PENDING];
	wh_audit(args, s->table, open);
	if (wh_arg_on(args, "json")) {
		wh_buf_printf(&json, "{\"subscription\":\"%s\",\"pending\":%" PRId64,
			      s->store->topic, open);
		wh_put_at_least(&json, &st);
		wh_buf_puts(&json, "}");
		wh_print_buf(&json, "\n");
		wh_buf_clear(&json);
	} else {
		(void)printf("%" PRId64
			     "%s message%s pending in subscription '%s' of outbox "
			     "'%s'\n",
			     open, wh_or_more(&st, WHERRY_PENDING),
			     open == 1 ? " is" : "s are", s->store->topic, s->table);
	}
	return WH_EXIT_DONE;
}

static const wh_option options[] = {
	WH_JSON_OPTION,
	{0},
};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run_on_outbox},
};

const wh_command wh_cmd_seek = {
	.name = "seek",
	.operands = "URL PLACE",
	.synopsis = "URL PLACE [--json]",
	.brief = "Let a subscription of an outbox go on from another message",
	.help = "PLACE is start, now, the id of a message, or a time such as 2026-11-25T10:00:00Z. What "
		"comes after it is delivered, whether it was before or not; what comes before it is not. "
		"Dead messages before it stay dead. A relay that is at work goes on from there.\n"
		"\n"
		"Examples:\n"
		"  wherry seek sqlite:shop.db start\n"
		"  wherry seek sqlite:shop.db#outbox/audit 2026-11-25T10:00:00Z\n",
	.options = options,
	.kinds = kinds,
};
