/*
 * A log on PostgreSQL and its writers, for log_schedule.c; and a consumer of it.
 */
#ifndef LOG_POSTGRES_H
#define LOG_POSTGRES_H

#include "wherry_test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/log_schedule.h"
#include <wherry/outbox.h>

#include "postgres/server.h"

enum { SCHEDULES = 100, BREAK_SCHEDULES = 400, SQL_LEN = 600 };

static wherry_db *reader;
static PGconn *conns[LOG_WRITERS + 1]; /* The last is the consumer's. */
static int prepared[LOG_WRITERS + 1];  /* Name of its prepared transaction; -1: none. */

/* The table that writers write to, and its columns. */
static const char *table = "log", *tx_column = "tx", *key_column = "key",
		  *body_column = "body";

static void run_sql(PGconn *conn, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void run_sql(PGconn *conn, const char *fmt, ...)
{
	char sql[SQL_LEN];
	PGresult *res;
	va_list args;
	ExecStatusType status;

	va_start(args, fmt);
	assert_true(vsnprintf(sql, sizeof(sql), fmt, args) < SQL_LEN);
	va_end(args);
	res = PQexec(conn, sql);
	status = PQresultStatus(res);
	if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
		fail_msg("%s: %s", sql, PQresultErrorMessage(res));
	PQclear(res);
}

static int64_t ask(PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);
	int64_t out;

	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		fail_msg("%s: %s", sql, PQresultErrorMessage(res));
	out = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
	PQclear(res);
	return out;
}

/* ---- the world ---- */

static void world_begin(uint64_t seed, wherry_db **out)
{
	run_sql(conns[0], "TRUNCATE %s; ALTER SEQUENCE log_id RESTART", table);
	for (int i = 0; i <= LOG_WRITERS; i++)
		prepared[i] = -1;
	*out = reader;
}

static void world_start(int writer)
{
	run_sql(conns[writer], "BEGIN");
}

static void world_end(int writer, bool commits)
{
	if (prepared[writer] >= 0)
		run_sql(conns[writer], "%s PREPARED 'p%d'",
			commits ? "COMMIT" : "ROLLBACK", prepared[writer]);
	else
		run_sql(conns[writer], "%s", commits ? "COMMIT" : "ROLLBACK");
	prepared[writer] = -1;
}

static void world_prepare(int writer, int name)
{
	prepared[writer] = name;
	run_sql(conns[writer], "PREPARE TRANSACTION 'p%d'", name);
}

static void world_savepoint(int writer)
{
	run_sql(conns[writer], "SAVEPOINT s");
}

static void world_back(int writer)
{
	run_sql(conns[writer], "ROLLBACK TO SAVEPOINT s");
}

static int64_t world_next_id(int writer)
{
	return ask(conns[writer], "SELECT nextval('log_id')");
}

static bool world_insert(int writer, int64_t id, int key, int body)
{
	char sql[SQL_LEN];
	PGresult *res;
	bool ok;

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO %s(id, %s, topic, %s) VALUES (%" PRId64
		       ", 'k%d', 't', '%d') ON CONFLICT DO NOTHING RETURNING 1",
		       table, key_column, body_column, id, key, body);
	res = PQexec(conns[writer], sql);
	ok = PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1;
	PQclear(res);
	return ok;
}

static const char *condition(const log_rows *rows, char *out, size_t cap)
{
	if (rows->which == LOG_ALL_ROWS)
		return "true";
	if (rows->which == LOG_ABOVE)
		(void)snprintf(out, cap, "id > %" PRId64, rows->above);
	else
		(void)snprintf(out, cap, "id %% %d = %d", rows->by, rows->remainder);
	return out;
}

static bool world_has(int body, const log_rows *rows)
{
	char sql[SQL_LEN], where[80];

	(void)snprintf(sql, sizeof(sql), "SELECT count(*) FROM %s WHERE %s = '%d' AND %s",
		       table, body_column, body, condition(rows, where, sizeof(where)));
	return ask(conns[0], sql) > 0;
}

