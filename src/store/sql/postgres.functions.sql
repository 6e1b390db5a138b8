--
-- Functions of a layout on PostgreSQL, named by its part own_functions and made by make_functions.

-- part: functions_mark
-- A comment on each function says from which text it was made, and for which schema, so that those of another
-- version are found (functions_of_another_version_are_found, functions_of_an_older_inbox_are_made_again), and
-- those that were made before their schema was renamed.
(SELECT concat('Wherry ', pg_catalog.md5({'make_functions} || coalesce((SELECT relnamespace::regnamespace::text
   FROM pg_class WHERE oid = to_regclass({'table})::oid), ''))))

-- part: functions_entry
-- What the comment says of a table.
concat(' ', quote_ident(u.name), ' ', u.type, ',')

-- part: mark_functions
-- Roles that could call only a function that is dropped now may call the new ones.
{give_rights}
DO $mark$
DECLARE
  f record;
  g regprocedure;
BEGIN
  -- Those that another version made with other arguments are older than this transaction.  Beside ours a call could
  -- mean either (functions_of_an_older_delayed_queue_are_made_again).
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
      -- A view, a default or an index goes on calling it by its oid; nobody else does
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
  -- And for which tables.
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
-- How many functions are missing, of another version, or made when the table was not there or stored another type.
(SELECT count(*) FROM unnest({own_functions}) AS f(name)
 LEFT JOIN pg_proc AS p ON p.proname = f.name
   AND p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass({'table})::oid)
 WHERE NOT coalesce(starts_with(obj_description(p.oid, 'pg_proc'), {functions_mark}) AND position(
   (SELECT {functions_entry} FROM ({function_tables}) AS of, unnest(of.names, of.types) AS u(name, type)
    WHERE u.name = {name}) IN obj_description(p.oid, 'pg_proc')) > 0, false))

-- part: make_functions_again
-- For the tables that are left when one is dropped.  Without the rights of the functions' owner they stay as they
-- are, and name the table that is gone.
DO $again$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_proc AS p WHERE p.proname = ANY ({own_functions})
      AND p.pronamespace = current_setting('wherry.schema')::regnamespace AND NOT pg_has_role(p.proowner, 'USAGE')) THEN
    EXECUTE {'make_functions};
    EXECUTE {'mark_functions};
  END IF;
END $again$;
