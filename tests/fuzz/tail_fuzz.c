/* The end of a file of lines: mended, it ends in a whole line and has lost nothing but a
 * torn line of ours, or zeros; refused, it is as it was. */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/json.h"
#include "publish/file/tail.h"

static size_t size_of(int fd)
{
	return (size_t)lseek(fd, 0, SEEK_END);
}

static bool only_zeros(const uint8_t *data, size_t len)
{
	while (len && !data[len - 1])
		len--;
	return !len;
}

static void check_mended(int fd, const uint8_t *data, size_t len)
{
	const uint8_t *newline = len ? memrchr(data, '\n', len) : NULL;
	size_t start = newline ? (size_t)(newline - data) + 1 : 0;
	size_t size = size_of(fd);
	char last;

	CHECK(size == len || size == start || size == len + 1);
	CHECK(!size || (pread(fd, &last, 1, (off_t)size - 1) == 1 && last == '\n'));
	if (size < len)
		CHECK((data[start] == '{' || only_zeros(data + start, len - start)) &&
		      !wh_json_valid((const char *)data + start, len - start));
	CHECK(wh_tail_mend(fd, "x", NULL) == WHERRY_OK && size_of(fd) == size);
}

static void check_same(int fd, const uint8_t *data, size_t len)
{
	size_t n = size_of(fd) < len ? size_of(fd) : len;
	uint8_t *now = malloc(n + 1);

	if (!now || pread(fd, now, n, 0) != (ssize_t)n)
		abort();
	CHECK(!n || memcmp(now, data, n) == 0);
	free(now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int fd = memfd_create("tail", MFD_CLOEXEC);

	if (fd < 0 || (len && write(fd, data, len) != (ssize_t)len))
		abort();
	if (wh_tail_mend(fd, "x", &err) == WHERRY_OK)
		check_mended(fd, data, len);
	else
		CHECK(err.code == WHERRY_INVALID && size_of(fd) == len);
	check_same(fd, data, len);
	(void)close(fd);
	return 0;
}
