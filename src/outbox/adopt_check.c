/*
 * Checks of a plan, before anything is changed: the names, the expressions and the ids of the table.
 */
#include "outbox/adopt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Run a statement of adopt.DIALECT.sql for a table and an option that are known only now. */
static wherry_code run_filled(const wh_adoption *a, const char *what,
			      const char *const *pairs, wh_row_fn visit, void *ctx,
			      wherry_error *err)
{
	char name[16];
	wh_stmt stmt = {.name = name};
	wh_buf text = WH_BUF_INIT(512 * 1024);
	wherry_code code;

	stmt.name_len = (size_t)snprintf(name, sizeof(name), "%s", what);
	wh_adopt_fill(&text, wh_adopt_text(a, what), pairs);
	stmt.text = text.ptr;
	code = wh_buf_check(&text, err);
	if (code == WHERRY_OK)
		code = wh_db_run(a->db, &stmt, NULL, 0, visit, ctx, NULL, err);
	wh_db_forget(a->db, &(wh_sql){.stmts = &stmt, .n = 1});
	wh_buf_clear(&text);
	return code;
}

/* Ids of messages begin at 1. */
static wherry_code check_lowest(const wh_adoption *a, wherry_error *err)
{
	wh_buf id = WH_BUF_INIT(1000), all = WH_BUF_INIT(64 * 1024);
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	int64_t lowest = 1;

	wh_adopt_quote(a, &id, a->id);
	wh_adopt_put_where(a, &all, "\nWHERE ");
	if (!a->adds_id)
		code = run_filled(a, "lowest",
				  (const char *const[]){"id", wh_buf_str(&id), "where",
							wh_buf_str(&all), NULL},
				  wh_take_int, &lowest, &why);
	wh_buf_clear(&id);
	wh_buf_clear(&all);
	if (wh_db_about_row(a->db, code, &why)) /* A row dies for which it fails. */
		return WHERRY_OK;
	if (code != WHERRY_OK) {
		if (err)
			*err = why;
		return wh_prefix(err, code, "--where");
	}
	return lowest > 0
		       ? WHERRY_OK
		       : wh_fail(err, WHERRY_INVALID,
				 "column '%s' has the value %" PRId64
				 ", and ids of messages begin at 1: name another column "
				 "with --id, or read only the others with --where",
				 a->id, lowest);
}

/* Count the rows that the owner does not count as delivered. */
static wherry_code count_undone(wh_adoption *a, const char *from, wherry_error *err)
{
	const char *const pairs[] = {"done", wh_buf_str(&a->done), NULL};
	wherry_code code = WHERRY_OK;

	a->undone = -1;
	if (a->set.len)
		code = run_filled(a, "undone", pairs, wh_take_int, &a->undone, err);
	if (code != WHERRY_OK)
		return wh_prefix(err, code, "--done");
	if (from && strcmp(from, "undone") == 0 && !a->set.len)
		return wh_fail(
			err, WHERRY_INVALID,
			"--from undone: rows do not say whether they were delivered, since --done names no "
			"column");
	(void)snprintf(a->from, sizeof(a->from), "%s",
		       from         ? from
		       : a->set.len ? "undone"
				    : "start");
	return WHERRY_OK;
}

/* Replace a name that the table does not have before it is adopted. */
static void put_without(wh_buf *to, const char *text, const char *name, const char *value)
{
	const char *found;

	while ((found = strstr(text, name)) != NULL) {
		wh_buf_put(to, text, (size_t)(found - text));
		wh_buf_puts(to, value);
		text = found + strlen(name);
	}
	wh_buf_puts(to, text);
}

/* Refuse the name of another table. */
static wherry_code check_name(const wh_adoption *a, wherry_error *err)
{
	int64_t taken = 0;
	wherry_code code = wh_adopt_ask_view(a, "taken-name", wh_take_int, &taken, err);

	if (code == WHERRY_OK && taken)
		return wh_fail(
			err, WHERRY_INVALID,
			"there is a table or view '%s' that is not the outbox of this "
			"table: choose another name with --as",
			a->title);
	return code;
}

