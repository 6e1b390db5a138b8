-- layout: name=native names=qualified payloads=json,jsonb,text,bytea columns=id,message_id,body,state,available_at,lease_token
--
-- The native queue on PostgreSQL.  Times are timestamptz, which the driver reads as Unix
-- milliseconds, and always the database's clock.
--
-- state: 0 ready, 1 leased, 3 waiting (delayed, or to be retried), 4 dead.  available_at is NULL
-- while a message is ready; the end of the lease while it is leased; when it is due while it waits.
-- Acknowledged messages are deleted.
--
-- Each state has a separate index, and a row is in one of them: a receive reads no row that is
-- leased, delayed or dead.  The index of ready rows is over id + 0, so that the primary key, which
-- has all of them, fits no statement that looks for ready rows.
--
-- Statements up to "dead-letter" run in transactions of the application, with its search path:
-- their functions and operators are qualified (receiving_is_safe_though_pg_catalog_comes_last).

-- part: now
pg_catalog.statement_timestamp()

-- part: until
-- Time when a lease of that length ends.  Operators in the form OPERATOR() all have the same precedence.
({now} OPERATOR(pg_catalog.+) (least(:lasts::bigint, 3153600000000)::double precision
  OPERATOR(pg_catalog.*) interval '1 millisecond'))

-- part: after_delay
({now} OPERATOR(pg_catalog.+) (least(:delay::bigint, 3153600000000)::double precision
  OPERATOR(pg_catalog.*) interval '1 millisecond'))

-- part: ids
pg_catalog.translate(:ids::pg_catalog.text, '[]', '{}')::bigint[]

-- part: due_at
-- Time when a row can be received, cut to the years that Wherry writes: PostgreSQL cannot subtract from
-- infinity (infinite_times_stop_no_receiver).
greatest(least({.}available_at, '10000-01-01 00:00:00+00'::pg_catalog.timestamptz), '1970-01-01 00:00:00+00'::pg_catalog.timestamptz)

-- part: sent_at
-- Time when a message was sent, cut to the same years.
greatest(least({.}created_at, '10000-01-01 00:00:00+00'::pg_catalog.timestamptz), '1970-01-01 00:00:00+00'::pg_catalog.timestamptz)

-- include: postgres.worker.sql

-- part: sane
-- It is short, since PostgreSQL reads its text again for each statement that inserts or updates, which cost as much as the
-- statement.  A row that is wrong otherwise kills its message alone.
id > 0 AND CASE state WHEN 0 THEN available_at IS NULL WHEN 1 THEN available_at IS NOT NULL AND lease_token IS NOT NULL
                      WHEN 3 THEN available_at IS NOT NULL ELSE state = 4 END

