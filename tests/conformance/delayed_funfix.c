/*
 * The table of the JVM library DelayedQueue, beside the library: its own statements on the same rows.
 * The clock of these tests stands, and the library gets the same time.
 */
#include "delayed_funfix.h"

#include "db/driver.h"
#include "delayed/delayed.h"

#define KIND "7ab2b0dfa43e1a1f12169da88468fb53"
#define T0_MS "1704103200000"
#define UUID "b7c0e5a2-6a0e-4a0e-9d43-0a8f6b1a3c11"
#define COLUMNS                                                                          \
	"\"pKey\", \"pKind\", payload, \"scheduledAt\", \"scheduledAtInitially\", "      \
	"\"createdAt\""

static bool is_on(const delayed_fixture *f, const char *scheme)
{
	return strcmp(f->db->driver->scheme, scheme) == 0;
}

/* How bytes begin that are written in hexadecimal digits, and how they end. */
static const char *hex_begin(const delayed_fixture *f)
{
	return is_on(f, "sqlite") ? "X'" : is_on(f, "mssql") ? "0x" : "'\\x";
}

static const char *hex_end(const delayed_fixture *f)
{
	return is_on(f, "mssql") ? "" : "'";
}

/* What the library inserts for a key, due now. */
static void they_offer(delayed_fixture *f, const char *key, const char *hex)
{
	char sql[900], values[300];

	(void)snprintf(values, sizeof(values),
		       "INTO \"later\" (" COLUMNS ") VALUES ('%s', '" KIND
		       "', %s%s%s, " T0_MS ", " T0_MS ", " T0_MS ")",
		       key, hex_begin(f), hex, hex_end(f));
	if (is_on(f, "mssql"))
		(void)snprintf(sql, sizeof(sql),
			       "IF NOT EXISTS (SELECT 1 FROM \"later\" WHERE \"pKey\" = "
			       "N'%s' AND \"pKind\" = N'" KIND "') BEGIN INSERT %s END",
			       key, values);
	else if (is_on(f, "sqlite"))
		(void)snprintf(sql, sizeof(sql), "INSERT OR IGNORE %s", values);
	else
		(void)snprintf(sql, sizeof(sql),
			       "INSERT %s ON CONFLICT (\"pKey\", \"pKind\") DO NOTHING",
			       values);
	delayed_raw(f, sql);
}

/* What it does to poll at a time after T0, with a lease of 5 s; 0: its update found no row. */
static int64_t they_poll(delayed_fixture *f, int64_t after_ms, const char *uuid)
{
	int64_t now = strtoll(T0_MS, NULL, 10) + after_ms, id, due;
	bool tsql = is_on(f, "mssql");
	char sql[600], where[300];

	(void)snprintf(where, sizeof(where),
		       "FROM \"later\" %sWHERE \"pKind\" = '" KIND
		       "' AND \"scheduledAt\" <= %lld ORDER BY \"scheduledAt\"%s",
		       tsql ? "WITH (UPDLOCK, READPAST) " : "", (long long)now,
		       tsql ? "" : " LIMIT 1");
	(void)snprintf(sql, sizeof(sql), "SELECT coalesce((SELECT %sid %s), 0)",
		       tsql ? "TOP 1 " : "", where);
	id = delayed_int(f, sql);
	(void)snprintf(sql, sizeof(sql),
		       "SELECT coalesce((SELECT %s\"scheduledAt\" %s), 0)",
		       tsql ? "TOP 1 " : "", where);
	due = delayed_int(f, sql);
	(void)snprintf(sql, sizeof(sql),
		       "UPDATE \"later\" SET \"scheduledAt\" = %lld, \"lockUuid\" = '%s' "
		       "WHERE id = %lld AND \"pKind\" = '" KIND
		       "' AND \"scheduledAt\" = %lld",
		       (long long)now + 5000, uuid, (long long)id, (long long)due);
	delayed_raw(f, sql);
	return id;
}

static int64_t rows(delayed_fixture *f)
{
	return delayed_int(f, "SELECT count(*) FROM later");
}

static void they_ack(delayed_fixture *f, const char *uuid)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql),
		       "DELETE FROM \"later\" WHERE \"lockUuid\" = '%s'", uuid);
	delayed_raw(f, sql);
}

/* They replace a message: a compare and swap on the time and the version. */
static void they_update(delayed_fixture *f, const char *hex, int64_t after_ms)
{
	char sql[600];

	(void)snprintf(sql, sizeof(sql),
		       "UPDATE \"later\" SET payload = %s%s%s, \"scheduledAt\" = " T0_MS
		       ", \"scheduledAtInitially\" = " T0_MS
		       ", \"lockUuid\" = NULL, \"createdAt\" = " T0_MS " + %lld "
		       "WHERE \"pKind\" = '" KIND
		       "' AND \"scheduledAtInitially\" = " T0_MS,
		       hex_begin(f), hex, hex_end(f), (long long)after_ms);
	delayed_raw(f, sql);
}

void the_library_polls_and_acknowledges_what_we_offer(void **state)
{
	delayed_fixture *f = *state;

	(void)delayed_offer(f, "k", "a", 0);
	assert_int_equal(
		delayed_int(f, "SELECT count(*) FROM later WHERE \"pKind\" = '" KIND
			       "' AND \"scheduledAt\" = " T0_MS
			       " AND \"scheduledAtInitially\" = " T0_MS
			       " AND \"createdAt\" = " T0_MS " AND \"lockUuid\" IS NULL"),
		1);
	assert_true(they_poll(f, 0, UUID) > 0);
	(void)delayed_polls(f, 9, "");
	delayed_counts(f, "0 1 0 0");
	they_ack(f, UUID);
	assert_int_equal(rows(f), 0);
}

