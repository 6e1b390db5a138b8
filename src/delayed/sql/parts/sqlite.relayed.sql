--
-- What relays read of a delayed queue: of the tables of both layouts.

-- part: message_id
-- Of a message that is relayed.  A row that an offer changes is another message under the same id.
("pKind" || '-' || id || '-' || "createdAt")

-- part: claimed_until
min({now} + min(:lasts, 3153600000000), 253402300799999)

-- part: due_now
-- What is relayed: the messages of one queue.
"pKind" = {kind} AND "scheduledAt" <= {now}

-- part: relayed
-- Columns of a claimed row, in the form that the store reads.
"createdAt", 0, {message_id}, {topic}, '', '', "pKey", '{}', NULL, payload
