--
-- The lease of a table on PostgreSQL whose relays work under one.  Files include it behind
-- postgres.own.sql and their part "ends", which has the first and the last pending id.

-- part: now
statement_timestamp()

-- part: until
-- Time when a claim or a lease of that length ends.
statement_timestamp() + least(:lasts::bigint, 3153600000000)::float8 * interval '1 millisecond'

-- part: taken
-- Columns of the report that a new holder writes.
members = excluded.members, process = excluded.process, state = excluded.state, state_since = excluded.state_since,
  destination = excluded.destination, delivered = 0, error = '', error_at = NULL

-- part: counted
-- Report of a relay.  Ages are in milliseconds; below 0: nothing new to report.
delivered = :delivered::bigint,
  error = CASE WHEN :error_age::bigint < 0 THEN s.error ELSE :error::text END,
  error_at = CASE WHEN :error_age::bigint < 0 THEN s.error_at ELSE {now}
             - least(:error_age::bigint, 3153600000000)::float8 * interval '1 millisecond' END,
  delivered_at = CASE WHEN :delivered_age::bigint < 0 THEN s.delivered_at ELSE {now}
             - least(:delivered_age::bigint, 3153600000000)::float8 * interval '1 millisecond'
             END

-- part: reported
-- Columns of the report that a relay writes with each renewal.
state_since = CASE WHEN s.state = :state::text THEN s.state_since ELSE {now} END,
  state = :state::text, destination = :destination::text, {counted}

-- part: alone
-- Condition: no live relay has a share of the partitions (a_whole_lease_and_shares_keep_each_other_out).
NOT EXISTS (SELECT 1 FROM {wherry_lease} AS o
            WHERE o.outbox = :name AND o.number > 0 AND o.expires_at > {now})

-- part: holds
-- Condition: the caller holds this lease.  The epoch alone does not prove it: a restore or a failover may
-- bring back the row of a time before the last take-over, and then the next relay gets the same epoch
-- again (two_relays_never_lead_under_one_epoch).  So the row has a random token of its holder.
outbox = :name AND number = :number AND epoch = :epoch AND members = :holder::text
  AND expires_at > {now}

-- part: stops
-- Condition: the relay was asked to stop, so its end is not a crash, however it ends.
clean = CASE WHEN :state::text = 'stopping' THEN 1 ELSE 0 END

-- name: lease
-- Take the lease if it is free or has expired, by the database's clock.  The epoch grows, so the
-- database refuses later writes of the last holder (a_second_relay_takes_over_when_…).
-- After the second unclean end in a row, and each further one, as many messages are suspects as the
-- relay may have had in flight (suspects_are_never_more_than_the_window): its window, or a group of 256, then of 16
-- suspects (suspects_become_fewer_with_each_unclean_end).  A relay that marks no rows begins again at its
-- position, which may be further back, so its number doubles each time.
INSERT INTO {wherry_lease} AS s (outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean,
                              win, suspects, members, process, state, state_since, destination)
SELECT :name::text, :number::integer, :engine::text, :owner::text, 1, {until}, :lasts::bigint, 0, 0,
  :window::bigint, 0, :holder::text, :process::text, 'leading', {now}, :destination::text
WHERE {alone}
ON CONFLICT (outbox, number) DO UPDATE SET
  engine = excluded.engine, owner = excluded.owner, epoch = {next_epoch:s},
  expires_at = excluded.expires_at, lasts = excluded.lasts, clean = 0, win = excluded.win, mask = -1, {taken},
  unclean = CASE WHEN s.clean <> 0 THEN 0 ELSE {unclean_ends:s} + 1 END,
  suspects = CASE WHEN s.clean <> 0 OR s.unclean <= 0 THEN 0
                  WHEN s.engine = 'stream' THEN least({in_flight:s} << least({unclean_ends:s} - 1, 16), 1000000)
                  ELSE least({in_flight:s}, CASE {unclean_ends:s} WHEN 1 THEN 1000000 WHEN 2 THEN 256 ELSE 16 END) END
  WHERE s.expires_at <= {now}
RETURNING epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM {wherry_outbox} WHERE name = s.outbox),
  (SELECT control_version FROM {wherry_outbox} WHERE name = s.outbox),
  {ends};

-- name: lease-holder
{holder};

-- name: leases-cut
{cut};

