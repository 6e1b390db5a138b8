#include "publish/webhook/cloudevent.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/text.h"
#include "publish/parts.h"

static void tell_if_any(void (*tell)(void *ctx, const char *name, const char *value),
			void *ctx, const char *name, const char *value)
{
	if (value && *value)
		tell(ctx, name, value);
}

void wh_cloudevent_each(const wh_cloudevent *event,
			void (*tell)(void *ctx, const char *name, const char *value),
			void *ctx)
{
	const wherry_message *msg = event->msg;
	char created[WH_TIME_LEN];

	wh_time_print(msg->created_at_us, created);
	tell(ctx, "specversion", "1.0");
	tell(ctx, "id", msg->message_id ? msg->message_id : "");
	tell(ctx, "source", event->source);
	tell(ctx, "type", msg->topic ? msg->topic : "");
	tell(ctx, "time", created);
	tell_if_any(tell, ctx, "subject", msg->aggregate_id);
	tell_if_any(tell, ctx, "partitionkey", wh_message_key(msg));
	tell_if_any(tell, ctx, "traceparent", event->traceparent);
}

static void put_member(void *ctx, const char *name, const char *value)
{
	wh_buf *out = ctx;

	wh_buf_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", name);
	wh_buf_json(out, value, strlen(value));
}

/* "application/json", "application/problem+json; charset=utf-8" */
static bool is_json(const char *type)
{
	size_t len = strcspn(type, "; \t");

	if (len == 16 && strncasecmp(type, "application/json", 16) == 0)
		return true;
	return len > 5 && strncasecmp(type + len - 5, "+json", 5) == 0;
}

static bool is_text(const char *type)
{
	return strncasecmp(type, "text/", 5) == 0 ||
	       strncasecmp(type, "application/xml", 15) == 0;
}

void wh_cloudevent_put(const wh_cloudevent *event, wh_buf *out)
{
	const wherry_message *msg = event->msg;
	const char *body = msg->body ? msg->body : "";
	size_t len = msg->body ? msg->body_len : 0;

	wh_buf_putc(out, '{');
	wh_cloudevent_each(event, put_member, out);
	put_member(out, "datacontenttype", event->content_type);
	if (is_json(event->content_type) && wh_json_valid(body, len)) {
		wh_buf_puts(out, ",\"data\":");
		wh_buf_put(out, body, len);
	} else if (is_text(event->content_type) && wh_utf8_valid(body, len)) {
		wh_buf_puts(out, ",\"data\":");
		wh_buf_json(out, body, len);
	} else if (len) {
		wh_buf_puts(out, ",\"data_base64\":\"");
		wh_buf_base64(out, body, len);
		wh_buf_putc(out, '"');
	}
	wh_buf_putc(out, '}');
}
