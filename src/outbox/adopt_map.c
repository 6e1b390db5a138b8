/*
 * Which column of a table of another program is which column of a log.
 */
#include "outbox/adopt.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { GUESSES_MOST = 20 };

/* A column of a log. */
typedef struct field {
	const char *option; /* As people call it. */
	const char *column; /* Of the view. */
	const char *kind;   /* Begins the names of its expressions. */
	const char
		*missing; /* Expression if there is no column; NULL: there must be one. */
	bool may_be_null;
	const char *guesses[GUESSES_MOST]; /* Names to look for, the best one first. */
} field;

static const field fields[WH_ADOPT_FIELDS] = {
	[WH_ADOPT_MESSAGE_ID] = {.option = "message-id",
				 .column = "message_id",
				 .kind = "text",
				 .missing = "",
				 .guesses = {"message_id", "event_id", "uuid", "guid"}},
	[WH_ADOPT_TOPIC] = {.option = "topic",
			    .column = "topic",
			    .kind = "text",
			    .guesses = {"topic", "routing_key", "event_type",
					"event_name", "type", "message_type", "subject",
					"event", "name", "channel", "destination",
					"aggregate_type"}},
	[WH_ADOPT_AGGREGATE_TYPE] = {.option = "aggregate-type",
				     .column = "aggregate_type",
				     .kind = "text",
				     .missing = "''",
				     .guesses = {"aggregate_type", "entity_type"}},
	[WH_ADOPT_AGGREGATE_ID] = {.option = "aggregate-id",
				   .column = "aggregate_id",
				   .kind = "text",
				   .missing = "''",
				   .guesses = {"aggregate_id", "entity_id"}},
	[WH_ADOPT_KEY] = {.option = "key",
			  .column = "partition_key",
			  .kind = "text",
			  .missing = "no-text",
			  .may_be_null = true,
			  .guesses = {"partition_key", "message_key", "event_key",
				      "ordering_key", "key", "stream_id", "stream_name"}},
	[WH_ADOPT_HEADERS] = {.option = "headers",
			      .column = "headers",
			      .kind = "headers",
			      .missing = "headers-none",
			      .guesses = {"headers", "metadata", "meta",
					  "message_headers", "event_metadata"}},
	[WH_ADOPT_TRACE_ID] = {.option = "trace-id",
			       .column = "trace_id",
			       .kind = "text",
			       .missing = "no-text",
			       .may_be_null = true,
			       .guesses = {"trace_id", "traceparent"}},
	[WH_ADOPT_CREATED_AT] = {.option = "created-at",
				 .column = "created_at",
				 .kind = "time",
				 .missing = "time-none",
				 .guesses = {"created_at", "created_on", "created",
					     "occurred_at", "occurred_on", "inserted_at",
					     "recorded_at", "enqueued_at", "enqueue_time",
					     "timestamp", "event_time", "time",
					     "created_at_utc", "created_on_utc",
					     "occurred_at_utc", "occurred_on_utc"}},
	[WH_ADOPT_BODY] = {.option = "body",
			   .column = "payload",
			   .kind = "payload",
			   .guesses = {"payload", "body", "data", "content", "event_data",
				       "event_payload", "message_body",
				       "serialized_event", "json", "message", "event"}},
};

/* Begins an expression that fails for some values of its column. */
static const char may_fail[] = "/* may fail */";

static const char *const ids[] = {
	"wherry_id", "id",       "seq",    "sequence", "sequence_number",
	"event_no",  "position", "offset", NULL};

/* ---- names ---- */

const char *wh_adopt_option(int which)
{
	return fields[which].option;
}

void wh_adopt_put_literal(const wh_adoption *a, wh_buf *to, const char *text)
{
	const char *prefix = wh_adopt_text(a, "literal-prefix");

	if (prefix)
		wh_adopt_put(to, prefix, "");
	wh_buf_putc(to, '\'');
	for (const char *p = text; *p; p++) {
		if (*p == '\'')
			wh_buf_putc(to, '\'');
		wh_buf_putc(to, *p);
	}
	wh_buf_putc(to, '\'');
}

/* ---- expressions ---- */

