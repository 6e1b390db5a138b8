--
-- Procedures of the native layout, for every language.  They work on any table of the schema, whose name is
-- in @delayed: their statements have the name of the table that is created here, which they replace.  They run with
-- the rights of their caller.

-- part: kind_of
-- Kind of a queue, as wherry_delayed_open() computes it: an MD5 sum of UTF-8.  SQL Server 2016 can convert only
-- ASCII characters to UTF-8.  Parameters are longer than the texts that they may hold, since SQL Server would
-- cut a longer text (procedures_cut_neither_keys_nor_names).
DECLARE @live NVARCHAR(300) = N{'schema.} + QUOTENAME(@delayed), @dead NVARCHAR(300) = N{'schema.} + QUOTENAME(@delayed + N'_dead');
DECLARE @name NVARCHAR(600) = @queue + N'|' + @type, @kind NVARCHAR(100) = N'', @hash VARBINARY(16), @at_byte INT = 1;
IF @live IS NULL OR @dead IS NULL OR @name IS NULL OR @queue = N'' OR @name LIKE N'%[^ -~]%' COLLATE Latin1_General_BIN2
  THROW 51000, N'a delayed queue needs a name of ASCII characters', 1;
IF DATALENGTH(@queue) > 510 OR DATALENGTH(@type) > 510 OR LEN(@queue + N'.') > 256 OR LEN(@type + N'.') > 256
  THROW 51000, N'@queue and @type have at most 255 bytes', 1;
SET @hash = HASHBYTES('MD5', CAST(@name AS VARCHAR(600)));
WHILE @at_byte <= 16
BEGIN
  SET @kind = @kind + SUBSTRING(N'0123456789abcdef', CAST(SUBSTRING(@hash, @at_byte, 1) AS INT) / 16 + 1, 1)
    + SUBSTRING(N'0123456789abcdef', CAST(SUBSTRING(@hash, @at_byte, 1) AS INT) % 16 + 1, 1);
  SET @at_byte = @at_byte + 1;
END;
DECLARE @sql NVARCHAR(MAX), @now BIGINT = {clock};

-- part: check_key
-- A key has at most as many characters as in the library; some characters take two units of UTF-16.
DECLARE @units INT = LEN(@key + N'.') - 1, @characters INT = 0;
IF DATALENGTH(@key) > 800
  SET @characters = 201;
ELSE IF @units > 200
  WHILE @units > 0
  BEGIN
    IF UNICODE(SUBSTRING(@key, @units, 1)) NOT BETWEEN 56320 AND 57343
      SET @characters = @characters + 1;
    SET @units = @units - 1;
  END;
IF @characters > 200
  THROW 51000, N'@key has at most 200 characters', 1;

-- part: check_lease
IF ISNULL(@lease_ms, 0) <= 0
  THROW 51000, N'@lease_ms must be above 0', 1;
IF @lease_ms > 3153600000000
  THROW 51000, N'@lease_ms is at most 3153600000000, which are 36500 days', 1;

-- part: offer_text
SET XACT_ABORT OFF;
DECLARE @tries INT = 0;
{offered}
SET @result = @made;

-- part: offer_procedure
ALTER PROCEDURE {wherry_offer} @queue NVARCHAR(4000), @key NVARCHAR(4000), @body VARBINARY(MAX), @delay_ms BIGINT = 0,
  @at DATETIMEOFFSET = NULL, @if_absent BIT = 0, @type NVARCHAR(4000) = N'bytes', @delayed NVARCHAR(4000) = N'delayed' AS
BEGIN
  SET NOCOUNT ON;
  {kind_of}
  DECLARE @span BIGINT = CASE WHEN @delay_ms > 0 THEN @delay_ms ELSE 0 END, @result INT;
  {later}
  DECLARE @due BIGINT = COALESCE(DATEDIFF_BIG(MILLISECOND, CAST('1970-01-01 00:00:00 +00:00' AS DATETIMEOFFSET), @at), @later);
  IF COALESCE(DATALENGTH(@key), 0) = 0 OR @body IS NULL
    THROW 51000, N'a delayed message needs a key and a body', 1;
  IF @delay_ms < 0 OR @delay_ms > 0 AND @at IS NOT NULL
    THROW 51000, N'@delay_ms must be 0 or more, and 0 where @at is given', 1;
  IF @delay_ms > 3153600000000
    THROW 51000, N'@delay_ms is at most 3153600000000, which are 36500 days', 1;
  {check_key}
  SET @sql = REPLACE(N{'offer_text}, N{'table}, @live);
  EXEC sp_executesql @sql, N'@kind NVARCHAR(100), @now BIGINT, @key NVARCHAR(400), @body VARBINARY(MAX), @due BIGINT,
    @absent BIT, @result INT OUTPUT', @kind = @kind, @now = @now, @key = @key, @body = @body, @due = @due,
    @absent = @if_absent, @result = @result OUTPUT;
  SELECT CASE @result WHEN 0 THEN N'created' WHEN 1 THEN N'updated' ELSE N'ignored' END AS outcome;
