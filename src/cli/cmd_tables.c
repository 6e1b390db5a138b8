#include "cli/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "cli/target.h"
#include "db/driver.h"
#include "delayed/delayed.h"
#include "outbox/outbox.h"
#include "queue/queue.h"
#include "relay/names.h"

enum { TABLE, KIND, LAYOUT, MESSAGES, READY, DEAD, RELAY, COLUMNS };

static wh_paint paint_count(const char *n)
{
	return strcmp(n, "0") == 0 || !*n ? WH_PLAIN : WH_DANGER;
}

static const wh_table_column columns[COLUMNS] = {
	[TABLE] = {"TABLE", 40, false, NULL},  [KIND] = {"KIND", 0, false, NULL},
	[LAYOUT] = {"LAYOUT", 0, false, NULL}, [MESSAGES] = {"MESSAGES", 0, true, NULL},
	[READY] = {"READY", 0, true, NULL},    [DEAD] = {"DEAD", 0, true, paint_count},
	[RELAY] = {"RELAY", 0, false, NULL},
};

/* A table of Wherry. */
typedef struct table {
	const char *name, *kind;
	char layout[24];
	/* Messages that are not delivered, those that could be now, and dead ones; of a table of
	 * delayed queues all, also dead ones; of an inbox its ids; of a table of schedules those
	 * that are installed; -1: not known. */
	int64_t messages, ready, dead;
	char relay[100]; /* The relay that holds the lease; "": none, or not known. */
} table;

typedef struct listing {
	wh_table to;
	bool json;
	size_t n;
} listing;

/* ---- printing ---- */

static void put_number(wh_buf *line, const char *name, int64_t n)
{
	if (n < 0)
		wh_buf_printf(line, ",\"%s\":null", name);
	else
		wh_buf_printf(line, ",\"%s\":%" PRId64, name, n);
}

static void print_json(const table *t)
{
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);

	wh_buf_puts(&line, "{\"table\":");
	wh_buf_json(&line, t->name, strlen(t->name));
	wh_put_text_field(&line, "kind", t->kind);
	wh_put_text_field(&line, "layout", t->layout);
	put_number(&line, "messages", t->messages);
	put_number(&line, "ready", t->ready);
	put_number(&line, "dead", t->dead);
	wh_put_text_field(&line, "relay", *t->relay ? t->relay : NULL);
	wh_buf_putc(&line, '}');
	wh_print_buf(&line, "\n");
	wh_buf_clear(&line);
}

static void print_row(listing *l, const table *t)
{
	const int64_t counts[] = {t->messages, t->ready, t->dead};
	char numbers[3][24];
	const char *cells[COLUMNS] = {
		[TABLE] = t->name,       [KIND] = t->kind,     [LAYOUT] = t->layout,
		[MESSAGES] = numbers[0], [READY] = numbers[1], [DEAD] = numbers[2],
		[RELAY] = t->relay,
	};

	for (int i = 0; i < 3; i++)
		if (counts[i] < 0)
			*numbers[i] = 0;
		else
			(void)snprintf(numbers[i], sizeof(numbers[i]), "%" PRId64,
				       counts[i]);
	wh_table_add(&l->to, cells);
}

static void print_table(listing *l, const table *t)
{
	l->n++;
	if (l->json)
		print_json(t);
	else
		print_row(l, t);
}

/* ---- a table of each kind ---- */

static wherry_code read_outbox(wherry_db *db, table *t, wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_outbox_status st;
	wherry_code code = wherry_outbox_open(db, t->name, &outbox, err);

	if (code != WHERRY_OK)
		return code;
	code = wherry_outbox_get_status(outbox, &st, sizeof(st), err);
	if (code == WHERRY_OK) {
		const char *relay =
			!*outbox->store.limits && st.lease_left_us > 0 ? st.owner : "";

		t->kind = "outbox";
		(void)snprintf(t->layout, sizeof(t->layout), "%s", st.layout);
		(void)snprintf(t->relay, sizeof(t->relay), "%s", relay);
		t->messages = st.count[WHERRY_PENDING] + st.count[WHERRY_PROCESSING] +
			      st.count[WHERRY_FAILED];
		t->ready = st.ready;
		t->dead = st.count[WHERRY_DEAD];
	}
	wherry_outbox_close(outbox);
	return code;
}

static wherry_code read_queue(wherry_db *db, table *t, wherry_error *err)
{
	wherry_queue *queue = NULL;
	wh_buf why = WH_BUF_INIT(64 * 1024);
	wherry_queue_status st;
	wherry_code code = wherry_queue_open(db, t->name, &queue, err);

	if (code != WHERRY_OK)
		return code;
	t->kind = "queue";
	(void)snprintf(t->layout, sizeof(t->layout), "%s", queue->store.layout.name);
	code = wherry_queue_get_status(queue, &st, sizeof(st), err);
	if (code == WHERRY_OK) {
		t->messages = st.ready + st.leased + st.waiting;
		t->ready = st.ready;
		t->dead = st.dead;
	} else if (code == WHERRY_NOTFOUND) {
		/* A queue of another program, without Wherry's table beside it, is in
		 * order: only its messages are not counted. */
		wh_put_message(&why, err);
		(void)fprintf(stderr, "%s is not counted: %s\n", t->name,
			      wh_buf_str(&why));
		wh_buf_clear(&why);
		code = WHERRY_OK;
	}
	wherry_queue_close(queue);
	return code;
}

