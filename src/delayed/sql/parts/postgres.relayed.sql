--
-- Columns that relays read of a delayed queue, in the tables of both layouts.

-- part: clock
-- Relays use the database's time.
pg_catalog.floor(extract(epoch FROM pg_catalog.statement_timestamp()) OPERATOR(pg_catalog.*) 1000.0)::bigint

-- part: claimed_until
least({clock} + least(:lasts::bigint, 3153600000000), 253402300799999)

-- part: message_id
-- Message id of a row for a relay.  A row that an offer changes is another message with the same id.
("pKind" || '-' || id::pg_catalog.text || '-' || "createdAt"::pg_catalog.text)

-- part: relayed
-- Condition: the message belongs to the queue that is relayed.
"pKind" = {kind}

-- part: texts
-- Texts of a row for a relay, in the form that the store reads.  A value over its limit is not sent
-- whole: the beginning of a key, and nothing of a body.  With :long = -1 the only text is plain ASCII
-- that identifies the row.
{message_id}, {topic}::pg_catalog.text, ''::pg_catalog.text, ''::pg_catalog.text,
CASE WHEN octet_length("pKey") <= :long::bigint OR :long::bigint < 0 AND octet_length("pKey") <= 1000 AND "pKey" !~ '[^ -~]'
     THEN "pKey" ELSE left("pKey", :long::integer + 1) END,
'{}'::pg_catalog.text, NULL::pg_catalog.text,
CASE WHEN :long::bigint >= 0 AND octet_length(payload) <= :body::bigint THEN payload END
