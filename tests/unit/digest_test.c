#include "wherry_test.h"

#include "base/digest.h"

static void is(const char *text, const char *sum)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char out[WH_MD5_LEN + 1];

	WHERRY_PASS(wh_md5(wh_view_of(text), out, &err));
	assert_string_equal(out, sum);
}

WHERRY_TEST(the_examples_of_the_rfc_come_out)
{
	/* RFC 1321, A.5 */
	is("", "d41d8cd98f00b204e9800998ecf8427e");
	is("abc", "900150983cd24fb0d6963f7d28e17f72");
}

WHERRY_TEST(the_names_of_the_jvm_library_come_out)
{
	is("my-queue|java.lang.String", "7ab2b0dfa43e1a1f12169da88468fb53");
	is("\nperiodic-tick:\n  period-ms: 3600000\n",
	   "4916474562628112070d240d515ba44d");
	is("\ndaily-cron:\n  zone: UTC\n  hours: 12:00, 18:00\n",
	   "ac4a97d66f972bdaad77be2731bb7c2a");
}

WHERRY_TEST(the_examples_of_the_standard_come_out)
{
	char out[WH_SHA256_LEN + 1];

	/* FIPS 180-2, B.1 */
	assert_true(wh_sha256(wh_view_of("abc"), out));
	assert_string_equal(out, "ba7816bf8f01cfea414140de5dae2223"
				 "b00361a396177a9cb410ff61f20015ad");
}

WHERRY_TEST_MAIN
