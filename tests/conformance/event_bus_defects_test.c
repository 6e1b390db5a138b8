/*
 * The defects of outbox-event-bus 2.0.3 on SQLite that a relay on its tables does not have.
 * The numbers are those of docs/guide/event-bus.md.
 */
#include "event_bus.h"
#include "relay_fake.h"

#include "base/env.h"
#include "db/driver.h"
#include "outbox_claims.h"

enum { MOST = 2000 };

/* Tables of the library with a relay on them, and what was delivered. */
typedef struct bus {
	outbox_fixture f;
	wherry_config *config;
	wherry_publisher *pub;
	wherry_db *db;
	wherry_relay *relay;
	int64_t waits; /* steps after which it wanted to be left alone */
	char ids[MOST][40];
	size_t n;
	wherry_verdict every;
} bus;

static wherry_verdict answer(void *ctx, const wherry_message *msg, char *reason,
			     size_t cap)
{
	bus *b = ctx;

	assert_true(b->n < MOST);
	(void)snprintf(b->ids[b->n++], sizeof(b->ids[0]), "%.39s", msg->message_id);
	(void)snprintf(reason, cap, "the test said so");
	return b->every;
}

static void set(bus *b, const char *key, const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_set(b->config, key, value, &err));
}

static int set_up(void **state)
{
	bus *b = calloc(1, sizeof(*b));
	wherry_error err = WHERRY_ERROR_INIT;

	assert_non_null(b);
	b->f.backend = &event_bus_file;
	b->f.place = event_bus_file.make();
	b->f.db = event_bus_file.connect(b->f.place);
	WHERRY_PASS(wherry_outbox_open(b->f.db, "outbox", &b->f.outbox, &err));
	b->every = WHERRY_DELIVERED;
	WHERRY_PASS(wherry_config_new(&b->config, &err));
	set(b, "relay.table", "outbox");
	set(b, "db.busy_timeout", "20ms");
	set(b, "db.synchronous", "normal");
	set(b, "retry.jitter", "off");
	set(b, "relay.ack_delay", "0");
	set(b, "relay.timeout", "2m");
	*state = b;
	return 0;
}

static void stop(bus *b)
{
	wherry_relay_close(b->relay);
	wherry_publisher_close(b->pub);
	wherry_db_close(b->db);
	b->relay = NULL;
	b->pub = NULL;
	b->db = NULL;
}

static int tear_down(void **state)
{
	bus *b = *state;

	stop(b);
	wherry_config_free(b->config);
	fixture_close(&b->f);
	event_bus_file.drop(b->f.place);
	free(b);
	return 0;
}

static void start_on(bus *b, wherry_publisher *pub)
{
	wherry_error err = WHERRY_ERROR_INIT;

	char url[160];

	(void)snprintf(url, sizeof(url), "sqlite:%s", ((wherry_temp *)b->f.place)->path);
	WHERRY_PASS(wherry_db_open(url, b->config, &b->db, &err));
	b->pub = pub;
	WHERRY_PASS(wherry_relay_open_on(b->db, b->pub, b->config, &b->relay, &err));
}

static void start(bus *b)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;

	WHERRY_PASS(wherry_publisher_open("memory:", b->config, &pub, &err));
	wherry_memory_answer(pub, answer, b);
	start_on(b, pub);
}

static void note(void *ctx, const wherry_message *msg, wherry_verdict verdict)
{
}

/* A destination that answers only what the test says. */
static relay_fake *start_by_hand(bus *b)
{
	relay_fake *fake = relay_fake_open(0);

	assert_non_null(fake);
	fake->by_hand = true;
	fake->note = note;
	start_on(b, &fake->base);
	return fake;
}

/* One step, and a wait as a program's. */
static bool turn(bus *b)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool finished = false;
	int64_t wake_us = 0;

	WHERRY_PASS(wherry_relay_step(b->relay, &wake_us, &finished, &err));
	if (finished || wake_us <= wherry_relay_clock(b->relay))
		return !finished;
	b->waits++;
	if (wake_us > wherry_relay_clock(b->relay) + 20000)
		wake_us = wherry_relay_clock(b->relay) + 20000;
	wherry_relay_wait(b->relay, wake_us);
	return true;
}

