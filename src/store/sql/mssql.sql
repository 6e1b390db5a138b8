--
-- Expressions that statements on SQL Server share.

-- part: clock
-- The server's time, Unix milliseconds.
DATEDIFF_BIG(MILLISECOND, CAST('19700101' AS DATETIME2), SYSUTCDATETIME())

-- part: ids
-- The ids of a list, each once and in ascending order: rows are locked in this order, so that two
-- statements with the same ids do not wait for each other.
(SELECT DISTINCT TOP (2147483647) CAST(value AS BIGINT) AS id FROM OPENJSON(:ids) ORDER BY id)

-- part: seek
-- Of the target of an UPDATE or DELETE that is joined to ids.  A scan would take an update lock on each row that it
-- reads, also on those of open producers, and wait for them.
WITH (ROWLOCK, FORCESEEK)

-- part: loop
-- The ids first, and then each row by its index, whatever the statistics say.
OPTION (LOOP JOIN, FORCE ORDER)
