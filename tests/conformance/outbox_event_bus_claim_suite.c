/*
 * Claims in tables that have no column for a token, beside a program that knows nothing of
 * Wherry.
 */
#include "event_bus.h"
#include "outbox_claims.h"

#include "outbox/outbox.h"

/* A time as the library writes it. */
#define ISO                                                                              \
	"'[0-9][0-9][0-9][0-9]-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-5][0-9].[0-9][0-9][0-9]Z'"

/* ---- what a claim writes ---- */

WHERRY_CASE(a_claim_is_written_as_the_library_writes_it, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");

	bus_publish(f, "one", "{}");
	claim_takes(f, &a, &claim_ten, "1");
	assert_int_equal(
		bus_int(f, "SELECT count(*) FROM outbox WHERE status = 'active' AND "
			   "started_on = keep_alive AND started_on GLOB " ISO " AND "
			   "expire_in_seconds = 60 AND retry_count = 0"),
		1);
}

WHERRY_CASE(a_claim_that_lives_is_not_taken_by_the_library, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 1;

	bus_publish(f, "one", "{}");
	assert_int_equal(bus_claimable(f, 5), 1);
	claim_takes(f, &a, &claim_ten, "1");
	assert_int_equal(bus_claimable(f, 5), 0);
	bus_raw(f, "UPDATE outbox SET keep_alive = "
		   "strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now', '-59 seconds')");
	assert_int_equal(bus_claimable(f, 5), 0);
	WHERRY_PASS(wherry_outbox_extend(f->outbox, &a, &id, 1, MINUTE_US, NULL, &err));
	assert_int_equal(bus_int(f, "SELECT (julianday('now') - julianday(keep_alive)) * "
				    "86400 < 30 FROM outbox"),
			 1);
	bus_raw(f, "UPDATE outbox SET keep_alive = "
		   "strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now', '-62 seconds')");
	assert_int_equal(bus_claimable(f, 5), 1);
}

WHERRY_CASE(a_claim_of_the_library_that_lives_is_not_taken, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");

	bus_publish(f, "one", "{}");
	bus_raw(f, "UPDATE outbox SET status = 'active', keep_alive = "
		   "strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now', '-299 seconds')");
	claim_takes(f, &a, &claim_ten, "");
	claim_takes_expired(f, &a, "");
	bus_raw(f, "UPDATE outbox SET keep_alive = "
		   "strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now', '-301 seconds')");
	claim_takes(f, &a, &claim_ten, "");
	claim_takes_expired(f, &a, "1");
	assert_int_equal(bus_int(f, "SELECT retry_count FROM outbox"), 1);
}

WHERRY_CASE(a_claim_without_a_time_has_expired, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");

	bus_publish(f, "one", "{}");
	bus_publish(f, "two", "{}");
	bus_raw(f, "UPDATE outbox SET status = 'active', "
		   "keep_alive = CASE id WHEN 'two' THEN 'soon' END");
	claim_takes_expired(f, &a, "1");
	claim_takes_expired(f, &a, "2");
}

/* Whoever claims it next may rely on what the table says. */
WHERRY_CASE(what_is_given_back_expires_as_the_table_says, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");

	bus_publish(f, "one", "{}");
	bus_publish(f, "two", "{}");
	claim_takes(f, &a, &claim_ten, "1 2");
	claim_requeue(f, &a, 1);
	claim_fail(f, &a, 2, MINUTE_US, false);
	assert_int_equal(bus_int(f, "SELECT sum(expire_in_seconds) FROM outbox"), 600);
	assert_int_equal(bus_int(f,
				 "SELECT count(*) FROM outbox WHERE status = 'created' "
				 "AND keep_alive IS NULL AND id = 'one'"),
			 1);
}

