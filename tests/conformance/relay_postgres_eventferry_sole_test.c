/*
 * A relay that works alone on the table of eventferry: relay.sole.
 */
#include "event_bus.h"
#include "relay_suite.h"

#include "outbox/outbox.h"
#include "postgres/eventferry.h"
#include "postgres/server.h"

/* What this table has no place for: bodies that are not JSON, parked keys, an archive, a pause,
 * the last error, generations, and ids that a test chooses. */
static const char *const except[] = {
	"a_rolled_back_message_is_never_delivered",
	"keys_are_the_explicit_one_or_the_aggregate",
	"followers_in_flight_stay_behind_a_parked_message",
	"window_bytes_bound_what_is_in_memory",
	"a_body_over_window_bytes_passes",
	"no_text_of_a_message_forges_a_line_of_the_log",
	"a_message_is_dead_after_its_attempts",
	"a_parked_key_waits_until_its_message_is_retried",
	"a_parked_key_stays_parked_after_a_restart",
	"a_parked_key_is_parked_again_when_its_message_dies_again",
	"a_key_stays_parked_while_others_of_it_come_back",
	"a_pause_stops_submitting_until_the_resume",
	"a_pause_lets_finish_what_is_in_flight",
	"a_relay_that_starts_paused_delivers_nothing",
	"a_pause_is_noticed_under_load",
	"a_commit_without_rows_shows_an_operators_command_at_once",
	"until_empty_tells_of_parked_messages",
	"until_empty_with_nothing_behind_the_parked_one_is_deaths",
	"until_empty_waits_while_the_outbox_is_paused",
	"a_row_with_a_lower_id_is_found_by_an_idle_relay",
	"a_row_with_a_lower_id_is_found_by_the_sweep_while_a_key_is_held",
	"gaps_are_filled_without_a_sweep", /* below */
	"rows_of_a_key_that_appear_late_leave_in_order",
	/* They claim rows, or write a claim. */
	"a_row_inserted_below_the_cursor_is_delivered",
	"a_claimed_message_whose_acknowledgement_is_ignored_dies",
	"messages_that_are_denied_keep_no_others_from_being_claimed",
	"after_an_unclean_end_each_is_tried_alone_and_on_record",
	"after_a_claim_that_failed_a_key_keeps_its_order",
	"what_took_the_id_of_a_claimed_message_is_delivered",
	/* They go on with the engine competing, or look at the last error. */
	"every_engine_says_that_it_found_rows",
	"a_dead_message_leaves_a_letter_that_says_why",
	"a_letter_is_written_once_attempts_are_used_up",
	"a_message_is_not_dead_before_its_letter_is_taken",
	"a_key_is_parked_once_the_letter_is_taken",
	"headers_that_are_none_are_kept_in_the_letter",
	"the_messages_own_headers_go_along",
	"without_its_letter_a_message_stays_failed",
	"a_letter_that_is_rejected_buries_nothing",
	"letters_that_cannot_be_sent_at_all_make_nothing_dead",
	"what_ends_its_relay_is_not_tried_again_for_its_letter",
	"all_that_died_meanwhile_leave_their_letters",
	"a_relay_that_stops_waits_for_its_letters",
	/* They change the table, which is a view here. */
	"messages_that_an_acknowledgement_makes_are_delivered_at_once",
	"an_ignored_acknowledgement_is_repeated_ever_more_rarely",
	"until_empty_is_an_error_if_acknowledgements_are_ignored",
	"ordinary_texts_are_delivered_as_they_are", /* Message ids are UUIDs. */
	"a_row_that_is_too_long_dies_alone",
	"a_row_with_a_number_out_of_range_dies_alone",
	"an_infinite_time_stops_nothing",
	"a_row_whose_id_is_not_above_zero_dies_alone",
	"a_long_key_that_does_not_compress_is_delivered_in_order",
	"a_long_message_id_is_acknowledged_with_the_others",
	"a_row_that_cannot_be_written_holds_up_no_other",
	"a_failure_beside_a_row_that_cannot_be_written_is_recorded",
	"a_suspect_beside_a_row_that_cannot_be_written_lives",
	"a_table_that_goes_missing_is_an_error_to_fix",
	/* An operator's changes are noticed by a sweep: the operator's commands see the layout
	 * eventferry, which has no control version. */
	"a_retry_by_an_operator_need_not_wait",
	"a_retry_that_comes_with_a_renewal_need_not_wait",
	"a_window_that_is_full_before_a_key_has_left_is_no_error",
	"a_retry_keeps_the_order_of_its_key",
	"a_retry_by_hand_is_noticed",
	"a_key_goes_on_when_what_it_waits_for_is_discarded",
	/* Nothing wakes relays: they look four times a second. */
	"a_plain_insert_wakes_a_sleeping_relay",
	"an_idle_relay_sleeps",
	"an_idle_relay_runs_one_statement_in_ten_seconds",
	"a_second_relay_takes_over_at_once_after_a_release",
	"a_standby_that_is_woken_too_early_looks_again",
	/* They look at the lease with commands that see the layout eventferry, or have another
	 * outbox. */
	"a_stop_waits_no_longer_than_its_timeout",
	"a_standby_stops_at_once",
	"a_relay_that_lost_its_lease_stops",
	"two_outboxes_in_one_database_have_a_relay_each",
	"a_busy_database_is_waited_out_while_there_are_suspects",
	"a_lost_answer_records_no_attempt_twice",
	/* An attempt is recorded as a failed one: "processing" would be another program's. */
	"after_two_unclean_ends_each_is_tried_alone_and_on_record",
	/* The status of these tables does not look at the lease. */
	"the_lease_says_what_its_relay_does",
	"a_lost_answer_counts_no_attempt_twice",       /* it counts on more commits */
	"a_busy_database_is_waited_out_at_every_call", /* it takes long */
	NULL,
};

