/*
 * Outboxes that take any body, for tests whose bodies are not JSON: bytea on PostgreSQL.
 */
#ifndef WHERRY_TEST_ANY_BODY_H
#define WHERRY_TEST_ANY_BODY_H

#include <string.h>

#include "db/driver.h"
#include "outbox/outbox.h"

/* Make an outbox as wherry_outbox_create() does, with extras (WH_STRICT, ...; 0: none). */
static inline wherry_code make_any_body(wherry_db *db, unsigned extras, const char *name,
					wherry_error *err)
{
	bool chooses = strcmp(db->driver->scheme, "postgres") == 0;
	wh_make how = {.extras = extras, .payload = chooses ? "bytea" : NULL};

	return wh_outbox_make(db, &how, name, err);
}

#endif
