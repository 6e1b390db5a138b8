/*
 * Tests of the relay on a log alone, and those that do not run there.
 */
#include "relay_log.h"

#include "base/error.h"

static int64_t high(relay_fixture *f)
{
	return relay_number(f, "SELECT high FROM outbox_progress");
}

static int64_t exceptions(relay_fixture *f)
{
	return relay_number(f, "SELECT count(*) FROM outbox_exception");
}

typedef struct cut_reads {
	int left; /* Reads to fail. */
} cut_reads;

static wherry_code fail_read(void *ctx, const char *op, const char *what,
			     wherry_error *err)
{
	cut_reads *c = ctx;

	(void)op;
	if (strcmp(what, "read-log") != 0 || !c->left)
		return WHERRY_OK;
	c->left--;
	return wh_fail(err, WHERRY_BUSY, "the test fails a read");
}

static void a_read_that_fails_moves_no_position_back(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	static cut_reads c; /* Outlives the connection. */

	c.left = 0;
	relay_set(f, "relay.idle_interval", "10ms");
	relay_wrap(f, &(wh_trace){.before = fail_read, .ctx = &c});
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, high(f) == 2);
	c.left = 2;
	fake->by_hand = true;
	relay_put(f, "c");
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	relay_quiet(f, &f->a);
	assert_int_equal(c.left, 0);
	assert_int_equal(high(f), 2);
	assert_true(relay_fake_answer(fake, 3, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, high(f) == 3);
	relay_check_once(f, 3);
}

/* Messages that were read and not submitted become exceptions, if others of their look were
 * delivered. */
static void a_clean_end_in_the_middle_of_a_look_delivers_nothing_again(void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_hourly(f);
	fake->by_hand = true;
	relay_put(f, "aaab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	wherry_relay_stop(f->a.relay);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 4, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, f->a.finished);
	assert_int_equal(high(f), 4);
	assert_int_equal(exceptions(f), 2);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 2);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_check_order(f);
	assert_int_equal(exceptions(f), 0);
}

/* One message that stays in flight does not keep the position back. */
static void what_is_delivered_beside_an_open_message_is_not_delivered_after_a_crash(
	void **state)
{
	relay_fixture *f = *state;
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	relay_hourly(f);
	fake->by_hand = true;
	relay_put(f, "abcd");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	for (int id = 2; id <= 4; id++)
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3); /* After a second. */
	assert_int_equal(high(f), 4);
	assert_int_equal(exceptions(f), 1);
	relay_kill(f, &f->a);
	fake->by_hand = false;
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	assert_int_equal(relay_told(f, 1, WHERRY_DELIVERED), 1);
	relay_check_once(f, 4);
}

/* As a restore does: the relay was ahead, and what it delivered since is delivered again. */
static void a_position_that_goes_back_is_believed(void **state)
{
	relay_fixture *f = *state;

	relay_set(f, "relay.idle_interval", "10ms");
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, high(f) == 2);
	relay_stop(f, &f->a);
	relay_sql(f, "UPDATE outbox_progress SET high = 1");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, high(f) == 2);
	assert_int_equal(relay_told(f, 1, WHERRY_DELIVERED), 1);
	assert_int_equal(relay_told(f, 2, WHERRY_DELIVERED), 2);
}

const relay_test relay_log_tests[] = {
	RELAY_TEST(a_read_that_fails_moves_no_position_back, 0),
	RELAY_TEST(a_clean_end_in_the_middle_of_a_look_delivers_nothing_again, 0),
	RELAY_TEST(
		what_is_delivered_beside_an_open_message_is_not_delivered_after_a_crash,
		0),
	RELAY_TEST(a_position_that_goes_back_is_believed, 0),
	RELAY_TESTS_END,
};

