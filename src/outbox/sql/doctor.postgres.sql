-- layout: name=doctor
--
-- Checks of `wherry doctor` on PostgreSQL, of what all tables need.

-- part: ready
EXISTS (SELECT 1 FROM {table} WHERE status = 0) OR EXISTS (
  SELECT 1 FROM {table} WHERE status = 3 AND coalesce(next_retry_at, '1970-01-01 00:00:00+00') <= statement_timestamp())

-- part: wake_triggers
-- Triggers of the table that wake relays, and their events.
({'table}, 'wherry_wake', 4), ({'table}, 'wherry_wake', 24)

-- part: share_engine
'log'

-- include: postgres.source.sql

-- include: postgres.doctor.sql

-- part: behind
-- Number of messages that wait behind c, among the next pending rows.
(SELECT count(*) FROM (
   SELECT {key:b} AS key FROM {table} AS b WHERE b.status = 0 AND b.id > c.id
   ORDER BY b.id LIMIT 10000) AS next WHERE next.key = {key:c})::text

-- part: lsn
-- Current position of the WAL.
(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END)

-- part: much
-- Limit in bytes: more WAL than the server keeps between checkpoints.
(SELECT setting::bigint * 1048576 FROM pg_settings WHERE name = 'max_wal_size')

-- part: waits
-- Time in seconds that the messages of the replication slot have waited, as in `wherry status`.
(CASE WHEN :waits::bigint > 0 THEN ' and ' || round(:waits::bigint / 1000.0, 1) || ' s' ELSE '' END)

-- part: its_slot
-- Replication slot of this outbox.  Columns that only newer servers have are read by their name, so
-- that the statement runs on older ones.
(SELECT s.*, {lsn} - confirmed_flush_lsn AS behind,
   pg_size_pretty(greatest({lsn} - restart_lsn, 0)) AS kept,
   current_setting('max_slot_wal_keep_size') AS most,
   coalesce(' since ' || to_char((to_jsonb(s) ->> 'inactive_since')::timestamptz {utc}), '')
     AS since,
   coalesce((to_jsonb(s) ->> 'failover')::boolean, false) AS follows
 FROM pg_replication_slots AS s WHERE slot_name = :slot)

