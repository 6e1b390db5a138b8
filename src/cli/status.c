#include "cli/status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is wrong ---- */

void wh_warn(wh_warned *out, const char *fmt, ...)
{
	va_list args;

	if (out->n == WH_WARNINGS)
		return;
	va_start(args, fmt);
	(void)vsnprintf(out->text[out->n++], WH_WARNING_MAX, fmt, args);
	va_end(args);
}

void wh_warn_dead(wh_warned *out, int64_t dead, const char *target)
{
	if (dead)
		wh_warn(out,
			"%" PRId64 " message%s dead: `wherry list%s --state dead` shows "
			"why; remove the cause, then `wherry retry%s --all`",
			dead, dead == 1 ? " is" : "s are", target, target);
}

void wh_print_warned(const wh_warned *warned)
{
	for (size_t i = 0; i < warned->n; i++) {
		wh_buf safe = WH_BUF_INIT(WH_WARNING_MAX * 2);

		wh_put_cell(&safe, warned->text[i], 0);
		(void)printf("%swarning%s     %s\n", wh_painted(WH_CARE),
			     wh_painted(WH_PLAIN), wh_buf_str(&safe));
		wh_buf_clear(&safe);
	}
}

void wh_print_well(const char *well)
{
	(void)printf("%sall is well%s: %s\n", wh_painted(WH_GOOD), wh_painted(WH_PLAIN),
		     well);
}

/* ---- as text ---- */

void wh_print_line(const char *name, const char *fmt, ...)
{
	wh_buf safe = WH_BUF_INIT(64 * 1024);
	char *text = NULL;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) < 0)
		text = NULL;
	va_end(args);
	wh_put_cell(&safe, text ? text : "", 0);
	(void)printf("%-11s %s\n", name, wh_buf_str(&safe));
	free(text);
	wh_buf_clear(&safe);
}

void wh_print_place(const wh_session *s, const char *layout, bool paused)
{
	wh_print_line("table", "%s in %s%s", s->table, s->url, paused ? " (paused)" : "");
	if (layout && strcmp(layout, "native") != 0)
		wh_print_line("layout", "%s", layout);
}

void wh_print_ready(int64_t ready, int64_t oldest_us)
{
	char span[WH_SPAN_LEN];

	(void)printf("ready       %" PRId64 "%s%s\n", ready,
		     ready ? ", the oldest for " : "",
		     ready ? wh_span_text(oldest_us, span) : "");
}

/* ---- as JSON ---- */

void wh_put_place(wh_buf *json, const wh_session *s, const char *layout)
{
	wh_buf_puts(json, "{\"table\":");
	wh_buf_json(json, s->table, strlen(s->table));
	wh_put_text_field(json, "kind", wh_kind_word(wh_kind_bits[s->kind]));
	wh_put_text_field(json, "layout", layout);
}

void wh_put_number_field(wh_buf *json, const char *name, int64_t number)
{
	wh_buf_printf(json, ",\"%s\":%" PRId64, name, number);
}

void wh_print_status_json(wh_buf *json, int schema_version, const wh_warned *warned)
{
	wh_put_number_field(json, "schema_version", schema_version);
	wh_buf_puts(json, ",\"warnings\":[");
	for (size_t i = 0; i < warned->n; i++) {
		wh_buf_puts(json, i ? "," : "");
		wh_buf_json(json, warned->text[i], strlen(warned->text[i]));
	}
	wh_buf_puts(json, "]}");
	wh_print_buf(json, "\n");
	wh_buf_clear(json);
}
