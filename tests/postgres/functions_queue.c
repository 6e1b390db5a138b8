/*
 * The functions of queues: wherry_send(), wherry_receive() and so on.
 */
#include "conformance/queue_suite.h"
#include "postgres/backends.h"
#include "postgres/functions.h"
#include "queue/queue.h"

static const char *of_text(const wherry_queue_message *m, char *out, size_t cap)
{
	size_t len = m->body_len == WHERRY_TEXT ? strlen(m->body) : m->body_len;

	(void)snprintf(out, cap, "%.*s", (int)len, (const char *)m->body);
	return out;
}

static wherry_code send(wherry_queue *queue, const wherry_queue_message *msg,
			int64_t *out_id, wherry_error *err)
{
	static const char sql[] =
		"SELECT wherry_send($1, $2::text, $3::json, $4::interval, $5::interval, $6, $7, $8, $9)";
	char body[300], delay[FUNCTIONS_TEXT], expires[FUNCTIONS_TEXT];
	const char *const values[] = {
		queue->store.names.table,
		of_text(msg, body, sizeof(body)),
		msg->headers,
		functions_span(msg->delay_us, delay),
		functions_span(msg->expires_us, expires),
		msg->correlation_id,
		msg->reply_to,
		msg->message_id,
		msg->topic,
	};
	wherry_code code;
	PGresult *res =
		functions_call(queue->store.db, "sender", sql, values, 9, &code, err);

	if (res && out_id)
		*out_id = functions_int(res, 0, 0);
	PQclear(res);
	return code;
}

/* The arrays of wherry_send_many(). */
static const char *element(const void *msgs, size_t i, int column,
			   char text[FUNCTIONS_ELEMENT])
{
	const wherry_queue_message *m = (const wherry_queue_message *)msgs + i;

	switch (column) {
	case 0:
		return of_text(m, text, FUNCTIONS_ELEMENT);
	case 1:
		return m->headers;
	case 2:
		return functions_span(m->delay_us, text);
	case 3:
		return functions_span(m->expires_us, text);
	case 4:
		return m->correlation_id;
	case 5:
		return m->reply_to;
	case 6:
		return m->message_id;
	default:
		return m->topic;
	}
}

static wherry_code send_many(wherry_queue *queue, const wherry_queue_message *msgs,
			     size_t n, int64_t *out_ids, wherry_error *err)
{
	enum { ARRAYS = 8 };
	char *arrays[ARRAYS];
	const char *values[ARRAYS + 1] = {queue->store.names.table};
	wherry_code code;
	PGresult *res;

	for (int i = 0; i < ARRAYS; i++)
		values[i + 1] = arrays[i] = functions_array(element, msgs, n, i);
	res = functions_call(
		queue->store.db, "sender",
		"SELECT wherry_send_many($1, $2::text[], $3, $4, $5, $6, $7, $8, $9)",
		values, ARRAYS + 1, &code, err);
	if (res && out_ids)
		functions_numbers(PQgetvalue(res, 0, 0), out_ids, n);
	PQclear(res);
	for (int i = 0; i < ARRAYS; i++)
		free(arrays[i]);
	return functions_of_many(code, err);
}

static wherry_code cancel(wherry_queue *queue, int64_t id, wherry_error *err)
{
	char number[FUNCTIONS_TEXT];
	const char *const values[] = {queue->store.names.table,
				      functions_number(id, number)};
	wherry_code code;
	PGresult *res = functions_call(queue->store.db, "receiver",
				       "SELECT wherry_cancel($1, $2)::integer", values, 2,
				       &code, err);

	if (res && functions_int(res, 0, 0) == 0)
		code = wh_fail(err, WHERRY_NOTFOUND, "there is no such message");
	PQclear(res);
	return code;
}

/* A receive takes the ones or the others first by chance: messages that are due, if the first random number is
 * below a half.  In the suite they take turns. */