/* A row without a message id has its number for one. */
static void put_message_id(const wh_adoption *a, wh_buf *to, const char *type,
			   const char *column)
{
	wh_buf id = WH_BUF_INIT(1000);
	size_t start = to->len;

	wh_adopt_quote(a, &id, a->id);
	wh_adopt_fill(
		to, wh_adopt_expression(a, "message-id", type, "-null"),
		(const char *const[]){"c", column, "id", wh_buf_into(&id, to), NULL});
	wh_adopt_end_line(to, start);
	wh_buf_clear(&id);
}

/* Of a text a function takes the headers. */
static void put_headers(wh_adoption *a, const char *text, wh_buf *to, const char *column)
{
	wh_buf function = WH_BUF_INIT(1000);
	size_t start = to->len;

	wh_adopt_put_name(a, &function, &a->name, "_headers");
	wh_adopt_fill(to, text,
		      (const char *const[]){"c", column, "headers",
					    wh_buf_into(&function, to), NULL});
	wh_adopt_end_line(to, start);
	a->safe_headers = a->safe_headers || strstr(text, "@headers@");
	wh_buf_clear(&function);
}

/* The column of a field, in the view. */
static wherry_code put_column(wh_adoption *a, const field *f, const wh_adopt_column *c,
			      wh_buf *to, wherry_error *err)
{
	const char *text = wh_adopt_expression(a, f->kind, c->type, ""), *null = NULL;
	wh_buf name = WH_BUF_INIT(1000), inner = WH_BUF_INIT(4000);

	if (strstr(text ? text : "", may_fail))
		a->guards = a->may_fail[f - fields] = true;
	if (!text)
		return wh_fail(
			err, WHERRY_INVALID,
			"column '%s' has the type %s, which cannot be %s: write an "
			"expression in parentheses, --%s \"(...)\"",
			c->name, c->type, f->option, f->option);
	if (!c->not_null && !f->may_be_null) {
		null = wh_adopt_expression(a, f->kind, c->type, "-null");
		if (!null && strcmp(f->kind, "payload") != 0) {
			char wrap[40];

			(void)snprintf(wrap, sizeof(wrap), "%s-null", f->kind);
			null = wh_adopt_text(a, wrap);
		}
	}
	wh_adopt_quote(a, &name, c->name);
	if (f == &fields[WH_ADOPT_HEADERS]) {
		put_headers(a, text, to, wh_buf_into(&name, to));
	} else if (f == &fields[WH_ADOPT_MESSAGE_ID] && !c->not_null) {
		put_message_id(a, to, c->type, wh_buf_into(&name, to));
	} else {
		if (null && strcmp(f->kind, "time") == 0)
			wh_adopt_put(&inner, text, wh_buf_into(&name, to));
		wh_adopt_put(to, null ? null : text,
			     wh_buf_into(inner.len ? &inner : &name, to));
	}
	wh_buf_clear(&name);
	wh_buf_clear(&inner);
	return WHERRY_OK;
}

/* An expression of the user: it may be NULL where a column of a log is not, and it may fail. */
static void put_expression(wh_adoption *a, const field *f, const char *given, wh_buf *to)
{
	const char *text = strcmp(f->kind, "payload") == 0
				   ? NULL
				   : wh_adopt_expression(a, f->kind, "expression", "");

	a->guards = a->may_fail[f - fields] = true;
	if (f == &fields[WH_ADOPT_MESSAGE_ID]) {
		put_message_id(a, to, "expression", given);
		return;
	}
	if (!f->may_be_null && strcmp(f->kind, "text") == 0)
		text = wh_adopt_text(a, "text-null");
	else if (!text && strcmp(f->kind, "time") == 0)
		text = wh_adopt_text(a, "time-null");
	wh_adopt_put(to, text ? text : "@c@", given);
}

/* The text that the user wrote: "=TEXT", "(EXPRESSION)" or the name of a column. */
static wherry_code put_given(wh_adoption *a, size_t i, const char *given, wh_buf *to,
			     wherry_error *err)
{
	const field *f = &fields[i];
	const wh_adopt_column *c;

	if (*given == '=') {
		wh_adopt_put_literal(a, to, given + 1);
		wh_buf_printf(&a->shown[i], "%s (in each message)", given + 1);
		return strcmp(f->kind, "text") == 0
			       ? WHERRY_OK
			       : wh_fail(err, WHERRY_INVALID,
					 "--%s %s: write a column, or an expression in parentheses",
					 f->option, given);
	}
	wh_buf_puts(&a->shown[i], given);
	if (*given == '(') {
		put_expression(a, f, given, to);
		return WHERRY_OK;
	}
	c = wh_adopt_find(a, given, false);
	if (!c)
		return wh_fail(
			err, WHERRY_INVALID,
			"--%s %s: table '%s' has no such column; write =TEXT for the same text in all "
			"messages, or an expression in parentheses",
			f->option, given, a->source);
	return put_column(a, f, c, to, err);
}

