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

static void a_password_is_masked_whatever_is_in_it(void **state)
{
	static const char *const rows[][2] = {
		{"postgres://me:a/b@host/db", "postgres://me:***@host/db"},
		{"postgres://me:a?b#c@host", "postgres://me:***@host"},
		{"postgres://me:a b@host", "postgres://me:***@host"},
		{"postgres://me:a://b@host", "postgres://me:***@host"},
		{"http://[::1]:80/a@b", "http://[::1]:80/a@b"},
		{"exec:curl http://a:80/ http://me:pw@b/",
		 "exec:curl http://a:80/ http://me:***@b/"},
		{"exec:curl http://a:80 http://me:pw@b",
		 "exec:curl http://a:80 http://me:***@b"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char text[80];

		wh_url_mask(rows[i][0], text, sizeof(text));
		assert_string_equal(text, rows[i][1]);
	}
}

static void a_secret_given_by_name_is_masked(void **state)
{
	static const char *const rows[][2] = {
		{"postgres://h/db?password=x", "postgres://h/db?password=***"},
		{"postgres://h/db?a=1&password=x&b=2",
		 "postgres://h/db?a=1&password=***&b=2"},
		{"postgres://h/db?sslpassword=x#y", "postgres://h/db?sslpassword=***"},
		{"postgres://h/db?PassWord=x", "postgres://h/db?PassWord=***"},
		{"postgres://h/db?p%61ss%57ord=x", "postgres://h/db?p%61ss%57ord=***"},
		{"http://h/?access_token=x&secret=y",
		 "http://h/?access_token=***&secret=***"},
		{"http://h/#token=x", "http://h/#token=***"},
		{"http://h/?token=a;b c", "http://h/?token=***"},
		{"http://me:x@h/?token=y", "http://me:***@h/?token=***"},
		{"mssql:Server=h;Pwd=x", "mssql:Server=h;Pwd=***"},
		{"postgres:host=h password=x", "postgres:host=h password=***"},
		{"exec:API_KEY=x deliver", "exec:API_KEY=***"},
		{"exec:deliver --client-secret=x", "exec:deliver --client-secret=***"},
		{"http://h/?token=", "http://h/?token=***"},
		{"http://h/?password&a=b", "http://h/?password&a=b"},
		{"http://h/?passwords=4", "http://h/?passwords=4"},
		{"http://h/?sslkey=client.key", "http://h/?sslkey=client.key"},
		{"http://h/?tok%=x&%6=y&%zz=z", "http://h/?tok%=x&%6=y&%zz=z"},
		{"http://h/?a_name_longer_than_any_list_of_words_password=x",
		 "http://h/?a_name_longer_than_any_list_of_words_password=***"},
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
	wh_url_mask("x://a/?token=b", text, 2);
	assert_string_equal(text, "x");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_url_is_a_scheme_and_the_rest),
		cmocka_unit_test(what_has_no_scheme_is_refused_and_nothing_changes),
		cmocka_unit_test(a_password_is_masked),
		cmocka_unit_test(a_password_is_masked_whatever_is_in_it),
		cmocka_unit_test(a_secret_given_by_name_is_masked),
		cmocka_unit_test(a_masked_url_fits_its_room),
	};

	return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
