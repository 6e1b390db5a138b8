/*
 * What SQLSTATEs mean; no other file turns them into a wherry_code.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "db/odbc/odbc.h"

/* clang-format off */
static const struct {
	const char *state; /* five characters, or the two of a class */
	wherry_code code;
	const char *text;  /* instead of the driver's; NULL: that */
} states[] = {
	{"40", WHERRY_CONFLICT, NULL},
	{"25P02", WHERRY_CONFLICT, "a statement before this one failed, and the transaction "
	                           "with it: roll it back and begin again"},
	{"55P03", WHERRY_BUSY, "another transaction holds what this one needs, for longer "
	                       "than db.busy_timeout"},
	{"55006", WHERRY_BUSY, NULL},
	{"53", WHERRY_BUSY, NULL},
	{"53100", WHERRY_FULL, NULL},
	{"HY001", WHERRY_NOMEM, NULL},
	{"HY008", WHERRY_INTERRUPTED, NULL},
	{"57014", WHERRY_INTERRUPTED, NULL},
	{"HYT00", WHERRY_TIMEOUT, NULL},
	{"HYT01", WHERRY_CLOSED, NULL},
	{"57P", WHERRY_CLOSED, NULL},
	{"08", WHERRY_CLOSED, NULL},
	{"23505", WHERRY_DUPLICATE, NULL},
	{"42P01", WHERRY_NOTFOUND, NULL},
	{"42703", WHERRY_NOTFOUND, NULL},
	{"42883", WHERRY_NOTFOUND, NULL},
	{"42S02", WHERRY_NOTFOUND, NULL},
	{"42S22", WHERRY_NOTFOUND, NULL},
	{"3F000", WHERRY_NOTFOUND, NULL},
	{"3D000", WHERRY_NOTFOUND, NULL},
	{"42501", WHERRY_DENIED, NULL},
	{"28", WHERRY_DENIED, NULL},
	{"25006", WHERRY_READONLY, NULL},
	{"54", WHERRY_TOOBIG, NULL},
	{"58", WHERRY_IO, NULL},
	{"0A", WHERRY_UNSUPPORTED, NULL},
	{"IM002", WHERRY_NOTFOUND, "no such data source or driver: look at odbcinst -q -d"},
	{"01000", WHERRY_NOTFOUND, NULL}, /* the driver manager cannot load the driver */
};
/* clang-format on */

/* The longest entry that a state begins with. */
static wherry_code code_for(const char *state, const char **inout_text)
{
	wherry_code code = WHERRY_INVALID;
	size_t best = 0;

	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
		size_t len = strlen(states[i].state);

		if (len <= best || strncmp(state, states[i].state, len) != 0)
			continue;
		best = len;
		code = states[i].code;
		if (states[i].text)
			*inout_text = states[i].text;
	}
	return code;
}

/* Behind "[unixODBC][Driver Manager]". */
static const char *behind_brackets(const char *text)
{
	while (*text == '[') {
		const char *end = strchr(text, ']');

		if (!end)
			break;
		text = end + 1 + strspn(end + 1, " ");
	}
	return text;
}

wherry_code wh_odbc_fail(odbc_db *s, SQLSMALLINT kind, SQLHANDLE handle,
			 wherry_error *err)
{
	SQLCHAR state[6] = "", message[1024] = "";
	SQLINTEGER native = 0;
	SQLSMALLINT len = 0;
	const char *text;
	wherry_code code;

	if (!SQL_SUCCEEDED(SQLGetDiagRec(kind, handle, 1, state, &native, message,
					 sizeof(message), &len)))
		return wh_fail(err, WHERRY_IO, "%s: no diagnostic", s->name);
	text = behind_brackets((const char *)message);
	if (strncmp(text, "ERROR: ", 7) == 0)
		text += 7 + strspn(text + 7, " ");
	code = code_for((const char *)state, &text);
	if (code == WHERRY_TIMEOUT && s->interrupted)
		code = WHERRY_INTERRUPTED;
	s->lost |= code == WHERRY_CLOSED;
	code = wh_fail_native(err, code, native, "%s: %.*s", s->name,
			      (int)strcspn(text, "\r\n;"), text);
	if (err)
		(void)snprintf(err->sqlstate, sizeof(err->sqlstate), "%.5s",
			       (const char *)state);
	return code;
}

/* Classes 22 and 23, data and constraints, and 54, limits of the server. */
bool wh_odbc_about_row(const wherry_error *err)
{
	static const char *const classes[] = {"22", "23", "54"};

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (strncmp(err->sqlstate, classes[i], 2) == 0)
			return true;
	return false;
}
