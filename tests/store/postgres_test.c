#include "suite.h"

#include "postgres/server.h"

static postgres_place place;

static wherry_db *make(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	postgres_make(&place);
	WHERRY_PASS(wherry_db_open(place.url, NULL, &db, &err));
	return db;
}

static void drop(wherry_db *db)
{
	wherry_db_close(db);
	postgres_drop(&place);
}

int main(void)
{
	static const store_backend backend = {make, drop};

	if (!postgres_start())
		return 0;
	return store_suite_run("store, PostgreSQL", &backend);
}
