-- layout: name=funfix names=qualified wakes=no columns=id,pKey,pKind,payload,scheduledAt,scheduledAtInitially,lockUuid,createdAt,!attempts
--
-- The table of the JVM library DelayedQueue (Funfix) on PostgreSQL, as the library makes it.  Wherry
-- adds nothing to it, and the library may work on it at the same time.  The native layout has the same
-- eight columns, and explains them.
--
-- The table cannot store attempts, errors and dead messages.  Two tables of Wherry's beside it have
-- them.  TABLE_tries has a row for each message that was polled again or given back; "version" is the
-- "createdAt" that the row applies to.  A message without such a row was polled once if it has a token
-- or a later time than it was offered with, else never.  So an offer and a first poll write only to
-- the library's table.  TABLE_dead has the dead messages.
--
-- The library does not use TABLE_tries.  If it replaces a message, the row there no longer applies,
-- since its version differs.  If it deletes a message, the row stays until an acknowledgement deletes
-- such rows.  It does no harm, since an id is given out once.
--
-- Statements up to "drop-key" run in transactions of the application, with its search path:
-- their functions and operators are qualified (polling_is_safe_though_pg_catalog_comes_last).

-- include: postgres.times.sql

-- part: of_kind
{.}"pKind"::pg_catalog.text OPERATOR(pg_catalog.=) :kind::pg_catalog.text

-- part: is_kind
-- The same for rows that are found by their ids, in a form that no index over "pKind" fits.
({.}"pKind"::pg_catalog.text OPERATOR(pg_catalog.||) ''::pg_catalog.text) OPERATOR(pg_catalog.=) :kind::pg_catalog.text

-- name: migrate-lock
-- If two programs migrate at the same time, the second waits and then finds the work done.
SELECT pg_advisory_xact_lock(7810779305);

-- name: owners
-- Wherry's table beside it, if it belongs to another role.
SELECT 'table ' || c.relname::pg_catalog.text, c.relowner::regrole::pg_catalog.text
FROM pg_class AS c
JOIN pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_roles AS me ON me.rolname = current_user
WHERE c.oid = ANY (ARRAY[to_regclass({'table_dead}), to_regclass({'table_tries})]::pg_catalog.oid[]) AND c.relowner <> me.oid
  AND NOT CASE WHEN me.rolsuper
    THEN pg_has_role(c.relowner, n.nspowner, 'MEMBER')
         OR (SELECT rolsuper FROM pg_roles WHERE oid = c.relowner)
    ELSE pg_has_role(c.relowner, 'USAGE') END
LIMIT 1;

-- part: dead_fits
-- Condition: the table can store the dead message d again.
d.id < 4611686018427387904 AND char_length(d."pKey") <= 200

-- include: postgres.citus.sql

-- name: migrate-1
{undistributed}
CREATE TABLE IF NOT EXISTS {table}(
  id          BIGSERIAL PRIMARY KEY,
  "pKey"      VARCHAR(200) NOT NULL,
  "pKind"     VARCHAR(100) NOT NULL,
  payload     BYTEA NOT NULL,
  "scheduledAt"          BIGINT NOT NULL,
  "scheduledAtInitially" BIGINT NOT NULL,
  "lockUuid"  VARCHAR(36),
  "createdAt" BIGINT NOT NULL
);
-- The library's migration leaves an existing table unchanged, so a missing index is made here.  An
-- index that begins with these columns may have any name.
DO $do$
DECLARE
  wanted text[];
