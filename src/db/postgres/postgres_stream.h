/*
 * A PostgreSQL log that is being read, inside: postgres_stream_open.c connects, and makes the
 * slot; postgres_stream.c reads.
 */
#ifndef WH_DB_POSTGRES_STREAM_H
#define WH_DB_POSTGRES_STREAM_H

#include "db/postgres/postgres_value.h"

enum {
	WH_PG_COLUMNS_MOST = 16,
	WH_PG_NAME = 64,
	WH_PG_RELATIONS_MOST = 64,
};

/* A table of the publication: where the wanted columns are in its rows. */
typedef struct postgres_relation {
	uint32_t oid;
	int at[WH_PG_COLUMNS_MOST]; /* -1: nowhere */
	uint32_t types[WH_PG_COLUMNS_MOST];
} postgres_relation;

typedef struct postgres_stream {
	wh_stream base;   /* first */
	postgres_db link; /* the replication connection: conn, and what errors need */
	postgres_db
		reads; /* what was visible when the slot was made; conn NULL: nothing */
	char slot[WH_PG_NAME], publication[WH_PG_NAME];
	char schema[WH_PG_NAME], table[WH_PG_NAME];
	char names[WH_PG_COLUMNS_MOST][WH_PG_NAME];
	int n_columns;
	bool creating; /* the slot */
	bool keeps;    /* its snapshot */
	char snapshot[WH_PG_NAME];
	bool declared; /* the cursor that reads it */
	bool streaming;

	postgres_relation relations[WH_PG_RELATIONS_MOST];
	size_t n_relations, next_relation;
	char *message;         /* libpq's; what the last event points into */
	bool waiting;          /* there may be more of them in memory */
	bool asked;            /* the server wants an answer */
	bool flushing;         /* what was sent is not all in the socket yet */
	int64_t told, told_us; /* the position that was sent, and when */
	int64_t seen;          /* of the server's log */
	int64_t every_us;      /* how often the position is sent, */
	int64_t confirm_us;    /* and how often at most while it moves */
	int64_t due_us;

	wh_postgres_value values[WH_PG_COLUMNS_MOST];
	void *convert;   /* an iconv_t, to UTF-8; NULL: texts are not converted */
	wh_arena copies; /* made of them */
	bool failed;     /* out of memory for one */
} postgres_stream;

extern const wh_stream_driver wh_postgres_stream_driver;

/* The row whose values were set. */
wh_row wh_postgres_stream_row(postgres_stream *s);

/* Have texts sent as the database has them, if that is not UTF-8. */
wherry_code wh_postgres_text_open(postgres_stream *s, postgres_db *link,
				  wherry_error *err);
void wh_postgres_text_close(postgres_stream *s);

/* In UTF-8; as it is, if it cannot be converted. */
wh_view wh_postgres_text_utf8(postgres_stream *s, wh_view text);

/* Of the driver. */
void wh_postgres_stream_close(wh_stream *base);
wherry_code wh_postgres_stream_ready(wh_stream *base, bool *out_ready, wherry_error *err);
bool wh_postgres_stream_has_rows(const wh_stream *base);
wherry_code wh_postgres_stream_rows(wh_stream *base, const char *select, int64_t limit,
				    wh_row_fn visit, void *ctx, bool *out_more,
				    wherry_error *err);

#endif
