/*
 * Whether somebody waits for messages of an outbox that no relay works on: `wherry run`, for the
 * outboxes of many schemas.
 */
#include "outbox/outbox.h"

static wherry_code take(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(bool *)ctx = wh_row_int(row, 0) != 0;
	return WHERRY_OK;
}

bool wh_outbox_is_watched(wherry_outbox *outbox)
{
	wherry_db *db = outbox->store.db;
	const wh_sql_names names = {
		.dialect = db->driver->scheme,
		.schema = *outbox->store.names.schema ? outbox->store.names.schema : NULL,
		.table = outbox->store.names.table,
		.payload = "bytea",
		.topic = WH_SUBSCRIPTION_OF_RELAYS,
	};
	const char *text = wh_sql_embedded("outbox", "matched", db->driver->scheme);
	bool watched = false;
	const wh_stmt *stmt;
	wh_sql sql;

	if (!text || wh_sql_parse_as(text, &names, &sql, NULL) != WHERRY_OK)
		return false;
	stmt = wh_sql_find(&sql, "watched"); /* NULL: nobody holds a lock there. */
	if (stmt)
		(void)wh_db_run(db, stmt, NULL, 0, take, &watched, NULL, NULL);
	wh_db_forget(db, &sql);
	wh_sql_clear(&sql);
	return watched;
}
