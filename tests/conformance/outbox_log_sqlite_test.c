/*
 * The outbox as a log on SQLite.
 */
#include "outbox_sqlite.h"
#include "relay_log.h"

#include <wherry/sqlite.h>

#include "outbox/outbox.h"

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	char native[8192], text[16384];

	if (strstr(sql, "CREATE "))
		return outbox_sqlite_raw(place, db, sql, out, cap);
	relay_log_translate(sql, native, sizeof(native));
	(void)snprintf(text, sizeof(text), "%s%s", relay_log_sqlite_views, native);
	return outbox_sqlite_raw(place, db, text, out, cap);
}

/* It was discarded, and somebody wrote another one with its id, which waits. */
static void a_message_that_took_the_id_of_a_delivered_one_waits(void **state)
{
	const wherry_outbox_options options = WHERRY_OUTBOX_OPTIONS(.layout = "log");
	const int64_t id = 1;
	wh_view name = wh_view_of("old");
	wh_settlement done = {
		.done = &id, .n_done = 1, .names = &name, .on_done = WHERRY_DELETE};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_lease lease = {.epoch = 0};
	wherry_outbox *outbox = NULL;
	sqlite3 *handle = NULL;
	wherry_db *db = NULL;
	char left[8] = "";

	(void)state;
	assert_int_equal(sqlite3_open(":memory:", &handle), SQLITE_OK);
	WHERRY_PASS(wherry_sqlite_borrow(handle, &db, &err));
	WHERRY_PASS(wherry_outbox_create(db, "outbox", &options, &err));
	WHERRY_PASS(wherry_outbox_open(db, "outbox", &outbox, &err));
	assert_true(outbox_sqlite_run(
		handle,
		"INSERT INTO outbox(message_id, topic, payload) VALUES ('new', 't', ''); "
		"UPDATE outbox_progress SET high = 1; "
		"INSERT INTO outbox_exception(subscription, id) VALUES ('relay', 1)",
		NULL, 0));
	WHERRY_PASS(wherry_outbox_lease(outbox, "a", 60000000, 8, &lease, &err));
	for (int left_then = 1; left_then >= 0; left_then--) {
		WHERRY_PASS(wh_store_settle(&outbox->store, &lease, &done, NULL, &err));
		assert_true(outbox_sqlite_run(handle,
					      "SELECT count(*) FROM outbox_exception",
					      left, sizeof(left)));
		assert_int_equal(*left, '0' + left_then);
		name = wh_view_of("new");
	}
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_that_took_the_id_of_a_delivered_one_waits),
	};
	outbox_backend log = outbox_sqlite_file;
	const outbox_backend *const backends[] = {&log};

	log.name = "log";
	log.layout = "log";
	log.lacks |= NEEDS_MARKS;
	log.raw = raw;
	return outbox_suite_run(backends, 1, tests, sizeof(tests) / sizeof(*tests));
}
