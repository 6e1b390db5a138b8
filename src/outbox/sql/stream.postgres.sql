-- layout: name=stream columns=
--
-- Further statements of the stream engine, the same for every layout of the outbox.
-- Positions of the log are numbers of bytes.

-- part: at
- '0/0'::pg_lsn)::bigint

-- name: which
-- Full name of the table.
SELECT current_database()::text, n.nspname::text, c.relname::text
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass({'table})::oid;

-- name: which-left
-- The same of a table that was dropped by hand.
SELECT current_database()::text, n.nspname::text, {name}
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass({'wherry_schema})::oid AND to_regclass({'table}) IS NULL;

-- name: state
-- Conditions for reading the WAL, in one row.  While a slot is being made its plugin is empty for a
-- moment: it is not taken for another's, and has a reader, so that the relay tries again.
SELECT current_setting('wal_level') = 'logical',
  (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user)
    OR EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'rds_replication'
               AND pg_has_role(current_user, oid, 'USAGE')),
  coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN NULL ELSE pg_current_wal_lsn() END,
                           s.restart_lsn)::bigint, 0),
  s.slot_name IS NOT NULL,
  coalesce(s.plugin IN ('pgoutput', '') AND s.slot_type = 'logical'
           AND s.database = current_database(), false),
  coalesce(s.plugin::text, s.slot_type, ''), coalesce(s.active_pid, 0),
  coalesce(s.wal_status = 'lost', false),
  coalesce((s.confirmed_flush_lsn {at}, 0),
  CASE WHEN pg_is_in_recovery() THEN 0 ELSE (pg_current_wal_flush_lsn() {at} END,
  p.oid IS NOT NULL, coalesce(p.pubinsert, false),
  EXISTS (SELECT 1 FROM pg_publication_tables AS t
          WHERE t.pubname = p.pubname AND t.schemaname = n.nspname
            AND t.tablename = c.relname),
  coalesce((SELECT (extract(epoch FROM a.replay_lag) * 1000000.0)::bigint
            FROM pg_stat_replication AS a WHERE a.pid = s.active_pid), 0),
  coalesce((extract(epoch FROM clock_timestamp()
            - (to_jsonb(s) ->> 'inactive_since'::text)::timestamptz) * 1000000.0)::bigint, 0),
  -- Required columns that a column list of the publication leaves out, and its row filter; servers
  -- before version 15 have neither.
  coalesce((SELECT string_agg(w.name, ', ' ORDER BY w.nth)
            FROM pg_publication_tables AS t,
              unnest(string_to_array(:columns::text, ',')) WITH ORDINALITY AS w(name, nth)
            WHERE t.pubname = p.pubname AND t.schemaname = n.nspname
              AND t.tablename = c.relname AND w.name <> ''
              AND to_jsonb(t) ->> 'attnames'::text IS NOT NULL
              AND NOT EXISTS (
                SELECT 1 FROM jsonb_array_elements_text(to_jsonb(t) -> 'attnames'::text) AS a(name)
                WHERE a.name = w.name)), ''),
  coalesce((SELECT min(to_jsonb(t) ->> 'rowfilter'::text) FROM pg_publication_tables AS t
            WHERE t.pubname = p.pubname AND t.schemaname = n.nspname
              AND t.tablename = c.relname), ''),
  quote_ident(current_user)
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_replication_slots AS s ON s.slot_name = :slot::text
LEFT JOIN pg_publication AS p ON p.pubname = :publication::text
WHERE c.oid = to_regclass({'table})::oid;

-- name: now
-- Rows that earlier statements could see are before this position.  At the start of a page the server
-- adds the length of the page's header, which it flushes only with the next record: so the position is
-- that of the page, or an idle server would never flush up to it.
SELECT CASE WHEN at.written % at.page IN (24, 40) THEN at.written - at.written % at.page
            ELSE at.written END,
  (pg_current_wal_flush_lsn() {at}
FROM (SELECT (pg_current_wal_insert_lsn() {at},
             current_setting('wal_block_size')::bigint) AS at(written, page);

-- name: snapshot
SELECT pg_current_snapshot()::text;

-- name: waits-for-standbys
SELECT (current_setting('synchronous_standby_names') <> '')::integer;

-- name: leave-done
-- Messages that came by the WAL and were delivered, and that the position of a log does not cover yet.  Messages that
-- failed or wait are exceptions already.
INSERT INTO {table_exception}(subscription, id, state)
SELECT {topic}, id, 2 FROM unnest(:delivered::text::bigint[]) AS d(id) ON CONFLICT DO NOTHING;

-- name: republish
-- Add a table to the publication that was dropped and made again under its name, since the publication
-- had the table before.
DO $$ BEGIN
  IF EXISTS (SELECT 1 FROM pg_publication AS p
             WHERE p.pubname = current_setting('wherry.publication') AND NOT EXISTS (
               SELECT 1 FROM pg_publication_tables AS t JOIN pg_class AS c ON c.relname = t.tablename
                 JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
               WHERE t.pubname = p.pubname AND c.oid = to_regclass({'table})::oid)) THEN
    EXECUTE format('ALTER PUBLICATION %I ADD TABLE %s',
                   current_setting('wherry.publication'), {'table}::regclass);
  END IF;
END $$;

-- name: name-publication
SELECT set_config('wherry.publication', :publication::text, false);

-- name: publish
-- The publication has only inserts, since changes that relays make to rows need not be sent.
DO $$ BEGIN
  EXECUTE format('CREATE PUBLICATION %I FOR TABLE %s WITH (publish = ''insert'', '
                 'publish_via_partition_root = true)',
                 current_setting('wherry.publication'), {'table}::regclass);
EXCEPTION WHEN duplicate_object THEN NULL;
END $$;

-- name: unpublish
DO $$ BEGIN
  EXECUTE format('DROP PUBLICATION IF EXISTS %I', current_setting('wherry.publication'));
END $$;

-- name: has-tables
SELECT count(*) FROM pg_class
WHERE oid IN (to_regclass({'wherry_stream}), to_regclass({'wherry_dead}));

-- part: dead_name
-- A B-tree holds no text of more than 2,704 bytes (a_long_message_id_can_die).
(CASE WHEN octet_length(message_id) <= 1000 THEN message_id
      ELSE '~' || hashtextextended(message_id, 1::bigint)::text
           || hashtextextended(message_id, 2::bigint)::text END)

-- name: tables
-- For relays that mark no rows: the position up to which they have delivered, and dead messages.
CREATE TABLE IF NOT EXISTS {wherry_stream}(
  outbox     text NOT NULL PRIMARY KEY,
  slot       text NOT NULL,     -- the replication slot
  position   bigint NOT NULL,   -- of the log: all before it is delivered, or dead
  epoch      bigint NOT NULL,   -- of the lease under which that was written
  suspect    text,              -- the message that is being tried alone,
  tries      integer NOT NULL DEFAULT 0,   -- and how often it was
  ended      boolean NOT NULL DEFAULT false,   -- no later position was reported to the slot
  written_at timestamptz NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE IF NOT EXISTS {wherry_dead}(
  outbox         text NOT NULL,
  message_id     text COLLATE "C" NOT NULL,
  topic          text NOT NULL,
  aggregate_type text NOT NULL,
  aggregate_id   text NOT NULL,
  partition_key  text,
  headers        text,
  trace_id       text,
  payload        bytea NOT NULL,
  attempts       integer NOT NULL,
  last_error     text,
  created_at     timestamptz NOT NULL,
  died_at        timestamptz NOT NULL
);
CREATE UNIQUE INDEX IF NOT EXISTS wherry_dead_name ON {wherry_dead}(outbox, {dead_name});
DROP TRIGGER IF EXISTS wherry_own_row ON {wherry_stream};
CREATE TRIGGER wherry_own_row BEFORE INSERT OR UPDATE OR DELETE ON {wherry_stream}
  FOR EACH ROW EXECUTE FUNCTION {wherry_own_row}('outbox');
DROP TRIGGER IF EXISTS wherry_own_row ON {wherry_dead};
CREATE TRIGGER wherry_own_row BEFORE INSERT OR UPDATE OR DELETE ON {wherry_dead}
  FOR EACH ROW EXECUTE FUNCTION {wherry_own_row}('outbox');

-- name: stored-position
SELECT position, slot, least(greatest(tries, 0), 1000000), coalesce(suspect, ''), ended FROM {wherry_stream}
WHERE outbox = :name;

-- name: left
-- Time since a relay that marks no rows worked: since it wrote its position at the end, or since its
-- lease expired.  No row: relays mark rows.
SELECT greatest((extract(epoch FROM clock_timestamp() - least(clock_timestamp(), greatest(p.written_at,
  (SELECT max(l.expires_at) FROM {wherry_lease} AS l
   WHERE l.outbox = :name AND l.expires_at <= clock_timestamp()), '1970-01-01 00:00:00+00'::timestamptz)))
   * 1000000.0)::bigint, 0)
FROM {wherry_stream} AS p WHERE p.outbox = :name AND p.slot = :slot::text;

-- name: write-position
-- Runs behind the fence, in its transaction.
INSERT INTO {wherry_stream} AS s (outbox, slot, position, epoch, suspect, tries, ended, written_at)
VALUES (:name, :slot::text, :position::bigint, :epoch, :suspect::text, :tries::integer,
        :ended::bigint <> 0, clock_timestamp())
ON CONFLICT (outbox) DO UPDATE SET slot = excluded.slot, position = excluded.position,
  epoch = excluded.epoch, suspect = excluded.suspect, tries = excluded.tries, ended = excluded.ended,
  written_at = excluded.written_at;

-- name: move-position
-- Write only the position, with the fence in the statement.  The server need not write it to disk before
-- it answers: if it is lost, messages are delivered again, which may happen anyway.
WITH held AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true) FROM {wherry_lease}
  WHERE outbox = :name AND number = :number::integer AND epoch = :epoch
    AND members = :holder::text AND expires_at > statement_timestamp() FOR SHARE)
UPDATE {wherry_stream} SET position = :position::bigint, epoch = :epoch, ended = false,
  written_at = clock_timestamp()
WHERE outbox = :name AND slot = :slot::text AND suspect IS NULL AND EXISTS (SELECT 1 FROM held);

-- name: be-patient
-- While a message of hundreds of megabytes comes, the transaction is idle for the server.
SELECT set_config('idle_in_transaction_session_timeout', :most_ms::text, true);

-- name: make-dead
-- Record a dead message that has no row.  If it is delivered again after a crash and becomes dead again,
-- it is the same record.
INSERT INTO {wherry_dead} AS d (outbox, message_id, topic, aggregate_type, aggregate_id,
  partition_key, headers, trace_id, payload, attempts, last_error, created_at, died_at)
VALUES (:name, :message_id::text, :topic::text, :aggregate_type::text, :aggregate_id::text,
        :key::text, :headers::text, :trace_id::text, :payload::bytea, :attempts::integer,
        :error::text, to_timestamp(:created::bigint::float8 / 1000::float8), clock_timestamp())
ON CONFLICT (outbox, {dead_name}) DO UPDATE SET attempts = excluded.attempts,
  last_error = excluded.last_error, died_at = excluded.died_at;

-- name: end-reader
-- The connection of the relay that had the lease before may still be open, because the relay was stopped or
-- its network broke.  The relay that has the lease now ends that connection, and none of another program.
-- The function is called after the join: PostgreSQL evaluates a condition on one table before it, for
-- every session (who_takes_a_slot_over_ends_its_reader_alone).
SELECT count(*) FILTER (WHERE pg_terminate_backend(a.pid))
FROM pg_replication_slots AS s JOIN pg_stat_activity AS a ON a.pid = s.active_pid
WHERE s.slot_name = :slot::text AND a.usename = current_user
  AND a.application_name LIKE 'wherry%';

-- name: dead
SELECT count(*) FROM {wherry_dead} WHERE outbox = :name;

-- name: drop-slot
-- Drop only a slot that no process reads.
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
WHERE slot_name = :slot::text AND NOT active;

-- name: name-slot
SELECT set_config('wherry.slot', :slot::text, false);

-- name: make-slot
-- From version 17 on, standbys can keep a copy of the slot (failover), which costs nothing if no standby
-- asks for it.
DO $$ BEGIN
  IF current_setting('server_version_num')::integer >= 170000 THEN
    EXECUTE 'SELECT pg_create_logical_replication_slot($1, ''pgoutput'', failover => true)'
      USING current_setting('wherry.slot')::name;
  ELSE
    PERFORM pg_create_logical_replication_slot(current_setting('wherry.slot')::name, 'pgoutput');
  END IF;
END $$;
