/*
 * URLs of databases and destinations: scheme ":" rest.  The driver interprets the rest.
 */
#ifndef WH_BASE_URL_H
#define WH_BASE_URL_H

#include <stdbool.h>

#include "base/buf.h"

typedef struct wh_url {
	wh_view scheme; /* letters, digits, + - . */
	wh_view rest;   /* behind the colon, to the end */
} wh_url;

/* Views into text. */
wherry_code wh_url_parse(const char *text, wh_url *out, wherry_error *err);

/*
 * Split a URL that names a table of a model beside its database, such as
 * "queue+postgres://db/shop?queue=orders": scheme "MODEL+", and a parameter MODEL.
 *
 * @param out_url   Receives the URL of the database, free() it; NULL: text has another scheme.
 * @param out_name  Receives the name, decoded, free() it; NULL with *out_url.
 * @return WHERRY_OK; WHERRY_INVALID: the parameter is missing or empty, its value is badly encoded,
 *         or a parameter of the model is mistyped or repeated; WHERRY_NOMEM.
 */
wherry_code wh_url_split(const char *text, const char *model, char **out_url,
			 char **out_name, wherry_error *err);

/*
 * Remove a parameter from a URL.
 *
 * @param out_value  Receives its value, decoded, free() it; NULL: it is not there.
 * @return WHERRY_OK; WHERRY_INVALID: the value is badly encoded; WHERRY_NOMEM.
 */
wherry_code wh_url_take(char *url, const char *name, char **out_value, wherry_error *err);

/* Has the URL this parameter? */
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

/* The name of the program that a shell command runs, "…" if it is not plain. */
void wh_url_show_command(const char *command, char *out, size_t cap);

/*
 * Write a URL for the person who wrote it: as it is, with *** for the password of
 * user:password@host and for the value of every parameter whose name ends in password,
 * token, secret and the like.  Of http:, https: and exec: only what wh_url_show() gives is
 * left, and *** for the rest.
 */
void wh_url_mask(const char *text, char *out, size_t cap);

#endif
