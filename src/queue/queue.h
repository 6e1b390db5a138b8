/*
 * The struct of a queue, and what the files of src/queue share.
 */
#ifndef WH_QUEUE_QUEUE_H
#define WH_QUEUE_QUEUE_H

#include <wherry/queue.h>

#include "base/arena.h"
#include "base/uuid.h"
#include "queue/groups.h"
#include "store/claims.h"
#include "store/fields.h"
#include "store/making.h"

struct wherry_queue {
	wh_store store; /* The part that every model has. */
	/* Statements that only queues have; NULL: the layout lacks it. */
	wh_queue_stmts own;

	/* Message id, topic and other fields are headers, not columns; see
	 * nservicebus.c. */
	bool fields_in_headers;

	char catalog[129]; /* Name of the database, if addresses contain it; else "". */

	char next_token[WH_UUID_LEN + 1]; /* Token of the next lease; "": not made yet. */

	/* A receive that does not look at all messages begins behind this id.  So it does
	 * not walk over deleted rows that an old snapshot keeps; see
	 * docs/internals/queues.md. */
	int64_t after;
	wh_scan_start scan_start; /* When to look at all messages again. */
	/* Has "take" [0], "receive" [1] looked at all messages once?  That look is not
	 * timed, because it also prepares the statement. */
	bool looked[2];
	bool failed_at_row; /* The last receive failed at a row that the server cannot send. */
	bool due_first; /* In the last look at all messages, those that are due were first. */
};

/* The model of queues: its layouts, the native one first, and its statements. */
extern const wh_model wh_queue_model;

/* Columns of "receive", "take", "peek" and "show". */
enum {
	WH_QUEUE_ID,
	WH_QUEUE_STATE,
	WH_QUEUE_ATTEMPTS,
	WH_QUEUE_CREATED_AT,
	WH_QUEUE_AVAILABLE_AT,
	WH_QUEUE_EXPIRES_AT,
	WH_QUEUE_EXPIRED,
	WH_QUEUE_MESSAGE_ID,
	WH_QUEUE_TOPIC,
	WH_QUEUE_CORRELATION_ID,
	WH_QUEUE_REPLY_TO,
	WH_QUEUE_HEADERS,
	WH_QUEUE_LAST_ERROR,
	WH_QUEUE_BODY,
	/* In "receive" and "take": number of rows that were leased or delayed before. */
	WH_QUEUE_N_DUE
};

/* Messages that were read, copied so that they outlive the statement. */
typedef struct wh_queue_batch {
	wh_arena arena;
	wherry_queue_message *messages;
	size_t n, cap;
} wh_queue_batch;

/* Add a copy of the message in a row; the token is borrowed. */
wherry_code wh_queue_batch_add(wh_queue_batch *batch, const wh_row *row,
			       const char *token, wherry_error *err);

/* Call visit for each message until it returns another code than WHERRY_OK.  Returns that
 * code. */
wherry_code wh_queue_batch_visit(const wh_queue_batch *batch, wherry_queue_fn visit,
				 void *ctx, wherry_error *err);
void wh_queue_batch_clear(wh_queue_batch *batch);

/*
 * Make the headers that NServiceBus stores: the message's headers and its fields.  Check
 * the message's headers before.
 *
 * @param message_id  Id of the message, or a new one.  A new one does not replace an id
 *                    in the headers.
 * @param out         Receives the text of a JSON object; free() it.
 * @return WHERRY_OK; WHERRY_NOMEM.
 */
wherry_code wh_queue_write_headers(const wherry_queue_message *msg,
				   const char *message_id, char **out, wherry_error *err);

/*
 * Set the fields of a message that was read from its NServiceBus headers.  Its message id
 * stays that of the row if the headers have none.  Empty headers become "{}".
 *
 * @param out_forward  Receives the address to forward the message to; NULL: the message
 *                     is for this queue.  The header with the address is removed.
 * @return WHERRY_OK; WHERRY_INVALID: the headers cannot be read; WHERRY_NOMEM.
 */
wherry_code wh_queue_read_headers(const wherry_queue *queue, wh_queue_batch *batch,
				  wherry_queue_message *msg, const char **out_forward,
				  wherry_error *err);

/*
 * Convert an address of NServiceBus on SQL Server to a name for wherry_queue_open().  The
 * address is TABLE, TABLE@[SCHEMA] or TABLE@[SCHEMA]@[CATALOG].
 *
 * @param catalog  Name of the connection's database.
 * @param out      The name is appended.
 * @return WHERRY_OK; WHERRY_UNSUPPORTED: the queue is in another database; WHERRY_NOMEM.
 */
wherry_code wh_queue_address(const char *address, const char *catalog, wh_buf *out,
			     wherry_error *err);

/* Open the queue at an address.  catalog "": the address is a name for
 * wherry_queue_open(). */
wherry_code wh_queue_open_at(wherry_db *db, const char *address, const char *catalog,
			     wherry_queue **out, wherry_error *err);

/* The body of a message to send.  msg->body_len may be WHERRY_TEXT. */
wh_view wh_queue_body(const wherry_queue_message *msg);

/* The parameter "body": a blob if the queue's bodies are bytea, else like
 * wh_body_param(). */
wh_param wh_queue_body_param(const wherry_queue *queue, wh_view body);

/* Copy a message that the caller gave.  Its struct may be that of an older version. */
wherry_code wh_queue_read_message(const void *given, wherry_queue_message *out,
				  wherry_error *err);

/* Check everything in a message to send that does not depend on the queue. */
wherry_code wh_queue_check_message(const wherry_queue_message *msg, wherry_error *err);

/* The parameter "error", cut to the length that queues store; error NULL: NULL. */
wh_param wh_queue_error_param(const char *error);

/* If code is NOTFOUND, set a message that says what is missing and how to create it.
 * Returns code. */
wherry_code wh_queue_failed(const wherry_queue *queue, wherry_code code,
			    wherry_error *err);

#endif
