#include "wherry_test.h"

#include "base/date.h"
#include "schedule/schedule.h"

static wherry_schedule *parse(const char *text, const char *zone)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *s = NULL;

	WHERRY_PASS(wherry_schedule_parse(text, zone, &s, &err));
	return s;
}

static int64_t at(const char *time)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t us = 0;

	WHERRY_PASS(wh_time_parse(time, &us, &err));
	return us;
}

/* The times after `from` are these, in UTC, with blanks between them. */
static void expect(const char *text, const char *zone, const char *from,
		   const char *wanted)
{
	wherry_schedule *s = parse(text, zone);
	wherry_error err = WHERRY_ERROR_INIT;
	char got[1024] = "", time[WH_LOCAL_TIME_LEN];
	int64_t us = at(from);
	size_t n = 0;

	while (n < strlen(wanted)) {
		int64_t before = us;

		WHERRY_PASS(wherry_schedule_next(s, us, &us, &err));
		assert_true(us > before);
		wh_local_time_print(us, 0, time);
		n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%s", n ? " " : "",
				      time);
	}
	if (strcmp(got, wanted) != 0)
		print_error("'%s' in %s\n", text, zone ? zone : "UTC");
	assert_string_equal(got, wanted);
	wherry_schedule_free(s);
}

static void refused(const char *text, const char *zone, const char *why)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *s = NULL;

	WHERRY_FAILS(WHERRY_INVALID, wherry_schedule_parse(text, zone, &s, &err));
	assert_null(s);
	if (!strstr(err.message, why))
		print_error("'%s': %s\n", text, err.message);
	assert_non_null(strstr(err.message, why));
}

/* ---- expressions ---- */

WHERRY_TEST(crontab_expressions_name_their_times)
{
	static const char from[] = "2026-01-01T00:00:00Z"; /* a Thursday */

	expect("* * * * *", NULL, from, "2026-01-01T00:01:00Z 2026-01-01T00:02:00Z");
	expect("  0\t0  * *  * ", NULL, from, "2026-01-02T00:00:00Z");
	expect("*/25 3 * * *", NULL, from,
	       "2026-01-01T03:00:00Z 2026-01-01T03:25:00Z 2026-01-01T03:50:00Z "
	       "2026-01-02T03:00:00Z");
	expect("50/4 3 * * *", NULL, from,
	       "2026-01-01T03:50:00Z 2026-01-01T03:54:00Z 2026-01-01T03:58:00Z");
	expect("0 8-18/5,23 * * *", NULL, from,
	       "2026-01-01T08:00:00Z 2026-01-01T13:00:00Z 2026-01-01T18:00:00Z "
	       "2026-01-01T23:00:00Z");
	expect("0 0 29 2 *", NULL, from, "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z");
	expect("0 0 31 * *", NULL, from, "2026-01-31T00:00:00Z 2026-03-31T00:00:00Z");
	expect("0 0 * feb,DEC mOn", NULL, from,
	       "2026-02-02T00:00:00Z 2026-02-09T00:00:00Z 2026-02-16T00:00:00Z "
	       "2026-02-23T00:00:00Z 2026-12-07T00:00:00Z");
	expect("0 0 * * FRI-SUN", NULL, from,
	       "2026-01-02T00:00:00Z 2026-01-03T00:00:00Z 2026-01-04T00:00:00Z "
	       "2026-01-09T00:00:00Z");
	expect("0 0 * * 7", NULL, from, "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z");
	expect("0 0 * * 0", NULL, from, "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z");
	expect("0 0 * * 7/2", NULL, from, "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z");
	expect("0 0 * * MON,7/1", NULL, from,
	       "2026-01-04T00:00:00Z 2026-01-05T00:00:00Z 2026-01-11T00:00:00Z");
	expect("0 0 * * */3", NULL, from,
	       "2026-01-03T00:00:00Z 2026-01-04T00:00:00Z 2026-01-07T00:00:00Z");
}

