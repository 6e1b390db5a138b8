/*
 * Delayed queues on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "delayed_suite.h"
#include "mssql/backend.h"

#include "db/driver.h"

static const mssql_word words[] = {
	{"length(payload)", "DATALENGTH(payload)"},
	{"DROP INDEX later_time", "DROP INDEX later_time ON later"},
	{"'\\x00'", "0x00"},
	{NULL, NULL},
};

static const outbox_backend backend = {MSSQL_BACKEND};

static int make(void **state)
{
	*state = delayed_fixture_make(&backend, NULL);
	return 0;
}

/* SQL Server ignores blanks at the end of a text, and its usual collations ignore case. */
WHERRY_TEST_ON(keys_compare_byte_for_byte, delayed_fixture *f, make, delayed_fixture_drop)
{
	static const char *const keys[] = {"k", "k ", "K", "k  ", "\xc3\xab", "\xc3\x8b"};
	wherry_delayed_message msgs[6];
	wherry_offer_outcome out[6];
	wherry_error err = WHERRY_ERROR_INIT;
	delayed_got got = {.n = 0};
	bool found = false;

	for (int i = 0; i < 6; i++) {
		msgs[i] = WHERRY_DELAYED_MESSAGE(.key = keys[i], .body = &"012345"[i],
						 .body_len = 1, .at_us = f->now_us);
		if (i % 2 == 0)
			assert_int_equal(delayed_offer(f, keys[i], "old", 0),
					 WHERRY_CREATED);
	}
	WHERRY_PASS(wherry_delayed_offer_many(f->queue, msgs, 6, out, &err));
	for (int i = 0; i < 6; i++)
		assert_int_equal(out[i], i % 2 ? WHERRY_CREATED : WHERRY_UPDATED);
	WHERRY_PASS(wherry_delayed_drop_key(f->queue, "k ", &found, &err));
	assert_true(found);
	assert_false(delayed_has(f, "k "));
	assert_string_equal(delayed_body(f, "k"), "0");
	assert_string_equal(delayed_body(f, "k  "), "3");
	WHERRY_PASS(wherry_delayed_list(f->queue, &WHERRY_DELAYED_FILTER(.prefix = "k "),
					delayed_note, &got, &err));
	assert_string_equal(got.text, "3");
	got = (delayed_got){.n = 0};
	WHERRY_PASS(wherry_delayed_list(f->queue, &WHERRY_DELAYED_FILTER(.after = "k"),
					delayed_note, &got, &err));
	assert_string_equal(got.text, "3 5 4");
}

/* SQL Server takes bytes for equal that differ only by zeros at the end. */
WHERRY_TEST_ON(a_body_that_ends_with_zeros_is_another_body, delayed_fixture *f, make,
	       delayed_fixture_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_message msgs[2] = {
		WHERRY_DELAYED_MESSAGE(.key = "a", .body = "x", .body_len = 1,
				       .at_us = f->now_us),
		WHERRY_DELAYED_MESSAGE(.key = "b", .body = "x", .body_len = 1,
				       .at_us = f->now_us),
	};
	wherry_offer_outcome out[2];

	WHERRY_PASS(wherry_delayed_offer_many(f->queue, msgs, 2, NULL, &err));
	msgs[0].body = msgs[1].body = "x\0";
	msgs[0].body_len = msgs[1].body_len = 2;
	WHERRY_PASS(wherry_delayed_offer(f->queue, &msgs[0], out, &err));
	assert_int_equal(out[0], WHERRY_UPDATED);
	WHERRY_PASS(wherry_delayed_offer_many(f->queue, msgs, 2, out, &err));
	assert_int_equal(out[0], WHERRY_IGNORED);
	assert_int_equal(out[1], WHERRY_UPDATED);
}

/* A caught error must not end the caller's transaction. */
WHERRY_TEST_ON(an_offer_of_a_key_that_is_there_leaves_the_transaction_as_it_is,
	       delayed_fixture *f, make, delayed_fixture_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	(void)delayed_offer(f, "k", "a", 0);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	assert_int_equal(delayed_offer(f, "j", "b", 0), WHERRY_CREATED);
	assert_int_equal(delayed_offer_absent(f, "k", "c", 0), WHERRY_IGNORED);
	assert_int_equal(delayed_offer(f, "k", "d", 0), WHERRY_UPDATED);
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	(void)delayed_polls(f, 9, "d b");
}

