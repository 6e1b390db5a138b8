/*
 * Relays on the table of eventferry, where they always compete; and beside relays of the
 * library, which are its statements here.
 */
#include "event_bus.h"
#include "relay_suite.h"

#include "base/error.h"
#include "relay/relay.h"

#include "postgres/eventferry.h"
#include "postgres/server.h"

/* What this table has no place for. */
static const char *const except[] = {
	"a_rolled_back_message_is_never_delivered", /* with a body that is no JSON */
	"keys_are_the_explicit_one_or_the_aggregate",
	"followers_in_flight_stay_behind_a_parked_message",
	"followers_wait_for_their_failed_message_when_the_connection_is_lost", /* a lease */
	"claims_are_extended_while_a_destination_is_slow", /* until when is in no row: below */
	"a_relay_that_waits_to_try_what_expired_goes_on_when_another_took_it",
	"what_another_took_over_is_not_counted", /* by its token: below */
	/* they take long, and run on native tables */
	"no_schedule_reorders_an_ordered_publisher",
	"no_schedule_reorders_an_unordered_publisher",
	"a_busy_database_is_waited_out_at_every_call",
	NULL,
};

/* ---- the library's side ---- */

/* As it is: not about the native table. */
static void plain_sql(const char *sql)
{
	PGconn *conn = PQconnectdb(postgres_here.url);

	assert_true(postgres_exec(conn, sql, NULL, 0));
	PQfinish(conn);
}

/* An event of its producers: their columns, in their order. */
static void emit(const char *aggregate)
{
	char sql[512];

	(void)snprintf(
		sql, sizeof(sql),
		"INSERT INTO outbox (message_id, topic, aggregate_type, aggregate_id, "
		"\"key\", payload, headers, trace_id) VALUES (gen_random_uuid(), 't', "
		"'order', '%s', NULL, '{\"n\": 1}', '{}', NULL)",
		aggregate);
	plain_sql(sql);
}

/* A relay of its own; it claims, publishes, and acknowledges, each when it is told. */
typedef struct library {
	PGconn *conn;
	int64_t ids[100];
	int n;
} library;

static void library_claim(library *l, int most, int timeout_ms)
{
	char sql[1024];
	PGresult *res;

	(void)snprintf(sql, sizeof(sql), EVENTFERRY_CLAIM, timeout_ms, most);
	res = PQexec(l->conn, sql);
	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	l->n = PQntuples(res);
	for (int i = 0; i < l->n; i++)
		l->ids[i] = strtoll(PQgetvalue(res, i, 0), NULL, 10);
	PQclear(res);
}

/* What it delivers goes where the others do. */
static void library_publish(relay_fixture *f, const library *l)
{
	for (int i = 0; i < l->n; i++)
		f->events[f->n_events++] =
			(relay_event){.id = l->ids[i], .verdict = WHERRY_DELIVERED};
}

static void library_settle(const library *l, const char *how)
{
	char list[1024] = "0", sql[2048];
	size_t len = 1;

	for (int i = 0; i < l->n; i++)
		len += (size_t)snprintf(list + len, sizeof(list) - len, ",%lld",
					(long long)l->ids[i]);
	(void)snprintf(sql, sizeof(sql), "UPDATE outbox SET %s WHERE id IN (%s)", how,
		       list);
	assert_true(postgres_exec(l->conn, sql, NULL, 0));
}

/* Of each aggregate, first deliveries are in id order, and there is one of each. */
static void check_aggregates(relay_fixture *f, int64_t n, int n_aggregates)
{
	int64_t last[32] = {0};

	assert_true(n_aggregates <= 32);
	relay_check_once(f, n);
	for (size_t i = 0; i < f->n_events; i++) {
		int64_t id = f->events[i].id, which = (id - 1) % n_aggregates;

		if (f->events[i].verdict != WHERRY_DELIVERED)
			continue;
		assert_true(id > last[which]);
		last[which] = id;
	}
}

