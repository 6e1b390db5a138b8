/*
 * A message as a CloudEvent (CloudEvents 1.0): as attributes, or as one JSON object.
 */
#ifndef WH_PUBLISH_CLOUDEVENT_H
#define WH_PUBLISH_CLOUDEVENT_H

#include "publish/driver.h"

typedef struct wh_cloudevent {
	const wherry_message *msg;
	const char *source;       /* Not empty. */
	const char *content_type; /* Of the body. */
	const char *traceparent;  /* NULL: none. */
} wh_cloudevent;

/*
 * Visit each attribute that is set, except datacontenttype: specversion, id, source, type (the
 * topic), time, subject (the aggregate's id), partitionkey, traceparent.
 */
void wh_cloudevent_each(const wh_cloudevent *event,
			void (*tell)(void *ctx, const char *name, const char *value),
			void *ctx);

/* Write the event into an empty buffer, as JSON.  The body becomes `data` if its content
 * type says JSON or text and it is valid; else `data_base64`. */
void wh_cloudevent_put(const wh_cloudevent *event, wh_buf *out);

#endif
