#include "cli/commands.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/target.h"
#include "outbox/adopt.h"

static wh_adopt_options options_of(const wh_args *args)
{
	wh_adopt_options options = {
		.as = wh_arg(args, "as"),
		.id = wh_arg(args, "id"),
		.where = wh_arg(args, "where"),
		.done = wh_arg(args, "done"),
		.from = wh_arg(args, "from"),
	};

	for (int i = 0; i < WH_ADOPT_FIELDS; i++)
		options.fields[i] = wh_arg(args, wh_adopt_option(i));
	return options;
}

/* ---- what is printed ---- */

/* Notes on added columns: how they change the table for its programs. */
static void put_additions(wh_buf *to, const wh_adoption *a)
{
	const bool tsql = strcmp(a->db->driver->scheme, "mssql") == 0;

	if (a->adds_id)
		wh_buf_printf(
			to,
			"note: %s writes the table again%s%s%s, and nobody can use it "
			"meanwhile, since no column of it is a unique integer; rows that are there get "
			"numbers as they lie, which is not the order in which they were written if they "
			"were updated: let the old relay deliver them first\n",
			tsql ? "SQL Server" : "PostgreSQL", *a->size ? " (" : "", a->size,
			*a->size ? ")" : "");
	if (a->numbered || !*a->version || a->own_version)
		return;
	if (!tsql) {
		wh_buf_puts(
			to,
			"note: the table gets a column at its end: COPY into the table then needs a list of "
			"columns, and SELECT * returns one more\n");
		return;
	}
	wh_buf_puts(
		to,
		"note: the table gets a column with row versions, and nobody can use it while SQL Server gives one "
		"to each row and makes the index: INSERT then needs a list of columns, and SELECT * returns one "
		"more\n");
}

static void put_mapping(wh_buf *to, const wh_adoption *a)
{
	wh_buf_printf(to, "table '%s' as outbox '%s'", a->source, a->title);
	if (a->known)
		wh_buf_printf(to, "; it looks like %s", a->known);
	wh_buf_printf(to, "\n  %-15s%s%s\n", "id", a->id,
		      a->adds_id ? " (a new column)" : "");
	for (int i = 0; i < WH_ADOPT_FIELDS; i++)
		if (a->shown[i].len)
			wh_buf_printf(to, "  %-15s%s\n", wh_adopt_option(i),
				      wh_buf_into(&a->shown[i], to));
	wh_buf_printf(to, "  %-15s%s\n", "when delivered",
		      wh_buf_into(&a->done_shown, to));
	wh_buf_printf(to, "  %-15s", "begins");
	if (strcmp(a->from, "undone") == 0)
		wh_buf_printf(to, "with what is not delivered: %s%" PRId64 " row%s\n",
			      a->undone == 100000 ? "more than " : "", a->undone,
			      wh_plural(a->undone));
	else if (strcmp(a->from, "start") == 0)
		wh_buf_puts(
			to,
			"with the first row: all rows that are there are delivered\n");
	else
		wh_buf_printf(to, "at %s\n", a->from);
	if (a->note)
		wh_buf_printf(to, "note: %s\n", a->note);
	put_additions(to, a);
	if (!a->set.len && !a->deletes && wh_adopt_find(a, "status", true))
		wh_buf_puts(
			to,
			"note: the column status may say that a row is delivered: then add --done "
			"\"status = '...'\" with that value\n");
	if (a->open.len)
		wh_buf_puts(
			to,
			"note: sessions that write to the table need QUOTED_IDENTIFIER and the ANSI settings on, as drivers "
			"have them, because of the index of rows that are not done; sqlcmd needs -I\n");
	if (a->published)
		wh_buf_puts(
			to,
			"note: the table is published for logical replication: add the "
			"new columns on subscribers first, or it stops there\n");
	if (a->taken > 1)
		wh_buf_printf(
			to,
			"note: ids are taken %" PRId64
			" at a time, so messages of a key from different sessions may "
			"come in another order than they were committed in\n",
			a->taken);
}

