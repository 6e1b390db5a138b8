/*
 * What the models of databases share, on which cursors over a log are played: rows, and the
 * transactions that write them; see log_schedule.c.
 */
#ifndef LOG_MODEL_H
#define LOG_MODEL_H

#include "wherry_test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/log_schedule.h"

enum { SCHEDULES = 10000, BREAK_SCHEDULES = 2000, ROWS = 1000 };

typedef struct row {
	int64_t id;
	int64_t mark; /* Number of its transaction, or its row version. */
	int key, body;
	int writer;     /* Its transaction is open; -1: committed. */
	int savepoints; /* It came after so many of its transaction. */
} row;

typedef struct server {
	row rows[ROWS];
	int n;
	int64_t last_id;
	int64_t next_tx; /* PostgreSQL: number of the next transaction. */
	int64_t dbts;    /* SQL Server: the last row version, */
	int table;       /* and the identity of the table. */
	bool open[LOG_WRITERS];
	int64_t first[LOG_WRITERS]; /* First mark of the open transaction; 0: none. */
	int savepoints[LOG_WRITERS];
} server;

static server now, past;
static log_break broken;
static wherry_db db;
static const wh_db_driver driver;

/* The mark of a row that a writer inserts. */
static int64_t new_mark(int writer);

static void model_begin(const server *server_now, wherry_db **out)
{
	now = *server_now;
	db = (wherry_db){.driver = &driver};
	broken = LOG_WHOLE;
	*out = &db;
}

static void world_spoil(const wh_cursor *cursor, log_break what)
{
	broken = what;
}

static void world_start(int writer)
{
	now.open[writer] = true;
	now.first[writer] = 0;
	now.savepoints[writer] = 0;
}

static void drop_rows(int writer, int savepoints)
{
	int n = 0;

	for (int i = 0; i < now.n; i++)
		if (now.rows[i].writer != writer || now.rows[i].savepoints < savepoints)
			now.rows[n++] = now.rows[i];
	now.n = n;
}

static void world_end(int writer, bool commits)
{
	if (!commits)
		drop_rows(writer, 0);
	for (int i = 0; i < now.n; i++)
		if (now.rows[i].writer == writer)
			now.rows[i].writer = -1;
	now.open[writer] = false;
	now.first[writer] = 0;
}

static void world_prepare(int writer, int name)
{
	(void)writer; /* It stays open. */
}

static void world_savepoint(int writer)
{
	now.savepoints[writer] = 1;
}

static void world_back(int writer)
{
	drop_rows(writer, 1);
}

static int64_t world_next_id(int writer)
{
	return ++now.last_id;
}

static bool world_insert(int writer, int64_t id, int key, int body)
{
	bool alone = !now.open[writer];

	for (int i = 0; i < now.n; i++)
		if (now.rows[i].id == id)
			return false;
	assert_true(now.n < ROWS);
	if (alone)
		world_start(writer);
	now.rows[now.n++] = (row){.id = id,
				  .mark = new_mark(writer),
				  .key = key,
				  .body = body,
				  .writer = writer,
				  .savepoints = now.savepoints[writer]};
	if (alone)
		world_end(writer, true);
	return true;
}

static bool matches(const row *r, const log_rows *rows)
{
	if (rows->which == LOG_ALL_ROWS)
		return true;
	if (rows->which == LOG_ABOVE)
		return r->id > rows->above;
	return r->id % rows->by == rows->remainder;
}

static bool world_has(int body, const log_rows *rows)
{
	for (int i = 0; i < now.n; i++)
		if (now.rows[i].body == body && matches(&now.rows[i], rows))
			return true;
	return false;
}

static void lose_rows(const log_rows *rows)
{
	int n = 0;

	for (int i = 0; i < now.n; i++)
		if (!matches(&now.rows[i], rows))
			now.rows[n++] = now.rows[i];
	now.n = n;
}

static int64_t world_last_id(void)
{
	return now.last_id;
}

static void world_set_last_id(int64_t id)
{
	now.last_id = id;
}

static void world_keep(void)
{
	past = now;
}

static void world_go_back(void)
{
	now = past;
}

#define MODEL_OF_WORLD                                                                   \
	.begin = world_begin, .spoil = world_spoil, .start = world_start,                \
	.end = world_end, .prepare = world_prepare, .savepoint = world_savepoint,        \
	.back = world_back, .next_id = world_next_id, .insert = world_insert,            \
	.has = world_has, .lose = world_lose, .change = world_change,                    \
	.last_id = world_last_id, .set_last_id = world_set_last_id, .move = world_move,  \
	.keep = world_keep, .go_back = world_go_back

#endif
