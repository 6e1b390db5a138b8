/*
 * Templates of the settings message.*, such as "shop.{topic}.{header:tenant}".
 */
#ifndef WH_PUBLISH_FORMAT_TEMPLATE_H
#define WH_PUBLISH_FORMAT_TEMPLATE_H

#include <jansson.h>

#include "publish/driver.h"

typedef enum wh_piece_kind {
	WH_PIECE_TEXT,
	WH_PIECE_TOPIC,
	WH_PIECE_KEY,
	WH_PIECE_AGGREGATE_TYPE,
	WH_PIECE_AGGREGATE_ID,
	WH_PIECE_MESSAGE_ID,
	WH_PIECE_HEADER,
	WH_PIECE_UNKNOWN
} wh_piece_kind;

typedef struct wh_piece {
	wh_piece_kind kind;
	/* The text; of a header its name; else what stands between the braces.  Points into
	 * the template. */
	wh_view text;
} wh_piece;

/* Return the piece of a template that begins at *at, which is not its end, and move *at
 * behind it. */
wh_piece wh_template_next(const char **at);

/* Refuse a template that has braces without a meaning. */
wherry_code wh_template_check(const char *template, wherry_error *err);

/* Does the template name a header? */
bool wh_template_has_header(const char *template);

/*
 * Append what the template makes of a message.
 *
 * @param headers  The message's headers, an object; NULL: the template names none.
 * @return INVALID: the message lacks a value that the template names.
 */
wherry_code wh_template_put(const char *template, const wherry_message *msg,
			    json_t *headers, wh_buf *out, wherry_error *err);

#endif
