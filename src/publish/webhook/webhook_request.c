/*
 * Makes the request of a message.
 *
 * The message's headers keep their names.  Headers that HTTP, the signature or the
 * settings need are left out.  No text of a message can end a header line.
 */
#include "publish/webhook/webhook.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/digest.h"
#include "base/json.h"
#include "publish/parts.h"

/* ---- the URL ---- */

static void put_encoded(wh_buf *out, const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-._~";

	for (; *text; text++) {
		if (strchr(plain, *text))
			wh_buf_putc(out, *text);
		else
			wh_buf_printf(out, "%%%02X", (unsigned)(unsigned char)*text);
	}
}

/* These topics would change the path of the URL. */
static wherry_code check_topic(const char *topic, wherry_error *err)
{
	if (*topic && strcmp(topic, ".") != 0 && strcmp(topic, "..") != 0)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_INVALID, "the topic '%s' cannot stand in a URL",
		       topic);
}

static wherry_code write_url(wh_buf *out, const char *url, const char *topic,
			     wherry_error *err)
{
	static const char place[] = "{topic}";
	const char *at;
	wherry_code code = check_topic(topic, err);

	if (code != WHERRY_OK)
		return code;
	while ((at = strstr(url, place))) {
		wh_buf_put(out, url, (size_t)(at - url));
		put_encoded(out, topic);
		url = at + sizeof(place) - 1;
	}
	wh_buf_puts(out, url);
	return wh_buf_check(out, err);
}

/* ---- headers ---- */

/* Is this a control character?  U+0080 to U+009F count too: some receivers take them for
 * the end of a line. */
static bool is_control(const char *text)
{
	unsigned char c = (unsigned char)*text;

	return c < ' ' || c == 0x7f ||
	       (c == 0xc2 && (unsigned char)text[1] >= 0x80 &&
		(unsigned char)text[1] < 0xa0);
}

/* Append a line "Name: value".  Control characters become blanks. */
static void put_line(wh_buf *out, const char *name, const char *value)
{
	size_t from;

	wh_buf_puts(out, name);
	wh_buf_puts(out, ": ");
	from = out->len;
	wh_buf_puts(out, value);
	wh_buf_putc(out, 0);
	for (size_t i = from; !out->failed && i + 1 < out->len; i++) {
		if (!is_control(out->ptr + i))
			continue;
		if ((unsigned char)out->ptr[i] == 0xc2)
			out->ptr[i + 1] = ' ';
		out->ptr[i] = ' ';
	}
}

static void put_number(wh_buf *out, const char *name, int64_t number)
{
	wh_buf_puts(out, name);
	wh_buf_puts(out, ": ");
	wh_buf_int(out, number);
	wh_buf_putc(out, 0);
}

/* Append a line of Wherry's. */
static void put_percent(wh_buf *out, const char *name, const char *value)
{
	wh_buf_printf(out, "wherry-%s: ", name);
	wh_put_percent(out, value);
	wh_buf_putc(out, 0);
}

static void put_if_any(wh_buf *out, const char *name, const char *value)
{
	if (value && *value)
		put_percent(out, name, value);
}

static bool is_token(const char *name)
{
	return *name &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789!#$%&'*+-.^_`|~")];
}

/* Receivers behind CGI, WSGI or PHP treat "content_length" and "Content-Length" as the same
 * header: the case is ignored, and all characters that are not alphanumeric are equal. */
static char fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || !c ? c : '-';
}

/* How many characters of name match all of want; 0: name does not begin with want. */
static size_t matches(const char *name, const char *want)
{
	size_t n = 0;

	while (want[n] && fold(name[n]) == fold(want[n]))
		n++;
	return want[n] ? 0 : n;
}

