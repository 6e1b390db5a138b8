#include "relay/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "db/driver.h"
#include "db/sql.h"
#include "delayed/delayed.h"
#include "inbox/groups.h"
#include "outbox/outbox.h"

enum {
	LIST_MOST = 80,   /* Bytes of the names in a message. */
	TRIED_MOST = 100, /* Tables that are opened to see their kind. */
};

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static wherry_code take_name(void *ctx, const wh_row *row, wherry_error *err)
{
	const char *name = wh_row_text(row, 0);
	wh_names *list = ctx;
	char **grown = realloc(list->all, (list->n + 1) * sizeof(*grown));

	if (!grown)
		return wh_oom(err);
	list->all = grown;
	grown[list->n] = strdup(name ? name : "");
	return grown[list->n++] ? WHERRY_OK : wh_oom(err);
}

static wherry_code read_names(wherry_db *db, const char *model, const char *file,
			      const char *statement, wh_names *out, wherry_error *err)
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

wherry_code wh_names_of_queues(wherry_db *db, wh_names *out, wherry_error *err)
{
	return read_names(db, "queue", "topics", "queues", out, err);
}

wherry_code wh_names_of_others(wherry_db *db, wh_names *out, wherry_error *err)
{
	return read_names(db, "outbox", "doctor", "any-table", out, err);
}

void wh_names_clear(wh_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->all[i]);
	free(names->all);
	*names = (wh_names){.n = 0};
}

/* Name i without its schema and its quotes, because the user's name has none. */
static const char *name_at(const void *ctx, size_t i)
{
	const wh_names *names = ctx;
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

static bool is_of(wherry_db *db, const char *name, unsigned kinds)
{
	wherry_outbox *outbox = NULL;
	wherry_delayed *delayed = NULL;
	wherry_inbox *inbox = NULL;
	bool found = (kinds & WHERRY_KIND_OUTBOX &&
		      wherry_outbox_open(db, name, &outbox, NULL) == WHERRY_OK) ||
		     (kinds & WHERRY_KIND_DELAYED &&
		      wherry_delayed_open(db, name, "any", NULL, &delayed, NULL) ==
			      WHERRY_OK) ||
		     (kinds & WHERRY_KIND_INBOX &&
		      wherry_inbox_open(db, name, &inbox, NULL) == WHERRY_OK);

	wherry_outbox_close(outbox);
	wherry_delayed_close(delayed);
	wherry_inbox_close(inbox);
	return found;
}

/* Add the names of tables of these kinds.  Tables that only look like one are left out. */
static void add_others(wherry_db *db, unsigned kinds, wh_names *names)
{
	size_t kept = names->n;

	(void)wh_names_of_others(db, names, NULL);
	for (size_t i = kept; i < names->n; i++)
		if (i < TRIED_MOST && is_of(db, names->all[i], kinds)) {
			char *name = names->all[i];

			names->all[i] = names->all[kept];
			names->all[kept++] = name;
		}
	while (names->n > kept)
		free(names->all[--names->n]);
	if (kept)
		qsort(names->all, kept, sizeof(*names->all), compare);
}

static void put_list(wh_buf *text, const wh_names *names)
{
	size_t i = 0;

	for (; i < names->n && text->len + strlen(names->all[i]) < LIST_MOST; i++)
		wh_buf_printf(text, "%s'%s'", i ? ", " : "this database has ",
			      names->all[i]);
	if (i && i < names->n)
		wh_buf_puts(text, ", …");
}

/* Append the text to the message, unless it has no room there. */
static void add_to_message(wherry_error *err, const char *text)
{
	wherry_error was = *err;

	if (!*text || strlen(was.message) + strlen(text) + 4 > sizeof(was.message))
		return;
	(void)wh_fail(err, was.code, "%s (%s)", was.message, text);
	memcpy(was.message, err->message, sizeof(was.message));
	*err = was;
}

void wh_suggest(wherry_db *db, const char *name, unsigned kinds, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(sizeof(err->message));
	wh_names names = {.n = 0};
	const char *near = NULL;
	bool queue;

	if (!err)
		return;
	if (kinds & WHERRY_KIND_QUEUE &&
	    wh_names_of_queues(db, &names, NULL) != WHERRY_OK)
		wh_names_clear(&names);
	near = wh_nearest(name, name_at, &names);
	queue = near && strcmp(near, name) == 0;
	if (!queue && kinds & ~(unsigned)WHERRY_KIND_QUEUE) {
		add_others(db, kinds, &names);
		near = wh_nearest(name, name_at, &names);
	}
	if (queue)
		wh_buf_puts(&text, "it has the columns of a queue; if it was renamed, "
				   "create the queue again");
	else if (near)
		wh_buf_printf(&text, "did you mean '%s'?", near);
	else
		put_list(&text, &names);
	if (wh_buf_check(&text, NULL) == WHERRY_OK)
		add_to_message(err, wh_buf_str(&text));
	wh_buf_clear(&text);
	wh_names_clear(&names);
}