WHERRY_TEST(a_day_matches_one_of_two_restricted_fields_and_else_both)
{
	static const char from[] = "2026-01-01T00:00:00Z";

	expect("0 0 13 * FRI", NULL, from,
	       "2026-01-02T00:00:00Z 2026-01-09T00:00:00Z 2026-01-13T00:00:00Z "
	       "2026-01-16T00:00:00Z");
	expect("0 0 1-31 * FRI", NULL, from, "2026-01-02T00:00:00Z 2026-01-03T00:00:00Z");
	expect("0 0 */7 * FRI", NULL, from, "2026-05-01T00:00:00Z 2026-05-08T00:00:00Z");
	expect("0 0 13 * */5", NULL, from, "2026-02-13T00:00:00Z 2026-03-13T00:00:00Z");
}

WHERRY_TEST(words_stand_for_expressions)
{
	static const char from[] = "2026-01-01T00:00:00Z";

	expect("@hourly", NULL, from, "2026-01-01T01:00:00Z");
	expect("@daily", NULL, from, "2026-01-02T00:00:00Z");
	expect("@Midnight", NULL, from, "2026-01-02T00:00:00Z");
	expect("@weekly", NULL, from, "2026-01-04T00:00:00Z");
	expect("@monthly", NULL, from, "2026-02-01T00:00:00Z");
	expect("@yearly", NULL, from, "2027-01-01T00:00:00Z");
	expect("@annually", NULL, from, "2027-01-01T00:00:00Z");
}

WHERRY_TEST(other_expressions_are_refused_by_field)
{
	refused("", NULL, "the schedule is empty");
	refused("  ", NULL, "the schedule is empty");
	refused("* * * *", NULL, "has 4 fields instead of five");
	refused("*", NULL, "has 1 field instead of five");
	refused("0 * * * * *", NULL, "there are no seconds");
	refused("60 * * * *", NULL,
		"the minute needs a number from 0 to 59 instead of '60'");
	refused("* 24 * * *", NULL, "the hour needs a number from 0 to 23");
	refused("* * 0 * *", NULL, "the day of month needs a number from 1 to 31");
	refused("* * * 13 *", NULL,
		"the month needs a number from 1 to 12 or JAN to DEC");
	refused("* * * * 8", NULL,
		"the day of week needs a number from 0 to 7 or SUN to SAT");
	refused("* * * MON *", NULL, "the month needs");
	refused("* JAN * * *", NULL, "the hour needs");
	refused("* * * JANU *", NULL, "the month needs");
	refused("-1 * * * *", NULL, "the minute needs");
	refused("1- * * * *", NULL,
		"the minute needs a number from 0 to 59 instead of ''");
	refused("1, * * * *", NULL, "the minute needs");
	refused("1-2-3 * * * *", NULL, "the minute needs");
	refused("*5 * * * *", NULL, "the minute needs");
	refused("1.5 * * * *", NULL, "the minute needs");
	refused("99999999999999999999 * * * *", NULL, "the minute needs");
	refused("*/0 * * * *", NULL,
		"the step of the minute must be a number from 1 to 59");
	refused("*/ * * * *", NULL, "the step of the minute");
	refused("*/60 * * * *", NULL, "the step of the minute");
	refused("* 22-2 * * *", NULL,
		"the range '22-2' of the hour ends before it begins");
	refused("* * * * FRI-MON", NULL, "the range 'FRI-MON' of the day of week");
	refused("* * ? * *", NULL, "the day of month '?' uses '?'");
	refused("* * L * *", NULL, "uses 'L'");
	refused("* * * * FRI#2", NULL, "'#'");
	refused("0 0 30 2 *", NULL, "names no day of any year");
	refused("0 0 31 2,4,6 *", NULL, "names no day of any year");
	refused("@reboot", NULL, "@reboot names no time");
	refused("@dayly", NULL, "did you mean @daily?");
	refused("@", NULL, "@every 15m");
}

/* ---- times of day, periods ---- */

WHERRY_TEST(times_of_day_occur_every_day_in_order)
{
	expect("18:00, 12:00", NULL, "2024-01-01T10:00:00Z",
	       "2024-01-01T12:00:00Z 2024-01-01T18:00:00Z 2024-01-02T12:00:00Z");
	expect("12:00,18:00", NULL, "2024-01-01T12:00:00Z", "2024-01-01T18:00:00Z");
	expect("12:00,18:00", NULL, "2024-01-01T11:59:59.999999Z",
	       "2024-01-01T12:00:00Z");
	expect(" 00:00:01 , 23:59:59 ", NULL, "2024-01-01T00:00:00Z",
	       "2024-01-01T00:00:01Z 2024-01-01T23:59:59Z 2024-01-02T00:00:01Z");
	refused("24:00", NULL, "'24:00' is not a time of day");
	refused("12:00,", NULL, "'' is not a time of day");
	refused("12:0", NULL, "not a time of day");
	refused("9:00", NULL, "not a time of day");
	refused("12:00 18:00", NULL, "write a comma");
	refused("12:00,18:00,12:00", NULL, "12:00 stands twice");
	refused("12:00:60", NULL, "not a time of day");
	refused("06:00:30.500", NULL, "'06:00:30.500' is not a time of day");
	refused("12:00:00.5", NULL, "not a time of day");
}

