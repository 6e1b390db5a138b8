#include "outbox/rows.h"

#include "base/text.h"
#include "outbox/outbox.h"

/* Columns of the statements list and show, in order. */
enum {
	ID,
	STATUS,
	ATTEMPTS,
	CREATED_AT,
	CLAIMED_AT,
	NEXT_RETRY_AT,
	PROCESSED_AT,
	MESSAGE_ID,
	TOPIC,
	AGGREGATE_TYPE,
	AGGREGATE_ID,
	KEY,
	HEADERS,
	TRACE_ID,
	PAYLOAD,
	LAST_ERROR,
	HELD_BY,
	PARKED_BY
};

/* The text of a column, or a note if the database did not send all of it. */
static const char *text_at(const wh_row_visitor *v, const wh_row *row, int column)
{
	wh_view text = wh_row_bytes(row, column);

	if (text.len > WH_TEXT_MOST && !v->whole)
		return "(over 1048576 bytes)";
	return v->textless && text.ptr && !text.len ? "(unreadable)" : text.ptr;
}

wherry_code wh_row_visit(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_row_visitor *v = ctx;
	wh_view body = wh_row_bytes(row, PAYLOAD);
	const wherry_message message = {
		.size = sizeof(wherry_message),
		.message_id = text_at(v, row, MESSAGE_ID),
		.topic = text_at(v, row, TOPIC),
		.aggregate_type = wh_row_text(row, AGGREGATE_TYPE),
		.aggregate_id = wh_row_text(row, AGGREGATE_ID),
		.key = text_at(v, row, KEY),
		.headers = wh_row_text(row, HEADERS),
		.trace_id = text_at(v, row, TRACE_ID),
		.body = body.ptr,
		.body_len = body.len,
		.id = wh_row_int(row, ID),
		.created_at_us = wh_us(wh_row_int(row, CREATED_AT)),
		.attempts = wh_clamp32(wh_row_int(row, ATTEMPTS)),
	};
	const wherry_row out = {
		.message = &message,
		.state = (wherry_state)wh_row_int(row, STATUS),
		.claimed_at_us = wh_us(wh_row_int(row, CLAIMED_AT)),
		.next_retry_at_us = wh_us(wh_row_int(row, NEXT_RETRY_AT)),
		.processed_at_us = wh_us(wh_row_int(row, PROCESSED_AT)),
		.last_error = text_at(v, row, LAST_ERROR),
		.held_by = wh_row_int(row, HELD_BY),
		.parked_by = wh_row_int(row, PARKED_BY),
	};
	wherry_code code = wh_row_check(row, err);

	if (code != WHERRY_OK)
		return code;
	code = v->visit(v->ctx, &out);
	v->n++;
	v->last = message.id;
	return code == WHERRY_OK ? code
				 : wh_fail(err, code, "the visitor of rows gave up");
}
