--
-- Grants for roles that consume one subscription of a log on SQL Server (mssql.consumer.sql).

-- name: subscription-clear
-- A role with rights on all subscriptions loses them; one that writes messages keeps those.
{clear_reading}
IF NOT {has_others}
BEGIN
  {revoke_reading}
END;

-- part: make_consumer
DECLARE @called NVARCHAR(600) = (SELECT {consume_procedure:r} FROM (SELECT N{name} AS outbox, N{topic} AS subscription) AS r),
  @sql NVARCHAR(MAX);
IF OBJECT_ID(@called, N'P') IS NULL
BEGIN
  -- Babelfish lacks it, and refuses the role.
  SET @sql = N'CREATE PROCEDURE ' + @called + N' @n INT = 100'
    + CASE WHEN @@VERSION LIKE N'Babelfish%' THEN N'' ELSE N' WITH EXECUTE AS OWNER' END + N' AS '
    + N'EXEC ' + N{'wherry_consume} + N' @subscription = N''' + REPLACE(N{topic}, N'''', N'''''')
    + N''', @n = @n, @outbox = N''' + REPLACE(N{name}, N'''', N'''''') + N'''';
  EXEC (@sql);
END;
SET @sql = N'GRANT EXECUTE ON ' + @called + N' TO ' + N{'role};
EXEC (@sql)

-- name: subscription-consumer
EXEC (N{'make_consumer});
GRANT EXECUTE ON {wherry_consume} TO {role};