static void choose(wherry_db *db, bool due_first)
{
	PGconn *conn = backend_conn(db);
	char sql[100];

	for (int seed = 0; seed < 100; seed++) {
		PGresult *res;
		bool found;

		(void)snprintf(sql, sizeof(sql), "SELECT setseed(0.%02d)", seed);
		PQclear(PQexec(conn, sql));
		res = PQexec(conn, "SELECT random() < 0.5");
		assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
		found = (*PQgetvalue(res, 0, 0) == 't') == due_first;
		PQclear(res);
		PQclear(PQexec(conn, sql));
		if (found)
			return;
	}
	fail();
}

/* What the function does not return, and the library does. */
static void look_up(wherry_queue *queue, wherry_queue_message *m)
{
	char number[FUNCTIONS_TEXT];
	const char *const values[] = {functions_number(m->id, number)};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	PGresult *res = functions_call(
		queue->store.db, "receiver",
		"SELECT (extract(epoch FROM available_at) * 1000000)::bigint, "
		"coalesce((extract(epoch FROM expires_at) * 1000000)::bigint, 0) FROM jobs WHERE id = $1",
		values, 1, &code, &err);

	WHERRY_PASS(code);
	assert_int_equal(PQntuples(res), 1);
	m->available_at_us = functions_int(res, 0, 0);
	m->expires_at_us = functions_int(res, 0, 1);
	PQclear(res);
}

static wherry_code visit_row(wherry_queue *queue, const PGresult *res, int row,
			     wherry_queue_fn visit, void *ctx)
{
	wherry_queue_message m =
		WHERRY_QUEUE_MESSAGE(.id = functions_int(res, row, 0),
				     .message_id = functions_text(res, row, 1),
				     .topic = functions_text(res, row, 2),
				     .correlation_id = functions_text(res, row, 3),
				     .reply_to = functions_text(res, row, 4),
				     .headers = functions_text(res, row, 5),
				     .body = functions_text(res, row, 6),
				     .attempts = (int32_t)functions_int(res, row, 7),
				     .token = functions_text(res, row, 8),
				     .created_at_us = functions_int(res, row, 9),
				     .state = WHERRY_PROCESSING);

	m.body_len = strlen(m.body);
	if (m.token)
		look_up(queue, &m);
	return visit(ctx, &m);
}

static wherry_code receive(wherry_queue *queue, const wherry_receive_options *options,
			   wherry_queue_fn visit, void *ctx, int64_t *out_n,
			   wherry_error *err)
{
	static const char sql[] =
		"SELECT id, message_id, topic, correlation_id, reply_to, headers, body, attempts, token, "
		"(extract(epoch FROM created_at) * 1000000)::bigint FROM wherry_receive($1, $2, $3::interval, $4)";
	const wherry_receive_options one = WHERRY_RECEIVE_OPTIONS(.limit = 1);
	char n[FUNCTIONS_TEXT], lease[FUNCTIONS_TEXT], most[FUNCTIONS_TEXT];
	const wherry_receive_options *o = options ? options : &one;
	const char *values[] = {
		queue->store.names.table,
		functions_number(o->limit ? o->limit : 1, n),
		functions_span(o->lease_us ? o->lease_us : 30000000, lease),
		functions_number(o->max_attempts, most),
	};
	wherry_code code;
	PGresult *res;

	if (o->mode != WHERRY_LEASE)
		values[2] = NULL;
	queue->due_first = !queue->due_first;
	choose(queue->store.db, queue->due_first);
	res = functions_call(queue->store.db, "receiver", sql, values, 4, &code, err);
	if (res && out_n)
		*out_n = PQntuples(res);
	for (int i = 0; res && code == WHERRY_OK && i < PQntuples(res); i++)
		code = visit_row(queue, res, i, visit, ctx);
	PQclear(res);
	return code;
}

