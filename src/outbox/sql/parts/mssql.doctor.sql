--
-- Checks of `wherry doctor` on SQL Server of all tables; postgres.doctor.sql explains their form.  A
-- check that needs a view that only Azure has, or that a login may not read, is a text that runs only if the view can be
-- read.  The check "unseen" names the checks that were left out.
--
-- The file that includes it has the parts "unlocked" and "that_wait", which messages wait for an open transaction.

-- part: sees_all
-- Condition: this login may see the sessions of others.  On Azure SQL Database this is a right on the database.
CASE WHEN CAST(SERVERPROPERTY('EngineEdition') AS INT) = 5
     THEN HAS_PERMS_BY_NAME(DB_NAME(), N'DATABASE', N'VIEW DATABASE STATE')
     ELSE HAS_PERMS_BY_NAME(NULL, NULL, N'VIEW SERVER STATE') END = 1

-- part: shown
-- Condition: the views of transactions can be read.
{sees_all} AND OBJECT_ID(N'sys.dm_tran_active_transactions') IS NOT NULL

-- part: locks_shown
{shown} AND OBJECT_ID(N'sys.dm_tran_locks') IS NOT NULL

-- part: held_locks
-- The same condition in a text that is run, like the parts below.
sys.dm_tran_locks AS l JOIN sys.dm_exec_sessions AS s ON s.session_id = l.request_session_id

