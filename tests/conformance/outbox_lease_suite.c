/*
 * The lease: one relay at a time, and what its end tells the next.
 */
#include "outbox_suite.h"

#include "outbox/outbox.h"

static int64_t left_us(outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status status;

	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	return status.lease_left_us;
}

WHERRY_CASE(a_lease_is_taken_once_and_others_are_told_by_whom, outbox_fixture *f)
{
	wherry_lease lease = fixture_lease(f, "host-1/42"), other = {.epoch = -7};
	wherry_error err = WHERRY_ERROR_INIT;

	assert_int_equal(lease.epoch, 1);
	assert_int_equal(lease.lasts_us, 60000000);
	assert_string_equal(lease.owner, "host-1/42");
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(f->outbox, "host-2", 60000000, 8, &other, &err));
	assert_non_null(strstr(err.message, "host-1/42"));
	assert_non_null(strstr(err.message, "'outbox'"));
	assert_int_equal(other.epoch, -7);
	/* by its holder neither: renewal is for that */
	WHERRY_FAILS(WHERRY_BUSY, wherry_outbox_lease(f->outbox, "host-1/42", 60000000, 8,
						      &other, &err));
}

WHERRY_CASE(a_lease_expires_by_the_database_s_clock, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease, next = {0};
	wherry_code code = WHERRY_BUSY;
	int64_t began = wh_monotonic(&wh_env_system), took;

	WHERRY_PASS(wherry_outbox_lease(f->outbox, "a", 100000, 8, &lease, &err));
	while (code == WHERRY_BUSY) {
		code = wherry_outbox_lease(f->outbox, "b", 60000000, 8, &next, &err);
		wh_sleep(&wh_env_system, 2000);
	}
	WHERRY_PASS(code);
	took = wh_monotonic(&wh_env_system) - began;
	assert_in_range((uint64_t)took, 98000, 30000000);
	assert_int_equal(next.epoch, lease.epoch + 1);
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_renew(f->outbox, &lease, &err));
}

WHERRY_CASE(the_epoch_grows_with_every_lease, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 1; i <= 6; i++) {
		wherry_lease lease = fixture_lease(f, "a");

		assert_int_equal(lease.epoch, i);
		if (i % 2)
			WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
		else
			fixture_expire(f);
	}
}

WHERRY_CASE(renewal_makes_a_lease_last_from_now_on, outbox_fixture *f)
{
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;

	assert_in_range((uint64_t)left_us(f), 50000000, 60000000);
	fixture_raw(f, "UPDATE wherry_lease SET expires_at = expires_at - 50000");
	assert_in_range((uint64_t)left_us(f), 1, 10000000);
	WHERRY_PASS(wherry_outbox_renew(f->outbox, &lease, &err));
	assert_in_range((uint64_t)left_us(f), 50000000, 60000000);
	assert_int_equal(lease.epoch, 1);
	assert_string_equal(lease.owner, "a");
}

/* The clock was a day ahead, and was set back. */
WHERRY_CASE(a_lease_from_a_clock_ahead_ends_in_its_time, outbox_fixture *f)
{
	wherry_lease lease = {0};
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_lease(f, "a");
	fixture_raw(f, "UPDATE wherry_lease SET expires_at = expires_at + 86400000");
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(f->outbox, "b", 60000000, 1, &lease, &err));
	assert_in_range((uint64_t)left_us(f), 50000000, 60000000);
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(f->outbox, "b", 600000000, 1, &lease, &err));
	assert_in_range((uint64_t)left_us(f), 50000000, 60000000);
}

WHERRY_CASE(a_expired_lease_is_not_revived, outbox_fixture *f)
{
	wherry_lease lease = fixture_lease(f, "a"), before = lease;
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_expire(f);
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_renew(f->outbox, &lease, &err));
	assert_memory_equal(&lease, &before, sizeof(lease));
	assert_int_equal(left_us(f), 0);
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_release(f->outbox, &lease, &err));
	fixture_lease(f, "b");
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_renew(f->outbox, &lease, &err));
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_release(f->outbox, &lease, &err));
	assert_in_range((uint64_t)left_us(f), 50000000, 60000000);
	assert_int_equal(wherry_code_remedy(err.code), WHERRY_REMEDY_ROLLBACK);
}

WHERRY_CASE(a_released_lease_is_free_at_once, outbox_fixture *f)
{
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
	assert_int_equal(left_us(f), 0);
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_release(f->outbox, &lease, &err));
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_renew(f->outbox, &lease, &err));
	assert_int_equal(fixture_lease(f, "b").epoch, 2);
}

