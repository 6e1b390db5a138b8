/*
 * wherry delayed read, list, count and dead.
 */
#include <inttypes.h>
#include <string.h>

#include "base/date.h"
#include "base/text.h"
#include "cli/delayed_session.h"

/* ---- messages as a table, or as lines of JSON ---- */

enum { ID, STATE, ATTEMPTS, AVAILABLE, KEY, TEXT, COLUMNS };

static const wh_table_column columns[COLUMNS] = {
	[ID] = {"ID", 0, true, NULL},
	[STATE] = {"STATE", 0, false, NULL},
	[ATTEMPTS] = {"ATTEMPTS", 0, true, NULL},
	[AVAILABLE] = {"AVAILABLE AT", 0, false, NULL},
	[KEY] = {"KEY", 40, false, NULL},
	[TEXT] = {"BODY OR ERROR", 0, false, NULL},
};

typedef struct listing {
	wh_table table;
	bool json;
	int64_t n;
} listing;

static wherry_code show(void *ctx, const wherry_delayed_message *msg)
{
	listing *l = ctx;
	wh_buf body = WH_BUF_INIT(4096);
	char id[24], attempts[16], at[WH_LOCAL_TIME_LEN];
	const char *cells[COLUMNS] = {[ID] = id,
				      [STATE] = wh_delayed_state_name(msg),
				      [ATTEMPTS] = attempts,
				      [AVAILABLE] = at,
				      [KEY] = msg->key};

	l->n++;
	if (l->json) {
		wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

		wh_put_delayed_message(&line, msg);
		wh_print_buf(&line, "");
		wh_buf_clear(&line);
		return ferror(stdout) ? WHERRY_INTERRUPTED : WHERRY_OK;
	}
	wh_local_time_print(msg->available_at_us, 0, at);
	(void)snprintf(id, sizeof(id), "%" PRId64, msg->id);
	(void)snprintf(attempts, sizeof(attempts), "%" PRId32, msg->attempts);
	wh_put_body_begin(&body, msg->body, msg->body_len);
	cells[TEXT] = msg->last_error ? msg->last_error : wh_buf_str(&body);
	wh_table_add(&l->table, cells);
	wh_buf_clear(&body);
	return WHERRY_OK;
}

static wh_exit end_listing(listing *l, wherry_code code, const wherry_error *err)
{
	if (!l->json)
		wh_table_end(&l->table);
	if (code != WHERRY_OK && !ferror(stdout))
		return wh_report(err);
	if (!l->n && !l->json)
		(void)fprintf(stderr, "no messages\n");
	return WH_EXIT_DONE;
}

/* ---- list ---- */

static wh_exit work_list(const wh_args *args, wh_delayed_session *s)
{
	wherry_delayed_filter filter =
		WHERRY_DELAYED_FILTER(.prefix = wh_arg(args, "prefix"),
				      .after = wh_arg(args, "after"), .limit = 100);
	listing l = {.json = wh_arg_on(args, "json")};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	if (!wh_arg_count(args, "limit", 1, INT64_MAX, &filter.limit))
		return WH_EXIT_USAGE;
	wh_table_begin(&l.table, columns, COLUMNS);
	code = wherry_delayed_list(s->delayed, &filter, show, &l, &err);
	return end_listing(&l, code, &err);
}

static wh_exit run_list(wh_args *args)
{
	return wh_with_delayed(args, work_list);
}

