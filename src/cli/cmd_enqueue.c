#include "cli/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/ndjson.h"
#include "db/driver.h"

/* The fields that are the same for all messages, or that a pointer into the line fills. */
enum { KEY, ID, AGGREGATE_ID, PICKS };

static const char *const pick_names[PICKS] = {"key", "id", "aggregate-id"};

typedef struct enqueue {
	wh_session *session;
	wh_lines lines;   /* With --lines. */
	const char *file; /* Name of the file in messages. */
	const char *topic;
	const char *aggregate_type;
	const char *pointer[PICKS]; /* NULL: the value is in fixed. */
	const char *fixed[PICKS];   /* The same for all messages; NULL: none. */
	wh_buf picked[PICKS];
	char *headers;
	int64_t batch;     /* Messages in one transaction; 0: all messages. */
	int64_t open;      /* Messages in the open transaction. */
	int64_t kept_line; /* Number of the last line that was committed. */
	int64_t added, duplicates;
	int64_t open_added, open_duplicates; /* Of the open transaction. */
} enqueue;

/* ---- failing ---- */

/* Roll back, and print which lines stay enqueued. */
static wh_exit give_up(enqueue *e, const char *hint, const char *what)
{
	long long kept = (long long)e->kept_line;
	char rest[96];

	wherry_db_rollback(e->session->db);
	if (!kept)
		return wh_complain(hint, "%s (nothing was enqueued)", what);
	(void)snprintf(rest, sizeof(rest),
		       "enqueue the rest, from line %lld on: tail -n +%lld", kept + 1,
		       kept + 1);
	return wh_complain(e->lines.file == stdin ? hint : rest,
			   "%s (the first %lld line%s stay%s enqueued)", what, kept,
			   wh_plural(kept), kept == 1 ? "s" : "");
}

/* Print that the result of a commit is unknown. */
static wh_exit give_up_in_doubt(const enqueue *e, const char *what)
{
	if (!e->lines.file)
		return wh_complain("wherry list, to see what is there",
				   "%s (whether it is enqueued is not known)", what);
	return wh_complain(
		e->pointer[ID]
			? "the same again, if the outbox was created with --unique-ids, "
			  "which skips what is there; else look first: wherry list"
			: "wherry list, to see what is there",
		"%s (whether lines %lld to %lld are enqueued is not known)", what,
		(long long)e->kept_line + 1, (long long)e->lines.number);
}

/* Write the message and the command that repairs what failed. */
static const char *whole(wh_buf *text, const wherry_error *err)
{
	wh_buf_reset(text);
	wh_put_message(text, err);
	return wh_buf_str(text);
}

/* Roll back and print an error.  If the line is wrong, the message names its place. */
static wh_exit give_up_line(enqueue *e, int column, const wherry_error *err)
{
	wh_buf what = WH_BUF_INIT(8192), hint = WH_BUF_INIT(64 * 1024);
	wh_exit status;

	if (e->lines.file)
		wh_buf_printf(&what, "%s: line %lld", e->file,
			      (long long)e->lines.number);
	else
		wh_buf_puts(&what, "the body");
	if (column)
		wh_buf_printf(&what, ", column %d", column);
	wh_buf_printf(&what, ": %s", err->message);
	if (err->code == WHERRY_INVALID || err->code == WHERRY_TOOBIG)
		status = give_up(e, NULL, wh_buf_str(&what));
	else if (err->code == WHERRY_INDOUBT)
		status = give_up_in_doubt(e, err->message);
	else
		status = give_up(e, wh_put_hint(&hint, err), whole(&what, err));
	wh_buf_clear(&hint);
	wh_buf_clear(&what);
	return status;
}

/* ---- one line ---- */

static wherry_code pick(enqueue *e, wh_view line, wherry_error *err)
{
	for (int i = 0; i < PICKS; i++) {
		wherry_code code;

		if (!e->pointer[i])
			continue;
		wh_buf_reset(&e->picked[i]);
		code = wh_line_pick(line, e->pointer[i], &e->picked[i], err);
		if (code != WHERRY_OK)
			return wh_prefix(err, code, "--%s", pick_names[i]);
	}
	return WHERRY_OK;
}

