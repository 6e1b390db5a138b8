#include "cli/cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "db/driver.h"

enum { WHAT_MAX = 2048 }; /* Of the text that says what would be done. */

static wh_exit ask(const wh_args *args, const char *what)
{
	char answer[8] = "";

	(void)fputs(what, stderr);
	if (!isatty(STDIN_FILENO)) {
		(void)fputc('\n', stderr);
		return wh_usage(args->command, "confirm it with --yes");
	}
	(void)fputs("? [y/N] ", stderr);
	if (fgets(answer, sizeof(answer), stdin) &&
	    (answer[0] == 'y' || answer[0] == 'Y'))
		return WH_EXIT_DONE;
	return wh_complain(NULL, "nothing was changed");
}

bool wh_is_dry(const wh_args *args)
{
	return wh_arg_known(args, "dry-run") && wh_arg_on(args, "dry-run");
}

bool wh_confirm(const wh_args *args, wherry_db *db, wh_exit *status, const char *fmt, ...)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char what[WHAT_MAX];
	va_list list;

	*status = WH_EXIT_DONE;
	if (wh_is_dry(args)) {
		if (wh_db_rehearse(db, &err) != WHERRY_OK)
			*status = wh_report(&err);
		return *status == WH_EXIT_DONE;
	}
	if (wh_arg_on(args, "yes"))
		return true;
	va_start(list, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, list);
	va_end(list);
	*status = ask(args, what);
	return *status == WH_EXIT_DONE;
}

void wh_print_deleted(const wh_args *args, const wh_count *counts, const char *fmt, ...)
{
	va_list list;

	if (wh_arg_on(args, "json")) {
		for (int i = 0; counts[i].name; i++)
			(void)printf("%s\"%s\":%" PRId64, i ? "," : "{", counts[i].name,
				     counts[i].n);
		(void)puts(wh_is_dry(args) ? ",\"dry_run\":true}" : "}");
		return;
	}
	if (wh_is_dry(args))
		(void)fputs("dry run: ", stdout);
	va_start(list, fmt);
	(void)vprintf(fmt, list);
	va_end(list);
	(void)putchar('\n');
}
