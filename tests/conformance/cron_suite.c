#include "cron_suite.h"

#include "base/date.h"
#include "delayed/delayed.h"
#include "cron_fixture.h"

const char cron_prefix[] = "tick-";

static const char *layout_of_suite;

static int64_t clock_of(void *ctx)
{
	return ((fixture *)ctx)->now_us;
}

int cron_make_owner(void **state)
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

/* Who does not own the tables has what `--grant` gives. */
static void lower(fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	f->backend->lower(f->place, &wh_delayed_model, "later");
	f->backend->lower(f->place, &wh_cron_model, "cron");
	wherry_cron_close(f->cron);
	wherry_delayed_close(f->queue);
	assert_true(f->backend->disconnect(f->db));
	f->db = f->backend->connect(f->place);
	assert_non_null(f->db);
	WHERRY_PASS(
		wherry_delayed_open(f->db, "later", "my-queue", NULL, &f->queue, &err));
	wherry_delayed_set_clock(f->queue, clock_of, f);
	WHERRY_PASS(wherry_cron_open(f->db, NULL, &f->cron, &err));
}

static int make(void **state)
{
	fixture *f;

	(void)cron_make_owner(state);
	f = *state;
	if (f->backend->lower && !layout_of_suite)
		lower(f);
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

int64_t cron_install(fixture *f, const char *under, const char *hash, const char *bodies,
		     const double *seconds)
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

int64_t cron_install_one(fixture *f, const char *hash, const char *body, double seconds)
{
	return cron_install(f, cron_prefix, hash, body, &seconds);
}

int64_t cron_uninstall(fixture *f, const char *under, const char *hash)
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

const char *cron_poll_one(fixture *f)
{
	const wherry_poll_options options =
		WHERRY_POLL_OPTIONS(.limit = 1, .lease_us = 5 * SECOND_US);
	wherry_error err = WHERRY_ERROR_INIT;

	f->body[0] = 0;
	WHERRY_PASS(wherry_delayed_poll(f->queue, &options, note, f, NULL, &err));
	return f->body;
}

void cron_handle(fixture *f, const char *body)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *token = f->token;
	wherry_ack_outcome outcome;

	assert_string_equal(cron_poll_one(f), body);
	WHERRY_PASS(wherry_delayed_ack(f->queue, &token, 1, &outcome, &err));
	assert_int_equal(outcome, WHERRY_ACKNOWLEDGED);
}

void cron_at(fixture *f, double seconds)
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

void cron_expect_ticks(fixture *f, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	keys k = {.n = 0};

	WHERRY_PASS(wherry_delayed_list(f->queue, NULL, add_key, &k, &err));
	assert_string_equal(k.text, wanted);
}

/* ---- sets of ticks ---- */

WHERRY_CASE(ticks_become_available_at_their_times, fixture *f)
{
	static const double times[] = {10, 20};

	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 2);
	assert_string_equal(cron_poll_one(f), "");
	cron_at(f, 15);
	cron_handle(f, "a");
	assert_string_equal(cron_poll_one(f), "");
	cron_at(f, 25);
	cron_handle(f, "b");
	assert_string_equal(cron_poll_one(f), "");
}

WHERRY_CASE(a_key_has_the_nominal_time_with_its_fraction, fixture *f)
{
	static const double times[] = {0.1, 0.9};
	wherry_error err = WHERRY_ERROR_INIT;
	char key[WHERRY_TICK_KEY_MOST + 1];

	WHERRY_PASS(wherry_tick_key("tick-", "4916474562628112070d240d515ba44d",
				    T0_US + HOUR_US, key, &err));
	assert_string_equal(
		key, "tick-/4916474562628112070d240d515ba44d/20240101-110000.000000000");
	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 2);
	cron_at(f, 1);
	cron_handle(f, "a");
	assert_string_equal(f->key, "tick-/A/20240101-100000.100000000");
	cron_handle(f, "b");
	assert_string_equal(f->key, "tick-/A/20240101-100000.900000000");
}

WHERRY_CASE(a_tick_is_delivered_at_its_actual_time, fixture *f)
{
	const wherry_tick tick = {.at_us = T0_US + 10LL * SECOND_US,
				  .deliver_us = T0_US + 30LL * SECOND_US,
				  .body = "late",
				  .body_len = WHERRY_TEXT};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_cron_install(f->cron, f->queue, cron_prefix, "A", &tick, 1,
					NULL, &err));
	cron_at(f, 20);
	assert_string_equal(cron_poll_one(f), "");
	cron_at(f, 30);
	cron_handle(f, "late");
	assert_string_equal(f->key, "tick-/A/20240101-100010.000000000");
}