static const wh_option list_options[] = {
	{"prefix", "TEXT", "Only keys that begin with this.", NULL, 0},
	{"after", "KEY", "Only keys behind this one: the next page.", NULL, 0},
	{"limit", "N", "At most this many. (default 100)", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_delayed_list_word = {
	.name = "delayed list",
	.operands = "URL#TABLE/QUEUE",
	.synopsis = "URL#TABLE/QUEUE [--prefix TEXT] [--after KEY] [--limit N] "
		    "[--json]",
	.brief = "List messages in the order of their keys",
	.help = "It locks nothing: consumers that work meanwhile do not notice. The table shows "
		"the first 200 bytes of a body, with a newline as \\n and other control characters as "
		"\\u001b. --json has all of it.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed list sqlite:shop.db#delayed/mail --prefix order-\n",
	.options = list_options,
	.plain = true,
	.run = run_list,
};

/* ---- read ---- */

static wherry_code print_one(void *ctx, const wherry_delayed_message *msg)
{
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

	if (*(bool *)ctx) {
		wh_put_delayed_message(&line, msg);
	} else {
		wh_buf_put(&line, msg->body, msg->body_len);
		wh_buf_putc(&line, '\n');
	}
	wh_print_buf(&line, "");
	wh_buf_clear(&line);
	return WHERRY_OK;
}

static wh_exit work_read(const wh_args *args, wh_delayed_session *s)
{
	const char *key = wh_arg(args, "key");
	bool json = wh_arg_on(args, "json"), found = false;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code =
		wherry_delayed_read(s->delayed, key, print_one, &json, &found, &err);

	if (code != WHERRY_OK)
		return wh_call_failed(args, code, &err);
	if (found)
		return WH_EXIT_DONE;
	return wh_complain(NULL, "delayed queue '%s' has no message of key '%s'",
			   s->queue, key);
}

static wh_exit run_read(wh_args *args)
{
	return wh_with_delayed(args, work_read);
}

static const wh_option read_options[] = {
	{"key", "KEY", "The key of the message.", NULL, WH_REQUIRED},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_delayed_read_word = {
	.name = "delayed read",
	.operands = "URL#TABLE/QUEUE",
	.synopsis = "URL#TABLE/QUEUE --key KEY [--json]",
	.brief = "Print the message of a key without polling it",
	.help = "It also shows a message that is leased or not due. The exit status is 1 if "
		"the key has no message. With --json, its token is good for `wherry delayed "
		"ack` until an offer replaces the message.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed read sqlite:shop.db#delayed/mail --key order-7\n",
	.options = read_options,
	.plain = true,
	.run = run_read,
};

/* ---- count ---- */

static wh_exit work_count(const wh_args *args, wh_delayed_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_status st;
	char age[WH_SPAN_LEN], next[WH_SPAN_LEN];

	if (wherry_delayed_get_status(s->delayed, &st, sizeof(st), &err) != WHERRY_OK)
		return wh_report(&err);
	if (wh_arg_on(args, "json")) {
		(void)printf("{\"due\":%" PRId64 ",\"leased\":%" PRId64
			     ",\"waiting\":%" PRId64 ",\"dead\":%" PRId64
			     ",\"oldest_due_seconds\":%.3f",
			     st.due, st.leased, st.waiting, st.dead,
			     (double)st.oldest_due_us / 1e6);
		if (st.next_us < 0)
			(void)printf(",\"next_seconds\":null}\n");
		else
			(void)printf(",\"next_seconds\":%.3f}\n",
				     (double)st.next_us / 1e6);
		return WH_EXIT_DONE;
	}
	(void)printf("due      %" PRId64 "%s%s\nleased   %" PRId64 "\nwaiting  %" PRId64
		     "%s%s\ndead     %" PRId64 "\n",
		     st.due, st.due ? ", the first for " : "",
		     st.due ? wh_span_text(st.oldest_due_us, age) : "", st.leased,
		     st.waiting, st.next_us > 0 ? ", the next can be polled in " : "",
		     st.next_us > 0 ? wh_span_text(st.next_us, next) : "", st.dead);
	return WH_EXIT_DONE;
}

static wh_exit run_count(wh_args *args)
{
	return wh_with_delayed(args, work_count);
}

static const wh_option count_options[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_delayed_count_word = {
	.name = "delayed count",
	.operands = "URL#TABLE/QUEUE",
	.synopsis = "URL#TABLE/QUEUE [--json]",
	.brief = "Count the messages of a delayed queue",
	.help = "Due messages can be polled now. Leased ones were polled and not settled. "
		"Waiting ones are not due. Dead ones need a person.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed count sqlite:shop.db#delayed/mail\n",
	.options = count_options,
	.plain = true,
	.run = run_count,
};

/* ---- dead ---- */

/* The value of --retry or --purge: an id, or "all", which is 0. */
static bool read_id(const wh_args *args, const char *text, int64_t *out)
{
	*out = 0;
	if (strcmp(text, "all") == 0 || (wh_parse_int(text, out) && *out > 0))
		return true;
	(void)wh_usage(args->command, "'%s' is not an id: give one, or all", text);
	return false;
}

static wh_exit work_dead(const wh_args *args, wh_delayed_session *s)
{
	const char *retry = wh_arg(args, "retry"), *purge = wh_arg(args, "purge");
	listing l = {.json = wh_arg_on(args, "json")};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0, after = 0, limit = 100, n = 0;
	wherry_code code;
	wh_exit status;

	if ((retry && !read_id(args, retry, &id)) ||
	    (purge && !read_id(args, purge, &id)) ||
	    !wh_arg_count(args, "after", 0, INT64_MAX, &after) ||
	    !wh_arg_count(args, "limit", 1, INT64_MAX, &limit))
		return WH_EXIT_USAGE;
	if (!purge && (wh_arg_on(args, "yes") || wh_arg_on(args, "dry-run")))
		return wh_usage(args->command, "--yes and --dry-run are for --purge");
	if (purge && !wh_confirm(args, &status,
				 id ? "delete dead message %s of delayed queue '%s'"
				    : "delete %s dead messages of delayed queue '%s'",
				 purge, s->queue))
		return status;
	if (retry || purge) {
		code = retry ? wherry_delayed_retry(s->delayed, id, &n, &err)
			     : wherry_delayed_purge_dead(s->delayed, id, &n, &err);
		return code == WHERRY_OK
			       ? wh_delayed_changed(args, s, n,
						    retry ? "retried" : "deleted")
			       : wh_report(&err);
	}
	wh_table_begin(&l.table, columns, COLUMNS);
	code = wherry_delayed_list_dead(s->delayed, after, limit, show, &l, &err);
	return end_listing(&l, code, &err);
}

static wh_exit run_dead(wh_args *args)
{
	if (wh_arg(args, "retry") && wh_arg(args, "purge"))
		return wh_usage(args->command,
				"--retry and --purge are given: only one of them");
	return wh_with_delayed(args, work_dead);
}

static const wh_option dead_options[] = {
	{"retry", "ID", "Let this message be polled again; all: every one.", NULL, 0},
	{"purge", "ID", "Delete this message; all: every one.", NULL, 0},
	WH_CONFIRM_OPTIONS,
	{"after", "ID", "Only ids above this one: the next page.", NULL, 0},
	{"limit", "N", "At most this many. (default 100)", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_delayed_dead_word = {
	.name = "delayed dead",
	.operands = "URL#TABLE/QUEUE",
	.synopsis = "URL#TABLE/QUEUE [--retry ID|--purge ID " WH_CONFIRM_USAGE
		    "] [--after ID] [--limit N] "
		    "[--json]",
	.brief = "List dead messages with their errors, retry or delete them",
	.help = "A message that is retried can be polled at once, with no attempts counted. It "
		"stays dead if its key has another message by now.\n"
		"\n"
		"Examples:\n"
		"  wherry delayed dead sqlite:shop.db#delayed/mail\n"
		"  wherry delayed dead sqlite:shop.db#delayed/mail --retry all\n",
	.options = dead_options,
	.plain = true,
	.run = run_dead,
};
