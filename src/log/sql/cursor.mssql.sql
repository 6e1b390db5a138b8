-- layout: name=cursor columns=
--
-- Reads an append-only table exactly; see mssql.log.sql.

-- part: identified
N{'table}

-- include: mssql.identity.sql

-- part: message
[key], topic, body

-- include: mssql.log.sql
