#include "cli/commands.h"

#include "base/env.h"
#include "cli/item.h"
#include "cli/on_delayed.h"
#include "cli/on_queue.h"
#include "outbox/outbox.h"

typedef struct show {
	wh_why why;
	bool json;
} show;

static wherry_code visit(void *ctx, const wherry_row *row)
{
	show *s = ctx;
	wh_item item = wh_item_of_row(row);
	wh_buf why = WH_BUF_INIT(4096);

	wh_put_why(&why, &s->why, row);
	item.why = wh_buf_str(&why);
	wh_show_item(&item, s->json, s->why.now_us);
	wh_buf_clear(&why);
	return WHERRY_OK;
}

static wh_exit run_on_outbox(const wh_args *args, wh_session *session)
{
	show s = {.why = {.session = session, .now_us = wh_now(&wh_env_system)},
		  .json = wh_arg_on(args, "json")};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wh_outbox_look(session->outbox, &s.why.status, &err);

	if (code == WHERRY_OK)
		code = wh_is_silent(session, &s.why.status, &s.why.silent, &err);
	if (code == WHERRY_OK)
		code = wherry_outbox_show(session->outbox, wh_operand(args, 1), visit, &s,
					  &err);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

static const wh_option options[] = {
	WH_JSON_OPTION,
	{0},
};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run_on_outbox},
	[WH_OF_QUEUE] = {.run = wh_on_queue_show},
	[WH_OF_DELAYED] = {.run = wh_on_delayed_show},
};

const wh_command wh_cmd_show = {
	.name = "show",
	.operands = "URL ID",
	.synopsis = "URL ID [--json]",
	.brief = "Show one message, and why it is where it is",
	.help = "ID is a message id, or the number in the first column of `wherry "
		"list`, of a delayed queue a key. JSON is indented if it is short; of a long body and of one "
		"that is not text the beginning is shown.\n"
		"\n"
		"Examples:\n"
		"  wherry show sqlite:shop.db 42\n"
		"  wherry show sqlite:shop.db ak18247005 --json | jq .body\n"
		"  wherry show sqlite:shop.db#jobs 7\n"
		"  wherry show sqlite:shop.db#delayed/mail order-7\n",
	.options = options,
	.kinds = kinds,
};
