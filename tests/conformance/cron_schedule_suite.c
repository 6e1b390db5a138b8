#include "cron_fixture.h"

#include "base/date.h"

/* ---- the ticks of a schedule ---- */

static int64_t schedule(fixture *f, const char *text, const char *zone, int64_t ahead_us,
			wherry_catch_up catch_up)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *s = NULL;
	int64_t n = -7;

	WHERRY_PASS(wherry_schedule_parse(text, zone, &s, &err));
	WHERRY_PASS(wherry_cron_install_schedule(f->cron, f->queue, cron_prefix, s,
						 ahead_us, catch_up, "x", 1, &n, &err));
	wherry_schedule_free(s);
	return n;
}

WHERRY_CASE(a_period_has_one_tick_ahead_on_its_boundary, fixture *f)
{
	f->now_us = T0_US + 2262123000; /* 10:37:42.123 */
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_NONE), 1);
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_NONE), 0);
	cron_expect_ticks(f, "110000");
	f->now_us = T0_US + HOUR_US;
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_NONE), 1);
	cron_handle(f, "x");
	assert_string_equal(
		f->key,
		"tick-/4916474562628112070d240d515ba44d/20240101-110000.000000000");
	cron_expect_ticks(f, "120000");
}

WHERRY_CASE(times_of_day_are_installed_ahead, fixture *f)
{
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 3 * HOUR_US, WHERRY_CATCH_UP_NONE), 1);
	cron_expect_ticks(f, "120000");
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 48 * HOUR_US, WHERRY_CATCH_UP_NONE), 3);
	cron_expect_ticks(f, "120000 180000 120000 180000");
}

WHERRY_CASE(a_time_of_day_that_has_come_is_not_installed, fixture *f)
{
	cron_at(f, 2 * 3600); /* 12:00 */
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 7 * HOUR_US, WHERRY_CATCH_UP_NONE), 1);
	cron_expect_ticks(f, "180000");
}

WHERRY_CASE(times_of_the_next_day_are_installed_in_the_evening, fixture *f)
{
	cron_at(f, 10 * 3600); /* 20:00 */
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 24 * HOUR_US, WHERRY_CATCH_UP_NONE), 2);
	cron_expect_ticks(f, "120000 180000");
}

WHERRY_CASE(of_the_times_of_a_day_the_later_ones_are_installed, fixture *f)
{
	assert_int_equal(schedule(f, "09:00, 12:00, 18:00", NULL, 12 * HOUR_US,
				  WHERRY_CATCH_UP_NONE),
			 2);
	cron_expect_ticks(f, "120000 180000");
}

static wherry_code expect_new_body(void *ctx, const wherry_delayed_message *msg)
{
	++*(int *)ctx;
	assert_int_equal(msg->body_len, 3);
	return WHERRY_OK;
}

WHERRY_CASE(ticks_have_another_body_after_an_uninstall_and_an_install, fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *s = NULL;
	char hash[WHERRY_HASH_LEN + 1];
	int64_t n_new = 0;
	int n = 0;

	assert_int_equal(
		schedule(f, "@every 1h", NULL, 3 * HOUR_US, WHERRY_CATCH_UP_NONE), 3);
	cron_at(f, 3600);
	cron_handle(f, "x");
	WHERRY_PASS(wherry_schedule_parse("@every 1h", NULL, &s, &err));
	WHERRY_PASS(wherry_schedule_hash(s, hash, &err));
	assert_int_equal(cron_uninstall(f, cron_prefix, hash), 2);
	WHERRY_PASS(wherry_cron_install_schedule(f->cron, f->queue, cron_prefix, s,
						 2 * HOUR_US, WHERRY_CATCH_UP_ALL, "new",
						 3, &n_new, &err));
	assert_int_equal(n_new, 2);
	WHERRY_PASS(wherry_delayed_list(f->queue, NULL, expect_new_body, &n, &err));
	assert_int_equal(n, 2);
	wherry_schedule_free(s);
}

/* The reference may install a time that has passed while the clock is put back, again and again. */
WHERRY_CASE(no_tick_is_repeated_while_the_clock_is_put_back, fixture *f)
{
	f->now_us = 1729987200LL * SECOND_US; /* 2024-10-27T00:00:00Z */
	assert_int_equal(
		schedule(f, "02:30", "Europe/Amsterdam", 0, WHERRY_CATCH_UP_NONE), 1);
	f->now_us += 1800LL * SECOND_US;
	cron_handle(f, "x");
	for (int i = 0; i < 8; i++) {
		f->now_us += 600LL * SECOND_US;
		(void)schedule(f, "02:30", "Europe/Amsterdam", 0, WHERRY_CATCH_UP_NONE);
		assert_string_equal(cron_poll_one(f), "");
	}
	cron_expect_ticks(f, "013000");
}

