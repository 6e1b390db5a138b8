#include "store/open_row.h"

/* Columns of SQLite can hold values of any type: find one that should be an integer and
 * is not. */
static const char *odd_column(const wh_row *row, int first)
{
	static const char *const names[] = {[WH_OPEN_STATUS] = "status",
					    [WH_OPEN_ATTEMPTS] = "attempts",
					    [WH_OPEN_CREATED_AT] = "created_at"};

	for (int i = WH_OPEN_STATUS; i <= WH_OPEN_CREATED_AT; i++)
		if (!wh_row_is_int(row, first + i))
			return names[i];
	return NULL;
}

static wherry_code take(wh_open_reader *v, int64_t id, const wh_row *row, int first,
			wherry_error *err)
{
	const wh_open_row open = {
		.id = id,
		.state = (wherry_state)wh_row_int(row, first + WH_OPEN_STATUS),
		.attempts = wh_clamp32(wh_row_int(row, first + WH_OPEN_ATTEMPTS)),
		.created_at_us = wh_us(wh_row_int(row, first + WH_OPEN_CREATED_AT)),
		.due_in_us = wh_us(wh_row_int(row, first + WH_OPEN_DUE_IN)),
		.message_id = wh_row_bytes(row, first + WH_OPEN_MESSAGE_ID),
		.topic = wh_row_bytes(row, first + WH_OPEN_TOPIC),
		.aggregate_type = wh_row_bytes(row, first + WH_OPEN_AGGREGATE_TYPE),
		.aggregate_id = wh_row_bytes(row, first + WH_OPEN_AGGREGATE_ID),
		.key = wh_row_bytes(row, first + WH_OPEN_KEY),
		.headers = wh_row_bytes(row, first + WH_OPEN_HEADERS),
		.trace_id = wh_row_bytes(row, first + WH_OPEN_TRACE_ID),
		.odd = odd_column(row, first),
		.row = row,
		.first = first,
	};
	wherry_code code = wh_row_check(row, err);

	v->n++;
	v->last = open.id;
	return code == WHERRY_OK ? v->visit(v->ctx, &open, err) : code;
}

wherry_code wh_take_open(void *ctx, const wh_row *row, wherry_error *err)
{
	return take(ctx, wh_row_int(row, WH_OPEN_ID), row, 0, err);
}

wherry_code wh_take_open_at(wh_open_reader *v, int first, const wh_row *row,
			    wherry_error *err)
{
	return take(v, wh_row_int(row, first + WH_OPEN_ID), row, first, err);
}

wherry_code wh_take_open_as(wh_open_reader *v, int64_t id, const wh_row *row,
			    wherry_error *err)
{
	return take(v, id, row, 0, err);
}

wh_view wh_open_body(const wh_open_row *row)
{
	return row->no_body ? (wh_view){NULL, 0}
			    : wh_row_bytes(row->row, row->first + WH_OPEN_PAYLOAD);
}
