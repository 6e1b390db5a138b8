/*
 * A queue inside: what its files share.
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
	wh_store store;     /* The part that every model has. */
	wh_queue_stmts own; /* Statements of queues alone; NULL: not in this layout. */

	/* The message id and the like are headers, not columns: nservicebus.c. */
	bool fields_in_headers;

	char catalog[129]; /* The database, where addresses name it; "": they do not. */

	char next_token[WH_UUID_LEN + 1]; /* Of the next lease; "": none is made yet. */

	/* Where the next receive begins, so that it does not walk over deleted rows that an old
	 * snapshot keeps: docs/internals/queues.md. */
	int64_t after;    /* Id of the last message received. */
	wh_anchor anchor; /* When to look at all messages again. */
	bool looked[2];   /* Did "take" and "receive" look at all?  The first time they
				 are prepared, so that their duration says nothing. */
};

/* The layouts, the native one first, and the statements. */
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
	WH_QUEUE_N_DUE /* of "receive" and "take" */
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

/* Visit them all; ends with the first code that is not WHERRY_OK. */
wherry_code wh_queue_batch_visit(const wh_queue_batch *batch, wherry_queue_fn visit,
				 void *ctx, wherry_error *err);
void wh_queue_batch_clear(wh_queue_batch *batch);

/*
 * Headers of NServiceBus, with the fields of a message among them.
 *
 * @param message_id  That of the message, or one that was made.
 * @param out         Receives the text of a JSON object; given, free() it.
 * @return WHERRY_OK; WHERRY_NOMEM.  The headers of the message were checked before.
 */
wherry_code wh_queue_write_headers(const wherry_queue_message *msg,
				   const char *message_id, char **out, wherry_error *err);

/*
 * The opposite, of a message that was read: its headers may be empty, and its message id is that
 * of the row.  Afterwards its fields are those that the headers have.
 *
 * @param out_forward  Receives the address that the message has to be forwarded to, without the
 *                     header that names it; NULL: it is for this queue.
 * @return WHERRY_OK; WHERRY_INVALID: the headers cannot be read; WHERRY_NOMEM.
 */
wherry_code wh_queue_read_headers(const wherry_queue *queue, wh_queue_batch *batch,
				  wherry_queue_message *msg, const char **out_forward,
				  wherry_error *err);

/*
 * The name of a queue, as wherry_queue_open() takes it, of an address that NServiceBus writes on
 * SQL Server: TABLE, TABLE@[SCHEMA] or TABLE@[SCHEMA]@[CATALOG].
 *
 * @param catalog  The database of the connection.
 * @param out      The name is appended.
 * @return WHERRY_OK; WHERRY_UNSUPPORTED: the queue is in another database; WHERRY_NOMEM.
 */
wherry_code wh_queue_address(const char *address, const char *catalog, wh_buf *out,
			     wherry_error *err);

/* Open the queue that has an address, which is a name where addresses name no database. */
wherry_code wh_queue_open_at(wherry_db *db, const char *address, const char *catalog,
			     wherry_queue **out, wherry_error *err);

/* The body of a message to send, whose length may be WHERRY_TEXT. */
wh_view wh_queue_body(const wherry_queue_message *msg);

/* The parameter "body": bytes where the queue keeps bytes. */
wh_param wh_queue_body_param(const wherry_queue *queue, wh_view body);

/* Read a message of a program that may be older. */
wherry_code wh_queue_read_message(const void *given, wherry_queue_message *out,
				  wherry_error *err);

/* Is it a message that can be sent, whatever type of bodies a queue keeps? */
wherry_code wh_queue_check_message(const wherry_queue_message *msg, wherry_error *err);

/* The parameter "error", cut to what is kept; NULL: absent. */
wh_param wh_queue_error_param(const char *error);

/* "There is no queue …" for WHERRY_NOTFOUND. */
wherry_code wh_queue_failed(const wherry_queue *queue, wherry_code code,
			    wherry_error *err);

#endif
