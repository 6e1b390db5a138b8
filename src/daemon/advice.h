/*
 * The commands that repair what an error reports.  The code that fails knows neither the
 * program nor how the user names the database: it says which table, and what repairs it.
 */
#ifndef WH_DAEMON_ADVICE_H
#define WH_DAEMON_ADVICE_H

#include <wherry/error.h>

#include "base/log.h"

/*
 * Append the words that name a table behind a command, each with a blank before it.
 *
 * @param kind   One WHERRY_KIND_*.
 * @param table  Its name; "": the one that the user named.
 */
typedef void (*wh_words_fn)(wh_buf *text, const void *ctx, unsigned kind,
			    const char *table);

/* Append ": run `COMMAND`" to the message of an error; nothing if no command repairs it, or
 * if its kinds are not known. */
void wh_put_advice(wh_buf *text, const wherry_error *err, wh_words_fn words,
		   const void *ctx);

/* Append the same to the message of an error that concerns the database of a URL.  Nothing if
 * it would become too long.  kinds: of the table, if the error does not say it. */
void wh_advise(const char *url, unsigned kinds, wherry_error *err);

/* Append a line of the log as wh_log_line() does, with the command that creates a table that is
 * missing. */
void wh_put_log_line(wh_buf *line, const wh_log_head *head,
		     const wherry_log_record *record);

/* The word of a kind of table, such as "queue". */
const char *wh_kind_word(unsigned kind);

/* The command that creates tables of a kind, such as "wherry create --kind queue". */
const char *wh_maker_of(unsigned kind);

/* Append a word for a shell, in quotes if needed. */
void wh_put_word(wh_buf *text, const char *word);

/* Append a space and the URL of a database, without passwords, for a log. */
void wh_put_log_url(wh_buf *text, const char *url);

#endif
