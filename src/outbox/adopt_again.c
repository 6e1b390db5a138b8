/*
 * The options of the last time that a table was adopted, which its view keeps: a second run need not repeat them.
 */
#include "outbox/adopt.h"

#include <stdlib.h>
#include <string.h>

static void put_view(const wh_adoption *a, wh_buf *to)
{
	if (*a->name.schema)
		wh_adopt_put_name(a, to, &a->name, "");
	else
		wh_buf_puts(to, a->name.table);
}

wherry_code wh_adopt_ask_view(const wh_adoption *a, const char *statement,
			      wh_row_fn visit, void *ctx, wherry_error *err)
{
	wh_buf name = WH_BUF_INIT(1000);
	wh_param view;
	wherry_code code;

	put_view(a, &name);
	view = WH_TEXT_PARAM("view", wh_view_of(wh_buf_str(&name)));
	code = wh_db_run(a->db, wh_sql_find(&a->sql, statement), &view, 1, visit, ctx,
			 NULL, err);
	wh_buf_clear(&name);
	return code;
}

/* ---- writing ---- */

static void put_option(wh_buf *to, const char *name, const char *value)
{
	if (!value || !*value)
		return;
	wh_buf_puts(to, to->len > 1 ? "," : "");
	wh_buf_json(to, name, strlen(name));
	wh_buf_putc(to, ':');
	wh_buf_json(to, value, strlen(value));
}

wherry_code wh_adopt_remember(wh_adoption *a, const wh_adopt_options *options,
			      wherry_error *err)
{
	wh_buf *to = &a->options;

	wh_buf_putc(to, '{');
	put_option(to, "id", a->id);
	for (int i = 0; i < WH_ADOPT_FIELDS; i++)
		put_option(to, wh_adopt_option(i),
			   options->fields[i] ? options->fields[i]
					      : wh_buf_into(&a->shown[i], to));
	put_option(to, "where", options->where);
	put_option(to, "done",
		   options->done     ? options->done
		   : *a->done_column ? a->done_column
				     : "nothing");
	wh_buf_putc(to, '}');
	return wh_buf_check(to, err);
}

/* ---- reading ---- */

typedef struct recalling {
	wh_adoption *adoption;
	wh_adopt_options *options;
} recalling;

/* The option of that name; NULL: there is none. */
static const char **option_of(wh_adopt_options *options, const char *name)
{
	if (strcmp(name, "id") == 0)
		return &options->id;
	if (strcmp(name, "where") == 0)
		return &options->where;
	if (strcmp(name, "done") == 0)
		return &options->done;
	for (int i = 0; i < WH_ADOPT_FIELDS; i++)
		if (strcmp(name, wh_adopt_option(i)) == 0)
			return &options->fields[i];
	return NULL;
}

static wherry_code take_option(void *ctx, const wh_row *row, wherry_error *err)
{
	const recalling *r = ctx;
	wh_adoption *a = r->adoption;
	const char *name = wh_row_text(row, 0), *value = wh_row_text(row, 1);
	const char **option = name ? option_of(r->options, name) : NULL;

	if (!option || *option || !value || a->n_kept == WH_ADOPT_KEPT_MOST)
		return wh_row_check(row, err);
	a->kept[a->n_kept] = strdup(value);
	*option = a->kept[a->n_kept];
	return a->kept[a->n_kept++] ? WHERRY_OK : wh_oom(err);
}

wherry_code wh_adopt_recall(wh_adoption *a, wh_adopt_options *options, wherry_error *err)
{
	recalling r = {a, options};

	return wh_adopt_ask_view(a, "remembered", take_option, &r, err);
}
