-- layout: name=eventferry names=qualified ordered=yes order=aggregate fence=claim wakes=no body=jsonb columns=id,message_id,topic,aggregate_type,aggregate_id,key,payload,headers,trace_id,status,attempts,claimed_at,next_retry_at,!claim_token
-- unused: error token
--
-- The table of the TypeScript library eventferry on SQL Server, as it publishes it: nothing is added,
-- and its producers and relays may work on it at the same time.  eventferry.postgres.sql has the rules,
-- which are the same here.
--
-- Differences: a claim is identified by claimed_at to the millisecond; a pending row with a retry time
-- waits for it; a claim that expired counts as an attempt, as in the library; and a payload is a JSON
-- object or list, since the table's CHECK refuses others.
--
-- docs/internals/sqlserver.md says who holds which lock, and why each hint is there.  Rows that others have locked are
-- passed over (READPAST), and earlier rows of an aggregate are looked for with NOLOCK, so that one that is
-- not committed holds back those behind it and nobody waits for it.  The library's own claim passes over
-- rows that this one has locked, and waits for the end of this one before it takes a row behind them.
--
-- The index IX_NAME_agg_id_id (aggregate_id, id) INCLUDE (status) has all rows, and its entries do not
-- move: so a reader without locks misses none.  IX_NAME_claim_ready (status, next_retry_at, id) has the
-- open rows, the pending ones in the order of their ids.

-- include: mssql.sql

-- part: now
SYSUTCDATETIME()

-- part: pending
status IN (0, 1, 3) AND status = 0 AND next_retry_at IS NULL

-- part: c_pending
c.status IN (0, 1, 3) AND c.status = 0 AND c.next_retry_at IS NULL

-- part: c_due
-- Condition: c has failed, or is pending with a time, and may be tried now.
c.status IN (0, 1, 3) AND (c.status = 3 AND c.next_retry_at IS NULL
  OR c.status IN (0, 3) AND c.next_retry_at <= {now})

-- part: unlocked
WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)

-- part: mine
WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK)

-- include: mssql.own.sql

-- part: text_limit
:long >= 0

-- part: texts
-- A text over its limit is not sent.  A column may have SQL Server's own
-- type json.
CASE WHEN {text_limit} OR message_id NOT LIKE N'%[^ -~]%' COLLATE Latin1_General_BIN2 THEN message_id
     ELSE LEFT(message_id, CAST(:long AS INT) + 1) END,
CASE WHEN {text_limit} OR topic NOT LIKE N'%[^ -~]%' COLLATE Latin1_General_BIN2 THEN topic
     ELSE LEFT(topic, CAST(:long AS INT) + 1) END,
CASE WHEN {text_limit} THEN aggregate_type ELSE N'' END,
CASE WHEN {text_limit} THEN aggregate_id ELSE N'' END,
CASE WHEN {text_limit} THEN "key" ELSE N'' END,
CASE WHEN DATALENGTH(headers) / 2 <= :long THEN CAST(headers AS NVARCHAR(MAX))
     ELSE CAST(DATALENGTH(headers) / 2 AS NVARCHAR(20)) END,
CASE WHEN {text_limit} THEN trace_id ELSE N'' END,
CASE WHEN DATALENGTH(payload) <= 2 * :body AND {text_limit} THEN CAST(payload AS NVARCHAR(MAX))
     ELSE CAST(NULL AS NVARCHAR(MAX)) END

-- part: mark
-- Mark of a claim.
CAST(DATEDIFF_BIG(MILLISECOND, '19700101', {.}claimed_at) AS NVARCHAR(20))

-- part: lasted
-- Time of a claim that expires now.
DATEADD(MILLISECOND, -CAST(:lasts % 86400000 AS INT), DATEADD(DAY,
  -CAST((CASE WHEN :lasts < 3153600000000 THEN :lasts ELSE 3153600000000 END) / 86400000 AS INT),
  SYSUTCDATETIME()))