static void beside_relays_of_the_library_each_message_has_one_and_aggregates_their_order(
	void **state)
{
	enum { N = 200 };
	relay_fixture *f = *state;
	library l[2] = {{.conn = PQconnectdb(postgres_here.url)},
			{.conn = PQconnectdb(postgres_here.url)}};
	int64_t by_us = relay_deadline() + 60 * WH_SECOND; /* for many small steps */
	char name[8];

	for (int i = 0; i < N; i++) {
		(void)snprintf(name, sizeof(name), "a%d", i % 20);
		emit(name);
	}
	relay_set(f, "relay.batch", "7");
	relay_set(f, "relay.window", "7");
	relay_answers(f, 30, WHERRY_RETRY, 2);
	relay_start(f, &f->a);
	/* However slow the machine is, the relay has its share. */
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).delivered > 0);
	for (int i = 0; relay_count(f, WHERRY_DONE) < N; i++) {
		library *one = &l[i % 2];

		if (i % 3)
			library_publish(f, one);
		library_settle(one, i % 3 ? eventferry_done : eventferry_requeue);
		library_claim(one, 5, 60000);
		for (int turns = i % 4; turns > 0; turns--)
			relay_turn(f, &f->a, by_us, "all done", __LINE__, __FILE__);
	}
	check_aggregates(f, N, 20);
	assert_true(relay_stats(&f->a).delivered > 0 && relay_stats(&f->a).delivered < N);
	assert_int_equal(relay_stats(&f->a).stale, 0);
	PQfinish(l[0].conn);
	PQfinish(l[1].conn);
}

WHERRY_CASE(a_claim_is_renewed_so_that_the_library_leaves_it_alone, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	library l = {.conn = PQconnectdb(postgres_here.url)};
	int64_t first;

	fake->by_hand = true;
	relay_set(f, "relay.claim_timeout", "1s");
	emit("a");
	emit("a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	first = relay_number(f, "SELECT (extract(epoch FROM claimed_at) * 1000)::bigint "
				"FROM outbox WHERE id = 1");
	while (relay_number(f,
			    "SELECT (extract(epoch FROM claimed_at) * 1000)::bigint FROM "
			    "outbox WHERE id = 1") < first + 1500) {
		relay_turn(f, &f->a, relay_deadline(), "renewed", __LINE__, __FILE__);
		library_claim(&l, 10, 1000);
		assert_int_equal(l.n, 0);
	}
	fake->by_hand = false;
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	RELAY_DELIVERED(f, 1, 2);
	assert_int_equal(relay_stats(&f->a).stale, 0);
	PQfinish(l.conn);
}

/* As when a relay was stopped for longer than the library's timeout, and goes on. */
WHERRY_CASE(what_the_library_took_over_is_left_to_it, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	library l = {.conn = PQconnectdb(postgres_here.url)};

	fake->by_hand = true;
	for (int i = 0; i < 4; i++) {
		char name[2] = {(char)('a' + i), 0};

		emit(name);
	}
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 4);
	library_claim(&l, 3, 0);
	assert_int_equal(l.n, 3);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_REJECTED));
	assert_true(relay_fake_answer(fake, 3, WHERRY_RETRY));
	assert_true(relay_fake_answer(fake, 4, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_stats(&f->a).stale == 3);
	assert_int_equal(relay_count(f, WHERRY_PROCESSING), 3);
	assert_int_equal(relay_count(f, WHERRY_DONE), 1);
	assert_int_equal(relay_number(f, "SELECT max(attempts) FROM outbox"), 0);
	library_settle(&l, eventferry_done);
	assert_int_equal(relay_count(f, WHERRY_DONE), 4);
	PQfinish(l.conn);
}

/* The library published 2 and then 1, both at once. */
WHERRY_CASE(weakness_1_a_row_committed_late_waits_for_what_is_in_flight, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	PGconn *late = PQconnectdb(postgres_here.url);
	int64_t waits;

	fake->by_hand = true;
	assert_true(postgres_exec(late,
				  "BEGIN; INSERT INTO outbox (topic, aggregate_type, "
				  "aggregate_id, payload) VALUES ('t', 'o', 'a', '{}')",
				  NULL, 0));
	emit("a");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 2));
	assert_true(postgres_exec(late, "COMMIT", NULL, 0));
	waits = f->a.wake_us;
	RELAY_UNTIL(f, &f->a, f->a.wake_us > waits + WH_SECOND / 2); /* it has looked */
	assert_int_equal(fake->n, 1);
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_fake_holds(fake, 1));
	PQfinish(late);
}

