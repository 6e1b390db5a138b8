--
-- Messages of an outbox on SQL Server: the columns of a row that relays and operators read, within limits, and conditions
-- on messages.  Files include it behind mssql.report.sql.

-- include: mssql.rows.sql

-- part: text_limit
-- A text column with its limit.  With :long = -1 the only text is plain ASCII that identifies the row,
-- so that a relay can find the row that is not Unicode.  Each CASE has an ELSE of a type: without one a TDS server at hand
-- returns texts in a code page (ordinary_texts_are_delivered_as_they_are).
:long >= 0

-- part: key_texts
CASE WHEN {text_limit} THEN aggregate_type ELSE N'' END,
CASE WHEN {text_limit} THEN aggregate_id ELSE N'' END,
CASE WHEN {text_limit} THEN partition_key ELSE N'' END

-- part: texts
-- A value over its limit is not sent: the length of headers as a number, and NULL of a payload
-- (a_row_that_is_too_long_dies_alone).
CASE WHEN {text_limit} OR message_id NOT LIKE N'%[^ -~]%' COLLATE Latin1_General_BIN2 THEN message_id
     ELSE LEFT(message_id, CAST(:long AS INT) + 1) END,
CASE WHEN {text_limit} OR topic NOT LIKE N'%[^ -~]%' COLLATE Latin1_General_BIN2 THEN topic
     ELSE LEFT(topic, CAST(:long AS INT) + 1) END,
{key_texts},
CASE WHEN DATALENGTH(headers) / 2 <= :long THEN headers
     ELSE CAST(DATALENGTH(headers) / 2 AS NVARCHAR(20)) END,
CASE WHEN {text_limit} THEN trace_id ELSE N'' END,
CASE WHEN DATALENGTH(payload) <= 2 * :body AND {text_limit} THEN payload
     ELSE SUBSTRING(payload, 1, CAST(NULL AS INT)) END

-- part: error_text
CASE WHEN DATALENGTH(last_error) / 2 <= :long THEN last_error
     ELSE LEFT(last_error, CAST(:long AS INT) + 1) END

-- part: is_varbinary
EXISTS (SELECT 1 FROM sys.columns WHERE object_id = OBJECT_ID(N{'table}) AND name = N'payload'
          AND TYPE_NAME(system_type_id) = N'varbinary')

-- part: new_message_id
-- A UUID of version 7.
LOWER(STUFF(RIGHT(CAST(CAST(CAST(DATEDIFF_BIG(MILLISECOND, '19700101', SYSUTCDATETIME())
    AS BINARY(16)) AS UNIQUEIDENTIFIER) AS NVARCHAR(36)), 12), 9, 0, N'-')
  + N'-7' + RIGHT(CAST(NEWID() AS NVARCHAR(36)), 21))

-- part: due_in
-- Milliseconds until the row may be tried again.
CASE WHEN next_retry_at > {now} THEN DATEDIFF_BIG(MILLISECOND, {now}, next_retry_at) ELSE 0 END

-- part: open_columns
id, status, attempts, created_at,
       {due_in},
       {texts}

-- part: after_delay
DATEADD(MILLISECOND, CAST(:delay % 86400000 AS INT), DATEADD(DAY,
  CAST((CASE WHEN :delay < 3153600000000 THEN :delay ELSE 3153600000000 END) / 86400000 AS INT),
  SYSUTCDATETIME()))

-- part: old
-- Condition: the row is at least this old.
DATEADD(MILLISECOND, -CAST(:age % 86400000 AS INT), DATEADD(DAY,
  -CAST((CASE WHEN :age < 3153600000000 THEN :age ELSE 3153600000000 END) / 86400000 AS INT),
  SYSUTCDATETIME()))

-- part: some
-- Ids of rows that a statement changes, found by a read that waits for no transaction.  NOCOUNT: only the rows of the
-- change count.
DECLARE @some TABLE (id BIGINT NOT NULL PRIMARY KEY);
SET NOCOUNT ON;
INSERT INTO @some(id)

-- part: of_some
-- The condition is checked again under the lock of the row.
SET NOCOUNT OFF;

-- part: some_rows
@some AS s JOIN {table} AS t {by_seek} ON t.id = s.id

-- part: any
-- States to match; -1: all.
TOP (CASE WHEN :limit >= 0 THEN :limit ELSE 9223372036854775807 END)

-- part: topic_and_key
(:topic IS NULL OR topic = :topic AND DATALENGTH(topic) = DATALENGTH(:topic))
  AND (:key IS NULL OR HASHBYTES('SHA2_256', CASE WHEN DATALENGTH(partition_key) > 0 THEN partition_key
         ELSE aggregate_id END) = HASHBYTES('SHA2_256', :key))

-- part: since
DATEADD(MILLISECOND, -CAST(:since % 86400000 AS INT), DATEADD(DAY,
  -CAST((CASE WHEN :since < 3153600000000 THEN :since ELSE 3153600000000 END) / 86400000 AS INT),
  SYSUTCDATETIME()))

-- part: since_created
(:since = 0 OR created_at >= {since})

-- part: shown
status, attempts, created_at, claimed_at, next_retry_at, processed_at,
       {texts},
       {error_text}, 0, 0

-- part: asked
{topic_and_key} AND {since_created}
  AND (:prefix IS NULL OR DATALENGTH(:prefix) = 0 OR CHARINDEX(:prefix, topic) = 1)
  AND (:older = 0 OR created_at <= DATEADD(MILLISECOND, -CAST(:older % 86400000 AS INT), DATEADD(DAY,
       -CAST((CASE WHEN :older < 3153600000000 THEN :older ELSE 3153600000000 END) / 86400000 AS INT),
       SYSUTCDATETIME())))
  AND (:text IS NULL OR CHARINDEX(:text, CONCAT(topic, N' ', message_id, N' ', partition_key, N' ',
         aggregate_id, N' ', last_error)) > 0
       OR CHARINDEX(:text, CONVERT(NVARCHAR(MAX), payload)) > 0
       OR CHARINDEX(:text, CONVERT(VARCHAR(MAX), payload)) > 0)

-- part: age
-- Milliseconds since a row was made.
DATEDIFF_BIG(MILLISECOND, created_at, {now})

-- name: payload-type
SELECT CASE WHEN {is_varbinary} THEN N'bytea' ELSE N'text' END
WHERE OBJECT_ID(N{'table}) IS NOT NULL;

-- name: lock-key
-- Lock the key before the id is taken.  If two transactions write one key under this lock, the second
-- waits for the first, and its id is higher (transactions_that_lock_a_key_commit_in_id_order).  The
-- procedure wherry_enqueue takes the same lock.
DECLARE @k BINARY(32) = CASE WHEN DATALENGTH(:key) > 0 THEN HASHBYTES('SHA2_256', :key)
  WHEN DATALENGTH(:aggregate_type) > 0 OR DATALENGTH(:aggregate_id) > 0
  THEN HASHBYTES('SHA2_256', CONCAT(DATALENGTH(:aggregate_type), N':', :aggregate_type, :aggregate_id)) END;
DECLARE @resource NVARCHAR(255) = CONCAT(N'wherry_key:', OBJECT_ID(N{'table}, N'U'), N':',
  CAST(CAST(SUBSTRING(@k, 1, 16) AS UNIQUEIDENTIFIER) AS NVARCHAR(36)));
DECLARE @locked INT = 0;
IF @k IS NOT NULL
  EXEC @locked = sp_getapplock @Resource = @resource, @LockMode = 'Exclusive', @LockOwner = 'Transaction';
IF @locked < 0
  THROW 51222, N'the lock of the key was not granted in time', 1;
