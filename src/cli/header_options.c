#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/text.h"

static wh_exit no_memory(void)
{
	wherry_error err = WHERRY_ERROR_INIT;

	(void)wh_oom(&err);
	return wh_report(&err);
}

/* UTF-8 is checked first, so that what else fails is memory. */
static wh_exit add_header(const wh_args *args, json_t *object, const char *text)
{
	const char *equals = strchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : 0;
	char *name = strndup(text, len);
	wh_exit status = WH_EXIT_DONE;

	if (!len)
		status = wh_usage(args->command, "--header %s: write NAME=VALUE", text);
	else if (!wh_utf8_valid(text, strlen(text)))
		status = wh_usage(args->command, "--header %s: not UTF-8", text);
	else if (name && json_object_get(object, name))
		status = wh_usage(args->command, "header '%s' is given twice", name);
	else if (!name || json_object_set_new(object, name, json_string(equals + 1)) != 0)
		status = no_memory();
	free(name);
	return status;
}

wh_exit wh_arg_headers(const wh_args *args, char **out)
{
	json_t *object = json_object();
	wh_exit status = object ? WH_EXIT_DONE : no_memory();
	const char *text;

	for (size_t at = 0;
	     status == WH_EXIT_DONE && (text = wh_arg_next(args, "header", &at)) != NULL;)
		status = add_header(args, object, text);
	if (status == WH_EXIT_DONE) {
		*out = json_dumps(object, JSON_COMPACT);
		status = *out ? WH_EXIT_DONE : no_memory();
	}
	json_decref(object);
	return status;
}
