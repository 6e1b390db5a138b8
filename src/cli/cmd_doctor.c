#include "cli/commands.h"

#include <string.h>
#include <unistd.h>

#include "base/env.h"
#include "cli/on_delayed.h"
#include "cli/on_queue.h"
#include "config/settings.h"
#include "queue/queue.h"

enum { HEAD = 26 };

static size_t count(const wh_doctor *d, wh_level level)
{
	size_t n = 0;

	for (size_t i = 0; i < d->n; i++)
		n += d->findings[i].level == level;
	return n;
}

/* Print a text that may contain keys and errors, so control characters are replaced.  In
 * a pipe a finding is one line. */
static void print_safe(const char *head, const char *text)
{
	wh_buf safe = WH_BUF_INIT(64 * 1024);

	wh_put_cell(&safe, text, 0);
	if (wh_terminal_width(STDOUT_FILENO))
		wh_print_wrapped(head, HEAD, wh_buf_str(&safe));
	else
		(void)printf("%-*s%s\n", HEAD, head, wh_buf_str(&safe));
	wh_buf_clear(&safe);
}

static void print_finding(const wh_finding *f)
{
	static const wh_paint paints[] = {WH_GOOD, WH_CARE, WH_DANGER};
	char head[64];

	(void)fputs(wh_painted(paints[f->level]), stdout);
	(void)snprintf(head, sizeof(head), "%-5s %s", wh_level_name(f->level), f->check);
	print_safe(head, f->what);
	(void)fputs(wh_painted(WH_PLAIN), stdout);
	if (*f->advice)
		print_safe("      to do", f->advice);
}

/* Print the finding about the message first, then the others, the worst first.  Findings
 * that all is well are printed only if verbose. */
static void print_text(const wh_doctor *d, bool verbose)
{
	size_t well = 0;

	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->findings[i].check, "message") == 0)
			print_finding(&d->findings[i]);
	for (int level = WH_BAD; level >= (verbose ? WH_WELL : WH_WARN); level--)
		for (size_t i = 0; i < d->n; i++)
			if (d->findings[i].level == (wh_level)level &&
			    strcmp(d->findings[i].check, "message") != 0)
				print_finding(&d->findings[i]);
	for (size_t i = 0; i < d->n; i++)
		well += d->findings[i].level == WH_WELL &&
			strcmp(d->findings[i].check, "message") != 0;
	if (!verbose)
		(void)printf(
			"%sok%s    %zu check%s found nothing; --verbose lists them\n",
			wh_painted(WH_GOOD), wh_painted(WH_PLAIN), well,
			wh_plural((int64_t)well));
}

static void put_text(wh_buf *buf, const char *name, const char *text)
{
	wh_buf_printf(buf, "\"%s\":", name);
	wh_buf_json(buf, text, strlen(text));
}

static const char *kind_of(const wh_doctor *d)
{
	if (d->session->delayed)
		return "delayed";
	return d->session->queue ? "queue" : "outbox";
}

static void print_json(const wh_doctor *d)
{
	wh_buf buf = WH_BUF_INIT(WH_OUTPUT_MOST);

	wh_buf_puts(&buf, "{");
	put_text(&buf, "table", d->session->table);
	wh_buf_putc(&buf, ',');
	put_text(&buf, "kind", kind_of(d));
	wh_buf_printf(&buf, ",\"bad\":%zu,\"warn\":%zu,\"findings\":[", count(d, WH_BAD),
		      count(d, WH_WARN));
	for (size_t i = 0; i < d->n; i++) {
		const wh_finding *f = &d->findings[i];

		wh_buf_puts(&buf, i ? ",{" : "{");
		put_text(&buf, "check", f->check);
		wh_buf_putc(&buf, ',');
		put_text(&buf, "level", wh_level_name(f->level));
		wh_buf_putc(&buf, ',');
		put_text(&buf, "what", f->what);
		wh_buf_putc(&buf, ',');
		put_text(&buf, "advice", f->advice);
		wh_buf_putc(&buf, '}');
	}
	wh_buf_puts(&buf, "]}");
	wh_print_buf(&buf, "\n");
	wh_buf_clear(&buf);
}

static wherry_code explain(wh_doctor *d, const char *ident, wherry_error *err)
{
	if (d->session->delayed)
		return wh_on_delayed_message(d, ident, err);
	return d->session->queue ? wh_on_queue_message(d, ident, err)
				 : wh_doctor_message(d, ident, err);
}

static wh_exit examine(const wh_args *args, wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *ident = wh_operand(args, 1);
	wherry_code code = wh_doctor_begin(d, &err);
	wh_exit status = WH_EXIT_DONE;

	if (code == WHERRY_OK) {
		if (!d->store)
			(void)wh_doctor_others(d);
		wh_doctor_check(d);
		if (d->store) {
			wh_doctor_servers(d);
			wh_doctor_unsafe(d);
			wh_doctor_last_error(d);
		}
		wh_doctor_cron(d);
		if (d->session->queue)
			wh_on_queue_check(d);
		if (d->session->delayed)
			wh_on_delayed_check(d);
		if (ident)
			code = explain(d, ident, &err);
		if (wh_arg_on(args, "json"))
			print_json(d);
		else
			print_text(d, wh_arg_on(args, "verbose"));
		status = count(d, WH_BAD) ? WH_EXIT_FAILED : WH_EXIT_DONE;
		if (d->lost)
			status =
				wh_complain(NULL, "there are findings that are too long, "
						  "or too many, to be printed");
		wh_doctor_clear(d);
	}
	return code == WHERRY_OK ? status : wh_report(&err);
}

