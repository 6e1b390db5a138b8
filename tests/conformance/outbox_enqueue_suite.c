/*
 * Enqueue: part of the caller's transaction, whatever happens to it.
 */
#include "outbox_suite.h"

#include <ctype.h>

#include "base/env.h"

#define M(...) WHERRY_MESSAGE(__VA_ARGS__, .body = "{}", .body_len = 2)

static void make_business(outbox_fixture *f)
{
	fixture_raw(f, "CREATE TABLE business(id INTEGER PRIMARY KEY)");
}

static int64_t business(outbox_fixture *f)
{
	return fixture_int(f, "SELECT count(*) FROM business");
}

/* ---- the transaction ---- */

WHERRY_CASE(a_committed_enqueue_is_there, outbox_fixture *f)
{
	wherry_message msg = M(.topic = "orders");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;

	make_business(f);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	fixture_app(f, "INSERT INTO business VALUES (1)");
	WHERRY_PASS(outbox_does.enqueue(f->outbox, &msg, 0, &id, &err));
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	assert_int_equal(business(f), 1);
	assert_int_equal(fixture_int(f, "SELECT id FROM outbox"), id);
}

WHERRY_CASE(a_rolled_back_enqueue_never_existed, outbox_fixture *f)
{
	wherry_message msg = M(.topic = "orders", .message_id = "m");
	wherry_error err = WHERRY_ERROR_INIT;

	make_business(f);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	fixture_app(f, "INSERT INTO business VALUES (1)");
	WHERRY_PASS(outbox_does.enqueue(f->outbox, &msg, 0, NULL, &err));
	wherry_db_rollback(f->db);
	assert_int_equal(business(f), 0);
	assert_int_equal(fixture_count(f), 0);
	/* not even as a duplicate */
	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL, &err));
}

WHERRY_CASE(closing_the_connection_takes_back_what_was_not_committed, outbox_fixture *f)
{
	wherry_message msg = M(.topic = "orders");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_PASS(outbox_does.enqueue(f->outbox, &msg, 0, NULL, &err));
	fixture_reopen(f);
	assert_int_equal(fixture_count(f), 0);
}

WHERRY_CASE(enqueue_outside_a_transaction_is_refused_and_says_why, outbox_fixture *f)
{
	wherry_message msg = M(.topic = "orders");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = -7;

	WHERRY_FAILS(WHERRY_INVALID, outbox_does.enqueue(f->outbox, &msg, 0, &id, &err));
	assert_non_null(strstr(err.message, "transaction"));
	assert_non_null(strstr(err.message, "WHERRY_OWN_TRANSACTION"));
	assert_int_equal(id, -7);
	WHERRY_FAILS(WHERRY_INVALID,
		     outbox_does.enqueue_many(f->outbox, &msg, 1, 0, &id, &err));
	assert_int_equal(id, -7);
	assert_int_equal(fixture_count(f), 0);
}

WHERRY_CASE(with_its_own_transaction_enqueue_commits_by_itself, outbox_fixture *f)
{
	wherry_message msg = M(.topic = "orders");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL, &err));
	assert_false(wherry_db_in_transaction(f->db));
	assert_int_equal(fixture_count(f), 1);
}

WHERRY_CASE(asking_for_a_transaction_joins_the_one_that_is_open, outbox_fixture *f)
{
	wherry_message msg = M(.topic = "orders");
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL, &err));
	WHERRY_PASS(outbox_does.enqueue_many(f->outbox, &msg, 1, WHERRY_OWN_TRANSACTION,
					     NULL, &err));
	assert_true(wherry_db_in_transaction(f->db));
	wherry_db_rollback(f->db);
	assert_int_equal(fixture_count(f), 0);
}

WHERRY_CASE(ids_grow, outbox_fixture *f)
{
	int64_t last = 0;

	for (int i = 0; i < 20; i++) {
		int64_t id = fixture_send(f, "orders", NULL);

		assert_true(id > last);
		last = id;
		if (i % 3 == 0)
			fixture_raw(f, "DELETE FROM outbox"); /* ids are not used again */
	}
}

