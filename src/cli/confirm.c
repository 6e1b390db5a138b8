#include "cli/cli.h"

#include <stdarg.h>
#include <unistd.h>

bool wh_confirm(const wh_args *args, const char *fmt, ...)
{
	char answer[8] = "";
	va_list list;

	if (wh_arg_on(args, "yes"))
		return true;
	va_start(list, fmt);
	(void)vfprintf(stderr, fmt, list);
	va_end(list);
	if (!isatty(STDIN_FILENO)) {
		(void)fputc('\n', stderr);
		(void)wh_usage(args->command, "confirm it with --yes");
		return false;
	}
	(void)fputs("? [y/N] ", stderr);
	if (fgets(answer, sizeof(answer), stdin) &&
	    (answer[0] == 'y' || answer[0] == 'Y'))
		return true;
	(void)wh_complain(NULL, "nothing was changed");
	return false;
}
