#include "outbox/meet.h"

#include <string.h>

#include "base/error.h"

typedef struct home {
	const char *name, *model;
	const char *layout; /* NULL: any */
	const char *scheme;
} home;

static const home homes[WH_HOMES] = {
	[WH_EVENT_BUS] = {"event-bus", "outbox", "event-bus", "sqlite"},
	[WH_EVENTFERRY] = {"eventferry", "outbox", "eventferry", "postgres"},
	[WH_DEBEZIUM] = {"debezium", "outbox", "debezium", "postgres"},
	[WH_QUEUE_SQLITE] = {"queue, SQLite", "queue", "native", "sqlite"},
	[WH_QUEUE_POSTGRES] = {"queue, PostgreSQL", "queue", "native", "postgres"},
	[WH_QUEUE_NSERVICEBUS] = {"queue, nservicebus", "queue", "nservicebus",
				  "postgres"},
	[WH_DELAYED_SQLITE] = {"delayed queue, SQLite", "delayed queue", NULL, "sqlite"},
	[WH_DELAYED_POSTGRES] = {"delayed queue, PostgreSQL", "delayed queue", NULL,
				 "postgres"},
	[WH_EVENTFERRY_MSSQL] = {"eventferry, SQL Server", "outbox", "eventferry",
				 "mssql"},
	[WH_QUEUE_MSSQL] = {"queue, SQL Server", "queue", "native", "mssql"},
	[WH_QUEUE_NSERVICEBUS_MSSQL] = {"queue, nservicebus, SQL Server", "queue",
					"nservicebus", "mssql"},
	[WH_DELAYED_MSSQL] = {"delayed queue, SQL Server", "delayed queue", NULL,
			      "mssql"},
	[WH_LOG_SQLITE] = {"log, SQLite", "outbox", "log", "sqlite"},
	[WH_LOG_POSTGRES] = {"log, PostgreSQL", "outbox", "log", "postgres"},
	[WH_LOG_MSSQL] = {"log, SQL Server", "outbox", "log", "mssql"},
	[WH_ADOPTED_SQLITE] = {"adopted, SQLite", "outbox", "adopted", "sqlite"},
	[WH_ADOPTED_POSTGRES] = {"adopted, PostgreSQL", "outbox", "adopted", "postgres"},
	[WH_ADOPTED_MSSQL] = {"adopted, SQL Server", "outbox", "adopted", "mssql"},
};

static const char *const asks[WH_ASKS] = {
	[WH_ASK_RELAY] = "relay",
	[WH_ASK_KEY] = "relay.ordering=key",
	[WH_ASK_PARK] = "relay.on_dead=park",
	[WH_ASK_HANDLERS] = "handlers",
	[WH_ASK_CREATE_PARTITIONS] = "create --partitions",
	[WH_ASK_CREATE_UNIQUE] = "create --unique-ids",
	[WH_ASK_CREATE_STREAM] = "create --stream",
	[WH_ASK_CREATE_SEGMENTS] = "create --segments",
};

/* ---- what works where ---- */

#define AT(home) (1u << (home))

enum {
	ADOPTED = AT(WH_ADOPTED_SQLITE) | AT(WH_ADOPTED_POSTGRES) | AT(WH_ADOPTED_MSSQL),
	ON_LOG = AT(WH_LOG_SQLITE) | AT(WH_LOG_POSTGRES) | AT(WH_LOG_MSSQL) | ADOPTED,
	EVENT_BUS = AT(WH_EVENT_BUS),
	EVENTFERRY = AT(WH_EVENTFERRY) | AT(WH_EVENTFERRY_MSSQL),
	DEBEZIUM = AT(WH_DEBEZIUM),
	DELAYED = AT(WH_DELAYED_SQLITE) | AT(WH_DELAYED_POSTGRES) | AT(WH_DELAYED_MSSQL),
	QUEUES = AT(WH_QUEUE_SQLITE) | AT(WH_QUEUE_POSTGRES) | AT(WH_QUEUE_MSSQL),
	NSERVICEBUS = AT(WH_QUEUE_NSERVICEBUS) | AT(WH_QUEUE_NSERVICEBUS_MSSQL),
};

/* A refused combination, and the reason.  A combination without a rule is accepted. */
typedef struct rule {
	wh_ask ask;
	unsigned homes;
	const char *why;
} rule;

