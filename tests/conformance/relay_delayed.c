#include "relay_delayed.h"

#include <wherry/handlers.h>

#include "delayed/delayed.h"
#include "relay_each.h"
#include "store/leases.h"

const char relay_delayed_sqlite_tables[] =
	"CREATE TABLE gone(id INTEGER, message_id TEXT, attempts INTEGER, last_error TEXT, "
	"payload TEXT);"
	"CREATE TRIGGER later_gone AFTER DELETE ON later WHEN OLD.\"lockUuid\" IS NOT NULL AND "
	"NOT EXISTS (SELECT 1 FROM later_dead WHERE id = OLD.id) BEGIN "
	"INSERT INTO gone VALUES (OLD.id, OLD.\"pKind\" || '-' || OLD.id || '-' || OLD.\"createdAt\", "
	"OLD.attempts, OLD.last_error, OLD.payload); END;";

const char relay_delayed_sqlite_views[] =
	"CREATE TEMP VIEW native AS SELECT id, \"pKind\" || '-' || id || '-' || \"createdAt\" AS message_id, "
	"'jobs' AS topic, CAST(payload AS TEXT) AS payload, attempts, last_error, "
	"CASE WHEN \"lockUuid\" IS NOT NULL THEN 1 WHEN attempts <> 0 OR last_error IS NOT NULL THEN 3 "
	"ELSE 0 END AS status, \"scheduledAt\" AS next_retry_at, NULL AS claimed_at, "
	"\"lockUuid\" AS claim_token FROM main.later UNION ALL "
	"SELECT id, '', 'jobs', CAST(payload AS TEXT), attempts, last_error, 4, NULL, NULL, NULL "
	"FROM main.later_dead UNION ALL "
	"SELECT id, message_id, 'jobs', CAST(payload AS TEXT), attempts, last_error, 2, NULL, NULL, NULL "
	"FROM main.gone;"
	"CREATE TEMP TRIGGER native_update INSTEAD OF UPDATE ON native BEGIN "
	"UPDATE later SET \"lockUuid\" = CASE WHEN NEW.status IN (1, 2) THEN coalesce(NEW.claim_token, 'x') END, "
	"attempts = NEW.attempts, "
	"last_error = CASE WHEN NEW.status = 3 THEN coalesce(NEW.last_error, 'x') ELSE NEW.last_error END, "
	"\"scheduledAt\" = CASE WHEN NEW.status = 0 AND OLD.status <> 0 THEN 0 "
	"ELSE coalesce(NEW.next_retry_at, 0) END "
	"WHERE id = OLD.id; "
	"DELETE FROM later WHERE id = OLD.id AND NEW.status = 2; END;";

const char relay_delayed_postgres_tables[] =
	"CREATE TABLE gone(id bigint, message_id text, attempts integer, last_error text, payload bytea);"
	"CREATE FUNCTION later_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$BEGIN "
	"IF NOT EXISTS (SELECT 1 FROM later_dead WHERE id = old.id) THEN "
	"INSERT INTO gone VALUES (old.id, old.\"pKind\" || '-' || old.id || '-' || old.\"createdAt\", "
	"old.attempts, old.last_error, old.payload); END IF; RETURN old; END$$;"
	"CREATE TRIGGER later_gone AFTER DELETE ON later FOR EACH ROW WHEN (old.\"lockUuid\" IS NOT NULL) "
	"EXECUTE FUNCTION later_gone();";

