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

enum { DEFAULT_LEASE_US = 30 * 1000000, MOST_JSON = 256 << 20 };

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
	if (code != WHERRY_OK)
		return code;
	topics = wh_ext_open(call->ext, EXT_TOPICS, NULL, NULL, NULL, err);
	if (!topics)
		return err->code;
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
	if (code != WHERRY_OK)
		return code;
	topics = wh_ext_open(call->ext, EXT_TOPICS, NULL, NULL, NULL, err);
	if (!topics)
		return err->code;
	code = wherry_topics_subscribe(topics, topic, queue, err);
	sqlite3_result_int(call->context, code == WHERRY_OK);
	return code;
}

static wherry_code unsubscribe(const ext_call *call, wherry_error *err)
{
	const char *topic, *queue;
	wherry_topics *topics;
	wherry_code code = wh_ext_need(call, 0, "the topic", &topic, err);

	if (code == WHERRY_OK)
		code = wh_ext_need(call, 1, "the queue", &queue, err);
	if (code != WHERRY_OK)
		return code;
	topics = wh_ext_open(call->ext, EXT_TOPICS, NULL, NULL, NULL, err);
	if (!topics)
		return err->code;
	code = wherry_topics_unsubscribe(topics, topic, queue, err);
	sqlite3_result_int(call->context, code == WHERRY_OK);
	return code == WHERRY_NOTFOUND ? WHERRY_OK : code;
}

/* A settlement: what happens to leased messages.  Arguments from `from` on are its own. */
typedef wherry_code (*settle_fn)(wherry_queue *queue, const char *token,
				 const int64_t *ids, size_t n, const ext_call *call,
				 int64_t *out_n, wherry_error *err);

static wherry_code do_ack(wherry_queue *queue, const char *token, const int64_t *ids,
			  size_t n, const ext_call *call, int64_t *out_n,
			  wherry_error *err)
{
	(void)call;
	return wherry_queue_ack(queue, token, ids, n, out_n, err);
}

static wherry_code do_nack(wherry_queue *queue, const char *token, const int64_t *ids,
			   size_t n, const ext_call *call, int64_t *out_n,
			   wherry_error *err)
{
	wherry_nack how = WHERRY_NACK(.error = wh_ext_text(call, 4),
				      .not_counted = wh_ext_true(call, 5));
	wherry_code code = wh_ext_duration(call, 3, "the delay", 0, &how.delay_us, err);

	return code == WHERRY_OK
		       ? wherry_queue_nack(queue, token, ids, n, &how, out_n, err)
		       : code;
}

static wherry_code do_extend(wherry_queue *queue, const char *token, const int64_t *ids,
			     size_t n, const ext_call *call, int64_t *out_n,
			     wherry_error *err)
{
	int64_t lease_us;
	wherry_code code =
		wh_ext_duration(call, 3, "the lease", DEFAULT_LEASE_US, &lease_us, err);

	return code == WHERRY_OK
		       ? wherry_queue_extend(queue, token, ids, n, lease_us, out_n, err)
		       : code;
}

static wherry_code do_dead_letter(wherry_queue *queue, const char *token,
				  const int64_t *ids, size_t n, const ext_call *call,
				  int64_t *out_n, wherry_error *err)
{
	const char *reason;
	wherry_code code = wh_ext_need(call, 3, "the reason", &reason, err);

	return code == WHERRY_OK ? wherry_queue_dead_letter(queue, token, ids, n, reason,
							    out_n, err)
				 : code;
}

static wherry_code settle_one(const ext_call *call, settle_fn settle, wherry_error *err)
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
		code = settle(queue, token, &id, 1, call, &n, err);
	if (code == WHERRY_STALE) /* The number says it. */
		code = WHERRY_OK;
	if (code == WHERRY_OK)
		sqlite3_result_int(call->context, n > 0);
	return code;
}

static wherry_code settle_many(const ext_call *call, settle_fn settle, wherry_error *err)
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
		code = settle(queue, token, ids.numbers, ids.n, call, &n, err);
	if (code == WHERRY_STALE)
		code = WHERRY_OK;
	if (code == WHERRY_OK)
		sqlite3_result_int64(call->context, n);
	wh_ext_list_clear(&ids);
	return code;
}

static wherry_code ack(const ext_call *call, wherry_error *err)
{
	return settle_one(call, do_ack, err);
}

