--
-- wherry_consume on SQL Server: a consumer with the same database reads a subscription of a log in its own transaction.
-- It does what the cursor does (mssql.log.sql); here a look and the position are in one transaction.
--
-- That transaction may have written messages itself.  They are at or above the horizon, as all that it delays, and are
-- left for the next transaction.

-- include: mssql.consumer-name.sql

-- part: fits
-- Condition: the subscription has the topic of the row.  NULL: it cannot be read, and the message dies.
(@patterns IS NULL OR {.}topic IS NULL OR EXISTS (
    SELECT 1 FROM STRING_SPLIT(@patterns, N',') AS f WHERE {.}topic LIKE f.value COLLATE Latin1_General_BIN2))

-- part: consuming
-- waits: for an owner who changes or deletes a row that is committed, and READCOMMITTEDLOCK, for what a handler writes.
--
-- If rows with one version are more than @n, those that are left become exceptions, which come first.
DECLARE @upto BIGINT = CONVERT(BIGINT, MIN_ACTIVE_ROWVERSION());
DECLARE @high BIGINT, @was NVARCHAR(100), @patterns NVARCHAR(4000), @left BIGINT, @last BIGINT;
DECLARE @given TABLE (id BIGINT NOT NULL PRIMARY KEY, at BIGINT NOT NULL);
SELECT @high = CASE WHEN p.seen = @seen AND p.high < @upto THEN p.high ELSE 0 END, @was = p.seen, @patterns = {patterns:p}
FROM {table_progress} AS p WHERE p.subscription = @subscription;
INSERT INTO @given(id, at)
SELECT TOP (@n) x.id, 0 FROM {table_exception} AS x WITH (READCOMMITTEDLOCK) JOIN {table} AS t ON t.id = x.id
WHERE x.subscription = @subscription AND x.state IN (0, 1, 3) AND t.rv <= CONVERT(BINARY(8), @high) ORDER BY x.id;
SET @left = @n - @@ROWCOUNT;
IF @left > 0
BEGIN
  INSERT INTO @given(id, at)
  SELECT TOP (@left) t.id, CONVERT(BIGINT, t.rv) FROM {table} AS t
  WHERE t.rv > CONVERT(BINARY(8), @high) AND t.rv < CONVERT(BINARY(8), @upto) AND {fits:t}
    AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WITH (READCOMMITTEDLOCK)
                    WHERE x.id = t.id AND x.subscription = @subscription AND x.state IN (2, 4)) ORDER BY t.rv, t.id;
  SET @last = CASE WHEN @@ROWCOUNT < @left THEN @upto - 1 ELSE (SELECT MAX(g.at) FROM @given AS g) END;
  INSERT INTO {table_exception}(subscription, id)
  SELECT @subscription, t.id FROM {table} AS t
  WHERE t.rv = CONVERT(BINARY(8), @last) AND @last > @high AND {fits:t} AND NOT EXISTS (SELECT 1 FROM @given AS g WHERE g.id = t.id)
    AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WITH (UPDLOCK, HOLDLOCK)
                    WHERE x.id = t.id AND x.subscription = @subscription);
  DELETE x FROM (SELECT e.id FROM {table_exception} AS e WHERE e.subscription = @subscription AND e.state = 2
    AND NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = e.id AND t.rv > CONVERT(BINARY(8), @last))) AS i
  JOIN {table_exception} AS x {by_seek} ON x.id = i.id AND x.subscription = @subscription {loop};
  IF @last <> @high OR @was <> @seen
    UPDATE {table_progress} {by_seek} SET high = @last, seen = @seen, moved_at = {now}
    WHERE subscription = @subscription;
END;
DELETE x FROM @given AS g JOIN {table_exception} AS x {by_seek} ON x.id = g.id AND x.subscription = @subscription {loop};
INSERT INTO {table_exception}(subscription, id, state, last_error)
SELECT @subscription, m.id, 4, CONCAT(N'the row cannot be read: ', m.trace_id) FROM @given AS g JOIN {table} AS m ON m.id = g.id
WHERE m.message_id IS NULL;
SELECT @columns FROM @given AS g JOIN {table} AS m ON m.id = g.id WHERE m.message_id IS NOT NULL ORDER BY g.at, g.id;

