--
-- Roles and users of a database on SQL Server.

-- name: role-exists
SELECT COUNT(*) FROM sys.database_principals WHERE name = :role;

-- part: has_others
-- Condition: the role has rights on another of Wherry's tables in the schema.  Then it may need its rights on
-- Wherry's own tables for that, and keeps them.
EXISTS (
  SELECT 1 FROM {wherry_schema} AS s JOIN sys.database_permissions AS p
    ON p.major_id = OBJECT_ID(N{'schema.} + QUOTENAME(s.name))
  WHERE p.class = 1 AND p.major_id <> OBJECT_ID(N{'table})
    AND p.grantee_principal_id = DATABASE_PRINCIPAL_ID(PARSENAME(N{'role}, 1)))

-- part: revoke_reading
-- Rights on Wherry's own tables that outboxes, queues and delayed queues share, except for those of a role that adds messages.
REVOKE SELECT ON {wherry_clock} FROM {role};
REVOKE SELECT ON {wherry_outbox} FROM {role};
REVOKE INSERT ON {wherry_outbox} FROM {role};
REVOKE UPDATE ON {wherry_outbox} FROM {role};
REVOKE SELECT ON {wherry_lease} FROM {role};
REVOKE INSERT ON {wherry_lease} FROM {role};
REVOKE UPDATE ON {wherry_lease} FROM {role};

-- part: revoke_shared
REVOKE SELECT ON {wherry_schema} FROM {role};
{revoke_reading}
