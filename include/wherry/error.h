/*
 * Errors: what happened, and what to do next.
 *
 * Every function that can fail returns a wherry_code and takes a wherry_error as its
 * last parameter, which may be NULL.  The code says what happened; its remedy says what the
 * caller can do.  On failure outputs are untouched, unless the comment of a parameter says
 * otherwise.  On success the error is set to WHERRY_OK with an empty message.
 */
#ifndef WHERRY_ERROR_H
#define WHERRY_ERROR_H

#include <wherry/export.h>

/* Says what the caller can do about a failure. */
typedef enum wherry_remedy {
	WHERRY_REMEDY_NONE, /* Nothing failed. */
	/* The call, its input or the set-up is wrong: retrying cannot help. */
	WHERRY_REMEDY_FIX,
	/* The cause is temporary: roll back, wait, and make the same call again. */
	WHERRY_REMEDY_RETRY,
	WHERRY_REMEDY_ROLLBACK, /* The transaction is lost, the handle is still good. */
	WHERRY_REMEDY_REOPEN    /* The handle is unusable: close it and open it again. */
} wherry_remedy;

/* clang-format off */
/*	  name          remedy    text */
#define WHERRY_CODES(X)                                                            \
	X(OK,           NONE,     "success")                                       \
	X(INVALID,      FIX,      "invalid argument")                              \
	X(NOTFOUND,     FIX,      "no such thing")                                 \
	X(DUPLICATE,    FIX,      "a message with this id exists already")         \
	X(TOOBIG,       FIX,      "over a size limit")                             \
	X(DENIED,       FIX,      "not permitted, or wrong credentials")           \
	X(READONLY,     FIX,      "the database cannot be written")                \
	X(UNSUPPORTED,  FIX,      "not supported here")                            \
	X(TOONEW,       FIX,      "the schema needs a newer program")              \
	X(CORRUPT,      FIX,      "the database is damaged or is not one")         \
	X(NOMEM,        RETRY,    "out of memory")                                 \
	X(BUSY,         RETRY,    "held by another transaction or process")        \
	X(FULL,         RETRY,    "the disk is full")                              \
	X(TIMEOUT,      RETRY,    "no answer in time")                             \
	X(INTERRUPTED,  RETRY,    "interrupted on request")                        \
	X(CONFLICT,     ROLLBACK, "lost a serialization or deadlock race")         \
	X(STALE,        ROLLBACK, "the lease or claim expired or was taken over")  \
	X(IO,           REOPEN,   "input or output failed")                        \
	X(CLOSED,       REOPEN,   "connection closed by the peer")                 \
	X(INDOUBT,      REOPEN,   "commit was sent, the answer was lost")

typedef enum wherry_code {
#define WHERRY_CODE_ENUM(name, remedy, text) WHERRY_##name,
	WHERRY_CODES(WHERRY_CODE_ENUM)
#undef WHERRY_CODE_ENUM
	WHERRY_CODE_COUNT
} wherry_code;

enum { WHERRY_CODE_ROOM = 64 }; /* Size of an array by code; the number of codes never exceeds it. */

/* Repair of a failure whose message does not say it.  The program `wherry` prints the
 * command for it. */
typedef enum wherry_repair {
	WHERRY_REPAIR_NONE,   /* The message says what to do. */
	WHERRY_REPAIR_CREATE, /* Create the tables: wherry_outbox_create(), wherry_queue_create(). */
	WHERRY_REPAIR_STREAM, /* Create them with the option stream. */
	WHERRY_REPAIR_GRANT,  /* The owner grants the role rights. */
	WHERRY_REPAIR_DOCTOR  /* The program's doctor finds the cause. */
} wherry_repair;

/* Kinds of tables; an error may name several. */
enum {
	WHERRY_KIND_OUTBOX = 1,
	WHERRY_KIND_QUEUE = 2,
	WHERRY_KIND_DELAYED = 4,
	WHERRY_KIND_INBOX = 8,
	WHERRY_KIND_CRON = 16
};

#define WHERRY_ERROR_INIT {WHERRY_OK, 0, "", "", WHERRY_REPAIR_NONE, 0, "", ""}
/* clang-format on */

typedef struct wherry_error {
	wherry_code code;     /* The code that the call returned. */
	int native;           /* The driver's own number: SQLITE_*, errno; 0: none. */
	char sqlstate[8];     /* Five characters from the database, or "". */
	char message[240];    /* One line without secrets; never empty on failure. */
	wherry_repair repair; /* Repair of the failure. */
	unsigned kinds;       /* Kinds of the table, bits WHERRY_KIND_*; 0: not known. */
	char layout[24]; /* Layout for WHERRY_REPAIR_CREATE; "": none needs a name. */
	char table[136]; /* Name of the table; "": not known. */
} wherry_error;          /* 424 bytes, which is part of the ABI. */

WHERRY_BEGIN

/** Return a code's name, such as "BUSY"; "UNKNOWN" for any other number.  The text is static. */
WHERRY_API const char *wherry_code_name(wherry_code code);

/** Return a code's text of one line, such as "the disk is full".  The text is static. */
WHERRY_API const char *wherry_code_text(wherry_code code);

/**
 * Fill in an error in a function that Wherry calls back.
 *
 * @param err      Error to fill in; may be NULL.
 * @param code     Kind of the failure; not WHERRY_OK.
 * @param message  Says what happened, to what, and what to do; copied, made one line, and cut to
 *                 the size of wherry_error.message.  NULL: the code's own text.
 * @return The parameter `code`, so that a function can fail with one statement.
 */
WHERRY_API wherry_code wherry_error_set(wherry_error *err, wherry_code code,
					const char *message);

/** Return what the caller can do about a code. */
WHERRY_API wherry_remedy wherry_code_remedy(wherry_code code);

WHERRY_END

#endif
