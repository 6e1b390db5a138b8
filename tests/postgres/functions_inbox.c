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

static const char *id_of(const void *ids, size_t i, int column,
			 char text[FUNCTIONS_ELEMENT])
{
	(void)column;
	(void)text;
	return ((const char *const *)ids)[i];
}

static wherry_code accept_many(wherry_inbox *inbox, const char *consumer,
			       const char *const *message_ids, size_t n, bool *out_new,
			       wherry_error *err)
{
	const wh_store *store = (const wh_store *)inbox; /* its first member */
	char *ids = functions_array(id_of, message_ids, n, 0);
	const char *const values[] = {ids, consumer, store->names.table};
	wherry_code code;
	PGresult *res = functions_call(
		store->db, "consumer",
		"SELECT a.new::integer FROM unnest(wherry_accept_many($1, $2, $3)) WITH ORDINALITY AS a(new, nth) ORDER BY a.nth",
		values, 3, &code, err);

	for (int i = 0; res && i < PQntuples(res); i++)
		out_new[i] = functions_int(res, i, 0) != 0;
	PQclear(res);
	free(ids);
	return functions_of_many(code, err);
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
