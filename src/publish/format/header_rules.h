/*
 * message.headers: rules that drop, rename and add headers.
 *
 *     drop NAME               also NAME*, for all names that begin so
 *     rename NAME NEW
 *     add NAME TEMPLATE       the rest of the rule
 *
 * Rules end at a semicolon or a line break, and apply in their order.
 */
#ifndef WH_PUBLISH_FORMAT_HEADER_RULES_H
#define WH_PUBLISH_FORMAT_HEADER_RULES_H

#include <jansson.h>

#include "publish/driver.h"

typedef struct wh_header_rule {
	enum { WH_RULE_DROP, WH_RULE_RENAME, WH_RULE_ADD } kind;
	char *name;
	char *to; /* The new name, or the template of the value; NULL: it drops. */
} wh_header_rule;

typedef struct wh_header_rules {
	wh_header_rule *rules;
	size_t n;
} wh_header_rules;

/* On failure *out is unchanged. */
wherry_code wh_header_rules_read(const char *text, wh_header_rules *out,
				 wherry_error *err);
void wh_header_rules_clear(wh_header_rules *rules);

/* Does a rule need the message's headers for the value that it adds? */
bool wh_header_rules_ask(const wh_header_rules *rules);

/*
 * Change the headers of a message.
 *
 * @param own      The headers as the message has them, for templates.
 * @param headers  The headers to change.
 * @return INVALID: two headers would have one name, or a value is missing.
 */
wherry_code wh_header_rules_apply(const wh_header_rules *rules, const wherry_message *msg,
				  json_t *own, json_t *headers, wherry_error *err);

#endif
