--
-- Statements, and the procedure for any language, that add a message to an outbox on SQL Server.  All outboxes of a
-- schema share the procedures.

-- part: insertion
INSERT INTO {table}(message_id, topic, aggregate_type, aggregate_id, partition_key,
                    headers, trace_id, payload)
VALUES (:message_id, :topic, :aggregate_type, :aggregate_id, :key, :headers, :trace_id, :payload);
SELECT CAST(SCOPE_IDENTITY() AS BIGINT)

-- part: insert_once
-- A message id that exists changes no row and leaves the transaction intact
-- (a_duplicate_message_id_leaves_the_transaction_intact): so XACT_ABORT is off, for this batch alone.
-- If another transaction has added the same id and is open, the INSERT waits for its end.
SET XACT_ABORT OFF;
BEGIN TRY
  {insertion};
END TRY
BEGIN CATCH
  IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
END CATCH

-- part: procedure_enqueue
-- Procedure for every language.  @id is NULL afterwards if the outbox has a message of that id.
-- Parameters are longer than their columns, since SQL Server would cut a longer text to the id of
-- another message, or to another key (the_procedure_cuts_nothing).
ALTER PROCEDURE {wherry_enqueue}
  @topic NVARCHAR(4000), @payload NVARCHAR(MAX) = NULL, @key NVARCHAR(4000) = NULL,
  @message_id NVARCHAR(4000) = NULL, @headers NVARCHAR(MAX) = N'{}', @aggregate_type NVARCHAR(4000) = N'',
  @aggregate_id NVARCHAR(4000) = N'', @trace_id NVARCHAR(4000) = NULL, @lock_key BIT = 0,
  @outbox NVARCHAR(4000) = N'outbox', @bytes VARBINARY(MAX) = NULL, @id BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT OFF;
  DECLARE @box NVARCHAR(600) = N{'schema.} + QUOTENAME(@outbox);
  DECLARE @k BINARY(32), @resource NVARCHAR(255), @locked INT, @insert NVARCHAR(MAX);
  IF @topic IS NULL OR DATALENGTH(@topic) = 0
    THROW 51000, N'a message needs a topic', 1;
  IF DATALENGTH(@topic) > 510 OR DATALENGTH(@message_id) > 510 OR DATALENGTH(@aggregate_type) > 510
     OR DATALENGTH(@aggregate_id) > 510 OR DATALENGTH(@trace_id) > 510
    THROW 51000, N'@topic, @message_id, @aggregate_type, @aggregate_id and @trace_id have at most 255 characters', 1;
  IF DATALENGTH(@key) > 2048
    THROW 51000, N'@key has at most 1024 characters', 1;
  IF @box IS NULL
    THROW 51000, N'@outbox is the name of a table, which has at most 128 characters', 1;
  IF @payload IS NULL AND @bytes IS NULL
    THROW 51000, N'a message needs a payload: an empty one is ''''', 1;
  SET @headers = COALESCE(@headers, N'{}');
  IF ISJSON(@headers) = 0 OR LEFT(LTRIM(@headers), 1) <> NCHAR(123)
     OR EXISTS (SELECT 1 FROM OPENJSON(@headers) WHERE type <> 1)
    THROW 51000, N'headers are not a JSON object of strings', 1;
  SET @key = CASE WHEN DATALENGTH(@key) > 0 THEN @key END;
  SET @aggregate_type = COALESCE(@aggregate_type, N'');
  SET @aggregate_id = COALESCE(@aggregate_id, N'');
  -- Where transactions are implicit, as with JDBC without auto-commit, a read of a table begins one.
  IF @lock_key = 1 AND @@TRANCOUNT = 0
    SELECT @locked = 0 FROM sys.schemas WHERE name = N'sys';
  IF @lock_key = 1 AND @@TRANCOUNT = 0
    THROW 51000, N'@lock_key = 1 works in a transaction: begin one', 1;
  IF @lock_key = 1
  BEGIN
    SET @k = CASE WHEN @key IS NOT NULL THEN HASHBYTES('SHA2_256', @key)
      WHEN DATALENGTH(@aggregate_type) > 0 OR DATALENGTH(@aggregate_id) > 0
      THEN HASHBYTES('SHA2_256', CONCAT(DATALENGTH(@aggregate_type), N':', @aggregate_type, @aggregate_id)) END;
    SET @resource = CONCAT(N'wherry_key:', OBJECT_ID(@box), N':',
      CAST(CAST(SUBSTRING(@k, 1, 16) AS UNIQUEIDENTIFIER) AS NVARCHAR(36)));
    IF @k IS NOT NULL
      EXEC @locked = sp_getapplock @Resource = @resource, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
    IF @locked < 0
      THROW 51222, N'the lock of the key was not granted in time', 1;
  END;
  SET @insert = N'INSERT INTO ' + @box + N'(topic, aggregate_type, aggregate_id, partition_key, headers, trace_id, payload'
    + CASE WHEN DATALENGTH(@message_id) > 0 THEN N', message_id' ELSE N'' END
    + N') VALUES (@topic, @aggregate_type, @aggregate_id, @key, @headers, @trace_id, '
    + CASE WHEN @bytes IS NULL THEN N'@payload' ELSE N'@bytes' END
    + CASE WHEN DATALENGTH(@message_id) > 0 THEN N', @message_id' ELSE N'' END
    + N'); SET @id = SCOPE_IDENTITY();';
  BEGIN TRY
    EXEC sp_executesql @insert, N'@topic NVARCHAR(255), @aggregate_type NVARCHAR(255), @aggregate_id NVARCHAR(255),
      @key NVARCHAR(1024), @headers NVARCHAR(MAX), @trace_id NVARCHAR(255), @payload NVARCHAR(MAX),
      @bytes VARBINARY(MAX), @message_id NVARCHAR(255), @id BIGINT OUTPUT',
      @topic = @topic, @aggregate_type = @aggregate_type, @aggregate_id = @aggregate_id, @key = @key,
      @headers = @headers, @trace_id = @trace_id, @payload = @payload, @bytes = @bytes,
      @message_id = @message_id, @id = @id OUTPUT;
  END TRY
  BEGIN CATCH
    IF ERROR_NUMBER() NOT IN (2601, 2627) THROW;
    SET @id = NULL;
  END CATCH;
END

-- include: mssql.consume.sql

-- part: make_procedures
EXEC (N{'procedure_enqueue});
EXEC (N{'procedure_consume});

-- part: own_procedures
(VALUES (N'wherry_enqueue'), (N'wherry_consume'))

-- part: procedures_text
-- The texts without the names of the tables, so that all outboxes of a schema have the same text.
REPLACE(REPLACE(REPLACE(N{'make_procedures}, N{'table_progress}, N'"P"'), N{'table_exception}, N'"X"'), N{'table}, N'"T"')
