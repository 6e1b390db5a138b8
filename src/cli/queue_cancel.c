/*
 * wherry queue cancel.
 */
#include <inttypes.h>

#include "base/text.h"
#include "cli/on_queue.h"

static wh_exit cancel(const wh_args *args, wh_session *s, int64_t id)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (wherry_queue_cancel(s->queue, id, &err) != WHERRY_OK)
		return wh_report(&err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"cancelled\":%" PRId64 "}\n", id);
	else
		(void)printf("message %" PRId64 " is cancelled\n", id);
	return WH_EXIT_DONE;
}

static wh_exit run_cancel(wh_args *args)
{
	const char *text = wh_operand(args, 1);
	wh_session s;
	wh_exit status;
	int64_t id = 0;

	if (!wh_parse_int(text, &id) || id <= 0)
		return wh_usage(args->command, "'%s' is not an id", text);
	status = wh_session_open(&s, args, WH_OF_QUEUE);
	if (status == WH_EXIT_DONE)
		status = cancel(args, &s, id);
	wh_session_close(&s);
	return status;
}

static const wh_option cancel_options[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_cancel_word = {
	.name = "queue cancel",
	.operands = "URL#NAME ID",
	.synopsis = "URL#NAME ID [--json]",
	.brief = "Delete a message that nobody has received",
	.help = "The id is the one that `wherry send` printed. It fails if the message was "
		"received.\n"
		"\n"
		"Examples:\n"
		"  wherry queue cancel sqlite:shop.db#jobs 7\n",
	.options = cancel_options,
	.plain = true,
	.run = run_cancel,
};