END

-- part: gone
-- Make messages dead: @gone has the messages, and the columns for the reason.
DECLARE @gone TABLE(id BIGINT NOT NULL, "key" NVARCHAR(400) COLLATE Latin1_General_BIN2 NOT NULL,
                    body VARBINARY(MAX) NOT NULL, offered BIGINT NOT NULL, version BIGINT NOT NULL, attempts INT NOT NULL,
                    token VARCHAR(36) NULL, error NVARCHAR(500) NULL);

-- part: goes
OUTPUT deleted.id, deleted."pKey", deleted.payload, deleted."scheduledAtInitially", deleted."createdAt", deleted.attempts,
  deleted."lockUuid", deleted.last_error INTO @gone

-- part: died
DELETE d FROM @gone AS g {of_dead} g.id
OPTION (LOOP JOIN, FORCE ORDER);
INSERT INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts, died_at, last_error)
SELECT id, "key", @kind, body, offered, version, attempts, @now,

-- part: first_exhausted
(SELECT TOP (1) attempts FROM {table} WITH (NOLOCK) WHERE "pKind" = @kind AND "scheduledAt" <= @now
 ORDER BY "scheduledAt", id) >= @most

-- part: exhausted
-- Messages that have had all their attempts, among the first 1,000 due ones that no transaction has locked.  Reads
-- without locks choose them, so that no other messages are locked.
SELECT l.id FROM (SELECT TOP (1000) e.id, s.attempts
                  FROM {table} AS e WITH (NOLOCK)
                  JOIN {table} AS s WITH (READCOMMITTEDLOCK, READPAST, ROWLOCK) ON s.id = e.id
                  WHERE e."pKind" = @kind AND e."scheduledAt" <= @now
                    AND s."pKind" = @kind AND s."scheduledAt" = e."scheduledAt"
                  ORDER BY e."scheduledAt", e.id) AS f
JOIN {table} AS l WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK) ON l.id = f.id
WHERE f.attempts >= @most AND l."pKind" = @kind AND l."scheduledAt" <= @now AND l.attempts >= @most

-- part: exhausted_text
-- If the first due message has had all its attempts, make such messages dead.  With XACT_ABORT a failure rolls back
-- both statements.
SET XACT_ABORT ON;
{gone}
IF {first_exhausted}
BEGIN
BEGIN TRANSACTION;
DELETE t {goes}
FROM ({exhausted}) AS d
JOIN {table} AS t {by_seek} ON t.id = d.id
WHERE t."scheduledAt" <= @now
OPTION (LOOP JOIN, FORCE ORDER);
{died} CASE WHEN token IS NOT NULL THEN N'its lease expired before it was acknowledged' ELSE error END
FROM @gone;
COMMIT TRANSACTION;
END;

-- part: poll_text
{leased}
SELECT id, "key", body,
  DATEADD(MILLISECOND, CAST(offered % 86400000 AS INT), DATEADD(DAY, CAST(offered / 86400000 AS INT),
    CAST('19700101' AS DATETIME2(3)))) AS at,
  attempts, CASE WHEN attempts > 1 OR due > offered THEN 1 ELSE 0 END AS redelivery,
  CONCAT(id, N'.', version, N'.', token) AS token
FROM @leased ORDER BY due, id;

-- part: poll_procedure
ALTER PROCEDURE {wherry_poll} @queue NVARCHAR(4000), @n INT = 1, @lease_ms BIGINT = 30000, @max_attempts INT = 0,
  @type NVARCHAR(4000) = N'bytes', @delayed NVARCHAR(4000) = N'delayed' AS
