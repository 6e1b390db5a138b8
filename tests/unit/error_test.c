#include "wherry_test.h"

#include <errno.h>

#include "base/error.h"

static const wherry_error blank = WHERRY_ERROR_INIT;

WHERRY_TEST(every_code_has_a_name_a_text_and_a_remedy)
{
	for (int i = 0; i < WHERRY_CODE_COUNT; i++) {
		wherry_code code = (wherry_code)i;

		assert_string_not_equal(wherry_code_name(code), "UNKNOWN");
		assert_true(strlen(wherry_code_text(code)) > 3);
		assert_int_equal(wherry_code_remedy(code) == WHERRY_REMEDY_NONE,
				 code == WHERRY_OK);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(wherry_code_name(code),
						wherry_code_name((wherry_code)j));
	}
	assert_string_equal(wherry_code_name(WHERRY_BUSY), "BUSY");
	assert_int_equal(wherry_code_remedy(WHERRY_BUSY), WHERRY_REMEDY_RETRY);
	assert_int_equal(wherry_code_remedy(WHERRY_STALE), WHERRY_REMEDY_ROLLBACK);
	assert_int_equal(wherry_code_remedy(WHERRY_INDOUBT), WHERRY_REMEDY_REOPEN);
}

WHERRY_TEST(a_number_that_is_no_code_is_answered)
{
	assert_string_equal(wherry_code_name(WHERRY_CODE_COUNT), "UNKNOWN");
	assert_string_equal(wherry_code_text((wherry_code)9999), "unknown code");
	assert_int_equal(wherry_code_remedy((wherry_code)9999), WHERRY_REMEDY_FIX);
}

WHERRY_TEST(failing_fills_everything_in)
{
	wherry_error err;

	memset(&err, 'x', sizeof(err));
	assert_int_equal(wh_fail(&err, WHERRY_TOOBIG, "body is %d bytes", 7),
			 WHERRY_TOOBIG);
	assert_int_equal(err.code, WHERRY_TOOBIG);
	assert_int_equal(err.native, 0);
	assert_string_equal(err.sqlstate, "");
	assert_string_equal(err.message, "body is 7 bytes");

	assert_int_equal(wh_fail_native(&err, WHERRY_IO, 5, "disk"), WHERRY_IO);
	assert_int_equal(err.native, 5);
}

WHERRY_TEST(failing_without_an_error_only_returns_the_code)
{
	assert_int_equal(wh_fail(NULL, WHERRY_BUSY, "%d", 1), WHERRY_BUSY);
	assert_int_equal(wh_fail_native(NULL, WHERRY_BUSY, 1, "x"), WHERRY_BUSY);
	assert_int_equal(wh_fail_errno(NULL, ENOSPC, "x"), WHERRY_FULL);
	assert_int_equal(wh_prefix(NULL, WHERRY_BUSY, "x"), WHERRY_BUSY);
	assert_int_equal(wh_oom(NULL), WHERRY_NOMEM);
}

WHERRY_TEST(a_message_is_one_line_and_never_empty)
{
	wherry_error err = blank;
	const char *empty = "";

	wh_fail(&err, WHERRY_INVALID, "a\nb\tc\x7f%s", "\033[31m");
	assert_string_equal(err.message, "a b c  [31m");
	wh_fail(&err, WHERRY_FULL, "%s", empty);
	assert_string_equal(err.message, "the disk is full");
}

WHERRY_TEST(a_message_moves_no_cursor)
{
	wherry_error err;

	(void)wh_fail(&err, WHERRY_IO, "%s",
		      "a\x1b[2J\r\x7f \302\23331m \302\205b \302\251");
	assert_string_equal(err.message, "a [2J     31m   b \302\251");
}

WHERRY_TEST(a_message_too_long_is_cut)
{
	wherry_error err = blank;
	char text[1000];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	wh_fail(&err, WHERRY_INVALID, "%s", text);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	wh_prefix(&err, WHERRY_INVALID, "%s", text);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
	wh_fail_errno(&err, ENOENT, "%s", text);
	assert_int_equal(strlen(err.message), sizeof(err.message) - 1);
}

WHERRY_TEST(a_prefix_keeps_the_cause)
{
	wherry_error err = blank;

	wh_fail_native(&err, WHERRY_BUSY, 5, "database is locked");
	assert_int_equal(wh_prefix(&err, WHERRY_BUSY, "claim from '%s'", "t"),
			 WHERRY_BUSY);
	assert_string_equal(err.message, "claim from 't': database is locked");
	assert_int_equal(err.native, 5);
	assert_int_equal(err.code, WHERRY_BUSY);
}

WHERRY_TEST(a_prefix_leaves_success_alone)
{
	wherry_error err = blank;

	assert_int_equal(wh_prefix(&err, WHERRY_OK, "x"), WHERRY_OK);
	assert_memory_equal(&err, &blank, sizeof(err));
}

WHERRY_TEST(an_errno_becomes_the_code_to_act_on)
{
	static const struct {
		int number;
		wherry_code code;
	} rows[] = {
		{ENOENT, WHERRY_NOTFOUND}, {ENOTDIR, WHERRY_NOTFOUND},
		{EACCES, WHERRY_DENIED},   {EPERM, WHERRY_DENIED},
		{EROFS, WHERRY_READONLY},  {ENOSPC, WHERRY_FULL},
		{EDQUOT, WHERRY_FULL},     {ENOMEM, WHERRY_NOMEM},
		{EPIPE, WHERRY_CLOSED},    {EMFILE, WHERRY_BUSY},
		{EIO, WHERRY_IO},          {123456, WHERRY_IO},
	};
	wherry_error err = blank;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(wh_fail_errno(&err, rows[i].number, "open"),
				 rows[i].code);
		assert_int_equal(err.native, rows[i].number);
		assert_int_equal(err.code, rows[i].code);
		assert_ptr_equal(strstr(err.message, "open: "), err.message);
	}
	assert_string_equal(err.message, "open: unknown error");
}

WHERRY_TEST(a_right_that_a_role_lacks_is_recognised)
{
	static const struct {
		const char *message;
		bool lacks;
	} rows[] = {
		{"permission denied for table outbox", true},
		{"The INSERT permission was denied on the object 'outbox', database 'shop', "
		 "schema 'dbo'.",
		 true},
		{"The SELECT permission was denied on the column 'body' of the object 'jobs', "
		 "database 'shop', schema 'dbo'.",
		 true},
		{"Login failed for user 'web'.", false},
		{"must be owner of table outbox", false},
		{"shop.db: permission denied: check the owner and mode of the file",
		 false},
	};
	wherry_error err;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		(void)wh_fail(&err, WHERRY_DENIED, "%s", rows[i].message);
		assert_int_equal(wh_error_lacks_right(&err), rows[i].lacks);
	}
	(void)wh_fail(&err, WHERRY_INVALID, "%s", rows[0].message);
	assert_false(wh_error_lacks_right(&err));
}

WHERRY_TEST_MAIN
