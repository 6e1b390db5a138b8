/*
 * wherry_headers_add(): adds one header to the JSON text of a message's headers.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include <wherry/message.h>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

static wherry_code load(const char *text, json_t **out, wherry_error *err)
{
	wherry_code code = wh_json_headers(text, strlen(text), err);

	if (code != WHERRY_OK)
		return code;
	*out = json_loads(text, 0, NULL);
	return *out ? WHERRY_OK : wh_oom(err);
}

static wherry_code add(json_t *to, const char *name, const char *value, wherry_error *err)
{
	if (json_object_get(to, name))
		return wh_fail(err, WHERRY_DUPLICATE, "the headers have '%.100s' already",
			       name);
	return json_object_set_new(to, name, json_string(value)) == 0 ? WHERRY_OK
								      : wh_oom(err);
}

wherry_code wherry_headers_add(char **headers, const char *name, const char *value,
			       wherry_error *err)
{
	wh_error_clear(err);
	json_t *all = NULL;
	char *text = NULL;
	wherry_code code;

	if (!headers || !name || !*name || !value)
		return wh_fail(err, WHERRY_INVALID, "a header needs a name and a value");
	if (!wh_utf8_valid(name, strlen(name)) || !wh_utf8_valid(value, strlen(value)))
		return wh_fail(err, WHERRY_INVALID, "header '%.100s' is not UTF-8", name);
	code = load(*headers ? *headers : "{}", &all, err);
	if (code == WHERRY_OK)
		code = add(all, name, value, err);
	if (code == WHERRY_OK) {
		text = json_dumps(all, JSON_COMPACT);
		if (!text)
			code = wh_oom(err);
	}
	json_decref(all);
	if (code != WHERRY_OK)
		return code;
	free(*headers);
	*headers = text;
	return WHERRY_OK;
}
