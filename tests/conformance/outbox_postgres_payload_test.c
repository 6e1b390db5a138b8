/*
 * How bodies are kept on PostgreSQL, and the settings of the tables.
 */
#include "wherry_test.h"

#include <wherry/subscription.h>
#include <wherry/wherry.h>

#include "outbox/outbox.h"
#include "postgres/server.h"

typedef struct fixture {
	postgres_place place;
	wherry_db *db;
	wherry_outbox *outbox;
	char text[512];
} fixture;

static int make(void **state)
{
	fixture *f = calloc(1, sizeof(*f));
	wherry_error err = WHERRY_ERROR_INIT;

	assert_non_null(f);
	postgres_make(&f->place);
	WHERRY_PASS(wherry_db_open(f->place.url, NULL, &f->db, &err));
	*state = f;
	return 0;
}

static int drop(void **state)
{
	fixture *f = *state;

	wherry_outbox_close(f->outbox);
	wherry_db_close(f->db);
	postgres_drop(&f->place);
	free(f);
	return 0;
}

static const char *ask(fixture *f, const char *sql)
{
	*f->text = 0;
	assert_true(postgres_raw(f->place.url, sql, f->text, sizeof(f->text)));
	return f->text;
}

static void begin(fixture *f, const char *type)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_outbox_make(f->db, &(wh_make){.payload = type}, "outbox", &err));
	WHERRY_PASS(wherry_outbox_open(f->db, "outbox", &f->outbox, &err));
}

static wherry_code put(fixture *f, const char *body, size_t len, wherry_error *err)
{
	wherry_message msg = WHERRY_MESSAGE(.topic = "t", .body = body, .body_len = len);

	return wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL, err);
}

static wherry_code take_body(void *ctx, const wherry_row *row)
{
	fixture *f = ctx;

	(void)snprintf(f->text, sizeof(f->text), "%.*s", (int)row->message->body_len,
		       (const char *)row->message->body);
	return WHERRY_OK;
}

/* Consume one message. */
static void consume(fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	*f->text = 0;
	WHERRY_PASS(wherry_subscription_consume(f->outbox, 1, take_body, f, &n, &err));
	assert_int_equal(n, 1);
}

/* Through everything that moves or shows a body. */
static void lives(fixture *f, const char *body, const char *kept)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(put(f, body, strlen(body), &err));
	WHERRY_PASS(wherry_outbox_show(f->outbox, "1", take_body, f, &err));
	assert_string_equal(f->text, kept);
	consume(f);
	assert_string_equal(f->text, kept);
	*f->text = 0;
	WHERRY_PASS(wherry_outbox_list(f->outbox, &WHERRY_OUTBOX_FILTER(), take_body, f,
				       &err));
	assert_string_equal(f->text, kept);
}

WHERRY_TEST_ON(bodies_are_delivered_as_the_text_of_the_column, fixture *f, make, drop)
{
	static const struct {
		const char *type, *kept;
	} rows[] = {
		{"json", "{\"b\":1,  \"a\":\"\\u00e9\"}"},
		{"jsonb", "{\"a\": \"\xc3\xa9\", \"b\": 1}"},
		{"bytea", "{\"b\":1,  \"a\":\"\\u00e9\"}"},
		{"text", "{\"b\":1,  \"a\":\"\\u00e9\"}"},
		{NULL, "{\"b\":1,  \"a\":\"\\u00e9\"}"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		begin(f, rows[i].type);
		assert_string_equal(ask(f,
					"SELECT string_agg(DISTINCT data_type, ' ') FROM "
					"information_schema.columns WHERE column_name = "
					"'payload' AND table_schema = current_schema()"),
				    rows[i].type ? rows[i].type : "json");
		lives(f, "{\"b\":1,  \"a\":\"\\u00e9\"}", rows[i].kept);
		wherry_outbox_close(f->outbox);
		f->outbox = NULL;
		(void)ask(
			f,
			"DROP TABLE outbox, outbox_progress, outbox_exception; DELETE FROM wherry_schema; "
			"DELETE FROM wherry_lease");
	}
}

WHERRY_TEST_ON(what_is_no_JSON_is_refused_and_told_the_way_out, fixture *f, make, drop)
{
	static const char *const types[] = {"json", "jsonb"};
	static const char *const bad[] = {"", "x", "{", "{\"a\":1}x", "\xff"};

	for (size_t t = 0; t < 2; t++) {
		wherry_error err = WHERRY_ERROR_INIT;

		begin(f, types[t]);
		for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
			WHERRY_FAILS(WHERRY_INVALID,
				     put(f, bad[i], strlen(bad[i]), &err));
			assert_non_null(strstr(err.message, "--payload bytea"));
			assert_non_null(strstr(err.message, types[t]));
		}
		WHERRY_FAILS(WHERRY_INVALID, put(f, "1\0", 2, &err));
		WHERRY_PASS(put(f, "\"hello\"", 7, &err));
		assert_string_equal(ask(f, "SELECT wherry_enqueue('t', '[1]')"), "2");
		assert_string_equal(
			ask(f, "SELECT string_agg(payload::text, ' ' ORDER BY id) "
			       "FROM outbox"),
			"\"hello\" [1]");
		assert_string_equal(
			ask(f,
			    "DO $$BEGIN PERFORM wherry_enqueue('t', 'oops'); EXCEPTION WHEN "
			    "invalid_text_representation THEN IF sqlerrm NOT LIKE "
			    "'%outbox keeps payloads as json%' THEN RAISE; END IF; END$$; "
			    "SELECT count(*) FROM outbox"),
			"2");
		wherry_outbox_close(f->outbox);
		f->outbox = NULL;
		(void)ask(
			f,
			"DROP TABLE outbox, outbox_progress, outbox_exception; DELETE FROM wherry_schema");
	}
}

