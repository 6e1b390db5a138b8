-- layout: name=nservicebus names=qualified payloads=bytea fields=headers wakes=no columns=id,expires,headers,body,rowversion,!state
-- unused: correlation_id reply_to topic
--
-- The queues of NServiceBus on SQL Server, as its transport creates them: "NAME" with the messages
-- that are ready, "NAME.Delayed" with those that are delayed, and "SubscriptionRouting".  Nothing
-- is added to these tables, and NServiceBus endpoints may work on them at the same time.
--
-- These tables have no columns for a lease.  Receiving in a transaction deletes the row, as NServiceBus
-- does.  Receiving under a lease moves the row to Wherry's own table NAME_received: state 1 leased,
-- 3 waits for another attempt, 4 dead; available_at has the meaning of the native layout.
--
-- Receivers take due messages from "NAME.Delayed" themselves, so no process has to move them.  An
-- endpoint of NServiceBus that shares the tables may move them too.
--
-- The id of a message in NAME is its RowVersion; that of a delayed one is 2^62 plus its RowVersion.
-- Times are UTC.  The column Recoverable may be missing: statements that insert are chosen when they
-- run, by sp_executesql, because SQL Server reads the columns of a batch before it runs it.
--
-- Statements find rows with the hints that native.mssql.sql explains, except INDEX, since an old version
-- of the transport may have made the tables with other indexes.  Statements that change rows find them by
-- an index of RowVersion, which every version makes, and in "NAME.Delayed", which has no such index, by the
-- index of Due.

-- include: mssql.sql

-- include: leasing.mssql.sql

-- part: now
SYSUTCDATETIME()

-- part: until
DATEADD(MILLISECOND, CAST(:lasts % 86400000 AS INT), DATEADD(DAY,
  CAST(CASE WHEN :lasts < 3153600000000 THEN :lasts ELSE 3153600000000 END / 86400000 AS INT), {now}))

-- part: after_delay
DATEADD(MILLISECOND, CAST(:delay % 86400000 AS INT), DATEADD(DAY,
  CAST(CASE WHEN :delay < 3153600000000 THEN :delay ELSE 3153600000000 END / 86400000 AS INT), {now}))

-- part: timed
state IN (1, 3)

-- part: taking
WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK)

-- part: looking
WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)

-- part: whole
-- True for every row, and read from the row itself: see native.mssql.sql.
(Expires IS NULL OR Expires >= '17530101')

-- part: delayed_number
-- Id of a delayed message.
({.}RowVersion + 4611686018427387904)

-- part: sent_at
-- Time when a message was sent, from its headers; NULL: they have no time, or a malformed one.
(CASE WHEN CHARINDEX(N'"NServiceBus.TimeSent":"', {.}Headers) > 0
  THEN TRY_CONVERT(DATETIME2(3), STUFF(SUBSTRING({.}Headers,
         CHARINDEX(N'"NServiceBus.TimeSent":"', {.}Headers) + 24, 23), 20, 1, N'.'), 121) END)