WHERRY_CASE(a_clock_that_was_set_back_repeats_no_tick_of_a_schedule, fixture *f)
{
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	cron_at(f, 3600);
	cron_handle(f, "x");
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	cron_at(f, 60);
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_ALL), 0);
	assert_int_equal(schedule(f, "12:30", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	(void)schedule(f, "@every 1h", NULL, 2 * HOUR_US, WHERRY_CATCH_UP_ALL);
	cron_expect_ticks(f, "120000");
}

static int64_t drop_all(fixture *f)
{
	const wherry_delayed_filter filter = WHERRY_DELAYED_FILTER(.prefix = cron_prefix);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	WHERRY_PASS(wherry_delayed_drop_many(f->queue, &filter, &n, &err));
	return n;
}

/* The JVM library's own cron removes ticks of another hash, and an operator a queue's messages. */
WHERRY_CASE(ticks_whose_messages_others_removed_are_made_again, fixture *f)
{
	static const double times[] = {1800, 7200, 10800};

	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 48 * HOUR_US, WHERRY_CATCH_UP_NONE), 4);
	assert_int_equal(drop_all(f), 4);
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 48 * HOUR_US, WHERRY_CATCH_UP_NONE), 4);
	cron_expect_ticks(f, "120000 180000 120000 180000");
	cron_at(f, 2 * 3600);
	cron_handle(f, "x");
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 48 * HOUR_US, WHERRY_CATCH_UP_ALL), 1);
	assert_int_equal(drop_all(f), 4);
	cron_at(f, 0);
	assert_int_equal(cron_install(f, cron_prefix, "A", "abc", times), 3);
	assert_int_equal(drop_all(f), 3);
	/* The tick at half past ten may have been done. */
	assert_int_equal(cron_install(f, cron_prefix, "A", "abc", times), 2);
	cron_expect_ticks(f, "120000 130000");
}

WHERRY_CASE(a_clock_that_was_a_year_ahead_silences_no_schedule, fixture *f)
{
	assert_int_equal(schedule(f, "@hourly", NULL, 2 * HOUR_US, WHERRY_CATCH_UP_NONE),
			 2);
	cron_expect_ticks(f, "110000 120000");
	cron_at(f, 365 * 86400.0 + 600);
	assert_int_equal(schedule(f, "@hourly", NULL, 2 * HOUR_US, WHERRY_CATCH_UP_NONE),
			 2);
	cron_at(f, 600);
	assert_int_equal(schedule(f, "@hourly", NULL, 4 * HOUR_US, WHERRY_CATCH_UP_NONE),
			 2);
	cron_expect_ticks(f, "110000 120000 130000 140000 110000 120000");
}