-- name: wake-key
-- Number of the table, for the lock that a sleeping receiver holds and for the names of the channels
-- that wake it.
SELECT {'table}::pg_catalog.regclass::pg_catalog.oid::bigint;

-- include: postgres.own.sql
-- include: postgres.relays.sql

-- name: lineage
{this_server};

-- part: index_ready
CREATE INDEX IF NOT EXISTS {bare_ready} ON {table}({seq}) WHERE state = 0;

-- part: index_timed
CREATE INDEX IF NOT EXISTS {bare_timed} ON {table}(available_at) WHERE {timed};

-- part: index_dead
CREATE INDEX IF NOT EXISTS {bare_dead} ON {table}(id) WHERE state = 4;

-- part: index_expires
CREATE INDEX IF NOT EXISTS {bare_expires} ON {table}(expires_at)
  WHERE expires_at IS NOT NULL AND state <> 4;

-- part: trigger_wake
CREATE TRIGGER {bare_wake} AFTER INSERT ON {table}
  FOR EACH STATEMENT EXECUTE FUNCTION {wherry_wake}();

-- part: trigger_wake_back
CREATE TRIGGER {bare_wake_back} AFTER UPDATE ON {table}
  FOR EACH ROW
  WHEN (NEW.state IN (0, 3) AND OLD.state IN (1, 4))
  EXECUTE FUNCTION {wherry_wake}();

-- part: set_schema
SELECT set_config('wherry.schema', relnamespace::pg_catalog.regnamespace::pg_catalog.text, true)
FROM pg_class WHERE oid = {'table}::pg_catalog.regclass::pg_catalog.oid;

-- part: own_functions
-- Functions that all queues of a schema share.
ARRAY['wherry_send', 'wherry_send_many', 'wherry_publish', 'wherry_receive', 'wherry_unreadable', 'wherry_ack', 'wherry_nack', 'wherry_extend',
      'wherry_dead_letter', 'wherry_ack_many', 'wherry_nack_many', 'wherry_extend_many', 'wherry_dead_letter_many', 'wherry_cancel', 'wherry_queue_length', 'wherry_subscribe', 'wherry_unsubscribe',
      'wherry_listen', 'wherry_unlisten']::pg_catalog.name[]

-- part: function_models
'queue'

-- part: function_column
'body' AND EXISTS (SELECT 1 FROM pg_attribute AS k WHERE k.attrelid = c.oid AND k.attname = 'lease_token' AND NOT k.attisdropped)

-- part: leaf
-- Expressions of the body: whether all of many can be stored, as the table stores it, as wherry_receive() returns it, and whether it may be longer than
-- wherry_unreadable() allows.  The text of less than 90,000 bytes of binary JSON is never too long for the server: 12
-- bytes have at most 131,072 digits.
replace(replace(replace(replace(section, '@converts@', CASE WHEN t.type = 'pg_catalog.' || kind THEN '' ELSE
  'BEGIN
    PERFORM count(@value@) FROM @rows@ WHERE own.wrong IS NULL;
  EXCEPTION WHEN data_exception THEN
    wrong := 1;
  END;' END), '@doubt@', CASE t.type WHEN 'pg_catalog.json' THEN 'pg_column_size(m.body) > 260000'
    WHEN 'pg_catalog.jsonb' THEN 'CASE WHEN pg_column_size(ARRAY[m.body]) > 90000 THEN true
            ELSE octet_length(m.body::pg_catalog.text) > 67108864 END'
    ELSE 'octet_length(m.body) > 67108864' END), '@value@', CASE WHEN t.type = 'pg_catalog.' || kind THEN '@given@'
    WHEN t.type = 'pg_catalog.bytea' THEN 'convert_to(@given@::pg_catalog.text, ''UTF8'')'
    WHEN kind = 'bytea' THEN concat('convert_from(@given@, ''UTF8'')::', t.type)
    ELSE concat('@given@::pg_catalog.text::', t.type) END),
  '@body@', CASE t.type WHEN 'pg_catalog.bytea' THEN 'NULL::pg_catalog.text, g.body'
    ELSE 'g.body::pg_catalog.text, NULL::pg_catalog.bytea' END)

-- include: postgres.home.sql

-- part: with_checks
-- Text of a function, with the checks that several functions begin with.  @after(MOMENT, SPAN)@ adds years and
-- months by the calendar, in UTC.  @most(SPAN)@ refuses a span over 36500 days
-- (functions_refuse_the_spans_that_the_library_refuses).
regexp_replace(regexp_replace(regexp_replace(replace(replace(replace(replace(replace(replace(
    made, '@has@', has), '@plans@', plans), '@one@', one), '@delay@', delay), '@topic@', topic),
    '@readable@', quote_literal(readable)),
  '@most[(]([a-z]+)[)]@', $w$IF \1 > '36500 days' THEN
    RAISE '\1 is %, the limit is 36500 days', \1 USING ERRCODE = 'invalid_parameter_value';
  END IF;$w$, 'g'),
  '@seconds[(]([a-z_.]+)[)]@', 'coalesce(extract(epoch FROM \1), 0)::double precision', 'g'),
  '@after[(]([^,]+), ([a-z.]+)[)]@',
  '((\1 AT TIME ZONE ''UTC'' + coalesce(\2, ''0'')) AT TIME ZONE ''UTC'')', 'g')

-- part: make_functions
{missing_function}
-- The functions read the clock when they are called, because the statement's time does not advance in a block that
-- calls them repeatedly (functions_in_a_long_block_lease_from_their_call_on).
DO $do$
DECLARE
  schema CONSTANT text := current_setting('wherry.schema') || '.';  -- quoted where it must be
  -- A queue has an index of ready rows; to_regclass() finds it without a query.
  has CONSTANT text := $w$IF to_regclass(@box@ || quote_ident(queue || '_ready')) IS NULL THEN
    IF NOT EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass(@box@ || quote_ident(queue))
                   AND attname = 'lease_token' AND NOT attisdropped) THEN
      PERFORM @.wherry_missing('queue', queue);
    END IF;
  END IF;$w$;
  -- A session makes the plans once, when the table may be empty.  These settings make plans that are right for a full
  -- table too (functions_keep_plans_that_read_no_rows_but_theirs).
  one CONSTANT text := $w$LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off$w$;
  plans CONSTANT text := concat(one, ' SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan');
  delay CONSTANT text := $w$IF @seconds(delay)@ < 0 THEN
    RAISE 'delay is %, and must not be negative', delay USING ERRCODE = 'invalid_parameter_value';
  END IF;
  @most(delay)@$w$;
  topic CONSTANT text := $w$IF coalesce(topic, '') = '' THEN
    RAISE 'the topic is %', CASE WHEN topic IS NULL THEN 'NULL' ELSE 'empty' END
      USING ERRCODE = 'invalid_parameter_value';
  ELSIF octet_length(topic) > 255 THEN
    RAISE 'topic is % bytes, the limit is 255', octet_length(topic) USING ERRCODE = 'invalid_parameter_value';
  END IF;$w$;
  -- Headers that wh_json_headers() takes: an object of strings and nulls, without NUL or half a pair of
  -- surrogates; the type json checks the rest.  json_each() fails on such an escape, so one row would stop
  -- all receivers.
  readable CONSTANT text := concat('^\s*\u007b(?:[\s:,]|null|"(?:[^"\\]|\\["\\/bfnrt]|\\u(?:[1-9a-cA-CeEfF]...|',
    '[dD][0-7]..|0[1-9a-fA-F]..|00[1-9a-fA-F].|000[1-9a-fA-F]|[dD][89abAB]..\\u[dD][c-fC-F]..))*")*\u007d\s*$');
  key CONSTANT text := 'queue';
  otherwise CONSTANT text := concat('PERFORM ', schema, 'wherry_missing(''queue'', queue);');
  -- The arrays of wherry_send_many().
  lengths CONSTANT text := $w$cardinality(bodies), cardinality(headers), cardinality(delays), cardinality(expires),
    cardinality(correlation_ids), cardinality(reply_tos), cardinality(message_ids), cardinality(topics)$w$;
  rows CONSTANT text := $w$ROWS FROM (unnest(wherry_send_many.bodies), unnest(wherry_send_many.headers),
    unnest(wherry_send_many.delays), unnest(wherry_send_many.expires), unnest(wherry_send_many.correlation_ids),
    unnest(wherry_send_many.reply_tos), unnest(wherry_send_many.message_ids), unnest(wherry_send_many.topics))
    WITH ORDINALITY AS m(body, headers, delay, expires, correlation_id, reply_to, message_id, topic, nth)$w$;
  kind text;
  whole text;
  made text;
  {branch_variables}
BEGIN
  SELECT f.* INTO names, types FROM ({function_tables}) AS f;
  -- Drivers send a body as text, JSON or bytes.
  FOREACH kind IN ARRAY ARRAY['bytea', 'text', 'json', 'jsonb'] LOOP
    FOREACH made IN ARRAY ARRAY[
$f$CREATE OR REPLACE FUNCTION @.wherry_send(queue text, body @type@, headers json DEFAULT '{}',
  delay interval DEFAULT NULL, expires interval DEFAULT NULL, correlation_id text DEFAULT NULL,
  reply_to text DEFAULT NULL, message_id text DEFAULT NULL, topic text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
<<own>>
DECLARE -- Sends a message in the caller's transaction.  Returns its id.
  state integer := 0;
  due timestamptz;
  until timestamptz;
  said text := '{}';
  made bigint;
BEGIN
  IF body IS NULL THEN
    RAISE 'a message needs a body' USING ERRCODE = 'invalid_parameter_value';
  ELSIF octet_length(@sized@) > 16777216 THEN
    RAISE 'the body is % bytes, the limit is 16777216', octet_length(@sized@) USING ERRCODE = 'invalid_parameter_value';
  ELSIF greatest(octet_length(message_id), octet_length(topic), octet_length(correlation_id),
                 octet_length(reply_to)) > 255 THEN
    RAISE '%, the limit is 255', (SELECT concat(f.name, ' is ', octet_length(f.value), ' bytes')
      FROM (VALUES ('message_id', message_id), ('topic', topic), ('correlation_id', correlation_id),
                   ('reply_to', reply_to)) AS f(name, value) WHERE octet_length(f.value) > 255 LIMIT 1)
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  IF headers IS NOT NULL THEN
    said := headers;
    IF said <> '{}' AND said !~ @readable@ THEN
      RAISE 'headers are not a JSON object of strings' USING ERRCODE = 'invalid_parameter_value';
    ELSIF octet_length(said) > 262144 THEN
      RAISE 'headers are % bytes, the limit is 262144', octet_length(said) USING ERRCODE = 'invalid_parameter_value';
    END IF;
  END IF;
  IF delay IS NOT NULL OR expires IS NOT NULL THEN
    @delay@
    IF expires < '0' THEN
      RAISE 'expires is %, and must not be negative', expires USING ERRCODE = 'invalid_parameter_value',
        HINT = '0 and NULL mean that the message never expires.';
    END IF;
    @most(expires)@
    until := @after(clock_timestamp(), delay)@;
    IF delay > '0' THEN
      state := 3;
      due := until;
    END IF;
    until := CASE WHEN expires > '0' THEN @after(until, expires)@ END;
  END IF;
  @each@
  IF message_id <> '' THEN
    INSERT INTO @table@(topic, correlation_id, reply_to, headers, body, state, available_at, expires_at, message_id)
    VALUES (wherry_send.topic, wherry_send.correlation_id, wherry_send.reply_to, own.said::json, @value@,
      own.state, own.due, own.until, wherry_send.message_id) RETURNING id INTO own.made;
  ELSE
    INSERT INTO @table@(topic, correlation_id, reply_to, headers, body, state, available_at, expires_at)
    VALUES (wherry_send.topic, wherry_send.correlation_id, wherry_send.reply_to, own.said::json, @value@,
      own.state, own.due, own.until) RETURNING id INTO own.made;
  END IF;
  @end@
  RETURN made;
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_send_many(queue text, bodies @type@[], headers json[] DEFAULT NULL,
  delays interval[] DEFAULT NULL, expires interval[] DEFAULT NULL, correlation_ids text[] DEFAULT NULL,
  reply_tos text[] DEFAULT NULL, message_ids text[] DEFAULT NULL, topics text[] DEFAULT NULL)
RETURNS bigint[] LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
<<own>>
DECLARE -- Sends a message for each element, in the order of the arrays.  Returns their ids.
  called CONSTANT timestamptz := clock_timestamp();
  ids bigint[];
  wrong bigint;  -- A message that cannot be sent; those before it may be such, too.
  one record;
BEGIN
  IF @lengths@ THEN
    RAISE 'the arrays have different lengths: each has an element for each message, or is NULL'
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  wrong := (SELECT m.nth FROM @rows@ WHERE m.body IS NULL OR octet_length(@m.sized@) > 16777216
    OR greatest(octet_length(m.message_id), octet_length(m.topic), octet_length(m.correlation_id), octet_length(m.reply_to)) > 255
    OR m.headers::pg_catalog.text <> '{}' AND (octet_length(m.headers::pg_catalog.text) > 262144 OR m.headers::pg_catalog.text !~ @readable@)
    OR m.delay < '0' OR m.delay > '36500 days' OR m.expires < '0' OR m.expires > '36500 days' ORDER BY m.nth LIMIT 1);
  @each@
  @converts@
  IF wrong IS NULL THEN
    WITH got AS (INSERT INTO @table@(topic, correlation_id, reply_to, headers, body, state, available_at, expires_at, message_id)
      SELECT m.topic, m.correlation_id, m.reply_to, coalesce(m.headers, '{}'), @value@,
        CASE WHEN m.delay > '0' THEN 3 ELSE 0 END, CASE WHEN m.delay > '0' THEN m.due END,
        CASE WHEN m.expires > '0' THEN @after(m.due, m.expires)@ END, coalesce(nullif(m.message_id, ''), {new_message_id})
      FROM (SELECT m.*, @after(own.called, m.delay)@ AS due FROM @rows@) AS m ORDER BY m.nth RETURNING id)
    SELECT array_agg(g.id ORDER BY g.id) INTO own.ids FROM got AS g;
  END IF;
  @end@
  -- The function for one message says what is wrong.
  FOR one IN SELECT m.* FROM @rows@ WHERE m.nth >= own.wrong ORDER BY m.nth LOOP
    BEGIN
      PERFORM @.wherry_send(queue, one.body, one.headers, one.delay, one.expires, one.correlation_id, one.reply_to,
        one.message_id, one.topic);
    {says_which}
  END LOOP;
  IF wrong IS NOT NULL THEN
    RAISE 'message % cannot be sent', wrong;
  END IF;
  RETURN coalesce(ids, '{}');
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_publish(topic text, body @type@, headers json DEFAULT '{}',
  delay interval DEFAULT NULL, expires interval DEFAULT NULL, correlation_id text DEFAULT NULL,
  reply_to text DEFAULT NULL, message_id text DEFAULT NULL)
RETURNS bigint LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
<<own>>
DECLARE -- Sends a message to each queue that has subscribed, with one message id.  Returns the number of queues.
  one CONSTANT text := coalesce(nullif(message_id, ''), gen_random_uuid()::pg_catalog.text);
  routing CONSTANT text := @box@ || '"SubscriptionRouting"';
  routed boolean;
  n bigint;
BEGIN
  @topic@
  IF to_regclass(routing) IS NOT NULL THEN
    EXECUTE concat('SELECT EXISTS (SELECT 1 FROM ', routing, ' AS r WHERE r.topic = $1)') INTO routed
    USING topic;
    IF routed THEN
      RAISE 'queues of NServiceBus have subscribed to topic %, and wherry_publish() sends to native queues only',
        quote_literal(topic) USING ERRCODE = 'feature_not_supported',
        HINT = 'Publish with the C library or with `wherry queue publish`: both send to all of them.';
    END IF;
  END IF;
  SELECT count(@.wherry_send(s.queue, wherry_publish.body, wherry_publish.headers, wherry_publish.delay,
    wherry_publish.expires, wherry_publish.correlation_id, wherry_publish.reply_to, own.one, s.topic)) INTO own.n
  FROM @.wherry_subscription AS s
  JOIN @.wherry_schema AS q ON q.model = 'queue' AND q.name = s.queue
  WHERE s.topic = wherry_publish.topic;
  RETURN n;
END $body$ $f$] LOOP
      made := replace(replace(replace(replace(replace({with_checks}, '@type@', kind),
        '@sized@', CASE kind WHEN 'bytea' THEN 'body' ELSE 'body::pg_catalog.text' END),
        '@m.sized@', CASE kind WHEN 'bytea' THEN 'm.body' ELSE 'm.body::pg_catalog.text' END),
        '@box@', quote_literal(schema)), '@.', schema);
      {branch}
      EXECUTE replace(replace(replace(made, '@given@', CASE WHEN position('@rows@' IN made) > 0 THEN 'm.body' ELSE 'wherry_send.body' END),
        '@lengths@', concat('greatest(', lengths, ') <> least(', lengths, ')')), '@rows@', rows);
    END LOOP;
  END LOOP;
  -- Functions that settle messages are made twice: for one id, and for an array of ids.
  FOREACH whole IN ARRAY ARRAY[
$f$CREATE OR REPLACE FUNCTION @.wherry_unreadable(box text, id bigint)
RETURNS text LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE -- Returns why the server cannot send a message to this client; NULL: it can.
  most CONSTANT integer := 67108864;
  texts text;
  len bigint;
  kind text;
BEGIN
  kind := (SELECT t.typname FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
    WHERE a.attrelid = to_regclass(wherry_unreadable.box) AND a.attname = 'body' AND NOT a.attisdropped);
  -- The array holds the binary JSON without compression, which is at most four times as long as its text, and a sender
  -- may send 16 MiB of text.  The text may be much longer than the binary form, and slow to make.
  IF kind = 'jsonb' THEN
    EXECUTE concat('SELECT pg_column_size(ARRAY[body]) - 100 FROM ', box, ' WHERE id = $1') INTO len USING id;
  END IF;
  IF len <= most OR kind <> 'jsonb' THEN
    EXECUTE concat('SELECT octet_length(', CASE WHEN kind IN ('json', 'jsonb') THEN 'body::pg_catalog.text' ELSE 'body' END, ') FROM ', box, ' WHERE id = $1') INTO len USING id;
  END IF;
  IF len > most THEN
    RETURN concat('the body is over its limit of ', most, ' bytes');
  END IF;
  EXECUTE concat('SELECT concat(message_id, topic, correlation_id, reply_to, headers, last_error',
    CASE WHEN kind <> 'bytea' THEN ', body' END, ') FROM ', box, ' WHERE id = $1') INTO texts USING id;
  PERFORM convert_to(texts, pg_client_encoding());
  RETURN NULL;
EXCEPTION WHEN data_exception OR program_limit_exceeded OR internal_error OR out_of_memory THEN
  RETURN left(sqlerrm, 500);
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_receive(queue text, n integer DEFAULT 1,
  lease interval DEFAULT '30 seconds', max_attempts integer DEFAULT 0, after bigint DEFAULT 0)
RETURNS TABLE (id bigint, message_id text, topic text, correlation_id text, reply_to text,
  headers json, body text, bytes bytea, attempts integer, token text, created_at timestamptz)
@plans@ AS $body$
<<own>>
DECLARE -- Receives up to n messages and leases them; with lease NULL the caller's transaction deletes them.  Messages
  -- that no worker can read become dead.
  called timestamptz;
  until timestamptz;     -- When the leases end.
  one text;              -- The token.
  missing integer := n;  -- Number of messages that it can still return.
  passed bigint := 0;    -- Number of messages that became dead.
  rounds integer := 0;
  returned bigint;
  flaws bigint;
  ids bigint[];
  whys text[];
BEGIN
  IF n IS NULL OR n < 0 OR max_attempts < 0 OR lease <= '0' OR lease > '36500 days' THEN
    IF coalesce(n, -1) < 0 THEN
      RAISE 'n is %, and must be 0 or more', coalesce(n::pg_catalog.text, 'NULL') USING ERRCODE = 'invalid_parameter_value',
        HINT = 'n is how many messages to receive.';
    ELSIF max_attempts < 0 THEN
      RAISE 'max_attempts is %, and must be 0 or more', max_attempts USING ERRCODE = 'invalid_parameter_value',
        HINT = '0 and NULL mean that a message may have any number of attempts.';
    END IF;
    @most(lease)@
    RAISE 'lease is %, and must be longer than 0', lease USING ERRCODE = 'invalid_parameter_value',
      HINT = 'NULL receives without a lease: your transaction deletes the messages.';
  END IF;
  @each@
  -- Most calls of a waiting worker find no message.
  called := clock_timestamp();
  IF NOT EXISTS (SELECT 1 FROM @table@ AS m WHERE {is_ready:m} UNION ALL
                 SELECT 1 FROM @table@ AS m WHERE {is_due:m} AND coalesce(wherry_receive.after, 0) <= 0) THEN
    RETURN;
  END IF;
  until := called + @seconds(lease)@ * interval '1 second';
  one := gen_random_uuid();
  -- Readable messages may come after those that become dead, so the loop continues.  It ends after 1,000 dead messages,
  -- since others wait for rows that this transaction has changed
  -- (a_call_that_makes_messages_dead_returns_those_behind_them).
  LOOP
    -- The order is that of the part "picked": without `after`, due messages come first or last.  After it has found an
    -- expired message and deleted 1,000, the function skips expired messages.
    IF coalesce(after, 0) = 0 AND random() < 0.5 THEN
      WITH due AS MATERIALIZED (@due@ LIMIT own.missing FOR UPDATE SKIP LOCKED),
      ready AS MATERIALIZED (@ready@ LIMIT own.missing - (SELECT count(*) FROM due) FOR UPDATE SKIP LOCKED)
      SELECT array_agg(p.id), array_agg(p.why), count(p.why) INTO own.ids, own.whys, own.flaws FROM (
        SELECT r.id, @why@ AS why FROM (SELECT * FROM due UNION ALL SELECT * FROM ready) AS r) AS p;
    ELSE
      WITH ready AS MATERIALIZED (@ready@ LIMIT own.missing FOR UPDATE SKIP LOCKED),
      due AS MATERIALIZED (@due@ LIMIT CASE WHEN wherry_receive.after > 0 THEN 0 ELSE own.missing END
        - (SELECT count(*) FROM ready WHERE coalesce(wherry_receive.after, 0) <= 0) FOR UPDATE SKIP LOCKED)
      SELECT array_agg(p.id), array_agg(p.why), count(p.why) INTO own.ids, own.whys, own.flaws FROM (
        SELECT r.id, @why@ AS why FROM (SELECT * FROM ready UNION ALL SELECT * FROM due) AS r) AS p;
    END IF;
    EXIT WHEN ids IS NULL;
    IF flaws > 0 THEN
      IF '' = ANY (whys) THEN
        DELETE FROM @table@ AS m WHERE m.id = ANY (ARRAY(
          SELECT e.id FROM @table@ AS e WHERE {over_and_free:e} ORDER BY e.expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED));
      END IF;
      UPDATE @table@ AS m SET {becomes_dead} p.why
      FROM unnest(own.ids, own.whys) AS p(id, why) WHERE m.id = p.id AND p.why <> '';
      GET DIAGNOSTICS returned = ROW_COUNT;
      passed := passed + returned;
      ids := ARRAY(SELECT p.id FROM unnest(own.ids, own.whys) AS p(id, why) WHERE p.why IS NULL);
      flaws := flaws + cardinality(ids);
    ELSE
      flaws := cardinality(ids);
    END IF;
    IF lease IS NULL THEN
      RETURN QUERY WITH got AS (DELETE FROM @table@ AS m WHERE m.id = ANY (own.ids) RETURNING m.*)
      SELECT g.id, g.message_id, g.topic, g.correlation_id, g.reply_to, g.headers, @body@, g.attempts,
        g.lease_token, g.created_at FROM got AS g ORDER BY g.id;
    ELSE
      RETURN QUERY WITH got AS (UPDATE @table@ AS m SET {leases:m}
        WHERE m.id = ANY (own.ids) RETURNING m.*)
      SELECT g.id, g.message_id, g.topic, g.correlation_id, g.reply_to, g.headers, @body@, g.attempts,
        g.lease_token, g.created_at FROM got AS g WHERE g.state <> 4 ORDER BY g.id;
    END IF;
    GET DIAGNOSTICS returned = ROW_COUNT;
    missing := missing - returned;
    passed := passed + cardinality(ids) - returned;
    rounds := rounds + 1;
    EXIT WHEN missing <= 0 OR returned = flaws OR passed >= 1000 OR rounds >= 1000;
  END LOOP;
  @end@
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_ack@many@(queue text, @ids@, token text)
@settled@ AS $body$
<<own>>
DECLARE n bigint; -- Deletes leased messages.
BEGIN
  @each@
  DELETE FROM @table@ AS m WHERE @held(wherry_ack)@;
  @end@
  @result@
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_nack@many@(queue text, @ids@, token text,
  delay interval DEFAULT NULL, error text DEFAULT NULL, not_counted boolean DEFAULT false)
@settled@ AS $body$
<<own>>
DECLARE -- Gives messages back.  They are due at once or after the delay, or dead after their last attempt; with not_counted
  -- and no delay they are ready in their old place.
  n bigint;
  back CONSTANT integer := CASE WHEN not_counted THEN 1 ELSE 0 END;
  due timestamptz;  -- Due time; NULL: ready.
BEGIN
  @delay@
  IF delay > '0' OR back = 0 THEN
    due := @after(clock_timestamp(), delay)@;
  END IF;
  @each@
  UPDATE @table@ AS m SET {gives_back:m}
  WHERE @held(wherry_nack)@;
  @end@
  @result@
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_extend@many@(queue text, @ids@, token text,
  lease interval DEFAULT '30 seconds')
@settled@ AS $body$
<<own>>
DECLARE -- Lets leases end that long from now.
  n bigint;
  until timestamptz;
BEGIN
  IF coalesce(lease, '0') <= '0' THEN
    RAISE 'lease is %, and must be longer than 0', coalesce(lease::pg_catalog.text, 'NULL')
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  @most(lease)@
  until := clock_timestamp() + @seconds(lease)@ * interval '1 second';
  @each@
  UPDATE @table@ AS m SET available_at = {until} WHERE @held(wherry_extend)@;
  @end@
  @result@
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_dead_letter@many@(queue text, @ids@, token text, reason text)
@settled@ AS $body$
<<own>>
DECLARE n bigint; -- Makes leased messages dead.
BEGIN
  @each@
  UPDATE @table@ AS m SET {becomes_dead} left(wherry_dead_letter@many@.reason, 500)
  WHERE @held(wherry_dead_letter)@;
  @end@
  @result@
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_cancel(queue text, id bigint)
RETURNS boolean @one@ AS $body$
BEGIN -- Deletes a message that nobody has received.  Returns false if there is none.
  @each@
  DELETE FROM @table@ AS m WHERE m.id = wherry_cancel.id AND m.state = ANY (ARRAY[0, 3]);
  @end@
  RETURN FOUND;
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_queue_length(queue text)
RETURNS bigint @plans@ AS $body$
<<own>>
DECLARE n bigint; -- Returns the number of messages that can be received now.
BEGIN
  @each@
  SELECT (SELECT count(*) FROM @table@ AS m WHERE m.state = 0)
    - (SELECT count(*) FROM @table@ AS m WHERE m.expires_at IS NOT NULL
         AND m.state <> 4 AND m.expires_at <= statement_timestamp() AND m.state + 0 = 0) INTO own.n;
  @end@
  RETURN n;
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_listen(queue text)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE -- Call it before a worker waits.  Returns false if a sender that has not committed yet may not notify the worker.
  number CONSTANT oid := to_regclass(@box@ || quote_ident(queue))::pg_catalog.oid;
  key CONSTANT bigint := (1669::bigint << 32) + number::bigint;  -- as wherry_wake
BEGIN
  @has@
  EXECUTE concat('LISTEN wherry_', number);
  -- While a session holds the lock, senders send notifications.
  RETURN EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
                   AND database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
                   AND classid = 1669 AND objid = number AND objsubid = 1)
      OR pg_try_advisory_lock(key);
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_unlisten(queue text)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE -- Call it when a worker has work again.  Returns false if this connection did not make senders notify.
  number CONSTANT oid := to_regclass(@box@ || quote_ident(queue))::pg_catalog.oid;
BEGIN
  @has@
  EXECUTE concat('UNLISTEN wherry_', number);
  IF NOT EXISTS (SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted
                   AND pid = pg_backend_pid() AND classid = 1669 AND objid = number AND objsubid = 1) THEN
    RETURN false;
  END IF;
  -- Another waiting receiver takes the lock.
  PERFORM pg_notify(concat('wherry_', number), '');
  RETURN pg_advisory_unlock((1669::bigint << 32) + number::bigint);
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_subscribe(topic text, queue text)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE n bigint; -- Returns false if the queue had subscribed before.
BEGIN
  @topic@
  IF NOT EXISTS (SELECT 1 FROM @.wherry_schema AS q
                 WHERE q.model = 'queue' AND q.name = wherry_subscribe.queue) THEN
    PERFORM @.wherry_missing('queue', queue);
  END IF;
  INSERT INTO @.wherry_subscription VALUES (wherry_subscribe.topic, wherry_subscribe.queue) ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n = 1;
END $body$ $f$,
$f$CREATE OR REPLACE FUNCTION @.wherry_unsubscribe(topic text, queue text)
RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body$
DECLARE n bigint; -- Returns false if the queue had not subscribed.
BEGIN
  @topic@
  DELETE FROM @.wherry_subscription AS s
  WHERE s.topic = wherry_unsubscribe.topic AND s.queue = wherry_unsubscribe.queue;
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n = 1;
END $body$ $f$] LOOP
  FOR form IN 0..CASE WHEN position('@many@' IN whole) > 0 THEN 1 ELSE 0 END LOOP
    made := regexp_replace(whole, '@held[(]([a-z_]+)[)]@',
      concat('m.id = ', (ARRAY['\1.id', 'ANY (\1_many.ids)'])[form + 1], ' AND ', replace({'leased_with:m}, ':token', '\1@many@.token')));
    made := replace(replace(replace(replace(made, '@many@', (ARRAY['', '_many'])[form + 1]),
      '@ids@', (ARRAY['id bigint', 'ids bigint[]'])[form + 1]),
      '@settled@', (ARRAY['RETURNS boolean @one@', 'RETURNS bigint @plans@'])[form + 1]),
      '@result@', (ARRAY['RETURN FOUND;  -- False: the lease is lost.',
        'GET DIAGNOSTICS n = ROW_COUNT;' || chr(10) || '  RETURN n;  -- The others are not leased under this token.'])[form + 1]);
    made := replace(replace({with_checks},
      '@due@', $w$SELECT m.id, m.headers::pg_catalog.text AS said, @doubt@ AS doubt, m.expires_at
          FROM @table@ AS m WHERE {is_due:m} AND (own.rounds = 0 OR m.expires_at IS NULL OR m.expires_at > own.called) ORDER BY m.available_at$w$),
      '@ready@', $w$SELECT m.id, m.headers::pg_catalog.text AS said, @doubt@ AS doubt, m.expires_at
          FROM @table@ AS m WHERE {is_ready:m} AND (own.rounds = 0 OR m.expires_at IS NULL OR m.expires_at > own.called) ORDER BY {seq:m}$w$);
    made := replace(made,
      '@why@', $w$CASE WHEN r.expires_at <= own.called THEN '' WHEN NOT (r.said = '{}' OR r.said ~ E'^\\u007b(?:"[^"\\\\]*"[ ,:]*)*\\u007d$' OR r.said ~ @readable@)
            THEN 'headers are not a JSON object of strings'
            WHEN r.doubt OR getdatabaseencoding() <> pg_client_encoding() THEN @.wherry_unreadable(@quoted@, r.id) END$w$);
    -- The values of the shared parts.
    made := replace(replace(replace(replace(made, {'is_long:m}, 'false'), {'comes_back_at}, 'own.due'), {'until}, 'own.until'),
      {'now}, 'own.called');
    made := replace(replace(replace(replace(replace(made, ':after::bigint', 'coalesce(wherry_receive.after, 0)'),
      ':most::bigint', 'wherry_receive.max_attempts'), ':token::pg_catalog.text', 'own.one'), ':back::integer', 'own.back'),
      ':error::pg_catalog.text', concat('left(wherry_nack', (ARRAY['', '_many'])[form + 1], '.error, 500)'));
    made := replace(replace(replace(made, '@readable@', quote_literal(readable)), '@box@', quote_literal(schema)), '@.', schema);
    {branch}
    EXECUTE made;
  END LOOP;
  END LOOP;
END $do$;

-- include: postgres.functions.sql

-- name: migrate-1
{own_tables}
{own_triggers}
CREATE TABLE IF NOT EXISTS {wherry_subscription}(
  topic text COLLATE "C" NOT NULL,
  queue text COLLATE "C" NOT NULL,
  PRIMARY KEY (topic, queue)
);
DROP TRIGGER IF EXISTS wherry_own_row ON {wherry_subscription};
CREATE TRIGGER wherry_own_row BEFORE INSERT OR UPDATE OR DELETE ON {wherry_subscription}
  FOR EACH ROW EXECUTE FUNCTION {wherry_own_row}('queue');
CREATE TABLE IF NOT EXISTS {table}(
  id             bigint GENERATED BY DEFAULT AS IDENTITY (CACHE 1) PRIMARY KEY,
  message_id     text COLLATE "C" NOT NULL DEFAULT {new_message_id},
  topic          text,               -- it was published to; NULL: it was sent to this queue
  correlation_id text,
  reply_to       text,
  headers        json NOT NULL DEFAULT '{}',
  state          smallint NOT NULL DEFAULT 0,
  attempts       integer NOT NULL DEFAULT 0,
  max_attempts   integer,            -- it dies after so many; NULL: the receiver says how many
  available_at   timestamptz,
  expires_at     timestamptz,
  lease_token    text,
  created_at     timestamptz NOT NULL DEFAULT now(),
  last_error     text,
  body           {payload_type} NOT NULL,
  CONSTRAINT {bare_sane} CHECK ({sane})
) WITH (
  -- Rows are short-lived, so autovacuum goes by their number and not by a share of the table.
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_vacuum_insert_threshold = 10000,
  autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 2000
);
{index_ready}
{index_timed}
{index_dead}
{index_expires}
{wake_function}
-- If the lock is taken, a receiver of this queue sleeps.  New messages and messages that are given back or
-- retried wake it; leases and acknowledgements wake nobody.
DROP TRIGGER IF EXISTS {bare_wake} ON {table};
{trigger_wake}
DROP TRIGGER IF EXISTS {bare_wake_back} ON {table};
{trigger_wake_back}
{set_schema}
INSERT INTO {wherry_schema}(model, name, version, min_program)
  VALUES ('queue', {name}, 1, 100) ON CONFLICT DO NOTHING;
{make_functions}
{mark_functions}

-- name: schema-exists
{has_schema};

-- name: schema-version
SELECT version, min_program FROM {wherry_schema}
WHERE model = 'queue' AND name = :name::pg_catalog.text;

-- name: columns
{column_names};

-- name: indexes-missing
-- If a function is missing or of another version, the queue needs to be made again.
SELECT count(*) + {functions_stale}
FROM unnest(ARRAY[{'table_ready}, {'table_timed}, {'table_dead}, {'table_expires}]) AS t(name)
WHERE to_regclass(t.name) IS NULL;

-- name: payload-type
SELECT atttypid::pg_catalog.regtype::pg_catalog.text FROM pg_attribute
WHERE attrelid = to_regclass({'table})::pg_catalog.oid AND attname = 'body' AND NOT attisdropped;

-- name: drop
{set_schema}
DROP TABLE {table};
DELETE FROM {wherry_subscription} WHERE queue = {name};
{drop_relays}
DELETE FROM {wherry_schema} WHERE model = 'queue' AND name = {name};
-- When the last queue is dropped, drop the tables and procedures that only queues share.
DO $$ DECLARE f regprocedure; BEGIN
  IF NOT EXISTS (SELECT 1 FROM {wherry_schema} WHERE model = 'queue') THEN
    DROP TABLE {wherry_subscription};
    FOR f IN SELECT oid FROM pg_proc
      WHERE pronamespace = current_setting('wherry.schema')::pg_catalog.regnamespace
        AND proname = ANY ({own_functions})
    LOOP
      EXECUTE 'DROP FUNCTION ' || f::pg_catalog.text;
    END LOOP;
  END IF;
END $$;
{make_functions_again}

-- name: others-left
{tables_left};

-- name: drop-shared
{drop_own}

-- part: sent
-- State and times of a new message.
CASE WHEN :delay::bigint OPERATOR(pg_catalog.>) 0 THEN 3 ELSE 0 END,
CASE WHEN :delay::bigint OPERATOR(pg_catalog.>) 0 THEN {after_delay} END,
CASE WHEN :ttl::bigint OPERATOR(pg_catalog.>) 0
     THEN {after_delay} OPERATOR(pg_catalog.+) (least(:ttl::bigint, 3153600000000)::double precision
          OPERATOR(pg_catalog.*) interval '1 millisecond') END

-- name: send
-- A message expires :expires milliseconds after it is due.
INSERT INTO {table}(message_id, topic, correlation_id, reply_to, headers, body, state,
                    available_at, expires_at)
VALUES (:message_id, :topic, :correlation_id, :reply_to, :headers, :body, {sent})
RETURNING id;

-- name: send-many
-- The parameters are arrays with one element for each message; ids grow in their order.  NULL instead
-- of an array: no message has a value.
INSERT INTO {table}(message_id, topic, correlation_id, reply_to, headers, body, state,
                    available_at, expires_at)
SELECT m.message_id, m.topic, m.correlation_id, m.reply_to, coalesce(m.headers, '{}')::pg_catalog.json,
  m.body::pg_catalog.{payload_type},
  CASE WHEN m.delay OPERATOR(pg_catalog.>) 0 THEN 3 ELSE 0 END,
  CASE WHEN m.delay OPERATOR(pg_catalog.>) 0
       THEN {now} OPERATOR(pg_catalog.+) (least(m.delay, 3153600000000)::double precision
            OPERATOR(pg_catalog.*) interval '1 millisecond') END,
  CASE WHEN m.ttl OPERATOR(pg_catalog.>) 0
       THEN {now} OPERATOR(pg_catalog.+) (least(m.delay, 3153600000000)::double precision
            OPERATOR(pg_catalog.*) interval '1 millisecond')
            OPERATOR(pg_catalog.+) (least(m.ttl, 3153600000000)::double precision
            OPERATOR(pg_catalog.*) interval '1 millisecond') END
FROM ROWS FROM (pg_catalog.unnest(:message_id::pg_catalog.text[]), pg_catalog.unnest(:topic::pg_catalog.text[]),
  pg_catalog.unnest(:correlation_id::pg_catalog.text[]), pg_catalog.unnest(:reply_to::pg_catalog.text[]),
  pg_catalog.unnest(:headers::pg_catalog.text[]), pg_catalog.unnest(:body::pg_catalog.text[]),
  pg_catalog.unnest(:delay::bigint[]), pg_catalog.unnest(:ttl::bigint[])) WITH ORDINALITY
  AS m(message_id, topic, correlation_id, reply_to, headers, body, delay, ttl, nth)
ORDER BY m.nth
RETURNING id;

-- name: cancel
-- Delete a message that nobody has received.
DELETE FROM {table}
WHERE id OPERATOR(pg_catalog.=) :id::bigint AND state OPERATOR(pg_catalog.=) ANY (ARRAY[0, 3]);

-- part: too_long
-- Condition: the body is longer than the limit, as text or in binary form.  The part payload_fits of outboxes explains
-- it; wherry_unreadable() has the same limit.
CASE WHEN pg_catalog.pg_typeof(body)::pg_catalog.oid OPERATOR(pg_catalog.=) 'text'::pg_catalog.regtype::pg_catalog.oid
     THEN pg_catalog.octet_length(body::pg_catalog.text) OPERATOR(pg_catalog.>) 67108864
     WHEN pg_catalog.pg_column_size(body) OPERATOR(pg_catalog.>) 260000
          AND pg_catalog.pg_column_size(ARRAY[body]) OPERATOR(pg_catalog.>) 67108964 THEN true
     WHEN pg_catalog.pg_typeof(body)::pg_catalog.oid OPERATOR(pg_catalog.=) 'jsonb'::pg_catalog.regtype::pg_catalog.oid
     THEN pg_catalog.octet_length(body::pg_catalog.text) OPERATOR(pg_catalog.>) 67108864
     ELSE false END

-- part: picked
-- Rows that a receive takes: ready rows above an id, and due rows.  With :full = 1 due rows come first, with 2 last, so
-- neither keeps the others waiting for ever (messages_given_back_and_ready_ones_take_turns).  Rows that other
-- transactions have locked are skipped.  The length of a body is computed once, since it turns binary JSON into text.
WITH due_first AS MATERIALIZED (
  SELECT id, {too_long} AS long FROM {table} WHERE :full::bigint OPERATOR(pg_catalog.=) 1 AND {is_due}
  ORDER BY available_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED),
ready AS MATERIALIZED (
  SELECT id, {too_long} AS long FROM {table} WHERE {is_ready}
  ORDER BY {seq} LIMIT :limit::bigint OPERATOR(pg_catalog.-) (SELECT pg_catalog.count(*) FROM due_first)
  FOR UPDATE SKIP LOCKED),
due_last AS MATERIALIZED (
  SELECT id, {too_long} AS long FROM {table} WHERE :full::bigint OPERATOR(pg_catalog.=) 2 AND {is_due}
  ORDER BY available_at LIMIT :limit::bigint OPERATOR(pg_catalog.-) (SELECT pg_catalog.count(*) FROM ready)
  FOR UPDATE SKIP LOCKED),
due AS (SELECT * FROM due_first UNION ALL SELECT * FROM due_last),
too_long AS MATERIALIZED (SELECT ARRAY(SELECT d.id FROM due AS d WHERE d.long UNION ALL SELECT r.id FROM ready AS r WHERE r.long) AS ids)

-- part: these
id OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT id FROM due UNION ALL SELECT id FROM ready))

-- part: fields
id, state, attempts, created_at, available_at, expires_at,
  CASE WHEN expires_at OPERATOR(pg_catalog.<=) {now} THEN 1 ELSE 0 END AS expired,
  message_id, topic, correlation_id, reply_to, headers, last_error

-- part: shown
{fields}, CASE WHEN NOT {too_long} THEN body END

-- part: taken
{fields}, CASE WHEN NOT {is_long} THEN body END

-- name: receive
-- Lease messages.  The last column counts the messages that were due.
{picked},
got AS (UPDATE {table} SET {leases} WHERE {these} RETURNING {taken})
SELECT *, (SELECT pg_catalog.count(*) FROM due) FROM got ORDER BY id;

-- name: take
-- Delete messages and return them, in the open transaction or in a separate one.
{picked},
got AS (DELETE FROM {table} WHERE {these} AND NOT {is_long} RETURNING {taken}),
dead AS (UPDATE {table} SET {becomes_dead} {why_too_long}
         WHERE {these} AND {is_long} RETURNING {taken})
SELECT *, (SELECT pg_catalog.count(*) FROM due) FROM (SELECT * FROM got UNION ALL SELECT * FROM dead) AS r ORDER BY id;

-- name: make-dead
-- Insert a message that was deleted and cannot be handled again, as dead.  Its values are cut to those that
-- the table's constraints allow, since a row may have been written while they were not enforced.
INSERT INTO {table}(id, message_id, topic, correlation_id, reply_to, headers, body, state,
                    attempts, created_at, last_error)
VALUES (:id, :message_id, :topic, :correlation_id, :reply_to, :headers, :body, 4,
  least(greatest(:attempts::bigint, 0), 1000000000), pg_catalog.to_timestamp(
    least(greatest(:created::double precision, 0), 253402300799999) OPERATOR(pg_catalog./) 1000.0::double precision),
  :error);

-- name: bury-unreadable
-- Make messages dead that the server cannot send, such as JSON whose text is longer than a value can be.
-- A receiver runs this statement after a failure.
UPDATE {table} AS t SET {becomes_dead} u.why
FROM (SELECT p.id, {wherry_unreadable}({'table}, p.id) AS why FROM (
    SELECT id FROM {table} WHERE (pg_catalog.pg_column_size(body) OPERATOR(pg_catalog.>) 260000
        OR pg_catalog.pg_typeof(body)::pg_catalog.oid OPERATOR(pg_catalog.=) 'jsonb'::pg_catalog.regtype::pg_catalog.oid)
      AND (state OPERATOR(pg_catalog.=) ANY (ARRAY[0, 3])
           OR state OPERATOR(pg_catalog.=) 1 AND available_at OPERATOR(pg_catalog.<=) {now})
    FOR UPDATE SKIP LOCKED) AS p) AS u
WHERE t.id OPERATOR(pg_catalog.=) u.id AND u.why IS NOT NULL;

-- name: ack
DELETE FROM {table} WHERE {own};

-- name: nack
UPDATE {table} SET {gives_back} WHERE {own};

-- name: extend
UPDATE {table} SET available_at = {until} WHERE {own};

-- name: dead-letter
UPDATE {table} SET {becomes_dead} :error::pg_catalog.text WHERE {own};

-- name: expire
-- Delete messages that have expired, but no leased ones except those of the token in :token.
DELETE FROM {table} WHERE id = ANY (ARRAY(
  SELECT id FROM {table}
  WHERE {over} AND (state <> 1 OR available_at <= {now} OR lease_token = :token::pg_catalog.text)
  ORDER BY expires_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED));

-- name: peek
-- A read without locks and writes.
SELECT {shown} FROM {table}
WHERE id > :after::bigint AND (:states::integer >> state::integer) & 1 = 1
ORDER BY id LIMIT :limit::bigint;

-- name: show
SELECT {shown} FROM {table} WHERE id = :id::bigint;

-- name: count
-- Count ready, leased, waiting and dead messages, read the age of the oldest ready one, and count the
-- expired ones.  An expired message has its state until a receiver deletes it.
SELECT (SELECT count(*) FROM {table} WHERE state = 0),
       (SELECT count(*) FROM {table} WHERE {timed} AND state + 0 = 1),
       (SELECT count(*) FROM {table} WHERE {timed} AND state + 0 = 3),
       (SELECT count(*) FROM {table} WHERE state = 4),
       coalesce((SELECT (extract(epoch FROM {now} - {sent_at}) * 1000.0)::bigint FROM {table}
                 WHERE state = 0 ORDER BY {seq} LIMIT 1), 0),
       (SELECT count(*) FROM {table} WHERE {over_and_free});

-- name: estimate
-- Number of rows by the server's statistics, without counting.
SELECT pg_stat_get_live_tuples({'table}::pg_catalog.regclass::pg_catalog.oid)::bigint;

-- name: next-due
-- Milliseconds until a message can be received; 0: now; -1: no message waits or is leased.
SELECT coalesce((SELECT 0::bigint FROM {table} WHERE state = 0 ORDER BY {seq} LIMIT 1),
                (SELECT greatest(ceil(extract(epoch FROM {due_at} - {now}) * 1000.0), 0)::bigint
                 FROM {table} WHERE {timed} ORDER BY available_at LIMIT 1), -1);

-- name: inspect
-- Faults of the table, each with the SQL that repairs it.
SELECT concat('the index ', i.name, CASE WHEN x.indexrelid IS NULL THEN ' is missing' ELSE ' is not valid' END),
  concat(CASE WHEN x.indexrelid IS NOT NULL THEN concat('DROP INDEX ', i.name, '; ') END, rtrim(i.sql, chr(10)))
FROM (VALUES ({'table_ready}, {'index_ready}), ({'table_timed}, {'index_timed}), ({'table_dead}, {'index_dead}),
             ({'table_expires}, {'index_expires})) AS i(name, sql)
LEFT JOIN pg_index AS x ON x.indexrelid = to_regclass(i.name)::pg_catalog.oid
WHERE x.indexrelid IS NULL OR NOT x.indisvalid
UNION ALL
SELECT concat('the trigger ', w.name, CASE WHEN t.oid IS NULL THEN ' is missing' ELSE ' is disabled' END,
              ': receivers are not woken'),
  CASE WHEN t.oid IS NULL THEN rtrim(w.sql, chr(10))
       ELSE concat('ALTER TABLE ', {'table}, ' ENABLE TRIGGER ', quote_ident(w.name), ';') END
FROM (VALUES ({name} || '_wake', {'trigger_wake}), ({name} || '_wake_back', {'trigger_wake_back})) AS w(name, sql)
LEFT JOIN pg_trigger AS t ON t.tgrelid = to_regclass({'table})::pg_catalog.oid AND t.tgname::pg_catalog.text = w.name
WHERE t.oid IS NULL OR t.tgenabled = 'D'
UNION ALL
SELECT concat('the function ', p.oid::pg_catalog.regproc, ' is another one than this version of Wherry makes: receivers may not be woken'),
  concat('CREATE OR REPLACE FUNCTION ', {'wherry_wake}, '() RETURNS trigger LANGUAGE plpgsql AS ', quote_literal(b.made), ';')
FROM pg_proc AS p, LATERAL (SELECT regexp_replace(p.prosrc, '\s+', ' ', 'g'), regexp_replace({'wake_body}, '\s+', ' ', 'g'),
  regexp_replace({'unsignalled_body}, '\s+', ' ', 'g')) AS b(found, made, unsignalled)
WHERE p.oid = to_regprocedure({'wherry_wake} || '()')::pg_catalog.oid AND b.found NOT IN (b.made, b.unsignalled)
UNION ALL
SELECT concat('the constraint ', quote_ident({name} || '_sane'), ' is missing: it refuses rows that no receiver can handle'),
  concat('ALTER TABLE ', {'table}, ' ADD CONSTRAINT ', quote_ident({name} || '_sane'), ' CHECK (', rtrim({'sane}, chr(10)), ') NOT VALID;')
WHERE NOT EXISTS (SELECT 1 FROM pg_constraint AS c
                  WHERE c.conrelid = to_regclass({'table})::pg_catalog.oid AND c.conname::pg_catalog.text = {name} || '_sane')
UNION ALL
SELECT concat('the next id is ', s.next, ', which is not above the last, ', s.last, ': senders fail'),
  CASE WHEN s.last < 4000000000000000000 THEN concat('SELECT setval(', quote_literal(s.seq), ', ', s.last, ');')
       ELSE concat('UPDATE ', {'table}, ' SET id = DEFAULT WHERE id >= 4000000000000000000;') END
FROM (SELECT pg_get_serial_sequence({'table}, 'id') AS seq, (SELECT max(id) FROM {table}) AS last,
        coalesce(pg_sequence_last_value(pg_get_serial_sequence({'table}, 'id')::pg_catalog.regclass), 0) + 1 AS next) AS s
WHERE s.next <= s.last AND has_sequence_privilege(s.seq, 'SELECT, USAGE')
UNION ALL
SELECT 'the SQL functions of queues are missing, or another version of Wherry made them', NULL
WHERE {functions_stale} > 0
UNION ALL
SELECT concat('the column ', c.name, coalesce(' has the type ' || format_type(a.atttypid, NULL) || ' and not ' || c.type, ' is missing')),
  CASE WHEN a.attnum IS NULL THEN concat('ALTER TABLE ', {'table}, ' ADD COLUMN ', c.name, ' ', c.type, ';')
       ELSE concat('ALTER TABLE ', {'table}, ' ALTER COLUMN ', c.name, ' TYPE ', c.type, ' USING ', c.name, '::', c.type, ';') END
FROM (VALUES ('id', 'bigint'), ('message_id', 'text'), ('topic', 'text'), ('correlation_id', 'text'), ('reply_to', 'text'),
             ('headers', 'json'), ('state', 'smallint'), ('attempts', 'integer'), ('max_attempts', 'integer'),
             ('available_at', 'timestamp with time zone'),
             ('expires_at', 'timestamp with time zone'), ('lease_token', 'text'),
             ('created_at', 'timestamp with time zone'), ('last_error', 'text')) AS c(name, type)
LEFT JOIN pg_attribute AS a ON a.attrelid = to_regclass({'table})::pg_catalog.oid AND a.attname::pg_catalog.text = c.name AND NOT a.attisdropped
WHERE a.attnum IS NULL OR format_type(a.atttypid, NULL) <> c.type;

-- name: retry-dead
-- Make dead messages ready again, in the order of their ids.
UPDATE {table} SET attempts = 0, {is_again_ready}
WHERE state + 0 = 4 AND id = ANY (ARRAY(
  SELECT id FROM {table} WHERE state = 4 AND (:id::bigint = 0 OR id = :id::bigint)
  ORDER BY id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED));

-- name: discard
-- Delete a message of any state.  A receiver that has leased it cannot acknowledge it afterwards.
DELETE FROM {table} WHERE id = :id::bigint;

-- name: purge-states
DELETE FROM {table} WHERE id = ANY (ARRAY(
  SELECT id FROM {table}
  WHERE state <> 1 AND (:states::integer >> state::integer) & 1 = 1
  ORDER BY id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED));

-- part: texts
-- Texts of a row for a relay, in the form that the store reads.  A value over its limit is not sent
-- whole: the beginning of a text, the beginning of headers as a JSON text, and nothing of a body
-- (see the part payload_fits of outboxes).  With :long = -1 the only text is plain ASCII that
-- identifies the row.
CASE WHEN octet_length(message_id) <= :long::bigint
          OR :long::bigint < 0 AND octet_length(message_id) <= 1000 AND message_id !~ '[^ -~]'
     THEN message_id ELSE left(message_id, :long::integer + 1) END,
CASE WHEN topic IS NULL THEN {name}
     WHEN octet_length(topic) <= :long::bigint
          OR :long::bigint < 0 AND octet_length(topic) <= 1000 AND topic !~ '[^ -~]'
     THEN topic ELSE left(topic, :long::integer + 1) END,
''::pg_catalog.text, ''::pg_catalog.text, NULL::pg_catalog.text,
CASE WHEN :long::bigint < 0 THEN pg_catalog.to_json(''::pg_catalog.text)
     WHEN pg_catalog.pg_column_size(headers) <= :long::bigint / 90 THEN headers
     WHEN octet_length(headers::pg_catalog.text) <= :long::bigint THEN headers
     ELSE pg_catalog.to_json(left(headers::pg_catalog.text, :long::integer + 1)) END,
NULL::pg_catalog.text,
CASE WHEN :long::bigint < 0 THEN NULL
     WHEN pg_catalog.pg_typeof(body)::pg_catalog.oid = 'text'::pg_catalog.regtype::pg_catalog.oid
     THEN CASE WHEN octet_length(body::pg_catalog.text) <= :body::bigint THEN body END
     WHEN pg_catalog.pg_column_size(body) > :body::bigint / 90 AND pg_catalog.pg_column_size(ARRAY[body])
          > CASE WHEN pg_catalog.pg_typeof(body)::pg_catalog.oid = 'jsonb'::pg_catalog.regtype::pg_catalog.oid THEN 4 ELSE 1 END
            * :body::bigint + 100 THEN NULL
     WHEN pg_catalog.pg_typeof(body)::pg_catalog.oid = 'jsonb'::pg_catalog.regtype::pg_catalog.oid
     THEN CASE WHEN octet_length(body::pg_catalog.text) <= :body::bigint THEN body END
     ELSE body END

-- part: claimed
-- Return the rows that were claimed, in the order of their ids.
SELECT id, 0::bigint, attempts, created_at, 0::bigint,
  {texts}
FROM taken ORDER BY id

-- part: lives
-- Condition: the message has not expired.
(expires_at IS NULL OR expires_at > {now})

-- part: claims
state = 1, lease_token = :token::pg_catalog.text, available_at = {until}

-- name: claim-end
-- Rows have no keys, so a claim skips none and begins with the first row.
SELECT 0::bigint, count(*) FROM (SELECT 1 FROM {table} WHERE state = 0 LIMIT 1) AS first;

-- name: claim
WITH taken AS (
  UPDATE {table} SET {claims}
  WHERE id = ANY (ARRAY(SELECT id FROM {table} WHERE state = 0 AND {lives}
                        ORDER BY {seq} LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))
  RETURNING *)
{claimed};

-- name: claim-behind
-- The scan begins at :after, so it does not read deleted rows that an old snapshot keeps
-- (an_open_snapshot_does_not_slow_claims).
WITH taken AS (
  UPDATE {table} SET {claims}
  WHERE id = ANY (ARRAY(SELECT id FROM {table} WHERE {is_ready} AND {lives}
                        ORDER BY {seq} LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))
  RETURNING *)
{claimed};

-- name: claim-due
WITH taken AS (
  UPDATE {table} SET {claims}
  WHERE id = ANY (ARRAY(SELECT id FROM {table} WHERE {is_due} AND state + 0 = 3 AND {lives}
                        ORDER BY available_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))
  RETURNING *)
{claimed};

-- name: expired
SELECT lease_token, count(*) FROM {table}
WHERE {is_due} AND state + 0 = 1 AND {lives}
GROUP BY lease_token ORDER BY min(available_at) LIMIT 1;

-- name: claim-share
WITH taken AS (
  UPDATE {table} SET {claims}
  WHERE id = ANY (ARRAY(SELECT id FROM {table}
                        WHERE {is_due} AND state + 0 = 1 AND lease_token = :of::pg_catalog.text
                          AND {lives}
                        ORDER BY id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED))
  RETURNING *)
{claimed};

-- name: claim-expired
WITH taken AS (
  UPDATE {table} SET {claims}, attempts = least(greatest(attempts, 0), 999999999) + 1
  WHERE id = (SELECT id FROM {table} WHERE {is_due} AND state + 0 = 1 AND {lives}
              ORDER BY available_at LIMIT 1 FOR UPDATE SKIP LOCKED)
  RETURNING *)
SELECT id, 1::bigint, attempts - 1, created_at, 0::bigint,
  {texts}
FROM taken;

-- name: claim-next
SELECT (SELECT (extract(epoch FROM {due_at} - {now}) * 1000.0)::bigint FROM {table}
        WHERE {timed} AND state + 0 = 1 AND {lives} ORDER BY available_at LIMIT 1),
       (SELECT (extract(epoch FROM {due_at} - {now}) * 1000.0)::bigint FROM {table}
        WHERE {timed} AND state + 0 = 3 AND {lives} ORDER BY available_at LIMIT 1);

-- name: read-ids
SELECT id, state::bigint, attempts, created_at, 0::bigint,
  {texts}
FROM {table} WHERE id = ANY ({ids}) AND state <> 4 ORDER BY id;

-- name: last-open
SELECT greatest(
  coalesce((SELECT id FROM {table} WHERE state = 0 AND {lives} ORDER BY {seq} DESC LIMIT 1), 0),
  coalesce((SELECT max(id) FROM {table} WHERE {timed} AND {lives}), 0));

-- name: open-upto
-- Delayed messages are open too.
SELECT count(*) FROM (
  (SELECT 1 FROM {table} WHERE state = 0 AND {seq} <= :upto::bigint AND {lives} ORDER BY {seq} LIMIT 1)
  UNION ALL
  (SELECT 1 FROM {table} WHERE {timed} AND id <= :upto::bigint AND {lives} LIMIT 1)
  LIMIT 1) AS first;

-- name: reap
-- Rows that other transactions have locked are read later.
UPDATE {table} SET {is_again_ready}
WHERE id = ANY (ARRAY(SELECT id FROM {table} WHERE {timed} AND state + 0 = 1 AND available_at
  <= {now} - least(:timeout::bigint, 3153600000000)::double precision * interval '1 millisecond' FOR UPDATE SKIP LOCKED));

-- name: locked
-- Rows that another transaction has locked.  The statement waits for none (one_locked_row_holds_up_no_other).
WITH free AS MATERIALIZED (
  SELECT t.id FROM {table} AS t WHERE t.id OPERATOR(pg_catalog.=) ANY ({ids}) FOR UPDATE SKIP LOCKED)
SELECT t.id FROM {table} AS t WHERE t.id OPERATOR(pg_catalog.=) ANY ({ids}) AND NOT EXISTS (
  SELECT 1 FROM free AS f WHERE f.id OPERATOR(pg_catalog.=) t.id);

-- name: done-delete
DELETE FROM {table} WHERE {own};

-- name: fail
-- :nth is the number of the attempt, so a failure that is written twice counts once.
UPDATE {table} SET
  state = CASE WHEN :dead::bigint <> 0 THEN 4 ELSE 3 END,
  attempts = CASE WHEN :nth::integer > 0 THEN greatest(attempts, :nth::integer)
                  ELSE least(greatest(attempts + :count::integer, 0), 1000000000) END,
  available_at = CASE WHEN :dead::bigint = 0 THEN {after_delay} END,
  lease_token = NULL, last_error = :error::pg_catalog.text
WHERE id = :id::bigint AND (:message_id::pg_catalog.text IS NULL OR message_id = :message_id::pg_catalog.text)
  AND lease_token = :token::pg_catalog.text AND state = 1;

-- name: requeue
UPDATE {table} SET {is_again_ready} WHERE {own};

-- name: try
UPDATE {table} SET attempts = CASE WHEN :nth::integer > 0 THEN greatest(attempts, :nth::integer)
                                   ELSE least(greatest(attempts, 0), 999999999) + 1 END
WHERE id = :id::bigint AND (:message_id::pg_catalog.text IS NULL OR message_id = :message_id::pg_catalog.text)
  AND lease_token = :token::pg_catalog.text AND state = 1;