WHERRY_TEST(periods_are_counted_from_1970)
{
	expect("@every 1h", NULL, "2024-01-01T10:37:42.123Z", "2024-01-01T11:00:00Z");
	expect("@every 1h", NULL, "2024-01-01T11:00:00Z", "2024-01-01T12:00:00Z");
	expect("@every 7d", NULL, "1969-12-31T00:00:00Z",
	       "1970-01-01T00:00:00Z 1970-01-08T00:00:00Z");
	expect("@every 250ms", NULL, "1970-01-01T00:00:00.249Z",
	       "1970-01-01T00:00:00.250Z 1970-01-01T00:00:00.500Z 1970-01-01T00:00:00.750Z");
	refused("@every 0", NULL, "the period '0' must be");
	refused("@every 1us", NULL, "the period '1us' must be");
	refused("@every 1500us", NULL, "a whole number of milliseconds");
	refused("@every 40000d", NULL, "36525d");
	refused("@every", NULL, "@every 15m");
	refused("@every day", NULL, "'day'");
	refused("@every 1h", "Europe/Berlin", "leave out the zone Europe/Berlin");
}

/* ---- clocks that change ---- */

WHERRY_TEST(a_skipped_time_occurs_as_much_later)
{
	expect("30 2 * * *", "Europe/Amsterdam", "2024-03-30T00:00:00Z",
	       "2024-03-30T01:30:00Z 2024-03-31T01:30:00Z 2024-04-01T00:30:00Z");
	/* Also for a process that starts between the clock's change and that time. */
	expect("02:30", "Europe/Amsterdam", "2024-03-31T01:10:00Z",
	       "2024-03-31T01:30:00Z");
	/* The change is at midnight. */
	expect("@daily", "Africa/Cairo", "2024-04-25T12:00:00Z",
	       "2024-04-25T22:00:00Z 2024-04-26T21:00:00Z");
	/* By half an hour. */
	expect("15 2 * * *", "Australia/Lord_Howe", "2024-10-05T00:00:00Z",
	       "2024-10-05T15:45:00Z 2024-10-06T15:15:00Z");
	/* A day is left out: 2011-12-30. */
	expect("0 12 30 12 *", "Pacific/Apia", "2011-12-01T00:00:00Z",
	       "2011-12-30T22:00:00Z 2012-12-29T22:00:00Z");
}

WHERRY_TEST(two_times_that_fall_together_occur_once)
{
	expect("30 2,3 * * *", "Europe/Amsterdam", "2024-03-30T12:00:00Z",
	       "2024-03-31T01:30:00Z 2024-04-01T00:30:00Z 2024-04-01T01:30:00Z");
	expect("0 2 31 3 *", "Europe/Amsterdam", "2024-01-01T00:00:00Z",
	       "2024-03-31T01:00:00Z 2025-03-31T00:00:00Z");
	/* Those that are left out come among those that are not. */
	expect("45 2 * * *", "Europe/Amsterdam", "2024-03-31T00:59:00Z",
	       "2024-03-31T01:45:00Z");
	expect("02:45, 03:15", "Europe/Amsterdam", "2024-03-31T00:59:00Z",
	       "2024-03-31T01:15:00Z 2024-03-31T01:45:00Z 2024-04-01T00:45:00Z");
}

