-- layout: name=eventferry-sole ids=integer names=qualified ordered=yes order=aggregate fence=lease wakes=no body=jsonb message_id=uuid columns=id,message_id,topic,aggregate_type,aggregate_id,key,payload,headers,trace_id,status,attempts,claimed_at,next_retry_at,!claim_token
-- unused: token
--
-- The table of eventferry for a relay that works alone (relay.sole).  The relay writes nothing to a
-- row before it is delivered, and one update marks it done, which costs half as much as a claim and an
-- acknowledgement.  The lease is in Wherry's own tables, and keeps other relays with relay.sole out.
-- The library's relays ignore the lease.  A row in the state processing is theirs, since this relay
-- never writes that state; if it finds one, it ends
-- (a_sole_relay_ends_at_a_claimed_row_that_it_reads).
--
-- Open rows are those of the library's index (id) WHERE status IN (0, 1, 3).

-- part: ends
coalesce((SELECT CASE id WHEN 0 THEN -1 ELSE id END AS lowest FROM {table}
          WHERE status IN (0, 1, 3) ORDER BY id LIMIT 1), 0),
coalesce((SELECT id FROM {table} WHERE status IN (0, 1, 3) ORDER BY id DESC LIMIT 1), 0)

-- include: postgres.own.sql

-- include: postgres.lease.sql

-- include: postgres.eventferry.sql

-- name: migrate-1
{eventferry_table}
{own_tables}
{own_triggers}
INSERT INTO {wherry_outbox}(name) VALUES ({name}) ON CONFLICT DO NOTHING;

