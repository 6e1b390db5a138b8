/*
 * ${env:NAME}, ${file:PATH} and ${credential:NAME} in values, so that a file that many
 * people read need not contain secrets.
 */
#include <string.h>

#include "base/url.h"
#include "config/secret.h"
#include "daemon/plan.h"

enum { VALUE_MAX = 64 * 1024, PATH_LONGEST = 4096 };

static wherry_code put_reference(wh_buf *out, wh_view ref, wherry_error *err)
{
	char name[PATH_LONGEST];
	wherry_code code;
	size_t before;

	if (ref.len >= sizeof(name))
		return wh_fail(err, WHERRY_INVALID, "what stands in ${} is too long");
	memcpy(name, ref.ptr, ref.len);
	name[ref.len] = 0;
	if (!wh_secret_elsewhere(name))
		return wh_fail(err, WHERRY_INVALID,
			       "'${%.60s}': write ${env:NAME}, ${file:PATH} or "
			       "${credential:NAME}, or $${ where ${ is meant",
			       name);
	before = out->len;
	code = wh_secret_read(name, out, err);
	if (code == WHERRY_OK && out->len == before)
		code = wh_fail(err, WHERRY_INVALID, "%.100s is empty", name);
	if (code == WHERRY_OK && memchr(wh_buf_str(out), 0, out->len))
		code = wh_fail(err, WHERRY_INVALID, "%.100s has a NUL character", name);
	return code;
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
	if (strcmp(key, "webhook.headers") == 0 && !wh_secret_elsewhere(raw))
		return "***"; /* They usually contain Authorization. */
	/* wh_url_mask() knows which names belong to secrets. */
	(void)snprintf(assignment, sizeof(assignment), "?%.100s=x", key);
	wh_url_mask(assignment, masked, sizeof(masked));
	return strcmp(assignment, masked) == 0 ? raw : "***";
}