static void world_lose(const log_rows *rows)
{
	char where[80];

	if (rows->which == LOG_ALL_ROWS)
		run_sql(conns[0], "TRUNCATE %s", table);
	else
		run_sql(conns[0], "DELETE FROM %s WHERE %s", table,
			condition(rows, where, sizeof(where)));
}

static void world_change(void)
{
	run_sql(conns[0], "UPDATE %s SET topic = 'u' WHERE id %% 3 = 1", table);
}

static int64_t world_last_id(void)
{
	return ask(conns[0],
		   "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM log_id");
}

static void world_set_last_id(int64_t id)
{
	run_sql(conns[0], "SELECT setval('log_id', greatest(1, %" PRId64 "), %s)", id,
		id ? "true" : "false");
}

static char *shift_snapshot(char *text, long long by)
{
	char out[2000], *at = text;
	size_t len = 0;

	if (!text)
		return NULL;
	while (*at) {
		if (*at >= '0' && *at <= '9')
			len += (size_t)snprintf(out + len, sizeof(out) - len, "%lld",
						strtoll(at, &at, 10) + by);
		else
			out[len++] = *at++;
	}
	out[len] = '\0';
	free(text);
	return strdup(out);
}

/* The table and the position get the numbers of another server. */
static bool world_move(wh_position *at, unsigned how)
{
	static const long long shifts[] = {3, 1000000, -200};
	long long by = shifts[how];

	if (!at->seen || (by < 0 && ask(conns[0], "SELECT pg_current_xact_id()") < 1000))
		return false;
	run_sql(conns[0],
		"UPDATE %s SET %s = (%s::text::bigint + %lld)::text::xid8 WHERE %s <> '0'",
		table, tx_column, tx_column, by, tx_column);
	at->seen = shift_snapshot(at->seen, by);
	at->until = shift_snapshot(at->until, by);
	return true;
}

/* ---- breaks ---- */

static void replace_text(const wh_stmt *stmt, const char *what, const char *with)
{
	/* The statement is the cursor's own, and not prepared yet. */
	wh_stmt *s = (wh_stmt *)(uintptr_t)stmt;
	char *at = strstr(s->text, what), *out;

	assert_non_null(at);
	out = malloc(strlen(s->text) + strlen(with) + 1);
	assert_non_null(out);
	(void)sprintf(out, "%.*s%s%s", (int)(at - s->text), s->text, with,
		      at + strlen(what));
	free(s->text);
	s->text = out;
}

static void replace_all(const wh_stmt *stmt, const char *what, const char *with)
{
	while (strstr(stmt->text, what))
		replace_text(stmt, what, with);
}

static void world_spoil(const wh_cursor *cursor, log_break what)
{
	const wh_stmt *look = cursor->look, *page = cursor->late_page;

	if (what == LOG_NO_XIP || what == LOG_IDS_ALONE)
		replace_text(look, "e.tx BETWEEN open.tx",
			     "false AND e.tx BETWEEN open.tx");
	if (what == LOG_NO_XMAX || what == LOG_IDS_ALONE)
		replace_text(look, "t.tx >= pg_snapshot_xmax",
			     "false AND t.tx >= pg_snapshot_xmax");
	if (what == LOG_NO_ROUND)
		replace_text(look, "(SELECT count(*) FROM late) AS n", "0::bigint AS n");
	if (what == LOG_NO_ROUND_END)
		replace_text(page, "AND pg_visible_in_snapshot(e.tx, (",
			     "AND pg_visible_in_snapshot('0', (");
	if (what == LOG_HORIZON)
		replace_text(look, "WHERE e.id > ",
			     "WHERE e.tx < pg_snapshot_xmin(pg_current_snapshot()) AND "
			     "e.id > ");
	if (what == LOG_FRESH_FIRST)
		replace_text(look, "h.n > ", "false AND h.n > ");
	if (what == LOG_FRESH_FIRST)
		replace_all(look, "(SELECT h.n FROM head AS h) <=", "0 <=");
}

static const log_world world = {
	.begin = world_begin,
	.spoil = world_spoil,
	.start = world_start,
	.end = world_end,
	.prepare = world_prepare,
	.savepoint = world_savepoint,
	.back = world_back,
	.next_id = world_next_id,
	.insert = world_insert,
	.has = world_has,
	.lose = world_lose,
	.change = world_change,
	.last_id = world_last_id,
	.set_last_id = world_set_last_id,
	.move = world_move,
};

