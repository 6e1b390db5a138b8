--
-- Expressions that statements on SQLite share.

-- part: now
-- A sum has no affinity.  The affinity of a column would keep SQLite from using more than the first term
-- of the index over an expression, and it would read all rows that are not due.
((SELECT ms FROM wherry_clock) + 0)

-- part: due
-- Time of a row, as an expression of the index of rows that wait for a time.  A value that is not an
-- integer, or is after the year 9999, does not count: the row is due.
(CASE WHEN typeof({.}next_retry_at) = 'integer' AND {.}next_retry_at < 253402300800000
      THEN {.}next_retry_at ELSE 0 END)

-- part: counted
-- Report of a relay.  Ages are in milliseconds; below 0: nothing new to report.
delivered = :delivered,
  error = CASE WHEN :error_age < 0 THEN error ELSE :error END,
  error_at = CASE WHEN :error_age < 0 THEN error_at
                  ELSE (SELECT ms FROM wherry_clock) - :error_age END,
  delivered_at = CASE WHEN :delivered_age < 0 THEN delivered_at
                      ELSE (SELECT ms FROM wherry_clock) - :delivered_age END

-- part: reported
-- Columns of the report that a relay writes with each renewal.
state_since = CASE WHEN state = :state THEN state_since ELSE (SELECT ms FROM wherry_clock) END,
  state = :state, destination = :destination, {counted}

-- part: own_tables
-- Wherry's own tables: tables and their versions, requests of operators, leases, and the clock.
CREATE TABLE IF NOT EXISTS wherry_schema(
  model       TEXT NOT NULL,
  name        TEXT NOT NULL COLLATE NOCASE,
  version     INTEGER NOT NULL,
  min_program INTEGER NOT NULL,   -- the oldest program that may still run
  PRIMARY KEY (model, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS wherry_outbox(
  name      TEXT NOT NULL COLLATE NOCASE PRIMARY KEY,
  paused_at INTEGER,              -- relays deliver nothing while set
  control_version INTEGER NOT NULL DEFAULT 0  -- grows when rows changed behind the relay
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS wherry_lease(
  outbox     TEXT NOT NULL COLLATE NOCASE,
  number     INTEGER NOT NULL,
  engine     TEXT NOT NULL,
  owner      TEXT NOT NULL,
  epoch      INTEGER NOT NULL,    -- fences every acknowledgement
  expires_at INTEGER NOT NULL,
  lasts      INTEGER NOT NULL DEFAULT 0,  -- milliseconds, from each renewal on
  clean      INTEGER NOT NULL,    -- given back with nothing in flight
  unclean    INTEGER NOT NULL,    -- unclean ends in a row
  win        INTEGER NOT NULL,    -- messages the holder may have in flight
  suspects   INTEGER NOT NULL,    -- messages to try one at a time
  members    TEXT NOT NULL DEFAULT '',  -- tokens of those that hold it together, ",a,b,"
  process    TEXT NOT NULL DEFAULT '',  -- the holder's, for others on its machine
  state      TEXT NOT NULL DEFAULT '',  -- leading, paused, retrying (the destination), stopped
  state_since INTEGER,
  destination TEXT NOT NULL DEFAULT '', -- scheme and host
  delivered  INTEGER NOT NULL DEFAULT 0,  -- messages, since the lease was taken
  delivered_at INTEGER,                 -- the last one
  error      TEXT NOT NULL DEFAULT '',  -- the last reason why a delivery failed
  error_at   INTEGER,
  PRIMARY KEY (outbox, number)
) WITHOUT ROWID;
CREATE VIEW IF NOT EXISTS wherry_clock(ms) AS
  SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 + 0.5 AS INTEGER);

-- part: lasts
-- Most milliseconds that a lease lasts from now on.  A row without a valid length gets the longest one.
CASE WHEN typeof(lasts) = 'integer' AND lasts > 0 AND lasts <= 3153600000000 THEN lasts ELSE 3660000 END

-- part: cut
-- Shorten leases that were taken or renewed while the clock was ahead, before it was set back: they would last
-- as long as it was ahead, although their relays may have ended.  A live relay renews its lease within the time
-- that is left (a_lease_from_a_clock_ahead_ends_in_its_time).
UPDATE wherry_lease SET expires_at = (SELECT ms FROM wherry_clock) + {lasts}
WHERE outbox = :name AND expires_at > (SELECT ms FROM wherry_clock) + {lasts}

-- part: next_epoch
-- The number of a row, or a limit if its value is near an end of the range.
CASE WHEN typeof(epoch) = 'integer' AND epoch >= 0 AND epoch < 4611686018427387904 THEN epoch + 1 ELSE 1 END

-- part: next_control
CASE WHEN typeof(control_version) = 'integer' AND control_version < 9223372036854775807 THEN control_version + 1 ELSE 0 END

-- part: unclean_ends
-- Unclean ends in a row.
CASE WHEN typeof(unclean) = 'integer' THEN min(max(unclean, 0), 1000000) ELSE 0 END

-- part: in_flight
-- Number of messages that the last holder may have had in flight.
CASE WHEN typeof(win) = 'integer' THEN min(max(win, 0), 1000000) ELSE 0 END

-- part: column_names
-- Columns of an existing table; no rows if the table does not exist.
SELECT name FROM pragma_table_info(:name)

-- part: has_schema
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'wherry_schema'

-- part: drop_own
-- Drop them if no table of Wherry's uses them any more.
DROP VIEW wherry_clock;
DROP TABLE wherry_lease;
DROP TABLE wherry_outbox;
DROP TABLE IF EXISTS wherry_subscription;
DROP TABLE wherry_schema;