/* Checks of a database that has no outbox, but other tables of Wherry's. */
static wh_exit examine_others(const wh_args *args, wh_doctor *d, const wherry_error *why)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool any;

	if (wh_operand(args, 1) || wh_doctor_begin(d, &err) != WHERRY_OK)
		return wh_report(why);
	any = wh_doctor_others(d);
	wh_doctor_clear(d);
	return any ? examine(args, d) : wh_report(why);
}

/* Start the checks of a table of any kind.  False: it printed what is wrong. */
static bool begin(wh_doctor *d, const wh_args *args, const wh_session *s)
{
	*d = (wh_doctor){
		.session = s,
		.store = s->store,
		.gone = WH_BUF_INIT(64 * 1024),
		.config = args->config,
		.older_us = 60 * WH_SECOND,
		.poll_us = wh_config_int(args->config, WH_RELAY_IDLE_INTERVAL),
	};
	return wh_arg_duration(args, "older-than", &d->older_us);
}

static const wh_without no_repairs[] = {
	{"repairs",
	 "it is for queues; `wherry create` repairs an outbox or a table of delayed queues"},
	{NULL, NULL}};

static wh_exit run(const wh_args *args, wh_session *s)
{
	wh_doctor d;

	if (!begin(&d, args, s))
		return WH_EXIT_USAGE;
	return wh_arg_on(args, "repairs") ? wh_on_queue_repairs(s) : examine(args, &d);
}

/* The table of another program was dropped. */
static wh_exit examine_left(const wh_args *args, const wh_session *s,
			    const wherry_error *why)
{
	wh_buf advice = WH_BUF_INIT(WH_SENTENCE_MAX);
	wh_doctor d;

	if (!begin(&d, args, s))
		return WH_EXIT_USAGE;
	wh_buf_puts(
		&advice,
		"adopt the new table of that name, which begins from its start; or `");
	wh_put_drop(&advice);
	wh_buf_puts(&advice, "` removes what is left");
	wh_doctor_add(&d, "outbox", WH_BAD, strdup(why->message), wh_buf_take(&advice));
	return examine(args, &d);
}

/* Without a name, a database need not have an outbox. */
static wh_exit run_on_outbox(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_doctor d;

	code = wh_session_try(s, args, WH_OF_OUTBOX, &err);
	if (code == WHERRY_OK)
		return run(args, s);
	if (code == WHERRY_NOTFOUND && err.repair == WHERRY_REPAIR_DOCTOR)
		return examine_left(args, s, &err);
	if (*args->table.table)
		return wh_session_table(s, args, WH_OF_OUTBOX);
	if (code != WHERRY_NOTFOUND)
		return wh_call_failed(args, code, &err);
	return begin(&d, args, s) ? examine_others(args, &d, &err) : WH_EXIT_USAGE;
}

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run_on_outbox, .opens = true, .without = no_repairs},
	[WH_OF_QUEUE] = {.run = run},
	[WH_OF_DELAYED] = {.run = run, .without = no_repairs},
	[WH_OF_INBOX] = {.use = "status"},
};

static const wh_option options[] = {
	{"older-than", "AGE",
	 "Report transactions that are open, and of messages that are ready, for longer "
	 "than this. (default: 60s)",
	 NULL, 0},
	{"verbose", NULL, "Also list the checks that found nothing.", NULL, 0},
	{"repairs", NULL, "Of a queue: print only the SQL that repairs its tables.", NULL,
	 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_doctor = {
	.name = "doctor",
	.operands = "URL [MESSAGE]",
	.synopsis = "URL [MESSAGE] [--older-than AGE] [--verbose] [--repairs] [--json]",
	.brief = "Say what keeps messages from being delivered, and what to do",
	.help = "Looks at the outbox, its relay and the database, and changes nothing. Without an outbox it "
		"looks at the schedules and the database. With the URL "
		"of a queue or a delayed queue it looks at that instead. Each "
		"finding is ok, warn or bad: what is so, and what to do about it. MESSAGE, a "
		"message id or a number, of a delayed queue a key, is explained first: why it was not delivered, or when it "
		"was. Ends with 1 if something is bad.\n"
		"\n"
		"Examples:\n"
		"  wherry doctor sqlite:shop.db\n"
		"  wherry doctor postgres://shop@db.example.org/shop 42\n"
		"  wherry doctor sqlite:shop.db --json | jq '.findings[] | "
		"select(.level != \"ok\")'\n",
	.options = options,
	.kinds = kinds,
};
