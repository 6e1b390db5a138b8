-- layout: name=cursor columns= archive=
--
-- Reads an append-only table exactly; see sqlite.log.sql.

-- part: message
key, topic, body

-- part: no_message
NULL, NULL, NULL

-- include: sqlite.log.sql
