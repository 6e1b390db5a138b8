--
-- Parts of a queue's statements on PostgreSQL: how a message is picked, leased, given back and made dead.  The statements of
-- the C library and of relays are made from them, and the SQL functions too, which put their own variables in place of
-- {now}, {until}, {after_delay} and the parameters.

-- part: timed
-- Time from which a row can be received, as an expression of its index.
{.}state OPERATOR(pg_catalog.=) ANY (ARRAY[1, 3])

-- part: seq
-- The id, as an expression of the index of ready rows.
({.}id OPERATOR(pg_catalog.+) 0)

-- part: is_ready
-- Condition: the row is ready and above an id.
{.}state OPERATOR(pg_catalog.=) 0 AND {seq:.} OPERATOR(pg_catalog.>) :after::bigint

-- part: is_due
-- Condition: a delay or a lease has ended.
{timed:.} AND {.}available_at OPERATOR(pg_catalog.<=) {now}

-- part: over
-- Condition: the message has expired and is not dead.
{.}expires_at IS NOT NULL AND {.}state OPERATOR(pg_catalog.<>) 4 AND {.}expires_at OPERATOR(pg_catalog.<=) {now}

-- part: over_and_free
-- Condition: it is not leased either.
{over:.} AND ({.}state OPERATOR(pg_catalog.<>) 1 OR {.}available_at OPERATOR(pg_catalog.<=) {now})

-- part: held
-- Condition: the row is leased, in a form that no index fits.  A statement that has ids must not scan the
-- index of leased rows, which keeps an entry for each acknowledged row until a vacuum
-- (a_settlement_reads_no_rows_but_its_own).
{.}state OPERATOR(pg_catalog.+) 0 OPERATOR(pg_catalog.=) 1

-- part: leased_with
-- Condition: the row, which is found by its id, is leased under the token.
{.}lease_token OPERATOR(pg_catalog.=) :token::pg_catalog.text AND {held:.}

-- part: own
id OPERATOR(pg_catalog.=) ANY ({ids}) AND {leased_with}

-- part: is_long
{.}id OPERATOR(pg_catalog.=) ANY ((SELECT l.ids FROM too_long AS l)::bigint[])

-- part: why_too_long
'the body is over its limit of 67108864 bytes'::pg_catalog.text

-- part: dies
-- Condition: the body is too long, or the message has had all its attempts.  The receiver sets the number, or else the
-- last receiver or the sender did.
({is_long:.} OR coalesce({.}attempts OPERATOR(pg_catalog.>) 0 AND {.}attempts OPERATOR(pg_catalog.>=)
  CASE WHEN :most::bigint OPERATOR(pg_catalog.>) 0 THEN :most::bigint ELSE {.}max_attempts END, false))

-- part: leases
-- A receiver leases the row.  The attempt is counted before it is made.  A message that has had all its attempts becomes dead,
-- since it may have crashed its receivers.  The row keeps the maximum, so that giving the message back can make it
-- dead.
state = CASE WHEN {dies:.} THEN 4 ELSE 1 END,
    last_error = CASE WHEN {is_long:.} THEN {why_too_long}
                      WHEN {.}state OPERATOR(pg_catalog.=) 1 THEN 'its lease expired before it was acknowledged'
                      ELSE {.}last_error END,
    attempts = CASE WHEN {dies:.} THEN {.}attempts ELSE least(greatest({.}attempts, 0), 999999999) OPERATOR(pg_catalog.+) 1 END,
    max_attempts = CASE WHEN :most::bigint OPERATOR(pg_catalog.>) 0 THEN :most::bigint::integer ELSE {.}max_attempts END,
    lease_token = CASE WHEN NOT {dies:.} THEN :token::pg_catalog.text END,
    available_at = CASE WHEN NOT {dies:.} THEN {until} END

-- part: becomes_dead
state = 4, lease_token = NULL, available_at = NULL, last_error =

-- part: is_again_ready
state = 0, lease_token = NULL, available_at = NULL

-- part: spent
-- Condition: this was the last attempt.
coalesce(greatest({.}attempts OPERATOR(pg_catalog.-) :back::integer, 0) OPERATOR(pg_catalog.>=) {.}max_attempts, false)

-- part: comes_back
(:delay::bigint OPERATOR(pg_catalog.>) 0 OR :back::integer OPERATOR(pg_catalog.=) 0)

-- part: comes_back_at
CASE WHEN {comes_back} THEN {after_delay} END

-- part: gives_back
-- A message that is given back waits for its delay, or is due at once.  Receives alternate between due and ready
-- messages, so messages that fail keep no others waiting (a_message_given_back_at_once_keeps_no_other_waiting).  If the
-- attempt is not counted, the message is ready in its old place.  After its last attempt it becomes dead
-- (a_message_given_back_after_its_last_attempt_is_dead).
state = CASE WHEN {spent:.} THEN 4 WHEN {comes_back_at} IS NOT NULL THEN 3 ELSE 0 END,
  available_at = CASE WHEN NOT {spent:.} THEN {comes_back_at} END,
  attempts = greatest({.}attempts OPERATOR(pg_catalog.-) :back::integer, 0),
  lease_token = NULL, last_error = coalesce(:error::pg_catalog.text, {.}last_error,
    CASE WHEN {spent:.} THEN 'it was given back after its last attempt' END)
