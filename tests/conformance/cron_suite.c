#include "cron_suite.h"

#include "base/date.h"
#include "cron_fixture.h"

#define T0_US (1704103200LL * 1000000) /* 2024-01-01 10:00:00 UTC */

enum { ROOM = 2000 };

static const char prefix[] = "tick-";

static const char *layout_of_suite;

static int64_t clock_of(void *ctx)
{
	return ((fixture *)ctx)->now_us;
}

static int make(void **state)
{
	fixture *f = calloc(1, sizeof(*f));
	wherry_error err = WHERRY_ERROR_INIT;

	assert_non_null(f);
	f->backend = *state;
	f->place = f->backend->make();
	f->db = f->backend->connect(f->place);
	assert_non_null(f->db);
	f->now_us = T0_US;
	WHERRY_PASS(wherry_delayed_create(f->db, "later", layout_of_suite, &err));
	WHERRY_PASS(
		wherry_delayed_open(f->db, "later", "my-queue", NULL, &f->queue, &err));
	wherry_delayed_set_clock(f->queue, clock_of, f);
	WHERRY_PASS(wherry_cron_create(f->db, NULL, &err));
	WHERRY_PASS(wherry_cron_create(f->db, NULL, &err));
	WHERRY_PASS(wherry_cron_open(f->db, NULL, &f->cron, &err));
	*state = f;
	return 0;
}

static int drop(void **state)
{
	fixture *f = *state;

	wherry_cron_close(f->cron);
	wherry_delayed_close(f->queue);
	assert_true(f->backend->disconnect(f->db));
	f->backend->drop(f->place);
	free(f);
	return 0;
}

/* ---- what the tests say ---- */

/* Install ticks whose bodies are these letters, so many seconds from T0; returns how many are
 * new. */
static int64_t install(fixture *f, const char *under, const char *hash,
		       const char *bodies, const double *seconds)
{
	wherry_error err = WHERRY_ERROR_INIT;
	size_t n = strlen(bodies);
	wherry_tick ticks[10] = {{0}};
	int64_t created = -7;

	for (size_t i = 0; i < n; i++)
		ticks[i] = (wherry_tick){.at_us = T0_US + (int64_t)(seconds[i] * 1e6),
					 .body = bodies + i,
					 .body_len = 1};
	WHERRY_PASS(wherry_cron_install(f->cron, f->queue, under, hash, ticks, n,
					&created, &err));
	return created;
}

static int64_t install_one(fixture *f, const char *hash, const char *body, double seconds)
{
	return install(f, prefix, hash, body, &seconds);
}

static int64_t uninstall(fixture *f, const char *under, const char *hash)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -7;

	WHERRY_PASS(wherry_cron_uninstall(f->cron, f->queue, under, hash, &n, &err));
	return n;
}

static wherry_code note(void *ctx, const wherry_delayed_message *msg)
{
	fixture *f = ctx;

	(void)snprintf(f->body, sizeof(f->body), "%.*s", (int)msg->body_len,
		       (const char *)msg->body);
	(void)snprintf(f->key, sizeof(f->key), "%s", msg->key);
	(void)snprintf(f->token, sizeof(f->token), "%s", msg->token);
	f->redelivery = msg->redelivery;
	return WHERRY_OK;
}

/* Poll one message under a lease of 5 s; "" if there is none. */
static const char *poll_one(fixture *f)
{
	const wherry_poll_options options =
		WHERRY_POLL_OPTIONS(.limit = 1, .lease_us = 5 * SECOND_US);
	wherry_error err = WHERRY_ERROR_INIT;

	f->body[0] = 0;
	WHERRY_PASS(wherry_delayed_poll(f->queue, &options, note, f, NULL, &err));
	return f->body;
}

/* Poll a message with this body, and acknowledge it. */
static void handle(fixture *f, const char *body)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *token = f->token;
	wherry_ack_outcome outcome;

	assert_string_equal(poll_one(f), body);
	WHERRY_PASS(wherry_delayed_ack(f->queue, &token, 1, &outcome, &err));
	assert_int_equal(outcome, WHERRY_ACKNOWLEDGED);
}

static void at(fixture *f, double seconds)
{
	f->now_us = T0_US + (int64_t)(seconds * 1e6);
}

typedef struct keys {
	char text[ROOM]; /* the times of their ticks, "110000 120000" */
	int n;
} keys;

