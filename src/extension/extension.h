/*
 * The SQLite extension: Wherry's operations as SQL functions, in the caller's connection and transaction.
 *
 * SQLite loads it into a program that has its own copy of SQLite, so every call goes through the
 * table of functions that this program passes.  api.h does that; each file that calls SQLite is
 * compiled with it.
 *
 * One ext belongs to one connection.  It keeps the outboxes and queues that were named, with their
 * prepared statements.  A connection with prepared statements cannot be closed, but SQLite
 * disconnects virtual tables first: the ext closes everything when wherry_receive is disconnected.
 */
#ifndef WH_EXTENSION_H
#define WH_EXTENSION_H

#include <stdbool.h>
#include <stdint.h>

#include <wherry/delayed.h>
#include <wherry/inbox.h>
#include <wherry/outbox.h>
#include <wherry/queue.h>
#include <wherry/sqlite.h>
#include <wherry/subscription.h>
#include <wherry/version.h>

#include "base/arena.h"
#include "base/buf.h"
#include "extension/api.h"

/* Kinds of what a connection has opened. */
typedef enum ext_kind {
	EXT_OUTBOX,
	EXT_SUBSCRIPTION, /* first: the outbox, second: the subscription. */
	EXT_QUEUE,
	EXT_TOPICS,
	EXT_DELAYED, /* first: the table, second: the queue, third: its type. */
	EXT_INBOX,
	EXT_KINDS
} ext_kind;

typedef struct ext_opened ext_opened;

typedef struct ext_state {
	sqlite3 *handle;
	wherry_db *db;     /* NULL: nothing was opened yet, or it was closed. */
	ext_opened *first; /* The newest first. */
	int n_opened;
	int n_users;   /* Functions, modules and tables that refer to it. */
	bool anchored; /* wherry_receive is connected, and its end will close all. */
	bool began;    /* wh_ext_begin() has begun a transaction. */
} ext_state;

/* Arguments of a function; those behind argc are NULL. */
typedef struct ext_call {
	ext_state *ext;
	int argc;
	sqlite3_value **argv;
	sqlite3_context *context; /* Where the result goes. */
	int way; /* Of the row of the list of functions, for those that share code. */
	struct ext_whole *whole; /* Room for each argument. */
} ext_call;

/* The text of a floating-point number that is whole: 7.0 is 7, as other languages write it. */
enum { EXT_MOST_ARGUMENTS = 10 };
typedef struct ext_whole {
	char text[24];
} ext_whole;

/* Return the outbox or queue of that name, which is opened if need be; NULL: it failed. */
void *wh_ext_open(ext_state *ext, ext_kind kind, const char *first, const char *second,
		  const char *third, wherry_error *err);

/* Close all and forget it. */
void wh_ext_close(ext_state *ext);

/* Register functions and tables; a code of SQLite. */
int wh_ext_add_functions(ext_state *ext);
int wh_ext_add_tables(ext_state *ext);
void wh_ext_unuse(void *state); /* For SQLite: one function, module or table fewer. */

/* Return INVALID if no transaction is open that the caller's rows are part of. */
wherry_code wh_ext_check_open(const ext_state *ext, const char *function,
			      wherry_error *err);

/*
 * The lock for writing is taken before anything is read: SQLite waits for it only if the transaction has
 * not read yet.
 */
typedef struct ext_lock {
	bool read; /* The caller's transaction or statement had read, and not written. */
	bool open; /* The caller's transaction was open. */
} ext_lock;

/* Take the lock if a transaction is open that has not taken it.  A function without one begins its own. */
wherry_code wh_ext_lock(const ext_state *ext, ext_lock *out, wherry_error *err);
/* The same; if no transaction is open, begin one.  For functions of rows: SQLite keeps what they have
 * read open until the statement that called them ends. */
wherry_code wh_ext_begin(ext_state *ext, ext_lock *out, wherry_error *err);
/* End the transaction that wh_ext_begin() began, if it began one; `code` is what became of it. */
wherry_code wh_ext_end(ext_state *ext, wherry_code code, wherry_error *err);
/* After a failure: if the lock could not be waited for, say what to do. */
void wh_ext_explain(const ext_state *ext, const ext_lock *lock, wherry_error *err);

/* ---- arguments (ext_values.c) ---- */