WHERRY_CASE(a_new_configuration_replaces_the_ticks_of_the_old_one, fixture *f)
{
	assert_int_equal(cron_install_one(f, "A", "a", 10), 1);
	assert_int_equal(cron_install_one(f, "B", "b", 10), 1);
	cron_at(f, 15);
	cron_handle(f, "b");
	assert_string_equal(cron_poll_one(f), "");
}

WHERRY_CASE(an_empty_set_keeps_the_ticks_of_its_configuration, fixture *f)
{
	assert_int_equal(cron_install_one(f, "A", "a", 10), 1);
	assert_int_equal(cron_install(f, cron_prefix, "A", "", NULL), 0);
	cron_at(f, 10);
	cron_handle(f, "a");
}

WHERRY_CASE(a_tick_that_is_there_is_left_as_it_is, fixture *f)
{
	assert_int_equal(cron_install_one(f, "A", "a", 10), 1);
	assert_int_equal(cron_install_one(f, "A", "b", 10), 0);
	cron_at(f, 10);
	cron_handle(f, "a");
}

/* The reference's uninstallTick removes the ticks of every other configuration instead. */
WHERRY_CASE(uninstalling_removes_its_own_ticks_and_no_others, fixture *f)
{
	static const double times[] = {10, 20};

	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 2);
	assert_int_equal(cron_install(f, "other", "A", "c", times), 1);
	assert_int_equal(cron_uninstall(f, cron_prefix, "B"), 0);
	cron_expect_ticks(f, "100010 100010 100020");
	assert_int_equal(cron_uninstall(f, cron_prefix, "A"), 2);
	cron_expect_ticks(f, "100010");
	cron_at(f, 30);
	cron_handle(f, "c");
}

static wherry_code count_entry(void *ctx, const wherry_cron_entry *entry)
{
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

WHERRY_CASE(uninstalling_what_was_never_installed_remembers_nothing, fixture *f)
{
	assert_int_equal(cron_uninstall(f, cron_prefix, "A"), 0);
	assert_int_equal(n_entries(f), 0);
	assert_int_equal(cron_install_one(f, "A", "a", 10), 1);
	assert_int_equal(cron_uninstall(f, cron_prefix, "B"), 0);
	assert_int_equal(n_entries(f), 1);
	cron_expect_ticks(f, "100010");
}

/* The reference matches prefixes with LIKE, where _ is any character and on SQLite case is none. */
WHERRY_CASE(prefixes_are_compared_byte_for_byte, fixture *f)
{
	static const double times[] = {10};

	assert_int_equal(cron_install(f, "job_1", "A", "a", times), 1);
	assert_int_equal(cron_install(f, "jobx1", "A", "b", times), 1);
	assert_int_equal(cron_install(f, "Job_1", "A", "c", times), 1);
	assert_int_equal(cron_install(f, "job%", "A", "d", times), 1);
	assert_int_equal(cron_install(f, "job", "A", "e", times), 1);
	assert_int_equal(cron_install(f, "job_1", "B", "", NULL), 0);
	assert_int_equal(cron_uninstall(f, "job%", "A"), 1);
	cron_expect_ticks(f, "100010 100010 100010");
}

/* The reference removes ticks of another configuration though a consumer has them. */
WHERRY_CASE(a_tick_that_was_polled_survives_another_configuration, fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *token = f->token;
	wherry_ack_outcome outcome;

	assert_int_equal(cron_install_one(f, "A", "a", 0), 1);
	assert_string_equal(cron_poll_one(f), "a");
	assert_int_equal(cron_install_one(f, "B", "b", 100), 1);
	assert_int_equal(cron_install(f, cron_prefix, "A", "", NULL), 0);
	assert_int_equal(cron_uninstall(f, cron_prefix, "A"), 0);
	cron_at(f, 6);
	assert_string_equal(cron_poll_one(f), "a");
	assert_true(f->redelivery);
	WHERRY_PASS(wherry_delayed_ack(f->queue, &token, 1, &outcome, &err));
	assert_int_equal(outcome, WHERRY_ACKNOWLEDGED);
}

/* The reference remembers a tick only as long as its row is there. */
WHERRY_CASE(a_node_that_is_behind_does_not_fire_a_tick_twice, fixture *f)
{
	static const double times[] = {10, 20};

	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 2);
	cron_at(f, 15);
	cron_handle(f, "a");
	cron_at(f, 5);
	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 0);
	cron_expect_ticks(f, "100020");
	cron_at(f, 16);
	assert_string_equal(cron_poll_one(f), "");
	cron_at(f, 25);
	cron_handle(f, "b");
	cron_at(f, 5);
	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 0);
	cron_at(f, 25);
	assert_string_equal(cron_poll_one(f), "");
}

