/*
 * The names of the queues of a database, and what a name could mean that was not found.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/queue_session.h"
#include "cli/target.h"
#include "db/driver.h"
#include "db/sql.h"

enum {
	NAMES_MOST = 10,  /* That are printed. */
	TRIED_MOST = 100, /* To open as an outbox. */
};

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static wherry_code take_name(void *ctx, const wh_row *row, wherry_error *err)
{
	const char *name = wh_row_text(row, 0);
	wh_queue_names *list = ctx;
	char **grown = realloc(list->all, (list->n + 1) * sizeof(*grown));

	if (!grown)
		return wh_oom(err);
	list->all = grown;
	grown[list->n] = strdup(name ? name : "");
	return grown[list->n++] ? WHERRY_OK : wh_oom(err);
}

static wherry_code read_names(wherry_db *db, const char *model, const char *file,
			      const char *statement, wh_queue_names *out,
			      wherry_error *err)
{
	const wh_sql_names none = {
		.dialect = db->driver->scheme, .table = "outbox", .payload = ""};
	const char *text = wh_sql_embedded(model, file, db->driver->scheme);
	wh_sql sql = {.n = 0};
	wherry_code code = wh_sql_parse_as(text, &none, &sql, err);

	if (code == WHERRY_OK)
		code = wh_db_run(db, wh_sql_find(&sql, statement), NULL, 0, take_name,
				 out, NULL, err);
	wh_db_forget(db, &sql);
	wh_sql_clear(&sql);
	return code == WHERRY_NOTFOUND ? WHERRY_OK : code;
}

wherry_code wh_queue_names_read(wherry_db *db, wh_queue_names *out, wherry_error *err)
{
	return read_names(db, "queue", "topics", "queues", out, err);
}

void wh_queue_names_clear(wh_queue_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->all[i]);
	free(names->all);
	*names = (wh_queue_names){.n = 0};
}

/* Name i without its schema and its quotes, because the user's name has none. */
static const char *name_at(const void *ctx, size_t i)
{
	const wh_queue_names *names = ctx;
	char *name = i < names->n ? names->all[i] : NULL, *dot, *end;

	if (!name)
		return NULL;
	dot = strrchr(name, '.');
	name = dot ? dot + 1 : name;
	end = name + strlen(name) - 1;
	if (*name == '"' && end > name && *end == '"') {
		*end = 0;
		memmove(name, name + 1, strlen(name));
	}
	return name;
}

/* Without a name that is near, print which there are. */
static void print_names(const wh_queue_names *names)
{
	wh_buf line = WH_BUF_INIT(WH_OUTPUT_MOST);
	size_t most = names->n < NAMES_MOST ? names->n : NAMES_MOST;

	for (size_t i = 0; i < most; i++)
		wh_buf_printf(&line, "%s'%s'", i ? ", " : "", name_at(names, i));
	if (most)
		(void)fprintf(stderr, "  this database has: %s%s\n", wh_buf_str(&line),
			      names->n > most ? ", …" : "");
	wh_buf_clear(&line);
}

static bool is_outbox(wherry_db *db, const char *name)
{
	wherry_outbox *box = NULL;
	bool found = wherry_outbox_open(db, name, &box, NULL) == WHERRY_OK;

	wherry_outbox_close(box);
	return found;
}

/* Add the names of outboxes.  Tables that only look like one are left out. */
static void add_outboxes(wherry_db *db, wh_queue_names *names)
{
	size_t kept = names->n;

	(void)read_names(db, "outbox", "doctor", "outboxes", names, NULL);
	for (size_t i = kept; i < names->n; i++)
		if (i < TRIED_MOST && is_outbox(db, names->all[i])) {
			char *name = names->all[i];

			names->all[i] = names->all[kept];
			names->all[kept++] = name;
		}
	while (names->n > kept)
		free(names->all[--names->n]);
	if (kept)
		qsort(names->all, kept, sizeof(*names->all), compare);
}

void wh_suggest(wherry_db *db, const char *name, bool outboxes)
{
	wh_queue_names names = {.n = 0};
	const char *near = NULL;
	bool queue;

	if (wh_queue_names_read(db, &names, NULL) != WHERRY_OK)
		wh_queue_names_clear(&names);
	near = wh_nearest(name, name_at, &names);
	queue = near && strcmp(near, name) == 0;
	if (outboxes && !queue) {
		add_outboxes(db, &names);
		near = wh_nearest(name, name_at, &names);
	}
	if (queue)
		(void)fprintf(
			stderr,
			"  '%s' has the columns of a queue: if it was renamed, that "
			"command makes it a queue again\n",
			name);
	else if (near)
		(void)fprintf(stderr, "  did you mean '%s'?\n", near);
	else
		print_names(&names);
	wh_queue_names_clear(&names);
}

/* ---- a table of another model ---- */

static bool is_queue(wherry_db *db, const char *name)
{
	wherry_queue *queue = NULL;
	bool found = wherry_queue_open(db, name, &queue, NULL) == WHERRY_OK;

	wherry_queue_close(queue);
	return found;
}

static bool is_inbox(wherry_db *db, const char *name)
{
	wherry_inbox *inbox = NULL;
	bool found = wherry_inbox_open(db, name, &inbox, NULL) == WHERRY_OK;

	wherry_inbox_close(inbox);
	return found;
}

static bool is_delayed(wherry_db *db, const char *name)
{
	wherry_delayed *delayed = NULL;
	bool found =
		wherry_delayed_open(db, name, "any", NULL, &delayed, NULL) == WHERRY_OK;

	wherry_delayed_close(delayed);
	return found;
}

bool wh_tell_other(wherry_db *db, const wh_args *args, const char *name)
{
	static const struct {
		bool (*is)(wherry_db *db, const char *name);
		const char *what, *command;
	} models[] = {{is_outbox, "an outbox", "status"},
		      {is_queue, "a queue", "status"},
		      {is_inbox, "an inbox", "inbox status"}};
	wh_buf words = WH_BUF_INIT(64 * 1024);
	bool found = false;

	for (size_t i = 0; i < sizeof(models) / sizeof(*models) && !found; i++) {
		found = models[i].is(db, name);
		if (!found)
			continue;
		wh_put_table_of(&words, args->target, wh_operand(args, 0), name);
		(void)wh_complain(NULL, "'%s' is %s: `wherry %s%s` shows it", name,
				  models[i].what, models[i].command, wh_buf_str(&words));
	}
	if (!found && is_delayed(db, name)) {
		found = true;
		(void)wh_complain(NULL,
				  "'%s' has delayed queues: write %s/QUEUE to name one",
				  name, name);
	}
	wh_buf_clear(&words);
	return found;
}
