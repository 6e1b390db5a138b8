/*
 * What a connection notices of others, and what another thread may do to it.
 */
#include "wherry_test.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "db/driver.h"

typedef struct fixture {
	wherry_temp temp;
	char url[160];
	wherry_config *config;
	wherry_db *db, *other;
} fixture;

static int make(void **state)
{
	fixture *f = calloc(1, sizeof(*f));
	wherry_error err = WHERRY_ERROR_INIT;

	if (!f)
		return -1;
	*state = f;
	wherry_temp_make(&f->temp, "test.db");
	(void)snprintf(f->url, sizeof(f->url), "sqlite:%s", f->temp.path);
	WHERRY_PASS(wherry_config_new(&f->config, &err));
	WHERRY_PASS(wherry_config_set(f->config, "db.create", "on", &err));
	WHERRY_PASS(wherry_db_open(f->url, f->config, &f->db, &err));
	WHERRY_PASS(wherry_db_open(f->url, f->config, &f->other, &err));
	WHERRY_PASS(wh_db_script(f->db, "CREATE TABLE t(a)", &err));
	return 0;
}

static int drop(void **state)
{
	fixture *f = *state;

	wherry_db_close(f->db);
	wherry_db_close(f->other);
	wherry_config_free(f->config);
	wherry_temp_clear(&f->temp);
	free(f);
	return 0;
}

static void put(wherry_db *db)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_script(db, "INSERT INTO t VALUES (1)", &err));
}

/* Look until it has changed or nothing more can come; as a relay would. */
static bool sees_a_change(wherry_db *db)
{
	int64_t next = 0, end = wh_monotonic(&wh_env_system) + 20 * WH_SECOND;

	for (;;) {
		struct pollfd fd = {wh_db_fd(db), POLLIN, 0};
		int64_t now = wh_monotonic(&wh_env_system), wait;

		if (wh_db_changed(db, &(wh_look){.now_us = now}, &next))
			return true;
		if (next == WH_NEVER || now > end)
			return false;
		wait = next - wh_monotonic(&wh_env_system);
		(void)poll(&fd, 1, wait > 0 ? (int)(wait / 1000) + 1 : 0);
	}
}

static bool readable(wherry_db *db)
{
	struct pollfd fd = {wh_db_fd(db), POLLIN, 0};

	return poll(&fd, 1, 5000) == 1 && (fd.revents & POLLIN);
}

WHERRY_TEST_ON(a_commit_of_another_connection_is_seen, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_watch(f->db, &(wh_watch){0}, &err));
	WHERRY_PASS(wh_db_watch(f->db, &(wh_watch){0}, &err)); /* once is enough */
	assert_true(wh_db_fd(f->db) >= 0);
	assert_false(sees_a_change(f->db));
	for (int i = 0; i < 5; i++) {
		put(f->other);
		assert_true(readable(f->db));
		assert_true(sees_a_change(f->db));
		assert_false(sees_a_change(f->db));
	}
}

WHERRY_TEST_ON(its_own_commits_are_not, fixture *f, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_watch(f->db, &(wh_watch){0}, &err));
	for (int i = 0; i < 5; i++)
		put(f->db);
	assert_false(sees_a_change(f->db));
	WHERRY_PASS(wherry_db_begin(f->other, &err));
	put(f->other);
	wherry_db_rollback(f->other); /* neither is what was taken back */
	assert_false(sees_a_change(f->db));
}

WHERRY_TEST_ON(without_watching_nothing_is_seen, fixture *f, make, drop)
{
	int64_t next = 0;

	put(f->other);
	assert_false(wh_db_changed(
		f->db, &(wh_look){.now_us = wh_monotonic(&wh_env_system)}, &next));
	assert_int_equal(next, WH_NEVER);
	assert_int_equal(wh_db_fd(f->db), -1);
}

WHERRY_TEST_WITH(on_a_handle_that_is_shared_its_own_commits_count, make, drop)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	int64_t next;

	WHERRY_PASS(wherry_db_open("sqlite::memory:", NULL, &db, &err));
	WHERRY_PASS(wh_db_script(db, "CREATE TABLE t(a)", &err));
	WHERRY_PASS(wh_db_watch(db, &(wh_watch){0}, &err));
	assert_false(wh_db_changed(db, &(wh_look){.now_us = 1}, &next));
	put(db);
	assert_true(wh_db_changed(db, &(wh_look){.now_us = 2}, &next));
	assert_false(wh_db_changed(db, &(wh_look){.now_us = 3}, &next));
	wherry_db_close(db);
}

/* ---- interrupting ---- */

typedef struct stopper {
	wherry_db *db;
	atomic_bool done;
} stopper;

static void *keep_interrupting(void *ctx)
{
	stopper *s = ctx;

	while (!atomic_load(&s->done)) {
		wherry_db_interrupt(s->db);
		wh_sleep(&wh_env_system, 1000);
	}
	return NULL;
}

WHERRY_TEST_ON(another_thread_may_interrupt, fixture *f, make, drop)
{
	stopper s = {f->db, false};
	wherry_error err = WHERRY_ERROR_INIT;
	pthread_t thread;
	wherry_code code;

	assert_int_equal(pthread_create(&thread, NULL, keep_interrupting, &s), 0);
	code = wh_db_script(
		f->db,
		"INSERT INTO t(a) WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL "
		"SELECT i + 1 FROM c WHERE i < 2000000000) SELECT max(i) FROM c",
		&err);
	atomic_store(&s.done, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	WHERRY_FAILS(WHERRY_INTERRUPTED, code);
	assert_int_equal(wherry_code_remedy(code), WHERRY_REMEDY_RETRY);
	put(f->db);
}

WHERRY_TEST_ON(an_interrupt_ends_a_wait_for_the_lock_of_the_file, fixture *f, make, drop)
{
	stopper s = {.done = false};
	wherry_error err = WHERRY_ERROR_INIT;
	pthread_t thread;
	int64_t before;
	wherry_code code;

	wherry_db_close(f->db);
	WHERRY_PASS(wherry_config_set(f->config, "db.busy_timeout", "10m", &err));
	WHERRY_PASS(wherry_db_open(f->url, f->config, &f->db, &err));
	WHERRY_PASS(wherry_db_begin(f->other, &err));
	s.db = f->db;
	assert_int_equal(pthread_create(&thread, NULL, keep_interrupting, &s), 0);
	before = wh_monotonic(&wh_env_system);
	code = wherry_db_begin(f->db, &err);
	assert_true(wh_monotonic(&wh_env_system) - before < 60 * WH_SECOND);
	WHERRY_FAILS(WHERRY_INTERRUPTED, code);
	WHERRY_FAILS(WHERRY_INTERRUPTED,
		     wh_db_script(f->db, "INSERT INTO t(a) VALUES (1)", &err));
	atomic_store(&s.done, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	wherry_db_rollback(f->other);
	put(f->db);
}

WHERRY_TEST_MAIN
