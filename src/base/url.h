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
 * Split a URL that names a table of a model and its database, such as
 * "queue+postgres://db/shop?queue=orders".  The scheme begins with "MODEL+", and the
 * parameter MODEL is the name.
 *
 * @param out_url   Receives the URL of the database, which the caller frees; NULL: text
 *                  has another scheme.
 * @param out_name  Receives the decoded name, which the caller frees; NULL if *out_url
 *                  is.
 * @return WHERRY_OK; WHERRY_INVALID: the parameter is missing or empty, its value is
 *         badly encoded, or a parameter of the model is mistyped or repeated;
 *         WHERRY_NOMEM.
 */
wherry_code wh_url_split(const char *text, const char *model, char **out_url,
			 char **out_name, wherry_error *err);

/*
 * Remove a parameter from a URL.
 *
 * @param out_value  Receives its decoded value, which the caller frees; NULL: the URL
 *                   does not have it.
 * @return WHERRY_OK; WHERRY_INVALID: the value is badly encoded; WHERRY_NOMEM.
 */
wherry_code wh_url_take(char *url, const char *name, char **out_value, wherry_error *err);

/* Does the URL have this parameter? */
bool wh_url_has(const char *url, const char *name);

/* Does the URL's scheme begin with "MODEL+"? */
bool wh_url_is_of(const char *text, const char *model);

/*
 * Write the form of a URL for logs and errors.  No part of it can be a secret:
 *
 *     https://me:pw@example.com/hook/T0?code=x   https://example.com
 *     postgres://me:pw@db1:5432,db2/shop         postgres://db1:5432,db2
 *     exec:TOKEN=x /usr/bin/curl -H …            exec:curl
 *     sqlite:/var/lib/shop.db?mode=ro            sqlite:/var/lib/shop.db
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

#endif
