/*
 * Headers that a format adds.
 */
#include "publish/format/format.h"

#include <string.h>

#include "base/text.h"

static char fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || !c ? c : '-';
}

static bool same_name(const char *a, const char *b)
{
	while (*a && fold(*a) == fold(*b))
		a++, b++;
	return !*a && !*b;
}

static const char *find_name(json_t *headers, const char *name)
{
	const char *at;
	json_t *value;

	json_object_foreach (headers, at, value)
		if (same_name(at, name))
			return at;
	return NULL;
}

wherry_code wh_format_header(json_t *headers, const char *name, const char *value,
			     wherry_error *err)
{
	const char *other = find_name(headers, name);

	if (other)
		return wh_fail(
			err, WHERRY_INVALID,
			"its header '%.60s' collides with the header '%.60s' of the "
			"format; set message.headers='drop %.60s', or rename it",
			other, name, other);
	if (!wh_utf8_valid(name, strlen(name)) || !wh_utf8_valid(value, strlen(value)))
		return wh_fail(err, WHERRY_INVALID,
			       "the value of the header '%.60s' is not UTF-8", name);
	return json_object_set_new(headers, name, json_string(value)) == 0 ? WHERRY_OK
									   : wh_oom(err);
}