/* The i-th argument as text; NULL: absent or NULL.  Valid until the function returns. */
const char *wh_ext_text(const ext_call *call, int i);
/* The same, which must be there: what it is, such as "the queue". */
wherry_code wh_ext_need(const ext_call *call, int i, const char *what, const char **out,
			wherry_error *err);
/* A whole number; `absent` if there is none. */
wherry_code wh_ext_integer(const ext_call *call, int i, const char *what, int64_t absent,
			   int64_t *out, wherry_error *err);
bool wh_ext_true(const ext_call *call, int i);
/* A duration: a number of seconds, or text such as "30 s", "5 minutes" or "1h30m". */
wherry_code wh_ext_duration(const ext_call *call, int i, const char *what, int64_t absent,
			    int64_t *out_us, wherry_error *err);
/* A time: seconds since 1970, or text such as "2026-11-25T10:00:00Z"; 0: there is none. */
wherry_code wh_ext_time(const ext_call *call, int i, const char *what, int64_t *out_us,
			wherry_error *err);
/* The body: text or a blob. */
wherry_code wh_ext_body(const ext_call *call, int i, const void **out, size_t *out_len,
			wherry_error *err);

/* A JSON array of numbers or texts, as the functions that take many have them. */
typedef struct ext_list {
	size_t n;
	int64_t *numbers;   /* Of a list of numbers. */
	const char **texts; /* Of a list of texts. */
	wh_arena arena;
} ext_list;

wherry_code wh_ext_numbers(const ext_call *call, int i, const char *what, ext_list *out,
			   wherry_error *err);
wherry_code wh_ext_texts(const ext_call *call, int i, const char *what, ext_list *out,
			 wherry_error *err);
void wh_ext_list_clear(ext_list *list);

/*
 * The arguments of a function that takes many messages: JSON arrays with an element for each message.
 * The first is needed.  An array that is NULL, and an element that is null, mean the default.
 */
enum { EXT_MOST_COLUMNS = 8 };

typedef struct ext_columns {
	size_t n; /* Number of messages. */
	struct json_t *arrays[EXT_MOST_COLUMNS];
} ext_columns;

/* Read n arguments, from the one at `first` on.  Clear it also after a failure. */
wherry_code wh_ext_columns(const ext_call *call, int first, int n, ext_columns *out,
			   wherry_error *err);
void wh_ext_columns_clear(ext_columns *columns);

/* An element of a column; text is borrowed until the columns are cleared.  With out_len the text
 * may contain NUL. */
wherry_code wh_ext_element_text(const ext_columns *c, int column, size_t i,
				const char *what, const char **out, size_t *out_len,
				wherry_error *err);
wherry_code wh_ext_element_duration(const ext_columns *c, int column, size_t i,
				    const char *what, int64_t *out_us, wherry_error *err);
wherry_code wh_ext_element_time(const ext_columns *c, int column, size_t i,
				const char *what, int64_t *out_us, wherry_error *err);

/* Functions of many messages (ext_many.c). */
wherry_code wh_ext_enqueue_many(const ext_call *call, wherry_error *err);
wherry_code wh_ext_send_many(const ext_call *call, wherry_error *err);
wherry_code wh_ext_offer_many(const ext_call *call, wherry_error *err);

/* Open the delayed queue that argument 0 names; its type is argument `type`, its table the next. */
wherry_code wh_ext_open_delayed(const ext_call *call, int type, wherry_delayed **out,
				wherry_error *err);
wherry_code wh_ext_open_topics(const ext_call *call, wherry_topics **out,
			       wherry_error *err);
wherry_code wh_ext_open_queue(const ext_call *call, wherry_queue **out,
			      wherry_error *err);
/* The name of an outcome of an offer. */
const char *wh_ext_offer_outcome(wherry_offer_outcome outcome);

/* Give a JSON array of n elements, each of which `put` writes. */
typedef void (*ext_put)(wh_buf *json, const void *items, size_t i);
wherry_code wh_ext_give_array(const ext_call *call, size_t n, ext_put put,
			      const void *items, wherry_error *err);

/* Make a function fail with Wherry's error. */
void wh_ext_fail(sqlite3_context *context, const wherry_error *err);
/* SQLite's number for the error. */
int wh_ext_code(const wherry_error *err);

#endif