static void put_plan(wh_buf *to, const wh_adoption *a)
{
	put_mapping(to, a);
	wh_buf_puts(
		to,
		"\nThis would run, and then make the tables of Wherry's own beside it:\n\n");
	for (size_t i = 0; i < a->n_steps; i++)
		wh_buf_printf(to, "%s\n", a->steps[i].sql);
	wh_buf_puts(to, "Nothing was changed. To do it, add --yes.\n");
}

static void put_string(wh_buf *to, const char *name, const char *text)
{
	wh_buf_printf(to, ",\"%s\":", name);
	wh_buf_json(to, text, strlen(text));
}

static void put_json(wh_buf *to, const wh_adoption *a, const char *did)
{
	wh_buf_puts(to, "{\"outbox\":");
	wh_buf_json(to, a->title, strlen(a->title));
	put_string(to, "table", a->source);
	put_string(to, "did", did);
	if (a->known)
		put_string(to, "known", a->known);
	wh_buf_puts(to, ",\"columns\":{\"id\":");
	wh_buf_json(to, a->id, strlen(a->id));
	for (int i = 0; i < WH_ADOPT_FIELDS; i++)
		if (a->shown[i].len)
			put_string(to, wh_adopt_option(i), wh_buf_into(&a->shown[i], to));
	wh_buf_puts(to, "}");
	put_string(to, "done", wh_buf_into(&a->done_shown, to));
	put_string(to, "from", a->from);
	if (a->undone >= 0)
		wh_buf_printf(to, ",\"undone\":%" PRId64, a->undone);
	wh_buf_puts(to, ",\"sql\":[");
	for (size_t i = 0; i < a->n_steps; i++) {
		wh_buf_puts(to, i ? "," : "");
		wh_buf_json(to, a->steps[i].sql, strlen(a->steps[i].sql));
	}
	wh_buf_puts(to, "]}\n");
}

static void put_done(wh_buf *to, const wh_args *args, const wh_adoption *a, bool made)
{
	wh_buf_printf(
		to, "table '%s' is read as outbox '%s'%s: relay it with\n  wherry relay",
		a->source, a->title, made ? "" : " again");
	wh_put_table_of(to, args->target, wh_operand(args, 0), a->title);
	wh_buf_puts(to, " DESTINATION\n");
}

/* ---- the command ---- */

static wherry_code work(const wh_args *args, wherry_db *db, wh_buf *text,
			wherry_error *err)
{
	const wh_adopt_options options = options_of(args);
	const bool json = wh_arg_on(args, "json"), yes = wh_arg_on(args, "yes");
	wh_adoption *a = calloc(1, sizeof(*a));
	bool made = false;
	wherry_code code;

	if (!a)
		return wh_oom(err);
	code = wh_adoption_plan(db, args->table.table, &options, a, err);
	if (code == WHERRY_OK && yes)
		code = wh_adoption_run(a, &made, err);
	if (code == WHERRY_OK && json)
		put_json(text, a, !yes ? "nothing" : made ? "made" : "unchanged");
	else if (code == WHERRY_OK && yes)
		put_done(text, args, a, made);
	else if (code == WHERRY_OK)
		put_plan(text, a);
	if (code == WHERRY_OK && yes)
		wh_audit(args, a->title, 0);
	wh_adoption_clear(a);
	free(a);
	return code == WHERRY_OK ? wh_buf_check(text, err) : code;
}

