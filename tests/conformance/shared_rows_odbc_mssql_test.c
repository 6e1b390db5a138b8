/*
 * The tables that all tables of a schema share on SQL Server: a user writes the rows of its own tables alone.
 */
#include "wherry_test.h"

#include <wherry/wherry.h>

#include "base/buf.h"
#include "delayed/delayed.h"
#include "mssql/backend.h"
#include "outbox/outbox.h"
#include "queue/queue.h"
#include "store/grants.h"
#include "tsql.h"

#define PASSWORD "Wherry-test-1"
#define USER "wherry_t_shared"

static void run(const char *sql)
{
	assert_true(mssql_raw(NULL, NULL, sql, NULL, 0));
}

/* SQL in which each % is the name of a user. */
static void run_of(const char *fmt, int user)
{
	wh_buf sql = WH_BUF_INIT(1000);

	for (; *fmt; fmt++)
		if (*fmt == '%')
			wh_buf_printf(&sql, USER "%d", user);
		else
			wh_buf_putc(&sql, *fmt);
	run(wh_buf_str(&sql));
	wh_buf_clear(&sql);
}

/* A user for each kind of right; ROLES users in all.  Rights on the view of the clock, which tests leave there, would
 * keep a user. */
enum { ROLES = 6 };

static void drop_users(void)
{
	for (int i = 0; i < ROLES; i++) {
		run_of("IF USER_ID(N'%') IS NOT NULL AND OBJECT_ID(N'wherry_clock', N'V') "
		       "IS NOT NULL REVOKE SELECT ON wherry_clock FROM %",
		       i);
		run_of("IF USER_ID(N'%') IS NOT NULL DROP USER %", i);
		run_of("IF EXISTS (SELECT 1 FROM sys.server_principals WHERE name = N'%') "
		       "DROP LOGIN %",
		       i);
	}
}

static void make_users(void)
{
	for (int i = 0; i < ROLES; i++)
		run_of("CREATE LOGIN % WITH PASSWORD = '" PASSWORD
		       "'; CREATE USER % FOR LOGIN %",
		       i);
}

static wherry_db *become(int user)
{
	const char *url = getenv("WHERRY_TEST_MSSQL"), *at = strrchr(url, '@');
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	char own[400];

	(void)snprintf(own, sizeof(own), "mssql://" USER "%d:" PASSWORD "%s", user, at);
	WHERRY_PASS(wherry_db_open(own, NULL, &db, &err));
	return db;
}

/* Try to write rows that name other tables than `own`, and to give its row another name.  Returns the number of
 * statements that were not refused. */
static int attack(wherry_db *db, const char *own, int *tried)
{
	static const struct {
		const char *table, *name, *columns, *values, *set;
	} shared[] = {
		{"wherry_lease", "outbox",
		 "outbox, number, engine, owner, epoch, expires_at, clean, unclean, win, "
		 "suspects",
		 "7, N'log', N'x', 1, '1970-01-01', 0, 0, 1, 0",
		 "epoch = 9223372036854775807"},
		{"wherry_outbox", "name", "name, control_version", "7",
		 "paused_at = SYSUTCDATETIME()"},
		{"wherry_subscription", "queue", "queue, topic", "N'stolen'", NULL},
	};
	static const char *const others[] = {"theirs", "nowhere",
					     "later:0123456789abcdef0123456789abcdef"};
	char sql[500];
	wherry_error err = WHERRY_ERROR_INIT;
	int bad = 0;

	for (size_t t = 0; t < sizeof(shared) / sizeof(*shared); t++)
		for (int how = 0; how < 4; how++)
			for (size_t o = 0; o < sizeof(others) / sizeof(*others); o++) {
				wherry_code code;

				if (how == 0) {
					(void)snprintf(
						sql, sizeof(sql),
						"INSERT INTO %s(%s) VALUES (N'%s', %s)",
						shared[t].table, shared[t].columns,
						others[o], shared[t].values);
				} else if (how == 1) {
					if (!shared[t].set)
						continue;
					(void)snprintf(
						sql, sizeof(sql),
						"UPDATE %s SET %s WHERE %s = N'%s'",
						shared[t].table, shared[t].set,
						shared[t].name, others[o]);
				} else if (how == 2) {
					(void)snprintf(sql, sizeof(sql),
						       "DELETE FROM %s WHERE %s = N'%s'",
						       shared[t].table, shared[t].name,
						       others[o]);
				} else {
					(void)snprintf(sql, sizeof(sql),
						       "UPDATE %s SET %s = N'%s2' WHERE "
						       "%s = N'%s'",
						       shared[t].table, shared[t].name,
						       others[o], shared[t].name, own);
				}
				code = mssql_run(db, sql, NULL, 0, &err);
				(*tried)++;
				if (code != WHERRY_OK)
					continue;
				print_error("%s: not refused\n", sql);
				bad++;
			}
	return bad;
}

