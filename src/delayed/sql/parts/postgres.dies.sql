--
-- Statements that make messages dead, for the tables of both layouts.

-- part: replaces_dead
-- Rest of the INSERT of a message that becomes dead.  A dead message with the same id is an older version of
-- it, or ids were given out again.  It would keep the message from becoming dead for ever
-- (a_message_that_dies_replaces_a_dead_one_of_its_id).
ON CONFLICT (id) DO UPDATE SET "pKey" = excluded."pKey", "pKind" = excluded."pKind", payload = excluded.payload,
  "scheduledAtInitially" = excluded."scheduledAtInitially", "createdAt" = excluded."createdAt",
  attempts = excluded.attempts, died_at = excluded.died_at, last_error = excluded.last_error
