/*
 * The columns that say that a row of an adopted table is done, and what they become.
 */
#include "outbox/adopt.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const done_times[] = {
	"published_at",     "processed_at",     "sent_at",          "dispatched_at",
	"delivered_at",     "completed_at",     "relayed_at",       "handled_at",
	"published_on",     "processed_on",     "sent_on",          "completion_date",
	"processed_date",   "processed_on_utc", "processed_at_utc", "published_on_utc",
	"published_at_utc", "sent_on_utc",      "sent_at_utc",      NULL};
static const char *const done_flags[] = {"published",    "processed", "sent",
					 "dispatched",   "delivered", "is_published",
					 "is_processed", "is_sent",   NULL};

static const wh_adopt_column *guess_done(const wh_adoption *a)
{
	const wh_adopt_column *c;

	for (size_t i = 0; done_times[i]; i++) {
		c = wh_adopt_find(a, done_times[i], true);
		if (c && !c->not_null && wh_adopt_expression(a, "done-set", c->type, ""))
			return c;
	}
	for (size_t i = 0; done_flags[i]; i++) {
		c = wh_adopt_find(a, done_flags[i], true);
		if (c &&
		    (strcmp(c->type, "boolean") == 0 ||
		     strcmp(c->type, "integer") == 0) &&
		    wh_adopt_expression(a, "done-set", c->type, ""))
			return c;
	}
	return NULL;
}

/* "published_at", "sent_on", "completion_date": a time by its name. */
static bool names_a_time(const char *name)
{
	static const char *const ends[] = {"at", "on", "date", "time", "utc", NULL};
	const size_t len = strlen(name);

	for (size_t i = 0; ends[i]; i++)
		if (len > strlen(ends[i]) &&
		    strcasecmp(name + len - strlen(ends[i]), ends[i]) == 0)
			return true;
	return false;
}

/* SQLite has one type for numbers, and keeps times and flags in it, or in texts. */
static const char *done_type(const wh_adopt_column *c)
{
	if (strcmp(c->type, "integer") == 0 && !names_a_time(c->name))
		return "flag";
	return strcmp(c->type, "text") == 0 && !names_a_time(c->name) ? "unknown"
								      : c->type;
}

/* Write the condition of rows that are not done, on SQL Server: an index has them alone, so NULL cannot be one value of
 * several. */
static wherry_code put_open(wh_adoption *a, const wh_adopt_column *c, const char *type,
			    const char *column, const char *value, wherry_error *err)
{
	const bool is_time = strncmp(type, "time", 4) == 0;
	const char *text = wh_adopt_expression(a, "open", type, "");
	const char *const pairs[] = {"c", column, "v", value, NULL};

	if (!text)
		return WHERRY_OK;
	if (c->not_null && is_time)
		return wh_fail(err, WHERRY_INVALID,
			       "--done %s: the column is never NULL, so no row would be "
			       "delivered: begin with another one",
			       c->name);
	if (!c->not_null && !is_time)
		return wh_fail(
			err, WHERRY_INVALID,
			"--done %s: the column may be NULL, and rows that are not done are found by an index that "
			"can look for one value alone: make it NOT NULL first",
			c->name);
	wh_adopt_fill(&a->open, text, pairs);
	wh_adopt_end_line(&a->open, 0);
	return WHERRY_OK;
}

/* Write that relays set this column. */
static wherry_code set_column(wh_adoption *a, const wh_adopt_column *c, wherry_error *err)
{
	const char *set = wh_adopt_expression(a, "done-set", done_type(c), "");
	wh_buf name = WH_BUF_INIT(1000);
	wherry_code code;

	if (set && c->not_null && strcmp(c->type, "boolean") != 0 &&
	    strcmp(c->type, "integer") != 0)
		return wh_fail(
			err, WHERRY_INVALID,
			"--done %s: the column is never NULL, so it does not say whether a row is done: write "
			"the value that it gets, --done \"%s = ...\"",
			c->name, c->name);
	if (!set)
		return wh_fail(
			err, WHERRY_INVALID,
			"--done %s: the column is neither a time nor a boolean: write the value that it gets, --done \"%s = ...\"",
			c->name, c->name);
	wh_adopt_quote(a, &name, c->name);
	wh_adopt_put(&a->set, set, wh_buf_into(&name, &a->set));
	wh_adopt_put(&a->done, wh_adopt_expression(a, "done", c->type, ""),
		     wh_buf_into(&name, &a->done));
	wh_buf_printf(&a->done_shown, "%s is set", c->name);
	code = put_open(a, c, c->type, wh_buf_into(&name, &a->open), "", err);
	wh_buf_clear(&name);
	return code;
}