/* As it is: not about the native table. */
static void plain_sql(const char *sql)
{
	PGconn *conn = PQconnectdb(postgres_here.url);

	assert_true(postgres_exec(conn, sql, NULL, 0));
	PQfinish(conn);
}

static void emit(int aggregate, const char *key)
{
	char sql[300];

	(void)snprintf(
		sql, sizeof(sql),
		"INSERT INTO outbox (message_id, topic, aggregate_type, aggregate_id, "
		"\"key\", payload, headers) VALUES (gen_random_uuid(), 't', 'o', 'a%d', "
		"%s, '{}', '{}')",
		aggregate, key ? "'x'" : "NULL");
	plain_sql(sql);
}

/* A key on a third of the rows changes nothing: one of an aggregate is in flight at a time. */
static void keys_do_not_change_the_order_of_an_aggregate(void **state)
{
	static const char *const engines[] = {"exclusive", "competing"};
	enum { N = 60, AGGREGATES = 3 };
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	for (int i = 0; i < 2; i++) {
		relay_set(f, "relay.sole", i ? "off" : "on");
		relay_set(f, "relay.engine", engines[i]);
		for (int n = 0; n < N; n++)
			emit(n % AGGREGATES, n % 4 == 0 ? "x" : NULL);
		fake->by_hand = true;
		relay_start(f, &f->a);
		RELAY_UNTIL(f, &f->a, fake->n > 0);
		relay_quiet(f, &f->a);
		assert_int_equal(fake->n, AGGREGATES);
		fake->by_hand = false;
		for (int64_t id = 1; id <= AGGREGATES; id++)
			assert_true(
				relay_fake_answer(fake, N * i + id, WHERRY_DELIVERED));
		RELAY_UNTIL(f, &f->a,
			    relay_count(f, WHERRY_DONE) == (int64_t)N * (i + 1));
		relay_stop(f, &f->a);
		wherry_relay_close(f->a.relay);
		f->a.relay = NULL;
	}
}

/* Step until it has ended with an error; false: it goes on. */
static bool ends(relay_fixture *f, relay_side *side, const char *with)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t by = relay_deadline();

	while (relay_now(f) < by) {
		if (wherry_relay_step(side->relay, &side->wake_us, &side->finished,
				      &err) != WHERRY_OK) {
			assert_int_equal(err.code, WHERRY_INVALID);
			if (!strstr(err.message, with))
				print_error("%s\n", err.message);
			return strstr(err.message, with) != NULL;
		}
		wh_sleep(&wh_env_system, 2000);
	}
	return false;
}

/* The library's claim of so many, which lives. */
static void library_claims(int most)
{
	char sql[1024];

	(void)snprintf(sql, sizeof(sql), EVENTFERRY_CLAIM, 60000, most);
	plain_sql(sql);
}

