/*
 * Messages as Debezium's outbox event router makes them.
 *
 * The router adds the header id.  The value is the payload, which JsonConverter writes as a
 * JSON string; with expand.json.payload an object or an array stands there itself.  If a
 * column has the placement envelope, the value is an object with the members payload and
 * that column.
 */
#include "publish/format/format.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "publish/parts.h"

enum { COLUMN_ID, COLUMN_TYPE, COLUMN_AGGREGATE_TYPE, COLUMN_AGGREGATE_ID, COLUMN_KEY };

/* Debezium's names, in the order of the numbers. */
static const char *const columns[] = {"id", "type", "aggregatetype", "aggregateid",
				      "key"};

static int column_of(wh_view name)
{
	for (int i = 0; i < (int)(sizeof(columns) / sizeof(*columns)); i++)
		if (wh_view_eq(name, wh_view_of(columns[i])))
			return i;
	return -1;
}

static bool is_word(wh_view view, const char *word)
{
	return wh_view_eq(view, wh_view_of(word));
}

/* Read one placement, COLUMN:PLACEMENT or COLUMN:PLACEMENT:ALIAS. */
static wherry_code add_placement(wh_format *out, const char *text, size_t len,
				 wherry_error *err)
{
	wh_view parts[3] = {{text, 0}, {NULL, 0}, {NULL, 0}};
	wh_placement *p = &out->placements[out->n_placements];
	size_t n = 0;
	int column;

	for (size_t i = 0; i < len && n < 3; i++) {
		if (text[i] == ':' && ++n < 3)
			parts[n] = (wh_view){text + i + 1, 0};
		else if (n < 3)
			parts[n].len++;
	}
	column = column_of(parts[0]);
	if (n < 1 || n > 2 || column < 0 || (n == 2 && !parts[2].len) ||
	    (!is_word(parts[1], "header") && !is_word(parts[1], "envelope")))
		return wh_fail(err, WHERRY_INVALID,
			       "message.placement: '%.*s' is not COLUMN:header:NAME or "
			       "COLUMN:envelope:NAME, where the column is id, type, "
			       "aggregatetype, aggregateid or key",
			       (int)(len < 60 ? len : 60), text);
	if (out->n_placements == WH_PLACEMENTS_MOST)
		return wh_fail(err, WHERRY_INVALID,
			       "message.placement has more than %d columns",
			       WH_PLACEMENTS_MOST);
	p->column = column;
	p->envelope = is_word(parts[1], "envelope");
	p->alias = n == 2 ? strndup(parts[2].ptr, parts[2].len) : strdup(columns[column]);
	if (!p->alias)
		return wh_oom(err);
	out->n_placements++;
	return WHERRY_OK;
}

wherry_code wh_debezium_placements(const char *text, wh_format *out, wherry_error *err)
{
	static const char between[] = " ,\t\r\n";
	wherry_code code = WHERRY_OK;

	for (text += strspn(text, between); *text && code == WHERRY_OK;
	     text += strspn(text, between)) {
		size_t len = strcspn(text, between);

		code = add_placement(out, text, len, err);
		text += len;
	}
	return code;
}

static const char *value_of(int column, const wherry_message *msg, const char *type)
{
	const char *value = column == COLUMN_ID               ? msg->message_id
			    : column == COLUMN_TYPE           ? type
			    : column == COLUMN_AGGREGATE_TYPE ? msg->aggregate_type
			    : column == COLUMN_AGGREGATE_ID   ? msg->aggregate_id
							      : wh_message_key(msg);

	return value && *value ? value : NULL;
}

static wherry_code put_payload(bool expands, const wherry_message *msg, wh_buf *out,
			       wherry_error *err)
{
	const char *body = msg->body;
	size_t len = msg->body_len;

	if (expands && len && (*body == '{' || *body == '[')) {
		if (!wh_json_valid(body, len))
			return wh_fail(err, WHERRY_INVALID,
				       "its body is not JSON, which "
				       "message.format=debezium-expanded needs; debezium "
				       "sends any text");
		wh_buf_put(out, body, len);
		return WHERRY_OK;
	}
	if (len && !wh_utf8_valid(body, len))
		return wh_fail(err, WHERRY_INVALID,
			       "its body is not text, which message.format=debezium "
			       "needs; raw sends any bytes");
	wh_buf_json(out, len ? body : "", len);
	return WHERRY_OK;
}

static wherry_code put_body(const wh_format *format, const wherry_message *msg,
			    const char *type, wh_buf *out, wherry_error *err)
{
	bool expands = format->kind == WH_FORMAT_EXPANDED;
	wherry_code code;

	wh_buf_puts(out, "{\"payload\":");
	if (msg->body)
		code = put_payload(expands, msg, out, err);
	else
		code = (wh_buf_puts(out, "null"), WHERRY_OK);
	for (size_t i = 0; i < format->n_placements && code == WHERRY_OK; i++) {
		const wh_placement *p = &format->placements[i];
		const char *value = value_of(p->column, msg, type);

		if (!p->envelope)
			continue;
		wh_buf_putc(out, ',');
		wh_buf_json(out, p->alias, strlen(p->alias));
		wh_buf_putc(out, ':');
		if (value)
			wh_buf_json(out, value, strlen(value));
		else
			wh_buf_puts(out, "null");
	}
	wh_buf_putc(out, '}');
	return code;
}

static bool has_envelope(const wh_format *format)
{
	for (size_t i = 0; i < format->n_placements; i++)
		if (format->placements[i].envelope)
			return true;
	return false;
}

wherry_code wh_debezium_make(const wh_format *format, const wherry_message *given,
			     const char *type, json_t *headers, wh_formed *out,
			     wherry_error *err)
{
	const char *id = given->message_id;
	wherry_code code = id && *id
				   ? wh_format_header(headers, "id", id, err)
				   : wh_fail(err, WHERRY_INVALID,
					     "it has no message id, which is the header "
					     "id of Debezium");

	for (size_t i = 0; i < format->n_placements && code == WHERRY_OK; i++) {
		const wh_placement *p = &format->placements[i];
		const char *value = value_of(p->column, given, type);

		if (!p->envelope && value)
			code = wh_format_header(headers, p->alias, value, err);
	}
	if (code != WHERRY_OK)
		return code;
	if (has_envelope(format))
		code = put_body(format, given, type, &out->body, err);
	else if (given->body)
		code = put_payload(format->kind == WH_FORMAT_EXPANDED, given, &out->body,
				   err);
	if (code == WHERRY_OK)
		code = wh_buf_check(&out->body, err);
	if (code == WHERRY_OK && out->body.len) {
		out->msg.body = out->body.ptr;
		out->msg.body_len = out->body.len;
	}
	return code;
}
