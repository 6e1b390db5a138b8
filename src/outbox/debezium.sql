-- layout: name=debezium databases=postgres ids=none names=qualified ordered=yes fence=lease engines=stream stream=,,,,,,id,aggregatetype,aggregatetype,aggregateid,,type,,payload columns=id,aggregatetype,aggregateid,type,payload,!status archive=
--
-- The table that Debezium's outbox event router reads: rows are inserted, and often deleted at
-- once in the same transaction, so that only who reads the log ever sees them.  There are no
-- ids in their order, no states and no errors: it is streamed, with relay.on_done=keep, and
-- nothing is written to it.
--
-- Beside it are tables of Wherry's own, for the lease and for what operators ask; see
-- postgres.sql, from which those statements are.

-- name: migrate-lock
SELECT pg_advisory_xact_lock(7810779305);

-- name: migrate-1
CREATE TABLE IF NOT EXISTS {wherry_outbox}(
  name      text NOT NULL PRIMARY KEY,
  paused_at timestamptz,
  nudge     bigint NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS {wherry_slot}(
  outbox     text NOT NULL,
  slot       integer NOT NULL,
  engine     text NOT NULL,
  owner      text NOT NULL,
  epoch      bigint NOT NULL,
  expires_at timestamptz NOT NULL,
  clean      integer NOT NULL,
  unclean    integer NOT NULL,
  win        bigint NOT NULL,
  suspects   bigint NOT NULL,
  members    text NOT NULL DEFAULT '',
  mask       bigint NOT NULL DEFAULT -1,
  PRIMARY KEY (outbox, slot)
) WITH (fillfactor = 50);
CREATE OR REPLACE FUNCTION {wherry_wake_control}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('wherry_control', '');
  RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS wherry_wake ON {wherry_outbox};
CREATE TRIGGER wherry_wake AFTER UPDATE ON {wherry_outbox}
  FOR EACH STATEMENT EXECUTE FUNCTION {wherry_wake_control}();
DROP TRIGGER IF EXISTS wherry_wake ON {wherry_slot};
CREATE TRIGGER wherry_wake AFTER UPDATE ON {wherry_slot}
  FOR EACH ROW WHEN (new.expires_at < old.expires_at)
  EXECUTE FUNCTION {wherry_wake_control}();
CREATE TABLE IF NOT EXISTS {table}(
  id            uuid NOT NULL PRIMARY KEY,
  aggregatetype varchar(255) NOT NULL,
  aggregateid   varchar(255) NOT NULL,
  type          varchar(255) NOT NULL,
  payload       jsonb
);
INSERT INTO {wherry_outbox}(name) VALUES ({name}) ON CONFLICT DO NOTHING;

-- name: schema-exists
SELECT 1;

-- name: schema-version
-- The columns say it, and that no native outbox is called so.
SELECT CASE WHEN to_regclass({'wherry_slot}) IS NULL
              OR to_regclass({'wherry_outbox}) IS NULL THEN 0 ELSE 1 END, 100
WHERE 5 = (SELECT count(*) FROM pg_attribute
           WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::text))
             AND attname IN ('id', 'aggregatetype', 'aggregateid', 'type', 'payload')
             AND NOT attisdropped);

-- name: columns
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::text)) AND attnum > 0
  AND NOT attisdropped;

-- name: stream-first
-- As they come, which is mostly in the order in which they were inserted.
SELECT NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, id,
  aggregatetype, aggregatetype, aggregateid, NULL::text, type, NULL::text, payload
FROM {table};

-- part: now
statement_timestamp()

-- part: until
statement_timestamp() + least(:lasts::bigint, 3153600000000) * interval '1 millisecond'

-- name: lease
INSERT INTO {wherry_slot} AS s (outbox, slot, engine, owner, epoch, expires_at, clean, unclean,
                              win, suspects)
VALUES (:name, :slot, :engine, :owner, 1, {until}, 0, 0, :window::bigint, 0)
ON CONFLICT (outbox, slot) DO UPDATE SET
  engine = excluded.engine, owner = excluded.owner, epoch = s.epoch + 1,
  expires_at = excluded.expires_at, clean = 0, win = excluded.win,
  unclean = CASE WHEN s.clean <> 0 THEN 0 ELSE s.unclean + 1 END,
  suspects = CASE WHEN s.clean <> 0 THEN 0
                  ELSE least(s.win << least(s.unclean, 16), 1000000) END
  WHERE s.expires_at <= {now}
RETURNING epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM {wherry_outbox} WHERE name = s.outbox),
  (SELECT nudge FROM {wherry_outbox} WHERE name = s.outbox), 0::bigint, 0::bigint;

