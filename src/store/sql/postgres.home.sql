--
-- Functions on PostgreSQL, named by the part own_functions, and the schema that they are made for.

-- part: give_rights
-- Where default privileges give PUBLIC no function, a role that may call one of Wherry's functions in this schema
-- may call those that are made later (a_function_that_is_made_later_can_be_called).
DO $later$
DECLARE
  g record;
BEGIN
  FOR g IN
    WITH made AS (SELECT p.oid, p.proacl, p.proowner FROM pg_proc AS p
      WHERE p.pronamespace = current_setting('wherry.schema')::regnamespace AND pg_has_role(p.proowner, 'USAGE')
        AND starts_with(p.proname::text, 'wherry_'))
    SELECT m.oid::regprocedure AS function, r.role::regrole AS role FROM made AS m
    CROSS JOIN (SELECT DISTINCT a.grantee AS role FROM made AS o, aclexplode(o.proacl) AS a
                WHERE a.grantee <> 0::oid AND a.grantee <> o.proowner) AS r
    WHERE NOT has_function_privilege(r.role, m.oid, 'EXECUTE')
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %s', g.function, g.role);
  END LOOP;
END $later$;

-- part: check_schema
-- The functions name their schema, and so do those that they call.  After ALTER SCHEMA ... RENAME they would
-- write to the tables of a schema that has the name now.  So each compares the name with that of the schema it is in,
-- which the context of the call tells, before it does anything
-- (functions_of_a_renamed_schema_write_to_no_other).  The context names no schema that is in the search path.
DO $check$
DECLARE
  schema CONSTANT text := current_setting('wherry.schema');
  f record;
BEGIN
  FOR f IN SELECT p.oid, p.prosrc, pg_get_functiondef(p.oid) AS def,
      concat(quote_ident(p.proname), '(') AS called, format('%s(%s)', p.proname, oidvectortypes(p.proargtypes)) AS name
    FROM pg_proc AS p WHERE p.pronamespace = schema::regnamespace AND p.proname = ANY ({own_functions})
  LOOP
    EXECUTE replace(f.def, f.prosrc, format($f$
DECLARE own_call pg_catalog.text;
BEGIN
  GET DIAGNOSTICS own_call = PG_CONTEXT;
  own_call := pg_catalog.split_part(own_call, pg_catalog.chr(10), 1);
  IF position(%1$L IN own_call) OPERATOR(pg_catalog.=) 0 AND (position(%2$L IN own_call) OPERATOR(pg_catalog.>) 0
      OR pg_catalog.to_regprocedure(%3$L)::pg_catalog.oid OPERATOR(pg_catalog.<>)
         pg_catalog.to_regprocedure(%4$L)::pg_catalog.oid) THEN
    RAISE 'this function was made for a schema named %%, and its schema has another name now', %5$L
    USING ERRCODE = 'invalid_schema_name', HINT = 'Make the table again, with the name of the schema: `wherry init`, '
      '`wherry queue create`, `wherry delayed create` or `wherry inbox create`. That makes its functions again.';
  END IF;%6$s;
END $f$, concat(schema, '.', f.called), concat('.', f.called), f.name, concat(schema, '.', f.name), schema, f.prosrc));
  END LOOP;
END $check$;
