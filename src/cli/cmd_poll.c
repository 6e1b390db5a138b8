#include "cli/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/deadline.h"
#include "cli/item.h"
#include "delayed/delayed.h"

enum {
	LEASE_STANDARD_US = 30000000,
	POLL_MOST = 10000,
	TOKENS_MOST = 1000,
	ATTEMPTS_MOST = 1000000
};

typedef struct polling {
	const wh_session *session;
	bool json;
	char **tokens; /* Of the messages printed, to give them back. */
	size_t n, cap;
} polling;

/* Remember the token of a message before it is printed. */
static wherry_code remember(polling *p, const char *token)
{
	if (p->n == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 16;
		char **tokens = realloc(p->tokens, cap * sizeof(*tokens));

		if (!tokens)
			return WHERRY_NOMEM;
		p->tokens = tokens;
		p->cap = cap;
	}
	p->tokens[p->n] = strdup(token);
	if (!p->tokens[p->n])
		return WHERRY_NOMEM;
	p->n++;
	return WHERRY_OK;
}

static void forget_all(polling *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->tokens[i]);
	free(p->tokens);
}

/* Give back messages whose output was not written whole: nobody else knows their
 * tokens. */
static wh_exit give_back(const polling *p, wh_session *s)
{
	wherry_ack_outcome outcomes[TOKENS_MOST];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; i < p->n && code == WHERRY_OK; i += TOKENS_MOST) {
		size_t n = p->n - i < TOKENS_MOST ? p->n - i : TOKENS_MOST;

		code = wh_delayed_unpoll(s->delayed, (const char *const *)p->tokens + i,
					 n, outcomes, &err);
	}
	return wh_complain(NULL, "the messages could not be printed and %s",
			   code == WHERRY_OK ? "were given back"
					     : "are leased until their time ends");
}

static wherry_code print_message(void *ctx, const wherry_delayed_message *msg)
{
	polling *p = ctx;
	wherry_code code = remember(p, msg->token);
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

	if (code != WHERRY_OK)
		return code;
	if (p->json) {
		const wh_item item = wh_item_of_delayed(msg, 0);

		wh_put_item(&line, &item, true);
	} else {
		wh_buf_put(&line, msg->body, msg->body_len);
		(void)fprintf(stderr, "message '%s' is leased: `wherry ack%s %s`\n",
			      msg->key, p->session->target, msg->token);
	}
	wh_print_buf(&line, "\n");
	wh_buf_clear(&line);
	return WHERRY_OK;
}

static wh_exit run(const wh_args *args, wh_session *s)
{
	wherry_poll_options how =
		WHERRY_POLL_OPTIONS(.limit = 1, .lease_us = LEASE_STANDARD_US);
	polling p = {.session = s, .json = wh_arg_on(args, "json")};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t wait_us = 0, attempts = 0, n = 0;
	wh_deadline deadline;
	wherry_code code;
	bool any;

	if (!wh_arg_duration(args, "wait", &wait_us) ||
	    !wh_arg_duration(args, "lease", &how.lease_us) ||
	    !wh_arg_count(args, "limit", 1, POLL_MOST, &how.limit) ||
	    !wh_arg_count(args, "max-attempts", 1, ATTEMPTS_MOST, &attempts))
		return WH_EXIT_USAGE;
	if (!how.lease_us)
		return wh_usage(args->command, "--lease %s: a lease is longer than 0",
				wh_arg(args, "lease"));
	how.max_attempts = (int32_t)attempts;
	deadline = wh_deadline_in(wait_us);
	do {
		any = true;
		code = wait_us ? wherry_delayed_wait(s->delayed, deadline.left_us, &any,
						     &err)
			       : WHERRY_OK;
		if (code == WHERRY_OK && any)
			code = wherry_delayed_poll(s->delayed, &how, print_message, &p,
						   &n, &err);
	} while (code == WHERRY_OK && any && !n && wh_deadline_is_ahead(&deadline));
	if (p.n && !wh_printed_all()) {
		wh_exit status = give_back(&p, s);

		forget_all(&p);
		return status;
	}
	forget_all(&p);
	if (code != WHERRY_OK)
		return wh_call_failed(args, code, &err);
	if (n)
		return WH_EXIT_DONE;
	(void)fprintf(stderr, "no message is due\n");
	return WH_EXIT_FAILED;
}

static const wh_option poll_options[] = {
	{"wait", "DURATION", "Wait this long for a message, such as 10s.", NULL, 0},
	{"lease", "DURATION", "Nobody else can poll it for this long. (default 30s)",
	 NULL, 0},
	{"limit", "N", "Poll up to this many messages. (default 1)", NULL, 0},
	{"max-attempts", "N",
	 "A message that is due again after this many attempts becomes dead.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_QUEUE] = {.use = "receive"},
	[WH_OF_DELAYED] = {.run = run},
};

const wh_command wh_cmd_poll = {
	.name = "poll",
	.operands = "URL#TABLE/QUEUE",
	.synopsis = "URL#TABLE/QUEUE [--wait DURATION] [--lease DURATION] [--limit N] "
		    "[--max-attempts N] [--json]",
	.brief = "Lease a message that is due, and print its body",
	.help = "The command that acknowledges it goes to standard error. With --json, the "
		"message is one object with all its fields and its token. The exit status is 1 "
		"if no message is due.\n"
		"\n"
		"Examples:\n"
		"  wherry poll sqlite:shop.db#delayed/mail\n"
		"  wherry poll sqlite:shop.db#delayed/mail --wait 10s --lease 5m --json\n",
	.options = poll_options,
	.kinds = kinds,
};
