--
-- Statements of relays for delayed queues on SQL Server, for the tables of all layouts.  A layout defines how to
-- claim the rows of a query (pick, picked), and which rows are new or failed.  The time is the server's.
-- Locks are those of the head of native.mssql.sql: statements find ids first, by reads that hold no lock while
-- they wait, and lock rows by the primary key.

-- part: head
-- The first due rows.  A search for failed or expired rows among all due ones would read a whole backlog
-- each time.  Rows behind the first are claimed when they have become the first, like in a poll
-- (a_failed_message_behind_a_long_backlog_is_delivered_too).
SELECT TOP (300) m.id, m."lockUuid", CASE WHEN {is_failed:m} THEN 1 ELSE 0 END AS failed, m."scheduledAt"
FROM {table} AS m WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)
WHERE {relayed:m} AND m."scheduledAt" <= {at_now} ORDER BY m."scheduledAt", m.id

-- name: claim-end
-- A key has one message, so a claim skips none and begins with the first.
DECLARE @now BIGINT = {clock};
SELECT 0, COUNT_BIG(*) FROM (
  SELECT TOP (1) m.id FROM {table} AS m WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)
  WHERE {relayed:m} AND m."scheduledAt" <= {at_now} AND {is_new:m} ORDER BY m."scheduledAt", m.id) AS f;

-- name: claim
{for_claims}
{pick}
SELECT {most} {picked_columns} FROM {table} AS e WITH (NOLOCK) JOIN {table} AS l {free} ON l.id = e.id
WHERE {relayed:e} AND e."scheduledAt" <= {at_now}
  AND {relayed:l} AND l."scheduledAt" = e."scheduledAt" AND {is_new:l}
ORDER BY e."scheduledAt", e.id
{picked} AND {is_new:t}
{loop};
{claimed};

-- name: claim-due
{for_claims}
{pick}
SELECT {most} {picked_columns} FROM ({head}) AS h JOIN {table} AS l {free} ON l.id = h.id
WHERE h.failed = 1 AND {relayed:l} AND l."scheduledAt" <= {at_now} AND {is_failed:l}
ORDER BY h."scheduledAt", h.id
{picked} AND {is_failed:t}
{loop};
{claimed};

-- name: expired
DECLARE @now BIGINT = {clock};
SELECT TOP (1) h."lockUuid", COUNT_BIG(*) FROM ({head}) AS h WHERE h."lockUuid" IS NOT NULL
GROUP BY h."lockUuid" ORDER BY MIN(h."scheduledAt");

-- name: claim-share
{for_claims}
DECLARE @of VARCHAR(36) = :of;
{pick}
SELECT {most} {picked_columns} FROM ({head}) AS h JOIN {table} AS l {free} ON l.id = h.id
WHERE h."lockUuid" = @of AND {relayed:l} AND l."scheduledAt" <= {at_now} AND l."lockUuid" = @of
ORDER BY h."scheduledAt", h.id
{picked} AND t."lockUuid" = @of
{loop};
{claimed};

-- part: first_expired
SELECT TOP (1) {picked_columns} FROM ({head}) AS h JOIN {table} AS l {free} ON l.id = h.id
WHERE h."lockUuid" IS NOT NULL AND {relayed:l} AND l."scheduledAt" <= {at_now} AND l."lockUuid" IS NOT NULL
ORDER BY h."scheduledAt", h.id

-- name: claim-next
-- Time until the first claim expires, and until the first message is due, among the first rows.  The
-- earliest time is among them, and the relay reads again then.
DECLARE @now BIGINT = {clock};
SELECT MIN(CASE WHEN f."lockUuid" IS NOT NULL THEN {scheduled_ms:f} - @now END),
       MIN(CASE WHEN f."lockUuid" IS NULL THEN {scheduled_ms:f} - @now END)
FROM (SELECT TOP (300) m."lockUuid", m."scheduledAt" FROM {table} AS m WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)
      WHERE {relayed:m} ORDER BY m."scheduledAt", m.id) AS f;

-- name: read-ids
SELECT t.id, CASE WHEN t."lockUuid" IS NOT NULL THEN 1 WHEN {is_new:t} THEN 0 ELSE 3 END, {tried_so_far:t},
  {version_ms:t}, 0,
  {texts}
FROM {ids} AS i JOIN {table} AS t ON t.id = i.id WHERE {relayed:t} ORDER BY t.id;

-- part: is_open
-- A message whose time has not come is not open, so no relay waits for it
-- (until_empty_leaves_messages_whose_time_has_not_come).
{relayed:m} AND (m."scheduledAt" <= {at_now} OR NOT ({is_new:m}))

-- name: last-open
-- waits: a row that another transaction has locked is open until that ends
DECLARE @now BIGINT = {clock};
SELECT COALESCE(MAX(m.id), 0) FROM {table} AS m WHERE {is_open};

-- name: open-upto
-- waits: as last-open
DECLARE @now BIGINT = {clock};
SELECT COUNT_BIG(*) FROM (SELECT TOP (1) m.id FROM {table} AS m WHERE {is_open} AND m.id <= :upto) AS f;

-- include: mssql.locked.sql

-- part: claimed_by
{.}"lockUuid" = CAST(:token AS VARCHAR(36)) AND {relayed:.}

-- part: given
-- The ids, and the message ids that they must have.  A message that an offer replaced while it was in
-- flight may be claimed again under the same id and token, so a settlement names the message id too
-- (an_offer_that_replaces_a_message_in_flight_is_delivered_too).  They are in a table, since a loop over
-- OPENJSON would read the list again for each id.
DECLARE @given TABLE(id BIGINT NOT NULL PRIMARY KEY, name NVARCHAR(200) COLLATE Latin1_General_BIN2);
SET NOCOUNT ON;
INSERT INTO @given(id, name)
SELECT CAST(j.value AS BIGINT), MAX(n.value)
FROM OPENJSON(:ids) AS j LEFT JOIN OPENJSON(:names) AS n ON n.[key] = j.[key]
GROUP BY CAST(j.value AS BIGINT);
SET NOCOUNT OFF

-- part: listed
FROM @given AS i JOIN {table} AS t {by_seek} ON t.id = i.id
WHERE {claimed_by:t} AND (i.name IS NULL OR {message_id:t} COLLATE Latin1_General_BIN2 = i.name)
{loop}

-- part: named
{.}id = :id AND (:message_id IS NULL OR {message_id:.} = :message_id) AND {claimed_by:.}

-- name: extend
{for_claims}
{given};
UPDATE t SET "scheduledAt" = {at_later}
{listed};
