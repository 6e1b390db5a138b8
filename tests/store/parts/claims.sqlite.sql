--
-- A table of rows that are claimed, in the order of their ids.

-- part: now
CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER)

-- part: texts
created_at, 0, message_id, topic, '', '', NULL, '{}', NULL, payload

-- part: overdue
state = 1 AND until <= {now}

-- name: migrate-1
CREATE TABLE IF NOT EXISTS {table}(
  id INTEGER PRIMARY KEY, message_id TEXT NOT NULL UNIQUE, topic TEXT NOT NULL,
  payload TEXT NOT NULL, state INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0, claimer TEXT, until INTEGER,
  created_at INTEGER NOT NULL DEFAULT (
    CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER)));

-- name: schema-version
SELECT 1, 100 WHERE 8 = (SELECT count(*) FROM pragma_table_info(:name)
                         WHERE name IN ('id', 'message_id', 'topic', 'payload', 'state',
                                        'attempts', 'claimer', 'until'));

-- name: columns
SELECT name FROM pragma_table_info(:name);

-- name: claim-end
SELECT 0, count(*) FROM (SELECT 1 FROM {table} WHERE state = 0 LIMIT 1);

-- name: claim
UPDATE {table} SET state = 1, claimer = :token, until = {now} + :lasts
WHERE id IN (SELECT id FROM {table} WHERE state = 0 ORDER BY id LIMIT :limit)
RETURNING id, 0, attempts, {texts};

-- name: claim-due
UPDATE {table} SET state = 1, claimer = :token, until = {now} + :lasts
WHERE id IN (SELECT id FROM {table} WHERE state = 3 AND until <= {now} LIMIT :limit)
RETURNING id, 0, attempts, {texts};

-- name: expired
SELECT claimer, count(*) FROM {table} WHERE {overdue}
GROUP BY claimer ORDER BY min(until) LIMIT 1;

-- name: claim-share
UPDATE {table} SET claimer = :token, until = {now} + :lasts
WHERE id IN (SELECT id FROM {table} WHERE {overdue} AND claimer = :of LIMIT :limit)
RETURNING id, 0, attempts, {texts};

-- name: claim-expired
UPDATE {table} SET claimer = :token, until = {now} + :lasts, attempts = attempts + 1
WHERE id = (SELECT id FROM {table} WHERE {overdue} ORDER BY until LIMIT 1)
RETURNING id, 1, attempts - 1, {texts};

-- name: claim-next
SELECT (SELECT min(until) - {now} FROM {table} WHERE state = 1),
       (SELECT min(until) - {now} FROM {table} WHERE state = 3);

-- name: extend
UPDATE {table} SET until = {now} + :lasts
WHERE id IN (SELECT value FROM json_each(:ids)) AND claimer = :token AND NOT ({overdue});

-- name: reap
UPDATE {table} SET state = 0, claimer = NULL WHERE state = 1 AND until <= {now} - :timeout;

-- name: done-delete
DELETE FROM {table} WHERE id IN (SELECT value FROM json_each(:ids)) AND claimer = :token;

-- name: fail
-- unused: message_id nth error
UPDATE {table} SET state = CASE WHEN :dead THEN 4 ELSE 3 END, attempts = attempts + :count,
  until = {now} + :delay, claimer = NULL
WHERE id = :id AND claimer = :token;

-- name: requeue
UPDATE {table} SET state = 0, claimer = NULL
WHERE id IN (SELECT value FROM json_each(:ids)) AND claimer = :token;

-- name: try
-- unused: message_id nth
UPDATE {table} SET attempts = attempts + 1 WHERE id = :id AND claimer = :token;