#define UNTIL(b, condition)                                                              \
	do {                                                                             \
		int64_t by_us_ = wh_monotonic(&wh_env_system) + 20 * WH_SECOND;          \
		while (!(condition)) {                                                   \
			assert_true(wh_monotonic(&wh_env_system) < by_us_);              \
			assert_true(turn(b));                                            \
		}                                                                        \
	} while (0)

static wherry_outcome run_empty(bus *b)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome = WHERRY_STOPPED;

	start(b);
	WHERRY_PASS(wherry_relay_run(b->relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
	stop(b);
	return outcome;
}

static void publish_many(bus *b, int n)
{
	bus_raw(&b->f,
		"WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < %d) "
		"INSERT INTO outbox(id, type, payload, occurred_at) SELECT printf('e%%04d', i), "
		"'t', '{}', strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now') FROM c",
		n);
}

static size_t told(const bus *b, const char *id)
{
	size_t n = 0;

	for (size_t i = 0; i < b->n; i++)
		n += strcmp(b->ids[i], id) == 0;
	return n;
}

static size_t place_of(const bus *b, const char *id)
{
	for (size_t i = 0; i < b->n; i++)
		if (strcmp(b->ids[i], id) == 0)
			return i;
	fail_msg("%s was not delivered", id);
	return MOST;
}

static int64_t archived(bus *b)
{
	return bus_int(&b->f, "SELECT count(*) FROM outbox_archive");
}

static void expire(bus *b)
{
	bus_raw(&b->f, "UPDATE outbox SET keep_alive = '2020-01-01T00:00:00.000Z' "
		       "WHERE status = 'active'");
}

/* ---- 1: it sleeps after every batch of 50 ---- */

WHERRY_CASE(defect_1_a_backlog_drains_without_waits_between_batches, bus *b)
{
	set(b, "relay.batch", "50");
	set(b, "relay.window", "50");
	publish_many(b, 400);
	start(b);
	UNTIL(b, b->n == 400);
	assert_int_equal(b->waits, 0);
	UNTIL(b, archived(b) == 400);
}

/* ---- 3: what was handled is archived at the end of the batch only ---- */

WHERRY_CASE(defect_3_a_crash_runs_again_only_what_was_in_flight, bus *b)
{
	size_t crashed_at, again = 0;
	int64_t done;

	set(b, "relay.window", "10");
	publish_many(b, 50);
	start(b);
	UNTIL(b, archived(b) >= 20);
	crashed_at = b->n;
	done = archived(b);
	stop(b); /* with nothing given back */
	assert_in_range((int64_t)crashed_at - done, 0, 10);
	expire(b);
	assert_int_equal(run_empty(b), WHERRY_EMPTY);
	for (int i = 1; i <= 50; i++) {
		char id[16];

		(void)snprintf(id, sizeof(id), "e%04d", i);
		assert_in_range(told(b, id), 1, 2);
		again += told(b, id) == 2;
	}
	assert_true(again <= crashed_at - (size_t)done);
	assert_int_equal(archived(b), 50);
}

/* ---- 4: one malformed payload aborts its batch, every 300 s ---- */

WHERRY_CASE(defect_4_a_malformed_payload_is_one_messages_trouble, bus *b)
{
	bus_publish(&b->f, "a", "{}");
	bus_publish(&b->f, "bad", "{oops");
	bus_publish(&b->f, "c", "{}");
	assert_int_equal(run_empty(b), WHERRY_DEATHS);
	assert_int_equal(b->n, 2);
	assert_int_equal(told(b, "bad"), 0);
	assert_int_equal(archived(b), 2);
	assert_string_equal(bus_text(&b->f,
				     "SELECT id || ' ' || status || ' ' || last_error "
				     "FROM outbox WHERE next_retry_at IS NULL"),
			    "bad failed its payload is not JSON");
	assert_int_equal(bus_claimable(&b->f, 5),
			 0); /* nor has the library the trouble */
}

/* ---- 5: an id that is archived already aborts the archiving of its batch, for ever ---- */

WHERRY_CASE(defect_5_an_archived_id_is_settled_once, bus *b)
{
	bus_publish(&b->f, "a", "1");
	assert_int_equal(run_empty(b), WHERRY_EMPTY);
	bus_publish(&b->f, "a", "2");
	bus_publish(&b->f, "b", "3");
	assert_int_equal(run_empty(b), WHERRY_EMPTY);
	assert_int_equal(run_empty(b), WHERRY_EMPTY);
	assert_int_equal(told(b, "a"), 2);
	assert_int_equal(told(b, "b"), 1);
	assert_int_equal(bus_int(&b->f, "SELECT count(*) FROM outbox"), 0);
	assert_string_equal(bus_text(&b->f,
				     "SELECT group_concat(id || payload) FROM (SELECT "
				     "* FROM outbox_archive ORDER BY id)"),
			    "a2,b3");
}

/* ---- 8 and 9: events of transactions that are rolled back are handled, or stored ---- */

WHERRY_CASE(defect_8_rows_of_an_open_transaction_are_not_delivered, bus *b)
{
	wherry_error err = WHERRY_ERROR_INIT;

	start(b);
	for (int commit = 0; commit < 2; commit++) {
		WHERRY_PASS(wherry_db_begin(b->f.db, &err));
		fixture_app(&b->f, "INSERT INTO outbox(id, type, payload, occurred_at) "
				   "VALUES ('x', 't', '{}', '')");
		b->waits = 0;
		UNTIL(b, b->waits > 3);
		assert_int_equal(b->n, 0);
		if (commit)
			WHERRY_PASS(wherry_db_commit(b->f.db, &err));
		else
			wherry_db_rollback(b->f.db);
	}
	UNTIL(b, archived(b) == 1);
	assert_int_equal(b->n, 1);
}

WHERRY_CASE(defect_9_what_is_enqueued_is_rolled_back_with_its_transaction, bus *b)
{
	wherry_message msg = WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(b->f.db, &err));
	WHERRY_PASS(wherry_outbox_enqueue(b->f.outbox, &msg, 0, NULL, &err));
	wherry_db_rollback(b->f.db);
	assert_int_equal(bus_int(&b->f, "SELECT count(*) FROM outbox"), 0);
	assert_int_equal(run_empty(b), WHERRY_EMPTY);
	assert_int_equal(b->n, 0);
}