WHERRY_CASE(a_lease_needs_an_owner_and_a_time, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {.epoch = -7};

	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_lease(f->outbox, NULL, 1000000, 1, &lease, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_lease(f->outbox, "a", 0, 1, &lease, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_lease(f->outbox, "a", -1, 1, &lease, &err));
	assert_int_equal(lease.epoch, -7);
}

WHERRY_CASE(a_long_owner_is_cut, outbox_fixture *f)
{
	char owner[300];
	wherry_lease lease;
	wherry_outbox_status status;
	wherry_error err = WHERRY_ERROR_INIT;

	memset(owner, 'o', sizeof(owner));
	owner[299] = 0;
	lease = fixture_lease(f, owner);
	assert_int_equal(strlen(lease.owner), sizeof(lease.owner) - 1);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_string_equal(status.owner, lease.owner);
}

/* ---- what a lease tells ---- */

WHERRY_CASE(a_lease_and_its_renewal_tell_what_is_pending, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = fixture_lease(f, "a");
	int64_t first;

	assert_int_equal(lease.first_open, 0);
	assert_int_equal(lease.last_open, 0);
	first = fixture_send_many(f, 5);
	WHERRY_PASS(wherry_outbox_renew(f->outbox, &lease, &err));
	assert_int_equal(lease.first_open, 0);
	assert_int_equal(lease.last_open, first + 4);
	WHERRY_PASS(wherry_outbox_done(f->outbox, &lease, &first, 1, NULL, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
	lease = fixture_lease(f, "b");
	assert_int_equal(lease.first_open, 0);
	assert_int_equal(lease.last_open, first + 4);
}

WHERRY_CASE(pause_and_resume_are_seen_wherever_a_relay_looks, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = fixture_lease(f, "a");
	int64_t control_version = lease.control_version, seen;
	wherry_outbox_status status;
	bool paused;

	for (int on = 1; on >= 0; on--) {
		for (int again = 0; again < 2; again++)
			WHERRY_PASS(on ? wherry_outbox_pause(f->outbox, &err)
				       : wherry_outbox_resume(f->outbox, &err));
		WHERRY_PASS(wherry_outbox_renew(f->outbox, &lease, &err));
		assert_int_equal(lease.paused, on);
		assert_true(lease.control_version > control_version);
		control_version = lease.control_version;
		WHERRY_PASS(wh_store_control(&f->outbox->store, &paused, &seen, &err));
		assert_int_equal(paused, on);
		assert_int_equal(seen, control_version);
		WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
						     sizeof(wherry_outbox_status), &err));
		assert_int_equal(status.paused, on);
		WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
		lease = fixture_lease(f, "b");
		assert_int_equal(lease.paused, on);
		assert_int_equal(lease.control_version, control_version);
	}
}

WHERRY_CASE(status_tells_who_relays, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_status status;
	wh_holder holder = {.left_us = -7, .owner = "nobody"};

	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_int_equal(status.epoch, 0);
	assert_int_equal(status.lease_left_us, 0);
	assert_string_equal(status.owner, "");
	assert_string_equal(status.engine, "");
	assert_int_equal(status.schema_version, 1);
	WHERRY_PASS(wh_store_holder(&f->outbox->store, &holder, &err));
	assert_int_equal(holder.left_us, 0);
	assert_string_equal(holder.owner, "");

	fixture_lease(f, "host-1");
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_int_equal(status.epoch, 1);
	assert_in_range((uint64_t)status.lease_left_us, 50000000, 60000000);
	assert_string_equal(status.owner, "host-1");
	assert_string_equal(status.engine, "log");
	WHERRY_PASS(wh_store_holder(&f->outbox->store, &holder, &err));
	assert_in_range((uint64_t)holder.left_us, 50000000, 60000000);
	assert_string_equal(holder.owner, "host-1");

	fixture_expire(f);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_int_equal(status.lease_left_us, 0);
	assert_int_equal(status.epoch, 1);
	assert_string_equal(status.owner, "host-1");
}

/* ---- suspects ---- */

static wherry_lease lease_with(outbox_fixture *f, int64_t window)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};

	WHERRY_PASS(wherry_outbox_lease(f->outbox, "a", 60000000, window, &lease, &err));
	return lease;
}

static void the_first_lease_suspects_nothing(void **state)
{
	assert_int_equal(fixture_lease(*state, "a").suspects, 0);
}

WHERRY_CASE(after_a_clean_end_nothing_is_suspect, outbox_fixture *f)
{
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
	assert_int_equal(fixture_lease(f, "b").suspects, 0);
}

