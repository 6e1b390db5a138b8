/*
 * URLs of databases and destinations: scheme ":" rest.  The driver interprets the rest.
 */
#ifndef WH_BASE_URL_H
#define WH_BASE_URL_H

#include <stdbool.h>

#include "base/buf.h"

typedef struct wh_url {
	wh_view scheme; /* Letters, digits, + - . */
	wh_view rest;   /* The text after the colon. */
} wh_url;

/* Split a URL.  Returns views into text. */
wherry_code wh_url_parse(const char *text, wh_url *out, wherry_error *err);

/*
 * The name of a table at the end of a database's URL, behind its last '#': "jobs" in
 * "postgres://db/shop#jobs".  It is encoded; wh_table_name_read() decodes it.  A '#'
 * before any of @ : ? & = ; belongs to a password or to a connection string.
 *
 * @return NULL: the URL has no '#'; "": nothing is behind it.
 */
const char *wh_url_table(const char *url);

/* A copy of a URL without the name of a table, which the caller frees; NULL: out of
 * memory. */
char *wh_url_database(const char *url);

/* The URL of a table in a database, or of a delayed queue if `queue` is not NULL; the
 * caller frees it.  NULL: out of memory. */
char *wh_url_join(const char *database, const char *table, const char *queue,
		  const char *type);

/* A table, or a delayed queue of a table, as URLs name them. */
typedef struct wh_table_name {
	char table[136]; /* Maybe SCHEMA.TABLE. */
	char queue[256]; /* Of a delayed queue; "": it is another table. */
	char type[256];  /* "": the default. */
} wh_table_name;

/*
 * Read the name of a table: NAME, or TABLE/QUEUE or TABLE/QUEUE/TYPE of a delayed queue.
 * Each part may be percent-encoded.
 *
 * @return WHERRY_OK; WHERRY_INVALID: a part is missing, badly encoded or too long, or
 *         there are more.
 */
wherry_code wh_table_name_read(const char *name, wh_table_name *out, wherry_error *err);

/* The hosts, with ports, in the text behind the scheme, without user and password.  Absent if they
 * cannot be distinguished from a password that is not percent-encoded. */
wh_view wh_url_hosts(const char *rest);

/* Percent-decode a part of a URL; NULL: out of memory.  *out_fine: it has no NUL, and two
 * hexadecimal digits after each %.  The caller frees it. */
char *wh_url_decode(const char *value, size_t len, bool *out_fine);

/* Refuse a parameter that is repeated, or whose name is nearly one of `known`, which ends
 * with NULL: it is mistyped.  In an sqlite: URL with a plain file name, refuse all
 * others. */
wherry_code wh_url_check_parameters(const char *url, const char *const *known,
				    wherry_error *err);

/*
 * Remove a parameter from a URL.
 *
 * @param out_value  Receives its decoded value, which the caller frees; NULL: the URL
 *                   does not have it.
 * @return WHERRY_OK; WHERRY_INVALID: the value is badly encoded; WHERRY_NOMEM.
 */
wherry_code wh_url_take(char *url, const char *name, char **out_value, wherry_error *err);

/*
 * Write the form of a URL for logs and errors.  No part of it can be a secret:
 *
 *     https://me:pw@example.com/hook/T0?code=x   https://example.com
 *     postgres://me:pw@db1:5432,db2/shop         postgres://db1:5432,db2
 *     exec:TOKEN=x /usr/bin/curl -H …            exec:curl
 *     sqlite:/var/lib/shop.db?mode=ro            sqlite:/var/lib/shop.db
 *     sqlite:shop.db#jobs                        sqlite:shop.db
 *
 * "…" stands for text that may be a secret.
 */
void wh_url_show(const char *text, char *out, size_t cap);

/* Write the name of the program that a shell command runs; "…" if it is not a plain
 * word. */
void wh_url_show_command(const char *command, char *out, size_t cap);

/*
 * Write a URL for the person who wrote it.  *** replaces the password of
 * user:password@host, and the value of every parameter whose name ends in password,
 * token, secret and the like.  An http:, https: or exec: URL is written like by
 * wh_url_show(), with *** for the rest.
 */
void wh_url_mask(const char *text, char *out, size_t cap);

/* A copy of a URL without its passwords; the caller frees it.  NULL: out of memory. */
char *wh_url_without_secrets(const char *url);

#endif
