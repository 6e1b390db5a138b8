--
-- The relays of a table on PostgreSQL that all relays share, each with a separate row in wherry_lease,
-- and requests of operators.

-- part: moment
statement_timestamp()

-- part: ago
-- The time that many milliseconds ago; NULL if the number is negative.
CASE WHEN {.}age >= 0 THEN {moment} - least({.}age, 3153600000000)::float8 * interval '1 millisecond' END

-- name: join
-- A relay takes its own row again, or that of a relay that has ended, or a new one.  If two relays find
-- the same free row, the second takes a number made from its token, which no other has
-- (each_relay_of_a_queue_is_shown).
WITH free AS (
  SELECT number FROM {wherry_lease}
  WHERE outbox = :name::text AND (members = :token::text OR expires_at <= {moment})
  ORDER BY members = :token::text DESC, expires_at LIMIT 1 FOR UPDATE SKIP LOCKED)
INSERT INTO {wherry_lease} AS s (outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean, win, suspects,
  members, process, state, state_since, destination, delivered, delivered_at, error, error_at)
SELECT :name::text, coalesce((SELECT number FROM free), hashtext(:token::text) & 2147483647),
  'competing', :owner::text, 1, {moment} + least(:lasts::bigint, 3153600000000)::float8 * interval '1 millisecond',
  :lasts::bigint, 1, 0, 1, 0,
  :token::text, :process::text, :state::text, {moment}, :destination::text, :delivered::bigint, {ago:d}, :error::text, {ago:e}
FROM (SELECT :delivered_age::bigint AS age) AS d, (SELECT :error_age::bigint AS age) AS e
ON CONFLICT (outbox, number) DO UPDATE SET
  owner = excluded.owner, expires_at = excluded.expires_at, lasts = excluded.lasts, epoch = greatest(s.epoch, 1::bigint),
  state_since = CASE WHEN s.members = excluded.members AND s.state = excluded.state THEN s.state_since
                     ELSE excluded.state_since END,
  members = excluded.members, process = excluded.process, state = excluded.state, destination = excluded.destination,
  delivered = excluded.delivered, delivered_at = excluded.delivered_at, error = excluded.error,
  error_at = excluded.error_at
RETURNING epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM {wherry_outbox} WHERE name = s.outbox),
  (SELECT control_version FROM {wherry_outbox} WHERE name = s.outbox), 0::bigint, 0::bigint;

-- name: leave
UPDATE {wherry_lease} AS s SET expires_at = {moment}, members = '', state = 'stopped', state_since = {moment},
  delivered = :delivered::bigint, delivered_at = coalesce({ago:d}, s.delivered_at),
  error = CASE WHEN e.age < 0 THEN s.error ELSE :error::text END, error_at = coalesce({ago:e}, s.error_at)
FROM (SELECT :delivered_age::bigint AS age) AS d, (SELECT :error_age::bigint AS age) AS e
WHERE outbox = :name::text AND members = :token::text;

-- name: leases-cut
{cut};

-- name: relays
-- Relays that work, then relays that ended, the last one first.
{reports}
WHERE outbox = :name::text
ORDER BY expires_at > {moment} DESC, CASE WHEN expires_at > {moment} THEN number END, expires_at DESC LIMIT 1000;

-- name: control
SELECT paused_at IS NOT NULL, control_version FROM {wherry_outbox} WHERE name = :name;

-- name: raise-control-version
UPDATE {wherry_outbox} AS s SET control_version = {next_control:s} WHERE name = :name;

-- name: pause
INSERT INTO {wherry_outbox} AS s (name, paused_at, control_version)
VALUES (:name::text, CASE WHEN :on::bigint <> 0 THEN {moment} END, 1)
ON CONFLICT (name) DO UPDATE SET control_version = {next_control:s},
  paused_at = CASE WHEN :on::bigint <> 0 THEN coalesce(s.paused_at, excluded.paused_at) END;

-- part: drop_relays_of_parts
-- Name of a queue in a table with several queues, TABLE:KIND.
DELETE FROM {wherry_lease} WHERE left(outbox, length({name}) + 1) = {name} || ':';
DELETE FROM {wherry_outbox} WHERE left(name, length({name}) + 1) = {name} || ':';

-- part: drop_relays
DELETE FROM {wherry_lease} WHERE outbox = {name};
DELETE FROM {wherry_outbox} WHERE name = {name};
