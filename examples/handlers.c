/* Functions that handle messages: an invoice is written, and its message enqueued, in the
 * transaction that acknowledges the order; so there is one for each order, whatever fails. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <wherry/sqlite.h>
#include <wherry/wherry.h>

#define URL "sqlite:shop.db"

static wherry_verdict invoice(void *ctx, wherry_call *call)
{
	const wherry_message *order = wherry_call_message(call);
	const wherry_message done =
		WHERRY_MESSAGE(.topic = "invoices", .key = order->key,
			       .body = order->body, .body_len = order->body_len);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_db *db = NULL;
	char sql[100];

	(void)ctx;
	(void)snprintf(sql, sizeof(sql), "INSERT INTO invoices VALUES (%d)",
		       (int)order->id);
	if (wherry_call_begin(call, &db, &err) == WHERRY_OK &&
	    sqlite3_exec(wherry_sqlite_handle(db), sql, NULL, NULL, NULL) == SQLITE_OK &&
	    wherry_call_enqueue(call, NULL, &done, NULL, &err) == WHERRY_OK)
		return WHERRY_DELIVERED; /* all of it is committed now */
	wherry_call_reason(call, err.message);
	return WHERRY_RETRY; /* none of it is */
}

static wherry_verdict mail(void *ctx, wherry_call *call)
{
	const wherry_message *invoice_of = wherry_call_message(call);

	(void)ctx;
	if (wherry_call_attempt(call) == 1 && *invoice_of->key == '2') {
		wherry_call_reason(call, "the mail server is away for a moment");
		return WHERRY_RETRY;
	}
	(void)printf("mailed: invoice of order %s\n", invoice_of->key);
	return WHERRY_DELIVERED;
}

/* Around every call: sees how it ended, the commit included. */
static wherry_verdict watch(void *ctx, wherry_call *call)
{
	wherry_verdict verdict = wherry_call_next(call);

	(void)ctx;
	if (verdict != WHERRY_DELIVERED)
		(void)printf("attempt %d of %s: %s\n", (int)wherry_call_attempt(call),
			     wherry_call_message(call)->topic, wherry_call_why(call));
	return verdict;
}

static void tell(void *ctx, const wherry_event *event)
{
	(void)ctx;
	(void)printf("dead: %s of order %s: %s\n", event->topic, event->key, event->text);
}

/* Deliver what is there, follow-up messages the next time. */
static wherry_code deliver(wherry_db *db, wherry_publisher *handlers, wherry_error *err)
{
	wherry_relay *relay = NULL;
	wherry_code code = wherry_relay_open_on(db, handlers, NULL, &relay, err);

	if (code == WHERRY_OK)
		code = wherry_relay_hook(relay, 1u << WHERRY_ON_DEAD, tell, NULL, err);
	if (code == WHERRY_OK)
		code = wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, NULL, err);
	wherry_relay_close(relay);
	return code;
}

static wherry_code put(wherry_db *db, const char *topic, const char *key,
		       wherry_error *err)
{
	const wherry_message msg =
		WHERRY_MESSAGE(.topic = topic, .key = key, .body = "{}", .body_len = 2);
	wherry_outbox *outbox = NULL;
	wherry_code code = wherry_outbox_open(db, "outbox", &outbox, err);

	if (code == WHERRY_OK)
		code = wherry_outbox_enqueue(outbox, &msg, WHERRY_OWN_TRANSACTION, NULL,
					     err);
	wherry_outbox_close(outbox);
	return code;
}

static wherry_code make_shop(wherry_config *config, wherry_db **db, wherry_error *err)
{
	wherry_code code = wherry_config_set(config, "db.create", "on", err);

	if (code == WHERRY_OK)
		code = wherry_db_open(URL, config, db, err);
	if (code == WHERRY_OK)
		code = wherry_outbox_create(*db, "outbox", NULL, err);
	if (code == WHERRY_OK)
		(void)sqlite3_exec(wherry_sqlite_handle(*db),
				   "CREATE TABLE IF NOT EXISTS invoices(order_id UNIQUE)",
				   NULL, NULL, NULL);
	return code;
}

int main(void)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *handlers = NULL;
	wherry_config *config = NULL;
	wherry_db *db = NULL;
	bool ok =
		wherry_config_new(&config, &err) == WHERRY_OK &&
		make_shop(config, &db, &err) == WHERRY_OK &&
		put(db, "orders", "1", &err) == WHERRY_OK &&
		put(db, "orders", "2", &err) == WHERRY_OK &&
		put(db, "odrers", "3", &err) == WHERRY_OK &&
		wherry_handlers_open(URL, config, &handlers, &err) == WHERRY_OK &&
		wherry_handlers_use(handlers, watch, NULL, &err) == WHERRY_OK &&
		wherry_handlers_on(handlers, "orders", invoice, NULL, &err) ==
			WHERRY_OK &&
		wherry_handlers_on(handlers, "invoices", mail, NULL, &err) == WHERRY_OK &&
		deliver(db, handlers, &err) == WHERRY_OK &&
		deliver(db, handlers, &err) == WHERRY_OK;

	if (err.code != WHERRY_OK)
		(void)fprintf(stderr, "%s\n", err.message);
	wherry_publisher_close(handlers);
	wherry_db_close(db);
	wherry_config_free(config);
	return ok ? 0 : 1;
}
