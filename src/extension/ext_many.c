/*
 * Functions that take many messages: all or none.
 */
#include <stdlib.h>

#include "base/error.h"
#include "extension/extension.h"

/* Read message i, of the type that the function sends. */
typedef wherry_code (*read_fn)(const ext_columns *c, size_t i, void *out,
			       wherry_error *err);

/* The messages of one call, and room for a result for each. */
typedef struct batch {
	ext_columns columns;
	void *msgs, *results;
} batch;

/* Read the messages from `n` arguments, from the one at `first` on.  End it also after a failure. */
static wherry_code begin(const ext_call *call, const char *function, int first, int n,
			 read_fn read, size_t msg_size, size_t result_size, batch *out,
			 wherry_error *err)
{
	wherry_code code;

	*out = (batch){.msgs = NULL};
	code = wh_ext_columns(call, first, n, &out->columns, err);
	if (code == WHERRY_OK)
		code = wh_ext_check_open(call->ext, function, err);
	if (code != WHERRY_OK)
		return code;
	out->msgs = calloc(out->columns.n + 1, msg_size);
	out->results = calloc(out->columns.n + 1, result_size);
	if (!out->msgs || !out->results)
		return wh_oom(err);
	for (size_t i = 0; code == WHERRY_OK && i < out->columns.n; i++)
		code = read(&out->columns, i, (char *)out->msgs + i * msg_size, err);
	return code;
}

static void end(batch *b)
{
	free(b->msgs);
	free(b->results);
	wh_ext_columns_clear(&b->columns);
}

/* An id; 0: null. */
static void put_id(wh_buf *json, const void *items, size_t i)
{
	int64_t id = ((const int64_t *)items)[i];

	if (id)
		wh_buf_int(json, id);
	else
		wh_buf_puts(json, "null");
}

static void put_outcome(wh_buf *json, const void *items, size_t i)
{
	wh_buf_printf(json, "\"%s\"",
		      wh_ext_offer_outcome(((const wherry_offer_outcome *)items)[i]));
}

/* ---- wherry_enqueue_many(topics, payloads, keys, message_ids, headers, aggregate_types,
 * aggregate_ids, trace_ids, lock_key, outbox) ---- */

static wherry_code read_enqueued(const ext_columns *c, size_t i, void *out,
				 wherry_error *err)
{
	wherry_message *msg = out;
	enum { BODY = 1 };
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
		code = column == BODY ? wh_ext_element_text(c, column, i, whats[column],
							    &body, &msg->body_len, err)
				      : wh_ext_element_text(c, column, i, whats[column],
							    texts[column], NULL, err);
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
	batch b;
	wherry_code code = begin(call, "wherry_enqueue_many", 0, 8, read_enqueued,
				 sizeof(wherry_message), sizeof(int64_t), &b, err);

	if (code == WHERRY_OK) {
		outbox = wh_ext_open(call->ext, EXT_OUTBOX, name ? name : "outbox", NULL,
				     NULL, err);
		code = outbox ? WHERRY_OK : err->code;
	}
	if (code == WHERRY_OK && b.columns.n > 0)
		code = wherry_outbox_enqueue_many(outbox, b.msgs, b.columns.n, 0,
						  b.results, err);
	if (code == WHERRY_OK)
		code = wh_ext_give_array(call, b.columns.n, put_id, b.results, err);
	end(&b);
	return code;
}

/* ---- wherry_send_many(queue, bodies, headers, delays, expires, correlation_ids, reply_tos,
 * message_ids, topics) ---- */

static wherry_code read_sent(const ext_columns *c, size_t i, void *out, wherry_error *err)
{
	wherry_queue_message *msg = out;
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
	wherry_queue *queue = NULL;
	batch b;
	wherry_code code = begin(call, "wherry_send_many", 1, 8, read_sent,
				 sizeof(wherry_queue_message), sizeof(int64_t), &b, err);

	if (code == WHERRY_OK)
		code = wh_ext_open_queue(call, &queue, err);
	if (code == WHERRY_OK && b.columns.n > 0)
		code = wherry_queue_send_many(queue, b.msgs, b.columns.n, b.results, err);
	if (code == WHERRY_OK)
		code = wh_ext_give_array(call, b.columns.n, put_id, b.results, err);
	end(&b);
	return code;
}

/* ---- wherry_offer_many(queue, keys, bodies, delays, ats, if_absent, type, delayed) ---- */

static wherry_code read_offered(const ext_columns *c, size_t i, void *out,
				wherry_error *err)
{
	wherry_delayed_message *msg = out;
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

wherry_code wh_ext_offer_many(const ext_call *call, wherry_error *err)
{
	wherry_delayed *delayed = NULL;
	batch b;
	wherry_code code = begin(call, "wherry_offer_many", 1, 4, read_offered,
				 sizeof(wherry_delayed_message),
				 sizeof(wherry_offer_outcome), &b, err);

	for (size_t i = 0; code == WHERRY_OK && i < b.columns.n; i++)
		((wherry_delayed_message *)b.msgs)[i].if_absent = wh_ext_true(call, 5);
	if (code == WHERRY_OK)
		code = wh_ext_open_delayed(call, 6, &delayed, err);
	if (code == WHERRY_OK && b.columns.n > 0)
		code = wherry_delayed_offer_many(delayed, b.msgs, b.columns.n, b.results,
						 err);
	if (code == WHERRY_OK)
		code = wh_ext_give_array(call, b.columns.n, put_outcome, b.results, err);
	end(&b);
	return code;
}