static wherry_code no_column(const wh_adoption *a, const field *f, wherry_error *err)
{
	if (strcmp(f->option, "topic") == 0)
		return wh_fail(
			err, WHERRY_INVALID,
			"no column of table '%s' looks like a topic: name it with --topic COLUMN, or write "
			"--topic =TEXT for the same topic in all messages",
			a->source);
	return wh_fail(
		err, WHERRY_INVALID,
		"no column of table '%s' looks like a %s: name it with --%s COLUMN",
		a->source, f->option, f->option);
}

static const wh_adopt_column *guess(const wh_adoption *a, const field *f)
{
	for (size_t i = 0; i < GUESSES_MOST && f->guesses[i]; i++) {
		const wh_adopt_column *c = wh_adopt_find(a, f->guesses[i], true);

		if (c && wh_adopt_expression(a, f->kind, c->type, "") &&
		    strcmp(c->name, a->id) != 0)
			return c;
	}
	return NULL;
}

/* The message id is that of a column "id" that is not the number, or the number. */
static const wh_adopt_column *guess_message_id(const wh_adoption *a)
{
	const wh_adopt_column *c = guess(a, &fields[WH_ADOPT_MESSAGE_ID]);

	if (!c)
		c = wh_adopt_find(a, "id", true);
	return c ? c : wh_adopt_find(a, a->id, false);
}

static wherry_code map_field(wh_adoption *a, const wh_adopt_options *options, size_t i,
			     wh_buf *to, wherry_error *err)
{
	const field *f = &fields[i];
	const wh_adopt_column *c;

	if (options->fields[i])
		return put_given(a, i, options->fields[i], to, err);
	c = i == WH_ADOPT_MESSAGE_ID ? guess_message_id(a) : guess(a, f);
	if (c) {
		wh_buf_puts(&a->shown[i], c->name);
		return put_column(a, f, c, to, err);
	}
	if (i == WH_ADOPT_MESSAGE_ID) {
		wh_buf_puts(&a->shown[i], a->id);
		wh_adopt_put(to, wh_adopt_text(a, "text-any"), "wherry_id");
		return WHERRY_OK;
	}
	if (!f->missing)
		return no_column(a, f, err);
	if (*f->missing == '\'')
		wh_adopt_put_literal(a, to, "");
	else
		wh_adopt_put(to, wh_adopt_text(a, f->missing), "");
	return WHERRY_OK;
}

/* ---- the id ---- */

static wherry_code check_id(const wh_adoption *a, const char *given, wherry_error *err)
{
	const wh_adopt_column *c = wh_adopt_find(a, given, false);

	if (!c)
		return wh_fail(err, WHERRY_INVALID,
			       "--id %s: table '%s' has no such column", given,
			       a->source);
	if (strcmp(c->type, "integer") != 0)
		return wh_fail(
			err, WHERRY_INVALID,
			"--id %s: the type of the column is %s, and an id is an integer",
			given, c->type);
	if (!c->unique || !c->not_null)
		return wh_fail(
			err, WHERRY_INVALID,
			"--id %s: rows are known by the id, and nothing makes values of the column unique and "
			"not NULL",
			given);
	return WHERRY_OK;
}

static wherry_code find_id(wh_adoption *a, const char *given, wherry_error *err)
{
	const wh_adopt_column *c = NULL;
	wherry_code code = given ? check_id(a, given, err) : WHERRY_OK;

	if (code != WHERRY_OK)
		return code;
	if (given)
		c = wh_adopt_find(a, given, false);
	for (size_t i = 0; !c && ids[i]; i++) {
		c = wh_adopt_find(a, ids[i], true);
		if (c && check_id(a, c->name, NULL) != WHERRY_OK)
			c = NULL;
	}
	for (size_t i = 0; !c && i < a->n_columns; i++)
		if (check_id(a, a->columns[i].name, NULL) == WHERRY_OK)
			c = &a->columns[i];
	if (!c && !wh_adopt_text(a, "add-id"))
		return wh_fail(
			err, WHERRY_INVALID,
			"table '%s' has no INTEGER PRIMARY KEY, so nothing tells in which order its rows were "
			"written",
			a->source);
	a->adds_id = !c;
	(void)snprintf(a->id, sizeof(a->id), "%s", c ? c->name : "wherry_id");
	return WHERRY_OK;
}