/* In T-SQL, BEGIN alone begins a block. */
WHERRY_TEST_ON(the_sql_that_is_printed_makes_a_table, delayed_fixture *f, make,
	       delayed_fixture_drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	char *sql = NULL;

	WHERRY_PASS(wherry_delayed_create_sql("mssql", "printed", NULL, &sql, &err));
	WHERRY_PASS(wh_db_script(f->db, sql, &err));
	free(sql);
	WHERRY_PASS(wherry_delayed_open(f->db, "printed", "q", NULL, &queue, &err));
	wherry_delayed_close(queue);
}

/* ---- procedures ---- */

static void says(delayed_fixture *f, const char *sql, const char *wanted)
{
	char got[200] = "";

	assert_true(mssql_raw(f->place, f->db, sql, got, sizeof(got)));
	if (strcmp(got, wanted) != 0)
		print_error("%s\n", sql);
	assert_string_equal(got, wanted);
}

static void refuses(delayed_fixture *f, const char *sql)
{
	assert_false(mssql_raw(f->place, f->db, sql, NULL, 0));
}

/* What a poll by a procedure returned. */
typedef struct polled {
	char text[200];  /* Key, body and attempts of each message. */
	char token[100]; /* Of the last. */
} polled;

static wherry_code take_polled(void *ctx, const wh_row *row, wherry_error *err)
{
	polled *p = ctx;
	wh_view body = wh_row_bytes(row, 2);
	size_t len = strlen(p->text);

	(void)snprintf(p->text + len, sizeof(p->text) - len, "%s%s%.*s%lld",
		       len ? " " : "", wh_row_text(row, 1), (int)body.len, body.ptr,
		       (long long)wh_row_int(row, 4));
	(void)snprintf(p->token, sizeof(p->token), "%s", wh_row_text(row, 6));
	return WHERRY_OK;
}

/* Poll by the procedure, and compare. */
static const char *procedure_polls(delayed_fixture *f, const char *sql,
				   const char *wanted)
{
	static polled p;
	wherry_error err = WHERRY_ERROR_INIT;
	wh_stmt stmt;
	wh_sql all = {.stmts = &stmt, .n = 1};

	p = (polled){.text = ""};
	WHERRY_PASS(wh_stmt_make("mssql", "poll", sql, &stmt, &err));
	WHERRY_PASS(wh_db_run(f->db, &stmt, NULL, 0, take_polled, &p, NULL, &err));
	wh_db_forget(f->db, &all);
	wh_stmt_clear(&stmt);
	assert_string_equal(p.text, wanted);
	return p.token;
}

/* A procedure that settles, with a token. */
static void settles(delayed_fixture *f, const char *name, const char *token,
		    const char *more, const char *wanted)
{
	char sql[400];

	(void)snprintf(sql, sizeof(sql),
		       "EXEC %s N'my-queue', N'%s'%s, @delayed = N'later', "
		       "@type = N'java.lang.String'",
		       name, token, more);
	says(f, sql, wanted);
}

#define OF_LATER ", @delayed = N'later', @type = N'java.lang.String'"
#define POLL "EXEC wherry_poll N'my-queue', 9" OF_LATER

WHERRY_TEST_ON(a_program_in_sql_and_the_library_share_a_queue, delayed_fixture *f, make,
	       delayed_fixture_drop)
{
	wherry_delayed_set_clock(f->queue, NULL, NULL);
	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x31, @delay_ms = 3600000" OF_LATER,
	     "created");
	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x32, @if_absent = 1" OF_LATER,
	     "ignored");
	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x33" OF_LATER, "updated");
	says(f, "EXEC wherry_offer N'my-queue', N'b', 0x34, @at = '2020-01-01'" OF_LATER,
	     "created");
	says(f, "EXEC wherry_offer N'my-queue', N'b', 0x34, @at = '2020-01-01'" OF_LATER,
	     "ignored");
	delayed_acks(f, delayed_polls(f, 1, "4")->tokens[0], WHERRY_ACKNOWLEDGED);
	f->now_us = 0;
	(void)delayed_offer(f, "c", "5", 1577836800); /* 2020-01-01 */
	(void)procedure_polls(f, POLL, "c51 a31");
	(void)procedure_polls(f, POLL, "");
}

