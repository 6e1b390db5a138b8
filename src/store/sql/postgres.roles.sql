--
-- Roles of PostgreSQL.

-- name: role-exists
SELECT count(*) FROM pg_catalog.pg_roles WHERE rolname = :role::name;
