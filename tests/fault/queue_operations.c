/*
 * The public operations on queues; "jobs" of the template has messages in every state.
 */
#include "operations.h"

static wherry_code see(void *ctx, const wherry_queue_message *m)
{
	world *w = ctx;
	int n = snprintf(w->rows + w->rows_len, sizeof(w->rows) - w->rows_len,
			 "%d %d %d %s %s %.*s|", (int)m->id, (int)m->state,
			 (int)m->attempts, m->message_id, m->headers, (int)m->body_len,
			 (const char *)m->body);

	if (n > 0 && (size_t)n < sizeof(w->rows) - w->rows_len)
		w->rows_len += (size_t)n;
	return WHERRY_OK;
}

static void see_nothing(world *w)
{
	w->rows_len = 0;
}

/* ---- schema ---- */

static wherry_code queue_create(world *w, wherry_error *err)
{
	return wherry_queue_create(w->db, "tasks", NULL, err);
}

static wherry_code queue_create_sql(world *w, wherry_error *err)
{
	return wherry_queue_create_sql("sqlite", "tasks", NULL, (char **)&w->out.made,
				       err);
}

static void drop_text(world *w)
{
	free(w->out.made);
}

static wherry_code queue_open(world *w, wherry_error *err)
{
	return wherry_queue_open(w->db, "jobs", (wherry_queue **)&w->out.made, err);
}

static void drop_queue(world *w)
{
	wherry_queue_close(w->out.made);
}

/* ---- senders ---- */

#define MESSAGE(id_)                                                                     \
	WHERRY_QUEUE_MESSAGE(.message_id = (id_), .headers = "{\"a\": \"b\"}",           \
			     .body = "{\"a\": 1}", .body_len = 8, .delay_us = 1000000)

static void begin(world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	wherry_db_rollback(w->db);
	WHERRY_PASS(wherry_db_begin(w->db, &err));
	WHERRY_PASS(wherry_queue_send(w->queue, &MESSAGE("aside"), NULL, &err));
	w->rows_len = 0;
}

static wherry_code queue_send(world *w, wherry_error *err)
{
	return wherry_queue_send(w->queue, &MESSAGE("one"), w->out.number, err);
}

static wherry_code queue_send_many(world *w, wherry_error *err)
{
	const wherry_queue_message many[] = {MESSAGE("one"), MESSAGE("two")};

	return wherry_queue_send_many(w->queue, many, 2, w->out.number, err);
}

static wherry_code queue_cancel(world *w, wherry_error *err)
{
	return wherry_queue_cancel(w->queue, 1, err);
}

/* ---- receivers ---- */

static wherry_code receive(world *w, wherry_receive_mode mode, wherry_error *err)
{
	const wherry_receive_options options =
		WHERRY_RECEIVE_OPTIONS(.mode = mode, .limit = 10);

	w->rows_len = 0;
	return wherry_queue_receive(w->queue, &options, see, w, w->out.number, err);
}

static wherry_code queue_receive(world *w, wherry_error *err)
{
	return receive(w, WHERRY_LEASE, err);
}

static wherry_code queue_receive_atomic(world *w, wherry_error *err)
{
	return receive(w, WHERRY_ATOMIC, err);
}

static wherry_code queue_receive_once(world *w, wherry_error *err)
{
	return receive(w, WHERRY_AT_MOST_ONCE, err);
}

static wherry_code queue_wait(world *w, wherry_error *err)
{
	bool any = false;
	wherry_code code = wherry_queue_wait(w->queue, 0, &any, err);

	if (code == WHERRY_OK)
		w->out.number[0] = any;
	return code;
}

static const int64_t leased[] = {2, 3};

static wherry_code queue_ack(world *w, wherry_error *err)
{
	return wherry_queue_ack(w->queue, "tk", leased, 2, w->out.number, err);
}

static wherry_code queue_nack(world *w, wherry_error *err)
{
	const wherry_nack how = WHERRY_NACK(.delay_us = 1000000, .error = "not now");

	return wherry_queue_nack(w->queue, "tk", leased, 2, &how, w->out.number, err);
}