/* Plan the UPDATE of --done, without doing it. */
static wherry_code try_set(const wh_adoption *a, wherry_error *err)
{
	const char *const pairs[] = {"set", wh_buf_str(&a->set), NULL};
	wherry_code code =
		a->set.len ? run_filled(a, "try-set", pairs, NULL, NULL, err) : WHERRY_OK;

	return code == WHERRY_OK ? code : wh_prefix(err, code, "--done");
}

/* Run the query of the view, for no row: errors of expressions are seen before anything is changed. */
static wherry_code try_view(const wh_adoption *a, wherry_error *err)
{
	wh_buf columns = WH_BUF_INIT(256 * 1024), known = WH_BUF_INIT(256 * 1024),
	       condition = WH_BUF_INIT(64 * 1024), headers = WH_BUF_INIT(1000),
	       version = WH_BUF_INIT(1000), none = WH_BUF_INIT(1000);
	wherry_code code;

	if (*a->version) {
		wh_adopt_put_version(a, &version);
		wh_adopt_put(&none, wh_adopt_text(a, "version"), "NULL");
	}
	put_without(&columns, wh_buf_into(&a->plain, &columns),
		    version.len ? version.ptr : "\n\n", wh_buf_into(&none, &columns));
	put_without(&known, wh_buf_into(&columns, &known),
		    a->adds_id ? "\"wherry_id\"" : "\n\n", a->adds_id ? "1" : "");
	/* The function is made with the view; another one has the same type. */
	wh_adopt_put_name(a, &headers, &a->name, "_headers");
	wh_buf_reset(&columns);
	put_without(&columns, wh_buf_into(&known, &columns),
		    wh_buf_into(&headers, &columns), "to_json");
	wh_adopt_put_where(a, &condition, "\nWHERE ");
	code = wh_buf_check(&columns, err);
	if (code == WHERRY_OK)
		code = wh_buf_check(&condition, err);
	if (code == WHERRY_OK)
		code = run_filled(a, "try",
				  (const char *const[]){"columns", wh_buf_str(&columns),
							"where", wh_buf_str(&condition),
							NULL},
				  NULL, NULL, err);
	wh_buf_clear(&columns);
	wh_buf_clear(&known);
	wh_buf_clear(&condition);
	wh_buf_clear(&headers);
	wh_buf_clear(&version);
	wh_buf_clear(&none);
	return code == WHERRY_OK ? code
				 : wh_prefix(err, code,
					     "these expressions cannot be read "
					     "from table '%s'",
					     a->source);
}

/* Whether the order of ids is that of the rows. */
static wherry_code look_at_ids(wh_adoption *a, wherry_error *err)
{
	const wh_stmt *taken = wh_sql_find(&a->sql, "taken");
	const wh_param id = WH_TEXT_PARAM("id", wh_view_of(a->id));

	a->taken = 1;
	if (a->adds_id && a->partitioned)
		return wh_fail(
			err, WHERRY_INVALID,
			"table '%s' is partitioned, and no integer column of it is unique alone: only a table "
			"that is partitioned by such a column can be read",
			a->source);
	return taken && !a->adds_id ? wh_db_run(a->db, taken, &id, 1, wh_take_int,
						&a->taken, NULL, err)
				    : WHERRY_OK;
}

wherry_code wh_adopt_check(wh_adoption *a, const char *from, wherry_error *err)
{
	wherry_code code = check_lowest(a, err);

	if (code == WHERRY_OK)
		code = look_at_ids(a, err);
	if (code == WHERRY_OK)
		code = check_name(a, err);
	if (code == WHERRY_OK)
		code = try_set(a, err);
	if (code == WHERRY_OK)
		code = try_view(a, err);
	return code == WHERRY_OK ? count_undone(a, from, err) : code;
}