const char relay_delayed_postgres_views[] =
	"CREATE VIEW native AS SELECT id, \"pKind\" || '-' || id || '-' || \"createdAt\" AS message_id, "
	"'jobs'::text AS topic, convert_from(payload, 'UTF8') AS payload, attempts, last_error, "
	"CASE WHEN \"lockUuid\" IS NOT NULL THEN 1 WHEN attempts <> 0 OR last_error IS NOT NULL THEN 3 "
	"ELSE 0 END::smallint AS status, to_timestamp(\"scheduledAt\" / 1000.0) AS next_retry_at, "
	"NULL::timestamptz AS claimed_at, \"lockUuid\"::text AS claim_token FROM later UNION ALL "
	"SELECT id, '', 'jobs', convert_from(payload, 'UTF8'), attempts, last_error, 4::smallint, NULL, NULL, NULL "
	"FROM later_dead UNION ALL "
	"SELECT id, message_id, 'jobs', convert_from(payload, 'UTF8'), attempts, last_error, 2::smallint, NULL, NULL, "
	"NULL FROM gone;"
	"CREATE FUNCTION native_update() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$BEGIN "
	"UPDATE later SET \"lockUuid\" = CASE WHEN new.status IN (1, 2) THEN left(coalesce(new.claim_token, 'x'), 36) END, "
	"attempts = new.attempts, "
	"last_error = CASE WHEN new.status = 3 THEN coalesce(new.last_error, 'x') ELSE new.last_error END, "
	"\"scheduledAt\" = CASE WHEN new.status = 0 AND old.status <> 0 THEN 0 "
	"ELSE coalesce(floor(extract(epoch FROM new.next_retry_at) * 1000.0), 0) END "
	"WHERE id = old.id; "
	"DELETE FROM later WHERE id = old.id AND new.status = 2; RETURN new; END$$;"
	"CREATE TRIGGER native_update INSTEAD OF UPDATE ON native FOR EACH ROW "
	"EXECUTE FUNCTION native_update();";

const char relay_delayed_mssql_tables[] =
	"CREATE TABLE gone(id BIGINT, message_id NVARCHAR(255), attempts INT, last_error NVARCHAR(500), "
	"payload VARBINARY(MAX)); "
	"EXEC(N'CREATE TRIGGER later_gone ON later AFTER DELETE AS INSERT INTO gone "
	"SELECT d.id, CONCAT(d.\"pKind\", N''-'', d.id, N''-'', d.\"createdAt\"), d.attempts, d.last_error, "
	"d.payload FROM deleted AS d WHERE d.\"lockUuid\" IS NOT NULL AND NOT EXISTS "
	"(SELECT 1 FROM later_dead AS x WHERE x.id = d.id)')";

const char relay_delayed_mssql_views[] =
	"EXEC(N'CREATE VIEW native AS SELECT id, CONCAT(\"pKind\", N''-'', id, N''-'', \"createdAt\") AS message_id, "
	"N''jobs'' AS topic, CAST(payload AS VARCHAR(MAX)) AS payload, attempts, last_error, "
	"CAST(CASE WHEN \"lockUuid\" IS NOT NULL THEN 1 WHEN attempts <> 0 OR last_error IS NOT NULL THEN 3 "
	"ELSE 0 END AS INT) AS status, dbo.ms_time(\"scheduledAt\") AS next_retry_at, "
	"CAST(NULL AS DATETIME2(3)) AS claimed_at, \"lockUuid\" AS claim_token FROM later UNION ALL "
	"SELECT id, N'''', N''jobs'', CAST(payload AS VARCHAR(MAX)), attempts, last_error, 4, NULL, NULL, NULL "
	"FROM later_dead UNION ALL "
	"SELECT id, message_id, N''jobs'', CAST(payload AS VARCHAR(MAX)), attempts, last_error, 2, NULL, NULL, NULL "
	"FROM gone'); "
	"EXEC(N'CREATE TRIGGER native_update ON native INSTEAD OF UPDATE AS BEGIN "
	"UPDATE t SET \"lockUuid\" = CASE WHEN n.status IN (1, 2) THEN LEFT(COALESCE(n.claim_token, ''x''), 36) END, "
	"attempts = n.attempts, "
	"last_error = CASE WHEN n.status = 3 THEN COALESCE(n.last_error, N''x'') ELSE n.last_error END, "
	"\"scheduledAt\" = CASE WHEN n.status = 0 AND d.status <> 0 THEN 0 "
	"ELSE COALESCE(DATEDIFF_BIG(MILLISECOND, ''19700101'', n.next_retry_at), 0) END "
	"FROM later AS t JOIN inserted AS n ON n.id = t.id JOIN deleted AS d ON d.id = t.id; "
	"DELETE t FROM later AS t JOIN inserted AS n ON n.id = t.id WHERE n.status = 2; END')";

const char *const relay_delayed_except[] = {
	/* An operator retries dead messages, and not those that wait to be retried. */
	"a_retry_by_an_operator_need_not_wait",

	"a_relay_that_waits_to_try_what_expired_goes_on_when_another_took_it",
	NULL,
};

