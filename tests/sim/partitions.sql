-- part: mine
-- Of a lease's row: is this row of the outbox in one of its partitions?
(mask >> sim_partition(ordering_key, id) & 1)

-- part: live_others
wherry_lease AS o WHERE o.outbox = :name AND o.number <> :number
  AND o.expires_at > (SELECT ms FROM wherry_clock)

-- part: shared
epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM wherry_outbox WHERE name = :name),
  (SELECT control_version FROM wherry_outbox WHERE name = :name),
  coalesce((SELECT min(id) FROM {table} WHERE status = 0 AND {mine}), 0),
  coalesce((SELECT max(id) FROM {table} WHERE status = 0 AND {mine}), 0),
  mask,
  (SELECT count(*) FROM {live_others}),
  (SELECT sim_or(o.mask) FROM {live_others}),
  (SELECT coalesce(min(o.expires_at - (SELECT ms FROM wherry_clock)), -1) FROM {live_others})

-- name: partitions-ready
SELECT 1;

-- name: partitions-lock
-- One transaction writes at a time.
SELECT 1;

-- name: partitions-relays
SELECT number, epoch, expires_at > (SELECT ms FROM wherry_clock), clean, unclean, win, mask, engine,
  max(expires_at - (SELECT ms FROM wherry_clock), 0), owner, process
FROM wherry_lease WHERE outbox = :name ORDER BY number;

-- name: partitions-strip
UPDATE wherry_lease SET mask = mask & ~:mask, epoch = epoch + 1, engine = 'exclusive'
WHERE outbox = :name AND number = :number AND epoch = :epoch
  AND expires_at <= (SELECT ms FROM wherry_clock);

-- name: partitions-take
INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, clean, unclean, win,
                        suspects, mask, members, process, state, state_since, destination)
VALUES (:name, :number, 'exclusive', :owner, 1, (SELECT ms FROM wherry_clock) + :lasts, 0,
        :unclean, :window, :suspects, :mask, :holder, :process, 'leading',
        (SELECT ms FROM wherry_clock), :destination)
ON CONFLICT (outbox, number) DO UPDATE SET
  engine = 'exclusive', owner = excluded.owner, epoch = epoch + 1,
  expires_at = excluded.expires_at, clean = 0, unclean = excluded.unclean,
  members = excluded.members, process = excluded.process, state = excluded.state, state_since = excluded.state_since,
  destination = excluded.destination, delivered = 0, error = '', error_at = NULL,
  win = excluded.win, suspects = excluded.suspects, mask = excluded.mask
  WHERE expires_at <= (SELECT ms FROM wherry_clock)
RETURNING {shared};

-- name: partitions-renew
UPDATE wherry_lease SET expires_at = (SELECT ms FROM wherry_clock) + :lasts,
  mask = CASE WHEN :change THEN :mask ELSE mask END,
  unclean = max(CASE WHEN :suspects = 0 THEN 0 ELSE unclean END, :unclean),
  {reported}
WHERE {holds}
RETURNING {shared};

-- name: partitions-control
SELECT paused_at IS NOT NULL, control_version, (SELECT count(*) FROM {live_others}),
  (SELECT sim_or(o.mask) FROM {live_others})
FROM wherry_outbox WHERE name = :name;

-- name: partitions-tell
-- Relays look at the version of the database.
SELECT 1;

-- name: partitions-read
-- unused: long body
WITH some AS (
  SELECT id, status AS st, sim_partition(ordering_key, id) AS n FROM {table}
  WHERE (status = 0 OR :open AND status IN (1, 3)) AND sim_partition(ordering_key, id) IN (
    SELECT value FROM json_each('[' || trim(:partitions, '{}') || ']'))),
ahead AS (
  SELECT n, st, id FROM (
    SELECT n, st, id, row_number() OVER (PARTITION BY n, st ORDER BY id) AS nth
    FROM some WHERE id > :after)
  WHERE nth <= :each),
late AS (
  SELECT id FROM some
  WHERE st = 0 AND id > :late AND id <= :after
    AND id NOT IN (SELECT value FROM json_each(:known))),
picked AS (
  SELECT id FROM late
  UNION ALL
  SELECT id FROM (
    SELECT id FROM ahead
    WHERE id <= coalesce((SELECT min(last) FROM (
      SELECT max(id) AS last FROM ahead GROUP BY n, st HAVING count(*) >= :each)),
      9223372036854775807)
    ORDER BY id LIMIT :limit))
SELECT id, status, attempts, generation, created_at,
       max(0, {due} - (SELECT ms FROM wherry_clock)),
       message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id,
       payload
FROM {table} WHERE id IN (SELECT id FROM picked) ORDER BY id;

-- name: partitions-dead-keys
-- unused: long
SELECT id, aggregate_type, aggregate_id, partition_key
FROM {table} WHERE status = 4 AND id > :after AND sim_partition(ordering_key, id) IN (
  SELECT value FROM json_each('[' || trim(:partitions, '{}') || ']'))
ORDER BY id LIMIT :limit;
