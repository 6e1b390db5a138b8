--
-- Times and bodies as Unix milliseconds and bytes in a table on SQL Server.  mssql.moments.sql is the
-- alternative.  Variables have Unix milliseconds in both.

-- part: scheduled_ms
{.}"scheduledAt"

-- part: offered_ms
{.}"scheduledAtInitially"

-- part: version_ms
{.}"createdAt"

-- part: at_now
@now

-- part: at_later
@later

-- part: at_due
@due

-- part: at_until
@until

-- part: at_untouched
@untouched

-- part: new_version
-- Version of a message that an offer changes: it always grows, until the last possible version.
CASE WHEN t."createdAt" >= 253402300799999 THEN @now + 1 WHEN @now > t."createdAt" THEN @now ELSE t."createdAt" + 1 END

-- part: body_type
VARBINARY(MAX)

-- part: other_body
-- For SQL Server, bytes are equal that differ only by zeros at the end.
({.}payload <> @body OR DATALENGTH({.}payload) <> DATALENGTH(@body))

-- part: body_bytes
DATALENGTH({.}payload)

-- part: again_due
-- Times of a dead message that is retried.
i.due

-- part: again_offered
i.offered

-- part: again_version
i.version
