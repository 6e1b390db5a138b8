--
-- The table behind the view of an outbox that was adopted, on PostgreSQL.

-- part: source
-- Its name; that of the table of the outbox if this is not a view.
coalesce((SELECT d.refobjid::regclass::text FROM pg_rewrite AS r
  JOIN pg_depend AS d ON d.objid = r.oid AND d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
  JOIN pg_attribute AS a ON a.attrelid = d.refobjid AND a.attname = 'wherry_tx' AND NOT a.attisdropped
  WHERE r.ev_class = to_regclass({'table})::oid AND d.refobjid <> r.ev_class LIMIT 1), {'table})
