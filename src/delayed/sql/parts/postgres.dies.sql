--
-- How messages become dead: of the tables of both layouts.

-- part: replaces_dead
-- Behind an insert of a message that is dead now.  A dead one that has its id is an older state of it, or the
-- ids began again: it would keep the message from dying for ever
-- (a_message_that_dies_replaces_a_dead_one_of_its_id).
ON CONFLICT (id) DO UPDATE SET "pKey" = excluded."pKey", "pKind" = excluded."pKind", payload = excluded.payload,
  "scheduledAtInitially" = excluded."scheduledAtInitially", "createdAt" = excluded."createdAt",
  attempts = excluded.attempts, died_at = excluded.died_at, last_error = excluded.last_error
