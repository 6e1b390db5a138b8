--
-- Messages by their ids and keys on SQL Server, in the tables of all layouts, which define the columns that are shown.

-- part: settled
-- Ids of messages that a statement changes: OUTPUT without INTO fails on a table with a trigger.
DECLARE @settled TABLE(id BIGINT NOT NULL);

-- part: own
FROM {ids} AS i JOIN {table} AS t {by_seek} ON t.id = i.id
WHERE t."lockUuid" = CAST(:token AS VARCHAR(36)) AND t."pKind" = :kind
OPTION (LOOP JOIN, FORCE ORDER)

-- part: replace_dead
DELETE d FROM {ids} AS i JOIN {table} AS t WITH (UPDLOCK, ROWLOCK, FORCESEEK) ON t.id = i.id {of_dead} t.id
WHERE t."lockUuid" = CAST(:token AS VARCHAR(36)) AND t."pKind" = :kind
OPTION (LOOP JOIN, FORCE ORDER);

-- name: extend-lease
{for_now}
DECLARE @span BIGINT = :lasts;
{later}
{settled}
UPDATE t SET "scheduledAt" = {at_later} OUTPUT inserted.id INTO @settled
{own};
SELECT id FROM @settled;

-- name: versions
-- Messages that were not settled, because an offer changed them or other consumers have leased them.
SELECT t.id, {version_ms:t} FROM {ids} AS i JOIN {table} AS t ON t.id = i.id WHERE t."pKind" = :kind;

-- part: for_key
{for_kind}
DECLARE @key NVARCHAR(400) = :key;

-- name: read
{for_key}
{for_now}
SELECT {shown} FROM {table} AS t {with_tries} WHERE {this_key};

-- name: contains
{for_key}
SELECT COUNT_BIG(*) FROM {table} WHERE {this_key};

-- name: drop-key
-- The key's row may have been deleted and another inserted meanwhile: then the key had no message for a time.
SET NOCOUNT ON;
{for_key}
DECLARE @id BIGINT = (SELECT id FROM {table} WITH (READCOMMITTEDLOCK) WHERE {this_key});
SET NOCOUNT OFF;
DELETE FROM {table} WITH (ROWLOCK) WHERE id = @id;

-- part: for_keys
-- Condition: the key begins with a prefix.  LIKE finds keys by the index, and unlike a comparison it considers
-- blanks at the end of a prefix.  A range of keys has no last key in SQL Server's order, which is that of UTF-16.
{for_kind}
DECLARE @prefix NVARCHAR(2000) = REPLACE(REPLACE(REPLACE(REPLACE(:prefix COLLATE Latin1_General_BIN2,
  N'\', N'\\'), N'%', N'\%'), N'_', N'\_'), N'[', N'\[') + N'%';
DECLARE @except NVARCHAR(2000) = REPLACE(REPLACE(REPLACE(REPLACE(:except COLLATE Latin1_General_BIN2,
  N'\', N'\\'), N'%', N'\%'), N'_', N'\_'), N'[', N'\[') + N'%';
DECLARE @untouched BIGINT = :untouched;

-- part: matching
-- Keys that begin with :prefix, except those that begin with :except.  If :untouched is not 0, only
-- messages that nobody has polled, and that are due after it.
t."pKind" = @kind AND {key:t} LIKE @prefix ESCAPE N'\'
  AND (@except = N'%' OR {key:t} NOT LIKE @except ESCAPE N'\')
  AND (@untouched = 0 OR (t."lockUuid" IS NULL AND {untried:t}
                          AND t."scheduledAt" = t."scheduledAtInitially" AND t."scheduledAt" > {at_untouched}))

-- name: drop-keys
-- waits: a message that a transaction has changed is dropped, too
-- The statement returns the keys.
{for_keys}
DECLARE @ids TABLE(id BIGINT NOT NULL PRIMARY KEY);
DECLARE @dropped TABLE("key" NVARCHAR(400) COLLATE Latin1_General_BIN2 NOT NULL);
SET NOCOUNT ON;
INSERT INTO @ids SELECT t.id FROM {table} AS t WITH (READCOMMITTEDLOCK) WHERE {matching};
SET NOCOUNT OFF;
DELETE t OUTPUT deleted."pKey" INTO @dropped FROM @ids AS i JOIN {table} AS t {by_seek} ON t.id = i.id WHERE {matching}
OPTION (LOOP JOIN, FORCE ORDER);
SELECT "key" FROM @dropped;

-- name: drop-all
-- waits: as drop-keys
{for_kind}
DECLARE @ids TABLE(id BIGINT NOT NULL PRIMARY KEY);
SET NOCOUNT ON;
INSERT INTO @ids SELECT t.id FROM {table} AS t WITH (READCOMMITTEDLOCK) WHERE t."pKind" = @kind;
SET NOCOUNT OFF;
DELETE t FROM @ids AS i JOIN {table} AS t {by_seek} ON t.id = i.id
OPTION (LOOP JOIN, FORCE ORDER);

-- name: list
-- A read that writes nothing, and with READPAST waits for no transaction.
{for_keys}
{for_now}
-- :from is the last key of the page before, followed by U+0001, or empty.  SQL Server compares a shorter key as if it
-- ended in blanks, which sort after U+0001, so the key itself would come again (keys_compare_byte_for_byte).
DECLARE @from NVARCHAR(402) = :from;
DECLARE @after NVARCHAR(400) = LEFT(@from, CASE WHEN DATALENGTH(@from) > 0 THEN LEN(@from) - 1 ELSE 0 END);
DECLARE @bytes INT = CASE WHEN DATALENGTH(@from) > 0 THEN DATALENGTH(@after) ELSE -1 END;
SELECT TOP (:limit) {shown} FROM {table} AS t WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK) {with_free_tries}
WHERE {matching} AND (@bytes < 0 OR {key:t} > @after OR ({key:t} = @after AND {key_bytes:t} > @bytes))
ORDER BY {key:t}, {key_bytes:t};
