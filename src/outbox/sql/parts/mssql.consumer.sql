--
-- Grants for roles that consume one subscription of a log on SQL Server.  They have no rights on its tables: a procedure with
-- the rights of its owner consumes for them.

-- include: mssql.consumer-name.sql

-- part: each_consumer
DECLARE @of NVARCHAR(600) = (SELECT MIN(f.called) FROM {consume_procedures} AS f), @sql NVARCHAR(2000);
WHILE @of IS NOT NULL
BEGIN
  SET @sql = N'REVOKE EXECUTE ON ' + @of + N' FROM ' + N{'role};
  EXEC (@sql);
  SET @of = (SELECT MIN(f.called) FROM {consume_procedures} AS f WHERE f.called > @of);
END

-- part: clear_consumers
-- Revoke the rights on subscriptions of the outbox that the role was granted before.
EXEC (N{'each_consumer});