/* Settle each of these: how many rows say so. */
static wherry_code settle(wherry_queue *queue, const char *sql, const char *token,
			  const int64_t *ids, size_t n, const char *first,
			  const char *second, const char *third, int64_t *out_n,
			  wherry_error *err)
{
	char array[2000] = "{";
	const char *const values[] = {
		queue->store.names.table, array, token, first, second, third};
	int n_values = third ? 6 : first ? 4 : 3;
	wherry_code code;
	PGresult *res;
	int64_t done;

	for (size_t i = 0; i < n; i++)
		(void)snprintf(array + strlen(array), sizeof(array) - strlen(array),
			       "%s%lld", i ? "," : "", (long long)ids[i]);
	(void)strcat(array, "}");
	res = functions_call(queue->store.db, "receiver", sql, values, n_values, &code,
			     err);
	if (!res)
		return code;
	done = functions_int(res, 0, 0);
	PQclear(res);
	if (out_n)
		*out_n = done;
	return done == (int64_t)n ? WHERRY_OK
				  : wh_fail(err, WHERRY_STALE, "a lease is lost");
}

static wherry_code ack(wherry_queue *queue, const char *token, const int64_t *ids,
		       size_t n, int64_t *out_n, wherry_error *err)
{
	return settle(queue,
		      n == 1 ? "SELECT wherry_ack($1, ($2::bigint[])[1], $3)::integer"
			     : "SELECT wherry_ack_many($1, $2, $3)",
		      token, ids, n, NULL, NULL, NULL, out_n, err);
}

static wherry_code nack(wherry_queue *queue, const char *token, const int64_t *ids,
			size_t n, const wherry_nack *how, int64_t *out_n,
			wherry_error *err)
{
	const wherry_nack at_once = WHERRY_NACK(.delay_us = 0);
	char delay[FUNCTIONS_TEXT];

	how = how ? how : &at_once;
	return settle(
		queue,
		n == 1 ? "SELECT wherry_nack($1, ($2::bigint[])[1], $3, $4, $5, $6)::integer"
		       : "SELECT wherry_nack_many($1, $2, $3, $4, $5, $6)",
		token, ids, n, functions_span(how->delay_us, delay), how->error,
		how->not_counted ? "true" : "false", out_n, err);
}

static wherry_code extend(wherry_queue *queue, const char *token, const int64_t *ids,
			  size_t n, int64_t lease_us, int64_t *out_n, wherry_error *err)
{
	char lease[FUNCTIONS_TEXT];

	return settle(
		queue,
		n == 1 ? "SELECT wherry_extend($1, ($2::bigint[])[1], $3, $4)::integer"
		       : "SELECT wherry_extend_many($1, $2, $3, $4)",
		token, ids, n, functions_span(lease_us, lease), NULL, NULL, out_n, err);
}

static wherry_code dead_letter(wherry_queue *queue, const char *token, const int64_t *ids,
			       size_t n, const char *reason, int64_t *out_n,
			       wherry_error *err)
{
	return settle(
		queue,
		n == 1 ? "SELECT wherry_dead_letter($1, ($2::bigint[])[1], $3, $4)::integer"
		       : "SELECT wherry_dead_letter_many($1, $2, $3, $4)",
		token, ids, n, reason, NULL, NULL, out_n, err);
}

static const suite_skip skips[] = {
	{"bad_messages_are_refused_by_name",
	 "it names members of a struct; functions_refuse_bad_input_by_name"},
	{"a_settlement_without_a_token_is_refused", "it is false: the lease is lost"},
	{"a_backlog_of_expired_messages_costs_one_receive",
	 "one call deletes 1,000 of them, and passes over the others"},
	{"modes_ask_for_the_transaction_they_need", "a lease of NULL is the mode"},
	{NULL, NULL},
};

const queue_calls queue_functions = {
	.send = send,
	.send_many = send_many,
	.cancel = cancel,
	.receive = receive,
	.ack = ack,
	.nack = nack,
	.extend = extend,
	.dead_letter = dead_letter,
	.skips = skips,
};
