/*
 * Creating outboxes, several of them, and refusing what is none.
 */
#include "outbox_suite.h"

#include "db/driver.h"

/* ---- create ---- */

WHERRY_CASE(create_twice_is_fine_and_keeps_the_messages, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_send_many(f, 3);
	fixture_kill(f, 2);
	WHERRY_PASS(wherry_outbox_pause(f->outbox, &err));
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", &outbox_options, &err));
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", &outbox_options, &err));
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "1 2 3");
	assert_int_equal(fixture_state(f, 2), WHERRY_DEAD);
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM wherry_schema"), 1);
	assert_int_equal(
		fixture_int(f, "SELECT paused_at IS NOT NULL FROM wherry_outbox"), 1);
	assert_int_equal(fixture_send(f, "t", NULL), 4);
}

static int init_and_send(wherry_db *db, int which)
{
	wherry_message msg = WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2);
	wherry_outbox *outbox = NULL;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_outbox_create(db, "fresh", &outbox_options, &err);

	if (code == WHERRY_OK)
		code = wherry_outbox_open(db, "fresh", &outbox, &err);
	if (code == WHERRY_OK)
		code = wherry_outbox_enqueue(outbox, &msg, WHERRY_OWN_TRANSACTION, NULL,
					     &err);
	wherry_outbox_close(outbox);
	if (code != WHERRY_OK)
		print_error("%s: %s\n", wherry_code_name(code), err.message);
	return code != WHERRY_OK;
}

static void at_once(outbox_fixture *f, void (*how)(outbox_fixture *, int, fixture_work))
{
	void *kept = f->place;

	for (int i = 0; i < 5; i++) {
		fixture_close(f);
		f->place = f->backend->make(); /* with nothing in it */
		how(f, 6, init_and_send);
		f->db = fixture_connect(f);
		assert_int_equal(fixture_int(f, "SELECT count(*) FROM fresh"), 6);
		assert_int_equal(fixture_int(f, "SELECT count(*) FROM wherry_schema"), 1);
		fixture_close(f);
		f->backend->drop(f->place);
		f->place = kept;
	}
}

static void processes_may_create_at_once(void **state)
{
	at_once(*state, fixture_processes);
}

static void threads_may_create_at_once(void **state)
{
	at_once(*state, fixture_threads);
}

WHERRY_CASE(init_inside_a_transaction_is_refused, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_create(f->db, "second", &outbox_options, &err));
	assert_non_null(strstr(err.message, "transaction"));
	assert_true(wherry_db_in_transaction(f->db));
	wherry_db_rollback(f->db);
	WHERRY_PASS(wherry_outbox_create(f->db, "second", &outbox_options, &err));
}

WHERRY_CASE(a_table_that_is_no_outbox_is_refused_and_left_alone, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	fixture_raw(
		f,
		"CREATE TABLE events(id INTEGER PRIMARY KEY, topic TEXT, payload TEXT)");
	fixture_raw(f, "INSERT INTO events VALUES (1, 'a', 'b')");
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_create(f->db, "events", &outbox_options, &err));
	assert_non_null(strstr(err.message, "'events'"));
	assert_non_null(strstr(err.message, "message_id"));
	if (!(f->backend->lacks & NEEDS_CASELESS))
		WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_create(f->db, "EVENTS",
								  &outbox_options, &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_open(f->db, "events", &outbox, &err));
	assert_null(outbox);
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM events WHERE topic = 'a'"),
			 1);
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM wherry_schema"), 1);
	fixture_raw(f, "CREATE VIEW seen AS SELECT * FROM outbox");
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_create(f->db, "seen", &outbox_options, &err));
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM wherry_schema"), 1);
}

static void a_table_that_has_the_name_of_one_beside_it_is_refused_and_left_alone(
	void **state)
{
	static const char *const names[] = {"progress", "exception"};
	outbox_fixture *f = *state;
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < 2; i++) {
		fixture_raw(f, "CREATE TABLE shop_%s(id INTEGER PRIMARY KEY, goods TEXT)",
			    names[i]);
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_create(f->db, "shop", &outbox_options, &err));
		assert_non_null(strstr(err.message, names[i]));
		assert_int_equal(fixture_int(f, "SELECT count(*) FROM wherry_schema"), 1);
		fixture_raw(f, "DROP TABLE shop_%s", names[i]);
	}
}

