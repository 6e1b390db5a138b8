/*
 * The functions that return one value.
 *
 * Names and arguments are those of PostgreSQL's functions.  SQLite has no arrays, so the functions
 * whose names end in _many take and return JSON arrays.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "extension/extension.h"

enum { DEFAULT_LEASE_US = 30 * 1000000 };

/* The way of functions that settle: that which is done to messages. */
enum { ACK, NACK, EXTEND, DEAD_LETTER };
/* The way of functions of topics. */
enum { SUBSCRIBE, UNSUBSCRIBE };

typedef wherry_code (*ext_fn)(const ext_call *call, wherry_error *err);

/* ---- outboxes ---- */

/* wherry_enqueue(topic, payload, key, message_id, headers, aggregate_type, aggregate_id, trace_id,
 * lock_key, outbox) */
static wherry_code enqueue(const ext_call *call, wherry_error *err)
{
	wherry_message msg = WHERRY_MESSAGE(.key = wh_ext_text(call, 2),
					    .message_id = wh_ext_text(call, 3),
					    .headers = wh_ext_text(call, 4),
					    .aggregate_type = wh_ext_text(call, 5),
					    .aggregate_id = wh_ext_text(call, 6),
					    .trace_id = wh_ext_text(call, 7));
	const char *name = wh_ext_text(call, 9);
	wherry_outbox *outbox;
	int64_t id = 0;
	wherry_code code = wh_ext_check_open(call->ext, "wherry_enqueue", err);

	if (code == WHERRY_OK)
		code = wh_ext_need(call, 0, "the topic", &msg.topic, err);
	if (code == WHERRY_OK)
		code = wh_ext_body(call, 1, &msg.body, &msg.body_len, err);
	if (code != WHERRY_OK)
		return code;
	outbox = wh_ext_open(call->ext, EXT_OUTBOX, name ? name : "outbox", NULL, NULL,
			     err);
	if (!outbox)
		return err->code;
	code = wherry_outbox_enqueue(outbox, &msg, 0, &id, err);
	if (code == WHERRY_OK)
		sqlite3_result_int64(call->context, id);
	return code == WHERRY_DUPLICATE ? WHERRY_OK : code; /* As on PostgreSQL: NULL. */
}

/* ---- queues ---- */

/* The arguments that send and publish have in common: body, headers, delay, expires,
 * correlation_id, reply_to, message_id, from the second on. */
static wherry_code read_message(const ext_call *call, wherry_queue_message *msg,
				wherry_error *err)
{
	wherry_code code = wh_ext_body(call, 1, &msg->body, &msg->body_len, err);

	if (code == WHERRY_OK)
		code = wh_ext_duration(call, 3, "the delay", 0, &msg->delay_us, err);
	if (code == WHERRY_OK)
		code = wh_ext_duration(call, 4, "the time to expire", 0, &msg->expires_us,
				       err);
	msg->headers = wh_ext_text(call, 2);
	msg->correlation_id = wh_ext_text(call, 5);
	msg->reply_to = wh_ext_text(call, 6);
	msg->message_id = wh_ext_text(call, 7);
	return code;
}

static wherry_code send_one(const ext_call *call, wherry_error *err)
{
	wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(.topic = wh_ext_text(call, 8));
	wherry_queue *queue;
	int64_t id = 0;
	wherry_code code = wh_ext_check_open(call->ext, "wherry_send", err);

	if (code == WHERRY_OK)
		code = read_message(call, &msg, err);
	if (code == WHERRY_OK)
		code = wh_ext_open_queue(call, &queue, err);
	if (code == WHERRY_OK)
		code = wherry_queue_send(queue, &msg, &id, err);
	if (code == WHERRY_OK)
		sqlite3_result_int64(call->context, id);
	return code;
}

static wherry_code publish(const ext_call *call, wherry_error *err)
{
	wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(.topic = NULL);
	wherry_topics *topics;
	const char *topic;
	int64_t n = 0;
	wherry_code code = wh_ext_check_open(call->ext, "wherry_publish", err);

	if (code == WHERRY_OK)
		code = wh_ext_need(call, 0, "the topic", &topic, err);
	if (code == WHERRY_OK)
		code = read_message(call, &msg, err);
	if (code == WHERRY_OK)
		code = wh_ext_open_topics(call, &topics, err);
	if (code == WHERRY_OK)
		code = wherry_topics_publish(topics, topic, &msg, &n, err);
	if (code == WHERRY_OK)
		sqlite3_result_int64(call->context, n);
	return code;
}

