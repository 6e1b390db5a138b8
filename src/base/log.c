/*
 * Writing log records.  A line of text can be parsed back into the record's fields,
 * whatever bytes a value holds.  A value is a plain word or a JSON string, in which every
 * character that could move a cursor is escaped.  Lines of JSON are ASCII.
 */
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static void put_quoted(wh_buf *out, const char *text, size_t len, bool ascii)
{
	wh_buf_putc(out, '"');
	for (size_t i = 0, n; i < len; i += n) {
		unsigned c;

		n = wh_utf8_len(text + i, len - i);
		c = wh_utf8_code(text + i, n);
		if (ascii && c > 0xffff) {
			wh_buf_escape(out, 0xd800 + ((c - 0x10000) >> 10));
			wh_buf_escape(out, 0xdc00 + (c & 0x3ff));
		} else if (c == '"' || c == '\\' || wh_utf8_unsafe(c) ||
			   (ascii && c > '~')) {
			wh_buf_escape(out, c);
		} else {
			wh_buf_put(out, text + i, n);
		}
	}
	wh_buf_putc(out, '"');
}

static void put_text(wh_buf *out, const char *text, size_t len)
{
	wh_buf clean = WH_BUF_INIT(out->most);

	put_clean(&clean, text, len);
	if (is_word(wh_buf_into(&clean, out), clean.len))
		wh_buf_put(out, clean.ptr, clean.len);
	else
		put_quoted(out, clean.ptr, clean.len, false);
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

static void put_name(wh_buf *out, const char *name)
{
	wh_buf_putc(out, ',');
	put_quoted(out, name, strlen(name), true);
	wh_buf_putc(out, ':');
}

static void put_member(wh_buf *out, const char *name, const char *text, size_t len)
{
	wh_buf clean = WH_BUF_INIT(4 * WH_LOG_TEXT_MAX);

	put_clean(&clean, text, len);
	put_name(out, name);
	put_quoted(out, wh_buf_into(&clean, out), clean.len, true);
	wh_buf_clear(&clean);
}

/* Append a number with a point or an exponent. */
static void put_seconds(wh_buf *out, int64_t us)
{
	char text[40];

	(void)snprintf(text, sizeof(text), "%.15g", (double)us / (double)WH_SECOND);
	wh_buf_puts(out, text);
	wh_buf_puts(out, strpbrk(text, ".e") ? "" : ".0");
}

static void put_json(wh_buf *out, const wh_log_head *head,
		     const wherry_log_record *record)
{
	const char *level = wh_log_level_name(record->level);

	wh_buf_puts(out, "{\"time\":");
	put_quoted(out, head->time, strlen(head->time), true);
	put_member(out, "level", level, strlen(level));
	put_member(out, "part", record->part, strlen(record->part));
	if (head->relay)
		put_member(out, "relay", head->relay, strlen(head->relay));
	put_member(out, "event", record->event, strlen(record->event));
	for (size_t i = 0; i < record->n_fields; i++) {
		const wherry_log_field *f = &record->fields[i];

		switch (f->type) {
		case WHERRY_LOG_TEXT:
			put_member(out, f->name, f->text, f->len);
			break;
		case WHERRY_LOG_NUMBER:
			put_name(out, f->name);
			wh_buf_int(out, f->number);
			break;
		case WHERRY_LOG_DURATION:
			put_name(out, f->name);
			put_seconds(out, f->number);
			break;
		}
	}
	wh_buf_putc(out, '}');
}

/* Append a line without the texts of others, which takes little memory. */
static void put_textless(wh_buf *out, bool json, const wherry_log_record *record)
{
	wh_buf_printf(out, json ? "{\"event\":\"%s\"}\n" : "event=%s\n", record->event);
}

void wh_log_line(wh_buf *out, const wh_log_head *head, const wherry_log_record *record)
{
	const size_t begin = out->len;

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
	if (out->failed) {
		out->len = begin;
		out->failed = WHERRY_OK;
		put_textless(out, head->json, record);
	}
}
