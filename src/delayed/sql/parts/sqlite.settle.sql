--
-- How messages are acknowledged, for the tables of both layouts.

-- part: own
-- The + keeps SQLite from using the index of kinds, by which it would read every message of the queue.
id IN {ids} AND "lockUuid" = :token AND +"pKind" = :kind

-- name: ack
DELETE FROM {table} WHERE {own} RETURNING id;

-- name: ack-read
-- A message that was read, unless an offer has changed it.
DELETE FROM {table} WHERE id = :id AND "createdAt" = :version AND "scheduledAtInitially" = :offered
  AND "pKind" = :kind RETURNING id;
