-- Babelfish has row versions but does not say which are still open.  This function does.
IF @@VERSION LIKE 'Babelfish%' AND OBJECT_ID(N'dbo.min_active_rowversion') IS NULL
  EXEC(N'CREATE FUNCTION dbo.min_active_rowversion() RETURNS BINARY(8) AS BEGIN RETURN
    CONVERT(BINARY(8), CAST(pg_catalog.txid_snapshot_xmin(pg_catalog.txid_current_snapshot()) AS BIGINT));
    END');
IF OBJECT_ID(N'dbo.min_active_rowversion') IS NOT NULL
  EXEC(N'GRANT EXECUTE ON dbo.min_active_rowversion TO PUBLIC');
