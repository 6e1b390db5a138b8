#include "store/name.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static wherry_code refuse(const char *text, wherry_error *err)
{
	return wh_fail(
		err, WHERRY_INVALID,
		"'%.60s' is not a table name: write TABLE or SCHEMA.TABLE; a part with "
		"a dot or a quote in it goes into double quotes, with each of them "
		"written twice",
		text);
}

/* Read one part of a name, quoted or not, and move *at behind it.  A part that does not
 * fit `cap` is cut; *out_len is its full length. */
static bool take_part(const char **at, char *out, size_t cap, size_t *out_len)
{
	const char *p = *at;
	bool quoted = *p == '"';
	size_t len = 0;

	for (p += quoted; *p; p++) {
		if (quoted && p[0] == '"' && p[1] != '"')
			break;
		if (!quoted && *p == '.')
			break;
		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\' ||
		    (*p == '"' && !quoted))
			return false;
		if (len < cap - 1)
			out[len] = *p;
		len++;
		p += *p == '"';
	}
	if ((quoted && *p++ != '"') || (*p && *p != '.'))
		return false;
	out[len < cap ? len : cap - 1] = 0;
	*out_len = len;
	*at = p;
	return len > 0;
}

static wherry_code check_len(const char *what, size_t len, size_t most, wherry_error *err)
{
	if (len <= most)
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_INVALID,
		"the name of the %s has %zu bytes, at most %zu are possible: "
		"PostgreSQL cuts names at %d, also those of indexes, which are longer",
		what, len, most, WH_NAME_MOST);
}

static wherry_code parse_qualified(const char *text, wh_name *out, wherry_error *err)
{
	wh_name name = {.schema = ""};
	size_t schema_len = 0, table_len = 0;
	const char *at = text;
	wherry_code code;

	if (!wh_utf8_valid(text, strlen(text)) ||
	    !take_part(&at, name.table, sizeof(name.table), &table_len))
		return refuse(text, err);
	if (*at == '.') {
		at++;
		memcpy(name.schema, name.table, sizeof(name.schema));
		schema_len = table_len;
		if (!take_part(&at, name.table, sizeof(name.table), &table_len))
			return refuse(text, err);
	}
	if (*at)
		return refuse(text, err);
	code = check_len("schema", schema_len, WH_NAME_MOST, err);
	if (code == WHERRY_OK)
		code = check_len("table", table_len, WH_IDENT_MAX, err);
	if (code == WHERRY_OK)
		*out = name;
	return code;
}

wherry_code wh_name_parse(const char *text, bool schemas, wh_name *out, wherry_error *err)
{
	if (text && schemas)
		return parse_qualified(text, out, err);
	if (!text || !wh_ident_valid(text))
		return wh_fail(
			err, WHERRY_INVALID,
			"'%.60s' is not a table name: begin with a letter or _, go on with "
			"letters, digits and _, at most %d",
			text ? text : "", WH_IDENT_MAX);
	*out = (wh_name){.schema = ""};
	(void)snprintf(out->table, sizeof(out->table), "%s", text);
	return WHERRY_OK;
}
