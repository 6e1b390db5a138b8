/*
 * The checks of `wherry doctor`.
 */
#include "cli/doctor.h"

enum {
	NATIVE = WH_CHECK_NATIVE,
	TABLE = WH_CHECK_TABLE,
	STREAM = WH_CHECK_STREAM,
	QUEUE = WH_CHECK_QUEUE,
	OF_TABLE = WH_CHECK_OF_TABLE,
	STILL = WH_CHECK_STILL,
	ADOPT = WH_CHECK_ADOPT,
	WAKES = WH_CHECK_WAKES
};

#define RESTORE "see docs/internals/restore.md"

const wh_check wh_checks[] = {
	{
		.name = "kept",
		.flags = NATIVE | TABLE,
		.none = "every subscription makes progress, so old messages can be deleted",
		.trouble = "subscription $1 has not moved for ~2, and $3: all messages "
			   "behind its position are kept",
		.advice = "relay or consume it; if nobody needs it, `wherry drop` it",
	},
	{
		.name = "paused",
		.flags = NATIVE,
		.none = "the outbox is not paused",
		.trouble =
			"the outbox has been paused for ~1, since $2: nothing is delivered",
		.advice = "`wherry resume$u`",
	},
	{
		.name = "relay",
		.flags = NATIVE | TABLE,
		.none = "no message is ready, and a daemon waits to start a relay for the next one",
		.well = "$1 relays the outbox ($2, epoch $3), its lease holds for ~4 more",
		.trouble = "$2, and no message is ready; $1",
		.worse = "$2 while messages are ready; $1",
		.advice = WH_HOW_TO_RELAY "; if one does run, is it on another "
					  "database, schema or table?",
	},
	{
		.name = "lease",
		.flags = NATIVE,
		.none = "no lease holds for longer than an hour",
		.trouble =
			"the lease of $1 holds for ~2 more, longer than any relay takes "
			"one: no other relay can lead until then, even if $1 is gone",
		.advice = "if $1 does not run, as the owner of the tables: `$3`",
	},
	{
		.name = "destination",
		.flags = NATIVE,
		.none = "the destination takes messages",
		.trouble = "destination refuses: $2, to $1 for ~3; the relay tries it "
			   "again and again",
		.advice = "repair the destination: messages lose no attempts meanwhile; "
			  "then `wherry resume$u` tries it at once",
	},
	{
		.name = "backlog",
		.flags = NATIVE | TABLE,
		.none = "no backlog: every message that was ready is delivered",
		.trouble = "message $1 has been ready for ~2 though a relay runs$3",
		.advice = "read the relay's log: its destination is slow, or the relay "
			  "itself is stopped or starved",
	},
	{
		.name = "held",
		.flags = NATIVE | TABLE,
		.none = "no message has failed",
		.trouble = "message $1 (key $2) $3: $5; it is due in ~4, and of "
			   "the next messages $6 wait behind it",
		.advice = "remove the cause; `wherry retry$u $1` tries it at once",
	},
	{
		.name = "parked",
		.flags = NATIVE | TABLE,
		.none = "no message is dead",
		.trouble =
			"message $1 (key $2) is dead$3: $4; with --on-dead park $5 of the "
			"next ones wait behind it",
		.advice = "remove the cause, then `wherry retry$u $1`",
	},
	{
		.name = "locks",
		.flags = NATIVE | QUEUE | STILL,
		.none = "nobody keeps the table locked",
		.trouble = "$1 ($3) holds $2 on the table: producers and relays wait",
		.advice = "let it finish, or `$4`",
	},
	{
		.name = "row-locks",
		.flags = OF_TABLE | STILL,
		.none = "nobody keeps rows locked",
		.trouble = "$1 ($2) has locked rows of the table in a transaction that "
			   "is open for ~3: messages of these rows wait for its end, and "
			   "on an outbox later ones of their keys",
		.advice = "let it end, or `$4`",
	},
	{
		.name = "lease-locks",
		.flags = NATIVE | QUEUE | STILL,
		.none = "nobody keeps leases and positions locked",
		.trouble =
			"$1 ($2) has locked rows of $5 in a transaction that is open for "
			"~3: $6",
		.advice = "let it end, or `$4`",
	},
	{
		.name = "share-locks",
		.flags = NATIVE | STILL,
		.none = "nobody keeps relays from sharing the keys with an advisory lock",
		.trouble =
			"$1 ($2) has held the advisory lock under which relays share the "
			"keys of this outbox for ~3, which takes milliseconds; relays that "
			"wait: $4",
		.advice = "`$5`; any role that may connect to the database can take this "
			  "lock",
	},
	{
		.name = "long-transactions",
		.none = "no transaction has been open for long",
		.trouble =
			"pid $1 ($2, user $3) is '$4' in a transaction that is open for "
			"~5, since $6, and $7: it keeps vacuum from dead rows, and what "
			"it wrote cannot be delivered",
		.advice = "let it commit, or `SELECT pg_terminate_backend($1)`; "
			  "idle_in_transaction_session_timeout ends such by itself",
	},
	{
		.name = "prepared",
		.none = "no prepared transaction was left over",
		.trouble =
			"the prepared transaction $1 of $2 in database $3 is there for "
			"~4, since $5: it keeps its locks, keeps vacuum from dead rows, "
			"and what it wrote cannot be delivered",
		.advice =
			"in that database: `COMMIT PREPARED $1` or `ROLLBACK PREPARED $1`",
	},
	{
		.name = "partitions",
		.flags = NATIVE,
		.none = "no relays share the outbox",
		.well = "$1 has $2 of 64 partitions, its lease holds for ~3 more",
		.trouble =
			"$1 of 64 partitions have no relay: one has died, and others take "
			"them when its lease has expired",
		.advice = "one relay more helps those that are there: " WH_HOW_TO_RELAY,
	},
	{
		.name = "tables",
		.flags = NATIVE | STILL | ADOPT,
		.none = "the tables are there",
		.trouble = "the table $1 is missing",
		.advice = "`wherry create$u --print --all$l | $d` makes what is missing",
	},
	{
		.name = "indexes",
		.flags = NATIVE | ADOPT,
		.none = "the indexes are there",
		.trouble = "the index $1 is missing: reading takes long without it, or a "
			   "message id may be there twice",
		.advice = "`wherry create$u` makes what is missing",
	},
	{
		.name = "segments",
		.flags = NATIVE,
		.none = "segments are made ahead, if the outbox has any",
		.trouble =
			"no segment is there for the next ids: messages go to the table "
			"$1 ($2), from which they are deleted one by one; a relay makes "
			"segments while it is small, and the statement below does while "
			"producers wait",
		.advice = "run `$3`",
	},
	{
		.name = "segment-function",
		.flags = NATIVE,
		.none = "the function that makes segments is there, if the outbox has any",
		.trouble =
			"the function $1 is missing: no segment is made, and none dropped",
		.advice = "`wherry create$u --segments $2`",
	},
	{
		.name = "adopted",
		.flags = NATIVE | ADOPT,
		.none = "an adopted table has what adopt made",
		.trouble = "the table $1 has no $2",
		.advice = "`wherry adopt` the table again, which remembers its options",
	},
	{
		.name = "invalid",
		.flags = OF_TABLE,
		.none = "the indexes are valid",
		.trouble = "the index $1 is not valid: it is kept up and not used",
		.advice = "`REINDEX INDEX CONCURRENTLY $1`",
	},
	{
		.name = "constraints",
		.flags = NATIVE | TABLE,
		.none = "the table refuses ids that no relay can handle",
		.trouble =
			"the table does not have the constraint that refuses ids that no "
			"relay can handle",
		.advice = "`wherry create$u` adds it, unless there are such rows already",
	},
	{
		.name = "acknowledgements",
		.flags = TABLE,
		.none = "no trigger can ignore an acknowledgement",
		.trouble = "the $1 can ignore what a relay writes: if it ignores an "
			   "acknowledgement, the message is delivered again and again",
		.advice =
			"let it leave alone what Wherry writes there, or make it an AFTER "
			"trigger",
	},
	{
		.name = "search-path",
		.flags = TABLE,
		.none = "no trigger function depends on the search path",
		.trouble =
			"the function $1 of trigger $2 has no fixed search_path: it "
			"runs with the path of the role that writes, where another role may have "
			"put its own functions",
		.advice =
			"`ALTER FUNCTION $1 SET search_path = pg_catalog, pg_temp`, with the "
			"schemas it needs",
	},
	{
		.name = "trigger",
		.flags = WAKES | ADOPT,
		.none = "the triggers that wake relays are there",
		.trouble = "$1 $2: relays may sleep until they look by themselves "
			   "(relay.idle_interval)",
		.advice = "`wherry create$u --print --all$l | $d` makes it again",
	},
	{
		.name = "identity",
		.flags = TABLE | OF_TABLE | STILL,
		.none = "ids are given out one by one",
		.trouble = "$1",
		.advice = "`$2`",
	},
	{
		.name = "functions",
		.flags = NATIVE | STILL,
		.none = "the SQL functions were made for this schema",
		.trouble = "$1 SQL functions were made for the schema $2, which has "
			   "another name now: they refuse every call",
		.advice = "`wherry create$u` makes them again",
	},
	{
		.name = "rights",
		.flags = NATIVE,
		.none = "this role has the rights of a relay or of an operator",
		.trouble = "role $1 lacks $2: a relay fails under it (a producer needs "
			   "INSERT alone)",
		.advice = "as the owner of the tables: `$3`",
	},
	{
		.name = "row-security",
		.flags = NATIVE | QUEUE,
		.none = "no policy can hide rows",
		.trouble =
			"table $1 has row-level security: relays and commands of roles "
			"for which it counts fail, since a policy may hide messages "
			"from them",
		.advice =
			"as its owner: `ALTER TABLE $1 DISABLE ROW LEVEL SECURITY`; or as a "
			"superuser: `ALTER ROLE ... BYPASSRLS`",
	},
	{
		.name = "citus",
		.flags = OF_TABLE | STILL,
		.none = "the tables are not distributed by Citus",
		.trouble =
			"table $1 belongs to Citus, whose other nodes keep rows of it or "
			"write to it with their transaction numbers: no relay can "
			"read it",
		.advice = "let producers write to an outbox that is a local table of "
			  "each node; see docs/guide/citus.md",
	},
	{
		.name = "activity",
		.none = "this role sees what others do",
		.trouble =
			"role $1 does not see what others do: long transactions are not "
			"looked for",
		.advice = "`GRANT pg_read_all_stats TO $1`, or run this as a superuser",
	},
	{
		.name = "pooler",
		.none = "the connection is a direct one",
		.trouble =
			"a pooler is between this program and the server, which call the "
			"session $1 and $2",
		.advice = "give relays a direct URL, or a pool of sessions: waking needs "
			  "LISTEN and a lock; producers may go through it",
	},
	{
		.name = "connections",
		.well = "$1 of $2 connections are in use",
		.trouble = "$1 of $2 connections are in use: soon nobody can connect",
		.advice = "have fewer clients, a pooler for producers, or a higher "
			  "max_connections",
	},
	{
		.name = "sync-standby",
		.flags = STILL,
		.none = "commits wait for no standby that is away",
		.trouble = "synchronous_standby_names is '$1' and no such standby is "
			   "connected: every commit waits",
		.advice = "bring the standby back, or `ALTER SYSTEM SET "
			  "synchronous_standby_names = ''; SELECT pg_reload_conf()`",
	},
	{
		.name = "durability",
		.none = "what is committed survives a power loss",
		.trouble = "$1 is off: $2",
		.advice = "`$3`",
	},
	{
		.name = "journal",
		.none = "the file is in WAL mode",
		.trouble = "the file's journal mode is $1: readers and writers wait for "
			   "each other",
		.advice =
			"`PRAGMA journal_mode=WAL`, when nobody else has the file open; not "
			"on a network file system",
	},
	{
		.name = "autovacuum",
		.flags = OF_TABLE,
		.none = "autovacuum is on",
		.trouble = "$1: dead rows stay, and reading takes longer and longer",
		.advice = "`$2`",
	},
	{
		.name = "vacuum",
		.flags = NATIVE | QUEUE,
		.none = "the dead rows are few",
		.trouble = "dead rows: $1, live rows: $2; $3",
		.advice = "`$4`; if they stay, something old holds it back: see "
			  "long-transactions and prepared",
	},
	{
		.name = "bloat",
		.flags = OF_TABLE,
		.none = "table and indexes are about as large as their rows",
		.trouble = "the $1 takes $2, for $3: most of it is empty",
		.advice = "`$4`",
	},
	{
		.name = "clock",
		.flags = NATIVE | QUEUE,
		.well = "the database's clock and this machine's agree",
		.trouble = "the database's clock is ~1 $2 this machine's: leases and "
			   "retries go by the database's alone, but times in logs differ",
		.advice = "set both by NTP",
	},
	{
		.name = "server",
		.well = "version $1, $2, $3",
		.trouble = "version $1, $2: it is $3, which cannot be written",
		.worse = "version $1 is older than Wherry is made for",
		.advice = "connect to the primary, of PostgreSQL 13 or later",
	},
	{
		.name = "sql-server",
		.well = "version $1, compatibility level $2, $3",
		.trouble = "version $1, $3: the database is read only",
		.worse =
			"the database has compatibility level $2, and relays need OPENJSON, "
			"which level 130 has",
		.advice =
			"connect to the primary; of level 120 or lower: `ALTER DATABASE "
			"CURRENT SET COMPATIBILITY_LEVEL = 130`, on SQL Server 2016 or later",
	},
	{
		.name = "row-versions",
		.none = "readers wait for no writer (READ_COMMITTED_SNAPSHOT is on)",
		.trouble = "READ_COMMITTED_SNAPSHOT is off in $1: readers of yours wait "
			   "for transactions that write; Wherry does not",
		.advice =
			"`ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON`, if the "
			"application allows it",
	},
	{
		.name = "isolation",
		.none = "no open transaction has an unusual isolation level",
		.trouble =
			"session $1 ($2, login $3) has a transaction open at the level $4: "
			"SQL Server refuses READPAST there, which receives and claims "
			"need, and SERIALIZABLE keeps producers waiting",
		.worse =
			"this connection works at the level $4, where SQL Server refuses "
			"READPAST, which receives and claims need",
		.advice = "`SET TRANSACTION ISOLATION LEVEL READ COMMITTED` before the "
			  "transaction",
	},
	{
		.name = "open-transactions",
		.none = "no transaction was found that wrote and has been open for long",
		.trouble =
			"session $1 ($2, login $3, $4) wrote to this database and has kept "
			"its transaction open for ~5: $6 wait, and the transaction log "
			"cannot be truncated",
		.advice = "let it commit, or `KILL $1`",
	},
	{
		.name = "unseen",
		.flags = STILL,
		.none = "this login sees what others do",
		.trouble = "sessions with long transactions or locks are not looked for: "
			   "$1",
		.advice = "$2",
	},
	{
		.name = "azure-tier",
		.none = "the database is not on a small or serverless tier of Azure",
		.trouble = "the tier $1 $2",
		.advice =
			"take a larger tier for many messages; of a serverless database "
			"set a longer relay.idle_interval, or stop the relay at night",
	},
	{
		.name = "azure-limits",
		.none = "the database stayed below the limits of an Azure tier",
		.trouble = "in the last hour $1 reached $2 % of what the tier allows, "
			   "for ~3 in all",
		.advice = "take a larger tier, or send fewer and smaller messages",
	},
	{
		.name = "altered-indexes",
		.flags = NATIVE,
		.none = "the indexes are as `wherry create` made them",
		.trouble = "the index $1 $2",
		.advice = "`$3`, then `wherry create$u`, which makes what is missing",
	},
	{
		.name = "columnstore",
		.flags = NATIVE | QUEUE,
		.none = "the table is kept by rows",
		.trouble = "the index $1 is a columnstore: it locks groups of rows, and "
			   "relays and receivers wait for each other",
		.advice = "`DROP INDEX $1 ON $2`",
	},
	{
		.name = "escalation",
		.flags = NATIVE,
		.none = "locks of rows stay locks of rows",
		.trouble =
			"lock escalation is $1: a transaction that adds 5,000 messages "
			"may lock the whole table until it ends",
		.advice = "`ALTER TABLE $2 SET (LOCK_ESCALATION = DISABLE)`",
	},
	{
		.name = "wal-level",
		.flags = STREAM | STILL,
		.none = "the WAL has rows (wal_level is logical)",
		.trouble = "wal_level is $1: the WAL has no rows, and relays read the "
			   "table instead",
		.worse = "wal_level is $1: the WAL has no rows, and the engine "
			 "stream cannot read it",
		.advice =
			"`ALTER SYSTEM SET wal_level = logical`, then restart the server",
	},
	{
		.name = "replication",
		.flags = STREAM,
		.none = "this role may read the WAL",
		.trouble =
			"role $1 may not read the WAL: a relay reads the table instead",
		.worse = "role $1 may not read the WAL: a relay fails under it",
		.advice =
			"`ALTER ROLE $2 REPLICATION`; of RDS: `GRANT rds_replication TO "
			"$2`",
	},
	{
		.name = "senders",
		.flags = STREAM,
		.well = "$1 of $2 replication slots and $3 of $4 WAL senders are in use",
		.trouble =
			"$1 of $2 replication slots and $3 of $4 WAL senders are in use: "
			"a relay reads the table instead of the WAL",
		.worse =
			"$1 of $2 replication slots and $3 of $4 WAL senders are in use: "
			"a relay that reads the WAL finds no room",
		.advice = "drop replication slots that nobody reads, or raise "
			  "max_replication_slots and max_wal_senders and restart the "
			  "server",
	},
	{
		.name = "wal-standbys",
		.flags = STREAM,
		.none = "no standby gets a commit later than a reader of the WAL",
		.trouble = "synchronous_standby_names is '$1', and the WAL has a commit "
			   "before the standby does: relays read the table instead",
		.advice =
			"leave relay.source out; or, if messages may be lost with the "
			"primary, `ALTER SYSTEM RESET synchronous_standby_names; SELECT "
			"pg_reload_conf()`",
	},
	{
		.name = "slot",
		.flags = STREAM,
		.none = "the replication slot of this outbox is there",
		.trouble =
			"a relay that reads the WAL has been here, and its replication "
			"slot $1 is gone",
		.advice = RESTORE,
	},
	{
		.name = "slot-of-others",
		.flags = STREAM | STILL,
		.none = "the replication slot is Wherry's",
		.trouble =
			"the replication slot $1 is of the plugin $2, in database $3: it "
			"is somebody else's",
		.advice =
			"name one with stream.slot, or, if nobody needs that one, `SELECT "
			"pg_drop_replication_slot('$1')`",
	},
	{
		.name = "slot-waits",
		.flags = STREAM | STILL,
		.none = "the replication slot waits for no transaction",
		.trouble =
			"the new replication slot $1 begins when the transactions have ended that are open now, and "
			"nothing is delivered until then; the oldest is $2",
		.advice = "let it end, or `$3`",
	},
	{
		.name = "unsendable",
		.flags = STREAM | STILL,
		.none = "the server can send the rows of the WAL",
		.trouble = "$1; all messages behind it wait",
		.advice =
			"see docs/guide/stream.md, \"Rows that the server cannot send\"",
	},
	{
		.name = "large-dead",
		.flags = STREAM | STILL,
		.none = "no relay writes a large message to wherry_dead",
		.trouble = "$1; all messages behind it wait",
		.advice = "they leave when it is written",
	},
	{
		.name = "slot-lost",
		.flags = STREAM,
		.none = "the WAL that the replication slot needs is there",
		.trouble = "the replication slot $1 keeps $3 of WAL, more than "
			   "max_slot_wal_keep_size ($2): the next checkpoint gives it up",
		.worse = "the replication slot $1 is lost: it kept more WAL than "
			 "max_slot_wal_keep_size ($2)",
		.advice = RESTORE,
	},
	{
		.name = "slot-unread",
		.flags = STREAM,
		.none = "a relay reads the replication slot",
		.trouble =
			"nobody reads the replication slot $1$2: it is $5 behind, keeps "
			"$3 of WAL, and $4",
		.advice =
			"start a relay: " WH_HOW_TO_RELAY
			"; or, if none is to come back, `SELECT pg_drop_replication_slot('$1')`",
	},
	{
		.name = "slot-lag",
		.flags = STREAM,
		.none = "the replication slot is not behind",
		.well = "pid $2 reads the replication slot $1 and is $3$5 behind; it "
			"keeps $4 of WAL",
		.trouble = "pid $2 reads the replication slot $1 and is $3$5 behind, a "
			   "lot of WAL or of time; it keeps $4 of WAL",
		.advice = "the destination is slow, or the relay is: see its log; a long "
			  "transaction that has just committed passes by itself",
	},
	{
		.name = "log",
		.flags = STREAM,
		.none = "no other replication slot keeps much WAL",
		.trouble = "the replication slot $1 ($2) keeps $3 of WAL, more than "
			   "max_wal_size",
		.advice = "have it read; if nobody needs it, `SELECT "
			  "pg_drop_replication_slot($1)`",
	},
	{
		.name = "publication",
		.flags = STREAM | STILL,
		.none = "the publication has the table, and what is inserted",
		.trouble =
			"the publication $1 $2: a relay takes from the table what does "
			"not come by the WAL",
		.worse = "the publication $1 $2: a relay does not see it",
		.advice = "`$3`",
	},
	{
		.name = "failover",
		.flags = STREAM,
		.none = "no standby would take over without the replication slot",
		.trouble =
			"standbys are connected ($2), and the replication slot $1 is not "
			"on them: after a failover it is gone; $3",
		.advice = RESTORE,
	},
};

const size_t wh_n_checks = sizeof(wh_checks) / sizeof(*wh_checks);
