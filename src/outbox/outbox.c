#include "outbox/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { IDS_MAX = 4 * 1024 * 1024 }; /* bytes of a list of ids */

wherry_code wh_take_int(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(int64_t *)ctx = wh_row_int(row, 0);
	return WHERRY_OK;
}

int64_t wh_ms(int64_t us)
{
	return us / 1000 + (us % 1000 > 0);
}

wherry_code wh_outbox_ids(wherry_outbox *box, const int64_t *ids, size_t n, wh_param *out,
			  wherry_error *err)
{
	wherry_code code;

	wh_buf_reset(&box->ids);
	wh_buf_putc(&box->ids, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			wh_buf_putc(&box->ids, ',');
		wh_buf_int(&box->ids, ids[i]);
	}
	wh_buf_putc(&box->ids, ']');
	code = wh_buf_check(&box->ids, err);
	if (code != WHERRY_OK)
		return code;
	*out = WH_TEXT_PARAM("ids", ((wh_view){box->ids.ptr, box->ids.len}));
	return WHERRY_OK;
}

wherry_code wh_outbox_missing(const char *table, wherry_code code, wherry_error *err)
{
	if (code != WHERRY_NOTFOUND)
		return code;
	return wh_fail(
		err, code,
		"there is no outbox '%s' in this database: run `wherry init` (with --table "
		"%s if that is its name)",
		table, table);
}

wherry_code wh_outbox_load(wherry_outbox *box, const char *scheme, const char *table,
			   wherry_error *err)
{
	const char *text = wh_sql_embedded("outbox", scheme);
	wherry_code code;

	if (!table || !wh_ident_valid(table))
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.60s' is no table name: begin with a letter or _, go on with "
			"letters, digits and _, at most %d",
			table ? table : "", WH_IDENT_MAX);
	if (!text)
		return wh_fail(err, WHERRY_UNSUPPORTED, "no outbox on '%.20s:'", scheme);
	code = wh_sql_parse(text, table, &box->sql, err);
	if (code != WHERRY_OK)
		return wh_prefix(err, code, "outbox/%s.sql", scheme);
#define X(field, name_)                                                                  \
	if (!(box->stmt.field = wh_sql_find(&box->sql, name_)))                          \
		return wh_fail(err, WHERRY_UNSUPPORTED, "outbox/%s.sql has no '%s'",     \
			       scheme, name_);
	WH_OUTBOX_STMTS(X)
#undef X
	return WHERRY_OK;
}

wherry_code wherry_outbox_open(wherry_db *db, const char *table, wherry_outbox **out,
			       wherry_error *err)
{
	wherry_outbox *box;
	wherry_code code;

	if (!db || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "no connection to open the outbox on");
	box = calloc(1, sizeof(*box));
	if (!box)
		return wh_oom(err);
	box->db = db;
	box->body_max = WH_BODY_MAX;
	box->ids = (wh_buf)WH_BUF_INIT(IDS_MAX);
	code = wh_outbox_load(box, db->driver->scheme, table, err);
	if (code != WHERRY_OK)
		goto out;
	box->name = (wh_view){strdup(table), strlen(table)};
	if (!box->name.ptr) {
		code = wh_oom(err);
		goto out;
	}
	code = wh_outbox_check(box, err);
	if (code != WHERRY_OK)
		goto out;
	*out = box;
	box = NULL; /* given away */
out:
	wherry_outbox_close(box);
	return code;
}

void wherry_outbox_close(wherry_outbox *box)
{
	char *name;

	if (!box)
		return;
	memcpy(&name, &box->name.ptr, sizeof(name));
	free(name);
	wh_db_forget(box->db, &box->sql);
	wh_sql_clear(&box->sql);
	wh_buf_clear(&box->ids);
	free(box);
}

void wh_outbox_set_body_max(wherry_outbox *box, int64_t bytes)
{
	box->body_max = bytes;
}

void wherry_message_init(wherry_message *msg)
{
	*msg = (wherry_message){.size = sizeof(*msg)};
}

const char *wherry_state_name(wherry_state state)
{
	static const char *const names[] = {"pending", "processing", "done", "failed",
					    "dead"};

	return (unsigned)state < WHERRY_STATE_COUNT ? names[state] : "unknown";
}
