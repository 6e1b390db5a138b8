/*
 * The functions of delayed queues: wherry_offer(), wherry_poll() and so on.
 */
#include "base/digest.h"
#include "conformance/delayed_suite.h"
#include "delayed/delayed.h"
#include "postgres/backends.h"
#include "postgres/functions.h"

/* The type of a queue of the suite: it is no longer known, but its hash. */
static const char *type_of(const wherry_delayed *queue)
{
	static const char java[] = "java.lang.String";
	char name[200], kind[WH_MD5_LEN + 1] = "";

	(void)snprintf(name, sizeof(name), "%s|%s", queue->queue, java);
	assert_int_equal(wh_md5(wh_view_of(name), kind, NULL), WHERRY_OK);
	return strcmp(kind, queue->kind) == 0 ? java : "bytes";
}

/* The functions take the time of the suite's clock. */
static void set_clock(const wherry_delayed *queue)
{
	char us[FUNCTIONS_TEXT] = "";
	const char *const values[] = {us};
	PGresult *res;

	if (queue->now_us)
		(void)functions_number(queue->now_us(queue->clock_ctx), us);
	res = PQexecParams(backend_conn(queue->store.db),
			   "SELECT set_config('wherry.clock_of_test', $1, false)", 1,
			   NULL, values, NULL, NULL, 0);
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	PQclear(res);
}

static PGresult *call(wherry_delayed *queue, const char *role, const char *sql,
		      const char *const *values, int n, wherry_code *out_code,
		      wherry_error *err)
{
	set_clock(queue);
	return functions_call(queue->store.db, role, sql, values, n, out_code, err);
}

static wherry_offer_outcome outcome_of(const char *text)
{
	if (strcmp(text, "created") == 0)
		return WHERRY_CREATED;
	if (strcmp(text, "updated") == 0)
		return WHERRY_UPDATED;
	assert_string_equal(text, "ignored");
	return WHERRY_IGNORED;
}

static wherry_code offer(wherry_delayed *queue, const wherry_delayed_message *msg,
			 wherry_offer_outcome *out, wherry_error *err)
{
	static const char sql[] =
		"SELECT wherry_offer($1, $2, decode($3, 'hex'), $4::interval, "
		"timestamptz 'epoch' + $5::bigint * interval '1 us', $6::boolean, $7, $8)";
	size_t len = msg->body_len == WHERRY_TEXT ? strlen(msg->body) : msg->body_len;
	char *hex = functions_hex(msg->body, len);
	char delay[FUNCTIONS_TEXT], at[FUNCTIONS_TEXT];
	const char *const values[] = {
		queue->queue,
		msg->key,
		hex,
		functions_span(msg->delay_us, delay),
		msg->at_us ? functions_number(msg->at_us, at) : NULL,
		msg->if_absent ? "true" : "false",
		type_of(queue),
		queue->store.names.table,
	};
	wherry_code code;
	PGresult *res = call(queue, "sender", sql, values, 8, &code, err);

	if (res && out)
		*out = outcome_of(PQgetvalue(res, 0, 0));
	PQclear(res);
	free(hex);
	return code;
}

/* The arrays of wherry_offer_many(). */
static const char *element(const void *msgs, size_t i, int column,
			   char text[FUNCTIONS_ELEMENT])
{
	const wherry_delayed_message *m = (const wherry_delayed_message *)msgs + i;

	switch (column) {
	case 0:
		return m->key;
	case 1:
		return functions_bytes(m->body, m->body_len, text);
	case 2:
		return functions_span(m->delay_us, text);
	default:
		if (!m->at_us)
			return NULL;
		return functions_number(m->at_us, text);
	}
}

