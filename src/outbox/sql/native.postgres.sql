-- layout: name=native ids=integer names=qualified payloads=json,jsonb,text,bytea ordered=yes fence=lease stream=id,status,attempts,generation,created_at,,message_id,topic,aggregate_type,aggregate_id,partition_key,headers,trace_id,payload columns=id,message_id,topic,payload,status,claim_token archive=id,message_id,topic,payload,!status
--
-- The native outbox on PostgreSQL.  Times are timestamptz, which the driver reads as Unix
-- milliseconds, and always the database's: statement_timestamp() stands still in a
-- statement, so that indexes can be asked for it, but goes on in a transaction.
--
-- Many transactions write at the same time and take their ids before they commit, so a row may appear
-- below ids that a relay has read ("horizon" shows which may still come).  All statements run in
-- READ COMMITTED: a statement sees rows that were committed when it began; an UPDATE or a lock that
-- had to wait for a row reads its newest version.
--
-- A new row has an entry in three indexes: the primary key, the index of message_id and the index of
-- open rows.  The other indexes have rows that failed, are claimed or dead, or were delivered.

-- part: pending
-- Pending rows in id order, written so that only the index of open rows fits.  With status = 0 ORDER BY
-- id the primary key would fit too, and a plan that was made while most rows were pending would read all
-- delivered rows (a_plan_made_for_a_backlog_reads_no_rows_that_are_done).
status IN (0, 1, 3) AND status >= 0 AND status <= 0

-- part: ends
-- First and last pending id; 0: there is none.  An id 0, whose message must become dead, counts as -1.
-- Without the alias the first column would be called id, and ORDER BY would sort by it.
coalesce((SELECT CASE id WHEN 0 THEN -1 ELSE id END AS lowest FROM {table}
          WHERE {pending} ORDER BY status, id LIMIT 1), 0),
coalesce((SELECT id FROM {table} WHERE {pending} ORDER BY status DESC, id DESC LIMIT 1), 0)

-- include: postgres.message.sql

-- part: sane
-- Condition: a relay can handle the row.  The payload is not checked, since its limit is a setting.
id > 0 AND id < 4611686018427387904 AND attempts BETWEEN 0 AND 1000000000 AND generation BETWEEN 0 AND 1000000000
  AND octet_length(message_id) <= 1048576 AND octet_length(topic) <= 1048576
  AND octet_length(aggregate_type) <= 1048576 AND octet_length(aggregate_id) <= 1048576
  AND octet_length(partition_key) <= 1048576 AND octet_length(trace_id) <= 1048576
  AND pg_catalog.pg_column_size(headers) <= 1048576
  AND created_at >= '1970-01-01 00:00:00+00'::timestamptz AND created_at < '10000-01-01 00:00:00+00'::timestamptz
  AND next_retry_at < '10000-01-01 00:00:00+00'::timestamptz AND claimed_at < '10000-01-01 00:00:00+00'::timestamptz AND processed_at < '10000-01-01 00:00:00+00'::timestamptz

-- include: postgres.sql

-- include: postgres.own.sql

-- include: postgres.lease.sql

-- part: own_functions
ARRAY['wherry_enqueue']::name[]

-- part: function_model
'outbox'

-- part: function_column
'payload'