WHERRY_CASE(a_failure_is_one_to_the_library, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");

	bus_publish(f, "one", "{}");
	bus_publish(f, "two", "{}");
	claim_takes(f, &a, &claim_ten, "1 2");
	claim_fail(f, &a, 1, MINUTE_US, false);
	assert_string_equal(bus_text(f, "SELECT status || retry_count || last_error || "
					"(next_retry_at GLOB " ISO ") FROM outbox "
					"WHERE id = 'one'"),
			    "failed1no answer1");
	assert_int_equal(bus_claimable(f, 5), 0);
	bus_raw(f, "UPDATE outbox SET next_retry_at = '2020-01-01T00:00:00.000Z' "
		   "WHERE id = 'one'");
	assert_int_equal(bus_claimable(f, 5), 1);
	claim_fail(f, &a, 2, 0, true); /* dead: nobody's until it is retried */
	bus_raw(f, "UPDATE outbox SET status = 'x' WHERE id = 'one'");
	assert_int_equal(bus_claimable(f, 1000), 0);
	assert_int_equal(bus_int(f, "SELECT count(*) FROM outbox WHERE status = 'failed' "
				    "AND next_retry_at IS NULL"),
			 1);
}

/* ---- the fence ---- */

static int refused(outbox_fixture *f, const wherry_lease *lease, int64_t id)
{
	wherry_error err = WHERRY_ERROR_INIT;

	return wherry_outbox_done(f->outbox, lease, &id, 1, NULL, &err) == WHERRY_STALE;
}

/* The library's retryEvents takes a row away even while it is being tried. */
WHERRY_CASE(two_claims_within_a_millisecond_are_two, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");
	char last[40] = "";

	bus_publish(f, "one", "{}");
	for (int i = 0; i < 50; i++) {
		claim_takes(f, &a, &claim_ten, "1");
		assert_true(strcmp(last, bus_text(f, "SELECT started_on FROM outbox")) <
			    0);
		(void)snprintf(last, sizeof(last), "%.39s", f->text);
		fixture_app(f, "UPDATE outbox SET status = 'created'");
		claim_takes(f, &b, &claim_ten, "1");
		assert_true(refused(f, &a, 1));
		assert_true(strcmp(last, bus_text(f, "SELECT started_on FROM outbox")) <
			    0);
		(void)snprintf(last, sizeof(last), "%.39s", f->text);
		fixture_app(f, "UPDATE outbox SET status = 'created'");
	}
}

WHERRY_CASE(a_clock_that_is_set_back_makes_no_two_claims_one, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	bus_publish(f, "one", "{}");
	bus_raw(f, "UPDATE outbox SET started_on = '2999-12-31T23:59:59.999Z'");
	claim_takes(f, &a, &claim_ten, "1");
	assert_string_equal(bus_text(f, "SELECT started_on FROM outbox"),
			    "3000-01-01T00:00:00.000Z");
	bus_raw(f, "UPDATE outbox SET status = 'created'");
	claim_takes(f, &b, &claim_ten, "1");
	assert_true(refused(f, &a, 1));
	claim_done(f, &b, 1);
}

/* VACUUM may number rows anew, though this SQLite does not; what is claimed is still known
 * by the message's own id. */
WHERRY_CASE(an_acknowledgement_survives_vacuum, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");
	wherry_claim_options two =
		WHERRY_CLAIM_OPTIONS(.limit = 2, .lasts_us = MINUTE_US);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t ids[] = {3, 4}, n = 0;

	for (int i = 1; i <= 6; i++)
		bus_publish(f, (const char[]){(char)('a' + i - 1), 0}, "{}");
	bus_raw(f, "DELETE FROM outbox WHERE id IN ('a', 'b')");
	claim_takes(f, &a, &two, "3 4");
	bus_raw(f, "VACUUM; UPDATE outbox SET rowid = rowid - 2 WHERE rowid > 2");
	assert_int_equal(bus_int(f, "SELECT rowid FROM outbox WHERE id = 'e'"), 3);
	WHERRY_PASS(wherry_outbox_extend(f->outbox, &a, ids, 2, MINUTE_US, &n, &err));
	claim_takes(f, &a, &two, "1152921504606846977 1152921504606846978"); /* e and f */
	WHERRY_PASS(wherry_outbox_done(f->outbox, &a, ids, 2, &n, &err));
	assert_int_equal(n, 2);
	assert_string_equal(bus_text(f, "SELECT group_concat(id, '') FROM "
					"(SELECT id FROM outbox_archive ORDER BY id)"),
			    "cd");
	claim_fail(f, &a, 1152921504606846977, MINUTE_US, false);
	assert_string_equal(bus_text(f, "SELECT id FROM outbox WHERE status = 'failed'"),
			    "e");
}

