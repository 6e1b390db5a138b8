#include "wherry_test.h"

#include "base/url.h"

static void a_url_is_a_scheme_and_the_rest(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_url url;

	(void)state;
	WHERRY_PASS(wh_url_parse("sqlite:shop.db", &url, &err));
	assert_true(wh_view_eq(url.scheme, wh_view_of("sqlite")));
	assert_true(wh_view_eq(url.rest, wh_view_of("shop.db")));
	WHERRY_PASS(wh_url_parse("sqlite::memory:", &url, &err));
	assert_true(wh_view_eq(url.rest, wh_view_of(":memory:")));
	WHERRY_PASS(wh_url_parse("stdout:", &url, &err));
	assert_true(wh_view_eq(url.rest, wh_view_of("")));
	WHERRY_PASS(wh_url_parse("a1+b-c.d://x", &url, &err));
	assert_true(wh_view_eq(url.scheme, wh_view_of("a1+b-c.d")));
	assert_true(wh_view_eq(url.rest, wh_view_of("//x")));
}

static void what_has_no_scheme_is_refused_and_nothing_changes(void **state)
{
	static const char *const rows[] = {"",      ":",    "shop.db",  "1a:x",  "-a:x",
					   "a b:c", " a:b", "/tmp/a:b", "sqlite"};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_url url = {{"x", 1}, {"y", 1}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		WHERRY_FAILS(WHERRY_INVALID, wh_url_parse(rows[i], &url, &err));
		assert_string_equal(url.scheme.ptr, "x");
		assert_string_equal(url.rest.ptr, "y");
	}
	assert_non_null(strstr(err.message, "sqlite:shop.db"));
}

static void a_password_is_masked(void **state)
{
	static const char *const rows[][2] = {
		{"postgres://me:secret@host/db", "postgres://me:***@host/db"},
		{"postgres://me:s:e@c@host/db?a=b", "postgres://me:***@host/db?a=b"},
		{"amqp://:secret@host", "amqp://:***@host"},
		{"postgres://me@host:5432/db", "postgres://me@host:5432/db"},
		{"postgres://host:5432/a@b", "postgres://host:5432/a@b"},
		{"sqlite:shop.db", "sqlite:shop.db"},
		{"sqlite:/a:b@c", "sqlite:/a:b@c"},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[80];

		wh_url_mask(rows[i][0], text, sizeof(text));
		assert_string_equal(text, rows[i][1]);
	}
}

static void a_masked_url_fits_its_room(void **state)
{
	char text[20];

	(void)state;
	wh_url_mask("postgres://me:secret@host/db", text, sizeof(text));
	assert_string_equal(text, "postgres://me:***@h");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_url_is_a_scheme_and_the_rest),
		cmocka_unit_test(what_has_no_scheme_is_refused_and_nothing_changes),
		cmocka_unit_test(a_password_is_masked),
		cmocka_unit_test(a_masked_url_fits_its_room),
	};

	return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