WHERRY_CASE(an_outbox_whose_table_is_gone_can_be_made_again, outbox_fixture *f)
{
	wherry_message msg = WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_send_many(f, 3);
	fixture_kill(f, 1);
	fixture_done(f, 2);
	fixture_raw(f, "DROP TABLE outbox");
	WHERRY_FAILS(WHERRY_NOTFOUND,
		     wherry_outbox_enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL,
					   &err));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_OUTBOX);
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", &outbox_options, &err));
	wherry_outbox_close(
		f->outbox); /* The type of its bodies is another one, perhaps. */
	f->outbox = NULL;
	WHERRY_PASS(wherry_outbox_open(f->db, "outbox", &f->outbox, &err));
	fixture_send_many(f, 2);
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(.states = 1u << WHERRY_PENDING), "1 2");
}

/* ---- names ---- */

WHERRY_CASE(names_that_are_none_are_refused, outbox_fixture *f)
{
	static const char *const bad[] = {
		"",
		"1st",
		"a b",
		"a-b",
		"a.b",
		"a\"b",
		"a'b",
		"a;b",
		"\xc3\xa4",
		"a\n",
		"out box",
		"outbox\"; DROP TABLE outbox; --",
		" outbox",
		"outbox ",
		"a`b",
		"[a]",
		"{table}",
		"$1",
		"x); --",
		"%s",
		"a23456789b23456789c23456789d23456789e234567891234",
		/* 49 */ NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	char *sql = NULL;

	for (int i = 0; bad[i]; i++) {
		const char *name = bad[i];

		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_create(f->db, name, &outbox_options, &err));
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_open(f->db, name, &outbox, &err));
		WHERRY_FAILS(WHERRY_INVALID,
			     wherry_outbox_create_sql(f->db->driver->scheme, name,
						      &outbox_options, &sql, &err));
	}
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_create(f->db, NULL, &outbox_options, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_open(f->db, NULL, &outbox, &err));
	assert_null(outbox);
	assert_null(sql);
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM wherry_schema"), 1);
	assert_int_equal(fixture_count(f), 0);
}

WHERRY_CASE(names_that_sql_uses_itself_are_fine, outbox_fixture *f)
{
	static const char *const good[] = {
		"order", "select", "table",
		"index", "_",      "_1",
		"Group", "x",      "a23456789b23456789c23456789d23456789e23456789f2345",
		NULL};
	wherry_message msg = WHERRY_MESSAGE(.topic = "t", .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; good[i]; i++) {
		char name[49];

		(void)snprintf(name, sizeof(name), "%.48s", good[i]);
		wherry_outbox_close(f->outbox);
		f->outbox = NULL;
		WHERRY_PASS(wherry_outbox_create(f->db, name, &outbox_options, &err));
		WHERRY_PASS(wherry_outbox_open(f->db, name, &f->outbox, &err));
		for (int k = 0; k < 3; k++)
			WHERRY_PASS(wherry_outbox_enqueue(
				f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL, &err));
		fixture_kill(f, 1);
		fixture_done(f, 2);
		fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "1 2 3");
		WHERRY_PASS(wherry_outbox_retry(f->outbox, &WHERRY_OUTBOX_FILTER(), NULL,
						&err));
		fixture_done(f, 3);
		WHERRY_PASS(wherry_outbox_purge(f->outbox, 0, 10, 0, NULL, &err));
		fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "1");
	}
}

WHERRY_CASE(the_shared_tables_are_no_outboxes, outbox_fixture *f)
{
	static const char *const names[] = {"wherry_schema", "wherry_outbox",
					    "wherry_lease", "WHERRY_LEASE", NULL};
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; names[i]; i++)
		WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_create(f->db, names[i],
								  &outbox_options, &err));
	fixture_send(f, "t", NULL);
}

/* ---- several outboxes in one database ---- */