static wherry_code queue_extend(world *w, wherry_error *err)
{
	return wherry_queue_extend(w->queue, "tk", leased, 2, 1000000, w->out.number,
				   err);
}

static wherry_code queue_dead_letter(world *w, wherry_error *err)
{
	return wherry_queue_dead_letter(w->queue, "tk", leased, 2, "never", w->out.number,
					err);
}

/* ---- operators ---- */

static wherry_code queue_peek(world *w, wherry_error *err)
{
	w->rows_len = 0;
	return wherry_queue_peek(w->queue, NULL, see, w, err);
}

static wherry_code see_finding(void *ctx, const char *what, const char *repair)
{
	fail_msg("%s: %s", what, repair);
	return WHERRY_OK;
}

static wherry_code queue_inspect(world *w, wherry_error *err)
{
	return wherry_queue_inspect(w->queue, see_finding, w, err);
}

static wherry_code queue_get_status(world *w, wherry_error *err)
{
	wherry_queue_status s;
	wherry_code code = wherry_queue_get_status(w->queue, &s, sizeof(s), err);

	if (code == WHERRY_OK) {
		w->out.number[0] = s.ready;
		w->out.number[1] = s.leased;
		w->out.number[2] = s.waiting;
		w->out.number[3] = s.dead;
	}
	return code;
}

static wherry_code queue_estimate(world *w, wherry_error *err)
{
	return wherry_queue_estimate(w->queue, w->out.number, err);
}

static wherry_code queue_next_due(world *w, wherry_error *err)
{
	return wherry_queue_next_due(w->queue, w->out.number, err);
}

static wherry_code queue_retry(world *w, wherry_error *err)
{
	return wherry_queue_retry(w->queue, 0, w->out.number, err);
}

static wherry_code queue_show(world *w, wherry_error *err)
{
	return wherry_queue_show(w->queue, "j5", see, w, err);
}

static wherry_code queue_discard(world *w, wherry_error *err)
{
	return wherry_queue_discard(w->queue, 1, err);
}

static wherry_code queue_pause(world *w, wherry_error *err)
{
	return wherry_queue_pause(w->queue, err);
}

static wherry_code queue_resume(world *w, wherry_error *err)
{
	return wherry_queue_resume(w->queue, err);
}

static wherry_code queue_purge(world *w, wherry_error *err)
{
	return wherry_queue_purge(w->queue, 0, 2, NULL, err);
}

static wherry_code queue_expire(world *w, wherry_error *err)
{
	return wherry_queue_expire(w->queue, 2, NULL, err);
}

static wherry_code queue_drop(world *w, wherry_error *err)
{
	return wherry_queue_drop(w->queue, err);
}

/* ---- topics ---- */

static wherry_code topics_open(world *w, wherry_error *err)
{
	return wherry_topics_open(w->db, NULL, (wherry_topics **)&w->out.made, err);
}

static void drop_topics(world *w)
{
	wherry_topics_close(w->out.made);
}

/* An operation on topics that are opened for it. */
static wherry_code with_topics(world *w, wherry_error *err,
			       wherry_code (*run)(world *w, wherry_topics *topics,
						  wherry_error *err))
{
	wherry_topics *topics = NULL;
	wherry_code code = wherry_topics_open(w->db, NULL, &topics, err);

	if (code == WHERRY_OK)
		code = run(w, topics, err);
	wherry_topics_close(topics);
	return code;
}

static wherry_code subscribe(world *w, wherry_topics *topics, wherry_error *err)
{
	return wherry_topics_subscribe(topics, "sent", "jobs", err);
}

static wherry_code topics_subscribe(world *w, wherry_error *err)
{
	return with_topics(w, err, subscribe);
}

static wherry_code unsubscribe(world *w, wherry_topics *topics, wherry_error *err)
{
	return wherry_topics_unsubscribe(topics, "paid", "jobs", err);
}

static wherry_code topics_unsubscribe(world *w, wherry_error *err)
{
	return with_topics(w, err, unsubscribe);
}

static wherry_code publish(world *w, wherry_topics *topics, wherry_error *err)
{
	return wherry_topics_publish(topics, "paid", &MESSAGE("one"), w->out.number, err);
}

