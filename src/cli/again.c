#include "cli/again.h"

#include <inttypes.h>
#include <string.h>

bool wh_again_filter(const wh_args *args, wherry_filter *out)
{
	wherry_filter f =
		WHERRY_FILTER(.ident = wh_operand(args, 1),
			      .topic = wh_arg(args, "topic"), .key = wh_arg(args, "key"));
	bool conditions = f.topic || f.key;
	int ways;

	if (wh_arg_known(args, "since") && wh_arg(args, "since")) {
		conditions = true;
		if (!wh_arg_duration(args, "since", &f.since_us))
			return false;
	}
	ways = (f.ident != NULL) + wh_arg_on(args, "all") + conditions;
	if (ways != 1) {
		(void)wh_usage(args->command, "%s: wherry %s %s",
			       ways ? "an ID, --all or conditions: only one of them"
				    : "which messages? none is named",
			       args->command->name, args->command->synopsis);
		return false;
	}
	*out = f;
	return true;
}

static wherry_code take_state(void *ctx, const wherry_row *row)
{
	*(wherry_state *)ctx = row->state;
	return WHERRY_OK;
}

/* Print why the message that was named was not changed. */
static wh_exit explain(wh_session *s, const wh_again *again, const char *ident)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_state state = WHERRY_PENDING;

	if (wherry_outbox_show(s->outbox, ident, take_state, &state, &err) != WHERRY_OK)
		return wh_report(&err);
	return wh_complain(NULL, "message %s is %s, not %s", ident,
			   wherry_state_name(state), again->wanted);
}

wh_exit wh_again_run(const wh_args *args, wh_session *s, const wh_again *again,
		     const wherry_filter *filter)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status = WH_EXIT_DONE;
	int64_t n = 0;

	if (again->change(s->outbox, filter, &n, &err) != WHERRY_OK)
		status = wh_report(&err);
	else if (!n && filter->ident)
		status = explain(s, again, filter->ident);
	else if (wh_arg_on(args, "json"))
		(void)printf("{\"%s\":%lld}\n", again->did, (long long)n);
	else
		(void)printf("%lld message%s %s %s\n", (long long)n, wh_plural(n),
			     n == 1 ? "is" : "are", again->says);
	if (n)
		wh_audit(args, s->table, n);
	return status;
}

wh_exit wh_print_settled(const wh_args *args, const char *did, int64_t n,
			 int64_t superseded, int64_t lost)
{
	if (wh_arg_on(args, "json")) {
		(void)printf("{\"%s\":%" PRId64 ",\"superseded\":%" PRId64
			     ",\"lease_lost\":%" PRId64 "}\n",
			     did, n, superseded, lost);
	} else {
		(void)printf("%" PRId64 " message%s %s", n, wh_plural(n), did);
		if (superseded)
			(void)printf(", %" PRId64 " superseded", superseded);
		if (lost)
			(void)printf(", %" PRId64 " lease lost", lost);
		(void)putchar('\n');
	}
	return superseded || lost ? WH_EXIT_FAILED : WH_EXIT_DONE;
}

void wh_print_discarded(const wh_args *args, int64_t n)
{
	wh_print_deleted(args, (const wh_count[]){{"discarded", n}, {NULL, 0}},
			 "%" PRId64 " message%s discarded", n, wh_plural(n));
}
