#include "cli/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "db/driver.h"
#include "outbox/outbox.h"

enum { OUTBOXES_MOST = 1000 };

enum { OUTBOX, LAYOUT, READY, FAILED, DEAD, DONE, RELAY, COLUMNS };

static wh_paint paint_count(const char *n)
{
	return strcmp(n, "0") == 0 ? WH_PLAIN : WH_DANGER;
}

static const wh_table_column columns[COLUMNS] = {
	[OUTBOX] = {"OUTBOX", 40, false, NULL},  [LAYOUT] = {"LAYOUT", 0, false, NULL},
	[READY] = {"READY", 0, true, NULL},      [FAILED] = {"FAILED", 0, true, NULL},
	[DEAD] = {"DEAD", 0, true, paint_count}, [DONE] = {"DONE", 0, true, NULL},
	[RELAY] = {"RELAY", 0, false, NULL},
};

typedef struct names {
	char *name[OUTBOXES_MOST];
	size_t n;
} names;

typedef struct listing {
	wh_table table;
	bool json;
	size_t n;
} listing;

static wherry_code take_name(void *ctx, const wh_row *row, wherry_error *err)
{
	const char *name = wh_row_text(row, 0);
	names *all = ctx;

	if (all->n == OUTBOXES_MOST || !name)
		return WHERRY_OK;
	all->name[all->n] = strdup(name);
	return all->name[all->n++] ? WHERRY_OK : wh_oom(err);
}

/* Read the names of tables that may be outboxes. */
static wherry_code read_names(wherry_db *db, names *out, wherry_error *err)
{
	const wh_sql_names none = {.table = "outbox", .payload = ""};
	const char *text = wh_sql_embedded("outbox", "doctor", db->driver->scheme);
	wh_sql sql = {.n = 0};
	wherry_code code = wh_sql_parse_as(text, &none, &sql, err);

	if (code == WHERRY_OK)
		code = wh_db_run(db, wh_sql_find(&sql, "outboxes"), NULL, 0, take_name,
				 out, NULL, err);
	wh_db_forget(db, &sql);
	wh_sql_clear(&sql);
	return code;
}

static const char *relay_of(const wherry_status *st, const wherry_outbox *box)
{
	if (*box->store.limits)
		return "not known";
	return st->lease_left_us > 0 ? st->owner : "none";
}

static void print_row(listing *l, const char *name, const wherry_status *st,
		      const wherry_outbox *box)
{
	char numbers[4][24];
	const int64_t counts[] = {st->ready, st->count[WHERRY_FAILED],
				  st->count[WHERRY_DEAD],
				  st->count[WHERRY_DONE] + st->archived};
	const char *cells[COLUMNS] = {
		[OUTBOX] = name,
		[LAYOUT] = st->layout,
		[READY] = numbers[0],
		[FAILED] = numbers[1],
		[DEAD] = numbers[2],
		[DONE] = numbers[3],
		[RELAY] = relay_of(st, box),
	};

	for (int i = 0; i < 4; i++)
		(void)snprintf(numbers[i], sizeof(numbers[i]), "%" PRId64, counts[i]);
	wh_table_add(&l->table, cells);
}

static void print_json(const char *name, const wherry_status *st)
{
	wh_buf buf = WH_BUF_INIT(WH_OUTPUT_MOST);

	wh_buf_puts(&buf, "{\"table\":");
	wh_buf_json(&buf, name, strlen(name));
	wh_buf_puts(&buf, ",\"layout\":");
	wh_buf_json(&buf, st->layout, strlen(st->layout));
	for (int i = 0; i < WHERRY_STATE_COUNT; i++)
		wh_buf_printf(&buf, ",\"%s\":%" PRId64,
			      wherry_state_name((wherry_state)i), st->count[i]);
	wh_buf_printf(&buf, ",\"archived\":%" PRId64 ",\"ready\":%" PRId64 ",\"relay\":",
		      st->archived, st->ready);
	if (st->lease_left_us > 0)
		wh_buf_json(&buf, st->owner, strlen(st->owner));
	else
		wh_buf_puts(&buf, "null");
	wh_buf_putc(&buf, '}');
	wh_print_buf(&buf, "\n");
	wh_buf_clear(&buf);
}

/* Show an outbox.  A table that is not an outbox is skipped. */
static wherry_code show(wherry_db *db, const char *name, listing *l, wherry_error *err)
{
	wherry_outbox *box = NULL;
	wherry_status st;
	wherry_code code = wherry_outbox_open(db, name, &box, err);

	if (code == WHERRY_NOTFOUND || code == WHERRY_INVALID ||
	    code == WHERRY_UNSUPPORTED)
		return WHERRY_OK;
	if (code == WHERRY_OK)
		code = wherry_outbox_status(box, &st, sizeof(wherry_status), err);
	if (code == WHERRY_OK) {
		l->n++;
		if (l->json)
			print_json(name, &st);
		else
			print_row(l, name, &st, box);
	}
	wherry_outbox_close(box);
	return code;
}

/* Show all outboxes.  If one cannot be read, report it and go on. */
static wh_exit show_all(wherry_db *db, const names *all, listing *l)
{
	wh_exit status = WH_EXIT_DONE;

	for (size_t i = 0; i < all->n; i++) {
		wherry_error err = WHERRY_ERROR_INIT;

		if (show(db, all->name[i], l, &err) != WHERRY_OK)
			status = wh_report(&err);
	}
	return status;
}

static wh_exit run(wh_args *args)
{
	listing l = {.json = wh_arg_on(args, "json")};
	wherry_error err = WHERRY_ERROR_INIT;
	names all = {.n = 0};
	wherry_db *db = NULL;
	wh_exit status;
	wherry_code code;

	code = wh_db_open_own(wh_operand(args, 0), args->config, &db, &err);
	if (code == WHERRY_OK)
		code = read_names(db, &all, &err);
	wh_table_begin(&l.table, columns, COLUMNS);
	if (code == WHERRY_INVALID)
		status = wh_usage(args->command, "%s", err.message);
	else
		status = code == WHERRY_OK ? show_all(db, &all, &l) : wh_report(&err);
	if (!l.json)
		wh_table_end(&l.table);
	if (status == WH_EXIT_DONE && !l.n && !l.json)
		(void)fprintf(stderr, "no outboxes: `wherry init%s` makes one\n",
			      args->target);
	for (size_t i = 0; i < all.n; i++)
		free(all.name[i]);
	wherry_db_close(db);
	return status;
}

static const wh_option options[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_outboxes = {
	.name = "outboxes",
	.operands = "URL",
	.synopsis = "URL [--json]",
	.brief = "List the outboxes of a database",
	.help = "Each outbox is a row: its layout, how many messages are ready, failed, dead "
		"and done, and the relay that holds its lease. With --json, each outbox is "
		"one object on a line.\n"
		"\n"
		"Examples:\n"
		"  wherry outboxes sqlite:shop.db\n"
		"  wherry outboxes postgres://shop@db/shop --json\n",
	.options = options,
	.run = run,
};
