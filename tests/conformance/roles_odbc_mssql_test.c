/*
 * Users of outboxes, queues, delayed queues and crons on SQL Server: each may do its part, and nothing
 * else.
 */
#include "delayed_suite.h"

#include <wherry/cron.h>
#include <wherry/inbox.h>
#include <wherry/queue.h>
#include <wherry/relay.h>
#include <wherry/subscription.h>

#include "base/buf.h"
#include "cron/cron.h"
#include "delayed/delayed.h"
#include "mssql/backend.h"
#include "outbox/adopt.h"
#include "outbox/outbox.h"
#include "queue/queue.h"
#include "store/grants.h"
#include "tsql.h"

#define PASSWORD "Wherry-test-1"

enum { USERS = 4 };

/* Logins are the server's: their names are ours alone. */
static const char *const users[USERS] = {"wherry_t_one", "wherry_t_two", "wherry_t_three",
					 "wherry_t_four"};

/* SQL in which each % is the name. */
static void run(const char *fmt, const char *name)
{
	wh_buf sql = WH_BUF_INIT(1000);

	for (; *fmt; fmt++)
		if (*fmt == '%')
			wh_buf_puts(&sql, name);
		else
			wh_buf_putc(&sql, *fmt);
	assert_true(mssql_raw(NULL, NULL, wh_buf_str(&sql), NULL, 0));
	wh_buf_clear(&sql);
}

/* Rights on the view of the clock, which tests leave there, would keep a user. */
static void drop_users(void)
{
	for (int i = 0; i < USERS; i++) {
		run("IF USER_ID(N'%') IS NOT NULL AND OBJECT_ID(N'wherry_clock', N'V') "
		    "IS NOT NULL REVOKE SELECT ON wherry_clock FROM %",
		    users[i]);
		run("IF USER_ID(N'%') IS NOT NULL DROP USER %", users[i]);
		run("IF EXISTS (SELECT 1 FROM sys.server_principals WHERE name = N'%') "
		    "DROP LOGIN %",
		    users[i]);
	}
}

static wherry_db *enter(void)
{
	wherry_db *db;

	mssql_drop(NULL);
	drop_users();
	for (int i = 0; i < USERS; i++)
		run("CREATE LOGIN % WITH PASSWORD = '" PASSWORD
		    "'; CREATE USER % FOR LOGIN %",
		    users[i]);
	db = mssql_connect(NULL);
	return db;
}

static void leave(wherry_db *db)
{
	wherry_db_close(db);
	mssql_drop(NULL);
	drop_users();
}

/* The URL of the tests, for another user. */
static void url_of(const char *user, char *out, size_t cap)
{
	const char *url = getenv("WHERRY_TEST_MSSQL"), *at = strrchr(url, '@');

	(void)snprintf(out, cap, "mssql://%s:" PASSWORD "%s", user, at);
}

static wherry_db *become(const char *user)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	char url[400];

	url_of(user, url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &db, &err));
	return db;
}

static void says(wherry_db *db, const char *sql, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char got[400] = "";

	if (mssql_run(db, sql, got, sizeof(got), &err) != WHERRY_OK ||
	    strcmp(got, wanted) != 0)
		print_error("%s: %s\n", sql, err.message);
	assert_string_equal(got, wanted);
}

static void does(wherry_db *db, const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (mssql_run(db, sql, NULL, 0, &err) != WHERRY_OK) {
		print_error("%s: %s\n", sql, err.message);
		fail();
	}
}

static void is_denied(wherry_db *db, const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = mssql_run(db, sql, NULL, 0, &err);

	if (code != WHERRY_DENIED)
		print_error("%s: %d %s\n", sql, (int)code, err.message);
	assert_int_equal(code, WHERRY_DENIED);
}

/* Only an owner may, and servers say that in different ways. */
static void is_refused(wherry_db *db, const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (mssql_run(db, sql, NULL, 0, &err) == WHERRY_OK) {
		print_error("%s\n", sql);
		fail();
	}
}

static void none_may_change_shared_tables(void)
{
	for (int i = 0; i < USERS; i++) {
		wherry_db *db = become(users[i]);

		is_denied(db, "UPDATE wherry_schema SET version = 7");
		is_denied(db, "DELETE FROM wherry_lease");
		is_refused(db, "CREATE TABLE mine(id INT)");
		wherry_db_close(db);
	}
}

/* Babelfish lets only those see that a table is there who may read all of it; on SQL Server any right
 * is enough. */
static void let_see(const char *table, const char *user, bool on)
{
	char sql[200];

	if (!mssql_is_babelfish())
		return;
	(void)snprintf(sql, sizeof(sql), "%s SELECT ON %s %s %s", on ? "GRANT" : "REVOKE",
		       table, on ? "TO" : "FROM", user);
	assert_true(mssql_raw(NULL, NULL, sql, NULL, 0));
}

/* ---- an outbox ---- */

