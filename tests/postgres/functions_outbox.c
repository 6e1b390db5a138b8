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

static wherry_code enqueue_many(wherry_outbox *box, const wherry_message *msgs, size_t n,
				unsigned flags, int64_t *out_ids, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	int64_t *ids = calloc(n + 1, sizeof(*ids));
	wherry_code code = WHERRY_OK;
	bool open = functions_begin(box->store.db);

	assert_non_null(ids);
	for (size_t i = 0; code == WHERRY_OK && i < n; i++) {
		code = enqueue(box, &msgs[i], flags, &ids[i], &why);
		if (code == WHERRY_DUPLICATE)
			code = WHERRY_OK;
		else if (code != WHERRY_OK)
			(void)wh_fail(err, code, "message %zu: %s", i, why.message);
	}
	code = functions_end(box->store.db, open, code);
	if (code == WHERRY_OK && out_ids && n)
		memcpy(out_ids, ids, n * sizeof(*ids));
	free(ids);
	return code;
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
