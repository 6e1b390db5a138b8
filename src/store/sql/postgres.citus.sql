--
-- Citus, on PostgreSQL.

-- part: undistributed
-- In a distributed schema Citus would make each table its own, and transaction numbers of one node would be read on another.
DO $$
DECLARE
  place text := coalesce(nullif(rtrim({'schema.}, '.'), ''), quote_ident(current_schema()));
  is_distributed boolean := false;
BEGIN
  IF to_regclass('pg_catalog.pg_dist_schema') IS NOT NULL THEN
    EXECUTE 'SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_dist_schema WHERE schemaid = $1)' INTO is_distributed
      USING to_regnamespace(place)::oid;
  END IF;
  IF is_distributed THEN
    RAISE 'Citus distributes the schema %, and Wherry''s tables cannot be: name a schema that was made with SET citus.enable_schema_based_sharding = off', place
      USING ERRCODE = 'feature_not_supported';
  END IF;
END $$;
