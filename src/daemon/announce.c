/*
 * Says in the log that a relay starts.
 */
#include <string.h>

#include "base/url.h"
#include "daemon/daemon.h"

enum { WARNINGS_MAX = 4096 };

static void warn(wh_daemon *d, const wh_plan_relay *relay, const char *url)
{
	wh_buf text = WH_BUF_INIT(WARNINGS_MAX);

	wh_publisher_warn(url, relay->config, &text);
	for (const char *line = wh_buf_str(&text); *line; line += strcspn(line, "\n") + 1)
		wh_line(&d->log, WHERRY_LOG_WARN, relay->name, "insecure",
			wh_log_bytes("why", line, strcspn(line, "\n")));
	wh_buf_clear(&text);
}

/* Was the line logged for another relay already?  Some are about the program's environment. */
static bool is_new(wh_daemon *d, const char *line, size_t len)
{
	const char *at = wh_buf_str(&d->warned);

	for (; *at; at += strcspn(at, "\n") + 1)
		if (strcspn(at, "\n") == len && memcmp(at, line, len) == 0)
			return false;
	wh_buf_put(&d->warned, line, len);
	wh_buf_putc(&d->warned, '\n');
	return true;
}

static void warn_settings(wh_daemon *d, const wh_plan_relay *relay)
{
	wh_buf text = WH_BUF_INIT(WARNINGS_MAX);
	size_t len;

	wh_publisher_warn_settings(relay->config, &text);
	for (const char *line = wh_buf_str(&text); *line; line += len + 1) {
		len = strcspn(line, "\n");
		if (is_new(d, line, len))
			wh_line(&d->log, WHERRY_LOG_WARN, relay->name, "setting-ignored",
				wh_log_bytes("why", line, len));
	}
	wh_buf_clear(&text);
}

void wh_daemon_announce(wh_daemon *d, const wh_plan_relay *relay)
{
	const char *table = wh_url_table(relay->from.value);
	char from[200], to[200];

	wh_url_show(relay->from.value, from, sizeof(from));
	wh_url_show(relay->to.value, to, sizeof(to));
	wh_line(&d->log, WHERRY_LOG_INFO, relay->name, "start", wh_log_text("from", from),
		wh_log_text("table",
			    table ? table
				  : wh_config_text(relay->config, WH_RELAY_TABLE)),
		wh_log_text(relay->match.value ? "match" : "to",
			    relay->match.value ? relay->match.value : to),
		relay->match.value ? wh_log_text("to", to) : WH_LOG_END_);
	warn(d, relay, relay->to.value);
	warn(d, relay, wh_config_text(relay->config, WH_RELAY_DEAD_LETTERS));
	warn_settings(d, relay);
}