static void a_sole_relay_refuses_a_table_that_others_claim_from(void **state)
{
	relay_fixture *f = *state;

	relay_put(f, "aabb");
	library_claims(2);
	relay_start(f, &f->a);
	assert_true(ends(f, &f->a, "claimed messages of outbox 'outbox' (2)"));
	assert_int_equal(relay_delivered(f), 0);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM wherry_lease"), 0);
}

/* 5 is claimed by another program, and 6 would overtake it. */
static void a_sole_relay_ends_at_a_claimed_row_that_it_reads(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.batch", "2");
	relay_set(f, "relay.window", "2");
	relay_put(f, "bcde");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_put(f, "aa");
	library_claims(1);
	assert_true(ends(f, &f->a, "claimed messages of outbox 'outbox' (1)"));
	RELAY_DELIVERED(f, 1, 2, 3, 4);
}

static void a_sole_relay_ends_when_what_it_delivered_was_claimed(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_hourly(f);
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	library_claims(1);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	assert_true(ends(f, &f->a, "claimed messages of outbox 'outbox' (1)"));
	assert_int_equal(relay_state(f, 1), WHERRY_PROCESSING);
	assert_int_equal(relay_state(f, 2), WHERRY_DONE);
}

static void claims_that_have_expired_are_delivered_by_a_sole_relay(void **state)
{
	relay_fixture *f = *state;

	relay_put(f, "aab");
	library_claims(2);
	plain_sql(
		"UPDATE outbox SET claimed_at = claimed_at - interval '1 h' WHERE id = 1");
	plain_sql("UPDATE outbox SET claimed_at = 'infinity' WHERE id = 3");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_DELIVERED(f, 1, 2, 3);
}

/* A producer can write any row: one that says it was claimed, long ago or in the future. */
static void rows_with_claims_that_do_not_live_are_delivered_in_order(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.batch", "2");
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	plain_sql(
		"INSERT INTO outbox (topic, aggregate_type, aggregate_id, payload, status, "
		"claimed_at) VALUES ('t', '', 'a', '{}', 0, NULL), "
		"('t', '', 'a', '{}', 1, '2999-01-01'), ('t', '', 'a', '{}', 1, NULL), "
		"('t', '', 'a', '{}', 0, NULL), ('t', '', 'a', '{}', 1, '2020-01-01')");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6);
	RELAY_DELIVERED(f, 1, 2, 3, 4, 5, 6);
}

/* Reading begins with the lowest id that there is. */
static void a_row_with_the_lowest_id_dies_alone(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.batch", "1");
	relay_put(f, "a");
	plain_sql("INSERT INTO outbox (id, topic, aggregate_type, aggregate_id, payload) "
		  "OVERRIDING SYSTEM VALUE VALUES "
		  "(-9223372036854775808, 't', 'o', 'a', '{}')");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 1);
	RELAY_DELIVERED(f, 1);
}

static void two_sole_relays_take_turns(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.idle_interval", "100ms"); /* nothing wakes a standby */
	relay_put(f, "ab");
	relay_start(f, &f->a);
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	relay_quiet(f, &f->b);
	assert_int_equal(relay_stats(&f->b).epoch, 0);
	relay_stop(f, &f->a);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 4);
	RELAY_DELIVERED(f, 1, 2, 3, 4);
}

/* A relay without relay.sole is refused while one works alone, and ends when one has begun. */
static void a_relay_that_competes_leaves_a_table_to_a_sole_one(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.idle_interval", "100ms");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	relay_set(f, "relay.sole", "off");
	relay_start(f, &f->b);
	assert_true(ends(f, &f->b, "is relayed by"));
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_DELIVERED(f, 1);
}

static void a_relay_that_competes_ends_once_a_sole_one_has_begun(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.idle_interval", "100ms");
	relay_set(f, "relay.sole", "off");
	relay_put(f, "a");
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 1);
	relay_set(f, "relay.sole", "on");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	assert_true(ends(f, &f->b, "is relayed by"));
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 1, 2);
}