/* Subscribe or unsubscribe a queue; the result is false if nothing changed. */
static wherry_code subscribe(const ext_call *call, wherry_error *err)
{
	const char *topic, *queue;
	wherry_topics *topics;
	wherry_code code = wh_ext_need(call, 0, "the topic", &topic, err);

	if (code == WHERRY_OK)
		code = wh_ext_need(call, 1, "the queue", &queue, err);
	if (code == WHERRY_OK)
		code = wh_ext_open_topics(call, &topics, err);
	if (code != WHERRY_OK)
		return code;
	code = call->way == SUBSCRIBE
		       ? wherry_topics_subscribe(topics, topic, queue, err)
		       : wherry_topics_unsubscribe(topics, topic, queue, err);
	sqlite3_result_int(call->context, code == WHERRY_OK);
	return call->way == UNSUBSCRIBE && code == WHERRY_NOTFOUND ? WHERRY_OK : code;
}

/* Do to leased messages what the function is for.  Its arguments behind the token say how. */
static wherry_code settle(const ext_call *call, wherry_queue *queue, const char *token,
			  const int64_t *ids, size_t n, int64_t *out_n, wherry_error *err)
{
	wherry_nack how = WHERRY_NACK(.error = wh_ext_text(call, 4),
				      .not_counted = wh_ext_true(call, 5));
	const char *reason;
	int64_t lease_us;
	wherry_code code;

	switch (call->way) {
	case NACK:
		code = wh_ext_duration(call, 3, "the delay", 0, &how.delay_us, err);
		return code == WHERRY_OK
			       ? wherry_queue_nack(queue, token, ids, n, &how, out_n, err)
			       : code;
	case EXTEND:
		code = wh_ext_duration(call, 3, "the lease", DEFAULT_LEASE_US, &lease_us,
				       err);
		return code == WHERRY_OK ? wherry_queue_extend(queue, token, ids, n,
							       lease_us, out_n, err)
					 : code;
	case DEAD_LETTER:
		code = wh_ext_need(call, 3, "the reason", &reason, err);
		return code == WHERRY_OK ? wherry_queue_dead_letter(queue, token, ids, n,
								    reason, out_n, err)
					 : code;
	default:
		return wherry_queue_ack(queue, token, ids, n, out_n, err);
	}
}

static wherry_code settle_one(const ext_call *call, wherry_error *err)
{
	wherry_queue *queue;
	const char *token;
	int64_t id, n = 0;
	wherry_code code = wh_ext_integer(call, 1, "the id", 0, &id, err);

	if (code == WHERRY_OK)
		code = wh_ext_need(call, 2, "the token", &token, err);
	if (code == WHERRY_OK)
		code = wh_ext_open_queue(call, &queue, err);
	if (code == WHERRY_OK)
		code = settle(call, queue, token, &id, 1, &n, err);
	if (code == WHERRY_STALE) /* The number says it. */
		code = WHERRY_OK;
	if (code == WHERRY_OK)
		sqlite3_result_int(call->context, n > 0);
	return code;
}

static wherry_code settle_many(const ext_call *call, wherry_error *err)
{
	wherry_queue *queue;
	const char *token;
	ext_list ids;
	int64_t n = 0;
	wherry_code code = wh_ext_numbers(call, 1, "the ids", &ids, err);

	if (code != WHERRY_OK)
		return code;
	code = wh_ext_need(call, 2, "the token", &token, err);
	if (code == WHERRY_OK)
		code = wh_ext_open_queue(call, &queue, err);
	if (code == WHERRY_OK && ids.n > 0)
		code = settle(call, queue, token, ids.numbers, ids.n, &n, err);
	if (code == WHERRY_STALE)
		code = WHERRY_OK;
	if (code == WHERRY_OK)
		sqlite3_result_int64(call->context, n);
	wh_ext_list_clear(&ids);
	return code;
}

static wherry_code cancel(const ext_call *call, wherry_error *err)
{
	wherry_queue *queue;
	int64_t id;
	wherry_code code = wh_ext_integer(call, 1, "the id", 0, &id, err);

	if (code == WHERRY_OK)
		code = wh_ext_open_queue(call, &queue, err);
	if (code == WHERRY_OK)
		code = wherry_queue_cancel(queue, id, err);
	sqlite3_result_int(call->context, code == WHERRY_OK);
	return code == WHERRY_NOTFOUND ? WHERRY_OK : code;
}