WHERRY_TEST_ON(procedures_settle_as_the_library_does, delayed_fixture *f, make,
	       delayed_fixture_drop)
{
	const char *token;

	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x31" OF_LATER, "created");
	token = procedure_polls(f, POLL, "a11");
	settles(f, "wherry_delayed_extend", token, ", 3600000", "acknowledged");
	settles(f, "wherry_delayed_nack", token, ", @error = N'no route'",
		"acknowledged");
	settles(f, "wherry_delayed_nack", token, "", "lease lost");
	says(f, "SELECT CONCAT(last_error, attempts) FROM later", "no route1");
	token = procedure_polls(f, POLL, "a12");
	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x32" OF_LATER, "updated");
	settles(f, "wherry_done", token, "", "superseded");
	token = procedure_polls(f, POLL, "a21");
	settles(f, "wherry_delayed_dead_letter", token, ", N'bad'", "acknowledged");
	says(f, "SELECT CONCAT(last_error, attempts) FROM later_dead", "bad1");
	settles(f, "wherry_done", token, "", "lease lost");
	says(f, "EXEC wherry_offer N'my-queue', N'b', 0x33" OF_LATER, "created");
	says(f, "EXEC wherry_delayed_drop N'my-queue', N'b'" OF_LATER, "1");
	says(f, "EXEC wherry_delayed_drop N'my-queue', N'b'" OF_LATER, "0");
	refuses(f, "EXEC wherry_offer N'my-queue', N'', 0x31" OF_LATER);
	refuses(f, "EXEC wherry_offer N'my-queue', N'k', NULL" OF_LATER);
	refuses(f,
		"EXEC wherry_offer N'my-queue', N'k', 0x31, @delayed = N'later; DROP TABLE "
		"later'");
	refuses(f, "EXEC wherry_done N'my-queue', N'nonsense'" OF_LATER);
	refuses(f, "EXEC wherry_delayed_nack N'my-queue', N'1.2:3'" OF_LATER);
}

/* Without a delay, as with 0: not in a hundred years. */
WHERRY_TEST_ON(a_message_given_back_in_sql_without_a_delay_is_due_at_once,
	       delayed_fixture *f, make, delayed_fixture_drop)
{
	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x31" OF_LATER, "created");
	settles(f, "wherry_delayed_nack", procedure_polls(f, POLL, "a11"), ", NULL",
		"acknowledged");
	(void)procedure_polls(f, POLL, "a12");
}

static void refuses_because(delayed_fixture *f, const char *sql, const char *why)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = mssql_run(f->db, sql, NULL, 0, &err);

	if (code == WHERRY_OK || !strstr(err.message, why))
		print_error("%s: %s\n", sql, err.message);
	assert_int_not_equal(code, WHERRY_OK);
	assert_non_null(strstr(err.message, why));
}

WHERRY_TEST_ON(procedures_refuse_leases_and_numbers_out_of_range, delayed_fixture *f,
	       make, delayed_fixture_drop)
{
	static const char *const out_of_range[] = {"NULL", "0", "-1"};
	const char *token;
	char sql[400];

	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x31" OF_LATER, "created");
	for (int i = 0; i < 3; i++) {
		(void)snprintf(sql, sizeof(sql),
			       "EXEC wherry_poll N'my-queue', 1, %s" OF_LATER,
			       out_of_range[i]);
		refuses_because(f, sql, "@lease_ms must be above 0");
	}
	refuses_because(f, "EXEC wherry_poll N'my-queue', NULL" OF_LATER,
			"@n must be 0 or more");
	refuses_because(f, "EXEC wherry_poll N'my-queue', -1" OF_LATER,
			"@n must be 0 or more");
	refuses_because(f, "EXEC wherry_poll N'my-queue', @max_attempts = -1" OF_LATER,
			"@max_attempts must be 0 or more");
	(void)procedure_polls(f, "EXEC wherry_poll N'my-queue', 0" OF_LATER, "");
	token = procedure_polls(
		f, "EXEC wherry_poll N'my-queue', 1, @max_attempts = NULL" OF_LATER,
		"a11");
	for (int i = 0; i < 3; i++) {
		(void)snprintf(
			sql, sizeof(sql),
			"EXEC wherry_delayed_extend N'my-queue', N'%s', %s" OF_LATER,
			token, out_of_range[i]);
		refuses_because(f, sql, "@lease_ms must be above 0");
	}
	(void)snprintf(sql, sizeof(sql),
		       "EXEC wherry_delayed_nack N'my-queue', N'%s', -1" OF_LATER, token);
	refuses_because(f, sql, "@delay_ms must be 0 or more");
	settles(f, "wherry_done", token, "", "acknowledged");
}

