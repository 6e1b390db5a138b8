#include "cli/commands.h"

#include <inttypes.h>
#include <string.h>

#include "base/date.h"
#include "base/env.h"
#include "cli/cron_words.h"
#include "schedule/schedule.h"

/* ---- next ---- */

enum { SHOWN = 10, SHOWN_MAX = 10000 };

static const char *const weekdays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};

static void print_time(const wherry_schedule *schedule, int64_t at_us, bool json)
{
	int32_t offset = wh_schedule_offset(schedule, at_us);
	int64_t local_s = wh_floor_div(at_us, 1000000) + offset;
	char utc[WH_LOCAL_TIME_LEN], local[WH_LOCAL_TIME_LEN];

	wh_local_time_print(at_us, 0, utc);
	wh_local_time_print(at_us, offset, local);
	if (json)
		(void)printf("{\"at\":\"%s\",\"local\":\"%s\",\"unix_ms\":%" PRId64 "}\n",
			     utc, local, at_us / 1000);
	else
		(void)printf("%s %s\n",
			     weekdays[wh_date_weekday(wh_floor_div(local_s, WH_DAY))],
			     local);
}

static wh_exit print_times(const wh_args *args, const wherry_schedule *schedule,
			   int64_t at_us, int64_t n)
{
	wherry_error err = WHERRY_ERROR_INIT;

	while (n--) {
		wherry_code code = wherry_schedule_next(schedule, at_us, &at_us, &err);

		if (code == WHERRY_INVALID)
			return wh_usage(args->command, "%s", err.message);
		if (code != WHERRY_OK)
			return wh_report(&err);
		print_time(schedule, at_us, wh_arg_on(args, "json"));
	}
	return WH_EXIT_DONE;
}

static wh_exit run_next(wh_args *args)
{
	const char *from = wh_arg(args, "from");
	int64_t n = SHOWN, at_us = wh_now(&wh_env_system);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *schedule = NULL;
	wherry_code code = WHERRY_OK;
	wh_exit status;

	if (!wh_arg_count(args, "count", 1, SHOWN_MAX, &n))
		return WH_EXIT_USAGE;
	if (from)
		code = wh_time_parse(from, &at_us, &err);
	if (code != WHERRY_OK)
		return wh_usage(args->command, "--from: %s", err.message);
	code = wherry_schedule_parse(wh_operand(args, 0), wh_arg(args, "zone"), &schedule,
				     &err);
	if (code != WHERRY_OK)
		return code == WHERRY_INVALID ? wh_usage(args->command, "%s", err.message)
					      : wh_report(&err);
	status = print_times(args, schedule, at_us, n);
	wherry_schedule_free(schedule);
	return status;
}

static const wh_option next_options[] = {
	{"zone", "NAME",
	 "A zone of the tz database, such as Europe/Berlin. (default UTC)", NULL, 0},
	{"from", "TIME",
	 "The times after this one, such as 2026-03-29T00:00:00Z. (default now)", NULL,
	 0},
	{"count", "N", "How many times. (1 to 10000; default 10)", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

static const wh_command next = {
	.name = "cron next",
	.operands = "SCHEDULE",
	.synopsis = "SCHEDULE [--zone NAME] [--from TIME] [--count N] [--json]",
	.brief = "Show the next times of a schedule",
	.help = "A schedule is a crontab expression of five fields, @hourly, @daily, @weekly, "
		"@monthly or @yearly, times of day such as '12:00, 18:00', or a period such as "
		"'@every 15m'.\n"
		"\n"
		"If a time is skipped because the zone's clock is put forward, it occurs later "
		"by the time that was skipped (02:30 becomes 03:30). If it is repeated because the clock is put back, it occurs the "
		"first time only. An expression whose hour is * occurs in both hours.\n"
		"\n"
		"Examples:\n"
		"  wherry cron next '30 2 * * *' --zone Europe/Berlin\n"
		"  wherry cron next '0 9 * * MON-FRI' --zone America/New_York --count 3\n",
	.options = next_options,
	.plain = true,
	.run = run_next,
};

static const wh_command *const words[] = {
	&next,
	&wh_cron_install_word,
	&wh_cron_uninstall_word,
	&wh_cron_forget_word,
	&wh_cron_list_word,
	NULL,
};

const wh_command wh_cmd_cron = {
	.name = "cron",
	.operands = "",
	.synopsis = "COMMAND ...",
	.brief = "Make messages at the times of schedules",
	.help = "`next` shows the times of a schedule. `install` puts its ticks on a delayed "
		"queue, where they can be polled at their times. The list cron in "
		"wherry.yaml lets `wherry run` write a message to an outbox, a queue or a "
		"delayed queue at each time. `wherry help cron COMMAND` explains a command.\n"
		"\n"
		"Examples:\n"
		"  wherry cron next '30 2 * * *' --zone Europe/Berlin\n"
		"  wherry create --kind cron sqlite:shop.db\n"
		"  wherry cron install sqlite:shop.db#delayed/jobs report '0 6 * * *' "
		"--ahead 7d\n",
	.plain = true,
	.words = words,
};
