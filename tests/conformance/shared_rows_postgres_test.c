/*
 * The tables that all tables of a schema share on PostgreSQL: no value in a row stops the relay of that row, and a
 * role writes the rows of its own tables alone.
 */
#include "outbox_suite.h"

#include <wherry/delayed.h>
#include <wherry/queue.h>

#include "outbox/outbox.h"
#include "postgres/server.h"
#include "store/leases.h"

static void run_sql(const char *sql)
{
	assert_true(postgres_raw(postgres_here.url, sql, NULL, 0));
}

static void run_sqlf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void run_sqlf(const char *fmt, ...)
{
	char sql[2000];
	va_list args;

	va_start(args, fmt);
	assert_true(vsnprintf(sql, sizeof(sql), fmt, args) < (int)sizeof(sql));
	va_end(args);
	run_sql(sql);
}

static int64_t number(const char *sql)
{
	char got[40] = "";

	assert_true(postgres_raw(postgres_here.url, sql, got, sizeof(got)));
	return strtoll(got, NULL, 10);
}

static wherry_db *enter(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	char url[200];

	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &db, &err));
	return db;
}

static void leave(wherry_db *db)
{
	wherry_db_close(db);
	postgres_leave();
}

/* ---- values ---- */

/* A table of each way in which relays keep a lease. */
static const struct {
	const char *table, *set[2][2], *send;
} places[] = {
	{"plain",
	 {{"relay.table", "plain"}},
	 "INSERT INTO plain(topic, payload) VALUES ('t', '{}')"},
	{"shared",
	 {{"relay.table", "shared"}},
	 "INSERT INTO shared(topic, payload) VALUES ('t', '{}')"},
	{"jobs", {{"relay.table", "jobs"}}, "SELECT wherry_send('jobs', '{}')"},
	{"later",
	 {{"relay.table", "later/mail"}},
	 "SELECT wherry_offer('mail', gen_random_uuid()::text, 'x', delayed => 'later')"},
};

enum { PLACES = sizeof(places) / sizeof(*places) };

static void make_places(wherry_db *db)
{
	const wh_make shared = {.extras = WH_PARTITIONS_SHARED};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_outbox_make(db, &(wh_make){.extras = 0}, "plain", &err));
	WHERRY_PASS(wh_outbox_make(db, &shared, "shared", &err));
	WHERRY_PASS(wherry_queue_create(db, "jobs", NULL, &err));
	WHERRY_PASS(wherry_delayed_create(db, "later", NULL, &err));
}

static wherry_relay *open_relay(int place)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_relay *relay = NULL;

	WHERRY_PASS(wherry_config_new(&config, &err));
	for (int i = 0; i < 2 && places[place].set[i][0]; i++)
		WHERRY_PASS(wherry_config_set(config, places[place].set[i][0],
					      places[place].set[i][1], &err));
	WHERRY_PASS(wherry_config_set(config, "relay.lease", "500ms", &err));
	WHERRY_PASS(wherry_config_set(config, "relay.idle_interval", "20ms", &err));
	/* A claim whose relay lost its lease expires soon. */
	WHERRY_PASS(wherry_config_set(config, "relay.claim_timeout", "1s", &err));
	WHERRY_PASS(wherry_config_set(config, "relay.timeout", "2m", &err));
	WHERRY_PASS(wherry_relay_open(postgres_here.url, "null:", config, &relay, &err));
	wherry_config_free(config);
	return relay;
}

/* Relay until the table is empty; false, with the reason: the relay ended before. */
static bool relays(int place, const char *what)
{
	wherry_relay *relay = open_relay(place);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome = WHERRY_STOPPED;
	wherry_code code = wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, &outcome, &err);
	wherry_relay_stats stats;
	bool fine;

	wherry_relay_get_stats(relay, &stats, sizeof(stats));
	fine = code == WHERRY_OK && outcome == WHERRY_EMPTY && stats.delivered == 1;
	if (!fine)
		print_error("%s: %.100s: outcome %d, %s\n", places[place].table, what,
			    (int)outcome, err.message);
	wherry_relay_close(relay);
	return fine;
}

