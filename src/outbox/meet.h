/*
 * Which combinations of engine, layout and option are accepted on one relayed table.
 * docs/internals/engines.md shows them as a table.
 */
#ifndef WH_OUTBOX_MEET_H
#define WH_OUTBOX_MEET_H

#include <stdbool.h>

#include <wherry/error.h>

#include "store/engines.h"

/* A layout on a database. */
typedef enum wh_home {
	WH_EVENT_BUS,
	WH_EVENTFERRY,
	WH_DEBEZIUM,
	WH_QUEUE_SQLITE,
	WH_QUEUE_POSTGRES,
	WH_QUEUE_NSERVICEBUS,
	WH_DELAYED_SQLITE,
	WH_DELAYED_POSTGRES,
	WH_EVENTFERRY_MSSQL,
	WH_QUEUE_MSSQL,
	WH_QUEUE_NSERVICEBUS_MSSQL,
	WH_DELAYED_MSSQL,
	WH_LOG_SQLITE,
	WH_LOG_POSTGRES,
	WH_LOG_MSSQL,
	WH_ADOPTED_SQLITE,
	WH_ADOPTED_POSTGRES,
	WH_HOMES
} wh_home;

/* Features that a relay or `wherry create` can be asked for. */
typedef enum wh_ask {
	WH_ASK_ENGINE, /* Work on the tables at all. */
	WH_ASK_KEY,    /* relay.ordering=key, if it was set explicitly. */
	WH_ASK_PARK,
	WH_ASK_HANDLERS,
	WH_ASK_CREATE_PARTITIONS,
	WH_ASK_CREATE_UNIQUE,
	WH_ASK_CREATE_STREAM,
	WH_ASKS
} wh_ask;

/* Names for documents and messages: "competing", "log, SQLite", "relay.on_dead=park". */
const char *wh_home_name(wh_home which);
const char *wh_ask_name(wh_ask which);

/* Find the home of a model, layout and database scheme; WH_HOMES if the combination does
 * not exist. */
wh_home wh_home_of(const char *model, const char *layout, const char *scheme);

/* Can this engine work on these tables at all? */
bool wh_meet_works(wh_home at, wh_engine by);

/* Refuse an option that this engine does not support on these tables.  The error says
 * what to do instead.  For an option of create pass WH_ENGINES as `by`. */
wherry_code wh_meet_check(wh_home at, wh_engine by, wh_ask ask, wherry_error *err);

#endif
