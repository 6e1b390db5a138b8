#include "store/open_row.h"

/* Columns of the statements, in order. */
enum {
	ID,
	STATUS,
	ATTEMPTS,
	CREATED_AT,
	DUE_IN,
	MESSAGE_ID,
	TOPIC,
	AGGREGATE_TYPE,
	AGGREGATE_ID,
	KEY,
	HEADERS,
	TRACE_ID,
	PAYLOAD
};

/* Columns of SQLite can hold values of any type: find one that should be an integer and
 * is not. */
static const char *odd_column(const wh_row *row, int first)
{
	static const char *const names[] = {[STATUS] = "status",
					    [ATTEMPTS] = "attempts",
					    [CREATED_AT] = "created_at"};

	for (int i = STATUS; i <= CREATED_AT; i++)
		if (!wh_row_is_int(row, first + i))
			return names[i];
	return NULL;
}

static wherry_code take(wh_open_reader *v, int64_t id, const wh_row *row, int first,
			wherry_error *err)
{
	const wh_open_row open = {
		.id = id,
		.state = (wherry_state)wh_row_int(row, first + STATUS),
		.attempts = wh_clamp32(wh_row_int(row, first + ATTEMPTS)),
		.created_at_us = wh_us(wh_row_int(row, first + CREATED_AT)),
		.due_in_us = wh_us(wh_row_int(row, first + DUE_IN)),
		.message_id = wh_row_bytes(row, first + MESSAGE_ID),
		.topic = wh_row_bytes(row, first + TOPIC),
		.aggregate_type = wh_row_bytes(row, first + AGGREGATE_TYPE),
		.aggregate_id = wh_row_bytes(row, first + AGGREGATE_ID),
		.key = wh_row_bytes(row, first + KEY),
		.headers = wh_row_bytes(row, first + HEADERS),
		.trace_id = wh_row_bytes(row, first + TRACE_ID),
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
	return take(ctx, wh_row_int(row, ID), row, 0, err);
}

wherry_code wh_take_open_at(wh_open_reader *v, int first, const wh_row *row,
			    wherry_error *err)
{
	return take(v, wh_row_int(row, first + ID), row, first, err);
}

wherry_code wh_take_open_as(wh_open_reader *v, int64_t id, const wh_row *row,
			    wherry_error *err)
{
	return take(v, id, row, 0, err);
}

wh_view wh_open_body(const wh_open_row *row)
{
	return row->no_body ? (wh_view){NULL, 0}
			    : wh_row_bytes(row->row, row->first + PAYLOAD);
}
