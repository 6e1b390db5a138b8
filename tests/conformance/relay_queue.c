#include "relay_queue.h"

#include <stdio.h>
#include <string.h>

#include <wherry/handlers.h>

#include "relay_each.h"

const char relay_queue_sqlite_tables[] =
	"CREATE TABLE gone(id INTEGER, message_id TEXT, topic TEXT, attempts INTEGER, "
	"last_error TEXT, payload TEXT);"
	"CREATE TRIGGER jobs_gone AFTER DELETE ON jobs WHEN OLD.state = 1 BEGIN "
	"INSERT INTO gone VALUES (OLD.id, OLD.message_id, OLD.topic, OLD.attempts, "
	"OLD.last_error, OLD.body); END;";

const char relay_queue_sqlite_views[] =
	"CREATE TEMP VIEW native AS SELECT id, message_id, topic, body AS payload, attempts, "
	"last_error, state AS status, available_at AS next_retry_at, NULL AS claimed_at, "
	"lease_token AS claim_token FROM main.jobs UNION ALL "
	"SELECT id, message_id, topic, payload, attempts, last_error, 2, NULL, NULL, NULL "
	"FROM main.gone;"
	"CREATE TEMP TRIGGER native_update INSTEAD OF UPDATE ON native BEGIN "
	"UPDATE jobs SET state = CASE NEW.status WHEN 2 THEN 1 ELSE NEW.status END, "
	"topic = NEW.topic, message_id = NEW.message_id, attempts = NEW.attempts, "
	"available_at = CASE WHEN NEW.status IN (1, 2, 3) THEN coalesce(NEW.next_retry_at, 0) END, "
	"lease_token = CASE WHEN NEW.status IN (1, 2) THEN coalesce(NEW.claim_token, 'x') END "
	"WHERE id = OLD.id; "
	"DELETE FROM jobs WHERE id = OLD.id AND NEW.status = 2; END;";

const char relay_queue_postgres_tables[] =
	"CREATE TABLE gone AS SELECT id, message_id, topic, attempts, last_error, body FROM jobs;"
	"CREATE FUNCTION jobs_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$BEGIN "
	"INSERT INTO gone VALUES (old.id, old.message_id, old.topic, old.attempts, "
	"old.last_error, old.body); RETURN old; END$$;"
	"CREATE TRIGGER jobs_gone AFTER DELETE ON jobs FOR EACH ROW WHEN (old.state = 1) "
	"EXECUTE FUNCTION jobs_gone();";

const char relay_queue_postgres_views[] =
	"CREATE VIEW native AS SELECT id, message_id, topic, body::text AS payload, attempts, "
	"last_error, state AS status, available_at AS next_retry_at, "
	"NULL::timestamptz AS claimed_at, lease_token AS claim_token FROM jobs UNION ALL "
	"SELECT id, message_id, topic, body::text, attempts, last_error, 2::smallint, NULL, NULL, "
	"NULL FROM gone;"
	"CREATE FUNCTION native_update() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$BEGIN "
	"UPDATE jobs SET state = CASE new.status WHEN 2 THEN 1 ELSE new.status END, "
	"topic = new.topic, message_id = new.message_id, attempts = new.attempts, "
	"available_at = CASE WHEN new.status IN (1, 2, 3) "
	"THEN coalesce(new.next_retry_at, 'epoch') END, "
	"lease_token = CASE WHEN new.status IN (1, 2) THEN coalesce(new.claim_token, 'x') END "
	"WHERE id = old.id; "
	"DELETE FROM jobs WHERE id = old.id AND new.status = 2; RETURN new; END$$;"
	"CREATE TRIGGER native_update INSTEAD OF UPDATE ON native FOR EACH ROW "
	"EXECUTE FUNCTION native_update();";

const char relay_queue_mssql_tables[] =
	"CREATE TABLE gone(id BIGINT, message_id NVARCHAR(255), topic NVARCHAR(255), attempts INT, "
	"last_error NVARCHAR(MAX), payload NVARCHAR(MAX)); "
	"EXEC(N'CREATE TRIGGER jobs_gone ON jobs AFTER DELETE AS INSERT INTO gone "
	"SELECT id, message_id, topic, attempts, last_error, body FROM deleted WHERE state = 1')";

