/*
 * The internals of a stream: postgres_stream_open.c connects and creates the slot,
 * postgres_stream.c reads.
 */
#ifndef WH_DB_POSTGRES_STREAM_H
#define WH_DB_POSTGRES_STREAM_H

#include "db/postgres/postgres_value.h"

enum {
	WH_PG_COLUMNS_MOST = 16,
	WH_PG_NAME = 64,
	WH_PG_RELATIONS_MOST = 64,
};

/* A table of the publication, and where its rows have the wanted columns. */
typedef struct postgres_relation {
	uint32_t oid;
	int at[WH_PG_COLUMNS_MOST]; /* Index of each wanted column; -1: none. */
	uint32_t types[WH_PG_COLUMNS_MOST];
} postgres_relation;

typedef struct postgres_stream {
	wh_stream base; /* Must be first. */
	/* The replication connection; only `conn` and what errors need are set. */
	postgres_db link;
	/* A connection that reads the rows visible when the slot was created; conn NULL:
	 * none. */
	postgres_db reads;
	char slot[WH_PG_NAME], publication[WH_PG_NAME];
	char schema[WH_PG_NAME], table[WH_PG_NAME];
	char names[WH_PG_COLUMNS_MOST][WH_PG_NAME];
	int n_columns;
	bool creating; /* The slot is being created. */
	bool keeps;    /* Keep its snapshot for rows(). */
	char snapshot[WH_PG_NAME];
	bool declared; /* The cursor that reads the snapshot exists. */
	bool streaming;

	postgres_relation relations[WH_PG_RELATIONS_MOST];
	size_t n_relations, next_relation;
	/* libpq's buffer of the last message, which the last event points into. */
	char *message;
	bool waiting;          /* More messages may be in memory. */
	bool asked;            /* The server requested an answer. */
	bool flushing;         /* Not all bytes sent are in the socket yet. */
	int64_t sent, sent_us; /* The last position sent, and when. */
	int64_t seen;          /* Highest position received from the server. */
	int64_t every_us;      /* Longest time between two messages with the position. */
	int64_t confirm_us;    /* Shortest time between them while the position moves. */
	int64_t due_us;

	wh_postgres_value values[WH_PG_COLUMNS_MOST];
	wh_postgres_text text;
	wh_arena copies; /* Copies of converted values, valid until the next row. */
	bool failed;     /* Memory for a copy ran out. */
} postgres_stream;

extern const wh_stream_driver wh_postgres_stream_driver;

/* The row whose values are in s->values. */
wh_row wh_postgres_stream_row(postgres_stream *s);

/* Let the server send texts in the encoding of the database, if that is not UTF-8. */
wherry_code wh_postgres_stream_raw(postgres_stream *s, postgres_db *link,
				   wherry_error *err);

/* postgres_stream_open.c: functions of the driver. */
void wh_postgres_stream_close(wh_stream *base);
wherry_code wh_postgres_stream_ready(wh_stream *base, bool *out_ready, wherry_error *err);
bool wh_postgres_stream_has_rows(const wh_stream *base);
wherry_code wh_postgres_stream_rows(wh_stream *base, const char *select, int64_t limit,
				    wh_row_fn visit, void *ctx, bool *out_more,
				    wherry_error *err);

#endif
