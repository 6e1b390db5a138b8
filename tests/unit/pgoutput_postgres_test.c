/*
 * What a real server sends through pgoutput is understood to the last byte, whichever way
 * tables are changed.
 */
#include "wherry_test.h"

#include <libpq-fe.h>

#include "fuzz/pgoutput.h"
#include "postgres/server.h"

static const char get[] =
	"SELECT data FROM pg_logical_slot_get_binary_changes('s', NULL, NULL, "
	"'proto_version', '1', 'publication_names', 'p', 'messages', 'true', "
	"'binary', $1)";

typedef struct stream {
	PGconn *conn;
	PGresult *res; /* messages since the last read_on() */
	int next;
} stream;

static int set_up(void **state)
{
	stream *s = calloc(1, sizeof(*s));
	char url[200];

	assert_non_null(s);
	postgres_enter(url, sizeof(url));
	s->conn = PQconnectdb(url);
	assert_true(postgres_exec(
		s->conn,
		"SET client_min_messages = warning; CREATE PUBLICATION p FOR ALL TABLES;"
		"CREATE TYPE mood AS ENUM ('calm'); CREATE TABLE box(id bigint PRIMARY KEY, topic text, payload bytea);"
		"ALTER TABLE box ALTER payload SET STORAGE EXTERNAL",
		NULL, 0));
	assert_true(postgres_exec(
		s->conn, "SELECT pg_create_logical_replication_slot('s', 'pgoutput')",
		NULL, 0));
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	stream *s = *state;

	assert_true(postgres_exec(
		s->conn, "DROP PUBLICATION p; SELECT pg_drop_replication_slot('s')", NULL,
		0));
	PQclear(s->res);
	PQfinish(s->conn);
	free(s);
	postgres_leave();
	return 0;
}

static void run(stream *s, const char *sql)
{
	assert_true(postgres_exec(s->conn, sql, NULL, 0));
}

static void read_on(stream *s, const char *binary)
{
	const char *values[] = {binary};

	if (PQserverVersion(s->conn) < 140000) /* which knows neither option */
		skip();
	PQclear(s->res);
	s->res = PQexecParams(s->conn, get, 1, NULL, values, NULL, NULL, 1);
	assert_int_equal(PQresultStatus(s->res), PGRES_TUPLES_OK);
	s->next = 0;
}

/* The next message; what it was decoded to gives the same bytes. */
static bool next(stream *s, wh_pgo_message *out)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_buf again = WH_BUF_INIT(1 << 20);
	const char *bytes;
	size_t len;

	if (s->next == PQntuples(s->res))
		return false;
	bytes = PQgetvalue(s->res, s->next, 0);
	len = (size_t)PQgetlength(s->res, s->next++, 0);
	WHERRY_PASS(wh_pgo_decode(bytes, len, out, &err));
	pgoutput_write(&again, out);
	assert_int_equal(again.len, len);
	assert_memory_equal(again.ptr, bytes, len);
	wh_buf_clear(&again);
	return true;
}

/* The kinds of all messages since read_on(), by their letters; out: the last of its kind. */
static const char *kinds(stream *s, wh_pgo_kind kind, wh_pgo_message *out)
{
	static char letters[64];
	wh_pgo_message m;
	size_t n = 0;

	while (next(s, &m) && n < sizeof(letters) - 1) {
		letters[n++] = (char)m.kind;
		if (m.kind == kind)
			*out = m;
	}
	letters[n] = 0;
	return letters;
}

WHERRY_TEST_ON(a_row_arrives_as_it_was_written_in_text_and_in_binary, stream *s, set_up,
	       tear_down)
{
	static const char *const names[] = {"payload", "id", "topic"};
	wh_pgo_message m, relation;
	wh_pgo_value values[3];
	int at[3];

	run(s, "INSERT INTO box VALUES (258, 'ü', '\\x00ff0a')");
	read_on(s, "false");
	assert_string_equal(kinds(s, WH_PGO_INSERT, &m), "BRIC");
	s->next = 0;
	(void)kinds(s, WH_PGO_RELATION, &relation);
	wh_pgo_find(relation.columns, names, 3, at);
	wh_pgo_pick(m.row, at, 3, values);
	assert_int_equal(values[0].form, WH_PGO_TEXT);
	assert_true(wh_view_eq(values[0].data, wh_view_of("\\x00ff0a")));
	assert_true(wh_view_eq(values[1].data, wh_view_of("258")));
	assert_true(wh_view_eq(values[2].data, wh_view_of("ü")));

	run(s, "INSERT INTO box VALUES (259, NULL, '\\x00ff0a')");
	read_on(s, "true");
	assert_string_equal(kinds(s, WH_PGO_INSERT, &m), "BRIC");
	wh_pgo_pick(m.row, at, 3, values);
	assert_int_equal(values[0].form, WH_PGO_BINARY);
	assert_int_equal(values[0].data.len, 3);
	assert_memory_equal(values[0].data.ptr, "\0\xff\n", 3);
	assert_memory_equal(values[1].data.ptr, "\0\0\0\0\0\0\1\3", 8);
	assert_int_equal(values[2].form, WH_PGO_NULL);
}

