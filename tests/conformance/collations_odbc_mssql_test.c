/*
 * Databases on SQL Server whose collation is not the server's: one that tells cases apart, by which SQL Server finds
 * names too, a Turkish one, in which "I" and "i" are two letters, and one of code points.  Each model is made, written
 * and read there.  A server that makes no such database, as Babelfish, is named, and the test is skipped.
 */
#include "mssql/backend.h"
#include "tsql.h"

#include <wherry/cron.h>
#include <wherry/delayed.h>
#include <wherry/inbox.h>
#include <wherry/queue.h>

#include "db/driver.h"

/* The database of the test has the name of its collation behind this: a driver manager may keep connections by
 * their URL, in the database that they were in last. */
#define DATABASE "wherry_"

static wherry_db *made; /* Connection to the database of the test; NULL: there is none. */
static const char *made_as;

/* A connection to a new database; NULL: the server refuses it. */
static wherry_db *make_database(const char *collation)
{
	const char *url = mssql_url(), *host = strstr(url, "://");
	const char *path = strchr(host + 3, '/'), *options = strchr(url, '?');
	wherry_db *db = tsql_connect();
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	char sql[200], other[512];
	wherry_code code;

	(void)snprintf(sql, sizeof(sql),
		       "IF DB_ID(N'" DATABASE "%s') IS NOT NULL DROP DATABASE " DATABASE
		       "%s",
		       collation, collation);
	WHERRY_PASS(wh_db_script(db, sql, &err));
	(void)snprintf(sql, sizeof(sql), "CREATE DATABASE " DATABASE "%s COLLATE %s",
		       collation, collation);
	code = wh_db_script(db, sql, &err);
	tsql_disconnect(db);
	if (code != WHERRY_OK) {
		print_message("# %s: %s\n", collation, err.message);
		return NULL;
	}
	if (!path || (options && path > options))
		path = options ? options : url + strlen(url);
	(void)snprintf(other, sizeof(other), "%.*s/" DATABASE "%s%s", (int)(path - url),
		       url, collation, options ? options : "");
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.busy_timeout", "30s", &err));
	WHERRY_PASS(wherry_db_open(other, config, &made, &err));
	wherry_config_free(config);
	made_as = collation;
	return made;
}

/* A connection that a driver manager keeps must not keep the database in use. */
static int drop_database(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[200];
	wherry_db *db;

	if (!made)
		return 0;
	WHERRY_PASS(wh_db_script(made, "USE master", &err));
	wherry_db_close(made);
	made = NULL;
	db = tsql_connect();
	(void)snprintf(sql, sizeof(sql), "DROP DATABASE " DATABASE "%s", made_as);
	WHERRY_PASS(wh_db_script(db, sql, &err));
	tsql_disconnect(db);
	return 0;
}

/* An outbox with two keys that differ in case alone, with messages of the same id in two cases. */
static void works_as_outbox(wherry_db *db)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	WHERRY_PASS(wherry_outbox_create(db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	for (int i = 0; i < 2; i++)
		WHERRY_PASS(wherry_outbox_enqueue(
			outbox,
			&WHERRY_MESSAGE(.topic = "t", .message_id = i ? "id" : "ID",
					.key = i ? "k" : "K", .body = "{}",
					.body_len = 2),
			WHERRY_OWN_TRANSACTION, NULL, &err));
	WHERRY_PASS(wherry_outbox_pause(outbox, &err));
	WHERRY_PASS(wherry_outbox_discard(outbox, "ID", &err));
	WHERRY_PASS(wherry_outbox_discard(outbox, "id", &err));
	wherry_outbox_close(outbox);
}

static wherry_code pass_message(void *ctx, const wherry_queue_message *msg)
{
	return WHERRY_OK;
}

static void works_as_queue(wherry_db *db)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;
	int64_t n = 0;

	WHERRY_PASS(wherry_queue_create(db, "jobs", NULL, &err));
	WHERRY_PASS(wherry_queue_open(db, "jobs", &queue, &err));
	WHERRY_PASS(wherry_queue_send(
		queue, &WHERRY_QUEUE_MESSAGE(.body = "1", .body_len = 1), NULL, &err));
	WHERRY_PASS(wherry_queue_receive(queue, &WHERRY_RECEIVE_OPTIONS(.limit = 9),
					 pass_message, NULL, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wherry_queue_drop(queue, &err));
	wherry_queue_close(queue);
}

static wherry_code pass_delayed(void *ctx, const wherry_delayed_message *msg)
{
	return WHERRY_OK;
}

/* Keys that differ in case alone are two messages. */
static void works_as_delayed(wherry_db *db, const char *layout)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *delayed = NULL;
	int64_t n = 0;

	WHERRY_PASS(wherry_delayed_create(db, layout, layout, &err));
	WHERRY_PASS(wherry_delayed_open(db, layout, "mail", NULL, &delayed, &err));
	for (int i = 0; i < 2; i++)
		WHERRY_PASS(wherry_delayed_offer(
			delayed,
			&WHERRY_DELAYED_MESSAGE(.key = i ? "i" : "I", .body = "b",
						.body_len = 1),
			NULL, &err));
	WHERRY_PASS(wherry_delayed_poll(delayed, &WHERRY_POLL_OPTIONS(.limit = 9),
					pass_delayed, NULL, &n, &err));
	assert_int_equal(n, 2);
	wherry_delayed_close(delayed);
}

static void works_as_inbox(wherry_db *db)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_inbox *inbox = NULL;
	bool is_new = false;

	WHERRY_PASS(wherry_inbox_create(db, "inbox", &err));
	WHERRY_PASS(wherry_inbox_open(db, "inbox", &inbox, &err));
	WHERRY_PASS(wherry_db_begin(db, &err));
	for (int i = 0; i < 4; i++) {
		WHERRY_PASS(wherry_inbox_accept(inbox, "c", i % 2 ? "id" : "ID", &is_new,
						&err));
		assert_int_equal(is_new, i < 2);
	}
	WHERRY_PASS(wherry_db_commit(db, &err));
	wherry_inbox_close(inbox);
}

static void every_model_works(const char *collation)
{
	wherry_db *db = make_database(collation);
	wherry_error err = WHERRY_ERROR_INIT;

	if (!db) {
		skip();
		return;
	}
	works_as_outbox(db);
	works_as_queue(db);
	works_as_delayed(db, "native");
	works_as_delayed(db, "funfix");
	works_as_inbox(db);
	WHERRY_PASS(wherry_cron_create(db, "cron", &err));
}

WHERRY_TEST_WITH(every_model_works_where_cases_differ, NULL, drop_database)
{
	every_model_works("Latin1_General_100_CS_AS");
}

WHERRY_TEST_WITH(every_model_works_in_turkish, NULL, drop_database)
{
	every_model_works("Turkish_100_CI_AS");
}

WHERRY_TEST_WITH(every_model_works_where_code_points_differ, NULL, drop_database)
{
	every_model_works("Latin1_General_100_BIN2");
}

int main(void)
{
	int failed;

	if (!tsql_start())
		return 0;
	failed = wherry_run_tests(NULL, NULL);
	tsql_end();
	return failed;
}
