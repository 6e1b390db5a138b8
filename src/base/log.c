/*
 * Writing log records.  Whatever bytes a value holds, a line of text can be parsed back
 * into the record's fields.  A value is a plain word or a JSON string, in which every
 * character that could move a cursor is escaped.  Jansson writes JSON lines.
 */
#include "base/log.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/text.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
static const char ellipsis[] = "\xe2\x80\xa6";    /* U+2026 */

const char *wh_log_level_name(wherry_log_level level)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};

	return names[level > WHERRY_LOG_DEBUG ? WHERRY_LOG_DEBUG : level];
}

void wh_log_send(const wh_env *env, wherry_log_level level, const char *part,
		 const char *event, const wherry_log_field *fields)
{
	wherry_log_record record = {
		.size = sizeof(record),
		.level = level,
		.part = part,
		.event = event,
		.fields = fields,
	};

	if (!env->log)
		return;
	while (fields[record.n_fields].name)
		record.n_fields++;
	env->log(env->log_ctx, &record);
}

/* ---- text ---- */

/* Append text as UTF-8.  Each byte that is not part of a character becomes U+FFFD; text
 * over the limit is cut off. */
static void put_clean(wh_buf *out, const char *text, size_t len)
{
	size_t most = wh_utf8_cut(text, len, WH_LOG_TEXT_MAX);

	for (size_t i = 0, n; i < most; i += n ? n : 1) {
		n = wh_utf8_len(text + i, most - i);
		if (n)
			wh_buf_put(out, text + i, n);
		else
			wh_buf_puts(out, replacement);
	}
	if (most < len)
		wh_buf_puts(out, ellipsis);
}

/* Does the value need no quotes? */
static bool is_word(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~' || strchr("\"=\\", text[i]))
			return false;
	return len > 0;
}

/* Append a JSON string; text is UTF-8. */
static void put_quoted(wh_buf *out, const char *text, size_t len)
{
	wh_buf_putc(out, '"');
	for (size_t i = 0, n; i < len; i += n) {
		unsigned c;

		n = wh_utf8_len(text + i, len - i);
		c = wh_utf8_code(text + i, n);
		if (c == '"' || c == '\\' || wh_utf8_unsafe(c))
			wh_buf_escape(out, c);
		else
			wh_buf_put(out, text + i, n);
	}
	wh_buf_putc(out, '"');
}

static void put_text(wh_buf *out, const char *text, size_t len)
{
	wh_buf clean = WH_BUF_INIT(out->most);

	put_clean(&clean, text, len);
	if (is_word(wh_buf_str(&clean), clean.len))
		wh_buf_put(out, clean.ptr, clean.len);
	else
		put_quoted(out, wh_buf_str(&clean), clean.len);
	wh_buf_clear(&clean);
}

static void put_duration(wh_buf *out, int64_t us)
{
	char digits[8];
	size_t n = (size_t)snprintf(digits, sizeof(digits), "%06d",
				    abs((int)(us % WH_SECOND)));

	while (n && digits[n - 1] == '0')
		n--;
	wh_buf_printf(out, "%s%lld%s%.*ss", us < 0 ? "-" : "", llabs(us / WH_SECOND),
		      n ? "." : "", (int)n, digits);
}

void wh_log_fields(wh_buf *out, const wherry_log_record *record)
{
	wh_buf_printf(out, "event=%s", record->event);
	for (size_t i = 0; i < record->n_fields; i++) {
		const wherry_log_field *f = &record->fields[i];

		wh_buf_printf(out, " %s=", f->name);
		switch (f->type) {
		case WHERRY_LOG_TEXT:
			put_text(out, f->text, f->len);
			break;
		case WHERRY_LOG_NUMBER:
			wh_buf_int(out, f->number);
			break;
		case WHERRY_LOG_DURATION:
			put_duration(out, f->number);
			break;
		}
	}
}

void wh_log_bare(const wherry_log_record *record, char out[WH_LOG_BARE])
{
	(void)snprintf(out, WH_LOG_BARE, "event=%s", record->event);
}

/* ---- JSON ---- */

static json_t *json_text(const char *text, size_t len)
{
	wh_buf clean = WH_BUF_INIT(4 * WH_LOG_TEXT_MAX);
	json_t *value;

	put_clean(&clean, text, len);
	value = json_stringn(wh_buf_str(&clean), clean.len);
	wh_buf_clear(&clean);
	return value;
}

static json_t *json_value(const wherry_log_field *f)
{
	switch (f->type) {
	case WHERRY_LOG_NUMBER:
		return json_integer(f->number);
	case WHERRY_LOG_DURATION:
		return json_real((double)f->number / (double)WH_SECOND);
	case WHERRY_LOG_TEXT:
		break;
	}
	return json_text(f->text, f->len);
}

static void put_json(wh_buf *out, const wh_log_head *head,
		     const wherry_log_record *record)
{
	json_t *object = json_object();
	char *text;

	(void)json_object_set_new(object, "time", json_string(head->time));
	(void)json_object_set_new(object, "level",
				  json_string(wh_log_level_name(record->level)));
	(void)json_object_set_new(object, "part", json_string(record->part));
	if (head->relay)
		(void)json_object_set_new(object, "relay", json_string(head->relay));
	(void)json_object_set_new(object, "event", json_string(record->event));
	for (size_t i = 0; i < record->n_fields; i++)
		(void)json_object_set_new(object, record->fields[i].name,
					  json_value(&record->fields[i]));
	text = json_dumps(object,
			  JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
	wh_buf_puts(out, text ? text : "{}");
	free(text);
	json_decref(object);
}

void wh_log_line(wh_buf *out, const wh_log_head *head, const wherry_log_record *record)
{
	if (head->json) {
		put_json(out, head, record);
	} else {
		wh_buf_printf(out, "time=%s level=%s part=%s ", head->time,
			      wh_log_level_name(record->level), record->part);
		if (head->relay)
			wh_buf_printf(out, "relay=%s ", head->relay);
		wh_log_fields(out, record);
	}
	wh_buf_putc(out, '\n');
}
