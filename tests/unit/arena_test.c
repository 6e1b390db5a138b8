#include "wherry_test.h"

#include <stdalign.h>

#include "base/arena.h"

WHERRY_TEST(pieces_are_aligned_and_apart)
{
	wh_arena arena = WH_ARENA_INIT;
	unsigned char *last = NULL;

	for (size_t n = 1; n < 400; n++) {
		unsigned char *piece = wh_arena_alloc(&arena, n);

		assert_non_null(piece);
		assert_int_equal((uintptr_t)piece % alignof(max_align_t), 0);
		memset(piece, (int)(n & 0xff), n);
		if (last)
			assert_int_equal(last[n - 2], (n - 1) & 0xff);
		last = piece;
	}
	assert_true(arena.used >= 399 * 400 / 2);
	wh_arena_clear(&arena);
}

WHERRY_TEST(a_piece_may_be_larger_than_a_block)
{
	wh_arena arena = WH_ARENA_INIT;
	char *small = wh_arena_copy(&arena, "small", 5);
	char *big = wh_arena_alloc(&arena, 1000000);
	char *after = wh_arena_copy(&arena, "after", 5);

	assert_non_null(big);
	memset(big, 'x', 1000000);
	assert_string_equal(small, "small");
	assert_string_equal(after, "after");
	wh_arena_clear(&arena);
	assert_null(arena.block);
}

WHERRY_TEST(a_copy_ends_in_nul_and_keeps_every_byte)
{
	wh_arena arena = WH_ARENA_INIT;
	char *copy = wh_arena_copy(&arena, "a\0b", 3);

	assert_memory_equal(copy, "a\0b", 4);
	assert_string_equal(wh_arena_copy(&arena, NULL, 0), "");
	wh_arena_clear(&arena);
}

WHERRY_TEST(sizes_that_overflow_are_refused)
{
	wh_arena arena = WH_ARENA_INIT;

	assert_null(wh_arena_alloc(&arena, SIZE_MAX));
	assert_null(wh_arena_alloc(&arena, SIZE_MAX - alignof(max_align_t)));
	assert_null(wh_arena_copy(&arena, "", SIZE_MAX));
	assert_int_equal(arena.used, 0);
	assert_non_null(wh_arena_alloc(&arena, 1)); /* still usable */
	wh_arena_clear(&arena);
}

WHERRY_TEST(a_reset_keeps_one_block_for_the_next_batch)
{
	wh_arena arena = WH_ARENA_INIT;

	assert_non_null(wh_arena_alloc(&arena, 10));
	for (int i = 0; i < 100; i++)
		assert_non_null(wh_arena_alloc(&arena, 10000));
	wh_arena_reset(&arena);
	assert_int_equal(arena.used, 0);
	assert_non_null(arena.block);
	assert_non_null(wh_arena_alloc(&arena, 10));
	wh_arena_reset(&arena);

	assert_non_null(wh_arena_alloc(&arena, 1000000));
	wh_arena_reset(&arena);
	wh_arena_clear(&arena);
	wh_arena_reset(&arena); /* of an empty one */
	assert_null(arena.block);
}

WHERRY_TEST_MAIN
