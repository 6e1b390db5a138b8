#include "config/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static wherry_code read_variable(const char *name, wh_buf *out, wherry_error *err)
{
	const char *value = secure_getenv(name);

	if (!value || !*value)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "the environment variable %.80s is not set", name);
	wh_buf_puts(out, value);
	return wh_buf_check(out, err);
}

static wherry_code read_file(const char *path, wh_buf *out, wherry_error *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char part[1024];
	ssize_t n = -1;
	wherry_code code;

	if (fd < 0)
		return wh_fail_errno(err, errno, "cannot read the file '%.120s'", path);
	while (!out->failed && (n = read(fd, part, sizeof(part))) > 0)
		wh_buf_put(out, part, (size_t)n);
	explicit_bzero(part, sizeof(part));
	code = n < 0 ? wh_fail_errno(err, errno, "cannot read the file '%.120s'", path)
		     : wh_buf_check(out, err);
	(void)close(fd);
	while (code == WHERRY_OK && out->len &&
	       (out->ptr[out->len - 1] == '\n' || out->ptr[out->len - 1] == '\r'))
		out->ptr[--out->len] = 0;
	return code;
}

/* Read a secret from the folder that systemd made for LoadCredential=. */
static wherry_code read_credential(const char *name, wh_buf *out, wherry_error *err)
{
	const char *folder = secure_getenv("CREDENTIALS_DIRECTORY");
	char path[4096];
	int len;

	if (!folder || !*folder)
		return wh_fail(
			err, WHERRY_NOTFOUND,
			"credential:%.80s: CREDENTIALS_DIRECTORY is not set: run it as "
			"a service of systemd with LoadCredential=%.80s:PATH",
			name, name);
	len = snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!*name || strchr(name, '/') || len < 0 || (size_t)len >= sizeof(path))
		return wh_fail(err, WHERRY_INVALID,
			       "credential:%.80s: a name as in LoadCredential=NAME:PATH",
			       name);
	return read_file(path, out, err);
}

bool wh_secret_elsewhere(const char *text)
{
	return strncmp(text, "env:", 4) == 0 || strncmp(text, "file:", 5) == 0 ||
	       strncmp(text, "credential:", 11) == 0;
}

wherry_code wh_secret_read(const char *text, wh_buf *out, wherry_error *err)
{
	if (strncmp(text, "env:", 4) == 0)
		return read_variable(text + 4, out, err);
	if (strncmp(text, "file:", 5) == 0)
		return read_file(text + 5, out, err);
	if (strncmp(text, "credential:", 11) == 0)
		return read_credential(text + 11, out, err);
	wh_buf_puts(out, text);
	return wh_buf_check(out, err);
}

void wh_secret_clear(wh_buf *buf)
{
	if (buf->ptr)
		explicit_bzero(buf->ptr, buf->cap);
	wh_buf_clear(buf);
}