/* As in C (no_span_over_36500_days_is_cut). */
WHERRY_TEST_ON(procedures_refuse_the_spans_that_the_library_refuses, delayed_fixture *f,
	       make, delayed_fixture_drop)
{
	static const char *const calls[] = {
		"offer N'my-queue', N'a', 0x31, @delay_ms = ",
		"poll N'my-queue', 1, @lease_ms = ",
		"delayed_nack N'my-queue', N'1.1.a', @delay_ms = ",
		"delayed_extend N'my-queue', N'1.1.a', @lease_ms = ",
	};
	static const char *const spans[] = {"3153600000001", "9223372036854775807"};
	char sql[400];

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		for (size_t s = 0; s < 2; s++) {
			(void)snprintf(sql, sizeof(sql), "EXEC wherry_%s%s" OF_LATER,
				       calls[i], spans[s]);
			refuses_because(
				f, sql,
				"_ms is at most 3153600000000, which are 36500 days");
		}
	refuses_because(
		f, "EXEC wherry_offer N'my-queue', N'a', 0x31, @delay_ms = -1" OF_LATER,
		"@delay_ms must be 0 or more");
	refuses_because(f,
			"EXEC wherry_offer N'my-queue', N'a', 0x31, @delay_ms = 1, @at = "
			"'2020-01-01'" OF_LATER,
			"@delay_ms must be 0 or more, and 0 where @at is given");
	says(f,
	     "EXEC wherry_offer N'my-queue', N'a', 0x31, @delay_ms = 3153600000000" OF_LATER,
	     "created");
	says(f,
	     "SELECT (\"scheduledAt\" - \"createdAt\") / 86400000 FROM later WHERE "
	     "\"pKey\" = N'a'",
	     "36500");
}

/* SQL Server cuts what is longer than a parameter: it would be another key or queue. */
WHERRY_TEST_ON(procedures_cut_neither_keys_nor_names, delayed_fixture *f, make,
	       delayed_fixture_drop)
{
#define DECLARE_LONG "DECLARE @t NVARCHAR(4000) = REPLICATE(N'x', %d); "
#define DECLARE_REPEATED(n)                                                              \
	"DECLARE @t NVARCHAR(4000) = (SELECT REPLICATE(\"pKey\", " #n ") FROM later "    \
	"WHERE DATALENGTH(\"pKey\") = 4); "
	static const struct {
		const char *sql; /* with a text of the length */
		int most;
		const char *why;
	} cases[] = {
		{"EXEC wherry_offer N'my-queue', @t, 0x31" OF_LATER, 200,
		 "@key has at most 200 characters"},
		{"EXEC wherry_delayed_drop N'my-queue', @t" OF_LATER, 200,
		 "@key has at most 200 characters"},
		{"EXEC wherry_offer @t, N'a', 0x31, @delayed = N'later'", 255,
		 "at most 255 bytes"},
		{"EXEC wherry_offer N'q', N'a', 0x31, @type = @t, @delayed = N'later'",
		 255, "at most 255 bytes"},
		{"EXEC wherry_poll @t, @delayed = N'later'", 255, "at most 255 bytes"},
		{"EXEC wherry_done @t, N'1.1.1', @delayed = N'later'", 255,
		 "at most 255 bytes"},
		{"EXEC wherry_delayed_nack @t, N'1.1.1', @delayed = N'later'", 255,
		 "at most 255 bytes"},
		{"EXEC wherry_delayed_extend @t, N'1.1.1', @delayed = N'later'", 255,
		 "at most 255 bytes"},
		{"EXEC wherry_delayed_dead_letter @t, N'1.1.1', N'', @delayed = N'later'",
		 255, "at most 255 bytes"},
		{"EXEC wherry_delayed_drop @t, N'a', @delayed = N'later'", 255,
		 "at most 255 bytes"},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	char sql[400];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		(void)snprintf(sql, sizeof(sql), DECLARE_LONG "%s", cases[i].most,
			       cases[i].sql);
		WHERRY_PASS(mssql_run(f->db, sql, NULL, 0, &err));
		for (int more = 1; more <= 1000; more += 999) {
			(void)snprintf(sql, sizeof(sql), DECLARE_LONG "%s",
				       cases[i].most + more, cases[i].sql);
			refuses_because(f, sql, cases[i].why);
		}
	}
	/* A character may be two of UTF-16, and blanks at the end count. */
	(void)delayed_offer(f, "\xf0\x9f\x98\x80", "x", 0);
	/* Babelfish reads behind the end of such a text when a procedure hands it on. */
	if (!mssql_is_babelfish())
		says(f,
		     DECLARE_REPEATED(
			     200) "EXEC wherry_offer N'my-queue', @t, 0x31" OF_LATER,
		     "created");
	refuses_because(
		f,
		DECLARE_REPEATED(201) "EXEC wherry_offer N'my-queue', @t, 0x31" OF_LATER,
		"@key has at most 200 characters");
	refuses_because(f,
			"DECLARE @t NVARCHAR(4000) = N'a' + REPLICATE(N' ', 3999); EXEC "
			"wherry_offer N'my-queue', @t, 0x31" OF_LATER,
			"@key has at most 200 characters");
	refuses_because(f,
			"DECLARE @t NVARCHAR(4000) = N'a' + REPLICATE(N' ', 3999); EXEC "
			"wherry_poll @t, @delayed = N'later'",
			"at most 255 bytes");
#undef DECLARE_LONG
#undef DECLARE_REPEATED
}