/* Status opens the table with the layout of the library. */
static void status_shows_the_sole_relay(void **state)
{
	relay_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_db *db = NULL;
	wherry_status st;

	relay_set(f, "relay.name", "alone");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	WHERRY_PASS(wherry_db_open(f->url, NULL, &db, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	WHERRY_PASS(wherry_outbox_status(outbox, &st, sizeof(st), &err));
	assert_string_equal(st.owner, "alone");
	assert_true(st.lease_left_us > 0);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
}

/* Its first start makes the tables of its lease, and adds nothing to the library's. */
static void the_table_of_the_library_stays_as_it_is(void **state)
{
	static const char columns[] =
		"SELECT count(*) FROM pg_attribute WHERE attnum > 0 "
		"AND attrelid = 'outbox'::regclass";
	static const char triggers[] =
		"SELECT count(*) FROM pg_trigger WHERE tgrelid = 'outbox'::regclass";
	relay_fixture *f = *state;
	char before[16], after[16];

	plain_sql("DROP TABLE wherry_lease, wherry_outbox");
	assert_true(postgres_raw(postgres_here.url, columns, before, sizeof(before)));
	for (int i = 0; i < 2; i++) {
		relay_start(f, &f->a);
		relay_put(f, "a");
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == i + 1);
		relay_stop(f, &f->a);
		wherry_relay_close(f->a.relay);
		f->a.relay = NULL;
	}
	assert_true(postgres_raw(postgres_here.url, columns, after, sizeof(after)));
	assert_string_equal(before, after);
	assert_true(postgres_raw(postgres_here.url, triggers, after, sizeof(after)));
	assert_string_equal(after, "0");
}

/* It took its id before the one that was delivered. */
static void a_row_that_is_committed_late_is_delivered_without_a_sweep(void **state)
{
	relay_fixture *f = *state;
	PGconn *late = PQconnectdb(postgres_here.url);

	relay_hourly(f);
	assert_true(postgres_exec(late,
				  "BEGIN; INSERT INTO outbox (topic, aggregate_type, "
				  "aggregate_id, payload) VALUES ('t', 'o', 'a', '{}')",
				  NULL, 0));
	relay_put(f, "a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_DELIVERED(f, 2);
	assert_true(postgres_exec(late, "COMMIT", NULL, 0));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 2, 1);
	PQfinish(late);
}

/* With the tables of the lease, as a relay finds them when it starts again. */
static void make(char *url, size_t cap)
{
	const wh_make how = {.layout = "eventferry-sole"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	postgres_enter(url, cap);
	WHERRY_PASS(wherry_db_open(url, NULL, &db, &err));
	WHERRY_PASS(wh_outbox_make(db, &how, "outbox", &err));
	wherry_db_close(db);
}

static const relay_test own[] = {
	RELAY_TEST(a_sole_relay_refuses_a_table_that_others_claim_from, 0),
	RELAY_TEST(a_sole_relay_ends_at_a_claimed_row_that_it_reads, 0),
	RELAY_TEST(a_sole_relay_ends_when_what_it_delivered_was_claimed, 0),
	RELAY_TEST(claims_that_have_expired_are_delivered_by_a_sole_relay, 0),
	RELAY_TEST(rows_with_claims_that_do_not_live_are_delivered_in_order, 0),
	RELAY_TEST(a_row_with_the_lowest_id_dies_alone, 0),
	RELAY_TEST(two_sole_relays_take_turns, 0),
	RELAY_TEST(keys_do_not_change_the_order_of_an_aggregate, 0),
	RELAY_TEST(a_relay_that_competes_leaves_a_table_to_a_sole_one, 0),
	RELAY_TEST(a_relay_that_competes_ends_once_a_sole_one_has_begun, 0),
	RELAY_TEST(status_shows_the_sole_relay, 0),
	RELAY_TEST(the_table_of_the_library_stays_as_it_is, 0),
	RELAY_TEST(a_row_that_is_committed_late_is_delivered_without_a_sweep, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "eventferry, sole",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE | RELAY_IN_ORDER,
		.setting = "relay.sole",
		.make = make,
		.again = postgres_enter_again,
		.note = postgres_note_here,
		.drop = postgres_leave,
		.except = except,
		.own = own,
		.leads = true,
		.schedules = 20,
		.keeps_ids = true,
		.tables = eventferry_tables,
		.views = eventferry_views,
		.translate = event_bus_translate,
	};

	if (!postgres_start())
		return 0;
	return relay_suite(&target, 1);
}
