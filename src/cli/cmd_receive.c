#include "cli/commands.h"

#include <inttypes.h>

#include "cli/deadline.h"
#include "cli/item.h"

enum { LEASE_STANDARD_US = 30000000 };

typedef struct receiving {
	wh_session *session;
	bool json, keep; /* keep: the lease stays, and its token is printed */
	int64_t id;
	char token[64];
} receiving;

static wherry_code print_message(void *ctx, const wherry_queue_message *msg)
{
	receiving *r = ctx;
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

	r->id = msg->id;
	(void)snprintf(r->token, sizeof(r->token), "%s", msg->token ? msg->token : "");
	if (r->json) {
		wh_item item = wh_item_of_queue(msg, r->session->table);

		if (!r->keep) /* It is acknowledged: it has no lease and no state. */
			item.state = item.token = NULL, item.available_at = 0;
		wh_put_item(&line, &item, true);
	} else {
		wh_buf_put(&line, msg->body, msg->body_len);
	}
	wh_print_buf(&line, "\n");
	wh_buf_clear(&line);
	return WHERRY_OK;
}

/* Acknowledge a message only after it was written. */
static wh_exit settle(receiving *r)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = r->session->queue;

	if (!wh_printed_all()) {
		const wherry_nack how = WHERRY_NACK(.not_counted = true);
		bool back = wherry_queue_nack(queue, r->token, &r->id, 1, &how, NULL,
					      &err) == WHERRY_OK;

		return wh_complain(
			NULL, "message %" PRId64 " could not be written and %s", r->id,
			back ? "was given back" : "is leased until its time ends");
	}
	if (r->keep) {
		(void)fprintf(stderr,
			      "message %" PRId64 " is leased: `wherry ack%s %s %" PRId64
			      "`\n",
			      r->id, r->session->target, r->token, r->id);
		return WH_EXIT_DONE;
	}
	if (wherry_queue_ack(queue, r->token, &r->id, 1, NULL, &err) != WHERRY_OK)
		return wh_report(&err);
	return WH_EXIT_DONE;
}

static wh_exit receive(receiving *r, int64_t wait_us, int64_t lease_us)
{
	const wherry_receive_options how = WHERRY_RECEIVE_OPTIONS(.lease_us = lease_us);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = r->session->queue;
	wh_deadline deadline = wh_deadline_in(wait_us);
	int64_t n = 0;
	bool any;
	wherry_code code;

	do {
		any = true;
		code = wait_us ? wherry_queue_wait(queue, deadline.left_us, &any, &err)
			       : WHERRY_OK;
		if (code == WHERRY_OK && any)
			code = wherry_queue_receive(queue, &how, print_message, r, &n,
						    &err);
	} while (code == WHERRY_OK && any && !n && wh_deadline_is_ahead(&deadline));
	if (code != WHERRY_OK)
		return wh_report(&err);
	if (n)
		return settle(r);
	(void)fprintf(stderr, "no message\n");
	return WH_EXIT_FAILED;
}

static wh_exit run(const wh_args *args, wh_session *s)
{
	int64_t wait_us = 0, lease_us = LEASE_STANDARD_US;
	receiving r = {.session = s,
		       .json = wh_arg_on(args, "json"),
		       .keep = wh_arg(args, "lease") != NULL};

	if (!wh_arg_duration(args, "wait", &wait_us) ||
	    !wh_arg_duration(args, "lease", &lease_us))
		return WH_EXIT_USAGE;
	if (!lease_us)
		return wh_usage(args->command, "--lease: a lease needs a time above 0");
	return receive(&r, wait_us, lease_us);
}

static const wh_option receive_options[] = {
	{"wait", "DURATION", "Wait this long for a message, such as 10s.", NULL, 0},
	{"lease", "DURATION",
	 "Lease the message for this long, do not delete it, and print the command that does.",
	 NULL, 0},
	WH_JSON_OPTION,
	{0},
};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_QUEUE] = {.run = run},
	[WH_OF_DELAYED] = {.use = "poll"},
};

const wh_command wh_cmd_receive = {
	.name = "receive",
	.operands = "URL#NAME",
	.synopsis = "URL#NAME [--wait DURATION] [--lease DURATION] [--json]",
	.brief = "Receive a message, print its body and acknowledge it",
	.help = "Without --lease: the message is leased for 30 s, printed, and deleted. If its "
		"lease ends before that, it is received again. If the body cannot be written, "
		"the message goes back to the queue. The exit status is 1 if there is no "
		"message. With --json, the message is one object with all its fields.\n"
		"\n"
		"Examples:\n"
		"  wherry receive sqlite:shop.db#jobs\n"
		"  wherry receive sqlite:shop.db#jobs --wait 10s --json\n"
		"  wherry receive sqlite:shop.db#jobs --lease 30s --json\n",
	.options = receive_options,
	.kinds = kinds,
};
