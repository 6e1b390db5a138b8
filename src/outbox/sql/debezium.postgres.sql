-- layout: name=debezium ids=none names=qualified ordered=yes fence=lease stream=,,,,,,id,aggregatetype,aggregatetype,aggregateid,,type,,payload columns=id,aggregatetype,aggregateid,type,payload,!status archive=
--
-- The table that Debezium's outbox event router reads: rows are inserted, and often deleted at
-- once in the same transaction, so that only who reads the log ever sees them.  There are no
-- ids in their order, no states and no errors: it is streamed, with relay.on_done=keep, and
-- nothing is written to it.
--
-- Beside it are tables of Wherry's own, for the lease and for what operators ask.

-- part: ends
0::bigint, 0::bigint

-- name: wake-key
-- See native.postgres.sql.
SELECT {'table}::regclass::oid::bigint;

-- include: postgres.lease.sql

-- name: migrate-1
{own_tables}
{own_wakes}
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
           WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::text))::oid
             AND attname IN ('id', 'aggregatetype', 'aggregateid', 'type', 'payload')
             AND NOT attisdropped);

-- name: columns
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::text))::oid AND attnum > 0
  AND NOT attisdropped;

-- name: stream-first
-- As they come, which is mostly in the order in which they were inserted.
SELECT NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, id,
  aggregatetype, aggregatetype, aggregateid, NULL::text, type, NULL::text, payload
FROM {table};

-- name: enqueue
-- The type is what the headers say of it, else the topic.
INSERT INTO {table}(id, aggregatetype, aggregateid, type, payload)
VALUES (:message_id::uuid, coalesce(nullif(:aggregate_type::text, ''), :topic::text),
        coalesce(nullif(:aggregate_id::text, ''), :key::text, ''),
        coalesce(:headers::json ->> 'type'::text, :topic::text), :payload)
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

-- name: requeue-failed
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

-- name: discard
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

-- name: list-newest
SELECT NULL WHERE false;

-- name: list-any-newest
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
