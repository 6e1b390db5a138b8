/*
 * The outbox as a log on PostgreSQL.
 */
#include "relay_log.h"

#include "postgres/backends.h"
#include "postgres/server.h"

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	char native[8192];

	if (strstr(sql, "CREATE "))
		return outbox_postgres_own.raw(place, db, sql, out, cap);
	relay_log_translate(sql, native, sizeof(native));
	return outbox_postgres_own.raw(place, db, native, out, cap);
}

/* The view is part of what other tests find again. */
static void note(void *place, const void *recipe)
{
	assert_true(postgres_raw(((const postgres_place *)place)->url,
				 relay_log_postgres_views, NULL, 0));
	outbox_postgres_own.note(place, recipe);
}

int main(void)
{
	outbox_backend log = outbox_postgres_own;
	const outbox_backend *const backends[] = {&log};

	if (!postgres_start())
		return 0;
	log.name = "log";
	log.layout = "log";
	log.lacks |= NEEDS_MARKS;
	log.raw = raw;
	log.note = note;
	return outbox_suite_run(backends, 1, NULL, 0);
}
