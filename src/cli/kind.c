/*
 * The kinds of tables, and which of them a command is for.
 */
#include <string.h>

#include "cli/target.h"
#include "relay/source.h"

static const char *const names[WH_KINDS] = {
	[WH_OF_OUTBOX] = "an outbox",
	[WH_OF_QUEUE] = "a queue",
	[WH_OF_DELAYED] = "a delayed queue",
	[WH_OF_DELAYED_TABLE] = "a table of delayed queues",
	[WH_OF_INBOX] = "an inbox",
	[WH_OF_CRON] = "a table of schedules",
};

/* ---- which kind ---- */

wh_kind wh_kind_of(wherry_db *db, const char *name)
{
	wherry_delayed *delayed = NULL;
	wherry_outbox *outbox = NULL;
	wherry_queue *queue = NULL;
	wherry_inbox *inbox = NULL;
	wherry_cron *cron = NULL;
	wh_kind kind = WH_KINDS;

	if (wherry_outbox_open(db, name, &outbox, NULL) == WHERRY_OK)
		kind = WH_OF_OUTBOX;
	else if (wherry_queue_open(db, name, &queue, NULL) == WHERRY_OK)
		kind = WH_OF_QUEUE;
	else if (wherry_delayed_open(db, name, "any", NULL, &delayed, NULL) == WHERRY_OK)
		kind = WH_OF_DELAYED_TABLE;
	else if (wherry_inbox_open(db, name, &inbox, NULL) == WHERRY_OK)
		kind = WH_OF_INBOX;
	else if (wherry_cron_open(db, name, &cron, NULL) == WHERRY_OK)
		kind = WH_OF_CRON;
	wherry_outbox_close(outbox);
	wherry_queue_close(queue);
	wherry_delayed_close(delayed);
	wherry_inbox_close(inbox);
	wherry_cron_close(cron);
	return kind;
}

const unsigned wh_kind_bits[WH_KINDS + 1] = {
	[WH_OF_OUTBOX] = WHERRY_KIND_OUTBOX,
	[WH_OF_QUEUE] = WHERRY_KIND_QUEUE,
	[WH_OF_DELAYED] = WHERRY_KIND_DELAYED,
	[WH_OF_DELAYED_TABLE] = WHERRY_KIND_DELAYED,
	[WH_OF_INBOX] = WHERRY_KIND_INBOX,
	[WH_OF_CRON] = WHERRY_KIND_CRON,
};

/* ---- what the command does ---- */

/* Append "`wherry discard sqlite:shop.db#jobs --all`" for the use "discard| --all". */
static void put_use(wh_buf *text, const wh_args *args, const char *use)
{
	size_t len = strcspn(use, "|");

	wh_buf_printf(text, "`wherry %.*s%s%s`", (int)len, use, args->target,
		      use + len + (use[len] == '|'));
}

/* Append the kinds that the command is for: "outboxes and queues". */
static void put_kinds(wh_buf *text, const wh_command *command)
{
	static const char *const plural[WH_KINDS] = {
		"outboxes",       "queues",
		"delayed queues", "tables of delayed queues",
		"inboxes",        "tables of schedules"};
	int left = 0;

	for (int i = 0; i < WH_KINDS; i++)
		left += wh_is_for(command, (wh_kind)i);
	for (int i = 0; i < WH_KINDS && left; i++) {
		if (!wh_is_for(command, (wh_kind)i))
			continue;
		left--;
		wh_buf_printf(text, "%s%s", plural[i],
			      left > 1    ? ", "
			      : left == 1 ? " and "
					  : "");
	}
}

wh_exit wh_refuse_kind(const wh_args *args, wh_kind kind)
{
	const wh_command *command = args->command;
	const char *use = command->kinds ? command->kinds[kind].use : NULL;
	wh_buf text = WH_BUF_INIT(64 * 1024);

	wh_buf_printf(&text, "'%s%s%s' is %s", args->table.table,
		      *args->table.queue ? "/" : "", args->table.queue, names[kind]);
	if (use) {
		wh_buf_puts(&text, ": use ");
		put_use(&text, args, use);
	} else if (command->kinds && command->kinds[kind].why) {
		wh_buf_printf(&text, ": %s", command->kinds[kind].why);
	} else if (kind == WH_OF_DELAYED_TABLE && wh_is_for(command, WH_OF_DELAYED)) {
		wh_buf_printf(&text, ": name a queue in it, as in `wherry %s%s/mail`",
			      command->name, args->target);
	} else {
		wh_buf_printf(&text, ", and `wherry %s` is for ", command->name);
		put_kinds(&text, command);
	}
	(void)wh_usage(command, "%s", wh_buf_str(&text));
	wh_buf_clear(&text);
	return WH_EXIT_USAGE;
}

bool wh_tell_other(wherry_db *db, const wh_args *args, const char *name, wh_exit *status)
{
	wh_kind kind = wh_kind_of(db, name);
	wh_buf words = WH_BUF_INIT(64 * 1024);

	if (kind == WH_KINDS)
		return false;
	if (args->command->kinds && *args->table.table && !*args->table.queue) {
		*status = wh_refuse_kind(args, kind);
		return true;
	}
	wh_put_table_of(&words, args->target, wh_operand(args, 0), name);
	if (kind == WH_OF_DELAYED_TABLE)
		(void)wh_complain(NULL,
				  "'%s' has delayed queues: write %s/QUEUE to name one",
				  name, name);
	else
		(void)wh_complain(NULL, "'%s' is %s: `wherry status%s` shows it", name,
				  names[kind], wh_buf_str(&words));
	wh_buf_clear(&words);
	*status = WH_EXIT_FAILED;
	return true;
}

bool wh_allows(const wh_args *args, const wh_without *refused)
{
	for (; refused->option; refused++)
		if (wh_arg(args, refused->option) || wh_arg_on(args, refused->option)) {
			(void)wh_usage(args->command, "--%s: %s", refused->option,
				       refused->why);
			return false;
		}
	return true;
}
