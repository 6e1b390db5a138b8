/*
 * Dead messages: when one dies, what becomes of its key, and how it comes back.
 */
#include "relay_suite.h"

#include "log_line.h"

WHERRY_CASE(a_message_is_dead_after_its_attempts, relay_fixture *f)
{
	relay_set(f, "retry.attempts", "3");
	relay_answers(f, 1, WHERRY_RETRY, -1);
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	assert_int_equal(relay_told(f, 1, WHERRY_RETRY), 3);
	assert_int_equal(relay_attempts(f, 1), 3);
	RELAY_DELIVERED(f, 3, 2);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM outbox WHERE id = 1 AND "
					 "last_error = 'the test said so'"),
			 1);
	assert_int_equal(relay_stats(&f->a).dead, 1);
	assert_int_equal(relay_stats(&f->a).retried, 2);
	assert_true(relay_logged(f, "event=dead id=1 "));
	assert_true(relay_logged(f, "why=\"the test said so\""));
}

WHERRY_CASE(a_rejected_message_dies_at_once_and_alone, relay_fixture *f)
{
	char keys[101];

	for (int i = 0; i < 100; i++)
		keys[i] = (char)('a' + i % 26);
	keys[100] = 0;
	relay_answers(f, 50, WHERRY_REJECTED, -1);
	relay_put(f, keys);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 99);
	assert_int_equal(relay_state(f, 50), WHERRY_DEAD);
	assert_int_equal(relay_told(f, 50, WHERRY_REJECTED), 1);
	assert_int_equal(relay_delivered(f), 99);
	relay_check_order(f);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox "
					 "WHERE id <> 50"),
			 0);
}

WHERRY_CASE(all_may_be_rejected_without_the_destination_being_down, relay_fixture *f)
{
	f->every = WHERRY_REJECTED;
	relay_put(f, "abcdefghij--");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 12);
	assert_false(relay_stats(&f->a).down);
}

WHERRY_CASE(a_key_goes_on_after_a_dead_message, relay_fixture *f)
{
	relay_answers(f, 1, WHERRY_REJECTED, -1);
	relay_put(f, "aaa");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 2, 3);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	assert_int_equal(relay_stats(&f->a).held_keys, 0);
}

static void park(relay_fixture *f)
{
	relay_set(f, "relay.on_dead", "park");
	relay_set(f, "relay.sweep", "1h");
	relay_answers(f, 2, WHERRY_REJECTED, 1);
	relay_put(f, "aaab-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_DEAD);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
}

WHERRY_CASE(a_parked_key_waits_until_its_message_is_retried, relay_fixture *f)
{
	park(f);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 1, 4, 5, 7);
	assert_int_equal(relay_stats(&f->a).parked_keys, 1);
	assert_int_equal(relay_retry(f, 0), 1);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 7);
	RELAY_DELIVERED(f, 1, 4, 5, 7, 2, 3, 6);
	assert_int_equal(relay_stats(&f->a).parked_keys, 0);
	assert_int_equal(relay_attempts(f, 2), 0); /* a retry by hand begins anew */
}

WHERRY_CASE(a_parked_key_stays_parked_after_a_restart, relay_fixture *f)
{
	park(f);
	relay_stop(f, &f->a);
	relay_put(f, "ac");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 1, 4, 5, 7, 9);
	assert_int_equal(relay_stats(&f->a).parked_keys, 1);
	relay_retry(f, 0);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 9);
	RELAY_DELIVERED(f, 1, 4, 5, 7, 9, 2, 3, 6, 8);
}

WHERRY_CASE(a_parked_key_is_parked_again_when_its_message_dies_again, relay_fixture *f)
{
	park(f);
	relay_answers(f, 2, WHERRY_REJECTED, 1);
	relay_retry(f, 0);
	RELAY_UNTIL(f, &f->a, relay_told(f, 2, WHERRY_REJECTED) == 2);
	RELAY_UNTIL(f, &f->a, relay_state(f, 2) == WHERRY_DEAD);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 1, 4, 5, 7);
	relay_retry(f, 0);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 7);
	relay_check_order(f);
}

