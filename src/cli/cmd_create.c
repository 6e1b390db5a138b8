#include "cli/commands.h"

#include <string.h>

#include "base/env.h"
#include "cli/create.h"
#include "cli/target.h"
#include "db/driver.h"

static const unsigned kinds[] = {WHERRY_KIND_OUTBOX, WHERRY_KIND_QUEUE,
				 WHERRY_KIND_DELAYED, WHERRY_KIND_INBOX,
				 WHERRY_KIND_CRON};

enum { N_KINDS = sizeof(kinds) / sizeof(*kinds) };

/* The bit of the kind of this word; 0: there is none. */
static unsigned read_kind(const char *word)
{
	for (size_t i = 0; i < N_KINDS; i++)
		if (strcmp(word, wh_kind_word(kinds[i])) == 0)
			return kinds[i];
	return 0;
}

/* The kind of the table that exists; 0: there is none of that name, or no database. */
static unsigned existing_kind(const wh_args *args)
{
	wh_db_options options = wh_db_options_of(args->config, &wh_env_system);
	const char *url = wh_operand(args, 0), *rest = strchr(url, ':');
	wherry_db *db = NULL;
	unsigned kind = 0;

	options.create = false;
	if (rest && rest[1] && rest[1] != '#' &&
	    wh_db_open(url, &options, &db, NULL) == WHERRY_OK)
		kind = wh_kind_bits[wh_kind_of(db, args->table.table)];
	wherry_db_close(db);
	return kind;
}

/* The kind to create: of --kind, of the URL, or of the table that is there. */
static unsigned kind_meant(const wh_args *args)
{
	unsigned kind = 0;

	if (wh_arg(args, "kind"))
		return read_kind(wh_arg(args, "kind"));
	if (*args->table.queue)
		return existing_kind(args) == WHERRY_KIND_OUTBOX ? WHERRY_KIND_OUTBOX
								 : WHERRY_KIND_DELAYED;
	if (*args->table.table)
		kind = existing_kind(args);
	return kind ? kind : WHERRY_KIND_OUTBOX;
}

/* Refuse options that are for other kinds.  False: it printed which. */
static bool allows(const wh_args *args, unsigned kind)
{
	static const wh_without of_outbox[] = {
		{"partitions", "only an outbox has it"},
		{"unique-ids", "only an outbox has it"},
		{"segments", "only an outbox has it"},
		{"stream", "only an outbox has it"},
		{"topics", "only a subscription of an outbox has it"},
		{"from", "only a subscription of an outbox has it"},
		{"yes", "only a subscription of an outbox has it"},
		{NULL, NULL},
	};
	static const wh_without of_messages[] = {
		{"payload", "only outboxes and queues have it"},
		{NULL, NULL},
	};
	static const wh_without of_layouts[] = {
		{"layout", "inboxes and tables of schedules have one layout"},
		{NULL, NULL},
	};

	return (kind == WHERRY_KIND_OUTBOX || wh_allows(args, of_outbox)) &&
	       (kind <= WHERRY_KIND_QUEUE || wh_allows(args, of_messages)) &&
	       (kind <= WHERRY_KIND_DELAYED || wh_allows(args, of_layouts));
}

static wh_exit run(wh_args *args)
{
	const unsigned kind = kind_meant(args);

	if (!kind)
		return wh_usage(args->command,
				"--kind %s: write outbox, queue, delayed, inbox or cron",
				wh_arg(args, "kind"));
	if (kind != WHERRY_KIND_DELAYED && kind != WHERRY_KIND_OUTBOX &&
	    *args->table.queue)
		return wh_usage(args->command,
				"'%s/%s' is a delayed queue: leave out --kind, or the /",
				args->table.table, args->table.queue);
	if (kind == WHERRY_KIND_QUEUE && !*args->table.table)
		return wh_usage(args->command,
				"a queue needs a name, such as sqlite:shop.db#jobs");
	if (!allows(args, kind))
		return WH_EXIT_USAGE;
	wh_report_kinds(kind);
	if (kind != WHERRY_KIND_OUTBOX)
		return wh_create_table(args, kind);
	return *args->table.queue ? wh_create_subscription(args) : wh_create_outbox(args);
}

