--
-- Roles of PostgreSQL.

-- name: role-exists
SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname = :role::name;

-- part: clear_shared
-- Rights on Wherry's own tables, which all models share: no more than the role needs for its other tables of the
-- schema.  Its kind on another table follows from its rights on that table: a relay, a receiver and an operator may
-- delete rows, and of these only an operator may insert into the table as a whole
-- (a_grant_leaves_what_other_tables_need_and_no_more).
DO $$
DECLARE
  g record;
  kept text[] := ARRAY[]::text[];
BEGIN
  FOR g IN
    WITH others AS (
      SELECT s.model, s.model IN ('outbox', 'log', 'queue', 'delayed') AS relayed,
        s.model IN ('outbox', 'log') AS is_outbox, bool_or(a.privilege = 'SELECT') AS reads,
        bool_or(a.whole AND a.privilege = 'DELETE') AS deletes, bool_or(a.whole AND a.privilege = 'INSERT') AS inserts,
        EXISTS (SELECT 1 FROM pg_catalog.pg_class AS p, pg_catalog.aclexplode(p.relacl) AS r
                WHERE p.relnamespace = c.relnamespace AND p.relname = (c.relname::text || '_progress')::name
                  AND r.grantee = {'role}::regrole::oid AND r.privilege_type = 'UPDATE') AS consumes
      FROM {wherry_schema} AS s
      JOIN pg_catalog.pg_class AS own ON own.oid = {'wherry_schema}::regclass::oid
      JOIN pg_catalog.pg_class AS c ON c.relname = s.name AND c.relnamespace = own.relnamespace
      CROSS JOIN LATERAL (
        SELECT true, privilege_type, grantee FROM pg_catalog.aclexplode(c.relacl)
        UNION ALL
        SELECT false, x.privilege_type, x.grantee FROM pg_catalog.pg_attribute AS k, pg_catalog.aclexplode(k.attacl) AS x
        WHERE k.attrelid = c.oid) AS a(whole, privilege, grantee)
      WHERE c.oid <> {'table}::regclass::oid AND a.grantee = {'role}::regrole::oid
      GROUP BY s.model, c.oid, c.relnamespace, c.relname),
    needs AS (
      SELECT bool_or(reads) AS reads, bool_or(reads AND (deletes OR NOT is_outbox) AND model <> 'inbox') AS clock,
        bool_or(deletes AND relayed OR consumes) AS looks,
        bool_or(deletes AND inserts AND consumes) AS seeks,
        bool_or(deletes AND relayed AND NOT (inserts AND is_outbox)) AS relays,
        bool_or(deletes AND relayed AND inserts) AS pauses,
        bool_or(deletes AND relayed AND inserts AND NOT is_outbox) AS adds,
        bool_or(reads AND model = 'queue') AS publishes,
        bool_or(deletes AND inserts AND model = 'queue') AS subscribes,
        bool_or(deletes AND model = 'outbox') AS sees_stream,
        bool_or(deletes AND NOT inserts AND model = 'outbox') AS streams
      FROM others)
    SELECT to_regclass(v.shared) AS shared, v.privilege, coalesce(v.needed, false) AS needed
    FROM needs AS n CROSS JOIN LATERAL (VALUES
      ({'wherry_schema}, 'SELECT', n.reads), ({'wherry_clock}, 'SELECT', n.clock),
      ({'wherry_lease}, 'SELECT', n.looks), ({'wherry_lease}, 'INSERT, UPDATE', n.relays), ({'wherry_lease}, 'UPDATE', n.seeks),
      ({'wherry_outbox}, 'SELECT', n.looks), ({'wherry_outbox}, 'UPDATE', n.pauses), ({'wherry_outbox}, 'INSERT', n.adds),
      ({'wherry_subscription}, 'SELECT', n.publishes), ({'wherry_subscription}, 'INSERT, DELETE', n.subscribes),
      ({'wherry_stream}, 'SELECT', n.sees_stream), ({'wherry_stream}, 'INSERT, UPDATE', n.streams),
      ({'wherry_dead}, 'SELECT', n.sees_stream), ({'wherry_dead}, 'INSERT, UPDATE', n.streams)
      ) AS v(shared, privilege, needed)
    WHERE to_regclass(v.shared) IS NOT NULL
  LOOP
    EXECUTE pg_catalog.format('REVOKE ALL ON %s FROM %s', g.shared, {'role});
    IF g.needed THEN
      kept := kept || pg_catalog.format('GRANT %s ON %s TO %s', g.privilege, g.shared, {'role});
    END IF;
  END LOOP;
  FOR g IN SELECT k.sql FROM unnest(kept) AS k(sql) LOOP
    EXECUTE g.sql;
  END LOOP;
END $$;

-- part: usage
-- Rights on the schema of the table.
DO $$ BEGIN
  EXECUTE pg_catalog.format('GRANT USAGE ON SCHEMA %s TO %s',
    (SELECT relnamespace::regnamespace FROM pg_catalog.pg_class
     WHERE oid = {'table}::regclass::oid), {'role});
END $$;

-- part: execute
-- The functions have the rights of their caller, so a role gains nothing by calling them.  The right is granted
-- because default privileges may give PUBLIC no right to execute.
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
