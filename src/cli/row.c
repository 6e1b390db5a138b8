#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>

#include "publish/parts.h"

void wh_put_text_field(wh_buf *buf, const char *name, const char *text)
{
	wh_buf_printf(buf, ",\"%s\":", name);
	if (text)
		wh_buf_json(buf, text, strlen(text));
	else
		wh_buf_puts(buf, "null");
}

void wh_put_age_field(wh_buf *buf, const char *name, int64_t us)
{
	if (us < 0)
		wh_buf_printf(buf, ",\"%s\":null", name);
	else
		wh_buf_printf(buf, ",\"%s\":%" PRId64, name, us);
}

void wh_put_time_field(wh_buf *buf, const char *name, int64_t us)
{
	char text[WH_TIME_LEN];

	if (us)
		wh_time_print(us, text);
	wh_put_text_field(buf, name, us ? text : NULL);
}

void wh_put_line(wh_buf *buf, const wherry_message *message)
{
	wherry_message fit = *message;

	if (wh_message_line(buf, &fit, NULL) != WHERRY_OK) {
		/* Headers written by plain SQL may be invalid: then the message cannot be
		 * delivered. */
		fit.headers = "{}";
		if (wh_message_line(buf, &fit, NULL) != WHERRY_OK)
			return;
		buf->len -= 2;
		wh_put_text_field(buf, "malformed_headers", message->headers);
		return;
	}
	buf->len -= 2; /* "}\n" */
}

static void put_brief(wh_buf *buf, const wherry_message *m)
{
	wh_buf_printf(buf, "{\"id\":%" PRId64, m->id);
	wh_put_text_field(buf, "message_id", m->message_id);
	wh_put_text_field(buf, "topic", m->topic);
	wh_put_text_field(buf, "key", wh_message_key(m));
	wh_put_time_field(buf, "created_at", m->created_at_us);
	wh_buf_printf(buf, ",\"attempts\":%" PRId32 ",\"generation\":%" PRId32,
		      m->attempts, m->generation);
}

void wh_put_row(wh_buf *buf, const wherry_row *row, wh_row_detail detail)
{
	if (detail == WH_ROW_FULL)
		wh_put_line(buf, row->message);
	else
		put_brief(buf, row->message);
	wh_put_text_field(buf, "state", wherry_state_name(row->state));
	wh_put_time_field(buf, "claimed_at", row->claimed_at_us);
	wh_put_time_field(buf, "next_retry_at", row->next_retry_at_us);
	wh_put_time_field(buf, "processed_at", row->processed_at_us);
	wh_put_text_field(buf, "last_error", row->last_error);
	wh_buf_printf(buf, ",\"archived\":%s", row->archived ? "true" : "false");
	if (detail == WH_ROW_FULL)
		wh_buf_printf(buf, ",\"held_by\":%" PRId64 ",\"parked_by\":%" PRId64,
			      row->held_by, row->parked_by);
	wh_buf_putc(buf, '}');
}