/* ---- of delayed queues alone ---- */

static void offer(relay_fixture *f, const char *key, const char *body, int64_t delay_us)
{
	const wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = key, .body = body, .body_len = WHERRY_TEXT,
				       .delay_us = delay_us);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_delayed_offer(f->delayed, &msg, NULL, &err));
}

static int64_t left(relay_fixture *f)
{
	return relay_number(f, "SELECT count(*) FROM later");
}

WHERRY_CASE(a_due_message_is_delivered_with_its_key_and_leaves_the_table,
	    relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	const wherry_message *got;

	fake->by_hand = true;
	offer(f, "order-7", "any \x01 bytes", 0);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	got = fake->flights[0].msg;
	assert_string_equal(got->topic, "jobs");
	assert_string_equal(got->key, "order-7");
	assert_memory_equal(got->body, "any \x01 bytes", 11);
	assert_true(strstr(got->message_id, "-1-") != NULL);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, left(f) == 0);
}

/* Another program may write keys that no offer takes. */
WHERRY_CASE(a_message_whose_key_no_offer_takes_is_delivered, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	/* The library's table on SQLite has no limit; others have one of 200 characters. */
	int most = strcmp(f->delayed->store.layout.name, "funfix") == 0 &&
				   strcmp(f->other->driver->scheme, "sqlite") == 0
			   ? 900
			   : 200;
	char key[1000], sql[1200];

	fake->by_hand = true;
	relay_start(f, &f->a);
	for (int n = 0; n <= most; n += most) {
		memset(key, 'k', (size_t)n);
		key[n] = 0;
		offer(f, "a", "1", 1000000);
		(void)snprintf(sql, sizeof(sql),
			       "UPDATE later SET \"pKey\" = '%s', \"scheduledAt\" = 0, "
			       "\"scheduledAtInitially\" = 0",
			       key);
		relay_sql(f, sql);
		RELAY_ASLEEP_UNTIL(f, &f->a, fake->n == 1);
		if (strcmp(fake->flights[0].msg->key ? fake->flights[0].msg->key : "",
			   key) != 0)
			fail_msg("key '%s'", fake->flights[0].msg->key);
		assert_true(relay_fake_answer(fake, fake->flights[0].msg->id,
					      WHERRY_DELIVERED));
		RELAY_UNTIL(f, &f->a, left(f) == 0);
	}
}

static wherry_code take_length(void *ctx, const wherry_delayed_message *msg)
{
	*(size_t *)ctx = msg->body_len;
	return WHERRY_OK;
}

WHERRY_CASE(a_message_that_is_too_long_for_the_relay_dies_with_its_body, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char body[2001];
	size_t len = 0;

	memset(body, 'b', 2000);
	body[2000] = 0;
	offer(f, "long", body, 0);
	relay_set(f, "outbox.body_max", "1KB");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, left(f) == 0);
	WHERRY_PASS(wherry_delayed_list_dead(f->delayed, 0, 0, take_length, &len, &err));
	assert_int_equal(len, 2000);
}

WHERRY_CASE(a_message_is_delivered_when_it_is_due, relay_fixture *f)
{
	int64_t sent;

	relay_hourly(f);
	sent = wh_monotonic(&wh_env_system);
	offer(f, "a", "{}", 300000);
	offer(f, "b", "{}", 3600 * WH_SECOND);
	relay_start(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->a, left(f) == 1);
	assert_true(wh_monotonic(&wh_env_system) - sent >= 299000);
	RELAY_DELIVERED(f, 1);
}

WHERRY_CASE(an_offer_that_comes_earlier_wakes_the_relay, relay_fixture *f)
{
	relay_hourly(f);
	offer(f, "a", "{}", 3600 * WH_SECOND);
	relay_start(f, &f->a);
	relay_quiet(f, &f->a);
	offer(f, "a", "now", 0);
	RELAY_ASLEEP_UNTIL(f, &f->a, left(f) == 0);
}

WHERRY_CASE(messages_of_other_queues_of_the_table_stay, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *others = NULL;

	relay_put(f, "--");
	WHERRY_PASS(
		wherry_delayed_open(f->other, "later", "others", NULL, &others, &err));
	WHERRY_PASS(wherry_delayed_offer(
		others, &WHERRY_DELAYED_MESSAGE(.key = "k", .body = "x", .body_len = 1),
		NULL, &err));
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, left(f) == 1);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 1, 2);
	wherry_delayed_close(others);
}

