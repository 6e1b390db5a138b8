/*
 * Roles of delayed queues and of crons on PostgreSQL: each may do its part, and nothing else.
 */
#include "delayed_suite.h"

#include <wherry/cron.h>
#include <wherry/postgres.h>

#include "cron/cron.h"
#include "delayed/delayed.h"
#include "postgres/server.h"
#include "store/grants.h"

/* A table of delayed queues and a cron, and an application's connection, which takes roles. */
typedef struct place {
	wherry_db *owner, *app;
	wherry_delayed *owned, *queue; /* the application's connection has `queue` */
	wherry_cron *cron;
	PGconn *conn;
} place;

static void enter(place *p, const char *roles)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char url[200];

	*p = (place){.owner = NULL};
	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &p->owner, &err));
	WHERRY_PASS(wherry_delayed_create(p->owner, NULL, NULL, &err));
	WHERRY_PASS(wherry_cron_create(p->owner, NULL, &err));
	WHERRY_PASS(wherry_delayed_open(p->owner, NULL, "mail", NULL, &p->owned, &err));
	p->conn = PQconnectdb(url);
	assert_true(postgres_exec(p->conn, roles, NULL, 0));
}

static void leave(place *p, const char *roles)
{
	wherry_cron_close(p->cron);
	wherry_delayed_close(p->queue);
	wherry_db_close(p->app);
	assert_true(postgres_exec(p->conn, roles, NULL, 0));
	PQfinish(p->conn);
	wherry_delayed_close(p->owned);
	wherry_db_close(p->owner);
	postgres_leave();
}

static void become(place *p, const char *role)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[80];

	wherry_delayed_close(p->queue);
	wherry_db_close(p->app);
	p->queue = NULL;
	p->app = NULL;
	(void)snprintf(sql, sizeof(sql), "SET ROLE %s", role);
	assert_true(postgres_exec(p->conn, sql, NULL, 0));
	WHERRY_PASS(wherry_postgres_borrow(p->conn, &p->app, &err));
	WHERRY_PASS(wherry_delayed_open(p->app, NULL, "mail", NULL, &p->queue, &err));
}

static void says(const place *p, const char *sql, const char *wanted)
{
	char got[200] = "";

	assert_true(postgres_exec(p->conn, sql, got, sizeof(got)));
	if (strcmp(got, wanted) != 0)
		print_error("%s\n", sql);
	assert_string_equal(got, wanted);
}

static void is_denied(const place *p, const char *sql)
{
	PGresult *res = PQexec(p->conn, sql);
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);

	if (!state || strcmp(state, "42501") != 0)
		print_error("%s: %s\n", sql, PQresultErrorMessage(res));
	assert_non_null(state);
	assert_string_equal(state, "42501"); /* insufficient_privilege */
	PQclear(res);
}

static void a_sender_offers_and_no_more(place *p)
{
	const wherry_delayed_message messages[] = {
		WHERRY_DELAYED_MESSAGE(.key = "b", .body = "2", .body_len = 1),
		WHERRY_DELAYED_MESSAGE(.key = "c", .body = "3", .body_len = 1),
	};
	wherry_offer_outcome outcomes[2];
	wherry_error err = WHERRY_ERROR_INIT;

	become(p, "d_sender");
	says(p, "SELECT wherry_offer('mail', 'a', '1', at => '2020-01-01')", "created");
	says(p, "SELECT wherry_offer('mail', 'a', '1b', at => '2020-01-01')", "updated");
	says(p, "SELECT wherry_offer('mail', 'a', '1b', at => '2020-01-01')", "ignored");
	says(p, "SELECT wherry_offer('mail', 'a', '1c', if_absent => true)", "ignored");
	WHERRY_PASS(wherry_delayed_offer_many(p->queue, messages, 2, outcomes, &err));
	assert_int_equal(outcomes[1], WHERRY_CREATED);
	WHERRY_PASS(wherry_delayed_offer(p->queue, &messages[1], outcomes, &err));
	is_denied(p, "SELECT * FROM wherry_poll('mail')");
	is_denied(p, "SELECT wherry_delayed_drop('mail', 'a')");
	is_denied(p, "DELETE FROM delayed");
	is_denied(p, "SELECT \"lockUuid\" FROM delayed");
	is_denied(p, "SELECT id FROM delayed_dead");
	is_denied(p,
		  "INSERT INTO delayed(\"pKey\", \"pKind\", payload, \"scheduledAt\", "
		  "\"scheduledAtInitially\", \"createdAt\", attempts) VALUES ('k', 'k', "
		  "'', 1, 1, 1, 7)");
	is_denied(p, "UPDATE wherry_schema SET version = 7");
}

static void a_receiver_polls_and_settles_and_no_more(place *p)
{
	wherry_delayed_status st;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_ack_outcome outcome;
	delayed_got got = {.n = 0};
	const char *token = got.tokens[0];

	become(p, "d_receiver");
	is_denied(p, "SELECT wherry_offer('mail', 'k', '1')");
	is_denied(p, "UPDATE delayed SET payload = ''");
	is_denied(p, "DELETE FROM delayed_dead");
	says(p, "SELECT wherry_done('mail', token) FROM wherry_poll('mail')",
	     "acknowledged");
	WHERRY_PASS(wherry_delayed_poll(p->queue, NULL, delayed_note, &got, NULL, &err));
	assert_string_equal(got.text, "2");
	WHERRY_PASS(wherry_delayed_extend(p->queue, &token, 1, 1000000, &outcome, &err));
	WHERRY_PASS(
		wherry_delayed_nack(p->queue, &token, 1, 0, "no route", &outcome, &err));
	assert_int_equal(outcome, WHERRY_ACKNOWLEDGED);
	says(p, "SELECT count(*) FROM wherry_poll('mail', 9, max_attempts => 1)", "1");
	says(p,
	     "SELECT wherry_delayed_dead_letter('mail', concat(id, '.', \"createdAt\", "
	     "'.', \"lockUuid\"), 'bad') FROM delayed",
	     "acknowledged");
	WHERRY_PASS(wherry_delayed_get_status(p->queue, &st, sizeof(st), &err));
	assert_int_equal(st.dead, 2);
	is_denied(p, "UPDATE wherry_outbox SET paused_at = now()");
	is_denied(p, "UPDATE wherry_schema SET version = 7");
}