/* Names that a message may not set: they frame the request, or say who sends it. */
static bool is_reserved(const char *name)
{
	static const char *const names[] = {
		"host",
		"content-length",
		"transfer-encoding",
		"connection",
		"te",
		"trailer",
		"keep-alive",
		"upgrade",
		"expect",
		"content-type",
		"authorization",
		"cookie",
		"accept",
		"idempotency-key",
		"user-agent",
		"http2-settings",
		"webhook",
		"proxy",
		"wherry",
	};

	if (strncasecmp(name, "wherry-dead-", 12) == 0 ||
	    strncasecmp(name, "wherry-body-", 12) == 0)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t len = matches(name, names[i]);

		if (len && (!name[len] || (i >= 16 && fold(name[len]) == '-')))
			return true;
	}
	return false;
}

/* Do the lines, each ending in NUL, have a header of this name? */
static bool has_line(const wh_buf *lines, const char *name)
{
	for (size_t at = 0; at < lines->len; at += strlen(lines->ptr + at) + 1) {
		size_t len = matches(lines->ptr + at, name);

		if (len && lines->ptr[at + len] == ':')
			return true;
	}
	return false;
}

/* Values that the message's own headers set. */
typedef struct given {
	const char *content_type, *traceparent;
} given;

static given put_own(wh_buf *out, const wh_webhook_settings *settings, json_t *headers)
{
	given got = {NULL, NULL};
	const char *name;
	json_t *value;

	json_object_foreach (headers, name, value) {
		const char *text = json_string_value(value);

		if (text && strcasecmp(name, "content-type") == 0)
			got.content_type = text;
		if (text && strcasecmp(name, "traceparent") == 0)
			got.traceparent = text;
		if (text && is_token(name) && !is_reserved(name) &&
		    !has_line(&settings->headers, name))
			put_line(out, name, text);
	}
	return got;
}

static void put_plain(wh_buf *out, const wherry_message *msg)
{
	char created[WH_TIME_LEN];

	wh_time_print(msg->created_at_us, created);
	put_if_any(out, "topic", msg->topic);
	put_if_any(out, "key", wh_message_key(msg));
	put_if_any(out, "aggregate-type", msg->aggregate_type);
	put_if_any(out, "aggregate-id", msg->aggregate_id);
	put_line(out, "wherry-created-at", created);
}

enum { ID_LEN_MAX = 255, ID_MAX = ID_LEN_MAX + 1 };

static const char hashed[] = "sha256-";

/* Write the message id in visible ASCII, so that every receiver verifies the same bytes.
 * Other characters and '%' are percent-encoded.  An id that is empty, too long, or begins
 * with "sha256-" becomes its SHA-256. */
static bool encode_id(const char *id, char out[ID_MAX])
{
	size_t n = 0;
	const char *at = id;

	for (; *at && n < ID_LEN_MAX; at++) {
		unsigned char c = (unsigned char)*at;
		bool plain = c > ' ' && c < 0x7f && c != '%';

		if (!plain && n + 3 > ID_LEN_MAX)
			break;
		if (plain)
			out[n++] = *at;
		else
			n += (size_t)snprintf(out + n, 4, "%%%02X", (unsigned)c);
	}
	out[n] = 0;
	if (!*at && n && strncmp(id, hashed, sizeof(hashed) - 1) != 0)
		return true;
	memcpy(out, hashed, sizeof(hashed));
	return wh_sha256(wh_view_of(id), out + sizeof(hashed) - 1);
}

static void put_ids(wh_buf *out, const wherry_message *msg, const char *id)
{
	put_line(out, "idempotency-key", id);
	put_number(out, "wherry-id", msg->id);
	put_number(out, "wherry-attempt", (int64_t)msg->attempts + 1);
}

/* Sign the id as it stands in the header line. */
static wherry_code put_signature(wh_webhook_request *request, const wh_signer *signer,
				 const char *id, int64_t now_us, wherry_error *err)
{
	wh_buf *out = &request->text;
	wh_buf signature = WH_BUF_INIT(4096);
	size_t at = out->len + strlen("webhook-id: ");
	int64_t now_s = now_us / WH_SECOND;
	wherry_code code;

	put_line(out, "webhook-id", id);
	code = wh_buf_check(out, err);
	if (code == WHERRY_OK &&
	    !wh_signer_sign(signer, out->ptr + at, now_s, request->body,
			    request->body_len, &signature))
		code = wh_oom(err);
	put_number(out, "webhook-timestamp", now_s);
	put_line(out, "webhook-signature", wh_buf_into(&signature, out));
	wh_buf_clear(&signature);
	return code;
}

