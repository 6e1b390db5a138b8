--
-- Claims of relays, for the tables of both layouts, which define is_new and the head.

-- part: claimed
-- Return the rows that were claimed, in the order in which they can be polled.
SELECT id, 0::bigint, attempts, "createdAt", 0::bigint,
  {texts}, due_at
FROM taken ORDER BY due_at, id

-- name: claim-end
-- A key has one message, so a claim skips none and begins with the first.
SELECT 0::bigint, count(*) FROM (
  SELECT 1 FROM {table} WHERE {relayed} AND "scheduledAt" <= {clock} AND {is_new}
  ORDER BY "pKind", "scheduledAt", id LIMIT 1) AS first;

-- name: expired
SELECT "lockUuid", count(*) FROM ({head}) AS h WHERE "lockUuid" IS NOT NULL
GROUP BY "lockUuid" ORDER BY min("scheduledAt") LIMIT 1;

-- name: claim-next
-- Time until the first claim expires, and until the first message is due, among the first rows.  The
-- earliest time is among them, and the relay reads again then.
WITH first AS MATERIALIZED (
  SELECT {at} - {clock} AS left_ms, "lockUuid" IS NOT NULL AS claimed FROM {table}
  WHERE {relayed} ORDER BY "pKind", "scheduledAt", id LIMIT 300)
SELECT min(left_ms) FILTER (WHERE claimed), min(left_ms) FILTER (WHERE NOT claimed) FROM first;

-- part: is_open
-- A message whose time has not come is not open, so no relay waits for it
-- (until_empty_leaves_messages_whose_time_has_not_come).
{relayed} AND ("scheduledAt" <= {clock} OR NOT ({is_new}))

-- name: last-open
SELECT coalesce(max(id), 0) FROM {table} WHERE {is_open};

-- name: open-upto
SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {is_open} AND id <= :upto::bigint LIMIT 1) AS first;

-- part: claimed_by
"lockUuid"::pg_catalog.text = :token::pg_catalog.text AND {relayed}

-- part: named_in_list
-- A message that an offer replaced while it was in flight may be claimed again under the same id and
-- token, so a settlement names the message id too
-- (an_offer_that_replaces_a_message_in_flight_is_delivered_too).  The ids are in ascending order.
(:names::pg_catalog.bytea IS NULL OR textsend({message_id}) = btrim(
   substr(:names::pg_catalog.bytea, (width_bucket(id, (SELECT {ids})) - 1) * :width::integer + 1,
          :width::integer), decode('00', 'hex')))

-- part: named
(:message_id::pg_catalog.text IS NULL OR {message_id} = :message_id::pg_catalog.text)

-- name: extend
UPDATE {table} SET "scheduledAt" = {claimed_until}
WHERE id = ANY ({ids}) AND {claimed_by} AND {named_in_list};

-- name: locked
-- Rows that another transaction has locked.  The statement waits for none (one_locked_row_holds_up_no_other).
WITH free AS MATERIALIZED (
  SELECT t.id FROM {table} AS t WHERE t.id OPERATOR(pg_catalog.=) ANY ({ids}) FOR UPDATE SKIP LOCKED)
SELECT t.id FROM {table} AS t WHERE t.id OPERATOR(pg_catalog.=) ANY ({ids}) AND NOT EXISTS (
  SELECT 1 FROM free AS f WHERE f.id OPERATOR(pg_catalog.=) t.id);
