--
-- Times and bodies as DATETIME and text in a table on SQL Server.  mssql.ms.sql is the alternative.
-- Variables have Unix milliseconds in both.  A time in the table may be more precise than that.

-- part: epoch
CAST('19700101' AS DATETIMEOFFSET)

-- part: scheduled_ms
DATEDIFF_BIG(MILLISECOND, {epoch}, {.}"scheduledAt")

-- part: offered_ms
DATEDIFF_BIG(MILLISECOND, {epoch}, {.}"scheduledAtInitially")

-- part: version_ms
DATEDIFF_BIG(MILLISECOND, {epoch}, {.}"createdAt")

-- part: at_now
DATEADD(MILLISECOND, CAST(@now % 86400000 AS INT), DATEADD(DAY, CAST(@now / 86400000 AS INT), {epoch}))

-- part: at_later
DATEADD(MILLISECOND, CAST(@later % 86400000 AS INT), DATEADD(DAY, CAST(@later / 86400000 AS INT), {epoch}))

-- part: at_due
DATEADD(MILLISECOND, CAST(@due % 86400000 AS INT), DATEADD(DAY, CAST(@due / 86400000 AS INT), {epoch}))

-- part: at_until
DATEADD(MILLISECOND, CAST(@until % 86400000 AS INT), DATEADD(DAY, CAST(@until / 86400000 AS INT), {epoch}))

-- part: at_untouched
DATEADD(MILLISECOND, CAST(@untouched % 86400000 AS INT), DATEADD(DAY, CAST(@untouched / 86400000 AS INT), {epoch}))

-- part: new_version
-- Version of a message that an offer changes: it always grows.
CASE WHEN {at_now} > t."createdAt" THEN {at_now} ELSE DATEADD(MILLISECOND, 1, t."createdAt") END

-- part: body_type
NVARCHAR(MAX)

-- part: other_body
({.}payload COLLATE Latin1_General_BIN2 <> @body OR DATALENGTH({.}payload) <> DATALENGTH(@body))

-- part: body_bytes
-- Characters have two bytes.
DATALENGTH({.}payload) / 2

-- part: again_due
-- Times of a dead message that is retried.
DATEADD(MILLISECOND, CAST(i.due % 86400000 AS INT), DATEADD(DAY, CAST(i.due / 86400000 AS INT), {epoch}))

-- part: again_offered
DATEADD(MILLISECOND, CAST(i.offered % 86400000 AS INT), DATEADD(DAY, CAST(i.offered / 86400000 AS INT), {epoch}))

-- part: again_version
DATEADD(MILLISECOND, CAST(i.version % 86400000 AS INT), DATEADD(DAY, CAST(i.version / 86400000 AS INT), {epoch}))
