#include "cli/queue_session.h"

#include <inttypes.h>

#include "base/text.h"

static wh_exit send_one(wh_queue_session *s, const wh_args *args, const wh_outgoing *out)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;

	if (wherry_queue_send(s->queue, &out->msg, &id, &err) != WHERRY_OK)
		return wh_report(&err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"id\":%" PRId64 "}\n", id);
	else
		(void)printf("message %" PRId64 " is in queue '%s'\n", id, s->at.name);
	return WH_EXIT_DONE;
}

static wh_exit run(wh_args *args)
{
	wh_queue_session s;
	wh_outgoing out;
	wh_exit status = wh_outgoing_read(&out, args, wh_operand(args, 1));

	if (status == WH_EXIT_DONE)
		status = wh_queue_session_open(&s, args);
	if (status == WH_EXIT_DONE) {
		status = send_one(&s, args, &out);
		wh_queue_session_close(&s);
	}
	wh_outgoing_clear(&out);
	return status;
}

static const wh_option options[] = {
	WH_SEND_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_send_word = {
	.name = "queue send",
	.operands = "URL#NAME [BODY]",
	.synopsis = "URL#NAME [BODY|--from FILE] [--header NAME=VALUE]... [--id ID] "
		    "[--correlation-id ID] [--reply-to ADDRESS] [--in DURATION] "
		    "[--expires DURATION] [--json]",
	.brief = "Send a message to a queue",
	.help = "The body is an argument, a file or standard input, without any change.\n"
		"\n"
		"Examples:\n"
		"  wherry queue send sqlite:shop.db#jobs '{\"job\":1}'\n"
		"  wherry queue send sqlite:shop.db#jobs '{\"job\":2}' --in 5s --expires 1h\n"
		"  wherry queue send sqlite:shop.db#jobs --from job.json --header kind=report\n",
	.options = options,
	.plain = true,
	.run = run,
};

/* ---- cancel ---- */

static wh_exit cancel(const wh_args *args, wh_queue_session *s, int64_t id)
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
	wh_queue_session s;
	wh_exit status;
	int64_t id = 0;

	if (!wh_parse_int(text, &id) || id <= 0)
		return wh_usage(args->command, "'%s' is not an id", text);
	status = wh_queue_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	status = cancel(args, &s, id);
	wh_queue_session_close(&s);
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
	.help = "The id is the one that `wherry queue send` printed. It fails if the message was "
		"received.\n"
		"\n"
		"Examples:\n"
		"  wherry queue cancel sqlite:shop.db#jobs 7\n",
	.options = cancel_options,
	.plain = true,
	.run = run_cancel,
};
