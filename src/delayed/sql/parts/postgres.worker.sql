--
-- Parts of a delayed queue's statements on PostgreSQL: how a message is offered, picked, leased, given back and made dead.  The
-- statements of the C library and of relays are made from them, and the SQL functions too, which put their own variables in
-- place of {now}, {until}, {after_delay} and the parameters.

-- part: of_kind
{.}"pKind" OPERATOR(pg_catalog.=) :kind::pg_catalog.text

-- part: is_kind
-- The same for rows that are found by their ids, in a form that no other index fits, whatever the
-- statistics are (settling_finds_rows_by_their_ids).
({.}"pKind" OPERATOR(pg_catalog.||) ''::pg_catalog.text) OPERATOR(pg_catalog.=) :kind::pg_catalog.text

-- part: is_due
-- Condition: the message belongs to the queue and can be polled.
{of_kind:.} AND {.}"scheduledAt" OPERATOR(pg_catalog.<=) {now}

-- part: next_version
-- Version that is later than that of m, the message that is replaced, and than now.  m may have the last version.
CASE WHEN m."createdAt" OPERATOR(pg_catalog.<) 253402300799999
     THEN greatest(excluded."createdAt", m."createdAt" OPERATOR(pg_catalog.+) 1)
     ELSE excluded."createdAt" OPERATOR(pg_catalog.+) 1 END

-- part: replaced
-- Columns that an offer changes in the message of its key.  Both times are the same in an offer, and a
-- sender may not read the first, not even of the row that it offers
-- (roles_of_a_delayed_queue_may_do_what_they_need).
payload = excluded.payload, "scheduledAt" = excluded."scheduledAtInitially",
  "scheduledAtInitially" = excluded."scheduledAtInitially", "lockUuid" = NULL,
  "createdAt" = {next_version},
  attempts = 0, updates = least(m.updates, 999999999) OPERATOR(pg_catalog.+) 1,
  due_at = NULL, last_error = NULL
WHERE m.payload OPERATOR(pg_catalog.<>) excluded.payload
  OR m."scheduledAtInitially" OPERATOR(pg_catalog.<>) excluded."scheduledAtInitially"

-- part: leases
"lockUuid" = :token::pg_catalog.text, due_at = {.}"scheduledAt", "scheduledAt" = {until},
  attempts = least({.}attempts, 999999999) OPERATOR(pg_catalog.+) 1,
  last_error = CASE WHEN {.}"lockUuid" IS NOT NULL THEN 'its lease expired before it was acknowledged'
                    ELSE {.}last_error END

-- part: gives_back
-- :back is the number of recorded attempts that were not made; if there are any, the message has its old place.
"scheduledAt" = CASE WHEN :back::integer OPERATOR(pg_catalog.>) 0 THEN coalesce({.}due_at, {now}) ELSE {after_delay} END,
  "lockUuid" = NULL, due_at = NULL, attempts = greatest({.}attempts OPERATOR(pg_catalog.-) :back::integer, 0),
  last_error = coalesce(:error::pg_catalog.text, {.}last_error)

-- part: dead_columns
(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts, died_at, last_error)

-- part: dying
-- The first of them, of a message that becomes dead.
{.}id, {.}"pKey", {.}"pKind", {.}payload, {.}"scheduledAtInitially", {.}"createdAt"
