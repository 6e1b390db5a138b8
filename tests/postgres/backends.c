#include "postgres/backends.h"

#include <wherry/postgres.h>

#include "db/postgres/postgres.h"
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
	postgres_place *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	if (postgres_again(recipe, place))
		return place;
	free(place);
	return NULL;
}

static void note(void *place, const void *recipe)
{
	postgres_note(recipe, place);
}

static void drop(void *place)
{
	postgres_leave_place(place);
	free(place);
}

static void lower(void *place, const struct wh_model *model, const char *table)
{
	postgres_lower(place, model, table);
}

static const char *url_of(const postgres_place *place)
{
	return place->lowered ? place->app_url : place->url;
}

static wherry_db *connect(void *place)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_db *db = NULL;
	wherry_code code = wherry_config_new(&config, &err);

	if (code == WHERRY_OK)
		code = wherry_config_set(config, "db.busy_timeout", "30s", &err);
	if (code == WHERRY_OK)
		code = wherry_db_open(url_of(place), config, &db, &err);
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
	return postgres_raw(((postgres_place *)place)->url, sql, out, cap);
}

PGconn *backend_conn(wherry_db *db)
{
	return ((postgres_db *)db)->conn;
}

static bool forbid_writing(wherry_db *db)
{
	assert_true(postgres_exec(backend_conn(db),
				  "SET default_transaction_read_only = on", NULL, 0));
	return PQserverVersion(wherry_postgres_handle(db)) >= 140000;
}

/* What the server answers then; a disk cannot be filled for one database alone. */
static void fill_disk(wherry_db *db, bool full)
{
	static const char sql[] =
		"CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
		"$$BEGIN RAISE 'could not extend file' USING ERRCODE = '53100'; END$$; "
		"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON outbox "
		"EXECUTE FUNCTION refuse()";

	assert_true(postgres_exec(backend_conn(db),
				  full ? sql : "DROP TRIGGER refuse ON outbox", NULL, 0));
}

const outbox_backend outbox_postgres_own = {
	.name = "own",
	.several = true,
	.lacks = NEEDS_EVENT_BUS | NEEDS_NUL | NEEDS_CASELESS | NEEDS_IDENTS,
	.make = make,
	.again = again,
	.note = note,
	.drop = drop,
	.lower = lower,
	.connect = connect,
	.disconnect = disconnect,
	.raw = raw,
	.forbid_writing = forbid_writing,
	.fill_disk = fill_disk,
};

/* The application's connection, with settings of its own. */
static wherry_db *connect_borrowed(void *place)
{
	PGconn *conn = PQconnectdb(url_of(place));
	wherry_db *db = NULL;

	if (!postgres_exec(conn, "SET client_min_messages = warning", NULL, 0) ||
	    wherry_postgres_borrow(conn, &db, NULL) != WHERRY_OK)
		PQfinish(conn);
	return db;
}

static bool disconnect_borrowed(wherry_db *db)
{
	PGconn *conn = backend_conn(db);
	char left[24] = "";
	bool idle;

	wherry_db_close(db);
	idle = PQtransactionStatus(conn) == PQTRANS_IDLE;
	idle = idle &&
	       postgres_exec(conn, "SELECT count(*) FROM pg_prepared_statements", left,
			     sizeof(left)) &&
	       strcmp(left, "0") == 0;
	PQfinish(conn);
	return idle;
}

const outbox_backend outbox_postgres_borrowed = {
	.name = "borrowed",
	.several = true,
	.lacks = NEEDS_EVENT_BUS | NEEDS_NUL | NEEDS_CASELESS | NEEDS_IDENTS,
	.make = make,
	.again = again,
	.note = note,
	.drop = drop,
	.lower = lower,
	.connect = connect_borrowed,
	.disconnect = disconnect_borrowed,
	.raw = raw,
	.forbid_writing = forbid_writing,
	.fill_disk = fill_disk,
};
