-- layout: name=doctor
--
-- Checks of `wherry doctor` on SQLite, of what all tables need.

-- include: sqlite.doctor.sql

-- name: acknowledgements
SELECT 1, 'trigger ' || name FROM sqlite_schema
WHERE type = 'trigger' AND tbl_name = {name} COLLATE NOCASE
  AND replace(upper(sql), ' ', '') LIKE '%RAISE(IGNORE)%';
