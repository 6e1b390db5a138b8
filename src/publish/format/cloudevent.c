#include "publish/format/cloudevent.h"

#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/text.h"
#include "publish/parts.h"

static void tell_if_any(wh_attribute_fn tell, void *ctx, const char *name,
			const char *value)
{
	if (value && *value)
		tell(ctx, name, value);
}

void wh_cloudevent_each(const wh_cloudevent *event, wh_attribute_fn tell, void *ctx)
{
	const wherry_message *msg = event->msg;
	char created[WH_TIME_LEN];

	wh_time_print(msg->created_at_us, created);
	tell(ctx, "specversion", "1.0");
	tell(ctx, "id", msg->message_id ? msg->message_id : "");
	tell(ctx, "source", event->source);
	tell(ctx, "type", event->type);
	/* A message of another program may not say when it was sent. */
	tell_if_any(tell, ctx, "time", msg->created_at_us ? created : NULL);
	tell_if_any(tell, ctx, "subject", msg->aggregate_id);
	tell_if_any(tell, ctx, "partitionkey", event->key);
	tell_if_any(tell, ctx, "traceparent", event->traceparent);
	tell_if_any(tell, ctx, "tracestate", event->tracestate);
}

typedef struct checking {
	const char
		*bad; /* Name of the first attribute that is not allowed; NULL: none. */
	bool empty;
} checking;

/* U+0000 to U+001F and U+007F to U+009F */
static bool has_control(const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text, next = (unsigned char)text[1];

		if (c < ' ' || c == 0x7f || (c == 0xc2 && next >= 0x80 && next < 0xa0))
			return true;
	}
	return false;
}

static void check_one(void *ctx, const char *name, const char *value)
{
	checking *c = ctx;

	if (c->bad || (*value && !has_control(value)))
		return;
	c->bad = name;
	c->empty = !*value;
}

wherry_code wh_cloudevent_check(const wh_cloudevent *event, wherry_error *err)
{
	checking c = {NULL, false};

	wh_cloudevent_each(event, check_one, &c);
	if (!c.bad)
		return WHERRY_OK;
	if (c.empty)
		return wh_fail(err, WHERRY_INVALID,
			       "the CloudEvent would have no %s, which it needs", c.bad);
	return wh_fail(err, WHERRY_INVALID,
		       "the attribute %s of the CloudEvent would have a control "
		       "character, which CloudEvents does not allow",
		       c.bad);
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
