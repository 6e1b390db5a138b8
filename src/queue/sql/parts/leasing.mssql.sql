--
-- Columns that a receive under a lease writes to a row, in the tables of all layouts.

-- part: again
-- Attempts of a row that is received.
CASE WHEN {.}attempts < 0 THEN 1 WHEN {.}attempts < 1000000000 THEN {.}attempts + 1 ELSE 1000000000 END

-- part: dies
-- Condition: the message has had all its attempts.  The receiver sets the number, or else the last receiver or the
-- sender did.
({.}attempts > 0 AND {.}attempts >= CASE WHEN @most > 0 THEN @most ELSE {.}max_attempts END)

-- part: dies_or_leased
-- A message that has had all its attempts becomes dead, since it may have crashed its receivers.  Otherwise the attempt
-- is counted before it is made.  The row keeps the maximum, so that giving the message back can make it dead.
state = CASE WHEN {dies:.} THEN 4 ELSE 1 END,
    attempts = CASE WHEN {dies:.} THEN {.}attempts ELSE {again:.} END,
    max_attempts = CASE WHEN @most > 0 THEN @most ELSE {.}max_attempts END,
    lease_token = CASE WHEN {dies:.} THEN NULL ELSE @token END,
    available_at = CASE WHEN {dies:.} THEN NULL ELSE @until END

-- part: expired_or_due
-- The same columns for a row that was received before.
{dies_or_leased:.},
    last_error = CASE WHEN {.}state = 1 THEN N'its lease expired before it was acknowledged' ELSE {.}last_error END
