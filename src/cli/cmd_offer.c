#include "cli/commands.h"

#include "base/date.h"
#include "store/fields.h"

static wh_exit offer(const wh_args *args, wh_session *s,
		     const wherry_delayed_message *msg)
{
	static const char *const names[] = {"created", "updated", "ignored"};
	wherry_offer_outcome outcome = WHERRY_IGNORED;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_delayed_offer(s->delayed, msg, &outcome, &err);

	if (code != WHERRY_OK)
		return wh_call_failed(args, code, &err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"outcome\":\"%s\"}\n", names[outcome]);
	else
		(void)printf("%s\n", names[outcome]);
	return WH_EXIT_DONE;
}

static wh_exit read_time(const wh_args *args, wherry_delayed_message *msg)
{
	const char *at = wh_arg(args, "at");
	wherry_error err = WHERRY_ERROR_INIT;

	if (at && wh_arg(args, "in"))
		return wh_usage(args->command,
				"--in and --at are given: only one of them");
	if (!wh_arg_duration(args, "in", &msg->delay_us))
		return WH_EXIT_USAGE;
	if (at && wh_time_parse(at, &msg->at_us, &err) != WHERRY_OK)
		return wh_usage(args->command, "--at: %s", err.message);
	if (at && msg->at_us <= 0)
		return wh_usage(args->command, "--at %s: give a time after 1970", at);
	return WH_EXIT_DONE;
}

static wh_exit run(const wh_args *args, wh_session *s)
{
	wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = wh_arg(args, "key"),
				       .if_absent = wh_arg_on(args, "if-absent"));
	wh_exit status = read_time(args, &msg);
	wh_buf body;

	if (status != WH_EXIT_DONE)
		return status;
	status = wh_read_body(&body, args, 1, WH_BODY_MAX);
	msg.body = wh_buf_str(&body);
	msg.body_len = body.len;
	if (status == WH_EXIT_DONE)
		status = offer(args, s, &msg);
	wh_buf_clear(&body);
	return status;
}

static const wh_option offer_options[] = {
	{"key", "KEY", "The key of the message. A key has one message at most.", NULL,
	 WH_REQUIRED},
	WH_BODY_OPTION,
	{"in", "DURATION", "It is due this long from now, such as 5s. (default now)",
	 NULL, 0},
	{"at", "TIME", "It is due at this time, such as 2026-03-29T02:30:00Z.", NULL, 0},
	{"if-absent", NULL, "Leave a message that the key has alone.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.use = "enqueue"},
	[WH_OF_QUEUE] = {.use = "send"},
	[WH_OF_DELAYED] = {.run = run},
};

const wh_command wh_cmd_offer = {
	.name = "offer",
	.operands = "URL#TABLE/QUEUE [BODY]",
	.synopsis =
		"URL#TABLE/QUEUE " WH_BODY_USAGE " --key KEY [--in DURATION|--at TIME] "
		"[--if-absent] [--json]",
	.brief = "Create or replace the message of a key",
	.help = "Prints created, updated or ignored. A message with the same body and time is "
		"ignored. If a consumer has the message that is replaced, its "
		"acknowledgement changes nothing. The body is an operand, a file or standard input.\n"
		"\n"
		"Examples:\n"
		"  wherry offer sqlite:shop.db#delayed/mail remind --key order-7 --in 1h\n"
		"  wherry offer sqlite:shop.db#delayed/mail --from mail.txt --key order-7 --at 2026-12-24T18:00:00Z\n",
	.options = offer_options,
	.kinds = kinds,
};
