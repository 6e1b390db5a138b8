#include "inbox_suite.h"

#include "inbox/groups.h"

static const inbox_calls library = {
	.accept = wherry_inbox_accept,
	.accept_many = wherry_inbox_accept_many,
};

/* Those of the back end whose case runs. */
static inbox_calls does;

/* The state of every test: an inbox named "inbox", and a table "seen" of the consumer's. */
typedef struct inbox_fixture {
	const outbox_backend *backend;
	void *place;
	wherry_db *db;
	wherry_inbox *inbox;
} inbox_fixture;

static void raw(inbox_fixture *f, const char *sql)
{
	if (!f->backend->raw(f->place, f->db, sql, NULL, 0)) {
		print_error("%s\n", sql);
		fail();
	}
}

static long long number(inbox_fixture *f, const char *sql)
{
	char text[64] = "";

	if (!f->backend->raw(f->place, f->db, sql, text, sizeof(text))) {
		print_error("%s\n", sql);
		fail();
	}
	return strtoll(text, NULL, 10);
}

static int make_owner(void **state)
{
	inbox_fixture *f = calloc(1, sizeof(*f));
	wherry_error err = WHERRY_ERROR_INIT;

	assert_non_null(f);
	f->backend = *state;
	does = f->backend->inbox ? *f->backend->inbox : library;
	f->place = f->backend->make();
	f->db = f->backend->connect(f->place);
	assert_non_null(f->db);
	WHERRY_PASS(wherry_inbox_create(f->db, NULL, &err));
	WHERRY_PASS(wherry_inbox_open(f->db, NULL, &f->inbox, &err));
	raw(f, "CREATE TABLE seen(id integer)");
	*state = f;
	return 0;
}

/* Who does not own the tables has what `--grant` gives. */
static int make(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	inbox_fixture *f;

	(void)make_owner(state);
	f = *state;
	if (!f->backend->lower)
		return 0;
	f->backend->lower(f->place, &wh_inbox_model, "inbox");
	wherry_inbox_close(f->inbox);
	assert_true(f->backend->disconnect(f->db));
	f->db = f->backend->connect(f->place);
	assert_non_null(f->db);
	WHERRY_PASS(wherry_inbox_open(f->db, NULL, &f->inbox, &err));
	return 0;
}

static int drop(void **state)
{
	inbox_fixture *f = *state;

	wherry_inbox_close(f->inbox);
	assert_true(f->backend->disconnect(f->db));
	f->backend->drop(f->place);
	free(f);
	return 0;
}

/* Accept in the open transaction. */
static bool accept(inbox_fixture *f, const char *consumer, const char *id)
{
	wherry_error err = WHERRY_ERROR_INIT;
	bool new = false;

	WHERRY_PASS(does.accept(f->inbox, consumer, id, &new, &err));
	return new;
}

static void begin(inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
}

static void commit(inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_commit(f->db, &err));
}

/* Accept in a transaction that is committed. */
static bool accepted(inbox_fixture *f, const char *consumer, const char *id)
{
	bool new;

	begin(f);
	new = accept(f, consumer, id);
	commit(f);
	return new;
}

WHERRY_CASE(a_message_is_new_once_and_then_seen, inbox_fixture *f)
{
	assert_true(accepted(f, NULL, "m1"));
	assert_false(accepted(f, NULL, "m1"));
	assert_true(accepted(f, NULL, "m2"));
	begin(f);
	assert_true(accept(f, NULL, "m3"));
	assert_false(accept(f, NULL, "m3"));
	commit(f);
	assert_int_equal(number(f, "SELECT count(*) FROM inbox"), 3);
}

WHERRY_CASE(a_rollback_makes_a_message_new_again, inbox_fixture *f)
{
	begin(f);
	assert_true(accept(f, NULL, "m1"));
	wherry_db_rollback(f->db);
	assert_int_equal(number(f, "SELECT count(*) FROM inbox"), 0);
	assert_true(accepted(f, NULL, "m1"));
}

