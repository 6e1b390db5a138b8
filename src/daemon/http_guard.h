/*
 * Knows the open connections, and ends those of slow clients.
 */
#ifndef WH_DAEMON_HTTP_GUARD_H
#define WH_DAEMON_HTTP_GUARD_H

#include <microhttpd.h>

#include "base/error.h"

enum {
	WH_HTTP_CONNECTIONS = 256, /* Most open connections. */
	/* With this many open, a new connection ends the oldest ones that have sent no
	 * request. */
	WH_HTTP_CROWD = 64
};

typedef struct wh_http_guard wh_http_guard;

wherry_code wh_http_guard_new(wh_http_guard **out, wherry_error *err);
void wh_http_guard_free(wh_http_guard *guard); /* Call it after the server has stopped. */

/* For MHD_OPTION_NOTIFY_CONNECTION, with the guard as its argument. */
void wh_http_guard_notify(void *guard, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode what);

/* Call it when the headers of a connection's request have arrived. */
void wh_http_guard_asked(wh_http_guard *guard, struct MHD_Connection *connection);

#endif
