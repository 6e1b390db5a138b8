/*
 * Which relays work on one outbox at one time, and one after the other, as
 * docs/internals/engines.md says.
 */
#include "meet_fixture.h"

/* ---- two relays ---- */

static int64_t partitions_of_second(void)
{
	char out[32];

	assert_true(
		postgres_raw(postgres_here.url,
			     "SELECT count(*) FROM wherry_lease WHERE owner = 'second' "
			     "AND mask <> 0",
			     out, sizeof(out)));
	return strtoll(out, NULL, 10);
}

/* Under the lock, whatever a look before it said. */
static void check_under_lock(wh_engine engine, wh_engine holder)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_lease lease = {.epoch = 0};
	wherry_db *db;
	wh_partitions partitions;
	wherry_code code;

	if (wh_meet_now(engine, holder) == WH_WORKS_BESIDE)
		return;
	if (engine == WH_PARTITIONED && holder == WH_EXCLUSIVE)
		return; /* it would get a share of nothing */
	db = open_db(urls[WH_NATIVE_POSTGRES]);
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	if (engine == WH_PARTITIONED)
		code = wh_partitions_join(&outbox->store, false, "third", WH_SECOND, 1,
					  &lease, &partitions, &err);
	else if (engine == WH_COMPETING)
		code = wherry_outbox_join(outbox, "third", WH_SECOND, &lease, &err);
	else
		code = wh_store_lease_as(&outbox->store, engine, false, "third",
					 WH_SECOND, 1, &lease, &err);
	assert_int_equal(code, WHERRY_BUSY);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
}

/* The first leads.  An exclusive relay does, or stands by, since before the outbox had
 * partitions. */
static void open_both(relay *first, wh_engine holder, relay *second, wh_engine newcomer)
{
	relay *both[] = {first, second};
	const wh_engine is[] = {holder, newcomer};

	make(WH_NATIVE_POSTGRES, "outbox", 0);
	for (int early = 1; early >= 0; early--) {
		for (int i = 0; i < 2; i++) {
			if ((is[i] == WH_EXCLUSIVE) != (early == 1))
				continue;
			set_engine(both[i], is[i]);
			set(both[i], "relay.name", i ? "second" : "first");
			assert_int_equal(
				open_relay(both[i], WH_NATIVE_POSTGRES, "outbox", 0),
				WHERRY_OK);
			if (!i)
				assert_true(leads(first));
		}
		if (early && (holder == WH_PARTITIONED || newcomer == WH_PARTITIONED))
			make(WH_NATIVE_POSTGRES, "outbox", WH_PARTITIONS_SHARED);
	}
}

static const char *meeting(relay *first, wh_engine holder, relay *second,
			   wh_engine newcomer)
{
	/* what must happen may take long on a busy machine; standing by is watched for a while */
	int most = wh_meet_now(newcomer, holder) == WH_STANDS_BY ? 100 : 20 * ROUNDS;

	for (int i = 0; i < most; i++) {
		assert_true(step(first));
		if (!step(second)) {
			assert_non_null(
				strstr(second->why.message, wh_engine_options(holder)));
			assert_non_null(strstr(second->why.message, "first"));
			return "refused";
		}
		if (epoch_of(second) &&
		    (newcomer != WH_PARTITIONED || partitions_of_second()))
			return "works beside it";
		wh_sleep(&wh_env_system, 2000);
	}
	return "stands by";
}

/* The first is gone, and its lease has expired. */
static const char *after(relay *first, relay *second, wh_engine newcomer)
{
	wherry_relay_close(first->relay);
	first->relay = NULL;
	run_sql("UPDATE wherry_lease SET expires_at = to_timestamp(0), clean = 0, members = '' "
		"WHERE owner = 'first'");
	if (!second->relay) {
		close_relay(second);
		set_engine(second, newcomer);
		set(second, "relay.name", "second");
		assert_int_equal(open_relay(second, WH_NATIVE_POSTGRES, "outbox", 0),
				 WHERRY_OK);
	}
	if (leads(second))
		return "takes over";
	assert_non_null(strstr(second->why.message, "--from table"));
	return "refused";
}

static void two_relays_meet_as_the_page_says(void **state)
{
	static const char *const words[] = {"refused", "stands by", "works beside it"};
	matrix now, later;

	(void)state;
	begin(&now, "newcomer");
	begin(&later, "newcomer");
	for (int i = 0; i < N_ENGINES; i++) {
		put(&now, wh_engine_name(engines[i]));
		put(&later, wh_engine_name(engines[i]));
	}
	end_head(&now, N_ENGINES);
	end_head(&later, N_ENGINES);
	for (int i = 0; i < N_ENGINES; i++) {
		row(&now, wh_engine_name(engines[i]));
		row(&later, wh_engine_name(engines[i]));
		for (int k = 0; k < N_ENGINES; k++) {
			relay first = {.relay = NULL}, second = {.relay = NULL};
			const char *how;

			if (i || k) {
				tear_down(NULL);
				set_up(NULL);
			}
			open_both(&first, engines[k], &second, engines[i]);
			check_under_lock(engines[i], engines[k]);
			how = meeting(&first, engines[k], &second, engines[i]);
			assert_string_equal(how,
					    words[wh_meet_now(engines[i], engines[k])]);
			put(&now, how);
			how = after(&first, &second, engines[i]);
			assert_string_equal(how, wh_meet_after(engines[i], engines[k])
							 ? "takes over"
							 : "refused");
			put(&later, how);
			close_relay(&first);
			close_relay(&second);
		}
	}
	compare(&now);
	compare(&later);
}

