--
-- Functions of a layout on PostgreSQL, named by its part own_functions and made by make_functions.

-- part: functions_mark
-- A comment on each function says from which text it was made, and for which schema, so that those of another
-- version are found (functions_of_another_version_are_found, functions_of_an_older_inbox_are_made_again), and
-- those that were made before their schema was renamed.
(SELECT concat('Wherry ', pg_catalog.md5({'make_functions} || coalesce((SELECT relnamespace::regnamespace::text
   FROM pg_class WHERE oid = to_regclass({'table})::oid), ''))))

-- part: mark_functions
DO $mark$
DECLARE f regprocedure;
BEGIN
  -- Those that another version made with other arguments are older than this transaction.  Beside ours a call could
  -- mean either (functions_of_an_older_delayed_queue_are_made_again).
  FOR f IN SELECT oid FROM pg_proc
    WHERE pronamespace = current_setting('wherry.schema')::regnamespace AND proname = ANY ({own_functions})
      AND age(xmin) > 0 AND starts_with(obj_description(oid, 'pg_proc'), 'Wherry ')
  LOOP
    EXECUTE format('DROP FUNCTION %s', f);
  END LOOP;
END $mark$;
{check_schema}
DO $mark$
DECLARE f regprocedure;
BEGIN
  FOR f IN SELECT oid FROM pg_proc
    WHERE pronamespace = current_setting('wherry.schema')::regnamespace AND proname = ANY ({own_functions})
  LOOP
    EXECUTE format('COMMENT ON FUNCTION %s IS %L', f, {functions_mark});
  END LOOP;
END $mark$;

-- part: functions_stale
-- How many functions are missing or of another version.
(SELECT count(*) FROM unnest({own_functions}) AS f(name)
 LEFT JOIN pg_proc AS p ON p.proname = f.name
   AND p.pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass({'table})::oid)
 WHERE obj_description(p.oid, 'pg_proc') IS DISTINCT FROM {functions_mark})
