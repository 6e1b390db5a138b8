/*
 * The functions of `wherry create` for each kind of table.
 */
#ifndef WH_CLI_CREATE_H
#define WH_CLI_CREATE_H

#include "cli/cli.h"

/* Values of --grant. */
enum { WH_GRANTS_MOST = 64 };

typedef struct wh_grants {
	const char *all[WH_GRANTS_MOST]; /* Each is "ROLE=KIND"; borrowed. */
	size_t n;
} wh_grants;

/* Read --grant.  False: there are more than WH_GRANTS_MOST, which it printed. */
bool wh_arg_grants(const wh_args *args, wh_grants *out);

/* Create an outbox. */
wh_exit wh_create_outbox(wh_args *args);
wh_exit wh_create_subscription(wh_args *args);

/* Create a table of another kind, WHERRY_KIND_*. */
wh_exit wh_create_table(wh_args *args, unsigned kind);

/* Append the beginning of the result in JSON, without its closing brace. */
void wh_put_created(wh_buf *text, const wh_args *args, unsigned kind, const char *table);

#endif
