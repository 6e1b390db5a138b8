/*
 * Converts SQLSTATEs to wherry_code; no other file does.
 */
#include <stdio.h>
#include <string.h>

#include "db/postgres/postgres.h"

/* clang-format off */
static const struct {
	const char *state; /* Five characters, or the two of a class. */
	wherry_code code;
	const char *text; /* Replaces the server's text; NULL: keep it. */
} code_of[] = {
	{"40", WHERRY_CONFLICT, NULL},
	{"40003", WHERRY_INDOUBT, NULL},
	{"25P02", WHERRY_CONFLICT, "a statement before this one failed, and the transaction "
	                           "with it: roll it back and begin again"},
	{"26000", WHERRY_CONFLICT, "a prepared statement is gone (does a pooler change the "
	                           "session under a transaction?): begin again"},
	{"55P03", WHERRY_BUSY, "another transaction holds what this one needs, for longer "
	                       "than db.busy_timeout"},
	{"55006", WHERRY_BUSY, NULL},
	{"53", WHERRY_BUSY, NULL},
	{"53300", WHERRY_BUSY, "the server has no free connection: raise max_connections, or "
	                       "have fewer clients"},
	{"53100", WHERRY_FULL, "the server's disk is full: nothing was written; make room and "
	                       "try again"},
	{"53200", WHERRY_NOMEM, "the server is out of memory"},
	{"57014", WHERRY_INTERRUPTED, NULL},
	{"57P01", WHERRY_CLOSED, NULL},
	{"57P02", WHERRY_CLOSED, NULL},
	{"57P03", WHERRY_CLOSED, NULL},
	{"57P05", WHERRY_CLOSED, NULL},
	{"25P03", WHERRY_CLOSED, NULL},
	{"08", WHERRY_CLOSED, NULL},
	{"23505", WHERRY_DUPLICATE, NULL},
	{"42P01", WHERRY_NOTFOUND, NULL},
	{"42703", WHERRY_NOTFOUND, NULL},
	{"42883", WHERRY_NOTFOUND, NULL},
	{"3F000", WHERRY_NOTFOUND, NULL},
	{"3D000", WHERRY_NOTFOUND, NULL},
	{"42501", WHERRY_DENIED, NULL},
	{"28", WHERRY_DENIED, NULL},
	{"25006", WHERRY_READONLY, "it cannot be written, being a standby or set to read only: "
	                           "name the primary, as with ?target_session_attrs=read-write"},
	{"54", WHERRY_TOOBIG, NULL},
	{"58", WHERRY_IO, NULL},
	{"XX001", WHERRY_CORRUPT, NULL},
	{"XX002", WHERRY_CORRUPT, NULL},
	{"0A", WHERRY_UNSUPPORTED, NULL},
};
/* clang-format on */

/* Find the longest entry with which the state begins. */
static wherry_code code_for(const char *state, const char **out_text)
{
	wherry_code code = WHERRY_INVALID;
	size_t best = 0;

	for (size_t i = 0; i < sizeof(code_of) / sizeof(*code_of); i++) {
		size_t len = strlen(code_of[i].state);

		if (len <= best || strncmp(state, code_of[i].state, len) != 0)
			continue;
		best = len;
		code = code_of[i].code;
		if (code_of[i].text)
			*out_text = code_of[i].text;
	}
	return code;
}

wherry_code wh_postgres_code_of(int native, const char *state)
{
	const char *text;

	(void)native;
	return code_for(state, &text);
}

static wherry_code tell(const postgres_db *s, wherry_code code, const char *state,
			const char *text, const char *hint, wherry_error *err)
{
	wh_arena copies = WH_ARENA_INIT;
	bool failed = false;
	wh_view line = wh_postgres_text_utf8(
		&s->text, (wh_view){text, strcspn(text, "\n")}, &copies, &failed);

	code = wh_fail(err, code, "%s: %.*s%s", s->name, (int)line.len,
		       line.ptr ? line.ptr : "", hint);
	wh_arena_clear(&copies);
	if (err)
		(void)snprintf(err->sqlstate, sizeof(err->sqlstate), "%.5s", state);
	return code;
}

