#include "cli/cli.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

enum { WHAT_MAX = 2048 }; /* Of the text that says what would be done. */

/* Print what --dry-run would do. */
static void print_plan(const wh_args *args, const char *what)
{
	wh_buf line = WH_BUF_INIT(64 * 1024);

	if (wh_arg_on(args, "json")) {
		wh_buf_puts(&line, "{\"would\":");
		wh_buf_json(&line, what, strlen(what));
		wh_buf_putc(&line, '}');
	} else {
		wh_buf_puts(&line, "would ");
		wh_buf_puts(&line, what);
	}
	wh_print_buf(&line, "\n");
	wh_buf_clear(&line);
}

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

bool wh_confirm(const wh_args *args, wh_exit *status, const char *fmt, ...)
{
	char what[WHAT_MAX];
	bool plan = wh_arg_on(args, "dry-run");
	va_list list;

	*status = WH_EXIT_DONE;
	if (wh_arg_on(args, "yes") && !plan)
		return true;
	va_start(list, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, list);
	va_end(list);
	if (plan)
		print_plan(args, what);
	else
		*status = ask(args, what);
	return !plan && *status == WH_EXIT_DONE;
}