WHERRY_TEST_ON(a_poll_in_sql_buries_what_had_its_attempts, delayed_fixture *f, make,
	       delayed_fixture_drop)
{
	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x31, @at = '2020-01-01'" OF_LATER,
	     "created");
	says(f, "EXEC wherry_offer N'my-queue', N'b', 0x32, @at = '2020-01-02'" OF_LATER,
	     "created");
	(void)procedure_polls(f, "EXEC wherry_poll N'my-queue', 1, 1, 1" OF_LATER, "a11");
	delayed_raw(f, "UPDATE later SET \"scheduledAt\" = 0 WHERE \"pKey\" = N'a'");
	(void)procedure_polls(f, "EXEC wherry_poll N'my-queue', 1, 9000, 1" OF_LATER,
			      "b21");
	says(f, "SELECT CONCAT(\"pKey\", attempts, last_error) FROM later_dead",
	     "a1its lease expired before it was acknowledged");
}

static void leave_dead(delayed_fixture *f)
{
	delayed_raw(f, "INSERT INTO later_dead(id, \"pKey\", \"pKind\", payload, "
		       "\"scheduledAtInitially\", \"createdAt\", attempts, died_at, "
		       "last_error) SELECT id, N'stale', \"pKind\", payload, 1, 1, 9, 1, "
		       "N'stale' FROM later");
}

WHERRY_TEST_ON(a_message_that_dies_in_sql_replaces_a_dead_one_of_its_id,
	       delayed_fixture *f, make, delayed_fixture_drop)
{
	const char *token;

	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x31" OF_LATER, "created");
	leave_dead(f);
	token = procedure_polls(f, POLL, "a11");
	settles(f, "wherry_delayed_dead_letter", token, ", N'bad'", "acknowledged");
	says(f, "SELECT CONCAT(\"pKey\", attempts, last_error) FROM later_dead", "a1bad");
	says(f, "EXEC wherry_offer N'my-queue', N'b', 0x32" OF_LATER, "created");
	(void)procedure_polls(f, POLL, "b21");
	delayed_raw(f, "UPDATE later SET \"scheduledAt\" = 0");
	leave_dead(f);
	(void)procedure_polls(f, "EXEC wherry_poll N'my-queue', 1, 9000, 1" OF_LATER, "");
	says(f, "SELECT COUNT(*) FROM later", "0");
	says(f, "SELECT CONCAT(COUNT(*), MAX(\"pKey\")) FROM later_dead", "2b");
}

