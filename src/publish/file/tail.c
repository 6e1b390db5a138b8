#include "publish/file/tail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "publish/parts.h"

enum { BLOCK = 16 * 1024, TAIL_MAX = 1 << 30 };

static wherry_code cannot_mend(const char *path, wherry_error *err)
{
	return wh_fail_errno(err, errno, "cannot repair the last line of '%.120s'", path);
}

static bool read_all(int fd, char *out, size_t len, off_t at)
{
	while (len) {
		ssize_t n = pread(fd, out, len, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			errno = n ? errno : EIO;
			return false;
		}
		out += n;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

/* The offset at which the last line begins; -1: reading failed, see errno. */
static off_t find_start(int fd, off_t size)
{
	char block[BLOCK];

	while (size > 0) {
		size_t len = size < BLOCK ? (size_t)size : BLOCK;
		const char *newline;

		size -= (off_t)len;
		if (!read_all(fd, block, len, size))
			return -1;
		newline = memrchr(block, '\n', len);
		if (newline)
			return size + (newline - block) + 1;
	}
	return 0;
}

/* Does this text begin like a message's line, as far as it goes? */
static bool is_ours(const char *tail, size_t len)
{
	static const char head[] = "{\"id\":";
	size_t n = sizeof(head) - 1;

	return memcmp(tail, head, len < n ? len : n) == 0;
}

/* Is the line before this offset a message's line? */
static bool follows_ours(int fd, off_t start)
{
	off_t before = start > 0 ? find_start(fd, start - 1) : -1;
	char head[8];

	return before >= 0 && start - before > (off_t)sizeof(head) &&
	       read_all(fd, head, sizeof(head), before) && is_ours(head, sizeof(head));
}

/* Did a power loss leave zeros here?  A file can grow on disk before its new bytes are
 * written.  The zeros then follow a part of a line, or a whole one. */
static bool is_lost(int fd, const char *tail, size_t len, off_t start)
{
	size_t left = len;

	while (left && !tail[left - 1])
		left--;
	if (left == len)
		return false;
	return left ? is_ours(tail, left) : follows_ours(fd, start);
}

/* Complete the line, or cut it off. */
static wherry_code settle(int fd, const char *tail, size_t len, off_t start,
			  const char *path, wherry_error *err)
{
	bool settled;

	if (wh_json_valid(tail, len))
		settled = wh_quiet_write(fd, "\n", 1) == 1;
	else if (is_ours(tail, len) || is_lost(fd, tail, len, start))
		settled = ftruncate(fd, start) == 0;
	else
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.120s' ends in something that is not a message: name a file of "
			"messages, or a new one",
			path);
	return settled ? WHERRY_OK : cannot_mend(path, err);
}

static wherry_code mend(int fd, off_t start, off_t size, const char *path,
			wherry_error *err)
{
	size_t len = (size_t)(size - start);
	char *tail = len <= TAIL_MAX ? malloc(len) : NULL;
	wherry_code code;

	if (!tail)
		return wh_fail(err, WHERRY_NOMEM,
			       "no memory for the last line of '%.120s'", path);
	if (read_all(fd, tail, len, start))
		code = settle(fd, tail, len, start, path, err);
	else
		code = cannot_mend(path, err);
	free(tail);
	return code;
}

wherry_code wh_tail_mend(int fd, const char *path, wherry_error *err)
{
	struct stat st;
	off_t start;
	char last;

	if (fstat(fd, &st) != 0)
		return cannot_mend(path, err);
	if (st.st_size == 0)
		return WHERRY_OK;
	if (!read_all(fd, &last, 1, st.st_size - 1))
		return cannot_mend(path, err);
	if (last == '\n')
		return WHERRY_OK;
	start = find_start(fd, st.st_size);
	return start < 0 ? cannot_mend(path, err)
			 : mend(fd, start, st.st_size, path, err);
}
