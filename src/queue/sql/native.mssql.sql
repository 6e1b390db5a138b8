-- layout: name=native names=qualified payloads=text,bytea columns=id,message_id,body,state,available_at,lease_token
--
-- The native queue on SQL Server.  Times are DATETIME2, UTC, which the driver reads as Unix
-- milliseconds, and always the database's clock.
--
-- state: 0 ready, 1 leased, 3 waiting (delayed, or to be retried), 4 dead.  available_at is NULL
-- while a message is ready; the end of the lease while it is leased; when it is due while it waits.
-- Acknowledged messages are deleted.  Each state has a separate index, and a row is in one of them.
--
-- Locks: docs/internals/queues.md says for each statement which locks it holds and which it waits for.
-- A statement that looks for rows reads them with the hints of a part "…_rows":
--   READCOMMITTEDLOCK  SQL Server refuses READPAST in a database with READ_COMMITTED_SNAPSHOT
--                      without it, and a version of the row would say nothing about its lock
--   READPAST           passes over rows that another transaction has locked
--   UPDLOCK            keeps what was read: a second receiver cannot read it before the update
--   ROWLOCK            READPAST passes over rows, not over pages
--   INDEX              the plan does not depend on statistics: a scan of the table would lock
--                      rows that the statement does not take
-- The table that is changed is joined to these rows by id, and the condition is repeated there: a
-- server without such locks compares the row as it is by then.

-- include: mssql.sql

-- include: mssql.own.sql

-- include: mssql.report.sql

-- include: mssql.relays.sql

-- part: after_delay
DATEADD(MILLISECOND, CAST(:delay % 86400000 AS INT), DATEADD(DAY,
  CAST(CASE WHEN :delay < 3153600000000 THEN :delay ELSE 3153600000000 END / 86400000 AS INT), {now}))

-- part: timed
-- Time from which a row can be received, as an expression of its index.
state IN (1, 3)

-- part: ready_rows
{table} WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK, INDEX({bare_ready}))

-- part: timed_rows
{table} WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK, INDEX({bare_timed}))

-- part: dead_rows
{table} WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK, INDEX({bare_dead}))

-- part: expires_rows
{table} WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK, INDEX({bare_expires}))

-- part: looked_at
-- Rows to count or show: READPAST skips rows that an open transaction has changed.
{table} WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)

-- part: whole
-- A condition that is true for every row, on a column that no index has: so SQL Server locks the row
-- itself together with its entry in the index, or skips it.  Without this condition a settlement, which
-- locks the row first, and a receive, which locks the entry first, could wait for each other.
attempts <= 2147483647

-- part: index_ready
CREATE INDEX {bare_ready} ON {table}(id) INCLUDE (state) WHERE state = 0;

-- part: index_timed
CREATE INDEX {bare_timed} ON {table}(available_at) INCLUDE (state) WHERE {timed};

-- part: index_dead
CREATE INDEX {bare_dead} ON {table}(id) INCLUDE (state) WHERE state = 4;

-- part: index_expires
CREATE INDEX {bare_expires} ON {table}(expires_at) INCLUDE (state) WHERE expires_at IS NOT NULL AND state <> 4;