BEGIN
  SET NOCOUNT ON;
  {kind_of}
  {check_lease}
  IF ISNULL(@n, -1) < 0
    THROW 51000, N'@n must be 0 or more', 1;
  IF @max_attempts < 0
    THROW 51000, N'@max_attempts must be 0 or more', 1;
  DECLARE @span BIGINT = @lease_ms, @lock VARCHAR(36) = LOWER(CAST(NEWID() AS VARCHAR(36)));
  {later}
  SET @sql = REPLACE(REPLACE(N{'exhausted_text}, N{'table_dead}, @dead), N{'table}, @live);
  IF @max_attempts > 0
    EXEC sp_executesql @sql, N'@kind NVARCHAR(100), @now BIGINT, @most INT', @kind = @kind, @now = @now,
      @most = @max_attempts;
  SET @sql = REPLACE(N{'poll_text}, N{'table}, @live);
  EXEC sp_executesql @sql, N'@kind NVARCHAR(100), @now BIGINT, @limit BIGINT, @token VARCHAR(36), @later BIGINT, @most INT',
    @kind = @kind, @now = @now, @limit = @n, @token = @lock, @later = @later, @most = @max_attempts;
END

-- part: this_lease
WHERE t.id = @id AND t."pKind" = @kind AND t."lockUuid" = @lock

-- part: dead_text
SET XACT_ABORT ON;
{gone}
BEGIN TRANSACTION;
DELETE t {goes}
FROM {table} AS t WITH (ROWLOCK) {this_lease};
SET @result = @@ROWCOUNT;
{died} COALESCE(@error, N'')
FROM @gone;
COMMIT TRANSACTION;

-- part: settle_text
IF @action = N'nack'
  UPDATE t SET "scheduledAt" = @later, "lockUuid" = NULL, due_at = NULL, last_error = COALESCE(@error, t.last_error)
  FROM {table} AS t WITH (ROWLOCK) {this_lease};
ELSE IF @action = N'extend'
  UPDATE t SET "scheduledAt" = @later FROM {table} AS t WITH (ROWLOCK) {this_lease};
ELSE IF @lock IS NULL
  DELETE t FROM {table} AS t WITH (ROWLOCK) WHERE t.id = @id AND t."pKind" = @kind AND t."createdAt" = @version
    AND t."scheduledAtInitially" = @offered;
ELSE
  DELETE t FROM {table} AS t WITH (ROWLOCK) {this_lease};
SET @result = @@ROWCOUNT;

-- part: look_text
IF @result = 0 SELECT @found = t."createdAt" FROM {table} AS t WHERE t.id = @id AND t."pKind" = @kind;

-- part: settle_procedure
ALTER PROCEDURE {wherry_delayed_settle} @action NVARCHAR(10), @queue NVARCHAR(4000), @token NVARCHAR(80), @span BIGINT,
  @error NVARCHAR(4000), @type NVARCHAR(4000), @delayed NVARCHAR(4000) AS
BEGIN
  SET NOCOUNT ON;
  -- Text to keep: without half a character at the end.
  SET @error = LEFT(@error, CASE WHEN UNICODE(SUBSTRING(@error, 500, 1)) BETWEEN 55296 AND 56319 THEN 499 ELSE 500 END);
  {kind_of}
  {later}
  DECLARE @dot INT = CHARINDEX(N'.', @token), @next INT, @id BIGINT, @version BIGINT, @lock VARCHAR(36), @result INT, @found BIGINT,
    @colon INT = CHARINDEX(N':', @token), @offered BIGINT;
  -- "ID.VERSION.LOCK" of a message that was polled, "ID.VERSION:OFFERED" of one that was read.
  IF @colon > 0
    SELECT @offered = TRY_CAST(SUBSTRING(@token, @colon + 1, 20) AS BIGINT), @token = LEFT(@token, @colon - 1);
  SET @next = CHARINDEX(N'.', @token + N'.', @dot + 1);
  IF @dot > 1 AND @next > @dot
  BEGIN
    SET @id = TRY_CAST(LEFT(@token, @dot - 1) AS BIGINT);
    SET @version = TRY_CAST(SUBSTRING(@token, @dot + 1, @next - @dot - 1) AS BIGINT);
    SET @lock = NULLIF(SUBSTRING(@token, @next + 1, 36), N'');
  END;
  IF @id IS NULL OR @version IS NULL OR (@lock IS NULL AND @offered IS NULL)
    THROW 51000, N'the token is not one that came with a message', 1;
  IF @lock IS NULL AND @action <> N'ack'
    THROW 51000, N'the message of the token was read and not polled: it can only be acknowledged', 1;
  SET @sql = CASE WHEN @action = N'dead' THEN N{'dead_text} ELSE N{'settle_text} END + N{'look_text};
  SET @sql = REPLACE(REPLACE(@sql, N{'table_dead}, @dead), N{'table}, @live);
  EXEC sp_executesql @sql, N'@action NVARCHAR(10), @kind NVARCHAR(100), @now BIGINT, @later BIGINT, @id BIGINT, @version BIGINT,
    @offered BIGINT, @lock VARCHAR(36), @error NVARCHAR(500), @result INT OUTPUT, @found BIGINT OUTPUT', @action = @action, @kind = @kind,
    @now = @now, @later = @later, @id = @id, @version = @version, @offered = @offered, @lock = @lock, @error = @error,
    @result = @result OUTPUT, @found = @found OUTPUT;
  SELECT CASE WHEN @result = 1 THEN N'acknowledged' WHEN @found <> @version OR (@lock IS NULL AND @found IS NOT NULL) THEN N'superseded' ELSE N'lease lost' END AS outcome;
END

-- part: done_procedure
ALTER PROCEDURE {wherry_done} @queue NVARCHAR(4000), @token NVARCHAR(80), @type NVARCHAR(4000) = N'bytes',
  @delayed NVARCHAR(4000) = N'delayed' AS
EXEC {wherry_delayed_settle} N'ack', @queue, @token, 0, NULL, @type, @delayed

-- part: nack_procedure
ALTER PROCEDURE {wherry_delayed_nack} @queue NVARCHAR(4000), @token NVARCHAR(80), @delay_ms BIGINT = 0, @error NVARCHAR(4000) = NULL,
  @type NVARCHAR(4000) = N'bytes', @delayed NVARCHAR(4000) = N'delayed' AS
BEGIN
  IF @delay_ms < 0
    THROW 51000, N'@delay_ms must be 0 or more', 1;
  IF @delay_ms > 3153600000000
    THROW 51000, N'@delay_ms is at most 3153600000000, which are 36500 days', 1;
  SET @delay_ms = ISNULL(@delay_ms, 0);
  EXEC {wherry_delayed_settle} N'nack', @queue, @token, @delay_ms, @error, @type, @delayed;
END

-- part: extend_procedure
ALTER PROCEDURE {wherry_delayed_extend} @queue NVARCHAR(4000), @token NVARCHAR(80), @lease_ms BIGINT = 30000,
  @type NVARCHAR(4000) = N'bytes', @delayed NVARCHAR(4000) = N'delayed' AS
BEGIN
  {check_lease}
  EXEC {wherry_delayed_settle} N'extend', @queue, @token, @lease_ms, NULL, @type, @delayed;
END

-- part: dead_letter_procedure
ALTER PROCEDURE {wherry_delayed_dead_letter} @queue NVARCHAR(4000), @token NVARCHAR(80), @reason NVARCHAR(4000),
  @type NVARCHAR(4000) = N'bytes', @delayed NVARCHAR(4000) = N'delayed' AS
EXEC {wherry_delayed_settle} N'dead', @queue, @token, 0, @reason, @type, @delayed

-- part: drop_text
DECLARE @id BIGINT = (SELECT id FROM {table} WITH (READCOMMITTEDLOCK) WHERE {this_key});
DELETE FROM {table} WITH (ROWLOCK) WHERE id = @id;
SET @result = @@ROWCOUNT;

-- part: drop_procedure
ALTER PROCEDURE {wherry_delayed_drop} @queue NVARCHAR(4000), @key NVARCHAR(4000), @type NVARCHAR(4000) = N'bytes',
  @delayed NVARCHAR(4000) = N'delayed' AS
BEGIN
  SET NOCOUNT ON;
  {kind_of}
  {check_key}
  DECLARE @result INT;
  SET @sql = REPLACE(N{'drop_text}, N{'table}, @live);
  EXEC sp_executesql @sql, N'@kind NVARCHAR(100), @key NVARCHAR(400), @result INT OUTPUT', @kind = @kind, @key = @key,
    @result = @result OUTPUT;
  SELECT @result AS dropped;
END

-- part: make_procedures
EXEC (N{'offer_procedure});
EXEC (N{'poll_procedure});
EXEC (N{'settle_procedure});
EXEC (N{'done_procedure});
EXEC (N{'nack_procedure});
EXEC (N{'extend_procedure});
EXEC (N{'dead_letter_procedure});
EXEC (N{'drop_procedure});

-- part: own_procedures
(VALUES (N'wherry_offer'), (N'wherry_poll'), (N'wherry_delayed_settle'), (N'wherry_done'),
  (N'wherry_delayed_nack'), (N'wherry_delayed_extend'), (N'wherry_delayed_dead_letter'), (N'wherry_delayed_drop'))

-- part: procedures_text
-- The texts without the name of the table, so that all tables of a schema have the same text.
REPLACE(REPLACE(N{'make_procedures}, N{'table_dead}, N'"D"'), N{'table}, N'"T"')

-- include: mssql.marks.sql

-- part: drop_procedures
-- When the last table is dropped, drop the functions and procedures that only delayed queues share.
IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = N'delayed')
BEGIN
  DROP PROCEDURE IF EXISTS {wherry_offer};
  DROP PROCEDURE IF EXISTS {wherry_poll};
  DROP PROCEDURE IF EXISTS {wherry_done};
  DROP PROCEDURE IF EXISTS {wherry_delayed_nack};
  DROP PROCEDURE IF EXISTS {wherry_delayed_extend};
  DROP PROCEDURE IF EXISTS {wherry_delayed_dead_letter};
  DROP PROCEDURE IF EXISTS {wherry_delayed_drop};
  DROP PROCEDURE IF EXISTS {wherry_delayed_settle};
END;
