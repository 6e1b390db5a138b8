#include "daemon/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/url.h"

/* The commands that create tables, and what they make. */
static const struct {
	unsigned kind;
	const char *word, *command, *makes;
} makers[] = {
	{WHERRY_KIND_OUTBOX, "outbox", "wherry create", "an outbox"},
	{WHERRY_KIND_QUEUE, "queue", "wherry create --kind queue", "a queue"},
	{WHERRY_KIND_DELAYED, "delayed", "wherry create --kind delayed",
	 "a delayed queue"},
	{WHERRY_KIND_INBOX, "inbox", "wherry create --kind inbox", "an inbox"},
	{WHERRY_KIND_CRON, "cron", "wherry create --kind cron", "a table of schedules"},
};

enum { N_MAKERS = sizeof(makers) / sizeof(*makers) };

static size_t maker_at(unsigned kind)
{
	size_t i = 0;

	while (i < N_MAKERS - 1 && makers[i].kind != kind)
		i++;
	return i;
}

const char *wh_kind_word(unsigned kind)
{
	return makers[maker_at(kind)].word;
}

const char *wh_maker_of(unsigned kind)
{
	return makers[maker_at(kind)].command;
}

/* Append the commands that create the table. */
static void put_makers(wh_buf *text, const wherry_error *err, wh_words_fn words,
		       const void *ctx)
{
	const bool several = err->kinds & (err->kinds - 1);
	const char *before = several ? ": " : ": run ";

	for (size_t i = 0; i < N_MAKERS; i++) {
		if (!(err->kinds & makers[i].kind))
			continue;
		wh_buf_printf(text, "%s`%s", before, makers[i].command);
		words(text, ctx, makers[i].kind, err->table);
		if (err->repair == WHERRY_REPAIR_STREAM)
			wh_buf_puts(text, " --stream");
		if (*err->layout)
			wh_buf_printf(text, " --layout %s", err->layout);
		wh_buf_putc(text, '`');
		if (several)
			wh_buf_printf(text, " makes %s", makers[i].makes);
		before = ", ";
	}
}

void wh_put_advice(wh_buf *text, const wherry_error *err, wh_words_fn words,
		   const void *ctx)
{
	switch (err->repair) {
	case WHERRY_REPAIR_CREATE:
	case WHERRY_REPAIR_STREAM:
		put_makers(text, err, words, ctx);
		break;
	case WHERRY_REPAIR_DOCTOR:
		wh_buf_puts(text, ": run `wherry doctor");
		words(text, ctx, err->kinds, err->table);
		wh_buf_putc(text, '`');
		break;
	case WHERRY_REPAIR_GRANT:
	case WHERRY_REPAIR_NONE:
		break;
	}
}

/* ---- of a database in wherry.yaml ---- */

/* Append the URL of a table in the database of the URL `ctx`; "": of the table that it names,
 * which may be that of a delayed queue. */
static void put_words(wh_buf *text, const void *ctx, unsigned kind, const char *table)
{
	char *named = wh_url_database(ctx), *joined = NULL;
	const char *own = wh_url_table(ctx);

	(void)kind;
	if (named && *table)
		joined = wh_url_join(named, table, NULL, NULL);
	else if (named && (!own || asprintf(&joined, "%s#%.*s", named,
					    (int)strcspn(own, "/"), own) < 0))
		joined = own ? NULL : strdup(named);
	if (!joined && !text->failed)
		text->failed = WHERRY_NOMEM;
	wh_put_log_url(text, joined ? joined : "");
	free(joined);
	free(named);
}

void wh_advise(const char *url, unsigned kinds, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(sizeof(err->message) - 1);
	const char *table = wh_url_table(url);

	if (!err->kinds)
		err->kinds = table && strchr(table, '/') ? WHERRY_KIND_DELAYED : kinds;
	wh_buf_puts(&text, err->message);
	wh_put_advice(&text, err, put_words, url);
	if (err->repair == WHERRY_REPAIR_GRANT)
		wh_buf_puts(&text, ": see `wherry help create`");
	if (wh_buf_check(&text, NULL) == WHERRY_OK)
		memcpy(err->message, wh_buf_str(&text), text.len + 1);
	wh_buf_clear(&text);
}

/* ---- in a log ---- */

void wh_put_log_line(wh_buf *line, const wh_log_head *head,
		     const wherry_log_record *record)
{
	wherry_log_record longer = *record;
	wherry_log_field fields[3];
	wh_buf note = WH_BUF_INIT(8192);
	unsigned kind;

	if (strcmp(record->event, WH_LOG_MISSING) != 0 || record->n_fields != 2) {
		wh_log_line(line, head, record);
		return;
	}
	memcpy(fields, record->fields, 2 * sizeof(*fields));
	kind = strcmp(fields[0].text, "inbox") == 0 ? WHERRY_KIND_INBOX
						    : WHERRY_KIND_QUEUE;
	wh_buf_printf(&note, "run `%s", wh_maker_of(kind));
	wh_put_log_url(&note, fields[1].text);
	wh_buf_putc(&note, '`');
	fields[2] = wh_log_note(wh_buf_str(&note));
	longer.fields = fields;
	longer.n_fields = 3;
	wh_log_line(line, head, &longer);
	wh_buf_clear(&note);
}

/* ---- words for a shell ---- */

static bool is_plain(const char *word)
{
	size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				"0123456789_-./:@%+=,#");

	return n && !word[n] && *word != '#';
}

void wh_put_word(wh_buf *text, const char *word)
{
	if (is_plain(word)) {
		wh_buf_puts(text, word);
		return;
	}
	wh_buf_putc(text, '\'');
	for (const char *p = word; *p; p++)
		if (*p == '\'')
			wh_buf_puts(text, "'\\''");
		else
			wh_buf_putc(text, *p);
	wh_buf_putc(text, '\'');
}

void wh_put_log_url(wh_buf *text, const char *url)
{
	char *shown = wh_url_without_secrets(url);

	if (!shown && !text->failed)
		text->failed = WHERRY_NOMEM;
	wh_buf_putc(text, ' ');
	wh_put_word(text, shown ? shown : "");
	free(shown);
}