WHERRY_CASE(weakness_9_and_10_one_bad_message_takes_no_other_along, relay_fixture *f)
{
	for (int i = 0; i < 20; i++) {
		char name[2] = {(char)('a' + i), 0};

		emit(name);
	}
	plain_sql("UPDATE outbox SET payload = '\"hello\"' WHERE id = 3");
	relay_answers(f, 5, WHERRY_REJECTED, -1);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 19);
	assert_int_equal(relay_state(f, 5), WHERRY_DEAD);
	assert_int_equal(relay_state(f, 3), WHERRY_DONE);
}

/* The library orders by the id of the aggregate alone. */
WHERRY_CASE(no_key_and_no_type_changes_the_order_of_an_aggregate, relay_fixture *f)
{
	enum { N = 60, AGGREGATES = 3 };
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	plain_sql(
		"INSERT INTO outbox (topic, aggregate_type, aggregate_id, \"key\", payload) "
		"SELECT 't' || i % 2, 'o' || i % 5, 'a' || i % 3, "
		"(ARRAY['x', NULL, '', 'k' || i])[1 + i % 4], '{}' "
		"FROM generate_series(1, 60) AS i");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n > 0);
	relay_quiet(f, &f->a);
	assert_int_equal(fake->n, AGGREGATES);
	fake->by_hand = false;
	for (int64_t id = 1; id <= AGGREGATES; id++)
		assert_true(relay_fake_answer(fake, id, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == N);
	check_aggregates(f, N, AGGREGATES);
}

/* It costs the library a look at each row of it for each row it delivers. */
WHERRY_CASE(weakness_25_an_aggregate_with_a_backlog_is_claimed_in_runs, relay_fixture *f)
{
	plain_sql("INSERT INTO outbox (topic, aggregate_type, aggregate_id, "
		  "payload) SELECT 't', 'o', 'hot', '{}' FROM "
		  "generate_series(1, 1000)");
	relay_set(f, "relay.ack_delay", "0");
	(void)relay_use_fake(f, &f->a, WH_PUB_ORDERED);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1000);
	check_aggregates(f, 1000, 1);
	assert_in_range(relay_number(f, "SELECT count(DISTINCT claimed_at) FROM outbox"),
			1, 50);
}

/* Twenty rows of one aggregate, as another relay left them. */
static void leave_rows(const char *columns, const char *values)
{
	char sql[512];

	(void)snprintf(
		sql, sizeof(sql),
		"INSERT INTO outbox (topic, aggregate_type, aggregate_id, payload, %s) "
		"SELECT 't', 'o', 'a', '{}', %s FROM generate_series(1, 20) AS i",
		columns, values);
	plain_sql(sql);
}

/* The library, for one, locks a row before its claim is written. */
WHERRY_CASE(nothing_is_claimed_behind_a_row_that_another_claimer_has_locked,
	    relay_fixture *f)
{
	static const char *const left[][2] = {
		{"status", "0"},
		{"status, attempts, next_retry_at", "3, 1, now() - interval '5 min'"},
		{"status, claimed_at", "1, now() - interval '5 min'"},
		{"status, claimed_at", "1, now() - i * interval '5 min'"},
	};

	relay_set(f, "relay.batch", "100");
	for (size_t i = 0; i < sizeof(left) / sizeof(*left); i++) {
		PGconn *holder;
		int64_t from;

		if (i)
			relay_fresh(f);
		holder = PQconnectdb(postgres_here.url);
		leave_rows(left[i][0], left[i][1]);
		assert_true(postgres_exec(
			holder, "BEGIN; SELECT id FROM outbox WHERE id = 1 FOR UPDATE",
			NULL, 0));
		relay_start(f, &f->a);
		from = relay_now(f);
		RELAY_UNTIL(f, &f->a, relay_now(f) > from + WH_SECOND / 2);
		assert_int_equal(relay_delivered(f), 0);
		assert_true(postgres_exec(holder, "COMMIT", NULL, 0));
		RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 20);
		check_aggregates(f, 20, 1);
		PQfinish(holder);
	}
}

