/*
 * A cursor over a log on PostgreSQL, beside writers that do what makes ids and commits differ.
 *
 * A schedule is a random order of single statements on several connections: transactions that
 * commit out of the order of their ids, that stay open, roll back, use savepoints or are
 * prepared; ids taken long before they are used, ids written by hand below the position,
 * sequences set back, rows deleted and changed by their owner, the table truncated or restored on
 * a server whose numbers of transactions are others.  A reader reads between any two of them, and
 * may die before it stores its position.
 *
 *     log_cursor_postgres_test FIRST..LAST   these seeds alone
 *
 * The judge knows what committed when.  Every message is read once, none that was not committed,
 * those of a key in the order of their commits, and none later than the next read because of
 * another one's transaction.  Each deliberate break of the reader must be noticed.
 */
#include "wherry_test.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log/cursor.h"
#include "postgres/server.h"

enum {
	WRITERS = 5,
	MESSAGES = 400,
	KEYS = 3,
	AHEAD = 3, /* Ids that a writer holds. */
	OPEN_MOST = 24,
	TURNS = 90,
	SCHEDULES = 100,
	BREAK_SCHEDULES = 400,
	SQL_LEN = 300
};

typedef enum fate { ABSENT, OPEN, COMMITTED, GONE } fate;

/* A message: what the judge knows of it.  Its body is its index. */
typedef struct message {
	fate fate;
	int64_t id;
	int key;
	int inserted, committed; /* Turns. */
	int read;                /* The position of its reading among all; 0: not read. */
	bool excused; /* Its owner took it away, or changed it, before it was read. */
} message;

typedef struct writer {
	PGconn *conn;
	bool in_transaction, prepared;
	int name; /* Of the prepared transaction. */
	int mine[OPEN_MOST], n;
	int savepoint; /* Messages before it; -1: none. */
	int64_t ahead[AHEAD];
	int n_ahead;
} writer;

/* The deliberate breaks of the reader. */
typedef enum broken {
	NOTHING,
	NO_XIP,       /* Late rows of transactions that were open are not looked for. */
	NO_XMAX,      /* Late rows of transactions that began later are not. */
	OLD_SNAPSHOT, /* The snapshot of the position stays that of the look before. */
	NEW_SNAPSHOT, /* It is taken after the rows were read. */
	NO_ROUND,     /* Of many late rows only the first are read. */
	NO_ROUND_END, /* A round also reads rows that became visible after it began. */
	IDS_ALONE,    /* A position is an id. */
	HORIZON,      /* Rows wait for the oldest transaction. */
	NO_RENUMBER,  /* A restored table is read as it is. */
	FRESH_FIRST,  /* Rows above the position do not wait for a round. */
	BREAKS
} broken;

static const char *const broken_names[BREAKS] = {
	"nothing",
	"late rows of transactions that were open are not looked for",
	"late rows of transactions that began later are not looked for",
	"the snapshot of the position stays that of the look before",
	"the snapshot of the position is taken after the rows were read",
	"of many late rows only the first are read",
	"a round reads rows that became visible after it began",
	"a position is an id",
	"rows wait for the oldest transaction",
	"a restored table is read as it is",
	"rows above the position do not wait for a round",
};

static struct {
	uint64_t random;
	broken broken;
	wherry_db *db;
	wh_cursor *cursor;
	wh_position at;
	message all[MESSAGES];
	int n, turn, reads;
	writer writers[WRITERS];
	int names;
	bool crashes; /* This read's position is not stored. */
	int visited[MESSAGES], n_visited;
	const char *fault;
	char fault_text[200];
} w;

/* Below n; xorshift64*. */
static unsigned chance(unsigned n)
{
	w.random ^= w.random >> 12;
	w.random ^= w.random << 25;
	w.random ^= w.random >> 27;
	return (unsigned)((w.random * 2685821657736338717U) >> 33) % n;
}

static void fault(const char *what, int i)
{
	if (w.fault)
		return;
	(void)snprintf(w.fault_text, sizeof(w.fault_text),
		       "turn %d: message %d (id %" PRId64 "): %s", w.turn, i,
		       i >= 0 ? w.all[i].id : 0, what);
	w.fault = w.fault_text;
}

