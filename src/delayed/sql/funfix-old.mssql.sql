-- layout: name=funfix-old names=qualified wakes=no message_ids=json body=text columns=id,pKey,pKind,payload,scheduledAt,scheduledAtInitially,lockUuid,createdAt,!attempts
--
-- The table that the predecessor of the JVM library DelayedQueue had on SQL Server: times are points in time, bodies
-- are text, and the key is the primary key.  Wherry adds nothing to it, and programs of that library may work on it
-- at the same time.  parts/mssql.funfix.sql has the statements.
--
-- Statements find a row by the index of ids and then lock it in the primary key.  All take these two
-- locks in this order.

-- include: mssql.sql

-- include: mssql.own.sql

-- include: mssql.moments.sql

-- part: is_the_librarys
-- The columns and their types identify this layout.
8 = (SELECT COUNT(*) FROM sys.columns AS c JOIN sys.types AS t ON t.user_type_id = c.user_type_id
     WHERE c.object_id = OBJECT_ID(N{'table}, N'U')
       AND CONCAT(c.name, N' ', t.name) IN (N'id bigint', N'pKey nvarchar', N'pKind nvarchar', N'payload nvarchar',
             N'scheduledAt datetimeoffset', N'scheduledAtInitially datetimeoffset', N'lockUuid varchar',
             N'createdAt datetimeoffset'))

-- part: library_table
CREATE TABLE {table}(
  id          BIGINT IDENTITY(1, 1) NOT NULL,
  "pKey"      NVARCHAR(200) COLLATE Latin1_General_BIN2 NOT NULL,
  "pKind"     NVARCHAR(100) COLLATE Latin1_General_BIN2 NOT NULL,
  payload     NVARCHAR(MAX) NOT NULL,
  "scheduledAt"          DATETIMEOFFSET NOT NULL,
  "scheduledAtInitially" DATETIMEOFFSET NOT NULL,
  "lockUuid"  VARCHAR(36) COLLATE Latin1_General_BIN2 NULL,
  "createdAt" DATETIMEOFFSET NOT NULL,
  PRIMARY KEY ("pKey", "pKind")
);

-- part: key_index
CREATE UNIQUE INDEX {bare__PKindPKeyUniqueIndex} ON {table}("pKind", "pKey");

-- part: no_id
NOT EXISTS (SELECT 1 FROM sys.index_columns AS x
            JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
            WHERE x.object_id = OBJECT_ID(N{'table}, N'U') AND x.key_ordinal = 1 AND c.name = N'id')

-- part: id_index
IF {no_id}
  CREATE UNIQUE INDEX {bare__IdUniqueIndex} ON {table}(id);

-- part: lock_row
-- Hint: read the index of ids first, and then
FORCESEEK

-- part: whole_row
-- a column that this index does not have, so that others wait for the lock of the row.
AND DATALENGTH(t.payload) >= 0

-- include: mssql.funfix.sql