/* Append a name, in double quotes unless it is an ordinary one. */
static void put_name(wh_buf *text, const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";

	if (*name && strspn(name, plain) == strlen(name)) {
		wh_buf_puts(text, name);
		return;
	}
	wh_buf_putc(text, '"');
	for (; *name; name++) {
		wh_buf_putc(text, *name);
		if (*name == '"')
			wh_buf_putc(text, '"');
	}
	wh_buf_putc(text, '"');
}

/* Append who may give the right on a thing such as "table orders".  The tables whose names
 * begin with wherry_ are written by several statements of a kind of role, so that --grant is
 * the way to them. */
static wherry_repair put_way(wh_buf *text, const char *what, const char *role)
{
	static const char *const kinds[][2] = {
		{"table ", "SELECT, INSERT, UPDATE, DELETE ON"},
		{"sequence ", "USAGE ON SEQUENCE"},
		{"schema ", "USAGE, CREATE ON SCHEMA"},
		{"database ", "CONNECT ON DATABASE"},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const size_t len = strlen(kinds[i][0]);

		if (strncmp(what, kinds[i][0], len) != 0)
			continue;
		if (i < 2 && strncmp(what + len, "wherry_", 7) == 0)
			break;
		wh_buf_printf(text,
			      ": its owner can grant one or more of these rights: `GRANT "
			      "%s ",
			      kinds[i][1]);
		put_name(text, what + len);
		wh_buf_puts(text, " TO ");
		put_name(text, role);
		wh_buf_putc(text, '`');
		return WHERRY_REPAIR_NONE;
	}
	wh_buf_puts(text, ": its owner can grant what this role needs");
	return WHERRY_REPAIR_GRANT;
}

/* Extend the message "permission denied for table outbox" by the role and the right that
 * it needs. */
static wherry_code denied(const postgres_db *s, const PGresult *res, const char *state,
			  const char *text, wherry_error *err)
{
	static const char start[] = "permission denied for ";
	const char *function =
		res ? PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION) : NULL;
	const char *role = PQuser(s->conn);
	wherry_repair repair = WHERRY_REPAIR_NONE;
	wh_buf hint = WH_BUF_INIT(1000);
	wherry_code code;

	if (function && strcmp(function, "check_enable_rls") == 0) {
		/* From row_security = off.  The message is in the server's language. */
		wh_buf_printf(
			&hint,
			": Wherry needs all rows; as a superuser, ALTER ROLE %s "
			"BYPASSRLS, or as the owner, ALTER TABLE ... DISABLE ROW LEVEL "
			"SECURITY",
			role);
	} else if (strncmp(text, "must be owner", strlen("must be owner")) == 0) {
		wh_buf_printf(&hint, ": only the owner may do this, not %s", role);
	} else {
		wh_buf_printf(&hint, WH_ERROR_ROLE "%s)", role);
		if (strncmp(text, start, strlen(start)) == 0)
			repair = put_way(&hint, text + strlen(start), role);
		else
			wh_buf_puts(&hint, ": ask the owner for the right");
	}
	code = tell(s, WHERRY_DENIED, state, text, wh_buf_str(&hint), err);
	wh_buf_clear(&hint);
	return repair ? wh_repair(err, code, repair, 0, NULL) : code;
}

/* Compares the function's name, since the message is in the server's language. */
bool wh_postgres_outdated(const PGresult *res)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *function = PQresultErrorField(res, PG_DIAG_SOURCE_FUNCTION);
	const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

	if (!state || strcmp(state, "0A000") != 0)
		return false;
	return (function && strcmp(function, "RevalidateCachedQuery") == 0) ||
	       (text && strstr(text, "cached plan"));
}

