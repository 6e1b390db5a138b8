#ifndef RELAY_ADOPTED_H
#define RELAY_ADOPTED_H

#include "relay_suite.h"

/* For relay_target: a table "events" of another program, which is read as the outbox.  Relays delete its rows, as
 * those of a log, or set published_at. */
void relay_adopt_deleted(wherry_db *db);
void relay_adopt_marked(wherry_db *db);

/* For relay_target.put: write rows to "events" as its program does. */
void relay_adopted_put(relay_fixture *f, const char *keys);

/* For relay_target.check: published_at is set in no row that was not delivered. */
void relay_adopted_check(relay_fixture *f);

/* For relay_target.translate: what a test writes to the outbox it writes to "events". */
void relay_adopted_translate(const char *sql, char *out, size_t cap);

/* For relay_target.views; as relay_log_sqlite_views. */
extern const char relay_adopted_sqlite_views[], relay_adopted_postgres_views[];

/* For relay_target.except; `more` ends with NULL. */
const char *const *relay_adopted_except(bool rows_stay, const char *const *more);

/* Tests of a table whose rows get published_at, and of tables that are adopted. */
extern const relay_test relay_adopted_tests[], relay_adopting_tests[];

#endif
