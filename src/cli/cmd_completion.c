#include "cli/commands.h"

#include <string.h>

/*
 * Completion for shells, from the tables of commands, options, settings and states.  The
 * script has every word in it, so that completing runs nothing.
 */

/* An option, and its short form. */
static void put_word(const wh_option *o)
{
	(void)printf("--%s ", o->name);
	if (wh_option_short(o->name))
		(void)printf("-%c ", wh_option_short(o->name));
	if (strcmp(o->name, "json") == 0)
		(void)fputs("-o ", stdout);
}

static void put_words(const wh_command *command)
{
	for (const wh_option *o = command->options; o && o->name; o++)
		put_word(o);
	for (const wh_option *o = wh_common_options; !command->plain && o->name; o++)
		put_word(o);
	(void)fputs("--help -h", stdout);
}

static bool takes_database(const wh_command *command)
{
	return strncmp(command->operands, "URL", 3) == 0 ||
	       strncmp(command->operands, "FROM", 4) == 0 ||
	       strcmp(command->operands, "[URL]") == 0;
}

static void put_settings(void)
{
	for (const wherry_setting *s = wherry_config_table(); s->key; s++)
		(void)printf("%s= ", s->key);
}

/* The states of the kinds of tables that the command is for. */
static void put_states(const wh_command *command)
{
	if (command == &wh_cmd_retry) {
		(void)fputs("dead failed all", stdout);
		return;
	}
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		if (i != WHERRY_DONE || command != &wh_cmd_discard)
			(void)printf("%s ", wherry_state_name((wherry_state)i));
	if (wh_is_for(command, WH_OF_QUEUE))
		(void)fputs("ready leased waiting", stdout);
}

static void put_names(void)
{
	for (const wh_command *const *c = wh_commands; *c; c++)
		(void)printf("%s%s", c == wh_commands ? "" : " ", (*c)->name);
}

static bool has_option(const wh_command *command, const char *name)
{
	const wh_option *o = command->options;

	while (o && o->name && strcmp(o->name, name) != 0)
		o++;
	return o && o->name;
}

/* ---- bash ---- */

/* The words behind a command; of "queue" the words that may follow it. */
static void put_bash_case(const wh_command *command)
{
	(void)printf("\t\t'%s '*) words='", command->name);
	if (command->words)
		for (const wh_command *const *w = command->words; *w; w++)
			(void)printf("%s%s", w == command->words ? "" : " ",
				     wh_command_last(*w));
	else
		put_words(command);
	if (strcmp(command->name, "help") == 0) {
		(void)putchar(' ');
		put_names();
	}
	(void)printf("%s' ;;\n", takes_database(command) ? " sqlite: postgres://" : "");
}

static void print_bash(void)
{
	(void)puts(
		"# Completion of wherry for bash; made by `wherry completion bash`.\n"
		"_wherry() {\n"
		"\tlocal current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
		"\tlocal command=\"${COMP_WORDS[1]} \" words=\n"
		"\t[ \"$COMP_CWORD\" -le 2 ] || command+=\"${COMP_WORDS[2]} \"\n"
		"\tCOMPREPLY=()\n"
		"\tif [ \"$COMP_CWORD\" -eq 1 ]; then");
	(void)fputs("\t\twords='", stdout);
	put_names();
	(void)fputs("'\n\telif [ \"$before\" = --set ]; then\n\t\twords='", stdout);
	put_settings();
	(void)puts("'\n\t\tcompopt -o nospace 2>/dev/null\n"
		   "\telif [ \"$before\" = -o ]; then\n\t\twords='json text'\n"
		   "\telif [ \"$before\" = --state ]; then\n\t\tcase $command in");
	for (const wh_command *const *c = wh_commands; *c; c++)
		if (has_option(*c, "state")) {
			(void)printf("\t\t'%s '*) words='", (*c)->name);
			put_states(*c);
			(void)puts("' ;;");
		}
	(void)puts("\t\tesac\n\telse\n\t\tcase $command in");
	for (const wh_command *const *c = wh_commands; *c; c++) {
		for (const wh_command *const *w = (*c)->words; w && *w; w++)
			put_bash_case(*w);
		put_bash_case(*c);
	}
	(void)puts(
		"\t\tesac\n"
		"\t\t[[ $current == -* || $command == 'help '* ]] || words+=' '$(compgen -f -- \"$current\")\n"
		"\tfi\n"
		"\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
		"}\n"
		"complete -F _wherry wherry");
}

/* ---- zsh ---- */

/* A text between single quotes in _arguments: no quotes, brackets or colons. */
static void put_zsh_text(const char *text)
{
	for (const char *p = text; *p; p++)
		(void)putchar(strchr("'[]:", *p) ? ' ' : *p);
}

static void put_zsh_option(const wh_command *command, const wh_option *o)
{
	const wherry_setting *s = wh_setting_find(o->setting);
	const char sign = wh_option_short(o->name);

	if (sign)
		(void)printf(" \\\n\t\t\t'(-%c --%s)'{-%c,--%s}'[", sign, o->name, sign,
			     o->name);
	else
		(void)printf(" \\\n\t\t\t'%s--%s%s[", o->flags & WH_REPEAT ? "*" : "",
			     o->name, o->value ? "=" : "");
	put_zsh_text(o->help ? o->help : s ? s->help : "");
	(void)fputs("]", stdout);
	if (o->value && strcmp(o->name, "set") == 0) {
		(void)fputs(":setting:(", stdout);
		put_settings();
		(void)putchar(')');
	} else if (o->value && strcmp(o->name, "state") == 0) {
		(void)fputs(":state:(", stdout);
		put_states(command);
		(void)putchar(')');
	} else if (o->value) {
		(void)printf(":%s:", o->value);
	}
	(void)putchar('\'');
}

