/*
 * The outbox as a log on PostgreSQL behind ODBC, through psqlODBC: what ODBC carries, it carries whole.
 */
#include "relay_log.h"

#include <pthread.h>

#include "db/driver.h"
#include "postgres/backends.h"
#include "postgres/odbc.h"
#include "postgres/server.h"

static void *make(void)
{
	postgres_place *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	postgres_make(place);
	return place;
}

static void *again(const void *recipe)
{
	return outbox_postgres_own.again(recipe);
}

/* The view is part of what other tests find again. */
static void note(void *place, const void *recipe)
{
	assert_true(postgres_raw(((const postgres_place *)place)->url,
				 relay_log_postgres_views, NULL, 0));
	postgres_note(recipe, place);
}

static void drop(void *place)
{
	postgres_leave_place(place);
	free(place);
}

static wherry_db *connect(void *place)
{
	/* psqlODBC calls setlocale() when it connects, which two threads must not do at once. */
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	char url[400];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;
	wherry_code code = wherry_config_new(&config, &err);

	postgres_odbc_url(place, url, sizeof(url));
	if (code == WHERRY_OK)
		code = wherry_config_set(config, "db.busy_timeout", "30s", &err);
	(void)pthread_mutex_lock(&one);
	if (code == WHERRY_OK)
		code = wherry_db_open(url, config, &db, &err);
	(void)pthread_mutex_unlock(&one);
	if (code != WHERRY_OK)
		print_error("%s\n", err.message);
	wherry_config_free(config);
	return db;
}

static bool disconnect(wherry_db *db)
{
	wherry_db_close(db);
	return true;
}

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	char native[8192];

	if (strstr(sql, "CREATE "))
		return postgres_raw(((postgres_place *)place)->url, sql, out, cap);
	relay_log_translate(sql, native, sizeof(native));
	return postgres_raw(((postgres_place *)place)->url, native, out, cap);
}

static bool forbid_writing(wherry_db *db)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_script(db, "SET default_transaction_read_only = on", &err));
	return true;
}

static void fill_disk(wherry_db *db, bool full)
{
	static const char sql[] =
		"CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
		"$$BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END$$; "
		"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON outbox "
		"EXECUTE FUNCTION refuse()";
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wh_db_script(db, full ? sql : "DROP TRIGGER refuse ON outbox", &err));
}

int main(void)
{
	static const outbox_backend backend = {
		.name = "odbc",
		.layout = "log",
		.several = true,
		.lacks = NEEDS_EVENT_BUS | NEEDS_NUL | NEEDS_CASELESS | NEEDS_IDENTS,
		.make = make,
		.again = again,
		.note = note,
		.drop = drop,
		.connect = connect,
		.disconnect = disconnect,
		.raw = raw,
		.forbid_writing = forbid_writing,
		.fill_disk = fill_disk,
	};
	static const outbox_backend *const backends[] = {&backend};

	if (!postgres_start())
		return 0;
	return outbox_suite_run(backends, 1, NULL, 0);
}
