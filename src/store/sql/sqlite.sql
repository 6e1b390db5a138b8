--
-- Expressions that statements on SQLite share.

-- part: now
-- A sum has no affinity: that of a column would keep SQLite from using the index over an
-- expression for more than its first term, and all that is not due would be looked at
-- (what_is_not_due_is_not_looked_at).
((SELECT ms FROM wherry_clock) + 0)

-- part: due
-- As the index of rows that wait for a time says it.  What is not an integer, or is after the
-- year 9999, is no time: the row is due.
(CASE WHEN typeof({.}next_retry_at) = 'integer' AND {.}next_retry_at < 253402300800000
      THEN {.}next_retry_at ELSE 0 END)

-- part: reported
-- What a relay says of itself with each renewal.  Ages are in milliseconds; below 0: there is
-- nothing new to say.
state_since = CASE WHEN state = :state THEN state_since ELSE (SELECT ms FROM wherry_clock) END,
  state = :state, destination = :destination, delivered = :delivered,
  error = CASE WHEN :error_age < 0 THEN error ELSE :error END,
  error_at = CASE WHEN :error_age < 0 THEN error_at
                  ELSE (SELECT ms FROM wherry_clock) - :error_age END,
  delivered_at = CASE WHEN :delivered_age < 0 THEN delivered_at
                      ELSE (SELECT ms FROM wherry_clock) - :delivered_age END
