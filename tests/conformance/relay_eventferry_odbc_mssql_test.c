/*
 * Relays that compete on the table of eventferry on the SQL Server that WHERRY_TEST_MSSQL names, when it ends their
 * claims.
 */
#include "relay_suite.h"

#include <pthread.h>
#include <stdatomic.h>

#include "db/odbc/odbc.h"
#include "mssql/backend.h"
#include "tsql.h"

/* A relay that waits in a claim, for a lock that another transaction holds. */
typedef struct waiter {
	wherry_db *killer, *db; /* db: the relay's */
	int64_t session;
	long most_s; /* that its claim may take; 0: as long as others */
	atomic_bool claims, ended;
} waiter;

static wherry_code note_claim(void *ctx, const char *op, const char *what,
			      wherry_error *err)
{
	waiter *w = ctx;

	if (strcmp(what, "claim-lock") != 0)
		return WHERRY_OK;
	if (w->most_s)
		((odbc_db *)w->db)->timeout_s = w->most_s;
	atomic_store(&w->claims, true);
	return WHERRY_OK;
}

/* Ends the session of the relay as soon as it claims. */
static void *kill_session(void *ctx)
{
	waiter *w = ctx;
	char sql[40];

	(void)snprintf(sql, sizeof(sql), "KILL %lld", (long long)w->session);
	while (!atomic_load(&w->ended))
		if (atomic_load(&w->claims))
			(void)wh_db_script(w->killer, sql, NULL);
	return NULL;
}

static void hold_claims(relay_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(f->other, &err));
	WHERRY_PASS(wh_db_script(
		f->other,
		"DECLARE @claims NVARCHAR(255) = CONCAT(N'wherry_claim:', "
		"OBJECT_ID(N'\"dbo\".\"outbox\"', N'U')); EXEC sp_getapplock @Resource = "
		"@claims, @LockMode = 'Exclusive', @LockOwner = 'Transaction'",
		&err));
}

static int64_t session_of(wherry_db *db)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char number[24] = "";

	WHERRY_PASS(mssql_run(db, "SELECT @@SPID", number, sizeof(number), &err));
	return strtoll(number, NULL, 10);
}

static void begin_to_claim(relay_fixture *f, waiter *w)
{
	relay_set(f, "db.busy_timeout", "30s");
	relay_put(f, "abab");
	relay_connect(f, &f->a);
	w->db = f->a.db;
	w->session = session_of(f->a.db);
	relay_wrap(f, &(wh_trace){.before = note_claim, .ctx = w});
	hold_claims(f);
	relay_start(f, &f->a);
}

/* Nothing was claimed, and another relay delivers everything once. */
static void end_of_claim(relay_fixture *f)
{
	wherry_relay_close(f->a.relay);
	f->a.relay = NULL;
	wherry_db_rollback(f->other);
	assert_int_equal(relay_count(f, WHERRY_PENDING), 4);
	relay_start(f, &f->b);
	RELAY_UNTIL(f, &f->b, relay_count(f, WHERRY_DONE) == 4);
	relay_check_once(f, 4);
	relay_check_order(f);
	assert_int_equal(relay_number(f, "SELECT max(attempts) FROM outbox"), 0);
}

WHERRY_CASE(a_claim_whose_session_is_killed_takes_nothing, relay_fixture *f)
{
	static waiter w; /* outlives the connection */
	pthread_t thread;

	w = (waiter){.killer = tsql_connect()};
	begin_to_claim(f, &w);
	assert_int_equal(pthread_create(&thread, NULL, kill_session, &w), 0);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "code=CLOSED"));
	atomic_store(&w.ended, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	tsql_disconnect(w.killer);
	assert_true(atomic_load(&w.claims));
	end_of_claim(f);
}

/* Babelfish ends the session of a statement that takes too long. */
WHERRY_CASE(a_claim_that_takes_too_long_takes_nothing, relay_fixture *f)
{
	static waiter w; /* outlives the connection */

	if (!mssql_is_babelfish())
		return;
	w = (waiter){.most_s = 1};
	begin_to_claim(f, &w);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "code=TIMEOUT"));
	assert_true(atomic_load(&w.claims));
	end_of_claim(f);
}

static const relay_test tests[] = {
	RELAY_TEST(a_claim_whose_session_is_killed_takes_nothing, RELAY_THREADS),
	RELAY_TEST(a_claim_that_takes_too_long_takes_nothing, 0),
	RELAY_TESTS_END,
};

int main(void)
{
	static const relay_target target = {
		.name = "eventferry",
		.is = RELAY_OTHERS | RELAY_KEYS,
		TSQL_RELAYS,
		.layout = "eventferry",
		.own = tests,
		.own_only = true,
		.translate = tsql_translate,
	};

	return tsql_relays(&target);
}
