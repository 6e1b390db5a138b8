-- layout: name=funfix names=qualified wakes=no message_ids=json columns=id,pKey,pKind,payload,scheduledAt,scheduledAtInitially,lockUuid,createdAt,!attempts
--
-- The table of the JVM library DelayedQueue (Funfix) on SQL Server, as the library makes it.  Wherry adds nothing
-- to it, and the library may work on it at the same time.  parts/mssql.funfix.sql has the statements.
--
-- In a table that Wherry makes, texts compare by their bytes.  A table that the library makes has the
-- database's collation.

-- include: mssql.sql

-- include: mssql.own.sql

-- include: mssql.ms.sql

-- part: is_the_librarys
-- The columns and their types identify this layout.
8 = (SELECT COUNT(*) FROM sys.columns AS c JOIN sys.types AS t ON t.user_type_id = c.user_type_id
     WHERE c.object_id = OBJECT_ID(N{'table}, N'U')
       AND CONCAT(c.name, N' ', t.name) IN (N'id bigint', N'pKey nvarchar', N'pKind nvarchar', N'payload varbinary',
             N'scheduledAt bigint', N'scheduledAtInitially bigint', N'lockUuid varchar', N'createdAt bigint'))

-- part: library_table
CREATE TABLE {table}(
  id          BIGINT IDENTITY(1, 1) NOT NULL PRIMARY KEY CLUSTERED,
  "pKey"      NVARCHAR(200) COLLATE Latin1_General_BIN2 NOT NULL,
  "pKind"     NVARCHAR(100) COLLATE Latin1_General_BIN2 NOT NULL,
  payload     VARBINARY(MAX) NOT NULL,
  "scheduledAt"          BIGINT NOT NULL,
  "scheduledAtInitially" BIGINT NOT NULL,
  "lockUuid"  VARCHAR(36) COLLATE Latin1_General_BIN2 NULL,
  "createdAt" BIGINT NOT NULL
);

-- part: key_index
CREATE UNIQUE INDEX {bare__PKindPKeyUniqueIndex} ON {table}("pKind", "pKey");

-- part: no_id
-- The id is the primary key.
1 = 0

-- part: id_index

-- part: lock_row
-- Other transactions wait for the lock of the row in the primary key.
INDEX(1), FORCESEEK

-- part: whole_row

-- include: mssql.funfix.sql

-- include: mssql.offer_many.sql
