--
-- Roles of PostgreSQL.

-- name: role-exists
SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname = :role::name;

-- part: clear_shared
-- The rights on Wherry's own tables, which all models share.  A role that has rights on another table of
-- the schema may need them for that, and keeps them (a_grant_takes_nothing_that_another_table_needs).
DO $$
DECLARE
  shared regclass;
BEGIN
  IF EXISTS (
    SELECT 1 FROM {wherry_schema} AS s
    JOIN pg_catalog.pg_class AS own ON own.oid = {'wherry_schema}::regclass::oid
    JOIN pg_catalog.pg_class AS c ON c.relname = s.name AND c.relnamespace = own.relnamespace
    WHERE c.oid <> {'table}::regclass::oid AND (
      EXISTS (SELECT 1 FROM pg_catalog.aclexplode(c.relacl) AS a WHERE a.grantee = {'role}::regrole::oid)
      OR EXISTS (SELECT 1 FROM pg_catalog.pg_attribute AS k, pg_catalog.aclexplode(k.attacl) AS a
                 WHERE k.attrelid = c.oid AND a.grantee = {'role}::regrole::oid))) THEN
    RETURN;
  END IF;
  FOR shared IN SELECT t FROM (VALUES (to_regclass({'wherry_schema})), (to_regclass({'wherry_clock})),
    (to_regclass({'wherry_outbox})), (to_regclass({'wherry_lease})), (to_regclass({'wherry_subscription})),
    (to_regclass({'wherry_stream})), (to_regclass({'wherry_dead}))) AS v(t) WHERE t IS NOT NULL LOOP
    EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM %s', shared, {'role});
  END LOOP;
END $$;

-- part: execute
-- The functions have the rights of their caller, so a role gains nothing by them.  Where default privileges
-- give PUBLIC no right to execute, no role could call them.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT p.oid FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_class AS c ON c.relnamespace = p.pronamespace
    WHERE c.oid = {'table}::regclass::oid AND p.proowner = c.relowner
      AND pg_catalog.starts_with(p.proname::text, 'wherry_') LOOP
    EXECUTE pg_catalog.format('GRANT EXECUTE ON FUNCTION %s TO %s', f, {'role});
  END LOOP;
END $$;
