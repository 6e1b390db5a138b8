/*
 * Names of outboxes on PostgreSQL: any schema, any table, many in one database.
 *
 * No connection here has a search path: whatever is found is found by its schema.
 */
#include "wherry_test.h"

#include <wherry/subscription.h>
#include <wherry/wherry.h>

#include "base/text.h"
#include "db/postgres/postgres.h"
#include "outbox/outbox.h"
#include "outbox/stream.h"
#include "postgres/server.h"
#include "store/grants.h"

static char url[200];
static int n_schemas;

static wherry_db *connect(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_db_open(url, NULL, &db, &err));
	return db;
}

static void sql(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void sql(const char *fmt, ...)
{
	char text[2048];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	assert_true(postgres_raw(url, text, NULL, 0));
}

static int64_t number(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static int64_t number(const char *fmt, ...)
{
	char text[2048], out[64] = "";
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	assert_true(postgres_raw(url, text, out, sizeof(out)));
	return strtoll(out, NULL, 10);
}

/* A new schema of that name, but for a number. */
static const char *new_schema(const char *name, char *out, size_t cap)
{
	(void)snprintf(out, cap, "%s%d", name, ++n_schemas);
	sql("CREATE SCHEMA \"%s\"", out);
	return out;
}

static wherry_outbox *make(wherry_db *db, const char *table)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	WHERRY_PASS(wherry_outbox_create(db, table, NULL, &err));
	WHERRY_PASS(wherry_outbox_create(db, table, NULL, &err)); /* twice is fine */
	WHERRY_PASS(wherry_outbox_open(db, table, &outbox, &err));
	return outbox;
}

static int64_t put(wherry_outbox *outbox, const char *key)
{
	wherry_message msg =
		WHERRY_MESSAGE(.topic = "t", .key = key, .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;

	WHERRY_PASS(
		wherry_outbox_enqueue(outbox, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	return id;
}

static wherry_lease lease_of(wherry_outbox *outbox)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};

	WHERRY_PASS(wherry_outbox_lease(outbox, "alone", 60000000, 8, &lease, &err));
	return lease;
}

static wherry_code count_row(void *ctx, const wherry_row *row)
{
	++*(int *)ctx;
	return WHERRY_OK;
}

/* Leased, one message dead and retried, delivered, purged. */
static void live(wherry_outbox *outbox)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_filter all = WHERRY_OUTBOX_FILTER();
	wherry_outbox_status status;
	wherry_lease lease;
	int64_t id = put(outbox, "k"), n = 0;
	wherry_failure dead = WHERRY_FAILURE(.id = id, .dead = true, .error = "refused");
	int rows = 0;

	lease = lease_of(outbox);
	WHERRY_PASS(wherry_outbox_renew(outbox, &lease, &err));
	WHERRY_PASS(wherry_outbox_fail(outbox, &lease, &dead, 1, &err));
	WHERRY_PASS(wherry_outbox_release(outbox, &lease, &err));
	WHERRY_PASS(wherry_outbox_retry(outbox, &all, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wherry_subscription_consume(outbox, 10, count_row, &rows, &n, &err));
	assert_int_equal(n, 1);
	WHERRY_PASS(wherry_outbox_list(outbox, &all, count_row, &rows, &err));
	WHERRY_PASS(wherry_outbox_show(outbox, "1", count_row, &rows, &err));
	assert_int_equal(rows, 3);
	WHERRY_PASS(wherry_outbox_get_status(outbox, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_int_equal(status.count[WHERRY_DONE], 1);
	WHERRY_PASS(wherry_outbox_purge(outbox, 0, 10, 0, &n, &err));
	assert_int_equal(n, 1);
}

WHERRY_TEST(an_outbox_may_have_any_name)
{
	static const char *const schemas[] = {
		"plain",      "Upper Case",        "it's", "do\"uble", "a.b",
		"a$wherry$b", "gr\xc3\xbc\xc3\x9f"};
	static const char *const tables[] = {"outbox",     "Odd Name",  "o'clock",
					     "say \"hi\"", "x.y",       "$1 :id",
					     "select",     "-- {table}"};
	wherry_db *db = connect();
	int made = 0;

	for (size_t i = 0; i < 8; i++) {
		char schema[64], name[300], quoted[3][100];
		const char *parts[2] = {schema, tables[i]};
		wherry_outbox *outbox;

		(void)snprintf(schema, sizeof(schema), "%s", schemas[i % 7]);
		for (int p = 0; p < 2; p++) {
			char *to = quoted[p];

			for (const char *s = parts[p]; *s; s++) {
				*to++ = *s;
				if (*s == '"')
					*to++ = '"';
			}
			*to = 0;
		}
		if (i < 7)
			sql("CREATE SCHEMA \"%s\"", quoted[0]);
		(void)snprintf(name, sizeof(name), "\"%s\".\"%s\"", quoted[0], quoted[1]);
		outbox = make(db, name);
		live(outbox);
		wherry_outbox_close(outbox);
		made++;
	}
	assert_int_equal(made, 8);
	assert_int_equal(number("SELECT count(*) FROM pg_class WHERE relname IN "
				"('Odd Name', 'o''clock', 'say \"hi\"', 'x.y', '$1 :id', "
				"'select', '-- {table}')"),
			 7);
	wherry_db_close(db);
}

WHERRY_TEST(quotes_are_needed_only_around_dots_and_quotes)
{
	wherry_db *db = connect();
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox, *again = NULL;
	char schema[32], name[100];

	new_schema("Mixed Case ", schema, sizeof(schema));
	(void)snprintf(name, sizeof(name), "%s.Odd Name", schema);
	outbox = make(db, name);
	put(outbox, "k");
	(void)snprintf(name, sizeof(name), "\"%s\".\"Odd Name\"", schema);
	WHERRY_PASS(wherry_outbox_open(db, name, &again, &err));
	assert_int_equal(number("SELECT count(*) FROM %s", name), 1);
	wherry_outbox_close(again);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
}

static void refuse(wherry_db *db, const char *name, const char *says)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	char *text = NULL;

	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_open(db, name, &outbox, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_create(db, name, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_create_sql("postgres", name, NULL, &text, &err));
	if (!strstr(err.message, says))
		fail_msg("'%s' is refused with '%s'", name, err.message);
}

WHERRY_TEST(what_is_no_name_is_refused)
{
	static const char *const bad[] = {
		"",     ".",         "a.",   ".b",       "a.b.c",
		"\"a",  "a\"b",      "\"\"", "\"a\"b",   "a\nb",
		"a\\b", "\"a\".b.c", "a..b", "\xff\xfe", "\"a\".\"b\"c"};
	wherry_db *db = connect();

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		refuse(db, bad[i], "SCHEMA.TABLE");
	wherry_db_close(db);
}

/* PostgreSQL would cut them, and say so in a notice that nobody reads. */
WHERRY_TEST(a_name_that_would_be_cut_is_refused)
{
	char longest[WH_IDENT_MAX + 1] = "", name[200];
	wherry_db *db = connect();
	wherry_outbox *outbox;

	sql("CREATE SCHEMA \"%063d\"", 0);
	memset(longest, 'n', WH_IDENT_MAX);
	(void)snprintf(name, sizeof(name), "%063d.%s", 0, longest);
	outbox = make(db, name);
	live(outbox);
	wherry_outbox_close(outbox);
	assert_true(number("SELECT count(*) FROM pg_class WHERE relname LIKE '%s%%'",
			   longest) > 8);
	assert_int_equal(
		number("SELECT count(*) FROM pg_class WHERE octet_length(relname)"
		       " > 62 AND relname LIKE '%s%%' AND relname <> '%s_exception_pkey'",
		       longest, longest),
		0);
	for (int len = WH_IDENT_MAX + 1; len < 70; len++) {
		(void)snprintf(name, sizeof(name), "public.%0*d", len, 0);
		refuse(db, name, "at most 48");
	}
	for (int len = 64; len < 70; len++) {
		(void)snprintf(name, sizeof(name), "%0*d.outbox", len, 0);
		refuse(db, name, "at most 63");
	}
	wherry_db_close(db);
}

WHERRY_TEST(a_schema_that_is_not_there_is_named)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = connect();

	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_outbox_create(db, "no such.outbox", NULL, &err));
	assert_non_null(strstr(err.message, "no such"));
	assert_non_null(strstr(err.message, "CREATE SCHEMA"));
	wherry_db_close(db);
}

WHERRY_TEST(outboxes_of_one_name_in_two_schemas_do_not_mix)
{
	wherry_db *db = connect();
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease[2];
	wherry_outbox *outbox[2];
	wherry_outbox_status status;
	char schema[32], name[64];
	int64_t n = 0;
	int rows = 0;

	for (int i = 0; i < 2; i++) {
		new_schema("twin", schema, sizeof(schema));
		(void)snprintf(name, sizeof(name), "%s.outbox", schema);
		outbox[i] = make(db, name);
		lease[i] = lease_of(outbox[i]); /* nobody else's */
		assert_int_equal(lease[i].epoch, 1);
	}
	assert_int_equal(put(outbox[0], "k"), 1);
	assert_int_equal(put(outbox[1], "k"), 1);
	WHERRY_PASS(wherry_outbox_pause(outbox[0], &err));
	WHERRY_PASS(wherry_outbox_get_status(outbox[1], &status,
					     sizeof(wherry_outbox_status), &err));
	assert_false(status.paused);
	assert_int_equal(status.count[WHERRY_PENDING], 1);
	WHERRY_PASS(wherry_outbox_release(outbox[0], &lease[0], &err));
	WHERRY_PASS(wherry_outbox_release(outbox[1], &lease[1], &err));
	WHERRY_PASS(
		wherry_subscription_consume(outbox[0], 10, count_row, &rows, &n, &err));
	assert_int_equal(n, 0); /* It is paused. */
	WHERRY_PASS(
		wherry_subscription_consume(outbox[1], 10, count_row, &rows, &n, &err));
	assert_int_equal(n, 1);
	wherry_outbox_close(outbox[0]);
	wherry_outbox_close(outbox[1]);
	wherry_db_close(db);
}

/* Whoever names it, by its schema or by a search path: it has one lease. */
WHERRY_TEST(an_outbox_is_one_however_it_is_named)
{
	wherry_db *db = connect(), *other = NULL;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox, *same = NULL;
	char schema[32], name[64], path[320];
	wherry_lease lease, none;

	new_schema("one", schema, sizeof(schema));
	(void)snprintf(name, sizeof(name), "%s.outbox", schema);
	(void)snprintf(path, sizeof(path),
		       "postgres://wherry@/postgres?host=%s&options=-csearch_path%%3D%s",
		       postgres_folder(), schema);
	WHERRY_PASS(wherry_db_open(path, NULL, &other, &err));
	WHERRY_PASS(wherry_outbox_create(other, "outbox", NULL, &err));
	WHERRY_PASS(wherry_outbox_open(other, "outbox", &same, &err));
	outbox = make(db, name);
	put(same, "k");
	lease = lease_of(outbox);
	assert_int_equal(lease.epoch, 1);
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(same, "two", 60000000, 8, &none, &err));
	wherry_outbox_close(same);
	wherry_outbox_close(outbox);
	wherry_db_close(other);
	wherry_db_close(db);
}

WHERRY_TEST(many_outboxes_live_in_one_schema)
{
	wherry_db *db = connect();
	wherry_outbox *outbox[10];
	char schema[32], name[64];

	new_schema("many", schema, sizeof(schema));
	for (int i = 0; i < 10; i++) {
		(void)snprintf(name, sizeof(name), "%s.outbox_%d", schema, i);
		outbox[i] = make(db, name);
	}
	for (int i = 0; i < 10; i++)
		for (int n = 0; n <= i; n++)
			put(outbox[i], "k");
	for (int i = 0; i < 10; i++) {
		wherry_lease lease = lease_of(outbox[i]);

		assert_int_equal(lease.epoch, 1);
		assert_int_equal(number("SELECT count(*) FROM %s.outbox_%d", schema, i),
				 i + 1);
		wherry_outbox_close(outbox[i]);
	}
	assert_int_equal(number("SELECT count(*) FROM %s.wherry_schema", schema), 10);
	wherry_db_close(db);
}

/* The server plans each: it says when a table is not found. */
WHERRY_TEST(every_statement_finds_its_tables_without_a_search_path)
{
	wherry_db *db = connect();
	PGconn *conn = ((postgres_db *)db)->conn;
	char schema[32], name[64];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	size_t n = 0;

	new_schema("alone", schema, sizeof(schema));
	(void)snprintf(name, sizeof(name), "%s.Out.box", schema);
	refuse(db, name, "SCHEMA.TABLE");
	(void)snprintf(name, sizeof(name), "%s.\"Out.outbox\"", schema);
	WHERRY_PASS(wherry_outbox_create(db, name, &WHERRY_OUTBOX_OPTIONS(.segments = 10),
					 &err));
	WHERRY_PASS(wherry_outbox_open(db, name, &outbox, &err));
	for (size_t i = 0; i < outbox->store.sql.n; i++) {
		const wh_stmt *stmt = &outbox->store.sql.stmts[i];
		PGresult *res;

		if (stmt->part || strncmp(stmt->name, "migrate-", 8) == 0 ||
		    strncmp(stmt->name, "add-", 4) == 0 ||
		    strncmp(stmt->name, "drop", 4) == 0)
			continue;
		res = PQprepare(conn, "", stmt->text, 0, NULL);
		if (PQresultStatus(res) != PGRES_COMMAND_OK)
			fail_msg("%s: %s", stmt->name, PQerrorMessage(conn));
		PQclear(res);
		n++;
	}
	assert_true(n > 50);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
}

/* A table that can be streamed. */
static void make_debezium(wherry_db *db, const char *schema, const char *table)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char name[128];

	sql("CREATE TABLE \"%s\".\"%s\" (id uuid PRIMARY KEY, aggregatetype text NOT NULL, "
	    "aggregateid text NOT NULL, type text, payload jsonb)",
	    schema, table);
	(void)snprintf(name, sizeof(name), "%s.%s", schema, table);
	WHERRY_PASS(wherry_outbox_create(db, name, NULL, &err));
}

