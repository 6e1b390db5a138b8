--
-- Columns that relays read of a delayed queue on SQL Server, in the tables of all layouts.

-- part: for_claims
-- A claim lasts until @later.
DECLARE @now BIGINT = {clock}, @span BIGINT = :lasts;
{later}

-- part: message_id
-- Message id of a row for a relay.  A row that an offer changes is another message with the same id.
CONCAT({.}"pKind", N'-', {.}id, N'-', {version_ms:.})

-- part: relayed
-- Condition: the message belongs to the queue that is relayed.
{.}"pKind" = N{kind}

-- part: texts
-- Texts of a row for a relay, in the form that the store reads.  A value over its limit is not sent
-- whole: the beginning of a key, and nothing of a body.  With :long = -1 the only text is plain ASCII
-- that identifies the row.
{message_id:t}, N{topic}, N'', N'',
CASE WHEN DATALENGTH(t."pKey") / 2 <= :long OR t."pKey" NOT LIKE N'%[^ -~]%' COLLATE Latin1_General_BIN2
     THEN t."pKey" ELSE LEFT(t."pKey", CAST(:long AS INT) + 1) END,
N'{}', CAST(NULL AS NVARCHAR(255)),
CASE WHEN {body_bytes:t} <= :body THEN t.payload ELSE SUBSTRING(t.payload, 1, CAST(NULL AS INT)) END

-- part: free
-- Rows that no other transaction has locked, which are locked for the update.
WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK)

-- part: most
TOP (CASE WHEN :limit < 2000 THEN :limit ELSE 2000 END)
