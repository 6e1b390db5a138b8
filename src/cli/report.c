#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

WH_PRINTF(2, 0)
static void complain(const char *hint, const char *fmt, va_list args)
{
	(void)fflush(stdout); /* results first, where both go to one place */
	(void)fputs("wherry: ", stderr);
	(void)vfprintf(stderr, fmt, args);
	(void)fputc('\n', stderr);
	if (hint)
		(void)fprintf(stderr, "  try: %s\n", hint);
}

wh_exit wh_complain(const char *hint, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	complain(hint, fmt, args);
	va_end(args);
	return WH_EXIT_FAILED;
}

wh_exit wh_usage(const wh_command *command, const char *fmt, ...)
{
	char hint[64] = "wherry help";
	va_list args;

	if (command)
		(void)snprintf(hint, sizeof(hint), "wherry help %s", command->name);
	va_start(args, fmt);
	complain(hint, fmt, args);
	va_end(args);
	return WH_EXIT_USAGE;
}

const char *wh_way_out(wherry_code code)
{
	static const char *const ways[WHERRY_CODE_COUNT] = {
		[WHERRY_BUSY] =
			"again in a moment, or wait longer: --set db.busy_timeout=30s",
		[WHERRY_CORRUPT] =
			"another path; to save a damaged database: sqlite3 FILE .recover",
		[WHERRY_TIMEOUT] = "again in a moment",
		[WHERRY_CONFLICT] = "again in a moment",
	};

	return (unsigned)code < WHERRY_CODE_COUNT ? ways[code] : NULL;
}

wh_exit wh_report(const wherry_error *err)
{
	return wh_complain(wh_way_out(err->code), "%s", err->message);
}

wh_exit wh_finish(wh_exit status)
{
	bool failed = fflush(stdout) == EOF;
	int number = errno;

	if (!failed && !ferror(stdout))
		return status;
	/* Whoever closed a pipe, as head does, knows; the exit status is enough. */
	if (!failed || number != EPIPE)
		(void)wh_complain(NULL, "cannot write to standard output: %s",
				  failed ? strerrordesc_np(number) : "a write failed");
	return status == WH_EXIT_DONE ? WH_EXIT_FAILED : status;
}
