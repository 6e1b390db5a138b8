-- layout: name=cursor columns= archive=
--
-- Reads an append-only table exactly.  One transaction writes at a time, so ids are in the
-- order of commits as long as no id is given twice: AUTOINCREMENT.  A position is an id.
--
-- Columns of a row: id, twice, whether its transaction is visible, then the message.

-- part: message
{.}key, {.}topic, {.}body

-- name: look
-- The first row says whether the position is beyond every id that was ever given: the table
-- was made again.
SELECT -9223372036854775807 - 1, -9223372036854775807 - 1, 1, NULL, 0,
  :high > coalesce((SELECT s.seq FROM sqlite_sequence AS s
                    WHERE s.name = {name} COLLATE NOCASE), 0), NULL, NULL, NULL
UNION ALL
SELECT r.* FROM (
  SELECT t.id, t.id, 1, NULL, 0, 0, {message:t}
  FROM {table} AS t WHERE t.id > :high ORDER BY t.id LIMIT :limit) AS r;

-- name: now
SELECT coalesce(:high, (SELECT s.seq FROM sqlite_sequence AS s
                        WHERE s.name = {name} COLLATE NOCASE), 0), NULL;
