/*
 * A relay that streams, when its connection is cut, and beside others that read its replication
 * slot or work on its outbox.
 */
#include "relay_postgres_debezium.h"

WHERRY_CASE(a_connection_that_is_cut_is_made_again, relay_fixture *f)
{
	debezium_hourly(f);
	debezium_start(f, &f->a);
	for (int i = 1; i <= 5; i++) {
		relay_put(f, "a");
		relay_sql(f, "SELECT pg_terminate_backend(active_pid) FROM "
			     "pg_replication_slots WHERE active");
		relay_put(f, "a");
		RELAY_UNTIL(f, &f->a, relay_delivered(f) >= 2 * (size_t)i);
		RELAY_UNTIL(f, &f->a,
			    relay_number(f, "SELECT count(*) FROM "
					    "pg_replication_slots WHERE active") == 1);
	}
	relay_check_once(f, 10);
	relay_check_order(f);
}

WHERRY_CASE(a_slot_that_another_reads_is_waited_for, relay_fixture *f)
{
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
	PQfinish(other);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "event=streaming"));
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 4);
	relay_check_once(f, 4);
	relay_sql(f, "DROP PUBLICATION p");
}

/* The relay that had the lease is paused, and its connection reads the slot. */
WHERRY_CASE(who_takes_a_slot_over_ends_its_reader_alone, relay_fixture *f)
{
	int64_t sessions;

	debezium_hourly(f);
	debezium_start(f, &f->a);
	relay_put(f, "a");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 1);
	sessions = relay_number(f, "SELECT count(*) FROM pg_stat_activity "
				   "WHERE application_name LIKE 'wherry%'");
	relay_expire(f);
	debezium_start(f, &f->b);
	assert_true(relay_logged(f, "is read by process"));
	assert_int_equal(relay_number(f, "SELECT count(*) FROM pg_stat_activity "
					 "WHERE application_name LIKE 'wherry%'"),
			 sessions + 1);
}

/* Those that were committed later leave later. */
WHERRY_CASE(messages_leave_in_the_order_of_commits, relay_fixture *f)
{
	PGconn *open[4];

	debezium_hourly(f);
	debezium_start(f, &f->a);
	for (int i = 0; i < 4; i++)
		open[i] = postgres_begin(DEBEZIUM_PUT);
	postgres_end(open[3], "COMMIT");
	postgres_end(open[1], "COMMIT");
	postgres_end(open[0], "COMMIT");
	postgres_end(open[2], "ROLLBACK");
	relay_put(f, "a");
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 4);
	RELAY_DELIVERED(f, 4, 2, 1, 5);
}

WHERRY_CASE(what_is_tried_again_keeps_the_order_of_commits, relay_fixture *f)
{
	static const unsigned caps[] = {0, WH_PUB_ORDERED};

	for (int i = 0; i < 2; i++) {
		PGconn *late;

		relay_fresh(f);
		debezium_hourly(f);
		relay_use_fake(f, &f->a, caps[i]);
		relay_answers(f, 2, WHERRY_RETRY, 2);
		relay_answers(f, 1, WHERRY_RETRY, 1);
		debezium_start(f, &f->a);
		late = postgres_begin(DEBEZIUM_PUT);
		relay_put(f, "aaa");
		postgres_end(late, "COMMIT");
		relay_put(f, "a");
		RELAY_ASLEEP_UNTIL(f, &f->a, relay_delivered(f) == 5);
		RELAY_DELIVERED(f, 2, 3, 4, 1, 5);
	}
}

static const relay_test own[] = {
	RELAY_TEST(a_connection_that_is_cut_is_made_again, 0),
	RELAY_TEST(a_slot_that_another_reads_is_waited_for, 0),
	RELAY_TEST(who_takes_a_slot_over_ends_its_reader_alone, 0),
	RELAY_TEST(messages_leave_in_the_order_of_commits, 0),
	RELAY_TEST(what_is_tried_again_keeps_the_order_of_commits, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	return debezium_run(own);
}