WHERRY_CASE(a_number_that_is_used_again_is_another_message, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a"), b = claim_join(f, "b");

	bus_publish(f, "one", "{}");
	claim_takes(f, &a, &claim_ten, "1");
	bus_raw(f, "DELETE FROM outbox"); /* the library, once the claim had expired */
	bus_publish(f, "two", "{}");
	assert_true(refused(f, &a, 1));
	claim_takes(f, &b, &claim_ten, "1");
	assert_true(refused(f, &a, 1));
	assert_int_equal(bus_int(f, "SELECT count(*) FROM outbox_archive"), 0);
	claim_done(f, &b, 1);
	assert_string_equal(bus_text(f, "SELECT id FROM outbox_archive"), "two");
}

/* Ids are the application's: anything may be in them. */
WHERRY_CASE(any_text_is_an_id, outbox_fixture *f)
{
	static const char *const ids[] = {"''",  "a\"b\\", "caf\xc3\xa9 \xf0\x9f\x9a\xa2",
					  "[1]", "null",   "\x01\x1f",
					  NULL};
	wherry_lease a = claim_join(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t all[] = {1, 2, 3, 4, 5, 6}, n = 0;

	for (int i = 0; ids[i]; i++)
		bus_publish(f, ids[i], "{}");
	bus_raw(f, "INSERT INTO outbox(id, type, payload, occurred_at) "
		   "VALUES (NULL, 't', '{}', '')"); /* nobody's */
	claim_takes(f, &a, &claim_ten, "1 2 3 4 5 6");
	WHERRY_PASS(wherry_outbox_extend(f->outbox, &a, all, 6, MINUTE_US, &n, &err));
	assert_int_equal(n, 6);
	WHERRY_PASS(wherry_outbox_done(f->outbox, &a, all, 6, &n, &err));
	assert_int_equal(n, 6);
	assert_int_equal(bus_int(f, "SELECT count(*) FROM outbox_archive"), 6);
}

WHERRY_CASE(a_lease_is_refused_and_told_why, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {.epoch = -7};

	WHERRY_FAILS(WHERRY_UNSUPPORTED,
		     wherry_outbox_lease(f->outbox, "a", MINUTE_US, 8, &lease, &err));
	assert_non_null(strstr(err.message, "event-bus"));
	assert_int_equal(lease.epoch, -7);
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_outbox_pause(f->outbox, &err));
	assert_non_null(strstr(err.message, "stop its relays"));
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_outbox_resume(f->outbox, &err));
}

WHERRY_CASE(until_empty_ends_though_rowids_are_used_again, outbox_fixture *f)
{
	wherry_lease a = claim_join(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t target = -7;
	bool open = false;

	bus_publish(f, "one", "{}");
	bus_raw(f, "UPDATE outbox SET created_on = "
		   "strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now', '-1 seconds')");
	WHERRY_PASS(wh_store_last_open(&f->outbox->store, &target, &err));
	WHERRY_PASS(wh_store_open_upto(&f->outbox->store, target, &open, &err));
	assert_true(open);
	claim_takes(f, &a, &claim_ten, "1");
	claim_done(f, &a, 1);
	bus_publish(f, "two", "{}");
	assert_int_equal(bus_int(f, "SELECT rowid FROM outbox"), 1);
	WHERRY_PASS(wh_store_open_upto(&f->outbox->store, target, &open, &err));
	assert_false(open);
}

const outbox_case outbox_event_bus_claim_cases[] = {
	CASE(a_claim_is_written_as_the_library_writes_it),
	CASE(a_claim_that_lives_is_not_taken_by_the_library),
	CASE(a_claim_of_the_library_that_lives_is_not_taken),
	CASE(a_claim_without_a_time_has_expired),
	CASE(what_is_given_back_expires_as_the_table_says),
	CASE(a_failure_is_one_to_the_library),
	CASE(two_claims_within_a_millisecond_are_two),
	CASE(a_clock_that_is_set_back_makes_no_two_claims_one),
	CASE(an_acknowledgement_survives_vacuum),
	CASE(a_number_that_is_used_again_is_another_message),
	CASE(any_text_is_an_id),
	CASE(a_lease_is_refused_and_told_why),
	CASE(until_empty_ends_though_rowids_are_used_again),
	{NULL, NULL, 0},
};
