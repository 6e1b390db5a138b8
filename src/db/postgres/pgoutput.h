/*
 * The messages of pgoutput, PostgreSQL's own plugin for logical replication, at version 1 of
 * its protocol.
 *
 * Nothing is allocated, and nothing is believed: a message is walked to its last byte before
 * any of it is given out, so that what iterates over its parts cannot fail.  Views point into
 * the bytes that were decoded.
 */
#ifndef WH_DB_PGOUTPUT_H
#define WH_DB_PGOUTPUT_H

#include "base/buf.h"

typedef enum wh_pgo_kind {
	WH_PGO_BEGIN = 'B',
	WH_PGO_COMMIT = 'C',
	WH_PGO_ORIGIN = 'O',
	WH_PGO_RELATION = 'R',
	WH_PGO_TYPE = 'Y',
	WH_PGO_INSERT = 'I',
	WH_PGO_UPDATE = 'U',
	WH_PGO_DELETE = 'D',
	WH_PGO_TRUNCATE = 'T',
	WH_PGO_LOGICAL = 'M' /* of pg_logical_emit_message() */
} wh_pgo_kind;

typedef enum wh_pgo_form {
	WH_PGO_NULL = 'n',
	WH_PGO_UNCHANGED =
		'u', /* a large value that an update left alone: it is not sent */
	WH_PGO_TEXT = 't',
	WH_PGO_BINARY = 'b'
} wh_pgo_form;

typedef struct wh_pgo_value {
	wh_pgo_form form;
	wh_view data; /* absent, unless in text or binary form */
} wh_pgo_value;

typedef struct wh_pgo_column {
	bool key; /* part of the replica identity */
	wh_view name;
	uint32_t type;  /* an oid */
	int32_t typmod; /* -1: none */
} wh_pgo_column;

/* The rest of a list of columns, values or oids; copy it to iterate again. */
typedef struct wh_pgo_list {
	wh_view rest;
	unsigned n;
} wh_pgo_list;

/* The comment of a field lists the kinds that set it, by their type bytes. */
typedef struct wh_pgo_message {
	wh_pgo_kind kind;
	uint8_t flags; /* C, 0 so far; T: 1 cascade, 2 restart identity; M: 1 transactional */
	uint64_t lsn;     /* B, C: of the commit; O: at its origin; M: its own */
	uint64_t end_lsn; /* C: behind the transaction */
	int64_t at_us;    /* B, C: of the commit; Unix time */
	uint32_t xid;     /* B */
	uint32_t oid;     /* R, I, U, D: of the table; Y: of the type */
	wh_view schema;   /* R, Y; empty: pg_catalog */
	wh_view name;     /* R, Y, O; M: its prefix */
	wh_view content;  /* M */
	char identity;    /* R: replica identity; d default, n nothing, f full, i index */
	char old_kind; /* U, D: what old has; K the key alone, O all, 0: there is none */
	wh_pgo_list columns; /* R */
	wh_pgo_list old;     /* U, D: values */
	wh_pgo_list row;     /* I, U: values */
	wh_pgo_list tables;  /* T: oids */
} wh_pgo_message;

/* Take apart one message.  CORRUPT: it ends early or late, or has what cannot be there;
 * UNSUPPORTED: its kind is unknown. */
wherry_code wh_pgo_decode(const void *bytes, size_t len, wh_pgo_message *out,
			  wherry_error *err);

/* The next one of a list; false: there are no more. */
bool wh_pgo_next_column(wh_pgo_list *columns, wh_pgo_column *out);
bool wh_pgo_next_value(wh_pgo_list *values, wh_pgo_value *out);
bool wh_pgo_next_oid(wh_pgo_list *oids, uint32_t *out);

/* Where each of n names is among columns; -1: nowhere. */
void wh_pgo_find(wh_pgo_list columns, const char *const *names, size_t n, int *out_at);

/* The values at these places, which are as wh_pgo_find() gave them; null for -1, and for a
 * place that the row does not have. */
void wh_pgo_pick(wh_pgo_list row, const int *at, size_t n, wh_pgo_value *out);

#endif
