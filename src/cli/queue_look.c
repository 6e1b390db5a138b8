#include "cli/queue_session.h"
#include "cli/target.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "queue/queue.h"

/* ---- inspect ---- */

typedef struct inspection {
	bool json;
	int n;
} inspection;

static wherry_code print_finding(void *ctx, const char *what, const char *repair)
{
	inspection *i = ctx;
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST), full = WH_BUF_INIT(256 * 1024);

	wh_put_repair(&full, repair);
	repair = wh_buf_str(&full);
	i->n++;
	if (i->json) {
		wh_buf_puts(&line, "{\"finding\":");
		wh_buf_json(&line, what, strlen(what));
		wh_put_text_field(&line, "repair", repair);
		wh_buf_putc(&line, '}');
	} else {
		wh_buf_printf(&line, "-- %s\n%s\n", what, repair);
	}
	wh_print_buf(&line, "\n");
	wh_buf_clear(&line);
	wh_buf_clear(&full);
	return ferror(stdout) ? WHERRY_INTERRUPTED : WHERRY_OK;
}

static wh_exit run_inspect(wh_args *args)
{
	inspection i = {.json = wh_arg_on(args, "json")};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_queue_session s;
	wh_exit status = wh_queue_session_open(&s, args);

	if (status != WH_EXIT_DONE)
		return status;
	if (wherry_queue_inspect(s.queue, print_finding, &i, &err) != WHERRY_OK)
		status = wh_report(&err);
	else if (i.n)
		status = WH_EXIT_FAILED;
	else if (!i.json)
		(void)printf("queue '%s' lacks nothing\n", s.at.name);
	wh_queue_session_close(&s);
	return status;
}

static const wh_option json_only[] = {
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_queue_inspect_word = {
	.name = "queue inspect",
	.operands = "URL#NAME",
	.synopsis = "URL#NAME [--json]",
	.brief = "Check the tables of a queue, and print the SQL that repairs them",
	.help = "It looks for indexes, triggers and constraints that are missing, and for columns "
		"of a wrong type. Nothing is changed. If something is wrong, the exit status is "
		"1, and the output is SQL that can be run.\n"
		"\n"
		"Examples:\n"
		"  wherry queue inspect sqlite:shop.db#jobs\n"
		"  wherry queue inspect postgres://shop@db/shop#orders\n",
	.options = json_only,
	.plain = true,
	.run = run_inspect,
};

/* ---- list ---- */

enum { QUEUE, LAYOUT, READY, LEASED, WAITING, DEAD, COLUMNS };

static wh_paint paint_dead(const char *n)
{
	return strcmp(n, "0") == 0 ? WH_PLAIN : WH_DANGER;
}

static const wh_table_column columns[COLUMNS] = {
	[QUEUE] = {"QUEUE", 60, false, NULL},   [LAYOUT] = {"LAYOUT", 0, false, NULL},
	[READY] = {"READY", 0, true, NULL},     [LEASED] = {"LEASED", 0, true, NULL},
	[WAITING] = {"WAITING", 0, true, NULL}, [DEAD] = {"DEAD", 0, true, paint_dead},
};

static void print_queue(wh_table *table, bool json, const char *name,
			const wherry_queue_status *st)
{
	const int64_t counts[] = {st->ready, st->leased, st->waiting, st->dead};
	const char *unknown = json ? "null" : "?";
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);
	char numbers[4][24];
	const char *cells[COLUMNS] = {name,       st->layout, numbers[0],
				      numbers[1], numbers[2], numbers[3]};

	for (int i = 0; i < 4; i++)
		if (counts[i] < 0)
			(void)snprintf(numbers[i], sizeof(numbers[i]), "%s", unknown);
		else
			(void)snprintf(numbers[i], sizeof(numbers[i]), "%" PRId64,
				       counts[i]);
	if (json) {
		wh_buf_puts(&line, "{\"queue\":");
		wh_buf_json(&line, name, strlen(name));
		wh_put_text_field(&line, "layout", st->layout);
		wh_buf_printf(&line,
			      ",\"ready\":%s,\"leased\":%s,\"waiting\":%s,\"dead\":%s}",
			      numbers[0], numbers[1], numbers[2], numbers[3]);
		wh_print_buf(&line, "\n");
	} else {
		wh_table_add(table, cells);
	}
	wh_buf_clear(&line);
}

/* Passes over a table that is not a queue. */
static wherry_code show(wherry_db *db, const char *name, wh_table *table, bool json,
			wherry_error *err)
{
	wherry_queue *queue = NULL;
	wherry_queue_status st;
	wherry_code code = wherry_queue_open(db, name, &queue, err);

	if (code == WHERRY_NOTFOUND || code == WHERRY_INVALID)
		return WHERRY_OK;
	if (code == WHERRY_OK)
		code = wherry_queue_get_status(queue, &st, sizeof(st), err);
	if (code == WHERRY_NOTFOUND) {
		/* A queue of another program, without Wherry's table beside it, is in
		 * order: only its messages are not counted. */
		st = (wherry_queue_status){
			.ready = -1, .leased = -1, .waiting = -1, .dead = -1};
		(void)snprintf(st.layout, sizeof(st.layout), "%s",
			       queue->store.layout.name);
		(void)fprintf(stderr, "%s is not counted: %s\n", name, err->message);
		code = WHERRY_OK;
	}
	if (code == WHERRY_OK)
		print_queue(table, json, name, &st);
	wherry_queue_close(queue);
	return code;
}

static wh_exit run_list(wh_args *args)
{
	bool json = wh_arg_on(args, "json");
	wherry_error err = WHERRY_ERROR_INIT;
	wh_queue_names list = {.n = 0};
	wh_buf jobs = WH_BUF_INIT(64 * 1024);
	wh_table table;
	wh_place at;
	wh_exit status = wh_place_open(&at, args);

	if (status != WH_EXIT_DONE)
		return status;
	wh_table_begin(&table, columns, COLUMNS);
	if (wh_queue_names_read(at.db, &list, &err) != WHERRY_OK)
		status = wh_report(&err);
	for (size_t i = 0; i < list.n; i++) {
		/* A queue that cannot be read hides no other. */
		if (show(at.db, list.all[i], &table, json, &err) != WHERRY_OK)
			status = wh_report(&err);
	}
	if (!json)
		wh_table_end(&table);
	if (status == WH_EXIT_DONE && !list.n && !json) {
		wh_put_table_of(&jobs, args->target, wh_operand(args, 0), "jobs");
		(void)fprintf(stderr,
			      "no queues: `wherry queue create%s` makes one, called "
			      "jobs\n",
			      wh_buf_str(&jobs));
		wh_buf_clear(&jobs);
	}
	wh_queue_names_clear(&list);
	wh_place_close(&at);
	return status;
}

const wh_command wh_queue_list_word = {
	.name = "queue list",
	.operands = "URL",
	.synopsis = "URL [--json]",
	.brief = "List the queues of a database",
	.help = "Each queue is a row: its layout, and how many messages are ready, leased, waiting "
		"and dead.\n"
		"\n"
		"Examples:\n"
		"  wherry queue list sqlite:shop.db\n",
	.options = json_only,
	.plain = true,
	.run = run_list,
};
