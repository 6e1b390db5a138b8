/*
 * Handlers on an SQLite file.
 */
#include "relay_handlers.h"

#include <sqlite3.h>

#include <wherry/sqlite.h>

#include "outbox/outbox.h"
#include "relay_log.h"

static wherry_temp temp;

static void make(char *url, size_t cap)
{
	(void)snprintf(url, cap, "sqlite:%s", wherry_temp_make(&temp, "shop.db"));
}

static void drop(void)
{
	wherry_temp_clear(&temp);
}

static int take(void *ctx, int n, char **values, char **names)
{
	wh_view *out = ctx;

	if (n && out->ptr)
		(void)snprintf((char *)(uintptr_t)out->ptr, out->len, "%s",
			       *values ? *values : "");
	out->ptr = NULL; /* the first row's */
	return 0;
}

static bool sql(wherry_db *db, const char *text, char *out, size_t cap)
{
	sqlite3 *handle = wherry_sqlite_handle(db);
	wh_view first = {out, cap};

	*out = 0;
	if (sqlite3_exec(handle, text, take, &first, NULL) == SQLITE_OK)
		return true;
	(void)snprintf(out, cap, "%s", sqlite3_errmsg(handle));
	return false;
}

static const char done[] = "SELECT count(*) FROM outbox WHERE status = 2";
static const char orders[] = "SELECT count(*) FROM orders";

static wherry_verdict write_it(void *ctx, wherry_call *call)
{
	wherry_verdict verdict;

	handlers_enter(ctx, call);
	verdict = handlers_write(ctx, call);
	handlers_leave(ctx, call);
	return verdict;
}

/* ---- what only SQLite has ---- */

WHERRY_CASE(without_a_column_for_claims_there_are_no_transactions, handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_outbox_make(f->db, &(wh_make){.layout = "event-bus"},
				   "outbox_events", &err));
	handlers_set(f, "relay.table", "outbox_events");
	handlers_pool(f);
	handlers_on(f, "orders", write_it);
	handlers_sql(f, "INSERT INTO outbox_events(id, type, payload, occurred_at) "
			"VALUES ('e1', 'orders', '{}', '2024-01-01T00:00:00.000Z')");
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	assert_memory_equal(f->why, "UNSUPPORTED", 11);
	assert_non_null(strstr(f->why, "event-bus"));
	assert_int_equal(handlers_number(f, orders), 0);
}

/* Another one with an outbox, a lease and a row that look the same. */
WHERRY_CASE(another_database_is_noticed, handlers_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char other[200], sql[400];

	handlers_pool(f);
	handlers_on(f, "orders", handlers_deliver);
	handlers_put(f, "orders", "a");
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	handlers_put(f, "orders", "b");
	handlers_put(f, "orders", "c"); /* The thread's second call is refused, too. */
	(void)snprintf(other, sizeof(other), "%s/other.db", temp.dir);
	(void)snprintf(sql, sizeof(sql), "VACUUM INTO '%s'", other);
	handlers_sql(f, sql);
	(void)snprintf(
		sql, sizeof(sql),
		"ATTACH '%s' AS other; "
		"UPDATE other.wherry_lease SET epoch = epoch + 1, owner = 'another', "
		"expires_at = 1e15; DETACH other",
		other);
	handlers_sql(f, sql);

	wherry_publisher_close(f->pub);
	handlers_set(f, "handlers.threads", "1");
	(void)snprintf(sql, sizeof(sql), "sqlite:%s", other);
	WHERRY_PASS(wherry_handlers_open(sql, f->config, &f->pub, &err));
	handlers_on(f, "orders", write_it);
	assert_int_equal(handlers_run(f), WHERRY_DEATHS);
	assert_int_equal(handlers_number(f, orders), 0);
	(void)snprintf(sql, sizeof(sql), "ATTACH '%s' AS other", other);
	handlers_sql(f, sql);
	assert_int_equal(handlers_number(f, "SELECT count(*) FROM other.orders"), 0);
	assert_int_equal(handlers_number(f, "SELECT high FROM other.outbox_progress"), 1);
}

static wherry_verdict move_the_file(void *ctx, wherry_call *call)
{
	wherry_verdict verdict;
	char away[300];

	handlers_enter(ctx, call);
	(void)snprintf(away, sizeof(away), "%s-away", temp.path);
	if (wherry_call_message(call)->id == 2)
		assert_int_equal(rename(temp.path, away), 0);
	verdict = handlers_write(ctx, call);
	handlers_leave(ctx, call);
	return verdict;
}

/* The thread has had its connection since the first message. */
WHERRY_CASE(a_pool_notices_that_its_file_was_replaced, handlers_fixture *f)
{
	char away[300];

	handlers_set(f, "handlers.threads", "1");
	handlers_pool(f);
	handlers_on(f, "orders", move_the_file);
	handlers_relay(f);
	handlers_put(f, "orders", "a");
	HANDLERS_UNTIL(f, handlers_number(f, done) == 1);
	handlers_put(f, "orders", "a");
	HANDLERS_UNTIL(f, handlers_seen(f) == 2 && wherry_handlers_running(f->pub) == 0);
	/* The relay may notice it first: then it interrupts the call. */
	if (strncmp(f->why, "INTERRUPTED", 11) != 0) {
		assert_memory_equal(f->why, "CLOSED", 6);
		assert_non_null(strstr(f->why, temp.path));
	}
	assert_int_equal(handlers_number(f, orders), 1);
	(void)snprintf(away, sizeof(away), "%s-away", temp.path);
	assert_int_equal(rename(away, temp.path), 0);
}

/* Its relay claims rows. */
WHERRY_CASE(the_rows_of_a_handler_of_a_queue_commit_with_its_acknowledgement,
	    handlers_fixture *f)
{
	const wherry_queue_message msg =
		WHERRY_QUEUE_MESSAGE(.topic = "orders", .body = "{}", .body_len = 2);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;

	WHERRY_PASS(wherry_queue_create(f->db, "jobs", NULL, &err));
	WHERRY_PASS(wherry_queue_open(f->db, "jobs", &queue, &err));
	for (int i = 0; i < 3; i++)
		WHERRY_PASS(wherry_queue_send_many(queue, &msg, 1, NULL, &err));
	wherry_queue_close(queue);
	handlers_set(f, "relay.table", "jobs");
	handlers_pool(f);
	handlers_on(f, "orders", write_it);
	assert_int_equal(handlers_run(f), WHERRY_EMPTY);
	assert_int_equal(handlers_number(f, orders), 3);
	assert_int_equal(handlers_number(f, "SELECT count(*) FROM jobs"), 0);
}

static const handlers_test own[] = {
	HANDLERS_TEST(the_rows_of_a_handler_of_a_queue_commit_with_its_acknowledgement),
	HANDLERS_TEST(a_pool_notices_that_its_file_was_replaced),
	HANDLERS_TEST(without_a_column_for_claims_there_are_no_transactions),
	HANDLERS_TEST(another_database_is_noticed),
	HANDLERS_TESTS_END,
};

int main(void)
{
	static const handlers_base base = {
		"sqlite", make, drop, sql, relay_log_sqlite_views, NULL};

	return handlers_suite(&base, own);
}
