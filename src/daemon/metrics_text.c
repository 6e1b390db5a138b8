/*
 * Prometheus' text format.
 */
#include "daemon/daemon.h"

void wh_metrics_head(wh_buf *out, const char *name, const char *type, const char *help)
{
	wh_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void wh_metrics_label(wh_buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			wh_buf_putc(out, '\\');
		if (*text == '\n')
			wh_buf_puts(out, "\\n");
		else
			wh_buf_putc(out, *text);
	}
}
