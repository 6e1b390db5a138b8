/*
 * The relay on a log on PostgreSQL.
 */
#include "relay_log.h"

#include "postgres/server.h"

static void sql(const char *text)
{
	assert_true(postgres_raw(postgres_here.url, text, NULL, 0));
}

/* Values of a type whose function fails for one of them, as the text of jsonb does that is too long. */
static void a_row_that_the_server_cannot_send_dies_alone(void **state)
{
	relay_fixture *f = *state;
	char found[8];

	relay_hourly(f);
	sql("CREATE TYPE color AS ENUM ('red', 'gone'); "
	    "DROP VIEW native; ALTER TABLE outbox ALTER payload TYPE color USING 'red'");
	sql("INSERT INTO outbox(topic, partition_key, payload) SELECT 't', chr(97 + i % 3), "
	    "CASE WHEN i IN (1, 7, 8, 9, 300) THEN 'gone' ELSE 'red' END::color FROM generate_series(1, 400) AS i");
	sql("DELETE FROM pg_enum WHERE enumlabel = 'gone'");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 395);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DEAD) == 5);
	assert_int_equal(relay_delivered(f), 395);
	relay_check_order(f);
	assert_true(postgres_raw(
		postgres_here.url,
		"SELECT count(*) FROM outbox_exception WHERE id IN (1, 7, 8, 9, 300) AND last_error LIKE "
		"'the row cannot be read: %'",
		found, sizeof(found)));
	assert_string_equal(found, "5");
}

/* It is committed below the position, among others that can be sent. */
static void a_late_row_that_the_server_cannot_send_dies_alone(void **state)
{
	relay_fixture *f = *state;
	PGconn *late = PQconnectdb(postgres_here.url);

	relay_hourly(f);
	sql("CREATE TYPE color AS ENUM ('red', 'gone'); "
	    "DROP VIEW native; ALTER TABLE outbox ALTER payload TYPE color USING 'red'");
	assert_true(postgres_exec(
		late,
		"BEGIN; INSERT INTO outbox(topic, payload) SELECT 't', "
		"CASE i WHEN 50 THEN 'gone' ELSE 'red' END::color FROM generate_series(1, 100) AS i",
		NULL, 0));
	sql("INSERT INTO outbox(topic, payload) VALUES ('t', 'red')");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	postgres_end(late, "COMMIT");
	sql("DELETE FROM pg_enum WHERE enumlabel = 'gone'");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 100);
	RELAY_UNTIL(f, &f->a, relay_state(f, 50) == WHERRY_DEAD);
	assert_int_equal(relay_delivered(f), 100);
}

/* As in a table from another server of which some rows look as if they were of this one. */
static void a_row_of_a_transaction_to_come_stops_nobody(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	sql("INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'a', ''), ('t', 'b', '')");
	sql("INSERT INTO outbox(tx, topic, partition_key, payload) VALUES ('9000000000', 't', 'a', '')");
	sql("INSERT INTO outbox(topic, partition_key, payload) VALUES ('t', 'b', '')");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_check_order(f);
}

static const relay_test own[] = {
	RELAY_TEST(a_row_of_a_transaction_to_come_stops_nobody, 0),
	RELAY_TEST(a_row_that_the_server_cannot_send_dies_alone, 0),
	RELAY_TEST(a_late_row_that_the_server_cannot_send_dies_alone, 0),
	RELAY_TESTS_END,
};

#define ON_A_LOG                                                                         \
	.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE, .make = postgres_enter,           \
	.again = postgres_enter_again, .note = postgres_note_here,                       \
	.drop = postgres_leave, .layout = "log", .leads = true,                          \
	.views = relay_log_postgres_views

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "log",
			ON_A_LOG,
			.translate = relay_log_translate,
			.own = relay_log_tests,
			.except = relay_log_except,
			.schedules = 20,
		},
		{
			.name = "sending",
			ON_A_LOG,
			.own = own,
			.own_only = true,
		},
	};

	if (!postgres_start())
		return 0;
	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