/* ---- duplicates ---- */

WHERRY_CASE(a_duplicate_message_id_leaves_the_transaction_intact, outbox_fixture *f)
{
	wherry_message first = M(.topic = "orders", .message_id = "a"),
		       other = M(.topic = "orders", .message_id = "b");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = -7;

	make_business(f);
	WHERRY_PASS(outbox_does.enqueue(f->outbox, &first, WHERRY_OWN_TRANSACTION, NULL,
					&err));
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	fixture_app(f, "INSERT INTO business VALUES (1)");
	WHERRY_FAILS(WHERRY_DUPLICATE,
		     outbox_does.enqueue(f->outbox, &first, 0, &id, &err));
	assert_int_equal(id, -7);
	assert_non_null(strstr(err.message, "'a'"));
	WHERRY_PASS(outbox_does.enqueue(f->outbox, &other, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_DUPLICATE,
		     outbox_does.enqueue(f->outbox, &other, 0, &id, &err));
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	assert_int_equal(business(f), 1);
	assert_int_equal(fixture_count(f), 2);
}

WHERRY_CASE(a_duplicate_changes_nothing_of_the_message_that_is_there, outbox_fixture *f)
{
	wherry_message msg = M(.topic = "orders", .message_id = "a"),
		       again = M(.topic = "other", .message_id = "a");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;

	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	fixture_done(f, id);
	WHERRY_FAILS(WHERRY_DUPLICATE,
		     outbox_does.enqueue(f->outbox, &again, WHERRY_OWN_TRANSACTION, NULL,
					 &err));
	assert_false(wherry_db_in_transaction(f->db));
	assert_int_equal(fixture_state(f, id), WHERRY_DONE);
	assert_string_equal(fixture_text(f, "SELECT topic FROM outbox"), "orders");
}

static void what_the_application_s_triggers_insert_is_not_mistaken_for_the_message(
	void **state)
{
	outbox_fixture *f = *state;
	wherry_message msg = M(.topic = "orders", .message_id = "a");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;

	fixture_raw(f, "CREATE TABLE audit(id INTEGER PRIMARY KEY, name TEXT)");
	fixture_raw(f, "INSERT INTO audit VALUES (1000, '')");
	fixture_raw(f, "CREATE TRIGGER before BEFORE INSERT ON outbox BEGIN INSERT INTO "
		       "audit(name) VALUES ('before'); END");
	fixture_raw(f, "CREATE TRIGGER after AFTER INSERT ON outbox BEGIN INSERT INTO "
		       "audit(name) VALUES (new.message_id); END");
	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	assert_string_equal(fixture_text(f,
					 "SELECT message_id FROM outbox WHERE id = %lld",
					 (long long)id),
			    "a");
	WHERRY_FAILS(
		WHERRY_DUPLICATE,
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, NULL, &err));
	assert_int_equal(fixture_count(f), 1);
}

WHERRY_CASE(message_ids_are_compared_byte_for_byte, outbox_fixture *f)
{
	static const char *const ids[] = {"a", "A", "a ", " a", "\xc3\xa4", "a\xcc\x88"};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++) {
		wherry_message msg = M(.topic = "orders", .message_id = ids[i]);

		WHERRY_PASS(outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION,
						NULL, &err));
	}
}

/* ---- many ---- */

WHERRY_CASE(many_are_added_in_the_order_given, outbox_fixture *f)
{
	wherry_message msgs[] = {M(.topic = "one"), M(.topic = "two"),
				 M(.topic = "three")};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t ids[3];

	WHERRY_PASS(outbox_does.enqueue_many(f->outbox, msgs, 3, WHERRY_OWN_TRANSACTION,
					     ids, &err));
	assert_true(ids[0] < ids[1] && ids[1] < ids[2]);
	assert_string_equal(fixture_text(f, "SELECT topic FROM outbox WHERE id = %lld",
					 (long long)ids[2]),
			    "three");
	WHERRY_PASS(outbox_does.enqueue_many(f->outbox, msgs, 3, WHERRY_OWN_TRANSACTION,
					     NULL, &err));
	assert_int_equal(fixture_count(f), 6);
}