static wherry_code add_key(void *ctx, const wherry_delayed_message *msg)
{
	const char *time = strrchr(msg->key, '-');
	keys *k = ctx;

	(void)snprintf(k->text + strlen(k->text), sizeof(k->text) - strlen(k->text),
		       "%s%.6s", k->n++ ? " " : "", time ? time + 1 : "?");
	return WHERRY_OK;
}

/* The times of the ticks that the queue has. */
static void expect_ticks(fixture *f, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	keys k = {.n = 0};

	WHERRY_PASS(wherry_delayed_list(f->queue, NULL, add_key, &k, &err));
	assert_string_equal(k.text, wanted);
}

/* ---- sets of ticks ---- */

static void ticks_become_available_at_their_times(void **state)
{
	static const double times[] = {10, 20};
	fixture *f = *state;

	assert_int_equal(install(f, prefix, "A", "ab", times), 2);
	assert_string_equal(poll_one(f), "");
	at(f, 15);
	handle(f, "a");
	assert_string_equal(poll_one(f), "");
	at(f, 25);
	handle(f, "b");
	assert_string_equal(poll_one(f), "");
}

static void a_key_has_the_nominal_time_with_its_fraction(void **state)
{
	static const double times[] = {0.1, 0.9};
	wherry_error err = WHERRY_ERROR_INIT;
	char key[WHERRY_TICK_KEY_MOST + 1];
	fixture *f = *state;

	WHERRY_PASS(wherry_tick_key("tick-", "4916474562628112070d240d515ba44d",
				    T0_US + HOUR_US, key, &err));
	assert_string_equal(
		key, "tick-/4916474562628112070d240d515ba44d/20240101-110000.000000000");
	assert_int_equal(install(f, prefix, "A", "ab", times), 2);
	at(f, 1);
	handle(f, "a");
	assert_string_equal(f->key, "tick-/A/20240101-100000.100000000");
	handle(f, "b");
	assert_string_equal(f->key, "tick-/A/20240101-100000.900000000");
}

static void a_tick_is_delivered_at_its_actual_time(void **state)
{
	const wherry_tick tick = {.at_us = T0_US + 10LL * SECOND_US,
				  .deliver_us = T0_US + 30LL * SECOND_US,
				  .body = "late",
				  .body_len = WHERRY_TEXT};
	wherry_error err = WHERRY_ERROR_INIT;
	fixture *f = *state;

	WHERRY_PASS(wherry_cron_install(f->cron, f->queue, prefix, "A", &tick, 1, NULL,
					&err));
	at(f, 20);
	assert_string_equal(poll_one(f), "");
	at(f, 30);
	handle(f, "late");
	assert_string_equal(f->key, "tick-/A/20240101-100010.000000000");
}

static void a_new_configuration_replaces_the_ticks_of_the_old_one(void **state)
{
	fixture *f = *state;

	assert_int_equal(install_one(f, "A", "a", 10), 1);
	assert_int_equal(install_one(f, "B", "b", 10), 1);
	at(f, 15);
	handle(f, "b");
	assert_string_equal(poll_one(f), "");
}

static void an_empty_set_keeps_the_ticks_of_its_configuration(void **state)
{
	fixture *f = *state;

	assert_int_equal(install_one(f, "A", "a", 10), 1);
	assert_int_equal(install(f, prefix, "A", "", NULL), 0);
	at(f, 10);
	handle(f, "a");
}

static void a_tick_that_is_there_is_left_as_it_is(void **state)
{
	fixture *f = *state;

	assert_int_equal(install_one(f, "A", "a", 10), 1);
	assert_int_equal(install_one(f, "A", "b", 10), 0);
	at(f, 10);
	handle(f, "a");
}

/* The reference's uninstallTick removes the ticks of every other configuration instead. */
static void uninstalling_removes_its_own_ticks_and_no_others(void **state)
{
	static const double times[] = {10, 20};
	fixture *f = *state;

	assert_int_equal(install(f, prefix, "A", "ab", times), 2);
	assert_int_equal(install(f, "other", "A", "c", times), 1);
	assert_int_equal(uninstall(f, prefix, "B"), 0);
	expect_ticks(f, "100010 100010 100020");
	assert_int_equal(uninstall(f, prefix, "A"), 2);
	expect_ticks(f, "100010");
	at(f, 30);
	handle(f, "c");
}