-- part: columns_of
-- The name in lower case.  LOWER uses the collation of its argument, and a Turkish one changes the character i.
(SELECT LOWER(c.name COLLATE Latin1_General_BIN2) AS name FROM sys.columns AS c WHERE c.object_id = OBJECT_ID(N{'table}, N'U'))

-- part: is_there
(SELECT COUNT(*) FROM {columns_of} AS c
 WHERE c.name IN (N'id', N'expires', N'headers', N'body', N'rowversion'))

-- part: recoverable
EXISTS (SELECT 1 FROM {columns_of} AS c WHERE c.name = N'recoverable')

-- name: migrate-lock
-- If two programs migrate at the same time, the second waits and then finds the work done.
DECLARE @granted INT;
EXEC @granted = sp_getapplock @Resource = N'wherry_migrate', @LockMode = 'Exclusive',
                              @LockOwner = 'Transaction';
IF @granted < 0
  THROW 51222, N'another program makes tables here, for longer than the lock timeout', 1;

-- name: owners
-- Wherry's table of the queue, if it belongs to another owner.
SELECT N'table ' + t.name, USER_NAME(t.principal_id)
FROM sys.tables AS t JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE s.name = :schema AND t.principal_id <> s.principal_id
  AND t.object_id = OBJECT_ID(N{'table_received}, N'U');

-- part: make_delayed
CREATE TABLE {table.Delayed}(
  Headers NVARCHAR(MAX) NOT NULL,
  Body VARBINARY(MAX),
  Due DATETIME NOT NULL,
  RowVersion BIGINT IDENTITY(1,1) NOT NULL
);
CREATE NONCLUSTERED INDEX "Index_Due" ON {table.Delayed}(Due);

-- part: make_subscriptions
CREATE TABLE {schema.}"SubscriptionRouting"(
  QueueAddress NVARCHAR(200) NOT NULL,
  Endpoint NVARCHAR(200) NOT NULL,
  Topic NVARCHAR(200) NOT NULL,
  PRIMARY KEY CLUSTERED (Endpoint, Topic)
);

-- part: make_received
-- If an identity is set back, SQL Server gives an id out again, so the key has row_id too.  A message becomes dead after
-- max_attempts; NULL: the receiver sets the number.  "inspect" writes this text as one line, so it has no comment.
CREATE TABLE {table_received}(
  id           BIGINT NOT NULL,
  row_id       UNIQUEIDENTIFIER NOT NULL,
  state        TINYINT NOT NULL CHECK (state IN (1, 3, 4)),
  attempts     INT NOT NULL CHECK (attempts BETWEEN 0 AND 1000000000),
  max_attempts INT,
  available_at DATETIME2(3),
  expires_at   DATETIME2(3),
  lease_token  NVARCHAR(64) COLLATE Latin1_General_BIN2,
  created_at   DATETIME2(3),
  last_error   NVARCHAR(2000),
  headers      NVARCHAR(MAX) NOT NULL,
  body         VARBINARY(MAX),
  CHECK (state = 4 OR available_at IS NOT NULL),
  CHECK (state <> 1 OR lease_token IS NOT NULL),
  PRIMARY KEY (id, row_id)
);
CREATE INDEX {bare_received_timed} ON {table_received}(available_at, id) INCLUDE (state) WHERE {timed};
CREATE INDEX {bare_received_dead} ON {table_received}(id) INCLUDE (state) WHERE state = 4;

-- name: migrate-1
IF OBJECT_ID(N{'table}, N'U') IS NULL
BEGIN
  CREATE TABLE {table}(
    Id UNIQUEIDENTIFIER NOT NULL,
    CorrelationId VARCHAR(255),
    ReplyToAddress VARCHAR(255),
    Recoverable BIT NOT NULL,
    Expires DATETIME,
    Headers NVARCHAR(MAX) NOT NULL,
    Body VARBINARY(MAX),
    RowVersion BIGINT IDENTITY(1,1) NOT NULL
  );
  CREATE NONCLUSTERED INDEX "Index_RowVersion" ON {table}(RowVersion);
  CREATE NONCLUSTERED INDEX "Index_Expires" ON {table}(Expires) INCLUDE (Id, RowVersion) WHERE Expires IS NOT NULL;
END;
IF OBJECT_ID(N{'table.Delayed}, N'U') IS NULL
BEGIN
  {make_delayed}
END;
IF OBJECT_ID(N{'schema.} + N'"SubscriptionRouting"', N'U') IS NULL
  {make_subscriptions}
IF OBJECT_ID(N{'table_received}, N'U') IS NULL
BEGIN
  {make_received}
END;

-- name: schema-version
SELECT 1, 100 WHERE {is_there} = 5;

-- name: columns
SELECT LOWER(c.name COLLATE Latin1_General_BIN2) FROM sys.columns AS c
WHERE c.object_id = OBJECT_ID(N{'schema.} + QUOTENAME(:name), N'U');

-- name: indexes-missing
SELECT COUNT(*) FROM (VALUES (N{'table.Delayed}), (N{'table_received}), (N{'schema.} + N'"SubscriptionRouting"')) AS t(name)
WHERE OBJECT_ID(t.name, N'U') IS NULL;

-- name: catalog
SELECT DB_NAME();

-- part: stamped
-- Headers, with the time of the database's clock added as the time of sending unless they have one.
CASE WHEN CHARINDEX(N'"NServiceBus.TimeSent":', @headers) > 0 THEN @headers
  ELSE LEFT(@headers, LEN(@headers) - 1) + CASE WHEN @headers = N'{}' THEN N'' ELSE N',' END
    + N'"NServiceBus.TimeSent":"' + CONVERT(NVARCHAR(19), @now, 120) + N':'
    + RIGHT(N'000000' + CONVERT(NVARCHAR(6), DATEPART(MICROSECOND, @now)), 6) + N' Z"}' END

-- part: insert_old
INSERT INTO {table}(Id, Expires, Headers, Body) VALUES (NEWID(), @expires, @headers, @body);
SELECT CAST(SCOPE_IDENTITY() AS BIGINT);

-- part: insert_new
INSERT INTO {table}(Id, Recoverable, Expires, Headers, Body) VALUES (NEWID(), 1, @expires, @headers, @body);
SELECT CAST(SCOPE_IDENTITY() AS BIGINT);

-- name: send
-- unused: message_id delay
DECLARE @now DATETIME2(6) = {now}, @headers NVARCHAR(MAX) = :headers, @body VARBINARY(MAX) = :body, @ttl BIGINT = :ttl;
DECLARE @expires DATETIME = CASE WHEN @ttl > 0 THEN DATEADD(MILLISECOND, CAST(@ttl % 86400000 AS INT), DATEADD(DAY,
  CAST(CASE WHEN @ttl < 3153600000000 THEN @ttl ELSE 3153600000000 END / 86400000 AS INT), @now)) END;
DECLARE @sql NVARCHAR(MAX) = CASE WHEN {recoverable} THEN N{'insert_new} ELSE N{'insert_old} END;
SET @headers = {stamped};
EXEC sp_executesql @sql, N'@expires DATETIME, @headers NVARCHAR(MAX), @body VARBINARY(MAX)', @expires, @headers, @body;

-- name: send-delayed
-- The number identifies the row until a receiver takes it or an endpoint moves it.
DECLARE @now DATETIME2(6) = {now}, @headers NVARCHAR(MAX) = :headers;
INSERT INTO {table.Delayed}(Headers, Body, Due) VALUES ({stamped}, CAST(:body AS VARBINARY(MAX)), {after_delay});
SELECT CAST(SCOPE_IDENTITY() AS BIGINT) + 4611686018427387904;

-- part: drop_ready_and_delayed
-- The message @id.  Its due time is read first, without a lock, because only the index of due times finds the row.
DELETE t FROM {table} AS t {by_seek} WHERE t.RowVersion = @id;
SET @n = @n + @@ROWCOUNT;
DECLARE @due DATETIME = (SELECT TOP (1) Due FROM {table.Delayed} WITH (NOLOCK) WHERE RowVersion = @id - 4611686018427387904);
DELETE t FROM {table.Delayed} AS t {by_seek} WHERE t.Due = @due AND t.RowVersion = @id - 4611686018427387904;
SET @n = @n + @@ROWCOUNT;

-- name: cancel
DECLARE @n BIGINT = 0, @id BIGINT = :id;
{drop_ready_and_delayed}
SELECT @n;

-- part: asked
DECLARE @full BIGINT = :full, @after BIGINT = :after, @limit BIGINT = :limit, @due BIGINT = 0,
  @fresh BIGINT = 0, @now DATETIME2(3) = {now};
DECLARE @from BIGINT = CASE WHEN @full <> 0 THEN CAST(-9223372036854775808 AS BIGINT)
  WHEN @after < 9223372036854775807 THEN @after + 1 ELSE @after END;
DECLARE @gone TABLE(id BIGINT, row_id UNIQUEIDENTIFIER, expires_at DATETIME2(3), Headers NVARCHAR(MAX),
  body VARBINARY(MAX));

-- part: due_first
(SELECT TOP (@limit - @fresh) id, row_id FROM {table_received} {taking}
 WHERE {timed} AND available_at <= @now AND attempts <= 2147483647 ORDER BY available_at, id)

-- part: then_fresh
-- With :full delayed rows that are due, then ready rows from a number on.
IF @full <> 0 AND @due < @limit
BEGIN
  DELETE t OUTPUT {delayed_number:deleted}, NEWID(), NULL, deleted.Headers, deleted.Body INTO @gone
  FROM (SELECT TOP (@limit - @due) Due, RowVersion FROM {table.Delayed} {taking} WHERE Due <= @now ORDER BY Due) AS d
  JOIN {table.Delayed} AS t {by_seek} ON t.Due = d.Due AND t.RowVersion = d.RowVersion
  {loop};
  SET @due = @due + @@ROWCOUNT;
END;
SET @fresh = @due;
IF @due < @limit
BEGIN
  DELETE t OUTPUT deleted.RowVersion, deleted.Id, deleted.Expires, deleted.Headers, deleted.Body INTO @gone
  FROM (
    SELECT TOP (@limit - @due) RowVersion FROM {table} {taking}
    WHERE RowVersion >= @from AND {whole} ORDER BY RowVersion) AS d JOIN {table} AS t {by_seek} ON t.RowVersion = d.RowVersion
  {loop};
  SET @fresh = @due + @@ROWCOUNT;
END;

-- part: in_time
({.}expires_at IS NULL OR {.}expires_at > @now)

-- part: shown
-- A message that was received before it expired does not expire afterwards.
m.id, m.state, m.attempts, m.created_at, m.available_at, m.expires_at, m.expired, ISNULL(LOWER(CONVERT(NVARCHAR(36), m.row_id)), CONVERT(NVARCHAR(36), m.id)),
  NULL, NULL, NULL, m.headers, m.last_error, m.body

-- part: late
-- Condition: the row has expired.
SELECT g.id, 0 AS state, 0 AS attempts, CAST(NULL AS DATETIME2(3)) AS created_at, CAST(NULL AS DATETIME2(3)) AS available_at,
  g.expires_at, 1 AS expired, g.row_id, CAST(N'' AS NVARCHAR(MAX)) AS headers, CAST(NULL AS NVARCHAR(2000)) AS last_error,
  CAST(NULL AS VARBINARY(MAX)) AS body
FROM @gone AS g WHERE g.expires_at <= @now

-- part: due_rows
{due_first} AS d JOIN {table_received} AS r {by_seek} ON r.id = d.id AND r.row_id = d.row_id
WHERE r.state IN (1, 3) AND r.available_at <= @now
{loop}

-- part: lease_due
UPDATE r SET {expired_or_due:r}
OUTPUT inserted.id, inserted.row_id INTO @got
FROM {due_rows};

-- name: receive
-- Lease messages.  One transaction moves them, so a message is always in one of the tables.  Expired
-- messages are deleted, and returned as expired.  A message whose number and uuid a received one has, or
-- another of this statement, gets another uuid, or it would make each receive fail.
SET XACT_ABORT ON;
{asked}
DECLARE @most BIGINT = :most, @token NVARCHAR(64) = :token, @until DATETIME2(3) = {until};
DECLARE @got TABLE(id BIGINT, row_id UNIQUEIDENTIFIER);
BEGIN TRANSACTION;
IF @full = 1
BEGIN
  {lease_due}
  SET @due = @@ROWCOUNT;
END;
{then_fresh}
IF @full = 2 AND @fresh < @limit
BEGIN
  {lease_due}
  SET @due = @due + @@ROWCOUNT;
END;
UPDATE g SET row_id = NEWID() FROM @gone AS g
WHERE g.id IN (SELECT o.id FROM @gone AS o GROUP BY o.id, o.row_id HAVING COUNT(*) > 1);
UPDATE g SET row_id = NEWID() FROM @gone AS g
WHERE EXISTS (SELECT 1 FROM {table_received} AS r {by_seek} WHERE r.id = g.id AND r.row_id = g.row_id)
{loop};
INSERT INTO {table_received}(id, row_id, state, attempts, available_at, expires_at, lease_token, max_attempts,
                             created_at, headers, body)
SELECT g.id, g.row_id, 1, 1, @until, g.expires_at, @token, CASE WHEN @most > 0 THEN @most END, {sent_at:g}, g.Headers, g.body
FROM @gone AS g WHERE {in_time:g};
INSERT INTO @got(id, row_id) SELECT g.id, g.row_id FROM @gone AS g WHERE {in_time:g};
COMMIT TRANSACTION;
SELECT {shown}, @due FROM (
  SELECT r.id, r.state, r.attempts, r.created_at, r.available_at, r.expires_at, 0 AS expired, r.row_id, r.headers,
    r.last_error, r.body
  FROM {table_received} AS r JOIN @got AS g ON g.id = r.id AND g.row_id = r.row_id
  UNION ALL
  {late}) AS m ORDER BY m.id;

-- part: take_due
DELETE r OUTPUT deleted.id, deleted.row_id, deleted.state, deleted.attempts, deleted.created_at, deleted.available_at,
  deleted.expires_at, deleted.headers, deleted.last_error, deleted.body INTO @old
FROM {due_rows};

-- name: take
-- Delete messages and return them, in the open transaction or in a separate one.
{asked}
DECLARE @old TABLE(id BIGINT, row_id UNIQUEIDENTIFIER, state TINYINT, attempts INT, created_at DATETIME2(3),
  available_at DATETIME2(3), expires_at DATETIME2(3), headers NVARCHAR(MAX), last_error NVARCHAR(2000), body VARBINARY(MAX));
IF @full = 1
BEGIN
  {take_due}
  SET @due = @@ROWCOUNT;
END;
{then_fresh}
IF @full = 2 AND @fresh < @limit
BEGIN
  {take_due}
  SET @due = @due + @@ROWCOUNT;
END;
SELECT {shown}, @due FROM (
  SELECT o.id, o.state, o.attempts, o.created_at, o.available_at, o.expires_at, 0 AS expired, o.row_id, o.headers,
    o.last_error, o.body FROM @old AS o
  UNION ALL
  SELECT g.id, 0, 0, {sent_at:g}, NULL, g.expires_at, 0, g.row_id, g.Headers, NULL, g.body
  FROM @gone AS g WHERE {in_time:g}
  UNION ALL
  {late}) AS m ORDER BY m.id;

-- name: make-dead
-- Insert a message that was deleted and cannot be handled again, as dead.  Its uuid may be another, as in "receive".
DECLARE @id BIGINT = :id, @row_id UNIQUEIDENTIFIER = CAST(:message_id AS UNIQUEIDENTIFIER);
INSERT INTO {table_received}(id, row_id, state, attempts, created_at, last_error, headers, body)
SELECT @id, CASE WHEN EXISTS (SELECT 1 FROM {table_received} AS r {by_seek} WHERE r.id = @id AND r.row_id = @row_id)
                 THEN NEWID() ELSE @row_id END, 4, :attempts,
  CASE WHEN :created > 0 THEN DATEADD(MILLISECOND, CAST(:created % 86400000 AS INT),
    DATEADD(DAY, CAST(:created / 86400000 AS INT), CAST('19700101' AS DATETIME2(3)))) END,
  :error, :headers, CAST(:body AS VARBINARY(MAX));

-- part: own
{ids} AS j JOIN {table_received} AS r {by_seek} ON r.id = j.id WHERE r.lease_token = :token AND r.state = 1
{loop}

-- name: ack
DELETE r FROM {own};

-- name: nack
-- A message that is given back stays in Wherry's table, which has its attempts.  After its last attempt it
-- becomes dead.
UPDATE r SET state = CASE WHEN r.attempts - :back >= r.max_attempts THEN 4 ELSE 3 END,
  available_at = CASE WHEN r.attempts - :back >= r.max_attempts THEN NULL
    WHEN :delay > 0 THEN {after_delay} ELSE {now} END,
  attempts = CASE WHEN r.attempts > :back THEN r.attempts - :back ELSE 0 END,
  lease_token = NULL, last_error = COALESCE(:error, r.last_error,
    CASE WHEN r.attempts - :back >= r.max_attempts THEN N'it was given back after its last attempt' END)
FROM {own};

-- name: extend-lease
UPDATE r SET available_at = {until} FROM {own};

-- name: dead-letter
UPDATE r SET state = 4, lease_token = NULL, available_at = NULL, last_error = :error FROM {own};

-- name: expire
-- unused: token
DELETE t FROM (
  SELECT TOP (:limit) RowVersion FROM {table} {taking} WHERE Expires IS NOT NULL AND Expires <= {now}) AS d
JOIN {table} AS t {by_seek} ON t.RowVersion = d.RowVersion
WHERE t.Expires <= {now}
{loop};

-- part: ready_row
t.RowVersion AS id, 0 AS state, 0 AS attempts, {sent_at:t} AS created_at, CAST(NULL AS DATETIME2(3)) AS available_at,
  CAST(t.Expires AS DATETIME2(3)) AS expires_at, 0 AS expired, t.Id AS row_id, t.Headers AS headers,
  CAST(NULL AS NVARCHAR(2000)) AS last_error, t.Body AS body

-- part: received_row
r.id, r.state, r.attempts, r.created_at, r.available_at, r.expires_at, 0, r.row_id, r.headers, r.last_error, r.body

-- part: delayed_row
-- A row has no uuid before it is moved, so its number is used instead.
{delayed_number:d}, 3, 0, {sent_at:d}, CAST(d.Due AS DATETIME2(3)), NULL, 0, CAST(NULL AS UNIQUEIDENTIFIER), d.Headers,
  NULL, d.Body

-- part: bit
CASE r.state WHEN 1 THEN 2 WHEN 3 THEN 8 WHEN 4 THEN 16 ELSE 0 END

-- name: peek
SELECT TOP (:limit) {shown} FROM (
  SELECT f.* FROM (
    SELECT TOP (:limit) {ready_row} FROM {table} AS t {looking}
    WHERE t.RowVersion > :after AND :states & 1 <> 0 ORDER BY t.RowVersion) AS f
  UNION ALL
  SELECT {received_row} FROM {table_received} AS r {looking} WHERE r.id > :after AND :states & {bit} <> 0
  UNION ALL
  SELECT {delayed_row} FROM {table.Delayed} AS d {looking} WHERE {delayed_number:d} > :after AND :states & 8 <> 0) AS m
ORDER BY m.id;

-- name: show
SELECT {shown} FROM (
  SELECT {ready_row} FROM {table} AS t WHERE t.RowVersion = :id
  UNION ALL
  SELECT {received_row} FROM {table_received} AS r WHERE r.id = :id
  UNION ALL
  SELECT {delayed_row} FROM {table.Delayed} AS d WHERE d.RowVersion = :id - 4611686018427387904) AS m;

-- name: count
SELECT (SELECT COUNT_BIG(*) FROM {table} {looking}),
       (SELECT COUNT_BIG(*) FROM {table_received} {looking} WHERE {timed} AND state + 0 = 1),
       (SELECT COUNT_BIG(*) FROM {table_received} {looking} WHERE {timed} AND state + 0 = 3)
     + (SELECT COUNT_BIG(*) FROM {table.Delayed} {looking}),
       (SELECT COUNT_BIG(*) FROM {table_received} {looking} WHERE state = 4),
       ISNULL((SELECT CASE WHEN f.at < {now} THEN DATEDIFF_BIG(MILLISECOND, f.at, {now}) ELSE 0 END FROM (
         SELECT TOP (1) {sent_at:t} AS at FROM {table} AS t {looking} ORDER BY t.RowVersion) AS f), 0),
       (SELECT COUNT_BIG(*) FROM {table} {looking} WHERE Expires IS NOT NULL AND Expires <= {now});

-- name: estimate
SELECT ISNULL(SUM(p.rows), 0) FROM sys.partitions AS p
WHERE p.index_id IN (0, 1)
  AND p.object_id IN (OBJECT_ID(N{'table}, N'U'), OBJECT_ID(N{'table_received}, N'U'), OBJECT_ID(N{'table.Delayed}, N'U'));

-- part: left
CASE WHEN f.at > {now} THEN DATEDIFF_BIG(MILLISECOND, {now}, f.at) ELSE 0 END

-- name: next-due
SELECT ISNULL(ISNULL((SELECT TOP (1) CAST(0 AS BIGINT) FROM {table} {looking} ORDER BY RowVersion),
  (SELECT MIN({left}) FROM (
     SELECT MIN(available_at) AS at FROM {table_received} {looking} WHERE {timed}
     UNION ALL SELECT MIN(CAST(Due AS DATETIME2(3))) FROM {table.Delayed} {looking}) AS f WHERE f.at IS NOT NULL)), -1);

-- name: inspect
-- Faults of the tables, each with the SQL that repairs it.
SELECT N'the table ' + t.name + N' is missing', REPLACE(t.repair, NCHAR(10), N' ')
FROM (VALUES (N{'table.Delayed}, N{'make_delayed}), (N{'schema.} + N'"SubscriptionRouting"', N{'make_subscriptions}),
             (N{'table_received}, N{'make_received})) AS t(name, repair)
WHERE OBJECT_ID(t.name, N'U') IS NULL
UNION ALL
SELECT N'no index of ' + N{'table} + N' begins with ' + c.name, c.repair
FROM (VALUES (N'RowVersion', N'CREATE NONCLUSTERED INDEX "Index_RowVersion" ON ' + N{'table} + N'(RowVersion);'),
             (N'Expires', N'CREATE NONCLUSTERED INDEX "Index_Expires" ON ' + N{'table}
                + N'(Expires) INCLUDE (Id, RowVersion) WHERE Expires IS NOT NULL;')) AS c(name, repair)
WHERE NOT EXISTS (
  SELECT 1 FROM sys.index_columns AS i JOIN sys.columns AS k ON k.object_id = i.object_id AND k.column_id = i.column_id
  WHERE i.object_id = OBJECT_ID(N{'table}, N'U') AND i.key_ordinal = 1 AND LOWER(k.name COLLATE Latin1_General_BIN2) = LOWER(c.name COLLATE Latin1_General_BIN2))
UNION ALL
SELECT N'the column Headers of ' + N{'table} + N' has the type ' + TYPE_NAME(c.system_type_id)
    + N' and not nvarchar: other characters are lost',
  N'ALTER TABLE ' + N{'table} + N' ALTER COLUMN Headers NVARCHAR(MAX) NOT NULL;'
FROM sys.columns AS c
WHERE c.object_id = OBJECT_ID(N{'table}, N'U') AND LOWER(c.name COLLATE Latin1_General_BIN2) = N'headers' AND TYPE_NAME(c.system_type_id) <> N'nvarchar';

-- part: insert_back_old
INSERT INTO {table}(Id, Headers, Body) SELECT row_id, headers, body FROM @back ORDER BY id;

-- part: insert_back_new
INSERT INTO {table}(Id, Recoverable, Headers, Body) SELECT row_id, 1, headers, body FROM @back ORDER BY id;

-- part: retry_text
-- OUTPUT INTO the queue itself would fail if it has a trigger.
SET XACT_ABORT ON;
DECLARE @back TABLE(id BIGINT NOT NULL, row_id UNIQUEIDENTIFIER NOT NULL, headers NVARCHAR(MAX) NOT NULL, body VARBINARY(MAX));
BEGIN TRANSACTION;
DELETE r OUTPUT deleted.id, deleted.row_id, deleted.headers, deleted.body INTO @back
FROM (SELECT TOP (@limit) id, row_id FROM {table_received} {taking}
      WHERE state = 4 AND (@id = 0 OR id = @id) AND attempts <= 2147483647 ORDER BY id) AS d
JOIN {table_received} AS r {by_seek} ON r.id = d.id AND r.row_id = d.row_id
WHERE r.state = 4
{loop};

-- name: retry-dead
-- Move dead messages to the end of the queue, where they do not expire.  Writing their old RowVersion
-- would need the right to alter the table.
DECLARE @id BIGINT = :id, @limit BIGINT = :limit;
DECLARE @sql NVARCHAR(MAX) = N{'retry_text} + CASE WHEN {recoverable} THEN N{'insert_back_new} ELSE N{'insert_back_old} END
  + N' COMMIT TRANSACTION;';
EXEC sp_executesql @sql, N'@id BIGINT, @limit BIGINT', @id, @limit;

-- name: discard
-- Delete a message from any of the tables.  A receiver that has leased it cannot acknowledge it afterwards.
DECLARE @n BIGINT = 0, @id BIGINT = :id;
{drop_ready_and_delayed}
DELETE FROM {table_received} WHERE id = @id;
SET @n = @n + @@ROWCOUNT;
SELECT @n;

-- name: purge-states
DECLARE @states BIGINT = :states, @limit BIGINT = :limit, @n BIGINT = 0;
IF @states & 1 <> 0
BEGIN
  DELETE t FROM (SELECT TOP (@limit) RowVersion FROM {table} {taking} WHERE {whole} ORDER BY RowVersion) AS d
  JOIN {table} AS t {by_seek} ON t.RowVersion = d.RowVersion
  {loop};
  SET @n = @@ROWCOUNT;
END;
IF @n < @limit
BEGIN
  DELETE t FROM (
    SELECT TOP (@limit - @n) id, row_id FROM {table_received} AS r {taking}
    WHERE r.state <> 1 AND @states & {bit} <> 0 ORDER BY id) AS d
  JOIN {table_received} AS t {by_seek} ON t.id = d.id AND t.row_id = d.row_id
  WHERE t.state <> 1
  {loop};
  SET @n = @n + @@ROWCOUNT;
END;
IF @n < @limit AND @states & 8 <> 0
BEGIN
  DELETE t FROM (SELECT TOP (@limit - @n) Due, RowVersion FROM {table.Delayed} {taking} ORDER BY Due) AS d
  JOIN {table.Delayed} AS t {by_seek} ON t.Due = d.Due AND t.RowVersion = d.RowVersion
  {loop};
  SET @n = @n + @@ROWCOUNT;
END;
SELECT @n;
