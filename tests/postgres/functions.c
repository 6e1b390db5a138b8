#include "postgres/functions.h"

#include "db/postgres/postgres.h"
#include "delayed/delayed.h"
#include "postgres/backends.h"
#include "postgres/server.h"

/* The functions take the time of the fixture's clock, if a session has set one. */
static const char clocks[] =
	"CREATE FUNCTION clock_of_test() RETURNS timestamptz LANGUAGE sql AS $$SELECT CASE WHEN s.us = '' THEN "
	"clock_timestamp() ELSE timestamptz 'epoch' + s.us::bigint * interval '1 us' END FROM (VALUES "
	"(coalesce(current_setting('wherry.clock_of_test', true), ''))) AS s(us)$$; "
	"GRANT EXECUTE ON FUNCTION clock_of_test TO PUBLIC; "
	"DO $do$ DECLARE f oid; BEGIN FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = "
	"current_schema()::regnamespace AND starts_with(proname, 'wherry_') AND position('clock_timestamp()' IN prosrc) > 0 "
	"LOOP EXECUTE replace(pg_get_functiondef(f), 'clock_timestamp()', format('%I.clock_of_test()', "
	"current_schema())); END LOOP; END $do$";

static void lower(void *place, const struct wh_model *model, const char *table)
{
	postgres_lower(place, model, table);
	if (model == &wh_delayed_model)
		assert_true(
			postgres_raw(((postgres_place *)place)->url, clocks, NULL, 0));
}

static void *make(void)
{
	return outbox_postgres_own.make();
}

static void *again(const void *recipe)
{
	return outbox_postgres_own.again(recipe);
}

static void note(void *place, const void *recipe)
{
	outbox_postgres_own.note(place, recipe);
}

static void drop(void *place)
{
	outbox_postgres_own.drop(place);
}

static wherry_db *connect(void *place)
{
	return outbox_postgres_own.connect(place);
}

static bool disconnect(wherry_db *db)
{
	return outbox_postgres_own.disconnect(db);
}

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	return outbox_postgres_own.raw(place, db, sql, out, cap);
}

const outbox_backend outbox_postgres_functions = {
	.name = "functions",
	.several = true,
	.lacks = NEEDS_EVENT_BUS | NEEDS_NUL | NEEDS_CASELESS | NEEDS_IDENTS |
		 NEEDS_OWNER | NEEDS_MODELS,
	.make = make,
	.again = again,
	.note = note,
	.drop = drop,
	.lower = lower,
	.connect = connect,
	.disconnect = disconnect,
	.raw = raw,
	.queue = &queue_functions,
	.delayed = &delayed_functions,
	.inbox = &inbox_functions,
	.outbox = &outbox_functions,
};

static void run(PGconn *conn, const char *sql)
{
	PGresult *res = PQexec(conn, sql);

	if (PQresultStatus(res) != PGRES_COMMAND_OK)
		print_error("%s: %s", sql, PQerrorMessage(conn));
	assert_int_equal(PQresultStatus(res), PGRES_COMMAND_OK);
	PQclear(res);
}

bool functions_begin(wherry_db *db)
{
	PGconn *conn = backend_conn(db);
	bool open = PQtransactionStatus(conn) == PQTRANS_INTRANS;

	run(conn, open ? "SAVEPOINT of_many" : "BEGIN");
	return open;
}

wherry_code functions_end(wherry_db *db, bool was_open, wherry_code code)
{
	PGconn *conn = backend_conn(db);

	if (!was_open)
		run(conn, code == WHERRY_OK ? "COMMIT" : "ROLLBACK");
	else if (code != WHERRY_OK)
		run(conn, "ROLLBACK TO of_many");
	return code;
}

/* As the library answers: what is too long has another code than what is wrong. */
static wherry_code code_of(const char *state, const char *text)
{
	bool limit = strstr(text, " bytes, the limit is ") ||
		     strstr(text, " characters, the limit is ");

	return strcmp(state, "22023") == 0 && limit ? WHERRY_TOOBIG
						    : wh_postgres_code_of(0, state);
}

static wherry_code failed(const PGresult *res, wherry_error *err)
{
	const char *state = PQresultErrorField(res, PG_DIAG_SQLSTATE);
	const char *text = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);

	return wh_fail(err, code_of(state ? state : "", text ? text : ""), "%s",
		       text ? text : "no answer");
}