-- part: holder
CONCAT(COALESCE(NULLIF(s.program_name, N''''), N''unnamed''), N'', login '', s.login_name, N'', '', s.status)

-- name: time
SELECT ms FROM {wherry_clock};

-- name: clock
SELECT CASE WHEN ABS(ahead) > 2000 THEN 1 ELSE 0 END, ABS(ahead),
  CASE WHEN ahead < 0 THEN N'behind' ELSE N'ahead of' END
FROM (SELECT ms - :local AS ahead FROM {wherry_clock}) AS c;

-- name: sql-server
-- Statements need OPENJSON: compatibility level 130, which is SQL Server 2016.  Babelfish says 120 and
-- has it.
SELECT CASE WHEN d.compatibility_level < 130 AND @@VERSION NOT LIKE N'Babelfish%' THEN 2
            WHEN CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS NVARCHAR(128)) <> N'READ_WRITE' THEN 1 ELSE 0 END,
  CAST(SERVERPROPERTY('ProductVersion') AS NVARCHAR(128)), d.compatibility_level,
  CAST(SERVERPROPERTY('Edition') AS NVARCHAR(128))
FROM sys.databases AS d WHERE d.database_id = DB_ID();

-- name: row-versions
-- Readers of the application wait for writers; Wherry does not.
SELECT 1, d.name FROM sys.databases AS d
WHERE d.database_id = DB_ID() AND d.is_read_committed_snapshot_on = 0;

-- name: isolation
-- READPAST is refused at other levels than READ COMMITTED and REPEATABLE READ.  The views show a login
-- its own sessions, and all to one that may see them.
SELECT TOP (5) CASE WHEN s.session_id = @@SPID THEN 2 ELSE 1 END, s.session_id,
  COALESCE(NULLIF(s.program_name, N''), N'unnamed'), s.login_name,
  CASE s.transaction_isolation_level WHEN 1 THEN N'READ UNCOMMITTED' WHEN 4 THEN N'SERIALIZABLE' ELSE N'SNAPSHOT' END
FROM sys.dm_exec_sessions AS s
WHERE s.transaction_isolation_level IN (1, 4, 5) AND s.database_id = DB_ID()
  AND (s.session_id = @@SPID OR s.open_transaction_count > 0)
ORDER BY s.session_id;

-- name: open-transactions
-- Transactions that wrote to this database, since no row waits for others.  Times of these views are the
-- server's local time.
DECLARE @older BIGINT = :older;
IF {shown}
  EXEC sp_executesql N'
    SELECT TOP (5) 1, t.session_id, COALESCE(NULLIF(s.program_name, N''''), N''unnamed''), s.login_name,
      s.status, DATEDIFF_BIG(MILLISECOND, d.database_transaction_begin_time, GETDATE()), @waits
    FROM sys.dm_tran_database_transactions AS d
    JOIN sys.dm_tran_session_transactions AS t ON t.transaction_id = d.transaction_id
    JOIN sys.dm_tran_active_transactions AS a ON a.transaction_id = d.transaction_id
    JOIN sys.dm_exec_sessions AS s ON s.session_id = t.session_id
    WHERE d.database_id = DB_ID() AND t.session_id <> @@SPID AND d.database_transaction_begin_time IS NOT NULL
      AND DATEDIFF_BIG(MILLISECOND, d.database_transaction_begin_time, GETDATE()) >= @older
    ORDER BY d.database_transaction_begin_time', N'@older BIGINT, @waits NVARCHAR(100)', @older = @older,
    @waits = {that_wait};

-- part: locked
-- A lock l of another session on the table.  A session that locks a row has a lock on its table, too.  The status is
-- GRANT, and GRANTED in Microsoft's documentation.
l.resource_type = N''OBJECT'' AND l.resource_database_id = DB_ID()
      AND l.resource_associated_entity_id = OBJECT_ID(@table, N''U'') AND l.request_status LIKE N''GRANT%''
      AND l.request_session_id <> @@SPID

-- name: locks
-- Lock modes that block producers, or all statements, on the table.
DECLARE @table NVARCHAR(600) = N{'table};
IF {locks_shown}
  EXEC sp_executesql N'
    SELECT DISTINCT TOP (5) 2, CONCAT(N''session '', s.session_id), l.request_mode, {holder}, CONCAT(N''KILL '', s.session_id)
    FROM {held_locks}
    WHERE {locked} AND l.request_mode IN (N''S'', N''U'', N''X'', N''SIX'', N''UIX'', N''SIU'', N''BU'', N''Sch-M'')',
    N'@table NVARCHAR(600)', @table = @table;

-- name: row-locks
-- Sessions that have locked rows in a transaction that wrote nothing; open-transactions reports sessions that
-- wrote.  At READ COMMITTED a reader has a lock on the table (IS) only while its statement runs.
DECLARE @older BIGINT = CASE WHEN :older < 15000 THEN :older ELSE 15000 END, @table NVARCHAR(600) = N{'table};
IF {locks_shown}
  EXEC sp_executesql N'
    SELECT DISTINCT TOP (5) 1, CONCAT(N''session '', s.session_id), {holder},
      DATEDIFF_BIG(MILLISECOND, a.transaction_begin_time, GETDATE()) AS ms, CONCAT(N''KILL '', s.session_id)
    FROM {held_locks}
    JOIN sys.dm_tran_session_transactions AS t ON t.session_id = l.request_session_id
    JOIN sys.dm_tran_active_transactions AS a ON a.transaction_id = t.transaction_id
    WHERE {locked} AND (l.request_mode IN (N''IX'', N''IU'') OR l.request_mode = N''IS'' AND s.status = N''sleeping'')
      AND NOT EXISTS (SELECT 1 FROM sys.dm_tran_database_transactions AS d
                      WHERE d.transaction_id = t.transaction_id AND d.database_id = DB_ID()
                        AND d.database_transaction_begin_time IS NOT NULL)
      AND DATEDIFF_BIG(MILLISECOND, a.transaction_begin_time, GETDATE()) >= @older
    ORDER BY ms DESC', N'@older BIGINT, @table NVARCHAR(600)', @older = @older, @table = @table;

-- name: unseen
-- Reasons why open-transactions and the checks of locks cannot read the views.
SELECT 1, CASE WHEN {sees_all} THEN N'this server has no view of them'
               ELSE CONCAT(N'the login ', ORIGINAL_LOGIN(), N' may not see what others do') END,
  CASE WHEN {sees_all} THEN N'look at open transactions yourself'
       WHEN CAST(SERVERPROPERTY('EngineEdition') AS INT) = 5
       THEN CONCAT(N'`GRANT VIEW DATABASE STATE TO ', QUOTENAME(USER_NAME()), N'`')
       ELSE CONCAT(N'in master: `GRANT VIEW SERVER STATE TO ', QUOTENAME(ORIGINAL_LOGIN()), N'`') END
WHERE NOT ({shown});

-- name: azure-tier
-- Azure SQL Database: tiers with less than one core, and the serverless tier, which pauses while no
-- client is connected.
IF OBJECT_ID(N'sys.database_service_objectives') IS NOT NULL AND CAST(SERVERPROPERTY('EngineEdition') AS INT) = 5
  EXEC (N'
    SELECT 1, o.service_objective, CASE
      WHEN o.service_objective LIKE N''GP[_]S[_]%'' OR o.service_objective LIKE N''HS[_]S[_]%''
      THEN N''is serverless: a relay asks up to four times a second, so the database never pauses''
      ELSE CONCAT(N''has less than one core and at most '', CASE o.service_objective WHEN N''Basic'' THEN 30
        WHEN N''S0'' THEN 60 WHEN N''S1'' THEN 90 ELSE 120 END, N'' requests at the same time'') END
    FROM sys.database_service_objectives AS o
    WHERE o.database_id = DB_ID() AND (o.service_objective IN (N''Basic'', N''S0'', N''S1'', N''S2'')
      OR o.service_objective LIKE N''GP[_]S[_]%'' OR o.service_objective LIKE N''HS[_]S[_]%'')');

-- name: azure-limits
-- Highest use of the limits of the database's tier in the last hour; a row covers 15 seconds.
IF OBJECT_ID(N'sys.dm_db_resource_stats') IS NOT NULL AND {sees_all}
  EXEC (N'
    SELECT 1, u.what, CAST(CAST(MAX(u.used) AS INT) AS NVARCHAR(10)), COUNT(*) * 15000
    FROM sys.dm_db_resource_stats AS r
    CROSS APPLY (VALUES (N''the processor time'', r.avg_cpu_percent), (N''the reads'', r.avg_data_io_percent),
      (N''the log writes'', r.avg_log_write_percent), (N''the workers'', r.max_worker_percent),
      (N''the sessions'', r.max_session_percent)) AS u(what, used)
    WHERE u.used >= 90 GROUP BY u.what');

-- name: columnstore
-- A columnstore index locks groups of rows, which READPAST does not skip.
SELECT 2, QUOTENAME(i.name), N{'table} FROM sys.indexes AS i
WHERE i.object_id = OBJECT_ID(N{'table}, N'U') AND i.type IN (5, 6);

-- name: acknowledgements
SELECT 1, CONCAT(N'trigger ', t.name) FROM sys.triggers AS t
WHERE t.parent_id = OBJECT_ID(N{'table}, N'U') AND NOT EXISTS (SELECT 1 FROM sys.views AS v WHERE v.object_id = t.parent_id) AND t.is_instead_of_trigger = 1 AND t.is_disabled = 0;

-- name: identity
-- The identity is below the highest id, for example after rows were copied from another database.
SELECT 2, CONCAT(N'the last id that was given out is ', i.given, N', which is below the last, ', i.last, N': producers will fail'),
  CONCAT(N'DBCC CHECKIDENT (N''', REPLACE(N{'table}, N'''', N''''''), N''', RESEED, ', i.last, N')')
FROM (SELECT CAST(IDENT_CURRENT(N{'table}) AS BIGINT) AS given, (SELECT MAX(id) FROM {table} {unlocked}) AS last) AS i
WHERE i.given < i.last;

-- name: durability
SELECT 1, N'full durability', N'a crash can take back a transaction whose message has left',
  N'ALTER DATABASE CURRENT SET DELAYED_DURABILITY = DISABLED'
FROM sys.databases AS d WHERE d.database_id = DB_ID() AND d.delayed_durability = 2;

-- name: absent
SELECT 2, CASE WHEN :number > i.given THEN CONCAT(N'ids up to ', i.given, N' have been given out so far') ELSE N'' END, N''
FROM (SELECT CAST(IDENT_CURRENT(N{'table}) AS BIGINT) AS given) AS i;

-- name: any-table
-- Tables that may be Wherry's, without queues: every layout of an outbox and of a delayed queue has a
-- column `payload`, an inbox has `accepted_at`, a table of schedules `until_ms`.  The view of an adopted table has `at_once`.
SELECT CASE WHEN t.schema_id = SCHEMA_ID() THEN t.name ELSE CONCAT(s.name, N'.', t.name) END
FROM (SELECT w.name, w.schema_id, w.object_id FROM sys.tables AS w
      UNION ALL SELECT v.name, v.schema_id, v.object_id FROM sys.views AS v
      WHERE EXISTS (SELECT 1 FROM sys.columns AS c WHERE c.object_id = v.object_id AND c.name = N'at_once')) AS t
JOIN sys.schemas AS s ON s.schema_id = t.schema_id
WHERE t.name NOT LIKE N'wherry[_]%'
  AND EXISTS (SELECT 1 FROM sys.columns AS c WHERE c.object_id = t.object_id AND c.name IN (N'payload', N'accepted_at', N'until_ms'))
ORDER BY 1;