static const wh_option options[] = {
	{"kind", "KIND",
	 "outbox, queue, delayed (a table of delayed queues), inbox or cron (a table of "
	 "schedules). (default: the kind of the table that is there, else outbox)",
	 NULL, 0},
	{"layout", "LAYOUT",
	 "That of the tables of another program. Outboxes: event-bus, eventferry or debezium. "
	 "Queues: nservicebus. Delayed queues: funfix, the table of the JVM library DelayedQueue, or funfix-old, that of its "
	 "predecessor on SQL Server. (default: that of the table that is there; else of an outbox log, and of others native)",
	 NULL, 0},
	{"payload", "TYPE",
	 "How an outbox or a queue keeps bodies: on PostgreSQL json or jsonb, which refuse a body "
	 "that is not JSON, text or bytea; on SQL Server text or bytea. (default: the type of an "
	 "existing table, else json, on SQL Server text)",
	 NULL, 0},
	{"grant", "ROLE=KIND",
	 "Give a role of the database exactly the rights that it needs on the table, and "
	 "revoke its other rights on it. KIND is operator; or for an outbox producer (plain "
	 "INSERTs), enqueuer (wherry_enqueue() and `wherry enqueue`), relay, or on a log consumer (wherry_consume(); also of one subscription); for a queue and "
	 "delayed queues sender or receiver; for an inbox consumer. On PostgreSQL and SQL Server.",
	 NULL, WH_REPEAT},
	{"partitions", NULL,
	 "Add what several relays need that share the outbox, also to one that is there: "
	 "a mark that they share. "
	 "SQLite and the tables of other programs refuse it.",
	 NULL, 0},
	{"unique-ids", NULL,
	 "Add what refuses a message id that the outbox has, also to an outbox that is there: a unique index, "
	 "which every INSERT pays for.",
	 NULL, 0},
	{"segments", "N",
	 "On PostgreSQL: divide a new outbox into segments of N ids, and delete old messages by whole segments. Take as many "
	 "as you write in ten minutes or more, such as 1000000. Not with --unique-ids.",
	 NULL, 0},
	{"topics", "PATTERNS",
	 "Of a subscription: the topics that it takes, with commas between them; * stands for any text. (default: "
	 "all topics)",
	 NULL, 0},
	{"yes", NULL,
	 "Of a subscription that exists with other topics: change them. They hold for the messages behind its position.",
	 NULL, 0},
	{"from", "PLACE",
	 "Of a subscription: where it begins: start, now, the id of a message, or a time such as "
	 "2026-11-25T10:00:00Z. (default: start)",
	 NULL, 0},
	{"stream", NULL,
	 "For a table that is streamed: make what `wherry relay` reads, which a relay makes itself if its role "
	 "may: a publication and a replication slot. The server keeps its WAL from now on, until "
	 "a relay reads it. Of a log: the publication alone, for relay.source=wal.",
	 NULL, 0},
	{"print", NULL,
	 "Write the SQL that it would run to standard output and change nothing: of an outbox what "
	 "the database lacks and the options asked for, of other kinds all.",
	 NULL, 0},
	{"all", NULL,
	 "With --print, write the SQL that makes all of an outbox too, without looking at the "
	 "database.",
	 NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_create = {
	.name = "create",
	.operands = "URL[#TABLE]",
	.synopsis =
		"URL[#TABLE] [--kind KIND] [--layout LAYOUT] [--payload TYPE] "
		"[--grant ROLE=KIND]... [--partitions] [--unique-ids] [--segments N] [--stream] [--print [--all]] "
		"[--json]",
	.brief = "Create an outbox, a queue or another table, or bring it up to date",
	.help = "Makes the table and what belongs to it, and the database file if it "
		"is not there. Doing it twice is fine, also at once. With --print, the "
		"SQL goes to your own migration tool instead.\n"
		"\n"
		"A table of delayed queues holds any number of queues, which need not be created. A "
		"role that installs ticks of a schedule on a delayed queue is operator of both tables.\n"
		"\n"
		"Examples:\n"
		"  wherry create sqlite:shop.db\n"
		"  wherry create sqlite:shop.db#billing_outbox\n"
		"  wherry create --kind queue sqlite:shop.db#jobs\n"
		"  wherry create --kind delayed sqlite:shop.db#reminders\n"
		"  wherry create --kind inbox postgres://shop@db/shop --grant web=consumer\n"
		"  wherry create postgres://shop@db/shop --grant web=enqueuer --grant relay=relay\n"
		"  wherry create postgres://shop@db/shop#outbox/audit --topics 'orders.*' --from now\n"
		"  wherry create postgres://shop@db/shop#shop.outbox --payload jsonb\n"
		"  wherry create sqlite:app.db#outbox_events --layout event-bus\n"
		"  wherry create --kind queue postgres://shop@db/shop#orders --layout nservicebus\n"
		"  wherry create sqlite: --print --all > migrations/0007_outbox.sql\n",
	.options = options,
	.preset = "db.create",
	.run = run,
};
