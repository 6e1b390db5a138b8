/*
 * Sends messages, and cancels them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/sized.h"
#include "base/uuid.h"
#include "queue/queue.h"

enum { SEND_PARAMS = 8, ARRAY_MAX = 256 * 1024 * 1024 };

wh_view wh_queue_body(const wherry_queue_message *msg)
{
	if (!msg->body)
		return (wh_view){"", 0};
	return (wh_view){msg->body, msg->body_len == WHERRY_TEXT ? strlen(msg->body)
								 : msg->body_len};
}

wh_param wh_queue_body_param(const wherry_queue *queue, wh_view body)
{
	if (strcmp(queue->store.payload_type, "bytea") == 0)
		return WH_BLOB_PARAM("body", body);
	return wh_body_param("body", body);
}

wherry_code wh_queue_read_message(const void *given, wherry_queue_message *out,
				  wherry_error *err)
{
	return wh_sized_read(out, sizeof(*out), given, offsetof(wherry_queue_message, id),
			     "message",
			     "WHERRY_QUEUE_MESSAGE or wherry_queue_message_init", err);
}

wherry_code wh_queue_check_message(const wherry_queue_message *msg, wherry_error *err)
{
	const wh_field fields[] = {
		{"message_id", msg->message_id, WH_FIELD_MOST},
		{"topic", msg->topic, WH_FIELD_MOST},
		{"correlation_id", msg->correlation_id, WH_FIELD_MOST},
		{"reply_to", msg->reply_to, WH_FIELD_MOST},
		{"headers", msg->headers, WH_HEADERS_MOST},
	};
	wherry_code code;
	size_t len;

	if (!msg->body && msg->body_len)
		return wh_fail(err, WHERRY_INVALID, "a message needs a body");
	if (msg->delay_us < 0 || msg->expires_us < 0)
		return wh_fail(err, WHERRY_INVALID,
			       "delay_us and expires_us are not negative: 0 means no "
			       "delay, and that the message never expires");
	code = wh_span_check("the delay", msg->delay_us, err);
	if (code == WHERRY_OK)
		code = wh_span_check("the expiry", msg->expires_us, err);
	if (code != WHERRY_OK)
		return code;
	len = wh_queue_body(msg).len;
	if (len > WH_BODY_MAX)
		return wh_fail(err, WHERRY_TOOBIG,
			       "the body is %zu bytes, the limit is %d", len,
			       WH_BODY_MAX);
	code = wh_fields_check(fields, sizeof(fields) / sizeof(*fields), err);
	if (code == WHERRY_OK && msg->headers)
		code = wh_json_headers(msg->headers, strlen(msg->headers), err);
	return code;
}

static wherry_code check(const wherry_queue *queue, const wherry_queue_message *msg,
			 wherry_error *err)
{
	wherry_code code = wh_queue_check_message(msg, err);

	if (code == WHERRY_OK && queue->own.send_delayed && msg->delay_us &&
	    msg->expires_us)
		return wh_store_cannot(
			&queue->store,
			"which has no place for the expiry of a delayed "
			"message: send it without a delay, or without an expiry",
			err);
	return code == WHERRY_OK
		       ? wh_store_check_body(&queue->store, queue->store.payload_type,
					     wh_queue_body(msg), err)
		       : code;
}

/* The message's id, or a new one, which is written to `made`. */
static const char *id_of(const wherry_queue *queue, const wherry_queue_message *msg,
			 uint64_t *random, char made[WH_UUID_LEN + 1])
{
	if (msg->message_id && *msg->message_id)
		return msg->message_id;
	wh_uuid7_next(queue->store.db->env, random, made);
	return made;
}

/* The text of the headers as the queue stores them.  *out_made receives the memory to
 * free(), or NULL. */
static wherry_code headers_of(const wherry_queue *queue, const wherry_queue_message *msg,
			      const char *message_id, const char **out, char **out_made,
			      wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	*out_made = NULL;
	if (queue->fields_in_headers)
		code = wh_queue_write_headers(msg, message_id, out_made, err);
	*out = *out_made ? *out_made : msg->headers ? msg->headers : "{}";
	return code;
}

