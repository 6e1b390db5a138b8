/*
 * Outboxes that take any body, for tests whose bodies are not JSON: bytea on PostgreSQL.
 */
#ifndef WHERRY_TEST_ANY_BODY_H
#define WHERRY_TEST_ANY_BODY_H

#include <string.h>

#include "db/driver.h"
#include "outbox/outbox.h"

/* Make an outbox of this layout (NULL: that of a new one) as wherry_outbox_create() does, with extras
 * (WH_STRICT, ...; 0: none). */
static inline wherry_code make_any_body_as(wherry_db *db, const char *layout,
					   unsigned extras, const char *name,
					   wherry_error *err)
{
	bool chooses = strcmp(db->driver->scheme, "postgres") == 0;
	wh_make how = {.layout = layout,
		       .extras = extras,
		       .segments = extras & WH_SEGMENTS ? WH_SEGMENT_LEAST : 0,
		       .payload = chooses ? "bytea" : NULL};

	return wh_outbox_make(db, &how, name, err);
}

static inline wherry_code make_any_body(wherry_db *db, unsigned extras, const char *name,
					wherry_error *err)
{
	return make_any_body_as(db, NULL, extras, name, err);
}

#endif
