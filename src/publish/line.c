#include "publish/driver.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "publish/parts.h"

static void put_text(wh_buf *buf, const char *name, const char *text)
{
	wh_buf_printf(buf, ",\"%s\":", name);
	if (text)
		wh_buf_json(buf, text, strlen(text));
	else
		wh_buf_puts(buf, "null");
}

static void put_if_any(wh_buf *buf, const char *name, const char *text)
{
	if (text && *text)
		put_text(buf, name, text);
}

/* Inside strings line breaks are escaped, so a raw one stands between tokens and can become
 * a blank. */
void wh_put_json_field(wh_buf *buf, const char *name, const void *text, size_t len)
{
	size_t from;

	wh_buf_printf(buf, ",\"%s\":", name);
	from = buf->len;
	wh_buf_put(buf, text, len);
	if (buf->failed)
		return;
	for (size_t i = from; i < buf->len; i++)
		if (buf->ptr[i] == '\n' || buf->ptr[i] == '\r')
			buf->ptr[i] = ' ';
}

void wh_put_body_field(wh_buf *buf, const void *body, size_t len)
{
	if (!len)
		body = "";
	if (len && wh_json_valid(body, len)) {
		wh_put_json_field(buf, "body", body, len);
	} else if (wh_utf8_valid(body, len)) {
		wh_buf_puts(buf, ",\"body\":");
		wh_buf_json(buf, body, len);
	} else {
		wh_buf_puts(buf, ",\"body_base64\":\"");
		wh_buf_base64(buf, body, len);
		wh_buf_putc(buf, '"');
	}
}

static void put_fields(wh_buf *buf, const wherry_message *msg)
{
	const char *headers = wh_message_headers(msg);
	char created[WH_TIME_LEN];

	wh_time_print(msg->created_at_us, created);
	wh_buf_printf(buf, "{\"id\":%" PRId64, msg->id);
	put_text(buf, "message_id", msg->message_id);
	put_text(buf, "topic", msg->topic);
	put_text(buf, "key", wh_message_key(msg));
	put_if_any(buf, "aggregate_type", msg->aggregate_type);
	put_if_any(buf, "aggregate_id", msg->aggregate_id);
	put_if_any(buf, "trace_id", msg->trace_id);
	wh_put_json_field(buf, "headers", headers, strlen(headers));
	wh_put_body_field(buf, msg->body, msg->body ? msg->body_len : 0);
	/* A message of another program may not say when it was sent. */
	put_text(buf, "created_at", msg->created_at_us ? created : NULL);
	wh_buf_printf(buf, ",\"attempts\":%" PRId32, msg->attempts);
	wh_buf_puts(buf, "}\n");
}

wherry_code wh_message_line(wh_buf *buf, const wherry_message *msg, wherry_error *err)
{
	const char *headers = wh_message_headers(msg);
	size_t before = buf->len;
	wherry_code code;

	code = wh_json_headers(headers, strlen(headers), err);
	if (code != WHERRY_OK)
		return code;
	put_fields(buf, msg);
	code = wh_buf_check(buf, err);
	if (code != WHERRY_OK) {
		/* Remove the incomplete line.  The lines before it are complete and
		 * stay. */
		buf->len = before;
		buf->failed = WHERRY_OK;
		if (buf->ptr)
			buf->ptr[before] = 0;
	}
	return code;
}