static wherry_code queue_length(const ext_call *call, wherry_error *err)
{
	wherry_queue *queue;
	wherry_queue_status status;
	wherry_code code = wh_ext_open_queue(call, &queue, err);

	if (code == WHERRY_OK)
		code = wherry_queue_get_status(queue, &status, sizeof(status), err);
	if (code == WHERRY_OK)
		sqlite3_result_int64(call->context, status.ready);
	return code;
}

/* ---- delayed queues ---- */

/* wherry_offer(queue, key, body, delay, at, if_absent, type, delayed) */
static wherry_code offer(const ext_call *call, wherry_error *err)
{
	wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.if_absent = wh_ext_true(call, 5));
	wherry_offer_outcome outcome = WHERRY_IGNORED;
	wherry_delayed *delayed;
	wherry_code code = wh_ext_check_open(call->ext, "wherry_offer", err);

	if (code == WHERRY_OK)
		code = wh_ext_need(call, 1, "the key", &msg.key, err);
	if (code == WHERRY_OK)
		code = wh_ext_body(call, 2, &msg.body, &msg.body_len, err);
	if (code == WHERRY_OK)
		code = wh_ext_duration(call, 3, "the delay", 0, &msg.delay_us, err);
	if (code == WHERRY_OK)
		code = wh_ext_time(call, 4, "the time", &msg.at_us, err);
	if (code == WHERRY_OK)
		code = wh_ext_open_delayed(call, 6, &delayed, err);
	if (code == WHERRY_OK)
		code = wherry_delayed_offer(delayed, &msg, &outcome, err);
	if (code == WHERRY_OK)
		sqlite3_result_text(call->context, wh_ext_offer_outcome(outcome), -1,
				    SQLITE_STATIC);
	return code;
}

/* Settle messages that were polled.  Arguments behind the token are those of the function. */
static wherry_code settle_delayed(const ext_call *call, const char *const *tokens,
				  size_t n, wherry_ack_outcome *out, wherry_error *err)
{
	static const int type_at[] = {
		[ACK] = 2, [NACK] = 4, [EXTEND] = 3, [DEAD_LETTER] = 3};
	wherry_delayed *delayed;
	const char *reason = NULL;
	int64_t time_us = 0;
	wherry_code code = WHERRY_OK;

	if (call->way == NACK)
		code = wh_ext_duration(call, 2, "the delay", 0, &time_us, err);
	else if (call->way == EXTEND)
		code = wh_ext_duration(call, 2, "the lease", DEFAULT_LEASE_US, &time_us,
				       err);
	else if (call->way == DEAD_LETTER)
		code = wh_ext_need(call, 2, "the reason", &reason, err);
	if (code == WHERRY_OK)
		code = wh_ext_open_delayed(call, type_at[call->way], &delayed, err);
	if (code != WHERRY_OK || n == 0)
		return code;
	switch (call->way) {
	case NACK:
		return wherry_delayed_nack(delayed, tokens, n, time_us,
					   wh_ext_text(call, 3), out, err);
	case EXTEND:
		return wherry_delayed_extend(delayed, tokens, n, time_us, out, err);
	case DEAD_LETTER:
		return wherry_delayed_dead_letter(delayed, tokens, n, reason, out, err);
	default:
		return wherry_delayed_ack(delayed, tokens, n, out, err);
	}
}

static const char *ack_outcome(wherry_ack_outcome outcome)
{
	static const char *const names[] = {
		[WHERRY_ACKNOWLEDGED] = "acknowledged",
		[WHERRY_SUPERSEDED] = "superseded",
		[WHERRY_LEASE_LOST] = "lease lost",
	};

	return names[outcome];
}

static wherry_code one_delayed(const ext_call *call, wherry_error *err)
{
	wherry_ack_outcome outcome = WHERRY_LEASE_LOST;
	const char *token;
	wherry_code code = wh_ext_need(call, 1, "the token", &token, err);

	if (code == WHERRY_OK)
		code = settle_delayed(call, &token, 1, &outcome, err);
	if (code == WHERRY_OK)
		sqlite3_result_text(call->context, ack_outcome(outcome), -1,
				    SQLITE_STATIC);
	return code;
}

static void put_outcome(wh_buf *json, const void *items, size_t i)
{
	wh_buf_printf(json, "\"%s\"",
		      ack_outcome(((const wherry_ack_outcome *)items)[i]));
}

