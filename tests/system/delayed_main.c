/* Create the table "delayed" in the database of a URL. */
#include <stdio.h>

#include <wherry/wherry.h>

int main(int argc, char **argv)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	wherry_code code = wherry_db_open(argc > 1 ? argv[1] : "", NULL, &db, &err);

	if (code == WHERRY_OK)
		code = wherry_delayed_create(db, NULL, NULL, &err);
	if (code != WHERRY_OK)
		(void)fprintf(stderr, "%s\n", err.message);
	wherry_db_close(db);
	return code != WHERRY_OK;
}