/* The row keeps its id and is claimed again, by the same relay and under the same token. */
WHERRY_CASE(an_offer_that_replaces_a_message_in_flight_is_delivered_too, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	char first[120];

	fake->by_hand = true;
	offer(f, "a", "old", 0);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	(void)snprintf(first, sizeof(first), "%s", fake->flights[0].msg->message_id);
	offer(f, "a", "new", 0);
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM later WHERE \"lockUuid\" IS "
				    "NOT NULL") == 1);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a,
		    fake->n == 1 && strncmp(fake->flights[0].msg->body, "new", 3) == 0);
	assert_string_not_equal(fake->flights[0].msg->message_id, first);
	assert_int_equal(left(f), 1);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, left(f) == 0);
}

/* Whether it failed or not: what became of the old message concerns nobody. */
WHERRY_CASE(a_failure_of_a_replaced_message_does_not_delay_the_new_one, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	offer(f, "a", "old", 0);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	offer(f, "a", "new", 0);
	assert_true(relay_fake_answer(fake, 1, WHERRY_REJECTED));
	RELAY_UNTIL(f, &f->a,
		    fake->n == 1 && strncmp(fake->flights[0].msg->body, "new", 3) == 0);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, left(f) == 0);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM later_dead"), 0);
}

static wherry_code ignore(void *ctx, const wherry_delayed_message *msg)
{
	return WHERRY_OK;
}

WHERRY_CASE(a_consumer_and_a_relay_share_a_delayed_queue, relay_fixture *f)
{
	const wherry_poll_options options = WHERRY_POLL_OPTIONS(.limit = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	relay_put(f, "----");
	WHERRY_PASS(wherry_delayed_poll(f->delayed, &options, ignore, NULL, &n, &err));
	assert_int_equal(n, 2);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, left(f) == 2);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 3, 4);
}

/* The attempts are in the row, so that another relay goes on counting. */
WHERRY_CASE(attempts_at_a_message_of_a_delayed_queue_survive_the_relay, relay_fixture *f)
{
	relay_set(f, "retry.attempts", "3");
	relay_answers(f, 1, WHERRY_RETRY, -1);
	relay_put(f, "-");
	relay_put(f, "-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_attempts(f, 1) == 2);
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	relay_sql(f, "UPDATE outbox SET next_retry_at = 1 WHERE status IN (1, 3)");
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_state(f, 1) == WHERRY_DEAD);
	assert_int_equal(relay_number(f,
				      "SELECT count(*) FROM later_dead WHERE "
				      "last_error = 'the test said so' AND attempts = 3"),
			 1);
	assert_int_equal(relay_count(f, WHERRY_DONE), 1);
}

WHERRY_CASE(a_dead_message_that_is_retried_is_delivered, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	relay_answers(f, 1, WHERRY_REJECTED, 1);
	relay_put(f, "-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	assert_int_equal(left(f), 0);
	WHERRY_PASS(wherry_delayed_retry(f->delayed, 0, &n, &err));
	assert_int_equal(n, 1);
	RELAY_ASLEEP_UNTIL(f, &f->a, left(f) == 0);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM later_dead"), 0);
}

WHERRY_CASE(until_empty_leaves_messages_whose_time_has_not_come, relay_fixture *f)
{
	offer(f, "a", "{}", 0);
	offer(f, "b", "{}", 3600 * WH_SECOND);
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	assert_int_equal(left(f), 1);
}

/* Messages that failed are looked for among the first that are due; here they are not, until those
 * before them are delivered. */
WHERRY_CASE(a_failed_message_behind_a_long_backlog_is_delivered_too, relay_fixture *f)
{
	char keys[201];

	memset(keys, '-', 200);
	keys[200] = 0;
	for (int i = 0; i < 3; i++)
		relay_put(f, keys);
	relay_sql(f, "UPDATE outbox SET status = 3, attempts = 1 WHERE id > 500");
	relay_sql(f, "UPDATE later SET \"scheduledAt\" = id");
	assert_int_equal(relay_run_empty(f, &f->a), WHERRY_EMPTY);
	assert_int_equal(left(f), 0);
	assert_int_equal(relay_delivered(f), 600);
}

static void count_relay(void *ctx, const wh_holder *relay)
{
	++*(int *)ctx;
}

WHERRY_CASE(relays_of_other_queues_of_the_table_go_on, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *others = NULL;
	int n = 0;

	WHERRY_PASS(
		wherry_delayed_open(f->other, "later", "others", NULL, &others, &err));
	WHERRY_PASS(wherry_delayed_pause(others, &err));
	relay_put(f, "--");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, left(f) == 0);
	WHERRY_PASS(wh_store_relays(&others->store, count_relay, &n, &err));
	assert_int_equal(n, 0);
	WHERRY_PASS(wh_store_relays(&f->delayed->store, count_relay, &n, &err));
	assert_int_equal(n, 1);
	wherry_delayed_close(others);
}

