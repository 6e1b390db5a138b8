#include "outbox_suite.h"

#include "any_body.h"

#include <pthread.h>
#include <sys/wait.h>

#include "db/driver.h"
#include "log/subscription.h"
#include "outbox/outbox.h"

static const outbox_calls library = {
	.enqueue = wherry_outbox_enqueue,
	.enqueue_many = wherry_outbox_enqueue_many,
};

outbox_calls outbox_does;
wherry_outbox_options outbox_options;

/* ---- the state of a test ---- */

void fixture_close(outbox_fixture *f)
{
	wherry_outbox_close(f->outbox);
	f->outbox = NULL;
	if (f->db)
		assert_true(f->backend->disconnect(f->db));
	f->db = NULL;
}

wherry_db *fixture_connect(outbox_fixture *f)
{
	wherry_db *db = f->backend->connect(f->place);

	assert_non_null(db);
	return db;
}

void fixture_reopen(outbox_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	fixture_close(f);
	f->db = fixture_connect(f);
	WHERRY_PASS(wherry_outbox_open(f->db, "outbox", &f->outbox, &err));
}

static int make_outbox(void **state, bool lowered)
{
	static const char owned;
	outbox_fixture *f = calloc(1, sizeof(*f));
	wherry_error err = WHERRY_ERROR_INIT;
	const void *recipe;
	bool again;

	if (!f)
		return -1;
	f->backend = *state;
	*state = f;
	outbox_does = f->backend->outbox ? *f->backend->outbox : library;
	lowered = lowered && f->backend->lower;
	recipe = lowered ? (const void *)f->backend : &owned;
	again = suite_enter(f->backend, recipe, &f->place);
	f->db = fixture_connect(f);
	outbox_options =
		WHERRY_OUTBOX_OPTIONS(.layout = f->backend->lacks & NEEDS_LEASE
							? NULL
							: f->backend->layout,
				      .unique_ids = !(f->backend->lacks & NEEDS_LEASE));
	/* Where the tables are another program's, they are there. */
	if (!again && !(f->backend->lacks & NEEDS_LEASE))
		WHERRY_PASS(make_any_body_as(f->db, f->backend->layout, WH_UNIQUE_IDS,
					     "outbox", &err));
	if (!again && lowered) {
		f->backend->lower(f->place, &wh_outbox_model, "outbox");
		fixture_close(f);
		f->db = fixture_connect(f);
	}
	if (!again)
		suite_note(f->backend, recipe, f->place);
	WHERRY_PASS(wherry_outbox_open(f->db, "outbox", &f->outbox, &err));
	return 0;
}

static int make_owner(void **state)
{
	return make_outbox(state, false);
}

/* Who does not own the tables has what `--grant` gives; tables of other programs have no grants. */
static int make(void **state)
{
	return make_outbox(state, true);
}

static int drop(void **state)
{
	outbox_fixture *f = *state;
	bool clean;

	wherry_outbox_close(f->outbox);
	clean = !f->db || f->backend->disconnect(f->db);
	if (!clean)
		print_error("something was left on the connection\n");
	f->backend->drop(f->place);
	free(f);
	return clean ? 0 : -1;
}

/* ---- SQL ---- */

static void run_raw(outbox_fixture *f, const char *sql, char *out, size_t cap)
{
	if (!f->backend->raw(f->place, f->db, sql, out, cap)) {
		print_error("%s\n", sql);
		fail();
	}
}

void fixture_raw(outbox_fixture *f, const char *fmt, ...)
{
	char sql[4096];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(sql, sizeof(sql), fmt, args);
	va_end(args);
	run_raw(f, sql, NULL, 0);
}

int64_t fixture_int(outbox_fixture *f, const char *fmt, ...)
{
	char sql[4096], text[64] = "";
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(sql, sizeof(sql), fmt, args);
	va_end(args);
	run_raw(f, sql, text, sizeof(text));
	return strtoll(text, NULL, 10);
}

const char *fixture_text(outbox_fixture *f, const char *fmt, ...)
{
	char sql[4096];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(sql, sizeof(sql), fmt, args);
	va_end(args);
	f->text[0] = 0;
	run_raw(f, sql, f->text, sizeof(f->text));
	return f->text;
}