static void put_zsh_case(const wh_command *command)
{
	(void)printf("\t%s)\n\t\t", command->name);
	if (command->words) {
		(void)fputs("_arguments '1:command:(", stdout);
		for (const wh_command *const *w = command->words; *w; w++)
			(void)printf("%s%s", w == command->words ? "" : " ",
				     wh_command_last(*w));
		(void)puts(")' '*:operand:_files' ;;");
		return;
	}
	(void)fputs("_arguments", stdout);
	for (const wh_option *o = command->options; o && o->name; o++)
		put_zsh_option(command, o);
	for (const wh_option *o = wh_common_options; !command->plain && o->name; o++)
		put_zsh_option(command, o);
	(void)printf(
		" \\\n\t\t\t'(-h --help)'{-h,--help}'[Show the help.]' \\\n\t\t\t'*:%s:_files' ;;\n",
		*command->operands ? "operand" : "none");
}

static void print_zsh(void)
{
	(void)puts("#compdef wherry\n"
		   "# Completion of wherry for zsh; made by `wherry completion zsh`.\n"
		   "_wherry() {\n"
		   "\tlocal -a commands=(");
	for (const wh_command *const *c = wh_commands; *c; c++) {
		(void)printf("\t\t'%s:", (*c)->name);
		put_zsh_text((*c)->brief);
		(void)puts("'");
	}
	(void)puts("\t)\n"
		   "\tif (( CURRENT == 2 )); then\n"
		   "\t\t_describe command commands\n"
		   "\t\treturn\n"
		   "\tfi\n"
		   "\tlocal command=$words[2]\n"
		   "\tshift words\n"
		   "\t(( CURRENT-- ))\n"
		   "\tcase $command in");
	for (const wh_command *const *c = wh_commands; *c; c++)
		put_zsh_case(*c);
	(void)puts("\tesac\n"
		   "}\n"
		   "_wherry \"$@\"");
}

/* ---- fish ---- */

/* A text between single quotes. */
static void put_fish_text(const char *text)
{
	for (const char *p = text; *p; p++) {
		if (strchr("'\\", *p))
			(void)putchar('\\');
		(void)putchar(*p);
	}
}

static void put_fish_option(const char *where, const wh_command *command,
			    const wh_option *o)
{
	const wherry_setting *s = wh_setting_find(o->setting);

	(void)printf("complete -c wherry -n '%s' -l %s", where, o->name);
	if (wh_option_short(o->name))
		(void)printf(" -s %c", wh_option_short(o->name));
	if (o->value && strcmp(o->name, "set") == 0) {
		(void)fputs(" -x -a '", stdout);
		put_settings();
		(void)putchar('\'');
	} else if (o->value && strcmp(o->name, "state") == 0) {
		(void)fputs(" -x -a '", stdout);
		put_states(command);
		(void)putchar('\'');
	} else if (o->value) {
		(void)fputs(" -r", stdout);
	}
	(void)fputs(" -d '", stdout);
	put_fish_text(o->help ? o->help : s ? s->help : "");
	(void)puts("'");
}

/* A command, of which `parent` is the first word; NULL: it has one word. */
static void put_fish_command(const wh_command *command, const char *parent)
{
	char where[200];

	(void)snprintf(where, sizeof(where), "%s%s%s__fish_seen_subcommand_from %s",
		       parent ? "__fish_seen_subcommand_from " : "", parent ? parent : "",
		       parent ? "; and " : "", wh_command_last(command));
	for (const wh_option *o = command->options; o && o->name; o++)
		put_fish_option(where, command, o);
	for (const wh_option *o = wh_common_options; !command->plain && o->name; o++)
		put_fish_option(where, command, o);
	for (const wh_command *const *w = command->words; w && *w; w++) {
		(void)printf("complete -c wherry -f -n '%s' -a %s -d '", where,
			     wh_command_last(*w));
		put_fish_text((*w)->brief);
		(void)puts("'");
		put_fish_command(*w, command->name);
	}
}

static void print_fish(void)
{
	(void)puts("# Completion of wherry for fish; made by `wherry completion fish`.");
	for (const wh_command *const *c = wh_commands; *c; c++) {
		(void)printf("complete -c wherry -f -n __fish_use_subcommand -a %s -d '",
			     (*c)->name);
		put_fish_text((*c)->brief);
		(void)puts("'");
		put_fish_command(*c, NULL);
	}
	(void)puts("complete -c wherry -l help -s h -d 'Show the help.'");
}

static wh_exit run(wh_args *args)
{
	const char *shell = wh_operand(args, 0);

	if (strcmp(shell, "bash") == 0)
		print_bash();
	else if (strcmp(shell, "zsh") == 0)
		print_zsh();
	else if (strcmp(shell, "fish") == 0)
		print_fish();
	else
		return wh_usage(args->command,
				"'%s' is not supported: write bash, zsh or fish", shell);
	return WH_EXIT_DONE;
}

const wh_command wh_cmd_completion = {
	.name = "completion",
	.operands = "SHELL",
	.synopsis = "bash|zsh|fish",
	.brief = "Print the completion script for a shell",
	.help = "The Debian package installs the scripts.\n"
		"\n"
		"Examples:\n"
		"  . <(wherry completion bash)\n"
		"  wherry completion zsh > ~/.zfunc/_wherry\n"
		"  wherry completion fish > ~/.config/fish/completions/wherry.fish\n",
	.plain = true,
	.run = run,
};