/* Insert a message into the table of delayed messages. */
static wherry_code insert_delayed(wherry_queue *queue, const wherry_queue_message *msg,
				  const char *headers, wherry_error *err)
{
	const wh_param params[] = {
		WH_TEXT_PARAM("headers", wh_view_of(headers)),
		wh_queue_body_param(queue, wh_queue_body(msg)),
		WH_INT_PARAM("delay", wh_ms(msg->delay_us)),
	};

	return wh_db_run(queue->store.db, queue->own.send_delayed, params, 3, NULL, NULL,
			 NULL, err);
}

static wherry_code insert_ready(wherry_queue *queue, const wherry_queue_message *msg,
				const char *message_id, const char *headers,
				wherry_error *err)
{
	const wh_param params[SEND_PARAMS] = {
		WH_TEXT_PARAM("message_id", wh_view_of(message_id)),
		WH_TEXT_PARAM("topic", wh_view_of(msg->topic)),
		WH_TEXT_PARAM("correlation_id", wh_view_of(msg->correlation_id)),
		WH_TEXT_PARAM("reply_to", wh_view_of(msg->reply_to)),
		WH_TEXT_PARAM("headers", wh_view_of(headers)),
		wh_queue_body_param(queue, wh_queue_body(msg)),
		WH_INT_PARAM("delay", wh_ms(msg->delay_us)),
		WH_INT_PARAM("ttl", wh_ms(msg->expires_us)),
	};

	return wh_db_run(queue->store.db, queue->own.send, params, SEND_PARAMS, NULL,
			 NULL, NULL, err);
}

static wherry_code insert(wherry_queue *queue, const wherry_queue_message *msg,
			  uint64_t *random, int64_t *out_id, wherry_error *err)
{
	char made_id[WH_UUID_LEN + 1], *made;
	const char *message_id = id_of(queue, msg, random, made_id), *headers;
	wherry_code code = headers_of(queue, msg, message_id, &headers, &made, err);

	if (code == WHERRY_OK && queue->own.send_delayed && msg->delay_us)
		code = insert_delayed(queue, msg, headers, err);
	else if (code == WHERRY_OK)
		code = insert_ready(queue, msg, message_id, headers, err);
	if (code == WHERRY_OK)
		*out_id = wh_db_last_id(queue->store.db);
	free(made);
	return code;
}

/* ---- many messages as arrays, one for each column ---- */

/* The arrays, in the order of the parameters of "send-many". */
enum { MESSAGE_ID, TOPIC, CORRELATION_ID, REPLY_TO, HEADERS, BODY, DELAY, TTL };

typedef struct sending {
	wherry_queue *queue;
	const wherry_queue_message *msgs;
	size_t n;
	bool arrays;  /* One statement sends all messages. */
	int64_t *ids; /* Ids of the messages that were sent; room for n. */
	size_t n_ids;
	uint64_t random; /* State of wh_uuid7_next(), which makes message ids. */
} sending;

/* Append an element to the text of an array.  text.ptr NULL: the element is NULL. */
static void put_element(wh_buf *to, wh_view text)
{
	wh_buf_putc(to, to->len > 1 ? ',' : ' ');
	if (!text.ptr) {
		wh_buf_puts(to, "NULL");
		return;
	}
	wh_buf_putc(to, '"');
	for (size_t i = 0; i < text.len;) {
		size_t plain = i;

		while (plain < text.len && text.ptr[plain] != '"' &&
		       text.ptr[plain] != '\\')
			plain++;
		wh_buf_put(to, text.ptr + i, plain - i);
		if (plain < text.len) {
			wh_buf_putc(to, '\\');
			wh_buf_putc(to, text.ptr[plain++]);
		}
		i = plain;
	}
	wh_buf_putc(to, '"');
}

/* Append bytes to the text of an array, as a bytea with its backslash escaped. */
static void put_bytes(wh_buf *to, wh_view bytes)
{
	static const char digits[] = "0123456789abcdef";

	wh_buf_puts(to, to->len > 1 ? ",\"\\\\x" : "\"\\\\x");
	for (size_t i = 0; i < bytes.len; i++) {
		unsigned char c = (unsigned char)bytes.ptr[i];

		wh_buf_putc(to, digits[c >> 4]);
		wh_buf_putc(to, digits[c & 15]);
	}
	wh_buf_putc(to, '"');
}

