/*
 * Which engines, layouts and options may meet on one table that is relayed.  docs/internals/engines.md shows
 * the table.
 */
#ifndef WH_OUTBOX_MEET_H
#define WH_OUTBOX_MEET_H

#include <stdbool.h>

#include <wherry/error.h>

#include "store/engines.h"

/* Tables of a layout on a database. */
typedef enum wh_home {
	WH_NATIVE_SQLITE,
	WH_NATIVE_POSTGRES,
	WH_EVENT_BUS,
	WH_EVENTFERRY,
	WH_EVENTFERRY_SOLE, /* relay.sole */
	WH_DEBEZIUM,
	WH_QUEUE_SQLITE,
	WH_QUEUE_POSTGRES,
	WH_QUEUE_NSERVICEBUS,
	WH_DELAYED_SQLITE,
	WH_DELAYED_POSTGRES,
	WH_NATIVE_MSSQL,
	WH_EVENTFERRY_MSSQL,
	WH_HOMES
} wh_home;

/* What a relay, or init, may be asked for. */
typedef enum wh_ask {
	WH_ASK_ENGINE, /* the engine itself */
	WH_ASK_KEY,    /* relay.ordering, if set */
	WH_ASK_STRICT,
	WH_ASK_PARK,
	WH_ASK_MARK, /* relay.on_done, if set */
	WH_ASK_DELETE,
	WH_ASK_ARCHIVE,
	WH_ASK_KEEP,
	WH_ASK_EXPIRY_ARCHIVE,
	WH_ASK_FAILED_ONLY,
	WH_ASK_SOLE,
	WH_ASK_HANDLERS,
	WH_ASK_INIT_STRICT,
	WH_ASK_INIT_PARTITIONS,
	WH_ASK_INIT_STREAM,
	WH_ASKS
} wh_ask;

/* Names for documents and messages: "competing", "native, SQLite", "relay.on_dead=park". */
const char *wh_home_name(wh_home which);
const char *wh_ask_name(wh_ask which);

/* The tables of a model that have this layout on this database; WH_HOMES: there are none. */
wh_home wh_home_of(const char *model, const char *layout, const char *scheme);

/* Does this engine work on these tables at all? */
bool wh_meet_works(wh_home at, wh_engine by);

/* Refuse what this engine cannot do on these tables, with the way out.  by: WH_ENGINES for what
 * init is asked for. */
wherry_code wh_meet_check(wh_home at, wh_engine by, wh_ask ask, wherry_error *err);

#endif
