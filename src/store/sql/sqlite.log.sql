--
-- Reads an append-only table on SQLite exactly.  One transaction writes at a time, so ids are in the
-- order of commits as long as no id is given twice: AUTOINCREMENT.  A position is an id.
--
-- Files include it behind their parts "message", the columns of a row that are returned, "no_message",
-- a NULL for each, and "last_id", the highest id that was given.  In front of these are: id, twice, whether its transaction is visible, and three columns
-- of the first row.

-- name: read-log
-- The first row says whether the position is beyond every id that was ever given: the table
-- was made again.
SELECT -9223372036854775807 - 1, -9223372036854775807 - 1, 1, NULL, 0,
  :high > coalesce({last_id}, 0), {no_message}
UNION ALL
SELECT * FROM (
  SELECT id, id, 1, NULL, 0, 0, {message}
  FROM {table} WHERE id > :high ORDER BY id LIMIT :limit);

-- name: log-end
SELECT coalesce(:high, {last_id}, 0), NULL;
