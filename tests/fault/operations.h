/*
 * Every public operation that can fail, once, as a row of a table.
 *
 * tests/rules/fault.sh finds out when a public function is missing here.
 */
#ifndef WHERRY_FAULT_OPERATIONS_H
#define WHERRY_FAULT_OPERATIONS_H

#include <wherry/wherry.h>

#include "fault.h"

/* What an operation writes to; filled with a pattern before. */
typedef struct outcome {
	int64_t number[16];
	wherry_lease lease;
	wherry_outbox_status status;
	void *made; /* what it gave */
} outcome;

typedef struct world {
	wherry_temp *temp;
	char url[160];
	wherry_config *config;
	wherry_db *db; /* through faults */
	wherry_outbox *outbox;
	wherry_queue *queue;
	wherry_inbox *inbox;
	wherry_delayed *delayed;
	wherry_cron *cron;
	wherry_lease lease;
	sqlite3 *handle; /* the application's, for operations on a borrowed one */
	wherry_publisher *pub;
	outcome out;
	char rows[1024]; /* what visitors of rows saw */
	size_t rows_len;
} world;

enum {
	OPERATION_PARTLY = 1,  /* several transactions: may be done in part */
	OPERATION_JOINS = 2,   /* runs inside the application's transaction */
	OPERATION_BORROWS = 4, /* on the application's own handle */
	OPERATION_CLAIMS = 8,  /* on the table "bus", whose relays compete */
	OPERATION_ONCE = 16 /* a transaction that is undone is for the caller to repeat */
};

typedef struct operation {
	const char *name; /* of the function, without wherry_; then what is special */
	wherry_code (*run)(world *w, wherry_error *err);
	void (*ready)(world *w); /* before each run; may be NULL */
	void (*drop)(world *w);  /* what it made, after it succeeded; may be NULL */
	const char *url;         /* for it to open */
	unsigned flags;
} operation;

extern const operation operations[], queue_operations[], inbox_operations[],
	schedule_operations[], delayed_operations[], subscription_operations[];
extern const size_t n_operations, n_queue_operations, n_inbox_operations,
	n_schedule_operations, n_delayed_operations, n_subscription_operations;

#endif