/* A lease that nobody gave back, under which so many messages may have been in flight. */
static void end_uncleanly(outbox_fixture *f, int64_t window)
{
	lease_with(f, window);
	fixture_expire(f);
}

WHERRY_CASE(after_one_unclean_end_nothing_is_suspect, outbox_fixture *f)
{
	end_uncleanly(f, 3);
	assert_int_equal(lease_with(f, 3).suspects, 0);
}

WHERRY_CASE(suspects_are_never_more_than_the_window, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;

	end_uncleanly(f, 3);
	lease_with(f, 3);
	for (int i = 0; i < 7; i++) {
		fixture_expire(f);
		lease = lease_with(f, 3);
		assert_int_equal(lease.suspects, 3);
	}
	WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
	assert_int_equal(lease_with(f, 3).suspects, 0);
	fixture_expire(f);
	assert_int_equal(lease_with(f, 3).suspects, 0);
}

/* They were tried in groups, in a smaller one each time. */
WHERRY_CASE(suspects_become_fewer_with_each_unclean_end, outbox_fixture *f)
{
	static const int64_t wanted[] = {0, 0, 5000, 256, 16, 16};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
		lease = lease_with(f, 5000);
		assert_int_equal(lease.suspects, wanted[i]);
		fixture_expire(f);
	}
	lease = lease_with(f, 5000);
	lease.suspects = -1; /* All were tried, and none did harm. */
	WHERRY_PASS(wherry_outbox_renew(f->outbox, &lease, &err));
	fixture_expire(f);
	assert_int_equal(lease_with(f, 5000).suspects, 5000);
}

WHERRY_CASE(it_is_the_window_of_the_one_that_ended, outbox_fixture *f)
{
	end_uncleanly(f, 50);
	end_uncleanly(f, 3);
	assert_int_equal(lease_with(f, 100).suspects, 3);
	fixture_expire(f);
	assert_int_equal(lease_with(f, 1).suspects, 100);
}

WHERRY_CASE(suspects_have_a_ceiling, outbox_fixture *f)
{
	end_uncleanly(f, 5000000);
	end_uncleanly(f, 5000000);
	assert_int_equal(lease_with(f, 1).suspects, 1000000);
}

WHERRY_CASE(a_renewal_without_suspects_ends_the_suspicion, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;

	end_uncleanly(f, 3);
	end_uncleanly(f, 3);
	lease = lease_with(f, 3);
	assert_int_equal(lease.suspects, 3);
	lease.suspects = 0; /* the holder has tried them all */
	WHERRY_PASS(wherry_outbox_renew(f->outbox, &lease, &err));
	assert_int_equal(lease.suspects, 0);
	fixture_expire(f);
	assert_int_equal(lease_with(f, 3).suspects, 0);
	fixture_expire(f);
	assert_int_equal(lease_with(f, 3).suspects, 3);
}

WHERRY_CASE(a_renewal_with_suspects_left_does_not, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;

	end_uncleanly(f, 3);
	end_uncleanly(f, 3);
	lease = lease_with(f, 3);
	lease.suspects = 1;
	WHERRY_PASS(wherry_outbox_renew(f->outbox, &lease, &err));
	assert_int_equal(lease.suspects, 1);
	fixture_expire(f);
	assert_int_equal(lease_with(f, 3).suspects, 3);
}

/* ---- several ---- */

static int try_lease(wherry_db *db, int which)
{
	wherry_outbox *outbox = NULL;
	wherry_lease lease = {0};
	wherry_code code = wherry_outbox_open(db, "outbox", &outbox, NULL);
	char owner[16];

	(void)snprintf(owner, sizeof(owner), "w%d", which);
	if (code == WHERRY_OK)
		code = wherry_outbox_lease(outbox, owner, 60000000, 1, &lease, NULL);
	wherry_outbox_close(outbox);
	return code == WHERRY_OK || code == WHERRY_BUSY ? 0 : 1;
}

