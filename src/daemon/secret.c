/*
 * ${env:NAME} and ${file:PATH} in values, so that no secret need stand in a file that many
 * read.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/url.h"
#include "daemon/plan.h"

enum { VALUE_MAX = 64 * 1024, PATH_LONGEST = 4096 };

static wherry_code put_file(wh_buf *out, const char *path, wherry_error *err)
{
	char chunk[4096];
	size_t before = out->len;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return wh_fail_errno(err, errno, "cannot read %.100s", path);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0 && !out->failed)
		wh_buf_put(out, chunk, (size_t)n);
	if (n < 0) {
		int number = errno;

		(void)close(fd);
		return wh_fail_errno(err, number, "cannot read %.100s", path);
	}
	(void)close(fd);
	/* A line break at the end is the editor's. */
	while (out->len > before && strchr("\r\n", out->ptr[out->len - 1]))
		out->ptr[--out->len] = 0;
	if (out->len > before && memchr(out->ptr + before, 0, out->len - before))
		return wh_fail(err, WHERRY_INVALID, "%.100s has a NUL character", path);
	return WHERRY_OK;
}

static wherry_code put_reference(wh_buf *out, wh_view ref, wherry_error *err)
{
	char name[PATH_LONGEST];
	const char *value;

	if (ref.len >= sizeof(name))
		return wh_fail(err, WHERRY_INVALID, "what stands in ${} is too long");
	memcpy(name, ref.ptr, ref.len);
	name[ref.len] = 0;
	if (strncmp(name, "file:", 5) == 0)
		return put_file(out, name + 5, err);
	if (strncmp(name, "env:", 4) != 0)
		return wh_fail(err, WHERRY_INVALID,
			       "'${%.60s}': write ${env:NAME} or ${file:PATH}, or $${ "
			       "where ${ is meant",
			       name);
	value = secure_getenv(name + 4);
	if (!value)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "the environment has no variable '%.100s'", name + 4);
	wh_buf_puts(out, value);
	return WHERRY_OK;
}

wherry_code wh_expand(const char *text, char **out, wherry_error *err)
{
	wh_buf buf = WH_BUF_INIT(VALUE_MAX);
	wherry_code code = WHERRY_OK;

	while (*text && code == WHERRY_OK) {
		const char *end;

		if (strncmp(text, "$${", 3) == 0) {
			wh_buf_puts(&buf, "${");
			text += 3;
		} else if (strncmp(text, "${", 2) == 0) {
			end = strchr(text, '}');
			if (!end) {
				code = wh_fail(err, WHERRY_INVALID, "'%.60s' lacks its }",
					       text);
				break;
			}
			code = put_reference(
				&buf, (wh_view){text + 2, (size_t)(end - text - 2)}, err);
			text = end + 1;
		} else {
			wh_buf_putc(&buf, *text++);
		}
	}
	if (code == WHERRY_OK)
		code = wh_buf_check(&buf, err);
	if (code == WHERRY_OK) {
		*out = wh_buf_take(&buf);
		return *out ? WHERRY_OK : wh_oom(err);
	}
	wh_buf_clear(&buf);
	return code;
}

const char *wh_shown(const char *key, const char *raw)
{
	char assignment[128], masked[160];

	if (strncmp(raw, "${", 2) == 0 && raw[strlen(raw) - 1] == '}')
		return raw;
	/* wh_url_mask() knows which names are those of secrets. */
	(void)snprintf(assignment, sizeof(assignment), "?%.100s=x", key);
	wh_url_mask(assignment, masked, sizeof(masked));
	return strcmp(assignment, masked) == 0 ? raw : "***";
}
