/*
 * Relays of many outboxes in one database leave each other asleep.
 *
 * The server logs every statement, and the tests count them: what one idle relay runs must
 * not depend on how many others there are.
 */
#include "wherry_test.h"

#include <poll.h>

#include <wherry/wherry.h>

#include "base/env.h"
#include "db/driver.h"
#include "postgres/server.h"

enum { MOST = 40, ASLEEP_US = 2 * 1000000, PERIOD_US = 10 * 1000000, SILENCE_MS = 300 };

typedef struct sleeper {
	wherry_db *db;
	wherry_publisher *pub;
	wherry_relay *relay;
} sleeper;

typedef struct many {
	postgres_place place;
	PGconn *conn; /* a person's */
	wherry_config *config;
	wh_env env;
	int64_t offset_us; /* by which the relays' clock is ahead */
	sleeper sleepers[MOST];
	int n;
} many;

/* ---- time ---- */

static int64_t many_monotonic(void *ctx)
{
	return wh_monotonic(&wh_env_system) + ((many *)ctx)->offset_us;
}

static int64_t many_now(void *ctx)
{
	return wh_now(&wh_env_system);
}

static uint64_t many_random(void *ctx)
{
	return 1;
}

static void many_sleep(void *ctx, int64_t us)
{
	((many *)ctx)->offset_us += us;
}

/* ---- relays ---- */

static void run(many *m, const char *sql)
{
	assert_true(postgres_exec(m->conn, sql, NULL, 0));
}

static void set(many *m, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(m->config, key, value, &err));
}

static void enter(many *m)
{
	wherry_error err = WHERRY_ERROR_INIT;

	*m = (many){.n = 0};
	m->env = (wh_env){.now_us = many_now,
			  .monotonic_us = many_monotonic,
			  .random = many_random,
			  .sleep_us = many_sleep,
			  .ctx = m};
	postgres_make(&m->place);
	m->conn = PQconnectdb(m->place.url);
	WHERRY_PASS(wherry_config_new(&m->config, &err));
	set(m, "relay.lease", "1h");
	set(m, "relay.idle_interval", "10s");
	set(m, "relay.purge_every", "10s");
	set(m, "relay.sweep", "1h");
}

static void leave(many *m)
{
	for (int i = 0; i < m->n; i++) {
		wherry_relay_close(m->sleepers[i].relay);
		wherry_publisher_close(m->sleepers[i].pub);
		wherry_db_close(m->sleepers[i].db);
	}
	wherry_config_free(m->config);
	PQfinish(m->conn);
	postgres_drop(&m->place);
}

/* One more relay, of an outbox or a queue that is made if it is not there. */
static void add_to(many *m, const char *table, bool queue)
{
	wh_db_options options = wh_db_options_of(m->config, &m->env);
	wherry_error err = WHERRY_ERROR_INIT;
	sleeper *s = &m->sleepers[m->n++];

	set(m, "relay.table", table);
	WHERRY_PASS(wh_db_open(m->place.url, &options, &s->db, &err));
	if (queue)
		WHERRY_PASS(wherry_queue_create(s->db, table, NULL, &err));
	else
		WHERRY_PASS(wherry_outbox_create(s->db, table, NULL, &err));
	WHERRY_PASS(wherry_publisher_open("null:", m->config, &s->pub, &err));
	WHERRY_PASS(wherry_relay_open_on(s->db, s->pub, m->config, &s->relay, &err));
}

static void add(many *m, const char *table)
{
	add_to(m, table, false);
}

/* Of n outboxes, one each. */
static void add_outboxes(many *m, int n)
{
	char name[16];

	for (int i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "box%d", i);
		add(m, name);
	}
}

/* Does any relay from the first on hear something within that time? */
static bool hears(const many *m, int first, int wait_ms)
{
	struct pollfd fds[MOST * WHERRY_RELAY_FDS];
	size_t n = 0;

	for (int i = first; i < m->n; i++)
		n += wherry_relay_fds(m->sleepers[i].relay, fds + n);
	return poll(fds, n, wait_ms) > 0;
}

/* Step all until none has anything to do and none is woken. */
static void fall_asleep(many *m)
{
	int64_t by_us = wh_monotonic(&wh_env_system) + 60 * WH_SECOND, left_us;
	wherry_error err = WHERRY_ERROR_INIT;
	bool finished;

	do {
		int64_t wake_us = WH_NEVER, at_us;

		assert_true(wh_monotonic(&wh_env_system) < by_us);
		for (int i = 0; i < m->n; i++) {
			WHERRY_PASS(wherry_relay_step(m->sleepers[i].relay, &at_us,
						      &finished, &err));
			wake_us = at_us < wake_us ? at_us : wake_us;
		}
		left_us = wake_us - many_monotonic(m);
		if (left_us > 0 && left_us < ASLEEP_US)
			m->offset_us += left_us;
	} while (left_us < ASLEEP_US || hears(m, 0, SILENCE_MS));
}

