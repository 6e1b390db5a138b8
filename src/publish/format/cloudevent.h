/*
 * A message as a CloudEvent (CloudEvents 1.0): as attributes, or as one JSON object.
 */
#ifndef WH_PUBLISH_FORMAT_CLOUDEVENT_H
#define WH_PUBLISH_FORMAT_CLOUDEVENT_H

#include "publish/driver.h"

typedef struct wh_cloudevent {
	const wherry_message *msg;
	const char *source;       /* Not empty. */
	const char *type;         /* Not empty. */
	const char *key;          /* The key as it is sent; NULL: none. */
	const char *content_type; /* Of the body. */
	const char *traceparent;  /* NULL: none. */
	const char *tracestate;   /* NULL: none. */
} wh_cloudevent;

typedef void (*wh_attribute_fn)(void *ctx, const char *name, const char *value);

/*
 * Visit each attribute that is set, except datacontenttype: specversion, id, source, type,
 * time, subject (the aggregate's id), partitionkey, traceparent, tracestate.
 */
void wh_cloudevent_each(const wh_cloudevent *event, wh_attribute_fn tell, void *ctx);

/* Write the event into an empty buffer, as JSON.  The body becomes `data` if its content
 * type says JSON or text and it is valid; else `data_base64`. */
void wh_cloudevent_put(const wh_cloudevent *event, wh_buf *out);

/* Refuse a message that lacks a required attribute, or has one that CloudEvents does not
 * allow. */
wherry_code wh_cloudevent_check(const wh_cloudevent *event, wherry_error *err);

#endif