static void a_producer_inserts_and_no_more(void)
{
	wherry_db *db = become(users[0]);

	does(db, "INSERT INTO outbox(topic, payload) VALUES (N't', N'{}')");
	is_denied(db, "SELECT payload FROM outbox");
	is_denied(db, "UPDATE outbox SET topic = N'u'");
	is_denied(db, "DELETE FROM outbox");
	is_denied(db, "EXEC wherry_enqueue @topic = N't', @payload = N'{}'");
	wherry_db_close(db);
}

static void an_enqueuer_enqueues_and_no_more(void)
{
	wherry_db *db = become(users[1]);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	const wherry_message msg =
		WHERRY_MESSAGE(.topic = "t", .key = "k", .message_id = "m", .body = "{}",
			       .body_len = 2);
	int64_t id = 0;

	does(db, "BEGIN TRANSACTION; EXEC wherry_enqueue @topic = N't', @key = N'k', "
		 "@payload = N'{}', @lock_key = 1; COMMIT TRANSACTION");
	is_denied(db, "SELECT topic FROM outbox");
	is_denied(db, "UPDATE outbox SET topic = N'u'");
	is_denied(db, "UPDATE wherry_outbox SET paused_at = SYSUTCDATETIME()");
	let_see("outbox", users[1], true);
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	WHERRY_PASS(
		wherry_outbox_enqueue(outbox, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	assert_true(id > 0);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	let_see("outbox", users[1], false);
}

static void relays(const char *to, int64_t delivered)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_relay *relay = NULL;
	wherry_relay_stats stats;
	char url[400];

	url_of(users[2], url, sizeof(url));
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "retry.attempts", "1", &err));
	WHERRY_PASS(wherry_relay_open(url, to, config, &relay, &err));
	WHERRY_PASS(wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, NULL, &err));
	wherry_relay_get_stats(relay, &stats, sizeof(stats));
	assert_int_equal(stats.delivered, delivered);
	wherry_relay_close(relay);
	wherry_config_free(config);
}

static void a_relay_delivers_and_no_more(void)
{
	static const char put[] =
		"INSERT INTO outbox(topic, payload) VALUES (N't', N'{}')";
	wherry_db *db = become(users[2]);

	relays("null:", 3);
	assert_true(mssql_raw(NULL, NULL, put, NULL, 0));
	relays("exec:exit 65", 0); /* it dies */
	is_denied(db, put);
	is_denied(db, "UPDATE outbox SET payload = N'{}'");
	is_denied(db, "UPDATE wherry_outbox SET paused_at = SYSUTCDATETIME()");
	is_denied(db, "EXEC wherry_enqueue @topic = N't', @payload = N'{}'");
	wherry_db_close(db);
}

