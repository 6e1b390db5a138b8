/*
 * Values of the log: see postgres_value.c.
 */
#ifndef WH_DB_POSTGRES_VALUE_H
#define WH_DB_POSTGRES_VALUE_H

#include "db/postgres/postgres.h"

typedef struct wh_postgres_value {
	wh_view data; /* absent: NULL */
	uint32_t type;
	bool binary;
} wh_postgres_value;

/* A number; times as Unix milliseconds. */
int64_t wh_postgres_value_int(const wh_postgres_value *v);

/* Text or bytes, borrowed from the value or copied; *failed is set when out of memory. */
wh_view wh_postgres_value_bytes(const wh_postgres_value *v, wh_arena *copies,
				bool *failed);

#endif