PGresult *functions_call(wherry_db *db, const char *role, const char *sql,
			 const char *const *values, int n, wherry_code *out_code,
			 wherry_error *err)
{
	PGconn *conn = backend_conn(db);
	bool open = PQtransactionStatus(conn) == PQTRANS_INTRANS;
	char set[60];
	PGresult *res;

	if (open)
		run(conn, "SAVEPOINT of_call");
	(void)snprintf(set, sizeof(set), "SET ROLE app_%s", role);
	run(conn, set);
	res = PQexecParams(conn, sql, n, NULL, values, NULL, NULL, 0);
	*out_code = PQresultStatus(res) == PGRES_TUPLES_OK ? WHERRY_OK : failed(res, err);
	if (open)
		run(conn,
		    *out_code == WHERRY_OK ? "RELEASE of_call" : "ROLLBACK TO of_call");
	run(conn, "RESET ROLE");
	if (*out_code == WHERRY_OK)
		return res;
	PQclear(res);
	return NULL;
}

const char *functions_number(int64_t n, char out[FUNCTIONS_TEXT])
{
	(void)snprintf(out, FUNCTIONS_TEXT, "%lld", (long long)n);
	return out;
}

const char *functions_span(int64_t us, char out[FUNCTIONS_TEXT])
{
	const int64_t day_us = INT64_C(86400000000);

	(void)snprintf(out, FUNCTIONS_TEXT, "%lld days %.6f s", (long long)(us / day_us),
		       (double)(us % day_us) / 1000000);
	return out;
}

char *functions_hex(const void *bytes, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	char *out = calloc(2 * len + 1, 1);

	assert_non_null(out);
	for (size_t i = 0; i < len; i++) {
		out[2 * i] = digits[((const unsigned char *)bytes)[i] >> 4];
		out[2 * i + 1] = digits[((const unsigned char *)bytes)[i] & 15];
	}
	return out;
}

char *functions_array(functions_element *of, const void *msgs, size_t n, int column)
{
	char *out = NULL, element[FUNCTIONS_ELEMENT];
	size_t len = 0;
	FILE *to = open_memstream(&out, &len);

	assert_non_null(to);
	for (size_t i = 0; i < n; i++) {
		const char *text = of(msgs, i, column, element);

		(void)fputs(i ? "," : "{", to);
		(void)fputs(text ? "\"" : "NULL", to);
		for (; text && *text; text++)
			(void)fprintf(to, strchr("\"\\", *text) ? "\\%c" : "%c", *text);
		(void)fputs(text ? "\"" : "", to);
	}
	(void)fputs(n ? "}" : "{}", to);
	(void)fclose(to);
	return out;
}

const char *functions_bytes(const void *bytes, size_t len, char text[FUNCTIONS_ELEMENT])
{
	size_t n = len == WHERRY_TEXT ? strlen(bytes) : len;
	char *hex = functions_hex(bytes, n);

	assert_true(2 * n + 3 <= FUNCTIONS_ELEMENT);
	(void)snprintf(text, FUNCTIONS_ELEMENT, "\\x%s", hex);
	free(hex);
	return text;
}

void functions_numbers(const char *array, int64_t *out, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		assert_non_null(strchr("{,", *array++));
		out[i] = strtoll(array, NULL, 10);
		array += strcspn(array, ",}");
	}
	assert_string_equal(array + (n == 0), "}");
}

wherry_code functions_of_many(wherry_code code, wherry_error *err)
{
	char text[sizeof(err->message)];
	long number;
	char *rest;

	if (code == WHERRY_OK || strncmp(err->message, "message ", 8) != 0)
		return code;
	number = strtol(err->message + 8, &rest, 10);
	(void)snprintf(text, sizeof(text), "message %ld%s", number - 1, rest);
	return wh_fail(err, code, "%s", text);
}

const char *functions_text(const PGresult *res, int row, int column)
{
	return PQgetisnull(res, row, column) ? NULL : PQgetvalue(res, row, column);
}

int64_t functions_int(const PGresult *res, int row, int column)
{
	return strtoll(PQgetvalue(res, row, column), NULL, 10);
}
