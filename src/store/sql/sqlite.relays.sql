--
-- The relays of a table on SQLite that all relays share, each with a separate row in wherry_lease, and
-- requests of operators.

-- name: join
-- A relay takes its own row again, or that of a relay that has ended, or a new one.  SQLite has one
-- writer at a time, so two relays never take the same row (each_relay_of_a_queue_is_shown).
INSERT INTO wherry_lease(outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean, win, suspects,
                         members, process, state, state_since, destination, delivered, delivered_at, error, error_at)
SELECT :name, coalesce(
    (SELECT number FROM wherry_lease WHERE outbox = :name AND members = :token),
    (SELECT number FROM wherry_lease WHERE outbox = :name AND expires_at <= {now} ORDER BY expires_at, number LIMIT 1),
    (SELECT max(number) + 1 FROM wherry_lease WHERE outbox = :name), 1),
  'competing', :owner, 1, {now} + :lasts, :lasts, 1, 0, 1, 0,
  :token, :process, :state, {now}, :destination, :delivered, CASE WHEN :delivered_age >= 0 THEN {now} - :delivered_age END,
  :error, CASE WHEN :error_age >= 0 THEN {now} - :error_age END
WHERE true
ON CONFLICT (outbox, number) DO UPDATE SET
  owner = excluded.owner, expires_at = excluded.expires_at, lasts = excluded.lasts,
  state_since = CASE WHEN members = excluded.members AND state = excluded.state THEN state_since
                     ELSE excluded.state_since END,
  members = excluded.members, process = excluded.process, state = excluded.state, destination = excluded.destination,
  delivered = excluded.delivered, delivered_at = excluded.delivered_at, error = excluded.error,
  error_at = excluded.error_at
RETURNING epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM wherry_outbox WHERE name = :name),
  (SELECT control_version FROM wherry_outbox WHERE name = :name), 0, 0;

-- name: leave
UPDATE wherry_lease SET expires_at = {now}, members = '', state = 'stopped', state_since = {now}, {counted}
WHERE outbox = :name AND members = :token;

-- name: leases-cut
{cut};

-- name: relays
-- Relays that work, then relays that ended, the last one first.
SELECT owner, expires_at - {now}, epoch, engine, process, state, {now} - state_since, destination, delivered,
  {now} - delivered_at, error, {now} - error_at, {lasts}
FROM wherry_lease WHERE outbox = :name
ORDER BY CASE WHEN expires_at > {now} THEN number END NULLS LAST, expires_at DESC LIMIT 1000;

-- name: control
SELECT paused_at IS NOT NULL, control_version FROM wherry_outbox WHERE name = :name;

-- name: raise-control-version
UPDATE wherry_outbox SET control_version = {next_control} WHERE name = :name;

-- name: pause
INSERT INTO wherry_outbox(name, paused_at, control_version) VALUES (:name, CASE WHEN :on THEN {now} END, 1)
ON CONFLICT (name) DO UPDATE SET control_version = {next_control},
  paused_at = CASE WHEN :on THEN coalesce(paused_at, excluded.paused_at) END;

-- part: drop_relays_of_parts
-- Name of a queue in a table with several queues, TABLE:KIND.
DELETE FROM wherry_lease WHERE substr(outbox, 1, length({name}) + 1) = {name} || ':';
DELETE FROM wherry_outbox WHERE substr(name, 1, length({name}) + 1) = {name} || ':';

-- part: drop_relays
DELETE FROM wherry_lease WHERE outbox = {name};
DELETE FROM wherry_outbox WHERE name = {name};
