--
-- Checks of `wherry doctor` on PostgreSQL: what keeps a relay from reading the WAL.  Files include it behind
-- "unreadable", the severity, "named_slot", the condition that a slot is of this outbox, and "makes_it", the condition that
-- a relay of this role makes the publication.

-- name: wal-level
SELECT {unreadable}, current_setting('wal_level') WHERE current_setting('wal_level') <> 'logical';

-- name: replication
-- On managed servers membership in a special role gives this right.
SELECT {unreadable}, current_user::text, quote_ident(current_user)
WHERE NOT EXISTS (
  SELECT 1 FROM pg_roles AS r WHERE (rolname = current_user AND (rolreplication OR rolsuper))
    OR rolname = 'rds_replication' AND pg_has_role(r.oid, 'MEMBER'));

-- name: senders
SELECT CASE WHEN (slots < most_slots OR here) AND (senders < most_senders OR active) THEN 0
            ELSE {unreadable} END,
  slots::text, most_slots::text, senders::text, most_senders::text
FROM (SELECT count(*) AS slots, coalesce(bool_or({named_slot}), false) AS here,
        coalesce(bool_or({named_slot} AND active), false) AS active,
        current_setting('max_replication_slots')::integer AS most_slots,
        (SELECT count(*) FROM pg_stat_replication) AS senders,
        current_setting('max_wal_senders')::integer AS most_senders
      FROM pg_replication_slots) AS room;

-- name: publication
SELECT {unreadable}, :publication::text, 'is not there',
  'CREATE PUBLICATION ' || quote_ident(:publication::text) || ' FOR TABLE ' || {'table}
    || ' WITH (publish = ''insert'', publish_via_partition_root = true)'
WHERE NOT EXISTS (SELECT 1 FROM pg_publication WHERE pubname = :publication) AND NOT {makes_it}
UNION ALL
SELECT {unreadable}, pubname::text, 'does not publish what is inserted',
  'ALTER PUBLICATION ' || quote_ident(pubname) || ' SET (publish = ''insert'')'
FROM pg_publication WHERE pubname = :publication AND NOT pubinsert
UNION ALL
SELECT {unreadable}, pubname::text, 'leaves out the table ' || {'table},
  'ALTER PUBLICATION ' || quote_ident(pubname) || ' ADD TABLE ' || {'table}
FROM pg_publication AS p WHERE pubname = :publication AND NOT EXISTS (
  SELECT 1 FROM pg_publication_tables AS t JOIN pg_class AS c ON c.relname = t.tablename
    JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
  WHERE t.pubname = p.pubname AND c.oid = {'table}::regclass::oid)
UNION ALL
SELECT {unreadable}, t.pubname::text, 'leaves out rows: ' || (to_jsonb(t) ->> 'rowfilter'),
  'ALTER PUBLICATION ' || quote_ident(t.pubname) || ' SET TABLE ' || {'table}
FROM pg_publication_tables AS t JOIN pg_class AS c ON c.relname = t.tablename
  JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = t.schemaname
WHERE t.pubname = :publication AND c.oid = {'table}::regclass::oid
  AND to_jsonb(t) ->> 'rowfilter' IS NOT NULL
UNION ALL
SELECT {unreadable}, t.pubname::text, 'leaves out columns: ' || string_agg(w.name, ', ' ORDER BY w.nth),
  'ALTER PUBLICATION ' || quote_ident(t.pubname) || ' DROP TABLE ' || {'table}
    || '; ALTER PUBLICATION ' || quote_ident(t.pubname) || ' ADD TABLE ' || {'table}
FROM pg_publication_tables AS t JOIN pg_class AS c ON c.relname = t.tablename
  JOIN pg_namespace AS n ON n.oid = c.relnamespace AND n.nspname = t.schemaname,
  unnest(string_to_array(:columns::text, ',')) WITH ORDINALITY AS w(name, nth)
WHERE t.pubname = :publication AND c.oid = {'table}::regclass::oid AND w.name <> ''
  AND to_jsonb(t) ->> 'attnames' IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM jsonb_array_elements_text(to_jsonb(t) -> 'attnames') AS a(name)
    WHERE a.name = w.name)
GROUP BY t.pubname;
