#include "base/json.h"

#include <string.h>

#include "base/text.h"

static const size_t flags = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL;

/* jansson takes a NUL byte for the end, whatever follows it; JSON has none. */
static json_t *load(const char *text, size_t len, size_t how, json_error_t *why)
{
	if (!len || !memchr(text, 0, len))
		return json_loadb(text, len, how, why);
	if (why)
		*why = (json_error_t){.line = 1, .column = 1, .text = "NUL byte"};
	return NULL;
}

wherry_code wh_json_parse(const char *text, size_t len, json_t **out, wherry_error *err)
{
	json_error_t why;
	json_t *value = load(text, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);

	if (!value)
		return wh_fail(err, WHERRY_INVALID, "line %d, column %d: %s", why.line,
			       why.column > 0 ? why.column : 1, why.text);
	*out = value;
	return WHERRY_OK;
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

/* The member of an array that a part such as "0" or "12" names. */
static json_t *array_part(json_t *array, const char *part)
{
	int64_t i;

	if ((part[0] == '0' && part[1]) || !wh_parse_int(part, &i) || i < 0)
		return NULL;
	return json_array_get(array, (size_t)i);
}

json_t *wh_json_pointer(json_t *root, const char *pointer)
{
	char part[256];
	json_t *at = root;

	if (!wh_json_pointer_valid(pointer))
		return NULL;
	while (at && *pointer == '/') {
		size_t n = 0;

		for (pointer++; *pointer && *pointer != '/'; pointer++) {
			if (n + 1 == sizeof(part))
				return NULL;
			part[n++] = *pointer != '~'     ? *pointer
				    : *++pointer == '1' ? '/'
							: '~';
		}
		part[n] = 0;
		if (json_is_array(at))
			at = array_part(at, part);
		else
			at = json_object_get(at, part);
	}
	return at;
}
