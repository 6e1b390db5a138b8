-- layout: name=grants
--
-- What the roles of a native outbox on SQL Server may do (roles_of_an_outbox_may_do_what_they_need).
-- {role} is a role or a user of the database.
--
-- SQL Server grants INSERT on whole tables only: the table's constraints say what a new row may
-- have.  wherry_enqueue builds its INSERT as text, so its callers need the right to insert themselves.

-- include: mssql.roles.sql

-- part: mark
-- The columns that a relay writes.
(status, attempts, claimed_at, claim_token, next_retry_at, processed_at, last_error)

-- name: clear
-- What it was granted before on the tables of the outbox.  First the rights on the whole table:
-- taking a column out of a right on the table would leave an exception there.
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

-- name: producer
-- Plain INSERTs.
GRANT INSERT ON {table} TO {role};

-- name: enqueuer
-- wherry_enqueue, libwherry and `wherry enqueue`.
GRANT INSERT ON {table} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT EXECUTE ON {wherry_enqueue} TO {role};

-- name: relay
GRANT SELECT, DELETE ON {table} TO {role};
GRANT UPDATE {mark} ON {table} TO {role};
GRANT SELECT, INSERT, DELETE ON {table_archive} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_outbox} TO {role};
GRANT SELECT ON {wherry_clock} TO {role};
GRANT SELECT, INSERT, UPDATE ON {wherry_lease} TO {role};

-- name: operator
-- A message that comes back from the archive is inserted with its id, which takes the right to alter
-- the table.  That is too much for a role, so it is not granted.
GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO {role};
GRANT SELECT, INSERT, DELETE ON {table_archive} TO {role};
GRANT SELECT, UPDATE ON {wherry_outbox} TO {role};
GRANT SELECT ON {wherry_lease} TO {role};
GRANT SELECT ON {wherry_schema} TO {role};
GRANT SELECT ON {wherry_clock} TO {role};