WHERRY_CASE(of_many_that_ask_at_once_one_gets_the_lease, outbox_fixture *f)
{
	wherry_outbox_status status;
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_threads(f, 8, try_lease);
	fixture_reopen(f);
	WHERRY_PASS(wherry_outbox_get_status(f->outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_int_equal(status.epoch, 1); /* a second one would have raised it */
	assert_true(status.lease_left_us > 0);
}

/* ---- the fence ---- */

static void everything_is_refused(outbox_fixture *f, const wherry_lease *lease)
{
	char before[sizeof(f->text)];
	int64_t ids[] = {1, 2, 3, 4}, n = -7;
	wherry_failure failure = WHERRY_FAILURE(.id = 1, .dead = true, .error = "late");
	wherry_lease copy = *lease;
	wh_settlement all = {
		.done = ids, .n_done = 1, .failed = &failure, .n_failed = 1, .try_id = 2};
	wherry_error err = WHERRY_ERROR_INIT;

	(void)snprintf(before, sizeof(before), "%s", fixture_digest(f));
	WHERRY_FAILS(WHERRY_STALE,
		     wherry_outbox_done(f->outbox, lease, ids, 4, &n, &err));
	WHERRY_FAILS(WHERRY_STALE,
		     wherry_outbox_done(f->outbox, lease, NULL, 0, &n, &err));
	assert_int_equal(n, -7);
	WHERRY_FAILS(WHERRY_STALE,
		     wherry_outbox_fail(f->outbox, lease, &failure, 1, &err));
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_requeue(f->outbox, lease, ids, 4, &err));
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_try(f->outbox, lease, 1, &err));
	WHERRY_FAILS(WHERRY_STALE,
		     wh_store_settle(&f->outbox->store, lease, &all, NULL, &err));
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_renew(f->outbox, &copy, &err));
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_release(f->outbox, lease, &err));
	assert_non_null(strstr(err.message, "nothing was changed"));
	assert_false(wherry_db_in_transaction(f->db));
	assert_string_equal(fixture_digest(f), before);
}

WHERRY_CASE(a_stale_lease_changes_nothing_and_says_so, outbox_fixture *f)
{
	int64_t first = fixture_send_many(f, 4);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease, next, none = {0}, future;

	fixture_fail(f, first + 1, 0);
	fixture_try(f, first + 2);
	everything_is_refused(f, &none);
	lease = fixture_lease(f, "a");
	fixture_expire(f);
	everything_is_refused(f, &lease); /* expired */
	next = fixture_lease(f, "b");
	everything_is_refused(f, &lease); /* taken over */
	future = next;
	future.epoch++;
	everything_is_refused(f, &future); /* never given */
	WHERRY_PASS(wherry_outbox_release(f->outbox, &next, &err));
	everything_is_refused(f, &next); /* given back */
}

/* A restore or a failover may put the row back to one of before the last take-over.  The next relay
 * then gets the epoch of one that still works, perhaps under the same name. */
WHERRY_CASE(two_relays_never_lead_under_one_epoch, outbox_fixture *f)
{
	int64_t first = fixture_send_many(f, 4);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease before, after;

	fixture_fail(f, first + 1, 0);
	fixture_try(f, first + 2);
	before = fixture_lease(f, "a");
	fixture_raw(f, "UPDATE wherry_lease SET epoch = epoch - 1");
	fixture_expire(f);
	after = fixture_lease(f, "a");
	assert_int_equal(after.epoch, before.epoch);
	everything_is_refused(f, &before);
	WHERRY_PASS(wherry_outbox_renew(f->outbox, &after, &err));
	WHERRY_PASS(wherry_outbox_done(f->outbox, &after, &first, 1, NULL, &err));
	WHERRY_PASS(wherry_outbox_release(f->outbox, &after, &err));
}

WHERRY_CASE(a_stale_write_leaves_the_caller_s_transaction_intact, outbox_fixture *f)
{
	int64_t id = fixture_send(f, "t", NULL);
	wherry_lease lease = fixture_lease(f, "a");
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_expire(f);
	fixture_raw(f, "CREATE TABLE business(id INTEGER)");
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	fixture_app(f, "INSERT INTO business VALUES (1)");
	WHERRY_FAILS(WHERRY_STALE,
		     wherry_outbox_done(f->outbox, &lease, &id, 1, NULL, &err));
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM business"), 1);
	assert_int_equal(fixture_state(f, id), WHERRY_PENDING);
}

