/*
 * The messages that a relay has in memory, and the gaps that it watches.
 */
#include "wherry_test.h"

#include "relay/window.h"

/* ---- the window ---- */

/* A row whose body is "body", or as long as asked. */
static wh_view fake_body;

static wh_view fake_bytes(const wh_row *row, int column)
{
	return fake_body;
}

static const wh_row_driver fake_driver = {.bytes = fake_bytes};
static const wh_row fake_row = {.driver = &fake_driver};

static wh_open_row row_of(int64_t id)
{
	return (wh_open_row){
		.id = id,
		.attempts = 2,
		.created_at_us = 77,
		.message_id = {"m", 1},
		.topic = {"topic", 5},
		.aggregate_type = {"", 0},
		.aggregate_id = {"42", 2},
		.headers = {"{}", 2},
		.row = &fake_row,
	};
}

/* Read rows from first to last as one batch. */
static void read_batch(wh_window *w, int64_t first, int64_t last)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_window_begin(w, &err));
	for (int64_t id = first; id <= last; id++) {
		wh_open_row row = row_of(id);

		assert_non_null(wh_window_add(w, &row));
	}
	wh_window_end(w);
}

WHERRY_TEST(a_row_is_copied_into_the_window)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_open_row row = row_of(5);
	char topic[] = "topic", key[] = "key";
	wh_window w;
	wh_entry *e;

	WHERRY_PASS(wh_window_init(&w, 10, &err));
	fake_body = (wh_view){"a\0b", 3};
	row.topic = (wh_view){topic, 5};
	row.key = (wh_view){key, 3};
	WHERRY_PASS(wh_window_begin(&w, &err));
	e = wh_window_add(&w, &row);
	wh_window_end(&w);
	memset(topic, 'x', 5);
	memset(key, 'x', 3);
	fake_body = (wh_view){NULL, 0};
	assert_int_equal(e->msg.size, sizeof(e->msg));
	assert_string_equal(e->msg.topic, "topic");
	assert_string_equal(e->msg.key, "key");
	assert_string_equal(e->msg.message_id, "m");
	assert_string_equal(e->msg.aggregate_type, "");
	assert_string_equal(e->msg.aggregate_id, "42");
	assert_string_equal(e->msg.headers, "{}");
	assert_null(e->msg.trace_id);
	assert_int_equal(e->msg.body_len, 3);
	assert_memory_equal(e->msg.body, "a\0b", 3);
	assert_int_equal(e->msg.id, 5);
	assert_int_equal(e->msg.attempts, 2);
	assert_int_equal(e->msg.created_at_us, 77);
	assert_int_equal(e->stage, WH_UNLISTED);
	assert_null(e->key);
	assert_ptr_equal(wh_window_find(&w, 5), e);
	assert_null(wh_window_find(&w, 69));
	assert_string_equal(wh_window_copy(&w, e, "no answer"), "no answer");
	wh_window_clear(&w);
}

WHERRY_TEST(an_empty_key_and_an_absent_body_are_told_apart)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_open_row row = row_of(1);
	wh_window w;
	wh_entry *e;

	WHERRY_PASS(wh_window_init(&w, 1, &err));
	fake_body = (wh_view){NULL, 0};
	row.key = (wh_view){"", 0};
	WHERRY_PASS(wh_window_begin(&w, &err));
	e = wh_window_add(&w, &row);
	wh_window_end(&w);
	assert_null(e->msg.key);
	assert_null(e->msg.body);
	assert_int_equal(e->msg.body_len, 0);
	wh_window_clear(&w);
}

