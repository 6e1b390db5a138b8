/*
 * The outbox that a command works on, named by its URL or by a relay in wherry.yaml.
 */
#ifndef WH_CLI_TARGET_H
#define WH_CLI_TARGET_H

#include "cli/cli.h"

/* A relay of wherry.yaml. */
typedef struct wh_named {
	char *from, *to;       /* Owned; `to` may be NULL. */
	wherry_config *config; /* Its settings; owned. */
	const char *looked_in; /* The file that was read; NULL: there is none. */
} wh_named;

/*
 * Find a relay by its name in wherry.yaml, in this folder or in /etc/wherry.
 *
 * @param strict  Refuse a relay with problems.  Otherwise use the settings that could be
 *                read, since an operator's shell does not have all secrets.
 * @return WHERRY_OK; WHERRY_NOTFOUND; WHERRY_INVALID: the relay cannot be used, and the
 *         problems of the file were printed.
 */
wherry_code wh_named_find(const char *name, bool strict, wh_named *out,
			  wherry_error *err);
void wh_named_clear(wh_named *named);

/*
 * Make the words that name the outbox behind "wherry COMMAND", each with a blank before
 * it: " sqlite:shop.db --table billing".  free() the result.
 *
 * @param shown  A URL or a name; NULL: WHERRY_URL names the outbox.
 * @param known  The settings that the name provides; NULL: the defaults.
 */
char *wh_target_words(const wherry_config *config, const char *shown,
		      const wherry_config *known);

#endif
