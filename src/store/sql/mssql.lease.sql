--
-- The lease of a table on SQL Server whose relays work under one.  Files include it behind mssql.own.sql,
-- mssql.report.sql and their part "ends", which has the first and the last pending id.

-- part: alone
-- Condition: no live relay has a share of the partitions.
NOT EXISTS (SELECT 1 FROM {wherry_lease} AS o
            WHERE o.outbox = :name AND o.number > 0 AND o.expires_at > {now})

-- part: got_row
SELECT g.epoch, g.suspects, CASE WHEN w.paused_at IS NULL THEN 0 ELSE 1 END, w.control_version,
  {ends}
FROM @got AS g LEFT JOIN {wherry_outbox} AS w ON w.name = g.outbox

-- part: holds
-- Condition: the caller holds this lease; see postgres.lease.sql.
outbox = :name AND number = :number AND epoch = :epoch AND members = :holder AND expires_at > {now}

-- part: stops
-- Condition: the relay was asked to stop, so its end is not a crash, however it ends.
clean = CASE WHEN :state = N'stopping' THEN 1 ELSE 0 END

-- name: lease
-- Take the lease if it is free or has expired, by the database's clock.  The epoch grows, so the
-- database refuses later writes of the last holder (a_second_relay_takes_over_when_…).
-- After the second unclean end in a row, and each further one, as many messages are suspects as the
-- relay may have had in flight: its window, or a group of 256, then of 16 suspects.
-- UPDLOCK, HOLDLOCK: if two relays find no row, the second waits for the first and then finds its row.
{got};
UPDATE s SET engine = :engine, owner = :owner, epoch = {next_epoch:s}, expires_at = {until}, lasts = :lasts, win = :window,
  mask = -1, clean = 0, members = :holder, process = :process, state = N'leading', state_since = {now}, destination = :destination,
  delivered = 0, error = N'', error_at = NULL,
  unclean = CASE WHEN s.clean <> 0 THEN 0 ELSE {unclean_ends:s} + 1 END,
  suspects = CASE WHEN s.clean <> 0 OR s.unclean <= 0 THEN 0 WHEN s.unclean = 2 AND s.win > 256 THEN 256
                  WHEN s.unclean > 2 AND s.win > 16 THEN 16 ELSE {in_flight:s} END
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
FROM {wherry_lease} AS s
WHERE s.outbox = :name AND s.number = :number AND s.expires_at <= {now} AND {alone};
INSERT INTO {wherry_lease}(outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean, win,
                           suspects, members, process, state, state_since, destination)
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
SELECT :name, :number, :engine, :owner, 1, {until}, :lasts, 0, 0, :window, 0, :holder, :process, N'leading', {now},
  :destination
WHERE {alone} AND NOT EXISTS (SELECT 1 FROM {wherry_lease} AS s WITH (UPDLOCK, HOLDLOCK)
                              WHERE s.outbox = :name AND s.number = :number);
{got_row};

-- name: lease-holder
-- Lease 0 is the lease of the whole table.  If several relays share the table, live leases come first.
SELECT TOP (1) {holder}
FROM {wherry_lease}
WHERE outbox = :name AND (:number = 0 OR number = :number)
ORDER BY CASE WHEN expires_at > {now} THEN 0 ELSE 1 END, number;

-- name: leases-cut
{cut};

-- name: lease-orphaned
-- End the lease at once, because the process that holds it has ended.
UPDATE {wherry_lease} SET expires_at = {ended}
WHERE outbox = :name AND number = :number AND epoch = :epoch;

-- name: renew
-- Renew the lease, and read what a relay without notifications polls.  An expired lease is not renewed.  A
-- relay that was asked to stop records it, so that its messages in flight do not become suspects if it is
-- killed.  If no suspect is left (0), the next unclean end is the first one again.  If the suspects did no
-- harm (-1), it is the second.
{got};
UPDATE {wherry_lease} SET expires_at = {until}, lasts = :lasts, {stops},
  unclean = CASE WHEN :suspects = 0 THEN 0 WHEN :suspects < 0 AND unclean > 1 THEN 1 ELSE unclean END, {reported}
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
WHERE {holds};
{got_row};

-- name: control
{asked_of_relays};

-- name: release
UPDATE {wherry_lease} SET expires_at = {ended}, clean = 1, unclean = 0, state = N'stopped',
  state_since = {now}, {counted}
WHERE {holds};

-- name: fence
-- First statement in every transaction of a relay.  If it returns no row, the relay changes nothing
-- (STALE).  Others cannot take the lease until the transaction has ended, since REPEATABLEREAD keeps the
-- shared lock; READCOMMITTEDLOCK makes SQL Server take the lock in a database with
-- READ_COMMITTED_SNAPSHOT too.  Claims have their own expiry, so of a shared lease only the epoch is
-- compared, without waiting.
IF :shared = 0
  SELECT 1 FROM {wherry_lease} WITH (REPEATABLEREAD, ROWLOCK)
  WHERE {holds}
ELSE
  SELECT 1 FROM {wherry_lease}
  WHERE outbox = :name AND number = :number AND epoch = :epoch;

-- name: raise-control-version
{look_again};

-- name: pause
{set_pause};