WHERRY_CASE(a_table_that_is_removed_takes_its_relays_and_pauses_along, relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *spare = NULL;

	WHERRY_PASS(wherry_delayed_create(f->other, "spare", NULL, &err));
	WHERRY_PASS(wherry_delayed_open(f->other, "spare", "jobs", NULL, &spare, &err));
	WHERRY_PASS(wherry_delayed_pause(spare, &err));
	WHERRY_PASS(wherry_delayed_pause(f->delayed, &err));
	relay_start(f, &f->a);
	relay_quiet(f, &f->a);
	WHERRY_PASS(wh_db_script(
		f->other,
		"INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, "
		"clean, unclean, win, suspects) SELECT 'spare:x', number, engine, owner, "
		"epoch, expires_at, clean, unclean, win, suspects FROM wherry_lease",
		&err));
	WHERRY_PASS(wherry_delayed_drop(spare, &err));
	wherry_delayed_close(spare);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM wherry_lease"), 1);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM wherry_outbox"), 1);
}

/* ---- beside the JVM library, whose statements these are ---- */

#define LIBRARY_LOCK "b7c0e5a2-6a0e-4a0e-9d43-0a8f6b1a3c11"

WHERRY_CASE(the_library_and_a_relay_deliver_each_message_once, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);

	fake->by_hand = true;
	relay_put(f, "--");
	relay_sql(f, "UPDATE later SET \"scheduledAt\" = 253402300799999, \"lockUuid\" = "
		     "'" LIBRARY_LOCK
		     "' WHERE id = 1 AND \"scheduledAt\" <= 253402300799999");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	assert_int_equal(fake->flights[0].msg->id, 2);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM later WHERE id = 2 AND "
					 "\"scheduledAt\" > \"scheduledAtInitially\" AND "
					 "length(\"lockUuid\") = 36"),
			 1); /* The library does not poll it. */
	relay_sql(f, "DELETE FROM later WHERE \"lockUuid\" = '" LIBRARY_LOCK "'");
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, left(f) == 0);
}

WHERRY_CASE(an_update_of_the_library_in_flight_is_delivered_too, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	char first[120];

	fake->by_hand = true;
	relay_put(f, "-");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 1);
	(void)snprintf(first, sizeof(first), "%s", fake->flights[0].msg->message_id);
	relay_sql(f,
		  "UPDATE later SET \"scheduledAt\" = 1, \"scheduledAtInitially\" = 1, "
		  "\"lockUuid\" = NULL, \"createdAt\" = \"createdAt\" + 1");
	RELAY_UNTIL(f, &f->a,
		    relay_number(f, "SELECT count(*) FROM later WHERE \"lockUuid\" IS "
				    "NOT NULL") == 1);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a,
		    fake->n == 1 && strcmp(fake->flights[0].msg->message_id, first) != 0);
	assert_int_equal(left(f), 1);
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, left(f) == 0);
}

/* ---- handlers ---- */

/* Fails the first time, after its write. */
static wherry_verdict book(void *ctx, wherry_call *call)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	if (wherry_call_begin(call, &db, &err) != WHERRY_OK ||
	    wh_db_script(db, "INSERT INTO booked VALUES (1)", &err) != WHERRY_OK) {
		wherry_call_reason(call, err.message);
		return WHERRY_RETRY;
	}
	return wherry_call_attempt(call) == 1 ? WHERRY_RETRY : WHERRY_DELIVERED;
}