static wherry_code count_entry(void *ctx, const wherry_cron_entry *entry)
{
	(void)entry;
	++*(int *)ctx;
	return WHERRY_OK;
}

static int n_entries(fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int n = 0;

	WHERRY_PASS(wherry_cron_list(f->cron, count_entry, &n, &err));
	return n;
}

static void uninstalling_what_was_never_installed_remembers_nothing(void **state)
{
	fixture *f = *state;

	assert_int_equal(uninstall(f, prefix, "A"), 0);
	assert_int_equal(n_entries(f), 0);
	assert_int_equal(install_one(f, "A", "a", 10), 1);
	assert_int_equal(uninstall(f, prefix, "B"), 0);
	assert_int_equal(n_entries(f), 1);
	expect_ticks(f, "100010");
}

/* The reference matches prefixes with LIKE, where _ is any character and on SQLite case is none. */
static void prefixes_are_compared_byte_for_byte(void **state)
{
	static const double times[] = {10};
	fixture *f = *state;

	assert_int_equal(install(f, "job_1", "A", "a", times), 1);
	assert_int_equal(install(f, "jobx1", "A", "b", times), 1);
	assert_int_equal(install(f, "Job_1", "A", "c", times), 1);
	assert_int_equal(install(f, "job%", "A", "d", times), 1);
	assert_int_equal(install(f, "job", "A", "e", times), 1);
	assert_int_equal(install(f, "job_1", "B", "", NULL), 0);
	assert_int_equal(uninstall(f, "job%", "A"), 1);
	expect_ticks(f, "100010 100010 100010");
}

/* The reference removes ticks of another configuration though a consumer has them. */
static void a_tick_that_was_polled_survives_another_configuration(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	fixture *f = *state;
	const char *token = f->token;
	wherry_ack_outcome outcome;

	assert_int_equal(install_one(f, "A", "a", 0), 1);
	assert_string_equal(poll_one(f), "a");
	assert_int_equal(install_one(f, "B", "b", 100), 1);
	assert_int_equal(install(f, prefix, "A", "", NULL), 0);
	assert_int_equal(uninstall(f, prefix, "A"), 0);
	at(f, 6);
	assert_string_equal(poll_one(f), "a");
	assert_true(f->redelivery);
	WHERRY_PASS(wherry_delayed_ack(f->queue, &token, 1, &outcome, &err));
	assert_int_equal(outcome, WHERRY_ACKNOWLEDGED);
}

/* The reference remembers a tick only as long as its row is there. */
static void a_node_that_is_behind_does_not_fire_a_tick_twice(void **state)
{
	static const double times[] = {10, 20};
	fixture *f = *state;

	assert_int_equal(install(f, prefix, "A", "ab", times), 2);
	at(f, 15);
	handle(f, "a");
	at(f, 5);
	assert_int_equal(install(f, prefix, "A", "ab", times), 0);
	expect_ticks(f, "100020");
	at(f, 16);
	assert_string_equal(poll_one(f), "");
	at(f, 25);
	handle(f, "b");
	at(f, 5);
	assert_int_equal(install(f, prefix, "A", "ab", times), 0);
	at(f, 25);
	assert_string_equal(poll_one(f), "");
}

static void a_node_that_is_behind_repeats_nothing_by_another_configuration(void **state)
{
	static const double times[] = {10, 20};
	fixture *f = *state;

	assert_int_equal(install(f, prefix, "A", "ab", times), 2);
	at(f, 15);
	handle(f, "a");
	at(f, 5);
	assert_int_equal(install_one(f, "B", "c", 18), 1);
	assert_int_equal(install(f, prefix, "A", "ab", times), 1);
	expect_ticks(f, "100020");
	assert_int_equal(uninstall(f, prefix, "A"), 1);
	assert_int_equal(install(f, prefix, "A", "ab", times), 1);
	expect_ticks(f, "100020");
}

/* Two nominal times are delivered at once: the second is not taken for the first. */
static void ticks_that_are_delivered_at_one_time_are_installed_one_by_one(void **state)
{
	wherry_tick tick = {.deliver_us = T0_US + HOUR_US, .body = "x", .body_len = 1};
	wherry_error err = WHERRY_ERROR_INIT;
	fixture *f = *state;
	int64_t n = 0;

	for (int i = 1; i <= 2; i++) {
		tick.at_us = T0_US + i * 60LL * SECOND_US;
		WHERRY_PASS(wherry_cron_install(f->cron, f->queue, prefix, "A", &tick, 1,
						&n, &err));
		assert_int_equal(n, 1);
	}
	expect_ticks(f, "100100 100200");
}