void fixture_app(outbox_fixture *f, const char *sql)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_script(f->db, sql, &err));
}

/* ---- messages and leases ---- */

int64_t fixture_send(outbox_fixture *f, const char *topic, const char *key)
{
	wherry_message msg =
		WHERRY_MESSAGE(.topic = topic, .key = key, .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;
	char number[24];

	if (f->backend->lacks & NEEDS_KEYS) {
		(void)snprintf(number, sizeof(number), "%lld", (long long)++f->sent);
		msg.message_id = number;
		msg.key = NULL;
	}
	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	assert_true(id > 0);
	return id;
}

int64_t fixture_send_named(outbox_fixture *f, const char *message_id, const char *topic,
			   const char *key)
{
	wherry_message msg = WHERRY_MESSAGE(.topic = topic, .message_id = message_id,
					    .key = key, .body = "");
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t id = 0;

	WHERRY_PASS(
		outbox_does.enqueue(f->outbox, &msg, WHERRY_OWN_TRANSACTION, &id, &err));
	return id;
}

int64_t fixture_send_many(outbox_fixture *f, int n)
{
	int64_t first = fixture_send(f, "orders", NULL);

	for (int i = 1; i < n; i++)
		assert_int_equal(fixture_send(f, "orders", NULL), first + i);
	return first;
}

wherry_lease fixture_lease(outbox_fixture *f, const char *owner)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {0};

	WHERRY_PASS(wherry_outbox_lease(f->outbox, owner, 60000000, 8, &lease, &err));
	return lease;
}

void fixture_expire(outbox_fixture *f)
{
	fixture_raw(f, "UPDATE wherry_lease SET expires_at = expires_at - 3600000");
}

typedef struct passed {
	int64_t ids[100], before;
	size_t n;
} passed;

static wherry_code take_passed(void *ctx, const wh_log_row *row, wherry_error *err)
{
	passed *p = ctx;

	if (row->id < p->before)
		p->ids[p->n++] = row->id;
	return WHERRY_OK;
}

/* On a log: move the position behind a message; those before it wait, or are done, too. */
static void pass(outbox_fixture *f, const wherry_lease *lease, int64_t id, bool wait)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_store *store = &f->outbox->store;
	passed held = {.before = id};
	wh_position at = WH_POSITION_START, stored = WH_POSITION_START;
	wh_progress progress = {.at = &at, .held = held.ids};
	wh_share share = {.mask = UINT64_MAX};
	wh_cursor *cursor = NULL;
	wh_log_found found;
	int64_t high;

	WHERRY_PASS(wh_progress_read(store, &share, &stored, &err));
	WHERRY_PASS(wh_cursor_open_layout(f->db, &store->sql, &cursor, &err));
	WHERRY_PASS(wh_cursor_after(cursor, id, &at, &err));
	high = stored.high;
	wh_store_limits(store, cursor->limits);
	cursor->limits[2] = WH_INT_PARAM("mask", -1);
	cursor->limits[3] = WH_INT_PARAM("mixed", 0);
	cursor->n_limits = WH_LOG_LIMITS;
	if (wait)
		WHERRY_PASS(wh_cursor_read(cursor, &stored, 100, take_passed, &held,
					   &found, &err));
	progress.n_held = held.n;
	if (high < at.high)
		WHERRY_PASS(wh_progress_write(store, lease, &share, &progress, &err));
	WHERRY_PASS(wh_store_settle_all(
		store, lease, &(wh_settlement){.done = &id, .n_done = 1, .covered = true},
		NULL, &err));
	wh_cursor_close(cursor);
	wh_position_clear(&at);
	wh_position_clear(&stored);
}

void fixture_were_done(outbox_fixture *f, int64_t upto, int64_t ago_ms)
{
	long long then = (long long)(wh_now(&wh_env_system) / 1000 - ago_ms);
	wherry_lease lease;
	wherry_error err = WHERRY_ERROR_INIT;

	lease = fixture_lease(f, "fixture");
	pass(f, &lease, upto, false);
	WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
	fixture_raw(f, "UPDATE outbox SET created_at = %lld WHERE id <= %lld", then,
		    (long long)upto);
}