static bool try_sql(PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);
	ExecStatusType status = PQresultStatus(res);
	bool ok = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;

	if (!ok)
		print_message("# %s: %s", sql, PQresultErrorMessage(res));
	PQclear(res);
	return ok;
}

static void run_sql(PGconn *conn, const char *sql)
{
	assert_true(try_sql(conn, sql));
}

static int64_t ask(PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);
	int64_t out;

	assert_int_equal(PQresultStatus(res), PGRES_TUPLES_OK);
	out = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
	PQclear(res);
	return out;
}

/* ---- writers ---- */

static void commit_all(writer *x, fate how)
{
	for (int i = 0; i < x->n; i++) {
		w.all[x->mine[i]].fate = how;
		w.all[x->mine[i]].committed = w.turn;
	}
	x->n = 0;
	x->in_transaction = x->prepared = false;
	x->savepoint = -1;
}

static int64_t choose_id(writer *x)
{
	int64_t id;
	int i;

	if (!chance(24)) /* By hand. */
		return -1 - w.n;
	if (!x->n_ahead || chance(2))
		return ask(x->conn, "SELECT nextval('log_id')");
	i = (int)chance((unsigned)x->n_ahead);
	id = x->ahead[i];
	x->ahead[i] = x->ahead[--x->n_ahead];
	return id;
}

static void insert(writer *x)
{
	char sql[SQL_LEN];
	message *m = &w.all[w.n];

	if (w.n == MESSAGES || x->n == OPEN_MOST)
		return;
	*m = (message){.fate = OPEN, .key = (int)chance(KEYS), .id = choose_id(x)};
	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO log(id, key, topic, body) VALUES (%" PRId64
		       ", 'k%d', 't', '%d') ON CONFLICT DO NOTHING RETURNING 1",
		       m->id, m->key, w.n);
	m->inserted = w.turn;
	{
		PGresult *res = PQexec(x->conn, sql);
		bool ok = PQresultStatus(res) == PGRES_TUPLES_OK && PQntuples(res) == 1;

		PQclear(res);
		if (!ok) { /* A sequence that was set back gives ids twice. */
			m->fate = ABSENT;
			return;
		}
	}
	x->mine[x->n++] = w.n++;
	if (!x->in_transaction)
		commit_all(x, COMMITTED);
}

static void end(writer *x, bool commits)
{
	char sql[SQL_LEN];

	if (x->prepared)
		(void)snprintf(sql, sizeof(sql), "%s PREPARED 'p%d'",
			       commits ? "COMMIT" : "ROLLBACK", x->name);
	else
		(void)snprintf(sql, sizeof(sql), "%s", commits ? "COMMIT" : "ROLLBACK");
	run_sql(x->conn, sql);
	commit_all(x, commits ? COMMITTED : GONE);
}

static void prepare(writer *x)
{
	char sql[SQL_LEN];

	x->name = w.names++;
	(void)snprintf(sql, sizeof(sql), "PREPARE TRANSACTION 'p%d'", x->name);
	run_sql(x->conn, sql);
	x->prepared = true;
	x->savepoint = -1;
}

static void back_to_savepoint(writer *x)
{
	run_sql(x->conn, "ROLLBACK TO SAVEPOINT s");
	while (x->n > x->savepoint)
		w.all[x->mine[--x->n]].fate = GONE;
}

static void take_ids_ahead(writer *x)
{
	while (x->n_ahead < AHEAD)
		x->ahead[x->n_ahead++] = ask(x->conn, "SELECT nextval('log_id')");
}

static void write_step(writer *x)
{
	unsigned what = chance(16);

	if (x->prepared) {
		if (!chance(6))
			end(x, chance(3) != 0);
	} else if (!x->in_transaction && what < 7) {
		run_sql(x->conn, "BEGIN");
		x->in_transaction = true;
	} else if (what == 7) {
		take_ids_ahead(x);
	} else if (what == 8 && x->in_transaction && x->savepoint < 0) {
		run_sql(x->conn, "SAVEPOINT s");
		x->savepoint = x->n;
	} else if (what == 9 && x->savepoint >= 0) {
		back_to_savepoint(x);
	} else if (what < 12 && x->in_transaction) {
		end(x, what < 11 || chance(2));
	} else if (what == 12 && x->in_transaction && x->n) {
		prepare(x);
	} else {
		insert(x);
		if (x->in_transaction && !chance(8)) /* A large transaction. */
			for (int i = 0; i < 6; i++)
				insert(x);
	}
}

