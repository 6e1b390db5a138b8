--
-- Marks of procedures on SQL Server.  A layout names its procedures in the part own_procedures, as rows of
-- (VALUES …), and the text that makes them in procedures_text, in which nothing depends on one table.

-- part: procedures_mark
-- An extended property of each procedure has a hash of its text, so that procedures of another version are
-- found and made again (procedures_of_another_version_are_found).  A role that may execute a procedure sees
-- its mark.
CONCAT(N'Wherry ', CAST(CAST(SUBSTRING(HASHBYTES('SHA2_256', {procedures_text}), 1, 16) AS UNIQUEIDENTIFIER) AS NVARCHAR(36)))

-- part: marked
-- Mark of the procedure p.
(SELECT CAST(x.value AS NVARCHAR(100)) FROM sys.extended_properties AS x
 WHERE x.class = 1 AND x.minor_id = 0 AND x.name = N'wherry' AND x.major_id = OBJECT_ID(N{'schema.} + QUOTENAME(p.name, N'"'), N'P'))

-- part: stub_procedures
-- Make an empty procedure for each that is missing, and mark all.  make_procedures, which follows, alters them: a
-- procedure that was there keeps the rights that were granted on it (grants_outlive_a_procedure_of_another_version).
DECLARE @mark NVARCHAR(100) = {procedures_mark}, @named NVARCHAR(128), @stub NVARCHAR(400),
  @place NVARCHAR(128) = OBJECT_SCHEMA_NAME(OBJECT_ID(N{'wherry_schema}, N'U'));
SET @named = (SELECT MIN(p.name) FROM {own_procedures} AS p(name));
WHILE @named IS NOT NULL
BEGIN
  SET @stub = N'CREATE PROCEDURE ' + N{'schema.} + QUOTENAME(@named, N'"') + N' AS RETURN';
  IF OBJECT_ID(N{'schema.} + QUOTENAME(@named, N'"'), N'P') IS NULL EXEC (@stub);
  IF (SELECT {marked} FROM (SELECT @named AS name) AS p) IS NULL
    EXEC sp_addextendedproperty @name = N'wherry', @value = @mark, @level0type = N'SCHEMA', @level0name = @place,
      @level1type = N'PROCEDURE', @level1name = @named;
  ELSE
    EXEC sp_updateextendedproperty @name = N'wherry', @value = @mark, @level0type = N'SCHEMA', @level0name = @place,
      @level1type = N'PROCEDURE', @level1name = @named;
  SET @named = (SELECT MIN(p.name) FROM {own_procedures} AS p(name) WHERE p.name > @named);
END;

-- part: procedures_stale
-- Number of procedures that are of another version or missing.  A role that may not execute a procedure does not see
-- it, so only for a role that could make it a procedure counts as missing.
(SELECT COUNT(*) FROM {own_procedures} AS p(name)
 WHERE ISNULL({marked}, N'') <> {procedures_mark}
   AND (OBJECT_ID(N{'schema.} + QUOTENAME(p.name, N'"'), N'P') IS NOT NULL
        OR HAS_PERMS_BY_NAME(N{'table}, N'OBJECT', N'ALTER') = 1))

-- name: procedures-stale
SELECT {procedures_stale};