static void settle(outbox_fixture *f, int64_t id, const wherry_failure *failure,
		   bool try_it)
{
	wherry_lease lease = fixture_lease(f, "fixture");
	wherry_error err = WHERRY_ERROR_INIT;

	if (failure)
		WHERRY_PASS(wherry_outbox_fail(f->outbox, &lease, failure, 1, &err));
	else if (try_it)
		WHERRY_PASS(wherry_outbox_try(f->outbox, &lease, id, &err));
	else
		pass(f, &lease, id, true);
	WHERRY_PASS(wherry_outbox_release(f->outbox, &lease, &err));
}

void fixture_done(outbox_fixture *f, int64_t id)
{
	settle(f, id, NULL, false);
}

void fixture_fail(outbox_fixture *f, int64_t id, int64_t delay_us)
{
	wherry_failure failure =
		WHERRY_FAILURE(.id = id, .delay_us = delay_us, .error = "no answer");

	settle(f, id, &failure, false);
}

void fixture_kill(outbox_fixture *f, int64_t id)
{
	wherry_failure failure =
		WHERRY_FAILURE(.id = id, .dead = true, .error = "refused");

	settle(f, id, &failure, false);
}

void fixture_try(outbox_fixture *f, int64_t id)
{
	settle(f, id, NULL, true);
}

int64_t fixture_state(outbox_fixture *f, int64_t id)
{
	return fixture_int(f, "SELECT status FROM outbox WHERE id = %lld", (long long)id);
}

int64_t fixture_count(outbox_fixture *f)
{
	return fixture_int(f, "SELECT count(*) FROM outbox");
}

static wherry_code put_row(void *ctx, const wherry_row *row)
{
	wh_buf *out = ctx;

	wh_buf_printf(out, "%lld %d %d %lld %lld %lld %s|", (long long)row->message->id,
		      row->state, row->message->attempts, (long long)row->claimed_at_us,
		      (long long)row->next_retry_at_us, (long long)row->processed_at_us,
		      row->last_error ? row->last_error : "-");
	return WHERRY_OK;
}

const char *fixture_digest(outbox_fixture *f)
{
	wh_buf out = WH_BUF_INIT(sizeof(f->text) - 1);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_list(f->outbox, &WHERRY_OUTBOX_FILTER(), put_row, &out,
				       &err));
	WHERRY_PASS(wh_buf_check(&out, &err));
	(void)snprintf(f->text, sizeof(f->text), "%s", wh_buf_str(&out));
	wh_buf_clear(&out);
	return f->text;
}

static wherry_code put_id(void *ctx, const wherry_row *row)
{
	wh_buf *out = ctx;

	wh_buf_printf(out, out->len ? " %lld" : "%lld", (long long)row->message->id);
	return WHERRY_OK;
}

void fixture_lists(outbox_fixture *f, const wherry_outbox_filter *filter, const char *ids)
{
	wh_buf out = WH_BUF_INIT(4096);
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_outbox_list(f->outbox, filter, put_id, &out, &err));
	assert_string_equal(wh_buf_str(&out), ids);
	wh_buf_clear(&out);
}

/* ---- several at once ---- */

typedef struct worker {
	const outbox_backend *backend;
	void *place;
	fixture_work work;
	int which;
	int result;
	pthread_barrier_t *start; /* NULL: none */
} worker;

static int work_on(worker *w)
{
	wherry_db *db = w->backend->connect(w->place);
	int result;

	if (!db)
		return 99;
	if (w->start)
		(void)pthread_barrier_wait(w->start);
	result = w->work(db, w->which);
	return w->backend->disconnect(db) ? result : 98;
}

static void *run_worker(void *ctx)
{
	worker *w = ctx;

	w->result = work_on(w);
	return NULL;
}

