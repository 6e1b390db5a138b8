--
-- Partitions, by which several relays share an outbox on SQL Server; native.mssql.sql includes this file
-- behind mssql.lease.sql.
--
-- As in postgres.partitions.sql, a message belongs to one of 64 partitions, by its ordering key, or by its
-- id if it has no key.  Each relay has a separate row in wherry_lease, whose mask has a bit for each
-- partition of its share.  Only the holder of a live lease changes its mask, and partitions are taken only
-- from leases that have ended, under "partitions-lock".  So no two live relays have a partition in common
-- (no_two_relays_have_a_partition_in_common).

-- part: partition
-- Partition of a message, an expression of a computed column, which cannot name key_hash, another one.
CAST(COALESCE(CAST(SUBSTRING({key}, 1, 1) AS BIGINT), id) & 63 AS TINYINT)

-- part: partition_indexes
SELECT i.index_id FROM sys.indexes AS i
JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id AND x.key_ordinal = 1
JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
WHERE i.object_id = OBJECT_ID(N{'table}, N'U') AND i.is_disabled = 0 AND c.name = N'key_partition'

-- name: add-partitions
-- Column of the partition, and an index of open rows by partition.  The column is not persisted, so that
-- it is added to a large table at once; the index stores it.  An index is recognised by its first column,
-- because an administrator may have named it.
IF COL_LENGTH(N{'table}, N'key_partition') IS NULL
  ALTER TABLE {table} ADD key_partition AS {partition};
IF NOT EXISTS ({partition_indexes})
  EXEC(N'CREATE INDEX ' + N{'bare_partition} + N' ON ' + N{'table}
       + N'(key_partition, status, id) INCLUDE (key_hash) WHERE status IN (0, 1, 3)');

-- name: partitions-ready
SELECT COUNT(*) FROM ({partition_indexes}) AS i;

-- name: partitions-lock
-- First statement in every transaction that takes partitions: relays take partitions one after another.
DECLARE @partitions NVARCHAR(255) = CONCAT(N'wherry_partitions:', OBJECT_ID(N{'table}, N'U')), @granted INT;
EXEC @granted = sp_getapplock @Resource = @partitions, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
IF @granted < 0
  THROW 51222, N'the lock of partitions was not granted in time', 1;

-- name: partitions-relays
-- Relays of other engines have no partitions: they work on the whole outbox.
SELECT number, epoch, CASE WHEN expires_at > {now} THEN 1 ELSE 0 END, clean, unclean, win, mask, engine,
  CASE WHEN expires_at > {now} THEN DATEDIFF_BIG(MILLISECOND, {now}, expires_at) ELSE 0 END, owner, process
FROM {wherry_lease} WHERE outbox = :name ORDER BY number;

-- name: partitions-strip
-- Take partitions from a lease that has expired, and increase its epoch.  If the relay that had the lease
-- is in a transaction, this statement waits until it ends.
UPDATE {wherry_lease} SET mask = mask & ~:mask, epoch = {next_epoch}, engine = N'exclusive'
WHERE outbox = :name AND number = :number AND epoch = :epoch AND expires_at <= {now};

-- part: is_other
-- Condition: the relay is alive, and is not this one.
o.outbox = :name AND o.number <> :number AND o.expires_at > {now}

-- part: n_others
(SELECT COUNT_BIG(*) FROM {wherry_lease} AS o WHERE {is_other})

-- part: others_mask
-- Partitions of these relays.
(SELECT {any_bit:o} FROM {wherry_lease} AS o CROSS JOIN {bits} AS b WHERE {is_other})

-- part: of
-- Condition: the row is of partition n, in one state.
t.status IN (0, 1, 3) AND t.key_partition = n.n

-- part: shared_row
-- A lease and the other relays: the share, the number of live relays, the partitions of the others, the
-- time until the first of their leases expires, and whether a lease would last longer than it may.
SELECT s.epoch, s.suspects, CASE WHEN w.paused_at IS NULL THEN 0 ELSE 1 END, w.control_version,
  COALESCE((SELECT MIN(f.id) FROM {bits} AS n CROSS APPLY (
    SELECT TOP (1) t.id FROM {table} AS t {unlocked} WHERE {of} AND t.status = 0 ORDER BY t.id) AS f
    WHERE s.mask & n.bit <> 0), 0),
  COALESCE((SELECT MAX(f.id) FROM {bits} AS n CROSS APPLY (
    SELECT TOP (1) t.id FROM {table} AS t {unlocked} WHERE {of} AND t.status = 0 ORDER BY t.id DESC) AS f
    WHERE s.mask & n.bit <> 0), 0),
  s.mask, {n_others}, {others_mask},
  COALESCE((SELECT MIN(DATEDIFF_BIG(MILLISECOND, {now}, o.expires_at)) FROM {wherry_lease} AS o
            WHERE {is_other}), -1),
  (SELECT COUNT_BIG(*) FROM {wherry_lease} AS o
   WHERE {is_other} AND DATEDIFF_BIG(MILLISECOND, {now}, o.expires_at) > {lasts:o})
FROM @got AS g JOIN {wherry_lease} AS s ON s.outbox = g.outbox AND s.number = :number
LEFT JOIN {wherry_outbox} AS w ON w.name = g.outbox

-- name: partitions-take
-- Take a new lease, in a row that no relay uses any more.
{got};
UPDATE {wherry_lease} SET engine = N'exclusive', owner = :owner, epoch = {next_epoch}, expires_at = {until}, lasts = :lasts,
  clean = 0, unclean = :unclean, win = :window, suspects = :suspects, mask = :mask,
  members = :holder, process = :process, state = N'leading', state_since = {now}, destination = :destination,
  delivered = 0, error = N'', error_at = NULL
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
WHERE outbox = :name AND number = :number AND expires_at <= {now};
INSERT INTO {wherry_lease}(outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean, win,
                           suspects, mask, members, process, state, state_since, destination)
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
SELECT :name, :number, N'exclusive', :owner, 1, {until}, :lasts, 0, :unclean, :window, :suspects, :mask,
  :holder, :process, N'leading', {now}, :destination
WHERE NOT EXISTS (SELECT 1 FROM {wherry_lease} AS s WITH (UPDLOCK, HOLDLOCK)
                  WHERE s.outbox = :name AND s.number = :number);
{shared_row};

-- name: partitions-renew
-- Renew the lease, change the share, and read what a relay without notifications polls and the other
-- relays.
{got};
UPDATE {wherry_lease} SET expires_at = {until}, lasts = :lasts, {stops},
  mask = CASE WHEN :change <> 0 THEN :mask ELSE mask END,
  unclean = CASE WHEN :suspects <> 0 AND unclean > :unclean THEN unclean ELSE :unclean END, {reported}
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
WHERE {holds};
{shared_row};

-- name: partitions-control
-- Like "control", and the other relays.
SELECT CASE WHEN paused_at IS NULL THEN 0 ELSE 1 END, control_version,
  {n_others}, {others_mask}
FROM {wherry_outbox} WHERE name = :name;

-- part: partitions_asked
OPENJSON(REPLACE(REPLACE(:partitions, NCHAR(123), N'['), NCHAR(125), N']'))

-- part: full_partitions
-- Last row that was read of each partition that may have more rows.
SELECT MAX(m.id) AS last FROM @ahead AS m GROUP BY m.n, m.st HAVING COUNT(*) >= :each

-- name: partitions-read
-- Open rows of some partitions behind the cursor: some of each partition, up to the first id behind
-- which a partition may have more.  Also pending rows before the cursor that may have been committed
-- late, except those that the relay has (late_ids_of_a_share_leave_before_higher_ones).
-- With :open rows of all open states, else pending rows.
DECLARE @n TABLE (n TINYINT NOT NULL PRIMARY KEY);
INSERT INTO @n(n) SELECT CAST(value AS TINYINT) FROM {partitions_asked};
DECLARE @known TABLE (id BIGINT NOT NULL PRIMARY KEY);
INSERT INTO @known(id) SELECT DISTINCT CAST(value AS BIGINT) FROM OPENJSON(:known);
DECLARE @ahead TABLE (n TINYINT NOT NULL, st TINYINT NOT NULL, id BIGINT NOT NULL, k BINARY(32));
{to_choose};
WHILE @again = 1
BEGIN
  DELETE FROM @ahead;
  DELETE FROM @r;
  INSERT INTO @ahead(n, st, id, k)
  SELECT n.n, s.st, a.id, a.key_hash
  FROM @n AS n CROSS JOIN (VALUES (CAST(0 AS TINYINT)), (CAST(1 AS TINYINT)), (CAST(3 AS TINYINT))) AS s(st)
  CROSS APPLY (
    SELECT TOP (:each) t.id, t.key_hash FROM {table} AS t {unlocked}
    WHERE {of} AND t.status = s.st AND t.id > :after AND {may_leave:t} ORDER BY t.id) AS a
  WHERE s.st = 0 OR :open <> 0;
  INSERT INTO @r(id, k)
  SELECT TOP (:limit) a.id, a.k FROM @ahead AS a
  WHERE a.id <= COALESCE((SELECT MIN(f.last) FROM ({full_partitions}) AS f), 9223372036854775807)
  GROUP BY a.id, a.k ORDER BY a.id;
  {is_full};
  IF EXISTS ({full_partitions}) SET @full = 1;
  INSERT INTO @r(id, k)
  SELECT t.id, t.key_hash FROM @n AS n JOIN {table} AS t {unlocked} ON {of}
  WHERE t.status = 0 AND t.id > :late AND t.id <= :after AND t.id NOT IN (SELECT id FROM @known)
    AND {may_leave:t};
  {drop_locked};
  INSERT INTO @passed(k, id)
  SELECT t.key_hash, MIN(t.id)
  FROM @n AS n JOIN {table} AS t WITH (NOLOCK) ON {of}
  WHERE t.status = 0 AND t.id > :late AND t.id < (SELECT MAX(x.id) FROM @r AS x)
    AND {is_passed:t} AND t.id NOT IN (SELECT id FROM @known)
  GROUP BY t.key_hash;
  {drop_later};
END;
SELECT {open_columns} FROM {read_rows} AND status IN (0, 1, 3) ORDER BY id;

-- name: partitions-dead-keys
SELECT TOP (:limit) id, {key_texts} FROM {table} {unlocked}
WHERE status = 4 AND id > :after AND key_partition IN (SELECT CAST(value AS TINYINT) FROM {partitions_asked})
ORDER BY id;
