--
-- Checks of `wherry doctor` on PostgreSQL that the layouts of outboxes share; src/cli/doctor.c explains the
-- results.  Each statement is one check.  A row is a finding: its severity (0 well, 1 a warning, 2 bad),
-- then texts and durations in milliseconds.  No row: no finding.  Each statement reads a bounded number of
-- rows of the outbox.

-- part: now
statement_timestamp()

-- include: postgres.sql

-- part: utc
AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"'

-- name: others
-- Wherry's other tables in the database.
SELECT 0, model, name FROM {wherry_schema} WHERE model NOT IN ('outbox', 'log') ORDER BY model, name;

-- name: time
SELECT ms FROM {wherry_clock};

-- name: server
SELECT CASE WHEN current_setting('server_version_num')::integer < 130000 THEN 2
            WHEN pg_is_in_recovery() THEN 1 ELSE 0 END,
  current_setting('server_version'), current_setting('wal_level'),
  CASE WHEN pg_is_in_recovery() THEN 'a standby' ELSE 'a primary' END;

-- name: pooler
-- A pooler reports another process number to its clients than the server does.
SELECT 1, (:session::bigint)::text, pg_backend_pid()::text
WHERE :session::bigint <> 0 AND :session::bigint <> pg_backend_pid();

-- name: clock
SELECT CASE WHEN abs(ahead) > 2000 THEN 1 ELSE 0 END, abs(ahead)::text,
  CASE WHEN ahead < 0 THEN 'behind' ELSE 'ahead of' END
FROM (SELECT ms - :local::bigint AS ahead FROM {wherry_clock}) AS clock;

-- name: activity
SELECT 1, current_user::text WHERE NOT pg_has_role('pg_read_all_stats', 'USAGE');

-- name: durability
-- The setting of a new session of this role, whatever this session has set, and roles with another
-- setting.
SELECT CASE name WHEN 'fsync' THEN 2 ELSE 1 END, name,
  CASE name
    WHEN 'fsync' THEN 'a crash of the machine can destroy the database'
    WHEN 'full_page_writes' THEN 'a crash of the machine can leave torn pages, unless the '
                                 'file system prevents them'
    ELSE 'a crash can take back a transaction whose message has left' END,
  'ALTER SYSTEM SET ' || name || ' = on; SELECT pg_reload_conf()'
FROM pg_settings
WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit') AND reset_val = 'off'
UNION ALL
SELECT 1, 'synchronous_commit of role ' || rolname,
  'a crash can take back a transaction of it whose message has left',
  'ALTER ROLE ' || quote_ident(rolname) || ' RESET synchronous_commit'
FROM pg_db_role_setting AS s JOIN pg_roles AS r ON r.oid = s.setrole
WHERE 'synchronous_commit=off' = ANY (s.setconfig) AND r.rolname <> current_user;

-- name: sync-standby
SELECT 2, current_setting('synchronous_standby_names')
WHERE current_setting('synchronous_standby_names') <> '' AND NOT pg_is_in_recovery()
  AND pg_has_role('pg_read_all_stats', 'USAGE')
  AND NOT EXISTS (SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum'));

-- name: connections
SELECT CASE WHEN used >= most * 0.9 THEN 1 ELSE 0 END, used::text, most::text
FROM (SELECT (SELECT sum(numbackends) FROM pg_stat_database) AS used,
        current_setting('max_connections')::integer
        - current_setting('superuser_reserved_connections')::integer AS most) AS c;

-- name: long-transactions
-- Transactions that hold back vacuum in this database, and transactions that have written in any.
SELECT 1, pid::text, coalesce(nullif(application_name, ''), 'unnamed'),
  coalesce(usename, 'nobody'), coalesce(state, 'running'),
  floor(extract(epoch FROM {now} - xact_start) * 1000::numeric)::bigint::text,
  to_char(xact_start {utc}),
  CASE WHEN backend_xid IS NULL THEN 'has written nothing' ELSE 'has written' END
FROM pg_stat_activity AS a
WHERE pid <> pg_backend_pid() AND datid IS NOT NULL
  AND xact_start <= {now} - :older::bigint::float8 * interval '1 millisecond'
  AND (datname = current_database() OR backend_xid IS NOT NULL)
  AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)
