/*
 * ack and nack on a delayed queue.
 */
#include "cli/again.h"
#include "cli/on_delayed.h"

enum { TOKENS_MOST = 1000 };

typedef struct tokens {
	const char *list[TOKENS_MOST];
	size_t n;
} tokens;

static bool read_tokens(const wh_args *args, tokens *out)
{
	const char *text;

	for (out->n = 0; (text = wh_operand(args, 1 + out->n)) != NULL; out->n++) {
		if (out->n == TOKENS_MOST) {
			(void)wh_usage(args->command, "at most %d tokens at once",
				       TOKENS_MOST);
			return false;
		}
		out->list[out->n] = text;
	}
	return true;
}

/* Print how many were settled, and which were not.  Fails unless all messages were settled. */
static wh_exit print_outcomes(const wh_args *args, const wherry_ack_outcome *outcomes,
			      const tokens *t, const char *done)
{
	static const char *const names[] = {"", "superseded", "lease lost"};
	int64_t n[3] = {0};

	for (size_t i = 0; i < t->n; i++) {
		n[outcomes[i]]++;
		if (outcomes[i] != WHERRY_ACKNOWLEDGED && t->n > 1)
			(void)wh_complain(NULL, "%s: %s", t->list[i], names[outcomes[i]]);
	}
	return wh_print_settled(args, done, n[WHERRY_ACKNOWLEDGED], n[1], n[2]);
}

wh_exit wh_on_delayed_ack(const wh_args *args, wh_session *s)
{
	wherry_ack_outcome outcomes[TOKENS_MOST];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	tokens t;

	if (!read_tokens(args, &t))
		return WH_EXIT_USAGE;
	code = wherry_delayed_ack(s->delayed, t.list, t.n, outcomes, &err);
	return code == WHERRY_OK ? print_outcomes(args, outcomes, &t, "acknowledged")
				 : wh_call_failed(args, code, &err);
}

wh_exit wh_on_delayed_nack(const wh_args *args, wh_session *s)
{
	const char *error = wh_arg(args, "error");
	wherry_ack_outcome outcomes[TOKENS_MOST];
	bool dead = wh_arg_on(args, "dead");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t delay_us = 0;
	wherry_code code;
	tokens t;

	if (!read_tokens(args, &t) || !wh_arg_duration(args, "in", &delay_us))
		return WH_EXIT_USAGE;
	if (dead && wh_arg(args, "in"))
		return wh_usage(
			args->command,
			"--in and --dead are given: a dead message is not due again");
	code = dead ? wherry_delayed_dead_letter(s->delayed, t.list, t.n, error, outcomes,
						 &err)
		    : wherry_delayed_nack(s->delayed, t.list, t.n, delay_us, error,
					  outcomes, &err);
	return code == WHERRY_OK
		       ? print_outcomes(args, outcomes, &t, dead ? "dead" : "returned")
		       : wh_call_failed(args, code, &err);
}
