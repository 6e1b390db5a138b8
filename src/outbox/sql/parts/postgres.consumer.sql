--
-- Grants for roles that consume one subscription of a log on PostgreSQL.  They have no rights on its tables: a function with
-- the rights of the table's owner consumes for them.

-- include: postgres.consumer-name.sql

-- part: clear_consumers
-- Revoke the rights on subscriptions of the outbox that the role was granted before.
DO $$
DECLARE
  f regprocedure;
BEGIN
  FOR f IN SELECT DISTINCT to_regprocedure(concat({consume_function:p}, '(integer)')) FROM {table_progress} AS p LOOP
    IF f IS NOT NULL THEN
      EXECUTE pg_catalog.format('REVOKE ALL ON FUNCTION %s FROM %s', f, {'role});
    END IF;
  END LOOP;
END $$;
