#include "cli/commands.h"

static wh_exit run(wh_args *args)
{
	int64_t age_us = 0, batch = 1000, limit = 0, n = 0;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_exit status;
	wh_session s;

	if (!wh_arg_duration(args, "older-than", &age_us) ||
	    !wh_arg_count(args, "batch", 1, 100000, &batch) ||
	    !wh_arg_count(args, "limit", 1, INT64_MAX, &limit))
		return WH_EXIT_USAGE;
	status = wh_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	code = wherry_outbox_purge(s.box, age_us, batch, limit, &n, &err);
	wh_session_close(&s);
	if (code != WHERRY_OK && n)
		(void)fprintf(stderr, "%lld message%s had been purged when it failed\n",
			      (long long)n, wh_plural(n));
	if (code != WHERRY_OK)
		return wh_report(&err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"purged\":%lld}\n", (long long)n);
	else
		(void)printf("%lld message%s purged\n", (long long)n, wh_plural(n));
	return WH_EXIT_DONE;
}

static const wh_option options[] = {
	{"older-than", "AGE", "Delivered longer ago than this, such as 7d; 0 is all.",
	 NULL, WH_REQUIRED},
	{"batch", "N", "Messages in one transaction. (1 to 100000; default 1000)", NULL,
	 0},
	{"limit", "N", "At most so many.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_purge = {
	.name = "purge",
	.operands = "URL",
	.synopsis = "URL --older-than AGE [--batch N] [--limit N] [--json]",
	.brief = "Delete messages that were delivered long ago",
	.help = "A relay does this by itself, as outbox.retention says. Only done "
		"messages are ever purged. Small batches let producers write in "
		"between.\n"
		"\n"
		"Examples:\n"
		"  wherry purge sqlite:shop.db --older-than 30d\n",
	.options = options,
	.run = run,
};
