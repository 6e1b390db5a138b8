#!/usr/bin/env bash
# wherry adopt on the SQL Server that WHERRY_TEST_MSSQL names: tables of other programs, relayed where they are.
#
# Writes TAP.

if [ -z "${WHERRY_TEST_MSSQL:-}" ]; then
	printf '1..1\nok 1 - SQL Server # SKIP WHERRY_TEST_MSSQL names no server\n'
	exit 0
fi

# shellcheck source=tests/system/cli.bash
. "$(dirname "$0")/cli.bash"
# shellcheck source=tests/system/mssql.bash
. "$source_dir/tests/system/mssql.bash"

url=$WHERRY_TEST_MSSQL
relay() { # OUTBOX [OPTION...]: delivers what is there
	rm -f got.ndjson
	w relay "$url#$1" file:got.ndjson --until-empty --timeout 120s "${@:2}"
}
got() { # JQ TEXT: of each message that the last relay delivered
	is "$([ ! -e got.ndjson ] || jq -r "$1" got.ndjson | paste -sd' ')" "$2"
}
answers() { # SQL TEXT
	is "$(run_sql "$1" | paste -sd' ')" "$2"
}
schema() { # TABLE: its columns and indexes
	run_sql "SELECT c.name, TYPE_NAME(c.system_type_id) FROM sys.columns AS c WHERE c.object_id = OBJECT_ID(N'$1') ORDER BY c.column_id"
	run_sql "SELECT i.name FROM sys.indexes AS i WHERE i.object_id = OBJECT_ID(N'$1') ORDER BY i.name"
}
clear_database

# ---- a team's own table ----

run_sql "CREATE TABLE domain_events(event_no BIGINT IDENTITY PRIMARY KEY, event_id UNIQUEIDENTIFIER NOT NULL DEFAULT NEWID(),
	type VARCHAR(100) NOT NULL, order_id INT, data NVARCHAR(MAX) NOT NULL, meta NVARCHAR(MAX),
	occurred_at DATETIMEOFFSET(3) NOT NULL DEFAULT SYSDATETIMEOFFSET(), published_at DATETIME2(3));
INSERT INTO domain_events(type, order_id, data, meta, published_at)
SELECT 'order.made', v.n % 3, CONCAT(N'{\"n\":', v.n, N'}'), N'{\"user\": \"eva\", \"deep\": {\"x\": 1}}', CASE WHEN v.n <= 7 THEN SYSUTCDATETIME() END
FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)) AS v(n) ORDER BY v.n"
before=$(schema domain_events)
w adopt "$url#domain_events" --key order_id
expect "a plan says what is taken for what" 0 "out:  topic          type" "out:  body           data" \
	"out:when delivered published_at is set" "out:what is not delivered: 3 rows" "out:row versions" "out:add --yes"
check "and changes nothing" is "$(schema domain_events)" "$before"
w adopt "$url#domain_events" --key order_id --yes
expect "the table is adopted" 0 "out:domain_events_log"
w adopt "$url#domain_events" --key order_id --yes
expect "twice is fine" 0 "out:again"
w status "$url#domain_events_log"
expect "what is not delivered is pending" 0 "out:pending     3"
relay domain_events_log
expect "it is delivered" 0 "err:3 delivered"
check "with its fields" got '[.id, .topic, .key, .body.n, .headers.user, (.headers.deep | fromjson | .x)] | map(tostring) | join("/")' \
	'8/order.made/2/8/eva/1 9/order.made/0/9/eva/1 10/order.made/1/10/eva/1'
check "the message id is the event's" is "$(jq -r .message_id got.ndjson | head -n 1)" \
	"$(run_sql "SELECT LOWER(CAST(event_id AS NVARCHAR(36))) FROM domain_events WHERE event_no = 8")"
check "and its rows say so" answers "SELECT COUNT(*) FROM domain_events WHERE published_at IS NULL" 0
run_sql "UPDATE domain_events SET data = N'{}' WHERE event_no = 9"
relay domain_events_log
check "a row that is done is not delivered again if it changes" got .topic ""
w relay "$url#domain_events_log" exec:false --until-empty --set retry.attempts=1
run_sql "INSERT INTO domain_events(type, data) VALUES ('order.lost', N'{}')"
w relay "$url#domain_events_log" exec:false --until-empty --set retry.attempts=1
expect "a message dies" 3 "err:1 dead"
check "a dead one is not called published" answers "SELECT COUNT(*) FROM domain_events WHERE published_at IS NULL" 1
w retry "$url#domain_events_log" --all
relay domain_events_log
check "it is tried again" got .topic order.lost
check "and is published" answers "SELECT COUNT(*) FROM domain_events WHERE published_at IS NULL" 0

