/*
 * The keys with which requests to S3 are signed.  No message, log or error contains them.
 */
#include "publish/bodies/s3.h"

#include <stdlib.h>
#include <string.h>

#include "config/secret.h"

enum { FILE_MOST = 65536 };

static const char id_variable[] = "AWS_ACCESS_KEY_ID";
static const char secret_variable[] = "AWS_SECRET_ACCESS_KEY";
static const char token_variable[] = "AWS_SESSION_TOKEN";

void wh_s3_keys_clear(wh_s3_keys *keys)
{
	wh_secret_clear(&keys->id);
	wh_secret_clear(&keys->secret);
	wh_secret_clear(&keys->token);
}

static wherry_code read_environment(wh_s3_keys *out, wherry_error *err)
{
	const char *id = secure_getenv(id_variable);
	const char *secret = secure_getenv(secret_variable);
	const char *token = secure_getenv(token_variable);

	if (!id || !*id || !secret || !*secret)
		return wh_fail(
			err, WHERRY_NOTFOUND,
			"s3: the environment variable %s is not set: set %s and %s, "
			"or s3.credentials=file:PATH",
			id && *id ? secret_variable : id_variable, id_variable,
			secret_variable);
	wh_buf_puts(&out->id, id);
	wh_buf_puts(&out->secret, secret);
	wh_buf_puts(&out->token, token ? token : "");
	return WHERRY_OK;
}

static wh_view trim(wh_view text)
{
	static const char blanks[] = " \t\r";

	while (text.len && strchr(blanks, *text.ptr)) {
		text.ptr++;
		text.len--;
	}
	while (text.len && strchr(blanks, text.ptr[text.len - 1]))
		text.len--;
	return text;
}

/* Take a line "name = value". */
static void take_line(wh_s3_keys *out, wh_view line)
{
	const struct {
		const char *name;
		wh_buf *to;
	} known[] = {{"aws_access_key_id", &out->id},
		     {"aws_secret_access_key", &out->secret},
		     {"aws_session_token", &out->token}};
	const char *is = memchr(line.ptr, '=', line.len);
	wh_view name, value;

	if (!is)
		return;
	name = trim((wh_view){line.ptr, (size_t)(is - line.ptr)});
	value = trim((wh_view){is + 1, line.len - (size_t)(is + 1 - line.ptr)});
	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (!wh_view_eq(name, wh_view_of(known[i].name)))
			continue;
		wh_buf_reset(known[i].to);
		wh_buf_put(known[i].to, value.ptr, value.len);
	}
}

/* Take the keys of the section [default], or those before any section. */
static void take_text(wh_s3_keys *out, const char *text)
{
	bool ours = true;

	while (*text) {
		size_t len = strcspn(text, "\n");
		wh_view line = trim((wh_view){text, len});

		if (line.len && *line.ptr == '[')
			ours = wh_view_eq(line, wh_view_of("[default]"));
		else if (ours)
			take_line(out, line);
		text += len + (text[len] == '\n');
	}
}

static wherry_code check(const wh_s3_keys *keys, wherry_error *err)
{
	wherry_code code = wh_buf_check(&keys->id, err);

	if (code == WHERRY_OK)
		code = wh_buf_check(&keys->secret, err);
	if (code == WHERRY_OK)
		code = wh_buf_check(&keys->token, err);
	if (code != WHERRY_OK || (keys->id.len && keys->secret.len))
		return code;
	return wh_fail(
		err, WHERRY_INVALID,
		"s3.credentials: it has no %s in its section [default]: write lines "
		"such as aws_access_key_id = ID",
		keys->id.len ? "aws_secret_access_key" : "aws_access_key_id");
}

wherry_code wh_s3_keys_check(const char *source, wherry_error *err)
{
	if (!*source || wh_secret_elsewhere(source))
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_INVALID,
		"s3.credentials: write file:PATH, env:NAME or credential:NAME, not "
		"the keys themselves");
}

wherry_code wh_s3_keys_read(const char *source, wh_s3_keys *out, wherry_error *err)
{
	wh_buf text = WH_BUF_INIT(FILE_MOST);
	wherry_code code;

	wh_buf_reset(&out->id);
	wh_buf_reset(&out->secret);
	wh_buf_reset(&out->token);
	if (!*source)
		return read_environment(out, err);
	code = wh_secret_read(source, &text, err);
	if (code == WHERRY_OK) {
		take_text(out, wh_buf_str(&text));
		code = check(out, err);
	} else {
		code = wh_prefix(err, code, "s3.credentials");
	}
	wh_secret_clear(&text);
	return code;
}
