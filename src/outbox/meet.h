/*
 * Which options are accepted on a relayed table of each layout.  docs/internals/engines.md shows
 * them as tables.
 */
#ifndef WH_OUTBOX_MEET_H
#define WH_OUTBOX_MEET_H

#include <wherry/error.h>

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
	WH_ADOPTED_MSSQL,
	WH_HOMES
} wh_home;

/* Features that a relay or `wherry create` can be asked for. */
typedef enum wh_ask {
	WH_ASK_RELAY, /* Work on the tables at all. */
	WH_ASK_KEY,   /* relay.ordering=key, if it was set explicitly. */
	WH_ASK_PARK,
	WH_ASK_HANDLERS,
	WH_ASK_CREATE_PARTITIONS,
	WH_ASK_CREATE_UNIQUE,
	WH_ASK_CREATE_STREAM,
	WH_ASK_CREATE_SEGMENTS,
	WH_ASKS
} wh_ask;

/* Names for documents and messages: "log, SQLite", "relay.on_dead=park". */
const char *wh_home_name(wh_home which);
const char *wh_ask_name(wh_ask which);

/* Find the home of a model, layout and database scheme; WH_HOMES if the combination does
 * not exist. */
wh_home wh_home_of(const char *model, const char *layout, const char *scheme);

/* Refuse an option that does not work on these tables.  The error says what to do instead. */
wherry_code wh_meet_check(wh_home at, wh_ask ask, wherry_error *err);

#endif
