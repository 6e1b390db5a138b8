-- layout: name=cursor columns=
--
-- Reads an append-only table exactly; see sqlite.log.sql.

-- part: message
key, topic, body

-- part: no_message
NULL, NULL, NULL

-- part: last_id
(SELECT s.seq FROM sqlite_sequence AS s WHERE s.name = {name} COLLATE NOCASE)

-- include: sqlite.log.sql