static wherry_code nack(const ext_call *call, wherry_error *err)
{
	return settle_one(call, do_nack, err);
}

static wherry_code extend(const ext_call *call, wherry_error *err)
{
	return settle_one(call, do_extend, err);
}

static wherry_code dead_letter(const ext_call *call, wherry_error *err)
{
	return settle_one(call, do_dead_letter, err);
}

static wherry_code ack_many(const ext_call *call, wherry_error *err)
{
	return settle_many(call, do_ack, err);
}

static wherry_code nack_many(const ext_call *call, wherry_error *err)
{
	return settle_many(call, do_nack, err);
}

static wherry_code extend_many(const ext_call *call, wherry_error *err)
{
	return settle_many(call, do_extend, err);
}

static wherry_code dead_letter_many(const ext_call *call, wherry_error *err)
{
	return settle_many(call, do_dead_letter, err);
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

typedef enum done_how { DONE, NACK, EXTEND, DEAD } done_how;

/* Settle messages that were polled.  Arguments behind the token are those of the function. */
static wherry_code settle_delayed(const ext_call *call, done_how how,
				  const char *const *tokens, size_t n,
				  wherry_ack_outcome *out, wherry_error *err)
{
	static const int type_at[] = {[DONE] = 2, [NACK] = 4, [EXTEND] = 3, [DEAD] = 3};
	wherry_delayed *delayed;
	const char *reason = NULL;
	int64_t time_us = 0;
	wherry_code code = WHERRY_OK;

	if (how == NACK)
		code = wh_ext_duration(call, 2, "the delay", 0, &time_us, err);
	else if (how == EXTEND)
		code = wh_ext_duration(call, 2, "the lease", DEFAULT_LEASE_US, &time_us,
				       err);
	else if (how == DEAD)
		code = wh_ext_need(call, 2, "the reason", &reason, err);
	if (code == WHERRY_OK)
		code = wh_ext_open_delayed(call, type_at[how], &delayed, err);
	if (code != WHERRY_OK || n == 0)
		return code;
	switch (how) {
	case DONE:
		return wherry_delayed_ack(delayed, tokens, n, out, err);
	case NACK:
		return wherry_delayed_nack(delayed, tokens, n, time_us,
					   wh_ext_text(call, 3), out, err);
	case EXTEND:
		return wherry_delayed_extend(delayed, tokens, n, time_us, out, err);
	case DEAD:
		break;
	}
	return wherry_delayed_dead_letter(delayed, tokens, n, reason, out, err);
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

static wherry_code one_delayed(const ext_call *call, done_how how, wherry_error *err)
{
	wherry_ack_outcome outcome = WHERRY_LEASE_LOST;
	const char *token;
	wherry_code code = wh_ext_need(call, 1, "the token", &token, err);

	if (code == WHERRY_OK)
		code = settle_delayed(call, how, &token, 1, &outcome, err);
	if (code == WHERRY_OK)
		sqlite3_result_text(call->context, ack_outcome(outcome), -1,
				    SQLITE_STATIC);
	return code;
}

static wherry_code many_delayed(const ext_call *call, done_how how, wherry_error *err)
{
	wherry_ack_outcome *outcomes = NULL;
	wh_buf json = WH_BUF_INIT(MOST_JSON);
	ext_list tokens;
	wherry_code code = wh_ext_texts(call, 1, "the tokens", &tokens, err);

	if (code != WHERRY_OK)
		return code;
	outcomes = wh_arena_alloc(&tokens.arena, (tokens.n + 1) * sizeof(*outcomes));
	code = outcomes ? settle_delayed(call, how, tokens.texts, tokens.n, outcomes, err)
			: wh_oom(err);
	wh_buf_putc(&json, '[');
	for (size_t i = 0; code == WHERRY_OK && i < tokens.n; i++)
		wh_buf_printf(&json, "%s\"%s\"", i ? "," : "", ack_outcome(outcomes[i]));
	wh_buf_putc(&json, ']');
	if (code == WHERRY_OK)
		code = wh_buf_check(&json, err);
	if (code == WHERRY_OK)
		sqlite3_result_text(call->context, wh_buf_str(&json), -1,
				    SQLITE_TRANSIENT);
	wh_buf_clear(&json);
	wh_ext_list_clear(&tokens);
	return code;
}

static wherry_code done(const ext_call *call, wherry_error *err)
{
	return one_delayed(call, DONE, err);
}

static wherry_code delayed_nack(const ext_call *call, wherry_error *err)
{
	return one_delayed(call, NACK, err);
}

static wherry_code delayed_extend(const ext_call *call, wherry_error *err)
{
	return one_delayed(call, EXTEND, err);
}

static wherry_code delayed_dead_letter(const ext_call *call, wherry_error *err)
{
	return one_delayed(call, DEAD, err);
}

static wherry_code done_many(const ext_call *call, wherry_error *err)
{
	return many_delayed(call, DONE, err);
}

static wherry_code delayed_nack_many(const ext_call *call, wherry_error *err)
{
	return many_delayed(call, NACK, err);
}

static wherry_code delayed_extend_many(const ext_call *call, wherry_error *err)
{
	return many_delayed(call, EXTEND, err);
}

static wherry_code delayed_dead_letter_many(const ext_call *call, wherry_error *err)
{
	return many_delayed(call, DEAD, err);
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

static wherry_code accept_many(const ext_call *call, wherry_error *err)
{
	wh_buf json = WH_BUF_INIT(MOST_JSON);
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
	wh_buf_putc(&json, '[');
	for (size_t i = 0; code == WHERRY_OK && i < ids.n; i++)
		wh_buf_printf(&json, "%s%s", i ? "," : "", new[i] ? "true" : "false");
	wh_buf_putc(&json, ']');
	if (code == WHERRY_OK)
		code = wh_buf_check(&json, err);
	if (code == WHERRY_OK)
		sqlite3_result_text(call->context, wh_buf_str(&json), -1,
				    SQLITE_TRANSIENT);
	wh_buf_clear(&json);
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
} functions[] = {
	{"wherry_enqueue", 2, 10, enqueue},
	{"wherry_enqueue_many", 2, 10, wh_ext_enqueue_many},
	{"wherry_send", 2, 9, send_one},
	{"wherry_send_many", 2, 9, wh_ext_send_many},
	{"wherry_publish", 2, 8, publish},
	{"wherry_subscribe", 2, 2, subscribe},
	{"wherry_unsubscribe", 2, 2, unsubscribe},
	{"wherry_ack", 3, 3, ack},
	{"wherry_nack", 3, 6, nack},
	{"wherry_extend", 3, 4, extend},
	{"wherry_dead_letter", 4, 4, dead_letter},
	{"wherry_ack_many", 3, 3, ack_many},
	{"wherry_nack_many", 3, 6, nack_many},
	{"wherry_extend_many", 3, 4, extend_many},
	{"wherry_dead_letter_many", 4, 4, dead_letter_many},
	{"wherry_cancel", 2, 2, cancel},
	{"wherry_queue_length", 1, 1, queue_length},
	{"wherry_offer", 3, 8, offer},
	{"wherry_offer_many", 3, 8, wh_ext_offer_many},
	{"wherry_done", 2, 4, done},
	{"wherry_delayed_nack", 2, 6, delayed_nack},
	{"wherry_delayed_extend", 2, 5, delayed_extend},
	{"wherry_delayed_dead_letter", 3, 5, delayed_dead_letter},
	{"wherry_done_many", 2, 4, done_many},
	{"wherry_delayed_nack_many", 2, 6, delayed_nack_many},
	{"wherry_delayed_extend_many", 2, 5, delayed_extend_many},
	{"wherry_delayed_dead_letter_many", 3, 5, delayed_dead_letter_many},
	{"wherry_delayed_drop", 2, 4, delayed_drop},
	{"wherry_accept", 1, 3, accept_one},
	{"wherry_accept_many", 1, 3, accept_many},
	{"wherry_inbox_purge", 1, 2, inbox_purge},
	{"wherry_version", 0, 0, version},
};

typedef struct registered {
	ext_state *ext;
	const struct function *function;
} registered;

static void run(sqlite3_context *context, int argc, sqlite3_value **argv)
{
	const registered *r = sqlite3_user_data(context);
	const ext_call call = {r->ext, argc, argv, context};
	wherry_error err = WHERRY_ERROR_INIT;

	if (r->function->run(&call, &err) != WHERRY_OK)
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
