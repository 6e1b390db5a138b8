#include "cli/commands.h"

#include <unistd.h>

#include "base/env.h"
#include "cli/doctor.h"
#include "cli/on_delayed.h"
#include "cli/on_inbox.h"
#include "cli/on_queue.h"

/* Print the status of a table once. */
typedef wh_exit (*show_fn)(const wh_args *args, wh_session *s);

static const show_fn shows[WH_KINDS] = {
	[WH_OF_OUTBOX] = wh_on_outbox_status,
	[WH_OF_QUEUE] = wh_on_queue_status,
	[WH_OF_DELAYED] = wh_on_delayed_status,
	[WH_OF_INBOX] = wh_on_inbox_status,
};

/* Print the status repeatedly, until interrupted or the reader closes the pipe.  A
 * terminal shows only the last status. */
static wh_exit watch(const wh_args *args, show_fn print, wh_session *s, int64_t every_us)
{
	bool terminal = wh_terminal_width(STDOUT_FILENO) > 0;
	wh_exit status = WH_EXIT_DONE;

	while (status == WH_EXIT_DONE && !ferror(stdout)) {
		if (terminal)
			(void)fputs("\033[H\033[2J", stdout);
		status = print(args, s);
		if (!terminal && !wh_arg_on(args, "json"))
			(void)putchar('\n');
		if (fflush(stdout) != 0)
			return WH_EXIT_FAILED;
		wh_sleep(&wh_env_system, every_us);
	}
	return status;
}

static wh_exit run(const wh_args *args, wh_session *s)
{
	int64_t every_us = 2 * WH_SECOND;

	if (!wh_arg_duration(args, "every", &every_us))
		return WH_EXIT_USAGE;
	return wh_arg_on(args, "watch") || wh_arg(args, "every")
		       ? watch(args, shows[s->kind], s, every_us)
		       : shows[s->kind](args, s);
}

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run},
	[WH_OF_QUEUE] = {.run = run},
	[WH_OF_DELAYED] = {.run = run},
	[WH_OF_INBOX] = {.run = run},
};

static const wh_option options[] = {
	{"watch", NULL, "Show it again and again, until it is interrupted.", NULL, 0},
	{"every", "D", "How often, with --watch. (default: 2s)", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_status = {
	.name = "status",
	.operands = "URL",
	.synopsis = "URL [--watch] [--every D] [--json]",
	.brief = "Say whether all is well, and count the messages by state",
	.help = "The first lines say what is wrong, or that all is well. A message is pending "
		"until it is delivered, processing while a relay tries it alone, and done "
		"afterwards. It is failed until its next attempt is due, and dead when it "
		"needs a person. Ready messages "
		"could be delivered now. Schedules are those of the table cron, if the "
		"database has one.\n"
		"\n"
		"Messages of a queue or a delayed queue are ready, leased, waiting or dead; it "
		"says which relays work on them. Of an inbox it counts the ids.\n"
		"\n"
		"Examples:\n"
		"  wherry status sqlite:shop.db\n"
		"  wherry status sqlite:shop.db --watch\n"
		"  wherry status sqlite:shop.db --json | jq .ready\n"
		"  wherry status sqlite:shop.db#jobs\n"
		"  wherry status sqlite:shop.db#delayed/mail\n"
		"  wherry status sqlite:shop.db#inbox\n",
	.options = options,
	.kinds = kinds,
};
