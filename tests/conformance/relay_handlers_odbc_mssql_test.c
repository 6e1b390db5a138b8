/*
 * Handlers on the SQL Server that WHERRY_TEST_MSSQL names.
 */
#include "relay_handlers.h"

#include "mssql/backend.h"
#include "tsql.h"
#include "tsql_log.h"

static void make(char *url, size_t cap)
{
	tsql_log_clear();
	tsql_enter(url, cap);
}

static bool sql(wherry_db *db, const char *text, char *out, size_t cap)
{
	wherry_error err = WHERRY_ERROR_INIT;
	char words[4096];

	if (strcmp(text, "SELECT high FROM outbox_progress") == 0)
		tsql_log_translate(text, words, sizeof(words));
	else
		tsql_translate(text, words, sizeof(words));
	*out = 0;
	if (mssql_run(db, words, out, cap, &err) == WHERRY_OK)
		return true;
	(void)snprintf(out, cap, "%s", err.message);
	return false;
}

int main(void)
{
	/* A COMMIT in a text of SQL is not seen by ODBC drivers. */
	static const char *const except[] = {
		"a_handler_that_ends_the_transaction_itself_fails", NULL};
	static const handlers_base base = {"mssql", make,          tsql_log_clear,
					   sql,     tsql_log_view, except};
	int failed;

	if (!tsql_start())
		return 0;
	failed = handlers_suite(&base, NULL);
	tsql_end();
	return failed;
}
