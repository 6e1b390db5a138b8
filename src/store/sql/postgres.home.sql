--
-- Functions on PostgreSQL, which the part own_functions names, and the schema that they are made for.

-- part: says_which
-- End of a block in which a function for many messages calls that for one: its error names the message, by the subscript of the
-- arrays.
EXCEPTION WHEN data_exception THEN
      DECLARE
        hint pg_catalog.text;
      BEGIN
        GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
        IF hint OPERATOR(pg_catalog.<>) '' THEN
          RAISE 'message %: %', one.nth, sqlerrm USING ERRCODE = sqlstate, HINT = hint;
        END IF;
        RAISE 'message %: %', one.nth, sqlerrm USING ERRCODE = sqlstate;
      END;
    END;

-- part: give_rights
-- If default privileges give PUBLIC no right to execute, a role that may call one of Wherry's functions in this schema
-- may also call functions that are made later (a_function_that_is_made_later_can_be_called).
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

-- part: function_tables
-- Tables that the functions work on, with the type of their bodies, in the order of their names.  A function has
-- static statements for each table, whose plans a session keeps.  From PostgreSQL 17 on json is a keyword, which
-- quote_ident() quotes.
SELECT coalesce(array_agg(s.name ORDER BY s.name COLLATE "C"), ARRAY[]::text[]) AS names,
  coalesce(array_agg(CASE n.nspname WHEN 'pg_catalog' THEN concat('pg_catalog.', t.typname)
    ELSE concat(quote_ident(n.nspname), '.', quote_ident(t.typname)) END ORDER BY s.name COLLATE "C"),
    ARRAY[]::text[]) AS types
FROM {wherry_schema} AS s
JOIN pg_class AS own ON own.oid = {'wherry_schema}::regclass::oid
JOIN pg_class AS c ON c.relnamespace = own.relnamespace AND c.relname = s.name::name AND c.relname::text = s.name
JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = {function_column} AND NOT a.attisdropped
JOIN pg_type AS t ON t.oid = a.atttypid
JOIN pg_namespace AS n ON n.oid = t.typnamespace
WHERE s.model IN ({function_models})

-- part: branch_variables
-- Variables of a block that makes functions.
  names text[];
  types text[];
  firsts text[];
  leaves text[];
  section text;

-- part: branch
-- The text between "@each@" and "@end@" becomes a statement for each table, with its name for @table@.  The function
-- finds the statement by comparing names as in a binary tree, and runs `otherwise` for any other name.
  section := split_part(split_part(made, '@each@', 2), '@end@', 1);
  firsts := names;
  leaves := ARRAY(SELECT concat('IF ', key, ' OPERATOR(pg_catalog.=) ', quote_literal(t.name), ' THEN ',
      replace(replace(replace({leaf}, '@dead@', concat(schema, quote_ident(t.name || '_dead'))),
        '@quoted@', quote_literal(concat(schema, quote_ident(t.name)))),
        '@table@', concat(schema, quote_ident(t.name))), ' ELSE ', otherwise, ' END IF;')
    FROM unnest(names, types) WITH ORDINALITY AS t(name, type, nth) ORDER BY t.nth);
  WHILE cardinality(leaves) > 1 LOOP
    leaves := ARRAY(SELECT CASE WHEN leaves[i + 1] IS NULL THEN leaves[i]
        ELSE concat('IF ', key, ' OPERATOR(pg_catalog.<) ', quote_literal(firsts[i + 1]), ' COLLATE pg_catalog."C" THEN ', leaves[i],
          ' ELSE ', leaves[i + 1], ' END IF;') END
      FROM generate_series(1, cardinality(leaves), 2) AS i ORDER BY i);
    firsts := ARRAY(SELECT firsts[i] FROM generate_series(1, cardinality(firsts), 2) AS i ORDER BY i);
  END LOOP;
  made := concat(split_part(made, '@each@', 1), CASE WHEN section <> '' THEN coalesce(leaves[1], otherwise) END,
    split_part(made, '@end@', 2));

-- part: check_schema
-- The functions have the name of their schema in their text.  After ALTER SCHEMA ... RENAME they would write to the
-- tables of another schema that has the name now.  So each function first compares the name with that of its schema,
-- which it reads from the context of the call (functions_of_a_renamed_schema_write_to_no_other).  The context does not
-- name a schema that is in the search path, and quotes all names with quote_all_identifiers=on.
-- That takes about 15 us.  So before that a function compares the oid that the schema of this name had when the function
-- was made.  If another schema has the name now, or a dump was restored, the oid differs.
DO $check$
DECLARE
  schema CONSTANT text := current_setting('wherry.schema');
  f record;
BEGIN
  FOR f IN SELECT p.oid, p.prosrc, pg_get_functiondef(p.oid) AS def,
      concat(quote_ident(p.proname), '(') AS called, format('%s(%s)', p.proname, (
        SELECT string_agg(concat('pg_catalog.', quote_ident(t.typname)), ', ' ORDER BY a.nth)
        FROM unnest(p.proargtypes) WITH ORDINALITY AS a(type, nth) JOIN pg_type AS t ON t.oid = a.type)) AS name
    FROM pg_proc AS p WHERE p.pronamespace = schema::regnamespace AND p.proname = ANY ({own_functions})
  LOOP
    -- A column takes precedence over a variable of the same name, so statements qualify their variables.  A signature as
    -- a constant is looked up when the expression is planned.
    EXECUTE replace(f.def, f.prosrc, format($f$
#variable_conflict use_column
DECLARE own_call pg_catalog.text;
BEGIN
  IF coalesce(pg_catalog.to_regnamespace(%5$L)::pg_catalog.oid OPERATOR(pg_catalog.<>) %7$s::pg_catalog.oid, true) THEN
    GET DIAGNOSTICS own_call = PG_CONTEXT;
    own_call := pg_catalog.replace(pg_catalog.split_part(own_call, pg_catalog.chr(10), 1), '"', '');
    IF position(%1$L IN own_call) OPERATOR(pg_catalog.=) 0 THEN
      IF position(%2$L IN own_call) OPERATOR(pg_catalog.=) 0 AND pg_catalog.to_regnamespace(%5$L) IS NOT NULL THEN
        IF %3$L::pg_catalog.regprocedure::pg_catalog.oid OPERATOR(pg_catalog.=)
           %4$L::pg_catalog.regprocedure::pg_catalog.oid THEN
          own_call := NULL;
        END IF;
      END IF;
      IF own_call IS NOT NULL THEN
        RAISE 'this function was made for a schema named %%, and its schema has another name now', %5$L
        USING ERRCODE = 'invalid_schema_name', HINT = 'Make the table again, with the name of the schema: `wherry create`, '
          '`wherry create --kind queue`, `wherry create --kind delayed` or `wherry create --kind inbox`. That makes its functions again.';
      END IF;
    END IF;
  END IF;%6$s;
END $f$, replace(concat(schema, '.', f.called), '"', ''), concat('.', f.called), f.name, concat(schema, '.', f.name), schema, f.prosrc,
    schema::regnamespace::oid));
  END LOOP;
END $check$;