void fixture_threads(outbox_fixture *f, int n, fixture_work work)
{
	pthread_barrier_t start;
	pthread_t threads[16];
	worker workers[16];

	assert_true(n <= 16);
	fixture_close(f);
	assert_int_equal(pthread_barrier_init(&start, NULL, (unsigned)n), 0);
	for (int i = 0; i < n; i++) {
		workers[i] = (worker){f->backend, f->place, work, i, -1, &start};
		assert_int_equal(
			pthread_create(&threads[i], NULL, run_worker, &workers[i]), 0);
	}
	for (int i = 0; i < n; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	(void)pthread_barrier_destroy(&start);
	for (int i = 0; i < n; i++)
		assert_int_equal(workers[i].result, 0);
}

/* No connection is open when they are made: a database's locks do not survive a fork. */
void fixture_processes(outbox_fixture *f, int n, fixture_work work)
{
	pid_t children[16];

	assert_true(n <= 16);
	fixture_close(f);
	for (int i = 0; i < n; i++) {
		worker w = {f->backend, f->place, work, i, 0, NULL};

		children[i] = fork();
		assert_true(children[i] >= 0);
		if (!children[i]) {
			(void)alarm(60);
			_exit(work_on(&w));
		}
	}
	for (int i = 0; i < n; i++) {
		int status = 0;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 0);
	}
}

/* ---- running ---- */

static const struct {
	const outbox_case *cases;
	unsigned needs; /* of all of them */
} suites[] = {
	{outbox_enqueue_cases, NEEDS_KEYS | NEEDS_NATIVE},
	{outbox_field_cases, NEEDS_KEYS | NEEDS_NATIVE},
	{outbox_lease_cases, NEEDS_LEASE},
	{outbox_settle_cases, NEEDS_LEASE},
	{outbox_list_cases, NEEDS_LEASE},
	{outbox_admin_cases, NEEDS_LEASE},
	{outbox_schema_cases, NEEDS_LEASE | NEEDS_OWNER},
	{outbox_event_bus_cases, NEEDS_EVENT_BUS},
	{outbox_event_bus_claim_cases, NEEDS_EVENT_BUS},
};

enum {
	OF_PRODUCERS = 2, /* So many of the suites are about what producers call. */
	TESTS_MOST = 2000
};

/* One group, so that there is one plan; the name of a back end stands before its tests. */
/* Tests with threads have several connections: the thread sanitizer can find nothing in the
 * others. */
#ifdef __SANITIZE_THREAD__
enum { ONLY_SEVERAL = true };
#else
enum { ONLY_SEVERAL = false };
#endif

int outbox_suite_run(const outbox_backend *const *backends, size_t n_backends,
		     const struct CMUnitTest *more, size_t n_more)
{
	static struct CMUnitTest tests[TESTS_MOST];
	static char names[TESTS_MOST][128];
	size_t n = 0;

	for (size_t b = 0; b < n_backends; b++) {
		for (size_t s = 0; s < sizeof(suites) / sizeof(*suites); s++) {
			for (const outbox_case *c = suites[s].cases; c->run; c++) {
				unsigned needs = c->needs | suites[s].needs;

				if (needs & backends[b]->lacks)
					continue;
				if (backends[b]->outbox &&
				    (s >= OF_PRODUCERS ||
				     suite_skips(backends[b]->outbox->skips, c->name)))
					continue;
				if (ONLY_SEVERAL && !(needs & NEEDS_SEVERAL))
					continue;
				if ((needs & NEEDS_SEVERAL) && !backends[b]->several)
					continue;
				(void)snprintf(names[n], sizeof(names[n]), "%s: %s",
					       backends[b]->name, c->name);
				tests[n] = (struct CMUnitTest){
					names[n], c->run,
					needs & NEEDS_OWNER ? make_owner : make, drop,
					NULL};
				memcpy(&tests[n].initial_state, &backends[b],
				       sizeof(void *));
				n++;
			}
		}
	}
	n = wherry_test_part(tests, n);
	for (size_t i = 0; i < n_more; i++)
		tests[n++] = more[i];
	cmocka_set_test_filter(getenv("WHERRY_ONLY")); /* for one at a debugger's hands */
	return wherry_run_group("outbox", tests, n, NULL, NULL);
}
