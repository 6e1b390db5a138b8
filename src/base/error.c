#define WH_BASE_ERROR_C
#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static_assert(sizeof(wherry_error) == 424, "wherry_error is part of the ABI");
static_assert((int)WHERRY_CODE_COUNT <= (int)WHERRY_CODE_ROOM,
	      "arrays by code are part of the ABI");

static const struct {
	const char *name;
	const char *text;
	wherry_remedy remedy;
} codes[] = {
#define CODE(name, remedy, text) {#name, text, WHERRY_REMEDY_##remedy},
	WHERRY_CODES(CODE)
#undef CODE
};

const char *wherry_code_name(wherry_code code)
{
	return (unsigned)code < WHERRY_CODE_COUNT ? codes[code].name : "UNKNOWN";
}

const char *wherry_code_text(wherry_code code)
{
	return (unsigned)code < WHERRY_CODE_COUNT ? codes[code].text : "unknown code";
}

bool wh_error_of_database(const wherry_error *err)
{
	return err->native || *err->sqlstate;
}

bool wh_error_lacks_right(const wherry_error *err)
{
	static const char *const sentences[] = {
		"permission denied for ",    /* PostgreSQL */
		"permission was denied on ", /* SQL Server */
	};

	for (size_t i = 0; i < sizeof(sentences) / sizeof(*sentences); i++)
		if (err->code == WHERRY_DENIED && strstr(err->message, sentences[i]))
			return true;
	return false;
}

bool wh_error_role(const wherry_error *err, char out[WH_ROLE_LEN])
{
	const char *at = strstr(err->message, WH_ERROR_ROLE);
	size_t len;

	if (!at)
		return false;
	at += strlen(WH_ERROR_ROLE);
	len = strcspn(at, ")");
	if (!len || len >= WH_ROLE_LEN)
		return false;
	memcpy(out, at, len);
	out[len] = 0;
	return true;
}

void wh_error_clear(wherry_error *err)
{
	if (err)
		*err = (wherry_error)WHERRY_ERROR_INIT;
}

wherry_remedy wherry_code_remedy(wherry_code code)
{
	return (unsigned)code < WHERRY_CODE_COUNT ? codes[code].remedy
						  : WHERRY_REMEDY_FIX;
}

/* Replace control characters, also U+0080 to U+009F, so that the text is one line without
 * escape sequences. */
static void flatten(char *text)
{
	for (; *text; text++) {
		unsigned char next = (unsigned char)text[1];

		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
		else if (*text == '\xc2' && next >= 0x80 && next <= 0x9f)
			text[0] = text[1] = ' ';
	}
}

WH_PRINTF(4, 0)
static wherry_code fill(wherry_error *err, wherry_code code, int native, const char *fmt,
			va_list args)
{
	if (!err)
		return code;
	err->code = code;
	err->native = native;
	err->sqlstate[0] = 0;
	err->repair = WHERRY_REPAIR_NONE;
	err->kinds = 0;
	err->layout[0] = err->table[0] = 0;
	if (vsnprintf(err->message, sizeof(err->message), fmt, args) < 0 ||
	    !*err->message)
		(void)snprintf(err->message, sizeof(err->message), "%s",
			       wherry_code_text(code));
	flatten(err->message);
	return code;
}

wherry_code wh_fail(wherry_error *err, wherry_code code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	code = fill(err, code, 0, fmt, args);
	va_end(args);
	return code;
}

wherry_code wherry_error_set(wherry_error *err, wherry_code code, const char *message)
{
	return wh_fail(err, code, "%s", message ? message : "");
}

wherry_code wh_fail_native(wherry_error *err, wherry_code code, int native,
			   const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	code = fill(err, code, native, fmt, args);
	va_end(args);
	return code;
}

wherry_code wh_prefix(wherry_error *err, wherry_code code, const char *fmt, ...)
{
	char was[sizeof(err->message)];
	va_list args;
	size_t len;

	if (!err || code == WHERRY_OK)
		return code;
	memcpy(was, err->message, sizeof(was));
	va_start(args, fmt);
	if (vsnprintf(err->message, sizeof(err->message), fmt, args) < 0)
		err->message[0] = 0;
	va_end(args);
	len = strlen(err->message);
	(void)snprintf(err->message + len, sizeof(err->message) - len, ": %.*s",
		       (int)(sizeof(err->message) - 1), was);
	flatten(err->message);
	return code;
}

wherry_code wh_repair(wherry_error *err, wherry_code code, wherry_repair how,
		      unsigned kinds, const char *table)
{
	if (!err)
		return code;
	err->repair = how;
	err->kinds = kinds;
	err->layout[0] = 0;
	(void)snprintf(err->table, sizeof(err->table), "%s", table ? table : "");
	return code;
}

const char *wh_errno_text(int number)
{
#if __GLIBC_PREREQ(2, 32)
	const char *text = strerrordesc_np(number);
#else
	static _Thread_local char room[64];
	const char *text = strerror_r(number, room, sizeof(room));
#endif

	return text ? text : "unknown error";
}

wherry_code wh_fail_errno(wherry_error *err, int number, const char *fmt, ...)
{
	wherry_code code = WHERRY_IO;
	va_list args;
	size_t len;

	if (number == ENOENT || number == ENOTDIR)
		code = WHERRY_NOTFOUND;
	else if (number == EACCES || number == EPERM)
		code = WHERRY_DENIED;
	else if (number == EROFS)
		code = WHERRY_READONLY;
	else if (number == ENOSPC || number == EDQUOT)
		code = WHERRY_FULL;
	else if (number == ENOMEM)
		code = WHERRY_NOMEM;
	else if (number == EPIPE || number == ECONNRESET)
		code = WHERRY_CLOSED;
	else if (number == EMFILE || number == ENFILE || number == EAGAIN)
		code = WHERRY_BUSY;
	if (!err)
		return code;
	va_start(args, fmt);
	code = fill(err, code, number, fmt, args);
	va_end(args);
	len = strlen(err->message);
	(void)snprintf(err->message + len, sizeof(err->message) - len, ": %s",
		       wh_errno_text(number));
	return code;
}

wherry_code wh_oom(wherry_error *err)
{
	return wh_fail(err, WHERRY_NOMEM, "out of memory");
}
