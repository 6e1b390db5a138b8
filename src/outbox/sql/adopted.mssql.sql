-- layout: name=adopted names=qualified payloads=text,bytea message_ids=json ordered=yes purges=soon columns=id,message_id,rv,topic,payload,done_at progress=subscription,high,seen exception=subscription,id,state
--
-- A table of another program that is read as a log on SQL Server.  `wherry adopt` makes a view that has the columns of a
-- log.  Everything else is beside it, as in log.mssql.sql:
--
--     table            the view
--     table_progress   the position of a subscription, or of its shares
--     table_exception  one row for each message that waits, failed or died
--
-- The table gets a row version.  An update gives a row a new one, also that which says that the row is done.  So the view
-- leaves out rows that are done: each would come again.  The view has two columns more than a log: done_at, NULL if
-- something is left to do when every subscription has the row, and at_once, 1 if relays do it as soon as they may.

-- include: mssql.sql

-- include: mssql.own.sql

-- include: mssql.report.sql

-- include: mssql.message.sql

-- part: identified
-- The view may be made again.
N{'table_progress}

-- include: mssql.positions.sql

-- include: mssql.source.sql

-- include: mssql.enqueue.sql

-- include: mssql.marks.sql

-- include: mssql.beside.sql

-- name: migrate-1
{own_tables}
{progress_table}
{exception_table}
{stub_procedures}
{make_procedures}
{begin_subscriptions}

-- name: add-exceptions
-- The view reads marks of rows in it.
{exception_table}

-- name: add-undone
-- waits: for programs that write to the table.
--
-- The first subscription begins behind all rows; those that the owner does not count as delivered wait.
{horizon};
UPDATE p SET high = @upto - 1, seen = {log_identity}
FROM (SELECT w.subscription, w.mask FROM {table_progress} AS w WHERE w.subscription = {subscription}) AS i
JOIN {table_progress} AS p {by_seek} ON p.subscription = i.subscription AND p.mask = i.mask
{loop};
INSERT INTO {table_exception}(subscription, id)
SELECT {subscription}, t.id FROM {table} AS t
WHERE t.rv < CONVERT(BINARY(8), @upto)
  AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.id = t.id);