static void put_number(wh_buf *to, int64_t number)
{
	if (to->len > 1)
		wh_buf_putc(to, ',');
	wh_buf_int(to, number);
}

static wherry_code put_message(const wherry_queue *queue, const wherry_queue_message *msg,
			       uint64_t *random, wh_buf to[SEND_PARAMS],
			       wherry_error *err)
{
	char made_id[WH_UUID_LEN + 1], *made;
	const char *message_id = id_of(queue, msg, random, made_id), *headers;
	wherry_code code = headers_of(queue, msg, message_id, &headers, &made, err);

	put_element(&to[MESSAGE_ID], wh_view_of(message_id));
	put_element(&to[TOPIC], wh_view_of(msg->topic));
	put_element(&to[CORRELATION_ID], wh_view_of(msg->correlation_id));
	put_element(&to[REPLY_TO], wh_view_of(msg->reply_to));
	put_element(&to[HEADERS], wh_view_of(headers));
	if (strcmp(queue->store.payload_type, "bytea") == 0)
		put_bytes(&to[BODY], wh_queue_body(msg));
	else
		put_element(&to[BODY], wh_queue_body(msg));
	put_number(&to[DELAY], wh_ms(msg->delay_us));
	put_number(&to[TTL], wh_ms(msg->expires_us));
	free(made);
	return code;
}

/* Set out[] for each array in which a value differs from the default.  The other arrays
 * are sent as NULL, which costs the server less. */
static void look_for_values(const sending *w, bool out[SEND_PARAMS])
{
	out[MESSAGE_ID] = out[BODY] = true;
	out[HEADERS] = w->queue->fields_in_headers;
	for (size_t i = 0; i < w->n; i++) {
		const wherry_queue_message *msg = &w->msgs[i];

		out[TOPIC] |= msg->topic != NULL;
		out[CORRELATION_ID] |= msg->correlation_id != NULL;
		out[REPLY_TO] |= msg->reply_to != NULL;
		out[HEADERS] |= msg->headers != NULL;
		out[DELAY] |= msg->delay_us != 0;
		out[TTL] |= msg->expires_us != 0;
	}
}

static wherry_code take_id(void *ctx, const wh_row *row, wherry_error *err)
{
	sending *w = ctx;

	(void)err;
	if (w->n_ids < w->n)
		w->ids[w->n_ids++] = wh_row_int(row, 0);
	return WHERRY_OK;
}

static wherry_code insert_arrays(sending *w, wherry_error *err)
{
	static const char *const names[SEND_PARAMS] = {
		[MESSAGE_ID] = "message_id",
		[TOPIC] = "topic",
		[CORRELATION_ID] = "correlation_id",
		[REPLY_TO] = "reply_to",
		[HEADERS] = "headers",
		[BODY] = "body",
		[DELAY] = "delay",
		[TTL] = "ttl"};
	bool has[SEND_PARAMS] = {false};
	wh_param params[SEND_PARAMS];
	wh_buf arrays[SEND_PARAMS];
	wherry_code code = WHERRY_OK;

	look_for_values(w, has);
	for (int i = 0; i < SEND_PARAMS; i++) {
		arrays[i] = (wh_buf)WH_BUF_INIT(ARRAY_MAX);
		wh_buf_putc(&arrays[i], '{');
	}
	for (size_t i = 0; code == WHERRY_OK && i < w->n; i++)
		code = put_message(w->queue, &w->msgs[i], &w->random, arrays, err);
	for (int i = 0; code == WHERRY_OK && i < SEND_PARAMS; i++) {
		wh_buf_putc(&arrays[i], '}');
		code = wh_buf_check(&arrays[i], err);
		params[i] = WH_TEXT_PARAM(
			names[i],
			((wh_view){has[i] ? arrays[i].ptr : NULL, arrays[i].len}));
	}
	w->n_ids = 0;
	if (code == WHERRY_OK)
		code = wh_db_run(w->queue->store.db, w->queue->own.send_many, params,
				 SEND_PARAMS, take_id, w, NULL, err);
	for (int i = 0; i < SEND_PARAMS; i++)
		wh_buf_clear(&arrays[i]);
	return code;
}