static const rule rules[] = {
	{WH_ASK_RELAY, NSERVICEBUS,
	 "their rows have no place for claims: use receivers, or a queue of the layout native"},

	{WH_ASK_KEY, DELAYED,
	 "a key has one message, so there is no order to keep: leave --ordering out"},
	{WH_ASK_KEY, QUEUES,
	 "it has no keys to order by: leave --ordering out, or use an outbox"},
	{WH_ASK_KEY, EVENT_BUS,
	 "it has no keys to order by: leave --ordering out, or use an outbox of Wherry's own layout"},

	{WH_ASK_PARK, DELAYED,
	 "a key has one message, so nothing waits behind it: leave relay.on_dead=park out"},
	{WH_ASK_PARK, QUEUES | EVENT_BUS,
	 "it has no keys that could be parked: leave relay.on_dead=park out"},
	{WH_ASK_PARK, EVENTFERRY,
	 "nothing finds the dead messages of a key in time: leave relay.on_dead=park out"},
	{WH_ASK_PARK, DEBEZIUM,
	 "rows do not show that a dead message may be tried again: leave "
	 "relay.on_dead=park out"},

	{WH_ASK_HANDLERS, DEBEZIUM,
	 "handlers acknowledge in the row, and nothing is written to rows that are streamed: "
	 "leave the handlers out"},

	{WH_ASK_CREATE_PARTITIONS, AT(WH_LOG_SQLITE) | AT(WH_ADOPTED_SQLITE),
	 "one relay reads all of it: leave --partitions out"},
	{WH_ASK_CREATE_PARTITIONS, EVENT_BUS | EVENTFERRY,
	 "nothing is added to its table, and several relays compete there anyway: leave "
	 "--partitions out"},
	{WH_ASK_CREATE_PARTITIONS, DEBEZIUM,
	 "one relay streams all of it: leave --partitions out, or use an outbox of Wherry's own layout"},

	{WH_ASK_CREATE_UNIQUE, ADOPTED,
	 "its owner decides which indexes the table has: leave --unique-ids out"},
	{WH_ASK_CREATE_UNIQUE, EVENT_BUS | EVENTFERRY | DEBEZIUM,
	 "nothing is added to its table: leave --unique-ids out"},

	{WH_ASK_CREATE_STREAM, ON_LOG & ~AT(WH_LOG_POSTGRES),
	 "its relays read the table, and a commit wakes them: leave --stream out"},
	{WH_ASK_CREATE_STREAM, EVENT_BUS,
	 "SQLite has no log to stream from: leave --stream out"},
	{WH_ASK_CREATE_STREAM, EVENTFERRY, "it cannot be streamed: leave --stream out"},

	{WH_ASK_CREATE_SEGMENTS, AT(WH_LOG_SQLITE) | AT(WH_LOG_MSSQL),
	 "old messages are deleted one by one there: leave --segments out"},
	{WH_ASK_CREATE_SEGMENTS, ADOPTED | EVENT_BUS | EVENTFERRY | DEBEZIUM,
	 "its owner decides how the table is stored: leave --segments out"},
};

static const rule *find(wh_home at, wh_ask ask)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if (rules[i].ask == ask && rules[i].homes & AT(at))
			return &rules[i];
	return NULL;
}

wherry_code wh_meet_check(wh_home at, wh_ask ask, wherry_error *err)
{
	const rule *r;

	if (at == WH_HOMES)
		return wh_fail(err, WHERRY_INVALID,
			       "no relay reads tables of this layout on this database");
	r = find(at, ask);
	if (!r)
		return WHERRY_OK;
	if (ask == WH_ASK_RELAY)
		return wh_fail(err, WHERRY_INVALID,
			       "no relay reads %ss of the layout %s: %s", homes[at].model,
			       homes[at].layout, r->why);
	return wh_fail(err, WHERRY_INVALID, "%s does not go with the layout %s: %s",
		       asks[ask], homes[at].name, r->why);
}

/* ---- names ---- */

const char *wh_home_name(wh_home which)
{
	return homes[which].name;
}

wh_home wh_home_of(const char *model, const char *layout, const char *scheme)
{
	for (int i = 0; i < WH_HOMES; i++)
		if (strcmp(homes[i].model, model) == 0 &&
		    (!homes[i].layout || strcmp(homes[i].layout, layout) == 0) &&
		    strcmp(homes[i].scheme, scheme) == 0)
			return (wh_home)i;
	return WH_HOMES;
}

const char *wh_ask_name(wh_ask which)
{
	return asks[which];
}