WHERRY_TEST(memory_goes_with_the_last_of_a_batch)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_window w;
	size_t one;

	WHERRY_PASS(wh_window_init(&w, 100, &err));
	fake_body = (wh_view){"body", 4};
	read_batch(&w, 1, 10);
	one = w.bytes;
	assert_true(one > 0);
	read_batch(&w, 11, 20);
	assert_int_equal(w.bytes, 2 * one);
	assert_int_equal(w.n, 20);
	assert_int_equal(wh_window_lowest(&w), 1);
	for (int64_t id = 1; id < 10; id++)
		wh_window_drop(&w, wh_window_find(&w, id));
	assert_int_equal(w.bytes, 2 * one);
	assert_int_equal(wh_window_lowest(&w), 10);
	(void)wh_window_copy(&w, wh_window_find(&w, 10), "why it failed");
	assert_true(w.bytes > 2 * one);
	wh_window_drop(&w, wh_window_find(&w, 10));
	assert_int_equal(w.bytes, one);
	assert_null(wh_window_find(&w, 10));
	for (int64_t id = 20; id > 10; id--)
		wh_window_drop(&w, wh_window_find(&w, id));
	assert_int_equal(w.bytes, 0);
	assert_int_equal(w.n, 0);
	assert_int_equal(wh_window_lowest(&w), INT64_MAX);
	read_batch(&w, 21, 20); /* nothing was read */
	assert_int_equal(w.bytes, 0);
	/* the memory that was kept is used again */
	for (int i = 0; i < 100; i++) {
		read_batch(&w, 1, 10);
		assert_int_equal(w.bytes, one);
		for (int64_t id = 1; id <= 10; id++)
			wh_window_drop(&w, wh_window_find(&w, id));
	}
	wh_window_clear(&w);
}

WHERRY_TEST(entries_are_found_whatever_their_ids)
{
	static const int64_t ids[] = {1, 65, 129, -1, INT64_MAX, 1LL << 40, 193};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_window w;

	WHERRY_PASS(wh_window_init(&w, 7, &err));
	fake_body = (wh_view){"body", 4};
	for (int i = 0; i < 7; i++)
		read_batch(&w, ids[i], ids[i] == INT64_MAX ? ids[i] - 1 : ids[i]);
	for (int i = 0; i < 7; i++)
		if (ids[i] != INT64_MAX)
			assert_int_equal(wh_window_find(&w, ids[i])->msg.id, ids[i]);
	assert_int_equal(wh_window_lowest(&w), -1);
	wh_window_drop(&w, wh_window_find(&w, 65));
	assert_null(wh_window_find(&w, 65));
	assert_non_null(wh_window_find(&w, 129));
	assert_non_null(wh_window_find(&w, 1));
	wh_window_clear(&w);
	wh_window_clear(&w);
}

/* Version 0 is none: rows of another connection are acknowledged by their message ids. */
WHERRY_TEST(versions_are_forgotten_with_their_connection)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_window w;

	WHERRY_PASS(wh_window_init(&w, 4, &err));
	read_batch(&w, 1, 3);
	for (int64_t id = 1; id <= 3; id++)
		wh_window_find(&w, id)->version = 7;
	wh_window_forget_versions(&w);
	for (int64_t id = 1; id <= 3; id++)
		assert_int_equal(wh_window_find(&w, id)->version, 0);
	wh_window_clear(&w);
}

/* Whichever bucket it is in. */
WHERRY_TEST(the_lowest_id_is_found_wherever_it_is)
{
	wherry_error err = WHERRY_ERROR_INIT;

	fake_body = (wh_view){"body", 4};
	for (int64_t first = 1; first <= 130; first++) {
		wh_window w;

		WHERRY_PASS(wh_window_init(&w, 4, &err));
		read_batch(&w, first, first + 1);
		assert_int_equal(wh_window_lowest(&w), first);
		wh_window_clear(&w);
	}
}

static void is_list(const wh_list *list, const wh_entry *entries, const char *places)
{
	const wh_entry *prev = NULL;
	size_t n = 0;

	for (const wh_entry *e = list->head; e; prev = e, e = e->next, n++) {
		assert_ptr_equal(e->prev, prev);
		assert_int_equal(e - entries, places[n] - '0');
	}
	assert_ptr_equal(list->tail, prev);
	assert_int_equal(list->n, n);
	assert_int_equal(n, strlen(places));
}

WHERRY_TEST(entries_are_in_lists)
{
	static wh_entry e[4];
	wh_list list = {0};

	wh_list_append(&list, &e[1]);
	is_list(&list, e, "1");
	wh_list_append(&list, &e[2]);
	wh_list_prepend(&list, &e[0]);
	wh_list_append(&list, &e[3]);
	is_list(&list, e, "0123");
	wh_list_remove(&list, &e[2]);
	is_list(&list, e, "013");
	wh_list_remove(&list, &e[0]);
	is_list(&list, e, "13");
	wh_list_remove(&list, &e[3]);
	is_list(&list, e, "1");
	wh_list_remove(&list, &e[1]);
	is_list(&list, e, "");
	wh_list_prepend(&list, &e[2]);
	is_list(&list, e, "2");
}

WHERRY_TEST_MAIN
