/*
 * Back ends of PostgreSQL, for the suites of outboxes: SQL about the state of a message works on a view.
 */
#ifndef OUTBOX_LOG_POSTGRES_H
#define OUTBOX_LOG_POSTGRES_H

#include "relay_log.h"

#include "postgres/backends.h"
#include "postgres/server.h"

static bool outbox_postgres_translated(void *place, wherry_db *db, const char *sql,
				       char *out, size_t cap)
{
	char text[8192];

	if (strstr(sql, "CREATE "))
		return outbox_postgres_own.raw(place, db, sql, out, cap);
	relay_log_translate(sql, text, sizeof(text));
	return outbox_postgres_own.raw(place, db, text, out, cap);
}

/* The view is part of what other tests find again. */
static void outbox_postgres_note(void *place, const void *recipe)
{
	assert_true(postgres_raw(((const postgres_place *)place)->url,
				 relay_log_postgres_views, NULL, 0));
	outbox_postgres_own.note(place, recipe);
}

static inline outbox_backend outbox_postgres_of(const outbox_backend *base)
{
	outbox_backend backend = *base;

	backend.raw = outbox_postgres_translated;
	backend.note = outbox_postgres_note;
	return backend;
}

#endif