WHERRY_CASE(outboxes_of_one_database_are_independent, outbox_fixture *f)
{
	wherry_message msg = WHERRY_MESSAGE(.topic = "t", .message_id = "same",
					    .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *second = NULL, *first = f->outbox;
	wherry_lease mine, other;
	wherry_outbox_status status;
	int64_t id = 0, n = 0, gone[] = {1, 2};

	WHERRY_PASS(wherry_outbox_create(f->db, "second", &outbox_options, &err));
	WHERRY_PASS(wherry_outbox_open(f->db, "second", &second, &err));
	WHERRY_PASS(
		wherry_outbox_enqueue(first, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	WHERRY_PASS(
		wherry_outbox_enqueue(second, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	msg.message_id = NULL;
	WHERRY_PASS(
		wherry_outbox_enqueue(second, &msg, WHERRY_OWN_TRANSACTION, &id, &err));

	mine = fixture_lease(f, "a");
	WHERRY_PASS(wherry_outbox_lease(second, "b", 60000000, 1, &other, &err));
	assert_int_equal(mine.epoch, 1);
	assert_int_equal(other.epoch, 1);
	assert_int_equal(other.last_open, 2);
	WHERRY_PASS(wherry_outbox_pause(second, &err));
	WHERRY_PASS(wherry_outbox_renew(first, &mine, &err));
	assert_false(mine.paused);
	assert_int_equal(mine.control_version, 0);

	WHERRY_PASS(wherry_outbox_done(second, &other, gone, 2, &n, &err));
	assert_int_equal(n, 2);
	WHERRY_PASS(wherry_outbox_release(second, &other, &err));
	WHERRY_PASS(wherry_outbox_get_status(first, &status, sizeof(wherry_outbox_status),
					     &err));
	assert_int_equal(status.count[WHERRY_PENDING], 1);
	assert_false(status.paused);
	assert_true(status.lease_left_us > 0);
	WHERRY_PASS(wherry_outbox_get_status(second, &status,
					     sizeof(wherry_outbox_status), &err));
	assert_true(status.paused);
	assert_int_equal(status.lease_left_us, 0);
	wherry_outbox_close(second);
}

WHERRY_CASE(a_lease_on_one_is_none_on_another, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *second = NULL;
	wherry_lease lease = fixture_lease(f, "a");

	WHERRY_PASS(wherry_outbox_create(f->db, "second", &outbox_options, &err));
	WHERRY_PASS(wherry_outbox_open(f->db, "second", &second, &err));
	WHERRY_FAILS(WHERRY_STALE, wherry_outbox_renew(second, &lease, &err));
	assert_non_null(strstr(err.message, "'second'"));
	wherry_outbox_close(second);
}

WHERRY_CASE(a_name_in_other_letters_is_the_same_outbox, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *again = NULL;
	wherry_lease lease = fixture_lease(f, "a"), other;
	int64_t id = fixture_send(f, "t", NULL), n = 0;

	WHERRY_PASS(wherry_outbox_create(f->db, "OutBox", &outbox_options, &err));
	WHERRY_PASS(wherry_outbox_open(f->db, "OUTBOX", &again, &err));
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM wherry_schema"), 1);
	WHERRY_FAILS(WHERRY_BUSY,
		     wherry_outbox_lease(again, "b", 60000000, 1, &other, &err));
	WHERRY_PASS(wherry_outbox_pause(again, &err));
	WHERRY_PASS(wherry_outbox_renew(f->outbox, &lease, &err));
	assert_true(lease.paused);
	WHERRY_PASS(wherry_outbox_done(again, &lease, &id, 1, &n, &err));
	assert_int_equal(n, 1);
	wherry_outbox_close(again);
}

/* ---- what is there ---- */

WHERRY_CASE(an_outbox_that_is_not_there_names_wherry_init, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	void *kept = f->place;

	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_open(f->db, "nope", &outbox, &err));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_OUTBOX);
	assert_non_null(strstr(err.message, "nope"));
	assert_null(outbox);
	fixture_close(f);
	f->place = f->backend->make(); /* not even the shared tables */
	f->db = fixture_connect(f);
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_outbox_open(f->db, "outbox", &outbox, &err));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_OUTBOX);
	fixture_close(f);
	f->backend->drop(f->place);
	f->place = kept;
}

WHERRY_CASE(a_schema_that_needs_a_newer_program_is_refused, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;

	/* a newer schema that we may still use */
	fixture_raw(f, "UPDATE wherry_schema SET version = 7");
	WHERRY_PASS(wherry_outbox_open(f->db, "outbox", &outbox, &err));
	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", &outbox_options, &err));
	wherry_outbox_close(outbox);
	outbox = NULL;
	assert_int_equal(fixture_int(f, "SELECT version FROM wherry_schema"), 7);

	fixture_raw(f, "UPDATE wherry_schema SET min_program = %d",
		    WHERRY_VERSION_NUM + 1);
	WHERRY_FAILS(WHERRY_TOONEW, wherry_outbox_open(f->db, "outbox", &outbox, &err));
	assert_non_null(strstr(err.message, "version 7"));
	assert_non_null(strstr(err.message, WHERRY_VERSION));
	assert_non_null(strstr(err.message, "0.1.1"));
	WHERRY_FAILS(WHERRY_TOONEW,
		     wherry_outbox_create(f->db, "outbox", &outbox_options, &err));
	assert_null(outbox);
	assert_false(wherry_db_in_transaction(f->db));
	WHERRY_PASS(wherry_outbox_create(f->db, "second", &outbox_options,
					 &err)); /* that one is ours */
}

WHERRY_CASE(the_sql_of_create_makes_an_outbox_and_can_be_run_again, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *first = f->outbox;
	char *sql = NULL;

	WHERRY_PASS(wherry_outbox_create_sql(f->db->driver->scheme, "second",
					     &outbox_options, &sql, &err));
	assert_true(f->backend->raw(f->place, f->db, sql, NULL, 0));
	WHERRY_PASS(wherry_outbox_open(f->db, "second", &f->outbox, &err));
	wherry_outbox_close(first);
	fixture_send_many(f, 2);
	assert_true(f->backend->raw(f->place, f->db, sql, NULL, 0));
	WHERRY_PASS(wherry_outbox_create(f->db, "second", &outbox_options, &err));
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "1 2");
	free(sql);
}

