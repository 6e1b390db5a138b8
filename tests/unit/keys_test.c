/*
 * The ordering keys that a relay remembers.
 */
#include "wherry_test.h"

#include "relay/keys.h"

static const wh_env *const env = &wh_env_system;

static wh_view view(const char *text)
{
	return wh_view_of(text);
}

/* ---- lists of ids ---- */

static void holds(const wh_ids *list, const int64_t *ids, size_t n)
{
	assert_int_equal(wh_ids_count(list), n);
	if (n)
		assert_memory_equal(list->ids + list->first, ids, n * sizeof(*ids));
}

WHERRY_TEST(ids_are_kept_sorted_and_once)
{
	static const int64_t given[] = {5, 1, 9, 5, 3, 1, 9, 7, INT64_MAX, 5};
	static const int64_t sorted[] = {1, 3, 5, 7, 9, INT64_MAX};
	wh_ids list = {0};

	assert_int_equal(wh_ids_count(&list), 0);
	for (size_t i = 0; i < sizeof(given) / sizeof(*given); i++)
		assert_true(wh_ids_add(&list, given[i]));
	holds(&list, sorted, 6);
	wh_ids_clear(&list);
	assert_int_equal(wh_ids_count(&list), 0);
	assert_true(wh_ids_add(&list, 2));
	holds(&list, (int64_t[]){2}, 1);
	wh_ids_clear(&list);
}

WHERRY_TEST(ids_are_taken_from_the_front)
{
	wh_ids list = {0};
	int64_t next = 1;

	/* as a queue that never grows long, its memory does not either */
	for (int64_t id = 1; id <= 10000; id++) {
		assert_true(wh_ids_add(&list, id));
		if (id % 3) {
			assert_int_equal(list.ids[list.first++], next++);
		} else if (wh_ids_count(&list) > 5) {
			while (list.first < list.end)
				assert_int_equal(list.ids[list.first++], next++);
		}
	}
	assert_true(list.cap <= 64);
	/* an id below all that are left goes to their front, also after some were taken */
	assert_true(wh_ids_add(&list, 20000));
	assert_true(wh_ids_add(&list, 15000));
	assert_int_equal(list.ids[list.end - 2], 15000);
	wh_ids_clear(&list);
}

WHERRY_TEST(many_ids_in_any_order_come_out_sorted)
{
	wh_ids list = {0};
	uint64_t x = 42;

	for (int i = 0; i < 5000; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		assert_true(wh_ids_add(&list, (int64_t)(x >> 52)));
	}
	for (size_t i = list.first + 1; i < list.end; i++)
		assert_true(list.ids[i - 1] < list.ids[i]);
	assert_true(wh_ids_count(&list) <= 4096);
	wh_ids_clear(&list);
}

/* ---- ordering keys ---- */

static void key_of(const char *key, const char *type, const char *id, const char *wanted)
{
	wh_buf out = WH_BUF_INIT(4096);
	wh_open_row row = {
		.key = view(key), .aggregate_type = view(type), .aggregate_id = view(id)};

	wh_buf_puts(&out, "left over");
	wh_key_write(&out, &row, false);
	assert_string_equal(wh_buf_str(&out), wanted);
	assert_int_equal(out.len, strlen(wanted));
	wh_key_write(&out, &row, true);
	assert_memory_equal(wh_buf_str(&out), "=", 1);
	assert_string_equal(wh_buf_str(&out) + 1, id ? id : "");
	wh_buf_clear(&out);
}

WHERRY_TEST(no_two_ordering_keys_are_written_alike)
{
	key_of("k", "order", "1", "=k");
	key_of(NULL, "order", "1", "5:order1");
	key_of("", "order", "1", "5:order1");
	key_of(NULL, "orde", "r1", "4:order1");
	key_of(NULL, "", "order1", "0:order1");
	key_of(NULL, "order1", "", "6:order1");
	key_of("5:order1", "", "", "=5:order1");
	key_of(NULL, "", "=k", "0:=k");
	key_of(NULL, "", "", "");
	key_of(NULL, NULL, NULL, "");
}