WHERRY_TEST_ON(text_takes_any_text_and_refuses_other_bytes, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	begin(f, "text");
	lives(f, "not {JSON}: Zo\xc3\xab \\x41", "not {JSON}: Zo\xc3\xab \\x41");
	WHERRY_FAILS(WHERRY_INVALID, put(f, "\xff", 1, &err));
	assert_non_null(strstr(err.message, "--payload bytea"));
	WHERRY_FAILS(WHERRY_INVALID, put(f, "a\0b", 3, &err));
}

/* As a driver in another language, or psql, writes it: a text with escapes. */
WHERRY_TEST_ON(a_literal_with_escapes_is_delivered_as_it_was_written, fixture *f, make,
	       drop)
{
	static const char body[] = "{\"c\":\"Zo\\u00eb\",\"path\":\"C:\\\\101\"}";
	char sql[256];

	begin(f, NULL);
	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO outbox(topic, payload) VALUES ('t', '%s')", body);
	(void)ask(f, sql);
	consume(f);
	assert_string_equal(f->text, body);
	(void)ask(f, "INSERT INTO outbox(topic, payload) "
		     "VALUES ('t', json_build_object('order', 7))");
	consume(f);
	assert_string_equal(f->text, "{\"order\" : 7}");
}

WHERRY_TEST_ON(a_table_keeps_the_type_it_was_made_with, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char *sql = NULL;

	begin(f, "jsonb");
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", NULL, &err));
	WHERRY_PASS(
		wh_outbox_make(f->db, &(wh_make){.payload = "jsonb"}, "outbox", &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_outbox_make(f->db, &(wh_make){.payload = "bytea"},
						    "outbox", &err));
	assert_non_null(strstr(err.message, "jsonb"));
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_outbox_make(f->db, &(wh_make){.payload = "xml"}, "other", &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_outbox_make(f->db, &(wh_make){.payload = ""}, "other", &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_outbox_make_sql("sqlite", &(wh_make){.payload = "jsonb"},
					"outbox", &sql, &err));
	assert_null(sql);
	WHERRY_PASS(wh_outbox_make_sql("postgres", &(wh_make){.payload = "json"},
				       "outbox", &sql, &err));
	assert_non_null(strstr(sql, "payload        json NOT NULL"));
	free(sql);
}

/* What create sets once an operator may change. */
WHERRY_TEST_ON(settings_made_by_hand_stay, fixture *f, make, drop)
{
	static const char options[] =
		"SELECT array_to_string(reloptions, ' ') FROM pg_class "
		"WHERE oid = 'outbox'::regclass";
	wherry_error err = WHERRY_ERROR_INIT;
	char before[sizeof(f->text)];

	begin(f, NULL);
	assert_non_null(strstr(ask(f, options), "autovacuum_analyze_threshold="));
	assert_non_null(strstr(f->text, "autovacuum_analyze_scale_factor="));
	(void)ask(f, "ALTER TABLE outbox SET (fillfactor = 55), SET "
		     "(autovacuum_analyze_threshold = 77)");
	(void)ask(f, "ALTER TABLE outbox RESET (autovacuum_analyze_scale_factor)");
	(void)snprintf(before, sizeof(before), "%s", ask(f, options));
	assert_non_null(strstr(before, "fillfactor=55"));
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", NULL, &err));
	(void)ask(f, "DELETE FROM wherry_schema"); /* as if a version were missing */
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", NULL, &err));
	assert_string_equal(ask(f, options), before);
}

int main(void)
{
	if (!postgres_start())
		return 0;
	return wherry_run_tests(NULL, NULL);
}
