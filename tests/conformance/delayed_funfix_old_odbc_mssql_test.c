/*
 * The table of the predecessor of the JVM library DelayedQueue, with points in time and texts, on the SQL
 * Server that WHERRY_TEST_MSSQL names.
 */
#include "delayed_funfix.h"
#include "mssql/backend.h"

#include <wherry/handlers.h>

#include "db/driver.h"

#define KIND "7ab2b0dfa43e1a1f12169da88468fb53"
#define UUID "b7c0e5a2-6a0e-4a0e-9d43-0a8f6b1a3c11"
#define T0 "CAST('2024-01-01 10:00:00 +00:00' AS DATETIMEOFFSET)"
#define FIVE_LATER "CAST('2024-01-01 12:00:05 +02:00' AS DATETIMEOFFSET)"

/* Two cases write bodies that are not text.  In the third batches lock keys in different orders:
 * here they are written message by message, as docs/guide/sqlserver.md says. */
#define OLD_LACKS                                                                        \
	"bodies_are_bytes", "poison_does_not_block_what_is_behind_it",                   \
		"two_batches_with_the_same_keys_do_not_deadlock"

static const mssql_word words[] = {
	{"length(payload)", "DATALENGTH(payload) / 2"},
	{"\"scheduledAt\" + 5000", "DATEADD(SECOND, 5, \"scheduledAt\")"},
	{NULL, NULL},
};

static const outbox_backend backend = {MSSQL_BACKEND};

static int make(void **state)
{
	*state = delayed_fixture_make(&backend, "funfix-old");
	return 0;
}

/* Bodies as "a b". */
static void append(char *to, const char *text, size_t len)
{
	size_t used = strlen(to);

	(void)snprintf(to + used, 100 - used, "%s%.*s", used ? " " : "", (int)len, text);
}

WHERRY_CASE(the_older_library_polls_what_we_offer, delayed_fixture *f)
{
	(void)delayed_offer(f, "k", "a\xc3\xab", 0);
	assert_int_equal(
		delayed_int(f, "SELECT COUNT(*) FROM later WHERE pKind = N'" KIND
			       "' AND scheduledAt = " T0 " AND scheduledAtInitially = " T0
			       " AND createdAt = " T0 " AND lockUuid IS NULL AND payload "
			       "= N'a' + NCHAR(235)"),
		1);
	delayed_raw(f,
		    "UPDATE later SET scheduledAt = " FIVE_LATER ", lockUuid = '" UUID
		    "' WHERE id IN (SELECT TOP 1 id FROM later WITH (UPDLOCK, READPAST) "
		    "WHERE pKind = N'" KIND "' AND scheduledAt <= " T0
		    " ORDER BY scheduledAt)");
	(void)delayed_polls(f, 9, "");
	delayed_counts(f, "0 1 0 0");
	delayed_pass(f, 5);
	assert_int_equal(delayed_polls(f, 9, "a\xc3\xab")->attempts[0], 2);
	assert_int_equal(delayed_int(f,
				     "SELECT COUNT(*) FROM later WHERE scheduledAt > " T0
				     " AND lockUuid <> '" UUID "'"),
			 1);
	delayed_raw(f, "DELETE FROM later WHERE lockUuid = '" UUID "'");
	assert_true(delayed_has(f, "k"));
}