/* Find the innermost function in a context such as "PL/pgSQL function shop.audit() line 3
 * at SQL statement" or "SQL function "audit" statement 1".  False: there is none. */
static bool function_in(const char *context, char *out, size_t cap)
{
	static const char word[] = "function ";
	const char *at = context ? strstr(context, word) : NULL;
	size_t len;

	if (!at)
		return false;
	at += strlen(word);
	if (*at == '"') {
		len = strcspn(++at, "\"\n");
		(void)snprintf(out, cap, "%.*s()", (int)len, at);
		return len > 0;
	}
	len = strcspn(at, ")\n");
	(void)snprintf(out, cap, "%.*s)", (int)len, at);
	return at[len] == ')' && strncmp(at, "inline_code_block", 17) != 0;
}

/* Is a name missing in a function, such as a trigger's, and not in a statement of Wherry's?
 * The hint then names the function. */
static bool missing_in_function(const postgres_db *s, const PGresult *res,
				const char *state, char *hint, size_t cap)
{
	static const char *const missing[] = {"42P01", "42883", "42704", "42703",
					      "3F000"};
	char function[64];
	bool found = false;

	for (size_t i = 0; i < sizeof(missing) / sizeof(*missing); i++)
		found = found || strcmp(state, missing[i]) == 0;
	if (!found || !function_in(PQresultErrorField(res, PG_DIAG_CONTEXT), function,
				   sizeof(function)))
		return false;
	if (s->fixed)
		(void)snprintf(hint, cap,
			       ", in %s, which runs without your search path: "
			       "ALTER FUNCTION %s SET search_path FROM CURRENT",
			       function, function);
	else
		(void)snprintf(hint, cap, ", in %s", function);
	return true;
}

/* Say which part of PostgreSQL the server lacks; NULL: the error is about something else.  The names stand in the
 * message, whatever its language. */
static const char *lack(const char *state, const char *text)
{
	static const char no_snapshots[] =
		": this server lacks snapshots, which an outbox needs: "
		"use a queue in its place";
	static const char *const lacks[][2] = {
		{"advisory",
		 ": this server lacks advisory locks, which lock_key, partitions, "
		 "segments, adopted tables and wherry_listen() need"},
		{"pg_notify",
		 ": this server lacks notifications, so nobody can be woken"},
		{"pg_current_snapshot", no_snapshots},
		{"pg_current_xact_id", no_snapshots},
		{"xid8", no_snapshots},
	};

	if (strcmp(state, "42883") != 0 && strcmp(state, "42704") != 0 &&
	    strcmp(state, "0A000") != 0)
		return NULL;
	for (size_t i = 0; i < sizeof(lacks) / sizeof(*lacks); i++)
		if (strstr(text, lacks[i][0]))
			return lacks[i][1];
	return NULL;
}

/* Citus says that of a table that it manages and a statement that it cannot plan for other nodes.  The message is never
 * translated. */
static bool is_of_citus(const char *text)
{
	return strcmp(text, "could not create distributed plan") == 0;
}

