--
-- Claims of relays, for the tables of both layouts, which define is_new and the head.

-- name: claim-end
-- A key has one message, so a claim skips none and begins with the first.
SELECT 0, count(*) FROM (SELECT 1 FROM {in_time} WHERE {due_now} AND {is_new} LIMIT 1);

-- name: claim
UPDATE {table} NOT INDEXED SET {claims}
WHERE id IN (SELECT id FROM {in_time}
             WHERE {due_now} AND {is_new} ORDER BY "scheduledAt", id LIMIT :limit)
RETURNING id, 0, {tried_so_far}, {relayed};

-- name: claim-due
UPDATE {table} NOT INDEXED SET {claims}
WHERE id IN (SELECT id FROM ({head}) WHERE failed ORDER BY "scheduledAt", id LIMIT :limit)
RETURNING id, 0, {tried_so_far}, {relayed};

-- name: expired
-- A token may be a BLOB, which for SQLite never equals a text.
SELECT CAST("lockUuid" AS TEXT), count(*) FROM ({head}) WHERE "lockUuid" IS NOT NULL
GROUP BY CAST("lockUuid" AS TEXT) ORDER BY min("scheduledAt") LIMIT 1;

-- name: claim-share
UPDATE {table} NOT INDEXED SET {claims}
WHERE id IN (SELECT id FROM ({head}) WHERE CAST("lockUuid" AS TEXT) = :of ORDER BY "scheduledAt", id LIMIT :limit)
RETURNING id, 0, {tried_so_far}, {relayed};

-- name: claim-next
-- Time until the first claim expires, and until the first message is due, among the first rows.  The
-- earliest time is among them, and the relay reads again then.
SELECT min(left_ms) FILTER (WHERE claimed), min(left_ms) FILTER (WHERE NOT claimed)
FROM (SELECT {at} - {now} AS left_ms, "lockUuid" IS NOT NULL AS claimed
      FROM {in_time}
      WHERE "pKind" = {kind} ORDER BY "scheduledAt", id LIMIT 300);

-- name: read-ids
SELECT id, CASE WHEN "lockUuid" IS NOT NULL THEN 1 WHEN {is_new} THEN 0 ELSE 3 END, {tried_so_far}, {relayed}
FROM {table} WHERE id IN {ids} AND +"pKind" = {kind} ORDER BY id;

-- part: is_open
-- A message whose time has not come is not open, so no relay waits for it
-- (until_empty_leaves_messages_whose_time_has_not_come).
"pKind" = {kind} AND ("scheduledAt" <= {now} OR NOT ({is_new}))

-- name: last-open
SELECT coalesce(max(id), 0) FROM {table} WHERE {is_open};

-- name: open-upto
SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {is_open} AND id <= :upto LIMIT 1);

-- part: claimed_by
"lockUuid" = :token AND +"pKind" = {kind}

-- part: named_in_list
-- A message that an offer replaced while it was in flight may be claimed again under the same id and
-- token, so a settlement names the message id too
-- (an_offer_that_replaces_a_message_in_flight_is_delivered_too).  :names is NULL if no other connection
-- has committed since the rows were read.
(:names IS NULL OR hex({message_id}) IN (SELECT value FROM json_each(:names)))

-- part: named
(:message_id IS NULL OR {message_id} = :message_id)

-- name: extend
UPDATE {table} SET "scheduledAt" = {claimed_until} WHERE id IN {ids} AND {claimed_by} AND {named_in_list};

-- name: done-delete
DELETE FROM {table} WHERE id IN {ids} AND {claimed_by} AND {named_in_list};

-- name: dead-drop
DELETE FROM {table} WHERE id = :id AND {named} AND {claimed_by};