WHERRY_CASE(none_of_many_is_fine, outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(outbox_does.enqueue_many(f->outbox, NULL, 0, 0, NULL, &err));
	WHERRY_PASS(outbox_does.enqueue_many(f->outbox, NULL, 0, WHERRY_OWN_TRANSACTION,
					     NULL, &err));
	assert_int_equal(fixture_count(f), 0);
}

WHERRY_CASE(duplicates_among_many_are_passed_over_with_id_0, outbox_fixture *f)
{
	wherry_message msgs[] = {
		M(.topic = "t", .message_id = "a"), M(.topic = "t", .message_id = "b"),
		M(.topic = "t", .message_id = "a"), M(.topic = "t", .message_id = "c")};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t ids[4] = {-7, -7, -7, -7};

	WHERRY_PASS(outbox_does.enqueue(f->outbox, &msgs[1], WHERRY_OWN_TRANSACTION, NULL,
					&err));
	WHERRY_PASS(outbox_does.enqueue_many(f->outbox, msgs, 4, WHERRY_OWN_TRANSACTION,
					     ids, &err));
	assert_true(ids[0] > 0 && ids[3] > ids[0]);
	assert_int_equal(ids[1], 0);
	assert_int_equal(ids[2], 0);
	assert_int_equal(fixture_count(f), 3);
}

WHERRY_CASE(many_are_all_or_none_in_a_transaction_of_their_own, outbox_fixture *f)
{
	wherry_message msgs[] = {M(.topic = "t"), M(.topic = "t"), M(.topic = "")};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t ids[3] = {-7, -7, -7};

	WHERRY_FAILS(WHERRY_INVALID,
		     outbox_does.enqueue_many(f->outbox, msgs, 3, WHERRY_OWN_TRANSACTION,
					      ids, &err));
	assert_non_null(strstr(err.message, "message 2"));
	assert_false(wherry_db_in_transaction(f->db));
	assert_int_equal(fixture_count(f), 0);
	assert_true(ids[0] == -7 && ids[1] == -7 && ids[2] == -7);
}