const char *const relay_log_except[] = {
	/* They write to columns that rows of a log have not got, or read them. */
	"a_busy_database_is_waited_out_while_there_are_suspects",
	"a_dead_message_leaves_a_letter_that_says_why",
	"a_destination_that_denies_all_costs_no_attempt",
	"a_held_key_waits_on_after_a_restart", "a_key_that_goes_on_causes_no_sweep",
	"a_letter_that_is_rejected_buries_nothing",
	"a_lost_connection_redelivers_all_in_order_uncounted",
	"a_message_is_dead_after_its_attempts",
	"a_rejected_message_dies_at_once_and_alone",
	"a_relay_that_is_killed_while_it_stops_leaves_no_suspects",
	"a_row_inserted_below_the_cursor_is_delivered",
	"a_row_that_is_too_long_dies_alone",
	"a_row_whose_id_is_not_above_zero_dies_alone",
	"a_row_with_a_number_out_of_range_dies_alone",
	"a_throttled_message_waits_for_one_before_it_that_fails",
	"after_one_unclean_end_nothing_is_tried_alone",
	"all_that_died_meanwhile_leave_their_letters",
	"an_attempt_that_was_taken_back_is_on_record_when_it_is_made",
	"an_infinite_time_stops_nothing", "being_killed_in_a_batch_is_no_attempt",
	"followers_wait_for_their_failed_message_when_the_connection_is_lost",
	"letters_that_cannot_be_sent_at_all_make_nothing_dead",
	"one_success_between_them_and_it_is_not_down",
	"relays_that_end_while_the_destination_is_down_cost_no_attempt",
	"the_destination_of_dead_letters_may_ask_for_patience",
	"until_empty_takes_up_expired_claims",
	"what_ends_its_relay_is_not_tried_again_for_its_letter",
	"without_its_letter_a_message_stays_failed",
	"wrong_credentials_are_nobodys_death",
	/* They use an engine or a setting that a log refuses. */
	"a_claimed_message_whose_acknowledgement_is_ignored_dies",
	"a_delivered_message_is_archived", "a_delivered_message_is_deleted",
	"a_key_goes_on_when_what_it_waits_for_is_discarded",
	"a_letter_is_written_once_attempts_are_used_up",
	"a_long_key_that_does_not_compress_is_delivered_in_order",
	"a_long_message_id_is_acknowledged_with_the_others",
	"a_message_is_not_dead_before_its_letter_is_taken",
	"a_relay_that_stops_waits_for_its_letters",
	"after_a_claim_that_failed_a_key_keeps_its_order",
	"every_engine_says_that_it_found_rows",
	"messages_that_are_denied_keep_no_others_from_being_claimed",
	"ordinary_texts_are_delivered_as_they_are",
	"the_archive_is_purged_after_its_retention",
	"what_is_past_its_retention_is_archived_when_so_set",
	"what_is_replayed_from_the_archive_is_delivered_once_more",
	"what_took_the_id_of_a_claimed_message_is_delivered",
	/* An owner puts another message in the place of one, with its id. */
	"what_took_the_id_of_a_message_in_flight_is_delivered",
	"what_took_the_id_of_a_message_that_dies_does_not_die",
	"what_took_the_id_of_a_message_that_fails_has_not_failed",
	/* The database ignores or refuses to write to a row, and nothing is written to rows. */
	"a_failure_beside_a_row_that_cannot_be_written_is_recorded",
	"a_row_that_cannot_be_written_holds_up_no_other",
	"a_suspect_beside_a_row_that_cannot_be_written_lives",
	"an_ignored_acknowledgement_is_repeated_ever_more_rarely",
	"messages_that_an_acknowledgement_makes_are_delivered_at_once",
	"until_empty_is_an_error_if_acknowledgements_are_ignored",
	/* Of a delivered message nothing is kept but that it was delivered: neither its attempts nor a
	 * replay.  One that is delivered is pending while others of its look are open, for a second at most,
	 * and a relay counts what it delivered before it notices that its lease was taken over. */
	"a_lost_answer_records_no_attempt_twice",
	"a_receipt_that_comes_twice_counts_once",
	"a_replayed_message_has_the_next_generation",
	"what_waits_behind_a_delivered_message_leaves_at_once", NULL};
