/*
 * A consumer that handles each message once: it accepts the message's id in the transaction of
 * its own writes.
 *
 *     wherry create --kind inbox sqlite:shop.db
 *     inbox shop.db MESSAGE_ID
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <wherry/sqlite.h>
#include <wherry/wherry.h>

static bool sql(sqlite3 *shop, const char *text)
{
	if (sqlite3_exec(shop, text, NULL, NULL, NULL) == SQLITE_OK)
		return true;
	(void)fprintf(stderr, "%s: %s\n", text, sqlite3_errmsg(shop));
	return false;
}

/* The shipment and the message id are both there, or neither. */
static bool handle(sqlite3 *shop, wherry_inbox *inbox, const char *message_id,
		   bool *is_new, wherry_error *err)
{
	if (sql(shop, "BEGIN IMMEDIATE") &&
	    wherry_inbox_accept(inbox, NULL, message_id, is_new, err) == WHERRY_OK &&
	    (!*is_new || sql(shop, "INSERT INTO shipments(order_id) VALUES (9)")) &&
	    sql(shop, "COMMIT"))
		return true;
	if (!sqlite3_get_autocommit(shop))
		(void)sql(shop, "ROLLBACK");
	return false;
}

int main(int argc, char **argv)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_inbox *inbox = NULL;
	wherry_db *db = NULL;
	sqlite3 *shop = NULL; /* the application's own connection */
	bool is_new = false, ok;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: inbox DATABASE MESSAGE_ID\n");
		return 2;
	}
	ok = sqlite3_open(argv[1], &shop) == SQLITE_OK &&
	     wherry_sqlite_borrow(shop, &db, &err) == WHERRY_OK &&
	     wherry_inbox_open(db, NULL, &inbox, &err) == WHERRY_OK &&
	     handle(shop, inbox, argv[2], &is_new, &err);
	if (ok)
		(void)printf("%s: %s\n", argv[2], is_new ? "handled" : "seen before");
	if (err.code != WHERRY_OK)
		(void)fprintf(stderr, "%s\n", err.message);
	wherry_inbox_close(inbox);
	wherry_db_close(db);
	(void)sqlite3_close(shop);
	return ok ? 0 : 1;
}