BEGIN
  FOREACH wanted SLICE 1 IN ARRAY ARRAY[
    ['UNIQUE', '__KeyPlusKindUniqueIndex', 'pKey', 'pKind'],
    ['', '__KindPlusScheduledAtIndex', 'pKind', 'scheduledAt'],
    ['', '__LockUuidPlusIdIndex', 'lockUuid', 'id']]
  LOOP
    IF NOT EXISTS (
      SELECT 1 FROM pg_index AS x
      WHERE x.indrelid = {'table}::pg_catalog.regclass::pg_catalog.oid AND x.indisvalid AND x.indpred IS NULL
        AND (x.indisunique OR wanted[1] = '')
        AND ARRAY(SELECT a.attname::pg_catalog.text FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS k(number, nth)
                  JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = k.number
                  WHERE k.nth <= 2 ORDER BY k.nth)
          = wanted[3:4])
    THEN
      EXECUTE format('CREATE %s INDEX %I ON %s(%I, %I)', wanted[1],
        left({name}, 63 - length(wanted[2])) || wanted[2], {'table}, wanted[3], wanted[4]);
    END IF;
  END LOOP;
END $do$;
CREATE TABLE IF NOT EXISTS {table_dead}(
  id          bigint PRIMARY KEY,
  "pKey"      text COLLATE "C" NOT NULL,
  "pKind"     text COLLATE "C" NOT NULL,
  payload     bytea NOT NULL,
  "scheduledAtInitially" bigint NOT NULL,
  "createdAt" bigint NOT NULL,
  attempts    integer NOT NULL,
  died_at     bigint NOT NULL,
  last_error  text
);
CREATE INDEX IF NOT EXISTS {bare_dead_kind} ON {table_dead}("pKind", id);
CREATE TABLE IF NOT EXISTS {table_tries}(
  id         bigint PRIMARY KEY,
  version    bigint NOT NULL,   -- "createdAt" of the message
  attempts   integer NOT NULL CHECK (attempts BETWEEN 0 AND 1000000000),
  due_at     bigint,            -- "scheduledAt" before the last poll
  last_error text
);

-- name: schema-version
-- The columns and their types identify this layout.
SELECT 1, 100
WHERE 8 = (SELECT count(*) FROM pg_catalog.pg_attribute AS a
           JOIN (VALUES ('id', 'bigint'), ('pKey', 'character varying'), ('pKind', 'character varying'),
                        ('payload', 'bytea'), ('scheduledAt', 'bigint'), ('scheduledAtInitially', 'bigint'),
                        ('lockUuid', 'character varying'), ('createdAt', 'bigint')) AS c(name, type)
             ON a.attname::pg_catalog.text = c.name AND format_type(a.atttypid, NULL) = c.type
           WHERE a.attrelid = to_regclass({'table})::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped)
  AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_attribute AS a
                  WHERE a.attrelid = to_regclass({'table})::pg_catalog.oid AND a.attname = 'attempts' AND NOT a.attisdropped);

-- name: columns
SELECT attname::pg_catalog.text FROM pg_attribute
WHERE attrelid = to_regclass({'schema.} || quote_ident(:name::pg_catalog.text))::pg_catalog.oid AND attnum > 0 AND NOT attisdropped;

-- name: indexes-missing
-- Also when a table of Wherry's, or an index on these columns, is missing.
SELECT (SELECT count(*) FROM unnest(ARRAY[{'table_dead}, {'table_dead_kind}, {'table_tries}]) AS t(name)
        WHERE to_regclass(t.name) IS NULL)
  + (SELECT count(*) FROM (VALUES (ARRAY['pKey', 'pKind']), (ARRAY['pKind', 'scheduledAt']), (ARRAY['lockUuid', 'id'])) AS w(columns)
     WHERE NOT EXISTS (
       SELECT 1 FROM pg_index AS x
       WHERE x.indrelid = to_regclass({'table})::pg_catalog.oid AND x.indisvalid AND x.indpred IS NULL
         AND ARRAY(SELECT a.attname::pg_catalog.text FROM unnest(x.indkey::int2[]) WITH ORDINALITY AS k(number, nth)
                   JOIN pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = k.number ORDER BY k.nth)
           = w.columns));

-- part: next_version
-- Version that is later than that of m, the message that is replaced, and than now.  m may have the last version.
CASE WHEN m."createdAt" OPERATOR(pg_catalog.<) 253402300799999
     THEN greatest(excluded."createdAt", m."createdAt" OPERATOR(pg_catalog.+) 1)
     ELSE excluded."createdAt" OPERATOR(pg_catalog.+) 1 END

-- part: replaced
payload = excluded.payload, "scheduledAt" = excluded."scheduledAtInitially",
  "scheduledAtInitially" = excluded."scheduledAtInitially", "lockUuid" = NULL,
  "createdAt" = {next_version}
WHERE m.payload OPERATOR(pg_catalog.<>) excluded.payload
  OR m."scheduledAtInitially" OPERATOR(pg_catalog.<>) excluded."scheduledAtInitially"

-- part: was_there
-- If PostgreSQL updates a row instead of inserting one, it locks it, and the new version of the row has
-- that lock in xmax.  A row that was inserted has no xmax
-- (of_many_offers_of_one_key_one_creates_it).
(m.xmax::pg_catalog.text OPERATOR(pg_catalog.<>) '0')::integer

-- part: offered
INSERT INTO {table} AS m("pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
SELECT :key::pg_catalog.text, :kind::pg_catalog.text, :body::pg_catalog.bytea, t.due, t.due, {now}
FROM (SELECT coalesce(:at::bigint, {after_delay})) AS t(due)
ON CONFLICT ("pKey", "pKind")

-- name: offer
-- Returns 0 if the message was created, 1 if it was replaced, and no row if the key has the same
-- message.  The version always grows, also if the library takes the same time twice
-- (an_acknowledgement_of_a_message_read_before_an_update_in_the_same_millisecond_deletes_nothing).
{offered} DO UPDATE SET {replaced}
RETURNING {was_there};

-- name: offer-absent
{offered} DO NOTHING
RETURNING 0;

-- part: offered_many
-- As in the native layout.
WITH given AS MATERIALIZED (
  SELECT pg_catalog.nextval((SELECT pg_catalog.pg_get_serial_sequence({'table}, 'id')::pg_catalog.regclass)) AS id,
    g.key COLLATE pg_catalog."C" AS key, pg_catalog.substr(:bodies::pg_catalog.bytea, g.first, g.bytes) AS body,
    coalesce(g.at, least({now} OPERATOR(pg_catalog.+) least(g.delay, 3153600000000), 253402300799999)) AS due
  FROM pg_catalog.json_to_recordset(:messages::pg_catalog.json)
    AS g(key text, first integer, bytes integer, at bigint, delay bigint))
INSERT INTO {table} AS m(id, "pKey", "pKind", payload, "scheduledAt", "scheduledAtInitially", "createdAt")
SELECT given.id, given.key, :kind::pg_catalog.text, given.body, given.due, given.due, {now}
FROM given ORDER BY given.key
ON CONFLICT ("pKey", "pKind")

-- name: offer-many
{offered_many} DO UPDATE SET {replaced}
RETURNING m."pKey"::pg_catalog.text, {was_there};

-- name: offer-many-absent
{offered_many} DO NOTHING
RETURNING m."pKey"::pg_catalog.text, 0;

-- part: polled_once
-- Number of polls of a message without a row in TABLE_tries, 1 or 0.  A token of a relay, a UUID of
-- version 7, does not count: a relay counts an attempt after it has failed.  Other tokens have version 4.
CASE WHEN {.}"lockUuid" IS NULL THEN ({.}"scheduledAt" OPERATOR(pg_catalog.>) {.}"scheduledAtInitially")::integer
     ELSE (pg_catalog.substr({.}"lockUuid"::pg_catalog.text, 15, 1) OPERATOR(pg_catalog.<>) '7')::integer END

-- part: attempts
coalesce(s.attempts, {polled_once:m})

-- part: shown
m.id, m."pKey"::pg_catalog.text, m."scheduledAtInitially", m."scheduledAt", m."createdAt", s.due_at, {attempts},
  CASE WHEN m."scheduledAt" OPERATOR(pg_catalog.<=) {now} THEN 0 WHEN m."lockUuid" IS NOT NULL THEN 1
       WHEN {attempts} OPERATOR(pg_catalog.>) 0 THEN 3 ELSE 0 END,
  m."lockUuid"::pg_catalog.text, s.last_error, m.payload

-- part: with_tries
{table} AS m LEFT JOIN {table_tries} AS s
  ON s.id OPERATOR(pg_catalog.=) m.id AND s.version OPERATOR(pg_catalog.=) m."createdAt"

-- part: leased
-- Messages that are due, in the order of their times, from …
WITH due AS MATERIALIZED (
  SELECT id, "scheduledAt" AS due_at, "createdAt" AS version, "lockUuid" IS NOT NULL AS expired,
    "lockUuid" IS NOT NULL OR "scheduledAt" OPERATOR(pg_catalog.>) "scheduledAtInitially" AS polled,
    {polled_once} AS attempts
  FROM {table}
  WHERE {of_kind} AND "scheduledAt" OPERATOR(pg_catalog.<=) {now}

-- part: leased_first
-- … up to the limit.
  ORDER BY "pKind", "scheduledAt", id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED),
tried AS (
  INSERT INTO {table_tries} AS s(id, version, attempts, due_at, last_error)
  SELECT d.id, d.version, d.attempts OPERATOR(pg_catalog.+) 1, d.due_at,
    CASE WHEN d.expired THEN 'its lease expired before it was acknowledged' END
  FROM due AS d
  WHERE d.polled OR EXISTS (SELECT 1 FROM {table_tries} AS o WHERE o.id OPERATOR(pg_catalog.=) d.id
                              AND o.version OPERATOR(pg_catalog.=) d.version)
  ON CONFLICT (id) DO UPDATE SET version = excluded.version, due_at = excluded.due_at,
    attempts = CASE WHEN s.version OPERATOR(pg_catalog.=) excluded.version
                    THEN least(s.attempts, 999999999) OPERATOR(pg_catalog.+) 1 ELSE excluded.attempts END,
    last_error = CASE WHEN excluded.last_error IS NOT NULL THEN excluded.last_error
                      WHEN s.version OPERATOR(pg_catalog.=) excluded.version THEN s.last_error END
  RETURNING id, attempts, last_error),
leased AS (
  UPDATE {table} AS m SET "lockUuid" = :token::pg_catalog.text, "scheduledAt" = {until}
  FROM due AS d WHERE m.id OPERATOR(pg_catalog.=) d.id
  RETURNING m.*, d.due_at)
SELECT m.id, m."pKey"::pg_catalog.text, m."scheduledAtInitially", m."scheduledAt", m."createdAt", m.due_at,
  coalesce(s.attempts, 1), 1, m."lockUuid"::pg_catalog.text, s.last_error, m.payload
FROM leased AS m LEFT JOIN tried AS s ON s.id OPERATOR(pg_catalog.=) m.id

-- name: poll
-- Lease messages in one statement.  A message that was polled or given back before gets a row in
-- TABLE_tries; for other messages the statement writes only to the library's table.
{leased}
{leased_first};

-- name: poll-after
-- The same, beginning behind the message that was polled last, so that it does not read index entries of
-- deleted messages before it (a_poll_does_not_read_what_was_polled_before).
{leased}
  AND ROW("scheduledAt", id) OPERATOR(pg_catalog.>) ROW(:after_at::bigint, :after_id::bigint)
{leased_first};

-- part: own
{.}id OPERATOR(pg_catalog.=) ANY ({ids}) AND {.}"lockUuid"::pg_catalog.text OPERATOR(pg_catalog.=) :token::pg_catalog.text AND {is_kind:.}

-- name: ack
WITH gone AS (
  DELETE FROM {table} WHERE {own} RETURNING id),
forgotten AS (
  DELETE FROM {table_tries} WHERE id OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT id FROM gone)))
SELECT id FROM gone;

-- name: ack-read
-- A message that was read, unless an offer has changed it.  The library may write two offers in one millisecond.
WITH gone AS (
  DELETE FROM {table}
  WHERE id OPERATOR(pg_catalog.=) :id::bigint AND "createdAt" OPERATOR(pg_catalog.=) :version::bigint AND {is_kind}
    AND "scheduledAtInitially" OPERATOR(pg_catalog.=) :offered::bigint
  RETURNING id),
forgotten AS (
  DELETE FROM {table_tries} WHERE id OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT id FROM gone)))
SELECT id FROM gone;

-- name: nack
WITH back AS (
  UPDATE {table} SET "scheduledAt" = {after_delay}, "lockUuid" = NULL WHERE {own}
  RETURNING id, "createdAt" AS version),
noted AS (
  INSERT INTO {table_tries} AS s(id, version, attempts, last_error)
  SELECT id, version, 1 OPERATOR(pg_catalog.-) :back::integer, :error::pg_catalog.text FROM back
  ON CONFLICT (id) DO UPDATE SET version = excluded.version, due_at = NULL,
    attempts = CASE WHEN s.version OPERATOR(pg_catalog.=) excluded.version
                    THEN greatest(s.attempts OPERATOR(pg_catalog.-) :back::integer, 0) ELSE excluded.attempts END,
    last_error = CASE WHEN excluded.last_error IS NOT NULL THEN excluded.last_error
                      WHEN s.version OPERATOR(pg_catalog.=) excluded.version THEN s.last_error END)
SELECT id FROM back;

-- name: extend-lease
UPDATE {table} SET "scheduledAt" = {until} WHERE {own} RETURNING id;

-- include: postgres.dies.sql

-- name: make-dead
-- Copy the message to the dead ones; "ack" then deletes it, in the same transaction.  :back is the
-- number of recorded attempts that were not made.
INSERT INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts,
                         died_at, last_error)
SELECT m.id, m."pKey", m."pKind", m.payload, m."scheduledAtInitially", m."createdAt",
  greatest({attempts} OPERATOR(pg_catalog.-) :back::integer, 0), {now}, coalesce(:error::pg_catalog.text, s.last_error)
FROM (SELECT * FROM {table} WHERE {own} FOR UPDATE) AS m LEFT JOIN {table_tries} AS s
  ON s.id OPERATOR(pg_catalog.=) m.id AND s.version OPERATOR(pg_catalog.=) m."createdAt"
{replaces_dead}
RETURNING id;

-- name: forget-strays
-- Rows of messages that were deleted, the oldest first (rows_of_messages_that_the_library_deleted_go_too).
DELETE FROM {table_tries} WHERE id IN (
  SELECT s.id FROM {table_tries} AS s WHERE NOT EXISTS (SELECT 1 FROM {table} AS m WHERE m.id = s.id)
  ORDER BY s.id LIMIT :limit::bigint FOR UPDATE OF s SKIP LOCKED);

-- name: versions
-- Messages that were not settled, because an offer changed them or other consumers have leased them.
SELECT id, "createdAt" FROM {table} WHERE id OPERATOR(pg_catalog.=) ANY ({ids}) AND {is_kind};

-- name: read
SELECT {shown} FROM {with_tries} WHERE {of_kind:m} AND m."pKey"::pg_catalog.text OPERATOR(pg_catalog.=) :key::pg_catalog.text;

-- name: contains
SELECT pg_catalog.count(*) FROM {table} WHERE {of_kind} AND "pKey"::pg_catalog.text OPERATOR(pg_catalog.=) :key::pg_catalog.text;

-- name: drop-key
DELETE FROM {table} WHERE {of_kind} AND "pKey"::pg_catalog.text OPERATOR(pg_catalog.=) :key::pg_catalog.text;

-- part: matching
-- Keys from :prefix up to :prefix_end, except those from :except up to :except_end.  The table's
-- index has the database's collation, so this reads all keys of the queue.
{of_kind:m} AND m."pKey" COLLATE "C" >= :prefix::pg_catalog.text AND m."pKey" COLLATE "C" < :prefix_end::pg_catalog.text
  AND NOT (m."pKey" COLLATE "C" >= :except::pg_catalog.text AND m."pKey" COLLATE "C" < :except_end::pg_catalog.text)
  AND (:untouched::bigint = 0 OR (m."lockUuid" IS NULL AND m."scheduledAt" = m."scheduledAtInitially"
       AND m."scheduledAt" > :untouched::bigint
       AND NOT EXISTS (SELECT 1 FROM {table_tries} AS o WHERE o.id = m.id AND o.version = m."createdAt")))

-- name: drop-keys
-- The statement returns the keys.
DELETE FROM {table} AS m WHERE {matching} RETURNING m."pKey";

-- name: drop-all
DELETE FROM {table} WHERE {of_kind};

-- name: list
-- A read without locks and writes.
SELECT {shown} FROM {with_tries} WHERE {matching} AND m."pKey" COLLATE "C" >= :from::pg_catalog.text
ORDER BY m."pKey" COLLATE "C" LIMIT :limit::bigint;

-- include: postgres.dead.sql

-- include: postgres.relayed.sql

-- part: of_tries
FROM {table_tries} AS s WHERE s.id = {table}.id AND s.version = {table}."createdAt"

-- part: tried_so_far
coalesce((SELECT s.attempts {of_tries}), 0)

-- part: is_new
-- Condition: no relay or consumer has tried the message since it was offered.  Without CASE PostgreSQL
-- would estimate that few due messages are new, and sort all of them.
CASE WHEN "lockUuid" IS NULL AND "scheduledAt" = "scheduledAtInitially" THEN (SELECT s.id {of_tries}) IS NULL
     ELSE false END

-- part: is_failed
"lockUuid" IS NULL AND ("scheduledAt" <> "scheduledAtInitially" OR (SELECT s.id {of_tries}) IS NOT NULL)

-- part: claims
"lockUuid" = :token::pg_catalog.text, "scheduledAt" = {claimed_until}

-- part: head
-- As in the native layout.
SELECT id, "lockUuid", {is_failed} AS failed, "scheduledAt" FROM {table}
WHERE {relayed} AND "scheduledAt" <= {clock} ORDER BY "pKind", "scheduledAt", id LIMIT 300

-- part: taken
taken AS (
  UPDATE {table} AS m SET {claims} FROM due AS d WHERE m.id = d.id
  RETURNING m.*, d.due_at, coalesce((SELECT s.attempts FROM {table_tries} AS s
                                     WHERE s.id = m.id AND s.version = m."createdAt"), 0) AS attempts)

-- include: postgres.claims.sql

-- name: claim
WITH due AS MATERIALIZED (
  SELECT id, "scheduledAt" AS due_at FROM {table} WHERE {relayed} AND "scheduledAt" <= {clock} AND {is_new}
  ORDER BY "pKind", "scheduledAt", id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED),
{taken}
{claimed};

-- name: claim-behind-time
-- As in the native layout.
WITH due AS MATERIALIZED (
  SELECT id, "scheduledAt" AS due_at FROM {table} WHERE {relayed} AND "scheduledAt" <= {clock} AND {is_new}
    AND ROW("scheduledAt", id) > ROW(:after_at::bigint, :after::bigint)
  ORDER BY "pKind", "scheduledAt", id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED),
{taken}
{claimed};

-- name: claim-due
WITH due AS MATERIALIZED (
  SELECT id, "scheduledAt" AS due_at FROM {table}
  WHERE id = ANY (ARRAY(SELECT h.id FROM ({head}) AS h WHERE h.failed))
    AND {relayed} AND "scheduledAt" <= {clock} AND {is_failed}
  ORDER BY "scheduledAt", id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED),
{taken}
{claimed};

-- name: claim-share
WITH due AS MATERIALIZED (
  SELECT id, "scheduledAt" AS due_at FROM {table}
  WHERE id = ANY (ARRAY(SELECT h.id FROM ({head}) AS h WHERE h."lockUuid"::pg_catalog.text = :of::pg_catalog.text))
    AND {relayed} AND "scheduledAt" <= {clock} AND "lockUuid"::pg_catalog.text = :of::pg_catalog.text
  ORDER BY "scheduledAt", id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED),
{taken}
{claimed};

-- part: kept
-- The last error, if it belongs to the same version.
version = excluded.version, due_at = NULL,
  last_error = CASE WHEN o.version = excluded.version THEN o.last_error END

-- name: claim-expired
WITH due AS MATERIALIZED (
  SELECT id, "createdAt" AS version, {polled_once} AS polled FROM {table}
  WHERE id = ANY (ARRAY(SELECT h.id FROM ({head}) AS h WHERE h."lockUuid" IS NOT NULL))
    AND {relayed} AND "scheduledAt" <= {clock} AND "lockUuid" IS NOT NULL
  ORDER BY "scheduledAt", id LIMIT 1 FOR UPDATE SKIP LOCKED),
tried AS (
  INSERT INTO {table_tries} AS o(id, version, attempts) SELECT d.id, d.version, d.polled + 1 FROM due AS d
  ON CONFLICT (id) DO UPDATE SET {kept},
    attempts = CASE WHEN o.version = excluded.version THEN least(o.attempts, 999999999) + 1
                    ELSE excluded.attempts END
  RETURNING attempts),
taken AS (
  UPDATE {table} AS m SET {claims} FROM due AS d WHERE m.id = d.id RETURNING m.*, 0::bigint AS due_at)
SELECT id, 1::bigint, (SELECT attempts FROM tried) - 1, "createdAt", 0::bigint,
  {texts}, due_at
FROM taken;

-- name: read-ids
SELECT id, CASE WHEN "lockUuid" IS NOT NULL THEN 1 WHEN {is_new} THEN 0 ELSE 3 END::bigint, {tried_so_far},
  "createdAt", 0::bigint,
  {texts}
FROM {table} WHERE id = ANY ({ids}) AND {relayed} ORDER BY id;

-- name: reap
UPDATE {table} SET "lockUuid" = NULL,
  "scheduledAt" = CASE WHEN coalesce((SELECT s.attempts {of_tries}), {polled_once}) > 0
                       THEN "scheduledAt" ELSE "scheduledAtInitially" END
WHERE id = ANY (ARRAY(SELECT id FROM {table} WHERE {relayed} AND "lockUuid" IS NOT NULL
  AND "scheduledAt" <= {clock} - least(:timeout::bigint, 3153600000000) FOR UPDATE SKIP LOCKED));

-- part: tried
-- :nth is the number of the attempt, so a failure that is written twice counts once.
CASE WHEN :nth::integer > 0 THEN greatest({tried_so_far}, :nth::integer)
     ELSE least(greatest({tried_so_far} + :count::integer, 0), 1000000000) END

-- name: done-delete
WITH forgotten AS (
  DELETE FROM {table_tries} WHERE id = ANY (ARRAY(
    SELECT id FROM {table} WHERE id = ANY ({ids}) AND {claimed_by} AND {named_in_list})))
DELETE FROM {table} WHERE id = ANY ({ids}) AND {claimed_by} AND {named_in_list};

-- name: fail
WITH noted AS (
  INSERT INTO {table_tries} AS o(id, version, attempts, last_error)
  SELECT id, "createdAt", {tried}, :error::pg_catalog.text FROM {table} WHERE id = :id::bigint AND {named} AND {claimed_by}
  ON CONFLICT (id) DO UPDATE SET version = excluded.version, due_at = NULL, attempts = excluded.attempts,
    last_error = excluded.last_error)
UPDATE {table} SET "lockUuid" = NULL,
  "scheduledAt" = least({clock} + least(:delay::bigint, 3153600000000), 253402300799999)
WHERE id = :id::bigint AND {named} AND {claimed_by};

-- name: dead-copy
-- Copy a message that the relay gives up to the dead ones; "dead-drop" then deletes it.  The statement waits
-- for an offer that replaces the message, and then copies nothing
-- (a_message_that_is_replaced_while_it_dies_lives).
INSERT INTO {table_dead}(id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", attempts,
                         died_at, last_error)
SELECT id, "pKey", "pKind", payload, "scheduledAtInitially", "createdAt", {tried}, {clock}, :error::pg_catalog.text
FROM {table} WHERE id = :id::bigint AND {named} AND {claimed_by} FOR UPDATE
{replaces_dead};

-- name: dead-drop
WITH forgotten AS (
  DELETE FROM {table_tries} WHERE id = (SELECT id FROM {table} WHERE id = :id::bigint AND {named} AND {claimed_by}))
DELETE FROM {table} WHERE id = :id::bigint AND {named} AND {claimed_by};

-- name: requeue
UPDATE {table} SET "scheduledAt" = "scheduledAtInitially", "lockUuid" = NULL
WHERE id = ANY ({ids}) AND {claimed_by} AND {named_in_list};

-- name: try
INSERT INTO {table_tries} AS o(id, version, attempts)
SELECT id, "createdAt", CASE WHEN :nth::integer > 0 THEN greatest({tried_so_far}, :nth::integer)
                             ELSE least({tried_so_far}, 999999999) + 1 END
FROM {table} WHERE id = :id::bigint AND {named} AND {claimed_by}
ON CONFLICT (id) DO UPDATE SET {kept}, attempts = excluded.attempts;
