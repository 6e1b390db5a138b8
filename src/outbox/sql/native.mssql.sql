-- layout: name=native ids=integer names=qualified payloads=text,bytea message_ids=json ordered=yes fence=lease columns=id,message_id,topic,payload,status,claim_token,key_hash archive=id,message_id,topic,payload,!status
--
-- The native outbox on SQL Server 2016 SP1 and later.  Times are DATETIME2(3), UTC, which the driver
-- reads as Unix milliseconds, and always the server's.
--
-- SQL Server ignores blanks at the end of a text when it compares, whatever the collation.  So
-- message ids and ordering keys are compared by hashes, byte for byte.
--
-- docs/internals/sqlserver.md says for each statement who holds which lock, who waits for whom, and
-- why each hint is there.  In short: statements of a relay pass over rows that others have locked
-- (READPAST), so that a business transaction that is open for long stops nobody; and a claim looks
-- with NOLOCK whether an earlier row of a key is there that is not committed yet, so that no later
-- one overtakes it.
--
-- SQL Server uses a filtered index if the query has its condition, so each query repeats it word for word.

-- include: mssql.sql

-- include: mssql.own.sql

-- include: mssql.report.sql

-- include: mssql.message.sql

-- part: pending
status = 0

-- part: row_unlocked
-- The same rows, read by the primary key, which is INDEX(1).
WITH (INDEX(1), READCOMMITTEDLOCK, READPAST, ROWLOCK)

-- part: mine
-- The same rows, locked against changes until the transaction ends.
WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK)

-- part: ends
-- First and last pending id; 0: there is none.  An id 0, whose message must become dead, counts as -1.
COALESCE((SELECT TOP (1) CASE id WHEN 0 THEN -1 ELSE id END FROM {table} {unlocked}
          WHERE {pending} ORDER BY id), 0),
COALESCE((SELECT TOP (1) id FROM {table} {unlocked} WHERE {pending} ORDER BY id DESC), 0)

-- part: sane
-- Condition: a relay can handle the row.  The payload is not checked, since its limit is a setting.
id > 0 AND id < 4611686018427387904 AND attempts BETWEEN 0 AND 1000000000
  AND generation BETWEEN 0 AND 1000000000 AND created_at >= '19700101'
  AND DATALENGTH(headers) <= 2097152

-- include: mssql.lease.sql

-- part: lacking
-- Missing indexes, by their first two columns, since an administrator may rename them.
SELECT w.a, w.b
FROM (VALUES (N'message_hash', N''), (N'id', N''), (N'key_hash', N'id'), (N'key_hash', N'status'),
             (N'status', N'next_retry_at'), (N'status', N'id'), (N'processed_at', N'id')) AS w(a, b)
