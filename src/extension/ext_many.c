/*
 * Functions that take many messages: all or none.
 */
#include <jansson.h>
#include <stdlib.h>

#include "base/error.h"
#include "extension/extension.h"

enum { MOST_JSON = 256 << 20 };

/* Give the ids, 0 as null, as a JSON array. */
static wherry_code give_ids(const ext_call *call, const int64_t *ids, size_t n,
			    wherry_error *err)
{
	wh_buf json = WH_BUF_INIT(MOST_JSON);
	wherry_code code;

	wh_buf_putc(&json, '[');
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			wh_buf_putc(&json, ',');
		if (ids[i])
			wh_buf_int(&json, ids[i]);
		else
			wh_buf_puts(&json, "null");
	}
	wh_buf_putc(&json, ']');
	code = wh_buf_check(&json, err);
	if (code == WHERRY_OK)
		sqlite3_result_text(call->context, wh_buf_str(&json), -1,
				    SQLITE_TRANSIENT);
	wh_buf_clear(&json);
	return code;
}

/* Room for n messages and their results; n may be 0. */
static void *room(size_t n, size_t each)
{
	return calloc(n + 1, each);
}

/* ---- wherry_enqueue_many(topics, payloads, keys, message_ids, headers, aggregate_types,
 * aggregate_ids, trace_ids, lock_key, outbox) ---- */

static wherry_code read_enqueued(const ext_columns *c, size_t i, wherry_message *msg,
				 wherry_error *err)
{
	const char **const texts[] = {&msg->topic,        NULL,
				      &msg->key,          &msg->message_id,
				      &msg->headers,      &msg->aggregate_type,
				      &msg->aggregate_id, &msg->trace_id};
	static const char *const whats[] = {
		"the topic",   "the payload",        "the key",          "the message id",
		"the headers", "the aggregate type", "the aggregate id", "the trace id"};
	const char *body = NULL;
	wherry_code code = WHERRY_OK;

	wherry_message_init(msg);
	for (int column = 0; code == WHERRY_OK && column < 8; column++)
		code = texts[column] ? wh_ext_element_text(c, column, i, whats[column],
							   texts[column], NULL, err)
				     : wh_ext_element_text(c, column, i, whats[column],
							   &body, &msg->body_len, err);
	msg->body = body;
	if (code == WHERRY_OK && (!body || !msg->topic))
		return wh_fail(err, WHERRY_INVALID, "message %zu: %s is NULL", i + 1,
			       body ? whats[0] : whats[1]);
	return code;
}

wherry_code wh_ext_enqueue_many(const ext_call *call, wherry_error *err)
{
	const char *name = wh_ext_text(call, 9);
	wherry_outbox *outbox = NULL;
	wherry_message *msgs = NULL;
	int64_t *ids = NULL;
	ext_columns columns;
	wherry_code code = wh_ext_columns(call, 0, 8, &columns, err);

	if (code == WHERRY_OK)
		code = wh_ext_check_open(call->ext, "wherry_enqueue_many", err);
	if (code == WHERRY_OK) {
		msgs = room(columns.n, sizeof(*msgs));
		ids = room(columns.n, sizeof(*ids));
		code = msgs && ids ? WHERRY_OK : wh_oom(err);
	}
	for (size_t i = 0; code == WHERRY_OK && i < columns.n; i++)
		code = read_enqueued(&columns, i, &msgs[i], err);
	if (code == WHERRY_OK) {
		outbox = wh_ext_open(call->ext, EXT_OUTBOX, name ? name : "outbox", NULL,
				     NULL, err);
		code = outbox ? WHERRY_OK : err->code;
	}
	if (code == WHERRY_OK && columns.n > 0)
		code = wherry_outbox_enqueue_many(outbox, msgs, columns.n, 0, ids, err);
	if (code == WHERRY_OK)
		code = give_ids(call, ids, columns.n, err);
	free(msgs);
	free(ids);
	wh_ext_columns_clear(&columns);
	return code;
}

/* ---- wherry_send_many(queue, bodies, headers, delays, expires, correlation_ids, reply_tos,
 * message_ids, topics) ---- */

static wherry_code read_sent(const ext_columns *c, size_t i, wherry_queue_message *msg,
			     wherry_error *err)
{
	const char *body = NULL;
	wherry_code code;

	wherry_queue_message_init(msg);
	code = wh_ext_element_text(c, 0, i, "the body", &body, &msg->body_len, err);
	msg->body = body;
	if (code == WHERRY_OK && !body)
		return wh_fail(err, WHERRY_INVALID, "message %zu: the body is NULL",
			       i + 1);
	if (code == WHERRY_OK)
		code = wh_ext_element_text(c, 1, i, "the headers", &msg->headers, NULL,
					   err);
	if (code == WHERRY_OK)
		code = wh_ext_element_duration(c, 2, i, "the delay", &msg->delay_us, err);
	if (code == WHERRY_OK)
		code = wh_ext_element_duration(c, 3, i, "the time to expire",
					       &msg->expires_us, err);
	if (code == WHERRY_OK)
		code = wh_ext_element_text(c, 4, i, "the correlation id",
					   &msg->correlation_id, NULL, err);
	if (code == WHERRY_OK)
		code = wh_ext_element_text(c, 5, i, "the address to reply to",
					   &msg->reply_to, NULL, err);
	if (code == WHERRY_OK)
		code = wh_ext_element_text(c, 6, i, "the message id", &msg->message_id,
					   NULL, err);
	return code == WHERRY_OK
		       ? wh_ext_element_text(c, 7, i, "the topic", &msg->topic, NULL, err)
		       : code;
}

