#include "base/buf.h"
#include "base/digest.h"
#include "schedule/schedule.h"

enum { TEXT_MAX = 1024 };

/* Append a time as the JVM's LocalTime prints it: without seconds if they are 0. */
static void put_time(wh_buf *out, int32_t time_s)
{
	wh_buf_printf(out, "%02d:%02d", time_s / 3600, time_s / 60 % 60);
	if (time_s % 60)
		wh_buf_printf(out, ":%02d", time_s % 60);
}

static void put_text(const wherry_schedule *s, wh_buf *out)
{
	switch (s->kind) {
	case WH_SCHEDULE_PERIOD:
		wh_buf_printf(out, "\nperiodic-tick:\n  period-ms: %lld\n",
			      (long long)s->period_ms);
		break;
	case WH_SCHEDULE_DAILY:
		wh_buf_printf(out, "\ndaily-cron:\n  zone: %s\n  hours: ",
			      wh_zone_name(s->zone));
		for (size_t i = 0; i < s->n_times; i++) {
			wh_buf_puts(out, i ? ", " : "");
			put_time(out, s->given_s[i]);
		}
		wh_buf_putc(out, '\n');
		break;
	case WH_SCHEDULE_CRONTAB:
		wh_buf_printf(out, "\ncrontab:\n  zone: %s\n  expression: %s\n",
			      wh_zone_name(s->zone), s->text);
		break;
	}
}

wherry_code wherry_schedule_hash(const wherry_schedule *schedule,
				 char out[WHERRY_HASH_LEN + 1], wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(TEXT_MAX);
	wherry_code code;

	wh_error_clear(err);
	if (!schedule || !out)
		return wh_fail(err, WHERRY_INVALID,
			       "a hash needs a schedule and a place");
	put_text(schedule, &text);
	code = wh_buf_check(&text, err);
	if (code == WHERRY_OK)
		code = wh_md5((wh_view){text.ptr, text.len}, out, err);
	wh_buf_clear(&text);
	return code;
}
