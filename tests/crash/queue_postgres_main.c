/*
 * A worker that moves money between accounts, one move for each message.  Runs until it is
 * killed.  A body is "FROM TO AMOUNT"; the message ids of moves begin with m.
 *
 *     crash_queue_postgres_main MODE QUEUE_URL BANK
 *
 * MODE says how it receives: atomic, once (at most once), lease, or inbox: under a lease, with an
 * inbox in the bank's database.  BANK is the file of a SQLite database, or a URL of PostgreSQL
 * or SQL Server.
 */
#include "app_postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 3, LEASE_US = 700000, WAIT_US = 200000 };

typedef struct worker {
	app bank;
	wherry_db *
		queue_db; /* of the queue, where that is another database; else the bank's */
	wherry_queue *queue;
	wherry_inbox *inbox; /* NULL: none is asked */
	wherry_receive_mode mode;
	char token[64];
} worker;

/* ---- the bank ---- */

/* In the transaction that is open. */
static bool move(worker *w, const wherry_queue_message *msg)
{
	char body[64], sql[512], *at = body;
	long from, to, amount;

	if (*msg->message_id != 'm') /* a row that is not a move of ours */
		return true;
	(void)snprintf(body, sizeof(body), "%.*s", (int)msg->body_len,
		       (const char *)msg->body + (*(const char *)msg->body == '"'));
	from = strtol(at, &at, 10);
	to = strtol(at, &at, 10);
	amount = strtol(at, &at, 10);
	(void)snprintf(sql, sizeof(sql),
		       "UPDATE accounts SET balance = balance - %ld WHERE id = %ld; "
		       "UPDATE accounts SET balance = balance + %ld WHERE id = %ld; "
		       "INSERT INTO applied(message_id) VALUES ('%.40s')",
		       amount, from, amount, to, msg->message_id);
	return app_run(&w->bank, sql);
}

/* ---- messages ---- */

static wherry_code handle_in_transaction(worker *w, const wherry_queue_message *msg)
{
	return move(w, msg) ? WHERRY_OK : WHERRY_CONFLICT;
}

static wherry_code handle(worker *w, const wherry_queue_message *msg, wherry_error *err)
{
	bool is_new = true;
	wherry_code code = wherry_db_begin(w->bank.db, err);

	if (code != WHERRY_OK)
		return code;
	if (w->inbox)
		code = wherry_inbox_accept(w->inbox, NULL, msg->message_id, &is_new, err);
	if (code == WHERRY_OK && is_new && !move(w, msg))
		code = WHERRY_CONFLICT;
	if (code == WHERRY_OK)
		return wherry_db_commit(w->bank.db, err);
	wherry_db_rollback(w->bank.db);
	return code;
}

static wherry_code see(void *ctx, const wherry_queue_message *msg)
{
	worker *w = ctx;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;

	if (w->mode == WHERRY_ATOMIC)
		return handle_in_transaction(w, msg);
	/* Moves of other workers are in the way now and then. */
	do
		code = handle(w, msg, &err);
	while (code == WHERRY_CONFLICT || code == WHERRY_BUSY);
	if (code == WHERRY_OK && w->mode == WHERRY_LEASE)
		code = wherry_queue_ack(w->queue, msg->token, &msg->id, 1, NULL, &err);
	if (code == WHERRY_STALE) /* another worker has it: its lease ended before */
		return app_run(&w->bank, "INSERT INTO late(n) VALUES (1)") ? WHERRY_OK
									   : WHERRY_BUSY;
	if (code != WHERRY_OK)
		(void)fprintf(stderr, "handling: %s\n", err.message);
	return code;
}

static wherry_code work(worker *w, int64_t *out_n, wherry_error *err)
{
	const wherry_receive_options how =
		WHERRY_RECEIVE_OPTIONS(.mode = w->mode, .limit = BATCH,
				       .lease_us = app_lease_us(&w->bank, LEASE_US));
	wherry_code code = WHERRY_OK;

	*out_n = 0;
	if (w->mode == WHERRY_ATOMIC)
		code = wherry_db_begin(w->bank.db, err);
	if (code == WHERRY_OK)
		code = wherry_queue_receive(w->queue, &how, see, w, out_n, err);
	if (w->mode != WHERRY_ATOMIC)
		return code;
	if (code == WHERRY_OK)
		return wherry_db_commit(w->bank.db, err);
	wherry_db_rollback(w->bank.db);
	return code;
}

static bool open_worker(worker *w, char **argv, wherry_error *err)
{
	const char *mode = argv[1];

	w->mode = strcmp(mode, "atomic") == 0 ? WHERRY_ATOMIC
		  : strcmp(mode, "once") == 0 ? WHERRY_AT_MOST_ONCE
					      : WHERRY_LEASE;
	if (!app_open(&w->bank, argv[3], err))
		return false;
	w->queue_db = w->bank.db;
	if (w->mode != WHERRY_ATOMIC &&
	    wherry_db_open(argv[2], NULL, &w->queue_db, err) != WHERRY_OK)
		return false;
	if (strcmp(mode, "inbox") == 0 &&
	    wherry_inbox_open(w->bank.db, NULL, &w->inbox, err) != WHERRY_OK)
		return false;
	return wherry_queue_open(w->queue_db, "jobs", &w->queue, err) == WHERRY_OK;
}

int main(int argc, char **argv)
{
	wherry_error err = WHERRY_ERROR_INIT;
	worker w = {.mode = WHERRY_LEASE};
	wherry_code code = WHERRY_OK;
	int64_t n;
	bool any;

	if (argc != 4)
		return 2;
	if (!open_worker(&w, argv, &err)) {
		(void)fprintf(stderr, "cannot begin: %s\n", err.message);
		return 1;
	}
	while (code == WHERRY_OK || code == WHERRY_CONFLICT || code == WHERRY_BUSY) {
		code = work(&w, &n, &err);
		if (code == WHERRY_OK && !n)
			code = wherry_queue_wait(w.queue, WAIT_US, &any, &err);
	}
	(void)fprintf(stderr, "worker ends: %s\n", err.message);
	return 1;
}
