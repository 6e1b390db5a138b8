--
-- Expressions that statements on SQL Server share.

-- part: clock
-- The server's time, Unix milliseconds.
DATEDIFF_BIG(MILLISECOND, CAST('19700101' AS DATETIME2), SYSUTCDATETIME())

-- part: ids
-- Ids of a list, each once and in ascending order.  Statements lock rows in this order, so that two
-- statements with the same ids do not wait for each other.
(SELECT DISTINCT TOP (2147483647) CAST(value AS BIGINT) AS id FROM OPENJSON(:ids) ORDER BY id)

-- part: by_seek
-- Hint for the target of an UPDATE or DELETE that is joined to ids.  A scan would take an update lock on each row that
-- it reads, also on rows of open producers, and wait for them.
WITH (ROWLOCK, FORCESEEK)

-- part: loop
-- Hint: read the ids first, and then each row by its index, whatever the statistics are.
OPTION (LOOP JOIN, FORCE ORDER)