static void end_all(void)
{
	for (int i = 0; i < WRITERS; i++)
		if (w.writers[i].in_transaction)
			end(&w.writers[i], chance(4) != 0);
}

/* ---- the reader ---- */

static wherry_code take(void *ctx, const wh_log_row *row, wherry_error *err)
{
	int i = atoi(row->body.ptr);

	(void)ctx;
	(void)err;
	if (w.all[i].fate != COMMITTED)
		fault("it was read, and is not committed", i);
	if (w.n_visited && w.all[w.visited[w.n_visited - 1]].id >= row->id)
		fault("it was not read in the order of ids", i);
	w.visited[w.n_visited++] = i;
	return WHERRY_OK;
}

static void judge_order(int i)
{
	const message *m = &w.all[i];

	for (int j = 0; j < w.n; j++) {
		const message *earlier = &w.all[j];

		if (earlier->fate == COMMITTED && earlier->key == m->key &&
		    earlier->committed < m->inserted && earlier->id < m->id &&
		    !earlier->read)
			fault("it was read before an earlier message of its key", i);
	}
}

static void store(void)
{
	for (int k = 0; k < w.n_visited; k++) {
		int i = w.visited[k];

		if (w.all[i].read)
			fault("it was read twice", i);
		judge_order(i);
		w.all[i].read = ++w.reads;
	}
}

static void judge_delay(void)
{
	for (int i = 0; i < w.n; i++)
		if (w.all[i].fate == COMMITTED && !w.all[i].read)
			fault("it is committed, and was not read", i);
}

/* Give the table and the position numbers of another server. */
static char *shift_snapshot(char *text, int64_t by)
{
	char out[2000], *at = text;
	size_t len = 0;

	if (!text)
		return NULL;
	while (*at) {
		if (*at >= '0' && *at <= '9')
			len += (size_t)snprintf(out + len, sizeof(out) - len, "%" PRId64,
						(int64_t)strtoll(at, &at, 10) + by);
		else
			out[len++] = *at++;
	}
	out[len] = '\0';
	free(text);
	return strdup(out);
}

static void restore_elsewhere(void)
{
	static const long long shifts[] = {3, 1000000, -200};
	char sql[SQL_LEN];
	long long by = shifts[chance(3)];

	if (by < 0 && ask(w.writers[0].conn, "SELECT pg_current_xact_id()") < 1000)
		return;
	end_all();
	(void)snprintf(
		sql, sizeof(sql),
		"UPDATE log SET tx = (tx::text::bigint + %lld)::text::xid8 WHERE tx <> '0'",
		by);
	run_sql(w.writers[0].conn, sql);
	if (!w.at.seen)
		return;
	w.at.seen = shift_snapshot(w.at.seen, by);
	w.at.until = shift_snapshot(w.at.until, by);
	for (int i = 0; i < WRITERS; i++)
		w.writers[i].n_ahead = 0;
}

static void renumber(bool crashes)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_position next;

	WHERRY_PASS(wh_position_copy(&next, &w.at, &err));
	WHERRY_PASS(wherry_db_begin(w.db, &err));
	WHERRY_PASS(wh_cursor_renumber(w.cursor, &next, &err));
	if (crashes) {
		wherry_db_rollback(w.db);
		wh_position_clear(&next);
		return;
	}
	WHERRY_PASS(wherry_db_commit(w.db, &err));
	wh_position_clear(&w.at);
	w.at = next;
}

/* What a reader that is broken does with the position that a look gave it. */
static void spoil(wh_position *next, const wh_position *old)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_position now = WH_POSITION_START;

	if (w.broken == OLD_SNAPSHOT) {
		free(next->seen);
		next->seen = old->seen ? strdup(old->seen) : NULL;
	} else if (w.broken == NEW_SNAPSHOT || w.broken == IDS_ALONE) {
		WHERRY_PASS(wh_cursor_after(w.cursor, next->high, &now, &err));
		free(next->seen);
		next->seen = strdup(now.seen);
		wh_position_clear(&now);
	}
}

