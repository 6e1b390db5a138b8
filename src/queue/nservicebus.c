/*
 * Messages of NServiceBus, which stores their fields as headers: one JSON object of
 * strings.
 */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "queue/queue.h"

/* Headers that contain Wherry's fields. */
static const char message_id_header[] = "NServiceBus.MessageId";
static const char correlation_header[] = "NServiceBus.CorrelationId";
static const char reply_header[] = "NServiceBus.ReplyToAddress";
static const char types_header[] = "NServiceBus.EnclosedMessageTypes";

/* Contains the address of the queue that a delayed message goes to when it is due. */
static const char forward_header[] = "NServiceBus.SqlServer.ForwardDestination";

/* ---- writing ---- */

static bool set(json_t *headers, const char *name, const char *value)
{
	return !value || json_object_set_new(headers, name, json_string(value)) == 0;
}

/* Append JSON text.  Each character above U+FFFF becomes a pair of escapes. */
static void put_escaped(wh_buf *to, const char *text)
{
	for (const unsigned char *s = (const unsigned char *)text; *s;) {
		size_t plain = 0;
		uint32_t c;

		while (s[plain] && s[plain] < 0xf0)
			plain++;
		wh_buf_put(to, s, plain);
		s += plain;
		if (!*s)
			break;
		c = (uint32_t)(s[0] & 7) << 18 | (uint32_t)(s[1] & 63) << 12 |
		    (uint32_t)(s[2] & 63) << 6 | (s[3] & 63);
		c -= 0x10000;
		wh_buf_printf(to, "\\u%04X\\u%04X", 0xd800 | c >> 10,
			      0xdc00 | (c & 0x3ff));
		s += 4;
	}
}

wherry_code wh_queue_write_headers(const wherry_queue_message *msg,
				   const char *message_id, char **out, wherry_error *err)
{
	json_t *all = json_loads(msg->headers ? msg->headers : "{}", 0, NULL);
	wh_buf text = WH_BUF_INIT(2 * 1024 * 1024);
	char *plain = NULL;
	bool done = all && set(all, correlation_header, msg->correlation_id) &&
		    set(all, reply_header, msg->reply_to) &&
		    set(all, types_header, msg->topic);

	/* Keep an id that is in the headers, unless the message has an id, too. */
	if (done && ((msg->message_id && *msg->message_id) ||
		     !json_is_string(json_object_get(all, message_id_header))))
		done = set(all, message_id_header, message_id);
	if (done)
		plain = json_dumps(all, JSON_COMPACT | JSON_ESCAPE_SLASH);
	if (plain)
		put_escaped(&text, plain);
	free(plain);
	json_decref(all);
	*out = plain ? wh_buf_take(&text) : NULL;
	wh_buf_clear(&text);
	return *out ? WHERRY_OK : wh_oom(err);
}

/* ---- reading ---- */

/* Copy a header's value.  NULL: there is no such header, or out of memory, which sets
 * *failed. */
static const char *get(wh_queue_batch *batch, const json_t *headers, const char *name,
		       bool *failed)
{
	const char *value = json_string_value(json_object_get(headers, name)), *copy;

	if (!value)
		return NULL;
	copy = wh_arena_copy(&batch->arena, value, strlen(value));
	*failed = *failed || !copy;
	return copy;
}

/* Does the address name this queue: its table, with its schema or without a schema? */
static bool is_own(const wherry_queue *queue, const char *address)
{
	const wh_name *own = &queue->store.names;
	wh_buf text = WH_BUF_INIT(1000);
	wh_name name;
	bool same;

	if (!*queue->catalog)
		wh_buf_puts(&text, address);
	same = (!*queue->catalog ||
		wh_queue_address(address, queue->catalog, &text, NULL) == WHERRY_OK) &&
	       wh_buf_check(&text, NULL) == WHERRY_OK &&
	       wh_name_parse(wh_buf_str(&text), true, &name, NULL) == WHERRY_OK &&
	       strcmp(name.table, own->table) == 0 &&
	       (!*name.schema || strcmp(name.schema, own->schema) == 0);
	wh_buf_clear(&text);
	return same;
}

static bool take_forward(const wherry_queue *queue, wh_queue_batch *batch,
			 wherry_queue_message *msg, json_t *headers,
			 const char **out_forward)
{
	bool failed = false;
	const char *to = get(batch, headers, forward_header, &failed);
	char *text;

	*out_forward = NULL;
	if (!to)
		return !failed;
	(void)json_object_del(headers, forward_header);
	text = json_dumps(headers, JSON_COMPACT | JSON_ESCAPE_SLASH);
	msg->headers = text ? wh_arena_copy(&batch->arena, text, strlen(text)) : NULL;
	free(text);
	*out_forward = is_own(queue, to) ? NULL : to;
	return msg->headers != NULL;
}

static bool take_fields(wh_queue_batch *batch, wherry_queue_message *msg,
			const json_t *headers)
{
	bool failed = false;
	const char *message_id = get(batch, headers, message_id_header, &failed);

	if (message_id)
		msg->message_id = message_id;
	msg->topic = get(batch, headers, types_header, &failed);
	msg->correlation_id = get(batch, headers, correlation_header, &failed);
	msg->reply_to = get(batch, headers, reply_header, &failed);
	return !failed;
}

wherry_code wh_queue_read_headers(const wherry_queue *queue, wh_queue_batch *batch,
				  wherry_queue_message *msg, const char **out_forward,
				  wherry_error *err)
{
	const char *text = msg->headers ? msg->headers : "";
	bool none = !*text || strcmp(text, "null") == 0;
	wherry_code code = WHERRY_OK;
	json_t *headers;
	bool done;

	*out_forward = NULL;
	if (none)
		msg->headers = "{}";
	else
		code = wh_json_headers(text, strlen(text), err);
	if (code != WHERRY_OK || none)
		return code;
	headers = json_loads(text, 0, NULL);
	done = headers && take_forward(queue, batch, msg, headers, out_forward) &&
	       take_fields(batch, msg, headers);
	json_decref(headers);
	return done ? WHERRY_OK : wh_oom(err);
}
