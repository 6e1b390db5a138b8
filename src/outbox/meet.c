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
};

static const char *const asks[WH_ASKS] = {
	[WH_ASK_ENGINE] = "relay.engine",
	[WH_ASK_KEY] = "relay.ordering=key",
	[WH_ASK_PARK] = "relay.on_dead=park",
	[WH_ASK_HANDLERS] = "handlers",
	[WH_ASK_CREATE_PARTITIONS] = "create --partitions",
	[WH_ASK_CREATE_UNIQUE] = "create --unique-ids",
	[WH_ASK_CREATE_STREAM] = "create --stream",
};

/* ---- what works where ---- */

#define AT(home) (1u << (home))
#define BY(engine) (1u << (engine))

enum {
	ANYWHERE = AT(WH_HOMES) - 1,
	ANY = BY(WH_ENGINES + 1) - 1, /* WH_ENGINES stands for create. */
	ADOPTED = AT(WH_ADOPTED_SQLITE) | AT(WH_ADOPTED_POSTGRES),
	ON_LOG = AT(WH_LOG_SQLITE) | AT(WH_LOG_POSTGRES) | AT(WH_LOG_MSSQL) | ADOPTED,
	OF_LOG = BY(WH_POSITIONS) | BY(WH_POSITIONS_SHARED),
	STREAMING = BY(WH_STREAM),
	ON_EVENTFERRY = AT(WH_EVENTFERRY) | AT(WH_EVENTFERRY_MSSQL),
	DELAYED = AT(WH_DELAYED_SQLITE) | AT(WH_DELAYED_POSTGRES) | AT(WH_DELAYED_MSSQL),
	QUEUES = AT(WH_QUEUE_SQLITE) | AT(WH_QUEUE_POSTGRES) | AT(WH_QUEUE_MSSQL) |
		 DELAYED,
	NSERVICEBUS = AT(WH_QUEUE_NSERVICEBUS) | AT(WH_QUEUE_NSERVICEBUS_MSSQL),
};

/* A refused combination, and the reason.  The first matching rule applies; a combination
 * without a rule is accepted. */
typedef struct rule {
	wh_ask ask;
	unsigned homes, engines;
	const char *why;
} rule;

