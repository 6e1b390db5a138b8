/*
 * A publisher around a publisher hands on each function that it does not have itself, to the
 * publisher inside, and lacks those that this one lacks.
 */
#include "wherry_test.h"

#include <stddef.h>
#include <string.h>

#include "publish/around.h"

static unsigned n_calls;
static wherry_publisher *inside;

static void expect_inside(const wherry_publisher *pub)
{
	assert_ptr_equal(pub, inside);
	n_calls++;
}

static void any_call(wherry_publisher *pub)
{
	expect_inside(pub);
}

static size_t any_most(wherry_publisher *pub)
{
	expect_inside(pub);
	return 7;
}

static void any_grant(wherry_publisher *pub, const wh_grant *grant)
{
	assert_int_equal(grant->epoch, 7);
	expect_inside(pub);
}

static int any_fd(wherry_publisher *pub, short *out_events)
{
	expect_inside(pub);
	*out_events = 7;
	return 7;
}

static int64_t any_deadline(wherry_publisher *pub)
{
	expect_inside(pub);
	return 7;
}

static const char *any_text(wherry_publisher *pub)
{
	expect_inside(pub);
	return "7";
}

static size_t any_numbers(const wherry_publisher *pub, wh_number *out)
{
	expect_inside(pub);
	out->value = 7;
	return 1;
}

static const wh_publisher_driver with_all = {
	.drop = any_call,
	.cancel = any_call,
	.body_most = any_most,
	.grant = any_grant,
	.fd = any_fd,
	.deadline = any_deadline,
	.trouble = any_text,
	.notice = any_text,
	.watch = any_call,
	.numbers = any_numbers,
};

static const wh_publisher_driver own_none;

/* The functions from drop() to numbers() stand one behind the other. */
enum {
	FIRST = offsetof(wh_publisher_driver, drop),
	END = offsetof(wh_publisher_driver, numbers) + sizeof(with_all.numbers)
};

static wherry_publisher *around(const wh_publisher_driver *driver,
				wherry_publisher *inner, wh_around *out)
{
	inner->driver = driver;
	inside = inner;
	n_calls = 0;
	wh_around_make(out, inner, &own_none);
	return &out->base;
}

WHERRY_TEST(each_function_of_the_publisher_inside_is_called_with_it)
{
	const wh_grant grant = {.epoch = 7};
	wherry_publisher inner;
	wh_around made;
	wherry_publisher *pub = around(&with_all, &inner, &made);
	wh_number number;
	short events;

	wh_publisher_drop(pub);
	wh_publisher_cancel(pub);
	assert_int_equal(pub->driver->body_most(pub), 7);
	wh_publisher_grant(pub, &grant);
	assert_int_equal(wh_publisher_fd(pub, &events), 7);
	assert_int_equal(events, 7);
	assert_int_equal(wh_publisher_deadline(pub), 7);
	assert_string_equal(wh_publisher_trouble(pub), "7");
	assert_string_equal(wh_publisher_notice(pub), "7");
	wh_publisher_watch(pub);
	assert_int_equal(wh_publisher_numbers(pub, &number), 1);
	assert_int_equal(number.value, 7);
	assert_int_equal(n_calls, (END - FIRST) / sizeof(with_all.numbers));
}

/* A function that the table of drivers gets must be handed on, too, and never called with the
 * wrong publisher. */
WHERRY_TEST(no_function_is_left_out_or_copied)
{
	wherry_publisher inner;
	wh_around made;
	const char *to = (const char *)&with_all, *of = (const char *)&made.table;

	(void)around(&with_all, &inner, &made);
	for (size_t at = FIRST; at < END; at += sizeof(with_all.numbers)) {
		void (*theirs)(void), (*ours)(void);

		memcpy(&theirs, to + at, sizeof(theirs));
		memcpy(&ours, of + at, sizeof(ours));
		assert_non_null(theirs);
		assert_non_null(ours);
		assert_true(ours != theirs);
	}
}

WHERRY_TEST(what_the_publisher_inside_lacks_is_lacking)
{
	static const wh_publisher_driver bare;
	wherry_publisher inner;
	wh_around made;

	(void)around(&bare, &inner, &made);
	for (size_t at = FIRST; at < END; at++)
		assert_int_equal(((const char *)&made.table)[at], 0);
}

WHERRY_TEST_MAIN
