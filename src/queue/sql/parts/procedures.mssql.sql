--
-- Statements that native.mssql.sql receives with, and the procedures for every language, which share them.
--
-- The text of a procedure is a part: {'NAME} writes it as a string, since SQL Server takes CREATE
-- PROCEDURE only as a batch.  The first queue of a schema makes them.  Each procedure puts the name of
-- its queue into its text by REPLACE, and runs with the rights of its caller.

-- include: leasing.mssql.sql

-- part: due_first
-- Rows that a receive takes: ready rows above an id, and due rows.  With @full = 1 due rows come first, with 2 last, so
-- neither keeps the others waiting for ever.
SELECT TOP (@limit - @ready) id FROM {timed_rows}
WHERE {timed} AND available_at <= @now AND {whole} ORDER BY available_at

-- part: then_ready
SELECT TOP (@limit - @due) id FROM {ready_rows}
WHERE state = 0 AND id > @after AND {whole} ORDER BY id

-- part: lease_due
UPDATE t SET {expired_or_due:t}
OUTPUT inserted.id INTO @got
FROM ({due_first}) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.state IN (1, 3) AND t.available_at <= @now
{loop};

-- part: lease_rows
-- Lease messages.  If one of the updates fails, messages that another has leased are received again when their lease
-- ends.
DECLARE @ready BIGINT = 0;
DECLARE @got TABLE(id BIGINT NOT NULL PRIMARY KEY);
IF @full = 1
BEGIN
  {lease_due}
  SET @due = @@ROWCOUNT;
END;
IF @due < @limit
BEGIN
  UPDATE t SET {dies_or_leased:t}
  OUTPUT inserted.id INTO @got
  FROM ({then_ready}) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
  WHERE t.state = 0
  {loop};
  SET @ready = @@ROWCOUNT;
END;
IF @full = 2 AND @ready < @limit
BEGIN
  {lease_due}
  SET @due = @@ROWCOUNT;
END;

-- part: taken
deleted.id, deleted.state, deleted.attempts, deleted.created_at, deleted.available_at, deleted.expires_at,
  deleted.message_id, deleted.topic, deleted.correlation_id, deleted.reply_to, deleted.headers,
  deleted.last_error, deleted.body INTO @got

-- part: take_due
DELETE t OUTPUT {taken}
FROM ({due_first}) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t.state IN (1, 3) AND t.available_at <= @now
{loop};

-- part: take_rows
-- Delete messages, in the open transaction or in a separate one.
DECLARE @ready BIGINT = 0;
DECLARE @got TABLE(id BIGINT NOT NULL PRIMARY KEY, state TINYINT, attempts INT, created_at DATETIME2(3),
  available_at DATETIME2(3), expires_at DATETIME2(3), message_id NVARCHAR(255), topic NVARCHAR(255),
  correlation_id NVARCHAR(255), reply_to NVARCHAR(255), headers NVARCHAR(MAX), last_error NVARCHAR(2000),
  body {payload_type});
IF @full = 1
BEGIN
  {take_due}
  SET @due = @@ROWCOUNT;
END;
IF @due < @limit
BEGIN
  DELETE t OUTPUT {taken}
  FROM ({then_ready}) AS d JOIN {table} AS t {by_seek} ON t.id = d.id
  WHERE t.state = 0
  {loop};
  SET @ready = @@ROWCOUNT;
END;
IF @full = 2 AND @ready < @limit
BEGIN
  {take_due}
  SET @due = @@ROWCOUNT;
END;

-- part: unreadable
-- Condition: the headers are not a JSON object of strings.  Spaces, tabs and newlines may precede the object.
-- OPENJSON fails on a text that is not JSON, so it is not called for one.
(ISJSON({.}headers) = 0
 OR LEFT(LTRIM(REPLACE(REPLACE(REPLACE({.}headers, NCHAR(9), N''), NCHAR(10), N''), NCHAR(13), N'')), 1) <> NCHAR(123)
 OR EXISTS (SELECT 1 FROM OPENJSON(CASE WHEN ISJSON({.}headers) = 1 THEN {.}headers ELSE N'[]' END) AS j
            WHERE j.type NOT IN (0, 1)))

-- part: dead_leased
-- Make leased messages dead that no worker can read.
UPDATE t SET state = 4, lease_token = NULL, available_at = NULL, last_error = N'headers are not a JSON object of strings'
FROM @got AS g JOIN {table} AS t {by_seek} ON t.id = g.id WHERE t.lease_token = @token AND t.state = 1 AND {unreadable:t}
{loop};

-- part: dead_taken
-- Insert deleted messages that no worker can read again, as dead, like the statement make-dead.
INSERT INTO {table}(message_id, topic, correlation_id, reply_to, headers, body, state, attempts, created_at, last_error)
SELECT g.message_id, g.topic, g.correlation_id, g.reply_to, g.headers, g.body, 4, g.attempts, g.created_at,
  N'headers are not a JSON object of strings'
FROM @got AS g WHERE (g.expires_at IS NULL OR g.expires_at > @now) AND {unreadable:g};

-- part: find_queue
-- In a procedure: set @box to the table of @queue.
DECLARE @box NVARCHAR(400) = (SELECT N{'schema.} + QUOTENAME(q.name, N'"') FROM {wherry_schema} AS q
  WHERE q.model = N'queue' AND q.name = @queue);
IF @box IS NULL AND EXISTS (SELECT 1 FROM sys.columns AS c
  WHERE c.object_id = OBJECT_ID(N{'schema.} + QUOTENAME(@queue, N'"'), N'U') AND LOWER(c.name COLLATE Latin1_General_BIN2) = N'rowversion')
BEGIN
  DECLARE @theirs NVARCHAR(300) = CONCAT(N'queue ', @queue, N' has the layout nservicebus, on which procedures do not work: ',
    N'use the commands wherry send and receive, or the C library');
  THROW 50211, @theirs, 1;
END;
IF @box IS NULL
BEGIN
  DECLARE @none NVARCHAR(300) = CONCAT(N'there is no queue ', @queue, N': create it with wherry create --kind queue');
  THROW 50208, @none, 1;
END;

-- part: check_topic
-- In a procedure: check @topic.  The parameter is longer than a topic, since SQL Server would cut a longer text.
IF ISNULL(@topic, N'') = N''
  THROW 50212, N'the topic is empty', 1;
IF DATALENGTH(@topic) > 1020 OR LEN(@topic + N'.') > 256
  THROW 50215, N'@topic has at most 255 characters', 1;

-- part: check_delay
-- In a procedure: check @delay_ms.
IF @delay_ms < 0
  THROW 50213, N'@delay_ms must not be negative', 1;
IF @delay_ms > 3153600000000
  THROW 50213, N'@delay_ms is at most 3153600000000, which are 36500 days', 1;

-- part: check_lease
-- In a procedure: check @lease_ms.
IF @lease_ms <= 0
  THROW 50214, N'@lease_ms must be above 0', 1;
IF @lease_ms > 3153600000000
  THROW 50214, N'@lease_ms is at most 3153600000000, which are 36500 days', 1;

-- part: shortened
-- Text to keep of an error: as many units as on other databases, without half a character at the end.
LEFT(@error, CASE WHEN UNICODE(SUBSTRING(@error, 500, 1)) BETWEEN 55296 AND 56319 THEN 499 ELSE 500 END)

-- part: ms_behind
-- The time that follows, plus @ms milliseconds.
DATEADD(MILLISECOND, CAST(@ms % 86400000 AS INT), DATEADD(DAY, CAST(@ms / 86400000 AS INT),

-- part: ms_later
{ms_behind} SYSUTCDATETIME()))

-- part: procedure_send
ALTER PROCEDURE {wherry_send} @queue NVARCHAR(4000), @body NVARCHAR(MAX) = NULL, @headers NVARCHAR(MAX) = NULL,
  @delay_ms BIGINT = 0, @expires_ms BIGINT = 0, @correlation_id NVARCHAR(4000) = NULL, @reply_to NVARCHAR(4000) = NULL,
  @message_id NVARCHAR(4000) = NULL, @topic NVARCHAR(4000) = NULL, @bytes VARBINARY(MAX) = NULL, @id BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  {find_queue}
  {check_delay}
  IF @expires_ms < 0
    THROW 50213, N'@expires_ms must not be negative: 0 means that the message never expires', 1;
  IF @expires_ms > 3153600000000
    THROW 50213, N'@expires_ms is at most 3153600000000, which are 36500 days', 1;
  IF LEN(@message_id + N'.') > 256 OR LEN(@topic + N'.') > 256 OR LEN(@correlation_id + N'.') > 256 OR LEN(@reply_to + N'.') > 256
    THROW 50215, N'@message_id, @topic, @correlation_id and @reply_to have at most 255 characters', 1;
  DECLARE @sql NVARCHAR(MAX), @ms BIGINT = @delay_ms, @at DATETIME2(3), @until DATETIME2(3), @state INT = 0;
  SET @headers = ISNULL(@headers, N'{}');
  IF @body IS NULL AND @bytes IS NULL
    THROW 50209, N'a message needs a body', 1;
  IF EXISTS (SELECT 1 FROM (SELECT @headers AS headers) AS m WHERE {unreadable:m})
    THROW 50210, N'headers are not a JSON object of strings', 1;
  IF LEN(@headers) > 262144
    THROW 50210, N'@headers has at most 262144 characters', 1;
  IF LEN(@body) > 16777216 OR DATALENGTH(@bytes) > 16777216
    THROW 50218, N'a body has at most 16777216 characters, or so many bytes in @bytes', 1;
  IF @ms > 0
    SELECT @at = {ms_later}, @state = 3;
  IF @expires_ms > 0
  BEGIN
    SET @ms = @expires_ms;
    SET @until = {ms_behind} COALESCE(@at, SYSUTCDATETIME())));
  END;
  SET @sql = N'INSERT INTO ' + @box + N'(message_id, topic, correlation_id, reply_to, headers, body, state, available_at,
    expires_at) VALUES (COALESCE(NULLIF(@message_id, N''''), LOWER(CONVERT(NVARCHAR(36), NEWID()))), @topic, @correlation_id,
    @reply_to, @headers, ' + CASE WHEN @bytes IS NULL THEN N'@body' ELSE N'@bytes' END + N', @state, @at, @until);
    SET @id = SCOPE_IDENTITY();';
  EXEC sp_executesql @sql, N'@message_id NVARCHAR(255), @topic NVARCHAR(255), @correlation_id NVARCHAR(255),
    @reply_to NVARCHAR(255), @headers NVARCHAR(MAX), @body NVARCHAR(MAX), @bytes VARBINARY(MAX), @state INT,
    @at DATETIME2(3), @until DATETIME2(3), @id BIGINT OUTPUT', @message_id, @topic, @correlation_id, @reply_to, @headers,
    @body, @bytes, @state, @at, @until, @id OUTPUT;
END;

-- part: procedure_receive
ALTER PROCEDURE {wherry_receive} @queue NVARCHAR(4000), @n INT = 1, @lease_ms BIGINT = 30000, @max_attempts INT = 0,
  @after BIGINT = 0
AS
BEGIN
  SET NOCOUNT ON;
  {find_queue}
  {check_lease}
  IF ISNULL(@n, -1) < 0
    THROW 50216, N'@n must be 0 or more', 1;
  IF @max_attempts < 0
    THROW 50216, N'@max_attempts must be 0 or more', 1;
  SELECT @after = ISNULL(@after, 0), @max_attempts = ISNULL(@max_attempts, 0);
  DECLARE @full INT = CASE WHEN @after > 0 THEN 0 WHEN RAND() < 0.5 THEN 1 ELSE 2 END;
  DECLARE @sql NVARCHAR(MAX), @ms BIGINT = @lease_ms, @due INT = 0, @now DATETIME2(3) = SYSUTCDATETIME(),
    @until DATETIME2(3), @token NVARCHAR(64), @name NVARCHAR(260) = QUOTENAME(@queue, N'"');
  IF @n > 2000
    SET @n = 2000;
  IF @ms IS NOT NULL
    SELECT @until = {ms_later}, @token = LOWER(CONVERT(NVARCHAR(36), NEWID()));
  SET @sql = N'DELETE t FROM (SELECT TOP (1000) id FROM ' + @box + N' WITH (READCOMMITTEDLOCK, READPAST,
    UPDLOCK, ROWLOCK) WHERE expires_at IS NOT NULL AND state <> 4 AND expires_at <= @now
    AND (state <> 1 OR available_at <= @now) ORDER BY expires_at) AS d JOIN ' + @box + N' AS t {by_seek} ON t.id = d.id
    {loop}; ';
  IF @token IS NULL
    SET @sql = N'SET XACT_ABORT ON; BEGIN TRANSACTION; ' + @sql + REPLACE(N{'take_rows}, N'body {payload_type});', N'body ' + (
        SELECT TYPE_NAME(c.system_type_id) FROM sys.columns AS c
        WHERE c.object_id = OBJECT_ID(@box, N'U') AND c.name = N'body') + N'(MAX));')
      + N{'dead_taken} + N'SELECT g.id, g.message_id, g.topic, g.correlation_id, g.reply_to, g.headers, g.body, g.attempts,
          NULL AS token, g.created_at FROM @got AS g
          WHERE (g.expires_at IS NULL OR g.expires_at > @now) AND NOT ' + N{'unreadable:g} + N' ORDER BY g.id; COMMIT TRANSACTION;';
  ELSE
    SET @sql = @sql + N{'lease_rows} + N{'dead_leased}
      + N'SELECT t.id, t.message_id, t.topic, t.correlation_id, t.reply_to, t.headers, t.body, t.attempts,
          t.lease_token AS token, t.created_at FROM ' + @box + N' AS t JOIN @got AS g ON g.id = t.id
          WHERE t.lease_token = @token AND t.state <> 4 AND (t.expires_at IS NULL OR t.expires_at > @now) ORDER BY t.id;';
  SET @sql = REPLACE(REPLACE(@sql, N{'table}, @box), N'INDEX(' + LEFT(N{'bare}, LEN(N{'bare}) - 1),
    N'INDEX(' + LEFT(@name, LEN(@name) - 1));
  EXEC sp_executesql @sql, N'@full INT, @after BIGINT, @limit INT, @due INT, @now DATETIME2(3), @most INT,
    @token NVARCHAR(64), @until DATETIME2(3)', @full, @after, @n, @due, @now, @max_attempts, @token, @until;
END;

-- part: procedure_ack
ALTER PROCEDURE {wherry_ack} @queue NVARCHAR(4000), @id BIGINT = NULL, @token NVARCHAR(64), @ids NVARCHAR(MAX) = NULL,
  @n BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  {find_queue}
  DECLARE @sql NVARCHAR(MAX) = N'DELETE t FROM (SELECT DISTINCT TOP (2147483647) CAST(value AS BIGINT) AS id FROM OPENJSON(@ids)
    ORDER BY id) AS j JOIN ' + @box + N' AS t {by_seek} ON t.id = j.id WHERE t.lease_token = @token AND t.state = 1
    {loop}; SET @n = @@ROWCOUNT;';
  SET @ids = ISNULL(@ids, CONCAT(N'[', @id, N']'));
  EXEC sp_executesql @sql, N'@ids NVARCHAR(MAX), @token NVARCHAR(64), @n BIGINT OUTPUT', @ids, @token, @n OUTPUT;
END;

-- part: procedure_nack
ALTER PROCEDURE {wherry_nack} @queue NVARCHAR(4000), @id BIGINT, @token NVARCHAR(64), @delay_ms BIGINT = 0,
  @error NVARCHAR(4000) = NULL, @not_counted BIT = 0, @n BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  SET @error = {shortened};
  {find_queue}
  {check_delay}
  DECLARE @ms BIGINT = ISNULL(@delay_ms, 0), @at DATETIME2(3), @state INT = 0, @sql NVARCHAR(MAX) = N'UPDATE ' + @box + N' SET
    state = CASE WHEN attempts - CAST(@not_counted AS INT) >= max_attempts THEN 4 ELSE @state END,
    available_at = CASE WHEN attempts - CAST(@not_counted AS INT) >= max_attempts THEN NULL ELSE @at END,
    attempts = CASE WHEN @not_counted = 1 AND attempts > 0 THEN attempts - 1 ELSE attempts END,
    lease_token = NULL, last_error = COALESCE(@error, last_error,
      CASE WHEN attempts - CAST(@not_counted AS INT) >= max_attempts THEN N''it was given back after its last attempt'' END) WHERE id = @id AND lease_token = @token AND state = 1;
    SET @n = @@ROWCOUNT;';
  IF @ms > 0 OR @not_counted = 0
    SELECT @at = {ms_later}, @state = 3;
  EXEC sp_executesql @sql, N'@id BIGINT, @token NVARCHAR(64), @state INT, @at DATETIME2(3), @not_counted BIT,
    @error NVARCHAR(2000), @n BIGINT OUTPUT', @id, @token, @state, @at, @not_counted, @error, @n OUTPUT;
END;

-- part: procedure_extend
ALTER PROCEDURE {wherry_extend} @queue NVARCHAR(4000), @id BIGINT, @token NVARCHAR(64), @lease_ms BIGINT = 30000,
  @n BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  {find_queue}
  SET @lease_ms = ISNULL(@lease_ms, 0);
  {check_lease}
  DECLARE @ms BIGINT = @lease_ms, @until DATETIME2(3), @sql NVARCHAR(MAX) = N'UPDATE ' + @box + N' SET available_at = @until
    WHERE id = @id AND lease_token = @token AND state = 1; SET @n = @@ROWCOUNT;';
  SET @until = {ms_later};
  EXEC sp_executesql @sql, N'@id BIGINT, @token NVARCHAR(64), @until DATETIME2(3), @n BIGINT OUTPUT', @id, @token, @until,
    @n OUTPUT;
END;

-- part: procedure_dead_letter
ALTER PROCEDURE {wherry_dead_letter} @queue NVARCHAR(4000), @id BIGINT, @token NVARCHAR(64), @reason NVARCHAR(4000),
  @n BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  {find_queue}
  DECLARE @error NVARCHAR(4000) = @reason;
  SET @reason = {shortened};
  DECLARE @sql NVARCHAR(MAX) = N'UPDATE ' + @box + N' SET state = 4, lease_token = NULL, available_at = NULL, last_error = @reason
    WHERE id = @id AND lease_token = @token AND state = 1; SET @n = @@ROWCOUNT;';
  EXEC sp_executesql @sql, N'@id BIGINT, @token NVARCHAR(64), @reason NVARCHAR(2000), @n BIGINT OUTPUT', @id, @token, @reason,
    @n OUTPUT;
END;

-- part: procedure_cancel
ALTER PROCEDURE {wherry_cancel} @queue NVARCHAR(4000), @id BIGINT, @n BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  {find_queue}
  DECLARE @sql NVARCHAR(MAX) = N'DELETE FROM ' + @box + N' WHERE id = @id AND state IN (0, 3); SET @n = @@ROWCOUNT;';
  EXEC sp_executesql @sql, N'@id BIGINT, @n BIGINT OUTPUT', @id, @n OUTPUT;
END;

-- part: procedure_queue_length
ALTER PROCEDURE {wherry_queue_length} @queue NVARCHAR(4000), @n BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  {find_queue}
  DECLARE @sql NVARCHAR(MAX) = N'SET @n = (SELECT COUNT_BIG(*) FROM ' + @box + N' WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK)
    WHERE state = 0 AND (expires_at IS NULL OR expires_at > SYSUTCDATETIME()));';
  EXEC sp_executesql @sql, N'@n BIGINT OUTPUT', @n OUTPUT;
END;

-- part: procedure_subscribe
ALTER PROCEDURE {wherry_subscribe} @topic NVARCHAR(4000), @queue NVARCHAR(4000), @n BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  {find_queue}
  {check_topic}
  INSERT INTO {wherry_subscription}(topic, queue)
  SELECT @topic, @queue WHERE NOT EXISTS (
    SELECT 1 FROM {wherry_subscription} WITH (UPDLOCK, HOLDLOCK)
    WHERE topic_hash = HASHBYTES('SHA2_256', @topic) AND queue = @queue);
  SET @n = @@ROWCOUNT;
END;

-- part: procedure_unsubscribe
ALTER PROCEDURE {wherry_unsubscribe} @topic NVARCHAR(4000), @queue NVARCHAR(4000), @n BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  {check_topic}
  DELETE FROM {wherry_subscription} WHERE topic_hash = HASHBYTES('SHA2_256', @topic) AND queue = @queue;
  SET @n = @@ROWCOUNT;
END;

-- part: procedure_publish
-- Send a message to each queue that has subscribed, with one message id, in one transaction.  The procedure
-- refuses a topic to which queues of NServiceBus have subscribed, since it cannot send to them.
ALTER PROCEDURE {wherry_publish} @topic NVARCHAR(4000), @body NVARCHAR(MAX) = NULL, @headers NVARCHAR(MAX) = NULL,
  @delay_ms BIGINT = 0, @expires_ms BIGINT = 0, @correlation_id NVARCHAR(4000) = NULL, @reply_to NVARCHAR(4000) = NULL,
  @message_id NVARCHAR(4000) = NULL, @bytes VARBINARY(MAX) = NULL, @n BIGINT = NULL OUTPUT
AS
BEGIN
  SET NOCOUNT ON;
  SET XACT_ABORT ON;
  {check_topic}
  DECLARE @routed INT = 0;
  IF OBJECT_ID(N{'schema.} + N'"SubscriptionRouting"', N'U') IS NOT NULL
    EXEC sp_executesql N'SELECT @routed = COUNT(*) FROM {schema.}"SubscriptionRouting" WHERE Topic = @topic',
      N'@topic NVARCHAR(4000), @routed INT OUTPUT', @topic, @routed OUTPUT;
  IF @routed > 0
    THROW 50217, N'queues of NServiceBus have subscribed to the topic: publish with wherry queue publish or the C library', 1;
  DECLARE @queue NVARCHAR(4000) = N'', @one NVARCHAR(4000) = COALESCE(NULLIF(@message_id, N''), LOWER(CONVERT(NVARCHAR(36), NEWID())));
  SET @n = 0;
  BEGIN TRANSACTION;
  WHILE 1 = 1
  BEGIN
    SET @queue = (SELECT MIN(s.queue) FROM {wherry_subscription} AS s
      JOIN {wherry_schema} AS q ON q.model = N'queue' AND q.name = s.queue
      WHERE s.topic_hash = HASHBYTES('SHA2_256', @topic) AND s.queue > @queue);
    IF @queue IS NULL BREAK;
    EXEC {wherry_send} @queue = @queue, @body = @body, @headers = @headers, @delay_ms = @delay_ms, @expires_ms = @expires_ms,
      @correlation_id = @correlation_id, @reply_to = @reply_to, @message_id = @one, @topic = @topic, @bytes = @bytes;
    SET @n = @n + 1;
  END;
  COMMIT TRANSACTION;
END;

-- part: make_procedures
EXEC (N{'procedure_send});
EXEC (N{'procedure_receive});
EXEC (N{'procedure_ack});
EXEC (N{'procedure_nack});
EXEC (N{'procedure_extend});
EXEC (N{'procedure_dead_letter});
EXEC (N{'procedure_cancel});
EXEC (N{'procedure_queue_length});
EXEC (N{'procedure_subscribe});
EXEC (N{'procedure_unsubscribe});
EXEC (N{'procedure_publish});

-- part: own_procedures
(VALUES (N'wherry_send'), (N'wherry_receive'), (N'wherry_ack'), (N'wherry_nack'), (N'wherry_extend'), (N'wherry_dead_letter'),
  (N'wherry_cancel'), (N'wherry_queue_length'), (N'wherry_subscribe'), (N'wherry_unsubscribe'), (N'wherry_publish'))

-- part: procedures_text
-- The texts without the name of the queue, so that all queues of a schema have the same text.
REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(N{'make_procedures}, N{'table}, N'"T"'), N{'bare_ready}, N'"R"'), N{'bare_timed}, N'"W"'),
  N{'bare}, N'"B"'), N'body {payload_type});', N'body P);')

-- include: mssql.marks.sql

-- part: drop_procedures
DROP PROCEDURE IF EXISTS {wherry_send};
DROP PROCEDURE IF EXISTS {wherry_receive};
DROP PROCEDURE IF EXISTS {wherry_ack};
DROP PROCEDURE IF EXISTS {wherry_nack};
DROP PROCEDURE IF EXISTS {wherry_extend};
DROP PROCEDURE IF EXISTS {wherry_dead_letter};
DROP PROCEDURE IF EXISTS {wherry_cancel};
DROP PROCEDURE IF EXISTS {wherry_queue_length};
DROP PROCEDURE IF EXISTS {wherry_subscribe};
DROP PROCEDURE IF EXISTS {wherry_unsubscribe};
DROP PROCEDURE IF EXISTS {wherry_publish};
