/*
 * The URL names a queue or a delayed queue that the command is not for: which one to use.
 */
#include <string.h>

#include "cli/target.h"

/* Commands to use instead of a command that is for outboxes only.  NULL: there is no such
 * command. */
typedef struct instead {
	const char *command;
	const char *queue;   /* Command for queues. */
	const char *why;     /* Why there is no other command. */
	const char *delayed; /* Command for delayed queues. */
	/* Its option for the message that the second operand names; NULL: it has none. */
	const char *option;
} instead;

static const instead *instead_of(const char *command)
{
	static const instead rows[] = {
		{"purge", "queue purge", NULL, "delayed dead", NULL},
		{"enqueue", "queue send", NULL, "delayed offer", "key"},
		{"init", "queue create", NULL, "delayed create", NULL},
		{"drop", "queue drop", NULL, "delayed drop-table", NULL},
		{"replay", NULL,
		 "delivered messages of a queue are deleted and cannot be replayed", NULL,
		 NULL},
		{"list", NULL, NULL, "delayed list", NULL},
		{"show", NULL, NULL, "delayed read", "key"},
		{"retry", NULL, NULL, "delayed dead", "retry"},
		{"discard", NULL, NULL, "delayed drop", "key"},
		{"outboxes", NULL, NULL, "delayed count", NULL},
		{"", NULL, NULL, NULL, NULL},
	};
	const instead *row = rows;

	while (*row->command && strcmp(row->command, command) != 0)
		row++;
	return row;
}

/* Print the command for delayed queues that does the same.  If its option has no value yet,
 * print the command that explains the option. */
static void refuse_delayed(const wh_args *args, const instead *other)
{
	const char *message =
		other->option && args->n_operands > 1 ? args->operands[1] : NULL;
	wh_buf text = WH_BUF_INIT(64 * 1024);

	if (!other->delayed) {
		(void)wh_usage(args->command,
			       "%s; `wherry delayed count%s` shows what is in it",
			       other->why, args->target);
		return;
	}
	if (other->option && !message) {
		wh_buf_printf(&text, "help %s", other->delayed);
	} else {
		wh_buf_printf(&text, "%s%s", other->delayed, args->target);
		if (message) {
			wh_buf_printf(&text, " --%s ", other->option);
			wh_put_word(&text, message);
		}
	}
	(void)wh_usage(args->command, "the URL names a delayed queue: use `wherry %s`",
		       wh_buf_str(&text));
	wh_buf_clear(&text);
}

bool wh_takes_delayed(const wh_args *args)
{
	const instead *other = instead_of(args->command->name);

	if (!*args->table.queue || !*other->command)
		return true;
	refuse_delayed(args, other);
	return false;
}

wh_exit wh_refuse_queue(const wh_args *args)
{
	const instead *other = instead_of(args->command->name);

	if (other->queue)
		return wh_usage(args->command, "the URL names a queue: use `wherry %s%s`",
				other->queue, args->target);
	return wh_usage(args->command, "%s; `wherry status%s` shows what is in the queue",
			other->why ? other->why : "the URL names a queue, not an outbox",
			args->target);
}
