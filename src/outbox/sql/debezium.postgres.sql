-- layout: name=debezium names=qualified ordered=yes stream=,,,,,id,aggregatetype,aggregatetype,aggregateid,,type,,payload columns=id,aggregatetype,aggregateid,type,payload,!status
-- unused: trace_id
--
-- The table that Debezium's outbox event router reads.  Programs insert rows, and often delete them at
-- once in the same transaction, so only a reader of the WAL sees them.  The table has no ascending
-- ids, no states and no errors: relays stream it, and write nothing to it.
--
-- Wherry's own tables beside it have the lease and the requests of operators.

-- part: ends
0::bigint, 0::bigint

-- name: wake-key
-- See postgres.beside.sql.
SELECT {'table}::regclass::oid::bigint;

-- include: postgres.own.sql

-- include: postgres.lease.sql

-- name: migrate-1
{own_tables}
{own_triggers}
CREATE TABLE IF NOT EXISTS {table}(
  id            uuid NOT NULL PRIMARY KEY,
  aggregatetype varchar(255) NOT NULL,
  aggregateid   varchar(255) NOT NULL,
  type          varchar(255) NOT NULL,
  payload       jsonb
);
INSERT INTO {wherry_outbox}(name) VALUES ({name}) ON CONFLICT DO NOTHING;

-- name: schema-version
-- The columns identify this layout, if no outbox of Wherry has the table's name.
SELECT CASE WHEN to_regclass({'wherry_lease}) IS NULL
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
-- Rows in the table's physical order, which is mostly the order in which they were inserted.
SELECT NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, id,
  aggregatetype, aggregatetype, aggregateid, NULL::text, type, NULL::text, payload
FROM {table};

-- name: enqueue
-- The type comes from the headers, or else from the topic.  Rows have no numbers, so the statement returns 1;
-- 0 would mean a duplicate.
INSERT INTO {table}(id, aggregatetype, aggregateid, type, payload)
VALUES (:message_id::uuid, coalesce(nullif(:aggregate_type::text, ''), :topic::text),
        coalesce(nullif(:aggregate_id::text, ''), :key::text, ''),
        coalesce(:headers::json ->> 'type'::text, :topic::text), :payload)
ON CONFLICT DO NOTHING RETURNING 1::bigint;

