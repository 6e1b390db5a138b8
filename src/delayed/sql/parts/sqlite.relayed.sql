--
-- Columns that relays read of a delayed queue, in the tables of both layouts.

-- part: message_id
-- Message id of a row for a relay.  A row that an offer changes is another message with the same id.
("pKind" || '-' || id || '-' || "createdAt")

-- part: claimed_until
min({now} + min(:lasts, 3153600000000), 253402300799999)

-- part: due_now
-- Condition: the message belongs to the queue that is relayed.
"pKind" = {kind} AND "scheduledAt" <= {now}

-- part: relayed
-- Columns of a claimed row, in the form that the store reads.
"createdAt", 0, {message_id}, {topic}, '', '', "pKey", '{}', NULL, payload