/* Neither from its own aggregate, nor, where it was committed late, from before it. */
WHERRY_CASE(a_time_that_never_comes_holds_nothing_back, relay_fixture *f)
{
	emit("e");
	plain_sql(
		"INSERT INTO outbox (topic, aggregate_type, aggregate_id, payload, status, "
		"next_retry_at, claimed_at) VALUES "
		"('t', 'o', 'a', '{}', 3, '294276-12-31', NULL), "
		"('t', 'o', 'b', '{}', 3, 'infinity', NULL), "
		"('t', 'o', 'c', '{}', 1, NULL, '294276-12-31'), "
		"('t', 'o', 'd', '{}', 1, NULL, 'infinity'), "
		"('t', 'o', 'e', '{}', 1, NULL, '10000-01-02')");
	emit("a");
	emit("b");
	emit("c");
	emit("d");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 10);
	relay_check_once(f, 10);
}

/* The table's identity column can be overridden, and nothing in it bounds ids. */
WHERRY_CASE(rows_with_the_lowest_and_the_highest_id_there_are_are_delivered,
	    relay_fixture *f)
{
	emit("a");
	plain_sql("INSERT INTO outbox (id, topic, aggregate_type, aggregate_id, payload) "
		  "OVERRIDING SYSTEM VALUE VALUES "
		  "(-9223372036854775808, 't', 'o', 'a', '{}'), "
		  "(9223372036854775807, 't', 'o', 'a', '{}')");
	relay_set(f, "relay.batch", "1");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_DELIVERED(f, INT64_MIN, 1, INT64_MAX);
}

/* As of a row that the server cannot convert, unless only ids are asked for. */
static wherry_code refuse_texts(void *ctx, const char *op, const char *what,
				wherry_error *err)
{
	const relay_fixture *f = ctx;

	if (strcmp(what, "claim") != 0 || f->a.relay->store->texts_after_claim)
		return WHERRY_OK;
	(void)wh_fail(err, WHERRY_INVALID, "the test says that a row is bad");
	(void)snprintf(err->sqlstate, sizeof(err->sqlstate), "22021");
	return WHERRY_INVALID;
}

WHERRY_CASE(a_claim_that_fails_because_of_a_row_is_made_carefully_at_once,
	    relay_fixture *f)
{
	relay_hourly(f);
	relay_wrap(f, &(wh_trace){.before = refuse_texts, .ctx = f});
	relay_put(f, "aba");
	relay_start(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 3);
	RELAY_DELIVERED(f, 1, 2, 3);
}

static const relay_test own[] = {
	RELAY_TEST(a_claim_that_fails_because_of_a_row_is_made_carefully_at_once, 0),
	RELAY_TEST(
		beside_relays_of_the_library_each_message_has_one_and_aggregates_their_order,
		0),
	RELAY_TEST(a_claim_is_renewed_so_that_the_library_leaves_it_alone, 0),
	RELAY_TEST(what_the_library_took_over_is_left_to_it, 0),
	RELAY_TEST(weakness_1_a_row_committed_late_waits_for_what_is_in_flight, 0),
	RELAY_TEST(weakness_9_and_10_one_bad_message_takes_no_other_along, 0),
	RELAY_TEST(no_key_and_no_type_changes_the_order_of_an_aggregate, 0),
	RELAY_TEST(weakness_25_an_aggregate_with_a_backlog_is_claimed_in_runs, 0),
	RELAY_TEST(nothing_is_claimed_behind_a_row_that_another_claimer_has_locked, 0),
	RELAY_TEST(a_time_that_never_comes_holds_nothing_back, 0),
	RELAY_TEST(rows_with_the_lowest_and_the_highest_id_there_are_are_delivered, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "eventferry",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_IN_ORDER,
		.make = postgres_enter,
		.again = postgres_enter_again,
		.note = postgres_note_here,
		.drop = postgres_leave,
		.also = relay_claiming_also,
		.except = except,
		.own = own,
		.keeps_ids = true,
		.tables = eventferry_tables,
		.views = eventferry_views,
		.translate = event_bus_translate,
	};

	if (!postgres_start())
		return 0;
	return relay_suite(&target, 1);
}