static wherry_code many_delayed(const ext_call *call, wherry_error *err)
{
	wherry_ack_outcome *outcomes;
	ext_list tokens;
	wherry_code code = wh_ext_texts(call, 1, "the tokens", &tokens, err);

	if (code != WHERRY_OK)
		return code;
	outcomes = wh_arena_alloc(&tokens.arena, (tokens.n + 1) * sizeof(*outcomes));
	code = outcomes ? settle_delayed(call, tokens.texts, tokens.n, outcomes, err)
			: wh_oom(err);
	if (code == WHERRY_OK)
		code = wh_ext_give_array(call, tokens.n, put_outcome, outcomes, err);
	wh_ext_list_clear(&tokens);
	return code;
}

/* wherry_delayed_drop(queue, key, type, delayed) */
static wherry_code delayed_drop(const ext_call *call, wherry_error *err)
{
	wherry_delayed *delayed;
	const char *key;
	bool found = false;
	wherry_code code = wh_ext_need(call, 1, "the key", &key, err);

	if (code == WHERRY_OK)
		code = wh_ext_open_delayed(call, 2, &delayed, err);
	if (code == WHERRY_OK)
		code = wherry_delayed_drop_key(delayed, key, &found, err);
	if (code == WHERRY_OK)
		sqlite3_result_int(call->context, found);
	return code;
}

/* ---- inboxes ---- */

static wherry_code open_inbox(const ext_call *call, int at, wherry_inbox **out,
			      wherry_error *err)
{
	const char *name = wh_ext_text(call, at);

	*out = wh_ext_open(call->ext, EXT_INBOX, name ? name : "inbox", NULL, NULL, err);
	return *out ? WHERRY_OK : err->code;
}

/* wherry_accept(message_id, consumer, inbox) */
static wherry_code accept_one(const ext_call *call, wherry_error *err)
{
	wherry_inbox *inbox;
	const char *message_id;
	bool new = false;
	wherry_code code = wh_ext_check_open(call->ext, "wherry_accept", err);

	if (code == WHERRY_OK)
		code = wh_ext_need(call, 0, "the message id", &message_id, err);
	if (code == WHERRY_OK)
		code = open_inbox(call, 2, &inbox, err);
	if (code == WHERRY_OK)
		code = wherry_inbox_accept(inbox, wh_ext_text(call, 1), message_id, &new,
					   err);
	if (code == WHERRY_OK)
		sqlite3_result_int(call->context, new);
	return code;
}

static void put_new(wh_buf *json, const void *items, size_t i)
{
	wh_buf_puts(json, ((const bool *)items)[i] ? "true" : "false");
}

static wherry_code accept_many(const ext_call *call, wherry_error *err)
{
	wherry_inbox *inbox;
	ext_list ids;
	bool *new;
	wherry_code code = wh_ext_check_open(call->ext, "wherry_accept_many", err);

	if (code == WHERRY_OK)
		code = wh_ext_texts(call, 0, "the message ids", &ids, err);
	if (code != WHERRY_OK)
		return code;
	new = wh_arena_alloc(&ids.arena, ids.n + 1);
	code = new ? open_inbox(call, 2, &inbox, err) : wh_oom(err);
	if (code == WHERRY_OK && ids.n > 0)
		code = wherry_inbox_accept_many(inbox, wh_ext_text(call, 1), ids.texts,
						ids.n, new, err);
	if (code == WHERRY_OK)
		code = wh_ext_give_array(call, ids.n, put_new, new, err);
	wh_ext_list_clear(&ids);
	return code;
}

/* wherry_inbox_purge(older_than, inbox) */
static wherry_code inbox_purge(const ext_call *call, wherry_error *err)
{
	wherry_inbox *inbox;
	int64_t older_us, n = 0;
	wherry_code code = wh_ext_duration(call, 0, "the age", -1, &older_us, err);

	if (code == WHERRY_OK && older_us < 0)
		code = wh_fail(err, WHERRY_INVALID, "the age is NULL");
	if (code == WHERRY_OK)
		code = open_inbox(call, 1, &inbox, err);
	if (code == WHERRY_OK)
		code = wherry_inbox_purge(inbox, older_us, 1000, 0, &n, err);
	if (code == WHERRY_OK)
		sqlite3_result_int64(call->context, n);
	return code;
}

static wherry_code version(const ext_call *call, wherry_error *err)
{
	(void)err;
	sqlite3_result_text(call->context, wherry_version(), -1, SQLITE_STATIC);
	return WHERRY_OK;
}

