-- layout: name=doctor-log
--
-- Checks of `wherry doctor` on an outbox of the layout log on PostgreSQL.

-- include: postgres.partition.sql

-- include: postgres.positions.sql

-- part: ready
EXISTS (SELECT 1 FROM ({fresh}) AS f) OR EXISTS (SELECT 1 FROM ({late_rows}) AS l) OR EXISTS (
  SELECT 1 FROM ({exceptional} AND x.state IN (0, 3) AND coalesce(x.next_retry_at, statement_timestamp()) <= statement_timestamp()) AS x)

-- include: postgres.source.sql

-- part: locked
-- Table to whose rows relays write what became of messages.
{'table_exception}

-- include: postgres.wake.sql

-- part: wake_triggers
-- Triggers of the table that wake relays, their events, and the texts of their functions.
({source}, CASE WHEN to_regclass({source}) = to_regclass({'table}) THEN 'wherry_wake' ELSE concat({name}, '_wakes') END, 4,
 CASE WHEN to_regclass({source}) = to_regclass({'table}) THEN {'wake_body} ELSE {'wakes_body} END)

-- part: share_engine
'log'

-- include: postgres.doctor.sql

-- part: unreadable
-- Severity: relays read the table instead.
1

-- part: named_slot
-- Condition: a replication slot is that of a relay of this outbox, whose name ends with the number of its process.
starts_with(slot_name::text, concat(:slot::text, '_'))

-- part: makes_it
-- Condition: a relay of this role makes the publication.
(has_database_privilege(current_database(), 'CREATE')
 AND pg_has_role((SELECT relowner FROM pg_class WHERE oid = {'table}::regclass::oid), 'USAGE'))

-- include: postgres.wal.sql

-- name: wal-standbys
SELECT 1, current_setting('synchronous_standby_names') WHERE current_setting('synchronous_standby_names') <> '';

-- part: key_shown
coalesce(nullif(c.partition_key, ''), nullif(c.aggregate_type || ' ' || c.aggregate_id, ' '),
         'none')

-- part: failed
-- Reasons of failures that count no attempt, since the destination may have caused them.
CASE WHEN c.attempts < 1 THEN 'was refused, which counts as no attempt'
     WHEN c.attempts = 1 THEN 'failed once' ELSE 'failed ' || c.attempts || ' times' END

-- part: after
CASE WHEN c.attempts < 1 THEN '' WHEN c.attempts = 1 THEN ' after one attempt'
     ELSE ' after ' || c.attempts || ' attempts' END

-- part: gone
-- The process of the lease's holder ran on this machine and has ended.
(strpos(:gone::text, chr(10) || process || chr(10)) > 0)

-- part: silent
-- The session of the lease's holder has ended, or is not there yet after a failover; see store/sessions.h.
(members LIKE 's%' AND NOT pg_is_in_recovery() AND NOT EXISTS (
   SELECT 1 FROM pg_locks AS k
   WHERE k.locktype = 'advisory' AND k.granted AND k.objsubid = 1
     AND (k.classid::bigint << 32) + k.objid::bigint = hashtextextended(members, 1669::bigint)
     AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())))

-- part: ended_now
-- The lease ended a moment ago, and was not given back: its relay may be about to connect again.
(state <> 'stopped' AND NOT {gone} AND expires_at <= {now} AND expires_at > {now} - interval '15 seconds')

-- part: live
outbox = :name AND expires_at > {now} AND NOT {gone} AND NOT {silent}

-- part: sharing
FROM {wherry_lease} WHERE {live} AND engine = {share_engine}

-- part: shares
-- If one relay has them all, there is nothing to report.
SELECT 0, owner, length(replace(mask::bit(64)::text, '0', ''))::text,
  ceil(extract(epoch FROM least(expires_at, {now} + interval '100 years') - {now}) * 1000::numeric)::bigint::text
{sharing} AND EXISTS (SELECT 1 {sharing} AND mask <> -1)
UNION ALL
SELECT 1, length(replace((~coalesce(bit_or(mask), 0))::bit(64)::text, '0', ''))::text, '', ''
{sharing}
HAVING count(*) > 0 AND bit_or(mask) <> -1

-- part: led
(SELECT count(*) > 0 FROM {wherry_lease} WHERE {live})

-- part: behind
-- Number of messages that wait behind c, among the next ones that wait or were not read.
(SELECT count(*) FROM (
   (SELECT {key:b} AS key FROM ({exceptional} AND x.state = 0 AND x.id > c.id ORDER BY x.id LIMIT 10000) AS b)
   UNION ALL
   (SELECT {key:b} FROM {position} AS p CROSS JOIN LATERAL (
      SELECT * FROM {table} AS e WHERE e.id > greatest(p.high, c.id) AND {of_p:e} ORDER BY e.id LIMIT 10000) AS b)) AS next
 WHERE next.key = {key:c})::text

-- name: share-locks
-- The advisory lock under which relays share the keys, for milliseconds; any role that may connect can take
-- it.  A role that may not see the activity of others still sees since when relays wait.
SELECT 2, 'pid ' || l.pid, 'role ' || coalesce(a.usename::text, 'unknown'),
  floor(extract(epoch FROM {now} - least(a.state_change, w.since)) * 1000.0)::bigint::text,
  w.n::text, {ends_it}
FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
CROSS JOIN LATERAL (
  SELECT count(*) AS n, min((to_jsonb(k) ->> 'waitstart')::timestamptz) AS since
  FROM pg_locks AS k
  WHERE k.locktype = 'advisory' AND NOT k.granted AND k.database = l.database
    AND k.classid = l.classid AND k.objid = l.objid AND k.objsubid = l.objsubid) AS w
WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.classid = 1668 AND l.objid = {'table}::regclass::oid AND l.objsubid = 1
  AND least(a.state_change, w.since) <= {now} - interval '2 seconds'
LIMIT 5;

-- name: tables
SELECT 2, t.name
FROM unnest(ARRAY[{'table}, {'table_progress}, {'table_exception}, {'wherry_outbox}, {'wherry_lease}]) AS t(name)
WHERE to_regclass(t.name) IS NULL;

-- name: kept
-- Subscriptions that have stood still for an hour: no message behind their position is deleted.
SELECT 1, s.subscription, s.moved::text, CASE WHEN EXISTS (
    SELECT 1 FROM {wherry_lease} AS l WHERE l.expires_at > {now}
      AND l.outbox = CASE s.subscription WHEN 'relay' THEN {name} ELSE concat({name}, chr(92), s.subscription) END)
  THEN 'its relay makes no progress' ELSE 'no relay or consumer reads it' END
FROM (SELECT m.subscription, m.high, {age:m} AS moved
      FROM (SELECT p.subscription, min(p.high) AS high, max(p.moved_at) AS at
            FROM {table_progress} AS p GROUP BY p.subscription) AS m) AS s
WHERE s.moved >= 3600000
  AND (SELECT t.created_at FROM {table} AS t WHERE t.id > s.high ORDER BY t.id LIMIT 1) <= {now} - interval '1 hour'
ORDER BY s.moved DESC LIMIT 10;

-- name: rights
SELECT 2, current_user::text, string_agg(l.privileges || ' on ' || l.name, '; ' ORDER BY l.name),
  string_agg(format('GRANT %s ON %s TO %I', l.privileges, l.name, current_user), '; ' ORDER BY l.name)
FROM (
  SELECT to_regclass(t.name)::text AS name, string_agg(p.privilege, ', ') AS privileges
  FROM (VALUES ({'table}, 'SELECT,DELETE'),
               ({'table_progress}, 'SELECT,INSERT,UPDATE,DELETE'),
               ({'table_exception}, 'SELECT,INSERT,UPDATE,DELETE'),
               ({'wherry_outbox}, 'SELECT'),
               ({'wherry_lease}, 'SELECT,INSERT,UPDATE')) AS t(name, needed)
  CROSS JOIN LATERAL regexp_split_to_table(t.needed, ',') AS p(privilege)
  WHERE NOT has_table_privilege(to_regclass(t.name), p.privilege)
    -- A role of operators takes no lease, and makes no position.
    AND NOT (has_table_privilege({'table}, 'INSERT') AND has_table_privilege({'wherry_outbox}, 'UPDATE')
             AND (t.name, p.privilege) IN (({'table_progress}, 'INSERT'), ({'table_progress}, 'DELETE'), ({'wherry_lease}, 'INSERT')))
  GROUP BY t.name
  UNION ALL
  SELECT concat('FUNCTION ', f.oid::regprocedure::text), 'EXECUTE' FROM pg_proc AS f
  WHERE f.oid = to_regprocedure(concat({'table_segments}, '(bigint, bigint, boolean)'))::oid AND NOT has_function_privilege(f.oid, 'EXECUTE')) AS l
HAVING count(*) > 0;

-- name: indexes
-- Indexes that create makes.
SELECT 2, t.name FROM unnest(ARRAY[{'table_tx}, {'table_dead}, {'table_done}]) AS t(name)
WHERE to_regclass(t.name) IS NULL AND (t.name <> {'table_tx} OR to_regclass({source}) = to_regclass({'table}));

-- name: source-table
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN '' ELSE concat(c.relnamespace::regnamespace::text, '.') END || c.relname
FROM pg_class AS c WHERE c.oid = to_regclass({source})::oid AND c.oid <> to_regclass({'table})::oid;

-- name: adopted
-- Objects that `wherry adopt` adds to a table, except for the trigger that wakes relays.
SELECT m.level, {source}, m.what FROM (
  SELECT 2 AS level, 'index that begins with its column wherry_tx: reading takes long without it' AS what
  WHERE NOT EXISTS (SELECT 1 FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
                    WHERE i.indrelid = to_regclass({source})::oid AND i.indisvalid AND i.indpred IS NULL AND a.attname = 'wherry_tx')
  UNION ALL
  -- It is made if a column says that a row is delivered.
  SELECT 1, concat('index ', {name}, '_undone: to find the rows that can be marked as delivered takes long without it')
  FROM pg_proc AS f WHERE f.oid = to_regprocedure(concat({'table_delivered}, '(bigint[])'))::oid AND f.prosrc LIKE '%done AS (UPDATE %'
    AND to_regclass({'table_undone}) IS NULL
  UNION ALL
  SELECT 2, concat('trigger ', {name}, '_numbered: a row that is copied with its wherry_tx can look as if it had been read')
  WHERE NOT EXISTS (SELECT 1 FROM pg_trigger AS t WHERE t.tgrelid = to_regclass({source})::oid
                    AND t.tgname = ({name} || '_numbered')::name AND t.tgenabled IN ('O', 'A'))
  UNION ALL
  SELECT 1, concat('function ', {name}, '_delivered: no row is marked as delivered, or deleted')
  WHERE to_regprocedure(concat({'table_delivered}, '(bigint[])')) IS NULL) AS m
WHERE to_regclass({source}) <> to_regclass({'table});

-- name: segments
-- The next ids go to the default partition, or nothing makes segments and drops them.
SELECT 1, c.name, pg_size_pretty(pg_total_relation_size(to_regclass({'table_rest}))), c.call
FROM (SELECT {'table_rest} AS name, concat('SELECT ', {'table_segments}, '(9223372036854775807, 1, true)') AS call) AS c
WHERE to_regprocedure(concat({'table_segments}, '(bigint, bigint, boolean)')) IS NOT NULL
  AND (SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass({'table})::oid)
  AND NOT EXISTS (
    SELECT 1 FROM pg_inherits AS i JOIN pg_class AS s ON s.oid = i.inhrelid
    WHERE i.inhparent = to_regclass({'table})::oid
      AND substring(pg_get_expr(s.relpartbound, s.oid) FROM 'TO \(''?(-?\d+)')::bigint
          > CASE WHEN has_sequence_privilege(pg_get_serial_sequence({'table}, 'id'), 'SELECT')
                 THEN coalesce(pg_sequence_last_value(pg_get_serial_sequence({'table}, 'id')::regclass), 0) ELSE 0 END + 1);

-- name: segment-function
-- The function that makes and drops segments is missing.  New ones would be as large as those that are there.
SELECT 2, {'table_segments}, coalesce((
  SELECT substring(b.bound FROM 'TO \(''?(-?\d+)')::bigint - substring(b.bound FROM 'FROM \(''?(-?\d+)')::bigint
  FROM (SELECT pg_get_expr(c.relpartbound, c.oid) AS bound FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = to_regclass({'table})::oid) AS b
  WHERE starts_with(b.bound, 'FOR VALUES FROM') ORDER BY 1 DESC LIMIT 1), 1000000)::text
WHERE (SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass({'table})::oid)
  AND to_regprocedure(concat({'table_segments}, '(bigint, bigint, boolean)')) IS NULL;

-- name: partitions
{shares};

-- part: e_place
e.id, e.created_at AS at, e.partition_key, e.aggregate_type, e.aggregate_id

-- name: backlog
-- Messages that have been ready for long although a relay leads and nothing holds them back.
SELECT 1, c.id::text, ({age:c})::text,
  coalesce((SELECT '; the last error is: ' || left(x.last_error, 300)
            FROM (SELECT * FROM {table_exception} AS e WHERE e.subscription = {subscription} LIMIT 1000) AS x
            WHERE x.state = 3 AND x.last_error IS NOT NULL ORDER BY x.next_retry_at DESC LIMIT 1), '')
FROM ((SELECT {e_place} FROM {position} AS p CROSS JOIN LATERAL (
         SELECT * FROM {table} AS t WHERE t.id > p.high AND {of_p:t} ORDER BY t.id LIMIT 100) AS e)
      UNION ALL
      SELECT {e_place} FROM ({some_late} LIMIT 100) AS l JOIN {table} AS e ON e.id = l.id
      UNION ALL
      SELECT {e_place} FROM ({exceptional} AND x.state = 0 ORDER BY x.id LIMIT 100) AS e) AS c
WHERE {led} AND NOT EXISTS (SELECT 1 FROM {wherry_outbox}
                            WHERE name = :name AND paused_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM {wherry_lease} WHERE outbox = :name AND state = 'retrying')
  AND c.at <= {now} - :older::bigint::float8 * interval '1 millisecond'
  AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.id = c.id AND x.state <> 0)
  AND NOT EXISTS (
    SELECT 1 FROM ({exceptional} ORDER BY x.id LIMIT 1000) AS b WHERE {key:b} = {key:c} AND b.id < c.id)
ORDER BY c.id LIMIT 1;

-- name: held
SELECT 1, c.id::text, {key_shown}, {failed},
  CASE WHEN c.next_retry_at > {now} AND c.next_retry_at < '10000-01-01 00:00:00+00'::timestamptz
       THEN ceil(extract(epoch FROM c.next_retry_at - {now}) * 1000::numeric)::bigint
       ELSE 0 END::text,
  coalesce(left(c.last_error, 300), 'no reason given'), {behind}
FROM ({exceptional} AND x.state = 3 ORDER BY x.id LIMIT 1000) AS c
ORDER BY coalesce(c.next_retry_at, '1970-01-01 00:00:00+00') LIMIT 5;

-- name: parked
SELECT 1, c.id::text, {key_shown}, {after},
  coalesce(left(c.last_error, 300), 'no reason given'), {behind}
FROM ({exceptional} AND x.state = 4 ORDER BY x.id LIMIT 5) AS c ORDER BY c.id;

-- name: acknowledgements
-- Triggers and rules on positions and exceptions.  A row trigger before INSERT, UPDATE or DELETE (bits 1, 2, 4, 8 and 16) may
-- return NULL, and a rule may run another statement instead.
SELECT 1, concat('trigger ', t.tgname, ' of ', b.name::regclass) FROM (VALUES ({'table_progress}), ({'table_exception})) AS b(name)
JOIN pg_trigger AS t ON t.tgrelid = to_regclass(b.name)::oid
WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 3 = 3 AND t.tgtype & 28 <> 0
UNION ALL
SELECT 1, concat('rule ', r.rulename, ' of ', b.name::regclass) FROM (VALUES ({'table_progress}), ({'table_exception})) AS b(name)
JOIN pg_rewrite AS r ON r.ev_class = to_regclass(b.name)::oid
WHERE r.is_instead AND r.ev_type IN ('2', '3', '4');

-- name: processes
SELECT DISTINCT process FROM {wherry_lease}
WHERE outbox = :name AND expires_at > {now} AND process <> '';

-- name: functions
-- Functions that were made before their schema was renamed (postgres.home.sql).
SELECT 2, count(*)::text,
  coalesce(min(substring(prosrc FROM 'and its schema has another name now'', ''([^'']+)''')), 'of another name')
FROM pg_proc
WHERE pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = {'table}::regclass::oid)
  AND prosrc LIKE '%this function was made for a schema named%'
  AND position(quote_literal(pronamespace::regnamespace::text) IN prosrc) = 0
HAVING count(*) > 0;

-- name: paused
SELECT 2, ({age:o})::text, to_char(o.at {utc})
FROM (SELECT paused_at AS at FROM {wherry_outbox} WHERE name = :name AND paused_at IS NOT NULL) AS o;

-- name: relay
SELECT 0, owner, engine, epoch::text,
  ceil(extract(epoch FROM least(max(expires_at), {now} + interval '100 years') - {now}) * 1000::numeric)::bigint::text
FROM {wherry_lease} WHERE {live}
GROUP BY owner, engine, epoch
UNION ALL
SELECT CASE WHEN {ready} THEN 2 ELSE 1 END,
  coalesce((SELECT 'the last was ' || owner || CASE
              WHEN {gone} THEN ', whose process has ended'
              WHEN expires_at > {now} THEN ', whose session of the database has ended: it connects again, or another relay takes over in seconds'
              WHEN expires_at > '1970-01-02' THEN ', whose lease expired at '
                || to_char(expires_at {utc}) || CASE WHEN {ended_now} THEN ': it connects again, if it runs' ELSE '' END
              ELSE ', which ended in good order' END
            FROM {wherry_lease} WHERE outbox = :name ORDER BY expires_at DESC LIMIT 1),
           'none has been here so far'),
  CASE WHEN EXISTS (SELECT 1 FROM {wherry_lease} WHERE outbox = :name AND expires_at > {now} AND NOT {gone})
         THEN 'the relay has no session of the database'
       WHEN EXISTS (SELECT 1 FROM {wherry_lease} WHERE outbox = :name AND {ended_now}) THEN 'no relay holds the lease'
       ELSE 'no relay is running' END, '', ''
-- `wherry run` with a pattern of schemas sleeps in place of the relay, and starts one when it is notified.
WHERE NOT {led} AND ({ready} OR NOT EXISTS (
  SELECT 1 FROM pg_locks AS k
  WHERE k.locktype = 'advisory' AND k.classid = 1669::oid AND k.objid = to_regclass({'table})::oid AND k.objsubid = 1
    AND k.mode = 'ExclusiveLock' AND k.granted
    AND k.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND EXISTS (SELECT 1 FROM pg_locks AS m WHERE m.pid = k.pid AND m.locktype = 'advisory' AND m.classid = 1672::oid AND m.objid = 0)));

-- name: lease
-- No relay takes a lease for longer than an hour (relay.lease).
SELECT 2, owner, ceil(extract(epoch FROM least(expires_at, {now} + interval '100 years') - {now}) * 1000::numeric)::bigint::text,
  format('UPDATE %s SET expires_at = now() WHERE outbox = %L AND number = %s', {'wherry_lease}, :name::text, number)
FROM {wherry_lease} WHERE outbox = :name AND expires_at > {now} + interval '61 minutes' AND NOT {gone};

-- name: destination
SELECT 2, CASE destination WHEN '' THEN 'the destination' ELSE destination END, error,
  ({age:l})::text
FROM (SELECT destination, error, state_since AS at FROM {wherry_lease} WHERE {live} AND state = 'retrying') AS l;

-- name: constraints
-- It may have been dropped.
SELECT 1 WHERE to_regclass({source}) = to_regclass({'table}) AND NOT EXISTS (SELECT 1 FROM pg_constraint
  WHERE conrelid = {'table}::regclass::oid AND conname = {name} || '_sane');