wherry_code wh_ext_send_many(const ext_call *call, wherry_error *err)
{
	wherry_queue_message *msgs = NULL;
	wherry_queue *queue = NULL;
	int64_t *ids = NULL;
	ext_columns columns;
	wherry_code code = wh_ext_columns(call, 1, 8, &columns, err);

	if (code == WHERRY_OK)
		code = wh_ext_check_open(call->ext, "wherry_send_many", err);
	if (code == WHERRY_OK) {
		msgs = room(columns.n, sizeof(*msgs));
		ids = room(columns.n, sizeof(*ids));
		code = msgs && ids ? WHERRY_OK : wh_oom(err);
	}
	for (size_t i = 0; code == WHERRY_OK && i < columns.n; i++)
		code = read_sent(&columns, i, &msgs[i], err);
	if (code == WHERRY_OK)
		code = wh_ext_open_queue(call, &queue, err);
	if (code == WHERRY_OK && columns.n > 0)
		code = wherry_queue_send_many(queue, msgs, columns.n, ids, err);
	if (code == WHERRY_OK)
		code = give_ids(call, ids, columns.n, err);
	free(msgs);
	free(ids);
	wh_ext_columns_clear(&columns);
	return code;
}

/* ---- wherry_offer_many(queue, keys, bodies, delays, ats, if_absent, type, delayed) ---- */

static wherry_code read_offered(const ext_columns *c, size_t i,
				wherry_delayed_message *msg, wherry_error *err)
{
	const char *body = NULL;
	wherry_code code;

	wherry_delayed_message_init(msg);
	code = wh_ext_element_text(c, 0, i, "the key", &msg->key, NULL, err);
	if (code == WHERRY_OK)
		code = wh_ext_element_text(c, 1, i, "the body", &body, &msg->body_len,
					   err);
	msg->body = body;
	if (code == WHERRY_OK && (!body || !msg->key))
		return wh_fail(err, WHERRY_INVALID, "message %zu: the %s is NULL", i + 1,
			       body ? "key" : "body");
	if (code == WHERRY_OK)
		code = wh_ext_element_duration(c, 2, i, "the delay", &msg->delay_us, err);
	return code == WHERRY_OK
		       ? wh_ext_element_time(c, 3, i, "the time", &msg->at_us, err)
		       : code;
}

static wherry_code give_outcomes(const ext_call *call,
				 const wherry_offer_outcome *outcomes, size_t n,
				 wherry_error *err)
{
	wh_buf json = WH_BUF_INIT(MOST_JSON);
	wherry_code code;

	wh_buf_putc(&json, '[');
	for (size_t i = 0; i < n; i++)
		wh_buf_printf(&json, "%s\"%s\"", i ? "," : "",
			      wh_ext_offer_outcome(outcomes[i]));
	wh_buf_putc(&json, ']');
	code = wh_buf_check(&json, err);
	if (code == WHERRY_OK)
		sqlite3_result_text(call->context, wh_buf_str(&json), -1,
				    SQLITE_TRANSIENT);
	wh_buf_clear(&json);
	return code;
}

wherry_code wh_ext_offer_many(const ext_call *call, wherry_error *err)
{
	wherry_delayed_message *msgs = NULL;
	wherry_offer_outcome *outcomes = NULL;
	wherry_delayed *delayed = NULL;
	ext_columns columns;
	wherry_code code = wh_ext_columns(call, 1, 4, &columns, err);

	if (code == WHERRY_OK)
		code = wh_ext_check_open(call->ext, "wherry_offer_many", err);
	if (code == WHERRY_OK) {
		msgs = room(columns.n, sizeof(*msgs));
		outcomes = room(columns.n, sizeof(*outcomes));
		code = msgs && outcomes ? WHERRY_OK : wh_oom(err);
	}
	for (size_t i = 0; code == WHERRY_OK && i < columns.n; i++) {
		code = read_offered(&columns, i, &msgs[i], err);
		msgs[i].if_absent = wh_ext_true(call, 5);
	}
	if (code == WHERRY_OK)
		code = wh_ext_open_delayed(call, 6, &delayed, err);
	if (code == WHERRY_OK && columns.n > 0)
		code = wherry_delayed_offer_many(delayed, msgs, columns.n, outcomes, err);
	if (code == WHERRY_OK)
		code = give_outcomes(call, outcomes, columns.n, err);
	free(msgs);
	free(outcomes);
	wh_ext_columns_clear(&columns);
	return code;
}
