/*
 * file:/FOLDER: bodies in a folder, each in a file of its name.
 *
 * A file has its name only when all of it is on disk: it is written under a temporary name,
 * synced and renamed, and then the folder is synced.
 */
#include "publish/bodies/bodies.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PART = 1 << 20 }; /* Written at once: between two parts an upload can be ended. */

typedef struct folder {
	wh_body_store base;
	char *path;
} folder;

static const char *path_of(const char *rest)
{
	return strncmp(rest, "//", 2) == 0 ? rest + 2 : rest;
}

static wherry_code check_path(const char *path, wherry_error *err)
{
	if (*path == '/' && strlen(path) + WH_BODY_NAME_LEN < PATH_MAX)
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_INVALID,
		"relay.body_store: file: needs the whole path of a folder, such as "
		"file:/var/lib/wherry/bodies");
}

static wherry_code folder_check(const char *rest, const wherry_config *config,
				wherry_error *err)
{
	const char *path = path_of(rest);
	wherry_code code = check_path(path, err);
	struct stat about;

	(void)config;
	if (code != WHERRY_OK)
		return code;
	if (stat(path, &about) < 0)
		return wh_fail_errno(err, errno, "relay.body_store: the folder '%.120s'",
				     path);
	return S_ISDIR(about.st_mode)
		       ? WHERRY_OK
		       : wh_fail(err, WHERRY_INVALID,
				 "relay.body_store: '%.120s' is not a folder", path);
}

static void folder_close(wh_body_store *store)
{
	folder *f = (folder *)store;

	free(f->path);
	free(f->base.url);
	free(f);
}

static wherry_code folder_open(const char *rest, const wherry_config *config,
			       wh_body_store **out, wherry_error *err)
{
	const char *path = path_of(rest);
	wherry_code code = check_path(path, err);
	size_t len = strlen(path);
	wh_buf url = WH_BUF_INIT(PATH_MAX + 16);
	folder *f;

	(void)config;
	if (code != WHERRY_OK)
		return code;
	while (len > 1 && path[len - 1] == '/')
		len--;
	f = calloc(1, sizeof(*f));
	if (!f)
		return wh_oom(err);
	f->base.driver = &wh_body_store_file;
	f->path = strndup(path, len);
	wh_buf_puts(&url, "file://");
	wh_buf_put(&url, path, len);
	if (len > 1)
		wh_buf_putc(&url, '/');
	f->base.url = wh_buf_take(&url);
	if (!f->path || !f->base.url) {
		folder_close(&f->base);
		return wh_oom(err);
	}
	*out = &f->base;
	return WHERRY_OK;
}

/* Write all of a body.  False: errno says why, ECANCELED if nobody needs it. */
static bool write_all(int fd, const wh_upload *upload)
{
	size_t at = 0;

	while (at < upload->len) {
		size_t part = upload->len - at < PART ? upload->len - at : PART;
		ssize_t n = write(fd, upload->body + at, part);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		at += (size_t)n;
		if (atomic_load(&upload->cancelled)) {
			errno = ECANCELED;
			return false;
		}
	}
	return fsync(fd) == 0;
}

/* Close, and remember the errno of what failed before. */
static bool finish(int fd, bool ok)
{
	int number = errno;
	bool closed = close(fd) == 0;

	if (!ok)
		errno = number;
	return ok && closed;
}

static bool write_file(int dir, const char *temporary, const wh_upload *upload)
{
	int fd = openat(dir, temporary,
			O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
	bool ok = fd >= 0 && finish(fd, write_all(fd, upload)) &&
		  renameat(dir, temporary, dir, upload->name) == 0;
	int number = errno;

	if (fd >= 0 && !ok)
		(void)unlinkat(dir, temporary, 0);
	errno = number;
	return ok && fsync(dir) == 0;
}

static wherry_code folder_put(wh_body_store *store, void *hand, const wh_upload *upload,
			      wherry_error *err)
{
	const folder *f = (const folder *)store;
	int dir = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char temporary[64];
	bool ok;

	(void)hand;
	(void)snprintf(temporary, sizeof(temporary), ".wherry-%016" PRIx64 ".part",
		       upload->nonce);
	ok = dir >= 0 && write_file(dir, temporary, upload);
	if (dir >= 0)
		ok = finish(dir, ok);
	return ok ? WHERRY_OK
		  : wh_fail_errno(err, errno, "the body store file:%.80s", f->path);
}

const wh_body_store_driver wh_body_store_file = {
	.scheme = "file",
	.check = folder_check,
	.open = folder_open,
	.close = folder_close,
	.put = folder_put,
};
