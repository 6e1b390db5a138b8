/*
 * The driver for SQL Server, as far as no server is needed: URLs, UTF-16, times, error numbers.
 */
#include "wherry_test.h"

#include <wherry/odbc.h>

#include "db/odbc/odbc.h"

static const char microsoft[] = "ODBC Driver 18 for SQL Server";

static wherry_code make(const char *url, const char *installed, char *out, size_t cap,
			wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(4096);
	char name[160];
	wherry_code code =
		wh_odbc_mssql_string(url, installed, &text, name, sizeof(name), err);

	(void)snprintf(out, cap, "%s", wh_buf_str(&text));
	wh_buf_clear(&text);
	return code;
}

static void a_url_becomes_a_connection_string(void **state)
{
	static const struct {
		const char *url, *installed, *wanted;
	} cases[] = {
		{"//shop:pw@db1/shop", microsoft,
		 "Driver={ODBC Driver 18 for SQL Server};Server={tcp:db1,1433};"
		 "Database={shop};UID={shop};PWD={pw};APP=wherry;"
		 "Encrypt=yes;TrustServerCertificate=no;"},
		{"//db1:1533/shop?trust_server_certificate=yes", microsoft,
		 "Driver={ODBC Driver 18 for SQL Server};Server={tcp:db1,1533};"
		 "Database={shop};Trusted_Connection=yes;APP=wherry;"
		 "Encrypt=yes;TrustServerCertificate=yes;"},
		{"//a%40b:p%3Bw%7D@[::1]:1533/my%20shop?encrypt=no", "FreeTDS",
		 "Driver={FreeTDS};Server={::1};Port=1533;TDS_Version=7.4;"
		 "ClientCharset=UTF-8;Database={my shop};UID={a@b};PWD={p;w}}};APP=wherry;"
		 "Encryption=off;"},
		{"//u:p@h/d?driver=FreeTDS&trust_server_certificate=yes", microsoft,
		 "Driver={FreeTDS};Server={h};Port=1433;TDS_Version=7.4;"
		 "ClientCharset=UTF-8;Database={d};UID={u};PWD={p};APP=wherry;"
		 "Encryption=require;"},
		{"//db1/shop?authentication=ActiveDirectoryMsi&multi_subnet_failover=yes",
		 microsoft,
		 "Driver={ODBC Driver 18 for SQL Server};Server={tcp:db1,1433};"
		 "Database={shop};APP=wherry;Authentication={ActiveDirectoryMsi};"
		 "MultiSubnetFailover=Yes;Encrypt=yes;TrustServerCertificate=no;"},
		{"//id:pw@db1/shop?authentication=ActiveDirectoryServicePrincipal",
		 microsoft,
		 "Driver={ODBC Driver 18 for SQL Server};Server={tcp:db1,1433};"
		 "Database={shop};UID={id};PWD={pw};APP=wherry;"
		 "Authentication={ActiveDirectoryServicePrincipal};"
		 "Encrypt=yes;TrustServerCertificate=no;"},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		WHERRY_PASS(
			make(cases[i].url, cases[i].installed, text, sizeof(text), &err));
		assert_string_equal(text, cases[i].wanted);
	}
}

static void a_url_that_cannot_be_is_refused(void **state)
{
	static const struct {
		const char *url;
		wherry_code code;
		const char *says;
	} cases[] = {
		{"shop@db1/shop", WHERRY_INVALID, "//"},
		{"//db1", WHERRY_INVALID, "host and a database"},
		{"///shop", WHERRY_INVALID, "host and a database"},
		{"//db1:x/shop", WHERRY_INVALID, "port"},
		{"//db1/shop?encrypt=maybe", WHERRY_INVALID, "encrypt is yes or no"},
		{"//db1/shop?timeout=3", WHERRY_INVALID, "'timeout'"},
		{"//db1\\sales/shop", WHERRY_INVALID, "port of a named instance"},
		{"//db1/shop?driver=FreeTDS&authentication=ActiveDirectoryMsi&encrypt=no",
		 WHERRY_UNSUPPORTED, "Microsoft's driver"},
		{"//u%2/shop", WHERRY_INVALID, "%25"},
		{"//db1/shop?driver=FreeTDS", WHERRY_UNSUPPORTED, "certificate"},
		{"//db1/shop?password=env:WHERRY_NO_SUCH_VARIABLE", WHERRY_NOTFOUND,
		 "WHERRY_NO_SUCH_VARIABLE"},
	};
	wherry_error err = WHERRY_ERROR_INIT;
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		WHERRY_FAILS(cases[i].code,
			     make(cases[i].url, microsoft, text, sizeof(text), &err));
		if (!strstr(err.message, cases[i].says)) {
			print_error("%s: %s\n", cases[i].url, err.message);
			fail();
		}
	}
	WHERRY_FAILS(WHERRY_NOTFOUND, make("//db1/shop", NULL, text, sizeof(text), &err));
	assert_non_null(strstr(err.message, "no ODBC driver"));
}

