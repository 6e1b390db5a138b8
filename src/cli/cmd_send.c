#include "cli/commands.h"

#include <inttypes.h>

#include "cli/outgoing.h"

static wh_exit send(const wh_args *args, wh_session *s, const wherry_queue_message *msg)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;

	if (wherry_queue_send(s->queue, msg, &id, &err) != WHERRY_OK)
		return wh_report(&err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"id\":%" PRId64 "}\n", id);
	else
		(void)printf("message %" PRId64 " is in queue '%s'\n", id, s->table);
	return WH_EXIT_DONE;
}

static wh_exit run(const wh_args *args, wh_session *s)
{
	wh_outgoing out;
	wh_exit status = wh_outgoing_read(&out, args, 1);

	if (status == WH_EXIT_DONE)
		status = send(args, s, &out.msg);
	wh_outgoing_clear(&out);
	return status;
}

static const wh_option options[] = {
	WH_SEND_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.use = "enqueue"},
	[WH_OF_QUEUE] = {.run = run},
	[WH_OF_DELAYED] = {.use = "offer"},
};

const wh_command wh_cmd_send = {
	.name = "send",
	.operands = "URL#NAME [BODY]",
	.synopsis = "URL#NAME " WH_BODY_USAGE " [--header NAME=VALUE]... [--id ID] "
		    "[--correlation-id ID] [--reply-to ADDRESS] [--in DURATION] "
		    "[--expires DURATION] [--json]",
	.brief = "Send a message to a queue",
	.help = "The body is an operand, a file or standard input, without any change.\n"
		"\n"
		"Examples:\n"
		"  wherry send sqlite:shop.db#jobs '{\"job\":1}'\n"
		"  wherry send sqlite:shop.db#jobs '{\"job\":2}' --in 5s --expires 1h\n"
		"  wherry send sqlite:shop.db#jobs --from job.json --header kind=report\n",
	.options = options,
	.kinds = kinds,
};
