/*
 * Commands for an inbox: sqlite:shop.db#inbox.
 */
#ifndef WH_CLI_ON_INBOX_H
#define WH_CLI_ON_INBOX_H

#include "cli/cli.h"

/* Print the status of an inbox once. */
wh_exit wh_on_inbox_status(const wh_args *args, wh_session *s);

wh_exit wh_on_inbox_purge(const wh_args *args, wh_session *s);
wh_exit wh_on_inbox_drop(const wh_args *args, wh_session *s);

#endif