-- part: has_index
-- Condition: an index with these first two columns exists.
EXISTS (SELECT 1 FROM sys.index_columns AS x
        JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
        JOIN sys.index_columns AS y ON y.object_id = x.object_id AND y.index_id = x.index_id AND y.key_ordinal = 2
        JOIN sys.columns AS d ON d.object_id = y.object_id AND d.column_id = y.column_id
        WHERE x.object_id = OBJECT_ID(N{'table}, N'U') AND x.key_ordinal = 1 AND CONCAT(c.name, N',', d.name) =

-- name: migrate-1
-- The table as the library makes it.
IF OBJECT_ID(N{'table}, N'U') IS NULL
  CREATE TABLE {table}(
    id             BIGINT IDENTITY(1, 1) NOT NULL CONSTRAINT {PK_table} PRIMARY KEY CLUSTERED,
    message_id     NVARCHAR(64) NOT NULL CONSTRAINT {UQ_table_message_id} UNIQUE,
    topic          NVARCHAR(256) NOT NULL,
    aggregate_type NVARCHAR(128) NOT NULL,
    aggregate_id   NVARCHAR(128) NOT NULL,
    "key"          NVARCHAR(256) NULL,
    payload        NVARCHAR(MAX) NOT NULL CONSTRAINT {CK_table_payload_json} CHECK (ISJSON(payload) = 1),
    headers        NVARCHAR(MAX) NOT NULL DEFAULT N'{}' CONSTRAINT {CK_table_headers_json} CHECK (ISJSON(headers) = 1),
    trace_id       NVARCHAR(64) NULL,
    status         TINYINT NOT NULL DEFAULT 0,
    attempts       INT NOT NULL DEFAULT 0,
    next_retry_at  DATETIME2(3) NULL,
    claimed_at     DATETIME2(3) NULL,
    created_at     DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
    processed_at   DATETIME2(3) NULL,
    CONSTRAINT {CK_table_claimed_at} CHECK (status <> 1 OR claimed_at IS NOT NULL)
  );
IF NOT {has_index} N'aggregate_id,id')
  CREATE INDEX {IX_table_agg_id_id} ON {table}(aggregate_id, id) INCLUDE (status);
IF NOT {has_index} N'status,next_retry_at')
  CREATE INDEX {IX_table_claim_ready} ON {table}(status, next_retry_at, id) INCLUDE (aggregate_id, claimed_at)
    WHERE status IN (0, 1, 3);
IF NOT {has_index} N'processed_at,id')
  CREATE INDEX {IX_table_done_processed_at} ON {table}(processed_at, id) WHERE status = 2;

-- name: schema-version
-- The columns identify this layout.
SELECT 1, 100
WHERE 15 = (SELECT COUNT(*) FROM sys.columns WHERE object_id = OBJECT_ID(N{'schema.} + QUOTENAME(:name), N'U')
              AND name IN (N'id', N'message_id', N'topic', N'aggregate_type', N'aggregate_id', N'key', N'payload',
                           N'headers', N'trace_id', N'status', N'attempts', N'claimed_at', N'next_retry_at',
                           N'created_at', N'processed_at'))
  AND NOT EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N{'schema.} + QUOTENAME(:name), N'U')
                    AND name = N'claim_token');

-- name: columns
{column_names};

-- name: enqueue
-- A message without an aggregate id gets one: its key, or else its message id.  XACT_ABORT is off for this
-- batch alone: a message id that exists leaves the transaction intact.
SET XACT_ABORT OFF;
BEGIN TRY
  INSERT INTO {table}(message_id, topic, aggregate_type, aggregate_id, "key", headers, trace_id, payload)
  VALUES (:message_id, :topic, :aggregate_type,
    CASE WHEN DATALENGTH(:aggregate_id) > 0 THEN :aggregate_id ELSE COALESCE(:key, :message_id) END,
    :key, :headers, :trace_id, :payload);
  SELECT CAST(SCOPE_IDENTITY() AS BIGINT);
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
END CATCH;

-- name: lock-key
-- Lock on the aggregate, which orders messages here; see mssql.message.sql.
DECLARE @k BINARY(32) = HASHBYTES('SHA2_256', CASE WHEN DATALENGTH(:aggregate_id) > 0 THEN :aggregate_id
  WHEN DATALENGTH(:key) > 0 THEN :key END);
DECLARE @resource NVARCHAR(255) = CONCAT(N'wherry_key:', OBJECT_ID(N{'table}, N'U'), N':',
  CAST(CAST(SUBSTRING(@k, 1, 16) AS UNIQUEIDENTIFIER) AS NVARCHAR(36)));
DECLARE @locked INT = 0;
IF @k IS NOT NULL
  EXEC @locked = sp_getapplock @Resource = @resource, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
IF @locked < 0
  THROW 51222, N'the lock of the key was not granted in time', 1;

-- part: claims_lock
DECLARE @claims NVARCHAR(255) = CONCAT(N'wherry_claim:', OBJECT_ID(N{'table}, N'U')), @granted INT = 0

-- part: claims_granted
IF @granted < 0
  THROW 51222, N'the lock of claims was not granted in time', 1

-- name: claim-lock
-- First statement of every claim of Wherry's, so that they run one after another.  Claims of the library do
-- not take this lock.
{claims_lock};
EXEC @granted = sp_getapplock @Resource = @claims, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
{claims_granted};

-- part: no_claims
-- While a message dies or is discarded, no claim runs: it reads what is not committed, and would take later messages of the
-- aggregate although the transaction is rolled back.
{claims_lock};
EXEC @granted = sp_getapplock @Resource = @claims, @LockMode = 'Shared', @LockOwner = 'Transaction';
{claims_granted}

-- part: first_open
-- First open row of the aggregate of c, also if it is not committed.
(SELECT TOP (1) o.id FROM {table} AS o WITH (NOLOCK)
 WHERE o.aggregate_id = c.aggregate_id AND o.status IN (0, 1, 3) ORDER BY o.id)

-- part: unclaimed
-- Condition: no other row of the aggregate of c is under a live claim, which a later row may be if c was
-- committed late.
NOT EXISTS (SELECT 1 FROM {table} AS b WITH (NOLOCK)
            WHERE b.aggregate_id = c.aggregate_id AND b.id <> c.id AND b.status IN (0, 1, 3) AND b.status = 1
              AND b.claimed_at > @expired)

-- part: first_expired
-- Condition: c is the first open row of its aggregate; with :share rows that expired with c do not count.
(:unordered <> 0 OR {unclaimed} AND NOT EXISTS (
   SELECT 1 FROM {table} AS b WITH (NOLOCK)
   WHERE b.aggregate_id = c.aggregate_id AND b.id < c.id AND b.status IN (0, 1, 3)
     AND NOT (:share <> 0 AND b.status = 1 AND (b.claimed_at = c.claimed_at OR b.claimed_at IS NULL AND c.claimed_at IS NULL))))

-- part: from
-- First id behind :after; if :after is the lowest possible id, this is that id.
CASE WHEN :after > -9223372036854775808 AND :after < 9223372036854775807 THEN :after + 1 ELSE :after END

-- part: times
DECLARE @now DATETIME2(3) = {now}, @expired DATETIME2(3) = {lasted}

-- part: chosen
DECLARE @c TABLE (id BIGINT NOT NULL PRIMARY KEY, k NVARCHAR(128))

-- part: most
-- At most 4,000: a statement that takes 5,000 locks on an index may get a lock of the table instead.
TOP (CASE WHEN :limit < 4000 THEN :limit ELSE 4000 END)

-- part: is_still
-- Condition: t has not changed since it was chosen.
(@was = 0 AND t.status = 0 AND t.next_retry_at IS NULL
 OR @was = 3 AND (t.status = 3 OR t.status = 0 AND t.next_retry_at IS NOT NULL)
 OR @was = 1 AND t.status = 1 AND (t.claimed_at IS NULL OR t.claimed_at <= @expired))

-- part: take
-- Lock the chosen rows; those that others have locked meanwhile are left out.  Leave out those behind an earlier open row
-- that is not among them, committed or not, and mark the rest.  By the two casts k is compared as the column is, whatever the collation of that.
DECLARE @l TABLE (id BIGINT NOT NULL PRIMARY KEY, k NVARCHAR(128));
INSERT INTO @l(id, k)
SELECT t.id, c.k FROM @c AS c JOIN {table} AS t {mine} ON t.id = c.id WHERE {is_still}
{loop};
DECLARE @b TABLE (k NVARCHAR(128) NOT NULL, id BIGINT NOT NULL);
INSERT INTO @b(k, id)
SELECT m.k, f.id
FROM (SELECT k, MAX(id) AS last FROM @l WHERE :unordered = 0 GROUP BY k) AS m
CROSS APPLY (
  SELECT TOP (1) o.id FROM {table} AS o WITH (NOLOCK)
  WHERE o.aggregate_id = CAST(CAST(m.k AS VARBINARY(256)) AS NVARCHAR(128)) AND o.status IN (0, 1, 3) AND o.id < m.last
    AND NOT EXISTS (SELECT 1 FROM @l AS x WHERE x.id = o.id)
  ORDER BY o.id) AS f;
DELETE l FROM @l AS l JOIN @b AS b ON b.k = l.k AND l.id >= b.id;
DECLARE @t TABLE (id BIGINT NOT NULL PRIMARY KEY);
UPDATE t SET status = 1, claimed_at = @now,
  attempts = CASE WHEN t.attempts < 2147483647 THEN t.attempts + @add ELSE t.attempts END
OUTPUT inserted.id INTO @t(id)
FROM @l AS l JOIN {table} AS t {by_seek} ON t.id = l.id
WHERE {is_still}
{loop};
SELECT id, @add, attempts - @add, created_at, 0,
  {texts}, {mark}
FROM {table} WITH (FORCESEEK) WHERE id IN (SELECT id FROM @t) ORDER BY id

-- name: claim-end
-- Last id that one claim reads.
DECLARE @from BIGINT = {from};
SELECT COALESCE(MAX(id), 0), COUNT_BIG(*) FROM (
  SELECT TOP (:scan) id FROM {table} {unlocked} WHERE {pending} AND id >= @from ORDER BY id) AS p;

-- name: claim
-- Claim the first open rows of their aggregates, each with the run of pending rows behind it
-- (two_claims_never_hold_messages_of_one_key).
DECLARE @was TINYINT = 0, @add INT = 0, @from BIGINT = {from};
{times};
{chosen};
INSERT INTO @c(id, k)
SELECT {most} c.id, c.aggregate_id FROM {table} AS c {unlocked}
WHERE {c_pending} AND c.id >= @from AND c.id <= :upto
  AND (:unordered <> 0 OR {unclaimed}
    AND NOT EXISTS (SELECT 1 FROM {table} AS b WITH (NOLOCK)
                    WHERE b.aggregate_id = c.aggregate_id AND b.id < c.id AND b.status IN (0, 1, 3)
                      AND NOT (b.status = 0 AND b.next_retry_at IS NULL))
    AND EXISTS (SELECT 1 FROM {table} AS f {unlocked} WHERE f.id = {first_open} AND f.status = 0 AND f.id >= @from))
ORDER BY c.id;
{take};

-- name: claim-due
-- Claim failed rows and pending ones with a time that are due, each the first of its aggregate.
DECLARE @was TINYINT = 3, @add INT = 0;
{times};
{chosen};
INSERT INTO @c(id, k)
SELECT {most} c.id, c.aggregate_id FROM {table} AS c {unlocked}
WHERE {c_due} AND (:unordered <> 0 OR {unclaimed} AND c.id = {first_open})
ORDER BY c.next_retry_at, c.id;
{take};

-- part: c_expired
c.status IN (0, 1, 3) AND c.status = 1 AND (c.claimed_at IS NULL OR c.claimed_at <= @expired)

-- name: expired
-- Rows that were claimed together, by Wherry or by the library, have one claimed_at.
DECLARE @expired DATETIME2(3) = {lasted};
SELECT f.mark, (SELECT COUNT_BIG(*) FROM {table} AS c {unlocked}
                WHERE {c_expired} AND (c.claimed_at = f.claimed_at OR c.claimed_at IS NULL AND f.claimed_at IS NULL))
FROM (SELECT TOP (1) c.claimed_at, COALESCE({mark:c}, N'') AS mark FROM {table} AS c {unlocked}
      WHERE {c_expired} AND {first_expired} ORDER BY c.claimed_at, c.id) AS f;

-- name: claim-share
-- Claim some of the rows that expired together.  No attempt is recorded, since only one of them can have crashed
-- the relay, if any did.
DECLARE @was TINYINT = 1, @add INT = 0;
{times};
{chosen};
INSERT INTO @c(id, k)
SELECT {most} c.id, c.aggregate_id FROM {table} AS c {unlocked}
WHERE {c_expired} AND COALESCE({mark:c}, N'') = :of AND {first_expired}
ORDER BY c.id;
{take};

-- name: claim-expired
-- Claim one row whose claim has expired.  The attempt is recorded before it is made.
DECLARE @was TINYINT = 1, @add INT = 1;
{times};
{chosen};
INSERT INTO @c(id, k)
SELECT TOP (1) c.id, c.aggregate_id FROM {table} AS c {unlocked}
WHERE {c_expired} AND {first_expired}
ORDER BY c.claimed_at, c.id;
{take};

-- name: claim-next
-- Milliseconds until the first claim expires, and until the first row with a time is due.
DECLARE @expired DATETIME2(3) = {lasted};
SELECT (SELECT TOP (1) DATEDIFF_BIG(MILLISECOND, @expired, COALESCE(c.claimed_at, '19700101')) FROM {table} AS c {unlocked}
        WHERE c.status IN (0, 1, 3) AND c.status = 1 ORDER BY c.claimed_at),
       (SELECT MIN(w.ms) FROM (
          SELECT MIN(DATEDIFF_BIG(MILLISECOND, {now}, COALESCE(c.next_retry_at, '19700101'))) AS ms FROM {table} AS c {unlocked}
          WHERE c.status IN (0, 1, 3) AND c.status = 3
          UNION ALL
          SELECT MIN(DATEDIFF_BIG(MILLISECOND, {now}, c.next_retry_at)) FROM {table} AS c {unlocked}
          WHERE c.status IN (0, 1, 3) AND c.status = 0 AND c.next_retry_at IS NOT NULL) AS w);

-- part: listed
-- Claims: the id and the mark of each.
SET NOCOUNT ON;
DECLARE @ids TABLE (id BIGINT NOT NULL, mark NVARCHAR(20));
INSERT INTO @ids(id, mark)
SELECT CAST(JSON_VALUE(value, '$[2]') AS BIGINT), JSON_VALUE(value, '$[1]') FROM OPENJSON(:ids);
SET NOCOUNT OFF

-- part: held
-- Condition: t is a row of these claims.
@ids AS i JOIN {table} AS t {by_seek} ON t.id = i.id AND t.status = 1 AND {mark:t} = i.mark

-- name: extend
-- Extend claims.  An expired claim is not extended.  All rows get the same new mark.
{listed};
DECLARE @now DATETIME2(3) = {now}, @expired DATETIME2(3) = {lasted};
DECLARE @t TABLE (id BIGINT NOT NULL, claimed_at DATETIME2(3) NOT NULL);
UPDATE t SET claimed_at = @now
OUTPUT inserted.id, inserted.claimed_at INTO @t(id, claimed_at)
FROM {held} WHERE t.claimed_at > @expired
{loop};
SELECT id, {mark} FROM @t;

-- name: read-ids
SELECT id, status, attempts, created_at, 0,
  {texts}
FROM {table}
WHERE id IN (SELECT CAST(value AS BIGINT) FROM OPENJSON(:ids)) AND status IN (0, 1, 3) ORDER BY id;

-- part: lock_row
-- Other transactions wait for the lock of the row in the primary key.
INDEX(1), FORCESEEK

-- part: whole_row

-- include: mssql.locked.sql

-- name: done-mark
-- Change only rows that this claim holds.
{listed};
UPDATE t SET status = 2, processed_at = {now} FROM {held}
{loop};

-- part: after_delay
DATEADD(MILLISECOND, CAST(:delay % 86400000 AS INT), DATEADD(DAY,
  CAST((CASE WHEN :delay < 3153600000000 THEN :delay ELSE 3153600000000 END) / 86400000 AS INT),
  SYSUTCDATETIME()))

-- name: fail
-- unused: message_id
-- claimed_at stays, as in the library.  The table cannot store :error.  A transaction that waits for the row of a message that dies does
-- not hold the lock of claims yet.
IF :dead <> 0
BEGIN
  DECLARE @row BIGINT;
  SELECT @row = id FROM {table} WITH (UPDLOCK, ROWLOCK) WHERE id = :id;
  {no_claims};
END;
UPDATE {table} SET
  status = CASE WHEN :dead <> 0 THEN 4 ELSE 3 END,
  attempts = CASE WHEN attempts BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                  WHEN attempts < 2147483647 THEN attempts + :count ELSE attempts END,
  next_retry_at = CASE WHEN :dead <> 0 THEN NULL ELSE {after_delay} END
WHERE id = :id AND status = 1 AND {mark} = :started;

-- name: requeue
{listed};
UPDATE t SET status = 0, next_retry_at = NULL, claimed_at = NULL FROM {held}
{loop};

-- name: try
-- unused: message_id
UPDATE {table} SET
  attempts = CASE WHEN attempts BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                  WHEN attempts < 2147483647 THEN attempts + 1 ELSE attempts END
WHERE id = :id AND status = 1 AND {mark} = :started;

-- part: some
-- Ids of rows that a statement changes, found by a read that waits for no transaction.
DECLARE @some TABLE (id BIGINT NOT NULL PRIMARY KEY);
SET NOCOUNT ON;
INSERT INTO @some(id)

-- part: some_rows
@some AS s JOIN {table} AS t {by_seek} ON t.id = s.id

-- part: is_old
{.}status IN (0, 1, 3) AND {.}status = 1
  AND ({.}claimed_at IS NULL OR {.}claimed_at <= DATEADD(MILLISECOND, -CAST(:timeout % 86400000 AS INT), DATEADD(DAY,
       -CAST((CASE WHEN :timeout < 3153600000000 THEN :timeout ELSE 3153600000000 END) / 86400000 AS INT),
       SYSUTCDATETIME())))

-- name: reap
{some}
SELECT id FROM {table} {unlocked} WHERE {is_old};
SET NOCOUNT OFF;
UPDATE t SET status = 0, next_retry_at = NULL, claimed_at = NULL
FROM {some_rows} WHERE {is_old:t}
{loop};

-- name: open-upto
-- waits: a row that another transaction has locked is open until that ends
SELECT CASE WHEN EXISTS (SELECT 1 FROM {table} WHERE status IN (0, 1, 3) AND id <= :upto) THEN 1 ELSE 0 END;

-- name: last-open
-- waits: as open-upto
SELECT COALESCE(MAX(id), 0) FROM {table} WHERE status IN (0, 1, 3);

-- part: old
DATEADD(MILLISECOND, -CAST(:age % 86400000 AS INT), DATEADD(DAY,
  -CAST((CASE WHEN :age < 3153600000000 THEN :age ELSE 3153600000000 END) / 86400000 AS INT), SYSUTCDATETIME()))

-- name: purge-count
SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status = 2 AND processed_at <= {old};

-- name: purge
DELETE t FROM (
  SELECT TOP (:limit) id FROM {table} {mine}
  WHERE status = 2 AND processed_at <= {old}
  ORDER BY processed_at) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.status = 2
{loop};

-- part: any
-- States to match; -1: all.
TOP (CASE WHEN :limit >= 0 THEN :limit ELSE 9223372036854775807 END)

-- part: named
-- Row with that message id, or else with that number.  SQL Server ignores blanks at the end.
SELECT id FROM {table} WHERE message_id = :ident AND DATALENGTH(message_id) = DATALENGTH(:ident)
  UNION ALL
  SELECT id FROM {table} WHERE id = :number
    AND NOT EXISTS (SELECT 1 FROM {table} AS n WHERE n.message_id = :ident)

-- part: wanted
(:topic IS NULL OR topic = :topic AND DATALENGTH(topic) = DATALENGTH(:topic))
  AND (:key IS NULL OR HASHBYTES('SHA2_256', CASE WHEN DATALENGTH("key") > 0 THEN "key" ELSE aggregate_id END)
                       = HASHBYTES('SHA2_256', :key))
  AND (:ident IS NULL OR id IN ({named})) AND id >= {from}

-- part: since
DATEADD(MILLISECOND, -CAST(:since % 86400000 AS INT), DATEADD(DAY,
  -CAST((CASE WHEN :since < 3153600000000 THEN :since ELSE 3153600000000 END) / 86400000 AS INT),
  SYSUTCDATETIME()))

-- name: retry-dead
{some}
SELECT {any} id FROM {table} WITH (NOLOCK)
WHERE (status = 4 AND :states & 16 <> 0 OR status = 3 AND :states & 8 <> 0)
  AND {wanted} AND (:since = 0 OR created_at >= {since})
ORDER BY id;
SET NOCOUNT OFF;
UPDATE t SET status = 0, attempts = 0, next_retry_at = NULL, claimed_at = NULL
FROM {some_rows} WHERE t.status = 4 AND :states & 16 <> 0 OR t.status = 3 AND :states & 8 <> 0
{loop};

-- name: discard
-- Delivered rows are not deleted.
{no_claims};
{some}
{named};
SET NOCOUNT OFF;
DELETE t FROM {some_rows} WHERE t.status IN (0, 1, 3, 4) AND (:states = 0 OR :states & POWER(2, CAST(t.status AS INT)) <> 0)
{loop};

-- part: shown
-- next_retry_at is the time that the library wrote when the row failed.
id, status, attempts, created_at, claimed_at, next_retry_at, processed_at,
  {texts},
  NULL, 0, 0

-- part: asked
:states & POWER(2, CAST(status AS INT)) <> 0 AND {wanted} AND (:since = 0 OR created_at >= {since})
  AND (:prefix IS NULL OR DATALENGTH(:prefix) = 0 OR CHARINDEX(:prefix, topic) = 1)
  AND (:older = 0 OR created_at <= DATEADD(MILLISECOND, -CAST(:older % 86400000 AS INT), DATEADD(DAY,
       -CAST((CASE WHEN :older < 3153600000000 THEN :older ELSE 3153600000000 END) / 86400000 AS INT),
       SYSUTCDATETIME())))
  AND (:text IS NULL OR CHARINDEX(:text, CONCAT(topic, N' ', message_id, N' ', "key", N' ', aggregate_id, N' ',
         CAST(payload AS NVARCHAR(MAX)))) > 0)

-- name: list
SELECT {any} {shown} FROM {table} {unlocked} WHERE status <> 2 AND {asked} ORDER BY id;

-- name: list-any
SELECT {any} {shown} FROM {table} {unlocked} WHERE {asked} ORDER BY id;

-- name: list-newest
SELECT {any} {shown} FROM {table} {unlocked} WHERE status <> 2 AND {asked} AND id < :before ORDER BY id DESC;

-- name: list-any-newest
SELECT {any} {shown} FROM {table} {unlocked} WHERE {asked} AND id < :before ORDER BY id DESC;

-- name: show
-- The row, with the lowest open row of the same aggregate before it.
SELECT TOP (1) c.id, c.status, c.attempts, c.created_at, c.claimed_at, c.next_retry_at, c.processed_at,
  {texts},
  NULL,
  (SELECT MIN(b.id) FROM {table} AS b {unlocked}
   WHERE b.aggregate_id = c.aggregate_id AND b.id < c.id AND b.status IN (0, 1, 3)),
  0
FROM {table} AS c
WHERE c.message_id = :ident AND DATALENGTH(c.message_id) = DATALENGTH(:ident) OR c.id = :number
ORDER BY CASE WHEN c.message_id = :ident THEN 0 ELSE 1 END;

-- name: count
SELECT (SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status IN (0, 1, 3) AND status = 0),
       (SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status IN (0, 1, 3) AND status = 1),
       (SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status = 2),
       (SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status IN (0, 1, 3) AND status = 3),
       (SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status = 4), 0;

-- part: age
-- Milliseconds since a row was made.
DATEDIFF_BIG(MILLISECOND, created_at, {now})

-- name: ready
SELECT COUNT_BIG(*), COALESCE(MAX({age}), 0) FROM {table} AS c {unlocked} WHERE {c_due};

-- name: oldest-pending
-- Among the first 10,000 rows.
SELECT TOP (1) {age} FROM {table} AS c {unlocked}
WHERE {c_pending} AND (NOT EXISTS (
    SELECT 1 FROM {table} AS b {unlocked}
    WHERE b.aggregate_id = c.aggregate_id AND b.id < c.id AND b.status IN (0, 1, 3) AND b.status = 3
      AND b.next_retry_at > {now})
  OR c.id >= COALESCE((SELECT id FROM {table} {unlocked} WHERE {pending} ORDER BY id OFFSET 10000 ROWS FETCH NEXT 1 ROWS ONLY),
                      9223372036854775807))
ORDER BY c.id;
