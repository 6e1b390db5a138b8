#include "suite.h"

static wherry_db *make(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;

	WHERRY_PASS(wherry_db_open("sqlite::memory:", NULL, &db, &err));
	return db;
}

int main(void)
{
	static const store_backend backend = {make, wherry_db_close};

	return store_suite_run("store, SQLite", &backend);
}