static const char *type_of(const wherry_message *msg, const char *given_type)
{
	if (given_type && *given_type)
		return given_type;
	return wh_json_valid(msg->body ? msg->body : "", msg->body ? msg->body_len : 0)
		       ? "application/json"
		       : "application/octet-stream";
}

static wherry_code write_all(wh_webhook_request *request,
			     const wh_webhook_settings *settings,
			     const wherry_message *msg, json_t *headers, int64_t now_us,
			     wherry_error *err)
{
	wh_buf *out = &request->text;
	given own = put_own(out, settings, headers);
	char parent[WH_TRACEPARENT_LEN] = "";
	char id[ID_MAX];

	if (!encode_id(msg->message_id ? msg->message_id : "", id))
		return wh_oom(err);
	if (!own.traceparent && wh_traceparent(msg, parent))
		put_line(out, "traceparent", parent);
	put_ids(out, msg, id);
	put_plain(out, msg);
	if (!has_line(&settings->headers, "content-type"))
		put_line(out, "content-type", type_of(msg, own.content_type));
	return settings->signer
		       ? put_signature(request, settings->signer, id, now_us, err)
		       : WHERRY_OK;
}

/* Link the lines to the list that libcurl expects. */
static wherry_code link_lines(wh_webhook_request *request, wherry_error *err)
{
	const wh_buf *text = &request->text;
	size_t n = 0;

	for (size_t at = 0; at < text->len; at += strlen(text->ptr + at) + 1)
		n++;
	if (n > request->list_cap) {
		struct curl_slist *grown = realloc(request->list, n * sizeof(*grown));

		if (!grown)
			return wh_oom(err);
		request->list = grown;
		request->list_cap = n;
	}
	n = 0;
	for (size_t at = 0; at < text->len; at += strlen(text->ptr + at) + 1) {
		if (n)
			request->list[n - 1].next = &request->list[n];
		request->list[n++] = (struct curl_slist){text->ptr + at, NULL};
	}
	return WHERRY_OK;
}

wherry_code wh_webhook_write(wh_webhook_request *request,
			     const wh_webhook_settings *settings,
			     const wherry_message *msg, int64_t now_us, wherry_error *err)
{
	const char *text = wh_message_headers(msg);
	bool any = strcmp(text, "{}") != 0;
	json_t *headers = NULL;
	wherry_code code = any ? wh_json_headers(text, strlen(text), err) : WHERRY_OK;

	if (code != WHERRY_OK)
		return code;
	wh_buf_reset(&request->url);
	wh_buf_reset(&request->text);
	request->body = msg->body ? msg->body : "";
	request->body_len = msg->body ? msg->body_len : 0;
	if (settings->topical)
		code = write_url(&request->url, settings->url,
				 msg->topic ? msg->topic : "", err);
	if (code != WHERRY_OK)
		return code;
	if (any)
		headers = json_loads(text, 0, NULL);
	if (any && !headers) /* It was valid above. */
		return wh_oom(err);
	wh_buf_put(&request->text, wh_buf_into(&settings->headers, &request->text),
		   settings->headers.len);
	/* Else libcurl may wait for "100 Continue". */
	wh_buf_puts(&request->text, "expect:");
	wh_buf_putc(&request->text, 0);
	code = write_all(request, settings, msg, headers, now_us, err);
	json_decref(headers);
	if (code == WHERRY_OK)
		code = wh_buf_check(&request->text, err);
	if (code == WHERRY_TOOBIG)
		code = wh_prefix(err, code, "its headers");
	return code == WHERRY_OK ? link_lines(request, err) : code;
}

void wh_webhook_request_clear(wh_webhook_request *request)
{
	wh_buf_clear(&request->url);
	wh_buf_clear(&request->text);
	free(request->list);
	*request = (wh_webhook_request)WH_WEBHOOK_REQUEST_INIT;
}
