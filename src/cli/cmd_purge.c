#include "cli/commands.h"

#include "outbox/outbox.h"

/* A way to purge, and the name of its result. */
typedef struct way {
	wherry_code (*purge)(wherry_outbox *box, int64_t older_than_us, int64_t batch,
			     int64_t max_rows, int64_t *out_n, wherry_error *err);
	const char *did;
} way;

static way choose_way(const wh_args *args)
{
	if (wh_arg_on(args, "archived"))
		return (way){wherry_outbox_purge_archive, "purged"};
	if (wh_arg_on(args, "to-archive"))
		return (way){wherry_outbox_archive, "archived"};
	return (way){wherry_outbox_purge, "purged"};
}

static wh_exit run(wh_args *args)
{
	way to = choose_way(args);
	int64_t age_us = 0, batch = 1000, limit = 0, n = 0;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_exit status;
	wh_session s;

	if (!wh_arg_duration(args, "older-than", &age_us) ||
	    !wh_arg_count(args, "batch", 1, 100000, &batch) ||
	    !wh_arg_count(args, "limit", 1, INT64_MAX, &limit))
		return WH_EXIT_USAGE;
	if (wh_arg_on(args, "archived") && wh_arg_on(args, "to-archive"))
		return wh_usage(args->command,
				"--archived deletes from the archive, --to-archive moves "
				"there: only one of them");
	status = wh_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	if (wh_arg_on(args, "archived") && !*s.box->store.layout.archive) {
		status = wh_usage(args->command, "layout %s has no archive",
				  s.box->store.layout.name);
		wh_session_close(&s);
		return status;
	}
	code = to.purge(s.box, age_us, batch, limit, &n, &err);
	if (n)
		wh_audit(args->command->name, wh_operand(args, 0), s.table, n);
	wh_session_close(&s);
	if (code != WHERRY_OK && n)
		(void)fprintf(stderr, "%lld message%s had been %s when it failed\n",
			      (long long)n, wh_plural(n), to.did);
	if (code != WHERRY_OK)
		return wh_report(&err);
	if (wh_arg_on(args, "json"))
		(void)printf("{\"%s\":%lld}\n", to.did, (long long)n);
	else
		(void)printf("%lld message%s %s\n", (long long)n, wh_plural(n), to.did);
	return WH_EXIT_DONE;
}

static const wh_option options[] = {
	{"older-than", "AGE", "Delivered longer ago than this, such as 7d; 0 is all.",
	 NULL, WH_REQUIRED},
	{"archived", NULL, "Those in the archive instead.", NULL, 0},
	{"to-archive", NULL, "Move them to the archive instead of deleting them.", NULL,
	 0},
	{"batch", "N", "Messages in one transaction. (1 to 100000; default 1000)", NULL,
	 0},
	{"limit", "N", "At most this many.", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_purge = {
	.name = "purge",
	.operands = "URL",
	.synopsis =
		"URL --older-than AGE [--archived|--to-archive] [--batch N] [--limit N] "
		"[--json]",
	.brief = "Delete messages that were delivered long ago",
	.help = "A relay does this by itself, as outbox.retention, relay.on_expiry and "
		"outbox.archive_retention say. Only done messages are ever purged. Small batches let producers write in "
		"between.\n"
		"\n"
		"Examples:\n"
		"  wherry purge sqlite:shop.db --older-than 30d\n"
		"  wherry purge sqlite:shop.db --older-than 365d --archived\n",
	.options = options,
	.run = run,
};