static const char *picked(const enqueue *e, int which)
{
	return e->pointer[which] ? wh_buf_str(&e->picked[which]) : e->fixed[which];
}

static wherry_code add(enqueue *e, wh_view line, wherry_error *err)
{
	const wherry_message msg =
		WHERRY_MESSAGE(.message_id = picked(e, ID), .topic = e->topic,
			       .aggregate_type = e->aggregate_type,
			       .aggregate_id = picked(e, AGGREGATE_ID),
			       .key = picked(e, KEY), .headers = e->headers,
			       .body = line.ptr, .body_len = line.len);
	wherry_code code = wherry_outbox_enqueue(e->session->outbox, &msg, 0, NULL, err);

	e->open++;
	if (code == WHERRY_DUPLICATE)
		e->open_duplicates++;
	else if (code == WHERRY_OK)
		e->open_added++;
	return code == WHERRY_DUPLICATE ? WHERRY_OK : code;
}

static wherry_code commit(enqueue *e, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (wherry_db_in_transaction(e->session->db))
		code = wherry_db_commit(e->session->db, err);
	if (code != WHERRY_OK)
		return code;
	e->added += e->open_added;
	e->duplicates += e->open_duplicates;
	e->open = e->open_added = e->open_duplicates = 0;
	e->kept_line = e->lines.number;
	return WHERRY_OK;
}

/* Enqueue a line.  A transaction begins with its first line, so that no lock is held
 * while waiting for input. */
static wh_exit take_line(enqueue *e, wh_view line)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int column = 0;
	wherry_code code = wh_json_check(line.ptr, line.len, &column, &err);

	if (code == WHERRY_OK)
		code = pick(e, line, &err);
	if (code == WHERRY_OK && !wherry_db_in_transaction(e->session->db))
		code = wherry_db_begin(e->session->db, &err);
	if (code == WHERRY_OK)
		code = add(e, line, &err);
	if (code == WHERRY_OK && e->batch && e->open >= e->batch)
		code = commit(e, &err);
	return code == WHERRY_OK ? WH_EXIT_DONE : give_up_line(e, column, &err);
}

static wh_exit take_all(enqueue *e, wh_progress *progress)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status = WH_EXIT_DONE;
	wherry_code code;
	wh_view line;

	while ((code = wh_lines_next(&e->lines, &line, &err)) == WHERRY_OK && line.ptr) {
		status = take_line(e, line);
		if (status != WH_EXIT_DONE)
			return status;
		wh_progress_show(progress, e->lines.bytes, "%lld enqueued",
				 (long long)(e->added + e->open_added));
	}
	if (code != WHERRY_OK && code != WHERRY_TOOBIG)
		code = wh_prefix(&err, code, "%s", e->file);
	if (code == WHERRY_OK)
		code = commit(e, &err);
	return code == WHERRY_OK ? WH_EXIT_DONE : give_up_line(e, 0, &err);
}

/* ---- one body ---- */

/* Is this text several lines of which the first is a JSON value, and no value as a whole? */
static bool is_lines(wh_view body)
{
	const char *end = body.len ? memchr(body.ptr, '\n', body.len) : NULL;
	const size_t len = end ? (size_t)(end - body.ptr) : 0;
	int column;

	return len && wh_json_check(body.ptr, len, &column, NULL) == WHERRY_OK &&
	       wh_json_check(body.ptr, body.len, &column, NULL) != WHERRY_OK;
}

typedef struct adding {
	enqueue *e;
	wh_view body;
} adding;

static wherry_code add_alone(void *ctx, wherry_error *err)
{
	const adding *a = ctx;

	a->e->open = a->e->open_added = a->e->open_duplicates = 0;
	return add(a->e, a->body, err);
}

