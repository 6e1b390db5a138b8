#include "wherry_test.h"

#include <wherry/version.h>

WHERRY_TEST(the_library_says_the_version_of_its_headers)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%d.%d.%d", WHERRY_VERSION_MAJOR,
		       WHERRY_VERSION_MINOR, WHERRY_VERSION_PATCH);
	assert_string_equal(wherry_version(), text);
	assert_int_equal(wherry_version_num(), WHERRY_VERSION_MAJOR * 10000 +
						       WHERRY_VERSION_MINOR * 100 +
						       WHERRY_VERSION_PATCH);
}

WHERRY_TEST_MAIN
