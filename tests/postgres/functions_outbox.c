/*
 * The function of outboxes: wherry_enqueue().
 */
#include "conformance/outbox_suite.h"
#include "outbox/outbox.h"
#include "postgres/functions.h"

static wherry_code enqueue(wherry_outbox *box, const wherry_message *msg, unsigned flags,
			   int64_t *out_id, wherry_error *err)
{
	static const char sql[] =
		"SELECT coalesce(wherry_enqueue($1, decode($2, 'hex'), $3::text, $4, $5::json, $6, $7, $8, $9::boolean, $10), 0)";
	size_t len = msg->body_len == WHERRY_TEXT ? strlen(msg->body) : msg->body_len;
	char *body = functions_hex(msg->body, len);
	const char *const values[] = {
		msg->topic,
		body,
		msg->key,
		msg->message_id,
		msg->headers,
		msg->aggregate_type,
		msg->aggregate_id,
		msg->trace_id,
		flags & WHERRY_LOCK_KEY ? "true" : "false",
		box->store.names.table,
	};
	wherry_code code;
	PGresult *res =
		functions_call(box->store.db, "enqueuer", sql, values, 10, &code, err);
	int64_t id = res ? functions_int(res, 0, 0) : 0;

	free(body);
	PQclear(res);
	if (code == WHERRY_OK && id == 0)
		return wh_fail(err, WHERRY_DUPLICATE, "message id '%s' is there",
			       msg->message_id);
	if (code == WHERRY_OK && out_id)
		*out_id = id;
	return code;
}

/* The arrays of wherry_enqueue_many(). */
static const char *element(const void *msgs, size_t i, int column,
			   char text[FUNCTIONS_ELEMENT])
{
	const wherry_message *m = (const wherry_message *)msgs + i;

	switch (column) {
	case 0:
		return m->topic;
	case 1:
		return functions_bytes(m->body, m->body_len, text);
	case 2:
		return m->key;
	case 3:
		return m->message_id;
	case 4:
		return m->headers;
	case 5:
		return m->aggregate_type;
	case 6:
		return m->aggregate_id;
	default:
		return m->trace_id;
	}
}

static wherry_code enqueue_many(wherry_outbox *box, const wherry_message *msgs, size_t n,
				unsigned flags, int64_t *out_ids, wherry_error *err)
{
	enum { ARRAYS = 8 };
	char *arrays[ARRAYS];
	const char *values[ARRAYS + 2] = {[ARRAYS] = flags & WHERRY_LOCK_KEY ? "true"
									     : "false",
					  [ARRAYS + 1] = box->store.names.table};
	wherry_code code;
	PGresult *res;

	for (int i = 0; i < ARRAYS; i++)
		values[i] = arrays[i] = functions_array(element, msgs, n, i);
	res = functions_call(
		box->store.db, "enqueuer",
		"SELECT wherry_enqueue_many($1, $2::bytea[], $3, $4, $5, $6, $7, $8, $9::boolean, $10)",
		values, ARRAYS + 2, &code, err);
	if (res && out_ids)
		functions_numbers(PQgetvalue(res, 0, 0), out_ids, n);
	PQclear(res);
	for (int i = 0; i < ARRAYS; i++)
		free(arrays[i]);
	return functions_of_many(code, err);
}

static const suite_skip skips[] = {
	{"enqueue_outside_a_transaction_is_refused_and_says_why",
	 "a statement is a transaction, of which the application's may be a part"},
	{"text_that_is_not_UTF8_is_refused", "the server refuses it in its words"},
	{"a_body_over_the_limit_is_refused_and_names_the_setting", "as with INSERT"},
	{"the_limit_of_a_body_is_16_MiB", "as with INSERT"},
	{"a_message_of_an_older_program_is_taken", "it has no struct"},
	{"a_message_of_a_newer_program_is_taken_unless_it_uses_what_is_new",
	 "it has no struct"},
	{"a_message_needs_a_size_a_topic_and_a_body",
	 "it has no size; what_is_no_message_is_refused"},
	{NULL, NULL},
};

const outbox_calls outbox_functions = {
	.enqueue = enqueue,
	.enqueue_many = enqueue_many,
	.skips = skips,
};
