--
-- What relays read of a delayed queue on SQL Server: of the tables of all layouts.

-- part: for_claims
-- A claim lasts until @later.
DECLARE @now BIGINT = {clock}, @span BIGINT = :lasts;
{later}

-- part: message_id
-- Of a message that is relayed.  A row that an offer changes is another message under the same id.
CONCAT({.}"pKind", N'-', {.}id, N'-', {version_ms:.})

-- part: relayed
-- What is relayed: the messages of one queue.
{.}"pKind" = N{kind}

-- part: texts
-- The texts of a row that is relayed, as the store has them.  What is longer than its limit is not
-- sent: of the key its beginning comes, and of a body nothing.  With :long = -1
-- no text is sent but plain ASCII that says which row it is.
{message_id:t}, N{topic}, N'', N'',
CASE WHEN DATALENGTH(t."pKey") / 2 <= :long OR t."pKey" NOT LIKE N'%[^ -~]%' COLLATE Latin1_General_BIN2
     THEN t."pKey" ELSE LEFT(t."pKey", CAST(:long AS INT) + 1) END,
N'{}', CAST(NULL AS NVARCHAR(255)),
CASE WHEN {body_bytes:t} <= :body THEN t.payload END

-- part: free
-- Rows that no other transaction has locked: those are passed over, and the others kept for the update.
WITH (READCOMMITTEDLOCK, READPAST, UPDLOCK, ROWLOCK)

-- part: most
TOP (CASE WHEN :limit < 2000 THEN :limit ELSE 2000 END)
