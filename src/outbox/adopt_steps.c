/*
 * The SQL that adopts a table, in steps.
 */
#include "outbox/adopt.h"

#include <stdlib.h>
#include <string.h>

/* Add a step: these statements, those that there are. */
static wherry_code add_step(wh_adoption *a, const char *first, const char *second,
			    const char *const *pairs, wherry_error *err)
{
	const char *const names[] = {first, second};
	wh_buf text = WH_BUF_INIT(256 * 1024);
	struct wh_adopt_step *step = &a->steps[a->n_steps];
	static const char word[] = "CONCURRENTLY ";
	char *plain;

	for (int i = 0; i < 2; i++) {
		const char *sql = names[i] ? wh_adopt_text(a, names[i]) : NULL;

		if (sql)
			wh_adopt_fill(&text, sql, pairs);
	}
	if (!text.len)
		return WHERRY_OK;
	step->sql = wh_buf_take(&text);
	wh_buf_clear(&text);
	if (!step->sql)
		return wh_oom(err);
	plain = strncmp(first, "index-", strlen("index-")) == 0 ? strstr(step->sql, word)
								: NULL;
	if (plain && a->partitioned)
		memmove(plain, plain + strlen(word), strlen(plain + strlen(word)) + 1);
	step->alone = plain && !a->partitioned;
	a->n_steps++;
	return WHERRY_OK;
}

/* Add a step that makes the table of exceptions, which the view reads if it has guards. */
static wherry_code add_exceptions(wh_adoption *a, wherry_error *err)
{
	wherry_outbox outbox = {.store = wh_outbox_store(a->db, &wh_outbox_model)};
	wherry_code code =
		wh_outbox_load(&outbox, a->db->driver->scheme, "adopted", a->title, err);
	const wh_stmt *stmt = code == WHERRY_OK
				      ? wh_sql_find(&outbox.store.sql, "add-exceptions")
				      : NULL;

	if (stmt) {
		a->steps[a->n_steps].sql = strdup(stmt->text);
		if (!a->steps[a->n_steps].sql)
			code = wh_oom(err);
		else
			a->n_steps++;
	}
	wh_store_clear(&outbox.store);
	return code;
}

/* Names and texts that stand in statements as @word@. */
typedef struct words {
	wh_buf texts[24];
	const char *pairs[49]; /* Ended by NULL. */
	size_t n;
} words;

static wh_buf *add_word(words *w, const char *word)
{
	wh_buf *text = &w->texts[w->n];

	*text = (wh_buf)WH_BUF_INIT(512 * 1024);
	w->pairs[2 * w->n++] = word;
	return text;
}

/* @word@: a name with something behind it, and @word_text@: that as a text. */
static void add_name(const wh_adoption *a, words *w, const wh_name *name,
		     const char *word, const char *behind, const char *word_text)
{
	wh_buf *quoted = add_word(w, word);

	wh_adopt_put_name(a, quoted, name, behind);
	if (word_text)
		wh_adopt_put_literal(a, add_word(w, word_text), wh_buf_str(quoted));
}

static wherry_code fill_words(const wh_adoption *a, words *w, wherry_error *err)
{
	wh_name unqualified = a->name;
	wh_buf noted = WH_BUF_INIT(512 * 1024);
	wherry_code code = WHERRY_OK;

	*unqualified.schema = 0;
	wh_adopt_quote(a, add_word(w, "id"), a->id);
	wh_adopt_quote(a, add_word(w, "version"), a->version);
	add_name(a, w, &a->name, "view", "", "view_text");
	add_name(a, w, &a->name, "view_delivered", "_delivered", NULL);
	add_name(a, w, &a->name, "keep", "_keep", "keep_text");
	add_name(a, w, &a->name, "view_undone", "_undone", NULL);
	add_name(a, w, &a->name, "headers", "_headers", NULL);
	add_name(a, w, &a->name, "exceptions", "_exception", NULL);
	add_name(a, w, &unqualified, "undone", "_undone", NULL);
	add_name(a, w, &unqualified, "index", "_rv", NULL);
	wh_adopt_put_literal(a, add_word(w, "schema_text"), a->name.schema);
	wh_adopt_put_literal(a, add_word(w, "name_text"), a->name.table);
	wh_buf_puts(add_word(w, "create"), a->create);
	wh_buf_puts(add_word(w, "as_owner"), a->as_owner);
	wh_buf_puts(add_word(w, "columns"), a->view.ptr);
	wh_adopt_put_guarded_where(a, add_word(w, "where"), "\nWHERE ");
	wh_adopt_put_guarded_where(a, add_word(w, "and"), " AND ");
	wh_buf_puts(add_word(w, "set"), a->set.len ? a->set.ptr : "");
	wh_buf_puts(add_word(w, "done"), a->done.ptr);
	wh_buf_printf(add_word(w, "open"), "%s%s", a->open.len ? " WHERE " : "",
		      a->open.len ? a->open.ptr : "");
	wh_buf_puts(add_word(w, "options"), a->options.ptr);
	wh_buf_printf(&noted, "options: %s", a->options.ptr);
	wh_adopt_put_literal(a, add_word(w, "noted"), wh_buf_str(&noted));
	wh_buf_clear(&noted);
	for (size_t i = 0; i < w->n; i++) {
		if (code == WHERRY_OK)
			code = wh_buf_check(&w->texts[i], err);
		w->pairs[2 * i + 1] = wh_buf_str(&w->texts[i]);
	}
	return code;
}

wherry_code wh_adopt_plan_steps(wh_adoption *a, wherry_error *err)
{
	const char *on_delivered = a->set.len   ? "on-delivered"
				   : a->deletes ? "on-deleted"
						: "on-nothing";
	/* On SQL Server a view and a procedure are each made by a separate batch. */
	const bool apart = *a->create;
	const struct {
		bool wanted;
		const char *first, *second;
	} steps[] = {
		{a->adds_id, "add-id", NULL},
		{!a->numbered && !a->own_version, "add-tx", NULL},
		{a->broken, "drop-invalid", NULL},
		{a->adds_id, "index-id", NULL},
		{a->numbered, "drop-done", NULL},
		{true, "index-tx", NULL},
		{a->set.len > 0, "index-done", NULL},
		{a->safe_headers, "make-headers", NULL},
		{strcmp(a->create, "CREATE") == 0, "drop-made", NULL},
		{true, "view", apart ? NULL : on_delivered},
		{apart, "note-view", NULL},
		{apart, on_delivered, NULL},
		{a->where != NULL, "grant-marks", NULL},
	};
	words *w = calloc(1, sizeof(*w));
	wherry_code code = w ? fill_words(a, w, err) : wh_oom(err);

	if (code == WHERRY_OK && a->guards)
		code = add_exceptions(a, err);
	for (size_t i = 0; code == WHERRY_OK && i < sizeof(steps) / sizeof(*steps); i++)
		if (steps[i].wanted)
			code = add_step(a, steps[i].first, steps[i].second, w->pairs,
					err);
	for (size_t i = 0; w && i < w->n; i++)
		wh_buf_clear(&w->texts[i]);
	free(w);
	return code;
}
