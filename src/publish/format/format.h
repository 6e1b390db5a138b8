/*
 * Formats: how a message looks at its destination (settings message.*).
 *
 *     format_settings.c   reads the settings
 *     format_make.c       makes the message as it is sent: topic, key, headers, body
 *     format_debezium.c   the part of it that is Debezium's
 *     format_headers.c    headers that a format adds
 *     format.c            puts this in front of any destination
 *     cloudevent.c, template.c, header_rules.c   parts
 *
 * A destination is opened as always.  If a setting asks for it, wh_format_wrap() puts a
 * publisher in front of it that hands over changed messages and gives back the receipts of
 * the original ones.  Without such a setting there is none, and nothing is copied.
 */
#ifndef WH_PUBLISH_FORMAT_FORMAT_H
#define WH_PUBLISH_FORMAT_FORMAT_H

#include <jansson.h>

#include "publish/driver.h"
#include "publish/format/header_rules.h"

/* In the order of the choices of message.format. */
typedef enum wh_format_kind {
	WH_FORMAT_RAW,
	WH_FORMAT_CLOUDEVENTS,
	WH_FORMAT_STRUCTURED,
	WH_FORMAT_DEBEZIUM,
	WH_FORMAT_EXPANDED
} wh_format_kind;

/* A column of Debezium's outbox table that becomes a header, or a member of the body. */
typedef struct wh_placement {
	int column;
	bool envelope;
	char *alias;
} wh_placement;

enum { WH_PLACEMENTS_MOST = 16 };

typedef struct wh_format {
	wh_format_kind kind;
	const wh_binding *binding;
	char *source, *type, *topic,
		*key; /* All templates except source; topic, key "": none. */
	wh_header_rules rules;
	wh_placement placements[WH_PLACEMENTS_MOST];
	size_t n_placements;
	uint32_t schema_id; /* 0: none. */
	bool parses;        /* Headers are read: for a template, or to be changed. */
	bool writes;        /* Headers are changed. */
} wh_format;

/* ---- format_settings.c ---- */

/* *out_used: do the settings change messages at all? */
wherry_code wh_format_read(const wherry_config *config, const wh_binding *binding,
			   wh_format *out, bool *out_used, wherry_error *err);
void wh_format_clear(wh_format *format);

/* Refuse settings that wh_format_wrap() would refuse. */
wherry_code wh_format_check(const wherry_config *config, wherry_error *err);

/* Do the settings change topics or keys?  Then the destination's names are not those of
 * the outbox. */
bool wh_format_renames(const wherry_config *config);

/* ---- format_make.c ---- */

/* A message as it is sent. */
typedef struct wh_formed {
	wherry_message msg; /* First: a receipt names it. */
	const wherry_message *given;
	struct wh_formed *next, *prev;
	wh_buf topic, key, type, headers, body;
} wh_formed;

void wh_formed_init(wh_formed *formed);
void wh_formed_clear(wh_formed *formed);

/* Make the message that is sent for `given`, which is borrowed.  INVALID and TOOBIG are the
 * message's fault. */
wherry_code wh_format_make(const wh_format *format, const wherry_message *given,
			   wh_formed *out, wherry_error *err);

/* ---- format_headers.c ---- */

/* Set a header of the format.  INVALID: the message has a header of this name; names are
 * compared as CGI does, without case, and with all signs equal. */
wherry_code wh_format_header(json_t *headers, const char *name, const char *value,
			     wherry_error *err);

/* ---- format_debezium.c ---- */

wherry_code wh_debezium_placements(const char *text, wh_format *out, wherry_error *err);

/* Write headers and body as Debezium's outbox event router does. */
wherry_code wh_debezium_make(const wh_format *format, const wherry_message *given,
			     const char *type, json_t *headers, wh_formed *out,
			     wherry_error *err);

/* ---- format.c ---- */

/*
 * Put the format of the settings in front of a destination.
 *
 * @param pub  An open publisher, or the one that is put in front of it.  On failure it is
 *             closed and set to NULL.
 */
wherry_code wh_format_wrap(const wherry_config *config, wherry_publisher **pub,
			   wherry_error *err);

/* The publisher behind a format; NULL: this one has none. */
wherry_publisher *wh_format_inner(const wherry_publisher *pub);

#endif