static wherry_code insert_all(void *ctx, wherry_error *err)
{
	sending *w = ctx;
	wherry_code code = WHERRY_OK;

	if (w->arrays)
		return insert_arrays(w, err);
	for (size_t i = 0; code == WHERRY_OK && i < w->n; i++)
		code = insert(w->queue, &w->msgs[i], &w->random, &w->ids[i], err);
	return code;
}

/* A single statement needs no transaction around it.  Inside the caller's transaction it
 * gets a savepoint if its failure would abort that transaction. */
static wherry_code run(sending *w, wherry_error *err)
{
	wherry_db *db = w->queue->store.db;
	bool spreads = db->driver->failure_spreads && wherry_db_in_transaction(db);
	bool delayed = false;
	wherry_code code;

	for (size_t i = 0; i < w->n && w->queue->own.send_delayed; i++)
		delayed = delayed || w->msgs[i].delay_us;
	w->arrays = w->n > 1 && w->queue->own.send_many && !delayed;
	code = (w->n == 1 || w->arrays) && !spreads
		       ? wh_db_again(db, insert_all, w, err)
		       : wh_db_transact(db, insert_all, w, err);
	return wh_queue_failed(w->queue, code, err);
}

wherry_code wherry_queue_send(wherry_queue *queue, const wherry_queue_message *msg,
			      int64_t *out_id, wherry_error *err)
{
	wh_error_clear(err);
	wherry_queue_message own;
	int64_t id = 0;
	sending w = {.queue = queue, .msgs = &own, .n = 1, .ids = &id};
	wherry_code code;

	if (!queue || !msg)
		return wh_fail(err, WHERRY_INVALID, "no queue, or no message to send");
	code = wh_queue_read_message(msg, &own, err);
	if (code == WHERRY_OK)
		code = check(queue, &own, err);
	if (code == WHERRY_OK)
		code = run(&w, err);
	if (code == WHERRY_OK && out_id)
		*out_id = id;
	return code;
}

wherry_code wherry_queue_send_many(wherry_queue *queue, const wherry_queue_message *msgs,
				   size_t n, int64_t *out_ids, wherry_error *err)
{
	wh_error_clear(err);
	const char *at = (const char *)msgs;
	wherry_queue_message *own;
	sending w = {.queue = queue, .n = n};
	wherry_code code = WHERRY_OK;

	if (!queue || (!msgs && n))
		return wh_fail(err, WHERRY_INVALID, "no queue, or no messages to send");
	if (!n)
		return WHERRY_OK;
	own = calloc(n, sizeof(*own));
	w.ids = calloc(n, sizeof(*w.ids));
	w.msgs = own;
	if (!own || !w.ids)
		code = wh_oom(err);
	for (size_t i = 0; code == WHERRY_OK && i < n; i++, at += msgs->size) {
		code = wh_queue_read_message(at, &own[i], err);
		if (code == WHERRY_OK)
			code = check(queue, &own[i], err);
		if (code != WHERRY_OK)
			code = wh_prefix(err, code, "message %zu", i);
	}
	if (code == WHERRY_OK)
		code = run(&w, err);
	if (code == WHERRY_OK && out_ids)
		memcpy(out_ids, w.ids, n * sizeof(*out_ids));
	free(w.ids);
	free(own);
	return code;
}

wherry_code wherry_queue_cancel(wherry_queue *queue, int64_t id, wherry_error *err)
{
	wh_error_clear(err);
	const wh_param param = WH_INT_PARAM("id", id);
	/* counted: by a statement on several tables. */
	int64_t changed = 0, counted = -1;
	wherry_code code;

	if (!queue)
		return wh_fail(err, WHERRY_INVALID, "no queue");
	code = wh_db_run(queue->store.db, queue->own.cancel, &param, 1, wh_take_int,
			 &counted, &changed, err);
	if (code != WHERRY_OK)
		return wh_queue_failed(queue, code, err);
	if (counted < 0 ? !changed : !counted)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "queue '%s' has no message %" PRId64
			       " that nobody has received",
			       queue->store.name.ptr, id);
	return WHERRY_OK;
}