/* More of them than are made dead at once, before one that has attempts left. */
WHERRY_TEST_ON(no_poll_in_sql_delivers_what_had_its_attempts, delayed_fixture *f, make,
	       delayed_fixture_drop)
{
	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x31, @at = '2020-01-02'" OF_LATER,
	     "created");
	assert_true(mssql_raw(
		NULL, NULL,
		"WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1010) "
		"INSERT INTO later(\"pKey\", \"pKind\", payload, \"scheduledAt\", "
		"\"scheduledAtInitially\", \"createdAt\", attempts) SELECT "
		"CONCAT(N'k', n.i), l.\"pKind\", 0x30, 1000, 1000, 1000, 3 "
		"FROM n CROSS JOIN later AS l OPTION (MAXRECURSION 0)",
		NULL, 0));
	(void)procedure_polls(f, "EXEC wherry_poll N'my-queue', 1, 3600000, 3" OF_LATER,
			      "a11");
	says(f, "SELECT COUNT(*) FROM later_dead", "1000");
	(void)procedure_polls(f, "EXEC wherry_poll N'my-queue', 1, 3600000, 3" OF_LATER,
			      "");
	says(f, "SELECT COUNT(*) FROM later_dead", "1010");
	says(f, "SELECT COUNT(*) FROM later", "1");
}

/* Nor one that stands behind many that it may deliver. */
WHERRY_TEST_ON(a_long_poll_in_sql_delivers_nothing_that_had_its_attempts,
	       delayed_fixture *f, make, delayed_fixture_drop)
{
	says(f, "EXEC wherry_offer N'my-queue', N'a', 0x31, @at = '2020-01-02'" OF_LATER,
	     "created");
	assert_true(mssql_raw(
		NULL, NULL,
		"WITH n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1010) "
		"INSERT INTO later(\"pKey\", \"pKind\", payload, \"scheduledAt\", "
		"\"scheduledAtInitially\", \"createdAt\", attempts) SELECT "
		"CONCAT(N'k', n.i), l.\"pKind\", 0x30, n.i, 1000, 1000, "
		"CASE WHEN n.i > 1005 THEN 3 ELSE 0 END "
		"FROM n CROSS JOIN later AS l OPTION (MAXRECURSION 0)",
		NULL, 0));
	assert_true(mssql_raw(NULL, NULL,
			      "EXEC wherry_poll N'my-queue', 2000, 3600000, 3" OF_LATER,
			      NULL, 0));
	says(f, "SELECT COUNT(*) FROM later_dead", "0");
	says(f, "SELECT COUNT(*) FROM later WHERE \"lockUuid\" IS NOT NULL", "1006");
	(void)procedure_polls(f, "EXEC wherry_poll N'my-queue', 1, 3600000, 3" OF_LATER,
			      "");
	says(f, "SELECT COUNT(*) FROM later_dead", "5");
}

/* Those that an older version made, or that are missing; and those of a second table are the same. */
WHERRY_TEST_ON(procedures_of_an_older_table_are_made_again, delayed_fixture *f, make,
	       delayed_fixture_drop)
{
	static const char *const breaks[] = {
		"EXEC sp_updateextendedproperty N'wherry', N'Wherry 0', N'SCHEMA', N'dbo', "
		"N'PROCEDURE', N'wherry_offer'; EXEC (N'ALTER PROCEDURE wherry_offer AS "
		"RETURN')",
		"DROP PROCEDURE wherry_offer",
	};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(breaks) / sizeof(*breaks); i++) {
		assert_true(mssql_raw(NULL, NULL, breaks[i], NULL, 0));
		WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
		says(f,
		     "EXEC wherry_offer N'my-queue', N'a', 0x31, @if_absent = 1" OF_LATER,
		     i ? "ignored" : "created");
		WHERRY_PASS(wherry_delayed_create(f->db, i ? "key" : "w", NULL, &err));
		says(f,
		     "SELECT COUNT(DISTINCT CAST(value AS NVARCHAR(100))) FROM "
		     "sys.extended_properties WHERE name = N'wherry'",
		     "1");
	}
}

int main(void)
{
	static const outbox_backend *const backends[] = {&backend};
	/* Babelfish ignores READPAST: a poll waits for the rows of another, and then finds them leased.
	 * It does not end a prepared statement that waits for a lock when it is told to. */
	static const char *const of_babelfish[] = {
		"of_pollers_at_once_each_gets_a_message_while_there_are_some",
		"a_try_that_takes_too_long_is_ended", NULL};

	if (!mssql_start(words))
		return 0;
	return delayed_suite_run(NULL, mssql_is_babelfish() ? of_babelfish : NULL,
				 backends, 1, wherry_tests_of_file()->all,
				 wherry_tests_of_file()->n);
}