/* The end of the first of several expressions with commas between them. */
static size_t first_expression(const char *text)
{
	int depth = 0;
	char quote = 0;
	size_t i;

	for (i = 0; text[i]; i++) {
		if (quote)
			quote = text[i] == quote ? 0 : quote;
		else if (text[i] == '\'' || text[i] == '"')
			quote = text[i];
		else if (strchr("()[]", text[i]))
			depth += strchr("([", text[i]) ? 1 : -1;
		else if (text[i] == ',' && !depth)
			break;
	}
	return i;
}

/* "COLUMN = EXPRESSION, ..." */
static wherry_code set_values(wh_adoption *a, const char *given, const char *equals,
			      wherry_error *err)
{
	size_t len = (size_t)(equals - given);
	wh_buf name = WH_BUF_INIT(1000), value = WH_BUF_INIT(4000);
	const wh_adopt_column *c;
	char column[WH_NAME_MOST + 1];
	wherry_code code;

	while (len && (given[len - 1] == ' ' || given[len - 1] == '"'))
		len--;
	if (len && *given == '"') {
		given++;
		len--;
	}
	(void)snprintf(column, sizeof(column), "%.*s", (int)len, given);
	c = wh_adopt_find(a, column, false);
	if (!c)
		return wh_fail(err, WHERRY_INVALID,
			       "--done: table '%s' has no column '%s'", a->source,
			       column);
	wh_adopt_quote(a, &name, c->name);
	wh_buf_printf(&a->set, "%s %s", wh_buf_into(&name, &a->set), equals);
	wh_buf_put(&value, equals + 1, first_expression(equals + 1));
	if (strcasestr(wh_buf_str(&value), c->name)) {
		wh_buf_clear(&name);
		wh_buf_clear(&value);
		return wh_fail(
			err, WHERRY_INVALID,
			"--done: the value of the first column, '%s', says that a row is done, so it cannot "
			"depend on the column: begin with another one",
			c->name);
	}
	if (strncmp(c->type, "time", 4) == 0) {
		wh_adopt_put(&a->done, wh_adopt_expression(a, "done", c->type, ""),
			     wh_buf_into(&name, &a->done));
		code = put_open(a, c, c->type, wh_buf_into(&name, &a->open), "", err);
	} else {
		const char *const pairs[] = {"c", wh_buf_into(&name, &a->done), "v",
					     wh_buf_into(&value, &a->done), NULL};

		wh_adopt_fill(&a->done, wh_adopt_text(a, "done-value"), pairs);
		wh_adopt_end_line(&a->done, 0);
		code = put_open(a, c, "value", wh_buf_into(&name, &a->open),
				wh_buf_into(&value, &a->open), err);
	}
	wh_buf_puts(&a->done_shown, wh_buf_into(&a->set, &a->done_shown));
	wh_buf_clear(&name);
	wh_buf_clear(&value);
	return code;
}

wherry_code wh_adopt_find_done(wh_adoption *a, const char *given, wherry_error *err)
{
	const char *equals = given ? strchr(given, '=') : NULL;
	const wh_adopt_column *c = NULL;

	if (equals)
		return set_values(a, given, equals, err);
	if (given && strcmp(given, "delete") == 0) {
		a->deletes = true;
		wh_adopt_put(&a->done, wh_adopt_text(a, "done-delete"), "");
		wh_buf_puts(&a->done_shown,
			    "the row is deleted, outbox.retention after it was written");
		return WHERRY_OK;
	}
	if (given && strcmp(given, "nothing") != 0) {
		c = wh_adopt_find(a, given, false);
		if (!c)
			return wh_fail(
				err, WHERRY_INVALID,
				"--done %s: table '%s' has no such column; write delete, nothing, a column or "
				"\"COLUMN = EXPRESSION\"",
				given, a->source);
	}
	if (!given)
		c = guess_done(a);
	if (c) {
		(void)snprintf(a->done_column, sizeof(a->done_column), "%s", c->name);
		return set_column(a, c, err);
	}
	wh_adopt_put(&a->done, wh_adopt_text(a, "done-never"), "");
	wh_buf_puts(&a->done_shown, "nothing: rows stay as they are");
	return WHERRY_OK;
}