-- part: indexes
-- Babelfish appends a suffix to the names of indexes.
(SELECT LEFT(x.name, LEN(i.name)) AS name FROM sys.indexes AS x JOIN (VALUES
   (N{name} + N'_ready'), (N{name} + N'_timed'), (N{name} + N'_dead'), (N{name} + N'_expires')) AS i(name)
 ON LEFT(x.name, LEN(i.name)) = i.name
 WHERE x.object_id = OBJECT_ID(N{'table}, N'U'))

-- part: sane
id > 0 AND attempts BETWEEN 0 AND 1000000000 AND DATALENGTH(headers) <= 2097152
  AND (state = 4 OR (state = 0 AND available_at IS NULL) OR (state <> 0 AND available_at IS NOT NULL))
  AND (state <> 1 OR lease_token IS NOT NULL)
  AND created_at >= '19700101' AND (available_at IS NULL OR available_at >= '19700101')
  AND (expires_at IS NULL OR expires_at >= '19700101')

-- part: own_subscription
CREATE TRIGGER {wherry_own_subscription} ON {wherry_subscription} AFTER INSERT, UPDATE, DELETE AS
BEGIN
  {names} SELECT queue FROM inserted UNION SELECT queue FROM deleted;
  {deny_others}
END

-- include: procedures.mssql.sql

-- name: migrate-1
{own_tables}
IF OBJECT_ID(N{'wherry_subscription}, N'U') IS NULL
  -- SQL Server ignores blanks at the end of a text when it compares, so topics are compared by their hash.
  CREATE TABLE {wherry_subscription}(
    topic      NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL,
    queue      NVARCHAR(128) COLLATE Latin1_General_BIN2 NOT NULL,
    topic_hash AS CAST(HASHBYTES('SHA2_256', topic) AS BINARY(32)) PERSISTED NOT NULL,
    PRIMARY KEY (topic_hash, queue)
  );
IF OBJECT_ID(N{'wherry_own_subscription}, N'TR') IS NULL EXEC (N{'own_subscription});
IF OBJECT_ID(N{'table}, N'U') IS NULL
  CREATE TABLE {table}(
    id             BIGINT IDENTITY(1,1) PRIMARY KEY,
    message_id     NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL
                     DEFAULT LOWER(CONVERT(NVARCHAR(36), NEWID())),
    topic          NVARCHAR(255) COLLATE Latin1_General_BIN2,  -- it was published to; NULL: it was sent to this queue
    correlation_id NVARCHAR(255) COLLATE Latin1_General_BIN2,
    reply_to       NVARCHAR(255) COLLATE Latin1_General_BIN2,
    headers        NVARCHAR(MAX) NOT NULL DEFAULT N'{}',
    state          TINYINT NOT NULL DEFAULT 0 CHECK (state IN (0, 1, 3, 4)),
    attempts       INT NOT NULL DEFAULT 0,
    max_attempts   INT CHECK (max_attempts > 0),  -- it dies after so many; NULL: the receiver says how many
    available_at   DATETIME2(3),
    expires_at     DATETIME2(3),
    lease_token    NVARCHAR(64) COLLATE Latin1_General_BIN2,
    created_at     DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
    last_error     NVARCHAR(2000),
    body           {payload_type} NOT NULL,
    CONSTRAINT {bare_sane} CHECK ({sane})
  );
IF NOT EXISTS (SELECT 1 FROM {indexes} AS x WHERE x.name = N{name} + N'_ready')
  {index_ready}
IF NOT EXISTS (SELECT 1 FROM {indexes} AS x WHERE x.name = N{name} + N'_timed')
  {index_timed}
IF NOT EXISTS (SELECT 1 FROM {indexes} AS x WHERE x.name = N{name} + N'_dead')
  {index_dead}
IF NOT EXISTS (SELECT 1 FROM {indexes} AS x WHERE x.name = N{name} + N'_expires')
  {index_expires}
{stub_procedures}
{make_procedures}
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'queue' AND name = N{name})
  INSERT INTO {wherry_schema}(model, name, version, min_program) VALUES (N'queue', N{name}, 1, 100);

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM {wherry_schema} WHERE model = N'queue' AND name = :name;

-- name: columns
{column_names};

-- name: indexes-missing
-- If a procedure is missing or of another version, the queue needs to be made again.
SELECT 4 - COUNT(DISTINCT x.name) + {procedures_stale} FROM {indexes} AS x;

-- name: payload-type
SELECT CASE TYPE_NAME(c.system_type_id) WHEN N'varbinary' THEN N'bytea' ELSE N'text' END
FROM sys.columns AS c WHERE c.object_id = OBJECT_ID(N{'table}, N'U') AND c.name = N'body';

-- name: drop
DROP TABLE {table};
DELETE FROM {wherry_subscription} WHERE queue = N{name};
DELETE FROM {wherry_schema} WHERE model = N'queue' AND name = N{name};
{drop_relays}
-- When the last queue is dropped, drop the tables and procedures that only queues share.
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'queue')
BEGIN
  DROP TABLE {wherry_subscription};
  {drop_procedures}
END;

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- name: send
-- A message expires :expires milliseconds after it is due.
INSERT INTO {table}(message_id, topic, correlation_id, reply_to, headers, body, state,
                    available_at, expires_at)
VALUES (:message_id, :topic, :correlation_id, :reply_to, :headers, CAST(:body AS {payload_type}),
  CASE WHEN :delay > 0 THEN 3 ELSE 0 END,
  CASE WHEN :delay > 0 THEN {after_delay} END,
  CASE WHEN :ttl > 0 THEN DATEADD(MILLISECOND, CAST(:ttl % 86400000 AS INT), DATEADD(DAY,
    CAST(CASE WHEN :ttl < 3153600000000 THEN :ttl ELSE 3153600000000 END / 86400000 AS INT), {after_delay})) END);
SELECT CAST(SCOPE_IDENTITY() AS BIGINT);

-- name: cancel
-- Delete a message that nobody has received.
DELETE FROM {table} WHERE id = :id AND state IN (0, 3);

-- part: shown
{.}id, {.}state, {.}attempts, {.}created_at, {.}available_at, {.}expires_at,
  CASE WHEN {.}expires_at <= {now} THEN 1 ELSE 0 END AS expired,
  {.}message_id, {.}topic, {.}correlation_id, {.}reply_to, {.}headers, {.}last_error, {.}body

-- part: asked
-- Parameters of a receive, and the number of rows that were due.
DECLARE @full BIGINT = :full, @after BIGINT = :after, @limit BIGINT = :limit, @due BIGINT = 0,
  @now DATETIME2(3) = {now};

-- name: receive
-- The part lease_rows in parts/procedures.mssql.sql explains this statement.
{asked}
DECLARE @most BIGINT = :most, @token NVARCHAR(64) = :token, @until DATETIME2(3) = {until};
{lease_rows}
SELECT {shown:t}, @due FROM {table} AS t JOIN @got AS g ON g.id = t.id ORDER BY t.id;

-- name: take
{asked}
{take_rows}
SELECT {shown:g}, @due FROM @got AS g ORDER BY g.id;

-- name: make-dead
-- unused: id
-- Insert a message that was deleted and cannot be handled again, as dead, with a new id: writing the
-- old id into an identity column needs the right to alter the table.
-- A time before 1970 becomes 1970, which the table requires.  Babelfish has no last second of 9999.
DECLARE @created BIGINT = CASE WHEN :created < 0 THEN 0 WHEN :created > 253402214400000 THEN 253402214400000
  ELSE :created END;
INSERT INTO {table}(message_id, topic, correlation_id, reply_to, headers, body, state,
                    attempts, created_at, last_error)
VALUES (:message_id, :topic, :correlation_id, :reply_to, :headers, CAST(:body AS {payload_type}), 4, :attempts,
  DATEADD(MILLISECOND, CAST(@created % 86400000 AS INT), DATEADD(DAY, CAST(@created / 86400000 AS INT),
    CAST('19700101' AS DATETIME2(3)))),
  :error);

-- part: own
-- Rows with these ids that are leased under this token, found by the primary key.
{ids} AS j JOIN {table} AS t {by_seek} ON t.id = j.id WHERE t.lease_token = :token AND t.state = 1
{loop}

-- name: ack
DELETE t FROM {own};

-- name: nack
-- A message that is given back waits for its delay, or is due at once.  If the attempt is not counted, the message is
-- ready in its old place.  After its last attempt it becomes dead
-- (a_message_given_back_after_its_last_attempt_is_dead).
UPDATE t SET
  state = CASE WHEN t.attempts - :back >= t.max_attempts THEN 4 WHEN :delay > 0 OR :back = 0 THEN 3 ELSE 0 END,
  available_at = CASE WHEN t.attempts - :back >= t.max_attempts THEN NULL WHEN :delay > 0 OR :back = 0 THEN {after_delay} END,
  attempts = CASE WHEN t.attempts > :back THEN t.attempts - :back ELSE 0 END,
  lease_token = NULL, last_error = COALESCE(:error, t.last_error,
    CASE WHEN t.attempts - :back >= t.max_attempts THEN N'it was given back after its last attempt' END)
FROM {own};

-- name: extend
UPDATE t SET available_at = {until} FROM {own};

-- name: dead-letter
UPDATE t SET state = 4, lease_token = NULL, available_at = NULL, last_error = :error FROM {own};

-- part: over
expires_at IS NOT NULL AND state <> 4 AND expires_at <= {now}

-- name: expire
-- Delete messages that have expired, but no leased ones except those of the token in :token.
DELETE t FROM (
  SELECT TOP (:limit) id FROM {expires_rows}
  WHERE {over}
    AND (state <> 1 OR available_at <= {now} OR lease_token = :token)
  ORDER BY expires_at) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.state <> 4 AND t.expires_at <= {now}
{loop};

-- part: bit
-- Condition: the row has one of the states in the mask.
CASE {.}state WHEN 0 THEN 1 WHEN 1 THEN 2 WHEN 3 THEN 8 WHEN 4 THEN 16 ELSE 0 END

-- name: peek
SELECT TOP (:limit) {shown} FROM {looked_at} WHERE id > :after AND :states & {bit} <> 0 ORDER BY id;

-- name: show
SELECT {shown} FROM {table} WHERE id = :id;

-- name: count
-- Count ready, leased, waiting and dead messages, read the age of the oldest ready one, and count the
-- expired ones.  An expired message has its state until a receiver deletes it.
SELECT (SELECT COUNT_BIG(*) FROM {looked_at} WHERE state = 0),
       (SELECT COUNT_BIG(*) FROM {looked_at} WHERE {timed} AND state + 0 = 1),
       (SELECT COUNT_BIG(*) FROM {looked_at} WHERE {timed} AND state + 0 = 3),
       (SELECT COUNT_BIG(*) FROM {looked_at} WHERE state = 4),
       ISNULL((SELECT CASE WHEN f.age > 0 THEN f.age ELSE 0 END FROM (
         SELECT TOP (1) DATEDIFF_BIG(MILLISECOND, created_at, {now}) AS age
         FROM {looked_at} WHERE state = 0 ORDER BY id) AS f), 0),
       (SELECT COUNT_BIG(*) FROM {looked_at} WHERE {over} AND (state <> 1 OR available_at <= {now}));

-- name: estimate
-- Number of rows by the server's statistics, without counting.
SELECT ISNULL(SUM(p.rows), 0) FROM sys.partitions AS p
WHERE p.object_id = OBJECT_ID(N{'table}, N'U') AND p.index_id IN (0, 1);

-- part: left
-- Milliseconds until the row can be received.
CASE WHEN {.}available_at > {now} THEN DATEDIFF_BIG(MILLISECOND, {now}, {.}available_at) ELSE 0 END

-- name: next-due
-- Milliseconds until a message can be received; 0: now; -1: no message waits or is leased.
SELECT ISNULL(ISNULL((SELECT TOP (1) CAST(0 AS BIGINT) FROM {looked_at} WHERE state = 0 ORDER BY id),
                     (SELECT TOP (1) {left} FROM {looked_at} WHERE {timed} ORDER BY available_at)), -1);

-- name: inspect
-- Faults of the table, each with the SQL that repairs it.
SELECT N'the index ' + i.name + N' is missing', i.repair
FROM (VALUES (N{name} + N'_ready', N{'index_ready}), (N{name} + N'_timed', N{'index_timed}),
             (N{name} + N'_dead', N{'index_dead}), (N{name} + N'_expires', N{'index_expires})) AS i(name, repair)
WHERE NOT EXISTS (SELECT 1 FROM {indexes} AS x WHERE x.name = i.name)
UNION ALL
SELECT N'the procedures of queues are missing, or another version of Wherry made them', NULL
WHERE {procedures_stale} > 0
UNION ALL
SELECT N'the column ' + c.name + N' is missing', N'ALTER TABLE ' + N{'table} + N' ADD ' + c.name + N' ' + c.type + N';'
FROM (VALUES (N'topic', N'NVARCHAR(255)'), (N'correlation_id', N'NVARCHAR(255)'), (N'reply_to', N'NVARCHAR(255)'),
             (N'max_attempts', N'INT'), (N'expires_at', N'DATETIME2(3)'), (N'last_error', N'NVARCHAR(2000)')) AS c(name, type)
WHERE NOT EXISTS (SELECT 1 FROM sys.columns AS x WHERE x.object_id = OBJECT_ID(N{'table}, N'U') AND x.name = c.name);

-- name: retry-dead
-- Make dead messages ready again, in the order of their ids.
UPDATE t SET state = 0, attempts = 0, lease_token = NULL, available_at = NULL
FROM (
  SELECT TOP (:limit) id FROM {dead_rows}
  WHERE state = 4 AND (:id = 0 OR id = :id) AND {whole} ORDER BY id) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.state = 4
{loop};

-- name: discard
-- Delete a message of any state.  A receiver that has leased it cannot acknowledge it afterwards.
DELETE FROM {table} WHERE id = :id;

-- name: purge-states
DELETE t FROM (
  SELECT TOP (:limit) id FROM {table} WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK)
  WHERE state <> 1 AND :states & {bit} <> 0 ORDER BY id) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.state <> 1
{loop};

-- part: relayed
-- Columns of a claimed row, in the form that the store reads.
{.}created_at, 0, {.}message_id, COALESCE({.}topic, N{name}), N'', N'', NULL, {.}headers, NULL, {.}body

-- part: lives
-- Condition: the message has not expired.
(expires_at IS NULL OR expires_at > {now})

-- part: claims
-- Return the rows that were claimed, in the order of their ids.
state = 1, lease_token = :token, available_at = {until}

-- part: is_due
{timed} AND available_at <= {now}

-- part: claimed_ids
DECLARE @got TABLE(id BIGINT NOT NULL PRIMARY KEY);

-- part: claimed
SELECT t.id, 0, t.attempts, {relayed:t} FROM {table} AS t JOIN @got AS g ON g.id = t.id ORDER BY t.id

-- name: claim-end
-- Rows have no keys, so a claim skips none and begins with the first row.
SELECT 0, COUNT_BIG(*) FROM (SELECT TOP (1) id FROM {looked_at} WHERE state = 0 ORDER BY id) AS f;

-- name: claim
{claimed_ids}
UPDATE t SET {claims} OUTPUT inserted.id INTO @got
FROM (
  SELECT TOP (:limit) id FROM {ready_rows} WHERE state = 0 AND {lives} ORDER BY id) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.state = 0
{loop};
{claimed};

-- name: claim-due
{claimed_ids}
UPDATE t SET {claims} OUTPUT inserted.id INTO @got
FROM (
  SELECT TOP (:limit) id FROM {timed_rows}
  WHERE {is_due} AND state + 0 = 3 AND {lives} ORDER BY available_at) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.state = 3
{loop};
{claimed};

-- name: expired
SELECT TOP (1) lease_token, COUNT_BIG(*) FROM {looked_at}
WHERE {is_due} AND state + 0 = 1 AND {lives}
GROUP BY lease_token ORDER BY MIN(available_at);

-- name: claim-share
{claimed_ids}
UPDATE t SET {claims} OUTPUT inserted.id INTO @got
FROM (
  SELECT TOP (:limit) id FROM {timed_rows}
  WHERE {is_due} AND state + 0 = 1 AND lease_token = :of AND {lives} ORDER BY id) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.state = 1 AND t.lease_token = :of
{loop};
{claimed};

-- name: claim-expired
{claimed_ids}
UPDATE t SET {claims}, attempts = {again:t} OUTPUT inserted.id INTO @got
FROM (
  SELECT TOP (1) id FROM {timed_rows}
  WHERE {is_due} AND state + 0 = 1 AND {lives} ORDER BY available_at) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.state = 1 AND t.available_at <= {now}
{loop};
SELECT t.id, 1, t.attempts - 1, {relayed:t} FROM {table} AS t JOIN @got AS g ON g.id = t.id;

-- part: first_of
-- Milliseconds until the first row of a state can be claimed; NULL: there is none.
(SELECT TOP (1) DATEDIFF_BIG(MILLISECOND, {now}, available_at) FROM {looked_at}
 WHERE {timed} AND {lives} AND state + 0 =

-- name: claim-next
SELECT {first_of} 1 ORDER BY available_at), {first_of} 3 ORDER BY available_at);

-- name: read-ids
SELECT t.id, t.state, t.attempts, {relayed:t} FROM {table} AS t JOIN {ids} AS j ON j.id = t.id
WHERE t.state <> 4 ORDER BY t.id;

-- name: last-open
-- waits: a row that another transaction has locked is open until that ends
SELECT ISNULL(MAX(f.id), 0) FROM (
  SELECT MAX(id) AS id FROM {table} WHERE state = 0 AND {lives}
  UNION ALL SELECT MAX(id) FROM {table} WHERE {timed} AND {lives}) AS f;

-- name: open-upto
-- waits: as last-open
-- Delayed messages are open too.
SELECT COUNT_BIG(*) FROM (
  SELECT MIN(id) AS id FROM {table} WHERE state = 0 AND {lives}
  UNION ALL SELECT MIN(id) FROM {table} WHERE {timed} AND {lives}) AS f
WHERE f.id <= :upto;

-- name: reap
UPDATE t SET state = 0, lease_token = NULL, available_at = NULL
FROM (
  SELECT id FROM {timed_rows}
  WHERE {timed} AND state + 0 = 1 AND {whole}
    AND available_at <= DATEADD(MILLISECOND, CAST(-(:timeout % 86400000) AS INT), DATEADD(DAY,
      CAST(-(CASE WHEN :timeout < 3153600000000 THEN :timeout ELSE 3153600000000 END / 86400000) AS INT), {now}))
  ) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.state = 1
{loop};

-- part: lock_row
-- Other transactions wait for the lock of the row in the primary key.
INDEX(1), FORCESEEK

-- part: whole_row

-- include: mssql.locked.sql

-- name: done-delete
DELETE t FROM {own};

-- name: fail
-- :nth is the number of the attempt, so a failure that is written twice counts once.
UPDATE {table} SET
  state = CASE WHEN :dead <> 0 THEN 4 ELSE 3 END,
  attempts = CASE WHEN :nth > 0 THEN CASE WHEN attempts > :nth THEN attempts ELSE :nth END
                  WHEN attempts + :count < 0 THEN 0
                  WHEN attempts + :count > 1000000000 THEN 1000000000 ELSE attempts + :count END,
  available_at = CASE WHEN :dead = 0 THEN {after_delay} END,
  lease_token = NULL, last_error = :error
WHERE id = :id AND (:message_id IS NULL OR message_id = :message_id)
  AND lease_token = :token AND state = 1;

-- name: requeue
UPDATE t SET state = 0, lease_token = NULL, available_at = NULL FROM {own};

-- name: try
UPDATE {table} SET attempts = CASE WHEN :nth <= 0 THEN {again} WHEN attempts > :nth THEN attempts ELSE :nth END
WHERE id = :id AND (:message_id IS NULL OR message_id = :message_id)
  AND lease_token = :token AND state = 1;
