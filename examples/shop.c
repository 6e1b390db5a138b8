/*
 * A shop on an SQLite connection of its own: each line of input is an event, which becomes
 * a row of business data and a message, in one transaction.  Every tenth changes its mind
 * and rolls back: neither may ever be seen.
 *
 *     wherry create sqlite:shop.db
 *     shop shop.db <examples/data/earthquakes.ndjson
 *
 * Prints {"committed":N,"rolled_back":N}.
 */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <wherry/sqlite.h>
#include <wherry/wherry.h>

typedef struct shop {
	sqlite3 *handle;
	wherry_db *db;
	wherry_outbox *outbox;
	sqlite3_stmt *order; /* event in, id and net out */
	wherry_error err;
} shop;

enum { LOCKED_MS = 10000, EVERY_TENTH = 10, LINE_MAX_BYTES = 64 * 1024 };

static bool sql(const shop *s, const char *text)
{
	return sqlite3_exec(s->handle, text, NULL, NULL, NULL) == SQLITE_OK;
}

static bool open_shop(shop *s, const char *path)
{
	return sqlite3_open(path, &s->handle) == SQLITE_OK &&
	       sqlite3_busy_timeout(s->handle, LOCKED_MS) == SQLITE_OK &&
	       sql(s, "PRAGMA synchronous = FULL") &&
	       sql(s, "CREATE TABLE IF NOT EXISTS quake_orders("
		      "n INTEGER PRIMARY KEY, id TEXT UNIQUE, net TEXT, magnitude REAL, "
		      "place TEXT)") &&
	       sqlite3_prepare_v2(
		       s->handle,
		       "INSERT INTO quake_orders(id, net, magnitude, place) "
		       "VALUES (json_extract(?1, '$.id'), json_extract(?1, '$.net'),"
		       " json_extract(?1, '$.mag'), json_extract(?1, '$.place')) "
		       "RETURNING id, net",
		       -1, &s->order, NULL) == SQLITE_OK &&
	       wherry_sqlite_borrow(s->handle, &s->db, &s->err) == WHERRY_OK &&
	       wherry_outbox_open(s->db, "outbox", &s->outbox, &s->err) == WHERRY_OK;
}

static void close_shop(shop *s)
{
	wherry_outbox_close(s->outbox);
	wherry_db_close(s->db);
	(void)sqlite3_finalize(s->order);
	(void)sqlite3_close(s->handle);
}

/* The row, and the message that tells of it. */
static bool write_both(shop *s, const char *event, size_t len)
{
	wherry_message msg =
		WHERRY_MESSAGE(.topic = "quakes", .body = event, .body_len = len);
	char id[64], net[16];
	bool ok;

	if (sqlite3_bind_text(s->order, 1, event, (int)len, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(s->order) != SQLITE_ROW)
		return false;
	(void)snprintf(id, sizeof(id), "%s",
		       (const char *)sqlite3_column_text(s->order, 0));
	(void)snprintf(net, sizeof(net), "%s",
		       (const char *)sqlite3_column_text(s->order, 1));
	msg.message_id = id;
	msg.key = net;
	ok = sqlite3_step(s->order) == SQLITE_DONE;
	return sqlite3_reset(s->order) == SQLITE_OK && ok &&
	       wherry_outbox_enqueue(s->outbox, &msg, 0, NULL, &s->err) == WHERRY_OK;
}

static bool sell(shop *s, const char *event, size_t len, bool change_of_mind)
{
	if (sql(s, "BEGIN IMMEDIATE") && write_both(s, event, len) &&
	    sql(s, change_of_mind ? "ROLLBACK" : "COMMIT"))
		return true;
	if (s->err.code == WHERRY_OK)
		(void)snprintf(s->err.message, sizeof(s->err.message), "%s",
			       sqlite3_errmsg(s->handle));
	(void)sqlite3_reset(s->order);
	if (!sqlite3_get_autocommit(s->handle))
		(void)sql(s, "ROLLBACK");
	return false;
}

int main(int argc, char **argv)
{
	long committed = 0, rolled_back = 0;
	shop s = {.err = WHERRY_ERROR_INIT};
	char line[LINE_MAX_BYTES];
	bool ok;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: shop DATABASE <EVENTS\n");
		return 2;
	}
	ok = open_shop(&s, argv[1]);
	if (!ok && s.err.code == WHERRY_OK)
		(void)snprintf(s.err.message, sizeof(s.err.message), "%s",
			       sqlite3_errmsg(s.handle));
	while (ok && fgets(line, sizeof(line), stdin)) {
		bool change_of_mind = (committed + rolled_back + 1) % EVERY_TENTH == 0;

		ok = sell(&s, line, strcspn(line, "\n"), change_of_mind);
		if (ok)
			*(change_of_mind ? &rolled_back : &committed) += 1;
	}
	if (!ok)
		(void)fprintf(stderr, "shop: %s\n", s.err.message);
	(void)printf("{\"committed\":%ld,\"rolled_back\":%ld}\n", committed, rolled_back);
	close_shop(&s);
	return ok ? 0 : 1;
}