WHERRY_CASE(missing_arguments_are_refused, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	char *sql = NULL;

	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_create(NULL, "outbox", NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_open(NULL, "outbox", &outbox, &err));
	WHERRY_FAILS(WHERRY_INVALID, wherry_outbox_open(f->db, "outbox", NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     wherry_outbox_create_sql(NULL, "outbox", NULL, &sql, &err));
	WHERRY_FAILS(WHERRY_UNSUPPORTED,
		     wherry_outbox_create_sql("oracle", "outbox", NULL, &sql, &err));
	assert_null(sql);
	wherry_outbox_close(NULL);
}

const outbox_case outbox_schema_cases[] = {
	CASE(create_twice_is_fine_and_keeps_the_messages),
	CASE_OF_SEVERAL(processes_may_create_at_once),
	CASE_OF_SEVERAL(threads_may_create_at_once),
	CASE(init_inside_a_transaction_is_refused),
	CASE(a_table_that_is_no_outbox_is_refused_and_left_alone),
	CASE(a_table_that_has_the_name_of_one_beside_it_is_refused_and_left_alone),
	CASE(an_outbox_whose_table_is_gone_can_be_made_again),
	CASE_THAT_NEEDS(names_that_are_none_are_refused, NEEDS_IDENTS),
	CASE(names_that_sql_uses_itself_are_fine),
	CASE(the_shared_tables_are_no_outboxes),
	CASE(outboxes_of_one_database_are_independent),
	CASE(a_lease_on_one_is_none_on_another),
	CASE_THAT_NEEDS(a_name_in_other_letters_is_the_same_outbox, NEEDS_CASELESS),
	CASE(an_outbox_that_is_not_there_names_wherry_init),
	CASE(a_schema_that_needs_a_newer_program_is_refused),
	CASE(the_sql_of_create_makes_an_outbox_and_can_be_run_again),
	CASE(missing_arguments_are_refused),
	{NULL, NULL, 0},
};
