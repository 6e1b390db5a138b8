/*
 * Which connections are open, and since when.  Slow clients are cut off.
 */
#ifndef WH_DAEMON_HTTP_GUARD_H
#define WH_DAEMON_HTTP_GUARD_H

#include <microhttpd.h>

#include "base/error.h"

enum {
	WH_HTTP_CONNECTIONS = 256, /* at once; the server accepts no more */
	WH_HTTP_CROWD = 64         /* from here on a new one ends the oldest silent one */
};

typedef struct wh_http_guard wh_http_guard;

wherry_code wh_http_guard_new(wh_http_guard **out, wherry_error *err);
void wh_http_guard_free(wh_http_guard *guard); /* after the server has stopped */

/* For MHD_OPTION_NOTIFY_CONNECTION, with the guard as its argument. */
void wh_http_guard_notify(void *guard, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode what);

/* The headers of its request are there. */
void wh_http_guard_asked(wh_http_guard *guard, struct MHD_Connection *connection);

#endif
