/*
 * The database: SQLite's own in memory, shared by name between connections, under a VFS
 * that differs from it in the clock.
 */
#include <stdlib.h>
#include <string.h>

#include <wherry/sqlite.h>

#include "sim.h"

/* There is no such folder, so there is nothing to watch: relays look for commits. */
#define STORE_NAME "file:/no-such-folder/outbox?vfs=sim"

static sim_world *world_now; /* SQLite's clock has no better way to find it */

static int sim_time_int64(sqlite3_vfs *vfs, sqlite3_int64 *out)
{
	static const int64_t unix_epoch_ms = 210866760000000; /* julian day 2440587.5 */

	(void)vfs;
	*out = unix_epoch_ms + (world_now->now_us + world_now->ahead_us) / 1000;
	return SQLITE_OK;
}

/* A schedule opens and closes a dozen connections: few allocations, and what the sanitizer
 * keeps of those that are freed is little. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "quarantine_size_mb=1:malloc_context_size=8";
}

static void install_vfs(void)
{
	static sqlite3_vfs vfs;
	static bool installed;

	if (installed)
		return;
	installed = true;
	sim_heap();
	(void)sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0); /* the heap is as fast */
	(void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
	vfs = *sqlite3_vfs_find("memdb");
	vfs.zName = "sim";
	vfs.pNext = NULL;
	vfs.xCurrentTimeInt64 = sim_time_int64;
	sqlite3_vfs_register(&vfs, 0);
}

sim_world *sim_store_world(void)
{
	return world_now;
}

sqlite3 *sim_store_connect(sim_world *w)
{
	sqlite3 *db = NULL;

	if (sqlite3_open_v2(STORE_NAME, &db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI |
				    SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		sim_wrong(w, "the database does not open: %s", sqlite3_errmsg(db));
	sqlite3_extended_result_codes(db, 1);
	sim_server_teach(db);
	return db;
}

void sim_store_open(sim_world *w)
{
	static const char *const layouts[SIM_ENGINES] = {
		[SIM_LOG] = "log",
		[SIM_COMPETING] = "eventferry",
		[SIM_UNMARKED] = "debezium",
		[SIM_WAL] = "log",
	};
	const wherry_outbox_options options =
		WHERRY_OUTBOX_OPTIONS(.layout = layouts[w->plan.engine]);
	wherry_error err = WHERRY_ERROR_INIT;

	install_vfs();
	world_now = w;
	w->db = sim_store_connect(w);
	if (wherry_sqlite_borrow(w->db, &w->lib, &err) != WHERRY_OK ||
	    wherry_outbox_create(w->lib, "outbox", &options, &err) != WHERRY_OK)
		sim_wrong(w, "the outbox is not made: %s", err.message);
	sim_server_prepare(w);
	if (wherry_outbox_open(w->lib, "outbox", &w->outbox, &err) != WHERRY_OK)
		sim_wrong(w, "the outbox does not open: %s", err.message);
}

void sim_store_close(sim_world *w)
{
	for (int i = 0; i < SIM_QUESTIONS; i++)
		sqlite3_finalize(w->asked[i].stmt);
	wherry_outbox_close(w->outbox);
	wherry_db_close(w->lib);
	sqlite3_close(w->db);
}

void sim_sql(sim_world *w, const char *sql)
{
	if (sqlite3_exec(w->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		sim_wrong(w, "%s: %s", sql, sqlite3_errmsg(w->db));
}

int64_t sim_claim_left(sim_world *w, int index, const char *token)
{
	static const char sql[] =
		"SELECT next_retry_at - (SELECT ms FROM wherry_clock) "
		"FROM outbox WHERE message_id = 'm' || ? AND status = 1 "
		"AND claim_token = ?";
	sqlite3_stmt *stmt = NULL;
	int64_t left = -1;
	int rc = sqlite3_prepare_v2(w->db, sql, -1, &stmt, NULL);

	if (rc == SQLITE_OK) {
		(void)sqlite3_bind_int(stmt, 1, index);
		(void)sqlite3_bind_text(stmt, 2, token, -1, SQLITE_STATIC);
		rc = sqlite3_step(stmt);
	}
	if (rc == SQLITE_ROW)
		left = sqlite3_column_int64(stmt, 0);
	else if (rc != SQLITE_DONE)
		left = SIM_LOCKED;
	sqlite3_finalize(stmt);
	return left;
}

int64_t sim_number(sim_world *w, const char *sql, int64_t param)
{
	sqlite3_stmt *stmt;
	int64_t number = -1;
	int i = 0, rc;

	while (i < SIM_QUESTIONS - 1 && w->asked[i].sql && w->asked[i].sql != sql)
		i++;
	if (w->asked[i].sql != sql) { /* there are fewer literals than places */
		w->asked[i].sql = sql;
		sqlite3_prepare_v2(w->db, sql, -1, &w->asked[i].stmt, NULL);
	}
	stmt = w->asked[i].stmt;
	if (!stmt) {
		w->asked[i].sql = NULL; /* next time */
		return SIM_LOCKED;
	}
	(void)sqlite3_bind_int64(stmt, 1, param);
	rc = sqlite3_step(stmt);
	if (rc == SQLITE_ROW)
		number = sqlite3_column_int64(stmt, 0);
	else if (rc != SQLITE_DONE)
		number = SIM_LOCKED;
	(void)sqlite3_reset(stmt);
	return number;
}