/* The sum of a text takes its place; keys of one aggregate or text that differ at their ends differ. */
WHERRY_TEST(a_long_key_takes_little_memory_and_stays_itself)
{
	enum { LONG = 1024 * 1024, KINDS = 5 };
	char *text[3];
	wh_open_row rows[KINDS] = {0};
	wh_buf out[KINDS];

	for (size_t i = 0; i < 3; i++) {
		text[i] = calloc(1, LONG + 1);
		assert_non_null(text[i]);
		memset(text[i], 'x', LONG - (i == 2));
	}
	text[1][LONG - 1] = 'y';
	for (size_t i = 0; i < 3; i++)
		rows[i].key = view(text[i]);
	rows[3].aggregate_type = rows[4].aggregate_id = view(text[0]);
	for (size_t i = 0; i < KINDS; i++) {
		out[i] = (wh_buf)WH_BUF_INIT(4 * LONG);
		wh_key_write(&out[i], &rows[i], false);
		assert_int_equal(out[i].failed, WHERRY_OK);
		assert_in_range(out[i].len, 2, 1000);
		assert_in_range(out[i].cap, 2, 2000);
		assert_true(out[i].ptr[0] != '#' && out[i].ptr[0] != '=');
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(out[i].ptr, out[j].ptr);
	}
	wh_key_write(&out[1], &rows[0], false);
	assert_string_equal(out[1].ptr, out[0].ptr);
	/* A row that writes the sum as its key has another. */
	rows[1].key = view(out[0].ptr);
	wh_key_write(&out[1], &rows[1], false);
	assert_string_not_equal(out[1].ptr, out[0].ptr);
	for (size_t i = 0; i < KINDS; i++)
		wh_buf_clear(&out[i]);
	for (size_t i = 0; i < 3; i++)
		free(text[i]);
}

WHERRY_TEST(a_key_is_made_once_and_found_again)
{
	wh_keys keys;
	wh_key *a, *b;

	wh_keys_init(&keys, env);
	assert_null(wh_keys_find(&keys, view("=a")));
	a = wh_keys_get(&keys, view("=a"));
	assert_non_null(a);
	assert_int_equal(a->fsm.state, WH_KEY_FREE);
	assert_int_equal(a->due_us, WH_NEVER);
	assert_string_equal(a->bytes, "=a");
	assert_ptr_equal(wh_keys_get(&keys, view("=a")), a);
	assert_ptr_equal(wh_keys_find(&keys, view("=a")), a);
	b = wh_keys_get(&keys, (wh_view){"=a\0", 3});
	assert_ptr_not_equal(b, a);
	assert_null(wh_keys_find(&keys, view("=")));
	assert_int_equal(keys.n, 2);
	wh_keys_clear(&keys);
	assert_int_equal(keys.n, 0);
	assert_null(wh_keys_find(&keys, view("=a")));
	wh_keys_clear(&keys);
}

WHERRY_TEST(keys_are_found_however_many_there_are)
{
	enum { MANY = 20000 };
	char name[24];
	wh_keys keys;

	wh_keys_init(&keys, env);
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "=%d", i);
		assert_non_null(wh_keys_get(&keys, view(name)));
		assert_true(keys.n_buckets >= keys.n);
	}
	assert_int_equal(keys.n, MANY);
	for (int i = 0; i < MANY; i++) {
		wh_key *key;

		(void)snprintf(name, sizeof(name), "=%d", i);
		key = wh_keys_find(&keys, view(name));
		assert_non_null(key);
		assert_string_equal(key->bytes, name);
		if (i % 2)
			wh_keys_drop(&keys, key);
	}
	assert_int_equal(keys.n, MANY / 2);
	for (int i = 0; i < MANY; i++) {
		(void)snprintf(name, sizeof(name), "=%d", i);
		assert_int_equal(wh_keys_find(&keys, view(name)) != NULL, i % 2 == 0);
	}
	wh_keys_clear(&keys);
}

WHERRY_TEST(a_key_of_which_something_is_known_is_not_dropped)
{
	wh_keys keys;
	wh_key *key;

	wh_keys_init(&keys, env);
	key = wh_keys_get(&keys, view("=a"));
	key->owned = 1;
	wh_keys_drop(&keys, key);
	assert_int_equal(keys.n, 1);
	key->owned = 0;
	wh_key_hold(&keys, key, 5);
	wh_keys_drop(&keys, key);
	assert_int_equal(keys.n, 1);
	wh_key_park(&keys, key);
	wh_keys_drop(&keys, key);
	assert_int_equal(keys.n, 1);
	wh_key_free(&keys, key);
	wh_keys_drop(&keys, key);
	assert_int_equal(keys.n, 0);
	wh_keys_clear(&keys);
}

/* The list of keys that are not free has these many, and its links agree. */
static void held_list(const wh_keys *keys, size_t wanted)
{
	const wh_key *prev = NULL;
	size_t n = 0, parked = 0;

	for (const wh_key *key = keys->held; key; key = key->held_next, n++) {
		assert_ptr_equal(key->held_prev, prev);
		assert_int_not_equal(key->fsm.state, WH_KEY_FREE);
		parked += key->fsm.state == WH_KEY_PARKED;
		prev = key;
	}
	assert_int_equal(n, wanted);
	assert_int_equal(keys->n_parked, parked);
	assert_int_equal(keys->n_held, n - parked);
}

