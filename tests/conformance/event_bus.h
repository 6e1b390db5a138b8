/*
 * The tables of outbox-event-bus as its documentation has them, and how tests that know
 * the native table look at them.
 */
#ifndef WHERRY_EVENT_BUS_H
#define WHERRY_EVENT_BUS_H

#include "outbox_suite.h"

#include <sqlite3.h>

/* What the library creates, for a table named "outbox". */
extern const char event_bus_tables[];

/* Views of them, with the columns of the native table; and SQL about "outbox" becomes SQL
 * about these. */
extern const char event_bus_views[];
void event_bus_translate(const char *sql, char *out, size_t cap);

/* Run SQL that is about the native table: on a view of these that has its columns.  The id
 * is the number that the message's own id is. */
bool event_bus_run(sqlite3 *handle, const char *sql, char *out, size_t cap);

extern const outbox_backend event_bus_file;

/* SQL as the library would run it, on its own tables; they fail the test when it fails. */
void bus_raw(outbox_fixture *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int64_t bus_int(outbox_fixture *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
const char *bus_text(outbox_fixture *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Publish as the library does. */
void bus_publish(outbox_fixture *f, const char *id, const char *payload);

/* How many rows the library would claim now: its condition, word for word. */
int64_t bus_claimable(outbox_fixture *f, int max_retries);

#endif
