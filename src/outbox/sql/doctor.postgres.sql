-- layout: name=doctor
--
-- Checks of `wherry doctor` on PostgreSQL, of what all tables need.

-- include: postgres.source.sql

-- part: locked
-- Table to whose rows relays and workers write what became of messages.
{source}

-- include: postgres.wake.sql

-- part: delayed
-- The table, if it is one of Wherry's delayed queues.  A queue says itself what is wrong with its triggers.
CASE WHEN EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass({'table})::oid AND attname = 'updates' AND NOT attisdropped)
      AND to_regclass({'table_dead}) IS NOT NULL THEN {'table} END

-- part: wake_triggers
-- Triggers of the table that wake relays and consumers, their events, and the texts of their functions.
({delayed}, 'wherry_wake', 4, {'wake_body}), ({delayed}, 'wherry_wake', 16, {'wake_body})

-- include: postgres.doctor.sql

-- part: unreadable
-- Severity: no relay delivers without the WAL.
2

-- part: named_slot
-- Condition: a replication slot is of this outbox.
slot_name = :slot

-- part: makes_it
-- Condition: a relay of this role makes the publication; it should be there before.
false

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

-- name: streamed
-- Condition: this outbox has a replication slot, or a relay of the engine stream has used it.
SELECT 1 FROM {wherry_lease} WHERE outbox = :name AND engine LIKE 'stream%'
UNION ALL
SELECT 1 FROM pg_replication_slots WHERE slot_name = :slot;

-- include: postgres.wal.sql

-- name: slot
-- A relay of this engine makes the publication or slot, and no other program should drop it.
-- A standby need not have it.
SELECT 2, :slot::text WHERE NOT EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_name = :slot)
  AND NOT pg_is_in_recovery();

-- name: slot-of-others
SELECT 2, slot_name::text, coalesce(plugin, 'none')::text, coalesce(database, 'none')::text
FROM {its_slot} AS s WHERE coalesce(plugin NOT IN ('pgoutput', ''), true) OR database <> current_database();

-- name: slot-waits
-- A new slot begins when the transactions that are open have ended, of every database of the server.
SELECT 2, s.slot_name::text, coalesce(w.who, 'a transaction that this role does not see'),
  coalesce(w.ends, 'GRANT pg_read_all_stats TO ' || quote_ident(current_user))
FROM {its_slot} AS s JOIN pg_stat_activity AS r ON r.pid = s.active_pid
LEFT JOIN LATERAL (
  SELECT * FROM (
    SELECT xact_start AS since, 'pid ' || pid || ' (' || coalesce(nullif(application_name, ''), 'unnamed') || ', database '
        || coalesce(datname::text, 'none') || ')' AS who, 'SELECT pg_terminate_backend(' || pid || ')' AS ends
    FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> r.pid
    UNION ALL
    SELECT prepared, 'the prepared transaction ' || quote_literal(gid) || ' of database ' || database::text,
      'ROLLBACK PREPARED ' || quote_literal(gid)
    FROM pg_prepared_xacts) AS t
  ORDER BY since LIMIT 1) AS w ON true
WHERE s.confirmed_flush_lsn IS NULL AND coalesce(r.query_start, r.backend_start) <= {now} - interval '2 seconds';

-- name: unsendable
-- The server cannot send a row to the relay that reads the WAL, which the relay says in its report (WH_CANNOT_SEND).
SELECT 2, error FROM {wherry_lease}
WHERE outbox = {name} AND starts_with(error, 'the server cannot send a row') AND expires_at > clock_timestamp()
  AND coalesce(error_at > delivered_at, true);

-- name: large-dead
-- The relay writes a large message to wherry_dead, which it says in its report (WH_WRITES_LARGE).
SELECT 2, error FROM {wherry_lease}
WHERE outbox = {name} AND starts_with(error, 'the relay writes a large message') AND expires_at > clock_timestamp();

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
FROM {its_slot} AS s WHERE NOT active AND wal_status IN ('reserved', 'extended') AND NOT pg_is_in_recovery();

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

-- name: failover
-- A standby that takes over has the slot only if it was synchronised.
SELECT 1, slot_name::text, n::text,
  CASE WHEN current_setting('server_version_num')::integer >= 170000
       THEN 'it can be synchronised: failover = true, and sync_replication_slots there'
       ELSE 'Patroni copies it if it is one of its permanent slots, and from version 17 on the server can' END
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
