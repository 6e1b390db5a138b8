#include "base/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/url.h"

void wh_advice_add(wh_advice *advice, const char *command, const char *words)
{
	wh_maker *maker = &advice->makers[advice->n];

	if (advice->n == WH_MAKERS_MOST || strlen(words) >= sizeof(maker->words))
		return;
	maker->command = command;
	(void)snprintf(maker->words, sizeof(maker->words), "%s", words);
	advice->n++;
}

/* The command for making tables at this place of a text; NULL: there is none. */
static const char *command_at(const char *at)
{
	static const char *const commands[] = {
		"wherry init", "wherry queue create", "wherry inbox create",
		"wherry delayed create", "wherry cron create"};

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		if (strncmp(at, commands[i], strlen(commands[i])) == 0)
			return commands[i];
	return NULL;
}

static const wh_maker *find_maker(const wh_advice *advice, const char *command)
{
	for (size_t i = 0; i < advice->n; i++)
		if (strcmp(advice->makers[i].command, command) == 0)
			return &advice->makers[i];
	return advice->n && strcmp(command, "wherry init") == 0 ? advice->makers : NULL;
}

void wh_put_advice(wh_buf *text, const wh_advice *advice, const char *message)
{
	const char *at;

	for (; (at = strchr(message, '`')); message = at) {
		const char *command = command_at(++at);
		const wh_maker *maker = command ? find_maker(advice, command) : NULL;

		wh_buf_put(text, message, (size_t)(at - message));
		if (!command)
			continue;
		wh_buf_puts(text, maker ? maker->command : command);
		wh_buf_puts(text, maker ? maker->words : advice->words);
		at += strlen(command);
	}
	wh_buf_puts(text, message);
}

void wh_advise(const wh_advice *advice, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(sizeof(err->message) - 1);

	if (!err)
		return;
	wh_put_advice(&text, advice, err->message);
	if (wh_buf_check(&text, NULL) == WHERRY_OK)
		(void)snprintf(err->message, sizeof(err->message), "%s",
			       wh_buf_str(&text));
	wh_buf_clear(&text);
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

void wh_put_table_url(wh_buf *text, const char *url)
{
	char *copy = strdup(url);
	const char *name = copy ? wh_url_table(copy) : NULL;

	if (!copy && !text->failed)
		text->failed = WHERRY_NOMEM;
	if (name)
		copy[name - copy + (ptrdiff_t)strcspn(name, "/")] = 0;
	wh_put_log_url(text, copy ? copy : "");
	free(copy);
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

/* Remove each parameter with a masked value, "KEY=***", so that libpq looks for the
 * password elsewhere. */
static void drop_masked_parameters(char *url)
{
	char *at;

	while ((at = strstr(url, "=***"))) {
		char *end = at + strlen("=***"), *begin = at;

		while (begin > url && !strchr("?&", *begin))
			begin--;
		if (begin == url)
			return;
		if (*end == '&')
			begin++, end++;
		memmove(begin, end, strlen(end) + 1);
	}
}

/* Is this the URL of a database, whose part behind a # is the name of a table? */
static bool is_of_database(const char *url)
{
	static const char *const schemes[] = {
		"sqlite:", "postgres:", "postgresql:", "mssql:"};

	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
		if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
			return true;
	return false;
}

char *wh_url_without_secrets(const char *url)
{
	/* A masked value would take the name of the table with it. */
	const char *table = is_of_database(url) ? wh_url_table(url) : NULL;
	char *database = table ? wh_url_database(url) : strdup(url);
	size_t cap = 4 * strlen(url) + 16;
	char *out = database ? malloc(cap) : NULL, *at;

	if (out) {
		wh_url_mask(database, out, cap);
		at = strstr(out, ":***@");
		if (at)
			memmove(at, at + strlen(":***"), strlen(at + strlen(":***")) + 1);
		drop_masked_parameters(out);
	}
	if (out && table)
		(void)snprintf(out + strlen(out), cap - strlen(out), "#%s", table);
	free(database);
	return out;
}
