-- layout: name=grants
--
-- Grants for the roles of a native outbox on SQL Server (roles_of_an_outbox_may_do_what_they_need).
-- {role} is a role or a user of the database.
--
-- SQL Server grants INSERT on whole tables only, so the table's constraints restrict new rows.
-- wherry_enqueue builds its INSERT as text, so its callers need the right to insert.

-- include: mssql.roles.sql

-- part: mark
-- Columns that a relay writes.
(status, attempts, claimed_at, claim_token, next_retry_at, processed_at, last_error)

-- name: clear
-- Revoke the rights on the tables of the outbox that the role was granted before, first those on whole
-- tables: revoking a column of a right on the table would leave an exception there.
REVOKE SELECT ON {table} FROM {role};
REVOKE INSERT ON {table} FROM {role};
REVOKE UPDATE ON {table} FROM {role};
REVOKE DELETE ON {table} FROM {role};
REVOKE UPDATE {mark} ON {table} FROM {role};
REVOKE SELECT ON {table_archive} FROM {role};
REVOKE INSERT ON {table_archive} FROM {role};
REVOKE DELETE ON {table_archive} FROM {role};
IF NOT {has_others}
BEGIN
  {revoke_shared}
END;

-- include: mssql.grants.sql

-- name: relay
GRANT SELECT, DELETE ON {table} TO {role};
GRANT UPDATE {mark} ON {table} TO {role};
GRANT SELECT, INSERT, DELETE ON {table_archive} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_outbox} TO {role};
GRANT SELECT ON {wherry_clock} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- name: operator
-- A replay of an archived message inserts it with its id, which needs the right to alter the table.
-- That right is not granted, since it allows too much.
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role};
GRANT SELECT, INSERT, DELETE ON {table_archive} TO {role};
GRANT SELECT, UPDATE ON {wherry_outbox} TO {role};
GRANT SELECT ON {wherry_lease} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_clock} TO {role};
