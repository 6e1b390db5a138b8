/*
 * The message that points to a stored body.
 *
 * Its body is {"wherry_body":{"url":…,"length":…,"sha256":…,"content_type":…}}, and the same
 * values are in headers, for consumers that choose by headers.  Its other headers, topic,
 * key and ids are those of the message.
 */
#include "publish/bodies/bodies.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/text.h"
#include "publish/parts.h"

static const char pointer_type[] = "application/json";

/* The headers as an object.  NULL: no memory, since the caller found them valid. */
static json_t *read_headers(const wherry_message *msg)
{
	return json_loads(wh_message_headers(msg), JSON_ALLOW_NUL, NULL);
}

/* The name of the header content-type, as the message writes it; NULL: it has none. */
static const char *type_header(json_t *headers)
{
	const char *name;
	json_t *value;

	json_object_foreach (headers, name, value)
		if (strcasecmp(name, "content-type") == 0 && json_string_value(value))
			return name;
	return NULL;
}

/* Copy a content type.  A character that cannot stand in a header of HTTP becomes '?'. */
static void copy_type(const char *text, char out[WH_BODY_TYPE_LEN])
{
	size_t n = 0;

	for (; text[n] && n + 1 < WH_BODY_TYPE_LEN; n++)
		out[n] = text[n] < ' ' || text[n] > '~' ? '?' : text[n];
	out[n] = 0;
}

/* Write the first part of an object's name: a message id in characters that every store and
 * URL takes as they are.  The sum behind it tells ids apart that this makes equal. */
static void name_after(const char *id, char out[WH_BODY_NAME_LEN])
{
	enum { ID_MOST = 100 };
	size_t n = 0;

	for (; id && id[n] && n < ID_MOST; n++) {
		char c = id[n];
		bool plain = wh_is_letter(c) || wh_is_digit(c) || c == '-' || c == '_';

		out[n] = plain ? c : '_';
	}
	if (!n)
		out[n++] = '_';
	out[n] = 0;
}

wherry_code wh_upload_make(const wherry_message *msg, uint64_t nonce, wh_upload **out,
			   wherry_error *err)
{
	const char *text = wh_message_headers(msg), *name;
	wherry_code code = wh_json_headers(text, strlen(text), err);
	json_t *headers;
	wh_upload *upload;

	if (code != WHERRY_OK)
		return code;
	headers = read_headers(msg);
	upload = calloc(1, sizeof(*upload));
	if (upload)
		upload->body = malloc(msg->body_len + 1);
	if (!headers || !upload || !upload->body) {
		json_decref(headers);
		wh_upload_free(upload);
		return wh_oom(err);
	}
	memcpy(upload->body, msg->body, msg->body_len);
	upload->body[msg->body_len] = 0;
	upload->len = msg->body_len;
	upload->nonce = nonce;
	atomic_init(&upload->cancelled, false);
	name_after(msg->message_id, upload->name);
	name = type_header(headers);
	if (name && *json_string_value(json_object_get(headers, name)))
		copy_type(json_string_value(json_object_get(headers, name)),
			  upload->type);
	else
		copy_type(wh_json_valid(upload->body, upload->len)
				  ? pointer_type
				  : "application/octet-stream",
			  upload->type);
	json_decref(headers);
	*out = upload;
	return WHERRY_OK;
}

static bool put_headers(json_t *headers, const char *url, const wh_upload *upload)
{
	const char *name = type_header(headers);
	char length[24];
	int failed = 0;

	(void)snprintf(length, sizeof(length), "%zu", upload->len);
	if (name)
		failed |= json_object_set_new(headers, name, json_string(pointer_type));
	failed |= json_object_set_new(headers, "wherry-body-url", json_string(url));
	failed |= json_object_set_new(headers, "wherry-body-length", json_string(length));
	failed |= json_object_set_new(headers, "wherry-body-sha256",
				      json_string(upload->sha256));
	failed |= json_object_set_new(headers, "wherry-body-type",
				      json_string(upload->type));
	return !failed;
}

static void put_body(wh_buf *out, const char *url, const wh_upload *upload)
{
	wh_buf_puts(out, "{\"wherry_body\":{\"url\":");
	wh_buf_json(out, url, strlen(url));
	wh_buf_printf(out,
		      ",\"length\":%zu,\"sha256\":\"%s\",\"content_type\":", upload->len,
		      upload->sha256);
	wh_buf_json(out, upload->type, strlen(upload->type));
	wh_buf_puts(out, "}}");
}

wherry_code wh_pointer_fill(wh_pointer *pointer, const wherry_message *msg,
			    const wh_body_store *store, const wh_upload *upload,
			    wherry_error *err)
{
	wh_buf url = WH_BUF_INIT(8192);
	json_t *headers = read_headers(msg);
	wherry_code code;

	wh_pointer_clear(pointer);
	pointer->body = (wh_buf)WH_BUF_INIT(16384);
	wh_buf_puts(&url, store->url);
	wh_buf_puts(&url, upload->name);
	put_body(&pointer->body, wh_buf_into(&url, &pointer->body), upload);
	if (headers && put_headers(headers, wh_buf_str(&url), upload))
		pointer->headers = json_dumps(headers, JSON_COMPACT);
	json_decref(headers);
	wh_buf_clear(&url);
	code = wh_buf_check(&pointer->body, err);
	if (code == WHERRY_OK && !pointer->headers)
		code = wh_oom(err);
	if (code != WHERRY_OK) {
		wh_pointer_clear(pointer);
		return code;
	}
	pointer->message = *msg;
	pointer->message.headers = pointer->headers;
	pointer->message.body = pointer->body.ptr;
	pointer->message.body_len = pointer->body.len;
	return WHERRY_OK;
}

void wh_pointer_clear(wh_pointer *pointer)
{
	free(pointer->headers);
	wh_buf_clear(&pointer->body);
	*pointer = (wh_pointer){.headers = NULL};
}
