/*
 * The URL of a queue that is a destination: "queue+sqlite:shop.db?queue=jobs&inbox_retention=30d".
 */
#ifndef WH_TRANSFER_QUEUE_URL_H
#define WH_TRANSFER_QUEUE_URL_H

#include "base/buf.h"

/* What the URL names. */
typedef struct wh_queue_url {
	char *database; /* its URL */
	char *queue, *inbox;
	int64_t retention_us; /* Older ids are deleted from the inbox; 0: none are. */
} wh_queue_url;

/*
 * Read what follows "SCHEME:".
 *
 * @param out  To be cleared, also on failure.
 * @return WHERRY_OK; WHERRY_INVALID: a parameter is missing or cannot be read, or there is no such
 *         database; WHERRY_NOMEM.
 */
wherry_code wh_queue_url_read(const char *scheme, const char *rest, wh_queue_url *out,
			      wherry_error *err);
void wh_queue_url_clear(wh_queue_url *url);

#endif