/* Its times have the offset of its zone, and are finer than a millisecond. */
WHERRY_CASE(we_poll_what_the_older_library_offers, delayed_fixture *f)
{
	static const char at[] =
		"CAST('2024-01-01 11:59:59.9990004 +02:00' AS DATETIMEOFFSET)";
	const delayed_got *got;
	char sql[700], token[80];

	(void)snprintf(
		sql, sizeof(sql),
		"IF NOT EXISTS (SELECT 1 FROM later WHERE pKey = N'k' AND pKind = "
		"N'" KIND "') BEGIN INSERT INTO later(pKey, pKind, payload, "
		"scheduledAt, scheduledAtInitially, createdAt) VALUES (N'k', N'" KIND
		"', N'a', %s, %s, %s) END",
		at, at, at);
	delayed_raw(f, sql);
	assert_int_equal(delayed_offer(f, "k", "a", -0.001), WHERRY_IGNORED);
	got = delayed_polls(f, 9, "a");
	assert_int_equal(got->attempts[0], 1);
	assert_false(got->redelivery[0]);
	(void)snprintf(token, sizeof(token), "%s", got->tokens[0]);
	assert_int_equal(delayed_offer(f, "k", "b", 0), WHERRY_UPDATED);
	delayed_acks(f, token, WHERRY_SUPERSEDED);
	(void)snprintf(token, sizeof(token), "%s", delayed_polls(f, 9, "b")->tokens[0]);
	delayed_acks(f, token, WHERRY_ACKNOWLEDGED);
	assert_int_equal(delayed_int(f, "SELECT COUNT(*) FROM later"), 0);
}

WHERRY_CASE(a_table_of_the_older_library_is_recognised, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_status s;
	wherry_delayed *queue = NULL;

	delayed_raw(
		f,
		"CREATE TABLE old (id BIGINT IDENTITY(1,1) NOT NULL, pKey NVARCHAR(200) NOT "
		"NULL, pKind NVARCHAR(100) NOT NULL, payload NVARCHAR(MAX) NOT NULL, "
		"scheduledAt DATETIMEOFFSET NOT NULL, scheduledAtInitially DATETIMEOFFSET NOT "
		"NULL, lockUuid VARCHAR(36) NULL, createdAt DATETIMEOFFSET NOT NULL, PRIMARY KEY "
		"(pKey, pKind)); CREATE UNIQUE INDEX old__IdUniqueIndex ON old(id)");
	WHERRY_PASS(wherry_delayed_create(f->db, "old", NULL, &err));
	WHERRY_PASS(wherry_delayed_open(f->db, "old", "q", NULL, &queue, &err));
	WHERRY_PASS(wherry_delayed_get_status(queue, &s, sizeof(s), &err));
	assert_string_equal(s.layout, "funfix-old");
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_delayed_drop(queue, &err));
	wherry_delayed_close(queue);
	assert_int_equal(delayed_int(f, "SELECT COUNT(*) FROM sys.tables WHERE name LIKE "
					"N'old%'"),
			 3);
}

WHERRY_CASE(a_table_with_columns_of_other_types_is_refused, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	delayed_raw(
		f,
		"CREATE TABLE odd (id BIGINT IDENTITY(1,1) NOT NULL PRIMARY KEY, "
		"\"pKey\" NVARCHAR(200), \"pKind\" NVARCHAR(100), payload "
		"NVARCHAR(MAX), \"scheduledAt\" BIGINT, \"scheduledAtInitially\" BIGINT, "
		"\"lockUuid\" VARCHAR(36), \"createdAt\" BIGINT)");
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_delayed_create(f->db, "odd", "funfix-old", &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_delayed_create(f->db, "odd", "funfix", &err));
}

WHERRY_CASE(a_body_that_is_not_text_is_refused, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const wherry_delayed_message msg =
		WHERRY_DELAYED_MESSAGE(.key = "k", .body = "\xff", .body_len = 1,
				       .at_us = f->now_us);

	WHERRY_FAILS(WHERRY_INVALID, wherry_delayed_offer(f->queue, &msg, NULL, &err));
	assert_non_null(strstr(err.message, "keeps texts"));
	assert_int_equal(delayed_offer(f, "k", "\xf0\x9f\x98\x80", 0), WHERRY_CREATED);
	(void)delayed_polls(f, 9, "\xf0\x9f\x98\x80");
}