WHERRY_TEST(a_repeated_time_occurs_the_first_time_only)
{
	expect("30 2 * * *", "Europe/Amsterdam", "2024-10-26T12:00:00Z",
	       "2024-10-27T00:30:00Z 2024-10-28T01:30:00Z");
	/* Never in the past: 02:30 is over when the clock shows 02:10 again. */
	expect("02:30", "Europe/Amsterdam", "2024-10-27T01:10:00Z",
	       "2024-10-28T01:30:00Z");
	expect("02:30", "Europe/Amsterdam", "2024-10-27T00:30:00Z",
	       "2024-10-28T01:30:00Z");
	expect("0 1-3 * * *", "Europe/Amsterdam", "2024-10-26T12:00:00Z",
	       "2024-10-26T23:00:00Z 2024-10-27T00:00:00Z 2024-10-27T02:00:00Z");
	expect("0 1 3 11 *", "America/New_York", "2024-01-01T00:00:00Z",
	       "2024-11-03T05:00:00Z 2025-11-03T06:00:00Z");
	/* The change is at midnight, back to the day before. */
	expect("30 23 * * *", "Africa/Cairo", "2024-10-31T00:00:00Z",
	       "2024-10-31T20:30:00Z 2024-11-01T21:30:00Z");
}

WHERRY_TEST(an_expression_of_every_hour_keeps_its_interval)
{
	expect("30 * * * *", "Europe/Amsterdam", "2024-10-26T23:45:00Z",
	       "2024-10-27T00:30:00Z 2024-10-27T01:30:00Z 2024-10-27T02:30:00Z");
	expect("30 * * * *", "Europe/Amsterdam", "2024-03-30T23:45:00Z",
	       "2024-03-31T00:30:00Z 2024-03-31T01:30:00Z 2024-03-31T02:30:00Z");
	expect("*/30 0-23 27 10 *", "Europe/Amsterdam", "2024-10-27T00:10:00Z",
	       "2024-10-27T00:30:00Z 2024-10-27T01:00:00Z 2024-10-27T01:30:00Z");
}

static void hash(const char *text, const char *zone, const char *wanted)
{
	wherry_schedule *s = parse(text, zone);
	wherry_error err = WHERRY_ERROR_INIT;
	char got[WHERRY_HASH_LEN + 1];

	WHERRY_PASS(wherry_schedule_hash(s, got, &err));
	assert_string_equal(got, wanted);
	wherry_schedule_free(s);
}

/* The vectors of the JVM library DelayedQueue, and sums of md5sum. */
WHERRY_TEST(a_hash_is_that_of_the_jvm_library)
{
	hash("@every 1h", NULL, "4916474562628112070d240d515ba44d");
	hash("@every 60m", NULL, "4916474562628112070d240d515ba44d");
	hash("12:00, 18:00", NULL, "ac4a97d66f972bdaad77be2731bb7c2a");
	hash("12:00,18:00", "UTC", "ac4a97d66f972bdaad77be2731bb7c2a");
	hash("18:00, 12:00:30", "Europe/Berlin", "94291f9728b7eeed0e45d48316b3c6a7");
	hash("0 6 * * *", "Europe/Berlin", "9bfd30890de297d9c6ad32edf30410fb");
}

WHERRY_TEST(times_end_with_the_year_9999)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *yearly = parse("@yearly", "Europe/Berlin"),
			*often = parse("@every 36525d", NULL);
	int64_t us = 77;

	expect("@yearly", "Europe/Berlin", "9998-06-01T00:00:00Z",
	       "9998-12-31T23:00:00Z");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_schedule_next(yearly, at("9999-12-31T23:30:00Z"), &us, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_schedule_next(often, at("9999-06-01T00:00:00Z"), &us, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_schedule_next(yearly, INT64_MAX, &us, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_schedule_next(yearly, INT64_MIN, &us, &err));
	assert_true(us == 77);
	expect("@yearly", "Europe/Berlin", "0001-01-01T00:00:00Z",
	       "0001-12-31T23:06:32Z");
	wherry_schedule_free(yearly);
	wherry_schedule_free(often);
}

WHERRY_TEST(missing_arguments_are_refused)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *s = parse("@daily", NULL);
	char text[300];
	int64_t us;

	memset(text, ' ', sizeof(text));
	text[sizeof(text) - 1] = 0;
	refused(text, NULL, "has 299 bytes, and may have 256");
	WHERRY_FAILS(WHERRY_INVALID, wherry_schedule_parse(NULL, NULL, &s, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_schedule_parse("@daily", NULL, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_schedule_next(NULL, 0, &us, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_schedule_next(s, 0, NULL, &err));
	wherry_schedule_free(s);
	wherry_schedule_free(NULL);
}

WHERRY_TEST_MAIN