WHERRY_CASE(consumers_share_an_inbox_and_not_their_messages, inbox_fixture *f)
{
	assert_true(accepted(f, "billing", "m1"));
	assert_true(accepted(f, "shipping", "m1"));
	assert_true(accepted(f, NULL, "m1"));
	assert_false(accepted(f, "", "m1"));
	assert_false(accepted(f, "billing", "m1"));
}

/* Bytes, not what a collation calls equal. */
WHERRY_CASE(ids_compare_byte_for_byte, inbox_fixture *f)
{
	assert_true(accepted(f, NULL, "a"));
	assert_true(accepted(f, NULL, "A"));
	assert_true(accepted(f, NULL, "a "));
	assert_true(accepted(f, NULL, "\xc3\xab"));
	assert_true(accepted(f, NULL, "e\xcc\x88"));
	assert_true(accepted(f, NULL, "'; DROP TABLE inbox; --"));
	assert_false(accepted(f, NULL, "'; DROP TABLE inbox; --"));
	assert_false(accepted(f, NULL, "\xc3\xab"));
}

WHERRY_CASE(a_message_is_accepted_in_a_transaction_only, inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *ids[] = {"m1"};
	bool new = true;

	WHERRY_FAILS(WHERRY_INVALID, does.accept(f->inbox, NULL, "m1", &new, &err));
	assert_non_null(strstr(err.message, "no transaction is open"));
	WHERRY_FAILS(WHERRY_INVALID,
		     does.accept_many(f->inbox, NULL, ids, 1, &new, &err));
	assert_true(new); /* outputs are untouched on failure */
	assert_int_equal(number(f, "SELECT count(*) FROM inbox"), 0);
}

WHERRY_CASE(ids_and_consumers_have_limits, inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char most[1026], consumer[257];
	bool new = false;

	memset(most, 'm', sizeof(most));
	memset(consumer, 'c', sizeof(consumer));
	most[1025] = consumer[256] = 0;
	begin(f);
	WHERRY_FAILS(WHERRY_TOOBIG, does.accept(f->inbox, NULL, most, &new, &err));
	WHERRY_FAILS(WHERRY_TOOBIG, does.accept(f->inbox, consumer, "m", &new, &err));
	WHERRY_FAILS(WHERRY_INVALID, does.accept(f->inbox, NULL, "", &new, &err));
	WHERRY_FAILS(WHERRY_INVALID, does.accept(f->inbox, NULL, NULL, &new, &err));
	WHERRY_FAILS(WHERRY_INVALID, does.accept(f->inbox, NULL, "\xff\xfe", &new, &err));
	most[1024] = consumer[255] = 0;
	assert_true(accept(f, consumer, most)); /* the transaction is intact */
	commit(f);
	assert_false(accepted(f, consumer, most));
}

