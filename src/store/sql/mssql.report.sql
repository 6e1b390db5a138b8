--
-- Parts that leases and relays on SQL Server share.  Files include it behind mssql.own.sql.

-- part: now
SYSUTCDATETIME()

-- part: until
-- Time when a claim or a lease of that length ends.  DATEADD takes 32 bits, so days and the milliseconds
-- of a day are added separately.
DATEADD(MILLISECOND, CAST(:lasts % 86400000 AS INT), DATEADD(DAY,
  CAST((CASE WHEN :lasts < 3153600000000 THEN :lasts ELSE 3153600000000 END) / 86400000 AS INT),
  SYSUTCDATETIME()))

-- part: ended
-- Time by which every lease has ended.
CAST(N'1970-01-01' AS DATETIME2(3))

-- part: lasts
-- Most milliseconds that a lease lasts from now on.  A row without a valid length gets the longest one.
CASE WHEN {.}lasts > 0 AND {.}lasts <= 3153600000000 THEN {.}lasts ELSE 3660000 END

-- part: next_epoch
-- The number of a row, or a limit if its value is near an end of the range
-- (no_value_in_a_lease_stops_the_next_relay).
CASE WHEN {.}epoch >= 0 AND {.}epoch < 4611686018427387904 THEN {.}epoch + 1 ELSE 1 END

-- part: next_control
CASE WHEN control_version < 9223372036854775807 THEN control_version + 1 ELSE 0 END

-- part: unclean_ends
-- Unclean ends in a row.
CASE WHEN {.}unclean < 0 THEN 0 WHEN {.}unclean > 1000000 THEN 1000000 ELSE {.}unclean END

-- part: in_flight
-- Number of messages that the last holder may have had in flight.
CASE WHEN {.}win < 0 THEN 0 WHEN {.}win > 1000000 THEN 1000000 ELSE {.}win END

-- part: cut
-- Shorten leases that were taken or renewed while the clock was ahead, before it was set back: they would last
-- as long as it was ahead, although their relays may have ended.  A live relay renews its lease within the time
-- that is left (a_lease_from_a_clock_ahead_ends_in_its_time).
UPDATE s SET expires_at = DATEADD(MILLISECOND, CAST({lasts:s} % 86400000 AS INT),
                                  DATEADD(DAY, CAST({lasts:s} / 86400000 AS INT), {now}))
FROM {wherry_lease} AS s
WHERE s.outbox = :name AND DATEDIFF_BIG(MILLISECOND, {now}, s.expires_at) > {lasts:s}

-- part: error_time
DATEADD(MILLISECOND, -CAST(:error_age % 86400000 AS INT), DATEADD(DAY,
  -CAST((CASE WHEN :error_age < 3153600000000 THEN :error_age ELSE 3153600000000 END) / 86400000 AS INT),
  SYSUTCDATETIME()))

-- part: delivered_time
DATEADD(MILLISECOND, -CAST(:delivered_age % 86400000 AS INT), DATEADD(DAY,
  -CAST((CASE WHEN :delivered_age < 3153600000000 THEN :delivered_age ELSE 3153600000000 END) / 86400000 AS INT),
  SYSUTCDATETIME()))

-- part: counted
-- Report of a relay.  Ages are in milliseconds; below 0: nothing new to report.
delivered = :delivered,
  error = CASE WHEN :error_age < 0 THEN error ELSE :error END,
  error_at = CASE WHEN :error_age < 0 THEN error_at ELSE {error_time} END,
  delivered_at = CASE WHEN :delivered_age < 0 THEN delivered_at ELSE {delivered_time} END

-- part: reported
-- Columns of the report that a relay writes with each renewal.
state_since = CASE WHEN state = :state THEN state_since ELSE {now} END,
  state = :state, destination = :destination, {counted}

-- part: got
-- Rows that the statement took: OUTPUT without INTO fails on a table with triggers.
DECLARE @got TABLE (outbox NVARCHAR(128) COLLATE Latin1_General_BIN2 NOT NULL, epoch BIGINT NOT NULL,
                    suspects BIGINT NOT NULL)

-- part: holder
-- The holder of a lease, and its last report.
owner, DATEDIFF_BIG(MILLISECOND, {now}, expires_at), epoch, engine, process, state,
  DATEDIFF_BIG(MILLISECOND, state_since, {now}), destination, delivered,
  DATEDIFF_BIG(MILLISECOND, delivered_at, {now}), error, DATEDIFF_BIG(MILLISECOND, error_at, {now}),
  CASE WHEN lasts > 0 AND lasts <= 3153600000000 THEN lasts ELSE 3660000 END

-- part: asked_of_relays
SELECT CASE WHEN paused_at IS NULL THEN 0 ELSE 1 END, control_version
FROM {wherry_outbox} WHERE name = :name

-- part: look_again
UPDATE {wherry_outbox} SET control_version = {next_control} WHERE name = :name

-- part: set_pause
UPDATE {wherry_outbox} SET control_version = {next_control},
  paused_at = CASE WHEN :on <> 0 THEN COALESCE(paused_at, {now}) END
WHERE name = :name
