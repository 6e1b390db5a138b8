/*
 * Messages of pgoutput, PostgreSQL's plugin for logical replication, at version 1 of its
 * protocol.
 *
 * Decoding allocates nothing.  A message is checked to its last byte before any part of
 * it is returned, so iterating over its parts cannot fail.  Views point into the decoded
 * bytes.
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
	WH_PGO_LOGICAL = 'M' /* From pg_logical_emit_message(). */
} wh_pgo_kind;

typedef enum wh_pgo_form {
	WH_PGO_NULL = 'n',
	/* A large value that an update did not change, so it is not sent. */
	WH_PGO_UNCHANGED = 'u',
	WH_PGO_TEXT = 't',
	WH_PGO_BINARY = 'b'
} wh_pgo_form;

typedef struct wh_pgo_value {
	wh_pgo_form form;
	wh_view data; /* Set only in text or binary form. */
} wh_pgo_value;

typedef struct wh_pgo_column {
	bool key; /* Part of the replica identity. */
	wh_view name;
	uint32_t type;  /* Oid of its type. */
	int32_t typmod; /* -1: none. */
} wh_pgo_column;

/* The remaining entries of a list of columns, values or oids.  Copy it to iterate
 * again. */
typedef struct wh_pgo_list {
	wh_view rest;
	unsigned n;
} wh_pgo_list;

/* A decoded message.  The comment of each field lists the kinds that set it, by their
 * type bytes. */
typedef struct wh_pgo_message {
	wh_pgo_kind kind;
	/* C: always 0; T: 1 cascade, 2 restart identity; M: 1 transactional. */
	uint8_t flags;
	/* B, C: position of the commit; O: of the origin; M: of the message. */
	uint64_t lsn;
	uint64_t end_lsn; /* C: end of the transaction. */
	int64_t at_us;    /* B, C: time of the commit; Unix time. */
	uint32_t xid;     /* B: number of the transaction. */
	uint32_t oid;     /* R, I, U, D: oid of the table; Y: of the type. */
	wh_view schema;   /* R, Y: schema; empty: pg_catalog. */
	wh_view name;     /* R, Y, O: name; M: prefix. */
	wh_view content;  /* M: content. */
	char identity; /* R: replica identity: d default, n nothing, f full, i index. */
	/* U, D: what `old` has: K only the key, O all columns; 0: nothing. */
	char old_kind;
	wh_pgo_list columns; /* R: columns. */
	wh_pgo_list old;     /* U, D: values of the old row. */
	wh_pgo_list row;     /* I, U: values of the new row. */
	wh_pgo_list tables;  /* T: oids of the tables. */
} wh_pgo_message;

/* Decode one message.  CORRUPT: its length is wrong or a field is invalid; UNSUPPORTED:
 * its kind is unknown. */
wherry_code wh_pgo_decode(const void *bytes, size_t len, wh_pgo_message *out,
			  wherry_error *err);

/* Take the next entry of a list; false: there are no more. */
bool wh_pgo_next_column(wh_pgo_list *columns, wh_pgo_column *out);
bool wh_pgo_next_value(wh_pgo_list *values, wh_pgo_value *out);
bool wh_pgo_next_oid(wh_pgo_list *oids, uint32_t *out);

/* Find the index of each of n names among the columns; -1: not found. */
void wh_pgo_find(wh_pgo_list columns, const char *const *names, size_t n, int *out_at);

/* Copy the values at these indexes from wh_pgo_find(); null for -1 and for an index that
 * the row does not have. */
void wh_pgo_pick(wh_pgo_list row, const int *at, size_t n, wh_pgo_value *out);

#endif