static void an_operator_operates_and_no_more(void)
{
	wherry_db *db = become(users[3]);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	int64_t n = 0;

	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	WHERRY_PASS(wherry_outbox_retry(outbox, &WHERRY_OUTBOX_FILTER(), &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wherry_outbox_pause(outbox, &err));
	WHERRY_PASS(wherry_outbox_resume(outbox, &err));
	relays("null:", 1);
	WHERRY_PASS(wherry_outbox_purge(outbox, 0, 100, 0, &n, &err));
	assert_true(n > 1);
	is_denied(db, "UPDATE outbox SET payload = N'{}'");
	is_refused(db, "ALTER TABLE outbox ADD x INT");
	is_refused(db, "DROP TABLE outbox");
	wherry_outbox_close(outbox);
	wherry_db_close(db);
}

WHERRY_TEST(roles_of_an_outbox_may_do_what_they_need)
{
	static const char *const grants[] = {
		"wherry_t_one=producer", "wherry_t_two=enqueuer", "wherry_t_three=relay",
		"wherry_t_four=operator"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *owner = enter(), *db;
	wherry_outbox *outbox = NULL;

	WHERRY_PASS(wherry_outbox_create(owner, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(owner, "outbox", &outbox, &err));
	WHERRY_PASS(wh_store_grant(&outbox->store, grants, USERS, &err));
	WHERRY_PASS(wh_store_grant(&outbox->store, grants, USERS, &err));
	a_producer_inserts_and_no_more();
	an_enqueuer_enqueues_and_no_more();
	a_relay_delivers_and_no_more();
	an_operator_operates_and_no_more();
	none_may_change_shared_tables();
	/* Another kind takes the place of the one before. */
	WHERRY_PASS(wh_store_grant(&outbox->store,
				   (const char *const[]){"wherry_t_three=producer"}, 1,
				   &err));
	db = become(users[2]);
	is_denied(db, "UPDATE outbox SET topic = N'u'");
	is_denied(db, "SELECT payload FROM outbox");
	does(db, "INSERT INTO outbox(topic, payload) VALUES (N't', N'{}')");
	wherry_db_close(db);
	wherry_outbox_close(outbox);
	leave(owner);
}

/* In the caller's transaction: without one, a message would be gone before anything is done for it. */
WHERRY_TEST(a_consumer_of_a_log_consumes_and_no_more)
{
	const wherry_outbox_options options = WHERRY_OUTBOX_OPTIONS(.layout = "log");
	static const char *const grants[] = {"wherry_t_one=consumer"};
	static const char
		consume[] = "EXEC wherry_consume N'relay', 1",
		put[] = "INSERT INTO outbox(topic, payload) VALUES (N't', N'{}')";
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *owner = enter(), *db;
	wherry_outbox *outbox = NULL;

	WHERRY_PASS(wherry_outbox_create(owner, "outbox", &options, &err));
	WHERRY_PASS(wherry_outbox_open(owner, "outbox", &outbox, &err));
	WHERRY_PASS(wh_store_grant(&outbox->store, grants, 1, &err));
	does(owner, put);
	does(owner, put);
	db = become(users[0]);
	is_refused(db, consume);
	for (int i = 0; i < 2; i++) {
		WHERRY_PASS(wherry_db_begin(db, &err));
		says(db, consume, "1");
		if (i == 0)
			wherry_db_rollback(db);
	}
	WHERRY_PASS(wherry_db_commit(db, &err));
	WHERRY_PASS(wherry_db_begin(db, &err));
	says(db, consume, "2");
	says(db, consume, "");
	WHERRY_PASS(wherry_db_commit(db, &err));
	WHERRY_PASS(wherry_db_begin(db, &err));
	is_refused(db, "EXEC wherry_consume N'nobody'");
	wherry_db_rollback(db);
	is_denied(db, put);
	is_denied(db, "DELETE FROM outbox");
	is_denied(db, "UPDATE outbox SET topic = N'u'");
	is_denied(db, "UPDATE wherry_lease SET epoch = 9");
	wherry_db_close(db);
	wherry_outbox_close(outbox);
	leave(owner);
}

/* Consume once in a transaction.  On Babelfish HAS_PERMS_BY_NAME speaks of the owner in a session that has called a procedure with
 * his rights, so each call has a connection of its own. */
static void consumes(const char *user, const char *sql, const char *wanted)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = become(user);

	WHERRY_PASS(wherry_db_begin(db, &err));
	says(db, sql, wanted);
	WHERRY_PASS(wherry_db_commit(db, &err));
	wherry_db_close(db);
}

static void may_not(const char *user, const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = become(user);

	WHERRY_PASS(wherry_db_begin(db, &err));
	is_refused(db, sql);
	wherry_db_close(db);
}

/* Give a user the subscription of the outbox, which is made if it is not there. */
static void give(wherry_db *owner, const char *name, const char *grant)
{
	const wherry_subscription_options options =
		WHERRY_SUBSCRIPTION_OPTIONS(.topics = name);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_code code;

	code = wherry_subscription_create(owner, "outbox", name, &options, &err);
	assert_true(code == WHERRY_OK || code == WHERRY_DUPLICATE);
	WHERRY_PASS(wherry_subscription_open(owner, "outbox", name, &outbox, &err));
	WHERRY_PASS(wh_store_grant_topic(&outbox->store, &grant, 1, &err));
	wherry_outbox_close(outbox);
	assert_true(mssql_as_owner());
}

/* The procedure of the consumers of a subscription. */
static void procedure_of(const char *subscription, char *out, size_t cap)
{
	char sql[400];

	(void)snprintf(
		sql, sizeof(sql),
		"SELECT CONCAT(N'[consume_', CAST(CAST(SUBSTRING(HASHBYTES('SHA2_256', "
		"N'outbox/%s'), 1, 16) AS UNIQUEIDENTIFIER) AS NVARCHAR(36)), N']')",
		subscription);
	assert_true(mssql_raw(NULL, NULL, sql, out, cap));
}

/* What it tries on other subscriptions, and on what all share, is refused and changes nothing. */
static void attacks_in_vain(const char *user)
{
	static const char *const tries[] = {
		"EXEC wherry_consume N'mails'",
		"EXEC wherry_consume N'relay'",
		"EXEC wherry_consume N'mails', 1, N'outbox'",
		"EXEC wherry_consume N'orders'' OR 1 = 1 --'",
		"EXEC % 1",
		"SELECT high FROM outbox_progress",
		"SELECT * FROM outbox_exception",
		"SELECT payload FROM outbox",
		"SELECT * FROM wherry_lease",
		"SELECT * FROM wherry_outbox",
		"UPDATE outbox_progress SET high = 0 WHERE subscription = N'mails'",
		"UPDATE outbox_progress SET subscription = N'mails'",
		"INSERT INTO outbox_progress(subscription, high, seen) VALUES (N'mine', 0, N'')",
		"DELETE FROM outbox_progress",
		"INSERT INTO outbox_exception(subscription, id, state) VALUES (N'mails', 1, 4)",
		"DELETE FROM outbox_exception",
		"DELETE FROM outbox",
		"UPDATE wherry_lease SET expires_at = SYSUTCDATETIME()",
		"INSERT INTO wherry_outbox(name, paused_at) VALUES (N'outbox\\mails', SYSUTCDATETIME())",
		"DROP PROCEDURE %",
		"EXEC (N'ALTER PROCEDURE % AS RETURN')",
		"CREATE TABLE outbox_progress(subscription NVARCHAR(9), high BIGINT)",
	};
	static const char all[] =
		"SELECT CONCAT((SELECT STRING_AGG(CONCAT(subscription, high, seen, topics, mask), N',') FROM "
		"outbox_progress WHERE subscription <> N'orders'), N';', (SELECT COUNT(*) FROM outbox_exception), N';', "
		"(SELECT COUNT(*) FROM outbox), N';', (SELECT STRING_AGG(CONCAT(name, paused_at), N',') FROM "
		"wherry_outbox), N';', (SELECT COUNT(*) FROM sys.procedures))";
	char before[600], after[600], other[100];

	procedure_of("mails", other, sizeof(other));
	assert_true(mssql_raw(NULL, NULL, all, before, sizeof(before)));
	for (size_t i = 0; i < sizeof(tries) / sizeof(*tries); i++) {
		wh_buf sql = WH_BUF_INIT(1000);

		for (const char *p = tries[i]; *p; p++)
			if (*p == '%')
				wh_buf_puts(&sql, other);
			else
				wh_buf_putc(&sql, *p);
		may_not(user, wh_buf_str(&sql));
		wh_buf_clear(&sql);
	}
	assert_true(mssql_raw(NULL, NULL, all, after, sizeof(after)));
	assert_string_equal(after, before);
}

WHERRY_TEST(a_role_of_one_subscription_consumes_that_and_no_more)
{
	static const char mine[] = "EXEC wherry_consume N'orders', 1",
			  all[] = "EXEC wherry_consume N'relay', 1",
			  put[] = "INSERT INTO outbox(topic, payload) VALUES (N'orders', "
				  "N'{}'), (N'mails', N'{}'), (N'orders', N'{}')";
	static const char *const consumer[] = {"wherry_t_one=consumer"},
				 *const enqueuer[] = {"wherry_t_two=enqueuer"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_db *owner, *db;

	if (!mssql_as_owner())
		skip();
	owner = enter();
	WHERRY_PASS(wherry_outbox_create(owner, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(owner, "outbox", &outbox, &err));
	give(owner, "mails", "wherry_t_two=consumer");
	give(owner, "orders", "wherry_t_one=consumer");
	give(owner, "orders", "wherry_t_one=consumer");
	give(owner, "orders", "wherry_t_two=consumer");
	does(owner, put);
	consumes(users[0], mine, "1");
	attacks_in_vain(users[0]);
	db = become(users[0]);
	is_refused(db, mine); /* without a transaction */
	WHERRY_PASS(wherry_db_begin(db, &err));
	says(db, mine, "3");
	wherry_db_close(db); /* It rolls back. */
	consumes(users[0], mine, "3");
	consumes(users[0], mine, "");
	does(owner, put);
	consumes(users[1], "EXEC wherry_consume N'mails', 1", "2");
	consumes(users[1], mine, "4");

	/* Rights on the outbox take the place of those on one, and the other way round. */
	WHERRY_PASS(wh_store_grant(&outbox->store, consumer, 1, &err));
	consumes(users[0], all, "1");
	give(owner, "orders", "wherry_t_one=consumer");
	consumes(users[0], mine, "6");
	may_not(users[0], all);
	WHERRY_PASS(wh_store_grant(&outbox->store, enqueuer, 1, &err));
	may_not(users[1], mine);
	give(owner, "orders", "wherry_t_two=consumer");
	db = become(users[1]);
	does(db, "EXEC wherry_enqueue @topic = N'orders', @payload = N'{}'");
	wherry_db_close(db);
	consumes(users[1], mine, "7");

	/* The rights go with the subscription. */
	WHERRY_PASS(wherry_subscription_drop(owner, "outbox", "orders", &err));
	WHERRY_PASS(wherry_subscription_create(owner, "outbox", "orders", NULL, &err));
	may_not(users[0], mine);
	WHERRY_PASS(wh_store_drop(&outbox->store, &err));
	says(owner, "SELECT COUNT(*) FROM sys.procedures WHERE name LIKE N'consume[_]%'",
	     "0");
	wherry_outbox_close(outbox);
	leave(owner);
}

/* ---- a table of another program ---- */

static void adopt_events(wherry_db *owner)
{
	static const wh_adopt_options options = {
		.as = "outbox", .done = "sent_at", .where = "topic <> N'c'"};
	static wh_adoption adoption;
	wherry_error err = WHERRY_ERROR_INIT;
	bool made;

	does(owner,
	     "CREATE TABLE events(id BIGINT IDENTITY PRIMARY KEY, topic NVARCHAR(20) NOT NULL, "
	     "payload NVARCHAR(MAX), sent_at DATETIME2(3))");
	does(owner,
	     "INSERT INTO events(topic, payload) VALUES (N'a', N'1'), (N'b', N'2'), "
	     "(N'c', N'3')");
	WHERRY_PASS(wh_adoption_plan(owner, "events", &options, &adoption, &err));
	WHERRY_PASS(wh_adoption_run(&adoption, &made, &err));
	wh_adoption_clear(&adoption);
	assert_true(mssql_as_owner());
}

static void none_of_them_may_use_the_table(const char *user)
{
	wherry_db *db = become(user);

	is_denied(db, "SELECT payload FROM events");
	is_denied(db, "INSERT INTO events(topic, payload) VALUES (N't', N'{}')");
	is_denied(db, "UPDATE events SET sent_at = NULL");
	is_denied(db, "DELETE FROM events");
	is_denied(db, "INSERT INTO outbox(topic) VALUES (N't')");
	wherry_db_close(db);
}

static void an_operator_operates_an_adopted_table(void)
{
	wherry_db *db = become(users[3]);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	int64_t n = 0;

	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	WHERRY_PASS(wherry_outbox_retry(outbox, &WHERRY_OUTBOX_FILTER(), &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wherry_outbox_discard(outbox, "4", &err));
	WHERRY_PASS(wherry_outbox_purge(outbox, 0, 100, 0, &n, &err));
	assert_int_equal(n, 1);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
}

WHERRY_TEST(roles_of_an_adopted_table_have_rights_on_its_outbox_alone)
{
	static const char *const grants[] = {"wherry_t_two=consumer",
					     "wherry_t_three=relay",
					     "wherry_t_four=operator"};
	static const char
		open[] = "SELECT COUNT(*) FROM events WHERE sent_at IS NULL",
		mark[] = "DECLARE @n BIGINT; EXEC outbox_delivered N'[{\"id\":3}]', "
			 "9223372036854775807, @n OUTPUT";
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_db *owner, *db;

	if (!mssql_as_owner())
		skip();
	owner = enter();
	adopt_events(owner);
	WHERRY_PASS(wherry_outbox_open(owner, "outbox", &outbox, &err));
	WHERRY_PASS(wh_store_grant(&outbox->store, grants, 3, &err));
	WHERRY_PASS(wh_store_grant(&outbox->store, grants, 3, &err));
	consumes(users[1], "EXEC wherry_consume N'relay', 1", "1");
	relays("null:", 1);
	says(owner, open, "1");
	db = become(users[2]);
	does(db, mark);
	wherry_db_close(db);
	says(owner, open, "1"); /* It is no row of the outbox. */
	does(owner, "INSERT INTO events(topic, payload) VALUES (N'd', N'4')");
	relays("exec:exit 65", 0);
	db = become(users[3]);
	says(db, "SELECT COUNT(*) FROM outbox", "1");
	wherry_db_close(db);
	an_operator_operates_an_adopted_table();
	says(owner, open, "1");
	for (int i = 0; i < USERS; i++)
		none_of_them_may_use_the_table(users[i]);
	WHERRY_PASS(wh_store_drop(&outbox->store, &err));
	wherry_outbox_close(outbox);
	says(owner, "SELECT COUNT(*) FROM events", "4");
	leave(owner);
}

/* ---- a queue ---- */

static wherry_code note(void *ctx, const wherry_queue_message *msg)
{
	int64_t *id = ctx;

	*id = msg->id;
	return WHERRY_OK;
}

static void a_queue_sender_sends_and_no_more(void)
{
	const wherry_queue_message msg = WHERRY_QUEUE_MESSAGE(.body = "3", .body_len = 1);
	wherry_db *db = become(users[0]);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;
	int64_t id = 0;

	says(db,
	     "DECLARE @id BIGINT; EXEC wherry_send 'jobs', N'1', @delay_ms = 1, @id = @id "
	     "OUTPUT; SELECT @id",
	     "1");
	says(db,
	     "DECLARE @n BIGINT; EXEC wherry_publish N't', N'2', @n = @n OUTPUT; SELECT @n",
	     "1");
	is_denied(db, "EXEC wherry_receive 'jobs'");
	is_denied(db, "EXEC wherry_cancel 'jobs', 1");
	is_denied(db, "EXEC wherry_subscribe N'u', 'jobs'");
	is_denied(db, "SELECT body FROM jobs");
	is_denied(db, "UPDATE jobs SET state = 4");
	let_see("jobs", users[0], true);
	WHERRY_PASS(wherry_queue_open(db, "jobs", &queue, &err));
	WHERRY_PASS(wherry_queue_send(queue, &msg, &id, &err));
	assert_int_equal(id, 3);
	let_see("jobs", users[0], false);
	wherry_queue_close(queue);
	wherry_db_close(db);
}

static void a_queue_receiver_receives_and_no_more(void)
{
	wherry_db *db = become(users[1]);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;
	wherry_queue_status status;
	int64_t id = 0, n = 0;

	does(db, "EXEC wherry_receive 'jobs', 1, @lease_ms = NULL");
	does(db, "EXEC wherry_ack 'jobs', 7, 'none'");
	is_denied(db, "EXEC wherry_send 'jobs', N'1'");
	is_denied(db, "EXEC wherry_unsubscribe N't', 'jobs'");
	is_denied(db, "DELETE FROM wherry_subscription");
	is_denied(db, "UPDATE jobs SET body = N'0'");
	is_denied(db, "UPDATE wherry_outbox SET paused_at = SYSUTCDATETIME()");
	WHERRY_PASS(wherry_queue_open(db, "jobs", &queue, &err));
	WHERRY_PASS(wherry_queue_receive(queue,
					 &WHERRY_RECEIVE_OPTIONS(.lease_us = 60000000),
					 note, &id, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wherry_queue_get_status(queue, &status, sizeof(status), &err));
	assert_int_equal(status.leased, 1);
	wherry_queue_close(queue);
	wherry_db_close(db);
}

static void a_queue_operator_operates_and_no_more(void)
{
	wherry_db *db = become(users[2]);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;
	int64_t n = 0;

	does(db, "EXEC wherry_unsubscribe N't', 'jobs'");
	does(db, "EXEC wherry_subscribe N'u', 'jobs'");
	does(db, "EXEC wherry_send 'jobs', N'9'");
	WHERRY_PASS(wherry_queue_open(db, "jobs", &queue, &err));
	WHERRY_PASS(wherry_queue_pause(queue, &err));
	WHERRY_PASS(wherry_queue_resume(queue, &err));
	WHERRY_PASS(wherry_queue_purge(queue, 1U << WHERRY_PENDING, 100, &n, &err));
	assert_true(n > 0);
	is_refused(db, "DROP TABLE jobs");
	wherry_queue_close(queue);
	wherry_db_close(db);
}

WHERRY_TEST(roles_of_a_queue_may_do_what_they_need)
{
	static const char *const grants[] = {"wherry_t_one=sender",
					     "wherry_t_two=receiver",
					     "wherry_t_three=operator"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *owner = enter(), *db;
	wherry_queue *queue = NULL;

	WHERRY_PASS(wherry_queue_create(owner, "jobs", NULL, &err));
	WHERRY_PASS(wherry_queue_open(owner, "jobs", &queue, &err));
	assert_true(mssql_raw(NULL, NULL, "EXEC wherry_subscribe N't', 'jobs'", NULL, 0));
	WHERRY_PASS(wh_store_grant(&queue->store, grants, 3, &err));
	WHERRY_PASS(wh_store_grant(&queue->store, grants, 3, &err));
	a_queue_sender_sends_and_no_more();
	a_queue_receiver_receives_and_no_more();
	a_queue_operator_operates_and_no_more();
	none_may_change_shared_tables();
	WHERRY_PASS(wh_store_grant(
		&queue->store, (const char *const[]){"wherry_t_three=sender"}, 1, &err));
	db = become(users[2]);
	is_denied(db, "EXEC wherry_receive 'jobs'");
	is_denied(db, "EXEC wherry_unsubscribe N't', 'jobs'");
	wherry_db_close(db);
	wherry_queue_close(queue);
	leave(owner);
}

/* ---- a delayed queue ---- */

static void a_delayed_sender_offers_and_no_more(void)
{
	const wherry_delayed_message messages[] = {
		WHERRY_DELAYED_MESSAGE(.key = "b", .body = "2", .body_len = 1),
		WHERRY_DELAYED_MESSAGE(.key = "c", .body = "3", .body_len = 1),
	};
	wherry_db *db = become(users[0]);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	wherry_offer_outcome outcomes[2];

	says(db, "EXEC wherry_offer N'mail', N'a', 0x31, @at = '2020-01-01'", "created");
	says(db, "EXEC wherry_offer N'mail', N'a', 0x32, @at = '2020-01-01'", "updated");
	says(db, "EXEC wherry_offer N'mail', N'a', 0x32, @at = '2020-01-01'", "ignored");
	is_denied(db, "EXEC wherry_poll N'mail'");
	is_denied(db, "EXEC wherry_delayed_drop N'mail', N'a'");
	is_denied(db, "DELETE FROM delayed");
	is_denied(db, "SELECT \"lockUuid\" FROM delayed");
	is_denied(db, "SELECT id FROM delayed_dead");
	let_see("delayed", users[0], true);
	WHERRY_PASS(wherry_delayed_open(db, NULL, "mail", NULL, &queue, &err));
	WHERRY_PASS(wherry_delayed_offer_many(queue, messages, 2, outcomes, &err));
	assert_int_equal(outcomes[1], WHERRY_CREATED);
	WHERRY_PASS(wherry_delayed_offer(queue, &messages[1], outcomes, &err));
	let_see("delayed", users[0], false);
	wherry_delayed_close(queue);
	wherry_db_close(db);
}

static void a_delayed_receiver_polls_and_no_more(void)
{
	wherry_db *db = become(users[1]);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	wherry_delayed_status st;
	wherry_ack_outcome outcome;
	delayed_got got = {.n = 0};
	const char *token = got.tokens[0];
	char sql[300];

	is_denied(db, "EXEC wherry_offer N'mail', N'k', 0x31");
	is_denied(db, "UPDATE delayed SET payload = 0x");
	is_denied(db, "SELECT payload FROM delayed_dead");
	is_denied(db, "UPDATE delayed_dead SET payload = 0x");
	does(db, "EXEC wherry_done N'mail', N'1.1.none'");
	does(db, "EXEC wherry_poll N'mail', 1, @max_attempts = 9");
	let_see("delayed_dead", users[1], true);
	WHERRY_PASS(wherry_delayed_open(db, NULL, "mail", NULL, &queue, &err));
	WHERRY_PASS(wherry_delayed_poll(queue, NULL, delayed_note, &got, NULL, &err));
	assert_int_equal(got.n, 1);
	WHERRY_PASS(wherry_delayed_extend(queue, &token, 1, 1000000, &outcome, &err));
	/* It replaces a dead one of its id, with which the token begins. */
	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO delayed_dead(id, \"pKey\", \"pKind\", payload, "
		       "\"scheduledAtInitially\", \"createdAt\", attempts, died_at) "
		       "VALUES (%d, N'stale', N'stale', 0x, 1, 1, 1, 1)",
		       atoi(token));
	assert_true(mssql_raw(NULL, NULL, sql, NULL, 0));
	WHERRY_PASS(wherry_delayed_dead_letter(queue, &token, 1, "bad", &outcome, &err));
	assert_int_equal(outcome, WHERRY_ACKNOWLEDGED);
	WHERRY_PASS(wherry_delayed_get_status(queue, &st, sizeof(st), &err));
	assert_int_equal(st.dead, 1);
	let_see("delayed_dead", users[1], false);
	wherry_delayed_close(queue);
	wherry_db_close(db);
}

static void a_delayed_operator_operates_and_no_more(void)
{
	wherry_db *db = become(users[2]);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	int64_t n = 0;

	WHERRY_PASS(wherry_delayed_open(db, NULL, "mail", NULL, &queue, &err));
	WHERRY_PASS(wherry_delayed_retry(queue, 0, &n, &err));
	assert_int_equal(n, 1);
	says(db, "EXEC wherry_offer N'mail', N'd', 0x31", "created");
	says(db, "EXEC wherry_delayed_drop N'mail', N'd'", "1");
	WHERRY_PASS(wherry_delayed_drop_all(queue, WHERRY_DELAYED_DROP_ALL, &n, &err));
	assert_true(n > 0);
	is_refused(db, "DROP TABLE delayed");
	wherry_delayed_close(queue);
	wherry_db_close(db);
}

WHERRY_TEST(roles_of_a_delayed_queue_may_do_what_they_need)
{
	static const char *const grants[] = {"wherry_t_one=sender",
					     "wherry_t_two=receiver",
					     "wherry_t_three=operator"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *owner = enter(), *db;
	wherry_delayed *queue = NULL;

	WHERRY_PASS(wherry_delayed_create(owner, NULL, NULL, &err));
	WHERRY_PASS(wherry_delayed_open(owner, NULL, "mail", NULL, &queue, &err));
	WHERRY_PASS(wh_store_grant(&queue->store, grants, 3, &err));
	WHERRY_PASS(wh_store_grant(&queue->store, grants, 3, &err));
	a_delayed_sender_offers_and_no_more();
	a_delayed_receiver_polls_and_no_more();
	a_delayed_operator_operates_and_no_more();
	none_may_change_shared_tables();
	WHERRY_PASS(wh_store_grant(
		&queue->store, (const char *const[]){"wherry_t_three=sender"}, 1, &err));
	db = become(users[2]);
	is_denied(db, "EXEC wherry_poll N'mail'");
	is_denied(db, "SELECT id FROM delayed_dead");
	wherry_db_close(db);
	wherry_delayed_close(queue);
	leave(owner);
}

/* ---- a cron ---- */

static wherry_code nothing(void *ctx, int64_t at_us, wherry_error *err)
{
	return WHERRY_OK;
}

WHERRY_TEST(a_role_of_a_cron_may_do_what_it_needs)
{
	static const char *const grants[] = {"wherry_t_one=operator"};
	wherry_error err = WHERRY_ERROR_INIT;
	char hash[WHERRY_HASH_LEN + 1];
	wherry_db *owner = enter(), *db;
	wherry_schedule *schedule = NULL;
	wherry_delayed *queue = NULL;
	wherry_cron *cron = NULL;
	int64_t n = 0;

	WHERRY_PASS(wherry_delayed_create(owner, NULL, NULL, &err));
	WHERRY_PASS(wherry_cron_create(owner, NULL, &err));
	WHERRY_PASS(wherry_delayed_open(owner, NULL, "mail", NULL, &queue, &err));
	WHERRY_PASS(wherry_cron_open(owner, NULL, &cron, &err));
	WHERRY_PASS(wh_store_grant(&cron->store, grants, 1, &err));
	WHERRY_PASS(wh_store_grant(&queue->store, grants, 1, &err));
	wherry_cron_close(cron);
	wherry_delayed_close(queue);
	WHERRY_PASS(wherry_schedule_parse("@every 1h", NULL, &schedule, &err));
	WHERRY_PASS(wherry_schedule_hash(schedule, hash, &err));
	db = become(users[0]);
	WHERRY_PASS(wherry_delayed_open(db, NULL, "mail", NULL, &queue, &err));
	WHERRY_PASS(wherry_cron_open(db, NULL, &cron, &err));
	WHERRY_PASS(wherry_cron_install_schedule(cron, queue, "report", schedule,
						 7200 * (int64_t)1000000,
						 WHERRY_CATCH_UP_NONE, "x", 1, &n, &err));
	assert_true(n > 0);
	WHERRY_PASS(wherry_cron_uninstall(cron, queue, "report", hash, &n, &err));
	assert_true(n > 0);
	WHERRY_PASS(wherry_cron_fire(cron, "t", "n", schedule, WHERRY_CATCH_UP_ALL,
				     nothing, NULL, &n, NULL, &err));
	WHERRY_PASS(wherry_cron_forget(cron, "report", &n, &err));
	assert_int_equal(n, 1);
	is_denied(db, "UPDATE cron SET hash = N''");
	wherry_cron_close(cron);
	wherry_delayed_close(queue);
	wherry_db_close(db);
	wherry_schedule_free(schedule);
	leave(owner);
}

/* ---- procedures that are made again ---- */

/* As another version of Wherry made it. */
static void make_old(const char *procedure)
{
	run("EXEC sp_updateextendedproperty N'wherry', N'Wherry 0', N'SCHEMA', N'dbo', "
	    "N'PROCEDURE', N'%'; EXEC (N'ALTER PROCEDURE % AS RETURN')",
	    procedure);
}

static void make_tables(wherry_db *owner)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_create(owner, "outbox", NULL, &err));
	WHERRY_PASS(wherry_queue_create(owner, "jobs", NULL, &err));
	WHERRY_PASS(wherry_delayed_create(owner, NULL, NULL, &err));
	WHERRY_PASS(wherry_inbox_create(owner, "inbox", &err));
}

WHERRY_TEST(grants_outlive_a_procedure_of_another_version)
{
	static const char *const enqueuer[] = {"wherry_t_one=enqueuer"},
				 *const sender[] = {"wherry_t_one=sender"};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *owner = enter(), *db;
	wherry_delayed *delayed = NULL;
	wherry_outbox *outbox = NULL;
	wherry_queue *queue = NULL;

	make_tables(owner);
	WHERRY_PASS(wherry_outbox_open(owner, "outbox", &outbox, &err));
	WHERRY_PASS(wherry_queue_open(owner, "jobs", &queue, &err));
	WHERRY_PASS(wherry_delayed_open(owner, NULL, "mail", NULL, &delayed, &err));
	WHERRY_PASS(wh_store_grant(&outbox->store, enqueuer, 1, &err));
	WHERRY_PASS(wh_store_grant(&queue->store, sender, 1, &err));
	WHERRY_PASS(wh_store_grant(&delayed->store, sender, 1, &err));
	run("GRANT EXECUTE ON wherry_inbox_purge TO %; GRANT SELECT, DELETE ON inbox TO "
	    "%; GRANT SELECT ON wherry_schema TO %",
	    users[0]);
	make_old("wherry_enqueue");
	make_old("wherry_send");
	make_old("wherry_offer");
	make_old("wherry_inbox_purge");
	make_tables(owner);
	db = become(users[0]);
	says(db,
	     "DECLARE @id BIGINT; EXEC wherry_enqueue @topic = N't', @payload = N'{}', @id "
	     "= @id OUTPUT; SELECT @id",
	     "1");
	says(db,
	     "DECLARE @id BIGINT; EXEC wherry_send 'jobs', N'1', @id = @id OUTPUT; SELECT "
	     "@id",
	     "1");
	says(db, "EXEC wherry_offer N'mail', N'a', 0x31", "created");
	says(db,
	     "DECLARE @n BIGINT; EXEC wherry_inbox_purge 0, @n = @n OUTPUT; SELECT @n",
	     "0");
	is_denied(db, "EXEC wherry_receive 'jobs'");
	wherry_db_close(db);
	wherry_delayed_close(delayed);
	wherry_queue_close(queue);
	wherry_outbox_close(outbox);
	leave(owner);
}

int main(void)
{
	int failed;

	if (!tsql_start())
		return 0;
	cmocka_set_test_filter(getenv("WHERRY_ONLY"));
	failed = wherry_run_tests(NULL, NULL);
	tsql_end();
	return failed;
}
