--
-- Grants for roles that consume one subscription of a log on PostgreSQL (postgres.consumer.sql).

-- name: subscription-clear
-- A role with rights on all subscriptions loses them; one that writes messages keeps those.
DO $sub$ BEGIN
  IF EXISTS (SELECT 1 FROM pg_catalog.pg_class AS c, pg_catalog.aclexplode(c.relacl) AS a
             WHERE c.oid = {'table_progress}::regclass::oid AND a.grantee = {'role}::regrole::oid) THEN
    EXECUTE {'clear_all};
  END IF;
END $sub$;

-- name: subscription-consumer
{usage}
DO $sub$
DECLARE
  called CONSTANT text := (SELECT {consume_function:p} FROM (SELECT {topic} AS subscription) AS p);
BEGIN
  EXECUTE format($f$CREATE OR REPLACE FUNCTION %s(integer) RETURNS TABLE (id bigint, message_id text, topic text, key text, headers json,
      payload text, bytes bytea, aggregate_type text, aggregate_id text, trace_id text, created_at timestamptz)
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS %L$f$, called,
    format('SELECT * FROM %s(%L, $1, %L)', {'wherry_consume}, {topic}, {name}));
  EXECUTE format('REVOKE ALL ON FUNCTION %s(integer) FROM PUBLIC', called);
  EXECUTE format('ALTER FUNCTION %s(integer) OWNER TO %s', called,
    (SELECT relowner::regrole FROM pg_catalog.pg_class WHERE oid = {'table}::regclass::oid));
  EXECUTE format('GRANT EXECUTE ON FUNCTION %s(integer) TO %s', called, {'role});
  EXECUTE format('COMMENT ON FUNCTION %s(integer) IS %L', called, concat('wherry_consume() of subscription ', {topic}, ' of outbox ',
    {name}, ', for roles that may consume no other'));
END $sub$;
{execute}