/* Offers the next message in the transaction that deletes this one. */
static wherry_verdict offer_next(void *ctx, wherry_call *call)
{
	const wherry_delayed_message next =
		WHERRY_DELAYED_MESSAGE(.key = "next", .body = "{}", .body_len = 2,
				       .delay_us = 3600 * WH_SECOND);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	wherry_db *db = NULL;
	wherry_code code = wherry_call_begin(call, &db, &err);

	if (code == WHERRY_OK)
		code = wherry_delayed_open(db, "later", "jobs", NULL, &queue, &err);
	if (code == WHERRY_OK)
		code = wherry_delayed_offer(queue, &next, NULL, &err);
	wherry_delayed_close(queue);
	wherry_call_reason(call, err.message);
	return code == WHERRY_OK ? WHERRY_DELIVERED : WHERRY_REJECTED;
}

static void handle(relay_fixture *f, wherry_handler_fn fn)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_handlers_open(f->url, f->config, &f->a.pub, &err));
	WHERRY_PASS(wherry_handlers_others(f->a.pub, fn, f, &err));
	relay_start(f, &f->a);
}

WHERRY_CASE(a_handler_deletes_its_delayed_message_with_what_it_writes, relay_fixture *f)
{
	relay_sql(f, "CREATE TABLE booked(n integer)");
	relay_put(f, "-");
	handle(f, book);
	RELAY_UNTIL(f, &f->a, left(f) == 0);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM booked"), 1);
	assert_int_equal(relay_number(f, "SELECT attempts FROM gone"), 1);
}

WHERRY_CASE(a_handler_offers_the_next_message_in_the_same_transaction, relay_fixture *f)
{
	relay_put(f, "-");
	handle(f, offer_next);
	RELAY_UNTIL(f, &f->a, relay_number(f, "SELECT count(*) FROM gone") == 1);
	assert_int_equal(left(f), 1);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM later_dead"), 0);
}

const relay_test relay_delayed_tests[] = {
	RELAY_TEST(a_due_message_is_delivered_with_its_key_and_leaves_the_table, 0),
	RELAY_TEST(a_message_whose_key_no_offer_takes_is_delivered, 0),
	RELAY_TEST(a_message_that_is_too_long_for_the_relay_dies_with_its_body, 0),
	RELAY_TEST(a_message_is_delivered_when_it_is_due, 0),
	RELAY_TEST(an_offer_that_comes_earlier_wakes_the_relay, 0),
	RELAY_TEST(messages_of_other_queues_of_the_table_stay, 0),
	RELAY_TEST(an_offer_that_replaces_a_message_in_flight_is_delivered_too, 0),
	RELAY_TEST(a_failure_of_a_replaced_message_does_not_delay_the_new_one, 0),
	RELAY_TEST(a_consumer_and_a_relay_share_a_delayed_queue, 0),
	RELAY_TEST(attempts_at_a_message_of_a_delayed_queue_survive_the_relay, 0),
	RELAY_TEST(a_dead_message_that_is_retried_is_delivered, 0),
	RELAY_TEST(until_empty_leaves_messages_whose_time_has_not_come, 0),
	RELAY_TEST(a_failed_message_behind_a_long_backlog_is_delivered_too, 0),
	RELAY_TEST(a_paused_queue_is_not_relayed_until_it_is_resumed, 0),
	RELAY_TEST(each_relay_of_a_queue_is_shown, 0),
	RELAY_TEST(a_relay_of_a_queue_says_that_its_destination_refuses, 0),
	RELAY_TEST(relays_of_other_queues_of_the_table_go_on, 0),
	RELAY_TEST(a_table_that_is_removed_takes_its_relays_and_pauses_along, 0),
	RELAY_TEST(the_library_and_a_relay_deliver_each_message_once, 0),
	RELAY_TEST(an_update_of_the_library_in_flight_is_delivered_too, 0),
	RELAY_TEST(a_handler_deletes_its_delayed_message_with_what_it_writes,
		   RELAY_OTHERS | RELAY_THREADS),
	RELAY_TEST(a_handler_offers_the_next_message_in_the_same_transaction,
		   RELAY_OTHERS | RELAY_THREADS),
	RELAY_TESTS_END,
};