/* ---- a consumer ---- */

static char *whole_function;

static void consumer_begin(uint64_t seed, wherry_db **out)
{
	world_begin(seed, out);
	run_sql(conns[0],
		"DELETE FROM log_progress; INSERT INTO log_progress(subscription, high, seen) "
		"VALUES ('relay', 0, '1:1:'), ('other', 0, '1:1:')");
	PQclear(PQexec(conns[0], whole_function));
}

static void consume(int64_t limit, void (*take)(int64_t id, int body))
{
	char sql[SQL_LEN];
	PGresult *res;

	if (!log_chance(3))
		(void)ask(conns[LOG_CONSUMER],
			  "SELECT count(*) FROM wherry_consume('other', 2, 'log')");
	(void)snprintf(sql, sizeof(sql),
		       "SELECT id, payload FROM wherry_consume('relay', %" PRId64
		       ", 'log')",
		       limit);
	res = PQexec(conns[LOG_CONSUMER], sql);
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		fail_msg("%s", PQresultErrorMessage(res));
	for (int i = 0; i < PQntuples(res); i++)
		take(strtoll(PQgetvalue(res, i, 0), NULL, 10),
		     atoi(PQgetvalue(res, i, 1)));
	PQclear(res);
}

static void spoil_function(const wh_cursor *cursor, log_break what)
{
	static const struct {
		log_break what;
		const char *text, *with;
	} breaks[] = {
		{LOG_NO_XIP, "WHERE o.tx BETWEEN", "WHERE false AND o.tx BETWEEN"},
		{LOG_NO_XMAX, "WHERE e.tx >= pg_snapshot_xmax(own.seen)",
		 "WHERE false AND e.tx >= pg_snapshot_xmax(own.seen)"},
		{LOG_NO_ROUND, "IF cardinality(below) > most", "IF false"},
		{LOG_NO_ROUND_END, "AND pg_visible_in_snapshot(e.tx, own.until)", ""},
		{LOG_HORIZON, "WHERE e.id > own.high ORDER",
		 "WHERE e.id > own.high AND e.tx < "
		 "pg_snapshot_xmin(pg_current_snapshot()) ORDER"},
		{LOG_OWN_SEEN, "CASE WHEN mine >= pg_snapshot_xmax(snap)",
		 "CASE WHEN true"},
		{LOG_RENUMBER_OWN, "WHERE NOT pg_visible_in_snapshot(t.tx, p.seen)",
		 "WHERE p.subscription = 'other' AND NOT pg_visible_in_snapshot(t.tx, p.seen)"},
	};

	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++)
		if (breaks[i].what == what) {
			assert_non_null(strstr(whole_function, breaks[i].text));
			run_sql(conns[0],
				"DO $do$ BEGIN EXECUTE replace(pg_get_functiondef("
				"'wherry_consume'::regproc), $$%s$$, $$%s$$); END $do$",
				breaks[i].text, breaks[i].with);
		}
}

/* The table and the positions get the numbers of another server. */
static bool move_consumer(wh_position *at, unsigned how)
{
	/* Not few: a consumer's own transactions have numbers, and would pass them. */
	static const long long shifts[] = {1000, 1000000, -200};
	static const char shifted[] =
		"UPDATE log_progress SET %s = concat(pg_snapshot_xmin(%s)::text::bigint + (%lld), "
		"':', pg_snapshot_xmax(%s)::text::bigint + (%lld), ':', (SELECT "
		"string_agg((x::text::bigint + (%lld))::text, ',' ORDER BY x) FROM "
		"pg_snapshot_xip(%s) AS x))::pg_snapshot WHERE %s::text <> '1:1:'";
	static const char *const columns[] = {"seen", "until"};
	long long by = shifts[how];

	if (by < 0 && ask(conns[0], "SELECT pg_current_xact_id()") < 1000)
		return false;
	run_sql(conns[0],
		"UPDATE %s SET %s = (%s::text::bigint + %lld)::text::xid8 WHERE %s <> '0'",
		table, tx_column, tx_column, by, tx_column);
	for (int i = 0; i < 2; i++)
		run_sql(conns[0], shifted, columns[i], columns[i], by, columns[i], by, by,
			columns[i], columns[i]);
	return true;
}

