/*
 * A relay whose handlers write: a row for each order, and a follow-up message whose handler
 * writes another.  Runs until it is killed.
 *
 *     crash_handlers_main DATABASE
 */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <wherry/sqlite.h>
#include <wherry/wherry.h>

static bool insert(wherry_call *call, const char *sql)
{
	const wherry_message *msg = wherry_call_message(call);
	wherry_error err = WHERRY_ERROR_INIT;
	sqlite3_stmt *stmt = NULL;
	wherry_db *db = NULL;
	bool ok = wherry_call_begin(call, &db, &err) == WHERRY_OK &&
		  sqlite3_prepare_v2(wherry_sqlite_handle(db), sql, -1, &stmt, NULL) ==
			  SQLITE_OK &&
		  sqlite3_bind_text(stmt, 1, msg->body, (int)msg->body_len,
				    SQLITE_STATIC) == SQLITE_OK &&
		  sqlite3_step(stmt) == SQLITE_DONE;

	(void)sqlite3_finalize(stmt);
	if (!ok)
		wherry_call_reason(call, err.code ? err.message : "not inserted");
	return ok;
}

/* An attempt in nine fails when all is written. */
static wherry_verdict bill(void *ctx, wherry_call *call)
{
	const wherry_message *msg = wherry_call_message(call);
	const wherry_message next =
		WHERRY_MESSAGE(.topic = "bills", .key = msg->key, .body = msg->body,
			       .body_len = msg->body_len);
	wherry_error err = WHERRY_ERROR_INIT;

	(void)ctx;
	if (!insert(call, "INSERT INTO bills(number) VALUES (?1)"))
		return WHERRY_RETRY;
	if (wherry_call_enqueue(call, NULL, &next, NULL, &err) != WHERRY_OK) {
		wherry_call_reason(call, err.message);
		return WHERRY_RETRY;
	}
	return msg->id % 9 == 0 && wherry_call_attempt(call) == 1 ? WHERRY_RETRY
								  : WHERRY_DELIVERED;
}

static wherry_verdict mail(void *ctx, wherry_call *call)
{
	(void)ctx;
	return insert(call, "INSERT INTO mails(number) VALUES (?1)") ? WHERRY_DELIVERED
								     : WHERRY_RETRY;
}

static wherry_code set(wherry_config *config, wherry_error *err)
{
	const char *const settings[][2] = {
		{"relay.lease", "500ms"},
		{"retry.base", "1ms"},
		{"retry.attempts", "1000"},
		{"db.busy_timeout", "30s"},
	};
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; code == WHERRY_OK && i < 4; i++)
		code = wherry_config_set(config, settings[i][0], settings[i][1], err);
	return code;
}

int main(int argc, char **argv)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *handlers = NULL;
	wherry_config *config = NULL;
	wherry_relay *relay = NULL;
	wherry_db *db = NULL;
	char url[512];

	if (argc != 2)
		return 2;
	(void)snprintf(url, sizeof(url), "sqlite:%s", argv[1]);
	if (wherry_config_new(&config, &err) != WHERRY_OK ||
	    set(config, &err) != WHERRY_OK ||
	    wherry_db_open(url, config, &db, &err) != WHERRY_OK ||
	    wherry_handlers_open(url, config, &handlers, &err) != WHERRY_OK ||
	    wherry_handlers_on(handlers, "orders", bill, NULL, &err) != WHERRY_OK ||
	    wherry_handlers_on(handlers, "bills", mail, NULL, &err) != WHERRY_OK ||
	    wherry_relay_open_on(db, handlers, config, &relay, &err) != WHERRY_OK ||
	    wherry_relay_run(relay, 0, NULL, &err) != WHERRY_OK)
		(void)fprintf(stderr, "%s\n", err.message);
	wherry_relay_close(relay);
	wherry_publisher_close(handlers);
	wherry_db_close(db);
	wherry_config_free(config);
	return 1;
}
