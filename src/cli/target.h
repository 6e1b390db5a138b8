/*
 * The outbox that a command works on, named by its URL or by a relay in wherry.yaml.
 */
#ifndef WH_CLI_TARGET_H
#define WH_CLI_TARGET_H

#include "cli/cli.h"

/* A relay of wherry.yaml. */
typedef struct wh_named {
	char *from, *to;       /* Owned; `to` may be NULL. */
	wherry_config *config; /* Its settings; owned. */
	const char *looked_in; /* The file that was read; NULL: there is none. */
} wh_named;

/*
 * Find a relay by its name in wherry.yaml, in this folder or in /etc/wherry.
 *
 * @param strict  Refuse a relay with problems.  Otherwise use the settings that could be
 *                read, since an operator's shell does not have all secrets.
 * @return WHERRY_OK; WHERRY_NOTFOUND; WHERRY_INVALID: the relay cannot be used, and the
 *         problems of the file were printed.
 */
wherry_code wh_named_find(const char *name, bool strict, wh_named *out,
			  wherry_error *err);
void wh_named_clear(wh_named *named);

/* The file for `wherry run`: the one that is named, or else the first of wherry.yaml in this folder and in
 * /etc/wherry that is there.  If neither is, that in this folder. */
const char *wh_plan_file(const char *named);

/* Find the database or the table that the command is for, and set target, table, from and
 * to.  False: it printed what is wrong. */
bool wh_take_target(wh_args *args);

/* Set the setting that an option stands for.  False: it printed what is wrong. */
bool wh_apply_option(wh_args *args, const wh_option *option, const char *value);

/*
 * Make the word that names the table behind "wherry COMMAND", with a blank before it:
 * " sqlite:shop.db#billing".  free() the result.
 *
 * @param shown  A URL or a name; NULL: WHERRY_URL names the table.
 */
char *wh_target_words(const char *shown);

/* Write the database of a URL for a person, without passwords and the name of a table. */
void wh_show_database(const char *url, char *out, size_t cap);

/* Append the word that names another table of a URL's database: " sqlite:shop.db#jobs", or
 * " @jobs" if WHERRY_URL or a name stands for the URL in `target`. */
void wh_put_table_of(wh_buf *text, const char *target, const char *url,
		     const char *table);

#endif