WHERRY_CASE(retried_messages_keep_their_order, relay_fixture *f)
{
	for (int64_t id = 1; id <= 4; id++)
		relay_answers(f, id, WHERRY_REJECTED, 1);
	relay_put(f, "aabb-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 4);
	assert_int_equal(relay_retry(f, 0), 4);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
	relay_check_order(f);
}

/* What was in flight behind it comes back after the dead were read again. */
WHERRY_CASE(a_key_stays_parked_while_others_of_it_come_back, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, WH_PUB_ORDERED);

	fake->by_hand = true;
	relay_set(f, "relay.on_dead", "park");
	relay_put(f, "aab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 3);
	assert_true(relay_fake_answer(fake, 1, WHERRY_REJECTED));
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	relay_sql(
		f,
		"UPDATE wherry_outbox SET control_version = control_version + 1"); /* so it sweeps */
	relay_quiet(f, &f->a);
	assert_true(relay_fake_answer(fake, 2, WHERRY_RETRY));
	assert_true(relay_fake_answer(fake, 3, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	relay_quiet(f, &f->a);
	assert_false(relay_fake_holds(fake, 2));
	assert_int_equal(relay_stats(&f->a).parked_keys, 1);
	fake->by_hand = false;
	relay_retry(f, 0);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_DELIVERED(f, 3, 1, 2);
}

static void put_a_nul(relay_fixture *f, const char *key)
{
	char sql[256];

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO outbox(topic, partition_key, payload) "
		       "VALUES (%s, '%s', '{}')",
		       f->target->a_nul, key);
	relay_sql(f, sql);
}

WHERRY_CASE(text_with_a_nul_dies_alone, relay_fixture *f)
{
	relay_put(f, "aab");
	put_a_nul(f, "a");
	relay_put(f, "ab-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6);
	assert_int_equal(relay_state(f, 4), WHERRY_DEAD);
	relay_check_order(f);
	assert_int_equal(relay_told(f, 4, WHERRY_DELIVERED), 0);
	assert_int_equal(relay_number(f, "SELECT sum(attempts) FROM outbox"), 0);
}

WHERRY_CASE(text_with_a_nul_parks_only_what_comes_after_it, relay_fixture *f)
{
	relay_set(f, "relay.on_dead", "park");
	relay_put(f, "aa");
	put_a_nul(f, "a");
	relay_put(f, "ab");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 3) == WHERRY_DEAD);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	relay_quiet(f, &f->a);
	relay_check_order(f);
	assert_int_equal(relay_state(f, 4), WHERRY_PENDING);
	relay_sql(f, "UPDATE outbox SET topic = 't' WHERE id = 3");
	relay_retry(f, 0);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 5);
	relay_check_once(f, 5);
	relay_check_order(f);
}

/* The fields of the line about a dead message, of which there is one. */
static json_t *dead_line(const relay_fixture *f)
{
	const char *line = strstr(f->log, "event=dead ");
	char text[4000];

	assert_non_null(line);
	assert_null(strstr(line + 1, "event=dead "));
	(void)snprintf(text, sizeof(text), "%.*s", (int)strcspn(line, "\n"), line);
	return log_line_parse(text);
}

/* Line breaks, fields, quotes, escape sequences, and bytes that are not UTF-8. */
WHERRY_CASE(no_text_of_a_message_forges_a_line_of_the_log, relay_fixture *f)
{
	json_t *fields;

	relay_answers(f, 1, WHERRY_REJECTED, -1);
	f->why = "no\nevent=lease-lost \x1b[2J\xff a b=c \"";
	relay_put(f, "a");
	relay_sql(f, "UPDATE outbox SET topic = 't\nevent=leading epoch=9\r\x1b]0;x\x07"
		     " a b=c \"q\" \302\23331m', message_id = 'm\" id=7 x=\"'");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	fields = dead_line(f);
	assert_non_null(fields);
	assert_int_equal(json_object_size(fields), 5);
	assert_true(log_line_has(fields, "event", "dead"));
	assert_true(log_line_has(fields, "id", "1"));
	assert_true(log_line_has(fields, "message_id", "m\" id=7 x=\""));
	assert_true(log_line_has(fields, "topic",
				 "t\nevent=leading epoch=9\r\x1b]0;x\x07"
				 " a b=c \"q\" \302\23331m"));
	assert_true(log_line_has(fields, "why", "no event=lease-lost  [2J? a b=c \""));
	json_decref(fields);
}

const relay_test relay_dead_tests[] = {
	RELAY_TEST(no_text_of_a_message_forges_a_line_of_the_log, RELAY_KEYS),
	RELAY_TEST(a_message_is_dead_after_its_attempts, 0),
	RELAY_TEST(a_rejected_message_dies_at_once_and_alone, 0),
	RELAY_TEST(all_may_be_rejected_without_the_destination_being_down, 0),
	RELAY_TEST(a_key_goes_on_after_a_dead_message, 0),
	RELAY_TEST(a_parked_key_waits_until_its_message_is_retried, 0),
	RELAY_TEST(a_parked_key_stays_parked_after_a_restart, 0),
	RELAY_TEST(a_parked_key_is_parked_again_when_its_message_dies_again, 0),
	RELAY_TEST(a_key_stays_parked_while_others_of_it_come_back, 0),
	RELAY_TEST(retried_messages_keep_their_order, 0),
	RELAY_TEST(text_with_a_nul_dies_alone, RELAY_NUL),
	RELAY_TEST(text_with_a_nul_parks_only_what_comes_after_it, RELAY_NUL),
	RELAY_TESTS_END,
};
