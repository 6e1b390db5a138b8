--
-- The relays of a table on SQL Server that all relays share, each with a separate row in wherry_lease,
-- and requests of operators.  Files include it behind mssql.report.sql.

-- name: join
-- A relay takes its own row again, or that of a relay that has ended, or a new one.  If two relays find
-- the same free row, the second takes a number made from its token, which no other has
-- (each_relay_of_a_queue_is_shown).
{got};
DECLARE @free INT = (
  SELECT TOP (1) number FROM {wherry_lease} WITH (READCOMMITTEDLOCK)
  WHERE outbox = :name AND (members = :token OR expires_at <= {now})
  ORDER BY CASE WHEN members = :token THEN 0 ELSE 1 END, expires_at);
UPDATE {wherry_lease} SET owner = :owner, expires_at = {until}, lasts = :lasts,
  state_since = CASE WHEN members = :token AND state = :state THEN state_since ELSE {now} END,
  members = :token, process = :process, state = :state, destination = :destination, delivered = :delivered,
  delivered_at = CASE WHEN :delivered_age >= 0 THEN {delivered_time} END,
  error = :error, error_at = CASE WHEN :error_age >= 0 THEN {error_time} END
OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
WHERE outbox = :name AND number = @free AND (members = :token OR expires_at <= {now});
IF NOT EXISTS (SELECT 1 FROM @got)
  INSERT INTO {wherry_lease}(outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean, win, suspects,
    members, process, state, state_since, destination, delivered, delivered_at, error, error_at)
  OUTPUT inserted.outbox, inserted.epoch, inserted.suspects INTO @got(outbox, epoch, suspects)
  VALUES (:name, CAST(SUBSTRING(HASHBYTES('SHA2_256', :token), 1, 4) AS INT) & 2147483647, N'competing', :owner,
    1, {until}, :lasts, 1, 0, 1, 0, :token, :process, :state, {now}, :destination, :delivered,
    CASE WHEN :delivered_age >= 0 THEN {delivered_time} END,
    :error, CASE WHEN :error_age >= 0 THEN {error_time} END);
SELECT g.epoch, g.suspects, CASE WHEN w.paused_at IS NULL THEN 0 ELSE 1 END, w.control_version, 0, 0
FROM @got AS g LEFT JOIN {wherry_outbox} AS w ON w.name = g.outbox;

-- name: leave
UPDATE {wherry_lease} SET expires_at = {now}, members = N'', state = N'stopped', state_since = {now}, {counted}
WHERE outbox = :name AND members = :token;

-- name: leases-cut
{cut};

-- name: relays
-- Relays that work, then relays that ended, the last one first.
SELECT TOP (1000) {holder}
FROM {wherry_lease} WHERE outbox = :name
ORDER BY CASE WHEN expires_at > {now} THEN 0 ELSE 1 END, CASE WHEN expires_at > {now} THEN number END, expires_at DESC;

-- name: control
{asked_of_relays};

-- name: raise-control-version
{look_again};

-- name: pause
-- UPDLOCK, HOLDLOCK: if two relays find no row, the second waits for the first and then finds its row.
SET NOCOUNT ON;
INSERT INTO {wherry_outbox}(name)
SELECT :name WHERE NOT EXISTS (SELECT 1 FROM {wherry_outbox} WITH (UPDLOCK, HOLDLOCK) WHERE name = :name);
SET NOCOUNT OFF;
{set_pause};

-- part: drop_relays_of_parts
-- Name of a queue in a table with several queues, TABLE:KIND.
DELETE FROM {wherry_lease} WHERE LEFT(outbox, LEN(N{name}) + 1) = N{name} + N':';
DELETE FROM {wherry_outbox} WHERE LEFT(name, LEN(N{name}) + 1) = N{name} + N':';

-- part: drop_relays
DELETE FROM {wherry_lease} WHERE outbox = N{name};
DELETE FROM {wherry_outbox} WHERE name = N{name};
