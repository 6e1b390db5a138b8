-- layout: name=cursor columns=
--
-- Reads an append-only table exactly; see mssql.log.sql.

-- include: mssql.identity.sql

-- part: message
[key], topic, body

-- include: mssql.log.sql