/* ---- 10: no heartbeat, no fence; a crashing event loops for ever ---- */

WHERRY_CASE(defect_10_keep_alive_is_refreshed_while_a_delivery_goes_on, bus *b)
{
	relay_fake *fake;
	char first[40];

	set(b, "relay.claim_timeout", "1s");
	bus_publish(&b->f, "slow", "{}");
	fake = start_by_hand(b);
	UNTIL(b, fake->n == 1);
	(void)snprintf(first, sizeof(first), "%.39s",
		       bus_text(&b->f, "SELECT keep_alive FROM outbox"));
	for (int i = 0; i < 2; i++) {
		UNTIL(b, strcmp(bus_text(&b->f, "SELECT keep_alive FROM outbox"), first) >
				 0);
		(void)snprintf(first, sizeof(first), "%.39s", b->f.text);
		assert_int_equal(bus_claimable(&b->f, 5), 0);
	}
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	UNTIL(b, archived(b) == 1);
	assert_int_equal(bus_int(&b->f, "SELECT retry_count FROM outbox_archive"), 0);
}

WHERRY_CASE(defect_10_a_crashing_event_ends, bus *b)
{
	int crashes = 0;

	bus_publish(&b->f, "crash", "{}");
	bus_publish(&b->f, "other", "{}");
	for (; crashes < 20; crashes++) {
		relay_fake *fake = start_by_hand(b);

		UNTIL(b,
		      (fake->n && (relay_fake_holds(fake, 1) ||
				   relay_fake_answer(fake, 2, WHERRY_DELIVERED))) ||
			      bus_int(&b->f, "SELECT count(*) FROM outbox WHERE status = "
					     "'failed' AND id = 'crash'"));
		if (!relay_fake_holds(fake, 1))
			break;
		stop(b);
		expire(b);
	}
	assert_in_range(crashes, 5, 6);
	stop(b);
	expire(b);
	(void)run_empty(b);
	assert_string_equal(bus_text(&b->f,
				     "SELECT id || status || (retry_count >= 5) || "
				     "(next_retry_at IS NULL) FROM outbox"),
			    "crashfailed11");
	assert_int_equal(archived(b), 1);
}

