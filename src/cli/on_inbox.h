/*
 * Commands for an inbox: sqlite:shop.db#inbox.
 */
#ifndef WH_CLI_ON_INBOX_H
#define WH_CLI_ON_INBOX_H

#include "cli/cli.h"

/* The inbox that a URL names; the standard one if it names none. */
typedef struct wh_inbox_session {
	wh_place at;
	wherry_inbox *inbox;
	const char *name;
	char url[200]; /* The database, without its password. */
} wh_inbox_session;

/* Open the inbox.  If the status is not WH_EXIT_DONE, it printed why, and the session is
 * closed. */
wh_exit wh_inbox_session_open(wh_inbox_session *s, const wh_args *args);
void wh_inbox_session_close(wh_inbox_session *s);

/* The name of an inbox whose URL may not have one. */
const char *wh_inbox_name(const char *name);

/* Print the status of an inbox once.  session: a wh_inbox_session. */
wh_exit wh_on_inbox_status(const wh_args *args, void *session);

wh_exit wh_on_inbox_purge(wh_args *args);
wh_exit wh_on_inbox_drop(wh_args *args);

#endif
