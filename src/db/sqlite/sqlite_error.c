/*
 * Converts SQLite's result codes to wherry_code; no other file does.
 */
#include <string.h>

#include "db/sqlite/sqlite.h"

/* clang-format off */
static const struct {
	int native; /* Primary result code. */
	wherry_code code;
} code_of[] = {
	{SQLITE_BUSY, WHERRY_BUSY},           {SQLITE_LOCKED, WHERRY_BUSY},
	{SQLITE_READONLY, WHERRY_READONLY},   {SQLITE_FULL, WHERRY_FULL},
	{SQLITE_NOMEM, WHERRY_NOMEM},         {SQLITE_INTERRUPT, WHERRY_INTERRUPTED},
	{SQLITE_IOERR, WHERRY_IO},            {SQLITE_CORRUPT, WHERRY_CORRUPT},
	{SQLITE_NOTADB, WHERRY_CORRUPT},      {SQLITE_PERM, WHERRY_DENIED},
	{SQLITE_AUTH, WHERRY_DENIED},         {SQLITE_TOOBIG, WHERRY_TOOBIG},
	{SQLITE_CANTOPEN, WHERRY_NOTFOUND},   {SQLITE_PROTOCOL, WHERRY_BUSY},
};
/* clang-format on */

wherry_code wh_sqlite_code_of(int native, const char *state)
{
	(void)state;
	switch (native) {
	case SQLITE_CONSTRAINT_UNIQUE:
	case SQLITE_CONSTRAINT_PRIMARYKEY:
		return WHERRY_DUPLICATE;
	case SQLITE_BUSY_SNAPSHOT:
		return WHERRY_CONFLICT;
	case SQLITE_IOERR_NOMEM:
		return WHERRY_NOMEM;
	default:
		break;
	}
	for (size_t i = 0; i < sizeof(code_of) / sizeof(*code_of); i++)
		if (code_of[i].native == (native & 0xff))
			return code_of[i].code;
	return WHERRY_INVALID;
}

wherry_code wh_sqlite_fail(sqlite_db *s, int rc, const char *doing, wherry_error *err)
{
	const char *text = s->handle ? sqlite3_errmsg(s->handle) : sqlite3_errstr(rc);
	int extended = s->handle ? sqlite3_extended_errcode(s->handle) : rc;
	wherry_code code;

	if ((extended & 0xff) == rc)
		/* A borrowed handle may return only the primary code. */
		rc = extended;
	if (s->interrupted && (rc & 0xff) == SQLITE_BUSY) {
		rc = SQLITE_INTERRUPT;
		text = "interrupted while another connection held the file locked";
	}

	if (rc == SQLITE_READONLY_DBMOVED) {
		s->replaced = true;
		return wh_sqlite_check_replaced(s, err);
	}
	if ((rc & 0xff) == SQLITE_BUSY && strstr(text, "SQL statements in progress")) {
		rc = SQLITE_ERROR; /* Waiting cannot help. */
		text = "a statement of this connection that writes is running: end it first; "
		       "in SQL, call the function with a separate SELECT, and not in a "
		       "trigger";
	}
	code = wh_sqlite_code_of(rc, "");
	if (code == WHERRY_INVALID && (strncmp(text, "no such table", 13) == 0 ||
				       strncmp(text, "no such index", 13) == 0 ||
				       strncmp(text, "no such column", 14) == 0))
		code = WHERRY_NOTFOUND;
	if (code == WHERRY_CONFLICT)
		text = "the transaction began by reading, and another has written since: roll "
		       "it back and begin again, with BEGIN IMMEDIATE";
	else if (code == WHERRY_BUSY)
		text = "another connection is writing, or holds the file locked";
	else if (code == WHERRY_READONLY)
		text = "the file cannot be written: check its owner and mode, and its folder's";
	else if (code == WHERRY_FULL)
		text = "the disk is full: nothing was written; make room and try again";
	return wh_fail_native(err, code, rc, "%s%s: %s", s->path, doing, text);
}

/* SQLite has no number for an expression that fails for a row, such as one over a text that is not JSON: it is
 * SQLITE_ERROR, which a statement that cannot be prepared gets, too.  So such an error has a state. */
#define DATA_EXCEPTION "22000"

wherry_code wh_sqlite_fail_row(sqlite_db *s, int rc, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code = wh_sqlite_fail(s, rc, "", &why);

	if (code == WHERRY_INVALID && (rc & 0xff) == SQLITE_ERROR &&
	    !strstr(why.message, "no such"))
		memcpy(why.sqlstate, DATA_EXCEPTION, sizeof(DATA_EXCEPTION));
	if (err)
		*err = why;
	return code;
}

bool wh_sqlite_about_row(const wherry_error *err)
{
	int primary = err->native & 0xff;

	return strcmp(err->sqlstate, DATA_EXCEPTION) == 0 ||
	       primary == SQLITE_CONSTRAINT || primary == SQLITE_TOOBIG ||
	       primary == SQLITE_MISMATCH;
}