-- name: add-forget
-- The table was made again since it was adopted, so exceptions of the old one mean nothing.
IF OBJECT_ID(N{'wherry_schema}, N'U') IS NOT NULL
BEGIN
  {unregister}
END;

-- name: indexes-missing
-- Number of missing indexes and tables, and whether the procedure that `adopt` makes is missing.  A procedure of another version
-- counts too.
SELECT CASE WHEN {has_versions} THEN 0 ELSE 1 END
  + CASE WHEN OBJECT_ID(N{'table_delivered}, N'P') IS NULL THEN 1 ELSE 0 END
  + (SELECT COUNT(*) FROM (VALUES (N{'table_progress}), (N{'table_exception})) AS w(name)
     WHERE OBJECT_ID(w.name, N'U') IS NULL)
  + {procedures_stale};

-- name: left-over
-- Whether the outbox was made, and its table or view was dropped by hand; 2: that of another program.
SELECT CASE WHEN OBJECT_ID(N{'table_delivered}, N'P') IS NULL THEN 1 ELSE 2 END
FROM {wherry_schema} WHERE model = N'log' AND name = N{name} AND OBJECT_ID(N{'table}) IS NULL;

-- name: drop
-- The table stays, if it is there, without what was added to it.  Another view may have that, too.
DECLARE @source NVARCHAR(600) = {source_name}, @sql NVARCHAR(2000);
IF OBJECT_ID(N{'table_keep}, N'TR') IS NOT NULL DROP TRIGGER {table_keep};
DROP VIEW IF EXISTS {table};
IF OBJECT_ID(N{'table_delivered}, N'P') IS NOT NULL DROP PROCEDURE {table_delivered};
{unregister}
IF OBJECT_ID(@source, N'U') IS NOT NULL
BEGIN
  SET @sql = N'DROP INDEX IF EXISTS ' + N{'bare_rv} + N' ON ' + @source;
  EXEC (@sql);
  IF NOT EXISTS (SELECT 1 FROM sys.extended_properties AS x
                 WHERE x.class = 1 AND x.minor_id = 0 AND x.name = N'wherry_table' AND CAST(x.value AS NVARCHAR(600)) = @source)
  BEGIN
    SET @sql = N'ALTER TABLE ' + @source + N' DROP COLUMN wherry_rv';
    IF COL_LENGTH(@source, N'wherry_rv') IS NOT NULL EXEC (@sql);
    SET @sql = N'DROP INDEX IF EXISTS wherry_id ON ' + @source + N'; ALTER TABLE ' + @source + N' DROP COLUMN wherry_id';
    IF COL_LENGTH(@source, N'wherry_id') IS NOT NULL EXEC (@sql);
  END;
END;

-- name: schema-version
SELECT version, min_program FROM {wherry_schema}
WHERE model = N'log' AND name = :name AND {is_view};

-- include: mssql.subscription.sql

-- ---- rows for which an expression of the view fails ----

-- Such a row is marked by an exception without a subscription.  Then the view has NULL in place of its message id and of what
-- may fail, so that statements that read other rows, too, do not fail.  A relay takes it for a dead message.  The mark has the
-- row version as its claim token: a row that its owner changed, and another one that takes the id later, are not marked.

-- part: all_read
-- Condition that needs the value of each column.
COALESCE(DATALENGTH(t.message_id), 0) + COALESCE(DATALENGTH(t.topic), 0) + COALESCE(DATALENGTH(t.aggregate_type), 0)
  + COALESCE(DATALENGTH(t.aggregate_id), 0) + COALESCE(DATALENGTH(t.partition_key), 0) + COALESCE(DATALENGTH(t.headers), 0)
  + COALESCE(DATALENGTH(t.trace_id), 0) + COALESCE(DATALENGTH(t.created_at), 0) + COALESCE(DATALENGTH(t.payload), 0)
  + COALESCE(DATALENGTH(t.done_at), 0) >= 0

-- name: failing-near
-- A row at the position: among the ids around it a row that fails is looked for first.
SELECT COALESCE((SELECT TOP (1) t.id FROM {table} AS t {unlocked} WHERE t.rv <= CONVERT(BINARY(8), :high) ORDER BY t.rv DESC),
                (SELECT TOP (1) t.id FROM {table} AS t {unlocked} WHERE t.rv > CONVERT(BINARY(8), :high) ORDER BY t.rv), 0);

-- name: failing-range
-- Fails if an expression fails for one of these rows.
SELECT COUNT_BIG(*) FROM {table} AS t {unlocked} WHERE t.id > :after AND t.id <= :upto AND {all_read};

-- name: failing-ids
SELECT COUNT_BIG(*) FROM {table} AS t {unlocked} WHERE t.id IN (SELECT CAST(value AS BIGINT) FROM OPENJSON(:ids)) AND {all_read};

-- name: failing-open
SELECT TOP (:limit) x.id FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.state <> 2 AND x.id > :after
ORDER BY x.id;

-- name: failing-mark
-- It holds for any row of this id until "failing-row": the row cannot be read before it is marked.
{until_written}
BEGIN
  {once}
  UPDATE {table_exception} SET claim_token = NULL, last_error = :error WHERE id = :id AND subscription = N'';
  IF @@ROWCOUNT = 0
    BEGIN TRY
      INSERT INTO {table_exception}(subscription, id, state, last_error) VALUES (N'', :id, 4, :error);
    END TRY
    BEGIN CATCH
      {look_again_if_there}
    END CATCH
END;

-- name: failing-row
UPDATE x SET claim_token = CONVERT(NVARCHAR(20), CONVERT(BIGINT, i.rv))
FROM (SELECT t.id, t.rv FROM {table} AS t {unlocked} WHERE t.id = :id) AS i
JOIN {table_exception} AS x {by_seek} ON x.id = i.id AND x.subscription = N''
{loop};

-- name: failing-forget
-- Messages that are tried again are read again.
DELETE x FROM (
  SELECT m.id FROM {table_exception} AS m WHERE m.subscription = N'' AND EXISTS (
    SELECT 1 FROM {table_exception} AS e WHERE e.subscription = {subscription} AND e.id = m.id AND e.state <> 4)) AS i
JOIN {table_exception} AS x {by_seek} ON x.id = i.id AND x.subscription = N''
{loop};

-- part: old_rows
-- Messages that every subscription has passed, that are not exceptions, and with which something is to be done.  If rows are
-- deleted, only those that are older than the age.
FROM {table} AS t {unlocked}
WHERE t.done_at IS NULL AND t.rv <= {passed_by_all}
  AND (t.at_once = 1 OR t.id < COALESCE((SELECT TOP (1) y.id FROM {table} AS y {unlocked}
                                         WHERE y.at_once = 0 AND y.created_at > {old}
                                           AND y.created_at <= DATEADD(DAY, 1, SYSUTCDATETIME()) ORDER BY y.id), 9223372036854775807))
  AND NOT EXISTS (SELECT 1 FROM {table_progress} AS p JOIN {table_exception} AS x
                    ON x.id = t.id AND x.subscription = p.subscription WHERE x.state <> 2)

-- name: purge
-- A procedure of the owner does with the rows what `adopt --done` said.  A row that its owner changed meanwhile is to be
-- delivered again, and is left.
{some}
SELECT TOP (:limit) t.id {old_rows} ORDER BY t.rv;
DECLARE @done BIGINT = 0, @upto BIGINT = CONVERT(BIGINT, {passed_by_all}),
  @ids NVARCHAR(MAX) = (SELECT s.id FROM @some AS s FOR JSON PATH);
IF @ids IS NOT NULL
  EXEC {table_delivered} @ids, @upto, @done OUTPUT;
SET NOCOUNT OFF;
SELECT s.id, CASE WHEN ROW_NUMBER() OVER (ORDER BY s.id) > @done THEN 1 ELSE 0 END FROM @some AS s;

-- name: purge-count
SELECT COUNT_BIG(*) {old_rows};

-- name: discard
-- The row stays.  The message is marked as done, as a handler does, until the position covers it.
{not_delivered};
{until_written}
BEGIN
  {once}
  UPDATE x SET state = 2, next_retry_at = NULL, changed_at = {now}, claim_token = N''
  FROM {some_exceptions}
  {loop};
  BEGIN TRY
    INSERT INTO {table_exception}(subscription, id, state)
    SELECT {subscription}, i.id, 2 FROM @some AS i
    WHERE NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE {its_exception:x});
  END TRY
  BEGIN CATCH
    {look_again_if_there}
  END CATCH
END;
SET NOCOUNT OFF;
SELECT s.id FROM @some AS s;