-- name: lease-orphaned
-- End the lease at once, because the process that holds it has ended.
UPDATE {wherry_lease} SET expires_at = '1970-01-01 00:00:00+00'
WHERE outbox = :name AND number = :number AND epoch = :epoch;

-- part: session
-- The lock of the session of a lease's holder; see store/sessions.h.
(hashtextextended(s.members, 1669::bigint))

-- name: session-hold
SELECT CASE WHEN :before::text <> '' THEN pg_advisory_unlock_shared(hashtextextended(:before::text, 1669::bigint)) END,
  CASE WHEN :holder::text <> '' THEN pg_advisory_lock_shared(hashtextextended(:holder::text, 1669::bigint))::text END;

-- part: lease_end
-- When the lease ends, in microseconds.
(extract(epoch FROM least(s.expires_at, '3000-01-01 00:00:00+00'::timestamptz)) * 1000000::numeric)::bigint

-- name: session-look
-- The locks of the other leases, which end with the statement.  A standby does not know the locks of the primary.
SELECT s.number, s.epoch, {lease_end}, pg_try_advisory_xact_lock{session}::integer, s.owner
FROM {wherry_lease} AS s
WHERE s.outbox = :name AND s.number <> :number AND s.expires_at > {now}
  AND s.members LIKE 's%' AND NOT pg_is_in_recovery();

-- name: session-expire
-- A holder that came back has renewed the lease, and waits for this statement to renew it.
UPDATE {wherry_lease} AS s SET expires_at = '1970-01-01 00:00:00+00'
WHERE s.outbox = :name AND s.number = :number AND s.epoch = :epoch AND s.members LIKE 's%'
  AND {lease_end} = :ends AND pg_try_advisory_xact_lock{session};

-- name: lineage
{this_server};

-- name: renew
-- Renew the lease, and read what a relay without notifications polls.  An expired lease is not renewed.
-- A relay that was asked to stop records it, so that its messages in flight do not become suspects if it
-- is killed (a_relay_that_is_killed_while_it_stops_leaves_no_suspects).  If no suspect is left (0), the next
-- unclean end is the first one again.  If the suspects did no harm (-1), it is the second.
UPDATE {wherry_lease} AS s SET expires_at = {until}, lasts = :lasts::bigint, {stops},
  unclean = CASE WHEN :suspects::bigint = 0 THEN 0 WHEN :suspects::bigint < 0 THEN least({unclean_ends:s}, 1)
                 ELSE s.unclean END, {reported}
WHERE {holds}
RETURNING epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM {wherry_outbox} WHERE name = s.outbox),
  (SELECT control_version FROM {wherry_outbox} WHERE name = s.outbox),
  {ends};

-- name: control
SELECT paused_at IS NOT NULL, control_version FROM {wherry_outbox} WHERE name = :name;

-- name: release
UPDATE {wherry_lease} AS s SET expires_at = '1970-01-01 00:00:00+00', clean = 1, unclean = 0,
  state = 'stopped', state_since = {now}, {counted}
WHERE {holds};

-- name: fence
-- First statement in every transaction of a relay.  If it returns no row, the relay changes nothing
-- (STALE).  The lock keeps others from taking the lease until the transaction has ended.  Claims have
-- their own expiry, so of a shared lease only the epoch is compared, without waiting.
WITH held AS (
  SELECT 1 FROM {wherry_lease} WHERE :shared::bigint = 0 AND {holds} FOR SHARE)
SELECT 1 FROM held
UNION ALL
SELECT 1 FROM {wherry_lease} WHERE :shared::bigint <> 0 AND outbox = :name AND number = :number
  AND epoch = :epoch;

-- name: is-held
-- The same outside of a transaction, where a lock would end at once, and cost a write to disk.
SELECT 1 FROM {wherry_lease} WHERE outbox = :name AND number = :number AND epoch = :epoch
  AND CASE WHEN :shared::bigint = 0 THEN {holds} ELSE true END;

-- name: raise-control-version
UPDATE {wherry_outbox} AS s SET control_version = {next_control:s} WHERE name = :name;

-- name: pause
UPDATE {wherry_outbox} AS s SET control_version = {next_control:s},
  paused_at = CASE WHEN :on::bigint <> 0 THEN coalesce(paused_at, {now}) END
WHERE name = :name;
