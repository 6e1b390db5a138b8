#include "postgres/delayed.h"

#include <string.h>

#include "wherry_test.h"

#include "postgres/server.h"

void postgres_says(const char *sql, const char *wanted)
{
	char got[200] = "";

	assert_true(postgres_raw(postgres_here.url, sql, got, sizeof(got)));
	if (strcmp(got, wanted) != 0)
		print_error("%s\n", sql);
	assert_string_equal(got, wanted);
}

wherry_delayed *postgres_delayed_enter(wherry_db **out_db)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	char url[200];

	postgres_enter(url, sizeof(url));
	WHERRY_PASS(wherry_db_open(url, NULL, out_db, &err));
	WHERRY_PASS(wherry_delayed_create(*out_db, NULL, NULL, &err));
	WHERRY_PASS(wherry_delayed_open(*out_db, NULL, "mail", NULL, &queue, &err));
	return queue;
}

void postgres_delayed_leave(wherry_db *db, wherry_delayed *queue)
{
	wherry_delayed_close(queue);
	wherry_db_close(db);
	postgres_leave();
}
