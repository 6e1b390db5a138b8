/*
 * Makes a message as it is sent.
 */
#include "publish/format/format.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "publish/format/cloudevent.h"
#include "publish/format/template.h"
#include "publish/parts.h"

enum { TEXT_MOST = 64 * 1024, HEADERS_MOST = 16 << 20, KEPT_MOST = 64 * 1024 };

void wh_formed_init(wh_formed *formed)
{
	*formed = (wh_formed){.topic = WH_BUF_INIT(TEXT_MOST),
			      .key = WH_BUF_INIT(TEXT_MOST),
			      .type = WH_BUF_INIT(TEXT_MOST),
			      .headers = WH_BUF_INIT(HEADERS_MOST),
			      .body = WH_BUF_INIT(SIZE_MAX / 2)};
}

void wh_formed_clear(wh_formed *formed)
{
	wh_buf_clear(&formed->topic);
	wh_buf_clear(&formed->key);
	wh_buf_clear(&formed->type);
	wh_buf_clear(&formed->headers);
	wh_buf_clear(&formed->body);
}

/* Empty a buffer for the next message, and give back the memory of a large one. */
static void empty(wh_buf *buf)
{
	if (buf->cap > KEPT_MOST) {
		size_t most = buf->most;

		wh_buf_clear(buf);
		*buf = (wh_buf)WH_BUF_INIT(most);
	}
	wh_buf_reset(buf);
}

/* ---- headers ---- */

/* The text of a header, by a name that is compared without case. */
static const char *find_text(json_t *headers, const char *name)
{
	const char *at;
	json_t *value;

	json_object_foreach (headers, at, value)
		if (strcasecmp(at, name) == 0)
			return json_string_value(value);
	return NULL;
}

static void write_headers(json_t *headers, wh_buf *out)
{
	const char *name;
	json_t *value;

	wh_buf_putc(out, '{');
	json_object_foreach (headers, name, value) {
		if (out->len > 1)
			wh_buf_putc(out, ',');
		wh_buf_json(out, name, strlen(name));
		wh_buf_putc(out, ':');
		if (json_is_string(value))
			wh_buf_json(out, json_string_value(value),
				    json_string_length(value));
		else
			wh_buf_puts(out, "null");
	}
	wh_buf_putc(out, '}');
}

/* ---- CloudEvents ---- */

typedef struct attributes {
	const wh_binding *binding;
	json_t *headers;
	wherry_code code;
	wherry_error *err;
} attributes;

static void put_attribute(void *ctx, const char *name, const char *value)
{
	attributes *to = ctx;
	wh_buf whole = WH_BUF_INIT(256), text = WH_BUF_INIT(3 * TEXT_MOST);

	if (to->code != WHERRY_OK)
		return;
	wh_buf_printf(&whole, "%s%s", to->binding->prefix, name);
	if (to->binding->percent)
		wh_put_percent(&text, value);
	else
		wh_buf_puts(&text, value);
	to->code = wh_buf_check(&whole, to->err);
	if (to->code == WHERRY_OK)
		to->code = wh_buf_check(&text, to->err);
	if (to->code == WHERRY_OK)
		to->code = wh_format_header(to->headers, wh_buf_str(&whole),
					    wh_buf_str(&text), to->err);
	wh_buf_clear(&whole);
	wh_buf_clear(&text);
}

/* A framed body is not JSON any more. */
static const char *type_of(const wh_format *format, const wherry_message *msg,
			   const char *given_type)
{
	bool json = msg->body && !format->schema_id &&
		    wh_json_valid(msg->body, msg->body_len);

	if (given_type && *given_type)
		return given_type;
	return json ? "application/json" : "application/octet-stream";
}

/* Replace the header content-type, whatever its case. */
static wherry_code set_type(json_t *headers, const char *type, wherry_error *err)
{
	const char *name;
	json_t *value;
	void *next;

	json_object_foreach_safe(headers, next, name,
				 value) if (strcasecmp(name, "content-type") == 0)(void)
		json_object_del(headers, name);
	return wh_format_header(headers, "content-type", type, err);
}

static wherry_code make_event(const wh_format *format, const wherry_message *given,
			      const char *type, json_t *headers, wh_formed *out,
			      wherry_error *err)
{
	const char *own_type = find_text(headers, "content-type");
	/* Copied: set_type() removes the header. */
	char content_type[256], parent[WH_TRACEPARENT_LEN];
	wh_cloudevent event = {given,
			       format->source,
			       type,
			       wh_message_key(&out->msg),
			       content_type,
			       find_text(headers, "traceparent"),
			       find_text(headers, "tracestate")};
	attributes to = {format->binding, headers, WHERRY_OK, err};
	wherry_code code;

	if (own_type && strlen(own_type) >= sizeof(content_type))
		return wh_fail(err, WHERRY_INVALID,
			       "its header content-type is longer than %zu bytes",
			       sizeof(content_type) - 1);
	(void)snprintf(content_type, sizeof(content_type), "%s",
		       type_of(format, given, own_type));
	if (!event.traceparent && wh_traceparent(given, parent))
		event.traceparent = parent;
	code = wh_cloudevent_check(&event, err);
	if (code != WHERRY_OK)
		return code;
	if (format->kind == WH_FORMAT_STRUCTURED) {
		wh_cloudevent_put(&event, &out->body);
		out->msg.body = out->body.ptr;
		out->msg.body_len = out->body.len;
		code = wh_buf_check(&out->body, err);
		return code == WHERRY_OK
			       ? set_type(headers, format->binding->structured, err)
			       : code;
	}
	wh_cloudevent_each(&event, put_attribute, &to);
	if (to.code == WHERRY_OK && format->binding->type_too)
		put_attribute(&to, "datacontenttype", content_type);
	return to.code == WHERRY_OK ? set_type(headers, content_type, err) : to.code;
}

