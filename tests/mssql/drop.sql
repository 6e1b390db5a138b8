-- Everything that is in the database, except functions and the view of the clock.  Dropped under
-- connections that had prepared statements on it, the view ended Babelfish (ERRORDATA_STACK_SIZE exceeded).  The
-- newest first: a view may be made of another, as an eventferry test that was killed leaves them.
DECLARE @sql NVARCHAR(MAX) = (
  SELECT STRING_AGG(CAST(N'DROP ' + d.kind + N' "' + s.name + N'"."' + d.name + N'"; ' AS NVARCHAR(MAX)), N'')
    WITHIN GROUP (ORDER BY d.nth, d.id DESC)
  FROM (SELECT t.schema_id, r.name, N'TRIGGER' AS kind, 1 AS nth, r.object_id AS id
        FROM sys.triggers AS r JOIN sys.objects AS t ON t.object_id = r.parent_id
        UNION ALL SELECT schema_id, name, N'VIEW', 2, object_id FROM sys.views WHERE name <> N'wherry_clock'
        UNION ALL SELECT schema_id, name, N'TABLE', 3, object_id FROM sys.tables
        UNION ALL SELECT schema_id, name, N'PROCEDURE', 4, object_id FROM sys.procedures WHERE type = N'P') AS d
  JOIN sys.schemas AS s ON s.schema_id = d.schema_id);
EXEC (@sql);