/* A role that may write the row can leave anything in it. */
WHERRY_CASE(no_value_in_a_lease_stops_the_next_relay, outbox_fixture *f)
{
	static const char most[] = "9223372036854775807",
			  least[] = "-9223372036854775808";
	static const struct {
		const char *column, *values[4];
	} hostile[] = {
		{"epoch", {most, least, "-1", "0"}},
		{"unclean", {"2147483647", "-2147483648", "64", "-1"}},
		{"win", {most, least, "0", "-1"}},
		{"suspects", {most, least, "0", "-1"}},
		{"lasts", {most, least, "0", "-1"}},
		{"delivered", {most, least, "0", "-1"}},
		{"clean", {"2147483647", "-2147483648", "0", "1"}},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	int bad = 0;

	for (size_t c = 0; c < sizeof(hostile) / sizeof(*hostile); c++)
		for (int v = 0; v < 4; v++) {
			wherry_lease alone = fixture_lease(f, "a");
			wherry_code code;

			fixture_expire(f);
			fixture_raw(f, "UPDATE wherry_lease SET clean = 0, unclean = 2");
			fixture_raw(f, "UPDATE wherry_lease SET %s = %s",
				    hostile[c].column, hostile[c].values[v]);
			code = wherry_outbox_lease(f->outbox, "b", 60000000, 8, &alone,
						   &err);
			if (code == WHERRY_OK)
				code = wherry_outbox_renew(f->outbox, &alone, &err);
			if (code == WHERRY_OK && alone.suspects > 1000000)
				code = wh_fail(&err, WHERRY_INVALID, "too many suspects");
			if (code != WHERRY_OK)
				print_error("%s = %s: %s\n", hostile[c].column,
					    hostile[c].values[v], err.message);
			bad += code != WHERRY_OK;
			fixture_raw(f, "DELETE FROM wherry_lease");
		}
	assert_int_equal(bad, 0);
}

WHERRY_CASE(no_control_version_stops_a_pause, outbox_fixture *f)
{
	static const char *const values[] = {"9223372036854775807",
					     "-9223372036854775808"};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		fixture_raw(f, "UPDATE wherry_outbox SET control_version = %s",
			    values[i]);
		WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
		assert_int_equal(fixture_int(f,
					     "SELECT count(*) FROM wherry_outbox WHERE "
					     "paused_at IS NOT NULL"),
				 1);
		WHERRY_PASS(wherry_outbox_resume(f->outbox, &err));
	}
}

/* A lease is kept as long as it was asked for, or refused; it is not cut. */
WHERRY_CASE(no_lease_over_36500_days_is_cut, outbox_fixture *f)
{
	const int64_t most = INT64_C(36500) * 86400 * 1000000;
	const int64_t spans[] = {most + 1, INT64_MAX};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease, other = {.epoch = -7};

	for (size_t i = 0; i < 2; i++) {
		WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_lease(f->outbox, "a", spans[i],
								 8, &other, &err));
		assert_non_null(strstr(err.message, "the limit is 36500 days"));
		assert_int_equal(other.epoch, -7);
	}
	WHERRY_PASS(wherry_outbox_lease(f->outbox, "a", most, 8, &lease, &err));
	assert_true(left_us(f) > most - INT64_C(60000000));
	for (size_t i = 0; i < 2; i++) {
		other = lease;
		other.lasts_us = spans[i];
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_renew(f->outbox, &other, &err));
		assert_non_null(strstr(err.message, "the limit is 36500 days"));
	}
	WHERRY_PASS(wherry_outbox_renew(f->outbox, &lease, &err));
}

const outbox_case outbox_lease_cases[] = {
	CASE(a_lease_is_taken_once_and_others_are_told_by_whom),
	CASE(a_lease_expires_by_the_database_s_clock),
	CASE(the_epoch_grows_with_every_lease),
	CASE(renewal_makes_a_lease_last_from_now_on),
	CASE(a_lease_from_a_clock_ahead_ends_in_its_time),
	CASE(a_expired_lease_is_not_revived),
	CASE(a_released_lease_is_free_at_once),
	CASE(a_lease_needs_an_owner_and_a_time),
	CASE(no_lease_over_36500_days_is_cut),
	CASE(no_value_in_a_lease_stops_the_next_relay),
	CASE(no_control_version_stops_a_pause),
	CASE(a_long_owner_is_cut),
	CASE(a_lease_and_its_renewal_tell_what_is_pending),
	CASE(pause_and_resume_are_seen_wherever_a_relay_looks),
	CASE(status_tells_who_relays),
	CASE(the_first_lease_suspects_nothing),
	CASE(after_a_clean_end_nothing_is_suspect),
	CASE(after_one_unclean_end_nothing_is_suspect),
	CASE(suspects_are_never_more_than_the_window),
	CASE(suspects_become_fewer_with_each_unclean_end),
	CASE(it_is_the_window_of_the_one_that_ended),
	CASE(suspects_have_a_ceiling),
	CASE(a_renewal_without_suspects_ends_the_suspicion),
	CASE(a_renewal_with_suspects_left_does_not),
	CASE(a_stale_lease_changes_nothing_and_says_so),
	CASE(two_relays_never_lead_under_one_epoch),
	CASE(a_stale_write_leaves_the_caller_s_transaction_intact),
	CASE_OF_SEVERAL(of_many_that_ask_at_once_one_gets_the_lease),
	{NULL, NULL, 0},
};
