#include "wherry_test.h"

#include <fcntl.h>

#include "publish/file/tail.h"

static const char torn[] = "{\"id\":1}\n{\"id\":2,\"top";

/* A file with a torn line, opened so that something is refused. */
static int open_torn(wherry_temp *temp, int flags)
{
	const char *path = wherry_temp_make(temp, "events.ndjson");
	FILE *file = fopen(path, "w");
	int fd;

	assert_non_null(file);
	assert_true(fputs(torn, file) >= 0);
	assert_int_equal(fclose(file), 0);
	fd = open(path, flags);
	assert_true(fd >= 0);
	return fd;
}

static void check_torn(const wherry_temp *temp)
{
	FILE *file = fopen(temp->path, "r");
	char now[sizeof(torn) + 1] = "";

	assert_non_null(file);
	assert_int_equal(fread(now, 1, sizeof(now) - 1, file), sizeof(torn) - 1);
	assert_string_equal(now, torn);
	(void)fclose(file);
}

static void refuse(int flags)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_temp temp;
	int fd = open_torn(&temp, flags);

	assert_int_not_equal(wh_tail_mend(fd, "events.ndjson", &err), WHERRY_OK);
	assert_non_null(strstr(err.message, "'events.ndjson'"));
	assert_true(err.native != 0);
	check_torn(&temp);
	(void)close(fd);
	wherry_temp_clear(&temp);
}

WHERRY_TEST(a_file_that_cannot_be_read_stays_as_it_is)
{
	refuse(O_WRONLY | O_APPEND);
}

WHERRY_TEST(a_file_that_cannot_be_written_stays_as_it_is)
{
	refuse(O_RDONLY);
}

WHERRY_TEST(a_closed_descriptor_is_refused)
{
	wherry_error err = WHERRY_ERROR_INIT;

	assert_int_not_equal(wh_tail_mend(-1, "events.ndjson", &err), WHERRY_OK);
	assert_non_null(strstr(err.message, "'events.ndjson'"));
}

WHERRY_TEST_MAIN