/* Statements that the server has logged. */
static long statements(void)
{
	static char line[65536];
	char path[128];
	FILE *log;
	long n = 0;

	(void)snprintf(path, sizeof(path), "%s/log", postgres_folder());
	log = fopen(path, "r");
	assert_non_null(log);
	while (fgets(line, sizeof(line), log))
		n += strstr(line, "LOG:  statement: ") || strstr(line, "LOG:  execute ");
	(void)fclose(log);
	return n;
}

/* What relays run that are idle while each purges and renews its lease once. */
static long idle_statements(many *m)
{
	long before;

	fall_asleep(m);
	before = statements();
	m->offset_us += PERIOD_US;
	fall_asleep(m);
	return statements() - before;
}

WHERRY_TEST(a_purge_and_a_renewal_wake_no_other_relay)
{
	static const int relays[] = {1, 10, MOST};
	static many m;
	long n, one = 0;

	for (int i = 0; i < 3; i++) {
		enter(&m);
		add_outboxes(&m, relays[i]);
		n = idle_statements(&m);
		print_message("# %d relays: %ld statements\n", relays[i], n);
		one = i ? one : n;
		assert_in_range(n, relays[i], 2 * one * relays[i]);
		assert_in_range(n, relays[i], 16 * relays[i]);
		leave(&m);
	}
}

WHERRY_TEST(idle_relays_that_compete_leave_each_other_asleep)
{
	static many m;
	long n;

	enter(&m);
	for (int i = 0; i < 10; i++)
		add_to(&m, "jobs", true);
	n = idle_statements(&m);
	print_message("# 10 relays that compete: %ld statements\n", n);
	assert_in_range(n, 10, 10 * 40);
	leave(&m);
}

WHERRY_TEST(a_busy_outbox_wakes_no_relay_of_another)
{
	static many m;

	enter(&m);
	add_outboxes(&m, 3);
	fall_asleep(&m);
	for (int i = 0; i < 20; i++)
		run(&m, "INSERT INTO box0(topic, payload) VALUES ('t', '{}')");
	run(&m,
	    "UPDATE wherry_outbox SET control_version = control_version + 1 WHERE name = 'box0'");
	run(&m, "UPDATE wherry_lease SET expires_at = expires_at - interval '1 s' "
		"WHERE outbox = 'box0'");
	assert_false(hears(&m, 1, SILENCE_MS));
	assert_true(hears(&m, 0, SILENCE_MS));
	leave(&m);
}

/* Notifications of an outbox, and the lock of one who sleeps. */
static void sleep_on(many *m, const char *table)
{
	char sql[320];

	(void)snprintf(
		sql, sizeof(sql),
		"DO $$BEGIN EXECUTE 'LISTEN wherry_' || '%s'::regclass::oid; END$$; "
		"SELECT pg_advisory_lock((1669::bigint << 32) + "
		"'%s'::regclass::oid::bigint)",
		table, table);
	run(m, sql);
}

static int notified(many *m)
{
	int n = 0;

	run(m, "SELECT 1");
	for (PGnotify *one; (one = PQnotifies(m->conn)); n++)
		PQfreemem(one);
	return n;
}

WHERRY_TEST(acknowledgements_wake_nobody_and_an_insert_does)
{
	static many m;
	char done[8];

	enter(&m);
	add_outboxes(&m, 1);
	run(&m, "INSERT INTO box0(topic, partition_key, payload) SELECT 't', 'k', '{}' "
		"FROM generate_series(1, 100)");
	sleep_on(&m, "box0");
	fall_asleep(&m);
	assert_true(postgres_exec(m.conn, "SELECT high FROM box0_progress", done,
				  sizeof(done)));
	assert_string_equal(done, "100");
	assert_int_equal(notified(&m), 0);
	assert_true(postgres_raw(m.place.url,
				 "INSERT INTO box0(topic, payload) VALUES ('t', '{}')",
				 NULL, 0));
	assert_int_equal(notified(&m), 1);
	leave(&m);
}

int main(void)
{
	static const char *const settings[] = {
		"log_statement=all", "log_min_messages=log", "max_connections=120", NULL};
	if (!postgres_start_with(settings))
		return 0;
	return wherry_run_tests(NULL, NULL);
}
