#include "cli/commands.h"

#include <inttypes.h>

#include "base/env.h"
#include "publish/parts.h"

enum { ID, STATE, ATTEMPTS, AGE, TOPIC, KEY, MESSAGE_ID, ERROR, COLUMNS };

static const wh_table_column columns[COLUMNS] = {
	[ID] = {"ID", 0, true},
	[STATE] = {"STATE", 0, false},
	[ATTEMPTS] = {"ATTEMPTS", 0, true},
	[AGE] = {"AGE", 0, true},
	[TOPIC] = {"TOPIC", 20, false},
	[KEY] = {"KEY", 20, false},
	[MESSAGE_ID] = {"MESSAGE_ID", 36, false},
	[ERROR] = {"ERROR", 0, false},
};

typedef struct listing {
	wh_table table;
	wh_buf line;
	bool json;
	int64_t limit;
	int64_t n;
	int64_t last; /* the id of the last row shown */
	bool more;
	int64_t now_us;
} listing;

static void add_row(listing *l, const wherry_row *row)
{
	const wherry_message *m = &row->message;
	const char *key = wh_message_key(m);
	char id[24], attempts[16], age[WH_SPAN_LEN];
	const char *cells[COLUMNS] = {
		[ID] = id,
		[STATE] = wherry_state_name(row->state),
		[ATTEMPTS] = attempts,
		[AGE] = wh_span_text(l->now_us - m->created_at_us, age),
		[TOPIC] = m->topic,
		[KEY] = key ? key : "",
		[MESSAGE_ID] = m->message_id,
		[ERROR] = row->last_error ? row->last_error : "",
	};

	(void)snprintf(id, sizeof(id), "%" PRId64, m->id);
	(void)snprintf(attempts, sizeof(attempts), "%" PRId32, m->attempts);
	wh_table_add(&l->table, cells);
}

/* One row more than asked for is read, to know whether there are more. */
static wherry_code visit(void *ctx, const wherry_row *row)
{
	listing *l = ctx;

	if (l->n == l->limit) {
		l->more = true;
		return WHERRY_OK;
	}
	l->n++;
	l->last = row->message.id;
	if (l->json) {
		wh_buf_reset(&l->line);
		wh_put_row(&l->line, row, WH_ROW_BRIEF);
		(void)puts(wh_buf_str(&l->line));
	} else {
		add_row(l, row);
	}
	/* Nobody reads on: a long listing need not go on either. */
	return ferror(stdout) ? WHERRY_INTERRUPTED : WHERRY_OK;
}

static wh_exit list(wh_session *s, const wherry_filter *filter, listing *l)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_outbox_list(s->box, filter, visit, l, &err);

	if (!l->json)
		wh_table_end(&l->table);
	if (code != WHERRY_OK && !ferror(stdout))
		return wh_report(&err);
	if (!l->n && !l->json)
		(void)fputs("no messages\n", stderr);
	if (l->more)
		(void)fprintf(stderr, "there are more: --after %" PRId64 "\n", l->last);
	return WH_EXIT_DONE;
}

static wh_exit run(wh_args *args)
{
	wherry_filter filter = {.topic = wh_arg(args, "topic"),
				.key = wh_arg(args, "key")};
	listing l = {.line = WH_BUF_INIT(1024 * 1024), .limit = 100};
	wh_exit status;
	wh_session s;

	if (!wh_arg_states(args, "state", &filter.states) ||
	    !wh_arg_duration(args, "since", &filter.since_us) ||
	    !wh_arg_count(args, "after", 0, INT64_MAX, &filter.after_id) ||
	    !wh_arg_count(args, "limit", 1, INT64_MAX - 1, &l.limit))
		return WH_EXIT_USAGE;
	filter.limit = l.limit + 1;
	filter.archived = wh_arg_on(args, "archived");
	l.json = wh_arg_on(args, "json");
	l.now_us = wh_now(&wh_env_system);
	status = wh_session_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	wh_table_begin(&l.table, columns, COLUMNS);
	status = list(&s, &filter, &l);
	wh_buf_clear(&l.line);
	wh_session_close(&s);
	return status;
}

static const wh_option options[] = {
	{"state", "STATES", "Only these, such as failed,dead.", NULL, 0},
	{"topic", "TOPIC", "Only this topic.", NULL, 0},
	{"key", "KEY", "Only this key, or this aggregate id where there is no key.", NULL,
	 0},
	{"since", "AGE", "Only messages written at most so long ago, such as 1h.", NULL,
	 0},
	{"archived", NULL, "Those in the archive instead, all of which are done.", NULL,
	 0},
	{"after", "ID", "Only ids above this one: the next page.", NULL, 0},
	{"limit", "N", "At most so many. (default 100)", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_list = {
	.name = "list",
	.operands = "URL",
	.synopsis = "URL [--state STATES] [--topic TOPIC] [--key KEY] [--since AGE] "
		    "[--archived] [--after ID] [--limit N] [--json]",
	.brief = "List messages, the oldest first",
	.help = "On a terminal a row is cut to its width; in a pipe it is whole. With "
		"--json, one object a line.\n"
		"\n"
		"Examples:\n"
		"  wherry list sqlite:shop.db --state dead\n"
		"  wherry list sqlite:shop.db --key customer-7 --since 1h\n"
		"  wherry list sqlite:shop.db --archived --topic orders\n",
	.options = options,
	.run = run,
};