static void a_password_comes_from_a_file_or_the_environment(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_temp temp;
	char url[256], text[1024];
	FILE *file = fopen(wherry_temp_make(&temp, "password"), "w");

	(void)state;
	assert_non_null(file);
	assert_true(fputs("from a file\n", file) >= 0);
	assert_int_equal(fclose(file), 0);
	(void)snprintf(url, sizeof(url), "//u@h/d?password=file:%s", temp.path);
	WHERRY_PASS(make(url, microsoft, text, sizeof(text), &err));
	assert_non_null(strstr(text, ";PWD={from a file};"));
	wherry_temp_clear(&temp);

	assert_int_equal(setenv("WHERRY_TEST_PASSWORD", "from outside", 1), 0);
	WHERRY_PASS(make("//u@h/d?password=env:WHERRY_TEST_PASSWORD&encrypt=yes",
			 microsoft, text, sizeof(text), &err));
	assert_non_null(strstr(text, ";PWD={from outside};"));
}

/* To UTF-16 and back. */
static void goes_and_comes(const char *text, size_t len, size_t units)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_arena arena = WH_ARENA_INIT;
	wh_buf back = WH_BUF_INIT(4096);
	SQLWCHAR *wide = NULL;
	size_t n = 0;

	WHERRY_PASS(wh_odbc_widen(&arena, (wh_view){text, len}, &wide, &n, &err));
	assert_int_equal(n, units);
	assert_int_equal(wide[n], 0);
	assert_true(wh_odbc_narrow(wide, n, &back));
	assert_int_equal(back.len, len);
	assert_memory_equal(wh_buf_str(&back), text, len);
	wh_buf_clear(&back);
	wh_arena_clear(&arena);
}

static void texts_become_utf_16_and_come_back(void **state)
{
	(void)state;
	goes_and_comes("", 0, 0);
	goes_and_comes("a\0b", 3, 3);
	goes_and_comes("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf", 11, 5);
	goes_and_comes("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", 8,
		       4); /* the ends of the planes */
	goes_and_comes("\xf0\x9f\x9a\xa3 \xed\x9f\xbf\xee\x80\x80", 11, 5);
}

static void what_is_not_unicode_is_refused(void **state)
{
	static const SQLWCHAR broken[][3] = {{0xd800, 'a', 0},
					     {0xdc00, 'a', 0},
					     {'a', 0xdbff, 0},
					     {0xd800, 0xd800, 0}};
	wherry_error err = WHERRY_ERROR_INIT;
	wh_arena arena = WH_ARENA_INIT;
	SQLWCHAR *wide = NULL;
	size_t n = 0;

	(void)state;
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_odbc_widen(&arena, wh_view_of("ab\xff"), &wide, &n, &err));
	assert_non_null(strstr(err.message, "byte 2"));
	WHERRY_FAILS(WHERRY_INVALID,
		     wh_odbc_widen(&arena, wh_view_of("\xed\xa0\x80"), &wide, &n, &err));
	wh_arena_clear(&arena);
	for (size_t i = 0; i < sizeof(broken) / sizeof(*broken); i++) {
		wh_buf back = WH_BUF_INIT(64);

		assert_false(wh_odbc_narrow(broken[i], 2, &back));
		wh_buf_clear(&back);
	}
}

static void a_time_with_an_offset_is_read(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t us = 0;

	(void)state;
	WHERRY_PASS(wh_odbc_time("1970-01-01 02:00:01.1234567 +02:00", &us, &err));
	assert_int_equal(us, 1123456);
	WHERRY_PASS(wh_odbc_time("1969-12-31 19:00:00 -05:00", &us, &err));
	assert_int_equal(us, 0);
	WHERRY_FAILS(WHERRY_INVALID, wh_odbc_time("", &us, &err));
	WHERRY_FAILS(WHERRY_INVALID, wh_odbc_time("yesterday", &us, &err));
}