/* Step until the relay leads, or has delivered n messages. */
static bool steps(int place, wherry_relay *relay, int64_t n, const char *what)
{
	int64_t by_us = wh_monotonic(&wh_env_system) + 120 * WH_SECOND, wake_us = 0;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_relay_stats stats = {.epoch = 0};
	bool finished = false;

	while (!(n ? stats.delivered >= n : stats.epoch > 0)) {
		wherry_code code = wherry_relay_step(relay, &wake_us, &finished, &err);

		if (code != WHERRY_OK || wh_monotonic(&wh_env_system) > by_us) {
			print_error("%s: %s: %s\n", places[place].table, what,
				    code ? err.message : "it stands still");
			return false;
		}
		wherry_relay_get_stats(relay, &stats, sizeof(stats));
		wh_sleep(&wh_env_system, 1000);
	}
	return true;
}

enum { MOST = 4, APART = 2 };

/* Columns of a lease and values that each of them can have.  The first two are tried alone. */
static const struct {
	const char *column, *values[MOST + 1];
} hostile[] = {
	{"expires_at", {"'-infinity'", "'4714-11-24 00:00:00+00 BC'"}},
	{"clean", {"2147483647", "-2147483648"}},
	{"epoch", {"9223372036854775807", "-9223372036854775808", "-1", "0"}},
	{"unclean", {"2147483647", "-2147483648", "64"}},
	{"win", {"9223372036854775807", "-9223372036854775808", "0"}},
	{"suspects", {"9223372036854775807", "-9223372036854775808", "0"}},
	{"mask", {"9223372036854775807", "-9223372036854775808", "-1", "0"}},
	{"delivered", {"9223372036854775807", "-9223372036854775808"}},
	{"state_since",
	 {"'infinity'", "'-infinity'", "'294276-12-31'", "'4714-11-24 00:00:00+00 BC'"}},
	{"delivered_at",
	 {"'infinity'", "'-infinity'", "'294276-12-31'", "'4714-11-24 00:00:00+00 BC'"}},
	{"error_at",
	 {"'infinity'", "'-infinity'", "'294276-12-31'", "'4714-11-24 00:00:00+00 BC'"}},
	{"owner", {"''", "repeat(E'\\n', 1000000)"}},
	{"members", {"''", "repeat(',x,', 300000)"}},
	{"process", {"''", "repeat(E'\\n', 1000000)"}},
	{"state", {"''", "repeat(E'\\n', 1000000)"}},
	{"destination", {"''", "repeat(E'\\n', 1000000)"}},
	{"error", {"''", "repeat(E'\\n', 1000000)"}},
};

enum { COLUMNS = sizeof(hostile) / sizeof(*hostile) };

/* Value nth of one of the first columns, or, with 0, of all others; false: there is no such value. */
static bool hostile_values(int nth, int apart, char *out, size_t cap)
{
	int first = apart ? apart - 1 : APART, last = apart ? apart : COLUMNS;
	size_t len = 0;

	*out = 0;
	for (int c = first; c < last; c++)
		if (nth < MOST && hostile[c].values[nth])
			len += (size_t)snprintf(out + len, cap - len, "%s%s = %s",
						len ? ", " : "", hostile[c].column,
						hostile[c].values[nth]);
	assert_true(len < cap);
	return len > 0;
}

