#include "cli/commands.h"

#include <signal.h>
#include <string.h>

#include "cli/certificates.h"
#include "publish/driver.h"

/* "-h" and the like in the place of a command. */
static const char *alias(const char *word)
{
	static const char *const aliases[][2] = {
		{"-h", "help"},
		{"--help", "help"},
		{"-V", "version"},
		{"--version", "version"},
	};

	for (size_t i = 0; i < sizeof(aliases) / sizeof(*aliases); i++)
		if (strcmp(word, aliases[i][0]) == 0)
			return aliases[i][1];
	return word;
}

/* Commands that had another name in builds of before 0.1, and what does their work now. */
static const char *new_name(const char *old)
{
	static const char *const names[][2] = {
		{"init", "create"},
		{"queue create", "create --kind queue"},
		{"delayed create", "create --kind delayed"},
		{"inbox create", "create --kind inbox"},
		{"cron create", "create --kind cron"},
		{"delayed", "create --kind delayed"},
		{"outboxes", "tables"},
		{"queue send", "send"},
		{"queue receive", "receive"},
		{"queue ack", "ack"},
		{"queue nack", "nack"},
		{"queue list", "list"},
		{"queue peek", "list"},
		{"queue length", "status"},
		{"queue status", "status"},
		{"queue errors", "list --state dead"},
		{"queue retry", "retry"},
		{"queue purge", "discard --all"},
		{"queue inspect", "doctor"},
		{"queue show", "show"},
		{"queue drop", "drop"},
		{"delayed offer", "offer"},
		{"delayed poll", "poll"},
		{"delayed ack", "ack"},
		{"delayed nack", "nack"},
		{"delayed read", "show"},
		{"delayed list", "list"},
		{"delayed count", "status"},
		{"delayed status", "status"},
		{"delayed dead", "list --state dead"},
		{"delayed drop", "discard"},
		{"delayed drop-table", "drop"},
		{"inbox status", "status"},
		{"inbox purge", "purge"},
		{"inbox drop", "drop"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strcmp(old, names[i][0]) == 0)
			return names[i][1];
	return NULL;
}

static wh_exit run_command(const wh_command *command, int argc, char **argv)
{
	wh_args args;
	wh_exit status = WH_EXIT_USAGE;

	if (wh_args_parse(command, argc, argv, &args)) {
		if (args.help) {
			wh_print_help(command);
			status = WH_EXIT_DONE;
		} else {
			status = command->kinds ? wh_run_for_kind(&args)
						: command->run(&args);
		}
	}
	wh_args_clear(&args);
	return status;
}

/* Refuse a command that has another name now.  False: there was none of that name. */
static bool refuse_old(const char *name, const char *word, wh_exit *status)
{
	char both[64];
	const char *now;

	(void)snprintf(both, sizeof(both), "%s%s%s", name, word ? " " : "",
		       word ? word : "");
	now = new_name(both);
	if (now)
		*status = wh_usage(NULL, "there is no '%s': `wherry %s` does it now",
				   both, now);
	return now;
}

/* "queue publish": the second word says which. */
static wh_exit run_word(const wh_command *command, int argc, char **argv)
{
	const wh_command *word = argc ? wh_command_word(command, argv[0]) : NULL;
	wh_exit status;
	const char *near;

	if (word)
		return run_command(word, argc - 1, argv + 1);
	if (!argc || argv[0][0] == '-') {
		wh_print_help(command);
		return argc ? WH_EXIT_DONE : WH_EXIT_USAGE;
	}
	if (refuse_old(command->name, argv[0], &status))
		return status;
	near = wh_command_word_nearest(command, argv[0]);
	return wh_usage(command, "unknown command '%s %s'%s%s%s%s%s", command->name,
			argv[0], near ? "; did you mean '" : "",
			near ? command->name : "", near ? " " : "", near ? near : "",
			near ? "'?" : "");
}

static wh_exit dispatch(int argc, char **argv)
{
	const char *name = argc > 1 ? alias(argv[1]) : "help";
	const wh_command *command = wh_command_find(name);
	wh_exit status;
	const char *near;

	if (command && command->words)
		return run_word(command, argc - 2, argv + 2);
	if (command)
		return run_command(command, argc > 1 ? argc - 2 : 0, argv + 2);
	if ((argc > 2 && refuse_old(name, argv[2], &status)) ||
	    refuse_old(name, NULL, &status))
		return status;
	near = wh_command_nearest(name);
	return wh_usage(NULL, "unknown command '%s'%s%s%s", name,
			near ? "; did you mean '" : "", near ? near : "",
			near ? "'?" : "");
}

int main(int argc, char **argv)
{
	wh_exit status;

	/* A reader that went away is an error to report, not a death in mid-work. */
	(void)signal(SIGPIPE, SIG_IGN);
	wh_certificates_use();
	status = dispatch(argc, argv);
	wh_publishers_end();
	return (int)wh_finish(status);
}
