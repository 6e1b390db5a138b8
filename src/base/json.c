#include "base/json.h"

#include <jansson.h>
#include <string.h>

static const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;

/* jansson takes a NUL byte for the end, whatever follows it; JSON has none. */
static json_t *load(const char *text, size_t len, size_t how, json_error_t *why)
{
	const char *nul = len ? memchr(text, 0, len) : NULL;

	if (!nul)
		return json_loadb(text, len, how, why);
	if (why) {
		*why = (json_error_t){.column = 1, .text = "NUL byte"};
		for (const char *s = text; s < nul; s++)
			why->column += ((unsigned char)*s & 0xc0) != 0x80;
	}
	return NULL;
}

wherry_code wh_json_check(const char *text, size_t len, int *out_column,
			  wherry_error *err)
{
	json_error_t why;
	json_t *value = load(text, len, flags, &why);

	if (value) {
		json_decref(value);
		return WHERRY_OK;
	}
	*out_column = why.column > 0 ? why.column : 1;
	return wh_fail(err, WHERRY_INVALID, "%s", why.text);
}

bool wh_json_valid(const char *text, size_t len)
{
	json_t *value = load(text, len, flags, NULL);

	json_decref(value);
	return value != NULL;
}

wherry_code wh_json_headers(const char *text, size_t len, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	json_t *object, *value;
	const char *name;

	if (len == 2 && memcmp(text, "{}", 2) == 0)
		return WHERRY_OK;
	object = load(text, len, JSON_DECODE_INT_AS_REAL, NULL);
	if (!json_is_object(object))
		code = wh_fail(err, WHERRY_INVALID, "headers are no JSON object");
	json_object_foreach (object, name, value) {
		if (json_is_string(value) || json_is_null(value))
			continue;
		code = wh_fail(err, WHERRY_INVALID, "header '%.60s' is no string", name);
		break;
	}
	json_decref(object);
	return code;
}

bool wh_json_pointer_valid(const char *pointer)
{
	if (*pointer && *pointer != '/')
		return false;
	for (const char *p = pointer; *p; p++)
		if (*p == '~' && p[1] != '0' && p[1] != '1')
			return false;
	return true;
}