/* What a table shows of the rows that name another table than this one. */
static void of_others(const char *own, char *out, size_t cap)
{
	char sql[900];

	(void)snprintf(
		sql, sizeof(sql),
		"SELECT CONCAT((SELECT STRING_AGG(CONCAT(outbox, number, epoch), N',') FROM "
		"wherry_lease WHERE outbox <> N'%s'), N';', (SELECT STRING_AGG(CONCAT(name, "
		"paused_at), N',') FROM wherry_outbox WHERE name <> N'%s'), N';', (SELECT "
		"STRING_AGG(CONCAT(topic, queue), N',') FROM wherry_subscription WHERE queue "
		"<> N'%s'))",
		own, own, own);
	assert_true(mssql_raw(NULL, NULL, sql, out, cap));
}

WHERRY_TEST(no_user_writes_rows_of_another_table)
{
	static const struct {
		const char *kind, *own;
	} roles[ROLES] = {
		{"relay", "outbox"},  {"operator", "outbox"},  {"receiver", "jobs"},
		{"operator", "jobs"}, {"receiver", "delayed"}, {"operator", "delayed"},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *owner, *db;
	char before[600], after[600], grant[100];
	const char *const grants[] = {grant};
	wherry_outbox *outbox = NULL;
	wherry_queue *queue = NULL;
	wherry_delayed *delayed = NULL;
	int bad = 0, tried = 0;

	mssql_drop(NULL);
	drop_users();
	make_users();
	owner = mssql_connect(NULL);
	WHERRY_PASS(wherry_outbox_create(owner, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_create(owner, "theirs", NULL, &err));
	WHERRY_PASS(wherry_queue_create(owner, "jobs", NULL, &err));
	WHERRY_PASS(wherry_delayed_create(owner, NULL, NULL, &err));
	WHERRY_PASS(wherry_delayed_create(owner, "later", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(owner, "outbox", &outbox, &err));
	WHERRY_PASS(wherry_queue_open(owner, "jobs", &queue, &err));
	WHERRY_PASS(wherry_delayed_open(owner, NULL, "mail", NULL, &delayed, &err));
	run("INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, "
	    "clean, unclean, win, suspects) SELECT n.name, 0, N'log', N'x', 5, "
	    "'1970-01-01', 0, 0, 1, 0 FROM (VALUES (N'outbox'), (N'theirs'), (N'jobs'), "
	    "(N'delayed'), (N'nowhere'), (N'later:0123456789abcdef0123456789abcdef')) AS "
	    "n(name); DELETE FROM wherry_outbox; INSERT INTO wherry_outbox(name) SELECT "
	    "outbox FROM wherry_lease; INSERT INTO wherry_subscription(topic, queue) "
	    "SELECT N't', outbox FROM wherry_lease");
	for (size_t i = 0; i < ROLES; i++) {
		wh_store *store = i < 2   ? &outbox->store
				  : i < 4 ? &queue->store
					  : &delayed->store;

		(void)snprintf(grant, sizeof(grant), USER "%d=%s", (int)i, roles[i].kind);
		WHERRY_PASS(wh_store_grant(store, grants, 1, &err));
		of_others(roles[i].own, before, sizeof(before));
		db = become((int)i);
		bad += attack(db, roles[i].own, &tried);
		of_others(roles[i].own, after, sizeof(after));
		bad += strcmp(after, before) != 0;
		wherry_db_close(db);
	}
	print_message("# %d statements were tried\n", tried);
	assert_int_equal(bad, 0);
	wherry_outbox_close(outbox);
	wherry_queue_close(queue);
	wherry_delayed_close(delayed);
	wherry_db_close(owner);
	mssql_drop(NULL);
	drop_users();
}

int main(void)
{
	static const mssql_word words[] = {{NULL, NULL}};

	if (!mssql_start(words))
		return 0;
	return wherry_run_tests(NULL, NULL);
}
