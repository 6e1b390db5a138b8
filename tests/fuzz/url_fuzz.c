/* URLs: the parts are in the text; what is masked never shows the password. */
#include "fuzz.h"

#include <stdbool.h>

#include "base/url.h"

enum { LONG = 4096 };

static void check_mask(const char *url, const char *wanted)
{
	char shown[LONG];

	wh_url_mask(url, shown, sizeof(shown));
	CHECK(strcmp(shown, wanted) == 0);
}

/* Bytes before and behind which a password ends when it is not percent-encoded. */
static void check_userinfo(const char *text)
{
	char url[LONG];

	if (strpbrk(text, "@/?# \t\r\n"))
		return;
	(void)snprintf(url, sizeof(url), "postgres://me:%s@host/db", text);
	check_mask(url, "postgres://me:***@host/db");
}

static void check_parameter(const char *text)
{
	static const char name[] = "password";
	char url[LONG], wanted[LONG], written[sizeof(name) * 3];
	size_t n = 0;

	if (strpbrk(text, "&"))
		return;
	/* The bits of the text decide how the name is written. */
	for (size_t i = 0; i < sizeof(name) - 1; i++) {
		unsigned how = i < strlen(text) ? (unsigned char)text[i] : 0;
		char c = how & 1 ? (char)(name[i] & ~0x20) : name[i];

		n += (size_t)snprintf(written + n, sizeof(written) - n,
				      how & 2 ? "%%%02x" : "%c", c);
	}
	(void)snprintf(url, sizeof(url), "postgres://host/db?ssl%s=%s&a=b", written,
		       text);
	(void)snprintf(wanted, sizeof(wanted), "postgres://host/db?ssl%s=***&a=b",
		       written);
	check_mask(url, wanted);
}

/* Of a file's name all but what is behind a ? is shown in logs. */
static bool is_local(const char *text)
{
	static const char *const schemes[] = {
		"sqlite:", "file:", "stdout:", "memory:", "null:"};

	for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++)
		if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
			return true;
	return false;
}

/* Behind any text a secret is masked; no room is too small. */
static void check_any(const char *text)
{
	static const char *const tails[] = {"://me:S3CRET@host", "?Token=S3CRET",
					    " --password=S3CRET"};
	char url[LONG], shown[LONG], less[8];

	for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
		(void)snprintf(url, sizeof(url), "%s%s", text, tails[i]);
		wh_url_mask(url, shown, sizeof(shown));
		CHECK(!strstr(shown, "S3CRET") || strstr(text, "S3CRET"));
		wh_url_show(url, shown, sizeof(shown));
		CHECK(!strstr(shown, "S3CRET") || is_local(url) ||
		      strstr(text, "S3CRET"));
	}
	wh_url_mask(url, shown, sizeof(shown));
	for (size_t cap = 1; cap <= sizeof(less); cap++) {
		wh_url_mask(url, less, cap);
		CHECK(strlen(less) < cap && strncmp(less, shown, strlen(less)) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = fuzz_text(data, len);
	wh_url url = {{"x", 1}, {"y", 1}};
	wherry_error err = WHERRY_ERROR_INIT;

	if (wh_url_parse(text, &url, &err) == WHERRY_OK) {
		CHECK(url.scheme.ptr == text && url.scheme.len > 0);
		CHECK(url.rest.ptr == text + url.scheme.len + 1);
		CHECK(url.rest.len == strlen(url.rest.ptr));
	} else {
		CHECK(err.code == WHERRY_INVALID && *err.message);
		CHECK(!strpbrk(err.message, "\n\r\033"));
		CHECK(url.scheme.len == 1 && *url.rest.ptr == 'y');
	}
	if (len < 1000) {
		check_any(text);
		check_userinfo(text);
		check_parameter(text);
	}
	free(text);
	return 0;
}
