#include "cli/queue_session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/deadline.h"

enum { LEASE_STANDARD_US = 30000000, IDS_MOST = 1000 };

/* ---- receive ---- */

typedef struct receiving {
	wh_queue_session *session;
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
		wh_put_queue_message(&line, r->session, msg);
	} else {
		wh_buf_put(&line, msg->body, msg->body_len);
		wh_buf_putc(&line, '\n');
	}
	wh_print_buf(&line, "");
	wh_buf_clear(&line);
	return WHERRY_OK;
}

/* Acknowledge a message only after it was written. */
static wh_exit settle(receiving *r)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = r->session->queue;

	if (!wh_printed_all()) {
		const wherry_nack how = WHERRY_NACK(.innocent = true);
		bool back = wherry_queue_nack(queue, r->token, &r->id, 1, &how, NULL,
					      &err) == WHERRY_OK;

		return wh_complain(
			NULL, "message %" PRId64 " could not be written and %s", r->id,
			back ? "was given back" : "is leased until its time ends");
	}
	if (r->keep) {
		(void)fprintf(stderr,
			      "message %" PRId64
			      " is leased: `wherry queue ack%s %s %" PRId64 "`\n",
			      r->id, r->session->at.target, r->token, r->id);
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

static wh_exit run_receive(wh_args *args)
{
	int64_t wait_us = 0, lease_us = LEASE_STANDARD_US;
	wh_queue_session s;
	receiving r = {.session = &s,
		       .json = wh_arg_on(args, "json"),
		       .keep = wh_arg(args, "lease") != NULL};
	wh_exit status;

	if (!wh_arg_duration(args, "wait", &wait_us) ||
	    !wh_arg_duration(args, "lease", &lease_us))
		return WH_EXIT_USAGE;
	if (!lease_us)
		return wh_usage(args->command, "--lease: a lease needs a time above 0");
	status = wh_queue_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	status = receive(&r, wait_us, lease_us);
	wh_queue_session_close(&s);
	return status;
}

static const wh_option receive_options[] = {
	{"wait", "DURATION", "Wait this long for a message, such as 10s.", NULL, 0},
	{"lease", "DURATION",
	 "Lease the message for this long, do not delete it, and print the command that does.",
	 NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_receive_word = {
	.name = "queue receive",
	.operands = "URL#NAME",
	.synopsis = "URL#NAME [--wait DURATION] [--lease DURATION] [--json]",
	.brief = "Receive a message, print its body and acknowledge it",
	.help = "Without --lease: the message is leased for 30 s, printed, and deleted. If its "
		"lease ends before that, it is received again. If the body cannot be written, "
		"the message goes back to the queue. The exit status is 1 if there is no "
		"message. With --json, the message is one object with all its fields.\n"
		"\n"
		"Examples:\n"
		"  wherry queue receive sqlite:shop.db#jobs\n"
		"  wherry queue receive sqlite:shop.db#jobs --wait 10s --json\n"
		"  wherry queue receive sqlite:shop.db#jobs --lease 30s --json\n",
	.options = receive_options,
	.plain = true,
	.run = run_receive,
};

/* ---- ack, nack ---- */

typedef struct leased {
	const char *token;
	int64_t ids[IDS_MOST];
	size_t n;
} leased;

static bool read_leased(const wh_args *args, leased *out)
{
	const char *text;

	out->token = wh_operand(args, 1);
	for (out->n = 0; (text = wh_operand(args, 2 + out->n)) != NULL; out->n++) {
		if (out->n == IDS_MOST) {
			(void)wh_usage(args->command, "at most %d ids at once", IDS_MOST);
			return false;
		}
		if (!wh_parse_int(text, &out->ids[out->n])) {
			(void)wh_usage(
				args->command,
				"'%s' is not an id: write the token first, then the ids",
				text);
			return false;
		}
	}
	return true;
}

static wh_exit settled(const wh_args *args, wherry_code code, const wherry_error *err,
		       int64_t n, const char *what)
{
	if (wh_arg_on(args, "json"))
		(void)printf("{\"%s\":%" PRId64 "}\n", what, n);
	else
		(void)printf("%" PRId64 " message%s %s\n", n, wh_plural(n), what);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(err);
}

static wh_exit run_ack(wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_queue_session s;
	wherry_code code;
	wh_exit status;
	int64_t n = 0;
	leased l;

	if (!read_leased(args, &l))
		return WH_EXIT_USAGE;
	status = wh_queue_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = wherry_queue_ack(s.queue, l.token, l.ids, l.n, &n, &err);
	status = settled(args, code, &err, n, "acknowledged");
	wh_queue_session_close(&s);
	return status;
}

static const wh_option ack_options[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_ack_word = {
	.name = "queue ack",
	.operands = "URL#NAME TOKEN ID...",
	.synopsis = "URL#NAME TOKEN ID... [--json]",
	.brief = "Acknowledge messages that were leased",
	.help = "Token and id are those that `wherry queue receive --lease` printed. It fails "
		"if a lease ended and another receiver has the message.\n"
		"\n"
		"Examples:\n"
		"  wherry queue ack sqlite:shop.db#jobs 0198-token 7\n",
	.options = ack_options,
	.plain = true,
	.run = run_ack,
};

static wh_exit run_nack(wh_args *args)
{
	wherry_nack how = WHERRY_NACK(.error = wh_arg(args, "error"),
				      .innocent = wh_arg_on(args, "innocent"));
	wherry_error err = WHERRY_ERROR_INIT;
	wh_queue_session s;
	wherry_code code;
	wh_exit status;
	int64_t n = 0;
	leased l;

	if (wh_arg_on(args, "dead") && (wh_arg(args, "in") || how.innocent))
		return wh_usage(args->command,
				"--dead gives the messages up: leave --in and "
				"--innocent out");
	if (!read_leased(args, &l) || !wh_arg_duration(args, "in", &how.delay_us))
		return WH_EXIT_USAGE;
	status = wh_queue_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = wh_arg_on(args, "dead")
		       ? wherry_queue_dead_letter(s.queue, l.token, l.ids, l.n, how.error,
						  &n, &err)
		       : wherry_queue_nack(s.queue, l.token, l.ids, l.n, &how, &n, &err);
	status = settled(args, code, &err, n,
			 wh_arg_on(args, "dead") ? "dead" : "returned");
	wh_queue_session_close(&s);
	return status;
}

static const wh_option nack_options[] = {
	{"in", "DURATION", "Nobody receives them earlier, such as 5s.", NULL, 0},
	{"error", "TEXT", "Why; kept with the messages.", NULL, 0},
	{"innocent", NULL, "Do not count the attempt.", NULL, 0},
	{"dead", NULL, "Give them up: they become dead.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_nack_word = {
	.name = "queue nack",
	.operands = "URL#NAME TOKEN ID...",
	.synopsis = "URL#NAME TOKEN ID... [--in DURATION] [--error TEXT] [--innocent] "
		    "[--dead] [--json]",
	.brief = "Give leased messages back to the queue",
	.help = "They can be received again at once, or after a delay.\n"
		"\n"
		"Examples:\n"
		"  wherry queue nack sqlite:shop.db#jobs 0198-token 7 --in 30s\n"
		"  wherry queue nack sqlite:shop.db#jobs 0198-token 7 --dead --error 'no such job'\n",
	.options = nack_options,
	.plain = true,
	.run = run_nack,
};
