/*
 * The URL of a queue as a destination:
 * "sqlite:shop.db?inbox_retention=30d#jobs".
 */
#ifndef WH_TRANSFER_QUEUE_URL_H
#define WH_TRANSFER_QUEUE_URL_H

#include "base/buf.h"

/* The parts of the URL. */
typedef struct wh_queue_url {
	char *database; /* URL of the database. */
	char *queue, *inbox;
	int64_t retention_us; /* How long ids are kept in the inbox; 0: for ever. */
} wh_queue_url;

/*
 * Parse the text after "SCHEME:".
 *
 * @param out  Call wh_queue_url_clear() for it, also after a failure.
 * @return WHERRY_OK; WHERRY_INVALID: a parameter is missing or malformed, or the database
 *         is unknown; WHERRY_NOMEM.
 */
wherry_code wh_queue_url_read(const char *scheme, const char *rest, wh_queue_url *out,
			      wherry_error *err);
void wh_queue_url_clear(wh_queue_url *url);

#endif
