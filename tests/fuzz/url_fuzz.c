/* URLs: the parts are in the text; what is masked never shows the password. */
#include "fuzz.h"

#include "base/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = fuzz_text(data, len);
	wh_url url = {{"x", 1}, {"y", 1}};
	wherry_error err = WHERRY_ERROR_INIT;
	char mask[200];

	if (wh_url_parse(text, &url, &err) == WHERRY_OK) {
		CHECK(url.scheme.ptr == text && url.scheme.len > 0);
		CHECK(url.rest.ptr == text + url.scheme.len + 1);
		CHECK(url.rest.len == strlen(url.rest.ptr));
	} else {
		CHECK(err.code == WHERRY_INVALID && *err.message);
		CHECK(!strpbrk(err.message, "\n\r\033"));
		CHECK(url.scheme.len == 1 && *url.rest.ptr == 'y');
	}
	wh_url_mask(text, mask, sizeof(mask));
	CHECK(strlen(mask) < sizeof(mask));
	free(text);

	/* A password of these bytes is not shown. */
	if (len && len < 60 && !memchr(data, 0, len)) {
		char with[200];
		char shown[200];

		(void)snprintf(with, sizeof(with), "postgres://me:%.*s@host/db", (int)len,
			       (const char *)data);
		wh_url_mask(with, shown, sizeof(shown));
		for (size_t i = 0; i < len; i++)
			if (strchr("/?#@", data[i]))
				return 0; /* must be written %2F and the like */
		CHECK(strcmp(shown, "postgres://me:***@host/db") == 0);
	}
	return 0;
}