wherry_code wh_postgres_fail(postgres_db *s, const PGresult *res, wherry_error *err)
{
	const char *state = res ? PQresultErrorField(res, PG_DIAG_SQLSTATE) : NULL;
	const char *text = res ? PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY) : NULL;
	/* After a failed write the status is unchanged, but a result made by libpq has no
	 * SQLSTATE. */
	bool gone = PQstatus(s->conn) == CONNECTION_BAD || (res && !state);
	char hint[256] = "";
	wherry_code code;

	if (!state && gone && *s->notice)
		/* The server ended the connection between calls, and gave this reason. */
		text = s->notice;
	if (!text || !*text)
		text = PQerrorMessage(s->conn);
	if (!*text)
		text = "no answer";
	if (!state)
		return tell(s, gone ? WHERRY_CLOSED : WHERRY_IO, "", text, "", err);
	code = code_for(state, &text);
	if (res && wh_postgres_outdated(res)) {
		code = WHERRY_CONFLICT;
		text = "a table was altered after this statement was prepared: roll the "
		       "transaction back and begin again";
	}
	if (code == WHERRY_INTERRUPTED && !atomic_load(&s->interrupted))
		code = WHERRY_TIMEOUT; /* From statement_timeout or an administrator. */
	if (gone)
		code = WHERRY_CLOSED;
	if (code == WHERRY_DENIED)
		return denied(s, res, state, text, err);
	if (lack(state, text))
		return tell(s, WHERRY_UNSUPPORTED, state, text, lack(state, text), err);
	if (is_of_citus(text))
		return wh_repair(
			err,
			tell(s, WHERRY_UNSUPPORTED, state, text,
			     ": a table belongs to Citus, and Wherry's have to be "
			     "local to a node (docs/guide/citus.md)",
			     err),
			WHERRY_REPAIR_DOCTOR, 0, NULL);
	/* Not NOTFOUND: a model would take that for a missing table of Wherry's. */
	if (res && missing_in_function(s, res, state, hint, sizeof(hint)))
		code = WHERRY_INVALID;
	else if (strcmp(state, "3F000") == 0)
		return tell(s, code, state, text, ": make it with CREATE SCHEMA", err);
	return tell(s, code, state, text, hint, err);
}

/* Classes 22 (data), 23 (constraints) and 54 (limits of the server). */
bool wh_postgres_about_row(const wherry_error *err)
{
	static const char *const classes[] = {"22", "23", "54"};

	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (strncmp(err->sqlstate, classes[i], 2) == 0)
			return true;
	/* A value is longer than the server can convert.  The message is never translated. */
	return strcmp(err->sqlstate, "XX000") == 0 &&
	       strstr(err->message, "invalid memory alloc request size");
}

bool wh_postgres_locked_out(const wherry_error *err)
{
	return strcmp(err->sqlstate, "55P03") == 0;
}

/* Find the SQLSTATE in a verbose message such as "connection to server at …: FATAL:
 * 28P01: password …". */
static const char *state_in(const char *message)
{
	for (const char *p = message; (p = strstr(p, ":  ")); p++)
		if (strspn(p + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 5 &&
		    p[8] == ':')
			return p + 3;
	return NULL;
}

wherry_code wh_postgres_refused(postgres_db *s, wherry_error *err)
{
	const char *message = PQerrorMessage(s->conn), *state = state_in(message);
	const char *text = state ? state + 7 : message, *hint = "";
	wherry_code code = WHERRY_CLOSED;

	if (state)
		code = code_for(state, &text);
	else if (strstr(message, "no password supplied"))
		code = WHERRY_DENIED;
	if (code == WHERRY_DENIED)
		hint = ": check user and password (PGPASSWORD, ~/.pgpass) and the "
		       "server's pg_hba.conf";
	else if (code == WHERRY_CLOSED && !state)
		hint = " (is the server running, and the host right?)";
	else if (code == WHERRY_NOTFOUND)
		hint = ": create it with createdb";
	return tell(s, code, state ? state : "", text, hint, err);
}

wherry_code wh_postgres_fail_as(const postgres_db *s, const char *state,
				wherry_error *err)
{
	const char *text = "";
	wherry_code code = code_for(state, &text);

	return tell(s, code, state, text, "", err);
}

wherry_code wh_postgres_fail_encoding(const postgres_db *s, wherry_error *err)
{
	char text[120];

	(void)snprintf(text, sizeof(text),
		       "a text has a character that the database's encoding %s has not",
		       PQparameterStatus(s->conn, "server_encoding"));
	return tell(s, WHERRY_INVALID, "22P05", text, "", err);
}

wherry_code wh_postgres_fail_indoubt(const postgres_db *s, wherry_error *err)
{
	return tell(s, WHERRY_INDOUBT, "",
		    "the connection was lost while it committed: look whether it did", "",
		    err);
}
