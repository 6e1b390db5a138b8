#include "publish/format/template.h"

#include <string.h>

#include "publish/parts.h"

static const struct {
	const char *name;
	wh_piece_kind kind;
} fields[] = {
	{"topic", WH_PIECE_TOPIC},
	{"key", WH_PIECE_KEY},
	{"aggregate_type", WH_PIECE_AGGREGATE_TYPE},
	{"aggregate_id", WH_PIECE_AGGREGATE_ID},
	{"message_id", WH_PIECE_MESSAGE_ID},
};

static const char header_word[] = "header:";

enum { HEADER_LEN = sizeof(header_word) - 1 };

static wh_piece named(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (strlen(fields[i].name) == len &&
		    memcmp(fields[i].name, name, len) == 0)
			return (wh_piece){fields[i].kind, {name, len}};
	if (len > HEADER_LEN && memcmp(name, header_word, HEADER_LEN) == 0)
		return (wh_piece){WH_PIECE_HEADER, {name + HEADER_LEN, len - HEADER_LEN}};
	return (wh_piece){WH_PIECE_UNKNOWN, {name, len}};
}

wh_piece wh_template_next(const char **at)
{
	const char *from = *at;
	size_t len = strcspn(from, "{}");

	if (len) {
		*at = from + len;
		return (wh_piece){WH_PIECE_TEXT, {from, len}};
	}
	len = strcspn(from + 1, "{}");
	if (*from == '{' && from[1 + len] == '}') {
		*at = from + len + 2;
		return named(from + 1, len);
	}
	*at = from + 1;
	return (wh_piece){WH_PIECE_UNKNOWN, {from, 1}};
}

wherry_code wh_template_check(const char *template, wherry_error *err)
{
	while (*template) {
		wh_piece piece = wh_template_next(&template);

		if (piece.kind == WH_PIECE_UNKNOWN)
			return wh_fail(
				err, WHERRY_INVALID,
				"'%.*s' in braces stands for nothing; known are {topic}, "
				"{key}, {aggregate_type}, {aggregate_id}, {message_id} "
				"and {header:NAME}",
				(int)(piece.text.len < 60 ? piece.text.len : 60),
				piece.text.ptr);
	}
	return WHERRY_OK;
}

bool wh_template_has_header(const char *template)
{
	while (*template)
		if (wh_template_next(&template).kind == WH_PIECE_HEADER)
			return true;
	return false;
}

/* The value of a header; NULL: there is none, or it is null. */
static const char *header_value(json_t *headers, wh_view name)
{
	const char *at;
	json_t *value;

	json_object_foreach (headers, at, value)
		if (wh_view_eq(wh_view_of(at), name))
			return json_string_value(value);
	return NULL;
}

static const char *value_of(const wh_piece *piece, const wherry_message *msg,
			    json_t *headers)
{
	switch (piece->kind) {
	case WH_PIECE_TOPIC:
		return msg->topic;
	case WH_PIECE_KEY:
		return wh_message_key(msg);
	case WH_PIECE_AGGREGATE_TYPE:
		return msg->aggregate_type;
	case WH_PIECE_AGGREGATE_ID:
		return msg->aggregate_id;
	case WH_PIECE_MESSAGE_ID:
		return msg->message_id;
	case WH_PIECE_HEADER:
		return headers ? header_value(headers, piece->text) : NULL;
	case WH_PIECE_TEXT:
	case WH_PIECE_UNKNOWN:
		break;
	}
	return NULL;
}

wherry_code wh_template_put(const char *template, const wherry_message *msg,
			    json_t *headers, wh_buf *out, wherry_error *err)
{
	while (*template) {
		wh_piece piece = wh_template_next(&template);
		const char *value;

		if (piece.kind == WH_PIECE_TEXT) {
			wh_buf_put(out, piece.text.ptr, piece.text.len);
			continue;
		}
		value = value_of(&piece, msg, headers);
		if (!value || !*value)
			return wh_fail(err, WHERRY_INVALID,
				       "the message has no %s%.*s: give it one, or set "
				       "another template",
				       piece.kind == WH_PIECE_HEADER ? "header " : "",
				       (int)(piece.text.len < 60 ? piece.text.len : 60),
				       piece.text.ptr);
		wh_buf_puts(out, value);
	}
	return wh_buf_check(out, err);
}
