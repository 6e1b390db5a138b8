/*
 * What SQLite's result codes mean; no other file turns them into a wherry_code.
 */
#include <string.h>

#include "db/sqlite/sqlite.h"

/* clang-format off */
static const struct {
	int native; /* primary result code */
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

wherry_code wh_sqlite_fail(sqlite_db *s, int rc, const char *doing, wherry_error *err)
{
	const char *text = s->handle ? sqlite3_errmsg(s->handle) : sqlite3_errstr(rc);
	int extended = s->handle ? sqlite3_extended_errcode(s->handle) : rc;
	wherry_code code = WHERRY_INVALID;

	if ((extended & 0xff) == rc)
		rc = extended; /* a borrowed handle may return the primary code only */
	if (s->interrupted && (rc & 0xff) == SQLITE_BUSY) {
		rc = SQLITE_INTERRUPT;
		text = "interrupted while another connection held the file locked";
	}

	if (rc == SQLITE_READONLY_DBMOVED) {
		s->replaced = true;
		return wh_sqlite_check_replaced(s, err);
	}
	for (size_t i = 0; i < sizeof(code_of) / sizeof(*code_of); i++)
		if (code_of[i].native == (rc & 0xff))
			code = code_of[i].code;
	if (rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY)
		code = WHERRY_DUPLICATE;
	else if (rc == SQLITE_BUSY_SNAPSHOT)
		code = WHERRY_CONFLICT;
	else if (rc == SQLITE_IOERR_NOMEM)
		code = WHERRY_NOMEM;
	else if (strncmp(text, "no such table", 13) == 0 ||
		 strncmp(text, "no such index", 13) == 0 ||
		 strncmp(text, "no such column", 14) == 0)
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

bool wh_sqlite_about_row(const wherry_error *err)
{
	int primary = err->native & 0xff;

	return primary == SQLITE_CONSTRAINT || primary == SQLITE_TOOBIG ||
	       primary == SQLITE_MISMATCH;
}