-- part: consumption
-- Of the subscription @subscription of @outbox, at most @n messages, as @columns of the row m.  Relays and other consumers of
-- the subscription wait at its position.  XACT_ABORT: if a statement fails, no position that moved is left.
SET NOCOUNT ON;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
DECLARE @box NVARCHAR(600) = N{'schema.} + QUOTENAME(@outbox), @sql NVARCHAR(MAX), @found INT = 0, @shares INT = 0, @why NVARCHAR(2000),
  @progress NVARCHAR(600) = N{'schema.} + QUOTENAME(@outbox + N'_progress'),
  @exception NVARCHAR(600) = N{'schema.} + QUOTENAME(@outbox + N'_exception');
-- A database may find a table by a name in other case, and leases do not.
DECLARE @named NVARCHAR(4000) = coalesce(OBJECT_NAME(OBJECT_ID(@box)), @outbox);
DECLARE @called NVARCHAR(4000) = CASE WHEN @subscription = N'relay' COLLATE Latin1_General_BIN2 THEN @named
                                      ELSE CONCAT(@named, N'\', @subscription) END;
DECLARE @seen NVARCHAR(100) = (SELECT {identity_of:o} FROM sys.tables AS o WHERE o.object_id = OBJECT_ID(
  CASE WHEN EXISTS (SELECT 1 FROM sys.views AS v WHERE v.object_id = OBJECT_ID(@box)) THEN @progress ELSE @box END));
IF @n IS NULL OR @n < 1
  THROW 51000, N'@n is how many messages to consume at most, 1 or more', 1;
-- Where transactions are implicit, as with JDBC without auto-commit, a read of a table begins one.
IF @@TRANCOUNT = 0
  SELECT @found = 0 FROM sys.schemas WHERE name = N'sys';
IF @@TRANCOUNT = 0
  THROW 51000, N'wherry_consume works in a transaction: begin one', 1;
IF @seen IS NULL OR OBJECT_ID(@box) IS NULL OR OBJECT_ID(@progress, N'U') IS NULL OR OBJECT_ID(@exception, N'U') IS NULL
BEGIN
  SET @why = CONCAT(N'there is no outbox ''', @outbox, N''' of the layout log, or no right to read it');
  THROW 51208, @why, 1;
END;
SET @sql = N'UPDATE ' + @progress + N' {by_seek} SET high = high WHERE subscription = @subscription; SET @found = @@ROWCOUNT; '
  + N'SET @shares = (SELECT COUNT(*) FROM ' + @progress + N' WHERE subscription = @subscription AND mask <> -1);';
EXEC sp_executesql @sql, N'@subscription NVARCHAR(4000), @found INT OUTPUT, @shares INT OUTPUT', @subscription = @subscription,
  @found = @found OUTPUT, @shares = @shares OUTPUT;
IF @found = 0
BEGIN
  SET @why = CONCAT(N'outbox ''', @outbox, N''' has no subscription ''', @subscription, N''': create it with `wherry create`');
  THROW 51208, @why, 1;
END;
IF EXISTS (SELECT 1 FROM {wherry_lease} WHERE outbox = @called AND expires_at > {now})
BEGIN
  SET @why = CONCAT(N'a relay reads subscription ''', @subscription, N''' of outbox ''', @outbox,
    N''': stop it, or consume another subscription');
  THROW 51223, @why, 1;
END;
IF @shares > 0
BEGIN
  SET @why = CONCAT(N'subscription ''', @subscription, N''' of outbox ''', @outbox,
    N''' has several positions, which relays left that shared it: relay it with one relay first');
  THROW 51000, @why, 1;
END;
IF EXISTS (SELECT 1 FROM {wherry_outbox} WHERE name = @called AND paused_at IS NOT NULL)
  SET @n = 0;
SET XACT_ABORT ON;
SET @sql = REPLACE(REPLACE(REPLACE(N{'consuming}, N{'table_progress}, @progress), N{'table_exception}, @exception), N{'table}, @box);
SET @sql = REPLACE(@sql, N'@columns', @columns);
EXEC sp_executesql @sql, N'@subscription NVARCHAR(4000), @n BIGINT, @seen NVARCHAR(100)', @subscription = @subscription, @n = @n,
  @seen = @seen

-- part: procedure_consume
-- Procedure for every language.  It works on any outbox of the schema: its statements have the name of the table that is
-- created here, which they replace.
ALTER PROCEDURE {wherry_consume} @subscription NVARCHAR(4000), @n INT = 100, @outbox NVARCHAR(4000) = N'outbox'
AS
BEGIN
  -- A role of one subscription has rights on its procedure alone.
  DECLARE @own NVARCHAR(600) = (SELECT {consume_procedure:r} FROM (SELECT @outbox AS outbox, @subscription AS subscription) AS r),
    @sql_own NVARCHAR(700);
  IF COALESCE(HAS_PERMS_BY_NAME(N{'schema.} + QUOTENAME(@outbox + N'_progress'), N'OBJECT', N'UPDATE'), 0) = 0
     AND HAS_PERMS_BY_NAME(@own, N'OBJECT', N'EXECUTE') = 1
  BEGIN
    SET @sql_own = N'EXEC ' + @own + N' @n = @n';
    EXEC sp_executesql @sql_own, N'@n INT', @n = @n;
    RETURN;
  END;
  DECLARE @columns NVARCHAR(MAX) = N'm.id, m.message_id, m.topic, m.partition_key AS "key", m.headers, '
    + CASE WHEN EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N{'schema.} + QUOTENAME(@outbox))
                          AND name = N'payload' AND TYPE_NAME(system_type_id) = N'varbinary')
           THEN N'CAST(NULL AS NVARCHAR(MAX)) AS payload, m.payload AS bytes'
           ELSE N'm.payload, CAST(NULL AS VARBINARY(MAX)) AS bytes' END
    + N', m.aggregate_type, m.aggregate_id, m.trace_id, m.created_at';
  {consumption};
END