WHERRY_TEST_ON(an_update_leaves_out_a_large_value_that_it_left_alone, stream *s, set_up,
	       tear_down)
{
	wh_pgo_message m;
	wh_pgo_value values[3];

	run(s, "INSERT INTO box VALUES (1, 't', decode(repeat('ab', 3000), 'hex'))");
	run(s, "UPDATE box SET topic = 'u'");
	read_on(s, "false");
	assert_string_equal(kinds(s, WH_PGO_UPDATE, &m), "BRICBUC");
	assert_int_equal(m.old_kind, 0);
	wh_pgo_pick(m.row, (const int[]){0, 1, 2}, 3, values);
	assert_int_equal(values[1].form, WH_PGO_TEXT);
	assert_int_equal(values[2].form, WH_PGO_UNCHANGED);
	run(s, "UPDATE box SET id = 2");
	read_on(s, "false");
	assert_string_equal(kinds(s, WH_PGO_UPDATE, &m), "BRUC");
	assert_int_equal(m.old_kind, 'K');
}

WHERRY_TEST_ON(whatever_is_done_is_understood, stream *s, set_up, tear_down)
{
	wh_pgo_message m = {.xid = 0};

	run(s, "CREATE TABLE whole(a int); ALTER TABLE whole REPLICA IDENTITY FULL");
	read_on(s, "false");
	(void)kinds(s, WH_PGO_BEGIN, &m);
	run(s, "INSERT INTO whole VALUES (1); UPDATE whole SET a = 2; DELETE FROM whole");
	read_on(s, "false");
	assert_string_equal(kinds(s, WH_PGO_DELETE, &m), "BRIUDC");
	assert_int_equal(m.old_kind, 'O');
	run(s, "TRUNCATE whole, box RESTART IDENTITY CASCADE");
	read_on(s, "false");
	assert_string_equal(kinds(s, WH_PGO_TRUNCATE, &m), "BRRTC");
	assert_int_equal(m.tables.n, 2);
	assert_int_equal(m.flags, 3);
	run(s, "SELECT pg_logical_emit_message(true, 'wherry', 'tick')");
	read_on(s, "false");
	assert_string_equal(kinds(s, WH_PGO_LOGICAL, &m), "BMC");
	assert_true(wh_view_eq(m.name, wh_view_of("wherry")));
	assert_true(wh_view_eq(m.content, wh_view_of("tick")));
}

WHERRY_TEST_ON(a_table_that_is_altered_is_described_anew, stream *s, set_up, tear_down)
{
	static const char *const names[] = {"more", "topic"};
	wh_pgo_message m;
	int at[2];

	run(s,
	    "BEGIN; INSERT INTO box VALUES (1, 't', ''); ALTER TABLE box ADD more mood, "
	    "DROP topic; INSERT INTO box VALUES (2, '', 'calm'); COMMIT");
	read_on(s, "false");
	assert_string_equal(kinds(s, WH_PGO_RELATION, &m), "BRIYRIC");
	wh_pgo_find(m.columns, names, 2, at);
	assert_int_equal(at[0], 2);
	assert_int_equal(at[1], -1);
	s->next = 0;
	(void)kinds(s, WH_PGO_TYPE, &m);
	assert_true(wh_view_eq(m.name, wh_view_of("mood")));
}

WHERRY_TEST_ON(the_times_and_places_are_those_of_the_commit, stream *s, set_up, tear_down)
{
	wh_pgo_message begin = {.lsn = 0}, commit = {.lsn = 0};
	char now[32], where[32];
	unsigned high = 0, low = 0;
	int64_t ms = 0;

	run(s, "INSERT INTO box VALUES (1, 't', '')");
	assert_true(postgres_exec(s->conn,
				  "SELECT floor(extract(epoch FROM clock_timestamp()) * "
				  "1000)::bigint",
				  now, sizeof(now)));
	assert_true(postgres_exec(s->conn, "SELECT pg_current_wal_insert_lsn()", where,
				  sizeof(where)));
	assert_int_equal(sscanf(where, "%X/%X", &high, &low), 2);
	assert_int_equal(sscanf(now, "%ld", &ms), 1);
	read_on(s, "false");
	(void)kinds(s, WH_PGO_BEGIN, &begin);
	s->next = 0;
	(void)kinds(s, WH_PGO_COMMIT, &commit);
	assert_true(begin.lsn > 0 && begin.lsn == commit.lsn);
	assert_true(commit.end_lsn > commit.lsn);
	assert_true(commit.end_lsn <= ((uint64_t)high << 32 | low));
	assert_true(begin.at_us == commit.at_us);
	assert_true(begin.at_us / 1000 <= ms && ms - begin.at_us / 1000 < 60000);
}

int main(void)
{
	if (!postgres_start_with((const char *const[]){"wal_level=logical", NULL}))
		return 0;
	return wherry_run_tests(NULL, NULL);
}
