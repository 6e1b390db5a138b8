#include "cli/commands.h"

#include <inttypes.h>

#include "cli/on_inbox.h"
#include "outbox/outbox.h"

/* Ask before messages are deleted. */
static bool confirm(const wh_session *s, const wh_args *args, int64_t age_us,
		    int64_t limit, int64_t *out_n, wh_exit *status)
{
	bool plan = wh_is_dry(args);
	wherry_error err = WHERRY_ERROR_INIT;
	const char *age = age_us ? wh_arg(args, "older-than") : "";
	int64_t n = 0;

	if (!plan && wh_arg_on(args, "yes"))
		return true;
	if (wh_outbox_count_old(s->outbox, age_us, &n, &err) != WHERRY_OK) {
		*status = wh_report(&err);
		return false;
	}
	if (limit && n > limit)
		n = limit;
	*out_n = n;
	return wh_confirm(args, s->db, status,
			  "delete %" PRId64
			  " message%s of outbox '%s' that %s delivered%s%s%s",
			  n, wh_plural(n), s->table, n == 1 ? "was" : "were",
			  *age ? " longer than " : "", age, *age ? " ago" : "");
}

static wh_exit run_on_outbox(const wh_args *args, wh_session *s)
{
	int64_t age_us = 0, batch = 1000, limit = 0, n = 0, counted = 0;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_exit status;

	if (!wh_arg_duration(args, "older-than", &age_us) ||
	    !wh_arg_count(args, "batch", 1, 100000, &batch) ||
	    !wh_arg_count(args, "limit", 1, INT64_MAX, &limit))
		return WH_EXIT_USAGE;
	if (!confirm(s, args, age_us, limit, &counted, &status))
		return status;
	code = wherry_outbox_purge(s->outbox, age_us, batch, limit, &n, &err);
	if (wh_is_dry(args))
		n = code == WHERRY_OK ? counted : 0;
	if (n)
		wh_audit(args, s->table, n);
	if (code != WHERRY_OK && n)
		(void)fprintf(stderr, "%lld message%s had been purged when it failed\n",
			      (long long)n, wh_plural(n));
	if (code != WHERRY_OK)
		return wh_report(&err);
	wh_print_deleted(args, (const wh_count[]){{"purged", n}, {NULL, 0}},
			 "%" PRId64 " message%s purged", n, wh_plural(n));
	return WH_EXIT_DONE;
}

static const wh_option options[] = {
	{"older-than", "AGE", "Delivered longer ago than this, such as 7d; 0 is all.",
	 NULL, WH_REQUIRED},
	{"batch", "N", "Messages in one transaction. (1 to 100000; default 1000)", NULL,
	 0},
	{"limit", "N", "At most this many; the last segment goes whole.", NULL, 0},
	WH_CONFIRM_OPTIONS,
	WH_JSON_OPTION,
	{0},
};

static const wh_without of_inbox[] = {{"limit", "all ids of that age go"}, {NULL, NULL}};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run_on_outbox},
	[WH_OF_QUEUE] =
		{.why = "messages that were handled are deleted at once; `wherry discard` deletes others"},
	[WH_OF_DELAYED] =
		{.why = "messages that were handled are deleted at once; `wherry discard` deletes others"},
	[WH_OF_INBOX] = {.run = wh_on_inbox_purge, .without = of_inbox},
};

const wh_command wh_cmd_purge = {
	.name = "purge",
	.operands = "URL",
	.synopsis = "URL --older-than AGE [--batch N] [--limit N] " WH_CONFIRM_USAGE
		    " [--json]",
	.brief = "Delete messages that were delivered long ago, or old ids of an inbox",
	.help = "A relay does this by itself, as outbox.retention says. "
		"Only done messages are ever purged; of a log they are as old as the time at which they were written. Small batches let producers write in "
		"between.\n"
		"\n"
		"Of an inbox it deletes ids that were accepted long ago. A message that is delivered "
		"again after that counts as new: keep ids for longer than anybody can retry a "
		"message.\n"
		"\n"
		"Examples:\n"
		"  wherry purge sqlite:shop.db --older-than 30d --dry-run\n"
		"  wherry purge sqlite:shop.db --older-than 30d --yes\n"
		"  wherry purge sqlite:shop.db#inbox --older-than 30d --yes\n",
	.options = options,
	.kinds = kinds,
};