-- part: leaf
-- Expression of the payload, in the type of the table.
replace(replace(section, '@checked@', CASE WHEN kind IN ('bytea', 'text') AND t.type IN ('pg_catalog.json', 'pg_catalog.jsonb')
    THEN concat('BEGIN
    parsed := ', CASE kind WHEN 'bytea' THEN 'pg_catalog.convert_from(payload, ''UTF8'')' ELSE 'payload' END, '::pg_catalog.json;
  EXCEPTION WHEN data_exception THEN
    RAISE ''outbox % keeps payloads as %, and this one is not JSON: %'', outbox, ', quote_literal(split_part(t.type, '.', 2)), ', sqlerrm
      USING ERRCODE = ''invalid_text_representation'',
      HINT = ''Send it as a JSON string, with to_json(), or use an outbox made with ''
             ''wherry create --payload text or --payload bytea.'';
  END;') ELSE '' END), '@value@', CASE WHEN t.type = 'pg_catalog.' || kind THEN 'wherry_enqueue.payload'
  WHEN t.type = 'pg_catalog.bytea' THEN 'pg_catalog.convert_to(wherry_enqueue.payload::pg_catalog.text, ''UTF8'')'
  WHEN kind = 'bytea' AND t.type IN ('pg_catalog.json', 'pg_catalog.jsonb') THEN concat('own.parsed::', t.type)
  WHEN kind = 'bytea' THEN concat('pg_catalog.convert_from(wherry_enqueue.payload, ''UTF8'')::', t.type)
  WHEN t.type IN ('pg_catalog.json', 'pg_catalog.jsonb') AND kind = 'text' THEN concat('own.parsed::', t.type)
  ELSE concat('wherry_enqueue.payload::pg_catalog.text::', t.type) END)

-- include: postgres.home.sql

-- part: make_functions
-- wherry_enqueue() runs with the search path of its caller, which triggers of a user may need, so every name in it
-- is qualified.
DO $do$
DECLARE
  schema CONSTANT text := current_setting('wherry.schema') || '.';  -- quoted where it must be
  key CONSTANT text := 'outbox';
  otherwise CONSTANT text := concat('PERFORM ', schema, 'wherry_missing(''outbox'', outbox);');
  kind text;
  key_kind text;
  made text;
  {branch_variables}
BEGIN
  SELECT f.* INTO names, types FROM ({function_tables}) AS f;
  -- Drivers send a payload as text, JSON or bytes, and a key as text, a number or a UUID.  Only the
  -- function with a text key has a default for it, or a call without a key would fit three functions.
  FOREACH kind IN ARRAY ARRAY['bytea', 'text', 'json', 'jsonb'] LOOP
    FOREACH key_kind IN ARRAY ARRAY['text DEFAULT NULL', 'numeric', 'uuid'] LOOP
      made := $f$CREATE OR REPLACE FUNCTION @.wherry_enqueue(topic text, payload @type@, key @key@,
  message_id text DEFAULT NULL, headers json DEFAULT '{}', aggregate_type text DEFAULT '', aggregate_id text DEFAULT '',
  trace_id text DEFAULT NULL, lock_key boolean DEFAULT false, outbox text DEFAULT 'outbox')
RETURNS bigint LANGUAGE plpgsql AS $body$
<<own>>
DECLARE -- Adds a message in the caller's transaction.  Returns its id, or NULL if the outbox has its message_id.
  said pg_catalog.text := '{}';
  key_text pg_catalog.text := key;
  parsed pg_catalog.json;
  made bigint;
BEGIN
  IF topic IS NULL OR topic OPERATOR(pg_catalog.=) '' THEN
    RAISE 'a message needs a topic' USING ERRCODE = 'invalid_parameter_value';
  ELSIF payload IS NULL THEN
    RAISE 'a message needs a payload' USING ERRCODE = 'invalid_parameter_value',
      HINT = 'An empty one is ''''.';
  END IF;
  IF headers IS NOT NULL THEN
    said := headers;
    IF said OPERATOR(pg_catalog.<>) '{}' THEN
      IF pg_catalog.json_typeof(headers) OPERATOR(pg_catalog.<>) 'object' OR EXISTS (
        SELECT 1 FROM pg_catalog.json_each(wherry_enqueue.headers) AS h(n, v)
        WHERE pg_catalog.json_typeof(h.v) OPERATOR(pg_catalog.<>) ALL (ARRAY['string', 'null'])) THEN
        RAISE 'headers are not a JSON object of strings' USING ERRCODE = 'invalid_parameter_value';
      END IF;
    END IF;
  END IF;
  IF greatest(pg_catalog.octet_length(topic), pg_catalog.octet_length(message_id),
       pg_catalog.octet_length(aggregate_type), pg_catalog.octet_length(aggregate_id),
       pg_catalog.octet_length(trace_id)) OPERATOR(pg_catalog.>) 255
     OR pg_catalog.octet_length(key_text) OPERATOR(pg_catalog.>) 1024
     OR pg_catalog.octet_length(said) OPERATOR(pg_catalog.>) 262144 THEN
    RAISE '%', (SELECT pg_catalog.format('%s is %s bytes, the limit is %s', f.name,
                   pg_catalog.octet_length(f.value), f.most)
      FROM (VALUES ('topic', topic, 255), ('message_id', message_id, 255),
        ('aggregate_type', aggregate_type, 255), ('aggregate_id', aggregate_id, 255),
        ('trace_id', trace_id, 255), ('key', own.key_text, 1024),
        ('headers', own.said, 262144)) AS f(name, value, most)
      WHERE pg_catalog.octet_length(f.value) OPERATOR(pg_catalog.>) f.most LIMIT 1)
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  @each@
  @checked@
  IF lock_key THEN -- before the id is taken
    PERFORM pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(
      o.k COLLATE pg_catalog."C", @quoted@::pg_catalog.regclass::pg_catalog.oid::bigint))
    FROM (SELECT CASE WHEN own.key_text OPERATOR(pg_catalog.<>) '' THEN '=' OPERATOR(pg_catalog.||) own.key_text
      WHEN wherry_enqueue.aggregate_type OPERATOR(pg_catalog.<>) ''
        OR wherry_enqueue.aggregate_id OPERATOR(pg_catalog.<>) ''
      THEN pg_catalog.length(coalesce(wherry_enqueue.aggregate_type, ''))::pg_catalog.text OPERATOR(pg_catalog.||) ':'
        OPERATOR(pg_catalog.||) coalesce(wherry_enqueue.aggregate_type, '')
        OPERATOR(pg_catalog.||) coalesce(wherry_enqueue.aggregate_id, '')
      END) AS o(k)
    WHERE o.k IS NOT NULL;
  END IF;
  IF message_id OPERATOR(pg_catalog.<>) '' THEN
    INSERT INTO @table@(topic, aggregate_type, aggregate_id, partition_key, headers, trace_id, payload, message_id)
    VALUES (wherry_enqueue.topic, coalesce(wherry_enqueue.aggregate_type, ''), coalesce(wherry_enqueue.aggregate_id, ''),
      CASE WHEN own.key_text OPERATOR(pg_catalog.<>) '' THEN own.key_text END, own.said::pg_catalog.json, wherry_enqueue.trace_id, @value@, wherry_enqueue.message_id)
    ON CONFLICT (message_id) DO NOTHING RETURNING id INTO own.made;
  ELSE
    INSERT INTO @table@(topic, aggregate_type, aggregate_id, partition_key, headers, trace_id, payload)
    VALUES (wherry_enqueue.topic, coalesce(wherry_enqueue.aggregate_type, ''), coalesce(wherry_enqueue.aggregate_id, ''),
      CASE WHEN own.key_text OPERATOR(pg_catalog.<>) '' THEN own.key_text END, own.said::pg_catalog.json, wherry_enqueue.trace_id, @value@)
    ON CONFLICT (message_id) DO NOTHING RETURNING id INTO own.made;
  END IF;
  @end@
  RETURN made;
END $body$ $f$;
      made := replace(replace(replace(made, '@type@', kind), '@key@', key_kind), '@.', schema);
      {branch}
      EXECUTE made;
    END LOOP;
  END LOOP;
END $do$;

-- include: postgres.functions.sql

-- name: migrate-1
-- The table has the columns that other relays know, and columns of Wherry's with defaults.
{own_tables}
CREATE TABLE IF NOT EXISTS {table}(
  id             bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1) PRIMARY KEY,
  message_id     text COLLATE "C" NOT NULL DEFAULT encode(pg_catalog.set_bit(pg_catalog.set_bit(overlay(
                   uuid_send(gen_random_uuid()) PLACING
                   substring(int8send((floor(extract(epoch FROM now()) * 1000.0))::bigint)
                             FROM 3)
                   FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid::text,  -- version 7
  topic          text NOT NULL,
  aggregate_type text NOT NULL DEFAULT '',
  aggregate_id   text NOT NULL DEFAULT '',
  partition_key  text,
  headers        json NOT NULL DEFAULT '{}',
  trace_id       text,
  status         smallint NOT NULL DEFAULT 0
                 CHECK (status = 0 OR status = 1 OR status = 2 OR status = 3 OR status = 4),
  attempts       integer NOT NULL DEFAULT 0,
  claimed_at     timestamptz,
  claim_token    text,
  next_retry_at  timestamptz,
  created_at     timestamptz NOT NULL DEFAULT now(),
  processed_at   timestamptz,
  generation     integer NOT NULL DEFAULT 0,
  last_error     text,
  payload        {payload_type} NOT NULL,
  CONSTRAINT {bare_sane} CHECK ({sane})
) WITH (
  -- Pages are full (fillfactor 100): an acknowledgement changes the index of open rows, so no update
  -- stays on its page, and free room made inserts slower and relays no faster.  Autovacuum goes by the
  -- number of dead rows and not by a share of a table that keeps delivered rows for days.  It also
  -- goes by the number of inserted rows, so that reads need not check their visibility.
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_insert_threshold = 10000,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 2000
);
CREATE UNIQUE INDEX IF NOT EXISTS {bare_message_id} ON {table}(message_id);
CREATE INDEX IF NOT EXISTS {bare_open} ON {table}(status, id) WHERE status IN (0, 1, 3);
CREATE INDEX IF NOT EXISTS {bare_done} ON {table}(processed_at) WHERE status = 2;
CREATE INDEX IF NOT EXISTS {bare_dead} ON {table}(id) WHERE status = 4;
CREATE INDEX IF NOT EXISTS {bare_busy} ON {table}({key}, id)
  WHERE status IN (1, 3, 4) OR claim_token IS NOT NULL AND status = 0;
CREATE INDEX IF NOT EXISTS {bare_due} ON {table}(status,
    {due})
  WHERE status IN (1, 3);
CREATE TABLE IF NOT EXISTS {table_archive}(
  id bigint PRIMARY KEY, message_id text COLLATE "C" NOT NULL, topic text NOT NULL,
  aggregate_type text NOT NULL, aggregate_id text NOT NULL, partition_key text,
  headers json NOT NULL, trace_id text, attempts integer NOT NULL,
  created_at timestamptz NOT NULL, processed_at timestamptz NOT NULL,
  generation integer NOT NULL, last_error text, payload {payload_type} NOT NULL
);
CREATE INDEX IF NOT EXISTS {bare_archive_mid} ON {table_archive}(message_id);
CREATE INDEX IF NOT EXISTS {bare_archive_done} ON {table_archive}(processed_at);
{wake_function}
-- If the lock is taken, a relay of this outbox sleeps.  Relays set wherry.quiet for changes that make
-- no work for another relay (a_purge_and_a_renewal_wake_no_other_relay).
DROP TRIGGER IF EXISTS {bare_wake} ON {table};
CREATE TRIGGER {bare_wake} AFTER INSERT ON {table}
  FOR EACH STATEMENT
  WHEN (NOT pg_try_advisory_xact_lock_shared({wake_lock}))
  EXECUTE FUNCTION {wherry_wake}();
DROP TRIGGER IF EXISTS {bare_wake_changed} ON {table};
CREATE TRIGGER {bare_wake_changed} AFTER UPDATE OR DELETE ON {table}
  FOR EACH STATEMENT
  WHEN (coalesce(current_setting('wherry.quiet', true), '')
          NOT IN ('on', {'table}::regclass::oid::text)
        AND NOT pg_try_advisory_xact_lock_shared({wake_lock}))
  EXECUTE FUNCTION {wherry_wake}();
{own_triggers}
SELECT set_config('wherry.schema', relnamespace::regnamespace::text, true)
FROM pg_class WHERE oid = {'table}::regclass::oid;
{missing_function}
INSERT INTO {wherry_schema}(model, name, version, min_program)
  VALUES ('outbox', {name}, 1, 100) ON CONFLICT DO NOTHING;
{make_functions}
{mark_functions}
INSERT INTO {wherry_outbox}(name) VALUES ({name}) ON CONFLICT DO NOTHING;

-- name: indexes-missing
-- Number of missing indexes of the outbox.  A function that is missing or of another version counts too, since the
-- outbox needs to be made again.
SELECT count(*) + {functions_stale}
FROM unnest(ARRAY[{'table_message_id}, {'table_open}, {'table_done}, {'table_dead},
                  {'table_busy}, {'table_due}, {'table_archive_mid},
                  {'table_archive_done}]) AS t(name)
WHERE to_regclass(t.name) IS NULL;

-- name: drop
SELECT set_config('wherry.schema', relnamespace::regnamespace::text, true)
FROM pg_class WHERE oid = {'table}::regclass::oid;
DROP TABLE {table};
DROP TABLE IF EXISTS {table_archive};
DELETE FROM {wherry_outbox} WHERE name = {name};
DELETE FROM {wherry_lease} WHERE outbox = {name};
DELETE FROM {wherry_schema} WHERE model = 'outbox' AND name = {name};
DO $$ BEGIN
  IF to_regclass({'wherry_stream}) IS NOT NULL THEN
    DELETE FROM {wherry_stream} WHERE outbox = {name};
    DELETE FROM {wherry_dead} WHERE outbox = {name};
  END IF;
END $$;
{make_functions_again}

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- name: constraint-missing
SELECT 1 - count(*) FROM pg_constraint
WHERE conrelid = {'table}::regclass::oid AND conname = {name} || '_sane';

-- name: repair
-- Add the constraint to tables that were made before it existed, for new and changed rows.  A table that
-- has rows that it refuses does not get it, since these rows could not be marked dead then.
DO $$ BEGIN
  IF EXISTS (SELECT 1 FROM pg_constraint WHERE conrelid = {'table}::regclass::oid
             AND conname = {name} || '_sane') THEN RETURN; END IF;
  IF EXISTS (SELECT 1 FROM {table} WHERE NOT ({sane})) THEN
    RAISE WARNING 'outbox % has rows that are too long or out of range: run wherry doctor',
      {name};
    RETURN;
  END IF;
  ALTER TABLE {table} ADD CONSTRAINT {bare_sane} CHECK ({sane}) NOT VALID;
END $$;

-- name: add-strict
-- For key-strict: a transaction gets its number before it takes an id, and a session takes one id at a
-- time.  Making the trigger waits for transactions that write to the table without it.
CREATE OR REPLACE FUNCTION {wherry_number}() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM pg_catalog.pg_current_xact_id();
  RETURN NULL;
END $$;
DROP TRIGGER IF EXISTS {bare_number} ON {table};
CREATE TRIGGER {bare_number} BEFORE INSERT ON {table}
  FOR EACH STATEMENT EXECUTE FUNCTION {wherry_number}();
DO $$
DECLARE ids text = pg_get_serial_sequence({'table}, 'id');
BEGIN
  IF ids IS NOT NULL THEN EXECUTE 'ALTER SEQUENCE ' || ids || ' CACHE 1'; END IF;
END $$;

-- name: add-strict-ready
-- Whether the trigger exists.
SELECT count(*) FROM pg_trigger WHERE tgrelid = {'table}::regclass::oid AND tgname = {name} || '_number';

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM {wherry_schema}
WHERE model = 'outbox' AND name = :name::text;

-- name: columns
{column_names};

-- name: enqueue
-- A message id that exists changes no row and leaves the transaction intact
-- (a_duplicate_message_id_leaves_the_transaction_intact).
INSERT INTO {table}(message_id, topic, aggregate_type, aggregate_id, partition_key,
                    headers, trace_id, payload)
VALUES (:message_id, :topic, :aggregate_type, :aggregate_id, :key, :headers, :trace_id,
        :payload)
ON CONFLICT (message_id) DO NOTHING RETURNING id;

-- part: is_open
-- Condition on rows that were found by their ids, in a form that leaves only the primary key.  Without
-- the sum the indexes of open rows would fit too, and a plan that was made while few rows were open
-- would read the whole backlog to acknowledge a batch
-- (statistics_of_a_drained_table_make_no_statement_read_a_backlog).
status + 0 IN (0, 1, 3)

-- part: processing
-- Written so that only the index of open rows fits, like "pending"; so are failed rows.
status IN (0, 1, 3) AND status >= 1 AND status <= 1

-- part: failed
status IN (0, 1, 3) AND status >= 3 AND status <= 3

-- name: join
-- The lease that competing relays hold together, so that no relay of another engine works
-- beside them.  It names its members, so that the last one that leaves gives it back.  The
-- first relay that joins after it expired begins a new epoch, so that earlier members are
-- recognised and counted again.  Members that crashed stay: at a hundred members, all except
-- the caller are forgotten until they renew (members_that_crashed_are_forgotten).
-- The process is known while one relay is the only member, so that others on its machine see
-- when it has ended.
INSERT INTO {wherry_lease} AS s (outbox, number, engine, owner, epoch, expires_at, lasts, clean, unclean,
                              win, suspects, members, process)
SELECT :name::text, :number::integer, 'competing', :owner::text, 1, {until}, :lasts::bigint, 1, 0, 1, 0,
  ',' || :token::text || ',', :process::text
WHERE {alone}
ON CONFLICT (outbox, number) DO UPDATE SET
  engine = 'competing', owner = excluded.owner, mask = -1,
  epoch = CASE
    WHEN s.engine <> 'competing' OR (s.expires_at <= {now} AND s.epoch <> :epoch::bigint) OR s.epoch <= 0
    THEN {next_epoch:s} ELSE s.epoch END,
  win = 1, {reported},
  process = CASE WHEN s.members = excluded.members THEN excluded.process ELSE '' END,
  members = CASE
    WHEN s.engine <> 'competing' OR length(s.members) > 3700
         OR (s.expires_at <= {now} AND s.epoch <> :epoch::bigint)
    THEN excluded.members
    WHEN strpos(s.members, excluded.members) > 0 THEN s.members
    ELSE s.members || substr(excluded.members, 2) END,
  lasts = CASE WHEN s.engine <> 'competing' OR s.expires_at <= {now} THEN excluded.lasts
          ELSE greatest({lasts:s}, excluded.lasts) END,
  expires_at = greatest(s.expires_at, excluded.expires_at), clean = 1, unclean = 0,
  suspects = 0
  WHERE s.engine = 'competing' OR s.expires_at <= {now}
RETURNING epoch, suspects,
  (SELECT paused_at IS NOT NULL FROM {wherry_outbox} WHERE name = s.outbox),
  (SELECT control_version FROM {wherry_outbox} WHERE name = s.outbox), 0::bigint, 0::bigint;

-- name: leave
-- A relay that leaves twice is counted once (who_leaves_twice_is_counted_once).
UPDATE {wherry_lease} AS s SET members = replace(members, ',' || :token::text || ',', ','), {counted},
  expires_at = CASE WHEN members = ',' || :token::text || ','
                    THEN '1970-01-01 00:00:00+00' ELSE expires_at END,
  state = CASE WHEN members = ',' || :token::text || ',' THEN 'stopped' ELSE state END,
  state_since = CASE WHEN members = ',' || :token::text || ',' THEN {now} ELSE state_since END
WHERE outbox = :name AND number = :number AND epoch = :epoch AND engine = 'competing'
  AND strpos(members, ',' || :token::text || ',') > 0;

-- part: busy
-- Condition of the index of rows that may hold others back.
(b.status IN (1, 3, 4) OR b.claim_token IS NOT NULL AND b.status = 0)

-- part: free
-- Condition: no row of its key holds c back.  No row is under a live claim, and no row before c is
-- claimed, has failed, was retried or requeued, or is dead and parks the key.  Pending rows that the
-- same claim reads, and with :share rows that expired with c, are claimed together with it.
(:unordered::bigint <> 0 OR {key:c} IS NULL OR NOT EXISTS (
  SELECT 1 FROM {table} AS b
  WHERE {busy} AND {key:b} = {key:c} AND b.id <> c.id
    AND (b.status = 1 AND b.next_retry_at > {now}
                     AND b.next_retry_at < '10000-01-01 00:00:00+00'::timestamptz
         OR b.id < c.id AND (b.status = 3 OR b.status = 4 AND :park::bigint <> 0
                             OR b.status = 1
                                AND (:share::bigint = 0
                                     OR b.claim_token IS DISTINCT FROM c.claim_token)
                             OR b.status = 0 AND (c.status <> 0 OR b.id <= :after::bigint)))))

-- part: unparked
(:park::bigint = 0 OR {key:c} IS NULL OR NOT EXISTS (
  SELECT 1 FROM {table} AS b
  WHERE {busy} AND {key:b} = {key:c} AND b.id < c.id AND b.status = 4))

-- name: claim-lock
-- First statement in the transaction of every claim.  Claims of an outbox run one after another, and
-- each sees those before it (two_claims_at_once_…).  Producers and acknowledgements do not wait for
-- this lock.
SELECT pg_advisory_xact_lock((1667::bigint << 32) + {'table}::regclass::oid::bigint);

-- part: between
-- Condition: the row is pending, between two ids.
c.status IN (0, 1, 3) AND c.status >= 0 AND c.status <= 0
  AND (c.status, c.id) > (0, :after::bigint) AND (c.status, c.id) <= (0, :upto::bigint)

-- name: claim-end
-- Range of one claim: the last of the first pending rows, and their number.
SELECT coalesce(max(id), 0), count(*) FROM (
  SELECT id FROM {table}
  WHERE {pending} AND (status, id) > (0, :after::bigint)
    AND id <= :most::bigint
  ORDER BY status, id LIMIT :scan::bigint) AS p;

-- part: claimable
{between}
  AND (:unordered::bigint <> 0 OR {key:c} IS NULL
       OR encode(pg_catalog.convert_to({key:c}, getdatabaseencoding()), 'hex') NOT IN
          (SELECT json_array_elements_text(:passed::json)))
  AND (:unordered::bigint <> 0 OR :many::bigint = 0 OR {key:c} IS NULL
       OR {key:c} NOT IN (
         SELECT {key:b} FROM {table} AS b
         WHERE b.status = 0 AND b.id <= :after::bigint AND {key:b} IS NOT NULL))
  AND {free}

-- part: unlocked
-- Condition: neither the row nor an earlier one of its key is locked.
NOT EXISTS (
  SELECT 1 FROM locked AS l WHERE l.id = c.id
    OR :unordered::bigint = 0 AND l.k = {key:c} AND l.id < c.id)

-- name: claim
-- Claim pending rows between two ids, those of one key together.  A key is left out if one of its rows
-- is being tried, or if an earlier one failed, was retried or was skipped by a claim before this one
-- (two_claims_never_hold_messages_of_one_key).  The skipped keys are listed, or with :many looked up,
-- which takes longer.
WITH taken AS (
  UPDATE {table} AS t SET status = 1, claim_token = :token, claimed_at = {now},
    next_retry_at = {until}
  WHERE t.status + 0 = 0 AND t.id = ANY (ARRAY(
    SELECT c.id FROM {table} AS c
    WHERE {claimable}
    ORDER BY c.status, c.id LIMIT :limit::bigint))
  RETURNING t.*)
SELECT id, 0::bigint, attempts, generation, created_at, 0::bigint,
  {texts}
FROM taken ORDER BY id;

-- name: claim-passed
-- Keys of pending rows that a claim skipped; later rows of these keys wait for them.  The keys are in
-- hexadecimal, since a JSON text cannot contain NUL.
SELECT DISTINCT '"' || encode(pg_catalog.convert_to({key:c}, getdatabaseencoding()), 'hex') || '"' FROM {table} AS c
WHERE {between} AND {key:c} IS NOT NULL
  AND encode(pg_catalog.convert_to({key:c}, getdatabaseencoding()), 'hex') NOT IN
      (SELECT json_array_elements_text(:passed::json)) LIMIT :limit::bigint;

-- name: claim-due
-- Claim failed rows that are due, each the first of its key.
WITH taken AS (
  UPDATE {table} AS t SET status = 1, claim_token = :token, claimed_at = {now},
    next_retry_at = {until}
  WHERE t.status + 0 = 3 AND t.id = ANY (ARRAY(
    SELECT c.id FROM {table} AS c
    WHERE c.status = 3 AND {due:c} <= {now} AND {free}
    ORDER BY {due:c} LIMIT :limit::bigint))
  RETURNING t.*)
SELECT id, 0::bigint, attempts, generation, created_at, 0::bigint,
  {texts}
FROM taken ORDER BY id;

-- name: claim-around
-- The same if other transactions have locked rows: a locked row is skipped, and with it later rows of its
-- key.  The statement waits for none (one_locked_row_holds_up_no_other).
WITH free AS MATERIALIZED (
  SELECT c.id FROM {table} AS c WHERE {between}
  ORDER BY c.id FOR UPDATE SKIP LOCKED),
locked AS MATERIALIZED (
  SELECT c.id, {key:c} AS k FROM {table} AS c
  WHERE {between} AND c.id NOT IN (SELECT id FROM free)),
taken AS (
  UPDATE {table} AS t SET status = 1, claim_token = :token, claimed_at = {now},
    next_retry_at = {until}
  WHERE t.status + 0 = 0 AND t.id = ANY (ARRAY(
    SELECT c.id FROM {table} AS c
    WHERE {claimable}
      AND {unlocked}
    ORDER BY c.status, c.id LIMIT :limit::bigint))
  RETURNING t.*)
SELECT id, 0::bigint, attempts, generation, created_at, 0::bigint,
  {texts}
FROM taken ORDER BY id;

-- name: claim-due-around
WITH free AS MATERIALIZED (
  SELECT c.id FROM {table} AS c WHERE c.status = 3 AND {due:c} <= {now}
  ORDER BY c.id FOR UPDATE SKIP LOCKED),
locked AS MATERIALIZED (
  SELECT c.id, {key:c} AS k FROM {table} AS c
  WHERE c.status = 3 AND {due:c} <= {now} AND c.id NOT IN (SELECT id FROM free)),
taken AS (
  UPDATE {table} AS t SET status = 1, claim_token = :token, claimed_at = {now},
    next_retry_at = {until}
  WHERE t.status + 0 = 3 AND t.id = ANY (ARRAY(
    SELECT c.id FROM {table} AS c
    WHERE c.status = 3 AND {due:c} <= {now} AND {free}
      AND {unlocked}
    ORDER BY {due:c} LIMIT :limit::bigint))
  RETURNING t.*)
SELECT id, 0::bigint, attempts, generation, created_at, 0::bigint,
  {texts}
FROM taken ORDER BY id;

-- name: expired
-- The claim that expired first, among rows that nothing holds back, and the number of rows that expired
-- with it.
SELECT f.claim_token, (
  SELECT count(*) FROM {table} AS c
  WHERE c.status = 1 AND {due:c} <= {now} AND c.claim_token = f.claim_token)
FROM (
  SELECT c.claim_token FROM {table} AS c
  WHERE c.status = 1 AND {due:c} <= {now} AND {free}
  ORDER BY {due:c} LIMIT 1) AS f;

-- name: claim-share
-- Claim some of the rows that expired together, in id order.  No attempt is recorded, since only one of
-- them can have crashed the relay, if any did (what_expires_again_is_shared_out_smaller).
-- Rows that others have locked are skipped, and with them later rows of their keys
-- (an_expired_row_that_is_locked_holds_up_no_other).  The limit counts the rows that remain
-- (a_locked_share_of_expired_rows_holds_up_no_other_key).
WITH chosen AS MATERIALIZED (
  SELECT c.id, {key:c} AS k FROM {table} AS c
  WHERE c.status = 1 AND {due:c} <= {now} AND c.claim_token = :of::text AND {free}),
unlocked AS MATERIALIZED (
  SELECT c.id FROM {table} AS c
  WHERE c.id = ANY (ARRAY(SELECT id FROM chosen)) FOR UPDATE SKIP LOCKED),
locked AS MATERIALIZED (
  SELECT id, k FROM chosen WHERE id NOT IN (SELECT id FROM unlocked)),
taken AS (
  UPDATE {table} AS t SET status = 1, claim_token = :token, claimed_at = {now},
    next_retry_at = {until}
  WHERE t.status + 0 = 1 AND t.id = ANY (ARRAY(
    SELECT c.id FROM chosen AS c
    WHERE NOT EXISTS (
      SELECT 1 FROM locked AS l WHERE l.id = c.id
        OR :unordered::bigint = 0 AND l.k = c.k AND l.id < c.id)
    ORDER BY c.id LIMIT :limit::bigint))
  RETURNING t.*)
SELECT id, 0::bigint, attempts, generation, created_at, 0::bigint,
  {texts}
FROM taken ORDER BY id;

-- name: claim-expired
-- Claim one row whose claim has expired, to be tried alone.  The attempt is recorded before it is made, so
-- that a message that crashes its relay runs out of attempts.  The row is the first of its key, and no
-- row of the key is under a live claim.
UPDATE {table} AS t SET status = 1, claim_token = :token,
  attempts = least(t.attempts, 999999999) + 1, claimed_at = {now}, next_retry_at = {until}
WHERE t.status + 0 = 1 AND t.id = (
  SELECT c.id FROM {table} AS c
  WHERE c.status = 1 AND {due:c} <= {now} AND {free}
  ORDER BY {due:c} LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, 1::bigint, attempts - 1, generation, created_at, 0::bigint,
  {texts};

-- name: claim-next
-- Milliseconds until the first claim expires, and until the first failed row is due.  Rows that are
-- parked behind a dead row do not count
-- (until_empty_competing_ends_with_parked_claims_and_failures).
SELECT (SELECT ceil(extract(epoch FROM {due:c} - {now}) * 1000.0)::bigint
        FROM {table} AS c WHERE c.status = 1 AND {unparked} ORDER BY {due:c} LIMIT 1),
       (SELECT ceil(extract(epoch FROM {due:c} - {now}) * 1000.0)::bigint
        FROM {table} AS c WHERE c.status = 3 AND {unparked} ORDER BY {due:c} LIMIT 1);

-- part: utf8_id
-- Text in the form that a relay has, whose connection sends texts in the encoding of the database.
pg_catalog.convert_to(message_id, 'UTF8')

-- part: short_name
-- Message id in the form of wh_store_names(): of a long id the first bytes and the SHA-256
-- (a_long_message_id_is_acknowledged_with_the_others).  A width above 128 means that some id is long.
CASE WHEN :width::integer <= 128 OR length({utf8_id}) <= 128 THEN {utf8_id}
     ELSE substr({utf8_id}, 1, 80) || encode(sha256({utf8_id}), 'hex')::bytea END

-- part: named_in_list
-- The ids are in ascending order.
(:names::bytea IS NULL OR {short_name} = btrim(
   substr(:names::bytea, (width_bucket(id, (SELECT {ids})) - 1) * :width::integer + 1,
          :width::integer), decode('00', 'hex')))

-- name: extend
-- An expired claim is not extended.
UPDATE {table} SET next_retry_at = {until}
WHERE id = ANY ({ids}) AND status + 0 = 1 AND claim_token = :token
  AND next_retry_at > {now}
  AND {named_in_list};

-- part: ahead
-- Pending rows behind the cursor, in id order.
SELECT *, {fine} FROM {table}
WHERE {pending} AND (status, id) > (0, :after::bigint)
ORDER BY status, id LIMIT :limit::bigint

-- name: read
SELECT {quick_columns} FROM ({ahead}) AS ahead ORDER BY id;

-- name: sweep
-- All open rows behind the cursor, in id order: three ranges of the index, merged, and rows with
-- skipped ids that have been committed since (rows_of_a_key_that_appear_late_…).
SELECT {quick_columns}
FROM (
  ({ahead})
  UNION ALL
  (SELECT *, {fine} FROM {table} WHERE {processing} AND (status, id) > (1, :after::bigint)
   ORDER BY status, id LIMIT :limit::bigint)
  UNION ALL
  (SELECT *, {fine} FROM {table} WHERE {failed} AND (status, id) > (3, :after::bigint)
   ORDER BY status, id LIMIT :limit::bigint)
  UNION ALL
  (SELECT late.* FROM json_array_elements(:gaps::json) AS gap
   CROSS JOIN LATERAL (
     SELECT *, {fine} FROM {table} WHERE status = 0 AND id <= :after::bigint
       AND id BETWEEN (gap->>0)::bigint AND (gap->>1)::bigint OFFSET 0) AS late)) AS merged
ORDER BY id LIMIT :limit::bigint;

-- name: sweep-touched
-- Open rows that are not as their producer wrote them: they were tried before, or have the empty token
-- of an operator who wants them again.  The condition has sums, so that no index of ids fits, which
-- would have all delivered rows.
SELECT {open_columns} FROM {table} AS b
WHERE {busy} AND status <> 4 AND id + 0 > :after::bigint
ORDER BY id + 0 LIMIT :limit::bigint;

-- name: read-ids
-- Rows that were left behind a failed message of their key, or gaps.
SELECT {open_columns} FROM {table} WHERE id = ANY ({ids}) AND {is_open} ORDER BY id;

-- name: read-in-order
-- Like "read-ids", in the order of the list.
SELECT {open_columns}
FROM unnest({ids}) WITH ORDINALITY AS turn(wanted, nth)
CROSS JOIN LATERAL (SELECT * FROM {table} WHERE id = wanted OFFSET 0) AS t
WHERE {is_open} ORDER BY nth;

-- name: stream-first
-- Rows that existed before the stream begins, for relays that mark no rows, in the form of the stream's
-- rows.
SELECT id, status, attempts, generation, created_at, NULL::bigint, message_id, topic,
  aggregate_type, aggregate_id, partition_key, headers, trace_id, payload
FROM {table} WHERE status IN (0, 1, 3) ORDER BY id;

-- part: next_number
-- Number of the next transaction to begin.  A snapshot's xmax is lower: it is the first number above all
-- transactions that ended, and running ones may have numbers above it
-- (the_lower_id_of_a_younger_transaction_is_not_forgotten).
(pg_snapshot_xmax(s)::text::bigint + age(pg_snapshot_xmax(s)::xid))

-- name: horizon
-- The oldest transaction that still runs, and the next to begin: a gap that was found before `next`
-- is closed when `oldest` has reached it.  An INSERT takes its id before its transaction gets a
-- number, but it has a snapshot meanwhile, whose age every role may see: no running statement began
-- when the next transaction was below the third column
-- (an_id_taken_by_a_statement_that_still_runs_is_not_forgotten).  The statement also proves that
-- rows read before it were read under the lease.
SELECT pg_snapshot_xmin(s)::text::bigint, {next_number},
  CASE WHEN :statements::bigint = 0 THEN 0 ELSE {next_number} - coalesce((
    SELECT max(age(backend_xmin)) FROM pg_stat_get_activity(NULL::integer) AS a
    WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
      AND datid = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)), 0) END,
  EXISTS (SELECT 1 FROM {wherry_lease} WHERE {holds})
FROM pg_current_snapshot() AS s;

-- name: frontier
-- For key-strict: all transactions that took an id below a pending one have numbers below `next`, and
-- have ended when `oldest` has reached it.  Also whether a row is between two ids.
SELECT pg_snapshot_xmin(s)::text::bigint, {next_number},
  coalesce((SELECT id FROM {table} WHERE {pending} ORDER BY status DESC, id DESC LIMIT 1), 0),
  (SELECT count(*) FROM (
     SELECT id FROM {table} WHERE {pending} AND (status, id) > (0, :after::bigint)
       AND id < :before::bigint ORDER BY status, id LIMIT 1) AS between_them)
FROM pg_current_snapshot() AS s;

-- name: id-taking
-- Whether each transaction gets a number before it takes an id, and how many ids a session takes.
SELECT (SELECT count(*) FROM pg_trigger WHERE tgrelid = {'table}::regclass::oid
          AND tgname = {name} || '_number' AND tgenabled IN ('O', 'A')),
  coalesce((SELECT seqcache FROM pg_sequence
            WHERE seqrelid = pg_get_serial_sequence({'table}, 'id')::regclass::oid), 1);

-- name: dead-keys
-- Dead rows, for relays that park the keys of dead messages.
SELECT id, {key_texts}
FROM {table} WHERE status = 4 AND id > :after ORDER BY id LIMIT :limit;

-- name: open-upto
-- Whether a row is open up to this id.
SELECT count(*) FROM (
  (SELECT id FROM {table} WHERE {pending} AND (status, id) <= (0, :upto::bigint) LIMIT 1)
  UNION ALL
  (SELECT id FROM {table} WHERE {processing} AND (status, id) <= (1, :upto::bigint) LIMIT 1)
  UNION ALL
  (SELECT id FROM {table} WHERE {failed} AND (status, id) <= (3, :upto::bigint) LIMIT 1)
  LIMIT 1) AS upto;

-- name: last-open
SELECT greatest(
  coalesce((SELECT id FROM {table} WHERE {pending} ORDER BY status DESC, id DESC LIMIT 1), 0),
  coalesce((SELECT id FROM {table} WHERE {processing} ORDER BY status DESC, id DESC LIMIT 1), 0),
  coalesce((SELECT id FROM {table} WHERE {failed} ORDER BY status DESC, id DESC LIMIT 1), 0));

-- part: named_in_range
-- A row may have been deleted, and another may have its id now, so an acknowledgement names the message
-- id too (what_took_the_id_of_a_message_in_flight_is_delivered).  The names follow one another, each as
-- wide as the longest, so the statement finds the name of a row without a search, and no index of
-- message ids fits.
(:names::bytea IS NULL OR {short_name} = btrim(
   substr(:names::bytea, (id - :first)::integer * :width::integer + 1, :width::integer),
   decode('00', 'hex')))

-- name: locked
-- Rows that another transaction has locked.  The statement waits for none (one_locked_row_holds_up_no_other).
WITH free AS MATERIALIZED (
  SELECT t.id FROM {table} AS t WHERE t.id = ANY ({ids}) FOR UPDATE SKIP LOCKED)
SELECT t.id FROM {table} AS t WHERE t.id = ANY ({ids}) AND NOT EXISTS (
  SELECT 1 FROM free AS f WHERE f.id = t.id);

-- name: done-mark
UPDATE {table} SET status = 2, processed_at = {now}
WHERE id = ANY ({ids}) AND {is_open}
  AND (:token::text IS NULL OR claim_token = :token::text)
  AND {named_in_list};

-- name: done-delete
DELETE FROM {table} WHERE id = ANY ({ids}) AND {is_open}
  AND (:token::text IS NULL OR claim_token = :token::text)
  AND {named_in_list};

-- name: done-mark-range
-- The same for consecutive ids, which those of a batch nearly always are.
UPDATE {table} SET status = 2, processed_at = {now}
WHERE id BETWEEN :first AND :last AND {is_open}
  AND (:token::text IS NULL OR claim_token = :token::text)
  AND {named_in_range};

-- name: done-delete-range
DELETE FROM {table} WHERE id BETWEEN :first AND :last AND {is_open}
  AND (:token::text IS NULL OR claim_token = :token::text)
  AND {named_in_range};

-- part: acknowledger
-- The fence in the statement that writes.  The server need not write such an acknowledgement to disk
-- before it answers: if it is lost, its messages are delivered again, which may happen anyway.
WITH held AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true) FROM {wherry_lease}
  WHERE {holds} FOR SHARE)

-- name: ack-mark
-- Acknowledge deliveries when there is nothing else to write: one statement that is its own transaction
-- (a_lease_that_was_taken_over_acknowledges_nothing).
{acknowledger}
UPDATE {table} SET status = 2, processed_at = {now}
WHERE id = ANY ({ids}) AND {is_open} AND EXISTS (SELECT 1 FROM held)
  AND {named_in_list};

-- name: ack-mark-range
{acknowledger}
UPDATE {table} SET status = 2, processed_at = {now}
WHERE id BETWEEN :first AND :last AND {is_open} AND EXISTS (SELECT 1 FROM held)
  AND {named_in_range};

-- name: ack-delete
{acknowledger}
DELETE FROM {table}
WHERE id = ANY ({ids}) AND {is_open} AND EXISTS (SELECT 1 FROM held)
  AND {named_in_list};

-- name: ack-delete-range
{acknowledger}
DELETE FROM {table}
WHERE id BETWEEN :first AND :last AND {is_open} AND EXISTS (SELECT 1 FROM held)
  AND {named_in_range};

-- part: archive_columns
id, message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id,
  attempts, created_at, processed_at, generation, last_error, payload

-- part: archive_again
-- A row that was replayed and is delivered again replaces the one in the archive.
ON CONFLICT (id) DO UPDATE SET message_id = excluded.message_id, topic = excluded.topic,
  aggregate_type = excluded.aggregate_type, aggregate_id = excluded.aggregate_id,
  partition_key = excluded.partition_key, headers = excluded.headers,
  trace_id = excluded.trace_id, attempts = excluded.attempts,
  created_at = excluded.created_at, processed_at = excluded.processed_at,
  generation = excluded.generation, last_error = excluded.last_error,
  payload = excluded.payload

-- name: done-archive
-- Runs before done-delete, in the same transaction; the rows stay locked until then.
INSERT INTO {table_archive}({archive_columns})
SELECT id, message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id,
       attempts, created_at, {now}, generation, last_error, payload
FROM {table} WHERE id = ANY ({ids}) AND {is_open}
  AND (:token::text IS NULL OR claim_token = :token::text)
  AND {named_in_list}
FOR UPDATE
{archive_again};

-- name: fail
-- If the number of the attempt is known, it is set and not increased: a transaction whose answer was
-- lost is written again (a_lost_answer_counts_no_attempt_twice).  An operator may have set the number
-- to 0 meanwhile.
UPDATE {table} SET
  status = CASE WHEN :dead::bigint <> 0 THEN 4 ELSE 3 END,
  attempts = CASE WHEN attempts BETWEEN :nth::integer - 1 AND :nth::integer
                       AND :nth::integer > 0 THEN :nth::integer
                  ELSE least(attempts, 999999999) + :count::integer END,
  next_retry_at = CASE WHEN :dead::bigint <> 0 THEN NULL ELSE {after_delay} END,
  last_error = :error
WHERE id = :id AND {this} AND {is_open}
  AND (:token::text IS NULL OR claim_token = :token::text);

-- name: requeue
-- The empty token marks the row, as in "retry-dead".
UPDATE {table} SET status = 0, next_retry_at = NULL, claimed_at = NULL, claim_token = ''
WHERE id = ANY ({ids}) AND status + 0 IN (1, 3)
  AND (:token::text IS NULL OR claim_token = :token::text)
  AND {named_in_list};

-- name: requeue-failed
-- For relays that read no pending rows: make rows failed and due now, and count no attempt.
UPDATE {table} SET status = 3, next_retry_at = {now}, claimed_at = NULL, claim_token = ''
WHERE id = ANY ({ids}) AND status + 0 IN (1, 3)
  AND (:token::text IS NULL OR claim_token = :token::text)
  AND {named_in_list};

-- name: try
-- The attempt of a suspect is recorded before it is delivered, so that a message that crashes its relay
-- runs out of attempts (a_message_that_kills_its_relay_ends_dead).
UPDATE {table} SET status = 1,
  attempts = CASE WHEN attempts BETWEEN :nth::integer - 1 AND :nth::integer
                       AND :nth::integer > 0 THEN :nth::integer
                  ELSE least(attempts, 999999999) + 1 END,
  claimed_at = {now}, claim_token = :token::text,
  next_retry_at = CASE WHEN status = 1 THEN next_retry_at END
WHERE id = :id AND {this} AND {is_open}
  AND (:claimed::bigint = 0 OR claim_token = :token::text);

-- name: untry
-- The destination was down, so the attempt of the message does not count
-- (relays_that_end_while_the_destination_is_down_cost_no_attempt).
UPDATE {table} SET status = 0, attempts = :nth::integer - 1, next_retry_at = NULL,
  claimed_at = NULL, claim_token = ''
WHERE id = :id AND {this} AND status + 0 = 1 AND claim_token = :token::text AND attempts = :nth::integer;

-- name: reap
-- Live claims that were extended are left out (reaping_leaves_claims_that_live).
UPDATE {table} SET status = 0, claimed_at = NULL, claim_token = '', next_retry_at = NULL
WHERE status = 1
  AND (claimed_at <= {now} - least(:timeout::bigint, 3153600000000)::float8 * interval '1 millisecond'
       OR NOT coalesce(isfinite(claimed_at), false))
  AND (next_retry_at <= {now} OR NOT coalesce(isfinite(next_retry_at), false));

-- part: old_enough
processed_at <= statement_timestamp() - least(:age::bigint, 3153600000000)::float8 * interval '1 millisecond'

-- part: is_done
-- Condition: the row is delivered, written so that only the primary key fits, like "is_open"
-- (statistics_of_a_backlog_make_no_statement_read_what_is_done).
status + 0 = 2

-- name: purge
DELETE FROM {table} WHERE {is_done} AND id = ANY (ARRAY(
  SELECT id FROM {table} WHERE status = 2 AND {old_enough}
  ORDER BY processed_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED));

-- name: purge-count
SELECT count(*) FROM {table} WHERE status = 2 AND {old_enough};

-- name: purge-archived
-- Runs after archive: delete only rows that are in the archive, since the clock has advanced in between.
-- Each row is looked up in the archive: a join may begin there.
DELETE FROM {table} WHERE {is_done} AND id = ANY (ARRAY(
  SELECT o.id FROM {table} AS o
  WHERE o.status = 2 AND {old_enough}
    AND (SELECT a.message_id = o.message_id AND a.generation = o.generation
         FROM {table_archive} AS a WHERE a.id = o.id)
  ORDER BY o.processed_at LIMIT :limit::bigint));

-- name: archive
-- Runs before purge-archived, in the same transaction.
INSERT INTO {table_archive}({archive_columns})
SELECT {archive_columns} FROM {table} WHERE status = 2 AND {old_enough}
ORDER BY processed_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
{archive_again};

-- name: purge-archive
DELETE FROM {table_archive} WHERE id = ANY (ARRAY(
  SELECT id FROM {table_archive} WHERE {old_enough}
  ORDER BY processed_at LIMIT :limit::bigint));

-- name: purge-archive-count
SELECT count(*) FROM {table_archive} WHERE {old_enough};

-- part: since_processed
(:since::bigint = 0
  OR processed_at >= statement_timestamp() - least(:since::bigint, 3153600000000)::float8 * interval '1 millisecond')

-- part: named
-- Row with that message id, or else with that number, each found by its index.
SELECT * FROM {table} WHERE message_id = :ident::text
  UNION ALL
  SELECT * FROM {table} WHERE :ident::text IS NOT NULL AND id = :number::bigint
    AND NOT EXISTS (SELECT 1 FROM {table} AS n WHERE n.message_id = :ident::text)

-- name: retry-dead
-- A token that no relay has makes claims of later rows of the key wait for this row.  The sum has the
-- same purpose as in "purge".
UPDATE {table} SET status = 0, attempts = 0, next_retry_at = NULL, claimed_at = NULL,
  claim_token = ''
WHERE status + 0 IN (3, 4) AND id = ANY (ARRAY(
  SELECT id FROM (
    SELECT * FROM {table} WHERE status = 4 AND :ident::text IS NULL
    UNION ALL
    SELECT * FROM {table} WHERE {failed} AND :ident::text IS NULL
    UNION ALL
    {named}) AS t
  WHERE (status + 0 = 4 AND :states::bigint & 16::bigint <> 0
         OR status + 0 = 3 AND :states::bigint & 8::bigint <> 0)
    AND {topic_and_key} AND {since_created} AND id + 0 > :after::bigint
  ORDER BY id {limited}));

-- part: since
-- A time in a form that an index can use.
statement_timestamp() - least(:since::bigint, 3153600000000)::float8 * interval '1 millisecond'

-- name: discard
-- Delivered rows are not deleted.  A relay that has the message in flight finds no row to acknowledge.
DELETE FROM {table} WHERE status + 0 IN (0, 1, 3, 4) AND id = ANY (ARRAY(
  SELECT id FROM ({named}) AS t));

-- name: replay
-- The empty token marks the row, as in "retry-dead".
UPDATE {table} SET status = 0, attempts = 0, next_retry_at = NULL, processed_at = NULL,
  claimed_at = NULL, claim_token = '',
  generation = least(generation, 999999999) + 1
WHERE {is_done} AND id = ANY (ARRAY(
  SELECT id FROM (
    SELECT * FROM {table} WHERE status = 2 AND :since::bigint = 0 AND :ident::text IS NULL
    UNION ALL
    SELECT * FROM {table} WHERE status = 2 AND :since::bigint <> 0 AND :ident::text IS NULL
      AND processed_at >= {since}
    UNION ALL
    {named}) AS t
  WHERE {is_done} AND {since_processed}
    AND (id <> :number::bigint OR message_id = :ident::text OR NOT EXISTS (
         SELECT 1 FROM {table_archive} AS n WHERE n.message_id = :ident::text))
    AND {topic_and_key} AND id + 0 > :after::bigint
  ORDER BY id {limited}));

-- name: replay-archived
-- Runs after replay, with the rest of its limit.  A message comes back with its id, unless another
-- message has it by now.  It stays in the archive while the outbox has a row with its message id.
INSERT INTO {table}(id, message_id, topic, aggregate_type, aggregate_id, partition_key,
  headers, trace_id, claim_token, created_at, generation, last_error, payload)
SELECT CASE WHEN NOT EXISTS (SELECT 1 FROM {table} AS b WHERE b.id = a.id) THEN a.id
            ELSE nextval(pg_get_serial_sequence({'table}, 'id')::regclass) END,
       a.message_id, a.topic, a.aggregate_type, a.aggregate_id, a.partition_key, a.headers,
       a.trace_id, '', a.created_at, least(a.generation, 999999999) + 1, a.last_error,
       a.payload
FROM (
  SELECT * FROM {table_archive} WHERE message_id = :ident::text
  UNION ALL
  SELECT * FROM {table_archive} WHERE :ident::text IS NOT NULL AND id = :number::bigint
    AND NOT EXISTS (SELECT 1 FROM {table} AS n WHERE n.message_id = :ident::text)
    AND NOT EXISTS (SELECT 1 FROM {table_archive} AS n WHERE n.message_id = :ident::text)
  UNION ALL
  SELECT * FROM {table_archive} WHERE :ident::text IS NULL AND :since::bigint = 0
  UNION ALL
  SELECT * FROM {table_archive} WHERE :ident::text IS NULL AND :since::bigint <> 0
    AND processed_at >= {since}) AS a
WHERE {topic_and_key} AND {since_processed} AND a.id + 0 > :after::bigint
ORDER BY a.id {limited}
ON CONFLICT (message_id) DO NOTHING;

-- name: unarchive
-- Runs after replay-archived, in the same transaction: delete the rows that came back.
DELETE FROM {table_archive} WHERE id = ANY (ARRAY(
  SELECT a.id FROM {table} AS b CROSS JOIN LATERAL (
    SELECT id FROM {table_archive}
    WHERE message_id = b.message_id AND created_at = b.created_at
      AND generation = b.generation - 1 OFFSET 0) AS a
  WHERE {busy} AND b.status + 0 = 0));

-- part: shown_archived
2::smallint, attempts, generation, created_at, NULL::timestamptz, NULL::timestamptz,
       processed_at,
       {texts},
       {error_text}, 0::bigint, 0::bigint

-- name: list
-- Rows of states other than done, each state by its own index, so that dead letters are found at once in
-- a large table.
SELECT id, {shown}
FROM (
  (SELECT * FROM {table}
   WHERE {pending} AND (status, id) > (0, :after::bigint) AND :states::bigint & 1::bigint <> 0
     AND :ident::text IS NULL AND {asked} ORDER BY status, id {limited})
  UNION ALL
  (SELECT * FROM {table}
   WHERE {processing} AND (status, id) > (1, :after::bigint) AND :states::bigint & 2::bigint <> 0
     AND :ident::text IS NULL AND {asked} ORDER BY status, id {limited})
  UNION ALL
  (SELECT * FROM {table}
   WHERE {failed} AND (status, id) > (3, :after::bigint) AND :states::bigint & 8::bigint <> 0
     AND :ident::text IS NULL AND {asked} ORDER BY status, id {limited})
  UNION ALL
  (SELECT * FROM {table}
   WHERE status = 4 AND id > :after::bigint AND :states::bigint & 16::bigint <> 0
     AND :ident::text IS NULL AND {asked} ORDER BY id {limited})
  UNION ALL
  (SELECT * FROM ({named}) AS n
   WHERE status <> 2 AND (:states::integer >> status::integer) & 1 = 1
     AND id > :after::bigint AND {asked})) AS t
ORDER BY id {limited};

-- name: list-any
SELECT id, {shown}
FROM (
  (SELECT * FROM {table}
   WHERE id > :after::bigint AND (:states::integer >> status::integer) & 1 = 1
     AND :ident::text IS NULL AND {asked} ORDER BY id {limited})
  UNION ALL
  (SELECT * FROM ({named}) AS n
   WHERE id > :after::bigint AND (:states::integer >> status::integer) & 1 = 1
     AND {asked})) AS t
ORDER BY id {limited};

-- name: list-newest
-- Like "list", from the highest id down.
SELECT id, {shown}
FROM (
  (SELECT * FROM {table}
   WHERE {pending} AND (status, id) < (0, :before::bigint) AND :states::bigint & 1::bigint <> 0
     AND :ident::text IS NULL AND {asked} ORDER BY status DESC, id DESC {limited})
  UNION ALL
  (SELECT * FROM {table}
   WHERE {processing} AND (status, id) < (1, :before::bigint) AND :states::bigint & 2::bigint <> 0
     AND :ident::text IS NULL AND {asked} ORDER BY status DESC, id DESC {limited})
  UNION ALL
  (SELECT * FROM {table}
   WHERE {failed} AND (status, id) < (3, :before::bigint) AND :states::bigint & 8::bigint <> 0
     AND :ident::text IS NULL AND {asked} ORDER BY status DESC, id DESC {limited})
  UNION ALL
  (SELECT * FROM {table}
   WHERE status = 4 AND id < :before::bigint AND :states::bigint & 16::bigint <> 0
     AND :ident::text IS NULL AND {asked} ORDER BY id DESC {limited})
  UNION ALL
  (SELECT * FROM ({named}) AS n
   WHERE status <> 2 AND (:states::integer >> status::integer) & 1 = 1
     AND id < :before::bigint AND {asked})) AS t
ORDER BY id DESC {limited};

-- name: list-any-newest
SELECT id, {shown}
FROM (
  (SELECT * FROM {table}
   WHERE id < :before::bigint AND (:states::integer >> status::integer) & 1 = 1
     AND :ident::text IS NULL AND {asked} ORDER BY id DESC {limited})
  UNION ALL
  (SELECT * FROM ({named}) AS n
   WHERE id < :before::bigint AND (:states::integer >> status::integer) & 1 = 1
     AND {asked})) AS t
ORDER BY id DESC {limited};

-- part: named_archived
SELECT * FROM {table_archive} WHERE message_id = :ident::text
  UNION ALL
  SELECT * FROM {table_archive} WHERE :ident::text IS NOT NULL AND id = :number::bigint
    AND NOT EXISTS (SELECT 1 FROM {table_archive} AS n WHERE n.message_id = :ident::text)

-- name: list-archived
SELECT id, {shown_archived}
FROM (
  (SELECT * FROM {table_archive}
   WHERE id > :after::bigint AND :ident::text IS NULL AND {asked} ORDER BY id {limited})
  UNION ALL
  (SELECT * FROM ({named_archived}) AS n WHERE id > :after::bigint AND {asked})) AS t
WHERE :states::bigint & 4::bigint <> 0
ORDER BY id {limited};

-- name: show
-- The row, with the lowest open row of the same ordering key before it, and the lowest dead one.  No
-- index has the keys of pending rows, so the open rows before it are read.
SELECT c.id, c.status, c.attempts, c.generation, c.created_at, c.claimed_at, c.next_retry_at,
       c.processed_at,
       {texts},
       {error_text},
       (SELECT min(b.id + 0) FROM {table} AS b
        WHERE b.status IN (0, 1, 3) AND b.id + 0 < c.id AND {key:b} = {key:c}),
       (SELECT min(b.id) FROM {table} AS b
        WHERE {busy} AND b.status + 0 = 4 AND c.status IN (0, 1, 3) AND {key:b} = {key:c})
FROM (
  SELECT * FROM {table} WHERE message_id = :ident::text
  UNION ALL
  SELECT * FROM {table} WHERE id = :number::bigint
    AND NOT EXISTS (SELECT 1 FROM {table_archive} AS n WHERE n.message_id = :ident::text)) AS c
ORDER BY c.message_id = :ident::text DESC LIMIT 1;

-- name: show-archived
-- Rows of the archive, which "show" does not find.
SELECT id, {shown_archived}
FROM (
  SELECT * FROM {table_archive} WHERE message_id = :ident::text
  UNION ALL
  SELECT * FROM {table_archive} WHERE id = :number::bigint) AS t
ORDER BY message_id = :ident::text DESC, id DESC LIMIT 1;

-- name: count
SELECT (SELECT count(*) FROM {table} WHERE status = 0),
       (SELECT count(*) FROM {table} WHERE status = 1),
       (SELECT count(*) FROM {table} WHERE status = 2),
       (SELECT count(*) FROM {table} WHERE status = 3),
       (SELECT count(*) FROM {table} WHERE status = 4);

-- name: count-archived
SELECT count(*) FROM {table_archive};

-- name: ready
-- Number of failed rows that are due, and the age of the oldest message that may be delivered now.
SELECT count(*), coalesce(max({age}), 0)
FROM {table} WHERE status = 3 AND next_retry_at <= {now};

-- name: oldest-pending
-- The oldest message that nothing holds, among the first 10,000; if all of these are held, the next one.
-- It is almost always the first.  OFFSET 0 makes PostgreSQL look up each row by index.
SELECT {age}
FROM {table} AS c
WHERE {pending} AND (NOT EXISTS (
  SELECT 1 FROM {table} AS b
  WHERE {busy} AND {key:b} = {key:c} AND b.id < c.id AND b.status = 3
    AND b.next_retry_at > {now} OFFSET 0)
  OR c.id >= coalesce((SELECT id FROM {table} WHERE {pending}
                       ORDER BY status, id LIMIT 1 OFFSET 10000), 9223372036854775807))
ORDER BY status, id LIMIT 1;

-- name: held-pending
-- Number of pending messages that wait behind a failed one of their key.
SELECT count(*) FROM {table} AS c
WHERE c.status = 0 AND EXISTS (
  SELECT 1 FROM {table} AS b
  WHERE {busy} AND {key:b} = {key:c} AND b.id < c.id AND b.status = 3
    AND b.next_retry_at > {now});

-- name: backlog
-- Numbers of waiting messages, each counted up to a limit, since metrics read them often.
SELECT (SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {pending} LIMIT :most::bigint) AS a),
       (SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {processing} LIMIT :most::bigint) AS b),
       (SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {failed} LIMIT :most::bigint) AS c),
       (SELECT count(*) FROM (SELECT 1 FROM {table} WHERE status = 4 LIMIT :most::bigint) AS d);

-- include: postgres.partitions.sql
