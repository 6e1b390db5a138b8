#include "cli/target.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

static const wh_args *line; /* The command line; NULL: there is none. */
static unsigned
	opened;      /* The kinds of the tables that the command opens; 0: not known. */
static bool foreign; /* Its table has the layout of another program. */

void wh_report_on(const wh_args *args)
{
	line = args;
	wh_report_kinds(0);
}

void wh_report_kinds(unsigned kinds)
{
	opened = kinds;
	foreign = false;
}

void wh_report_layout(const char *layout)
{
	foreign = strcmp(layout, "native") != 0 && strcmp(layout, "log") != 0 &&
		  strcmp(layout, "adopted") != 0;
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

/* ---- commands that repair something ---- */

/* The kind of table that the command is for. */
static unsigned kind_meant(void)
{
	const wh_command *command = line ? line->command : NULL;

	if (!command)
		return WHERRY_KIND_OUTBOX;
	if (*line->table.queue)
		return command->kinds && !wh_is_for(command, WH_OF_DELAYED)
			       ? WHERRY_KIND_OUTBOX
			       : WHERRY_KIND_DELAYED;
	for (unsigned kind = WHERRY_KIND_QUEUE; kind <= WHERRY_KIND_CRON; kind <<= 1) {
		const char *word = wh_kind_word(kind);
		const size_t len = strlen(word);

		if (strncmp(command->name, word, len) == 0 && command->name[len] == ' ')
			return kind;
	}
	for (int i = 0; i < WH_KINDS; i++)
		if (wh_is_for(command, (wh_kind)i))
			return wh_kind_bits[i];
	return WHERRY_KIND_OUTBOX;
}

/* The table that --cron names, or its default; NULL: the command has no such option. */
static const char *cron_option(void)
{
	const wh_option *o = line->command->options;
	const char *name = "cron";

	while (o && o->name && strcmp(o->name, "cron") != 0)
		o++;
	for (size_t i = 0; i < line->n_given; i++)
		if (line->given[i].option == o)
			name = line->given[i].value;
	return o && o->name ? name : NULL;
}

/* The table of a kind that the command line names; "": what follows the command names it. */
static const char *table_meant(unsigned kind)
{
	const char *cron = kind == WHERRY_KIND_CRON ? cron_option() : NULL;

	if (cron)
		return cron;
	if (kind == WHERRY_KIND_QUEUE && !*line->table.table)
		return "jobs";
	return *line->table.queue ? line->table.table : "";
}

static void put_words(wh_buf *text, const void *ctx, unsigned kind, const char *table)
{
	const char *own = line ? line->table.table : "";

	(void)ctx;
	if (!line || !line->target)
		return;
	if (!*table)
		table = table_meant(kind);
	if (!*table || (strcmp(table, own) == 0 && !*line->table.queue))
		wh_buf_puts(text, line->target);
	else
		wh_put_table_of(text, line->target,
				line->n_operands ? line->operands[0] : NULL, table);
}

void wh_put_message(wh_buf *text, const wherry_error *err)
{
	wherry_error whole = *err;

	if (!whole.kinds)
		whole.kinds = opened ? opened : kind_meant();
	wh_buf_puts(text, err->message);
	wh_put_advice(text, &whole, put_words, NULL);
}

void wh_put_create(wh_buf *text, unsigned kind)
{
	wh_buf_puts(text, wh_maker_of(kind));
	put_words(text, NULL, kind, "");
}

void wh_put_drop(wh_buf *text)
{
	wh_buf_puts(text, "wherry drop");
	put_words(text, NULL, WHERRY_KIND_OUTBOX, "");
}

void wh_put_adopt(wh_buf *text, const char *table)
{
	wh_buf_puts(text, "wherry adopt");
	put_words(text, NULL, WHERRY_KIND_OUTBOX, table);
}

void wh_put_repair(wh_buf *text, const char *repair)
{
	if (*repair)
		wh_buf_puts(text, repair);
	else
		wh_put_create(text, WHERRY_KIND_QUEUE);
}

/* ---- a role without rights ---- */

/* Does the running command make or drop tables?  Only their owner may; --grant does not help. */
static bool is_for_owner(void)
{
	const char *name = line ? line->command->name : "";

	return strcmp(name, "create") == 0 || strcmp(name, "drop") == 0;
}

/* Append the command that grants rights on a table.  Its URL is without the role, since the
 * owner runs the command. */
static void put_granting(wh_buf *text, unsigned kind, const char *role,
			 const char *role_kind)
{
	wh_buf words = WH_BUF_INIT(64 * 1024), grant = WH_BUF_INIT(1000);
	char user[160];
	const char *all, *at;

	put_words(&words, NULL, kind, "");
	all = wh_buf_str(&words);
	(void)snprintf(user, sizeof(user), "://%s@", role);
	at = strstr(all, user);
	wh_buf_puts(text, wh_maker_of(kind));
	if (at)
		wh_buf_printf(text, "%.*s://", (int)(at - all), all);
	wh_buf_printf(text, "%s --grant ", at ? at + strlen(user) : all);
	wh_buf_printf(&grant, "%s=%s", role, role_kind);
	wh_put_word(text, wh_buf_into(&grant, text));
	wh_buf_clear(&grant);
	wh_buf_clear(&words);
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
		if (line && strcmp(line->command->name, kinds[i].command) == 0)
			return of_outbox ? kinds[i].of_outbox : kinds[i].of_other;
	return "operator";
}

bool wh_put_grant(wh_buf *text, const wherry_error *err)
{
	const unsigned kinds = opened ? opened : kind_meant();
	const size_t begin = text->len;
	char role[WH_ROLE_LEN];

	if (is_for_owner() || foreign || !wh_error_lacks_right(err))
		return false;
	if (!wh_error_role(err, role)) {
		wh_buf_puts(text, "wherry help create");
		return true;
	}
	for (unsigned kind = WHERRY_KIND_OUTBOX; kind <= WHERRY_KIND_CRON; kind <<= 1) {
		if (!(kinds & kind))
			continue;
		if (text->len > begin)
			wh_buf_puts(text, kinds & WHERRY_KIND_CRON ? " && " : ", or ");
		put_granting(text, kind, role, kind_of_role(kind == WHERRY_KIND_OUTBOX));
	}
	return true;
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

	wh_put_message(&text, err);
	(void)wh_complain(wh_put_hint(&hint, err), "%s", wh_buf_str(&text));
	wh_buf_clear(&hint);
	wh_buf_clear(&text);
	return WH_EXIT_FAILED;
}

wh_exit wh_call_failed(const wh_args *args, wherry_code code, const wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);

	if (code != WHERRY_INVALID)
		return wh_report(err);
	wh_put_message(&text, err);
	(void)wh_usage(args->command, "%s", wh_buf_str(&text));
	wh_buf_clear(&text);
	return WH_EXIT_USAGE;
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
				  failed ? wh_errno_text(number) : "a write failed");
	return status == WH_EXIT_DONE ? WH_EXIT_FAILED : status;
}
