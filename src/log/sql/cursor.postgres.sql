-- layout: name=cursor columns=
--
-- Reads an append-only table exactly; see postgres.log.sql.

-- part: judged_row
e.*

-- part: message
key, topic, body

-- include: postgres.log.sql

-- part: unread
(NOT pg_visible_in_snapshot(t.tx, h.seen)
  AND (h.until IS NULL OR t.id > :late OR NOT pg_visible_in_snapshot(t.tx, h.until)))

-- name: renumber
-- The table came from another server, whose numbers of transactions mean nothing here.
-- Rows that were read get 0, which every snapshot sees.  Rows that were not get the number
-- of this transaction, which the returned snapshot does not see.  It must be the first
-- statement of its transaction, which then gets its number after the snapshot was taken.
WITH head AS MATERIALIZED (
  SELECT pg_current_snapshot() AS now, {seen} AS seen, :until::text::pg_snapshot AS until
), changed AS (
  UPDATE {table} AS t
  SET tx = CASE WHEN t.id <= :high AND {unread} THEN pg_current_xact_id() ELSE '0'::xid8 END
  FROM head AS h
  WHERE (t.id <= :high AND {unread}) OR NOT pg_visible_in_snapshot(t.tx, h.now)
)
SELECT h.now::text FROM head AS h;