/* ---- 11: fresh rows come first, so that others starve ---- */

static void defect_11_failed_and_expired_rows_do_not_starve_behind_fresh_ones(
	void **state)
{
	bus *b = *state;

	set(b, "relay.batch", "10");
	set(b, "relay.window", "10");
	publish_many(b, 300);
	bus_publish(&b->f, "failed", "{}");
	bus_publish(&b->f, "expired", "{}");
	bus_raw(&b->f, "UPDATE outbox SET status = 'failed', retry_count = 1, "
		       "next_retry_at = '2020-01-01T00:00:00.000Z' WHERE id = 'failed';"
		       "UPDATE outbox SET status = 'active' WHERE id = 'expired'");
	expire(b);
	assert_int_equal(run_empty(b), WHERRY_EMPTY);
	assert_int_equal(b->n, 302);
	assert_true(place_of(b, "failed") < 20);
	assert_true(place_of(b, "expired") < 20);
	assert_true(place_of(b, "e0001") < place_of(b, "e0300")); /* the oldest first */
}

/* ---- 12: no cap on delays, counted from the start of the batch by the program's clock ---- */

WHERRY_CASE(defect_12_delays_have_a_cap_and_count_from_the_failure, bus *b)
{
	set(b, "retry.base", "1h");
	set(b, "retry.cap", "2h");
	set(b, "retry.attempts", "100");
	b->every = WHERRY_RETRY;
	bus_publish(&b->f, "a", "{}");
	bus_raw(&b->f, "UPDATE outbox SET status = 'failed', retry_count = 60, "
		       "next_retry_at = '2020-01-01T00:00:00.000Z'");
	start(b);
	UNTIL(b, bus_int(&b->f,
			 "SELECT retry_count FROM outbox WHERE status = 'failed'") == 61);
	assert_in_range(bus_int(&b->f,
				"SELECT (julianday(next_retry_at) - julianday('now')) "
				"* 86400 FROM outbox"),
			7140, 7200);
}

/* The library leaves a time in next_retry_at when it gives up. */
WHERRY_CASE(what_the_library_gave_up_is_tried_once_more, bus *b)
{
	/* The last attempt of a message that is alone waits ten times that. */
	set(b, "retry.cap", "1ms");
	b->every = WHERRY_RETRY;
	bus_publish(&b->f, "a", "{}");
	bus_raw(&b->f, "UPDATE outbox SET status = 'failed', retry_count = 5, "
		       "next_retry_at = '2020-01-01T00:00:00.000Z'");
	assert_int_equal(run_empty(b), WHERRY_DEATHS);
	assert_true(b->n >= 1); /* One attempt counts. */
	assert_string_equal(bus_text(&b->f, "SELECT status || retry_count || "
					    "(next_retry_at IS NULL) FROM outbox"),
			    "failed61");
}

/* ---- 13: the archive grows for ever; failed events are listed to 100 ---- */

WHERRY_CASE(defect_13_the_archive_is_purged_by_age_when_asked, bus *b)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	publish_many(b, 30);
	assert_int_equal(run_empty(b), WHERRY_EMPTY);
	bus_raw(&b->f,
		"UPDATE outbox_archive SET completed_on = '2020-01-01T00:00:00.000Z' "
		"WHERE rowid <= 20");
	assert_int_equal(run_empty(b), WHERRY_EMPTY); /* not by itself */
	assert_int_equal(archived(b), 30);
	WHERRY_PASS(wherry_outbox_purge(b->f.outbox, 3600 * WH_SECOND, 7, 15, &n, &err));
	assert_int_equal(n, 15);
	set(b, "outbox.retention", "1h");
	start(b);
	UNTIL(b, archived(b) == 10);
}

