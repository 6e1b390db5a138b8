--
-- Roles and users of a database on SQL Server.

-- name: role-exists
SELECT COUNT(*) FROM sys.database_principals WHERE name = :role;
