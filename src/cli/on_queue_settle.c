/*
 * ack and nack on a queue.
 */
#include <inttypes.h>

#include "base/text.h"
#include "cli/again.h"
#include "cli/on_queue.h"

enum { IDS_MOST = 1000 };

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
	if (!out->n)
		(void)wh_usage(args->command,
			       "which messages? write their ids behind the token: wherry "
			       "%s%s TOKEN ID...",
			       args->command->name, args->target);
	return out->n > 0;
}

static wh_exit settled(const wh_args *args, wherry_code code, const wherry_error *err,
		       int64_t n, const char *what)
{
	int64_t asked = (int64_t)args->n_operands - 2;
	wh_exit status;

	if (code != WHERRY_OK && code != WHERRY_STALE)
		return wh_report(err);
	status = wh_print_settled(args, what, n, 0, asked - n);
	return code == WHERRY_OK ? status : wh_report(err);
}

wh_exit wh_on_queue_ack(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	int64_t n = 0;
	leased l;

	if (!read_leased(args, &l))
		return WH_EXIT_USAGE;
	code = wherry_queue_ack(s->queue, l.token, l.ids, l.n, &n, &err);
	return settled(args, code, &err, n, "acknowledged");
}

wh_exit wh_on_queue_nack(const wh_args *args, wh_session *s)
{
	wherry_nack how = WHERRY_NACK(.error = wh_arg(args, "error"),
				      .not_counted = wh_arg_on(args, "not-counted"));
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	int64_t n = 0;
	leased l;

	if (wh_arg_on(args, "dead") && (wh_arg(args, "in") || how.not_counted))
		return wh_usage(args->command,
				"--dead gives the messages up: leave --in and "
				"--not-counted out");
	if (!read_leased(args, &l) || !wh_arg_duration(args, "in", &how.delay_us))
		return WH_EXIT_USAGE;
	code = wh_arg_on(args, "dead")
		       ? wherry_queue_dead_letter(s->queue, l.token, l.ids, l.n,
						  how.error, &n, &err)
		       : wherry_queue_nack(s->queue, l.token, l.ids, l.n, &how, &n, &err);
	return settled(args, code, &err, n,
		       wh_arg_on(args, "dead") ? "dead" : "returned");
}