ORDER BY xact_start LIMIT 5;

-- name: prepared
SELECT 2, quote_literal(gid), owner::text, database::text,
  floor(extract(epoch FROM {now} - prepared) * 1000::numeric)::bigint::text, to_char(prepared {utc})
FROM pg_prepared_xacts
WHERE prepared <= {now} - :older::bigint::float8 * interval '1 millisecond'
ORDER BY prepared LIMIT 5;

-- part: ends_it
-- Statement that ends the session of the lock l.
'SELECT pg_terminate_backend(' || l.pid || ')'

-- name: locks
-- Lock modes that block producers, or all statements, on the table.
SELECT 2, 'pid ' || l.pid, l.mode,
  coalesce((SELECT nullif(application_name, '') FROM pg_stat_activity AS a
            WHERE a.pid = l.pid), 'unnamed'), {ends_it}
FROM pg_locks AS l
WHERE l.locktype = 'relation' AND l.granted AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation = {source}::regclass::oid
  AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
LIMIT 5;

-- name: row-locks
-- Sessions that have locked rows by SELECT … FOR UPDATE or FOR SHARE; relays hold such locks for milliseconds.
SELECT 1, 'pid ' || l.pid,
  coalesce(nullif(a.application_name, ''), 'unnamed') || ', user ' || coalesce(a.usename::text, 'nobody'),
  floor(extract(epoch FROM {now} - a.xact_start) * 1000.0)::bigint::text, {ends_it}
FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.granted AND l.pid <> pg_backend_pid() AND l.mode = 'RowShareLock'
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation = {locked}::regclass::oid
  AND a.xact_start <= {now} - least(:older::bigint, 15000)::float8 * interval '1 millisecond'
ORDER BY a.xact_start LIMIT 5;