# ---- operators, subscriptions, consumers ----

run_sql "INSERT INTO domain_events(type, data) VALUES ('a', N'{}'), ('b', N'{}')"
w discard "$url#domain_events_log" "$(run_sql "SELECT event_no FROM domain_events WHERE type = 'a'")" --yes
expect "a message is discarded" 0
relay domain_events_log
check "and not delivered" got .topic b
check "its row is there" answers "SELECT COUNT(*) FROM domain_events WHERE type = 'a'" 1
w create "$url#domain_events_log/audit" --from now --topics 'audit.*'
run_sql "INSERT INTO domain_events(type, data) VALUES ('audit.x', N'{\"n\": 1}')"
relay domain_events_log
check "one subscription is not all" answers "SELECT COUNT(*) FROM domain_events WHERE published_at IS NULL" 1
consumed=$(run_sql "BEGIN TRANSACTION; EXEC wherry_consume N'audit', 10, N'domain_events_log'; COMMIT TRANSACTION")
check "consumers read it" is "$(cut -d'|' -f1-6 <<<"$consumed")" \
	"$(run_sql "SELECT CONCAT(event_no, N'|', LOWER(CAST(event_id AS NVARCHAR(36)))) FROM domain_events WHERE type = 'audit.x'")|audit.x||{}|{\"n\": 1}"
relay domain_events_log
check "when all have it, it is published" answers "SELECT COUNT(*) FROM domain_events WHERE published_at IS NULL" 0
w drop "$url#domain_events_log/audit" --yes
w enqueue "$url#domain_events_log" --topic x '{}'
expect "its owner writes it" 1 "err:which alone writes its messages"
w tables "$url"
expect "it is among the tables" 0 "out:domain_events_log"
w doctor "$url#domain_events_log"
expect "the doctor finds nothing" 0
run_sql "DROP INDEX domain_events_log_rv ON domain_events"
w doctor "$url#domain_events_log"
expect "but misses its index" 1 "out:no index"
run_sql "DROP PROCEDURE domain_events_log_delivered"
w doctor "$url#domain_events_log"
expect "and its procedure" 1 "out:procedure that marks or deletes rows"
w adopt "$url#domain_events" --key order_id --yes
expect "adopt makes both again" 0
w doctor "$url#domain_events_log"
expect "and the doctor is content" 0
w drop "$url#domain_events_log" --yes
expect "it is dropped" 0 "out:has its rows"
check "and the table is as it was" is "$(schema domain_events)" "$before"
check "nothing of it is left" answers "SELECT COUNT(*) FROM sys.objects WHERE name LIKE 'domain[_]events[_]log%' OR name LIKE 'wherry[_]%' AND name <> 'wherry_clock'" 0

# ---- other tables ----

run_sql "CREATE TABLE mails(id INT IDENTITY PRIMARY KEY, recipient NVARCHAR(100), body NVARCHAR(MAX), sent BIT NOT NULL DEFAULT 0, created DATETIME DEFAULT GETUTCDATE());
INSERT INTO mails(recipient, body) VALUES (N'a', N'eins'), (N'b', NULL), (NULL, N'drei')"
w adopt "$url#mails"
expect "a topic that no column has is asked for" 2 "err:--topic =TEXT"
w adopt "$url#mails" --topic =mails --key recipient --yes
relay mails_log
check "the same topic in each message" got '[.topic, .key, .body] | map(tostring) | join("/")' 'mails/a/eins mails/b/ mails/null/drei'
check "a flag is set" answers "SELECT COUNT(*) FROM mails WHERE sent = 1" 3
run_sql "CREATE TABLE keyed(id UNIQUEIDENTIFIER PRIMARY KEY DEFAULT NEWID(), aggregate_type NVARCHAR(32), aggregate_id UNIQUEIDENTIFIER,
	event_type NVARCHAR(100), payload NVARCHAR(MAX), status NVARCHAR(20) NOT NULL DEFAULT N'NEW', created_at DATETIME2(3) DEFAULT SYSUTCDATETIME());