/* ---- all of it ---- */

static wherry_code put_template(const char *template, const wherry_message *given,
				json_t *own, const char *name, wh_buf *out,
				wherry_error *err)
{
	wherry_code code = wh_template_put(template, given, own, out, err);

	return code == WHERRY_OK
		       ? code
		       : wh_prefix(err, code, "message.%s=%.80s", name, template);
}

static wherry_code make_names(const wh_format *format, const wherry_message *given,
			      json_t *own, wh_formed *out, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (*format->topic) {
		code = put_template(format->topic, given, own, "topic", &out->topic, err);
		out->msg.topic = wh_buf_str(&out->topic);
	}
	if (code == WHERRY_OK && *format->key) {
		code = put_template(format->key, given, own, "key", &out->key, err);
		out->msg.key = wh_buf_str(&out->key);
	}
	return code;
}

static wherry_code make_headers(const wh_format *format, const wherry_message *given,
				json_t *own, json_t *headers, wh_formed *out,
				wherry_error *err)
{
	wherry_code code =
		wh_header_rules_apply(&format->rules, given, own, headers, err);
	const char *type;

	if (code == WHERRY_OK && format->kind != WH_FORMAT_RAW)
		code = put_template(format->type, given, own, "type", &out->type, err);
	if (code != WHERRY_OK)
		return code;
	type = wh_buf_str(&out->type);
	if (format->kind == WH_FORMAT_CLOUDEVENTS || format->kind == WH_FORMAT_STRUCTURED)
		code = make_event(format, given, type, headers, out, err);
	else if (format->kind != WH_FORMAT_RAW)
		code = wh_debezium_make(format, given, type, headers, out, err);
	if (code != WHERRY_OK)
		return code;
	write_headers(headers, &out->headers);
	out->msg.headers = wh_buf_str(&out->headers);
	return wh_buf_check(&out->headers, err);
}

/* Confluent's wire format: a zero byte, the schema's id with the most significant byte
 * first, the body. */
static wherry_code frame(uint32_t id, wh_formed *out, wherry_error *err)
{
	const unsigned char head[] = {0, (unsigned char)(id >> 24),
				      (unsigned char)(id >> 16), (unsigned char)(id >> 8),
				      (unsigned char)id};
	wh_buf whole = WH_BUF_INIT(SIZE_MAX / 2);
	wherry_code code;

	if (!out->msg.body)
		return WHERRY_OK; /* A tombstone stays one. */
	wh_buf_put(&whole, head, sizeof(head));
	wh_buf_put(&whole, out->msg.body, out->msg.body_len);
	code = wh_buf_check(&whole, err);
	if (code != WHERRY_OK) {
		wh_buf_clear(&whole);
		return code;
	}
	wh_buf_clear(&out->body);
	out->body = whole;
	out->msg.body = whole.ptr;
	out->msg.body_len = whole.len;
	return WHERRY_OK;
}

static wherry_code read_own(const wherry_message *given, json_t **own, wherry_error *err)
{
	const char *text = wh_message_headers(given);
	wherry_code code = wh_json_headers(text, strlen(text), err);

	if (code != WHERRY_OK)
		return code;
	*own = json_loads(text, JSON_ALLOW_NUL, NULL);
	return *own ? WHERRY_OK : wh_oom(err);
}

wherry_code wh_format_make(const wh_format *format, const wherry_message *given,
			   wh_formed *out, wherry_error *err)
{
	json_t *own = NULL, *headers = NULL;
	wherry_code code = WHERRY_OK;

	empty(&out->topic);
	empty(&out->key);
	empty(&out->type);
	empty(&out->headers);
	empty(&out->body);
	out->msg = *given;
	out->given = given;
	if (format->parses)
		code = read_own(given, &own, err);
	if (code == WHERRY_OK)
		code = make_names(format, given, own, out, err);
	if (code == WHERRY_OK && format->writes) {
		headers = json_copy(own);
		code = headers ? make_headers(format, given, own, headers, out, err)
			       : wh_oom(err);
	}
	if (code == WHERRY_OK && format->schema_id)
		code = frame(format->schema_id, out, err);
	json_decref(headers);
	json_decref(own);
	return code;
}