WHERRY_CASE(many_are_accepted_at_once, inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	const char *const ids[] = {"z", "b\"\\", "a", "b\"\\", "\xc3\xab", "y"};
	const bool wanted[] = {true, true, false, false, true, true};
	const char *const wrong[] = {"x", "", "w"};
	bool new[6] = {false};

	assert_true(accepted(f, "c", "a"));
	begin(f);
	WHERRY_PASS(does.accept_many(f->inbox, "c", ids, 6, new, &err));
	assert_memory_equal(new, wanted, sizeof(wanted));
	WHERRY_PASS(does.accept_many(f->inbox, "c", ids, 6, new, &err));
	for (int i = 0; i < 6; i++)
		assert_false(new[i]);
	WHERRY_PASS(does.accept_many(f->inbox, "c", NULL, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     does.accept_many(f->inbox, "c", wrong, 3, new, &err));
	assert_non_null(strstr(err.message, "message 1"));
	commit(f);
	assert_int_equal(number(f, "SELECT count(*) FROM inbox"), 5);
}

WHERRY_CASE(many_of_a_thousand_say_each_which_is_new, inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	static char texts[1000][16];
	const char *ids[1000];
	bool new[1000];

	for (int i = 0; i < 1000; i++) {
		(void)snprintf(texts[i], sizeof(texts[i]), "m%d", (i * 7919) % 1000);
		ids[i] = texts[i];
	}
	begin(f);
	WHERRY_PASS(does.accept_many(f->inbox, NULL, ids, 500, new, &err));
	WHERRY_PASS(does.accept_many(f->inbox, NULL, ids, 1000, new, &err));
	commit(f);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(new[i], i >= 500);
}

WHERRY_CASE(a_forgotten_message_is_new_again, inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	assert_true(accepted(f, "c", "m1"));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_inbox_forget(f->inbox, NULL, "m1", &err));
	WHERRY_PASS(wherry_inbox_forget(f->inbox, "c", "m1", &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_inbox_forget(f->inbox, "c", "m1", &err));
	assert_true(accepted(f, "c", "m1"));
}

WHERRY_CASE(a_purge_deletes_what_is_old_and_nothing_else, inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = -1, oldest = -1;
	char id[16];

	WHERRY_PASS(wherry_inbox_count(f->inbox, &n, &oldest, &err));
	assert_int_equal(n, 0);
	assert_int_equal(oldest, 0);
	for (int i = 0; i < 5; i++) {
		(void)snprintf(id, sizeof(id), "m%d", i);
		assert_true(accepted(f, NULL, id));
	}
	raw(f, "UPDATE inbox SET accepted_at = accepted_at - 3600000 WHERE message_id < "
	       "'m3'");
	WHERRY_PASS(wherry_inbox_count(f->inbox, &n, &oldest, &err));
	assert_int_equal(n, 5);
	assert_in_range(oldest, 3600000000, 3700000000);
	WHERRY_PASS(wherry_inbox_purge(f->inbox, 7200000000, 10, 0, &n, &err));
	assert_int_equal(n, 0);
	WHERRY_PASS(wherry_inbox_purge(f->inbox, 1800000000, 2, 0, &n, &err));
	assert_int_equal(n, 3);
	assert_true(accepted(f, NULL, "m1"));
	assert_false(accepted(f, NULL, "m3"));
	begin(f);
	WHERRY_FAILS(WHERRY_INVALID, wherry_inbox_purge(f->inbox, 0, 2, 0, &n, &err));
	commit(f);
}

WHERRY_CASE(an_inbox_has_its_own_name, inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_inbox *other = NULL;
	bool new = false;

	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_inbox_open(f->db, "other", &other, &err));
	assert_int_equal(err.repair, WHERRY_REPAIR_CREATE);
	assert_int_equal(err.kinds, WHERRY_KIND_INBOX);
	WHERRY_PASS(wherry_inbox_create(f->db, "other", &err));
	WHERRY_PASS(wherry_inbox_create(f->db, "other", &err));
	WHERRY_PASS(wherry_inbox_open(f->db, "other", &other, &err));
	assert_true(accepted(f, NULL, "m1"));
	begin(f);
	WHERRY_PASS(does.accept(other, NULL, "m1", &new, &err));
	commit(f);
	assert_true(new);
	wherry_inbox_close(other);
}

WHERRY_CASE(a_table_that_is_no_inbox_is_refused, inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_inbox *other = NULL;

	WHERRY_FAILS(WHERRY_INVALID, wherry_inbox_create(f->db, "seen", &err));
	WHERRY_FAILS(WHERRY_NOTFOUND, wherry_inbox_open(f->db, "seen", &other, &err));
	assert_null(other);
}

WHERRY_CASE(the_last_model_that_is_dropped_leaves_nothing, inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_inbox *other = NULL;

	WHERRY_PASS(wherry_inbox_create(f->db, "other", &err));
	WHERRY_PASS(wherry_inbox_open(f->db, "other", &other, &err));
	WHERRY_PASS(wherry_inbox_drop(f->inbox, &err));
	assert_int_equal(number(f, "SELECT count(*) FROM wherry_schema"), 1);
	assert_int_equal(number(f, "SELECT count(*) FROM other"), 0);
	WHERRY_PASS(wherry_inbox_drop(other, &err));
	wherry_inbox_close(other);
	/* Nothing is in the way of tables of these names. */
	raw(f, "CREATE TABLE inbox(a integer)");
	raw(f, "CREATE TABLE wherry_schema(a integer)");
	raw(f, "CREATE TABLE wherry_clock(a integer)");
}