static void a_configuration_that_comes_back_has_its_later_ticks_again(void **state)
{
	static const double times[] = {10, 20};
	fixture *f = *state;

	assert_int_equal(install(f, prefix, "A", "ab", times), 2);
	at(f, 15);
	handle(f, "a");
	assert_int_equal(install_one(f, "B", "c", 18), 1);
	assert_int_equal(install(f, prefix, "A", "ab", times), 1);
	expect_ticks(f, "100020");
}

/* A tick that is due is late already: it is polled, whatever replaces its configuration. */
static void a_due_tick_survives_another_configuration_that_goes_again(void **state)
{
	static const double times[] = {10, 20};
	fixture *f = *state;

	assert_int_equal(install(f, prefix, "A", "ab", times), 2);
	at(f, 15);
	assert_int_equal(install_one(f, "B", "c", 30), 1);
	expect_ticks(f, "100010 100030");
	assert_int_equal(install(f, prefix, "A", "ab", times), 1);
	expect_ticks(f, "100010 100020");
	handle(f, "a");
	assert_int_equal(install(f, prefix, "A", "ab", times), 0);
	at(f, 25);
	handle(f, "b");
	assert_string_equal(poll_one(f), "");
}

static void installing_joins_the_transaction_that_is_open(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	fixture *f = *state;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_int_equal(install_one(f, "A", "a", 10), 1);
	wherry_db_rollback(f->db);
	expect_ticks(f, "");
	assert_int_equal(install_one(f, "A", "a", 10), 1);
	expect_ticks(f, "100010");
}

static void what_is_no_set_is_refused_and_nothing_changes(void **state)
{
	wherry_tick ticks[2] = {{.at_us = T0_US}, {.at_us = INT64_MAX}};
	wherry_error err = WHERRY_ERROR_INIT;
	fixture *f = *state;
	char text[300];

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	WHERRY_FAILS(WHERRY_INVALID, wherry_cron_install(f->cron, f->queue, "", "A",
							 ticks, 1, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_cron_install(f->cron, f->queue, "a/b", "A",
							 ticks, 1, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_cron_install(f->cron, f->queue, "a", NULL,
							 ticks, 1, NULL, &err));
	WHERRY_FAILS(WHERRY_TOOBIG, wherry_cron_install(f->cron, f->queue, text, "A",
							ticks, 1, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_cron_install(f->cron, f->queue, "a", "A",
							 ticks, 2, NULL, &err));
	assert_non_null(strstr(err.message, "tick 1"));
	WHERRY_FAILS(WHERRY_INVALID, wherry_cron_install(f->cron, f->queue, "a", "A",
							 NULL, 1, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_cron_install(f->cron, NULL, "a", "A", NULL, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_cron_uninstall(NULL, f->queue, "a", "A", NULL, &err));
	expect_ticks(f, "");
}

/* ---- the ticks of a schedule ---- */

static int64_t schedule(fixture *f, const char *text, const char *zone, int64_t ahead_us,
			wherry_catch_up catch_up)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *s = NULL;
	int64_t n = -7;

	WHERRY_PASS(wherry_schedule_parse(text, zone, &s, &err));
	WHERRY_PASS(wherry_cron_install_schedule(f->cron, f->queue, prefix, s, ahead_us,
						 catch_up, "x", 1, &n, &err));
	wherry_schedule_free(s);
	return n;
}

static void a_period_has_one_tick_ahead_on_its_boundary(void **state)
{
	fixture *f = *state;

	f->now_us = T0_US + 2262123000; /* 10:37:42.123 */
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_NONE), 1);
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_NONE), 0);
	expect_ticks(f, "110000");
	f->now_us = T0_US + HOUR_US;
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_NONE), 1);
	handle(f, "x");
	assert_string_equal(
		f->key,
		"tick-/4916474562628112070d240d515ba44d/20240101-110000.000000000");
	expect_ticks(f, "120000");
}

