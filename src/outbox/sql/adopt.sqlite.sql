-- layout: name=adopt columns=
--
-- Looks at a table of another program on SQLite for `wherry adopt`, and has the expressions that make a column of it a
-- column of a log.  In these @c@ is the column.  An expression is called FIELD-TYPE, or FIELD-any if that type
-- has no separate one.

-- name: look
-- The kind of the table, and whether it has the trigger that adopt adds.
SELECT CASE s.type WHEN 'table' THEN 'r' ELSE 'v' END, 0, '', 1, '', EXISTS (
  SELECT 1 FROM sqlite_schema AS g WHERE g.type = 'trigger' AND g.tbl_name = s.name AND g.name LIKE '%~_by~_hand' ESCAPE '~'), 0, 0
FROM sqlite_schema AS s WHERE s.type IN ('table', 'view') AND s.name = {name} COLLATE NOCASE;

-- name: read-columns
-- Each column: its name and type, whether it is never NULL, and whether it is the rowid.
SELECT c.name, CASE WHEN upper(c.type) LIKE '%INT%' THEN 'integer' WHEN upper(c.type) LIKE '%BOOL%' THEN 'boolean'
    WHEN upper(c.type) LIKE '%TIME%' OR upper(c.type) LIKE '%DATE%' THEN 'time'
    WHEN upper(c.type) LIKE '%BLOB%' THEN 'bytea' ELSE 'text' END,
  c."notnull" OR c.pk > 0,
  c.pk = 1 AND upper(c.type) = 'INTEGER' AND (SELECT max(p.pk) FROM pragma_table_info({name}) AS p) = 1
FROM pragma_table_info({name}) AS c ORDER BY c.cid;

-- part: as_text
-- Some drivers, such as those of Node, write every number as a floating-point one: 7.0 is 7, as others write it.
CASE WHEN typeof(@c@) = 'real' AND abs(@c@) < 9007199254740992 AND @c@ = CAST(@c@ AS INTEGER)
  THEN CAST(CAST(@c@ AS INTEGER) AS TEXT) ELSE CAST(@c@ AS TEXT) END

-- name: text-any
{as_text}

-- name: message-id-any-null
coalesce(nullif({as_text}, ''), CAST(@id@ AS TEXT))

-- name: text-any-null
coalesce({as_text}, '')

-- name: text-expression
-- An expression of the user's is evaluated once.
CAST(@c@ AS TEXT)

-- name: message-id-expression-null
coalesce(nullif(CAST(@c@ AS TEXT), ''), CAST(@id@ AS TEXT))

-- name: text-null
coalesce(CAST(@c@ AS TEXT), '')

-- name: headers-text
CASE WHEN json_valid(@c@) AND json_type(@c@) = 'object' THEN (SELECT json_group_object(h.key, CAST(h.value AS TEXT)) FROM json_each(@c@) AS h WHERE h.value IS NOT NULL) ELSE '{}' END

-- name: headers-none
'{}'

-- name: payload-any
@c@

-- name: payload-any-null
coalesce(@c@, '')

-- name: time-any
-- A text with date and time, seconds or milliseconds.
CASE typeof(@c@) WHEN 'integer' THEN CASE WHEN @c@ > 100000000000 THEN @c@ ELSE @c@ * 1000 END
  WHEN 'real' THEN CAST(@c@ * 1000.0 AS INTEGER)
  ELSE coalesce(CAST((julianday(@c@) - 2440587.5) * 86400000.0 + 0.5 AS INTEGER), 0) END

-- name: time-null
coalesce(@c@, 0)

-- name: time-none
CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER)

-- name: done-set-time
@c@ = strftime('%Y-%m-%d %H:%M:%f', 'now')

-- name: done-set-text
@c@ = strftime('%Y-%m-%d %H:%M:%f', 'now')

-- name: done-set-flag
@c@ = 1

-- name: done-set-integer
-- A time in seconds.
@c@ = CAST(strftime('%s', 'now') AS INTEGER)

-- name: done-set-boolean
@c@ = 1

-- name: done-time
@c@

-- name: done-text
@c@

-- name: done-integer
nullif(@c@, 0)

-- name: done-boolean
nullif(@c@, 0)

-- name: done-value
-- The first column gets the value @v@.
nullif(@c@ = @v@, 0)

-- name: done-never
0

-- name: done-delete
NULL

-- name: is-true
1

-- name: is-false
0

-- name: no-text
NULL

-- name: index-done
-- The rows that were not delivered yet are found by it.
CREATE INDEX IF NOT EXISTS @view_undone@ ON {table}(@id@) WHERE (@done@) IS NULL;

-- name: drop-done
-- It may be of another column.
DROP INDEX IF EXISTS @view_undone@;

-- name: is-marked
-- Whether an expression failed for the row: see adopted.sqlite.sql.
@id@ IN (SELECT x.id FROM @exceptions@ AS x WHERE x.subscription = '' AND x.state = 4)

-- name: guard
CASE WHEN @marked@ THEN NULL ELSE @c@ END

-- name: guard-reason
CASE WHEN @marked@ THEN (SELECT x.last_error FROM @exceptions@ AS x WHERE x.subscription = '' AND x.id = t.@id@) ELSE @c@ END

-- name: guard-where
CASE WHEN @marked@ THEN 1 ELSE (@c@) END

-- name: view
DROP VIEW IF EXISTS @view@;
CREATE VIEW @view@ AS SELECT -- options: @options@
@columns@
FROM {table} AS t@where@;

-- name: remembered
-- The options of the last time, of which the view keeps a note.
SELECT o.key, o.value FROM (
  SELECT substr(s.sql, instr(s.sql, '-- options: ') + 12) AS note FROM sqlite_schema AS s
  WHERE s.type = 'view' AND s.name = :view COLLATE NOCASE AND instr(s.sql, '-- options: ') > 0) AS n,
json_each(substr(n.note, 1, instr(n.note, char(10)) - 1)) AS o;

-- name: on-delivered
-- Relays delete what every subscription has; this writes to the row in place of it.
CREATE TRIGGER @view_delivered@ INSTEAD OF DELETE ON @view@ BEGIN
  UPDATE {table} SET @set@ WHERE @id@ = old.id AND (@done@) IS NULL;
END;

-- name: on-deleted
CREATE TRIGGER @view_delivered@ INSTEAD OF DELETE ON @view@ BEGIN
  DELETE FROM {table} WHERE @id@ = old.id;
END;

-- name: taken-name
-- Whether something else has the name of the outbox.
SELECT count(*) FROM sqlite_schema AS s WHERE s.name = :view COLLATE NOCASE AND NOT (
  s.type = 'view' AND EXISTS (SELECT 1 FROM pragma_table_info(s.name) AS c WHERE c.name = 'at_once'));

-- name: try-set
-- EXPLAIN runs nothing.
EXPLAIN UPDATE {table} SET @set@;

-- name: lowest
SELECT coalesce(min(t.@id@), 1) FROM {table} AS t@where@;

-- name: on-nothing
CREATE TRIGGER @view_delivered@ INSTEAD OF DELETE ON @view@ BEGIN
  SELECT 1;
END;

-- name: try
-- Fails where adopting would: an expression that the table does not have.
SELECT * FROM (SELECT
@columns@
FROM {table} AS t@where@) AS v LIMIT 0;

-- name: undone
-- Number of rows that the owner does not count as delivered, up to 100,000.
SELECT count(*) FROM (SELECT 1 FROM {table} AS t WHERE (@done@) IS NULL LIMIT 100000);