static void an_operator_has_the_dead_messages_as_well(place *p)
{
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};
	int64_t n = 0;

	become(p, "d_operator");
	WHERRY_PASS(wherry_delayed_list_dead(p->queue, 0, 0, delayed_note, &got, &err));
	assert_int_equal(got.n, 2);
	WHERRY_PASS(wherry_delayed_retry(p->queue, 0, &n, &err));
	assert_int_equal(n, 2);
	says(p, "SELECT string_agg(key, ' ') FROM wherry_poll('mail', 9)", "b c");
	says(p, "SELECT wherry_delayed_drop('mail', 'b')::text", "true");
	says(p, "SELECT wherry_offer('mail', 'd', '4')", "created");
	WHERRY_PASS(wherry_delayed_drop_all(p->queue, WHERRY_DELAYED_DROP_ALL, &n, &err));
	assert_int_equal(n, 2);
	is_denied(p, "UPDATE wherry_schema SET version = 7");
	is_denied(p, "DROP TABLE delayed");
}

WHERRY_TEST(roles_of_a_delayed_queue_may_do_what_they_need)
{
	static const char *const grants[] = {"d_sender=sender", "d_receiver=receiver",
					     "d_operator=operator"};
	static const char *const bad[] = {"d_sender=relay"};
	wherry_error err = WHERRY_ERROR_INIT;
	place p;

	enter(&p, "CREATE ROLE d_sender; CREATE ROLE d_receiver; CREATE ROLE d_operator");
	WHERRY_PASS(wh_store_grant(&p.owned->store, grants, 3, &err));
	WHERRY_PASS(wh_store_grant(&p.owned->store, grants, 3, &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_store_grant(&p.owned->store, bad, 1, &err));
	assert_non_null(
		strstr(err.message, "ROLE=sender, ROLE=receiver or ROLE=operator"));
	a_sender_offers_and_no_more(&p);
	a_receiver_polls_and_settles_and_no_more(&p);
	an_operator_has_the_dead_messages_as_well(&p);
	/* Another kind takes the place of the one before. */
	WHERRY_PASS(wh_store_grant(&p.owned->store,
				   (const char *const[]){"d_operator=sender"}, 1, &err));
	is_denied(&p, "SELECT * FROM wherry_poll('mail')");
	says(&p, "SELECT wherry_offer('mail', 'd', '4')", "created");
	leave(&p, "RESET ROLE; DROP OWNED BY d_sender, d_receiver, d_operator; "
		  "DROP ROLE d_sender, d_receiver, d_operator");
}

static wherry_code nothing(void *ctx, int64_t at_us, wherry_error *err)
{
	return WHERRY_OK;
}

static wherry_code count(void *ctx, const wherry_cron_entry *entry)
{
	int *n = ctx;

	*n += entry != NULL;
	return WHERRY_OK;
}

WHERRY_TEST(a_role_of_a_cron_may_do_what_it_needs)
{
	static const char *const grants[] = {"d_cron=operator"};
	wherry_error err = WHERRY_ERROR_INIT;
	char hash[WHERRY_HASH_LEN + 1];
	wherry_schedule *schedule = NULL;
	wherry_cron *owned = NULL;
	int64_t n = 0;
	int entries = 0;
	place p;

	enter(&p, "CREATE ROLE d_cron");
	WHERRY_PASS(wherry_cron_open(p.owner, NULL, &owned, &err));
	WHERRY_PASS(wh_store_grant(&owned->store, grants, 1, &err));
	WHERRY_PASS(wh_store_grant(&p.owned->store, grants, 1, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_store_grant(&owned->store, (const char *const[]){"d_cron=sender"},
				    1, &err));
	wherry_cron_close(owned);
	WHERRY_PASS(wherry_schedule_parse("@every 1h", NULL, &schedule, &err));
	WHERRY_PASS(wherry_schedule_hash(schedule, hash, &err));
	become(&p, "d_cron");
	WHERRY_PASS(wherry_cron_open(p.app, NULL, &p.cron, &err));
	WHERRY_PASS(wherry_cron_install_schedule(p.cron, p.queue, "report", schedule,
						 7200 * (int64_t)1000000,
						 WHERRY_CATCH_UP_NONE, "x", 1, &n, &err));
	assert_true(n > 0);
	WHERRY_PASS(wherry_cron_uninstall(p.cron, p.queue, "report", hash, &n, &err));
	assert_true(n > 0);
	WHERRY_PASS(wherry_cron_fire(p.cron, "t", "n", schedule, WHERRY_CATCH_UP_ALL,
				     nothing, NULL, &n, NULL, &err));
	WHERRY_PASS(wherry_cron_list(p.cron, count, &entries, &err));
	assert_int_equal(entries, 2);
	WHERRY_PASS(wherry_cron_forget(p.cron, "report", &n, &err));
	assert_int_equal(n, 1);
	is_denied(&p, "UPDATE cron SET hash = ''");
	is_denied(&p, "UPDATE wherry_schema SET version = 7");
	wherry_schedule_free(schedule);
	leave(&p, "RESET ROLE; DROP OWNED BY d_cron; DROP ROLE d_cron");
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