-- name: schema-version
SELECT CASE WHEN to_regclass({'wherry_lease}) IS NULL
              OR to_regclass({'wherry_outbox}) IS NULL THEN 0 ELSE 1 END, 100
WHERE {is_eventferry};

-- name: sole-claims
-- Rows that other programs have claimed, among the first open rows: the number of live claims, the
-- milliseconds until the last of them expires, and the number of expired claims.  A claim is never from
-- the future: such a time, which a producer can write, counts as expired.
SELECT count(*) FILTER (WHERE left_ms > 0), coalesce(max(left_ms), 0)::bigint,
  count(*) FILTER (WHERE left_ms <= 0)
FROM (
  SELECT CASE WHEN isfinite(claimed_at) AND claimed_at <= {now} + interval '1 min'
              THEN ceil(extract(epoch FROM claimed_at - {now}) * 1000.0 + :timeout::bigint)
              ELSE 0 END AS left_ms
  FROM (SELECT status, claimed_at FROM {table} WHERE status IN (0, 1, 3)
        ORDER BY id LIMIT :most::bigint) AS front
  WHERE status = 1) AS claims;

-- name: sole-begin
-- Runs under the lease, after no live claim was found: make rows whose claim has expired pending
-- again.
UPDATE {table} SET status = 0, claimed_at = NULL
WHERE status IN (0, 1, 3) AND status = 1
  AND NOT coalesce(claimed_at > {now} - least(:timeout::bigint, 3153600000000)::float8
                                        * interval '1 millisecond'
                   AND claimed_at <= {now} + interval '1 min', false);

-- part: ids
translate(:ids::text, '[]', '{}')::bigint[]

-- part: is_ours
-- Condition: the row is open, and no other program has claimed it.  As in native.postgres.sql, the sum
-- keeps PostgreSQL from using the primary key.
status + 0 IN (0, 3)

-- part: due_in
-- Milliseconds until the row may be tried again.
CASE WHEN status = 3 AND next_retry_at > {now} AND next_retry_at < {year_10000}
     THEN ceil(extract(epoch FROM next_retry_at - {now}) * 1000.0)::bigint
     ELSE 0::bigint END

-- part: open_columns
id, status, attempts, 0::bigint, created_at, {due_in},
  {texts}

-- name: read
-- Open rows behind the cursor, also claimed ones, which end the relay.
SELECT {open_columns} FROM {table}
WHERE status IN (0, 1, 3) AND id >= {from}
ORDER BY id LIMIT :limit::bigint;

-- name: sweep
-- The same rows, and rows with ids that were skipped and have been committed since.
SELECT {open_columns} FROM (
  (SELECT * FROM {table} WHERE status IN (0, 1, 3) AND id >= {from}
   ORDER BY id LIMIT :limit::bigint)
  UNION ALL
  (SELECT late.* FROM json_array_elements(:gaps::json) AS gap
   CROSS JOIN LATERAL (
     SELECT * FROM {table} WHERE status IN (0, 1, 3) AND id <= :after::bigint
       AND id BETWEEN (gap->>0)::bigint AND (gap->>1)::bigint OFFSET 0) AS late)) AS merged
ORDER BY id LIMIT :limit::bigint;

-- name: read-ids
SELECT {open_columns} FROM {table} WHERE id = ANY ({ids}) AND status + 0 IN (0, 1, 3)
ORDER BY id;

-- name: dead-keys
-- For relays that park keys, which this layout refuses.
SELECT id, aggregate_type, aggregate_id, key FROM {table}
WHERE status = 4 AND id > :after AND :long::bigint >= 0 ORDER BY id LIMIT :limit;

-- part: next_number
(pg_snapshot_xmax(s)::text::bigint + age(pg_snapshot_xmax(s)::xid))

-- name: horizon
-- See native.postgres.sql.
SELECT pg_snapshot_xmin(s)::text::bigint, {next_number},
  CASE WHEN :statements::bigint = 0 THEN 0 ELSE {next_number} - coalesce((
    SELECT max(age(backend_xmin)) FROM pg_stat_get_activity(NULL::integer) AS a
    WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
      AND datid = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)), 0) END,
  EXISTS (SELECT 1 FROM {wherry_lease} WHERE {holds})
FROM pg_current_snapshot() AS s;

-- part: named_in_range
-- See native.postgres.sql; the names are those that a uuid has as text.
(:names::bytea IS NULL OR textsend(message_id::text) = btrim(
   substr(:names::bytea, (id - :first)::integer * :width::integer + 1, :width::integer),
   decode('00', 'hex')))

-- part: named_in_list
(:names::bytea IS NULL OR textsend(message_id::text) = btrim(
   substr(:names::bytea, (width_bucket(id, (SELECT {ids})) - 1) * :width::integer + 1,
          :width::integer), decode('00', 'hex')))

-- part: this
(:message_id::text IS NULL OR message_id::text = :message_id::text)

-- part: done
UPDATE {table} SET status = 2, processed_at = {now}, claimed_at = NULL

-- name: locked
-- Rows that another transaction has locked.  The statement waits for none (one_locked_row_holds_up_no_other).
WITH free AS MATERIALIZED (
  SELECT t.id FROM {table} AS t WHERE t.id = ANY ({ids}) FOR UPDATE SKIP LOCKED)
SELECT t.id FROM {table} AS t WHERE t.id = ANY ({ids}) AND NOT EXISTS (
  SELECT 1 FROM free AS f WHERE f.id = t.id);

-- name: done-mark
{done} WHERE id = ANY ({ids}) AND {is_ours} AND {named_in_list};

-- name: done-delete
DELETE FROM {table} WHERE id = ANY ({ids}) AND {is_ours} AND {named_in_list};

-- name: done-mark-range
{done} WHERE id BETWEEN :first AND :last AND {is_ours} AND {named_in_range};

-- name: done-delete-range
DELETE FROM {table} WHERE id BETWEEN :first AND :last AND {is_ours} AND {named_in_range};

-- part: acknowledger
-- See native.postgres.sql.
WITH held AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true) FROM {wherry_lease}
  WHERE {holds} FOR SHARE)

-- name: ack-mark
{acknowledger}
{done} WHERE id = ANY ({ids}) AND {is_ours} AND EXISTS (SELECT 1 FROM held)
  AND {named_in_list};

-- name: ack-mark-range
{acknowledger}
{done} WHERE id BETWEEN :first AND :last AND {is_ours} AND EXISTS (SELECT 1 FROM held)
  AND {named_in_range};

-- name: ack-delete
{acknowledger}
DELETE FROM {table}
WHERE id = ANY ({ids}) AND {is_ours} AND EXISTS (SELECT 1 FROM held)
  AND {named_in_list};

-- name: ack-delete-range
{acknowledger}
DELETE FROM {table}
WHERE id BETWEEN :first AND :last AND {is_ours} AND EXISTS (SELECT 1 FROM held)
  AND {named_in_range};

-- name: fail
-- unused: error
-- The table cannot store :error.
UPDATE {table} SET status = CASE WHEN :dead::bigint <> 0 THEN 4 ELSE 3 END,
  attempts = CASE WHEN attempts BETWEEN :nth::integer - 1 AND :nth::integer
                       AND :nth::integer > 0 THEN :nth::integer
                  ELSE least(attempts, 999999999) + :count::integer END,
  next_retry_at = CASE WHEN :dead::bigint = 0 THEN
    {now} + least(:delay::bigint, 3153600000000)::float8 * interval '1 millisecond' END
WHERE id = :id AND {this} AND {is_ours};

-- name: requeue
UPDATE {table} SET status = 0, next_retry_at = NULL, claimed_at = NULL
WHERE id = ANY ({ids}) AND {is_ours}
  AND {named_in_list};

-- name: requeue-failed
UPDATE {table} SET status = 3, next_retry_at = {now}, claimed_at = NULL
WHERE id = ANY ({ids}) AND {is_ours}
  AND {named_in_list};

-- name: try
-- The attempt of a suspect is recorded before it is delivered.  The row becomes failed and due.  It is
-- not claimed, since claims are those of other programs.
UPDATE {table} SET status = 3, next_retry_at = {now},
  attempts = CASE WHEN attempts BETWEEN :nth::integer - 1 AND :nth::integer
                       AND :nth::integer > 0 THEN :nth::integer
                  ELSE least(attempts, 999999999) + 1 END
WHERE id = :id AND {this} AND {is_ours};

-- name: untry
-- The destination was down, so the attempt of the message does not count.
UPDATE {table} SET status = 0, attempts = :nth::integer - 1, next_retry_at = NULL
WHERE id = :id AND {this} AND status + 0 = 3 AND attempts = :nth::integer;
