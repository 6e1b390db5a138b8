/*
 * The URL is for another command, or another URL for the command: which one to use.
 */
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "cli/target.h"

/* Commands to use instead of a command that is for outboxes only.  NULL: there is no such
 * command. */
typedef struct instead {
	const char *command;
	const char *queue;   /* Command for queues. */
	const char *why;     /* Why there is no other command. */
	bool early;          /* Say so before an option is found missing. */
	const char *delayed; /* Command for delayed queues. */
	/* Its option for the message that the second operand names; NULL: it has none. */
	const char *option;
	/* The command for delayed queues is for all queues of a table. */
	bool table;
} instead;

static const instead *instead_of(const char *command)
{
	static const instead rows[] = {
		{"purge", "purge", NULL, true, "dead", NULL, false},
		{"enqueue", "send", NULL, true, "offer", "key", false},
		{"init", "create", NULL, true, "create", NULL, true},
		{"drop", "drop", NULL, true, "drop-table", NULL, true},
		{"replay", NULL,
		 "delivered messages of a queue are deleted and cannot be replayed", true,
		 NULL, NULL, false},
		{"list", NULL, NULL, false, "list", NULL, false},
		{"show", NULL, NULL, false, "read", "key", false},
		{"retry", NULL, NULL, false, "dead", "retry", false},
		{"discard", NULL, NULL, false, "drop", "key", false},
		{"outboxes", NULL, NULL, true, "count", NULL, false},
		{"", NULL, NULL, false, "count", NULL, false},
	};
	const instead *row = rows;

	while (*row->command && strcmp(row->command, command) != 0)
		row++;
	return row;
}

/* The URL of the first operand.  NULL: it is missing, or the command takes none. */
static const char *url_of(const wh_args *args)
{
	return args->target && args->n_operands ? args->operands[0] : NULL;
}

bool wh_is_for_outboxes(const wh_args *args)
{
	const char *url = url_of(args);
	const instead *other = instead_of(args->command->name);

	if (!url)
		return false;
	return (wh_url_is_of(url, "queue") && other->early) ||
	       (wh_url_is_of(url, "delayed") && *other->command);
}

/* Print the command for delayed queues that does the same.  If its option has no value yet,
 * print the command that explains the option. */
static wh_exit print_delayed(const wh_args *args, const instead *other, const char *words)
{
	const char *message =
		other->option && args->n_operands > 1 ? args->operands[1] : NULL;
	wh_buf text = WH_BUF_INIT(64 * 1024);
	wh_exit status;

	if (other->option && !message) {
		wh_buf_printf(&text, "help delayed %s", other->delayed);
	} else {
		wh_buf_printf(&text, "delayed %s%s", other->delayed, words);
		if (message) {
			wh_buf_printf(&text, " --%s ", other->option);
			wh_put_word(&text, message);
		}
	}
	status = wh_usage(args->command, "the URL names a delayed queue: use `wherry %s`",
			  wh_buf_str(&text));
	wh_buf_clear(&text);
	return status;
}

static wh_exit refuse_delayed(const wh_args *args, const instead *other)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char *words = NULL;
	wh_exit status;

	if (wh_delayed_words(args->operands[0], other->table, &words, &err) != WHERRY_OK)
		return wh_usage(args->command, "%s", err.message);
	if (other->delayed)
		status = print_delayed(args, other, words);
	else
		status = wh_usage(args->command,
				  "%s; `wherry delayed count%s` shows what is in it",
				  other->why, words);
	free(words);
	return status;
}

static wh_exit refuse_queue(const wh_args *args, const instead *other)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char *words = NULL;
	wh_exit status;

	if (wh_queue_words(args->operands[0], &words, &err) != WHERRY_OK)
		return wh_usage(args->command, "%s", err.message);
	if (other->queue)
		status = wh_usage(args->command,
				  "the URL names a queue: use `wherry queue %s%s`",
				  other->queue, words);
	else if (other->why)
		status = wh_usage(args->command,
				  "%s; `wherry status%s` shows what is in the queue",
				  other->why, args->target);
	else
		status = wh_usage(args->command,
				  "the URL names a queue, and this is for outboxes; "
				  "`wherry status%s` shows what is in it",
				  args->target);
	free(words);
	return status;
}

wh_exit wh_refuse_queue(const wh_args *args)
{
	const instead *other = instead_of(args->command->name);

	return wh_url_is_of(args->operands[0], "delayed") ? refuse_delayed(args, other)
							  : refuse_queue(args, other);
}

/* ---- a URL that is for something else ---- */

/* The commands of a group, such as `wherry queue length`, take the URL of the database. */
static bool refuse_url(const wh_args *args, const char *url, bool delayed)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char *words = NULL;
	wherry_code code = delayed ? wh_delayed_words(url, false, &words, &err)
				   : wh_queue_words(url, &words, &err);

	if (code == WHERRY_OK)
		(void)wh_usage(
			args->command,
			"write the URL of the database, and then the queue: `wherry "
			"%s%s`",
			args->command->name, words);
	else
		(void)wh_usage(args->command, "%s", err.message);
	free(words);
	return false;
}

static bool check_group(const wh_args *args, const char *url, const char *model,
			bool delayed)
{
	size_t len = strlen(model);

	if (strncmp(args->command->name, model, len) == 0 &&
	    args->command->name[len] == ' ')
		return refuse_url(args, url, delayed);
	return true;
}

/* Print the URL with the missing "queue+" or "delayed+". */
static bool complete(const wh_args *args, const char *url, const char *model,
		     bool delayed)
{
	char *shown = wh_url_without_secrets(url);

	(void)wh_usage(args->command, "write %s+ before the URL of a %squeue: %s+%s",
		       model, delayed ? "delayed " : "", model, shown ? shown : "URL");
	free(shown);
	return false;
}

/* The scheme has another word before a "+", such as "delayd+sqlite:". */
static bool has_other_word(const char *url)
{
	return url[strcspn(url, "+:/?")] == '+';
}

static bool correct(const wh_args *args, const char *url, const char *model)
{
	(void)wh_usage(args->command, "the URL begins with '%.*s+': did you mean '%s+'?",
		       (int)strcspn(url, "+"), url, model);
	return false;
}

static bool check_model(const wh_args *args, const char *url, bool delayed)
{
	const char *model = delayed ? "delayed" : "queue";

	if (wh_url_is_of(url, model))
		return check_group(args, url, model, delayed);
	if (!wh_url_has(url, model))
		return true;
	return has_other_word(url) ? correct(args, url, model)
				   : complete(args, url, model, delayed);
}

bool wh_check_url(const wh_args *args)
{
	const char *url = url_of(args);
	bool queue = url && wh_url_is_of(url, "queue");
	bool delayed = url && wh_url_is_of(url, "delayed");

	return !url || ((delayed || check_model(args, url, false)) &&
			(queue || check_model(args, url, true)));
}
