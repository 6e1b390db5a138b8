#include "cli/cli.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/target.h"
#include "config/settings.h"
#include "db/driver.h"

const wh_option wh_common_options[] = {
	{"set", "KEY=VALUE", "Any setting; `wherry help settings` lists them.", NULL,
	 WH_REPEAT},
	{0},
};

static const wh_option help_option = {"help", NULL, "", NULL, 0};

/* ---- finding ---- */

/* One-character forms of the options of this name, of whichever command has it. */
static const struct {
	char sign;
	const char *name;
} shorts[] = {
	{'h', "help"}, {'q', "quiet"}, {'v', "verbose"}, {'y', "yes"}, {'n', "dry-run"},
};

char wh_option_short(const char *name)
{
	for (size_t i = 0; i < sizeof(shorts) / sizeof(*shorts); i++)
		if (strcmp(shorts[i].name, name) == 0)
			return shorts[i].sign;
	return 0;
}

/* The option of a one-character form; NULL: there is none. */
static const char *name_of_short(char sign)
{
	for (size_t i = 0; i < sizeof(shorts) / sizeof(*shorts); i++)
		if (shorts[i].sign == sign)
			return shorts[i].name;
	return NULL;
}

static const wh_option *find_option(const wh_command *command, const char *name,
				    size_t len)
{
	const wh_option *tables[] = {command->options,
				     command->plain ? NULL : wh_common_options};

	if (len == 4 && memcmp(name, "help", 4) == 0)
		return &help_option;
	for (size_t i = 0; i < 2; i++)
		for (const wh_option *o = tables[i]; o && o->name; o++)
			if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
				return o;
	return NULL;
}

static const char *option_at(const void *ctx, size_t i)
{
	const wh_command *command = ctx;

	for (const wh_option *o = command->options; o && o->name; o++)
		if (i-- == 0)
			return o->name;
	for (const wh_option *o = wh_common_options; !command->plain && o->name; o++)
		if (i-- == 0)
			return o->name;
	return i == 0 ? help_option.name : NULL;
}

static const char *command_at(const void *ctx, size_t i)
{
	(void)ctx;
	return wh_commands[i] ? wh_commands[i]->name : NULL;
}

const wh_command *wh_command_find(const char *name)
{
	for (const wh_command *const *c = wh_commands; *c; c++)
		if (strcmp((*c)->name, name) == 0)
			return *c;
	return NULL;
}

const char *wh_command_nearest(const char *name)
{
	return wh_nearest(name, command_at, NULL);
}

const char *wh_command_last(const wh_command *command)
{
	const char *blank = strrchr(command->name, ' ');

	return blank ? blank + 1 : command->name;
}

static const char *word_at(const void *ctx, size_t i)
{
	const wh_command *command = ctx;

	return command->words[i] ? wh_command_last(command->words[i]) : NULL;
}

const wh_command *wh_command_word(const wh_command *command, const char *word)
{
	for (const wh_command *const *c = command->words; word && c && *c; c++)
		if (strcmp(wh_command_last(*c), word) == 0)
			return *c;
	return NULL;
}

const char *wh_command_word_nearest(const wh_command *command, const char *word)
{
	return wh_nearest(word, word_at, command);
}

const wherry_setting *wh_setting_find(const char *key)
{
	for (const wherry_setting *s = wherry_config_table(); key && s->key; s++)
		if (strcmp(s->key, key) == 0)
			return s;
	return NULL;
}

/* ---- taking one option ---- */

static bool take(wh_args *args, const wh_option *option, const char *value)
{
	for (size_t i = 0; i < args->n_given; i++)
		if (args->given[i].option == option && !(option->flags & WH_REPEAT)) {
			(void)wh_usage(args->command, "--%s is given twice",
				       option->name);
			return false;
		}
	args->given[args->n_given++] = (wh_given){option, value};
	return wh_apply_option(args, option, value);
}

