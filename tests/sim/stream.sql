-- layout: name=stream columns=

-- name: which
SELECT 'sim', 'main', 'outbox';

-- name: state
SELECT 1, 1, sim_wal('end') - sim_wal('confirmed'), sim_wal('slot'), 1, 'pgoutput',
  sim_wal('reader'), sim_wal('lost'), sim_wal('confirmed'), sim_wal('end'),
  1, 1, 1, 0, 0, '', '', 'sim'
WHERE coalesce(:slot, :publication, :columns) IS NOT NULL;

-- name: snapshot
SELECT sim_snapshot();

-- name: waits-for-standbys
SELECT 0;

-- name: leave-done
INSERT INTO {table_exception}(subscription, id, state)
SELECT {topic}, value, 2 FROM json_each('[' || substr(:delivered, 2, length(:delivered) - 2) || ']') WHERE true ON CONFLICT DO NOTHING;

-- name: now
SELECT sim_wal('end'), sim_wal('end');

-- name: republish
SELECT 1;

-- name: name-publication
SELECT :publication;

-- name: publish
SELECT 1;

-- name: has-tables
SELECT count(*) FROM sqlite_schema WHERE name IN ('wherry_stream', 'wherry_dead');

-- name: tables
CREATE TABLE IF NOT EXISTS wherry_stream(
  outbox TEXT NOT NULL PRIMARY KEY, slot TEXT NOT NULL, position INTEGER NOT NULL,
  epoch INTEGER NOT NULL, suspect TEXT, tries INTEGER NOT NULL DEFAULT 0,
  ended INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS wherry_dead(
  outbox TEXT NOT NULL, message_id TEXT NOT NULL, topic TEXT NOT NULL,
  aggregate_type TEXT NOT NULL, aggregate_id TEXT NOT NULL, partition_key TEXT, headers TEXT,
  trace_id TEXT, payload BLOB NOT NULL, attempts INTEGER NOT NULL, last_error TEXT,
  created_at INTEGER NOT NULL, PRIMARY KEY (outbox, message_id));

-- name: stored-position
SELECT position, slot, tries, coalesce(suspect, ''), ended FROM wherry_stream WHERE outbox = :name;

-- name: left
SELECT 0 WHERE coalesce(:name, :slot) IS NULL;

-- name: write-position
INSERT INTO wherry_stream(outbox, slot, position, epoch, suspect, tries, ended)
VALUES (:name, :slot, :position, :epoch, :suspect, :tries, :ended)
ON CONFLICT (outbox) DO UPDATE SET slot = excluded.slot, position = excluded.position,
  epoch = excluded.epoch, suspect = excluded.suspect, tries = excluded.tries,
  ended = excluded.ended;

-- name: move-position
UPDATE wherry_stream SET position = :position, epoch = :epoch, ended = 0
WHERE outbox = :name AND slot = :slot AND suspect IS NULL AND EXISTS (
  SELECT 1 FROM wherry_lease WHERE outbox = :name AND number = :number AND epoch = :epoch
    AND members = :holder AND expires_at > (SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER)));

-- name: be-patient
SELECT :most_ms;

-- name: make-dead
INSERT INTO wherry_dead(outbox, message_id, topic, aggregate_type, aggregate_id,
  partition_key, headers, trace_id, payload, attempts, last_error, created_at)
VALUES (:name, :message_id, :topic, :aggregate_type, :aggregate_id, :key, :headers, :trace_id,
        :payload, :attempts, :error, :created)
ON CONFLICT (outbox, message_id) DO UPDATE SET attempts = excluded.attempts,
  last_error = excluded.last_error;

-- name: end-reader
SELECT sim_end_reader(:slot);

-- name: dead
SELECT count(*) FROM wherry_dead WHERE outbox = :name;

-- name: drop-slot
SELECT sim_drop_slot(:slot);

-- name: name-slot
SELECT :slot;

-- name: make-slot
SELECT 1;
