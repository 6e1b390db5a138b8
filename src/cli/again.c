#include "cli/again.h"

#include <inttypes.h>
#include <string.h>

bool wh_again_filter(const wh_args *args, wherry_outbox_filter *out)
{
	wherry_outbox_filter f = WHERRY_OUTBOX_FILTER(.ident = wh_operand(args, 1),
						      .topic = wh_arg(args, "topic"),
						      .key = wh_arg(args, "key"));
	bool conditions = f.topic || f.key;
	int ways;

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

void wh_print_retried(const wh_args *args, int64_t n, const char *state)
{
	if (wh_arg_on(args, "json"))
		(void)printf("{\"retried\":%" PRId64 "}\n", n);
	else
		(void)printf("%" PRId64 " message%s %s %s again\n", n, wh_plural(n),
			     n == 1 ? "is" : "are", state);
}

void wh_print_discarded(const wh_args *args, int64_t n)
{
	wh_print_deleted(args, (const wh_count[]){{"discarded", n}, {NULL, 0}},
			 "%" PRId64 " message%s discarded", n, wh_plural(n));
}
