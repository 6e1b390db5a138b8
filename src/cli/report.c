#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static const char *target_words = "";

void wh_report_target(const char *target)
{
	target_words = target;
}

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

/* The library says "run `wherry init`" and does not know of which database. */
void wh_put_message(wh_buf *text, const char *message)
{
	static const char *const commands[] = {"`wherry init", "`wherry queue create",
					       "`wherry inbox create",
					       "`wherry delayed create"};

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		for (const char *at; (at = strstr(message, commands[i])); message = at) {
			at += strlen(commands[i]);
			wh_buf_put(text, message, (size_t)(at - message));
			wh_buf_puts(text, target_words);
		}
	wh_buf_puts(text, message);
}

void wh_put_repair(wh_buf *text, const char *repair)
{
	wh_buf_puts(text, repair);
	if (strncmp(repair, "wherry ", 7) == 0)
		wh_buf_puts(text, target_words);
}

wh_exit wh_report(const wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);

	wh_put_message(&text, err->message);
	(void)wh_complain(wh_way_out(err->code), "%s", wh_buf_str(&text));
	wh_buf_clear(&text);
	return WH_EXIT_FAILED;
}

wh_exit wh_finish(wh_exit status)
{
	bool failed = fflush(stdout) == EOF;
	int number = errno;

	if (!failed && !ferror(stdout))
		return status;
	/* If the reader closed the pipe, as head does, the exit status is enough. */
	if (!failed || number != EPIPE)
		(void)wh_complain(NULL, "cannot write to standard output: %s",
				  failed ? strerrordesc_np(number) : "a write failed");
	return status == WH_EXIT_DONE ? WH_EXIT_FAILED : status;
}