WHERRY_TEST(no_value_in_a_lease_that_ended_stops_the_next_relay)
{
	wherry_db *db = enter();
	char what[1200];
	int bad = 0;

	make_places(db);
	for (int p = 0; p < PLACES; p++) {
		run_sql(places[p].send);
		assert_true(relays(p, "nothing"));
		run_sql("CREATE TABLE kept AS SELECT * FROM wherry_lease");
		for (int nth = 0; nth < MOST; nth++)
			for (int apart = 0; apart <= APART; apart++) {
				if (!hostile_values(nth, apart, what, sizeof(what)))
					continue;
				run_sqlf(
					"DELETE FROM wherry_lease; DELETE FROM %s; "
					"INSERT INTO wherry_lease SELECT * FROM kept; "
					"UPDATE wherry_lease SET expires_at = '1970-01-01', "
					"clean = 0, unclean = 1; UPDATE wherry_lease SET %s",
					places[p].table, what);
				run_sql(places[p].send);
				bad += !relays(p, what);
			}
		run_sql("DROP TABLE kept; DELETE FROM wherry_lease");
	}
	assert_int_equal(bad, 0);
	leave(db);
}

WHERRY_TEST(no_value_in_a_lease_ends_the_relay_that_holds_it)
{
	wherry_db *db = enter();
	char what[120];
	int bad = 0;

	make_places(db);
	for (int p = 0; p < PLACES; p++) {
		wherry_relay *relay = open_relay(p);
		int64_t n = 0;

		assert_true(steps(p, relay, 0, "nothing"));
		for (int c = 0; c < COLUMNS; c++) {
			(void)snprintf(what, sizeof(what), "%s = %s", hostile[c].column,
				       hostile[c].values[0]);
			run_sqlf("UPDATE wherry_lease SET %s", what);
			run_sql(places[p].send);
			if (steps(p, relay, ++n, what))
				continue;
			bad++;
			wherry_relay_close(relay);
			run_sqlf("DELETE FROM wherry_lease; DELETE FROM %s",
				 places[p].table);
			relay = open_relay(p);
			n = 0;
		}
		wherry_relay_close(relay);
		run_sql("DELETE FROM wherry_lease");
	}
	assert_int_equal(bad, 0);
	leave(db);
}

static void see(void *ctx, const wh_holder *who)
{
	*(int64_t *)ctx += who->left_us > 3600 * WH_SECOND;
}

/* Its end is shown, so that an operator sees who stands in the way. */
WHERRY_TEST(a_lease_that_never_ends_can_be_read)
{
	static const char *const ends[] = {"'infinity'", "'294276-12-31'",
					   "now() + interval '100 years'"};
	wherry_db *db = enter();
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wh_holder holder;
	int64_t n;

	make_places(db);
	for (int p = 0; p < 2; p++)
		for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
			run_sql(places[p].send);
			assert_true(relays(p, "nothing"));
			run_sqlf(
				"UPDATE wherry_lease SET expires_at = %s WHERE outbox = '%s'",
				ends[i], places[p].table);
			WHERRY_PASS(
				wherry_outbox_open(db, places[p].table, &outbox, &err));
			holder = (wh_holder){.left_us = 0};
			WHERRY_PASS(wh_store_holder(&outbox->store, &holder, &err));
			assert_true(holder.left_us > 3600 * WH_SECOND);
			n = 0;
			WHERRY_PASS(wh_store_relays(&outbox->store, see, &n, &err));
			wherry_outbox_close(outbox);
			run_sql("DELETE FROM wherry_lease");
		}
	leave(db);
}

WHERRY_TEST(no_control_version_stops_a_pause)
{
	static const char *const values[] = {"9223372036854775807",
					     "-9223372036854775808"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = enter();
	wherry_outbox *outbox = NULL;

	make_places(db);
	WHERRY_PASS(wherry_outbox_open(db, "plain", &outbox, &err));
	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		run_sqlf("UPDATE wherry_outbox SET control_version = %s", values[i]);
		WHERRY_PASS(wherry_outbox_pause(outbox, &err));
		assert_true(number("SELECT count(*) FROM wherry_outbox WHERE name = "
				   "'plain' AND paused_at IS NOT NULL") == 1);
		WHERRY_PASS(wherry_outbox_resume(outbox, &err));
	}
	wherry_outbox_close(outbox);
	leave(db);
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