static wherry_code topics_publish(world *w, wherry_error *err)
{
	return with_topics(w, err, publish);
}

static wherry_code see_subscription(void *ctx, const char *topic, const char *queue)
{
	world *w = ctx;
	int n = snprintf(w->rows + w->rows_len, sizeof(w->rows) - w->rows_len, "%s %s|",
			 topic, queue);

	w->rows_len += (size_t)n;
	return WHERRY_OK;
}

static wherry_code list(world *w, wherry_topics *topics, wherry_error *err)
{
	w->rows_len = 0;
	return wherry_topics_list(topics, NULL, see_subscription, w, err);
}

static wherry_code topics_list(world *w, wherry_error *err)
{
	return with_topics(w, err, list);
}

/* clang-format off */
const operation queue_operations[] = {
	{"queue_create", queue_create, NULL, NULL, NULL, 0},
	{"queue_create_sql", queue_create_sql, NULL, drop_text, NULL, 0},
	{"queue_open", queue_open, NULL, drop_queue, NULL, 0},
	{"queue_send", queue_send, NULL, NULL, NULL, 0},
	{"queue_send in a transaction", queue_send, begin, NULL, NULL, OPERATION_JOINS},
	{"queue_send on a borrowed handle", queue_send, NULL, NULL, NULL, OPERATION_BORROWS},
	{"queue_send_many", queue_send_many, NULL, NULL, NULL, 0},
	{"queue_send_many in a transaction", queue_send_many, begin, NULL, NULL, OPERATION_JOINS},
	{"queue_cancel", queue_cancel, NULL, NULL, NULL, 0},
	{"queue_receive", queue_receive, see_nothing, NULL, NULL, 0},
	{"queue_receive in a transaction", queue_receive_atomic, begin, NULL, NULL, OPERATION_JOINS},
	{"queue_receive at most once", queue_receive_once, see_nothing, NULL, NULL, 0},
	{"queue_wait", queue_wait, NULL, NULL, NULL, 0},
	{"queue_ack", queue_ack, NULL, NULL, NULL, 0},
	{"queue_nack", queue_nack, NULL, NULL, NULL, 0},
	{"queue_extend", queue_extend, NULL, NULL, NULL, 0},
	{"queue_dead_letter", queue_dead_letter, NULL, NULL, NULL, 0},
	{"queue_peek", queue_peek, see_nothing, NULL, NULL, 0},
	{"queue_inspect", queue_inspect, NULL, NULL, NULL, 0},
	{"queue_get_status", queue_get_status, NULL, NULL, NULL, 0},
	{"queue_estimate", queue_estimate, NULL, NULL, NULL, 0},
	{"queue_next_due", queue_next_due, NULL, NULL, NULL, 0},
	{"queue_retry", queue_retry, NULL, NULL, NULL, OPERATION_PARTLY},
	{"queue_show", queue_show, see_nothing, NULL, NULL, 0},
	{"queue_discard", queue_discard, NULL, NULL, NULL, 0},
	{"queue_pause", queue_pause, NULL, NULL, NULL, 0},
	{"queue_resume", queue_resume, NULL, NULL, NULL, 0},
	{"queue_purge", queue_purge, NULL, NULL, NULL, OPERATION_PARTLY},
	{"queue_expire", queue_expire, NULL, NULL, NULL, OPERATION_PARTLY},
	{"queue_drop", queue_drop, NULL, NULL, NULL, 0},
	{"topics_open", topics_open, NULL, drop_topics, NULL, 0},
	{"topics_subscribe", topics_subscribe, NULL, NULL, NULL, 0},
	{"topics_unsubscribe", topics_unsubscribe, NULL, NULL, NULL, 0},
	{"topics_publish", topics_publish, NULL, NULL, NULL, 0},
	{"topics_publish in a transaction", topics_publish, begin, NULL, NULL, OPERATION_JOINS},
	{"topics_list", topics_list, see_nothing, NULL, NULL, 0},
};
/* clang-format on */
const size_t n_queue_operations = sizeof(queue_operations) / sizeof(*queue_operations);