static void each_number_of_sql_server_has_its_remedy(void **state)
{
	static const struct {
		long native;
		wherry_remedy remedy;
	} cases[] = {
		{1205, WHERRY_REMEDY_ROLLBACK}, {3960, WHERRY_REMEDY_ROLLBACK},
		{3961, WHERRY_REMEDY_ROLLBACK}, {3971, WHERRY_REMEDY_ROLLBACK},
		{1222, WHERRY_REMEDY_RETRY},    {10928, WHERRY_REMEDY_RETRY},
		{10929, WHERRY_REMEDY_RETRY},   {40501, WHERRY_REMEDY_RETRY},
		{49918, WHERRY_REMEDY_RETRY},   {49919, WHERRY_REMEDY_RETRY},
		{49920, WHERRY_REMEDY_RETRY},   {-2, WHERRY_REMEDY_RETRY},
		{40197, WHERRY_REMEDY_REOPEN},  {40613, WHERRY_REMEDY_REOPEN},
		{10053, WHERRY_REMEDY_REOPEN},  {10054, WHERRY_REMEDY_REOPEN},
		{233, WHERRY_REMEDY_REOPEN},    {2627, WHERRY_REMEDY_FIX},
		{2601, WHERRY_REMEDY_FIX},      {208, WHERRY_REMEDY_FIX},
		{2714, WHERRY_REMEDY_FIX},      {2705, WHERRY_REMEDY_FIX},
		{1913, WHERRY_REMEDY_FIX},      {15248, WHERRY_REMEDY_FIX},
		{15335, WHERRY_REMEDY_FIX},     {18456, WHERRY_REMEDY_FIX},
		{20004, WHERRY_REMEDY_REOPEN},  {20017, WHERRY_REMEDY_REOPEN},
		{20020, WHERRY_REMEDY_REOPEN},  {1203, WHERRY_REMEDY_ROLLBACK},
		{3966, WHERRY_REMEDY_ROLLBACK}, {40549, WHERRY_REMEDY_RETRY},
		{40553, WHERRY_REMEDY_RETRY},
	};
	/* While a database fails over, starts or moves. */
	static const long moves[] = {921,   922,   927,   942,   952,   976,
				     978,   983,   3948,  6005,  17142, 18401,
				     40143, 40197, 40540, 40613, 42108, 49983};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		assert_int_equal(wherry_code_remedy(wh_odbc_mssql_code(cases[i].native)),
				 cases[i].remedy);
	for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++)
		assert_int_equal(wh_odbc_mssql_code(moves[i]), WHERRY_CLOSED);
	assert_int_equal(wh_odbc_mssql_code(2627), WHERRY_DUPLICATE);
	assert_int_equal(wh_odbc_mssql_code(18456), WHERRY_DENIED);
	assert_int_equal(wh_odbc_mssql_code(102),
			 WHERRY_OK); /* of no entry: its SQLSTATE */
}

