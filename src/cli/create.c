/*
 * The options and results that `wherry create` has for every kind of table.
 */
#include "cli/create.h"

#include <string.h>

#include "cli/target.h"

bool wh_arg_grants(const wh_args *args, wh_grants *out)
{
	const char *value;
	size_t at = 0;

	for (out->n = 0; (value = wh_arg_next(args, "grant", &at));
	     out->all[out->n++] = value)
		if (out->n == WH_GRANTS_MOST) {
			(void)wh_usage(args->command, "more than %d times --grant",
				       WH_GRANTS_MOST);
			return false;
		}
	return true;
}

void wh_put_created(wh_buf *text, const wh_args *args, unsigned kind, const char *table)
{
	char url[200];

	wh_show_database(wh_operand(args, 0), url, sizeof(url));
	wh_buf_puts(text, "{\"url\":");
	wh_buf_json(text, url, strlen(url));
	wh_put_text_field(text, "table", table);
	wh_put_text_field(text, "kind", wh_kind_word(kind));
}
