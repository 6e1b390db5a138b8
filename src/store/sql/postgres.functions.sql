--
-- Functions of a layout on PostgreSQL, named by its part own_functions and made by make_functions.

-- part: functions_mark
-- The COMMENT of each function has a hash of its text and schema.  By it Wherry finds functions of another version
-- (functions_of_another_version_are_found, functions_of_an_older_inbox_are_made_again), and functions that were
-- made before their schema was renamed.
(SELECT concat('Wherry ', pg_catalog.md5({'make_functions} || coalesce((SELECT relnamespace::regnamespace::text
   FROM pg_class WHERE oid = to_regclass({'table})::oid), ''))))

-- part: functions_entry
-- Text of the COMMENT about a table.
concat(' ', quote_ident(u.name), ' ', u.type, ',')

-- part: mark_functions
-- Roles that could call only a function that is dropped now may call the new ones.
{give_rights}
DO $mark$
DECLARE
  f record;
  g regprocedure;
BEGIN
  -- Drop functions that another version made with other arguments, and that are older than this transaction.  With
  -- both a call would be ambiguous (functions_of_an_older_delayed_queue_are_made_again).
  FOR f IN SELECT oid::regprocedure AS called, oid, proname, pronamespace FROM pg_proc
    WHERE pronamespace = current_setting('wherry.schema')::regnamespace AND proname = ANY ({own_functions})
      AND age(xmin) > 0 AND starts_with(obj_description(oid, 'pg_proc'), 'Wherry ')
  LOOP
    FOR g IN SELECT oid FROM pg_proc
      WHERE pronamespace = f.pronamespace AND proname = f.proname AND oid <> f.oid
        AND has_function_privilege('public', f.oid, 'EXECUTE') AND NOT has_function_privilege('public', oid, 'EXECUTE')
    LOOP
      EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC', g);
    END LOOP;
    BEGIN
      EXECUTE format('DROP FUNCTION %s', f.called);
    EXCEPTION WHEN dependent_objects_still_exist THEN
      -- If a view, a default or an index calls the function by its oid, rename it instead
      -- (an_older_function_that_a_view_calls_gets_another_name).
      EXECUTE format('ALTER FUNCTION %s RENAME TO %I', f.called, concat(f.proname, '_', f.oid));
      EXECUTE format('COMMENT ON FUNCTION %s IS %L', f.oid::regprocedure, concat(
        'An older ', f.proname, '(), kept because other objects depend on it: make them again, and drop it'));
    END;
  END LOOP;
END $mark$;
{check_schema}
DO $mark$
DECLARE
  f regprocedure;
  -- The tables that the function has statements for.
  note CONSTANT text := concat('Wherry ', md5({'make_functions} || current_setting('wherry.schema')), ' for',
    (SELECT string_agg({functions_entry}, '' ORDER BY u.nth)
     FROM ({function_tables}) AS of, unnest(of.names, of.types) WITH ORDINALITY AS u(name, type, nth)));
BEGIN
  FOR f IN SELECT oid FROM pg_proc
    WHERE pronamespace = current_setting('wherry.schema')::regnamespace AND proname = ANY ({own_functions})
  LOOP
    EXECUTE format('COMMENT ON FUNCTION %s IS %L', f, note);
  END LOOP;
END $mark$;

-- part: functions_stale
-- Number of functions that are missing, are of another version, or were made before the table existed or when it had
-- another type.
(SELECT count(*) FROM unnest({own_functions}) AS f(name)
 LEFT JOIN pg_proc AS p ON p.proname = f.name
   AND p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass({'table})::oid)
 WHERE NOT coalesce(starts_with(obj_description(p.oid, 'pg_proc'), {functions_mark}) AND position(
   (SELECT {functions_entry} FROM ({function_tables}) AS of, unnest(of.names, of.types) AS u(name, type)
    WHERE u.name = {name}) IN obj_description(p.oid, 'pg_proc')) > 0, false))

-- part: make_functions_again
-- Make the functions again for the tables that are left when one is dropped.  A role without the rights of their
-- owner leaves them unchanged; they then name the table that was dropped.
DO $again$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_proc AS p WHERE p.proname = ANY ({own_functions})
      AND p.pronamespace = current_setting('wherry.schema')::regnamespace AND NOT pg_has_role(p.proowner, 'USAGE')) THEN
    EXECUTE {'make_functions};
    EXECUTE {'mark_functions};
  END IF;
END $again$;
