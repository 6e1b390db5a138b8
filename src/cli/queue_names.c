/*
 * The names of the tables of a database, and which a name could mean that was not found.
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

wherry_code wh_other_names_read(wherry_db *db, wh_queue_names *out, wherry_error *err)
{
	return read_names(db, "outbox", "doctor", "any-table", out, err);
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
		wh_buf_printf(&line, "%s'%s'", i ? ", " : "", names->all[i]);
	if (most)
		(void)fprintf(stderr, "  this database has: %s%s\n", wh_buf_str(&line),
			      names->n > most ? ", …" : "");
	wh_buf_clear(&line);
}

/* Add the names of outboxes.  Tables that only look like one are left out. */
static void add_outboxes(wherry_db *db, wh_queue_names *names)
{
	size_t kept = names->n;

	(void)wh_other_names_read(db, names, NULL);
	for (size_t i = kept; i < names->n; i++)
		if (i < TRIED_MOST && wh_kind_of(db, names->all[i]) == WH_OF_OUTBOX) {
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