WHERE NOT EXISTS (
  SELECT 1 FROM sys.indexes AS i
  JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id AND x.key_ordinal = 1
  JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
  WHERE i.object_id = OBJECT_ID(N{'table}, N'U') AND i.is_primary_key = 0 AND c.name = w.a
    AND (w.b = N'' OR EXISTS (
      SELECT 1 FROM sys.index_columns AS y
      JOIN sys.columns AS d ON d.object_id = y.object_id AND d.column_id = y.column_id
      WHERE y.object_id = i.object_id AND y.index_id = i.index_id AND y.key_ordinal = 2 AND d.name = w.b)))

-- part: lacking_archive
SELECT w.a
FROM (VALUES (N'message_hash'), (N'processed_at')) AS w(a)
WHERE NOT EXISTS (
  SELECT 1 FROM sys.index_columns AS x
  JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
  WHERE x.object_id = OBJECT_ID(N{'table_archive}, N'U') AND x.key_ordinal = 1 AND c.name = w.a)

-- part: make_indexes
-- id: what is pending, for reading ahead and claims.  key_hash, id: which open rows a key has; an
-- entry stays in its place until its row is delivered or dead, so that a reader without locks
-- cannot miss one that moves.  key_hash, status: which rows hold others back.  status, next_retry_at:
-- which claims have expired, which failed rows are due.  status, id: dead rows.
DECLARE @lacking TABLE (a NVARCHAR(128) NOT NULL, b NVARCHAR(128) NOT NULL);
INSERT INTO @lacking(a, b) {lacking};
IF EXISTS (SELECT 1 FROM @lacking WHERE a = N'message_hash')
  CREATE UNIQUE INDEX {bare_message_id} ON {table}(message_hash);
IF EXISTS (SELECT 1 FROM @lacking WHERE a = N'id')
  CREATE INDEX {bare_pending} ON {table}(id) INCLUDE (key_hash) WHERE status = 0;
IF EXISTS (SELECT 1 FROM @lacking WHERE a = N'key_hash' AND b = N'id')
  CREATE INDEX {bare_open} ON {table}(key_hash, id) INCLUDE (status) WHERE status IN (0, 1, 3);
IF EXISTS (SELECT 1 FROM @lacking WHERE a = N'key_hash' AND b = N'status')
  CREATE INDEX {bare_busy} ON {table}(key_hash, status, id) INCLUDE (next_retry_at, claim_token)
    WHERE status IN (1, 3, 4);
IF EXISTS (SELECT 1 FROM @lacking WHERE a = N'status' AND b = N'next_retry_at')
  CREATE INDEX {bare_due} ON {table}(status, next_retry_at, id) INCLUDE (key_hash, claim_token)
    WHERE status IN (1, 3);
IF EXISTS (SELECT 1 FROM @lacking WHERE a = N'status' AND b = N'id')
  CREATE INDEX {bare_dead} ON {table}(status, id) WHERE status = 4;
IF EXISTS (SELECT 1 FROM @lacking WHERE a = N'processed_at')
  CREATE INDEX {bare_done} ON {table}(processed_at, id) WHERE status = 2;
DECLARE @lacking_archive TABLE (a NVARCHAR(128) NOT NULL);
INSERT INTO @lacking_archive(a) {lacking_archive};
IF EXISTS (SELECT 1 FROM @lacking_archive WHERE a = N'message_hash')
  CREATE INDEX {bare_archive_mid} ON {table_archive}(message_hash);
IF EXISTS (SELECT 1 FROM @lacking_archive WHERE a = N'processed_at')
  CREATE INDEX {bare_archive_done} ON {table_archive}(processed_at);

-- include: mssql.identity.sql

-- include: mssql.enqueue.sql

-- include: mssql.marks.sql

-- name: migrate-1
-- The table has the columns that other relays know, and columns of Wherry's with defaults.  "stamp" shows
-- which transactions may still be open: see "horizon".
{own_tables}
IF OBJECT_ID(N{'table}, N'U') IS NULL
BEGIN
  CREATE TABLE {table}(
    id             BIGINT IDENTITY(1, 1) NOT NULL PRIMARY KEY CLUSTERED,
    message_id     NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT {new_message_id},
    topic          NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL,
    aggregate_type NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT N'',
    aggregate_id   NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT N'',
    partition_key  NVARCHAR(1024) COLLATE Latin1_General_BIN2,
    headers        NVARCHAR(MAX) COLLATE Latin1_General_BIN2 NOT NULL DEFAULT N'{}',
    trace_id       NVARCHAR(255) COLLATE Latin1_General_BIN2,
    status         TINYINT NOT NULL DEFAULT 0
                   CHECK (status = 0 OR status = 1 OR status = 2 OR status = 3 OR status = 4),
    attempts       INT NOT NULL DEFAULT 0,
    claimed_at     DATETIME2(3),
    claim_token    NVARCHAR(64) COLLATE Latin1_General_BIN2,
    next_retry_at  DATETIME2(3),
    created_at     DATETIME2(3) NOT NULL DEFAULT SYSUTCDATETIME(),
    processed_at   DATETIME2(3),
    generation     INT NOT NULL DEFAULT 0,
    last_error     NVARCHAR(MAX) COLLATE Latin1_General_BIN2,
    stamp          ROWVERSION NOT NULL,
    message_hash   AS CAST(HASHBYTES('SHA2_256', message_id) AS BINARY(32)) PERSISTED NOT NULL,
    key_hash       AS {key} PERSISTED,
    CONSTRAINT {bare_sane} CHECK ({sane})
  );
  IF N'{payload_type}' = N'VARBINARY(MAX)'
    ALTER TABLE {table} ADD payload VARBINARY(MAX) NOT NULL;
  ELSE
    ALTER TABLE {table} ADD payload NVARCHAR(MAX) COLLATE Latin1_General_BIN2 NOT NULL;
  -- A business transaction that adds thousands of rows must keep row locks: a lock of the table would
  -- stop every relay.
  ALTER TABLE {table} SET (LOCK_ESCALATION = DISABLE);
END;
IF OBJECT_ID(N{'table_archive}, N'U') IS NULL
BEGIN
  CREATE TABLE {table_archive}(
    id BIGINT NOT NULL PRIMARY KEY, message_id NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL,
    topic NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL,
    aggregate_type NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL,
    aggregate_id NVARCHAR(255) COLLATE Latin1_General_BIN2 NOT NULL,
    partition_key NVARCHAR(1024) COLLATE Latin1_General_BIN2,
    headers NVARCHAR(MAX) COLLATE Latin1_General_BIN2 NOT NULL,
    trace_id NVARCHAR(255) COLLATE Latin1_General_BIN2, attempts INT NOT NULL,
    created_at DATETIME2(3) NOT NULL, processed_at DATETIME2(3) NOT NULL, generation INT NOT NULL,
    last_error NVARCHAR(MAX) COLLATE Latin1_General_BIN2,
    message_hash AS CAST(HASHBYTES('SHA2_256', message_id) AS BINARY(32)) PERSISTED NOT NULL
  );
  IF {is_varbinary}
    ALTER TABLE {table_archive} ADD payload VARBINARY(MAX) NOT NULL;
  ELSE
    ALTER TABLE {table_archive} ADD payload NVARCHAR(MAX) COLLATE Latin1_General_BIN2 NOT NULL;
END;
{make_indexes}
{stub_procedures}
{make_procedures}
IF NOT EXISTS (SELECT 1 FROM {wherry_outbox} WHERE name = N{name})
  INSERT INTO {wherry_outbox}(name) VALUES (N{name});
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'outbox' AND name = N{name})
  INSERT INTO {wherry_schema}(model, name, version, min_program) VALUES (N'outbox', N{name}, 1, 100);

-- name: indexes-missing
-- Number of missing indexes of the outbox.  A procedure of another version counts too, since it needs to be made again.
SELECT (SELECT COUNT(*) FROM ({lacking}) AS t) + (SELECT COUNT(*) FROM ({lacking_archive}) AS a) + {procedures_stale};

-- name: drop
DROP TABLE {table};
DROP TABLE IF EXISTS {table_archive};
DELETE FROM {wherry_outbox} WHERE name = N{name};
DELETE FROM {wherry_lease} WHERE outbox = N{name};
DELETE FROM {wherry_schema} WHERE model = N'outbox' AND name = N{name};

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM {wherry_schema} WHERE model = N'outbox' AND name = :name;

-- name: columns
{column_names};

-- name: enqueue
{insert_once};

-- part: is_due
({.}next_retry_at IS NULL OR {.}next_retry_at <= {now})

-- name: join
-- The lease that competing relays hold together, so that no relay of another engine works
-- beside them.  It names its members, so that the last one that leaves gives it back.  The
-- first relay that joins after it expired begins a new epoch, so that earlier members are
-- recognised and counted again.  Members that crashed stay: at a hundred members, all except
-- the caller are forgotten until they renew (members_that_crashed_are_forgotten).
-- The process is known while one relay is the only member, so that others on its machine see
-- when it has ended.
-- UPDLOCK, HOLDLOCK: as in "lease".
{got};
DECLARE @me NVARCHAR(100) = N',' + :token + N',';
UPDATE {wherry_lease} SET engine = N'competing', owner = :owner, mask = -1,
  epoch = CASE
    WHEN engine <> N'competing' OR expires_at <= {now} AND epoch <> :epoch THEN {next_epoch} ELSE epoch END,
  win = 1, process = CASE WHEN members = @me THEN :process ELSE N'' END, {reported},
  members = CASE
    WHEN engine <> N'competing' OR LEN(members) > 3700
         OR expires_at <= {now} AND epoch <> :epoch
    THEN @me
    WHEN CHARINDEX(@me, members) > 0 THEN members
    ELSE members + SUBSTRING(@me, 2, 100) END,
  lasts = CASE WHEN engine <> N'competing' OR expires_at <= {now} OR :lasts > lasts THEN :lasts ELSE lasts END,
  expires_at = CASE WHEN expires_at > {until} THEN expires_at ELSE {until} END,
  clean = 1, unclean = 0, suspects = 0
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
WHERE outbox = :name AND number = :number AND (engine = N'competing' OR expires_at <= {now})
  AND {alone};
INSERT INTO {wherry_lease}(outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean, win,
                           suspects, members, process)
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
SELECT :name, :number, N'competing', :owner, 1, {until}, :lasts, 1, 0, 1, 0, @me, :process
WHERE {alone} AND NOT EXISTS (SELECT 1 FROM {wherry_lease} AS s WITH (UPDLOCK, HOLDLOCK)
                              WHERE s.outbox = :name AND s.number = :number);
{got_row};

-- name: leave
-- A relay that leaves twice is counted once (who_leaves_twice_is_counted_once).
UPDATE {wherry_lease} SET members = REPLACE(members, N',' + :token + N',', N','), {counted},
  expires_at = CASE WHEN members = N',' + :token + N',' THEN {ended} ELSE expires_at END,
  state = CASE WHEN members = N',' + :token + N',' THEN N'stopped' ELSE state END,
  state_since = CASE WHEN members = N',' + :token + N',' THEN {now} ELSE state_since END
WHERE outbox = :name AND number = :number AND epoch = :epoch AND engine = N'competing'
  AND CHARINDEX(N',' + :token + N',', members) > 0;

-- part: claims_lock
DECLARE @claims NVARCHAR(255) = CONCAT(N'wherry_claim:', OBJECT_ID(N{'table}, N'U')), @granted INT = 0

-- part: claims_granted
IF @granted < 0
  THROW 51222, N'the lock of claims was not granted in time', 1

-- name: claim-lock
-- First statement in the transaction of every claim.  Claims of an outbox run one after another, and
-- each sees those before it (two_claims_at_once_…).  A statement that removes a row that was not
-- delivered (a message that dies, "discard") holds this lock shared: so a claim, which reads
-- uncommitted rows, does not take later rows of a key behind a death that is rolled back.  Producers
-- and acknowledgements do not wait for this lock.
{claims_lock};
EXEC @granted = sp_getapplock @Resource = @claims, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
{claims_granted};

-- part: no_claims
-- While the lock is held shared, no claim runs.
{claims_lock};
EXEC @granted = sp_getapplock @Resource = @claims, @LockMode = 'Shared', @LockOwner = 'Transaction';
{claims_granted}

-- part: first_open
-- First open row of the key of c, also if it is not committed: NOLOCK.
(SELECT TOP (1) o.id FROM {table} AS o WITH (NOLOCK)
 WHERE o.status IN (0, 1, 3) AND o.key_hash = c.key_hash ORDER BY o.id)

-- part: unheld
-- Condition: no row of the key of c is under a live claim, and no row before c is claimed, has failed, or
-- is dead and parks the key.  With :share rows that expired with c do not count.
NOT EXISTS (
  SELECT 1 FROM {table} AS b WITH (NOLOCK)
  WHERE b.status IN (1, 3, 4) AND b.key_hash = c.key_hash AND b.id <> c.id
    AND (b.status = 1 AND b.next_retry_at > {now}
         OR b.id < c.id AND (b.status = 3 OR b.status = 4 AND :park <> 0
                             OR b.status = 1 AND (:share = 0 OR b.claim_token IS NULL
                                                  OR b.claim_token <> c.claim_token))))

-- part: unparked
(:park = 0 OR c.key_hash IS NULL OR NOT EXISTS (
  SELECT 1 FROM {table} AS b WITH (NOLOCK)
  WHERE b.status IN (1, 3, 4) AND b.status = 4 AND b.key_hash = c.key_hash AND b.id < c.id))

-- part: chosen
-- Rows to claim, chosen before any lock is taken.  At most 4,000: a statement that takes 5,000 locks on
-- an index may get a lock of the table instead.
DECLARE @c TABLE (id BIGINT NOT NULL PRIMARY KEY, k BINARY(32))

-- part: most
TOP (CASE WHEN :limit < 4000 THEN :limit ELSE 4000 END)

-- part: take
-- Lock the chosen rows; rows that others have locked meanwhile are left out.  Then find keys that have an
-- earlier open row that is not among them, committed or not: their rows are left out too.  Mark the
-- rest.
DECLARE @l TABLE (id BIGINT NOT NULL PRIMARY KEY, k BINARY(32));
INSERT INTO @l(id, k)
SELECT t.id, c.k FROM @c AS c JOIN {table} AS t {mine} ON t.id = c.id WHERE t.status = @was
{loop};
DECLARE @b TABLE (k BINARY(32) NOT NULL PRIMARY KEY, id BIGINT NOT NULL);
INSERT INTO @b(k, id)
SELECT m.k, f.id
FROM (SELECT k, MAX(id) AS last FROM @l WHERE k IS NOT NULL AND :unordered = 0 GROUP BY k) AS m
CROSS APPLY (
  SELECT TOP (1) o.id FROM {table} AS o WITH (NOLOCK)
  WHERE o.status IN (0, 1, 3) AND o.key_hash = m.k AND o.id < m.last
    AND NOT EXISTS (SELECT 1 FROM @l AS x WHERE x.id = o.id)
  ORDER BY o.id) AS f;
DELETE l FROM @l AS l JOIN @b AS b ON b.k = l.k AND l.id >= b.id;
DECLARE @t TABLE (id BIGINT NOT NULL PRIMARY KEY);
UPDATE t SET status = 1, claim_token = :token, claimed_at = {now}, next_retry_at = {until},
  attempts = CASE WHEN @add = 0 THEN t.attempts WHEN t.attempts < 999999999 THEN t.attempts + 1
                  ELSE 1000000000 END
OUTPUT inserted.id INTO @t(id)
FROM @l AS l JOIN {table} AS t {by_seek} ON t.id = l.id
WHERE t.status = @was
{loop};
SELECT id, @add, attempts - @add, generation, created_at, 0,
  {texts}
FROM {table} WITH (FORCESEEK) WHERE id IN (SELECT id FROM @t) ORDER BY id

-- name: claim-end
-- Range of one claim: the last of the first pending rows, and their number.
SELECT COALESCE(MAX(id), 0), COUNT_BIG(*) FROM (
  SELECT TOP (:scan) id FROM {table} {unlocked}
  WHERE {pending} AND id > :after AND id <= :most ORDER BY id) AS p;

-- name: claim
-- Claim pending rows between two ids, those of one key together.  A key is left out if one of its rows is
-- being tried, or if an earlier one failed, was retried, was skipped by a claim before this one, or is
-- not committed yet (two_claims_never_hold_messages_of_one_key).  Skipped rows need not be listed, since
-- the first open row of a key shows them.
DECLARE @was TINYINT = 0, @add INT = 0;
{chosen};
INSERT INTO @c(id, k)
SELECT {most} c.id, c.key_hash FROM {table} AS c {unlocked}
WHERE c.status = 0 AND c.id > :after AND c.id <= :upto
  AND (:unordered <> 0 OR c.key_hash IS NULL OR {unheld} AND EXISTS (
    SELECT 1 FROM {table} AS f {unlocked} WHERE f.id = {first_open} AND f.status = 0 AND f.id > :after))
ORDER BY c.id;
{take};

-- name: claim-due
-- Claim failed rows that are due, each the first of its key.
DECLARE @was TINYINT = 3, @add INT = 0;
{chosen};
INSERT INTO @c(id, k)
SELECT {most} c.id, c.key_hash FROM {table} AS c {unlocked}
WHERE c.status IN (1, 3) AND c.status = 3 AND {is_due:c}
  AND (:unordered <> 0 OR c.key_hash IS NULL OR {unheld} AND c.id = {first_open})
ORDER BY c.next_retry_at;
{take};

-- name: expired
-- The claim that expired first, among rows that nothing holds back, and the number of rows that expired
-- with it.
SELECT f.claim_token, (
  SELECT COUNT_BIG(*) FROM {table} AS c {unlocked}
  WHERE c.status IN (1, 3) AND c.status = 1 AND {is_due:c} AND c.claim_token = f.claim_token)
FROM (
  SELECT TOP (1) c.claim_token FROM {table} AS c {unlocked}
  WHERE c.status IN (1, 3) AND c.status = 1 AND {is_due:c}
    AND (:unordered <> 0 OR c.key_hash IS NULL OR {unheld} AND c.id = {first_open})
  ORDER BY c.next_retry_at) AS f;

-- name: claim-share
-- Claim some of the rows that expired together, in id order.  No attempt is recorded, since only one of
-- them can have crashed the relay, if any did (what_expires_again_is_shared_out_smaller).
DECLARE @was TINYINT = 1, @add INT = 0;
{chosen};
INSERT INTO @c(id, k)
SELECT {most} c.id, c.key_hash FROM {table} AS c {unlocked}
WHERE c.status IN (1, 3) AND c.status = 1 AND {is_due:c} AND c.claim_token = :of
  AND (:unordered <> 0 OR c.key_hash IS NULL OR {unheld})
ORDER BY c.id;
{take};

-- name: claim-expired
-- Claim one row whose claim has expired, to be tried alone.  The attempt is recorded before it is made, so
-- that a message that crashes its relay runs out of attempts.  The row is the first of its key, and no
-- row of the key is under a live claim.
DECLARE @was TINYINT = 1, @add INT = 1;
{chosen};
INSERT INTO @c(id, k)
SELECT TOP (1) c.id, c.key_hash FROM {table} AS c {unlocked}
WHERE c.status IN (1, 3) AND c.status = 1 AND {is_due:c}
  AND (:unordered <> 0 OR c.key_hash IS NULL OR {unheld} AND c.id = {first_open})
ORDER BY c.next_retry_at;
{take};

-- name: claim-next
-- Milliseconds until the first claim expires, and until the first failed row is due.  Rows that are
-- parked behind a dead row do not count
-- (until_empty_competing_ends_with_parked_claims_and_failures).
SELECT (SELECT TOP (1) DATEDIFF_BIG(MILLISECOND, {now}, COALESCE(c.next_retry_at, '19700101'))
        FROM {table} AS c {unlocked} WHERE c.status IN (1, 3) AND c.status = 1 AND {unparked}
        ORDER BY c.next_retry_at),
       (SELECT TOP (1) DATEDIFF_BIG(MILLISECOND, {now}, COALESCE(c.next_retry_at, '19700101'))
        FROM {table} AS c {unlocked} WHERE c.status IN (1, 3) AND c.status = 3 AND {unparked}
        ORDER BY c.next_retry_at);

-- part: listed
-- The ids, and the hashes of the messages that they must be: a row may have been deleted, and another
-- one have taken its id (what_took_the_id_of_a_message_in_flight_is_delivered).
SET NOCOUNT ON;
DECLARE @ids TABLE (id BIGINT NOT NULL, h BINARY(32));
INSERT INTO @ids(id, h)
SELECT CAST(i.value AS BIGINT), HASHBYTES('SHA2_256', n.value)
FROM OPENJSON(:ids) AS i LEFT JOIN OPENJSON(:names) AS n ON n.[key] = i.[key];
SET NOCOUNT OFF

-- part: is_listed
i.id = t.id AND (i.h IS NULL OR i.h = t.message_hash)

-- part: these
@ids AS i JOIN {table} AS t {by_seek} ON {is_listed}

-- part: in_range
-- The same for consecutive ids.
SET NOCOUNT ON;
DECLARE @ids TABLE (id BIGINT NOT NULL PRIMARY KEY, h BINARY(32));
INSERT INTO @ids(id, h)
SELECT :first + CAST([key] AS BIGINT), HASHBYTES('SHA2_256', value) FROM OPENJSON(:names);
SET NOCOUNT OFF

-- part: is_in_range
t.id BETWEEN :first AND :last AND (i.h IS NULL OR i.h = t.message_hash)

-- part: those
{table} AS t {by_seek} LEFT JOIN @ids AS i ON i.id = t.id

-- name: extend
-- An expired claim is not extended.
{listed};
UPDATE t SET next_retry_at = {until}
FROM {these}
WHERE t.status IN (0, 1, 3) AND t.status = 1 AND t.claim_token = :token AND t.next_retry_at > {now}
{loop};

-- part: to_choose
-- Tables of a read: the rows that it chooses; rows that another transaction has locked; the first row of
-- each key that it skips; and keys that have to wait behind such a row, from its id on.
DECLARE @r TABLE (id BIGINT NOT NULL PRIMARY KEY, k BINARY(32));
DECLARE @locked TABLE (id BIGINT NOT NULL PRIMARY KEY);
DECLARE @passed TABLE (k BINARY(32) NOT NULL PRIMARY KEY, id BIGINT NOT NULL);
DECLARE @waits TABLE (k BINARY(32) NOT NULL, id BIGINT NOT NULL, PRIMARY KEY (k, id));
DECLARE @again BIT = 1, @full BIT, @found INT

-- part: may_leave
NOT EXISTS (SELECT 1 FROM @waits AS w WHERE w.k = {.}key_hash AND w.id < {.}id)
AND NOT EXISTS (SELECT 1 FROM @locked AS y WHERE y.id = {.}id)

-- part: is_full
-- Directly after the statement that chooses: whether it chose as many rows as the relay wants.
SET @full = CASE WHEN @@ROWCOUNT >= :limit THEN 1 ELSE 0 END

-- part: drop_locked
-- The rows were chosen by the entries of an index, and an entry may be free while its row is locked: a commit gives
-- locks back one after the other, and an UPDATE may touch no indexed column.  Such a row counts as passed over.
INSERT INTO @locked(id)
SELECT r.id FROM @r AS r WHERE NOT EXISTS (
  SELECT 1 FROM {table} AS t {row_unlocked} WHERE t.id = r.id AND t.status IN (0, 1, 3));
SET @found = @@ROWCOUNT;
DELETE r FROM @r AS r JOIN @locked AS y ON y.id = r.id

-- part: read_rows
-- Return the chosen rows.  The statement waits for a transaction that locks one meanwhile, because later rows of its
-- key are among them.
{table} WITH (READCOMMITTEDLOCK, ROWLOCK, FORCESEEK) WHERE id IN (SELECT id FROM @r)

-- part: is_passed
{.}key_hash IS NOT NULL AND NOT EXISTS (SELECT 1 FROM @r AS x WHERE x.id = {.}id)

-- part: drop_later
-- @passed has rows that a read skipped because they were not committed when it passed them.  From the
-- first of them on, later rows of the same key wait, so that none overtakes it.  A relay of the whole
-- outbox treats their ids as gaps and reads them again.  They must not take the room of other keys, so a
-- read that was full chooses once more, without them and without locked rows
-- (a_key_that_waits_for_a_transaction_stops_no_other).
INSERT INTO @waits(k, id)
SELECT p.k, p.id FROM @passed AS p WHERE EXISTS (SELECT 1 FROM @r AS x WHERE x.k = p.k AND x.id > p.id);
SET @again = CASE WHEN @@ROWCOUNT > 0 OR @found > 0 THEN @full ELSE 0 END;
DELETE r FROM @r AS r JOIN @waits AS w ON w.k = r.k AND r.id > w.id;
DELETE FROM @passed

-- part: to_read
DECLARE @gaps TABLE (first BIGINT NOT NULL, last BIGINT NOT NULL);
{to_choose}

-- part: drop_overtaking
-- :after and :gaps say which rows the relay has not read yet.
INSERT INTO @passed(k, id)
SELECT o.key_hash, MIN(o.id)
FROM (
  SELECT p.key_hash, p.id FROM {table} AS p WITH (NOLOCK)
  WHERE p.status = 0 AND p.id > :after AND p.id < (SELECT MAX(x.id) FROM @r AS x)
  UNION ALL
  SELECT p.key_hash, p.id FROM @gaps AS h JOIN {table} AS p WITH (NOLOCK)
    ON p.id BETWEEN h.first AND h.last WHERE p.status = 0) AS o
WHERE {is_passed:o} GROUP BY o.key_hash;
{drop_later}

-- name: read
{to_read};
WHILE @again = 1
BEGIN
  DELETE FROM @r;
  INSERT INTO @r(id, k)
  SELECT TOP (:limit) t.id, t.key_hash FROM {table} AS t {unlocked}
  WHERE t.status = 0 AND t.id > :after AND {may_leave:t} ORDER BY t.id;
  {is_full};
  {drop_locked};
  {drop_overtaking};
END;
SELECT {open_columns} FROM {read_rows} AND {pending} ORDER BY id;

-- name: sweep
-- All open rows behind the cursor, in id order, and rows with skipped ids that have been committed since
-- (rows_of_a_key_that_appear_late_…).
{to_read};
INSERT INTO @gaps(first, last)
SELECT CAST(JSON_VALUE(value, '$[0]') AS BIGINT), CAST(JSON_VALUE(value, '$[1]') AS BIGINT)
FROM OPENJSON(:gaps);
WHILE @again = 1
BEGIN
  DELETE FROM @r;
  INSERT INTO @r(id, k)
  SELECT TOP (:limit) u.id, u.key_hash
  FROM (
    SELECT a.id, a.key_hash FROM (
      SELECT TOP (:limit) t.id, t.key_hash FROM {table} AS t {unlocked}
      WHERE t.status = 0 AND t.id > :after AND {may_leave:t} ORDER BY t.id) AS a
    UNION ALL
    SELECT b.id, b.key_hash FROM {table} AS b {unlocked}
    WHERE b.status IN (1, 3) AND b.id > :after AND {may_leave:b}
    UNION ALL
    SELECT l.id, l.key_hash FROM @gaps AS h JOIN {table} AS l {unlocked} ON l.id BETWEEN h.first AND h.last
    WHERE l.status = 0 AND l.id <= :after AND {may_leave:l}) AS u
  ORDER BY u.id;
  {is_full};
  {drop_locked};
  {drop_overtaking};
END;
SELECT {open_columns} FROM {read_rows} AND status IN (0, 1, 3) ORDER BY id;

-- name: read-ids
-- Rows that were left behind a failed message of their key, or gaps.
SELECT {open_columns} FROM {table}
WHERE id IN (SELECT CAST(value AS BIGINT) FROM OPENJSON(:ids)) AND status IN (0, 1, 3) ORDER BY id;

-- name: horizon
-- The lowest row version of a transaction that is still open, and the next one that the server gives out.
-- A gap that was found before `next` is closed when `oldest` has reached it.  The statement also proves
-- that rows read before it were read under the lease.
SELECT CONVERT(BIGINT, MIN_ACTIVE_ROWVERSION()), CONVERT(BIGINT, @@DBTS) + 1, CONVERT(BIGINT, @@DBTS) + 1,
  CASE WHEN EXISTS (SELECT 1 FROM {wherry_lease} WHERE {holds}) THEN 1 ELSE 0 END;

-- name: dead-keys
-- Dead rows, for relays that park the keys of dead messages.
SELECT TOP (:limit) id, {key_texts} FROM {table} {unlocked}
WHERE status = 4 AND id > :after ORDER BY id;

-- name: open-upto
-- Whether a row is open up to this id.
SELECT CASE WHEN EXISTS (SELECT 1 FROM {table} {unlocked} WHERE {pending} AND id <= :upto)
         OR EXISTS (SELECT 1 FROM {table} {unlocked} WHERE status IN (1, 3) AND id <= :upto) THEN 1 ELSE 0 END;

-- name: last-open
SELECT COALESCE(MAX(id), 0) FROM (
  SELECT MAX(id) AS id FROM {table} {unlocked} WHERE {pending}
  UNION ALL
  SELECT MAX(id) FROM {table} {unlocked} WHERE status IN (1, 3)) AS t;

-- part: this
-- Condition: the row is this message, and not another that has its id now.
(:message_id IS NULL OR message_hash = HASHBYTES('SHA2_256', :message_id))

-- part: ours
(:token IS NULL OR t.claim_token = :token)

-- part: lock_row
-- Other transactions wait for the lock of the row in the primary key.
INDEX(1), FORCESEEK

-- part: whole_row

-- include: mssql.locked.sql

-- name: done-mark
{listed};
UPDATE t SET status = 2, processed_at = {now}
FROM {these} WHERE t.status IN (0, 1, 3) AND {ours}
{loop};

-- name: done-delete
{listed};
DELETE t FROM {these} WHERE t.status IN (0, 1, 3) AND {ours}
{loop};

-- name: done-mark-range
-- The same for consecutive ids, which those of a batch nearly always are.
{in_range};
UPDATE t SET status = 2, processed_at = {now}
FROM {those}
WHERE {is_in_range} AND t.status IN (0, 1, 3) AND {ours}
{loop};

-- name: done-delete-range
{in_range};
DELETE t FROM {those}
WHERE {is_in_range} AND t.status IN (0, 1, 3) AND {ours}
{loop};

-- part: held
-- The condition of "fence" in the statement that writes.  It is evaluated first, so without the lease no row is
-- locked.
(SELECT TOP (1) epoch FROM {wherry_lease} WITH (REPEATABLEREAD, ROWLOCK)
 WHERE {holds}) AS f CROSS JOIN

-- name: ack-mark
-- Acknowledge deliveries when there is nothing else to write: one statement that is its own transaction
-- (a_lease_that_was_taken_over_acknowledges_nothing).
{listed};
UPDATE t SET status = 2, processed_at = {now}
FROM {held} {these} WHERE t.status IN (0, 1, 3)
{loop};

-- name: ack-mark-range
{in_range};
UPDATE t SET status = 2, processed_at = {now}
FROM {held} {those}
WHERE {is_in_range} AND t.status IN (0, 1, 3)
{loop};

-- name: ack-delete
{listed};
DELETE t FROM {held} {these} WHERE t.status IN (0, 1, 3)
{loop};

-- name: ack-delete-range
{in_range};
DELETE t FROM {held} {those}
WHERE {is_in_range} AND t.status IN (0, 1, 3)
{loop};

-- part: archive_columns
{.}id, {.}message_id, {.}topic, {.}aggregate_type, {.}aggregate_id, {.}partition_key, {.}headers, {.}trace_id,
  {.}attempts, {.}created_at, {.}processed_at, {.}generation, {.}last_error, {.}payload

-- name: done-archive
-- Runs before done-delete, in the same transaction; the rows stay locked until then (UPDLOCK).  A row
-- that was replayed and is delivered again replaces the one in the archive.
{listed};
DELETE a FROM @ids AS i JOIN {table_archive} AS a {by_seek} ON a.id = i.id
{loop};
INSERT INTO {table_archive}({archive_columns})
SELECT t.id, t.message_id, t.topic, t.aggregate_type, t.aggregate_id, t.partition_key, t.headers,
       t.trace_id, t.attempts, t.created_at, {now}, t.generation, t.last_error, t.payload
FROM @ids AS i JOIN {table} AS t WITH (UPDLOCK, ROWLOCK, FORCESEEK) ON {is_listed}
WHERE t.status IN (0, 1, 3) AND {ours}
{loop};

-- name: fail
-- If the number of the attempt is known, it is set and not increased: a transaction whose answer was
-- lost is written again (a_lost_answer_counts_no_attempt_twice).  An operator may have set the number
-- to 0 meanwhile.  A message becomes dead while no claim runs; a transaction that waits for the
-- message's row (UPDLOCK) does not hold the lock of claims yet.
IF :dead <> 0
BEGIN
  DECLARE @row BIGINT;
  SELECT @row = id FROM {table} WITH (UPDLOCK, ROWLOCK) WHERE id = :id;
  {no_claims};
END;
UPDATE {table} SET
  status = CASE WHEN :dead <> 0 THEN 4 ELSE 3 END,
  attempts = CASE WHEN attempts BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                  WHEN attempts < 999999999 THEN attempts + :count ELSE 999999999 + :count END,
  next_retry_at = CASE WHEN :dead <> 0 THEN NULL ELSE {after_delay} END,
  last_error = :error
WHERE id = :id AND {this} AND status IN (0, 1, 3) AND (:token IS NULL OR claim_token = :token);

-- name: requeue
-- The empty token marks a row that an operator or a relay wants to be read again.
{listed};
UPDATE t SET status = 0, next_retry_at = NULL, claimed_at = NULL, claim_token = N''
FROM {these} WHERE t.status IN (1, 3) AND {ours}
{loop};

-- name: requeue-failed
-- For relays that read no pending rows: make rows failed and due now, and count no attempt.
{listed};
UPDATE t SET status = 3, next_retry_at = {now}, claimed_at = NULL, claim_token = N''
FROM {these} WHERE t.status IN (1, 3) AND {ours}
{loop};

-- name: try
-- The attempt of a suspect is recorded before it is delivered, so that a message that crashes its relay
-- runs out of attempts (a_message_that_kills_its_relay_ends_dead).
UPDATE {table} SET status = 1,
  attempts = CASE WHEN attempts BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                  WHEN attempts < 999999999 THEN attempts + 1 ELSE 1000000000 END,
  claimed_at = {now}, claim_token = :token,
  next_retry_at = CASE WHEN status = 1 THEN next_retry_at END
WHERE id = :id AND {this} AND status IN (0, 1, 3) AND (:claimed = 0 OR claim_token = :token);

-- name: untry
-- The destination was down, so the attempt of the message does not count
-- (relays_that_end_while_the_destination_is_down_cost_no_attempt).
UPDATE {table} SET status = 0, attempts = :nth - 1, next_retry_at = NULL,
  claimed_at = NULL, claim_token = N''
WHERE id = :id AND {this} AND status IN (0, 1, 3) AND status = 1 AND claim_token = :token AND attempts = :nth;

-- part: is_old
{.}status IN (1, 3) AND {.}status = 1
  AND ({.}claimed_at IS NULL OR {.}claimed_at <= DATEADD(MILLISECOND, -CAST(:timeout % 86400000 AS INT), DATEADD(DAY,
       -CAST((CASE WHEN :timeout < 3153600000000 THEN :timeout ELSE 3153600000000 END) / 86400000 AS INT),
       SYSUTCDATETIME())))
  AND ({.}next_retry_at IS NULL OR {.}next_retry_at <= {now})

-- name: reap
-- Live claims that were extended are left out (reaping_leaves_claims_that_live).
{some}
SELECT id FROM {table} {unlocked} WHERE {is_old};
{of_some}
UPDATE t SET status = 0, claimed_at = NULL, claim_token = N'', next_retry_at = NULL
FROM {some_rows} WHERE {is_old:t}
{loop};

-- part: old_rows
(SELECT TOP (:limit) id FROM {table} {mine} WHERE status = 2 AND processed_at <= {old}
 ORDER BY processed_at) AS d JOIN {table} AS t {by_seek} ON t.id = d.id

-- name: purge
DELETE t FROM {old_rows}
WHERE t.status = 2
{loop};

-- name: purge-count
SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status = 2 AND processed_at <= {old};

-- name: purge-archived
-- Runs after archive: delete only rows that are in the archive, since the clock has advanced in between.
DELETE t FROM {old_rows}
JOIN {table_archive} AS a ON a.id = t.id AND a.message_hash = t.message_hash AND a.generation = t.generation
WHERE t.status = 2
{loop};

-- name: archive
-- Runs before purge-archived, in the same transaction.
DECLARE @old TABLE (id BIGINT NOT NULL PRIMARY KEY);
INSERT INTO @old(id)
SELECT TOP (:limit) id FROM {table} {mine} WHERE status = 2 AND processed_at <= {old} ORDER BY processed_at;
DELETE a FROM @old AS o JOIN {table_archive} AS a {by_seek} ON a.id = o.id
{loop};
INSERT INTO {table_archive}({archive_columns})
SELECT {archive_columns:t} FROM @old AS o JOIN {table} AS t WITH (FORCESEEK) ON t.id = o.id WHERE t.status = 2
{loop};

-- name: purge-archive
DELETE t FROM (SELECT TOP (:limit) id FROM {table_archive} {unlocked} WHERE processed_at <= {old} ORDER BY processed_at) AS d
JOIN {table_archive} AS t {by_seek} ON t.id = d.id
{loop};

-- name: purge-archive-count
SELECT COUNT_BIG(*) FROM {table_archive} {unlocked} WHERE processed_at <= {old};

-- part: named
-- Row with that message id, or else with that number, each found by its index.
SELECT id FROM {table} WHERE message_hash = HASHBYTES('SHA2_256', :ident)
  UNION ALL
  SELECT id FROM {table} WHERE :ident IS NOT NULL AND id = :number
    AND NOT EXISTS (SELECT 1 FROM {table} AS n WHERE n.message_hash = HASHBYTES('SHA2_256', :ident))

-- part: named_archived
SELECT id FROM {table_archive} WHERE message_hash = HASHBYTES('SHA2_256', :ident)
  UNION ALL
  SELECT id FROM {table_archive} WHERE :ident IS NOT NULL AND id = :number
    AND NOT EXISTS (SELECT 1 FROM {table_archive} AS n WHERE n.message_hash = HASHBYTES('SHA2_256', :ident))

-- name: retry-dead
-- The lock keeps claims away, since they look for dead rows that park a key.
{no_claims};
{some}
SELECT {any} id FROM {table} WITH (NOLOCK)
WHERE (status = 4 AND :states & 16 <> 0 OR status = 3 AND :states & 8 <> 0)
  AND (:ident IS NULL OR id IN ({named})) AND status IN (3, 4)
  AND {topic_and_key} AND {since_created} AND id > :after
ORDER BY id;
{of_some}
UPDATE t SET status = 0, attempts = 0, next_retry_at = NULL, claimed_at = NULL, claim_token = N''
FROM {some_rows} WHERE t.status = 4 AND :states & 16 <> 0 OR t.status = 3 AND :states & 8 <> 0
{loop};

-- name: discard
-- Delivered rows are not deleted.  A relay that has the message in flight finds no row to acknowledge.
{no_claims};
{some}
{named};
{of_some}
DELETE t FROM {some_rows} WHERE t.status IN (0, 1, 3, 4)
{loop};

-- part: since_processed
(:since = 0 OR processed_at >= {since})

-- name: replay
-- The empty token marks the row, as in "requeue".
{no_claims};
{some}
SELECT {any} id FROM {table} WITH (NOLOCK)
WHERE status = 2 AND (:ident IS NULL OR id IN ({named})) AND {since_processed}
  AND (id <> :number OR message_hash = HASHBYTES('SHA2_256', :ident) OR NOT EXISTS (
       SELECT 1 FROM {table_archive} AS n WHERE n.message_hash = HASHBYTES('SHA2_256', :ident)))
  AND {topic_and_key} AND id > :after
ORDER BY id;
{of_some}
UPDATE t SET status = 0, attempts = 0, next_retry_at = NULL, processed_at = NULL,
  claimed_at = NULL, claim_token = N'',
  generation = CASE WHEN generation < 999999999 THEN generation + 1 ELSE 1000000000 END
FROM {some_rows} WHERE t.status = 2
{loop};

-- part: came_back
a.message_id, a.topic, a.aggregate_type, a.aggregate_id, a.partition_key, a.headers,
  a.trace_id, N'', a.created_at,
  CASE WHEN a.generation < 999999999 THEN a.generation + 1 ELSE 1000000000 END, a.last_error, a.payload

-- name: replay-archived
-- Runs after replay, with the rest of its limit.  A message comes back with its id.  If another message
-- has the id by now, or if the caller may not alter the table, which IDENTITY_INSERT needs, it gets a
-- new id.  It stays in the archive while the outbox has a row with its message id.
{no_claims};
SET NOCOUNT ON;
DECLARE @owns INT = HAS_PERMS_BY_NAME(N{'table}, N'OBJECT', N'ALTER');
DECLARE @back TABLE (id BIGINT NOT NULL PRIMARY KEY, free BIT NOT NULL);
INSERT INTO @back(id, free)
SELECT {any} a.id, CASE WHEN @owns = 0 OR EXISTS (SELECT 1 FROM {table} AS b WHERE b.id = a.id) THEN 0 ELSE 1 END
FROM {table_archive} AS a {unlocked}
WHERE {topic_and_key} AND {since_processed} AND a.id > :after
  AND (:ident IS NULL OR a.id IN (
    SELECT id FROM {table_archive} WHERE message_hash = HASHBYTES('SHA2_256', :ident)
    UNION ALL
    SELECT :number WHERE NOT EXISTS (SELECT 1 FROM {table} AS n WHERE n.message_hash = HASHBYTES('SHA2_256', :ident))
      AND NOT EXISTS (SELECT 1 FROM {table_archive} AS n WHERE n.message_hash = HASHBYTES('SHA2_256', :ident))))
  AND NOT EXISTS (SELECT 1 FROM {table} AS n WHERE n.message_hash = a.message_hash)
  AND NOT EXISTS (SELECT 1 FROM {table_archive} AS n
                  WHERE n.message_hash = a.message_hash AND n.id < a.id AND n.id > :after)
ORDER BY a.id;
IF EXISTS (SELECT 1 FROM @back WHERE free = 1)
BEGIN
  SET IDENTITY_INSERT {table} ON;
  INSERT INTO {table}(id, message_id, topic, aggregate_type, aggregate_id, partition_key,
    headers, trace_id, claim_token, created_at, generation, last_error, payload)
  SELECT a.id, {came_back} FROM {table_archive} AS a JOIN @back AS b ON b.id = a.id WHERE b.free = 1;
  SET IDENTITY_INSERT {table} OFF;
END;
INSERT INTO {table}(message_id, topic, aggregate_type, aggregate_id, partition_key,
  headers, trace_id, claim_token, created_at, generation, last_error, payload)
SELECT {came_back} FROM {table_archive} AS a JOIN @back AS b ON b.id = a.id WHERE b.free = 0 ORDER BY a.id;
SET NOCOUNT OFF;
SELECT id, free FROM @back;

-- name: unarchive
-- Runs after replay-archived, in the same transaction: delete the rows that came back.
DELETE a FROM {table} AS b {unlocked} JOIN {table_archive} AS a {by_seek}
  ON a.message_hash = b.message_hash AND a.created_at = b.created_at AND a.generation + 1 = b.generation
WHERE b.status = 0 AND b.claim_token = N''
{loop};

-- part: shown_archived
2, attempts, generation, created_at, CAST(NULL AS DATETIME2(3)), CAST(NULL AS DATETIME2(3)), processed_at,
       {texts},
       {error_text}, 0, 0

-- part: wanted
-- Rows of states other than done, each state by its own index, so that dead letters are found at once in
-- a large table.
(status = 0 AND :states & 1 <> 0 OR status = 1 AND :states & 2 <> 0 OR status = 3 AND :states & 8 <> 0
  OR status = 4 AND :states & 16 <> 0)
  AND (:ident IS NULL OR id IN ({named})) AND {asked}

-- name: list
SELECT {any} id, {shown} FROM {table} {unlocked}
WHERE id IN (
  SELECT id FROM {table} {unlocked} WHERE status = 0 AND :states & 1 <> 0
  UNION ALL SELECT id FROM {table} {unlocked} WHERE status IN (1, 3) AND :states & 10 <> 0
  UNION ALL SELECT id FROM {table} {unlocked} WHERE status = 4 AND :states & 16 <> 0)
  AND id > :after AND {wanted}
ORDER BY id;

-- name: list-any
SELECT {any} id, {shown} FROM {table} {unlocked}
WHERE id > :after AND ({wanted} OR status = 2 AND (:ident IS NULL OR id IN ({named})) AND {asked})
ORDER BY id;

-- name: list-newest
-- Like "list", from the highest id down.
SELECT {any} id, {shown} FROM {table} {unlocked}
WHERE id IN (
  SELECT id FROM {table} {unlocked} WHERE status = 0 AND :states & 1 <> 0
  UNION ALL SELECT id FROM {table} {unlocked} WHERE status IN (1, 3) AND :states & 10 <> 0
  UNION ALL SELECT id FROM {table} {unlocked} WHERE status = 4 AND :states & 16 <> 0)
  AND id < :before AND {wanted}
ORDER BY id DESC;

-- name: list-any-newest
SELECT {any} id, {shown} FROM {table} {unlocked}
WHERE id < :before AND ({wanted} OR status = 2 AND (:ident IS NULL OR id IN ({named})) AND {asked})
ORDER BY id DESC;

-- name: list-archived
SELECT {any} id, {shown_archived} FROM {table_archive} {unlocked}
WHERE :states & 4 <> 0 AND id > :after AND (:ident IS NULL OR id IN ({named_archived})) AND {asked}
ORDER BY id;

-- name: show
-- The row, with the lowest open row of the same ordering key before it, and the lowest dead one.
SELECT TOP (1) c.id, c.status, c.attempts, c.generation, c.created_at, c.claimed_at, c.next_retry_at,
       c.processed_at,
       {texts},
       {error_text},
       (SELECT MIN(b.id) FROM {table} AS b {unlocked}
        WHERE b.status IN (0, 1, 3) AND b.key_hash = c.key_hash AND b.id < c.id),
       (SELECT MIN(b.id) FROM {table} AS b {unlocked}
        WHERE b.status IN (1, 3, 4) AND b.status = 4 AND c.status IN (0, 1, 3) AND b.key_hash = c.key_hash)
FROM {table} AS c
WHERE c.message_hash = HASHBYTES('SHA2_256', :ident)
   OR c.id = :number
      AND NOT EXISTS (SELECT 1 FROM {table_archive} AS n WHERE n.message_hash = HASHBYTES('SHA2_256', :ident))
ORDER BY CASE WHEN c.message_hash = HASHBYTES('SHA2_256', :ident) THEN 0 ELSE 1 END;

-- name: show-archived
-- Rows of the archive, which "show" does not find.
SELECT TOP (1) id, {shown_archived} FROM {table_archive}
WHERE message_hash = HASHBYTES('SHA2_256', :ident) OR id = :number
ORDER BY CASE WHEN message_hash = HASHBYTES('SHA2_256', :ident) THEN 0 ELSE 1 END, id DESC;

-- name: count
SELECT (SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status = 0),
       (SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status IN (1, 3) AND status = 1),
       (SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status = 2),
       (SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status IN (1, 3) AND status = 3),
       (SELECT COUNT_BIG(*) FROM {table} {unlocked} WHERE status = 4);

-- name: count-archived
SELECT COUNT_BIG(*) FROM {table_archive} {unlocked};

-- name: ready
-- Number of failed rows that are due, and the age of the oldest message that may be delivered now.
SELECT COUNT_BIG(*), COALESCE(MAX({age}), 0)
FROM {table} {unlocked} WHERE status IN (1, 3) AND status = 3 AND next_retry_at <= {now};

-- part: waiting_behind
-- Condition: a failed message of the key of c is before c, and not due yet.
EXISTS (
  SELECT 1 FROM {table} AS b {unlocked}
  WHERE b.status IN (1, 3, 4) AND b.status = 3 AND b.key_hash = c.key_hash AND b.id < c.id
    AND b.next_retry_at > {now})

-- name: oldest-pending
-- The oldest message that nothing holds, among the first 10,000; if all of these are held, the next one.
-- It is almost always the first.
SELECT TOP (1) {age}
FROM {table} AS c {unlocked}
WHERE c.status = 0 AND (NOT {waiting_behind}
  OR c.id >= COALESCE((SELECT id FROM {table} {unlocked} WHERE {pending} ORDER BY id OFFSET 10000 ROWS FETCH NEXT 1 ROWS ONLY),
                      9223372036854775807))
ORDER BY c.id;

-- name: held-pending
-- Number of pending messages that wait behind a failed one of their key.
SELECT COUNT_BIG(*) FROM {table} AS c {unlocked} WHERE c.status = 0 AND {waiting_behind};

-- name: backlog
-- Numbers of waiting messages, each counted up to a limit, since metrics read them often.
SELECT (SELECT COUNT_BIG(*) FROM (SELECT TOP (:most) id FROM {table} {unlocked} WHERE status = 0) AS a),
       (SELECT COUNT_BIG(*) FROM (SELECT TOP (:most) id FROM {table} {unlocked} WHERE status IN (1, 3) AND status = 1) AS b),
       (SELECT COUNT_BIG(*) FROM (SELECT TOP (:most) id FROM {table} {unlocked} WHERE status IN (1, 3) AND status = 3) AS c),
       (SELECT COUNT_BIG(*) FROM (SELECT TOP (:most) id FROM {table} {unlocked} WHERE status = 4) AS d);

-- include: mssql.bits.sql

-- include: mssql.partitions.sql