static wherry_code read_delayed(wherry_db *db, table *t, wherry_error *err)
{
	wh_delayed_counts counts = {0};
	wherry_delayed *delayed = NULL;
	wherry_code code = wherry_delayed_open(db, t->name, "any", NULL, &delayed, err);

	if (code != WHERRY_OK)
		return code;
	t->kind = "delayed";
	(void)snprintf(t->layout, sizeof(t->layout), "%s", delayed->store.layout.name);
	code = wh_delayed_count_table(delayed, &counts, err);
	t->messages = counts.messages;
	t->ready = counts.ready;
	t->dead = counts.dead;
	wherry_delayed_close(delayed);
	return code;
}

static wherry_code read_inbox(wherry_db *db, table *t, wherry_error *err)
{
	wherry_inbox *inbox = NULL;
	wherry_code code = wherry_inbox_open(db, t->name, &inbox, err);

	if (code != WHERRY_OK)
		return code;
	t->kind = "inbox";
	(void)snprintf(t->layout, sizeof(t->layout), "native");
	code = wherry_inbox_count(inbox, &t->messages, NULL, err);
	wherry_inbox_close(inbox);
	return code;
}

static wherry_code count_entry(void *ctx, const wherry_cron_entry *entry)
{
	table *t = ctx;

	t->messages += entry->active;
	return WHERRY_OK;
}

static wherry_code read_cron(wherry_db *db, table *t, wherry_error *err)
{
	wherry_cron *cron = NULL;
	wherry_code code = wherry_cron_open(db, t->name, &cron, err);

	if (code != WHERRY_OK)
		return code;
	t->kind = "cron";
	(void)snprintf(t->layout, sizeof(t->layout), "native");
	t->messages = 0;
	code = wherry_cron_list(cron, count_entry, t, err);
	wherry_cron_close(cron);
	return code;
}

/* Print a table that may be of one of these kinds.  One that cannot be read hides no other. */
static wh_exit show(wherry_db *db, const char *name, bool queue, listing *l)
{
	static wherry_code (*const reads[])(wherry_db *, table *, wherry_error *) = {
		read_outbox, read_delayed, read_inbox, read_cron};
	wherry_error err = WHERRY_ERROR_INIT;
	table t = {.name = name, .messages = -1, .ready = -1, .dead = -1};
	wherry_code code = WHERRY_NOTFOUND;

	if (queue)
		code = read_queue(db, &t, &err);
	for (size_t i = 0; !queue && i < sizeof(reads) / sizeof(*reads); i++) {
		code = reads[i](db, &t, &err);
		if (code != WHERRY_NOTFOUND && code != WHERRY_INVALID &&
		    code != WHERRY_UNSUPPORTED)
			break;
	}
	if (code == WHERRY_OK)
		print_table(l, &t);
	else if (code != WHERRY_NOTFOUND && code != WHERRY_INVALID &&
		 code != WHERRY_UNSUPPORTED)
		return wh_report(&err);
	return WH_EXIT_DONE;
}

static wh_exit show_all(wherry_db *db, const wh_names *names, bool queues, listing *l)
{
	wh_exit status = WH_EXIT_DONE;

	for (size_t i = 0; i < names->n; i++) {
		wh_exit each = show(db, names->all[i], queues, l);

		if (each != WH_EXIT_DONE)
			status = each;
	}
	return status;
}

static wh_exit run(wh_args *args)
{
	listing l = {.json = wh_arg_on(args, "json")};
	wh_names others = {.n = 0}, queues = {.n = 0};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_exit status, more;
	wh_session at;

	status = wh_session_connect(&at, args);
	if (status != WH_EXIT_DONE)
		return status;
	wh_table_begin(&l.to, columns, COLUMNS);
	if (wh_names_of_others(at.db, &others, &err) != WHERRY_OK ||
	    wh_names_of_queues(at.db, &queues, &err) != WHERRY_OK)
		status = wh_report(&err);
	more = show_all(at.db, &others, false, &l);
	status = more == WH_EXIT_DONE ? status : more;
	more = show_all(at.db, &queues, true, &l);
	status = more == WH_EXIT_DONE ? status : more;
	if (!l.json)
		wh_table_end(&l.to);
	if (status == WH_EXIT_DONE && !l.n && !l.json)
		(void)fprintf(stderr,
			      "no tables of Wherry: `wherry create%s` makes an outbox\n",
			      args->target);
	wh_names_clear(&others);
	wh_names_clear(&queues);
	wh_session_close(&at);
	return status;
}

static const wh_option options[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_tables = {
	.name = "tables",
	.operands = "URL",
	.synopsis = "URL [--json]",
	.brief =
		"List the tables of a database: outboxes, queues, delayed queues, inboxes, schedules",
	.help = "Each table is a row: its kind and its layout, how many messages are not delivered, "
		"how many of them could be now, how many are dead, and the relay that holds the "
		"lease of an outbox. Of an inbox it counts the ids, of a table of schedules the schedules. With --json, each table is one "
		"object on a line.\n"
		"\n"
		"Examples:\n"
		"  wherry tables sqlite:shop.db\n"
		"  wherry tables postgres://shop@db/shop --json\n",
	.options = options,
	.plain = true,
	.run = run,
};