const char relay_queue_mssql_views[] =
	"EXEC(N'CREATE VIEW native AS SELECT id, message_id, topic, body AS payload, attempts, "
	"last_error, state AS status, available_at AS next_retry_at, "
	"CAST(NULL AS DATETIME2(3)) AS claimed_at, lease_token AS claim_token FROM jobs UNION ALL "
	"SELECT id, message_id, topic, payload, attempts, last_error, CAST(2 AS TINYINT), NULL, NULL, "
	"NULL FROM gone'); "
	"EXEC(N'CREATE TRIGGER native_update ON native INSTEAD OF UPDATE AS BEGIN "
	"UPDATE j SET state = CASE n.status WHEN 2 THEN 1 ELSE n.status END, topic = n.topic, "
	"message_id = n.message_id, attempts = n.attempts, "
	"available_at = CASE WHEN n.status IN (1, 2, 3) THEN COALESCE(n.next_retry_at, ''19700101'') END, "
	"lease_token = CASE WHEN n.status IN (1, 2) THEN COALESCE(n.claim_token, N''x'') END "
	"FROM jobs AS j JOIN inserted AS n ON n.id = j.id; "
	"DELETE j FROM jobs AS j JOIN inserted AS n ON n.id = j.id WHERE n.status = 2; END')";

const char *const relay_queue_except[] = {
	/* An operator retries dead messages, and not those that wait to be retried. */
	"a_retry_by_an_operator_need_not_wait",
	NULL,
};

/* ---- of queues alone ---- */

static void send(relay_fixture *f, const wherry_queue_message *msg)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_queue_send(f->queue, msg, NULL, &err));
}

static int64_t left(relay_fixture *f)
{
	return relay_number(f, "SELECT count(*) FROM jobs");
}

WHERRY_CASE(a_message_of_a_queue_has_its_fields_and_leaves_the_table, relay_fixture *f)
{
	relay_fake *fake = relay_use_fake(f, &f->a, 0);
	const wherry_message *got;

	fake->by_hand = true;
	send(f, &WHERRY_QUEUE_MESSAGE(.message_id = "m-1", .topic = "paid",
				      .headers = "{\"a\": \"b\"}", .body = "[1]",
				      .body_len = WHERRY_TEXT));
	send(f, &WHERRY_QUEUE_MESSAGE(.body = "{}", .body_len = WHERRY_TEXT));
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, fake->n == 2);
	got = fake->flights[0].msg;
	assert_string_equal(got->message_id, "m-1");
	assert_string_equal(got->topic, "paid");
	assert_non_null(strstr(got->headers, "\"b\""));
	assert_memory_equal(got->body, "[1]", 3);
	assert_null(got->key);
	assert_string_equal(fake->flights[1].msg->topic,
			    "jobs"); /* it was sent to the queue */
	assert_true(relay_fake_answer(fake, 1, WHERRY_DELIVERED));
	assert_true(relay_fake_answer(fake, 2, WHERRY_DELIVERED));
	RELAY_UNTIL(f, &f->a, left(f) == 0);
}

WHERRY_CASE(an_expired_message_is_not_delivered_and_goes, relay_fixture *f)
{
	relay_set(f, "relay.purge_every", "100ms");
	send(f, &WHERRY_QUEUE_MESSAGE(.body = "{}", .body_len = WHERRY_TEXT,
				      .expires_us = 3600 * WH_SECOND));
	send(f, &WHERRY_QUEUE_MESSAGE(.body = "{}", .body_len = WHERRY_TEXT));
	relay_sql(f, "UPDATE jobs SET expires_at = created_at WHERE id = 1");
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, left(f) == 0);
	RELAY_DELIVERED(f, 2);
}

WHERRY_CASE(a_delayed_message_is_delivered_when_it_is_due, relay_fixture *f)
{
	int64_t sent;

	relay_hourly(f);
	sent = wh_monotonic(&wh_env_system);
	send(f, &WHERRY_QUEUE_MESSAGE(.body = "{}", .body_len = WHERRY_TEXT,
				      .delay_us = 300000));
	relay_start(f, &f->a);
	RELAY_ASLEEP_UNTIL(f, &f->a, left(f) == 0);
	assert_true(wh_monotonic(&wh_env_system) - sent >= 299000);
}

static wherry_code ignore(void *ctx, const wherry_queue_message *msg)
{
	return WHERRY_OK;
}