/* A relay finds its replication slot again by this name. */
WHERRY_TEST(a_slot_is_named_by_39_characters_of_its_table)
{
	static const char name[] = "Orders of 2026, for a customer with a long name";
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = connect();
	wherry_outbox *outbox = NULL;
	wh_wal *wal = NULL;
	char schema[64], table[128];

	(void)snprintf(table, sizeof(table), "%s.%s",
		       new_schema("slots", schema, sizeof(schema)), name);
	make_debezium(db, schema, name);
	WHERRY_PASS(wherry_outbox_open(db, table, &outbox, &err));
	WHERRY_PASS(wh_wal_open(outbox, "", "", &wal, &err));
	assert_memory_equal(wal->slot, "wherry_orders_of_2026__for_a_customer_with_a_l_",
			    47);
	assert_int_equal(strlen(wal->slot), 47 + 8);
	wh_wal_close(wal);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
}

WHERRY_TEST(grants_are_checked_before_tables_are_made)
{
	static const char *const good[] = {"wherry=relay", "wherry=producer"};
	static const char *const bad[] = {"wherry=king", "wherry=relay"};
	static const char *const unknown[] = {"nobody there=relay"};
	const wh_model *model = &wh_outbox_model;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = connect();

	WHERRY_PASS(wh_store_grant_check(model, "postgres", good, 2, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_store_grant_check(model, "postgres", bad, 2, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_store_grant_check(model, "sqlite", good, 2, &err));
	WHERRY_PASS(wh_store_grant_ready(db, model, "log", good, 2, &err));
	WHERRY_PASS(wh_store_grant_ready(db, model, NULL, good, 2, &err));
	WHERRY_PASS(wh_store_grant_ready(db, model, "eventferry", NULL, 0, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_store_grant_ready(db, model, "eventferry", good, 2, &err));
	assert_non_null(strstr(err.message, "one of eventferry"));
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wh_store_grant_ready(db, model, NULL, unknown, 1, &err));
	assert_non_null(strstr(err.message, "'nobody there'"));
	wherry_db_close(db);
}

/* The owner of a table can give it triggers, which run with the rights of its users. */
WHERRY_TEST(a_table_that_another_role_has_put_there_is_refused)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = connect();
	char schema[64], table[128];

	(void)snprintf(table, sizeof(table), "%s.outbox",
		       new_schema("shared", schema, sizeof(schema)));
	sql("CREATE ROLE stranger");
	sql("CREATE TABLE \"%s\".wherry_lease (n integer)", schema);
	sql("ALTER TABLE \"%s\".wherry_lease OWNER TO stranger", schema);
	WHERRY_FAILS(WHERRY_DENIED, wherry_outbox_create(db, table, NULL, &err));
	assert_non_null(strstr(err.message, "table wherry_lease in schema shared"));
	assert_non_null(strstr(err.message, "belongs to stranger"));
	sql("DROP OWNED BY stranger");
	sql("DROP ROLE stranger");
	WHERRY_PASS(wherry_outbox_create(db, table, NULL, &err));
	wherry_db_close(db);
}

WHERRY_TEST(a_publication_that_only_the_owner_may_make_is_named)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = connect(), *of_clerk = NULL;
	wherry_outbox *outbox = NULL;
	wh_wal *wal = NULL;
	char schema[64], table[128], as_clerk[160];

	(void)snprintf(table, sizeof(table), "%s.outbox",
		       new_schema("clerks", schema, sizeof(schema)));
	make_debezium(db, schema, "outbox");
	sql("CREATE ROLE clerk LOGIN");
	sql("GRANT ALL ON SCHEMA \"%s\" TO clerk", schema);
	sql("GRANT ALL ON ALL TABLES IN SCHEMA \"%s\" TO clerk", schema);
	(void)snprintf(as_clerk, sizeof(as_clerk), "postgres://clerk@/postgres?host=%s",
		       postgres_folder());
	WHERRY_PASS(wherry_db_open(as_clerk, NULL, &of_clerk, &err));
	WHERRY_PASS(wherry_outbox_open(of_clerk, table, &outbox, &err));
	WHERRY_PASS(wh_wal_open(outbox, "", "", &wal, &err));
	WHERRY_FAILS(WHERRY_DENIED, wh_wal_publish(wal, &err));
	assert_non_null(strstr(err.message, "has to be made by the table's owner"));
	assert_int_equal(err.repair, WHERRY_REPAIR_STREAM);
	assert_int_equal(err.kinds, WHERRY_KIND_OUTBOX);
	wh_wal_close(wal);
	wherry_outbox_close(outbox);
	wherry_db_close(of_clerk);
	wherry_db_close(db);
	sql("DROP OWNED BY clerk");
	sql("DROP ROLE clerk");
}

int main(void)
{
	if (!postgres_start())
		return 0;
	(void)snprintf(url, sizeof(url),
		       "postgres://wherry@/postgres?host=%s&options=-csearch_path%%3D",
		       postgres_folder());
	return wherry_run_tests(NULL, NULL);
}