-- name: lease-holder
SELECT owner, ceil(extract(epoch FROM expires_at - {now}) * 1000)::bigint, epoch, engine
FROM {wherry_slot} WHERE outbox = :name AND slot = :slot;

-- name: renew
UPDATE {wherry_slot} AS s SET expires_at = {until},
  unclean = CASE WHEN :suspects::bigint = 0 THEN 0 ELSE s.unclean END
WHERE outbox = :name AND slot = :slot AND epoch = :epoch AND expires_at > {now}
RETURNING epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM {wherry_outbox} WHERE name = s.outbox),
  (SELECT nudge FROM {wherry_outbox} WHERE name = s.outbox), 0::bigint, 0::bigint;

-- name: control
SELECT paused_at IS NOT NULL, nudge FROM {wherry_outbox} WHERE name = :name;

-- name: release
UPDATE {wherry_slot} SET expires_at = '1970-01-01 00:00:00+00', clean = 1, unclean = 0
WHERE outbox = :name AND slot = :slot AND epoch = :epoch AND expires_at > {now};

-- name: fence
WITH held AS (
  SELECT 1 FROM {wherry_slot} WHERE :shared::bigint = 0 AND outbox = :name AND slot = :slot
    AND epoch = :epoch AND expires_at > {now} FOR SHARE)
SELECT 1 FROM held;

-- name: nudge
UPDATE {wherry_outbox} SET nudge = nudge + 1 WHERE name = :name;

-- name: pause
UPDATE {wherry_outbox} SET nudge = nudge + 1,
  paused_at = CASE WHEN :on::bigint <> 0 THEN coalesce(paused_at, {now}) END
WHERE name = :name;

-- name: enqueue
-- The type is what the headers say of it, else the topic.
INSERT INTO {table}(id, aggregatetype, aggregateid, type, payload)
VALUES (:message_id::uuid, coalesce(nullif(:aggregate_type::text, ''), :topic::text),
        coalesce(nullif(:aggregate_id::text, ''), :key::text, ''),
        coalesce(:headers::json ->> 'type', :topic::text), :payload)
ON CONFLICT DO NOTHING RETURNING 0::bigint;

-- name: last-open
SELECT 0::bigint;

-- name: open-upto
SELECT 0::bigint;

-- name: join
-- Such there is none of here.
SELECT NULL WHERE false;

-- name: leave
SELECT NULL WHERE false;

-- name: claim-end
SELECT NULL WHERE false;

-- name: claim
SELECT NULL WHERE false;

-- name: claim-passed
SELECT NULL WHERE false;

-- name: claim-due
SELECT NULL WHERE false;

-- name: lapsed
SELECT NULL WHERE false;

-- name: claim-share
SELECT NULL WHERE false;

-- name: claim-lapsed
SELECT NULL WHERE false;

-- name: claim-next
SELECT NULL WHERE false;

-- name: extend
SELECT NULL WHERE false;

-- name: read
SELECT NULL WHERE false;

-- name: sweep
SELECT NULL WHERE false;

-- name: read-ids
SELECT NULL WHERE false;

-- name: horizon
SELECT NULL WHERE false;

-- name: dead-keys
SELECT NULL WHERE false;

-- name: done-mark
SELECT NULL WHERE false;

-- name: done-delete
SELECT NULL WHERE false;

-- name: done-archive
SELECT NULL WHERE false;

-- name: done-mark-range
SELECT NULL WHERE false;

-- name: done-delete-range
SELECT NULL WHERE false;

-- name: fail
SELECT NULL WHERE false;

-- name: requeue
SELECT NULL WHERE false;

-- name: try
SELECT NULL WHERE false;

-- name: reap
SELECT NULL WHERE false;

-- name: purge
DELETE FROM {table} WHERE false;

-- name: archive
SELECT NULL WHERE false;

-- name: purge-archived
SELECT NULL WHERE false;

-- name: purge-archive
SELECT NULL WHERE false;

-- name: redrive
SELECT NULL WHERE false;

-- name: replay
SELECT NULL WHERE false;

-- name: replay-archived
SELECT NULL WHERE false;

-- name: unarchive
SELECT NULL WHERE false;

-- name: list
SELECT NULL WHERE false;

-- name: list-any
SELECT NULL WHERE false;

-- name: list-archived
SELECT NULL WHERE false;

-- name: show
SELECT NULL WHERE false;

-- name: show-archived
SELECT NULL WHERE false;

-- name: count
-- Who has been told of a row, the table does not say.
SELECT 0::bigint, 0::bigint, 0::bigint, 0::bigint, 0::bigint;

-- name: count-archived
SELECT 0::bigint;

-- name: ready
SELECT 0::bigint, 0::bigint;

-- name: oldest-pending
SELECT NULL WHERE false;
