/* A command line, a word a line: refused with a reason and a way out, or each operand and
 * option is one of its words, and as many as the command takes. */
#include "fuzz.h"

#include "cli/cli.h"

enum { WORDS = 32 };

typedef struct line {
	char *text;
	char *words[WORDS];
	int n;
} line;

static void split(line *l, const uint8_t *data, size_t len)
{
	l->text = fuzz_text(data, len);
	l->n = 0;
	for (char *s = l->text; *s && l->n < WORDS;) {
		size_t n = strcspn(s, "\n");

		l->words[l->n++] = s;
		s += n;
		if (*s)
			*s++ = 0;
	}
}

static bool is_given(const line *l, const char *text)
{
	for (int i = 0; i < l->n; i++) {
		const char *equals = strchr(l->words[i], '=');

		if (text == l->words[i] || (equals && text == equals + 1))
			return true;
	}
	return false;
}

static void ask(const wh_args *args, const wh_option *o)
{
	int64_t number = -7, us = -7;
	unsigned states = 0;

	if (!wh_arg(args, o->name))
		return;
	if (wh_arg_count(args, o->name, 1, 100, &number))
		CHECK(number >= 1 && number <= 100);
	else
		CHECK(number == -7);
	CHECK(wh_arg_duration(args, o->name, &us) ? us >= 0 : us == -7);
	if (wh_arg_states(args, o->name, wherry_state_name, &states))
		CHECK(states < 1u << WHERRY_STATE_COUNT);
}

static void check_parsed(const line *l, const wh_args *args)
{
	const wh_command *command = args->command;

	for (size_t i = 0; i < args->n_operands; i++)
		CHECK(is_given(l, wh_operand(args, i)));
	CHECK(!wh_operand(args, args->n_operands));
	for (size_t i = 0; i < args->n_given; i++) {
		const wh_given *given = &args->given[i];

		CHECK(!given->option->value == !given->value);
		CHECK(!given->value || is_given(l, given->value));
	}
	for (const wh_option *o = command->options; o && o->name; o++) {
		CHECK(args->help || !(o->flags & WH_REQUIRED) || wh_arg(args, o->name));
		ask(args, o);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	FILE *before = stderr;
	const wh_command *command;
	char *said = NULL;
	size_t said_len = 0;
	wh_args args;
	line l;

	split(&l, data, len);
	command = l.n ? wh_command_find(l.words[0]) : NULL;
	if (!command) {
		if (l.n)
			CHECK(wh_command_nearest(l.words[0]) == NULL ||
			      wh_command_find(wh_command_nearest(l.words[0])));
		free(l.text);
		return 0;
	}
	stderr = open_memstream(&said, &said_len);
	if (!stderr)
		abort();
	if (wh_args_parse(command, l.n - 1, l.words + 1, &args)) {
		check_parsed(&l, &args);
	} else {
		(void)fflush(stderr);
		CHECK(strncmp(said, "wherry: ", 8) == 0);
		CHECK(strstr(said, "\n  try: wherry help "));
	}
	wh_args_clear(&args);
	(void)fclose(stderr);
	stderr = before;
	free(said);
	free(l.text);
	return 0;
}
