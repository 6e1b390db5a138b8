/*
 * Tables that known programs make, each recognised by its columns.
 */
#include "outbox/adopt.h"

#include <string.h>

/* Options for the table of a program.  NULL: guess. */
typedef struct known_table {
	const char *program;
	const char *columns[10]; /* All of these; ended by NULL. */
	const char *message_id, *topic, *key, *headers, *created_at, *body, *done;
	const char *done_tsql; /* On SQL Server, if it differs. */
	const char *note;
} known_table;

#define WH_ADOPT_LISTENERS                                                               \
	"there is a row for each listener: choose yours with --where \"listener_id = '...'\""

static const known_table tables[] = {
	{
		.program = "MassTransit's OutboxMessage",
		.columns = {"SequenceNumber", "MessageId", "MessageType", "Body",
			    "EnqueueTime", "OutboxId", "DestinationAddress", NULL},
		.message_id = "MessageId",
		.topic = "MessageType",
		.key = "ConversationId",
		.headers = "Headers",
		.created_at = "SentTime",
		.body = "Body",
		.done = "delete",
		.note = "turn off MassTransit's delivery service, which deletes rows that it has sent: "
			"DisableDeliveryService()",
	},
	{
		.program = "CAP's table of published messages",
		.columns = {"Id", "Name", "Content", "Retries", "Added", "ExpiresAt",
			    "StatusName", NULL},
		.message_id = "Id",
		.topic = "Name",
		.created_at = "Added",
		.body = "Content",
		.done = "StatusName = 'Succeeded'",
		.note = "the body is CAP's envelope, with the members Headers and Value; CAP must not send the rows itself",
	},
	{
		.program = "Wolverine's wolverine_outgoing_envelopes",
		.columns = {"id", "owner_id", "destination", "deliver_by", "body",
			    "attempts", "message_type", NULL},
		.message_id = "id",
		.topic = "message_type",
		.body = "body",
		.done = "delete",
		.note = "the body is Wolverine's envelope in its own binary form; Wolverine must not send the rows itself",
	},
	{
		.program = "Spring Modulith's event_publication, of version 2",
		.columns = {"id", "listener_id", "event_type", "serialized_event",
			    "publication_date", "completion_date", "status",
			    "completion_attempts", NULL},
		.message_id = "id",
		.topic = "event_type",
		.created_at = "publication_date",
		.body = "serialized_event",
		.done = "completion_date = now(), status = 'COMPLETED'",
		.done_tsql = "completion_date = SYSUTCDATETIME(), status = 'COMPLETED'",
		.note = WH_ADOPT_LISTENERS,
	},
	{
		.program = "Spring Modulith's event_publication",
		.columns = {"id", "listener_id", "event_type", "serialized_event",
			    "publication_date", "completion_date", NULL},
		.message_id = "id",
		.topic = "event_type",
		.created_at = "publication_date",
		.body = "serialized_event",
		.done = "completion_date",
		.note = WH_ADOPT_LISTENERS,
	},
	{
		.program = "the table of Debezium's outbox event router",
		.columns = {"id", "aggregatetype", "aggregateid", "type", "payload",
			    NULL},
		.message_id = "id",
		.topic = "aggregatetype",
		.key = "aggregateid",
		.body = "payload",
		.note = "rows that a program deletes in the transaction that inserts them are never seen here: for such a "
			"program use the layout debezium, which reads the WAL",
	},
	{
		.program = "the table of pg-transactional-outbox",
		.columns = {"id", "aggregate_type", "aggregate_id", "message_type",
			    "segment", "concurrency", "payload", "finished_attempts",
			    NULL},
		.message_id = "id",
		.topic = "message_type",
		.key = "segment",
		.headers = "metadata",
		.created_at = "created_at",
		.body = "payload",
		.done = "processed_at",
		.note = "stop its listener first",
	},
	{
		.program = "the table of eventferry",
		.columns = {"id", "message_id", "topic", "aggregate_type", "aggregate_id",
			    "key", "payload", "status", "claimed_at", NULL},
		.message_id = "message_id",
		.topic = "topic",
		.key = "aggregate_id",
		.headers = "headers",
		.created_at = "created_at",
		.body = "payload",
		.done = "status = 2, processed_at = now()",
		.done_tsql = "status = 2, processed_at = SYSUTCDATETIME()",
		.note = "stop eventferry's relays first: beside them relay the table as it is, which Wherry does with its "
			"name; a row that they gave up (status 4) counts as not delivered",
	},
};

static bool has_all(const wh_adoption *a, const known_table *t)
{
	for (size_t i = 0; t->columns[i]; i++)
		if (!wh_adopt_find(a, t->columns[i], false))
			return false;
	return true;
}

static void suggest(const wh_adoption *a, const char **option, const char *value)
{
	if (!*option && value &&
	    (wh_adopt_find(a, value, false) || strchr(value, ' ') ||
	     strcmp(value, "delete") == 0))
		*option = value;
}

void wh_adopt_know(wh_adoption *a, wh_adopt_options *options)
{
	const bool tsql = strcmp(a->db->driver->scheme, "mssql") == 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++) {
		const known_table *t = &tables[i];

		if (!has_all(a, t))
			continue;
		a->known = t->program;
		a->note = t->note;
		suggest(a, &options->fields[WH_ADOPT_MESSAGE_ID], t->message_id);
		suggest(a, &options->fields[WH_ADOPT_TOPIC], t->topic);
		suggest(a, &options->fields[WH_ADOPT_KEY], t->key);
		suggest(a, &options->fields[WH_ADOPT_HEADERS], t->headers);
		suggest(a, &options->fields[WH_ADOPT_CREATED_AT], t->created_at);
		suggest(a, &options->fields[WH_ADOPT_BODY], t->body);
		suggest(a, &options->done, tsql && t->done_tsql ? t->done_tsql : t->done);
		return;
	}
}
