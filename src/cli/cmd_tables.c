#include "cli/commands.h"

#include <inttypes.h>
#include <string.h>

#include "cli/listed.h"

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

static void print_json(const wh_listed *t)
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

static void print_row(listing *l, const wh_listed *t)
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

static void print_table(void *ctx, const wh_listed *t)
{
	listing *l = ctx;

	l->n++;
	if (l->json)
		print_json(t);
	else
		print_row(l, t);
}

static wh_exit run(wh_args *args)
{
	listing l = {.json = wh_arg_on(args, "json")};
	wh_exit status;
	wh_session at;

	status = wh_session_connect(&at, args);
	if (status != WH_EXIT_DONE)
		return status;
	wh_table_begin(&l.to, columns, COLUMNS);
	status = wh_list_tables(at.db, print_table, &l);
	if (!l.json)
		wh_table_end(&l.to);
	if (status == WH_EXIT_DONE && !l.n && !l.json)
		(void)fprintf(stderr,
			      "no tables of Wherry: `wherry create%s` makes an outbox\n",
			      args->target);
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
