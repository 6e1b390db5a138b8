--
-- The procedure by which roles consume one subscription of a log on SQL Server.

-- part: consume_procedure
-- Its name.  No name that begins with wherry_ is given to roles that may execute procedures of Wherry.
N{'schema.} + QUOTENAME(CONCAT(N'consume_', CAST(CAST(SUBSTRING(HASHBYTES('SHA2_256',
  CONCAT({.}outbox, N'/', {.}subscription)), 1, 16) AS UNIQUEIDENTIFIER) AS NVARCHAR(36))))

-- part: consume_procedures
-- The procedures of the outbox that are there.
(SELECT f.called FROM (SELECT {consume_procedure:r} AS called
                       FROM (SELECT N{name} AS outbox, p.subscription FROM {table_progress} AS p) AS r) AS f
 WHERE OBJECT_ID(f.called, N'P') IS NOT NULL)
