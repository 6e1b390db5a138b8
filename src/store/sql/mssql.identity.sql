--
-- The table that a position of a log on SQL Server belongs to.

-- part: identity_of
-- A log, as distinct from one that was made again or is in another database.  A restore keeps it.
-- Babelfish has no time of creation.
CONCAT({.}object_id, CASE WHEN @@VERSION NOT LIKE N'Babelfish%'
                          THEN CONVERT(NVARCHAR(30), {.}create_date, 126) END)

-- part: log_identity
-- Files that include this have the part "identified" before, the name of the table.
(SELECT {identity_of:o} FROM sys.tables AS o WHERE o.object_id = OBJECT_ID({identified}))
