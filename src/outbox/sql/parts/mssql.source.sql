--
-- The table behind the view of an outbox that was adopted, on SQL Server.

-- part: is_view
EXISTS (SELECT 1 FROM sys.views AS v WHERE v.object_id = OBJECT_ID(N{'table}))

-- part: source_name
-- `wherry adopt` notes it at the view.  NULL: the outbox is a table.
(SELECT CAST(x.value AS NVARCHAR(600)) FROM sys.extended_properties AS x
 WHERE x.class = 1 AND x.minor_id = 0 AND x.name = N'wherry_table' AND x.major_id = OBJECT_ID(N{'table}))

-- part: source
-- The name of the table that has the rows.
COALESCE({source_name}, N{'table})

-- part: source_id
-- That of the table of the outbox if this is not a view.
COALESCE(OBJECT_ID({source_name}, N'U'), OBJECT_ID(N{'table}, N'U'))

-- part: has_versions
-- Condition: an index begins with the row version; an administrator may have named it.
EXISTS (SELECT 1 FROM sys.index_columns AS x
        JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
        WHERE x.object_id = {source_id} AND x.key_ordinal = 1 AND TYPE_NAME(c.system_type_id) IN (N'timestamp', N'rowversion'))