static void times_of_day_are_installed_ahead(void **state)
{
	fixture *f = *state;

	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 3 * HOUR_US, WHERRY_CATCH_UP_NONE), 1);
	expect_ticks(f, "120000");
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 48 * HOUR_US, WHERRY_CATCH_UP_NONE), 3);
	expect_ticks(f, "120000 180000 120000 180000");
}

static void a_time_of_day_that_has_come_is_not_installed(void **state)
{
	fixture *f = *state;

	at(f, 2 * 3600); /* 12:00 */
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 7 * HOUR_US, WHERRY_CATCH_UP_NONE), 1);
	expect_ticks(f, "180000");
}

static void times_of_the_next_day_are_installed_in_the_evening(void **state)
{
	fixture *f = *state;

	at(f, 10 * 3600); /* 20:00 */
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 24 * HOUR_US, WHERRY_CATCH_UP_NONE), 2);
	expect_ticks(f, "120000 180000");
}

static void of_the_times_of_a_day_the_later_ones_are_installed(void **state)
{
	fixture *f = *state;

	assert_int_equal(schedule(f, "09:00, 12:00, 18:00", NULL, 12 * HOUR_US,
				  WHERRY_CATCH_UP_NONE),
			 2);
	expect_ticks(f, "120000 180000");
}

static wherry_code expect_new_body(void *ctx, const wherry_delayed_message *msg)
{
	++*(int *)ctx;
	assert_int_equal(msg->body_len, 3);
	return WHERRY_OK;
}

static void ticks_have_another_body_after_an_uninstall_and_an_install(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *s = NULL;
	char hash[WHERRY_HASH_LEN + 1];
	fixture *f = *state;
	int64_t n_new = 0;
	int n = 0;

	assert_int_equal(
		schedule(f, "@every 1h", NULL, 3 * HOUR_US, WHERRY_CATCH_UP_NONE), 3);
	at(f, 3600);
	handle(f, "x");
	WHERRY_PASS(wherry_schedule_parse("@every 1h", NULL, &s, &err));
	WHERRY_PASS(wherry_schedule_hash(s, hash, &err));
	assert_int_equal(uninstall(f, prefix, hash), 2);
	WHERRY_PASS(wherry_cron_install_schedule(f->cron, f->queue, prefix, s,
						 2 * HOUR_US, WHERRY_CATCH_UP_ALL, "new",
						 3, &n_new, &err));
	assert_int_equal(n_new, 2);
	WHERRY_PASS(wherry_delayed_list(f->queue, NULL, expect_new_body, &n, &err));
	assert_int_equal(n, 2);
	wherry_schedule_free(s);
}

/* The reference may install a time that has passed while the clock is put back, again and again. */
static void no_tick_is_repeated_while_the_clock_is_put_back(void **state)
{
	fixture *f = *state;

	f->now_us = 1729987200LL * SECOND_US; /* 2024-10-27T00:00:00Z */
	assert_int_equal(
		schedule(f, "02:30", "Europe/Amsterdam", 0, WHERRY_CATCH_UP_NONE), 1);
	f->now_us += 1800LL * SECOND_US;
	handle(f, "x");
	for (int i = 0; i < 8; i++) {
		f->now_us += 600LL * SECOND_US;
		(void)schedule(f, "02:30", "Europe/Amsterdam", 0, WHERRY_CATCH_UP_NONE);
		assert_string_equal(poll_one(f), "");
	}
	expect_ticks(f, "013000");
}

static void a_clock_that_was_set_back_repeats_no_tick_of_a_schedule(void **state)
{
	fixture *f = *state;

	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	at(f, 3600);
	handle(f, "x");
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	at(f, 60);
	assert_int_equal(schedule(f, "@every 1h", NULL, 0, WHERRY_CATCH_UP_ALL), 0);
	assert_int_equal(schedule(f, "12:30", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	(void)schedule(f, "@every 1h", NULL, 2 * HOUR_US, WHERRY_CATCH_UP_ALL);
	expect_ticks(f, "120000");
}

static int64_t drop_all(fixture *f)
{
	const wherry_delayed_filter filter = WHERRY_DELAYED_FILTER(.prefix = prefix);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	WHERRY_PASS(wherry_delayed_drop_many(f->queue, &filter, &n, &err));
	return n;
}

/* The JVM library's own cron removes ticks of another hash, and an operator a queue's messages. */
static void ticks_whose_messages_others_removed_are_made_again(void **state)
{
	static const double times[] = {1800, 7200, 10800};
	fixture *f = *state;

	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 48 * HOUR_US, WHERRY_CATCH_UP_NONE), 4);
	assert_int_equal(drop_all(f), 4);
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 48 * HOUR_US, WHERRY_CATCH_UP_NONE), 4);
	expect_ticks(f, "120000 180000 120000 180000");
	at(f, 2 * 3600);
	handle(f, "x");
	assert_int_equal(
		schedule(f, "12:00, 18:00", NULL, 48 * HOUR_US, WHERRY_CATCH_UP_ALL), 1);
	assert_int_equal(drop_all(f), 4);
	at(f, 0);
	assert_int_equal(install(f, prefix, "A", "abc", times), 3);
	assert_int_equal(drop_all(f), 3);
	/* The tick at half past ten may have been done. */
	assert_int_equal(install(f, prefix, "A", "abc", times), 2);
	expect_ticks(f, "120000 130000");
}