/* ---- the list ---- */

static const struct function {
	const char *name;
	int least, most; /* Number of arguments. */
	ext_fn run;
	int way; /* ext_call.way */
} functions[] = {
	{"wherry_enqueue", 2, 10, enqueue, 0},
	{"wherry_enqueue_many", 2, 10, wh_ext_enqueue_many, 0},
	{"wherry_send", 2, 9, send_one, 0},
	{"wherry_send_many", 2, 9, wh_ext_send_many, 0},
	{"wherry_publish", 2, 8, publish, 0},
	{"wherry_subscribe", 2, 2, subscribe, SUBSCRIBE},
	{"wherry_unsubscribe", 2, 2, subscribe, UNSUBSCRIBE},
	{"wherry_ack", 3, 3, settle_one, ACK},
	{"wherry_nack", 3, 6, settle_one, NACK},
	{"wherry_extend", 3, 4, settle_one, EXTEND},
	{"wherry_dead_letter", 4, 4, settle_one, DEAD_LETTER},
	{"wherry_ack_many", 3, 3, settle_many, ACK},
	{"wherry_nack_many", 3, 6, settle_many, NACK},
	{"wherry_extend_many", 3, 4, settle_many, EXTEND},
	{"wherry_dead_letter_many", 4, 4, settle_many, DEAD_LETTER},
	{"wherry_cancel", 2, 2, cancel, 0},
	{"wherry_queue_length", 1, 1, queue_length, 0},
	{"wherry_offer", 3, 8, offer, 0},
	{"wherry_offer_many", 3, 8, wh_ext_offer_many, 0},
	{"wherry_done", 2, 4, one_delayed, ACK},
	{"wherry_delayed_nack", 2, 6, one_delayed, NACK},
	{"wherry_delayed_extend", 2, 5, one_delayed, EXTEND},
	{"wherry_delayed_dead_letter", 3, 5, one_delayed, DEAD_LETTER},
	{"wherry_done_many", 2, 4, many_delayed, ACK},
	{"wherry_delayed_nack_many", 2, 6, many_delayed, NACK},
	{"wherry_delayed_extend_many", 2, 5, many_delayed, EXTEND},
	{"wherry_delayed_dead_letter_many", 3, 5, many_delayed, DEAD_LETTER},
	{"wherry_delayed_drop", 2, 4, delayed_drop, 0},
	{"wherry_accept", 1, 3, accept_one, 0},
	{"wherry_accept_many", 1, 3, accept_many, 0},
	{"wherry_inbox_purge", 1, 2, inbox_purge, 0},
	{"wherry_version", 0, 0, version, 0},
};

typedef struct registered {
	ext_state *ext;
	const struct function *function;
} registered;

static void run(sqlite3_context *context, int argc, sqlite3_value **argv)
{
	const registered *r = sqlite3_user_data(context);
	ext_whole whole[EXT_MOST_ARGUMENTS];
	const ext_call call = {r->ext, argc, argv, context, r->function->way, whole};
	wherry_error err = WHERRY_ERROR_INIT;
	ext_lock lock = {.read = false};
	bool writes = r->function->run != queue_length && r->function->run != version;
	wherry_code code = writes ? wh_ext_lock(r->ext, &lock, &err) : WHERRY_OK;

	if (code == WHERRY_OK)
		code = r->function->run(&call, &err);
	wh_ext_explain(r->ext, &lock, &err);
	if (code != WHERRY_OK)
		wh_ext_fail(context, &err);
}

static void unregister(void *data)
{
	registered *r = data;

	wh_ext_unuse(r->ext);
	free(r);
}

int wh_ext_add_functions(ext_state *ext)
{
	int rc = SQLITE_OK;

	for (size_t i = 0; rc == SQLITE_OK && i < sizeof(functions) / sizeof(*functions);
	     i++)
		for (int n = functions[i].least;
		     rc == SQLITE_OK && n <= functions[i].most; n++) {
			registered *r = malloc(sizeof(*r));

			if (!r)
				return SQLITE_NOMEM;
			*r = (registered){ext, &functions[i]};
			ext->n_users++;
			/* On failure SQLite calls unregister(). */
			rc = sqlite3_create_function_v2(ext->handle, functions[i].name, n,
							SQLITE_UTF8, r, run, NULL, NULL,
							unregister);
		}
	return rc;
}