WHERRY_CASE(a_schedule_that_is_forgotten_begins_anew, fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	assert_int_equal(cron_install_one(f, "A", "a", 100), 1);
	assert_int_equal(cron_install(f, "other", "A", "b", (const double[]){100}), 1);
	cron_at(f, 100);
	cron_handle(f, "a");
	cron_at(f, 0);
	assert_int_equal(cron_install_one(f, "A", "a", 100), 0);
	WHERRY_PASS(wherry_cron_forget(f->cron, cron_prefix, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wherry_cron_forget(f->cron, cron_prefix, &n, &err));
	assert_int_equal(n, 0);
	assert_int_equal(cron_install_one(f, "A", "a", 100), 1);
	assert_int_equal(cron_install(f, "other", "A", "b", (const double[]){100}), 0);
}

/* Install a schedule of each hour at 10:00, come back at 14:20, and count the ticks that are due. */
static void come_back(fixture *f, wherry_catch_up catch_up, const char *wanted)
{
	assert_int_equal(schedule(f, "@hourly", NULL, 0, catch_up), 1);
	cron_at(f, 3600);
	cron_handle(f, "x");
	cron_at(f, 4 * 3600 + 1200);
	(void)schedule(f, "@hourly", NULL, 0, catch_up);
	cron_expect_ticks(f, wanted);
	assert_int_equal(schedule(f, "@hourly", NULL, 0, catch_up), 0);
}

static void missed_times_are_skipped(void **state)
{
	come_back(*state, WHERRY_CATCH_UP_NONE, "150000");
}

static void or_the_last_of_them_is_made_up_for(void **state)
{
	come_back(*state, WHERRY_CATCH_UP_LAST, "140000 150000");
}

static void or_all_of_them_are(void **state)
{
	come_back(*state, WHERRY_CATCH_UP_ALL, "120000 130000 140000 150000");
}

WHERRY_CASE(a_schedule_that_comes_back_begins_at_its_next_time, fixture *f)
{
	assert_int_equal(schedule(f, "12:00", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	assert_int_equal(schedule(f, "13:00", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	cron_expect_ticks(f, "130000");
	cron_at(f, 72 * 3600);
	assert_int_equal(schedule(f, "12:00", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	cron_handle(f, "x"); /* of 13:00 */
	cron_expect_ticks(f, "120000");
}

/* ---- what it remembers ---- */

static wherry_code note_entry(void *ctx, const wherry_cron_entry *entry)
{
	char *text = ctx;

	(void)snprintf(text + strlen(text), ROOM - strlen(text), "%s %s %s %d;",
		       strncmp(entry->target, "delayed later ", 14) == 0 ? "later"
									 : entry->target,
		       entry->name, entry->hash, entry->active);
	return WHERRY_OK;
}

WHERRY_CASE(a_cron_lists_what_it_remembers, fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char text[ROOM] = "";

	assert_int_equal(cron_install_one(f, "A", "a", 10), 1);
	assert_int_equal(cron_install_one(f, "B", "b", 10), 1);
	WHERRY_PASS(wherry_cron_list(f->cron, note_entry, text, &err));
	assert_string_equal(text, "later tick- A 0;later tick- B 1;");
	WHERRY_PASS(wherry_cron_drop(f->cron, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_cron_list(f->cron, note_entry, text, &err));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_CRON);
}

static wherry_code note_words(void *ctx, const wherry_cron_entry *entry)
{
	char *text = ctx;

	(void)snprintf(text + strlen(text), ROOM - strlen(text), "%s|%s|%s;",
		       entry->schedule ? entry->schedule : "-",
		       entry->zone ? entry->zone : "-",
		       entry->sends_to ? entry->sends_to : "-");
	return WHERRY_OK;
}

WHERRY_CASE(a_cron_remembers_schedules_as_they_were_written, fixture *f)
{
	static const char daily[] = "12:00, 18:00|Europe/Berlin|delayed queue my-queue;",
			  hourly[] = "@every 1h|-|delayed queue my-queue;";
	wherry_error err = WHERRY_ERROR_INIT;
	char text[ROOM] = "", again[ROOM] = "";

	assert_int_equal(cron_install(f, "plain", "A", "", NULL), 0);
	assert_int_equal(
		schedule(f, "12:00, 18:00", "Europe/Berlin", 0, WHERRY_CATCH_UP_NONE), 1);
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_NONE), 1);
	WHERRY_PASS(wherry_cron_list(f->cron, note_words, text, &err));
	assert_non_null(strstr(text, "-|-|delayed queue my-queue;"));
	assert_non_null(strstr(text, daily));
	assert_non_null(strstr(text, hourly));
	WHERRY_PASS(wherry_cron_create(f->db, NULL, &err));
	WHERRY_PASS(wherry_cron_list(f->cron, note_words, again, &err));
	assert_string_equal(again, text);
}

/* ---- the list ---- */

const struct CMUnitTest cron_schedule_cases[] = {
	cmocka_unit_test(a_clock_that_was_set_back_repeats_no_tick_of_a_schedule),
	cmocka_unit_test(ticks_whose_messages_others_removed_are_made_again),
	cmocka_unit_test(a_clock_that_was_a_year_ahead_silences_no_schedule),
	cmocka_unit_test(a_schedule_that_is_forgotten_begins_anew),
	cmocka_unit_test(a_period_has_one_tick_ahead_on_its_boundary),
	cmocka_unit_test(times_of_day_are_installed_ahead),
	cmocka_unit_test(a_time_of_day_that_has_come_is_not_installed),
	cmocka_unit_test(times_of_the_next_day_are_installed_in_the_evening),
	cmocka_unit_test(of_the_times_of_a_day_the_later_ones_are_installed),
	cmocka_unit_test(ticks_have_another_body_after_an_uninstall_and_an_install),
	cmocka_unit_test(no_tick_is_repeated_while_the_clock_is_put_back),
	cmocka_unit_test(missed_times_are_skipped),
	cmocka_unit_test(or_the_last_of_them_is_made_up_for),
	cmocka_unit_test(or_all_of_them_are),
	cmocka_unit_test(a_schedule_that_comes_back_begins_at_its_next_time),
	cmocka_unit_test_setup(a_cron_lists_what_it_remembers, cron_make_owner),
	cmocka_unit_test_setup(a_cron_remembers_schedules_as_they_were_written,
			       cron_make_owner),
};
const size_t n_cron_schedule_cases =
	sizeof(cron_schedule_cases) / sizeof(*cron_schedule_cases);