/* ---- a clock that was ahead ---- */

/* The second leads within some leases, which last for half a second, and not for a day. */
static bool leads_soon(relay *second, wh_engine newcomer)
{
	int64_t by_us = wh_monotonic(&wh_env_system) + 10 * WH_SECOND;

	while (wh_monotonic(&wh_env_system) < by_us) {
		if (!second->relay) {
			/* Another engine was refused: it is started again, as a service is. */
			close_relay(second);
			set_engine(second, newcomer);
			set(second, "relay.name", "second");
			set(second, "relay.lease", "500ms");
			assert_int_equal(
				open_relay(second, WH_NATIVE_POSTGRES, "outbox", 0),
				WHERRY_OK);
		}
		if (step(second) && epoch_of(second))
			return true;
		if (!second->relay && strstr(second->why.message, "--from table"))
			return true; /* Not because of the lease. */
		wh_sleep(&wh_env_system, 20000);
	}
	return false;
}

static void no_engine_waits_for_a_lease_from_a_clock_ahead(void **state)
{
	int n_waited = 0;

	(void)state;
	for (int i = 0; i < N_ENGINES; i++) {
		for (int k = 0; k < N_ENGINES; k++) {
			relay first = {.relay = NULL}, second = {.relay = NULL};

			if (i || k) {
				tear_down(NULL);
				set_up(NULL);
			}
			set(&first, "relay.lease", "500ms");
			set(&second, "relay.lease", "500ms");
			open_both(&first, engines[k], &second, engines[i]);
			wherry_relay_close(first.relay);
			first.relay = NULL;
			run_sql("UPDATE wherry_lease SET process = '', clean = 0, "
				"expires_at = now() + interval '1 day' "
				"WHERE owner = 'first'");
			if (!leads_soon(&second, engines[i])) {
				print_error("%s after %s waits\n",
					    wh_engine_name(engines[i]),
					    wh_engine_name(engines[k]));
				n_waited++;
			}
			close_relay(&first);
			close_relay(&second);
		}
	}
	assert_int_equal(n_waited, 0);
}

/* Deliver until so many have been, and everything at hand is. */
static int deliver(relay *r, wh_engine engine, bool again, int least)
{
	bool finished = false;
	int64_t wake_us;
	int n;

	set_engine(r, engine);
	if (again)
		set(r, "stream.from", "table");
	if (open_relay(r, WH_NATIVE_POSTGRES, "outbox", 0) != WHERRY_OK || !leads(r))
		return -1;
	for (int i = 0; i < 5000 && r->n < least; i++) {
		assert_true(step(r));
		wh_sleep(&wh_env_system, 1000);
	}
	assert_true(r->n >= least);
	wherry_relay_stop(r->relay);
	for (int i = 0; i < 5000 && !finished; i++) {
		assert_int_equal(
			wherry_relay_step(r->relay, &wake_us, &finished, &r->why),
			WHERRY_OK);
		wh_sleep(&wh_env_system, 1000);
	}
	n = r->n;
	close_relay(r);
	return n;
}

static void an_engine_that_marks_rows_follows_one_that_does_not_when_it_is_told_to(
	void **state)
{
	static const char put_three[] =
		"INSERT INTO outbox(topic, payload) SELECT 't', '{}' FROM "
		"generate_series(1, 3)";
	static const wh_engine others[] = {WH_EXCLUSIVE, WH_PARTITIONED, WH_COMPETING};

	(void)state;
	for (int i = 0; i < 3; i++) {
		relay r = {.relay = NULL};

		if (i) {
			tear_down(NULL);
			set_up(NULL);
		}
		make(WH_NATIVE_POSTGRES, "outbox",
		     others[i] == WH_PARTITIONED ? WH_PARTITIONS_SHARED : 0);
		run_sql(put_three);
		assert_int_equal(deliver(&r, WH_STREAM, false, 3), 3);
		assert_int_equal(deliver(&r, others[i], false, 0), -1);
		assert_non_null(strstr(r.why.message, "was streamed"));
		assert_non_null(strstr(r.why.message, "--from table"));
		close_relay(&r);
		assert_int_equal(deliver(&r, others[i], true, 3), 3);
		run_sql(put_three);
		assert_int_equal(deliver(&r, others[i], false, 3), 3);
		run_sql(put_three); /* and back: only what is open */
		assert_int_equal(deliver(&r, WH_STREAM, false, 3), 3);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(two_relays_meet_as_the_page_says, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			an_engine_that_marks_rows_follows_one_that_does_not_when_it_is_told_to,
			set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			no_engine_waits_for_a_lease_from_a_clock_ahead, set_up,
			tear_down),
	};

	if (!postgres_start_logical())
		return 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