WHERRY_CASE(many_are_all_or_none_in_the_caller_s_transaction, outbox_fixture *f)
{
	wherry_message msgs[] = {M(.topic = "t"), M(.topic = "t"), M(.topic = "")},
		       earlier = M(.topic = "earlier");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t ids[3] = {-7, -7, -7};

	make_business(f);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	fixture_app(f, "INSERT INTO business VALUES (1)");
	WHERRY_PASS(outbox_does.enqueue(f->outbox, &earlier, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_INVALID,
		     outbox_does.enqueue_many(f->outbox, msgs, 3, 0, ids, &err));
	assert_true(ids[0] == -7 && ids[1] == -7 && ids[2] == -7);
	assert_true(wherry_db_in_transaction(f->db));
	fixture_app(f, "INSERT INTO business VALUES (2)");
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	assert_int_equal(business(f), 2);
	assert_int_equal(fixture_count(f), 1);
	assert_string_equal(fixture_text(f, "SELECT topic FROM outbox"), "earlier");
}

/* ---- producers in other languages ---- */

WHERRY_CASE(a_plain_insert_of_topic_and_payload_is_a_message, outbox_fixture *f)
{
	int64_t before = wh_now(&wh_env_system) / 1000, after, created;
	const char *uuid;

	fixture_raw(f,
		    "INSERT INTO outbox(topic, payload) VALUES ('orders', '{\"a\":1}')");
	after = wh_now(&wh_env_system) / 1000;
	created = fixture_int(f, "SELECT created_at FROM outbox");
	assert_in_range((uint64_t)created, (uint64_t)before - 2, (uint64_t)after + 2);
	assert_int_equal(
		fixture_int(
			f,
			"SELECT count(*) FROM outbox WHERE status = 0 AND attempts = 0 "
			"AND aggregate_type = '' AND aggregate_id = '' AND "
			"partition_key IS NULL AND headers = '{}' AND trace_id IS NULL "
			"AND claimed_at IS NULL AND claim_token IS NULL AND "
			"next_retry_at IS NULL AND processed_at IS NULL AND last_error "
			"IS NULL"),
		1);

	uuid = fixture_text(f, "SELECT message_id FROM outbox");
	assert_int_equal(strlen(uuid), 36);
	for (int i = 0; i < 36; i++) {
		if (i == 8 || i == 13 || i == 18 || i == 23)
			assert_int_equal(uuid[i], '-');
		else
			assert_true(isxdigit((unsigned char)uuid[i]));
	}
	assert_int_equal(uuid[14], '7');
	assert_non_null(strchr("89ab", uuid[19]));
	/* its first 48 bits are the time */
	assert_in_range(
		(uint64_t)(strtoll(uuid, NULL, 16) << 16 | strtoll(uuid + 9, NULL, 16)),
		(uint64_t)created - 1, (uint64_t)created + 1);
}

WHERRY_CASE(a_message_made_here_has_a_uuid_of_the_same_kind, outbox_fixture *f)
{
	int64_t created;
	const char *uuid;

	fixture_send(f, "orders", NULL);
	created = fixture_int(f, "SELECT created_at FROM outbox");
	uuid = fixture_text(f, "SELECT message_id FROM outbox");
	assert_int_equal(strlen(uuid), 36);
	assert_int_equal(uuid[14], '7');
	assert_non_null(strchr("89ab", uuid[19]));
	assert_in_range(
		(uint64_t)(strtoll(uuid, NULL, 16) << 16 | strtoll(uuid + 9, NULL, 16)),
		(uint64_t)created - 1000, (uint64_t)created + 1000);
}

WHERRY_CASE(every_plain_insert_gets_an_id_of_its_own, outbox_fixture *f)
{
	for (int i = 0; i < 20; i++)
		fixture_raw(f,
			    "INSERT INTO outbox(topic, payload) VALUES ('a', ''), ('b', "
			    "''), ('c', ''), ('d', ''), ('e', '')");
	assert_int_equal(fixture_int(f, "SELECT count(DISTINCT message_id) FROM outbox"),
			 100);
}

WHERRY_CASE(a_plain_insert_is_delivered_like_any_other, outbox_fixture *f)
{
	wherry_lease lease;
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id, n = 0;

	fixture_raw(f, "INSERT INTO outbox(topic, payload) VALUES ('orders', '')");
	id = fixture_int(f, "SELECT id FROM outbox");
	lease = fixture_lease(f, "a");
	assert_int_equal(lease.last_open, id);
	WHERRY_PASS(wherry_outbox_done(f->outbox, &lease, &id, 1, &n, &err));
	assert_int_equal(n, 1);
}

/* ---- others who write, and databases that cannot be written ---- */

static int send_hundred(wherry_db *db, int which)
{
	char topic[16];
	wherry_outbox *outbox = NULL;
	int failed = 0;

	(void)snprintf(topic, sizeof(topic), "w%d", which);
	if (wherry_outbox_open(db, "outbox", &outbox, NULL) != WHERRY_OK)
		return 1;
	for (int i = 0; i < 100; i++) {
		wherry_message msg = M(.topic = topic);

		failed |= outbox_does.enqueue(outbox, &msg, WHERRY_OWN_TRANSACTION, NULL,
					      NULL) != WHERRY_OK;
	}
	wherry_outbox_close(outbox);
	return failed;
}

WHERRY_CASE(processes_that_write_at_once_all_succeed, outbox_fixture *f)
{
	fixture_processes(f, 4, send_hundred);
	fixture_reopen(f);
	assert_int_equal(fixture_count(f), 400);
	assert_int_equal(fixture_int(f, "SELECT count(*) FROM outbox WHERE topic = 'w3'"),
			 100);
}

WHERRY_CASE(threads_with_a_connection_each_all_succeed, outbox_fixture *f)
{
	fixture_threads(f, 4, send_hundred);
	fixture_reopen(f);
	assert_int_equal(fixture_count(f), 400);
}

WHERRY_CASE(one_that_cannot_be_written_says_so_and_can_be_read, outbox_fixture *f)
{
	wherry_message msg = M(.topic = "orders");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease;
	int64_t id = -7, count[WHERRY_STATE_COUNT];

	fixture_send(f, "orders", NULL);
	if (f->backend->forbid_writing(f->db))
		WHERRY_FAILS(WHERRY_READONLY, wherry_db_begin(f->db, &err));
	WHERRY_FAILS(
		WHERRY_READONLY,
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	assert_int_equal(id, -7);
	WHERRY_FAILS(WHERRY_READONLY,
		     wherry_outbox_lease(f->outbox, "a", 1000000, 1, &lease, &err));
	WHERRY_FAILS(WHERRY_READONLY, wherry_outbox_pause(f->outbox, &err));
	WHERRY_FAILS(WHERRY_READONLY,
		     wherry_outbox_purge(f->outbox, 0, 100, 0, NULL, &err));
	WHERRY_FAILS(WHERRY_READONLY,
		     wherry_outbox_create(f->db, "second", &outbox_options, &err));
	assert_int_equal(wherry_code_remedy(err.code), WHERRY_REMEDY_FIX);
	WHERRY_PASS(wherry_outbox_count(f->outbox, count, &err));
	assert_int_equal(count[WHERRY_PENDING], 1);
	fixture_lists(f, &WHERRY_OUTBOX_FILTER(), "1");
}

/* Enqueue until it fails; returns with what. */
static wherry_code fill(outbox_fixture *f, const wherry_message *msg, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (int i = 0; code == WHERRY_OK && i < 100; i++)
		code = outbox_does.enqueue(f->outbox, msg, 0, NULL, err);
	return code;
}

WHERRY_CASE(a_full_disk_loses_nothing_that_was_committed, outbox_fixture *f)
{
	static char body[100000];
	wherry_message msg = WHERRY_MESSAGE(.topic = "big", .body = body,
					    .body_len = sizeof(body)),
		       many[3] = {msg, msg, msg};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = -7, ids[3] = {-7, -7, -7};
	bool intact;

	memset(body, 'x', sizeof(body));
	make_business(f);
	fixture_send_many(f, 3);
	f->backend->fill_disk(f->db, true);

	WHERRY_FAILS(WHERRY_FULL, outbox_does.enqueue(f->outbox, &msg,
						      WHERRY_OWN_TRANSACTION, &id, &err));
	assert_int_equal(id, -7);
	assert_int_equal(wherry_code_remedy(err.code), WHERRY_REMEDY_RETRY);
	assert_false(wherry_db_in_transaction(f->db));
	WHERRY_FAILS(WHERRY_FULL,
		     outbox_does.enqueue_many(f->outbox, many, 3, WHERRY_OWN_TRANSACTION,
					      ids, &err));
	assert_true(ids[0] == -7 && ids[1] == -7 && ids[2] == -7);
	assert_int_equal(fixture_count(f), 3);

	/* Inside a transaction: as the remedy says, it is rolled back.  A database may have
	 * done so already; then nothing can be committed by mistake. */
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	fixture_app(f, "INSERT INTO business VALUES (1)");
	WHERRY_FAILS(WHERRY_FULL, fill(f, &msg, &err));
	intact = wherry_db_in_transaction(f->db);
	if (!intact) {
		WHERRY_FAILS(WHERRY_INVALID,
			     outbox_does.enqueue(f->outbox, &msg, 0, NULL, &err));
		assert_int_not_equal(wherry_db_commit(f->db, &err), WHERRY_OK);
	}
	wherry_db_rollback(f->db);
	assert_false(wherry_db_in_transaction(f->db));
	assert_int_equal(business(f), 0);
	assert_int_equal(fixture_count(f), 3);

	f->backend->fill_disk(f->db, false);
	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	assert_int_equal(fixture_count(f), 4);
}

WHERRY_CASE(many_on_a_full_disk_are_all_or_none, outbox_fixture *f)
{
	static char body[50000];
	wherry_message msg = WHERRY_MESSAGE(.topic = "big", .body = body,
					    .body_len = sizeof(body)),
		       many[8] = {msg, msg, msg, msg, msg, msg, msg, msg};
	wherry_error err = WHERRY_ERROR_INIT;

	memset(body, 'x', sizeof(body));
	fixture_send_many(f, 3);
	f->backend->fill_disk(f->db, true);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_FAILS(WHERRY_FULL,
		     outbox_does.enqueue_many(f->outbox, many, 8, 0, NULL, &err));
	if (wherry_db_in_transaction(f->db))
		WHERRY_PASS(wherry_db_commit(f->db, &err));
	wherry_db_rollback(f->db);
	assert_int_equal(fixture_count(f), 3);
	f->backend->fill_disk(f->db, false);
	WHERRY_PASS(outbox_does.enqueue_many(f->outbox, many, 8, WHERRY_OWN_TRANSACTION,
					     NULL, &err));
	assert_int_equal(fixture_count(f), 11);
}

const outbox_case outbox_enqueue_cases[] = {
	CASE(a_committed_enqueue_is_there),
	CASE(a_rolled_back_enqueue_never_existed),
	CASE_OF_SEVERAL(closing_the_connection_takes_back_what_was_not_committed),
	CASE(enqueue_outside_a_transaction_is_refused_and_says_why),
	CASE(with_its_own_transaction_enqueue_commits_by_itself),
	CASE(asking_for_a_transaction_joins_the_one_that_is_open),
	CASE(ids_grow),
	CASE(a_duplicate_message_id_leaves_the_transaction_intact),
	CASE(a_duplicate_changes_nothing_of_the_message_that_is_there),
	CASE(what_the_application_s_triggers_insert_is_not_mistaken_for_the_message),
	CASE(message_ids_are_compared_byte_for_byte),
	CASE(many_are_added_in_the_order_given),
	CASE(none_of_many_is_fine),
	CASE(duplicates_among_many_are_passed_over_with_id_0),
	CASE(many_are_all_or_none_in_a_transaction_of_their_own),
	CASE(many_are_all_or_none_in_the_caller_s_transaction),
	CASE(a_plain_insert_of_topic_and_payload_is_a_message),
	CASE(a_message_made_here_has_a_uuid_of_the_same_kind),
	CASE(every_plain_insert_gets_an_id_of_its_own),
	CASE(a_plain_insert_is_delivered_like_any_other),
	CASE_OF_SEVERAL(processes_that_write_at_once_all_succeed),
	CASE_OF_SEVERAL(threads_with_a_connection_each_all_succeed),
	CASE_THAT_NEEDS(one_that_cannot_be_written_says_so_and_can_be_read,
			NEEDS_REFUSAL | NEEDS_OWNER),
	CASE_THAT_NEEDS(a_full_disk_loses_nothing_that_was_committed,
			NEEDS_REFUSAL | NEEDS_OWNER),
	CASE_THAT_NEEDS(many_on_a_full_disk_are_all_or_none, NEEDS_REFUSAL | NEEDS_OWNER),
	{NULL, NULL, 0},
};