WHERRY_CASE(a_node_that_is_behind_repeats_nothing_by_another_configuration, fixture *f)
{
	static const double times[] = {10, 20};

	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 2);
	cron_at(f, 15);
	cron_handle(f, "a");
	cron_at(f, 5);
	assert_int_equal(cron_install_one(f, "B", "c", 18), 1);
	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 1);
	cron_expect_ticks(f, "100020");
	assert_int_equal(cron_uninstall(f, cron_prefix, "A"), 1);
	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 1);
	cron_expect_ticks(f, "100020");
}

/* Two nominal times are delivered at once: the second is not taken for the first. */
WHERRY_CASE(ticks_that_are_delivered_at_one_time_are_installed_one_by_one, fixture *f)
{
	wherry_tick tick = {.deliver_us = T0_US + HOUR_US, .body = "x", .body_len = 1};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	for (int i = 1; i <= 2; i++) {
		tick.at_us = T0_US + i * 60LL * SECOND_US;
		WHERRY_PASS(wherry_cron_install(f->cron, f->queue, cron_prefix, "A",
						&tick, 1, &n, &err));
		assert_int_equal(n, 1);
	}
	cron_expect_ticks(f, "100100 100200");
}

WHERRY_CASE(a_configuration_that_comes_back_has_its_later_ticks_again, fixture *f)
{
	static const double times[] = {10, 20};

	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 2);
	cron_at(f, 15);
	cron_handle(f, "a");
	assert_int_equal(cron_install_one(f, "B", "c", 18), 1);
	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 1);
	cron_expect_ticks(f, "100020");
}

/* A tick that is due is late already: it is polled, whatever replaces its configuration. */
WHERRY_CASE(a_due_tick_survives_another_configuration_that_goes_again, fixture *f)
{
	static const double times[] = {10, 20};

	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 2);
	cron_at(f, 15);
	assert_int_equal(cron_install_one(f, "B", "c", 30), 1);
	cron_expect_ticks(f, "100010 100030");
	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 1);
	cron_expect_ticks(f, "100010 100020");
	cron_handle(f, "a");
	assert_int_equal(cron_install(f, cron_prefix, "A", "ab", times), 0);
	cron_at(f, 25);
	cron_handle(f, "b");
	assert_string_equal(cron_poll_one(f), "");
}

WHERRY_CASE(installing_joins_the_transaction_that_is_open, fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_int_equal(cron_install_one(f, "A", "a", 10), 1);
	wherry_db_rollback(f->db);
	cron_expect_ticks(f, "");
	assert_int_equal(cron_install_one(f, "A", "a", 10), 1);
	cron_expect_ticks(f, "100010");
}

WHERRY_CASE(what_is_no_set_is_refused_and_nothing_changes, fixture *f)
{
	wherry_tick ticks[2] = {{.at_us = T0_US}, {.at_us = INT64_MAX}};
	wherry_error err = WHERRY_ERROR_INIT;
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
	cron_expect_ticks(f, "");
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
		tests[n] = (struct CMUnitTest){names[n], cases[i].test_func,
					       cases[i].setup_func ? cases[i].setup_func
								   : make,
					       drop, (void *)(uintptr_t)backend};
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
		cmocka_unit_test(
			a_configuration_that_comes_back_has_its_later_ticks_again),
		cmocka_unit_test(
			a_due_tick_survives_another_configuration_that_goes_again),
		cmocka_unit_test(installing_joins_the_transaction_that_is_open),
		cmocka_unit_test(what_is_no_set_is_refused_and_nothing_changes),
	};
	size_t n = 0;

	layout_of_suite = layout;
	for (size_t b = 0; b < n_backends; b++) {
		n = add(backends[b], cases, sizeof(cases) / sizeof(*cases), n);
		n = add(backends[b], cron_schedule_cases, n_cron_schedule_cases, n);
		if (!layout)
			n = add(backends[b], cron_fire_cases, n_cron_fire_cases, n);
	}
	n = wherry_test_part(tests, n);
	cmocka_set_test_filter(getenv("WHERRY_ONLY")); /* for one at a debugger's hands */
	return wherry_run_group("cron", tests, n, NULL, NULL);
}
