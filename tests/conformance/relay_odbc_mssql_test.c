/*
 * Relays on the SQL Server that WHERRY_TEST_MSSQL names; also when it ends their sessions.
 */
#include "relay_suite.h"

#include <pthread.h>
#include <stdatomic.h>

#include "db/odbc/odbc.h"
#include "mssql/backend.h"
#include "tsql.h"

/* ---- claims that the server ends ---- */

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

	(void)op;
	(void)err;
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
	relay_set(f, "relay.engine", "competing");
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

static void a_claim_whose_session_is_killed_takes_nothing(void **state)
{
	relay_fixture *f = *state;
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
static void a_claim_that_takes_too_long_takes_nothing(void **state)
{
	relay_fixture *f = *state;
	static waiter w; /* outlives the connection */

	if (!mssql_is_babelfish())
		return;
	w = (waiter){.most_s = 1};
	begin_to_claim(f, &w);
	RELAY_UNTIL(f, &f->a, relay_logged(f, "code=TIMEOUT"));
	assert_true(atomic_load(&w.claims));
	end_of_claim(f);
}

/* ---- sessions of relays that connect themselves ---- */

static void kill_others(relay_fixture *f)
{
	relay_sql(f, "DECLARE @sql NVARCHAR(MAX) = (SELECT STRING_AGG(CONCAT(N'KILL ', "
		     "session_id), N'; ') FROM sys.dm_exec_sessions WHERE session_id <> "
		     "@@SPID AND database_id = DB_ID()); EXEC (@sql)");
}

static void a_relay_whose_session_is_killed_connects_again(void **state)
{
	relay_fixture *f = *state;

	relay_put(f, "ab");
	relay_start_by_url(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 2);
	kill_others(f);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 4);
	assert_int_equal(relay_stats(&f->a).delivered, 4);
}

/* By its own connection, which has the setting. */
static void an_idle_relay_looks_as_rarely_as_db_look_says(void **state)
{
	relay_fixture *f = *state;

	relay_hourly(f);
	relay_set(f, "db.poll_interval", "1h");
	relay_put(f, "a");
	relay_start_by_url(f, &f->a);
	RELAY_UNTIL(f, &f->a, relay_count(f, WHERRY_DONE) == 1);
	RELAY_UNTIL(f, &f->a, f->a.wake_us - relay_now(f) > 2 * WH_SECOND);
	relay_put(f, "b");
	for (int i = 0; i < 10; i++)
		relay_turn(f, &f->a, relay_deadline(), "turns", __LINE__, __FILE__);
	assert_int_equal(relay_stats(&f->a).delivered, 1);
}

/* ---- what is locked ---- */

/* Row `id` is another transaction's, which stays open until commit(). */
static wherry_db *lock(relay_fixture *f, int64_t id)
{
	wherry_db *db = tsql_connect();
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[80];

	(void)snprintf(sql, sizeof(sql), "INSERT INTO locked VALUES (%lld)",
		       (long long)id);
	relay_sql(f, sql);
	WHERRY_PASS(wherry_db_begin(db, &err));
	WHERRY_PASS(wh_db_script(
		db, "INSERT INTO outbox(topic, payload) VALUES (N't', N'')", &err));
	return db;
}

static void commit(relay_fixture *f, wherry_db *db)
{
	wherry_db_rollback(db);
	tsql_disconnect(db);
	relay_sql(f, "DELETE FROM locked");
}

static bool all_done(relay_fixture *f, int64_t n)
{
	return relay_count(f, WHERRY_DONE) == n;
}

/* More messages wait behind a locked one of their key than a relay reads at once: in its first sweep,
 * in what it reads ahead, and in its gaps. */
static void let_others_pass(relay_fixture *f, const char *hint)
{
	wherry_db *open;

	relay_hourly(f);
	relay_set(f, "relay.batch", "4");
	relay_start(f, &f->a);
	tsql_pass_over_locked(f->a.relay, hint);
	open = lock(f, 3);
	relay_put(f, "caaaaaaaaaaaab");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 2);
	relay_put(f, "aaaaaaaabaaaaa");
	relay_put(f, "b");
	RELAY_UNTIL(f, &f->a, relay_delivered(f) == 4);
	commit(f, open);
	relay_put(f, "ab");
	RELAY_UNTIL(f, &f->a, all_done(f, 31));
	relay_check_order(f);

	open = lock(f, 35);
	relay_put(f, "baaaaaacccccccd");
	RELAY_UNTIL(f, &f->a, all_done(f, 40));
	commit(f, open);
	relay_put(f, "abcd");
	RELAY_UNTIL(f, &f->a, all_done(f, 50));
	relay_check_order(f);
}

static void a_key_that_waits_for_a_transaction_stops_no_other(void **state)
{
	let_others_pass(*state, TSQL_BY_ENTRIES);
}

/* SQL Server takes the hint for an index on no view. */
static void a_row_that_is_locked_without_its_entry_is_not_overtaken(void **state)
{
	if (mssql_is_babelfish())
		let_others_pass(*state, TSQL_BY_ROWS);
}

static const relay_test tests[] = {
	RELAY_TEST(a_key_that_waits_for_a_transaction_stops_no_other, 0),
	RELAY_TEST(a_row_that_is_locked_without_its_entry_is_not_overtaken, 0),
	RELAY_TEST(a_claim_whose_session_is_killed_takes_nothing, RELAY_THREADS),
	RELAY_TEST(a_claim_that_takes_too_long_takes_nothing, 0),
	RELAY_TEST(a_relay_whose_session_is_killed_connects_again, 0),
	RELAY_TEST(an_idle_relay_looks_as_rarely_as_db_look_says, 0),
	RELAY_TESTS_END,
};

/* The first one on Babelfish alone: it leaves the escapes \", \\ and \u0001 in what OPENJSON returns, and so finds no row for
 * such a message id. */
static const char *const except[] = {
	"ordinary_texts_are_delivered_as_they_are",
	/* No trigger of SQL Server leaves a row out of an update and of its count. */
	"an_ignored_acknowledgement_is_repeated_ever_more_rarely",
	"until_empty_is_an_error_if_acknowledgements_are_ignored",
	"a_claimed_message_whose_acknowledgement_is_ignored_dies",
	/* It has no infinite times. */
	"an_infinite_time_stops_nothing",
	/* It adds a number to a time. */
	"the_destination_of_dead_letters_may_ask_for_patience",
	NULL,
};

int main(void)
{
	static relay_target target = {
		.name = "mssql",
		.is = RELAY_OTHERS | RELAY_KEYS | RELAY_LEASE,
		TSQL_RELAYS,
		.schedules = 2,
		.own = tests,
		.translate = tsql_translate,
	};

	if (!mssql_start(NULL))
		return 0;
	target.except = mssql_is_babelfish() ? except : except + 1;
	return tsql_relays(&target);
}
