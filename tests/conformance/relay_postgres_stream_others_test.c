/*
 * A relay that streams, when its connection is cut, and beside others that read its replication
 * slot or work on its outbox.
 */
#include "relay_suite.h"

#include "outbox/outbox.h"
#include "postgres/server.h"

static void start(relay_fixture *f, relay_side *side)
{
	relay_stream(f, side);
	relay_quiet(f, side);
}

static void a_connection_that_is_cut_is_made_again(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	start(f, &f->a);
	for (int i = 1; i <= 5; i++) {
		relay_put(f, "a");
		relay_sql(f, "SELECT pg_terminate_backend(active_pid) FROM "
			     "pg_replication_slots WHERE active");
		relay_put(f, "a");
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2 * i);
		RELAY_UNTIL(f, &f->a,
			    relay_number(f, "SELECT count(*) FROM "
					    "pg_replication_slots WHERE active") == 1);
	}
	relay_check_once(f, 10);
	relay_check_order(f);
}

/* Another program reads it: the table is read meanwhile. */
static void a_slot_that_another_reads_is_waited_for(void **state)
{
	relay_fixture *f = *state;
	char url[300];
	PGconn *other;
	PGresult *res;

	relay_set(f, "stream.slot", "mine");
	relay_sql(f, "SELECT pg_create_logical_replication_slot('mine', 'pgoutput')");
	relay_sql(f, "CREATE PUBLICATION p FOR TABLE outbox");
	(void)snprintf(url, sizeof(url), "%s&replication=database", postgres_here.url);
	other = PQconnectdb(url);
	res = PQexec(other, "START_REPLICATION SLOT mine LOGICAL 0/0 "
			    "(proto_version '1', publication_names 'p')");
	assert_int_equal(PQresultStatus(res), PGRES_COPY_BOTH);
	PQclear(res);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "is read by process"));
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	PQfinish(other);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=streaming"));
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_sql(f, "DROP PUBLICATION p");
}

/* The relay that had the lease is paused, and its connection reads the slot. */
static void who_takes_a_slot_over_ends_its_reader_alone(void **state)
{
	relay_fixture *f = *state;
	int64_t sessions;

	relay_hourly(f);
	start(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	sessions = relay_number(f, "SELECT count(*) FROM pg_stat_activity "
				   "WHERE application_name LIKE 'wherry%'");
	relay_expire(f);
	start(f, &f->b);
	assert_true(relay_logged(f, "is read by process"));
	assert_int_equal(relay_number(f, "SELECT count(*) FROM pg_stat_activity "
					 "WHERE application_name LIKE 'wherry%'"),
			 sessions + 1);
}

static void an_outbox_changes_hands_between_the_engines(void **state)
{
	static const char *const engines[] = {"exclusive", "stream", "exclusive",
					      "stream", "stream"};
	relay_fixture *f = *state;

	for (int i = 0; i < 5; i++) {
		relay_put(f, "aab");
		relay_set(f, "relay.engine", engines[i]);
		relay_start(f, &f->a);
		relay_put(f, "aab");
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 6 * i + 6);
		relay_stop(f, &f->a);
	}
	relay_check_once(f, 30);
	relay_check_order(f);
}

static void a_relay_that_streams_works_beside_no_other_engine(void **state)
{
	static const char *const others[] = {"exclusive", "competing"};
	relay_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	start(f, &f->a);
	for (int i = 0; i < 2; i++) {
		relay_set(f, "relay.engine", others[i]);
		relay_start(f, &f->b);
		WHERRY_FAILS(WHERRY_INVALID, wherry_relay_step(f->b.relay, &f->b.wake_us,
							       &f->b.finished, &err));
		assert_non_null(strstr(err.message, "--engine stream"));
		wherry_relay_close(f->b.relay);
		f->b.relay = NULL;
	}
}

/* The first leads; the second is refused, with the engine that it should have. */
static void second_is_refused(relay_fixture *f, const char *engine, const char *advice)
{
	wherry_error err = WHERRY_ERROR_INIT;

	relay_set(f, "relay.engine", engine);
	relay_start(f, &f->b);
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_relay_step(f->b.relay, &f->b.wake_us, &f->b.finished, &err));
	assert_non_null(strstr(err.message, advice));
	wherry_relay_close(f->b.relay);
	f->b.relay = NULL;
}

static void a_stream_relay_works_alone_on_an_outbox_with_partitions(void **state)
{
	relay_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};
	wh_partitions partitions = {0};

	WHERRY_PASS(wh_outbox_make(
		f->other, &(wh_make){.layout = "native", .extras = WH_PARTITIONS_SHARED},
		"outbox", &err));
	start(f, &f->a);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM wherry_lease WHERE engine "
					 "= 'stream' AND number = 0 AND mask = -1"),
			 1);
	relay_set(f, "relay.engine", "stream");
	relay_start(f, &f->b);
	relay_quiet(f, &f->b);
	assert_int_equal(relay_stats(&f->b).epoch, 0);
	wherry_relay_close(f->b.relay);
	f->b.relay = NULL;
	second_is_refused(f, "exclusive", "--engine stream");
	second_is_refused(f, "competing", "--engine stream");
	WHERRY_FAILS(WHERRY_BUSY,
		     wh_partitions_join(&f->outbox->store, false, "share", WH_SECOND, 1,
					&lease, &partitions, &err));
	relay_stop(f, &f->a);
	relay_set(f, "relay.engine", "exclusive");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).epoch > 0);
	second_is_refused(f, "stream", "--engine exclusive");
}

static const relay_test own[] = {
	RELAY_TEST(a_connection_that_is_cut_is_made_again, 0),
	RELAY_TEST(a_slot_that_another_reads_is_waited_for, 0),
	RELAY_TEST(who_takes_a_slot_over_ends_its_reader_alone, 0),
	RELAY_TEST(an_outbox_changes_hands_between_the_engines, 0),
	RELAY_TEST(a_relay_that_streams_works_beside_no_other_engine, 0),
	RELAY_TEST(a_stream_relay_works_alone_on_an_outbox_with_partitions, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "stream",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
		.make = postgres_enter,
		.drop = postgres_leave_slots,
		.engine = "stream",
		.own = own,
		.own_only = true,
	};

	return postgres_start_logical() ? relay_suite(&target, 1) : 0;
}
