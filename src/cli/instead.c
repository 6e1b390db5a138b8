/*
 * Commands for outboxes alone: which command to use if the URL names a queue.
 */
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "cli/target.h"

/* What to do instead of a command that is for outboxes alone: a command for queues, or why there is
 * none. */
typedef struct instead {
	const char *command, *word, *why;
} instead;

static const instead *instead_of(const char *command)
{
	static const instead rows[] = {
		{"purge", "purge", NULL},
		{"enqueue", "send", NULL},
		{"init", "create", NULL},
		{"drop", "drop", NULL},
		{"replay", NULL,
		 "delivered messages of a queue are deleted and cannot be replayed"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (strcmp(rows[i].command, command) == 0)
			return &rows[i];
	return NULL;
}

bool wh_is_for_outboxes(const wh_args *args)
{
	return args->n_operands && wh_url_is_of(args->operands[0], "queue") &&
	       instead_of(args->command->name);
}

wh_exit wh_refuse_queue(const wh_args *args)
{
	const instead *other = instead_of(args->command->name);
	wherry_error err = WHERRY_ERROR_INIT;
	char *words = NULL;
	wh_exit status;

	if (wh_queue_words(args->operands[0], &words, &err) != WHERRY_OK)
		return wh_usage(args->command, "%s", err.message);
	if (other && other->word)
		status = wh_usage(args->command,
				  "the URL names a queue: use `wherry queue %s%s`",
				  other->word, words);
	else if (other)
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
