/*
 * Statements that are given ids find their rows by them, in queues and delayed queues on SQLite.
 * By another index, a statement would read every message of a queue.
 */
#include "wherry_test.h"

#include <sqlite3.h>

#include <wherry/sqlite.h>
#include <wherry/wherry.h>

#include "delayed/delayed.h"
#include "queue/queue.h"

static bool takes_ids(const wh_stmt *stmt)
{
	for (int i = 0; i < stmt->n_params; i++)
		if (strcmp(stmt->params[i], "ids") == 0)
			return true;
	return false;
}

/* Does the line of a plan say that rows of the table are found in another way? */
static bool reads_otherwise(const char *line, const char *table)
{
	char search[64], scan[64];

	(void)snprintf(search, sizeof(search), "SEARCH %s ", table);
	(void)snprintf(scan, sizeof(scan), "SCAN %s", table);
	return strncmp(line, scan, strlen(scan)) == 0 ||
	       (strncmp(line, search, strlen(search)) == 0 && !strstr(line, "rowid=?"));
}

static void check_plan(sqlite3 *handle, const wh_stmt *stmt, const char *table)
{
	char *sql = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", stmt->text);
	sqlite3_stmt *plan;

	assert_non_null(sql);
	if (sqlite3_prepare_v2(handle, sql, -1, &plan, NULL) != SQLITE_OK)
		fail_msg("%s: %s", stmt->name, sqlite3_errmsg(handle));
	while (sqlite3_step(plan) == SQLITE_ROW) {
		const char *line = (const char *)sqlite3_column_text(plan, 3);

		if (reads_otherwise(line, table))
			fail_msg("%s: %s", stmt->name, line);
	}
	(void)sqlite3_finalize(plan);
	sqlite3_free(sql);
}

/* There must be `least` statements that are given ids. */
static void check_plans(wherry_db *db, const wh_sql *sql, const char *table, int least)
{
	int n = 0;

	for (size_t i = 0; i < sql->n; i++)
		if (!sql->stmts[i].part && takes_ids(&sql->stmts[i])) {
			check_plan(wherry_sqlite_handle(db), &sql->stmts[i], table);
			n++;
		}
	assert_true(n >= least);
}

static wherry_db *open_memory(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db;

	WHERRY_PASS(wherry_db_open("sqlite::memory:", NULL, &db, &err));
	return db;
}

static void check_delayed(const char *layout, int least)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = open_memory();
	wherry_delayed *delayed;

	WHERRY_PASS(wherry_delayed_create(db, "later", layout, &err));
	WHERRY_PASS(wherry_delayed_open(db, "later", "mail", NULL, &delayed, &err));
	check_plans(db, &delayed->store.sql, "later", least);
	wherry_delayed_close(delayed);
	wherry_db_close(db);
}

WHERRY_TEST(a_delayed_queue_finds_rows_by_their_ids)
{
	check_delayed("native", 10);
}

WHERRY_TEST(the_table_of_the_jvm_library_finds_rows_by_their_ids)
{
	check_delayed("funfix", 6);
}

WHERRY_TEST(a_queue_finds_rows_by_their_ids)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = open_memory();
	wherry_queue *queue;

	WHERRY_PASS(wherry_queue_create(db, "jobs", NULL, &err));
	WHERRY_PASS(wherry_queue_open(db, "jobs", &queue, &err));
	check_plans(db, &queue->store.sql, "jobs", 7);
	wherry_queue_close(queue);
	wherry_db_close(db);
}

WHERRY_TEST_MAIN
