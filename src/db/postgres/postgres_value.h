/*
 * Values of a stream: see postgres_value.c.
 */
#ifndef WH_DB_POSTGRES_VALUE_H
#define WH_DB_POSTGRES_VALUE_H

#include "db/postgres/postgres.h"

typedef struct wh_postgres_value {
	wh_view data; /* Absent if NULL. */
	uint32_t type;
	bool binary;
} wh_postgres_value;

/* The value as a number.  A time is converted to Unix milliseconds. */
int64_t wh_postgres_value_int(const wh_postgres_value *v);

/* The value as text or bytes, borrowed from it or copied.  *failed is set if memory runs
 * out. */
wh_view wh_postgres_value_bytes(const wh_postgres_value *v, wh_arena *copies,
				bool *failed);

#endif
