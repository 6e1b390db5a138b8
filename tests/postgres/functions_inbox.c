/*
 * The function of inboxes: wherry_accept().
 */
#include "conformance/inbox_suite.h"
#include "postgres/functions.h"
#include "store/store.h"

static wherry_code accept(wherry_inbox *inbox, const char *consumer,
			  const char *message_id, bool *out_new, wherry_error *err)
{
	const wh_store *store = (const wh_store *)inbox; /* its first member */
	const char *const values[] = {message_id, consumer, store->names.table};
	wherry_code code;
	PGresult *res = functions_call(store->db, "consumer",
				       "SELECT wherry_accept($1, $2, $3)::integer",
				       values, 3, &code, err);

	if (res)
		*out_new = functions_int(res, 0, 0) != 0;
	PQclear(res);
	return code;
}

static wherry_code accept_many(wherry_inbox *inbox, const char *consumer,
			       const char *const *message_ids, size_t n, bool *out_new,
			       wherry_error *err)
{
	wherry_db *db = ((const wh_store *)inbox)->db;
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	bool open = functions_begin(db);

	for (size_t i = 0; code == WHERRY_OK && i < n; i++) {
		code = accept(inbox, consumer, message_ids[i], &out_new[i], &why);
		if (code != WHERRY_OK)
			(void)wh_fail(err, code, "message %zu: %s", i, why.message);
	}
	return functions_end(db, open, code);
}

static const suite_skip skips[] = {
	{"a_message_is_accepted_in_a_transaction_only",
	 "a statement is a transaction, of which the application's may be a part"},
	{NULL, NULL},
};

const inbox_calls inbox_functions = {
	.accept = accept,
	.accept_many = accept_many,
	.skips = skips,
};
