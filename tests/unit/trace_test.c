#include "wherry_test.h"

#include <wherry/outbox.h>

#include "db/trace.h"

/* Writes down every call, and makes the n-th fail. */
typedef struct recorder {
	wh_buf calls;
	int n, fail_at; /* 0: none */
	bool after;     /* fail it after it was made */
	int64_t slowest_us;
} recorder;

static wherry_code before(void *ctx, const char *op, const char *what, wherry_error *err)
{
	recorder *r = ctx;

	wh_buf_printf(&r->calls, "%s%s%s ", op, *what ? ":" : "", what);
	if (++r->n == r->fail_at && !r->after)
		return wh_fail(err, WHERRY_BUSY, "on purpose");
	return WHERRY_OK;
}

static wherry_code after(void *ctx, const char *op, const char *what, wherry_code code,
			 int64_t took_us, wherry_error *err)
{
	recorder *r = ctx;

	assert_true(took_us >= 0);
	if (strcmp(op, "rollback") != 0 && r->n == r->fail_at && r->after &&
	    code == WHERRY_OK)
		return wh_fail(err, WHERRY_INDOUBT, "the answer was lost");
	return code;
}

typedef struct fixture {
	wherry_temp temp;
	wherry_db *inner, *db, *other;
	wherry_outbox *outbox;
	recorder r;
} fixture;

static wherry_db *open_file(fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;
	char url[160];

	(void)snprintf(url, sizeof(url), "sqlite:%s", f->temp.path);
	WHERRY_PASS(wherry_config_new(&config, &err));
	WHERRY_PASS(wherry_config_set(config, "db.create", "on", &err));
	WHERRY_PASS(wherry_db_open(url, config, &db, &err));
	wherry_config_free(config);
	return db;
}

static int make(void **state)
{
	fixture *f = calloc(1, sizeof(*f));
	const wh_trace trace = {
		.before = before, .after = after, .ctx = f ? &f->r : NULL};
	wherry_error err = WHERRY_ERROR_INIT;

	if (!f)
		return -1;
	*state = f;
	wherry_temp_make(&f->temp, "trace.db");
	f->r.calls = (wh_buf)WH_BUF_INIT(65536);
	f->other = open_file(f);
	WHERRY_PASS(wherry_outbox_create(f->other, "outbox", NULL, &err));
	f->inner = open_file(f);
	WHERRY_PASS(wh_db_trace(f->inner, &trace, &f->db, &err));
	WHERRY_PASS(wherry_outbox_open(f->db, "outbox", &f->outbox, &err));
	wh_buf_reset(&f->r.calls);
	f->r.n = 0;
	return 0;
}

static int drop(void **state)
{
	fixture *f = *state;

	wherry_outbox_close(f->outbox);
	wherry_db_close(f->db);
	wherry_db_close(f->other);
	wh_buf_clear(&f->r.calls);
	wherry_temp_clear(&f->temp);
	free(f);
	return 0;
}

/* Rows that are committed. */
static int64_t count(fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n[WHERRY_STATE_COUNT];
	wherry_outbox *outbox = NULL;

	WHERRY_PASS(wherry_outbox_open(f->other, "outbox", &outbox, &err));
	WHERRY_PASS(wherry_outbox_count(outbox, n, &err));
	wherry_outbox_close(outbox);
	return n[WHERRY_PENDING];
}

#define M WHERRY_MESSAGE(.topic = "t", .body = "")