/* Offer messages of which each has the same if_absent. */
static wherry_code offer_alike(wherry_delayed *queue, const wherry_delayed_message *msgs,
			       size_t n, wherry_offer_outcome *out, wherry_error *err)
{
	enum { ARRAYS = 4 };
	char *arrays[ARRAYS];
	const char *values[] = {queue->queue,   NULL,
				NULL,           NULL,
				NULL,           n && msgs->if_absent ? "true" : "false",
				type_of(queue), queue->store.names.table};
	wherry_code code;
	PGresult *res;

	for (int i = 0; i < ARRAYS; i++)
		values[i + 1] = arrays[i] = functions_array(element, msgs, n, i);
	res = call(
		queue, "sender",
		"SELECT u.x FROM unnest(wherry_offer_many($1, $2, $3::bytea[], $4, ARRAY(SELECT timestamptz 'epoch' + "
		"a.us::bigint * interval '1 us' FROM unnest($5::text[]) WITH ORDINALITY AS a(us, nth) ORDER BY a.nth), "
		"$6::boolean, $7, $8)) WITH ORDINALITY AS u(x, nth) ORDER BY u.nth",
		values, 8, &code, err);
	for (int i = 0; res && i < PQntuples(res); i++)
		out[i] = outcome_of(PQgetvalue(res, i, 0));
	PQclear(res);
	for (int i = 0; i < ARRAYS; i++)
		free(arrays[i]);
	return code;
}

static wherry_code offer_many(wherry_delayed *queue, const wherry_delayed_message *msgs,
			      size_t n, wherry_offer_outcome *out, wherry_error *err)
{
	wherry_offer_outcome *made = calloc(n + 1, sizeof(*made));
	wherry_code code = WHERRY_OK;
	bool open = functions_begin(queue->store.db);
	size_t end;

	assert_non_null(made);
	for (size_t i = 0; code == WHERRY_OK && i < n; i = end) {
		for (end = i + 1; end < n && msgs[end].if_absent == msgs[i].if_absent;
		     end++)
			;
		code = offer_alike(queue, &msgs[i], end - i, &made[i], err);
	}
	code = functions_end(queue->store.db, open, code);
	if (code == WHERRY_OK && out && n)
		memcpy(out, made, n * sizeof(*made));
	free(made);
	return functions_of_many(code, err);
}

static wherry_code visit_row(const PGresult *res, int row, wherry_delayed_fn visit,
			     void *ctx)
{
	size_t len = 0;
	unsigned char *body =
		PQunescapeBytea((unsigned char *)PQgetvalue(res, row, 2), &len);
	const wherry_delayed_message m =
		WHERRY_DELAYED_MESSAGE(.id = functions_int(res, row, 0),
				       .key = functions_text(res, row, 1), .body = body,
				       .body_len = len,
				       .at_us = functions_int(res, row, 3),
				       .attempts = (int32_t)functions_int(res, row, 4),
				       .redelivery = functions_int(res, row, 5) != 0,
				       .token = functions_text(res, row, 6),
				       .state = WHERRY_PROCESSING);
	wherry_code code = visit(ctx, &m);

	PQfreemem(body);
	return code;
}

static wherry_code poll(wherry_delayed *queue, const wherry_poll_options *options,
			wherry_delayed_fn visit, void *ctx, int64_t *out_n,
			wherry_error *err)
{
	static const char sql[] =
		"SELECT id, key, body, (extract(epoch FROM at) * 1000000)::bigint, attempts, redelivery::integer, "
		"token FROM wherry_poll($1, $2, $3::interval, $4, $5, $6)";
	const wherry_poll_options one = WHERRY_POLL_OPTIONS(.limit = 1);
	const wherry_poll_options *o = options ? options : &one;
	char n[FUNCTIONS_TEXT], lease[FUNCTIONS_TEXT], most[FUNCTIONS_TEXT];
	const char *const values[] = {
		queue->queue,
		functions_number(o->limit ? o->limit : 1, n),
		functions_span(o->lease_us ? o->lease_us : 30 * SECOND_US, lease),
		functions_number(o->max_attempts, most),
		type_of(queue),
		queue->store.names.table,
	};
	wherry_code code;
	PGresult *res = call(queue, "receiver", sql, values, 6, &code, err);

	if (res && out_n)
		*out_n = PQntuples(res);
	for (int i = 0; res && code == WHERRY_OK && i < PQntuples(res); i++)
		code = visit_row(res, i, visit, ctx);
	PQclear(res);
	return code;
}

static wherry_ack_outcome fate_of(const char *text)
{
	if (strcmp(text, "acknowledged") == 0)
		return WHERRY_ACKNOWLEDGED;
	if (strcmp(text, "superseded") == 0)
		return WHERRY_SUPERSEDED;
	assert_string_equal(text, "lease lost");
	return WHERRY_LEASE_LOST;
}