-- name: lease-locks
-- Other programs that have locked rows of leases, or of positions, which consumers lock as long as their transactions last.
SELECT CASE WHEN t.oid = to_regclass({'wherry_lease})::oid THEN 2 ELSE 1 END, 'pid ' || l.pid,
  coalesce(nullif(a.application_name, ''), 'unnamed') || ', user ' || coalesce(a.usename::text, 'nobody'),
  floor(extract(epoch FROM {now} - a.xact_start) * 1000.0)::bigint::text, {ends_it}, t.oid::regclass::text,
  CASE WHEN t.oid = to_regclass({'wherry_lease})::oid THEN 'no relay can take or renew its lease'
       ELSE 'no position is written, and what was delivered since then comes again after a crash' END
FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
JOIN pg_class AS t ON t.oid = l.relation
WHERE l.locktype = 'relation' AND l.granted AND l.pid <> pg_backend_pid() AND l.mode = 'RowShareLock'
  AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND t.oid IN (to_regclass({'wherry_lease})::oid, to_regclass({'table_progress})::oid)
  AND a.application_name NOT LIKE 'wherry%'
  AND a.xact_start <= {now} - least(:older::bigint, 15000)::float8 * interval '1 millisecond'
ORDER BY 1 DESC, a.xact_start LIMIT 5;

-- part: of_relays
-- Whether the class c is a table that relays read or write.
(c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass({'table})::oid)
  AND (c.oid IN (to_regclass({source}), to_regclass({'table_dead}), to_regclass({'table_progress}),
                 to_regclass({'table_exception}))
       OR c.relname IN ('wherry_schema', 'wherry_outbox', 'wherry_lease', 'wherry_stream', 'wherry_dead',
                        'wherry_subscription')))

-- name: row-security
-- The finding is bad if the setting applies to this role.
SELECT CASE WHEN row_security_active(c.oid) THEN 2 ELSE 1 END, c.oid::regclass::text
FROM pg_class AS c
WHERE c.relrowsecurity AND {of_relays};

-- part: of_citus
-- Tables that Citus has made its own: it gives each of them this trigger.
pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid AND p.proname = 'citus_truncate_trigger'

-- name: citus
SELECT 2, c.oid::regclass::text FROM {of_citus} JOIN pg_class AS c ON c.oid = g.tgrelid
WHERE {of_relays};

-- name: invalid
SELECT 2, indexrelid::regclass::text FROM pg_index
WHERE indrelid = {source}::regclass::oid AND NOT (indisvalid AND indisready);

-- name: identity
-- The sequence must give ids in one order to all sessions, above all ids in the table.
SELECT 2, 'each session takes ' || seqcache || ' ids at once, so that those of one key are '
  'not in the order in which they were written',
  'ALTER TABLE ' || {'table} || ' ALTER COLUMN id SET CACHE 1'
FROM pg_sequence
WHERE seqrelid = pg_get_serial_sequence({'table}, 'id')::regclass::oid AND seqcache <> 1
UNION ALL
-- Ids may be UUIDs, which no sequence gives out.  If a row has the highest possible id, the sequence has none left.
SELECT 2, 'the next id is ' || next || ', which is not above the last, ' || last || ': '
  'producers will fail',
  CASE WHEN last < 4000000000000000000 THEN 'SELECT setval(' || quote_literal(seq) || ', ' || last || ')'
       ELSE 'UPDATE ' || {'table} || ' SET id = DEFAULT WHERE id >= 4000000000000000000' END
FROM (SELECT seq, next, CASE WHEN seq IS NOT NULL AND id ~ '^[0-9]+$' THEN id::bigint END AS last
      FROM (SELECT pg_get_serial_sequence({'table}, 'id') AS seq,
              coalesce(pg_sequence_last_value(pg_get_serial_sequence({'table}, 'id')::regclass), 0)
                + 1 AS next,
              (SELECT t.id::text FROM {table} AS t ORDER BY t.id DESC LIMIT 1) AS id) AS i) AS s
WHERE next <= last AND NOT EXISTS (SELECT 1 FROM {of_citus} WHERE g.tgrelid = {'table}::regclass::oid);

-- name: autovacuum
SELECT 1, name || ' is off', 'ALTER SYSTEM SET ' || name || ' = on; SELECT pg_reload_conf()'
FROM pg_settings WHERE name IN ('autovacuum', 'track_counts') AND setting = 'off'
UNION ALL
SELECT 1, 'autovacuum is off for the table ' || {source},
  'ALTER TABLE ' || {source} || ' RESET (autovacuum_enabled)'
FROM pg_class WHERE oid = {source}::regclass::oid
  AND EXISTS (SELECT 1 FROM pg_options_to_table(reloptions)
              WHERE option_name = 'autovacuum_enabled' AND option_value::boolean = false);

-- name: vacuum
SELECT 1, n_dead_tup::text, n_live_tup::text,
  coalesce('the last vacuum was at '
           || to_char(greatest(last_vacuum, last_autovacuum) {utc}), 'it was never vacuumed'),
  'VACUUM ' || {source}
FROM pg_stat_all_tables
WHERE relid = {source}::regclass::oid AND n_dead_tup > 10000 AND n_dead_tup > n_live_tup;

-- name: bloat
-- A row takes at most a page of its table, since long values are stored elsewhere; an entry of an
-- index takes far less.
SELECT 1, 'table ' || relname::text, pg_size_pretty(relpages * 8192::bigint),
  floor(reltuples)::bigint || ' rows', 'VACUUM FULL ' || {source}
FROM pg_class
WHERE oid = {source}::regclass::oid AND relpages > 1000 AND reltuples >= 0
  AND relpages > reltuples
UNION ALL
SELECT 1, 'index ' || c.relname::text, pg_size_pretty(c.relpages * 8192::bigint),
  floor(c.reltuples)::bigint || ' entries', 'REINDEX INDEX CONCURRENTLY ' || c.oid::regclass::text
FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE i.indrelid = {source}::regclass::oid AND c.relpages > 1000 AND c.reltuples >= 0
  AND c.relpages > c.reltuples;

-- name: absent
-- Facts about a message that is not in the outbox: whether its number was given out, and which
-- transaction may still commit it.
SELECT 2,
  CASE WHEN :number::bigint > coalesce(last, 0)
       THEN 'ids up to ' || coalesce(last, 0) || ' have been given out so far' ELSE '' END,
  coalesce((SELECT 'the transaction of pid ' || pid || ' ('
              || coalesce(nullif(application_name, ''), 'unnamed')
              || ') has written since ' || to_char(xact_start {utc})
              || ' and has not committed yet: it may be in there'
            FROM pg_stat_activity
            WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
              AND datname = current_database()
            ORDER BY xact_start LIMIT 1),
           (SELECT 'the prepared transaction ' || quote_literal(gid)
              || ' is not committed yet: it may be in there'
            FROM pg_prepared_xacts WHERE database = current_database()
            ORDER BY prepared LIMIT 1), '')
FROM (SELECT pg_sequence_last_value(pg_get_serial_sequence({'table}, 'id')::regclass) AS last)
  AS s;

-- name: any-table
-- Tables that may be Wherry's, without queues: every layout of an outbox and of a delayed queue has a
-- column `payload`, an inbox has `accepted_at`, a table of schedules `until_ms`.
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname::text
            ELSE quote_ident(c.relnamespace::regnamespace::text) || '.' || quote_ident(c.relname) END
FROM pg_class AS c
WHERE (c.relkind IN ('r', 'p') OR c.relkind = 'v' AND EXISTS (
         SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'at_once')) AND NOT c.relispartition AND c.relname::text NOT LIKE 'wherry\_%'
  AND c.relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
  AND EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname IN ('payload', 'accepted_at', 'until_ms')
              AND NOT a.attisdropped)
ORDER BY 1;
-- part: foreign_triggers
-- Triggers that Wherry did not make.
SELECT t.tgname::text AS name, t.tgtype::integer AS type, p.oid::regprocedure::text AS function,
  p.proconfig AS config
FROM pg_trigger AS t JOIN pg_proc AS p ON p.oid = t.tgfoid
WHERE t.tgrelid = {source}::regclass::oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'
  AND p.proname::text NOT LIKE 'wherry\_%'

-- name: search-path
SELECT 1, function, name FROM ({foreign_triggers}) AS t
WHERE NOT EXISTS (SELECT 1 FROM unnest(config) AS c(setting) WHERE setting LIKE 'search\_path=%');

-- name: trigger
-- Of {wake_triggers} and of those that all tables of the schema share: which is missing, disabled, or has a function with
-- another text (tests/system/doctor.sh, tests/system/doctor_wakes.sh).
SELECT 1, to_regclass(t.name)::text,
  CASE WHEN g.tgname IS NULL THEN 'has no trigger' WHEN g.tgenabled NOT IN ('O', 'A') THEN 'has its trigger disabled'
       ELSE concat('has a trigger with another function ', t.function, '() than this version of Wherry makes') END
FROM (VALUES {wake_triggers},
             ({'wherry_outbox}, 'wherry_wake_control', 16, {'wake_control_body}),
             ({'wherry_lease}, 'wherry_wake_control', 16, {'wake_control_body})) AS t(name, function, events, body)
LEFT JOIN (pg_trigger AS g JOIN pg_proc AS p ON p.oid = g.tgfoid)
  ON g.tgrelid = to_regclass(t.name)::oid AND p.proname = t.function
  AND g.tgtype & t.events::smallint = t.events::smallint
WHERE to_regclass(t.name) IS NOT NULL
  AND (g.tgname IS NULL OR g.tgenabled NOT IN ('O', 'A') OR regexp_replace(p.prosrc, '\s+', ' ', 'g')
       NOT IN (regexp_replace(t.body, '\s+', ' ', 'g'), regexp_replace({'unsignalled_body}, '\s+', ' ', 'g')));
