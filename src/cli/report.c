#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static wh_advice advice = {.words = ""};
static const char *running = ""; /* the command */
static bool foreign;             /* Its table has the layout of another program. */

void wh_report_command(const char *name)
{
	running = name;
}

void wh_report_target(const char *target)
{
	advice.n = 0;
	advice.words = target;
	foreign = false;
}

void wh_report_layout(const char *layout)
{
	foreign = strcmp(layout, "native") != 0;
}

void wh_report_maker(const char *maker, const char *words)
{
	wh_advice_add(&advice, maker, words);
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

wh_exit wh_usage(const wh_command *of, const char *fmt, ...)
{
	char hint[64] = "wherry help";
	va_list args;

	if (of)
		(void)snprintf(hint, sizeof(hint), "wherry help %s", of->name);
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

void wh_put_message(wh_buf *text, const char *message)
{
	wh_put_advice(text, &advice, message);
}

void wh_put_repair(wh_buf *text, const char *repair)
{
	wh_buf_puts(text, repair);
	if (strncmp(repair, "wherry ", 7) == 0)
		wh_buf_puts(text, advice.words);
}

/* ---- a role without rights ---- */

/* Does the running command make or drop tables?  Only their owner may; --grant does not help. */
static bool is_for_owner(void)
{
	static const char *const commands[] = {"init",         "drop",
					       "queue create", "delayed create",
					       "cron create",  "inbox create"};

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (strcmp(running, commands[i]) == 0)
			return true;
	return false;
}

/* Append words without the role as the user of their URL: the owner runs the command. */
static void put_words_without(wh_buf *text, const char *words, const char *role)
{
	char user[160];
	const char *at;

	(void)snprintf(user, sizeof(user), "://%s@", role);
	at = strstr(words, user);
	if (at) {
		wh_buf_put(text, words, (size_t)(at - words));
		wh_buf_puts(text, "://");
		words = at + strlen(user);
	}
	wh_buf_puts(text, words);
}

static void put_maker(wh_buf *text, const char *command, const char *words,
		      const char *role, const char *kind)
{
	wh_buf grant = WH_BUF_INIT(1000);

	wh_buf_puts(text, command);
	put_words_without(text, words, role);
	wh_buf_puts(text, " --grant ");
	wh_buf_printf(&grant, "%s=%s", role, kind);
	wh_put_word(text, wh_buf_into(&grant, text));
	wh_buf_clear(&grant);
}

/* The kind of role that may run the command, on an outbox or another table. */
static const char *kind_of_role(bool of_outbox)
{
	static const struct {
		const char *command, *of_outbox, *of_other;
	} kinds[] = {
		{"enqueue", "enqueuer", ""},      {"relay", "relay", "receiver"},
		{"send", "", "sender"},           {"queue publish", "", "sender"},
		{"receive", "", "receiver"},      {"ack", "", "receiver"},
		{"nack", "", "receiver"},         {"queue cancel", "", "receiver"},
		{"offer", "", "sender"},          {"poll", "", "receiver"},
		{"inbox forget", "", "consumer"},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (strcmp(running, kinds[i].command) == 0)
			return of_outbox ? kinds[i].of_outbox : kinds[i].of_other;
	return "operator";
}

bool wh_put_grant(wh_buf *text, const wherry_error *err)
{
	const size_t begin = text->len;
	char role[WH_ROLE_LEN];

	if (is_for_owner() || foreign || !wh_error_lacks_right(err))
		return false;
	if (!wh_error_role(err, role)) {
		wh_buf_puts(text, "wherry help init");
		return true;
	}
	if (!advice.n)
		put_maker(text, "wherry init", advice.words, role, kind_of_role(true));
	for (size_t i = 0; i < advice.n; i++) {
		wh_buf_puts(text, text->len > begin ? " && " : "");
		put_maker(text, advice.makers[i].command, advice.makers[i].words, role,
			  kind_of_role(false));
	}
	return text->len > begin;
}

const char *wh_put_hint(wh_buf *text, const wherry_error *err)
{
	if (!wh_put_grant(text, err))
		return wh_way_out(err->code);
	wh_buf_puts(text, ", as the owner");
	return wh_buf_str(text);
}

wh_exit wh_report(const wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(64 * 1024), hint = WH_BUF_INIT(64 * 1024);

	wh_put_message(&text, err->message);
	(void)wh_complain(wh_put_hint(&hint, err), "%s", wh_buf_str(&text));
	wh_buf_clear(&hint);
	wh_buf_clear(&text);
	return WH_EXIT_FAILED;
}

/* The first failure of a buffer that was to be printed. */
static wherry_code unprinted;

void wh_print_buf(const wh_buf *buf, const char *end)
{
	if (buf->failed) {
		if (!unprinted)
			unprinted = buf->failed;
		return;
	}
	(void)fwrite(wh_buf_str(buf), 1, buf->len, stdout);
	(void)fputs(end, stdout);
}

bool wh_printed_all(void)
{
	return fflush(stdout) == 0 && !ferror(stdout) && !unprinted;
}

wh_exit wh_finish(wh_exit status)
{
	bool failed = fflush(stdout) == EOF;
	int number = errno;

	if (unprinted) {
		(void)wh_complain(NULL, "a result could not be printed: %s",
				  unprinted == WHERRY_NOMEM ? "out of memory"
							    : "it is too large");
		status = status == WH_EXIT_DONE ? WH_EXIT_FAILED : status;
	}
	if (!failed && !ferror(stdout))
		return status;
	/* If the reader closed the pipe, as head does, the exit status is enough. */
	if (!failed || number != EPIPE)
		(void)wh_complain(NULL, "cannot write to standard output: %s",
				  failed ? strerrordesc_np(number) : "a write failed");
	return status == WH_EXIT_DONE ? WH_EXIT_FAILED : status;
}
