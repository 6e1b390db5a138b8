/*
 * Commands that messages advise, such as "run `wherry init`".  The code that fails does
 * not know how the user names the database and the table, so these words are added later.
 */
#ifndef WH_BASE_ADVICE_H
#define WH_BASE_ADVICE_H

#include "base/buf.h"

/* A command that creates tables, and the words that name them. */
typedef struct wh_maker {
	const char *command; /* Such as "wherry queue create". */
	char words[500];     /* Such as " sqlite:shop.db jobs". */
} wh_maker;

enum { WH_MAKERS_MOST = 2 };

typedef struct wh_advice {
	/* The first one also replaces `wherry init`. */
	wh_maker makers[WH_MAKERS_MOST];
	size_t n;
	const char *words; /* The words of other commands; borrowed. */
} wh_advice;

/*
 * Add a command.  Ignored if there are WH_MAKERS_MOST already, or the words are too long.
 *
 * @param words  Each with a space before it, quoted for a shell.
 */
void wh_advice_add(wh_advice *advice, const char *command, const char *words);

/* Append a message, and the words after each command in it that creates tables. */
void wh_put_advice(wh_buf *text, const wh_advice *advice, const char *message);

/* Do the same with the message of an error.  Does nothing if it would become too long. */
void wh_advise(const wh_advice *advice, wherry_error *err);

/* Append a word for a shell, in quotes if needed. */
void wh_put_word(wh_buf *text, const char *word);

/* Append a space and the URL of a database, without passwords, for a log. */
void wh_put_log_url(wh_buf *text, const char *url);

/* Append the same without the name of a delayed queue: the URL of its table. */
void wh_put_table_url(wh_buf *text, const char *url);

/* A copy of a URL without its passwords; the caller frees it.  NULL: out of memory. */
char *wh_url_without_secrets(const char *url);

#endif