/* An inbox and an outbox stand side by side, whichever goes first. */
WHERRY_CASE(an_inbox_stands_beside_an_outbox_and_a_queue, inbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;

	WHERRY_PASS(wherry_outbox_create(f->db, "outbox", NULL, &err));
	WHERRY_PASS(wherry_queue_create(f->db, "jobs", NULL, &err));
	assert_true(accepted(f, NULL, "m1"));
	WHERRY_PASS(wherry_queue_open(f->db, "jobs", &queue, &err));
	WHERRY_PASS(wherry_inbox_drop(f->inbox, &err));
	WHERRY_PASS(wherry_queue_drop(queue, &err));
	wherry_queue_close(queue);
	assert_int_equal(number(f, "SELECT count(*) FROM outbox"), 0);
	assert_int_equal(number(f, "SELECT count(*) FROM wherry_schema"), 1);
}

typedef struct inbox_case {
	const char *name;
	void (*run)(void **state);
	unsigned needs;
} inbox_case;

#define CASE_OF(run)                                                                     \
	{                                                                                \
#run, run, 0                                                             \
	}

static const inbox_case cases[] = {
	CASE_OF(a_message_is_new_once_and_then_seen),
	CASE_OF(a_rollback_makes_a_message_new_again),
	CASE_OF(consumers_share_an_inbox_and_not_their_messages),
	CASE_OF(ids_compare_byte_for_byte),
	CASE_OF(a_message_is_accepted_in_a_transaction_only),
	CASE_OF(ids_and_consumers_have_limits),
	CASE_THAT_NEEDS(many_are_accepted_at_once, NEEDS_ESCAPES),
	CASE_OF(many_of_a_thousand_say_each_which_is_new),
	CASE_OF(a_forgotten_message_is_new_again),
	CASE_OF(a_purge_deletes_what_is_old_and_nothing_else),
	CASE_THAT_NEEDS(an_inbox_has_its_own_name, NEEDS_OWNER),
	CASE_THAT_NEEDS(a_table_that_is_no_inbox_is_refused, NEEDS_OWNER),
	CASE_THAT_NEEDS(the_last_model_that_is_dropped_leaves_nothing, NEEDS_OWNER),
	CASE_THAT_NEEDS(an_inbox_stands_beside_an_outbox_and_a_queue,
			NEEDS_MODELS | NEEDS_OWNER),
};

int inbox_suite_run(const outbox_backend *const *backends, size_t n_backends,
		    const struct CMUnitTest *more, size_t n_more)
{
	enum { N_CASES = sizeof(cases) / sizeof(*cases) };
	static struct CMUnitTest tests[100];
	static char names[100][120];
	size_t n = 0;

	for (size_t b = 0; b < n_backends; b++)
		for (size_t i = 0; i < N_CASES; i++) {
			if (cases[i].needs & backends[b]->lacks ||
			    (backends[b]->inbox &&
			     suite_skips(backends[b]->inbox->skips, cases[i].name)))
				continue;
			(void)snprintf(names[n], sizeof(names[n]), "%s: %s",
				       backends[b]->name, cases[i].name);
			tests[n] = (struct CMUnitTest){
				names[n], cases[i].run,
				cases[i].needs & NEEDS_OWNER ? make_owner : make, drop,
				(void *)(uintptr_t)backends[b]};
			n++;
		}
	n = wherry_test_part(tests, n);
	for (size_t i = 0; i < n_more; i++)
		tests[n++] = more[i];
	return wherry_run_group("inbox", tests, n, NULL, NULL);
}
