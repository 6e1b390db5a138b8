--
-- Partitions, by which several relays share a table on SQL Server.
--
-- A message belongs to one of 64 partitions, by its ordering key, or by its id if it has no key.  Each
-- relay has its own lease, a row of wherry_lease, whose mask has a bit for each partition of its share;
-- the fence of mssql.lease.sql reads that row.  Only the holder of a live lease changes its mask, and
-- partitions are taken only from leases that have ended, under "partitions-lock".  So no two live relays
-- have a partition in common (no_two_relays_have_a_partition_in_common).
--
-- Files include it behind mssql.lease.sql, and behind their parts "share_engine", the engine's word in the
-- lease, and "share_ends", the first and the last pending id; 0: none.

-- include: mssql.bits.sql

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
UPDATE {wherry_lease} SET mask = mask & ~:mask, epoch = {next_epoch}, engine = {share_engine}
WHERE outbox = :name AND number = :number AND epoch = :epoch AND expires_at <= {now};

-- part: is_other
-- Condition: the relay is alive, and is not this one.
o.outbox = :name AND o.number <> :number AND o.expires_at > {now}

-- part: n_others
(SELECT COUNT_BIG(*) FROM {wherry_lease} AS o WHERE {is_other})

-- part: others_mask
-- Partitions of these relays.
(SELECT {any_bit:o} FROM {wherry_lease} AS o CROSS JOIN {bits} AS b WHERE {is_other})

-- part: shared_row
-- A lease and the other relays: the share, the number of live relays, the partitions of the others, the
-- time until the first of their leases expires, and whether a lease would last longer than it may.
SELECT s.epoch, s.suspects, CASE WHEN w.paused_at IS NULL THEN 0 ELSE 1 END, w.control_version,
  {share_ends},
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
UPDATE {wherry_lease} SET engine = {share_engine}, owner = :owner, epoch = {next_epoch}, expires_at = {until}, lasts = :lasts,
  clean = 0, unclean = :unclean, win = :window, suspects = :suspects, mask = :mask,
  members = :holder, process = :process, state = N'leading', state_since = {now}, destination = :destination,
  delivered = 0, error = N'', error_at = NULL
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
WHERE outbox = :name AND number = :number AND expires_at <= {now};
INSERT INTO {wherry_lease}(outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean, win,
                           suspects, mask, members, process, state, state_since, destination)
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
SELECT :name, :number, {share_engine}, :owner, 1, {until}, :lasts, 0, :unclean, :window, :suspects, :mask,
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
