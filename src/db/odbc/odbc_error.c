/*
 * Converts SQLSTATEs and SQL Server's error numbers to wherry_code; no other file does.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "db/odbc/odbc.h"

/* clang-format off */
static const struct {
	const char *state; /* Five characters, or the two of a class. */
	wherry_code code;
	const char *text; /* Replaces the driver's text; NULL: keep it. */
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

/* SQL Server's numbers.  Azure SQL's are those from 10928 on and from 40000 on. */
static const struct {
	long native;
	wherry_code code;
} natives[] = {
	{-2, WHERRY_TIMEOUT}, /* no answer in time */
	{-1, WHERRY_CLOSED},  /* the server cannot be reached */
	{2, WHERRY_CLOSED},
	{53, WHERRY_CLOSED},
	{64, WHERRY_CLOSED},
	{121, WHERRY_CLOSED},
	{207, WHERRY_NOTFOUND}, /* column */
	{208, WHERRY_NOTFOUND}, /* table */
	{229, WHERRY_DENIED},   /* permission on an object */
	{230, WHERRY_DENIED},   /* permission on a column */
	{233, WHERRY_CLOSED},   /* nobody at the other end of the pipe */
	{262, WHERRY_DENIED},   /* permission on a statement */
	{297, WHERRY_DENIED},
	{300, WHERRY_DENIED},
	{596, WHERRY_CLOSED},   /* the session was killed */
	{601, WHERRY_CONFLICT}, /* rows moved while they were read */
	{701, WHERRY_BUSY},     /* memory of the server */
	{802, WHERRY_BUSY},     /* memory of the buffer pool */
	{916, WHERRY_DENIED},   /* database */
	{921, WHERRY_CLOSED},   /* the database is not recovered yet */
	{922, WHERRY_CLOSED},   /* the database is being recovered */
	{923, WHERRY_CLOSED},   /* restricted mode */
	{924, WHERRY_CLOSED},   /* single-user mode */
	{927, WHERRY_CLOSED},   /* the database is being restored */
	{942, WHERRY_CLOSED},   /* offline */
	{945, WHERRY_CLOSED},   /* files are not accessible */
	{952, WHERRY_CLOSED},   /* the database is in transition */
	{954, WHERRY_CLOSED},   /* mirror */
	{955, WHERRY_CLOSED},   /* no quorum */
	{976, WHERRY_CLOSED},   /* secondary replica that cannot be read */
	{978, WHERRY_CLOSED},   /* replica for read intent only */
	{979, WHERRY_CLOSED},
	{982, WHERRY_CLOSED},
	{983, WHERRY_CLOSED},    /* the replica changes its role */
	{1088, WHERRY_NOTFOUND}, /* object, or no permission to alter it */
	{1101, WHERRY_FULL},
	{1105, WHERRY_FULL},
	{1203, WHERRY_CONFLICT}, /* a lock is not held any more */
	{1204, WHERRY_BUSY},     /* locks used up */
	{1205, WHERRY_CONFLICT}, /* deadlock victim */
	{1221, WHERRY_CONFLICT},
	{1222, WHERRY_BUSY},      /* LOCK_TIMEOUT */
	{1505, WHERRY_DUPLICATE}, /* a unique index cannot be made */
	{1913, WHERRY_DUPLICATE}, /* index exists */
	{2601, WHERRY_DUPLICATE}, /* unique index */
	{2627, WHERRY_DUPLICATE}, /* constraint */
	{2705, WHERRY_DUPLICATE}, /* column exists */
	{2714, WHERRY_DUPLICATE}, /* object exists */
	{2812, WHERRY_NOTFOUND},  /* procedure */
	{3902, WHERRY_CONFLICT},  /* COMMIT without a transaction: it was rolled back */
	{3903, WHERRY_CONFLICT},  /* ROLLBACK without one */
	{3906, WHERRY_READONLY},  /* database */
	{3930, WHERRY_CONFLICT},  /* the transaction cannot be committed any more */
	{3935, WHERRY_CONFLICT},
	{3948, WHERRY_CLOSED},   /* availability group */
	{3957, WHERRY_CONFLICT}, /* snapshot isolation */
	{3958, WHERRY_CONFLICT}, /* the row version was not found */
	{3960, WHERRY_CONFLICT}, /* snapshot update conflict */
	{3961, WHERRY_CONFLICT}, /* schema changed under snapshot isolation */
	{3966, WHERRY_CONFLICT}, /* the version store is full: rolled back */
	{3967, WHERRY_CONFLICT},
	{3971, WHERRY_CONFLICT}, /* failed to resume the transaction */
	{3988, WHERRY_CONFLICT},
	{3998, WHERRY_CONFLICT}, /* rolled back at the end of the batch */
	{4060, WHERRY_NOTFOUND}, /* database of the login */
	{4064, WHERRY_NOTFOUND},
	{4701, WHERRY_NOTFOUND},
	{6005, WHERRY_CLOSED}, /* shutdown */
	{8628, WHERRY_BUSY},
	{8645, WHERRY_BUSY}, /* memory for a query */
	{8651, WHERRY_BUSY},
	{9002, WHERRY_FULL},    /* log */
	{10053, WHERRY_CLOSED}, /* connection aborted */
	{10054, WHERRY_CLOSED}, /* connection reset */
	{10060, WHERRY_CLOSED}, /* connecting took too long */
	{10061, WHERRY_CLOSED}, /* connection refused */
	{10928, WHERRY_BUSY},   /* limits of resources */
	{10929, WHERRY_BUSY},
	{15247, WHERRY_DENIED},
	{15248, WHERRY_NOTFOUND},  /* sp_rename: no such object */
	{15335, WHERRY_DUPLICATE}, /* sp_rename: the name is taken */
	{17142, WHERRY_CLOSED},    /* paused */
	{18401, WHERRY_CLOSED},    /* the server is starting */
	{18452, WHERRY_DENIED},
	{18456, WHERRY_DENIED},  /* login failed */
	{20003, WHERRY_TIMEOUT}, /* FreeTDS: no answer in time */
	{20004, WHERRY_CLOSED},  /* FreeTDS: reading */
	{20006, WHERRY_CLOSED},  /* FreeTDS: writing */
	{20009, WHERRY_CLOSED},  /* FreeTDS: connecting */
	{20017, WHERRY_CLOSED},  /* FreeTDS: the server ended the connection */
	{20020, WHERRY_CLOSED},  /* FreeTDS: what came is not the protocol */
	{20047, WHERRY_CLOSED},  /* FreeTDS: the connection is dead */
	{40197, WHERRY_CLOSED},  /* the database moves */
	{40501, WHERRY_BUSY},    /* the service is busy */
	{40143, WHERRY_CLOSED},
	{40540, WHERRY_CLOSED}, /* the transaction was aborted by a failover */
	{40544, WHERRY_FULL},   /* quota of the database */
	{40549, WHERRY_BUSY},   /* long transaction */
	{40550, WHERRY_BUSY},   /* too many locks */
	{40551, WHERRY_BUSY},   /* tempdb */
	{40552, WHERRY_BUSY},   /* log */
	{40553, WHERRY_BUSY},   /* memory */
	{40613, WHERRY_CLOSED}, /* the database is not available now */
	{40615, WHERRY_DENIED}, /* firewall */
	{42108, WHERRY_CLOSED}, /* the database resumes */
	{42109, WHERRY_CLOSED},
	{49918, WHERRY_BUSY},
	{49919, WHERRY_BUSY},
	{49920, WHERRY_BUSY},
	{49983, WHERRY_CLOSED},   /* the database is busy with a failover */
	{51205, WHERRY_CONFLICT}, /* Wherry: others changed the rows each time. */
	/* Wherry: the collation takes the key for another. */
	{51206, WHERRY_DUPLICATE},
	{51207, WHERRY_TOOBIG},   /* Wherry: the key is too long for the table. */
	{51208, WHERRY_NOTFOUND}, /* Wherry: there is no such subscription. */
	{51222, WHERRY_BUSY},     /* Wherry: sp_getapplock took too long. */
	{51223, WHERRY_BUSY},     /* Wherry: a relay reads the subscription. */
	{51229, WHERRY_DENIED},   /* Wherry: a row of somebody else in a shared table. */
};

wherry_code wh_odbc_mssql_code(long native)
{
	for (size_t i = 0; i < sizeof(natives) / sizeof(*natives); i++)
		if (natives[i].native == native)
			return natives[i].code;
	return WHERRY_OK;
}

/* Babelfish uses this number for all errors of PostgreSQL that have none in SQL
 * Server. */
enum { BABELFISH_OTHER = 33557097 };

static wherry_code code_for_text(const char *text)
{
	static const struct {
		const char *part;
		wherry_code code;
	} texts[] = {
		{"due to lock timeout", WHERRY_BUSY},
		{"deadlock detected", WHERRY_CONFLICT},
		{"could not serialize", WHERRY_CONFLICT},
		{"due to user request", WHERRY_INTERRUPTED},
		{"due to statement timeout", WHERRY_TIMEOUT},
		{"permission denied", WHERRY_DENIED},
		{"read-only transaction", WHERRY_READONLY},
		{"does not exist", WHERRY_NOTFOUND},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (strstr(text, texts[i].part))
			return texts[i].code;
	return WHERRY_OK;
}

/* Find the longest entry with which the state begins. */
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

wherry_code wh_odbc_code_of(int native, const char *state)
{
	const char *text;

	(void)native;
	return code_for(state, &text);
}

wherry_code wh_odbc_mssql_code_of(int native, const char *state)
{
	wherry_code code = wh_odbc_mssql_code(native);

	return code == WHERRY_OK ? wh_odbc_code_of(native, state) : code;
}

/* The text after prefixes such as "[unixODBC][Driver Manager]". */
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

/* A diagnostic record. */
typedef struct record {
	char state[6];
	long native;
	char text[1024];
} record;

static bool read_narrow(SQLSMALLINT kind, SQLHANDLE handle, SQLSMALLINT n, record *out)
{
	SQLCHAR state[6] = "", text[sizeof(out->text)] = "";
	SQLINTEGER native = 0;
	SQLSMALLINT len = 0;

	if (!SQL_SUCCEEDED(SQLGetDiagRec(kind, handle, n, state, &native, text,
					 sizeof(text), &len)))
		return false;
	(void)snprintf(out->state, sizeof(out->state), "%s", (const char *)state);
	(void)snprintf(out->text, sizeof(out->text), "%s", (const char *)text);
	out->native = native;
	return true;
}

static bool read_wide(SQLSMALLINT kind, SQLHANDLE handle, SQLSMALLINT n, record *out)
{
	SQLWCHAR state[6] = {0}, text[512] = {0};
	SQLINTEGER native = 0;
	SQLSMALLINT len = 0;
	wh_buf narrow = WH_BUF_INIT(4096);

	if (!SQL_SUCCEEDED(SQLGetDiagRecW(kind, handle, n, state, &native, text,
					  sizeof(text) / sizeof(*text), &len)))
		return false;
	for (size_t i = 0; i < 5; i++)
		out->state[i] = (char)state[i];
	out->state[5] = 0;
	if (len < 0)
		len = 0;
	if ((size_t)len >= sizeof(text) / sizeof(*text))
		len = sizeof(text) / sizeof(*text) - 1;
	(void)wh_odbc_narrow(text, (size_t)len, &narrow);
	(void)snprintf(out->text, sizeof(out->text), "%s", wh_buf_str(&narrow));
	wh_buf_clear(&narrow);
	out->native = native;
	return true;
}

/* The code of a record, and its text. */
static wherry_code judge(const odbc_db *s, const record *r, const char **out_text)
{
	wherry_code code = WHERRY_OK;

	*out_text = behind_brackets(r->text);
	if (strncmp(*out_text, "ERROR: ", 7) == 0)
		*out_text += 7 + strspn(*out_text + 7, " ");
	if (s->tsql)
		code = r->native == BABELFISH_OTHER ? code_for_text(r->text)
						    : wh_odbc_mssql_code(r->native);
	return code == WHERRY_OK ? code_for(r->state, out_text) : code;
}

/* Find the first record; if it says only that something failed, the first record after it
 * that says more. */
static bool choose_record(const odbc_db *s, SQLSMALLINT kind, SQLHANDLE handle,
			  record *out)
{
	bool (*read)(SQLSMALLINT, SQLHANDLE, SQLSMALLINT, record *) =
		s->tsql ? read_wide : read_narrow;
	const char *text;
	record other;

	if (!read(kind, handle, 1, out))
		return false;
	for (SQLSMALLINT n = 2; s->tsql && judge(s, out, &text) == WHERRY_INVALID &&
				read(kind, handle, n, &other);
	     n++)
		if (judge(s, &other, &text) != WHERRY_INVALID)
			*out = other;
	return true;
}

/* A server that ends a session may leave a record that does not say so. */
static bool is_dead(const odbc_db *s)
{
	SQLUINTEGER dead = SQL_CD_FALSE;

	return SQL_SUCCEEDED(SQLGetConnectAttr(s->dbc, SQL_ATTR_CONNECTION_DEAD, &dead,
					       sizeof(dead), NULL)) &&
	       dead == SQL_CD_TRUE;
}

wherry_code wh_odbc_fail(odbc_db *s, SQLSMALLINT kind, SQLHANDLE handle,
			 wherry_error *err)
{
	record r;
	const char *text;
	wherry_code code;

	if (!choose_record(s, kind, handle, &r))
		return wh_fail(err, s->interrupted ? WHERRY_INTERRUPTED : WHERRY_IO,
			       /* SQLCancel() deletes the records. */
			       "%s: no diagnostic", s->name);
	code = judge(s, &r, &text);
	if ((code == WHERRY_TIMEOUT || code == WHERRY_BUSY) && s->interrupted)
		code = WHERRY_INTERRUPTED;
	if (code == WHERRY_INVALID && kind != SQL_HANDLE_ENV && is_dead(s)) {
		code = WHERRY_CLOSED;
		text = "the server ended the connection";
	}
	s->lost |= code == WHERRY_CLOSED;
	code = wh_fail_native(err, code, (int)r.native, "%s: %.*s", s->name,
			      (int)strcspn(text, "\r\n;"), text);
	if (err)
		(void)snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", r.state);
	return code;
}

/* Numbers from 50000 on are from THROW and RAISERROR; 3609 is a trigger that rolled
 * back. */
static bool is_raised(int native)
{
	enum { RAISED_FIRST = 50000, TRIGGER_ROLLED_BACK = 3609 };

	return native == TRIGGER_ROLLED_BACK ||
	       (native >= RAISED_FIRST && native != BABELFISH_OTHER &&
		wh_odbc_mssql_code(native) == WHERRY_OK);
}

/* The number of SQL Server, or PostgreSQL's state.  Of the texts of Babelfish one alone means BUSY. */
bool wh_odbc_locked_out(const wherry_error *err)
{
	enum { LOCK_TIMEOUT = 1222 };

	return err->native == LOCK_TIMEOUT || strcmp(err->sqlstate, "55P03") == 0 ||
	       (err->native == BABELFISH_OTHER && err->code == WHERRY_BUSY);
}

/* A value that an expression does not take: of a conversion, a function, XML or JSON.  Drivers have no state for some. */
static bool is_of_value(int native)
{
	static const int numbers[] = {
		220,  232,  235,  241,   242,   244,   245,   248,   293,
		295,  296,  517,  535,   536,   537,   542,   3623,  8114,
		8115, 8134, 8169, 13608, 13609, 13623, 13624, 13625,
	};
	enum { XML_FIRST = 9400, XML_LAST = 9499 };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (native == numbers[i])
			return true;
	return native >= XML_FIRST && native <= XML_LAST;
}

/* As Babelfish says it. */
static bool tells_of_value(const char *message)
{
	return strstr(message, "invalid input syntax") || strstr(message, "out of range");
}

/* Classes 22 (data), 23 (constraints) and 54 (limits of the server), and errors that a
 * trigger of the application raised. */
bool wh_odbc_about_row(const wherry_error *err)
{
	static const char *const classes[] = {"22", "23", "54"};

	if (is_raised(err->native) || is_of_value(err->native))
		return true;
	if (err->native == BABELFISH_OTHER && tells_of_value(err->message))
		return true;
	for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++)
		if (strncmp(err->sqlstate, classes[i], 2) == 0)
			return true;
	return false;
}
