#include "store/relay_report.h"

#include <string.h>

#include "base/duration.h"
#include "base/text.h"

static int64_t age_ms(const wh_store *store, int64_t at_us)
{
	int64_t now = wh_monotonic(store->db->env);

	if (at_us < 0)
		return -1;
	return now > at_us ? (now - at_us) / 1000 : 0;
}

wh_report_values wh_report_now(const wh_store *store)
{
	const wh_relay_report *report = store->report;

	if (!report)
		return (wh_report_values){.state = wh_view_of(WH_STATE_LEADING),
					  .destination = wh_view_of(""),
					  .error = wh_view_of(""),
					  .delivered_age = -1,
					  .error_age = -1};
	return (wh_report_values){
		.state = wh_view_of(report->state),
		.destination = wh_view_of(report->destination),
		.error = wh_view_of(report->error),
		.delivered = report->delivered,
		.delivered_age = age_ms(store, report->delivered_us),
		.error_age = age_ms(store, report->error_us),
	};
}

static bool begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

bool wh_report_is_of_server(const char *error)
{
	return begins(error, WH_OTHER_SERVER) || begins(error, WH_SERVER_BEGAN) ||
	       begins(error, WH_WENT_BACK);
}

bool wh_report_is_failure(const char *error)
{
	return !begins(error, WH_WRITES_LARGE) && !begins(error, WH_MAY_LOSE) &&
	       !wh_report_is_of_server(error);
}

/* Append a destination's answer, so that a terminal can show it. */
static void put_plain(wh_buf *out, const char *text)
{
	for (size_t len = strlen(text), n; len; text += n, len -= n) {
		n = wh_utf8_len(text, len);
		if (!n || wh_utf8_unsafe(wh_utf8_code(text, n)))
			wh_buf_putc(out, ' ');
		else
			wh_buf_put(out, text, n);
		n = n ? n : 1;
	}
}

void wh_report_put_refusal(wh_buf *out, const char *destination, const char *error,
			   int64_t since_us)
{
	enum { SPAN_LEN = 24 };
	char span[SPAN_LEN];

	wh_buf_puts(out, "destination refuses: ");
	put_plain(out, *error ? error : "it gave no reason");
	if (*destination) {
		wh_buf_puts(out, ", to ");
		put_plain(out, destination);
	}
	if (since_us < 0)
		return;
	wh_duration_print(since_us, span, sizeof(span));
	wh_buf_printf(out, " for %s", span);
}
