--
-- Partitions, by which several relays share an outbox on PostgreSQL; native.postgres.sql includes this file.
--
-- A message belongs to one of 64 partitions, by its ordering key, or by its id if it has no key.  Each
-- relay has its own lease, a row of wherry_lease, whose mask has a bit for each partition of its share;
-- the fence of postgres.lease.sql reads that row.  Only the holder of a live lease changes its mask, and
-- partitions are taken only from leases that have ended, under "partitions-lock".  So no two live relays
-- have a partition in common (no_two_relays_have_a_partition_in_common).

-- part: partition
-- Partition of a message.  The hash is of bytes, whatever the database's collation is.
((coalesce(hashtextextended((CASE
    WHEN partition_key <> '' THEN '=' || partition_key
    WHEN aggregate_type <> '' OR aggregate_id <> ''
    THEN length(aggregate_type)::text || ':' || aggregate_type || aggregate_id
  END) COLLATE "C", 0::bigint), id) & 63::bigint)::smallint)

-- name: add-partitions
-- Index of open rows by partition.  It has abs(status) and id + 0, like the part "of".  So no other
-- index fits that part, which would read the rows of other relays, and this index fits no other
-- statement.
CREATE INDEX IF NOT EXISTS {bare_partition} ON {table}({partition}, abs(status), (id + 0))
  WHERE abs(status) IN (0, 1, 3);

-- name: partitions-ready
-- Whether the index exists and is valid.
SELECT count(*) FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = {'table}::regclass::oid AND c.relname = {name} || '_partition' AND i.indisvalid;

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
UPDATE {wherry_lease} AS s SET mask = mask & ~:mask::bigint, epoch = {next_epoch:s}, engine = 'exclusive'
WHERE outbox = :name AND number = :number AND epoch = :epoch AND expires_at <= {now};

-- part: of
-- Condition: the row is of partition n, in one state.
abs(status) IN (0, 1, 3) AND {partition} = n AND abs(status) = st

-- part: shared
-- A lease and the other relays: the share, the number of live relays, the partitions of the others, the
-- time until the first of their leases expires, and whether a lease would last longer than it may.
epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM {wherry_outbox} WHERE name = s.outbox),
  (SELECT control_version FROM {wherry_outbox} WHERE name = s.outbox),
  coalesce((SELECT min(a.id) FROM generate_series(0, 63) AS n CROSS JOIN (VALUES (0)) AS p(st)
    CROSS JOIN LATERAL (SELECT id FROM {table} WHERE {of} ORDER BY id + 0 LIMIT 1) AS a
    WHERE s.mask >> n & 1::bigint = 1), 0),
  coalesce((SELECT max(a.id) FROM generate_series(0, 63) AS n CROSS JOIN (VALUES (0)) AS p(st)
    CROSS JOIN LATERAL (SELECT id FROM {table} WHERE {of} ORDER BY id + 0 DESC LIMIT 1) AS a
    WHERE s.mask >> n & 1::bigint = 1), 0),
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
VALUES (:name, :number, 'exclusive', :owner, 1, {until}, :lasts::bigint, 0, :unclean::bigint, :window::bigint,
        :suspects::bigint, :mask::bigint, :holder::text, :process, 'leading', {now}, :destination)
ON CONFLICT (outbox, number) DO UPDATE SET
  engine = 'exclusive', owner = excluded.owner, epoch = {next_epoch:s},
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

-- part: states_asked
-- With :open rows of all open states, else pending rows.
SELECT st FROM (VALUES (0), (1), (3)) AS s(st) WHERE st = 0 OR :open::bigint <> 0

-- name: partitions-read
-- Open rows of some partitions behind the cursor: some of each partition, up to the first id behind
-- which a partition may have more.  Also pending rows before the cursor that may have been committed
-- late, except those that the relay has (late_ids_of_a_share_leave_before_higher_ones).
WITH ahead AS MATERIALIZED (
  SELECT n, st, a.id
  FROM unnest(:partitions::smallint[]) AS n CROSS JOIN ({states_asked}) AS s CROSS JOIN LATERAL (
    SELECT id FROM {table} WHERE {of} AND id + 0 > :after::bigint
    ORDER BY id + 0 LIMIT :each::bigint) AS a),
late AS MATERIALIZED (
  SELECT a.id
  FROM unnest(:partitions::smallint[]) AS n CROSS JOIN (VALUES (0)) AS p(st) CROSS JOIN LATERAL (
    SELECT id FROM {table}
    WHERE {of} AND id + 0 > :late::bigint AND id + 0 <= :after::bigint
    ORDER BY id + 0) AS a
  WHERE a.id NOT IN (
    SELECT known FROM unnest(translate(:known::text, '[]', '{}')::bigint[]) AS known)),
picked AS (
  SELECT id AS place FROM late
  UNION ALL
  (SELECT id FROM ahead
   WHERE id <= coalesce((SELECT min(last) FROM (
     SELECT max(id) AS last FROM ahead GROUP BY n, st HAVING count(*) >= :each::bigint) AS f),
     9223372036854775807)
   ORDER BY id LIMIT :limit::bigint))
SELECT {open_columns}
FROM (SELECT place FROM picked ORDER BY place) AS p
CROSS JOIN LATERAL (SELECT * FROM {table} WHERE id = place OFFSET 0) AS t
ORDER BY place;

-- name: partitions-dead-keys
SELECT id, {key_texts}
FROM {table} WHERE status = 4 AND id > :after AND {partition} = ANY (:partitions::smallint[])
ORDER BY id LIMIT :limit;
