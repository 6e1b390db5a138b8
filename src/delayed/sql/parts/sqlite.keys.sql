--
-- Statements about the messages of keys, for the tables of both layouts.

-- name: read
SELECT {shown} FROM {table} WHERE "pKind" = :kind AND "pKey" = :key;

-- name: contains
SELECT count(*) FROM {table} WHERE "pKind" = :kind AND "pKey" = :key;

-- name: drop-key
DELETE FROM {table} WHERE "pKind" = :kind AND "pKey" = :key;

-- name: drop-keys
-- The statement returns the keys.
DELETE FROM {table} WHERE {matching} RETURNING "pKey";

-- name: drop-all
DELETE FROM {table} WHERE "pKind" = :kind;
