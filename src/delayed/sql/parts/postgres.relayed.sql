--
-- What relays read of a delayed queue: of the tables of both layouts.

-- part: clock
-- A relay's time is the database's.
pg_catalog.floor(extract(epoch FROM pg_catalog.statement_timestamp()) OPERATOR(pg_catalog.*) 1000.0)::bigint

-- part: claimed_until
least({clock} + least(:lasts::bigint, 3153600000000), 253402300799999)

-- part: message_id
-- Of a message that is relayed.  A row that an offer changes is another message under the same id.
("pKind" || '-' || id::pg_catalog.text || '-' || "createdAt"::pg_catalog.text)

-- part: relayed
-- What is relayed: the messages of one queue.
"pKind" = {kind}

-- part: texts
-- The texts of a row that is relayed, as the store has them.  What is longer than its limit is not
-- sent: of the key its beginning comes, and of a body nothing.  With :long = -1
-- no text is sent but plain ASCII that says which row it is.
{message_id}, {topic}::pg_catalog.text, ''::pg_catalog.text, ''::pg_catalog.text,
CASE WHEN octet_length("pKey") <= :long::bigint OR :long::bigint < 0 AND octet_length("pKey") <= 1000 AND "pKey" !~ '[^ -~]'
     THEN "pKey" ELSE left("pKey", :long::integer + 1) END,
'{}'::pg_catalog.text, NULL::pg_catalog.text,
CASE WHEN :long::bigint >= 0 AND octet_length(payload) <= :body::bigint THEN payload END