static wh_exit take_body(enqueue *e, wh_view body)
{
	const bool picks = e->pointer[KEY] || e->pointer[ID] || e->pointer[AGGREGATE_ID];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	adding a = {e, body};
	int column = 0;

	if (picks)
		code = wh_json_check(body.ptr, body.len, &column, &err);
	if (code == WHERRY_OK)
		code = pick(e, body, &err);
	if (code == WHERRY_OK)
		code = wh_db_transact(e->session->db, add_alone, &a, &err);
	if (code == WHERRY_OK)
		code = commit(e, &err); /* Counts it. */
	return code == WHERRY_OK ? WH_EXIT_DONE : give_up_line(e, column, &err);
}

/* Enqueue one message, whose body is an operand, a file or standard input. */
static wh_exit take_one(enqueue *e, const wh_args *args)
{
	wh_buf body;
	wh_exit status = wh_read_body(&body, args, 1, e->lines.most);
	const wh_view text = {wh_buf_str(&body), body.len};

	if (status == WH_EXIT_DONE && !wh_operand(args, 1) && is_lines(text))
		status = wh_usage(args->command,
				  "the input has several lines of JSON and would be one "
				  "message: --lines makes a message of each line");
	if (status == WH_EXIT_DONE)
		status = wh_session_table(e->session, args, WH_OF_OUTBOX);
	if (status == WH_EXIT_DONE)
		status = take_body(e, text);
	wh_buf_clear(&body);
	return status;
}

/* ---- the command line ---- */

static wh_exit read_options(enqueue *e, const wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *value;
	int64_t most = 0;

	e->topic = wh_arg(args, "topic");
	e->aggregate_type = wh_arg(args, "aggregate-type");
	for (int i = 0; i < PICKS; i++) {
		e->picked[i] = (wh_buf)WH_BUF_INIT(64 * 1024);
		value = wh_arg(args, pick_names[i]);
		if (value && *value && *value != '/')
			e->fixed[i] = value;
		else
			e->pointer[i] = value;
		if (e->pointer[i] && !wh_json_pointer_valid(value))
			return wh_usage(
				args->command,
				"--%s %s: begins with / and is not a JSON pointer, such as "
				"/customer/id",
				pick_names[i], value);
	}
	if (e->fixed[ID] && wh_arg_on(args, "lines"))
		return wh_usage(args->command,
				"--id %s with --lines: each message has a separate id; "
				"write a JSON pointer, such as /id",
				e->fixed[ID]);
	if (!wh_arg_count(args, "batch", 1, 1000000, &e->batch))
		return WH_EXIT_USAGE;
	if (e->batch && !wh_arg_on(args, "lines"))
		return wh_usage(args->command, "--batch is for --lines");
	if (wh_operand(args, 1) && wh_arg_on(args, "lines"))
		return wh_usage(args->command,
				"a body is given, and --lines too: only one of them");
	if (wh_size_parse(wherry_config_get(args->config, "outbox.body_max"), &most,
			  &err) != WHERRY_OK)
		return wh_report(&err);
	e->lines.most = (size_t)most;
	return wh_arg_headers(args, &e->headers);
}

static wh_exit open_file(enqueue *e, const wh_args *args)
{
	const char *from = wh_arg(args, "from");

	e->file = from && strcmp(from, "-") != 0 ? from : "standard input";
	e->lines.file = e->file == from ? fopen(from, "re") : stdin;
	if (!e->lines.file)
		return wh_complain(NULL, "%s: %s", from, wh_errno_text(errno));
	if (e->lines.file == stdin && isatty(STDIN_FILENO))
		(void)fputs("reading one JSON value a line; end with Ctrl-D\n", stderr);
	return WH_EXIT_DONE;
}

static int64_t file_size(FILE *file)
{
	struct stat st;

	return fstat(fileno(file), &st) == 0 && S_ISREG(st.st_mode) ? st.st_size : 0;
}

static wh_exit work(enqueue *e, const wh_args *args)
{
	wh_exit status = read_options(e, args);
	wh_progress progress;

	if (status == WH_EXIT_DONE && !wh_arg_on(args, "lines"))
		return take_one(e, args);
	if (status == WH_EXIT_DONE)
		status = open_file(e, args);
	if (status == WH_EXIT_DONE)
		status = wh_session_table(e->session, args, WH_OF_OUTBOX);
	if (status != WH_EXIT_DONE)
		return status;
	wh_progress_begin(&progress, "enqueue", file_size(e->lines.file));
	/* Without a size there is no bar to draw: standard input may be a person. */
	progress.on = progress.on && progress.total > 0;
	status = take_all(e, &progress);
	wh_progress_end(&progress);
	return status;
}