WHERRY_TEST(states_move_as_drawn_and_are_counted)
{
	wh_keys keys;
	wh_key *key[4];
	char name[24];

	wh_keys_init(&keys, env);
	for (int i = 0; i < 4; i++) {
		(void)snprintf(name, sizeof(name), "=%d", i);
		key[i] = wh_keys_get(&keys, view(name));
		wh_key_hold(&keys, key[i], 100 - i);
		held_list(&keys, (size_t)i + 1);
	}
	assert_int_equal(keys.first_due, 97);
	wh_key_hold(&keys, key[0], 50); /* once more: another of it failed */
	held_list(&keys, 4);
	assert_int_equal(keys.first_due, 50);
	assert_int_equal(key[0]->due_us, 50);
	wh_key_set_refused(&keys, key[0], true);
	wh_key_set_refused(&keys, key[0], true);
	wh_key_set_refused(&keys, key[1], true);
	assert_int_equal(keys.n_refused, 2);
	wh_key_drain(&keys, key[0]);
	wh_key_drain(&keys, key[1]);
	wh_key_drain(&keys, key[2]);
	held_list(&keys, 4);
	wh_key_hold(&keys, key[0], WH_NEVER); /* a message failed while it drained */
	wh_key_park(&keys, key[1]);           /* or died */
	wh_key_free(&keys, key[2]);           /* or all went well */
	held_list(&keys, 3);
	assert_int_equal(keys.n_parked, 1);
	wh_key_park(&keys, key[3]);
	held_list(&keys, 3);
	wh_key_free(&keys, key[1]); /* retried */
	wh_key_free(&keys, key[3]);
	held_list(&keys, 1);
	wh_key_park(&keys, key[2]); /* from free */
	held_list(&keys, 2);
	wh_key_drain(&keys, key[0]);
	wh_key_free(&keys, key[0]);
	wh_key_free(&keys, key[2]);
	held_list(&keys, 0);
	assert_null(keys.held);
	assert_int_equal(keys.n_refused, 0);
	wh_key_set_due(&keys, key[0], 7);
	assert_int_equal(keys.first_due, 7);
	wh_keys_clear(&keys);
}

WHERRY_TEST(notes_are_sorted_counted_and_bounded)
{
	wh_keys keys;
	wh_key *a, *b;

	wh_keys_init(&keys, env);
	a = wh_keys_get(&keys, view("=a"));
	b = wh_keys_get(&keys, view("=b"));
	wh_key_hold(&keys, a, 1);
	wh_key_hold(&keys, b, 1);
	wh_key_note(&keys, a, 5, 4);
	wh_key_note(&keys, a, 3, 4);
	wh_key_note(&keys, a, 5, 4); /* met again by a sweep */
	wh_key_note(&keys, b, 4, 4);
	assert_int_equal(keys.n_noted, 3);
	holds(&a->noted, (int64_t[]){3, 5}, 2);
	wh_key_note(&keys, b, 6, 4);
	assert_int_equal(keys.n_noted, 4);
	assert_int_equal(a->overflow_from, 0);
	/* no more room, over all keys */
	wh_key_note(&keys, a, 9, 4);
	wh_key_note(&keys, a, 10, 4);
	assert_int_equal(a->overflow_from, 9);
	wh_key_note(&keys, a, 8, 4);
	assert_int_equal(a->overflow_from, 8);
	wh_key_note(&keys, a, 11, 4);
	assert_int_equal(a->overflow_from, 8);
	assert_int_equal(keys.n_noted, 4);
	holds(&a->noted, (int64_t[]){3, 5}, 2);
	assert_int_equal(b->overflow_from, 0);
	/* room again: what is beyond the overflow stays there, so that order is kept */
	wh_key_drain(&keys, b);
	wh_key_free(&keys, b);
	assert_int_equal(keys.n_noted, 2);
	assert_int_equal(wh_ids_count(&b->noted), 0);
	wh_key_note(&keys, a, 12, 4);
	holds(&a->noted, (int64_t[]){3, 5}, 2);
	wh_key_note(&keys, a, 7, 4);
	holds(&a->noted, (int64_t[]){3, 5, 7}, 3);
	wh_key_park(&keys,
		    a); /* notes nothing: a retry by hand reads from the beginning */
	assert_int_equal(keys.n_noted, 0);
	assert_int_equal(a->overflow_from, 0);
	assert_int_equal(wh_ids_count(&a->noted), 0);
	wh_keys_clear(&keys);
}

/* Or a lower id, of which only the beginning of the rest is remembered, would be read
 * after those. */
WHERRY_TEST(nothing_is_noted_beyond_what_could_not_be)
{
	wh_keys keys;
	wh_key *a;

	wh_keys_init(&keys, &wh_env_system);
	a = wh_keys_get(&keys, wh_view_of("=a"));
	wh_key_hold(&keys, a, 0);
	wh_key_note(&keys, a, 2, 3);
	wh_key_note(&keys, a, 7, 3);
	wh_key_note(&keys, a, 9, 3);
	wh_key_note(&keys, a, 4, 3);
	assert_int_equal(a->overflow_from, 4);
	holds(&a->noted, (int64_t[]){2}, 1);
	assert_int_equal(keys.n_noted, 1);
	wh_keys_clear(&keys);
}

WHERRY_TEST_MAIN