static void a_clock_that_was_a_year_ahead_silences_no_schedule(void **state)
{
	fixture *f = *state;

	assert_int_equal(schedule(f, "@hourly", NULL, 2 * HOUR_US, WHERRY_CATCH_UP_NONE),
			 2);
	expect_ticks(f, "110000 120000");
	at(f, 365 * 86400.0 + 600);
	assert_int_equal(schedule(f, "@hourly", NULL, 2 * HOUR_US, WHERRY_CATCH_UP_NONE),
			 2);
	at(f, 600);
	assert_int_equal(schedule(f, "@hourly", NULL, 4 * HOUR_US, WHERRY_CATCH_UP_NONE),
			 2);
	expect_ticks(f, "110000 120000 130000 140000 110000 120000");
}

static void a_schedule_that_is_forgotten_begins_anew(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	fixture *f = *state;
	int64_t n = 0;

	assert_int_equal(install_one(f, "A", "a", 100), 1);
	assert_int_equal(install(f, "other", "A", "b", (const double[]){100}), 1);
	at(f, 100);
	handle(f, "a");
	at(f, 0);
	assert_int_equal(install_one(f, "A", "a", 100), 0);
	WHERRY_PASS(wherry_cron_forget(f->cron, prefix, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wherry_cron_forget(f->cron, prefix, &n, &err));
	assert_int_equal(n, 0);
	assert_int_equal(install_one(f, "A", "a", 100), 1);
	assert_int_equal(install(f, "other", "A", "b", (const double[]){100}), 0);
}

/* Install a schedule of each hour at 10:00, come back at 14:20, and count the ticks that are due. */
static void come_back(fixture *f, wherry_catch_up catch_up, const char *wanted)
{
	assert_int_equal(schedule(f, "@hourly", NULL, 0, catch_up), 1);
	at(f, 3600);
	handle(f, "x");
	at(f, 4 * 3600 + 1200);
	(void)schedule(f, "@hourly", NULL, 0, catch_up);
	expect_ticks(f, wanted);
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

static void a_schedule_that_comes_back_begins_at_its_next_time(void **state)
{
	fixture *f = *state;

	assert_int_equal(schedule(f, "12:00", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	assert_int_equal(schedule(f, "13:00", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	expect_ticks(f, "130000");
	at(f, 72 * 3600);
	assert_int_equal(schedule(f, "12:00", NULL, 0, WHERRY_CATCH_UP_ALL), 1);
	handle(f, "x"); /* of 13:00 */
	expect_ticks(f, "120000");
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

static void a_cron_lists_what_it_remembers(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char text[ROOM] = "";
	fixture *f = *state;

	assert_int_equal(install_one(f, "A", "a", 10), 1);
	assert_int_equal(install_one(f, "B", "b", 10), 1);
	WHERRY_PASS(wherry_cron_list(f->cron, note_entry, text, &err));
	assert_string_equal(text, "later tick- A 0;later tick- B 1;");
	WHERRY_PASS(wherry_cron_drop(f->cron, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_cron_list(f->cron, note_entry, text, &err));
	assert_non_null(strstr(err.message, "wherry cron create"));
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

static void a_cron_remembers_schedules_as_they_were_written(void **state)
{
	static const char daily[] = "12:00, 18:00|Europe/Berlin|delayed queue my-queue;",
			  hourly[] = "@every 1h|-|delayed queue my-queue;";
	wherry_error err = WHERRY_ERROR_INIT;
	char text[ROOM] = "", again[ROOM] = "";
	fixture *f = *state;

	assert_int_equal(install(f, "plain", "A", "", NULL), 0);
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

/* ---- running them ---- */

static struct CMUnitTest tests[200];

static size_t add(const outbox_backend *backend, const struct CMUnitTest *cases,
		  size_t n_cases, size_t n)
{
	static char names[200][160];

	for (size_t i = 0; i < n_cases; i++, n++) {
		(void)snprintf(names[n], sizeof(names[n]), "%s: %s", backend->name,
			       cases[i].name);
		tests[n] = (struct CMUnitTest){names[n], cases[i].test_func, make, drop,
					       (void *)(uintptr_t)backend};
	}
	return n;
}

int cron_suite_run(const char *layout, const outbox_backend *const *backends,
		   size_t n_backends)
{
	static const struct CMUnitTest cases[] = {
		cmocka_unit_test(ticks_become_available_at_their_times),
		cmocka_unit_test(a_key_has_the_nominal_time_with_its_fraction),
		cmocka_unit_test(a_tick_is_delivered_at_its_actual_time),
		cmocka_unit_test(a_new_configuration_replaces_the_ticks_of_the_old_one),
		cmocka_unit_test(an_empty_set_keeps_the_ticks_of_its_configuration),
		cmocka_unit_test(a_tick_that_is_there_is_left_as_it_is),
		cmocka_unit_test(uninstalling_removes_its_own_ticks_and_no_others),
		cmocka_unit_test(uninstalling_what_was_never_installed_remembers_nothing),
		cmocka_unit_test(prefixes_are_compared_byte_for_byte),
		cmocka_unit_test(a_tick_that_was_polled_survives_another_configuration),
		cmocka_unit_test(a_node_that_is_behind_does_not_fire_a_tick_twice),
		cmocka_unit_test(
			a_node_that_is_behind_repeats_nothing_by_another_configuration),
		cmocka_unit_test(
			ticks_that_are_delivered_at_one_time_are_installed_one_by_one),
		cmocka_unit_test(a_clock_that_was_set_back_repeats_no_tick_of_a_schedule),
		cmocka_unit_test(ticks_whose_messages_others_removed_are_made_again),
		cmocka_unit_test(a_clock_that_was_a_year_ahead_silences_no_schedule),
		cmocka_unit_test(a_schedule_that_is_forgotten_begins_anew),
		cmocka_unit_test(
			a_configuration_that_comes_back_has_its_later_ticks_again),
		cmocka_unit_test(
			a_due_tick_survives_another_configuration_that_goes_again),
		cmocka_unit_test(installing_joins_the_transaction_that_is_open),
		cmocka_unit_test(what_is_no_set_is_refused_and_nothing_changes),
		cmocka_unit_test(a_period_has_one_tick_ahead_on_its_boundary),
		cmocka_unit_test(times_of_day_are_installed_ahead),
		cmocka_unit_test(a_time_of_day_that_has_come_is_not_installed),
		cmocka_unit_test(times_of_the_next_day_are_installed_in_the_evening),
		cmocka_unit_test(of_the_times_of_a_day_the_later_ones_are_installed),
		cmocka_unit_test(
			ticks_have_another_body_after_an_uninstall_and_an_install),
		cmocka_unit_test(no_tick_is_repeated_while_the_clock_is_put_back),
		cmocka_unit_test(missed_times_are_skipped),
		cmocka_unit_test(or_the_last_of_them_is_made_up_for),
		cmocka_unit_test(or_all_of_them_are),
		cmocka_unit_test(a_schedule_that_comes_back_begins_at_its_next_time),
		cmocka_unit_test(a_cron_lists_what_it_remembers),
		cmocka_unit_test(a_cron_remembers_schedules_as_they_were_written),
	};
	size_t n = 0;

	layout_of_suite = layout;
	for (size_t b = 0; b < n_backends; b++) {
		n = add(backends[b], cases, sizeof(cases) / sizeof(*cases), n);
		if (!layout)
			n = add(backends[b], cron_fire_cases, n_cron_fire_cases, n);
	}
	cmocka_set_test_filter(getenv("WHERRY_ONLY")); /* for one at a debugger's hands */
	return _cmocka_run_group_tests("cron", tests, n, NULL, NULL);
}