static const log_world consumer_world = {
	.consume = consume,
	.begin = consumer_begin,
	.spoil = spoil_function,
	.start = world_start,
	.end = world_end,
	.prepare = world_prepare,
	.savepoint = world_savepoint,
	.back = world_back,
	.next_id = world_next_id,
	.insert = world_insert,
	.has = world_has,
	.lose = world_lose,
	.change = world_change,
	.last_id = world_last_id,
	.set_last_id = world_set_last_id,
	.move = move_consumer,
};

/* ---- plans ---- */

/* The arguments of a prepared statement, in its order. */
static void print_arguments(const wh_stmt *stmt, char *out, size_t cap)
{
	static const char *const values[][2] = {
		{"after", "0"},      {"body", "1000000"},
		{"long", "1000"},    {"names", "NULL"},
		{"text", "1000"},    {"size", "1000"},
		{"age", "3600000"},  {"count", "1"},
		{"dead", "0"},       {"delay", "1000"},
		{"error", "'why'"},  {"high", "49000"},
		{"id", "48000"},     {"ids", "'[48000,48002]'"},
		{"late", "48000"},   {"limit", "1000"},
		{"mask", "-1"},      {"message_id", "'48000'"},
		{"mixed", "0"},      {"nth", "1"},
		{"number", "48000"}, {"seen", "'100:100:'"},
		{"token", "'t'"},    {"until", "'900000:900000:'"},
		{"upto", "100"}};
	size_t len = 0;

	for (int i = 0; i < stmt->n_params; i++) {
		size_t k = 0, n = sizeof(values) / sizeof(*values);

		while (k < n && strcmp(stmt->params[i], values[k][0]) != 0)
			k++;
		if (k == n)
			fail_msg("parameter :%s of %s has no value in this test",
				 stmt->params[i], stmt->name);
		len += (size_t)snprintf(out + len, cap - len, "%s%s", len ? ", " : "",
					values[k][1]);
	}
}

static void assert_reads_by_index(const wh_stmt *stmt, const char *state)
{
	char args[200] = "", on[40], *sql = NULL;
	PGresult *res;

	(void)snprintf(on, sizeof(on), " on %s ", table);
	print_arguments(stmt, args, sizeof(args));
	assert_true(asprintf(&sql, "DEALLOCATE ALL; PREPARE p AS %s", stmt->text) > 0);
	res = PQexec(conns[0], sql);
	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		fail_msg("%s: %s", stmt->name, PQresultErrorMessage(res));
	PQclear(res);
	free(sql);
	assert_true(asprintf(&sql,
			     *args ? "EXPLAIN EXECUTE p(%s)" : "EXPLAIN EXECUTE p%s",
			     args) > 0);
	res = PQexec(conns[0], sql);
	if (PQresultStatus(res) != PGRES_TUPLES_OK)
		fail_msg("%s(%s): %s", stmt->name, args, PQresultErrorMessage(res));
	for (int i = 0; i < PQntuples(res); i++)
		if (strstr(PQgetvalue(res, i, 0), on) &&
		    !strstr(PQgetvalue(res, i, 0), "_wherry_open") &&
		    (i + 1 == PQntuples(res) ||
		     !strstr(PQgetvalue(res, i + 1, 0), "Index Cond")))
			fail_msg("%s, %s: %s", stmt->name, state, PQgetvalue(res, i, 0));
	PQclear(res);
	free(sql);
}

static void connect_all(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char url[200];

	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &reader, &err));
	for (int i = 0; i <= LOG_WRITERS; i++) {
		conns[i] = PQconnectdb(url);
		assert_int_equal(PQstatus(conns[i]), CONNECTION_OK);
	}
}

static int leave(void **state)
{
	for (int i = 0; i <= LOG_WRITERS; i++)
		PQfinish(conns[i]);
	wherry_db_close(reader);
	postgres_leave();
	free(whole_function);
	whole_function = NULL;
	return 0;
}

#endif
