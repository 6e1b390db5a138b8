/*
 * Log records of a relay: the name of an event, and typed fields.
 */
#ifndef WHERRY_LOG_H
#define WHERRY_LOG_H

#include <stddef.h>
#include <stdint.h>

/* Severity of an event, the most severe level first. */
typedef enum wherry_log_level {
	WHERRY_LOG_ERROR, /* The relay cannot do its work. */
	WHERRY_LOG_WARN,  /* The relay works, and a person should look. */
	WHERRY_LOG_INFO,  /* The relay started, stopped or took a lease. */
	WHERRY_LOG_DEBUG  /* Details for finding a fault. */
} wherry_log_level;

/* Says which members of wherry_log_field hold the value. */
typedef enum wherry_log_type {
	WHERRY_LOG_TEXT,    /* `text` and `len`. */
	WHERRY_LOG_NUMBER,  /* `number`. */
	WHERRY_LOG_DURATION /* `number`, in microseconds. */
} wherry_log_type;

/* One field of a record. */
typedef struct wherry_log_field {
	const char *name;     /* Letters, digits and _; unique in its record. */
	wherry_log_type type; /* Which member holds the value. */
	/* Any bytes, since they can come from a message, a server or the output of a
	 * command; NULL unless the type is WHERRY_LOG_TEXT. */
	const char *text;
	size_t len;     /* Length of `text` in bytes. */
	int64_t number; /* The value, unless the type is WHERRY_LOG_TEXT. */
} wherry_log_field;

/* One event. */
typedef struct wherry_log_record {
	size_t size;            /* Set it to sizeof(wherry_log_record). */
	wherry_log_level level; /* How severe the event is. */
	/* Part of Wherry that reports it: relay, db, kafka, exec. */
	const char *part;
	const char *event;              /* Name of the event: letters, digits and '-'. */
	const wherry_log_field *fields; /* The fields, n_fields of them. */
	size_t n_fields;                /* Number of fields. */
	/* The record as a line, "event=NAME key=value …", without a line break.  A value that is
	 * not a plain word is written as a JSON string, so that it cannot start a line, a field or
	 * an escape sequence of a terminal.  Values over 1000 bytes are cut and end in "…".  If
	 * memory is short or the line too long, it is only "event=NAME". */
	const char *line;
} wherry_log_record;

/* Receives a record, which is borrowed for the call with all that it points to.  Wherry may call
 * it on its own threads, with one record at a time per relay and thread.  It must not call
 * functions of the relay except wherry_relay_stop(). */
typedef void (*wherry_log_fn)(void *ctx, const wherry_log_record *record);

#endif