static const char *token_of(const void *tokens, size_t i, int column,
			    char text[FUNCTIONS_ELEMENT])
{
	(void)column;
	(void)text;
	return ((const char *const *)tokens)[i];
}

/* Settle these with the function of one or of many: its arguments name the token or tokens as $2, the type and the table
 * as $3 and $4, and further values as $5 and $6. */
static wherry_code settle(wherry_delayed *queue, const char *name, const char *args,
			  const char *const *tokens, size_t n, const char *first,
			  const char *second, wherry_ack_outcome *out, wherry_error *err)
{
	char *array = functions_array(token_of, tokens, n, 0), sql[300];
	const char *const values[] = {queue->queue,   n == 1 ? tokens[0] : array,
				      type_of(queue), queue->store.names.table,
				      first,          second};
	wherry_code code;
	PGresult *res;

	(void)snprintf(
		sql, sizeof(sql),
		n == 1 ? "SELECT wherry_%s%s(%s)"
		       : "SELECT u.x FROM unnest(wherry_%s%s(%s)) WITH ORDINALITY AS u(x, nth) ORDER BY u.nth",
		name, n == 1 ? "" : "_many", args);
	res = call(queue, "receiver", sql, values,
		   strstr(args, "$6")   ? 6
		   : strstr(args, "$5") ? 5
					: 4,
		   &code, err);
	if (res)
		assert_int_equal(PQntuples(res), n);
	for (int i = 0; res && i < PQntuples(res); i++)
		out[i] = fate_of(PQgetvalue(res, i, 0));
	PQclear(res);
	free(array);
	return functions_of_many(code, err);
}

static wherry_code ack(wherry_delayed *queue, const char *const *tokens, size_t n,
		       wherry_ack_outcome *out, wherry_error *err)
{
	return settle(queue, "done", "$1, $2, $3, $4", tokens, n, NULL, NULL, out, err);
}

static wherry_code nack(wherry_delayed *queue, const char *const *tokens, size_t n,
			int64_t delay_us, const char *error, wherry_ack_outcome *out,
			wherry_error *err)
{
	char delay[FUNCTIONS_TEXT];

	return settle(queue, "delayed_nack", "$1, $2, $5::interval, $6, $3, $4", tokens,
		      n, functions_span(delay_us, delay), error, out, err);
}

static wherry_code extend(wherry_delayed *queue, const char *const *tokens, size_t n,
			  int64_t lease_us, wherry_ack_outcome *out, wherry_error *err)
{
	char lease[FUNCTIONS_TEXT];

	return settle(queue, "delayed_extend", "$1, $2, $5::interval, $3, $4", tokens, n,
		      functions_span(lease_us, lease), NULL, out, err);
}

static wherry_code dead_letter(wherry_delayed *queue, const char *const *tokens, size_t n,
			       const char *reason, wherry_ack_outcome *out,
			       wherry_error *err)
{
	return settle(queue, "delayed_dead_letter", "$1, $2, $5, $3, $4", tokens, n,
		      reason, NULL, out, err);
}

static wherry_code drop_key(wherry_delayed *queue, const char *key, bool *out_found,
			    wherry_error *err)
{
	const char *const values[] = {queue->queue, key, type_of(queue),
				      queue->store.names.table};
	wherry_code code;
	PGresult *res = call(queue, "receiver",
			     "SELECT wherry_delayed_drop($1, $2, $3, $4)::integer",
			     values, 4, &code, err);

	if (res && out_found)
		*out_found = functions_int(res, 0, 0) != 0;
	PQclear(res);
	return code;
}

static const suite_skip skips[] = {
	{"two_batches_with_the_same_keys_do_not_deadlock",
	 "its offers differ in if_absent, which a call has for all of its own"},
	{"a_limit_out_of_range_is_refused_and_polls_nothing", "a function has no limit"},
	{"what_is_out_of_range_is_refused_by_name",
	 "it names members of a struct; "
	 "functions_of_delayed_queues_refuse_what_the_library_refuses"},
	{NULL, NULL},
};

const delayed_calls delayed_functions = {
	.offer = offer,
	.offer_many = offer_many,
	.poll = poll,
	.ack = ack,
	.nack = nack,
	.extend = extend,
	.dead_letter = dead_letter,
	.drop_key = drop_key,
	.skips = skips,
};
