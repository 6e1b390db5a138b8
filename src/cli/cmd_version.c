#include "cli/commands.h"

static wh_exit run(wh_args *args)
{
	if (wh_arg_on(args, "json"))
		(void)printf("{\"version\":\"%s\"}\n", wherry_version());
	else
		(void)printf("wherry %s\n", wherry_version());
	return WH_EXIT_DONE;
}

static const wh_option options[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_version = {
	.name = "version",
	.operands = "",
	.synopsis = "[--json]",
	.brief = "Say which version this is",
	.help = "The same as wherry --version.\n",
	.options = options,
	.plain = true,
	.run = run,
};
