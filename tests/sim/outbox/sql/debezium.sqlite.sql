-- layout: name=debezium ordered=yes stream=,,,,,message_id,topic,aggregate_type,aggregate_id,partition_key,headers,trace_id,payload columns=id,message_id,topic,payload,!status
--
-- A table like that of Debezium's event router, on SQLite: rows say nothing of what became of them, and a relay reads
-- the WAL, which is stream.c.

-- include: sqlite.sql

-- part: ends
0, 0

-- include: sqlite.lease.sql

-- name: migrate-1
{own_tables}
CREATE TABLE IF NOT EXISTS {table}(
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id     TEXT NOT NULL UNIQUE,
  topic          TEXT NOT NULL,
  aggregate_type TEXT NOT NULL DEFAULT '',
  aggregate_id   TEXT NOT NULL DEFAULT '',
  partition_key  TEXT,
  payload        TEXT NOT NULL
);
INSERT INTO wherry_outbox(name) VALUES ({name}) ON CONFLICT DO NOTHING;

-- name: schema-version
SELECT 1, 100 WHERE EXISTS (SELECT 1 FROM pragma_table_info(:name) WHERE name = 'message_id')
  AND NOT EXISTS (SELECT 1 FROM pragma_table_info(:name) WHERE name = 'status');

-- name: columns
{column_names};

-- name: stream-first
-- The simulated server knows what its snapshot holds.
SELECT 1;

-- name: enqueue
-- unused: headers trace_id
INSERT INTO {table}(message_id, topic, aggregate_type, aggregate_id, partition_key, payload)
VALUES (:message_id, :topic, :aggregate_type, :aggregate_id, :key, :payload)
ON CONFLICT (message_id) DO NOTHING;
