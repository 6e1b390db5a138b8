--
-- The lease of a table on SQLite whose relays work under one, and requests of operators.  Files include it behind
-- sqlite.sql and their part "ends", which has the first and the last pending id.

-- part: holds
-- Condition: the caller holds this lease.  The epoch alone does not prove it: a restore may bring back the
-- row of a time before the last take-over, and then the next relay gets the same epoch again
-- (two_relays_never_lead_under_one_epoch).  So the row has a random token of its holder.
outbox = :name AND number = :number AND epoch = :epoch AND members = :holder
  AND expires_at > (SELECT ms FROM wherry_clock)

-- name: lease
-- Take the lease if it is free or has expired, by the database's clock.  The epoch grows, so the
-- database refuses later writes of the last holder (a_second_relay_takes_over_when_…).
-- After the second unclean end in a row, and each further one, as many messages are suspects as the
-- relay may have had in flight (suspects_are_never_more_than_the_window): its window, or a group of 256, then of 16
-- suspects (suspects_become_fewer_with_each_unclean_end).  A relay that marks no rows begins again at its
-- position, which may be further back, so its number doubles each time.
INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean, win,
                        suspects, members, process, state, state_since, destination)
VALUES (:name, :number, :engine, :owner, 1, (SELECT ms FROM wherry_clock) + :lasts, :lasts, 0, 0, :window,
        0, :holder, :process, 'leading', (SELECT ms FROM wherry_clock), :destination)
ON CONFLICT (outbox, number) DO UPDATE SET
  engine = excluded.engine, owner = excluded.owner, epoch = {next_epoch},
  expires_at = excluded.expires_at, lasts = excluded.lasts, clean = 0, win = excluded.win,
  members = excluded.members, process = excluded.process, state = excluded.state,
  state_since = excluded.state_since, destination = excluded.destination, delivered = 0, error = '', error_at = NULL,
  unclean = CASE WHEN clean THEN 0 ELSE {unclean_ends} + 1 END,
  suspects = CASE WHEN clean OR {unclean_ends} = 0 THEN 0
                  WHEN engine = 'stream' THEN min({in_flight} << min({unclean_ends} - 1, 16), 1000000)
                  ELSE min({in_flight}, CASE {unclean_ends} WHEN 1 THEN 1000000 WHEN 2 THEN 256 ELSE 16 END) END
  WHERE expires_at <= (SELECT ms FROM wherry_clock)
RETURNING epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM wherry_outbox WHERE name = :name),
  (SELECT control_version FROM wherry_outbox WHERE name = :name),
  {ends};

-- name: lease-holder
SELECT owner, expires_at - (SELECT ms FROM wherry_clock), epoch, engine, process, state,
  (SELECT ms FROM wherry_clock) - state_since, destination, delivered,
  (SELECT ms FROM wherry_clock) - delivered_at, error, (SELECT ms FROM wherry_clock) - error_at, {lasts}
FROM wherry_lease WHERE outbox = :name AND number = :number;

-- name: leases-cut
{cut};

-- name: lease-orphaned
-- End the lease at once, because the process that holds it has ended.
UPDATE wherry_lease SET expires_at = 0
WHERE outbox = :name AND number = :number AND epoch = :epoch;

-- name: renew
-- Renew the lease, and read what a relay without notifications polls.  An expired lease is not renewed.
-- A relay that was asked to stop records it, so that its messages in flight do not become suspects if it
-- is killed (a_relay_that_is_killed_while_it_stops_leaves_no_suspects).  If no suspect is left (0), the next
-- unclean end is the first one again.  If the suspects did no harm (-1), it is the second.
UPDATE wherry_lease SET clean = (:state = 'stopping'),
  expires_at = (SELECT ms FROM wherry_clock) + :lasts, lasts = :lasts,
  unclean = CASE WHEN :suspects = 0 THEN 0 WHEN :suspects < 0 THEN min({unclean_ends}, 1) ELSE unclean END,
  {reported}
WHERE {holds}
RETURNING epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM wherry_outbox WHERE name = :name),
  (SELECT control_version FROM wherry_outbox WHERE name = :name),
  {ends};

-- name: control
SELECT paused_at IS NOT NULL, control_version FROM wherry_outbox WHERE name = :name;

-- name: release
UPDATE wherry_lease SET expires_at = 0, clean = 1, unclean = 0, state = 'stopped',
  state_since = (SELECT ms FROM wherry_clock), {counted}
WHERE {holds};

-- name: fence
-- First statement in every transaction of a relay.  If it returns no row, the relay changes nothing
-- (STALE).  Claims have their own expiry, so of a shared lease only the epoch is compared.
SELECT 1 FROM wherry_lease WHERE CASE WHEN :shared
  THEN outbox = :name AND number = :number AND epoch = :epoch ELSE {holds} END;

-- name: raise-control-version
UPDATE wherry_outbox SET control_version = {next_control} WHERE name = :name;

-- name: pause
UPDATE wherry_outbox SET control_version = {next_control},
  paused_at = CASE WHEN :on THEN coalesce(paused_at, (SELECT ms FROM wherry_clock)) END
WHERE name = :name;