WHERRY_CASE(defect_13_the_failed_list_has_pages, bus *b)
{
	char ids[1200] = "";
	size_t len = 0;

	publish_many(b, 250);
	bus_raw(&b->f, "UPDATE outbox SET status = 'failed', next_retry_at = "
		       "CASE WHEN rowid %% 2 THEN '2999-01-01T00:00:00.000Z' END");
	for (int64_t after = 0; after < 250; after += 100) {
		wherry_outbox_filter page =
			WHERRY_OUTBOX_FILTER(.states = 1u << WHERRY_FAILED |
						       1u << WHERRY_DEAD,
					     .after_id = after);

		*ids = 0;
		len = 0;
		for (int64_t id = after + 1; id <= after + 100 && id <= 250; id++)
			len += (size_t)snprintf(ids + len, sizeof(ids) - len,
						len ? " %lld" : "%lld", (long long)id);
		fixture_lists(&b->f, &page, ids);
	}
}

/* ---- 14: "do not run multiple instances" ---- */

static wherry_code keep(void *ctx, const wherry_message *msg)
{
	int64_t *ids = ctx;

	ids[++ids[0]] = msg->id;
	return WHERRY_OK;
}

/* Claims until nothing is left, writing down each id it got. */
static int work(wherry_db *db, int which)
{
	wherry_claim_options seven =
		WHERRY_CLAIM_OPTIONS(.limit = 7, .lasts_us = MINUTE_US);
	int64_t count[WHERRY_STATE_COUNT] = {1};
	wherry_outbox *outbox = NULL;
	wherry_lease lease = {0};
	wherry_code code = wherry_outbox_open(db, "outbox", &outbox, NULL);

	if (code == WHERRY_OK)
		code = wherry_outbox_join(outbox, "w", MINUTE_US, &lease, NULL);
	while (code == WHERRY_OK && count[WHERRY_PENDING] + count[WHERRY_PROCESSING]) {
		int64_t ids[8] = {0};

		code = wherry_outbox_claim(outbox, &lease, &seven, keep, ids, NULL, NULL);
		for (int64_t i = 1; code == WHERRY_OK && i <= ids[0]; i++) {
			char sql[120];

			(void)snprintf(
				sql, sizeof(sql),
				"INSERT INTO got SELECT id FROM outbox WHERE rowid = "
				"%lld",
				(long long)ids[i]);
			code = wh_db_script(db, sql, NULL);
		}
		if (code == WHERRY_OK && ids[0])
			code = wherry_outbox_done(outbox, &lease, ids + 1, (size_t)ids[0],
						  NULL, NULL);
		if (code == WHERRY_OK)
			code = wherry_outbox_count(outbox, count, NULL);
	}
	wherry_outbox_close(outbox);
	return code == WHERRY_OK ? 0 : 1;
}

WHERRY_CASE(defect_14_several_processes_share_the_work_and_lose_nothing, bus *b)
{
	bus_raw(&b->f, "CREATE TABLE got(id)");
	publish_many(b, 300);
	fixture_processes(&b->f, 5, work);
	assert_int_equal(archived(b), 300);
	assert_int_equal(bus_int(&b->f, "SELECT count(*) FROM got"), 300);
	assert_int_equal(bus_int(&b->f, "SELECT count(DISTINCT id) FROM got"), 300);
	assert_string_equal(bus_text(&b->f, "PRAGMA integrity_check"), "ok");
}

#define DEFECT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEFECT(defect_1_a_backlog_drains_without_waits_between_batches),
		DEFECT(defect_3_a_crash_runs_again_only_what_was_in_flight),
		DEFECT(defect_4_a_malformed_payload_is_one_messages_trouble),
		DEFECT(defect_5_an_archived_id_is_settled_once),
		DEFECT(defect_8_rows_of_an_open_transaction_are_not_delivered),
		DEFECT(defect_9_what_is_enqueued_is_rolled_back_with_its_transaction),
		DEFECT(defect_10_keep_alive_is_refreshed_while_a_delivery_goes_on),
		DEFECT(defect_10_a_crashing_event_ends),
		DEFECT(defect_11_failed_and_expired_rows_do_not_starve_behind_fresh_ones),
		DEFECT(defect_12_delays_have_a_cap_and_count_from_the_failure),
		DEFECT(what_the_library_gave_up_is_tried_once_more),
		DEFECT(defect_13_the_archive_is_purged_by_age_when_asked),
		DEFECT(defect_13_the_failed_list_has_pages),
		DEFECT(defect_14_several_processes_share_the_work_and_lose_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
