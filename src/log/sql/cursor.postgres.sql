-- layout: name=cursor columns= archive=
--
-- Reads an append-only table exactly; see postgres.log.sql.

-- part: row
SELECT e.* FROM {table} AS e

-- part: message
key, topic, body

-- include: postgres.log.sql