static wh_exit run(wh_args *args)
{
	wh_buf text = WH_BUF_INIT(WH_OUTPUT_MOST);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	wherry_code code;

	if (!*args->table.table || *args->table.queue)
		return wh_usage(
			args->command,
			"name the table, as in postgres://shop@db/shop#domain_events");
	code = wh_db_open_own(wh_operand(args, 0), args->config, &db, &err);
	if (code == WHERRY_OK)
		code = work(args, db, &text, &err);
	wherry_db_close(db);
	if (code == WHERRY_OK)
		wh_print_buf(&text, "");
	wh_buf_clear(&text);
	if (code == WHERRY_INVALID)
		return wh_usage(args->command, "%s", err.message);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

static const wh_option options[] = {
	{"as", "NAME",
	 "The name of the outbox. (default: that of the table, with _log behind it)",
	 NULL, 0},
	{"id", "COLUMN",
	 "A column of unique integers. (default: one that is there; else a new column, except on SQLite)",
	 NULL, 0},
	{"message-id", "COLUMN",
	 "The message id, by which receivers know a message again. (default: a guess)",
	 NULL, 0},
	{"topic", "COLUMN", "The topic. (default: a guess)", NULL, 0},
	{"key", "COLUMN", "Messages with the same key stay in order. (default: a guess)",
	 NULL, 0},
	{"body", "COLUMN", "The body. (default: a guess)", NULL, 0},
	{"headers", "COLUMN", "A JSON object of headers. (default: a guess)", NULL, 0},
	{"aggregate-type", "COLUMN",
	 "The kind of thing that a message is about. (default: a guess)", NULL, 0},
	{"aggregate-id", "COLUMN",
	 "Which one it is: with the kind it is the key if there is none. (default: a guess)",
	 NULL, 0},
	{"trace-id", "COLUMN", "The trace id. (default: a guess)", NULL, 0},
	{"created-at", "COLUMN",
	 "When the row was written: a time, or seconds or milliseconds since 1970. (default: a guess)",
	 NULL, 0},
	{"where", "CONDITION",
	 "Read only rows for which this SQL is true. It must not change after a row was written.",
	 NULL, 0},
	{"done", "WHAT",
	 "What to do with a row that every subscription has: a column of a time or a boolean, which is set; "
	 "\"COLUMN = EXPRESSION, ...\"; delete, when the row is older than outbox.retention; or nothing. (default: a "
	 "column such as published_at if there is one, else nothing)",
	 NULL, 0},
	{"from", "PLACE",
	 "Where the first subscription begins: undone, with rows that are not done and those that come; start; now; an "
	 "id; or a time. (default: undone if --done sets a column, else start)",
	 NULL, 0},
	{"yes", NULL,
	 "Do it. Without this the command changes nothing, and prints what it would do.",
	 NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_adopt = {
	.name = "adopt",
	.operands = "URL#TABLE",
	.synopsis =
		"URL#TABLE [--as NAME] [--id COLUMN] [--message-id COLUMN] [--topic COLUMN] "
		"[--key COLUMN] [--body COLUMN] [--headers COLUMN] [--aggregate-type COLUMN] "
		"[--aggregate-id COLUMN] [--trace-id COLUMN] [--created-at COLUMN] [--where CONDITION] "
		"[--done WHAT] [--from PLACE] [--yes] [--json]",
	.brief = "Relay a table that another program writes, as it is",
	.help = "Reads a table of your own or of another library as an outbox, where it is. Its programs go on "
		"as before: they write the same rows. What Wherry knows of a message is in tables beside it.\n"
		"\n"
		"For COLUMN write the name of a column, =TEXT for the same text in all messages, or an SQL "
		"expression in parentheses. What you leave out is guessed by the names of the columns: the command first "
		"prints what it found and the SQL that it would run.\n"
		"\n"
		"On PostgreSQL the table gets a column wherry_tx with an index, which says in which transaction "
		"a row was written, and a trigger that wakes relays; on SQL Server a column wherry_rv with an index, its row "
		"version. `wherry drop` takes them away and leaves the table. "
		"Stop the old relay of the table first.\n"
		"\n"
		"Examples:\n"
		"  wherry adopt postgres://shop@db/shop#domain_events\n"
		"  wherry adopt postgres://shop@db/shop#domain_events --topic type --key order_id --yes\n"
		"  wherry adopt postgres://shop@db/shop#mails --topic =mails --done delete --yes\n"
		"  wherry adopt sqlite:shop.db#events --body \"(json_object('id', id, 'data', data))\" --yes\n",
	.options = options,
	.run = run,
};
