/*
 * A message as a CloudEvent (CloudEvents 1.0), in attributes or as one JSON object.
 */
#ifndef WH_PUBLISH_CLOUDEVENT_H
#define WH_PUBLISH_CLOUDEVENT_H

#include "publish/driver.h"

typedef struct wh_cloudevent {
	const wherry_message *msg;
	const char *source;       /* not empty */
	const char *content_type; /* of the body */
	const char *traceparent;  /* NULL: none */
} wh_cloudevent;

/*
 * Visit each attribute that is set, except datacontenttype: specversion, id, source, type (the
 * topic), time, subject (the aggregate's id), partitionkey, traceparent.
 */
void wh_cloudevent_each(const wh_cloudevent *event,
			void (*tell)(void *ctx, const char *name, const char *value),
			void *ctx);

/* Write the event into an empty buffer, in JSON: the body as data if it is JSON, or text by its content type,
 * else in base64. */
void wh_cloudevent_put(const wh_cloudevent *event, wh_buf *out);

enum { WH_TRACEPARENT_LEN = 56 };

/*
 * The W3C traceparent of a message whose trace_id is one, or is a trace-id of 32 digits;
 * the parent is then made of the message's id.  False: it has none.
 */
bool wh_traceparent(const wherry_message *msg, char out[WH_TRACEPARENT_LEN]);

#endif
