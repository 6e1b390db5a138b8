/*
 * The commands that messages advise: "run `wherry init`".  The code that fails does not know how a
 * person names the database and the table, so the words that name them are added later.
 */
#ifndef WH_BASE_ADVICE_H
#define WH_BASE_ADVICE_H

#include "base/buf.h"

/* A command that makes tables, with the words that name them. */
typedef struct wh_maker {
	const char *command; /* "wherry queue create" */
	char words[500];     /* " sqlite:shop.db jobs" */
} wh_maker;

enum { WH_MAKERS_MOST = 2 };

typedef struct wh_advice {
	wh_maker makers
		[WH_MAKERS_MOST]; /* The first one stands in the place of `wherry init`. */
	size_t n;
	const char *words; /* of other commands; borrowed */
} wh_advice;

/*
 * Add a command; too many are ignored.
 *
 * @param words  With a blank before each, quoted for a shell.
 */
void wh_advice_add(wh_advice *advice, const char *command, const char *words);

/* Append a message, with the words behind each command of it that makes tables. */
void wh_put_advice(wh_buf *text, const wh_advice *advice, const char *message);

/* The same in the place of an error's message, unless that is too long then. */
void wh_advise(const wh_advice *advice, wherry_error *err);

/* Append a word for a shell, in quotes if it needs them. */
void wh_put_word(wh_buf *text, const char *word);

/*
 * Append a blank and the URL of a database for the reader of a log: "URL" if the whole URL is not for
 * logs, as with a password or a server.
 */
void wh_put_log_url(wh_buf *text, const char *url);

/* A URL without its passwords; given, free() it. */
char *wh_url_without_secrets(const char *url);

/*
 * The words that name a queue behind "wherry queue COMMAND", such as " postgres://db/shop orders",
 * for the URL of a queue; passwords are left out.  *out: the caller's to free; "": another URL.
 * INVALID: the URL does not name the queue.
 */
wherry_code wh_queue_words(const char *url, char **out, wherry_error *err);

/*
 * The same behind "wherry delayed COMMAND", such as " sqlite:shop.db --queue mail --table later", for
 * the URL of a delayed queue.
 *
 * @param table_only  The words for `wherry delayed create`, which names no queue.
 */
wherry_code wh_delayed_words(const char *url, bool table_only, char **out,
			     wherry_error *err);

#endif
