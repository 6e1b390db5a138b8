--
-- The table of dead messages, the same for all layouts.

-- part: no_dead_kind
-- Condition: there is no index on the kinds of dead messages.
NOT EXISTS (
  SELECT 1 FROM sys.index_columns AS i
  JOIN sys.columns AS c ON c.object_id = i.object_id AND c.column_id = i.column_id
  WHERE i.object_id = OBJECT_ID(N{'table_dead}, N'U') AND i.key_ordinal = 1 AND c.name = N'pKind')

-- part: dead_table
IF OBJECT_ID(N{'table_dead}, N'U') IS NULL
  CREATE TABLE {table_dead}(
    id          BIGINT NOT NULL PRIMARY KEY CLUSTERED,
    "pKey"      NVARCHAR(400) COLLATE Latin1_General_BIN2 NOT NULL,
    "pKind"     NVARCHAR(100) COLLATE Latin1_General_BIN2 NOT NULL,
    payload     {body_type} NOT NULL,
    "scheduledAtInitially" BIGINT NOT NULL,
    "createdAt" BIGINT NOT NULL,
    attempts    INT NOT NULL,
    died_at     BIGINT NOT NULL,
    last_error  NVARCHAR(500) NULL
  );
IF {no_dead_kind}
  CREATE INDEX {bare_dead_kind} ON {table_dead}("pKind", id);

-- part: of_dead
-- Rest of a DELETE of dead messages d that have the ids of messages that become dead now.  Such a dead message
-- is an older version of the message, or ids were given out again.  It would keep the message from becoming
-- dead for ever (a_message_that_dies_replaces_a_dead_one_of_its_id).
JOIN {table_dead} AS d {by_seek} ON d.id =