void we_poll_and_acknowledge_what_the_library_offers(void **state)
{
	delayed_fixture *f = *state;
	const delayed_got *got;
	char token[80];

	they_offer(f, "k", "61");
	they_offer(f, "k", "62");
	assert_int_equal(delayed_offer_absent(f, "k", "b", 9), WHERRY_IGNORED);
	assert_int_equal(delayed_offer(f, "k", "a", 0), WHERRY_IGNORED);
	got = delayed_polls(f, 9, "a");
	assert_int_equal(got->attempts[0], 1);
	assert_false(got->redelivery[0]);
	(void)snprintf(token, sizeof(token), "%s", got->tokens[0]);
	assert_int_equal(they_poll(f, 4999, UUID), 0);
	assert_int_equal(
		delayed_int(f, "SELECT count(*) FROM later WHERE length(\"lockUuid\") "
			       "= 36 AND \"scheduledAt\" = " T0_MS " + 5000"),
		1);
	they_ack(f, UUID);
	delayed_acks(f, token, WHERRY_ACKNOWLEDGED);
	assert_int_equal(rows(f), 0);
}

void a_lease_of_one_that_ended_is_taken_by_the_other(void **state)
{
	delayed_fixture *f = *state;
	const delayed_got *got;
	char token[80];

	(void)delayed_offer(f, "k", "a", 0);
	(void)snprintf(token, sizeof(token), "%s", delayed_polls(f, 1, "a")->tokens[0]);
	assert_true(they_poll(f, 5000, UUID) > 0);
	delayed_acks(f, token, WHERRY_LEASE_LOST);
	delayed_pass(f, 10);
	got = delayed_polls(f, 1, "a");
	assert_true(got->redelivery[0]);
	assert_int_equal(got->attempts[0], 2);
	they_ack(f, UUID);
	assert_int_equal(rows(f), 1);
	assert_int_equal(
		delayed_int(
			f, "SELECT count(*) FROM later_tries WHERE attempts = 2 AND "
			   "last_error = 'its lease expired before it was acknowledged'"),
		1);
	delayed_acks(f, got->tokens[0], WHERRY_ACKNOWLEDGED);
	assert_int_equal(delayed_int(f, "SELECT count(*) FROM later_tries"), 0);
}

void an_update_of_the_library_supersedes_our_lease(void **state)
{
	delayed_fixture *f = *state;
	const delayed_got *got;
	char token[80];

	(void)delayed_offer(f, "k", "a", 0);
	(void)delayed_polls(f, 1, "a");
	delayed_pass(f, 5);
	(void)snprintf(token, sizeof(token), "%s", delayed_polls(f, 1, "a")->tokens[0]);
	they_update(f, "62", 7);
	delayed_acks(f, token, WHERRY_SUPERSEDED);
	got = delayed_polls(f, 1, "b");
	assert_int_equal(got->attempts[0], 1);
	assert_false(got->redelivery[0]);
}

void an_offer_of_ours_takes_the_lease_of_the_library(void **state)
{
	delayed_fixture *f = *state;

	they_offer(f, "k", "61");
	assert_true(they_poll(f, 0, UUID) > 0);
	assert_int_equal(delayed_offer(f, "k", "b", 0), WHERRY_UPDATED);
	they_ack(f, UUID);
	(void)delayed_polls(f, 1, "b");
}

void a_first_poll_writes_to_the_librarys_table_alone(void **state)
{
	delayed_fixture *f = *state;

	(void)delayed_offer(f, "k", "a", 0);
	(void)delayed_polls(f, 1, "a");
	assert_int_equal(delayed_int(f, "SELECT count(*) FROM later_tries"), 0);
}

static void again(delayed_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	wherry_delayed_close(f->queue);
	f->queue = NULL;
	WHERRY_PASS(wherry_delayed_open(f->db, "later", "my-queue", "java.lang.String",
					&f->queue, &err));
}

void a_table_of_the_library_is_recognised(void **state)
{
	delayed_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_status s;
	delayed_got got = {.n = 0};

	delayed_raw(f, "DROP TABLE later_dead");
	delayed_raw(f, "DROP TABLE later_tries");
	they_offer(f, "k", "61");
	again(f);
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_delayed_poll(f->queue, NULL, delayed_note, &got, NULL, &err));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_DELAYED);
	assert_string_equal(err.layout, "funfix");
	WHERRY_PASS(wherry_delayed_create(f->db, "later", NULL, &err));
	WHERRY_PASS(wherry_delayed_get_status(f->queue, &s, sizeof(s), &err));
	assert_string_equal(s.layout, "funfix");
	delayed_counts(f, "1 0 0 0");
	WHERRY_FAILS(WHERRY_UNSUPPORTED, wherry_delayed_drop(f->queue, &err));
	assert_non_null(strstr(err.message, "belongs to another program"));
}

/* The library knows nothing of our table of attempts. */
void rows_of_messages_that_the_library_deleted_go_too(void **state)
{
	delayed_fixture *f = *state;
	const delayed_got *got;

	(void)delayed_offer(f, "a", "1", 0);
	(void)delayed_offer(f, "b", "2", 0);
	(void)delayed_polls(f, 9, "1 2");
	delayed_pass(f, 6);
	got = delayed_polls(f, 9, "1 2"); /* again: it has a row beside the table */
	delayed_raw(f, "DELETE FROM later WHERE \"pKey\" = 'a'");
	assert_int_equal(delayed_int(f, "SELECT count(*) FROM later_tries"), 2);
	(void)delayed_offer(f, "c", "3", 0);
	f->queue->n_acked = 1000;
	delayed_acks(f, got->tokens[1], WHERRY_ACKNOWLEDGED);
	assert_int_equal(delayed_int(f, "SELECT count(*) FROM later_tries"), 0);
}