WHERRY_TEST_ON(every_call_is_told, fixture *f, make, drop)
{
	wherry_message many[] = {M, M};
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(
		wherry_outbox_enqueue(f->outbox, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	assert_string_equal(wh_buf_str(&f->r.calls), "begin run:enqueue commit ");
	wh_buf_reset(&f->r.calls);
	WHERRY_PASS(wherry_db_begin(f->db, &err));
	WHERRY_PASS(wherry_outbox_enqueue_many(f->outbox, many, 2, 0, NULL, &err));
	assert_true(wherry_db_in_transaction(f->db));
	WHERRY_PASS(wherry_db_commit(f->db, &err));
	assert_string_equal(wh_buf_str(&f->r.calls),
			    "begin begin run:enqueue run:enqueue commit commit ");
	assert_int_equal(count(f), 3);
	wh_buf_reset(&f->r.calls);
	WHERRY_PASS(wherry_outbox_create(f->db, "second", NULL, &err));
	assert_non_null(strstr(wh_buf_str(&f->r.calls), " script commit "));
}

static wherry_code take_topic(void *ctx, const wherry_row *row)
{
	(void)snprintf(ctx, 16, "%s", row->message->topic);
	return WHERRY_OK;
}

WHERRY_TEST_ON(rows_come_through, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char topic[16] = "";
	int64_t id = 0;

	WHERRY_PASS(
		wherry_outbox_enqueue(f->outbox, &M, WHERRY_OWN_TRANSACTION, &id, &err));
	assert_int_equal(id, 1);
	WHERRY_PASS(wherry_outbox_show(f->outbox, "1", take_topic, topic, &err));
	assert_string_equal(topic, "t");
}

WHERRY_TEST_ON(a_call_that_fails_before_is_not_made, fixture *f, make, drop)
{
	wherry_message many[] = {M, M, M};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	int faults = 0;

	do {
		f->r.n = 0;
		f->r.fail_at = faults + 1;
		code = wherry_outbox_enqueue_many(f->outbox, many, 3,
						  WHERRY_OWN_TRANSACTION, NULL, &err);
		if (code != WHERRY_OK) {
			WHERRY_FAILS(WHERRY_BUSY, code);
			assert_non_null(strstr(err.message, "on purpose"));
			assert_int_equal(count(f), 0);
			faults++;
		}
		assert_false(wherry_db_in_transaction(f->db));
	} while (code != WHERRY_OK);
	assert_int_equal(faults, 5); /* begin, three, commit */
	assert_int_equal(count(f), 3);
}

WHERRY_TEST_ON(a_call_may_fail_after_it_was_made, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	f->r.after = true;
	for (int at = 1; at <= 3; at++) {
		f->r.n = 0;
		f->r.fail_at = at;
		WHERRY_FAILS(WHERRY_INDOUBT,
			     wherry_outbox_enqueue(f->outbox, &M, WHERRY_OWN_TRANSACTION,
						   NULL, &err));
		assert_false(wherry_db_in_transaction(f->db));
		assert_int_equal(count(f), at == 3); /* committed, the answer was lost */
	}
	f->r.fail_at = 0;
	WHERRY_PASS(
		wherry_outbox_enqueue(f->outbox, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	assert_int_equal(count(f), 2);
}

WHERRY_TEST_ON(a_fault_inside_the_caller_s_transaction_leaves_it_as_it_was, fixture *f,
	       make, drop)
{
	wherry_message many[] = {M, M, M};
	wherry_error err = WHERRY_ERROR_INIT;

	/* begin is 1, the message 2, then a savepoint, three messages and its end */
	for (int at = 3; at <= 7; at++) {
		f->r.n = 0;
		f->r.fail_at = at;
		WHERRY_PASS(wherry_db_begin(f->db, &err));
		WHERRY_PASS(wherry_outbox_enqueue(f->outbox, &M, 0, NULL, &err));
		WHERRY_FAILS(WHERRY_BUSY, wherry_outbox_enqueue_many(f->outbox, many, 3,
								     0, NULL, &err));
		WHERRY_PASS(wherry_db_commit(f->db, &err));
		assert_int_equal(count(f), at - 2);
	}
}

WHERRY_TEST_ON(without_functions_it_only_passes_on, fixture *f, make, drop)
{
	const wh_trace nothing = {.ctx = NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *twice = NULL;
	wherry_outbox *outbox = NULL;

	WHERRY_PASS(wh_db_trace(open_file(f), &nothing, &twice, &err));
	WHERRY_PASS(wherry_outbox_open(twice, "outbox", &outbox, &err));
	WHERRY_PASS(
		wherry_outbox_enqueue(outbox, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
	wherry_outbox_close(outbox);
	WHERRY_PASS(wherry_db_begin(twice, &err));
	wherry_db_close(twice); /* and closes what it wraps, with what is open on it */
	assert_int_equal(count(f), 1);
	WHERRY_PASS(wherry_db_begin(f->other, &err));
}

WHERRY_TEST_ON(it_looks_like_what_it_wraps, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t next;

	assert_string_equal(f->db->driver->scheme, "sqlite");
	assert_int_equal(f->db->driver->late_commits, f->inner->driver->late_commits);
	assert_int_equal(f->db->shared, f->inner->shared);
	WHERRY_PASS(wh_db_watch(f->db, &(wh_watch){0}, &err));
	assert_int_equal(wh_db_fd(f->db), wh_db_fd(f->inner));
	assert_true(wh_db_fd(f->db) >= 0);
	(void)wh_db_changed(f->db, &(wh_look){.now_us = 0}, &next);
	wherry_db_interrupt(f->db); /* nothing runs: nothing happens */
	WHERRY_PASS(
		wherry_outbox_enqueue(f->outbox, &M, WHERRY_OWN_TRANSACTION, NULL, &err));
}

WHERRY_TEST_MAIN