static void values_and_what_a_trigger_raises_are_about_the_row(void **state)
{
	static const struct {
		int native;
		const char *state;
		bool about_row;
		const char *message;
	} cases[] = {
		{50000, "42000", true, ""},
		{3609, "42000", true, ""},
		{2628, "22001", true, ""},
		{547, "23000", true, ""},
		{51222, "42000", false, ""},
		{51205, "42000", false, ""},
		{102, "42000", false, ""},
		{33557097, "42000", false, "relation \"t\" does not exist"},
		{33557097, "42000", true, "invalid input syntax for type integer: \"x\""},
		{33557097, "42000", true, "value \"9\" is out of range for type integer"},
		{8114, "42000", true, ""},
		{8169, "42000", true, ""},
		{13609, "42000", true, ""},
		{9402, "42000", true, ""},
		{8134, "22012", true, ""},
		{245, "22018", true, ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		wherry_error err = {.native = cases[i].native};

		(void)snprintf(err.sqlstate, sizeof(err.sqlstate), "%s", cases[i].state);
		(void)snprintf(err.message, sizeof(err.message), "%s", cases[i].message);
		assert_int_equal(wh_odbc_about_row(&err), cases[i].about_row);
	}
}

static void a_lock_that_others_kept_is_known_by_its_number(void **state)
{
	static const struct {
		int native;
		const char *state;
		bool locked_out;
	} cases[] = {
		{1222, "42000", true},     {1222, "HYT00", true},
		{33557097, "42000", true}, {1, "55P03", true},
		{51222, "42000", false}, /* of an application */
		{1204, "42000", false},    {40501, "42000", false},
	};
	const wherry_db *const servers[] = {&(wherry_db){.driver = &wh_db_mssql},
					    &(wherry_db){.driver = &wh_db_odbc}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		for (size_t n = 0; n < 2; n++) {
			wherry_error err = {.native = cases[i].native,
					    .code = WHERRY_BUSY};

			(void)snprintf(err.sqlstate, sizeof(err.sqlstate), "%s",
				       cases[i].state);
			assert_int_equal(wh_db_locked_out(servers[n], WHERRY_BUSY, &err),
					 cases[i].locked_out);
			assert_false(wh_db_locked_out(servers[n], WHERRY_TIMEOUT, &err));
		}
}

/* The time of the next look, if one is not made now. */
static int64_t look_at(odbc_db *s, int64_t now_us, bool *out_looks)
{
	const wh_look look = {.now_us = now_us};
	int64_t next_us = 0;

	*out_looks = wh_db_mssql.commits.changed(&s->base, &look, &next_us);
	return next_us;
}

static void looks_become_as_rare_as_the_setting_says(void **state)
{
	odbc_db s = {.watch = {.most_us = 3 * WH_SECOND}};
	int64_t now_us = 1, next_us = 0, pause_us = 0;
	wherry_error err = WHERRY_ERROR_INIT;
	bool looks;

	(void)state;
	WHERRY_PASS(wh_db_mssql.commits.watch(&s.base, NULL, &err));
	for (int i = 0; i < 20; i++) {
		next_us = look_at(&s, now_us, &looks);
		assert_true(looks);
		assert_true(next_us - now_us >= pause_us);
		pause_us = next_us - now_us;
		assert_int_equal(look_at(&s, next_us - 1, &looks), next_us);
		assert_false(looks);
		now_us = next_us;
	}
	assert_int_equal(pause_us, 3 * WH_SECOND);
}

static void a_relay_rests_for_as_long_as_its_statements_took(void **state)
{
	odbc_db s = {.watch = {.most_us = 250000}};
	wherry_error err = WHERRY_ERROR_INIT;
	bool looks;

	(void)state;
	WHERRY_PASS(wh_db_mssql.commits.watch(&s.base, NULL, &err));
	(void)look_at(&s, 1000000, &looks);
	assert_true(looks);
	s.watch.spent_us = 30000;
	assert_int_equal(look_at(&s, 1040000, &looks), 1060000);
	assert_false(looks);
	(void)look_at(&s, 1060000, &looks);
	assert_true(looks);
	s.watch.spent_us = 800000; /* not for longer than a quarter of a second */
	assert_int_equal(look_at(&s, 1860000, &looks), 2110000);
	assert_false(looks);
}

/* A message that is tried again and again must not keep new ones from being found. */
static void statements_that_go_on_do_not_put_off_a_look(void **state)
{
	odbc_db s = {.watch = {.most_us = 250000}};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t now_us = WH_SECOND;
	bool looks;

	(void)state;
	WHERRY_PASS(wh_db_mssql.commits.watch(&s.base, NULL, &err));
	(void)look_at(&s, now_us, &looks);
	assert_true(looks);
	do {
		now_us += 10000;
		s.watch.spent_us += 10000;
		(void)look_at(&s, now_us, &looks);
	} while (!looks && now_us < 10 * WH_SECOND);
	assert_int_equal(now_us, 2250000);
}

/* With Microsoft's driver the types LONG are NTEXT and IMAGE, which OPENJSON refuses. */
static void long_values_are_bound_as_max(void **state)
{
	static const size_t lengths[] = {0, 1, 4000, 4001, 8000, 8001, 20000000};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		wh_odbc_type text = wh_odbc_text_type(false, lengths[i]);
		wh_odbc_type bytes = wh_odbc_bytes_type(false, lengths[i]);

		assert_int_equal(text.type, SQL_WVARCHAR);
		assert_int_equal(text.size, lengths[i] > 4000 ? 0 : 4000);
		assert_int_equal(bytes.type, SQL_VARBINARY);
		assert_int_equal(bytes.size, lengths[i] > 8000 ? 0 : 8000);
		text = wh_odbc_text_type(true, lengths[i]);
		bytes = wh_odbc_bytes_type(true, lengths[i]);
		assert_int_equal(text.type,
				 lengths[i] > 4000 ? SQL_WLONGVARCHAR : SQL_WVARCHAR);
		assert_true(text.size >= lengths[i]);
		assert_int_equal(bytes.type,
				 lengths[i] > 8000 ? SQL_LONGVARBINARY : SQL_VARBINARY);
		assert_true(bytes.size >= lengths[i]);
	}
}

static void nothing_is_borrowed_that_is_none(void **state)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	(void)state;
	WHERRY_FAILS(WHERRY_INVALID, wherry_odbc_borrow(NULL, &db, &err));
	assert_null(db);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_url_becomes_a_connection_string),
		cmocka_unit_test(a_url_that_cannot_be_is_refused),
		cmocka_unit_test(a_password_comes_from_a_file_or_the_environment),
		cmocka_unit_test(texts_become_utf_16_and_come_back),
		cmocka_unit_test(what_is_not_unicode_is_refused),
		cmocka_unit_test(a_time_with_an_offset_is_read),
		cmocka_unit_test(each_number_of_sql_server_has_its_remedy),
		cmocka_unit_test(values_and_what_a_trigger_raises_are_about_the_row),
		cmocka_unit_test(a_lock_that_others_kept_is_known_by_its_number),
		cmocka_unit_test(looks_become_as_rare_as_the_setting_says),
		cmocka_unit_test(a_relay_rests_for_as_long_as_its_statements_took),
		cmocka_unit_test(statements_that_go_on_do_not_put_off_a_look),
		cmocka_unit_test(long_values_are_bound_as_max),
		cmocka_unit_test(nothing_is_borrowed_that_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