/* False: all that is committed was read. */
static bool read_some(int64_t limit, bool crashes)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_log_found found = {.event = WH_LOG_SAME};
	wh_position next;

	w.n_visited = 0;
	WHERRY_PASS(wh_position_copy(&next, &w.at, &err));
	WHERRY_PASS(wh_cursor_read(w.cursor, &next, limit, take, NULL, &found, &err));
	if (found.event == WH_LOG_RESTORED && w.broken != NO_RENUMBER) {
		wh_position_clear(&next);
		renumber(crashes);
		return true;
	}
	if (w.broken == NEW_SNAPSHOT && !chance(3)) /* Others commit between. */
		for (int i = 0; i < WRITERS; i++)
			if (w.writers[i].in_transaction)
				end(&w.writers[i], true);
	spoil(&next, &w.at);
	if (crashes) {
		wh_position_clear(&next);
		return true;
	}
	store();
	if (!found.more && w.broken != NEW_SNAPSHOT)
		judge_delay();
	wh_position_clear(&w.at);
	w.at = next;
	return found.more;
}

/* ---- the owner ---- */

static void lose_rows(const char *where)
{
	char sql[SQL_LEN];

	end_all();
	for (int i = 0; i < WRITERS; i++)
		w.writers[i].n_ahead = 0;
	(void)snprintf(sql, sizeof(sql), "DELETE FROM log WHERE %s", where);
	for (int i = 0; i < w.n; i++) {
		char one[SQL_LEN];

		if (w.all[i].fate != COMMITTED || w.all[i].read)
			continue;
		(void)snprintf(one, sizeof(one),
			       "SELECT count(*) FROM log WHERE body = '%d' AND %s", i,
			       where);
		if (ask(w.writers[0].conn, one))
			w.all[i].fate = GONE;
	}
	run_sql(w.writers[0].conn, sql);
}

/* Rows are changed and deleted; sequences give ids again, or begin anew. */
static void own_step(void)
{
	PGconn *conn = w.writers[0].conn;
	char sql[SQL_LEN];

	switch (chance(4)) {
	case 0:
		if (w.writers[0].in_transaction)
			break;
		run_sql(conn, "UPDATE log SET topic = 'u' WHERE id % 3 = 1");
		break;
	case 1:
		(void)snprintf(sql, sizeof(sql), "id %% 5 = %u", chance(5));
		lose_rows(sql);
		break;
	case 2:
		lose_rows("true");
		run_sql(conn, "TRUNCATE log; ALTER SEQUENCE log_id RESTART");
		break;
	default:
		(void)snprintf(sql, sizeof(sql),
			       "id > (SELECT last_value - %u FROM log_id)",
			       1 + chance(6));
		lose_rows(sql);
		run_sql(conn,
			"SELECT setval('log_id', greatest(1, (SELECT max(id) FROM log)))");
		break;
	}
}

/* ---- a schedule ---- */

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

static void spoil_statements(void)
{
	const wh_stmt *look = w.cursor->look, *page = w.cursor->late_page;

	if (w.broken == NO_XIP || w.broken == IDS_ALONE)
		replace_text(look, "t.tx = ANY (", "false AND t.tx = ANY (");
	if (w.broken == NO_XMAX || w.broken == IDS_ALONE)
		replace_text(look, "t.tx >= pg_snapshot_xmax",
			     "false AND t.tx >= pg_snapshot_xmax");
	if (w.broken == NO_ROUND)
		replace_text(look, "(SELECT count(*) FROM late) AS n", "0::bigint AS n");
	if (w.broken == NO_ROUND_END)
		replace_text(page, "AND pg_visible_in_snapshot(t.tx, (",
			     "AND pg_visible_in_snapshot('0', (");
	if (w.broken == HORIZON)
		replace_text(look, "WHERE t.id > ",
			     "WHERE t.tx < pg_snapshot_xmin(pg_current_snapshot()) AND "
			     "t.id > ");
	if (w.broken == FRESH_FIRST)
		replace_text(look, "h.n > ", "false AND h.n > ");
	if (w.broken == FRESH_FIRST)
		replace_all(look, "(SELECT h.n FROM head AS h) <=", "0 <=");
}

