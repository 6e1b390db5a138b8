#include "cli/commands.h"

#include <string.h>

#include "base/text.h"
#include "publish/driver.h"

/* ---- topics ---- */

/* With the values that are in force for a destination, if one is named. */
static void print_settings(const char *url)
{
	char own[WH_STANDARD_LEN];

	wh_print_paragraphs(
		"Settings are given as --set KEY=VALUE, to any command; some have "
		"an option too. Durations and sizes need a unit: 250ms, "
		"30s, 7d; 64KB, 8MB.\n\n");
	for (const wherry_setting *s = wherry_config_table(); s->key; s++) {
		(void)printf("%s  %s", s->key, s->type);
		if (s->range[0])
			(void)printf(", %s", s->range);
		if (url && wh_publisher_standard(url, NULL,
						 (int)(s - wherry_config_table()), own))
			(void)printf(", for this destination %s\n", own);
		else
			(void)printf(", default %s\n",
				     s->standard[0] ? s->standard : "empty");
		wh_print_wrapped("", 4, s->help);
	}
}

static void print_exits(const char *url)
{
	static const struct {
		int status;
		const char *text;
	} exits[] = {
#define WH_EXIT_ROW(name, number, text) {number, text},
		WH_EXITS(WH_EXIT_ROW)
#undef WH_EXIT_ROW
	};
	char head[16];

	(void)url;
	for (size_t i = 0; i < sizeof(exits) / sizeof(*exits); i++) {
		(void)snprintf(head, sizeof(head), "%4d", exits[i].status);
		wh_print_wrapped(head, 6, exits[i].text);
	}
}

static const char format_text[] =
	"The destinations stdout: and file:PATH write one JSON object a line, and "
	"exec:COMMAND gives its command the body on standard input and the rest in "
	"the environment.\n"
	"\n"
	"  id              the message's place in the outbox\n"
	"  message_id      the same each time it is delivered: drop duplicates by it\n"
	"  topic           what it is about\n"
	"  key             its key, else its aggregate id, else null\n"
	"  aggregate_type  when not empty\n"
	"  aggregate_id    when not empty\n"
	"  trace_id        when set\n"
	"  headers         an object of strings\n"
	"  body            as it is where it is JSON, else a string; or\n"
	"  body_base64     where it is neither JSON nor text\n"
	"  created_at      ISO 8601, UTC; null if a message of a queue does not say\n"
	"  attempts        how many failed before this one\n"
	"\n"
	"In the environment of a command: WHERRY_ID, WHERRY_MESSAGE_ID, WHERRY_TOPIC, "
	"WHERRY_KEY, WHERRY_AGGREGATE_TYPE, WHERRY_AGGREGATE_ID, WHERRY_TRACE_ID, "
	"WHERRY_HEADERS, WHERRY_ATTEMPTS, WHERRY_CREATED_AT.\n"
	"\n"
	"Its exit status says what became of the message:\n"
	"\n"
	"  0         delivered\n"
	"  75        try again later, as any status that is not named here\n"
	"  65        never again: it is dead\n"
	"  126, 127  the command cannot be run: the destination is down, and no\n"
	"            attempt is counted\n";

static void print_format(const char *url)
{
	(void)url;
	wh_print_paragraphs(format_text);
}

static const struct topic {
	const char *name;
	const char *brief;
	void (*print)(const char *url);
} topics[] = {
	{"settings", "every setting, with its default", print_settings},
	{"exit-codes", "what the exit status means", print_exits},
	{"format", "what a destination gets", print_format},
};

enum { N_TOPICS = sizeof(topics) / sizeof(*topics) };

/* ---- the overview: what it is, how to begin, what there is ---- */

static void print_overview(void)
{
	wh_print_paragraphs(
		"Wherry delivers the messages that your database transactions write. "
		"What a transaction commits is delivered, in order per key, whatever is "
		"killed when; "
		"what it rolls back never existed.\n"
		"\n"
		"Begin with three commands:\n"
		"\n"
		"  wherry create sqlite:shop.db\n"
		"  wherry enqueue sqlite:shop.db '{\"order\":1}' --topic orders\n"
		"  wherry relay sqlite:shop.db stdout: --until-empty\n"
		"\n"
		"With WHERRY_URL=sqlite:shop.db in the environment, commands need no URL. "
		"The name of a relay in wherry.yaml stands for its URL, too.\n"
		"\n"
		"Commands:\n");
	for (const wh_command *const *c = wh_commands; *c; c++)
		(void)printf("  %-9s %s\n", (*c)->name, (*c)->brief);
	(void)printf("\n`wherry help COMMAND` explains one, with examples; "
		     "`wherry help TOPIC`:\n");
	for (size_t i = 0; i < N_TOPICS; i++)
		(void)printf("  %-11s %s\n", topics[i].name, topics[i].brief);
}

static const char *name_at(const void *ctx, size_t i)
{
	(void)ctx;
	if (i < N_TOPICS)
		return topics[i].name;
	return wh_commands[i - N_TOPICS] ? wh_commands[i - N_TOPICS]->name : NULL;
}

static wh_exit run(wh_args *args)
{
	const char *name = wh_operand(args, 0);
	const wh_command *command = name ? wh_command_find(name) : NULL;
	const char *near;

	if (!name) {
		print_overview();
		return WH_EXIT_DONE;
	}
	if (command && command->words && wh_operand(args, 1)) {
		const wh_command *word = wh_command_word(command, wh_operand(args, 1));

		if (!word)
			return wh_usage(command, "no command is called '%s %s'", name,
					wh_operand(args, 1));
		wh_print_help(word);
		return WH_EXIT_DONE;
	}
	if (command) {
		wh_print_help(command);
		return WH_EXIT_DONE;
	}
	for (size_t i = 0; i < N_TOPICS; i++)
		if (strcmp(topics[i].name, name) == 0) {
			topics[i].print(wh_operand(args, 1));
			return WH_EXIT_DONE;
		}
	near = wh_nearest(name, name_at, NULL);
	return wh_usage(NULL, "no command and no topic is called '%s'%s%s%s", name,
			near ? "; did you mean '" : "", near ? near : "",
			near ? "'?" : "");
}

const wh_command wh_cmd_help = {
	.name = "help",
	.operands = "[TOPIC] [URL]",
	.synopsis = "[COMMAND [WORD]|settings [DESTINATION]|exit-codes|format]",
	.brief = "Explain a command, the settings, the exit codes or the format",
	.help = "Examples:\n"
		"  wherry help relay\n"
		"  wherry help settings\n"
		"  wherry help settings https:\n",
	.plain = true,
	.run = run,
};
