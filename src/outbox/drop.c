/*
 * Removing an outbox.
 */
#include "outbox/outbox.h"

/* Remove the outbox, then, if it was the last one, what outboxes share. */
static wherry_code drop(void *ctx, wherry_error *err)
{
	wherry_outbox *box = ctx;
	int64_t others = 0;
	wherry_code code = wh_db_script(box->store.db, box->store.stmt.drop->text, err);

	if (code == WHERRY_OK)
		code = wh_db_run(box->store.db, box->store.stmt.others_left, NULL, 0,
				 wh_take_int, &others, NULL, err);
	if (code == WHERRY_OK && !others)
		code = wh_db_script(box->store.db, box->store.stmt.drop_shared->text,
				    err);
	return code;
}

wherry_code wh_outbox_drop(wherry_outbox *box, wherry_error *err)
{
	if (!box->store.stmt.drop)
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "the table '%s' has layout %s and belongs to another "
			       "program: remove it there",
			       box->store.name.ptr, box->store.layout.name);
	return wh_db_transact(box->store.db, drop, box, err);
}
