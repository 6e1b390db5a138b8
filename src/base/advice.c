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

/* ---- words for a shell ---- */

static bool is_plain(const char *word)
{
	size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				"0123456789_-./:@%+=,");

	return n && !word[n];
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

char *wh_url_without_secrets(const char *url)
{
	size_t cap = 4 * strlen(url) + 16;
	char *out = malloc(cap), *at;

	if (!out)
		return NULL;
	wh_url_mask(url, out, cap);
	at = strstr(out, ":***@");
	if (at)
		memmove(at, at + strlen(":***"), strlen(at + strlen(":***")) + 1);
	drop_masked_parameters(out);
	return out;
}

wherry_code wh_queue_words(const char *url, char **out, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(64 * 1024);
	char *database = NULL, *name = NULL;
	wherry_code code = wh_url_split(url, "queue", &database, &name, err);

	if (code == WHERRY_OK && name) {
		wh_put_log_url(&text, database);
		wh_buf_putc(&text, ' ');
		wh_put_word(&text, name);
		code = wh_buf_check(&text, err);
	}
	if (code == WHERRY_OK)
		*out = text.len ? wh_buf_take(&text) : strdup("");
	if (code == WHERRY_OK && !*out)
		code = wh_oom(err);
	wh_buf_clear(&text);
	free(name);
	free(database);
	return code;
}

/* Append an option with the value of a parameter of the URL, if the URL has it. */
static wherry_code put_option(wh_buf *text, char *url, const char *parameter,
			      wherry_error *err)
{
	char *value = NULL;
	wherry_code code = wh_url_take(url, parameter, &value, err);

	if (code == WHERRY_OK && value) {
		wh_buf_printf(text, " --%s ", parameter);
		wh_put_word(text, value);
	}
	free(value);
	return code;
}

wherry_code wh_delayed_words(const char *url, bool table_only, char **out,
			     wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(64 * 1024), options = WH_BUF_INIT(8 * 1024);
	char *database = NULL, *name = NULL;
	wherry_code code = wh_url_split(url, "delayed", &database, &name, err);

	if (code == WHERRY_OK && name) {
		code = put_option(&options, database, "type", err);
		if (table_only)
			wh_buf_reset(&options);
		if (code == WHERRY_OK)
			code = put_option(&options, database, "table", err);
		wh_put_log_url(&text, database);
		if (!table_only) {
			wh_buf_puts(&text, " --queue ");
			wh_put_word(&text, name);
		}
		wh_buf_puts(&text, wh_buf_into(&options, &text));
	}
	if (code == WHERRY_OK)
		code = wh_buf_check(&text, err);
	if (code == WHERRY_OK)
		*out = text.len ? wh_buf_take(&text) : strdup("");
	if (code == WHERRY_OK && !*out)
		code = wh_oom(err);
	wh_buf_clear(&text);
	wh_buf_clear(&options);
	free(name);
	free(database);
	return code;
}