static wherry_verdict handle(void *ctx, wherry_call *call)
{
	const wherry_message *msg = wherry_call_message(call);

	if (strcmp(msg->key, "never") == 0 ||
	    (strcmp(msg->key, "twice") == 0 && wherry_call_attempt(call) == 1))
		return WHERRY_RETRY;
	append(ctx, msg->body, msg->body_len);
	return WHERRY_DELIVERED;
}

/* It claims, delivers, tries again and gives up, as on the other tables. */
WHERRY_CASE(a_relay_delivers_from_it, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *handlers = NULL;
	wherry_config *config = NULL;
	wherry_relay *relay = NULL;
	wherry_outcome outcome;
	char got[100] = "";

	(void)delayed_offer(f, "once", "a\xc3\xab", 0);
	(void)delayed_offer(f, "twice", "b", 1);
	(void)delayed_offer(f, "never", "c", 2);
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "relay.table",
				      "later/my-queue/java.lang.String", &err));
	WHERRY_PASS(wherry_config_set(config, "retry.attempts", "2", &err));
	WHERRY_PASS(wherry_config_set(config, "retry.base", "10ms", &err));
	WHERRY_PASS(wherry_handlers_open(mssql_url(), config, &handlers, &err));
	WHERRY_PASS(wherry_handlers_others(handlers, handle, got, &err));
	WHERRY_PASS(wherry_relay_open_on(f->db, handlers, config, &relay, &err));
	WHERRY_PASS(wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
	assert_string_equal(got, "a\xc3\xab b");
	wherry_relay_close(relay);
	wherry_publisher_close(handlers);
	wherry_config_free(config);
	delayed_counts(f, "0 0 0 1");
	assert_int_equal(delayed_int(f,
				     "SELECT COUNT(*) FROM later_dead WHERE attempts = "
				     "2 AND payload = N'c' AND pKey = N'never'"),
			 1);
	assert_int_equal(delayed_int(f, "SELECT COUNT(*) FROM later_tries"), 0);
}

WHERRY_CASE(the_sql_that_is_printed_makes_a_table, delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	char *sql = NULL;

	WHERRY_PASS(
		wherry_delayed_create_sql("mssql", "printed", "funfix-old", &sql, &err));
	WHERRY_PASS(wh_db_script(f->db, sql, &err));
	free(sql);
	WHERRY_PASS(wherry_delayed_open(f->db, "printed", "q", NULL, &queue, &err));
	wherry_delayed_close(queue);
}

#define MSSQL_CASE(name) FUNFIX_CASE(name, make)

int main(void)
{
	static const outbox_backend *const backends[] = {&backend};
	static const struct CMUnitTest more[] = {
		MSSQL_CASE(the_older_library_polls_what_we_offer),
		MSSQL_CASE(we_poll_what_the_older_library_offers),
		MSSQL_CASE(a_table_of_the_older_library_is_recognised),
		MSSQL_CASE(a_table_with_columns_of_other_types_is_refused),
		MSSQL_CASE(a_body_that_is_not_text_is_refused),
		MSSQL_CASE(a_relay_delivers_from_it),
		MSSQL_CASE(the_sql_that_is_printed_makes_a_table),
	};
	static const char *const lacks[] = {FUNFIX_LACKS, FUNFIX_MSSQL_LACKS, OLD_LACKS,
					    NULL};
	/* As of native delayed queues.  And Babelfish's DATEADD rounds hours that are given in
	 * milliseconds. */
	static const char *const of_babelfish[] = {
		FUNFIX_LACKS,
		FUNFIX_MSSQL_LACKS,
		OLD_LACKS,
		"of_pollers_at_once_each_gets_a_message_while_there_are_some",
		"a_try_that_takes_too_long_is_ended",
		"a_message_is_due_at_its_very_time",
		"a_message_given_back_waits_and_says_why",
		NULL};

	if (!mssql_start(words))
		return 0;
	return delayed_suite_run("funfix-old",
				 mssql_is_babelfish() ? of_babelfish : lacks, backends, 1,
				 more, sizeof(more) / sizeof(*more));
}