-- name: claim-locks
-- Advisory locks of claims and of partitions, which relays hold for milliseconds; any role that may
-- connect can take them.  A role that may not see the activity of others still sees since when
-- relays wait.
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
  AND l.classid IN (1667, 1668) AND l.objid = {'table}::regclass::oid AND l.objsubid = 1
  AND least(a.state_change, w.since) <= {now} - interval '2 seconds'
LIMIT 5;

-- name: tables
SELECT 2, t.name
FROM unnest(ARRAY[{'table}, {'table_archive}, {'wherry_outbox}, {'wherry_lease}]) AS t(name)
WHERE to_regclass(t.name) IS NULL;

-- name: rights
SELECT 2, current_user::text, string_agg(l.privileges || ' on ' || l.name, '; ' ORDER BY l.name),
  string_agg(format('GRANT %s ON %s TO %I', l.privileges, l.name, current_user), '; ' ORDER BY l.name)
FROM (
  SELECT to_regclass(t.name)::text AS name, string_agg(p.privilege, ', ') AS privileges
  FROM (VALUES ({'table}, 'SELECT,INSERT,UPDATE,DELETE'),
               ({'table_archive}, 'SELECT,INSERT,UPDATE,DELETE'),
               ({'wherry_outbox}, 'SELECT,UPDATE'),
               ({'wherry_lease}, 'SELECT,INSERT,UPDATE')) AS t(name, needed)
  CROSS JOIN LATERAL regexp_split_to_table(t.needed, ',') AS p(privilege)
  WHERE NOT has_table_privilege(to_regclass(t.name), p.privilege)
  GROUP BY t.name) AS l
HAVING count(*) > 0;

-- name: indexes
-- Indexes that create makes.
SELECT 2, t.name
FROM unnest(ARRAY[{'table_message_id}, {'table_open}, {'table_done}, {'table_dead},
                  {'table_busy}, {'table_due}, {'table_archive_mid},
                  {'table_archive_done}]) AS t(name)
WHERE to_regclass(t.name) IS NULL;

-- name: partitions
{shares}
UNION ALL
SELECT 2, {'table_partition}, '', ''
WHERE EXISTS (SELECT 1 {sharing} AND mask <> -1) AND to_regclass({'table_partition}) IS NULL;

-- name: backlog
-- Messages that have been ready for long although a relay leads and nothing holds them back.
SELECT 1, c.id::text, floor(extract(epoch FROM {now} - c.created_at) * 1000::numeric)::bigint::text,
  coalesce((SELECT '; the last error is: ' || left(last_error, 300) FROM {table}
            WHERE status = 3 AND last_error IS NOT NULL
            ORDER BY coalesce(next_retry_at, '1970-01-01 00:00:00+00') DESC LIMIT 1), '')
FROM (SELECT * FROM {table} WHERE status = 0 ORDER BY id LIMIT 100) AS c
WHERE {led} AND NOT EXISTS (SELECT 1 FROM {wherry_outbox}
                            WHERE name = :name AND paused_at IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM {wherry_lease} WHERE outbox = :name
                  AND (state = 'retrying' OR engine = 'stream'))
  AND c.created_at <= {now} - :older::bigint::float8 * interval '1 millisecond'
  AND NOT EXISTS (
    SELECT 1 FROM {table} AS b
    WHERE (b.status IN (1, 3, 4) OR b.claim_token IS NOT NULL AND b.status = 0)
      AND {key:b} = {key:c} AND b.id < c.id)
ORDER BY c.id LIMIT 1;

-- name: claims
SELECT 1, count(*)::text,
  floor(extract(epoch FROM {now} - min(since)) * 1000::numeric)::bigint::text, min(id)::text
FROM (SELECT id, coalesce(next_retry_at, claimed_at) AS since FROM {table}
      WHERE status = 1 AND coalesce(next_retry_at, '1970-01-01 00:00:00+00') <= {now}
        AND (next_retry_at IS NOT NULL OR NOT {led})
      LIMIT 1000) AS expired
HAVING count(*) > 0;

-- name: held
SELECT 1, c.id::text, {key_shown}, {failed},
  CASE WHEN c.next_retry_at > {now}
       THEN ceil(extract(epoch FROM c.next_retry_at - {now}) * 1000::numeric)::bigint
       ELSE 0 END::text,
  coalesce(left(c.last_error, 300), 'no reason given'), {behind}
FROM {table} AS c WHERE c.status = 3
ORDER BY coalesce(c.next_retry_at, '1970-01-01 00:00:00+00') LIMIT 5;

-- name: parked
SELECT 1, c.id::text, {key_shown}, {after},
  coalesce(left(c.last_error, 300), 'no reason given'), {behind}
FROM {table} AS c WHERE c.status = 4 ORDER BY c.id LIMIT 5;

-- name: streamed
-- Condition: this outbox has a replication slot, or a relay of the engine stream has used it.
SELECT 1 FROM {wherry_lease} WHERE outbox = :name AND engine LIKE 'stream%'
UNION ALL
SELECT 1 FROM pg_replication_slots WHERE slot_name = :slot;

-- name: streamed-alone
-- The same condition if the tables belong to another program.
SELECT 1 FROM pg_replication_slots WHERE slot_name = :slot;

-- name: wal-level
SELECT 2, current_setting('wal_level') WHERE current_setting('wal_level') <> 'logical';

-- name: replication
-- On managed servers membership in a special role gives this right.
SELECT 2, current_user::text, quote_ident(current_user)
WHERE NOT EXISTS (
  SELECT 1 FROM pg_roles AS r WHERE (rolname = current_user AND (rolreplication OR rolsuper))
    OR rolname = 'rds_replication' AND pg_has_role(r.oid, 'MEMBER'));

-- name: senders
SELECT CASE WHEN (slots < most_slots OR here) AND (senders < most_senders OR active) THEN 0
            ELSE 2 END,
  slots::text, most_slots::text, senders::text, most_senders::text
FROM (SELECT count(*) AS slots, coalesce(bool_or(slot_name = :slot), false) AS here,
        coalesce(bool_or(slot_name = :slot AND active), false) AS active,
        current_setting('max_replication_slots')::integer AS most_slots,
        (SELECT count(*) FROM pg_stat_replication) AS senders,
        current_setting('max_wal_senders')::integer AS most_senders
      FROM pg_replication_slots) AS room;

-- name: slot
-- A relay of this engine makes the publication or slot, and no other program should drop it.
SELECT 2, :slot::text WHERE NOT EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_name = :slot);

-- name: slot-of-others
SELECT 2, slot_name::text, coalesce(plugin, 'none')::text, coalesce(database, 'none')::text
FROM {its_slot} AS s WHERE coalesce(plugin NOT IN ('pgoutput', ''), true) OR database <> current_database();

-- name: slot-lost
SELECT 2, slot_name::text, most, '' FROM {its_slot} AS s WHERE wal_status = 'lost'
UNION ALL
SELECT 1, slot_name::text, most, kept FROM {its_slot} AS s WHERE wal_status = 'unreserved';

-- name: slot-unread
SELECT 1, slot_name::text, since, kept,
  CASE WHEN safe_wal_size IS NULL
       THEN 'nothing bounds that (max_slot_wal_keep_size is -1), so it can fill the disk'
       ELSE 'it is lost ' || pg_size_pretty(greatest(safe_wal_size, 0)) || ' later' END,
  pg_size_pretty(greatest(behind, 0)) || {waits}
FROM {its_slot} AS s WHERE NOT active AND wal_status IN ('reserved', 'extended');

-- name: slot-lag
-- WAL that the relay of the slot has not confirmed.  The server keeps its WAL from the beginning of the
-- oldest transaction that is not confirmed.
SELECT CASE WHEN behind > {much} OR :waits::bigint > :older::bigint THEN 1 ELSE 0 END,
  slot_name::text, active_pid::text,
  pg_size_pretty(greatest(behind, 0)), kept,
  {waits}
FROM {its_slot} AS s WHERE active;

-- name: log
-- Other replication slots that make the server keep its WAL.
SELECT 1, quote_literal(slot_name), slot_type
    || CASE WHEN active THEN ', read by pid ' || active_pid ELSE ', read by nobody' END,
  pg_size_pretty({lsn} - restart_lsn)
FROM pg_replication_slots WHERE slot_name <> :slot AND {lsn} - restart_lsn > {much}
ORDER BY restart_lsn LIMIT 5;

-- name: publication
SELECT 2, :publication::text, 'is not there',
  'CREATE PUBLICATION ' || quote_ident(:publication::text) || ' FOR TABLE ' || {'table}
    || ' WITH (publish = ''insert'')'
WHERE NOT EXISTS (SELECT 1 FROM pg_publication WHERE pubname = :publication)
UNION ALL
SELECT 2, pubname::text, 'does not publish what is inserted',
  'ALTER PUBLICATION ' || quote_ident(pubname) || ' SET (publish = ''insert'')'
FROM pg_publication WHERE pubname = :publication AND NOT pubinsert
UNION ALL
SELECT 2, pubname::text, 'leaves out the table ' || {'table},
  'ALTER PUBLICATION ' || quote_ident(pubname) || ' ADD TABLE ' || {'table}
FROM pg_publication AS p WHERE pubname = :publication AND NOT EXISTS (
  SELECT 1 FROM pg_publication_tables AS t JOIN pg_class AS c ON c.relname = t.tablename
    JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
  WHERE t.pubname = p.pubname AND c.oid = {'table}::regclass::oid)
UNION ALL
SELECT 2, t.pubname::text, 'leaves out rows: ' || (to_jsonb(t) ->> 'rowfilter'),
  'ALTER PUBLICATION ' || quote_ident(t.pubname) || ' SET TABLE ' || {'table}
FROM pg_publication_tables AS t JOIN pg_class AS c ON c.relname = t.tablename
  JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
WHERE t.pubname = :publication AND c.oid = {'table}::regclass::oid
  AND to_jsonb(t) ->> 'rowfilter' IS NOT NULL
UNION ALL
SELECT 2, t.pubname::text, 'leaves out columns: ' || string_agg(w.name, ', ' ORDER BY w.nth),
  'ALTER PUBLICATION ' || quote_ident(t.pubname) || ' DROP TABLE ' || {'table}
    || '; ALTER PUBLICATION ' || quote_ident(t.pubname) || ' ADD TABLE ' || {'table}
FROM pg_publication_tables AS t JOIN pg_class AS c ON c.relname = t.tablename
  JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = t.schemaname,
  unnest(string_to_array(:columns::text, ',')) WITH ORDINALITY AS w(name, nth)
WHERE t.pubname = :publication AND c.oid = {'table}::regclass::oid AND w.name <> ''
  AND to_jsonb(t) ->> 'attnames' IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM jsonb_array_elements_text(to_jsonb(t) -> 'attnames') AS a(name)
    WHERE a.name = w.name)
GROUP BY t.pubname;

-- name: failover
-- A standby that takes over has the slot only if it was synchronised.
SELECT 1, slot_name::text, n::text,
  CASE WHEN current_setting('server_version_num')::integer >= 170000
       THEN 'it can be synchronised: failover = true, and sync_replication_slots there'
       ELSE 'from version 17 on it can be synchronised' END
FROM {its_slot} AS s, (
  SELECT count(*) AS n FROM pg_stat_replication AS r
  WHERE application_name NOT IN ('pg_basebackup', 'pg_receivewal')
    AND NOT EXISTS (SELECT 1 FROM pg_replication_slots AS l
                    WHERE l.active_pid = r.pid AND l.slot_type = 'logical')) AS standbys
WHERE NOT follows AND n > 0;

-- name: acknowledgements
-- A row trigger before UPDATE or DELETE (bits 1, 2, 8 and 16) may return NULL, and a rule may run
-- another statement instead.
SELECT 1, 'trigger ' || name FROM ({foreign_triggers}) AS t
WHERE type & 3 = 3 AND type & 24 <> 0
UNION ALL
SELECT 1, 'rule ' || rulename::text FROM pg_rewrite
WHERE ev_class = {'table}::regclass::oid AND ev_type IN ('2', '4') AND is_instead;
