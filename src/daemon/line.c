/*
 * One event a line.  Events are written as key=value pairs; for machines they become JSON.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "daemon/daemon.h"
#include "publish/parts.h"

enum { LINE_MAX_LEN = 4096 };

/* The value at text: in quotes, or up to a blank.  Returns what is behind it. */
static const char *take_value(const char *text, wh_view *out)
{
	if (*text != '"') {
		*out = (wh_view){text, strcspn(text, " ")};
		return text + out->len;
	}
	/* Quotes within are not escaped: it ends where a pair or the line follows. */
	for (const char *end = text + 1; *end; end++) {
		const char *next = end + 1;

		if (*end != '"' || (*next && *next != ' '))
			continue;
		next += strspn(next, " ");
		if (*next && *next != '(' && !memchr(next, '=', strcspn(next, " \"")))
			continue;
		*out = (wh_view){text + 1, (size_t)(end - text - 1)};
		return end + 1;
	}
	*out = (wh_view){text + 1, strlen(text + 1)};
	return text + 1 + out->len;
}

void wh_line_json(wh_buf *out, const char *text)
{
	while (*(text += strspn(text, " "))) {
		size_t n = strcspn(text, "= ");
		wh_view value;

		wh_buf_putc(out, ',');
		if (text[n] != '=') { /* a remark for people */
			wh_buf_puts(out, "\"note\":");
			wh_buf_json(out, text, strlen(text));
			return;
		}
		wh_buf_json(out, text, n);
		wh_buf_putc(out, ':');
		text = take_value(text + n + 1, &value);
		wh_buf_json(out, value.ptr, value.len);
	}
}

void wh_line_write(wh_line_log *log, int level, const char *relay, const char *text)
{
	static const char *const levels[] = {"error", "warning", "info", "debug"};
	const char *word = levels[level < 0 ? 0 : level > 3 ? 3 : level];
	wh_buf line = WH_BUF_INIT(LINE_MAX_LEN);
	char time[WH_TIME_LEN];
	bool json, wanted;

	(void)pthread_mutex_lock(&log->lock);
	json = log->json;
	wanted = level <= log->level;
	(void)pthread_mutex_unlock(&log->lock);
	if (!wanted)
		return;
	wh_time_print(wh_now(&wh_env_system), time);
	if (json) {
		wh_buf_printf(&line, "{\"time\":\"%s\",\"level\":\"%s\"", time, word);
		if (relay)
			wh_buf_printf(&line, ",\"relay\":\"%s\"", relay);
		wh_line_json(&line, text);
		wh_buf_puts(&line, "}");
	} else {
		wh_buf_printf(&line, "time=%s level=%s%s%s %s", time, word,
			      relay ? " relay=" : "", relay ? relay : "", text);
	}
	wh_buf_putc(&line, '\n');
	log->put(wh_buf_str(&line));
	wh_buf_clear(&line);
}

void wh_line_printf(wh_line_log *log, int level, const char *relay, const char *fmt, ...)
{
	char text[1000];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	wh_line_write(log, level, relay, text);
}
