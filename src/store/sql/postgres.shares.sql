--
-- Partitions, by which several relays share a table on PostgreSQL.
--
-- A message belongs to one of 64 partitions, by its ordering key, or by its id if it has no key.  Each
-- relay has its own lease, a row of wherry_lease, whose mask has a bit for each partition of its share;
-- the fence of postgres.lease.sql reads that row.  Only the holder of a live lease changes its mask, and
-- partitions are taken only from leases that have ended, under "partitions-lock".  So no two live relays
-- have a partition in common (no_two_relays_have_a_partition_in_common).
--
-- Files include it behind postgres.lease.sql, and behind their parts "share_engine", the engine's word in the
-- lease, and "share_ends", the first and the last pending id of the share of the lease s; 0: none.

-- name: partitions-lock
-- First statement in every transaction that takes partitions: relays take them one after another, and
-- the server writes such a transaction to disk before it answers.
SELECT pg_advisory_xact_lock((1668::bigint << 32) + {'table}::regclass::oid::bigint),
  set_config('synchronous_commit', replace(current_setting('synchronous_commit'), 'off', 'on'),
             true);

-- name: partitions-relays
-- Relays of other engines have no partitions: they work on the whole outbox.
SELECT number, epoch, expires_at > {now}, clean, {unclean_ends:s}, {in_flight:s}, mask, engine,
  greatest({ends_in:s}, 0::bigint), owner, process
FROM {wherry_lease} AS s WHERE outbox = :name ORDER BY number;

-- name: partitions-strip
-- Take partitions from a lease that has expired, and increase its epoch.  If the relay that had the lease
-- is in a transaction, this statement waits until it ends.
UPDATE {wherry_lease} AS s SET mask = mask & ~:mask::bigint, epoch = {next_epoch:s}, engine = {share_engine}
WHERE outbox = :name AND number = :number AND epoch = :epoch AND expires_at <= {now};

-- part: shared
-- A lease and the other relays: the share, the number of live relays, the partitions of the others, the
-- time until the first of their leases expires, and whether a lease would last longer than it may.
epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM {wherry_outbox} WHERE name = s.outbox),
  (SELECT control_version FROM {wherry_outbox} WHERE name = s.outbox),
  {share_ends},
  s.mask,
  (SELECT count(*) FROM {wherry_lease} AS o
   WHERE o.outbox = s.outbox AND o.number <> s.number AND o.expires_at > {now}),
  (SELECT coalesce(bit_or(o.mask), 0) FROM {wherry_lease} AS o
   WHERE o.outbox = s.outbox AND o.number <> s.number AND o.expires_at > {now}),
  (SELECT coalesce(min({ends_in:o}), -1::bigint)
   FROM {wherry_lease} AS o
   WHERE o.outbox = s.outbox AND o.number <> s.number AND o.expires_at > {now}),
  (SELECT count(*) FROM {wherry_lease} AS o
   WHERE o.outbox = s.outbox AND o.number <> s.number AND {ends_in:o} > {lasts:o})

-- name: partitions-take
-- Take a new lease, in a row that no relay uses any more.
INSERT INTO {wherry_lease} AS s (outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean,
                              win, suspects, mask, members, process, state, state_since, destination)
VALUES (:name, :number, {share_engine}, :owner, 1, {until}, :lasts::bigint, 0, :unclean::bigint, :window::bigint,
        :suspects::bigint, :mask::bigint, :holder::text, :process, 'leading', {now}, :destination)
ON CONFLICT (outbox, number) DO UPDATE SET
  engine = {share_engine}, owner = excluded.owner, epoch = {next_epoch:s},
  expires_at = excluded.expires_at, lasts = excluded.lasts, clean = 0, unclean = excluded.unclean, {taken},
  win = excluded.win, suspects = excluded.suspects, mask = excluded.mask
  WHERE s.expires_at <= {now}
RETURNING {shared};

-- name: partitions-renew
-- Renew the lease, change the share, and read what a relay without notifications polls and the other
-- relays.
UPDATE {wherry_lease} AS s SET expires_at = {until}, lasts = :lasts::bigint, {stops},
  mask = CASE WHEN :change::bigint <> 0 THEN :mask::bigint ELSE s.mask END,
  unclean = greatest(CASE WHEN :suspects::bigint = 0 THEN 0 ELSE s.unclean END,
                     :unclean::bigint), {reported}
WHERE {holds}
RETURNING {shared};

-- name: partitions-control
-- Like "control", and the other relays.
SELECT paused_at IS NOT NULL, control_version,
  (SELECT count(*) FROM {wherry_lease}
   WHERE outbox = :name AND number <> :number AND expires_at > {now}),
  (SELECT coalesce(bit_or(mask), 0) FROM {wherry_lease}
   WHERE outbox = :name AND number <> :number AND expires_at > {now})
FROM {wherry_outbox} WHERE name = :name;

-- name: partitions-tell
-- The shares have changed: wake relays that sleep.
SELECT pg_notify(concat('wherry_', {'table}::regclass::oid, '_control'), '');
