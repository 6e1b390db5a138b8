#include "wherry_test.h"

#include "base/json.h"

static bool valid(const char *text)
{
	return wh_json_valid(text, strlen(text));
}

static void any_single_value_is_json(void **state)
{
	(void)state;
	assert_true(valid("{}"));
	assert_true(valid(" [1, 2] "));
	assert_true(valid("\"x\""));
	assert_true(valid("null"));
	assert_true(valid("1"));
	assert_true(valid("123456789012345678901234567890")); /* beyond 64 bits */
	assert_true(valid("{\"a\":\"\\u0000\"}"));
}

static void other_bytes_are_no_json(void **state)
{
	(void)state;
	assert_false(valid(""));
	assert_false(valid("{"));
	assert_false(valid("{} {}"));
	assert_false(valid("{'a':1}"));
	assert_false(valid("\"\xff\""));
	assert_false(valid("nul"));
	assert_false(wh_json_valid("1\0", 2));
	assert_false(wh_json_valid("{}\0 or anything", 14));
}

static void endless_nesting_is_refused(void **state)
{
	enum { DEPTH = 100000 };
	char *deep = malloc(DEPTH);

	(void)state;
	assert_non_null(deep);
	memset(deep, '[', DEPTH);
	assert_false(wh_json_valid(deep, DEPTH));
	free(deep);
}

static void parsing_says_where_it_failed(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	json_t *value = NULL;
	static const char text[] = "{\n \"a\": x}";

	(void)state;
	WHERRY_FAILS(WHERRY_INVALID, wh_json_parse(text, strlen(text), &value, &err));
	assert_null(value);
	assert_ptr_equal(strstr(err.message, "line 2, column "), err.message);
	WHERRY_FAILS(WHERRY_INVALID, wh_json_parse("", 0, &value, &err));
	assert_null(value);
	WHERRY_FAILS(WHERRY_INVALID, wh_json_parse("{}\0x", 4, &value, &err));
	assert_non_null(strstr(err.message, "NUL"));
	assert_null(value);
	WHERRY_PASS(wh_json_parse("7", 1, &value, &err));
	assert_int_equal(json_integer_value(value), 7);
	json_decref(value);
}

static void headers_are_an_object_of_strings(void **state)
{
	static const char *const good[] = {"{}", "{ }", "{\"a\":\"b\"}",
					   "{\"a\":null,\"b\":\"\"}"};
	static const char *const bad[] = {
		"",
		"[]",
		"null",
		"\"a\"",
		"{\"a\":1}",
		"{\"a\":true}",
		"{\"a\":{}}",
		"{\"a\":\"b\"",
		"{\"a\":[]}",
		"{}x",
		"{\"a\":\"\\u0000\"}", /* no header can hold NUL */
	};
	wherry_error err = WHERRY_ERROR_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
		WHERRY_PASS(wh_json_headers(good[i], strlen(good[i]), &err));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		WHERRY_FAILS(WHERRY_INVALID,
			     wh_json_headers(bad[i], strlen(bad[i]), &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_json_headers("{\"who\":5}", 9, &err));
	assert_non_null(strstr(err.message, "'who'"));
}

static json_t *rfc(void)
{
	static const char text[] =
		"{\"foo\":[\"bar\",\"baz\"],\"\":0,\"a/b\":1,\"c%d\":2,\" \":7,\"m~n\":8}";
	wherry_error err = WHERRY_ERROR_INIT;
	json_t *root = NULL;

	WHERRY_PASS(wh_json_parse(text, strlen(text), &root, &err));
	return root;
}

static void pointers_are_those_of_rfc_6901(void **state)
{
	json_t *root = rfc();

	(void)state;
	assert_ptr_equal(wh_json_pointer(root, ""), root);
	assert_int_equal(json_array_size(wh_json_pointer(root, "/foo")), 2);
	assert_string_equal(json_string_value(wh_json_pointer(root, "/foo/0")), "bar");
	assert_string_equal(json_string_value(wh_json_pointer(root, "/foo/1")), "baz");
	assert_int_equal(json_integer_value(wh_json_pointer(root, "/")), 0);
	assert_int_equal(json_integer_value(wh_json_pointer(root, "/a~1b")), 1);
	assert_int_equal(json_integer_value(wh_json_pointer(root, "/c%d")), 2);
	assert_int_equal(json_integer_value(wh_json_pointer(root, "/ ")), 7);
	assert_int_equal(json_integer_value(wh_json_pointer(root, "/m~0n")), 8);
	json_decref(root);
}

static void pointers_to_nothing_give_nothing(void **state)
{
	static const char *const rows[] = {
		"foo",      "/nope",
		"/foo/2",   "/foo/-",
		"/foo/01",  "/foo/-1",
		"/foo/x",   "/foo/",
		"/foo/0/a", "/a~1b/x",
		"/m~2n",    "/m~",
		"//",       "/foo/18446744073709551616",
	};
	json_t *root = rfc();
	char endless[400] = "/";

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_null(wh_json_pointer(root, rows[i]));
	memset(endless + 1, 'a', sizeof(endless) - 2);
	assert_null(wh_json_pointer(root, endless));
	json_decref(root);
}

static void pointers_are_checked(void **state)
{
	(void)state;
	assert_true(wh_json_pointer_valid(""));
	assert_true(wh_json_pointer_valid("/"));
	assert_true(wh_json_pointer_valid("/a/b~0~1"));
	assert_false(wh_json_pointer_valid("a"));
	assert_false(wh_json_pointer_valid("/a~"));
	assert_false(wh_json_pointer_valid("/a~2"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_single_value_is_json),
		cmocka_unit_test(other_bytes_are_no_json),
		cmocka_unit_test(endless_nesting_is_refused),
		cmocka_unit_test(parsing_says_where_it_failed),
		cmocka_unit_test(headers_are_an_object_of_strings),
		cmocka_unit_test(pointers_are_those_of_rfc_6901),
		cmocka_unit_test(pointers_to_nothing_give_nothing),
		cmocka_unit_test(pointers_are_checked),
	};

	return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