static void set_up(uint64_t seed, broken what)
{
	wherry_error err = WHERRY_ERROR_INIT;
	PGconn *conns[WRITERS];

	for (int i = 0; i < WRITERS; i++)
		conns[i] = w.writers[i].conn;
	{
		wherry_db *db = w.db;

		memset(&w, 0, sizeof(w));
		w.db = db;
	}
	w.random = seed * 0x9E3779B97F4A7C15U + 1;
	w.broken = what;
	w.turn = 1;
	for (int i = 0; i < WRITERS; i++)
		w.writers[i] = (writer){.conn = conns[i], .savepoint = -1};
	run_sql(conns[0], "TRUNCATE log; ALTER SEQUENCE log_id RESTART");
	WHERRY_PASS(wh_cursor_open(w.db, NULL, "log", &w.cursor, &err));
	spoil_statements();
}

static void tear_down(void)
{
	for (int i = 0; i < WRITERS; i++)
		if (w.writers[i].in_transaction)
			end(&w.writers[i], false);
	wh_position_clear(&w.at);
	wh_cursor_close(w.cursor);
	w.cursor = NULL;
}

/* The fault that was found; NULL: none. */
static const char *play(uint64_t seed, broken what)
{
	set_up(seed, what);
	for (; w.turn < TURNS && !w.fault; w.turn++) {
		unsigned who = chance(WRITERS * 3 + 3);

		if (who < WRITERS * 3)
			write_step(&w.writers[who % WRITERS]);
		else if (who < WRITERS * 3 + 2)
			(void)read_some(1 + chance(4), !chance(8));
		else if (!chance(3))
			own_step();
		else if (!chance(8)) {
			restore_elsewhere();
			if (!chance(3))
				(void)read_some(1 + chance(4), true);
			(void)read_some(1 + chance(4), false);
		}
	}
	end_all();
	for (int i = 0; i < MESSAGES && !w.fault; i++, w.turn++) {
		if (!read_some(5, false))
			break;
	}
	judge_delay();
	tear_down();
	return w.fault;
}

static uint64_t first_seed = 1, last_seed = SCHEDULES;

static void every_message_is_read_once_and_in_order(void **state)
{
	(void)state;
	for (uint64_t seed = first_seed; seed <= last_seed; seed++) {
		const char *found = play(seed, NOTHING);

		if (found)
			fail_msg("seed %" PRIu64 ": %s", seed, found);
	}
}

static void every_break_is_noticed(void **state)
{
	int missed = 0;

	(void)state;
	for (broken b = NOTHING + 1; b < BREAKS; b++) {
		const char *found = NULL;
		uint64_t seed = 1;

		for (; !found && seed <= BREAK_SCHEDULES; seed++)
			found = play(seed, b);
		print_message("# %s: %s (%" PRIu64 " schedules)\n", broken_names[b],
			      found ? found : "NOT NOTICED", seed - 1);
		missed += !found;
	}
	assert_int_equal(missed, 0);
}

/* ---- the server ---- */

static int enter(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char url[200];

	(void)state;
	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, &w.db, &err));
	for (int i = 0; i < WRITERS; i++) {
		w.writers[i].conn = PQconnectdb(url);
		assert_int_equal(PQstatus(w.writers[i].conn), CONNECTION_OK);
	}
	run_sql(w.writers[0].conn,
		"CREATE SEQUENCE log_id; "
		"CREATE TABLE log(id bigint PRIMARY KEY DEFAULT nextval('log_id'), "
		"tx xid8 NOT NULL DEFAULT pg_current_xact_id(), key text, topic text NOT NULL, "
		"body text NOT NULL); CREATE INDEX ON log(tx, id)");
	return 0;
}

static int leave(void **state)
{
	(void)state;
	for (int i = 0; i < WRITERS; i++)
		PQfinish(w.writers[i].conn);
	wherry_db_close(w.db);
	postgres_leave();
	memset(&w, 0, sizeof(w));
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"max_prepared_transactions=20", NULL};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_message_is_read_once_and_in_order,
						enter, leave),
		cmocka_unit_test_setup_teardown(every_break_is_noticed, enter, leave),
	};
	const struct CMUnitTest one[] = {tests[0]};

	if (!postgres_start_with(settings))
		return 0;
	if (argc > 1) {
		first_seed = strtoull(argv[1], NULL, 10);
		last_seed = strstr(argv[1], "..")
				    ? strtoull(strstr(argv[1], "..") + 2, NULL, 10)
				    : first_seed;
		return cmocka_run_group_tests(one, NULL, NULL);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