INSERT INTO keyed(aggregate_type, aggregate_id, event_type, payload) VALUES (N'order', NEWID(), N't1', N'{}')"
w adopt "$url#keyed" --done "status = N'SENT'" --yes
expect "a table without a number gets one" 0
run_sql "INSERT INTO keyed(aggregate_type, aggregate_id, event_type, payload) VALUES (N'order', NEWID(), N't2', N'{}')"
run_sql "INSERT INTO keyed(aggregate_type, aggregate_id, event_type, payload) VALUES (N'order', NEWID(), N't3', N'{}')"
relay keyed_log
check "in the order of its rows" got .topic "t1 t2 t3"
check "a state is set" answers "SELECT COUNT(*) FROM keyed WHERE status = N'SENT'" 3
w adopt "$url#keyed" --as keyed_2 --done "event_type = N'SENT'"
expect "a state that may be NULL is refused" 2 "err:make it NOT NULL first"
run_sql "CREATE TABLE gone(id BIGINT IDENTITY PRIMARY KEY, type NVARCHAR(20), payload VARBINARY(MAX), version ROWVERSION,
	created_at DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME());
INSERT INTO gone(type, payload, created_at) VALUES (N'old', 0x00ff, DATEADD(HOUR, -1, SYSUTCDATETIME()))"
w adopt "$url#gone" --done delete --yes
expect "a table with a row version needs no other" 0
run_sql "INSERT INTO gone(type, payload) VALUES (N'new', CAST('x' AS VARBINARY(MAX)))"
relay gone_log --set outbox.retention=10m
check "bytes are delivered" got '[.body_base64, .body] | map(tostring) | join("/")' "AP8=/null null/x"
check "what is older than the retention is deleted" answers "SELECT type FROM gone" new
run_sql "EXEC(N'CREATE SCHEMA Shop')"
run_sql "CREATE TABLE Shop.Events(Id BIGINT IDENTITY PRIMARY KEY, Type NVARCHAR(20), Data NVARCHAR(MAX), [O'K] NVARCHAR(20));
INSERT INTO Shop.Events(Type, Data, [O'K]) VALUES (N'x', N'{}', N'k')"
w adopt "$url#Shop.Events" --key "O'K" --where "Type <> N'secret'" --body "(CONCAT('{\"id\":', Id, '}'))" --yes
expect "names with capitals, in another schema" 0
run_sql "INSERT INTO Shop.Events(Type) VALUES (N'secret'), (N'y')"
relay Shop.Events_log
check "an expression and a condition" got '[.topic, .key, .body.id] | map(tostring) | join("/")' "x/k/1 y/null/3"
run_sql "UPDATE Shop.Events SET Data = N'changed' WHERE Id = 1"
relay Shop.Events_log
check "a row that stays is delivered again if its owner changes it" got .body.id 1
w drop "$url#Shop.Events_log" --yes
w adopt "$url#mails" --topic "(nocol + 'x')"
expect "an expression that fails is seen before" 1 "err:these expressions cannot be read"

# ---- tables of known programs ----

known() { # NAME COLUMNS
	run_sql "CREATE TABLE $1($2)"
	w adopt "$url#$1"
	expect "$1 is known" 0 "out:it looks like"
}
known OutboxMessage 'SequenceNumber BIGINT IDENTITY PRIMARY KEY, EnqueueTime DATETIME2, SentTime DATETIME2 NOT NULL, Headers NVARCHAR(MAX),
	Properties NVARCHAR(MAX), InboxMessageId UNIQUEIDENTIFIER, InboxConsumerId UNIQUEIDENTIFIER, OutboxId UNIQUEIDENTIFIER,
	MessageId UNIQUEIDENTIFIER NOT NULL, ContentType NVARCHAR(256) NOT NULL, MessageType NVARCHAR(MAX) NOT NULL, Body NVARCHAR(MAX) NOT NULL,
	ConversationId UNIQUEIDENTIFIER, CorrelationId UNIQUEIDENTIFIER, InitiatorId UNIQUEIDENTIFIER, RequestId UNIQUEIDENTIFIER,
	SourceAddress NVARCHAR(256), DestinationAddress NVARCHAR(256), ResponseAddress NVARCHAR(256), FaultAddress NVARCHAR(256), ExpirationTime DATETIME2'
w adopt "$url#OutboxMessage" --yes
run_sql "INSERT INTO OutboxMessage(SentTime, Headers, MessageId, ContentType, MessageType, Body)
	VALUES (DATEADD(DAY, -1, SYSUTCDATETIME()), N'{\"a\":\"b\"}', NEWID(), N'application/json', N'urn:message:Shop:OrderMade', N'{\"n\":1}')"
relay OutboxMessage_log --set outbox.retention=1h
check "its messages are delivered" got '[.topic, .headers.a, .body.n] | map(tostring) | join("/")' "urn:message:Shop:OrderMade/b/1"
check "and deleted" answers "SELECT COUNT(*) FROM OutboxMessage" 0
run_sql "EXEC(N'CREATE SCHEMA cap')"
known cap.Published 'Id BIGINT NOT NULL PRIMARY KEY, Version NVARCHAR(20) NOT NULL, Name NVARCHAR(200) NOT NULL, Content NVARCHAR(MAX),
	Retries INT NOT NULL, Added DATETIME2(7) NOT NULL, ExpiresAt DATETIME2(7), StatusName NVARCHAR(50) NOT NULL'
run_sql "INSERT INTO cap.Published(Id, Version, Name, Content, Retries, Added, StatusName) VALUES
	(7000000000000000001, N'v1', N'order.made', N'{\"Value\":{}}', 0, SYSUTCDATETIME(), N'Scheduled'),
	(6000000000000000001, N'v1', N'order.old', N'{}', 0, SYSUTCDATETIME(), N'Succeeded')"
w adopt "$url#cap.Published" --yes
relay cap.Published_log
check "only what was not sent" got .topic order.made
check "and then it was" answers "SELECT COUNT(*) FROM cap.Published WHERE StatusName = N'Succeeded'" 2
run_sql "INSERT INTO cap.Published(Id, Version, Name, Content, Retries, Added, StatusName) VALUES (5, N'v1', N'lower', N'{}', 0, SYSUTCDATETIME(), N'Scheduled')"
relay cap.Published_log
check "an id that does not grow is read" got .topic lower
w drop "$url#cap.Published_log" --yes
known wolverine_outgoing_envelopes 'id UNIQUEIDENTIFIER PRIMARY KEY, owner_id INT NOT NULL, destination VARCHAR(250) NOT NULL,
	deliver_by DATETIMEOFFSET, body VARBINARY(MAX) NOT NULL, attempts INT DEFAULT 0, message_type VARCHAR(250) NOT NULL'
known event_publication 'id UNIQUEIDENTIFIER PRIMARY KEY, listener_id VARCHAR(512) NOT NULL, event_type VARCHAR(512) NOT NULL,
	serialized_event VARCHAR(4000) NOT NULL, publication_date DATETIME2(6) NOT NULL, completion_date DATETIME2(6), status VARCHAR(20) NOT NULL,
	completion_attempts INT, last_resubmission_date DATETIME2(6)'
w adopt "$url#event_publication" --where "listener_id = 'kafka'" --yes
run_sql "INSERT INTO event_publication(id, listener_id, event_type, serialized_event, publication_date, status) VALUES
	(NEWID(), 'kafka', 'shop.Made', '{}', SYSUTCDATETIME(), 'PUBLISHED'), (NEWID(), 'mail', 'shop.Made', '{}', SYSUTCDATETIME(), 'PUBLISHED')"
relay event_publication_log
check "one listener's" got .topic shop.Made
check "are completed" answers "SELECT CONCAT(listener_id, status, CASE WHEN completion_date IS NULL THEN 0 ELSE 1 END) FROM event_publication ORDER BY listener_id" \
	"kafkaCOMPLETED1 mailPUBLISHED0"

# ---- a table that is not the same any more ----

run_sql "CREATE TABLE fresh(id BIGINT IDENTITY PRIMARY KEY, type NVARCHAR(20), data NVARCHAR(MAX))"
w adopt "$url#fresh" --yes
run_sql "INSERT INTO fresh(type, data) VALUES (N'a1', N'{}'), (N'a2', N'{}')"
relay fresh_log
run_sql "TRUNCATE TABLE fresh; INSERT INTO fresh(type, data) VALUES (N'b1', N'{}'), (N'b2', N'{}')"
relay fresh_log
check "ids that begin again after TRUNCATE are new" got .topic "b1 b2"
run_sql "DROP TRIGGER fresh_log_keep; DROP VIEW fresh_log; DROP TABLE fresh;
	CREATE TABLE fresh(id BIGINT IDENTITY PRIMARY KEY, type NVARCHAR(20), data NVARCHAR(MAX))"
run_sql "INSERT INTO fresh(type, data) VALUES (N'c1', N'{}'), (N'c2', N'{}')"
relay fresh_log
expect "a table that was dropped is missed" 1 "err:fresh_log"
w adopt "$url#fresh" --yes
relay fresh_log
check "its successor is read from its start" got .topic "c1 c2"
run_sql "DROP TRIGGER fresh_log_keep; DROP VIEW fresh_log; DROP TABLE fresh"
w drop "$url#fresh_log" --yes
expect "an outbox whose table is gone is dropped" 0
check "and nothing of it is left" answers "SELECT COUNT(*) FROM sys.objects WHERE name LIKE 'fresh%'" 0
clear_database
finish