WHERRY_CASE(a_receiver_and_a_relay_share_a_queue, relay_fixture *f)
{
	const wherry_receive_options options =
		WHERRY_RECEIVE_OPTIONS(.mode = WHERRY_LEASE, .limit = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	relay_put(f, "----");
	WHERRY_PASS(wherry_queue_receive(f->queue, &options, ignore, NULL, &n, &err));
	assert_int_equal(n, 2);
	relay_start(f, &f->a);
	RELAY_UNTIL(f, &f->a, left(f) == 2);
	relay_quiet(f, &f->a);
	RELAY_DELIVERED(f, 3, 4);
}

/* The attempts are in the row, so that another relay goes on counting. */
static void attempts_at_a_message_of_a_queue_survive_the_relay(void **state)
{
	relay_fixture *f = *state;

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
	assert_int_equal(relay_number(f, "SELECT count(*) FROM jobs WHERE state = 4 AND "
					 "last_error = 'the test said so'"),
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
	WHERRY_PASS(wherry_queue_retry(f->queue, 0, &n, &err));
	assert_int_equal(n, 1);
	RELAY_ASLEEP_UNTIL(f, &f->a, left(f) == 0);
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

static wherry_verdict enqueue(void *ctx, wherry_call *call)
{
	const wherry_message msg =
		WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_call_enqueue(call, NULL, &msg, NULL, &err);

	wherry_call_reason(call, err.message);
	return code == WHERRY_INVALID ? WHERRY_REJECTED : WHERRY_DELIVERED;
}

static void handle(relay_fixture *f, wherry_handler_fn fn)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_handlers_open(f->url, f->config, &f->a.pub, &err));
	WHERRY_PASS(wherry_handlers_others(f->a.pub, fn, f, &err));
	relay_start(f, &f->a);
}

WHERRY_CASE(a_handler_deletes_its_message_with_what_it_writes, relay_fixture *f)
{
	relay_sql(f, "CREATE TABLE booked(n integer)");
	relay_put(f, "-");
	handle(f, book);
	RELAY_UNTIL(f, &f->a, left(f) == 0);
	assert_int_equal(relay_number(f, "SELECT count(*) FROM booked"), 1);
	assert_int_equal(relay_number(f, "SELECT attempts FROM gone"), 1);
}

WHERRY_CASE(a_handler_of_a_queue_names_the_outbox_that_it_enqueues_to, relay_fixture *f)
{
	relay_put(f, "-");
	handle(f, enqueue);
	RELAY_UNTIL(f, &f->a, relay_state(f, 1) == WHERRY_DEAD);
	assert_int_equal(relay_number(f,
				      "SELECT count(*) FROM jobs WHERE last_error LIKE "
				      "'%comes from the queue%'"),
			 1);
}

/* Why a relay cannot open the table of this name. */
static wherry_error refusal(relay_fixture *f, const char *name)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_relay *relay = NULL;
	char url[500];

	(void)snprintf(url, sizeof(url), "%s#%s", f->url, name);
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_relay_open(url, "null:", f->config, &relay, &err));
	return err;
}

WHERRY_CASE(a_relay_of_a_missing_table_names_the_nearest, relay_fixture *f)
{
	wherry_error err = refusal(f, "jbos");

	assert_non_null(strstr(err.message, "(did you mean 'jobs'?)"));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_OUTBOX | WHERRY_KIND_QUEUE);
	assert_string_equal(err.table, "jbos");
	err = refusal(f, "invoices");
	assert_non_null(strstr(err.message, "(this database has "));
	err = refusal(f, "jbos/mail");
	assert_null(strstr(err.message, "did you mean"));
}

const relay_test relay_queue_tests[] = {
	RELAY_TEST(a_relay_of_a_missing_table_names_the_nearest, 0),
	RELAY_TEST(a_message_of_a_queue_has_its_fields_and_leaves_the_table, 0),
	RELAY_TEST(an_expired_message_is_not_delivered_and_goes, 0),
	RELAY_TEST(a_delayed_message_is_delivered_when_it_is_due, 0),
	RELAY_TEST(a_receiver_and_a_relay_share_a_queue, 0),
	RELAY_TEST(attempts_at_a_message_of_a_queue_survive_the_relay, 0),
	RELAY_TEST(a_dead_message_that_is_retried_is_delivered, 0),
	RELAY_TEST(a_paused_queue_is_not_relayed_until_it_is_resumed, 0),
	RELAY_TEST(each_relay_of_a_queue_is_shown, 0),
	RELAY_TEST(a_relay_of_a_queue_says_that_its_destination_refuses, 0),
	RELAY_TEST(a_handler_deletes_its_message_with_what_it_writes,
		   RELAY_OTHERS | RELAY_THREADS),
	RELAY_TEST(a_handler_of_a_queue_names_the_outbox_that_it_enqueues_to,
		   RELAY_OTHERS | RELAY_THREADS),
	RELAY_TESTS_END,
};