/* ---- the view ---- */

static void find_version(wh_adoption *a)
{
	const char *added = wh_adopt_text(a, "version-column");

	if (added)
		(void)snprintf(a->version, sizeof(a->version), "%.*s",
			       (int)strcspn(added, "\n"), added);
	for (size_t i = 0; i < a->n_columns; i++)
		if (strcmp(a->columns[i].type, "rowversion") == 0 &&
		    strcmp(a->columns[i].name, a->version) != 0) {
			memcpy(a->version, a->columns[i].name, sizeof(a->version));
			a->own_version = true;
		}
}

void wh_adopt_put_version(const wh_adoption *a, wh_buf *to)
{
	wh_buf name = WH_BUF_INIT(1000);

	wh_adopt_quote(a, &name, a->version);
	wh_adopt_put(to, wh_adopt_text(a, "version"), wh_buf_into(&name, to));
	wh_buf_clear(&name);
}

static void put_as(wh_buf *to, const char *column, bool last)
{
	wh_buf_printf(to, " AS %s%s", column, last ? "" : ",\n");
}

/* If the row is marked, the view has NULL for its message id and for what may fail, and the reason as its trace id. */
static void put_guarded(const wh_adoption *a, size_t i, const char *text, wh_buf *to)
{
	const bool reason = i == WH_ADOPT_TRACE_ID;

	if (i == WH_ADOPT_MESSAGE_ID || reason || a->may_fail[i])
		wh_adopt_put_guard(a, to, reason ? "guard-reason" : "guard", text);
	else
		wh_buf_puts(to, text);
}

static void put_view(const wh_adoption *a, const wh_buf *of, bool guarded, wh_buf *to)
{
	wh_buf_puts(to, "  ");
	wh_adopt_quote(a, to, a->id);
	put_as(to, "id", false);
	if (*a->version) {
		wh_buf_puts(to, "  ");
		wh_adopt_put_version(a, to);
		wh_buf_puts(to, ",\n");
	}
	for (size_t i = 0; i < WH_ADOPT_FIELDS; i++) {
		const char *text = wh_buf_into(&of[i], to);

		wh_buf_puts(to, "  ");
		if (guarded)
			put_guarded(a, i, text, to);
		else
			wh_buf_puts(to, text);
		put_as(to, fields[i].column, false);
	}
	wh_buf_printf(to, "  %s", wh_buf_into(&a->done, to));
	put_as(to, "done_at", false);
	wh_buf_puts(to, "  ");
	/* Rows that do not say when they were written are deleted as soon as they may. */
	wh_adopt_put(to,
		     wh_adopt_text(a, a->set.len || (a->deletes &&
						     !a->shown[WH_ADOPT_CREATED_AT].len)
					      ? "is-true"
					      : "is-false"),
		     "");
	put_as(to, "at_once", true);
}

wherry_code wh_adopt_map(wh_adoption *a, const wh_adopt_options *options,
			 wherry_error *err)
{
	wh_buf of[WH_ADOPT_FIELDS];
	wherry_code code = find_id(a, options->id, err);

	if (code != WHERRY_OK)
		return code;
	find_version(a);
	a->guards = a->where != NULL;
	for (size_t i = 0; i < WH_ADOPT_FIELDS; i++)
		of[i] = (wh_buf)WH_BUF_INIT(256 * 1024);
	for (size_t i = 0; code == WHERRY_OK && i < WH_ADOPT_FIELDS; i++)
		code = map_field(a, options, i, &of[i], err);
	if (code == WHERRY_OK) {
		put_view(a, of, false, &a->plain);
		put_view(a, of, a->guards, &a->view);
		code = wh_buf_check(&a->view, err);
	}
	for (size_t i = 0; i < WH_ADOPT_FIELDS; i++)
		wh_buf_clear(&of[i]);
	return code;
}
