/*
 * Parts of `wherry status` that all kinds of tables have in common.
 */
#ifndef WH_CLI_STATUS_H
#define WH_CLI_STATUS_H

#include "cli/cli.h"

/* ---- what is wrong ---- */

enum { WH_WARNING_MAX = 800, WH_WARNINGS = 8 };

typedef struct wh_warned {
	char text[WH_WARNINGS][WH_WARNING_MAX];
	size_t n;
} wh_warned;

/* Add a warning; the first ones are kept. */
void wh_warn(wh_warned *out, const char *fmt, ...) WH_PRINTF(2, 3);

/* Warn of dead messages, if there are any.  target: wh_args.target. */
void wh_warn_dead(wh_warned *out, int64_t dead, const char *target);

/* Print the warnings, each on a line. */
void wh_print_warned(const wh_warned *warned);

/* Print that all is well, and what `well` says. */
void wh_print_well(const char *well);

/* ---- as text ---- */

/* Print a line of a name and texts from the database or a server. */
void wh_print_line(const char *name, const char *fmt, ...) WH_PRINTF(2, 3);

/* Print the lines of the table and of a layout that is not Wherry's own. */
void wh_print_place(const wh_session *s, const char *layout, bool paused);

/* Print the number of messages that can be taken now, and how long the oldest has waited. */
void wh_print_ready(int64_t ready, int64_t oldest_us);

/* ---- as JSON ---- */

/* Begin the object: the table, its kind and its layout. */
void wh_put_place(wh_buf *json, const wh_session *s, const char *layout);

/* Append a number as a member. */
void wh_put_number_field(wh_buf *json, const char *name, int64_t number);

/* End the object with the version of the tables and the warnings, print it and clear it. */
void wh_print_status_json(wh_buf *json, int schema_version, const wh_warned *warned);

#endif
