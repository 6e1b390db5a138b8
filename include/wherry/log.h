/*
 * Log records: what a relay reports, as the name of an event and typed fields.
 */
#ifndef WHERRY_LOG_H
#define WHERRY_LOG_H

#include <stddef.h>
#include <stdint.h>

/* How severe an event is, the most severe level first. */
typedef enum wherry_log_level {
	WHERRY_LOG_ERROR, /* the relay cannot do its work */
	WHERRY_LOG_WARN,  /* it can, and somebody should look */
	WHERRY_LOG_INFO,  /* it started, stopped, took a lease */
	WHERRY_LOG_DEBUG  /* details for finding a fault */
} wherry_log_level;

/* Which member of wherry_log_field holds the value. */
typedef enum wherry_log_type {
	WHERRY_LOG_TEXT,    /* text and len */
	WHERRY_LOG_NUMBER,  /* number */
	WHERRY_LOG_DURATION /* number, microseconds */
} wherry_log_type;

/* One field of a record. */
typedef struct wherry_log_field {
	const char *name; /* letters, digits and _; unique in its record */
	wherry_log_type type;
	const char *text; /* may hold any bytes: it can come from a message, a server or
			     the output of a command; NULL unless type is TEXT */
	size_t len;       /* bytes of text */
	int64_t number;
} wherry_log_field;

/* One event. */
typedef struct wherry_log_record {
	size_t size; /* sizeof(wherry_log_record), so that it can grow */
	wherry_log_level level;
	const char *part; /* the part of Wherry that reports it: relay, db, kafka, exec */
	const char *event; /* its name: letters, digits and '-' */
	const wherry_log_field *fields;
	size_t n_fields;
	/* "event=NAME key=value …" without a line break.  A value that is not a plain word
	 * is written as a JSON string, so that it cannot start a line, a field or an escape
	 * sequence of a terminal; values over 1000 bytes are cut and end in "…".  Without
	 * memory, or over the longest line, it is "event=NAME" alone. */
	const char *line;
} wherry_log_record;

/* A function that receives records.  The record and all that it points to are borrowed for
 * the call.  It may be called on a thread of Wherry's own, one record at a time per relay
 * and thread; it must not call functions of the relay except wherry_relay_stop(). */
typedef void (*wherry_log_fn)(void *ctx, const wherry_log_record *record);

#endif