static const rule rules[] = {
	{WH_ASK_ENGINE, NSERVICEBUS, ANY,
	 "their rows have no place for claims: use receivers, or a queue of the layout native"},
	{WH_ASK_ENGINE, QUEUES, STREAMING,
	 "a queue cannot be streamed: leave --engine stream out"},
	{WH_ASK_KEY, DELAYED, ANY,
	 "a key has one message, so there is no order to keep: leave --ordering out"},
	{WH_ASK_PARK, DELAYED, ANY,
	 "a key has one message, so nothing waits behind it: leave relay.on_dead=park out"},
	{WH_ASK_KEY, QUEUES, ANY,
	 "it has no keys to order by: leave --ordering out, or use an outbox"},
	{WH_ASK_PARK, QUEUES, ANY,
	 "it has no keys that could be parked: leave relay.on_dead=park out"},

	{WH_ASK_ENGINE, AT(WH_LOG_POSTGRES), STREAMING,
	 "its relays read the table, and a commit wakes them: leave --engine stream out"},
	{WH_ASK_ENGINE, ON_LOG, BY(WH_COMPETING),
	 "one relay reads a subscription behind its position, or several share its keys after create "
	 "--partitions, except on SQLite: leave --engine competing out"},
	{WH_ASK_ENGINE, ON_LOG, ANY & ~OF_LOG,
	 "one relay reads a subscription behind its position anyway, and others stand by: leave "
	 "--engine out"},
	{WH_ASK_ENGINE, ANYWHERE & ~ON_LOG, OF_LOG, "only the layout log has a position"},
	{WH_ASK_CREATE_UNIQUE, ADOPTED, ANY,
	 "its owner decides which indexes the table has: leave --unique-ids out"},
	{WH_ASK_CREATE_PARTITIONS, AT(WH_LOG_SQLITE) | AT(WH_ADOPTED_SQLITE), ANY,
	 "one relay reads all of it: leave --partitions out"},
	{WH_ASK_CREATE_STREAM, ON_LOG, ANY,
	 "its relays read the table, and a commit wakes them: leave --stream out"},

	{WH_ASK_ENGINE, AT(WH_DEBEZIUM), ANY & ~BY(WH_STREAM),
	 "nothing is written to its rows: relay it with --engine stream, the default there"},
	{WH_ASK_ENGINE, AT(WH_EVENT_BUS), STREAMING,
	 "SQLite has no log to stream from: leave --engine stream out, or relay from "
	 "PostgreSQL"},
	{WH_ASK_ENGINE, ON_EVENTFERRY, STREAMING,
	 "it cannot be streamed: leave --engine stream out"},
	{WH_ASK_KEY, AT(WH_EVENT_BUS), ANY,
	 "it has no keys to order by: leave --ordering out, or use an outbox of Wherry's own layout"},
	{WH_ASK_CREATE_PARTITIONS, AT(WH_EVENT_BUS), ANY,
	 "relays cannot share partitions of it: leave --partitions out, and use --engine "
	 "competing for several relays"},
	{WH_ASK_CREATE_PARTITIONS, AT(WH_EVENTFERRY) | AT(WH_EVENTFERRY_MSSQL), ANY,
	 "nothing is added to its table, and several relays compete there anyway: leave "
	 "--partitions out"},
	{WH_ASK_CREATE_PARTITIONS, AT(WH_DEBEZIUM), ANY,
	 "one relay streams all of it: leave --partitions out, or use an outbox of Wherry's own layout"},
	{WH_ASK_CREATE_UNIQUE, AT(WH_EVENT_BUS) | ON_EVENTFERRY | AT(WH_DEBEZIUM), ANY,
	 "nothing is added to its table: leave --unique-ids out"},
	{WH_ASK_CREATE_STREAM, AT(WH_EVENT_BUS), ANY,
	 "SQLite has no log to stream from: leave --stream out"},
	{WH_ASK_CREATE_STREAM, ON_EVENTFERRY, ANY,
	 "it cannot be streamed: leave --stream out"},

	{WH_ASK_PARK, AT(WH_EVENT_BUS), ANY,
	 "it has no keys that could be parked: leave relay.on_dead=park out"},
	{WH_ASK_PARK, ON_EVENTFERRY, ANY,
	 "nothing finds the dead messages of a key in time: leave relay.on_dead=park out"},
	{WH_ASK_PARK, ANYWHERE, BY(WH_STREAM),
	 "rows do not show that a dead message may be tried again: leave "
	 "relay.on_dead=park out"},

	{WH_ASK_HANDLERS, ANYWHERE, BY(WH_STREAM),
	 "handlers acknowledge in the row, and nothing is written to rows that are streamed: "
	 "leave the handlers out"},
};

static const rule *find(wh_home at, wh_engine by, wh_ask ask)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if (rules[i].ask == ask && rules[i].homes & AT(at) &&
		    rules[i].engines & BY(by))
			return &rules[i];
	return NULL;
}

bool wh_meet_works(wh_home at, wh_engine by)
{
	return at < WH_HOMES && !find(at, by, WH_ASK_ENGINE);
}

wherry_code wh_meet_check(wh_home at, wh_engine by, wh_ask ask, wherry_error *err)
{
	const rule *r;

	if (at == WH_HOMES)
		return wh_fail(err, WHERRY_INVALID,
			       "no relay reads tables of this layout on this database");
	r = find(at, by, ask);
	if (!r)
		return WHERRY_OK;
	if (r->homes == ANYWHERE)
		return wh_fail(err, WHERRY_INVALID,
			       "%s does not go with the engine '%s': %s", asks[ask],
			       wh_engine_name(by), r->why);
	if (ask == WH_ASK_ENGINE && r->engines == ANY)
		return wh_fail(err, WHERRY_INVALID,
			       "no relay reads %ss of the layout %s: %s", homes[at].model,
			       homes[at].layout, r->why);
	if (ask == WH_ASK_ENGINE)
		return wh_fail(err, WHERRY_INVALID,
			       "the engine '%s' does not work on the layout %s: %s",
			       wh_engine_name(by), homes[at].name, r->why);
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
