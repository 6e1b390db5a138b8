/* An order and its message in one transaction, and a relay that delivers what is there. */
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

/* Both are there, or neither. */
static bool pay(sqlite3 *shop, wherry_outbox *outbox, wherry_error *err)
{
	static const char body[] = "{\"order\":7,\"state\":\"paid\"}";
	const wherry_message paid =
		WHERRY_MESSAGE(.topic = "orders", .key = "7", .body = body,
			       .body_len = sizeof(body) - 1);

	if (sql(shop, "BEGIN IMMEDIATE") &&
	    sql(shop, "INSERT OR REPLACE INTO orders VALUES (7, 'paid')") &&
	    wherry_outbox_enqueue(outbox, &paid, 0, NULL, err) == WHERRY_OK &&
	    sql(shop, "COMMIT"))
		return true;
	if (!sqlite3_get_autocommit(shop))
		(void)sql(shop, "ROLLBACK");
	return false;
}

int main(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *outbox = NULL;
	wherry_relay *relay = NULL;
	wherry_db *db = NULL;
	sqlite3 *shop = NULL; /* the application's own connection */
	bool ok = sqlite3_open("shop.db", &shop) == SQLITE_OK &&
		  sql(shop, "CREATE TABLE IF NOT EXISTS orders(id PRIMARY KEY, state)") &&
		  wherry_sqlite_borrow(shop, &db, &err) == WHERRY_OK &&
		  wherry_outbox_create(db, "outbox", NULL, &err) == WHERRY_OK &&
		  wherry_outbox_open(db, "outbox", &outbox, &err) == WHERRY_OK &&
		  pay(shop, outbox, &err) &&
		  wherry_relay_open("sqlite:shop.db", "stdout:", NULL, &relay, &err) ==
			  WHERRY_OK &&
		  wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, NULL, &err) == WHERRY_OK;

	if (err.code != WHERRY_OK)
		(void)fprintf(stderr, "%s\n", err.message);
	wherry_relay_close(relay);
	wherry_outbox_close(outbox);
	wherry_db_close(db);
	(void)sqlite3_close(shop);
	return ok ? 0 : 1;
}
