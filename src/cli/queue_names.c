/*
 * The names of the queues of a database.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/queue_session.h"
#include "db/driver.h"
#include "db/sql.h"

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

wherry_code wh_queue_names_read(wherry_db *db, wh_queue_names *out, wherry_error *err)
{
	const wh_sql_names none = {
		.dialect = db->driver->scheme, .table = "", .payload = ""};
	const char *text = wh_sql_embedded("queue", "topics", db->driver->scheme);
	wh_sql sql = {.n = 0};
	wherry_code code = wh_sql_parse_as(text, &none, &sql, err);

	if (code == WHERRY_OK)
		code = wh_db_run(db, wh_sql_find(&sql, "queues"), NULL, 0, take_name, out,
				 NULL, err);
	wh_db_forget(db, &sql);
	wh_sql_clear(&sql);
	return code == WHERRY_NOTFOUND ? WHERRY_OK : code;
}

void wh_queue_names_clear(wh_queue_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->all[i]);
	free(names->all);
	*names = (wh_queue_names){.n = 0};
}

/* Name i without its schema, because the user's name has no schema. */
static const char *name_at(const void *ctx, size_t i)
{
	const wh_queue_names *names = ctx;
	const char *dot = i < names->n ? strrchr(names->all[i], '.') : NULL;

	return dot ? dot + 1 : i < names->n ? names->all[i] : NULL;
}

void wh_queue_suggest(wherry_db *db, const char *name)
{
	wh_queue_names names = {.n = 0};
	const char *near = NULL;

	if (wh_queue_names_read(db, &names, NULL) == WHERRY_OK)
		near = wh_nearest(name, name_at, &names);
	if (near && strcmp(near, name) == 0)
		(void)fprintf(
			stderr,
			"  '%s' has the columns of a queue: if it was renamed, that "
			"command makes it a queue again\n",
			name);
	else if (near)
		(void)fprintf(stderr, "  did you mean '%s'?\n", near);
	wh_queue_names_clear(&names);
}
