/*
 * What every test includes first: cmocka with what it needs before it, and asserts that
 * print the call, the code got and wanted, and the error's text.  They use a local
 * `wherry_error err`.
 */
#ifndef WHERRY_TEST_H
#define WHERRY_TEST_H

#include <ftw.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <wherry/error.h>

/* Tests and fixtures have the parameters of the tables that they stand in. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#define WHERRY_PASS(call) WHERRY_FAILS(WHERRY_OK, call)

#define WHERRY_FAILS(wanted, call)                                                       \
	do {                                                                             \
		wherry_code wherry_got_ = (call);                                        \
		if (wherry_got_ != (wanted)) {                                           \
			print_error("%s\n  got %s, wanted %s: %s\n", #call,              \
				    wherry_code_name(wherry_got_),                       \
				    wherry_code_name(wanted), err.message);              \
			fail();                                                          \
		}                                                                        \
	} while (0)

/* The tests of a file, in the order in which they stand there. */
typedef struct wherry_tests {
	struct CMUnitTest all[64];
	size_t n;
} wherry_tests;

static inline wherry_tests *wherry_tests_of_file(void)
{
	static wherry_tests tests;

	return &tests;
}

static inline void wherry_test_add(struct CMUnitTest test)
{
	wherry_tests *tests = wherry_tests_of_file();

	if (tests->n == sizeof(tests->all) / sizeof(*tests->all))
		abort(); /* There is no more room. */
	tests->all[tests->n++] = test;
}

/* A test; with functions that are called before and after it, or NULL. */
#define WHERRY_TEST(name) WHERRY_TEST_WITH(name, NULL, NULL)
#define WHERRY_TEST_WITH(name, make, drop)                                               \
	static void name(void **state);                                                  \
	__attribute__((constructor)) static void name##_is_a_test(void)                  \
	{                                                                                \
		wherry_test_add((struct CMUnitTest){#name, name, make, drop, NULL});     \
	}                                                                                \
	static void name(void **state)

/* A function of a suite's table of tests, with its fixture in place of `void **state`. */
#define WHERRY_CASE(name, fixture)                                                       \
	static void name##_of(fixture);                                                  \
	static void name(void **state)                                                   \
	{                                                                                \
		name##_of(*state);                                                       \
	}                                                                                \
	static void name##_of(fixture)

/* A test of the file with its fixture in place of `void **state`. */
#define WHERRY_TEST_ON(name, fixture, make, drop)                                        \
	static void name##_of(fixture);                                                  \
	WHERRY_TEST_WITH(name, make, drop)                                               \
	{                                                                                \
		name##_of(*state);                                                       \
	}                                                                                \
	static void name##_of(fixture)

/* Does WHERRY_TEST_WITHOUT name the test, between blanks?  A suite writes its backend, a colon and a
 * blank before the name. */
static inline bool wherry_test_left_out(const char *name)
{
	const char *list = getenv("WHERRY_TEST_WITHOUT"), *backend = strstr(name, ": ");
	size_t len = strlen(backend ? backend + 2 : name);

	name = backend ? backend + 2 : name;
	for (const char *at = list; at && (at = strstr(at, name)); at += len)
		if ((at == list || at[-1] == ' ') && (!at[len] || at[len] == ' '))
			return true;
	return false;
}

/* Run tests, but for those that are left out. */
static inline int wherry_run_group(const char *group, const struct CMUnitTest *tests,
				   size_t n, CMFixtureFunction make,
				   CMFixtureFunction drop)
{
	struct CMUnitTest *kept = calloc(n + 1, sizeof(*kept));
	size_t n_kept = 0;
	int failed;

	if (!kept)
		abort();
	for (size_t i = 0; i < n; i++)
		if (wherry_test_left_out(tests[i].name))
			print_message("# left out: %s\n", tests[i].name);
		else
			kept[n_kept++] = tests[i];
	failed = _cmocka_run_group_tests(group, kept, n_kept, make, drop);
	free(kept);
	return failed;
}

/* Run them, or those that WHERRY_ONLY names. */
static inline int wherry_run_tests(CMFixtureFunction make, CMFixtureFunction drop)
{
	wherry_tests *tests = wherry_tests_of_file();

	cmocka_set_test_filter(getenv("WHERRY_ONLY"));
	return wherry_run_group("tests", tests->all, tests->n, make, drop);
}

#define WHERRY_TEST_MAIN                                                                 \
	int main(void)                                                                   \
	{                                                                                \
		return wherry_run_tests(NULL, NULL);                                     \
	}

/* Some runs take a part of the cases of long suites: of the first n tests keep each third, if
 * WHERRY_TEST_PART is 3, and those that follow them, if it is 3+1.  Returns how many are left. */
static inline size_t wherry_test_part(struct CMUnitTest *tests, size_t n)
{
	const char *text = getenv("WHERRY_TEST_PART");
	char *end = NULL;
	size_t each = text && *text ? (size_t)strtoul(text, &end, 10) : 1, kept = 0;
	size_t from = end && *end == '+' ? (size_t)strtoul(end, NULL, 10) : 0;

	for (size_t i = 0; i < n; i++)
		if (each < 2 || i % each == from)
			tests[kept++] = tests[i];
	return kept;
}

/* A path in a new directory, which is gone with wherry_temp_clear(). */
typedef struct wherry_temp {
	char dir[64];
	char path[128];
} wherry_temp;

static inline const char *wherry_temp_make(wherry_temp *temp, const char *file)
{
	const char *in = getenv("TMPDIR");

	(void)snprintf(temp->dir, sizeof(temp->dir), "%.40s/wherry-test-XXXXXX",
		       in && strlen(in) <= 40 ? in : "/tmp");
	assert_non_null(mkdtemp(temp->dir));
	(void)snprintf(temp->path, sizeof(temp->path), "%s/%.60s", temp->dir, file);
	return temp->path;
}

static inline int wherry_temp_remove(const char *path, const struct stat *st, int type,
				     struct FTW *where)
{
	return remove(path);
}

/* Not by a shell: starting a program from one with a sanitizer takes milliseconds. */
static inline void wherry_temp_clear(wherry_temp *temp)
{
	if (nftw(temp->dir, wherry_temp_remove, 8, FTW_DEPTH | FTW_PHYS) != 0)
		print_error("%s is left behind\n", temp->dir);
}

#endif