/* Options that named the table in builds of before 0.1. */
static bool is_name_of_table(const char *name, size_t len)
{
	static const char *const names[] = {"table", "queue", "type"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
			return true;
	return false;
}

/* Print that the command has no option of this name, and what is used instead. */
static void refuse_option(const wh_args *args, const char *name, size_t len)
{
	const char *operands = args->command->operands;
	char *word = strndup(name, len);
	const char *near = word ? wh_nearest(word, option_at, args->command) : NULL;

	if (is_name_of_table(name, len))
		(void)wh_usage(args->command,
			       "there is no --%.*s: the URL names the table, as in "
			       "sqlite:shop.db#jobs or sqlite:shop.db#delayed/mail",
			       (int)len, name);
	else if (len == 4 && memcmp(name, "body", 4) == 0 && strstr(operands, "[BODY]"))
		(void)wh_usage(args->command,
			       "there is no --body: the body follows the URL, as in "
			       "`wherry %s sqlite:shop.db%s hello`",
			       args->command->name,
			       strstr(operands, "/QUEUE") ? "#delayed/mail"
			       : strchr(operands, '#')    ? "#jobs"
							  : "");
	else
		(void)wh_usage(args->command, "unknown option --%.*s%s%s%s", (int)len,
			       name, near ? "; did you mean --" : "", near ? near : "",
			       near ? "?" : "");
	free(word);
}

/* One "--name", "--name=value" or "--name value" at argv[*at]. */
static bool parse_option(wh_args *args, int argc, char **argv, int *at)
{
	const char *name = argv[*at] + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const wh_option *option = find_option(args->command, name, len);
	const char *value = equals ? equals + 1 : NULL;

	if (!option) {
		refuse_option(args, name, len);
		return false;
	}
	if (option == &help_option) {
		args->help = true;
		return true;
	}
	if (!option->value && value) {
		(void)wh_usage(args->command, "--%s takes no value", option->name);
		return false;
	}
	if (option->value && !value) {
		if (*at + 1 >= argc) {
			(void)wh_usage(args->command, "--%s needs a value: --%s %s",
				       option->name, option->name, option->value);
			return false;
		}
		value = argv[++*at];
	}
	return take(args, option, value);
}

/* "-q", or "-o json", which is --json. */
static bool parse_short(wh_args *args, int argc, char **argv, int *at)
{
	const char *word = argv[*at], *name = word[2] ? NULL : name_of_short(word[1]);
	const wh_option *option =
		name ? find_option(args->command, name, strlen(name)) : NULL;

	if (strcmp(word, "-o") == 0) {
		const char *format = *at + 1 < argc ? argv[++*at] : "";

		if (strcmp(format, "text") == 0)
			return true;
		option = find_option(args->command, "json", 4);
		if (option && strcmp(format, "json") == 0)
			return take(args, option, NULL);
		(void)wh_usage(args->command,
			       option ? "-o '%s': write json or text"
				      : "-o %s: it prints text only",
			       format);
		return false;
	}
	if (option == &help_option)
		args->help = true;
	if (option)
		return option == &help_option || take(args, option, NULL);
	(void)wh_usage(args->command, "unknown option %s%s%s", word,
		       name ? ": it has no --" : "", name ? name : "");
	return false;
}

/* ---- the whole line ---- */

/* The least and the greatest number of operands for a text such as "FROM TO [ID]".
 * "ID..." allows any number. */
static void operand_bounds(const char *operands, size_t *least, size_t *most)
{
	*least = *most = 0;
	for (const char *p = operands; *p;) {
		size_t len = strcspn(p, " ");

		(*most)++;
		if (*p != '[')
			(*least)++;
		if (memmem(p, len, "...", 3))
			*most = SIZE_MAX;
		p += len;
		p += strspn(p, " ");
	}
}

static bool check_operands(const wh_args *args)
{
	const wh_command *command = args->command;
	size_t least, most;

	operand_bounds(command->operands, &least, &most);
	if (args->n_operands < least) {
		(void)wh_usage(command, "%s needs %s%s", command->name, command->operands,
			       args->n_operands ||
					       strncmp(command->operands, "URL", 3) != 0
				       ? ""
				       : ", or the database in WHERRY_URL");
		return false;
	}
	if (args->n_operands > most) {
		/* WHERRY_URL was put before what could be a name. */
		bool name = args->target && !*args->target && most == 1;

		(void)wh_usage(command, "'%s' is one too many: wherry %s %s%s%s%s",
			       args->operands[most], command->name, command->synopsis,
			       name ? "; @" : "", name ? args->operands[most] : "",
			       name ? " names a table of the database in WHERRY_URL"
				    : "");
		return false;
	}
	for (const wh_option *o = command->options; o && o->name; o++)
		if ((o->flags & WH_REQUIRED) && !wh_arg(args, o->name)) {
			(void)wh_usage(command, "%s needs --%s %s", command->name,
				       o->name, o->value);
			return false;
		}
	return true;
}

static bool parse_words(wh_args *args, int argc, char **argv)
{
	bool options = true;

	for (int i = 0; i < argc && !args->help; i++) {
		if (options && strcmp(argv[i], "--") == 0) {
			options = false;
		} else if (options && strncmp(argv[i], "--", 2) == 0) {
			if (!parse_option(args, argc, argv, &i))
				return false;
		} else if (options && argv[i][0] == '-' && argv[i][1]) {
			if (!parse_short(args, argc, argv, &i))
				return false;
		} else {
			args->operands[args->n_operands++] = argv[i];
		}
	}
	return true;
}

bool wh_args_parse(const wh_command *command, int argc, char **argv, wh_args *args)
{
	/* Room for operands that insert_operand() adds. */
	size_t room = (size_t)argc + 3;
	wherry_error err = WHERRY_ERROR_INIT;

	*args = (wh_args){.command = command};
	wh_report_on(args);
	args->given = calloc(room, sizeof(*args->given));
	args->operands = calloc(room, sizeof(*args->operands));
	if (!args->given || !args->operands) {
		(void)wh_complain(NULL, "out of memory");
		return false;
	}
	if (wherry_config_new(&args->config, &err) != WHERRY_OK ||
	    (command->preset &&
	     wherry_config_set(args->config, command->preset, "on", &err) != WHERRY_OK)) {
		(void)wh_report(&err);
		return false;
	}
	if (!parse_words(args, argc, argv))
		return false;
	if (args->help)
		return true;
	/* These come first: their messages help more than that of a missing option. */
	if (!wh_take_target(args))
		return false;
	if (!check_operands(args))
		return false;
	return true;
}

void wh_args_clear(wh_args *args)
{
	wherry_config_free(args->config);
	wh_report_on(NULL);
	free(args->given);
	free(args->operands);
	free(args->target);
	free(args->from);
	free(args->to);
	*args = (wh_args){0};
}

/* ---- asking ---- */

const char *wh_operand(const wh_args *args, size_t i)
{
	return i < args->n_operands ? args->operands[i] : NULL;
}

/* The next time that an option was given, from index `from` on; NULL: there is none.  An
 * option that the command does not have is a bug in the command. */
static const wh_given *find_given(const wh_args *args, const char *name, size_t from)
{
	assert(find_option(args->command, name, strlen(name)));
	for (size_t i = from; i < args->n_given; i++)
		if (strcmp(args->given[i].option->name, name) == 0)
			return &args->given[i];
	return NULL;
}

bool wh_arg_known(const wh_args *args, const char *name)
{
	return find_option(args->command, name, strlen(name));
}

const char *wh_arg(const wh_args *args, const char *name)
{
	const wh_given *given = find_given(args, name, 0);

	return given ? given->value : NULL;
}

bool wh_arg_on(const wh_args *args, const char *name)
{
	return find_given(args, name, 0) != NULL;
}

const char *wh_arg_next(const wh_args *args, const char *name, size_t *at)
{
	const wh_given *given = find_given(args, name, *at);

	if (!given)
		return NULL;
	*at = (size_t)(given - args->given) + 1;
	return given->value;
}

bool wh_arg_count(const wh_args *args, const char *name, int64_t least, int64_t most,
		  int64_t *out)
{
	const char *text = wh_arg(args, name);
	int64_t n;

	if (!text)
		return true;
	if (!wh_parse_int(text, &n) || n < least || n > most) {
		if (most == INT64_MAX)
			(void)wh_usage(args->command,
				       "--%s %s: write a number, %lld or more", name,
				       text, (long long)least);
		else
			(void)wh_usage(args->command,
				       "--%s %s: write a number from %lld to %lld", name,
				       text, (long long)least, (long long)most);
		return false;
	}
	*out = n;
	return true;
}

bool wh_arg_duration(const wh_args *args, const char *name, int64_t *out_us)
{
	const char *text = wh_arg(args, name);
	wherry_error err = WHERRY_ERROR_INIT;

	if (!text || wh_duration_parse(text, out_us, &err) == WHERRY_OK)
		return true;
	(void)wh_usage(args->command, "--%s: %s", name, err.message);
	return false;
}

static const char *state_at(const void *ctx, size_t i)
{
	const wh_state_names *names = ctx;

	return i < WHERRY_STATE_COUNT ? (*names)((wherry_state)i) : NULL;
}

static bool add_state(const wh_args *args, const char *word, wh_state_names names,
		      unsigned *out)
{
	const char *near;

	for (size_t i = 0; i < WHERRY_STATE_COUNT; i++)
		if (strcmp(state_at(&names, i), word) == 0) {
			*out |= 1u << i;
			return true;
		}
	near = wh_nearest(word, state_at, &names);
	if (near)
		(void)wh_usage(args->command, "unknown state '%s'; did you mean '%s'?",
			       word, near);
	else if (names == wherry_state_name)
		(void)wh_usage(args->command, "unknown state '%s'", word);
	else
		(void)wh_usage(args->command,
			       "unknown state '%s': messages of a queue are ready, "
			       "leased, waiting or dead",
			       word);
	return false;
}

bool wh_arg_states(const wh_args *args, const char *name, wh_state_names names,
		   unsigned *out)
{
	const char *text = wh_arg(args, name);
	char word[32];

	if (text && !*text) {
		(void)wh_usage(args->command, "--%s is empty: name a state", name);
		return false;
	}
	while (text && *text) {
		size_t n = strcspn(text, ",");

		(void)snprintf(word, sizeof(word), "%.*s", (int)n, text);
		if (!add_state(args, word, names, out))
			return false;
		text += n + (text[n] == ',');
	}
	return true;
}
