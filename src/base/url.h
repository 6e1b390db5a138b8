/*
 * URLs of databases and destinations: scheme ":" rest.  What the rest means is the
 * driver's affair.
 */
#ifndef WH_BASE_URL_H
#define WH_BASE_URL_H

#include "base/buf.h"

typedef struct wh_url {
	wh_view scheme; /* letters, digits, + - . */
	wh_view rest;   /* behind the colon, to the end */
} wh_url;

/* Views into text. */
wherry_code wh_url_parse(const char *text, wh_url *out, wherry_error *err);

/* Write text for messages and logs: the password of user:password@host masked, and the
 * value of every parameter whose name ends in password, token, secret and the like. */
void wh_url_mask(const char *text, char *out, size_t cap);

#endif