static wh_exit run(const wh_args *args, wh_session *s)
{
	enqueue e = {.session = s};
	wh_exit status = work(&e, args);

	if (status == WH_EXIT_DONE && wh_arg_on(args, "json"))
		printf("{\"enqueued\":%lld,\"duplicates\":%lld}\n", (long long)e.added,
		       (long long)e.duplicates);
	else if (status == WH_EXIT_DONE)
		printf("%lld enqueued, %lld duplicate%s\n", (long long)e.added,
		       (long long)e.duplicates, wh_plural(e.duplicates));
	if (e.lines.file && e.lines.file != stdin)
		(void)fclose(e.lines.file);
	wh_buf_clear(&e.lines.line);
	for (int i = 0; i < PICKS; i++)
		wh_buf_clear(&e.picked[i]);
	free(e.headers);
	return status;
}

static const wh_option options[] = {
	{"topic", "TOPIC", "What the messages are about.", NULL, WH_REQUIRED},
	WH_BODY_OPTION,
	{"lines", NULL,
	 "Each line of the input is one JSON value, and the body of one message.", NULL,
	 0},
	{"key", "KEY",
	 "The ordering key of all messages, or where in each body it is, such as /net.",
	 NULL, 0},
	{"id", "ID",
	 "The message id, or where in each body it is. An outbox created with --unique-ids skips a body whose id it has.",
	 NULL, 0},
	{"aggregate-type", "TEXT", "The kind of thing the messages are about.", NULL, 0},
	{"aggregate-id", "ID", "The thing's id, or where in each body it is.", NULL, 0},
	{"header", "NAME=VALUE", "A header for every message.", NULL, WH_REPEAT},
	{"batch", "N",
	 "With --lines, commit after every N lines; without it, all lines or none.", NULL,
	 0},
	WH_JSON_OPTION,
	{0},
};

static const wh_for_kind kinds[WH_KINDS] = {
	[WH_OF_OUTBOX] = {.run = run, .opens = true},
	[WH_OF_QUEUE] = {.use = "send"},
	[WH_OF_DELAYED] = {.use = "offer"},
};

const wh_command wh_cmd_enqueue = {
	.name = "enqueue",
	.operands = "URL [BODY]",
	.synopsis =
		"URL " WH_BODY_USAGE
		" --topic TOPIC [--lines] [--key KEY] [--id ID] [--aggregate-type TEXT] "
		"[--aggregate-id ID] "
		"[--header NAME=VALUE]... "
		"[--batch N] [--json]",
	.brief = "Add a message to an outbox, or one for each line of JSON",
	.help = "The body is an operand, a file or standard input, without any change. With "
		"--lines, each line of the input is one JSON value and becomes the body of one "
		"message; empty lines are skipped. All lines are one transaction: a malformed "
		"one is an error that names its line and column, and nothing is "
		"enqueued. With --batch, the batches before it stay.\n"
		"\n"
		"A key, an id or an aggregate id is used as it is given. If it begins with /, "
		"it is a JSON pointer (RFC 6901) to a value in each body: a string is used as it "
		"is, a number or boolean as it is written. Messages of one key are delivered in the order of the lines. "
		"With --id, and an outbox created with `wherry create --unique-ids`, running the same command again "
		"enqueues nothing twice.\n"
		"\n"
		"Examples:\n"
		"  wherry enqueue sqlite:shop.db '{\"order\":7}' --topic orders --key 7\n"
		"  wherry enqueue sqlite:shop.db '{\"order\":7}' --topic orders --key /order\n"
		"  wherry enqueue sqlite:shop.db --topic quakes --key /net --id /id \\\n"
		"    --lines --from examples/data/earthquakes.ndjson\n",
	.options = options,
	.kinds = kinds,
};
