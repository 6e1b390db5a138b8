--
-- wherry_enqueue(), wherry_enqueue_many() and wherry_consume() on PostgreSQL: all outboxes of a schema share them, of both
-- layouts, so both layouts make them from the same text.

-- part: own_functions
ARRAY['wherry_enqueue', 'wherry_enqueue_many', 'wherry_consume']::name[]

-- part: function_models
'outbox', 'log'

-- part: function_column
'payload'

-- part: unique_indexes
-- Usable indexes by which the message ids of a table are unique.
SELECT 1 FROM pg_index AS i JOIN pg_attribute AS a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indisunique AND i.indisvalid AND i.indnkeyatts = 1 AND i.indpred IS NULL AND a.attname = 'message_id'

-- part: once
-- End of an INSERT into a table whose message ids are unique.
CASE WHEN EXISTS ({unique_indexes} AND i.indrelid = (schema || quote_ident(t.name))::regclass::oid) THEN 'ON CONFLICT (message_id) DO NOTHING' ELSE '' END

-- part: doubt
-- Whether a payload may be longer than wherry_consume() returns, or whether an expression of an adopted table may fail, whose
-- view then reads marks of rows; 12 bytes of binary JSON have at most 131,072 digits.
CASE WHEN EXISTS (SELECT 1 FROM pg_rewrite AS r JOIN pg_depend AS d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
         WHERE r.ev_class = to_regclass(concat(schema, quote_ident(t.name)))::oid
           AND d.refobjid = to_regclass(concat(schema, quote_ident(t.name || '_exception')))::oid) THEN 'true'
  WHEN t.type = 'pg_catalog.json' THEN 'pg_column_size(m.payload) > 260000'
  WHEN t.type = 'pg_catalog.jsonb' THEN 'CASE WHEN pg_column_size(ARRAY[m.payload]) > 90000 THEN true
    ELSE octet_length(m.payload::pg_catalog.text) > 67108864 END'
  ELSE 'octet_length(m.payload) > 67108864' END

-- part: long
-- Whether it is.
CASE t.type WHEN 'pg_catalog.jsonb' THEN 'CASE WHEN pg_column_size(ARRAY[m.payload]) > 67108964 THEN true
    ELSE octet_length(m.payload::pg_catalog.text) > 67108864 END'
  WHEN 'pg_catalog.json' THEN 'octet_length(m.payload::pg_catalog.text) > 67108864'
  ELSE 'octet_length(m.payload) > 67108864' END

-- part: leaf
-- Statements of one table: the payload in its type, and how wherry_consume() returns it.
replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(replace(section,
    '@converts@', CASE WHEN t.type = 'pg_catalog.' || kind THEN '' ELSE 'BEGIN
    PERFORM pg_catalog.count(@value@) FROM @rows@ WHERE own.wrong IS NULL;
  EXCEPTION WHEN data_exception THEN
    wrong := 1;
  END;' END),
    '@ids@', CASE WHEN EXISTS ({unique_indexes} AND i.indrelid = (schema || quote_ident(t.name))::regclass::oid)
      THEN '(SELECT g.id FROM got AS g WHERE m.nth OPERATOR(pg_catalog.=) m.first AND g.message_id OPERATOR(pg_catalog.=) m.made_id)
      ORDER BY m.nth) INTO own.ids FROM (SELECT n.*, pg_catalog.min(n.nth) OVER (PARTITION BY n.made_id) AS first FROM given AS n) AS m'
      ELSE 'g.id ORDER BY g.id) INTO own.ids FROM got AS g' END),
    '@quoted_progress@', quote_literal(concat(schema, quote_ident(t.name || '_progress')))),
    '@progress@', concat(schema, quote_ident(t.name || '_progress'))),
    '@exception@', concat(schema, quote_ident(t.name || '_exception'))), '@body@', CASE t.type
      WHEN 'pg_catalog.bytea' THEN 'NULL::pg_catalog.text, m.payload' ELSE 'm.payload::pg_catalog.text, NULL::pg_catalog.bytea' END),
    '@text@', CASE t.type WHEN 'pg_catalog.bytea' THEN '''''' ELSE 'm.payload' END),
    '@doubt@', {doubt}), '@long@', {long}), '@once@', {once}), '@checked@', CASE WHEN kind IN ('bytea', 'text') AND t.type IN ('pg_catalog.json', 'pg_catalog.jsonb')
    THEN concat('BEGIN
    parsed := ', CASE kind WHEN 'bytea' THEN 'pg_catalog.convert_from(payload, ''UTF8'')' ELSE 'payload' END, '::pg_catalog.json;
  EXCEPTION WHEN data_exception THEN
    RAISE ''outbox % keeps payloads as %, and this one is not JSON: %'', outbox, ', quote_literal(split_part(t.type, '.', 2)), ', sqlerrm
      USING ERRCODE = ''invalid_text_representation'',
      HINT = ''Send it as a JSON string, with to_json(), or use an outbox made with ''
             ''wherry create --payload text or --payload bytea.'';
  END;') ELSE '' END), '@value@', CASE WHEN t.type = 'pg_catalog.' || kind THEN '@given@'
  WHEN t.type = 'pg_catalog.bytea' THEN 'pg_catalog.convert_to(@given@::pg_catalog.text, ''UTF8'')'
  WHEN kind IN ('bytea', 'text') AND t.type IN ('pg_catalog.json', 'pg_catalog.jsonb') AND position('@rows@' IN made) = 0 THEN concat('own.parsed::', t.type)
  WHEN kind = 'bytea' THEN concat('pg_catalog.convert_from(@given@, ''UTF8'')::', t.type)
  ELSE concat('@given@::pg_catalog.text::', t.type) END)

-- include: postgres.home.sql

-- include: postgres.consume.sql

-- part: make_functions
{make_consume}
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
  -- The arrays of wherry_enqueue_many().
  lengths CONSTANT text := $w$pg_catalog.cardinality(topics), pg_catalog.cardinality(payloads), pg_catalog.cardinality(keys),
    pg_catalog.cardinality(message_ids), pg_catalog.cardinality(headers), pg_catalog.cardinality(aggregate_types),
    pg_catalog.cardinality(aggregate_ids), pg_catalog.cardinality(trace_ids)$w$;
  rows CONSTANT text := $w$ROWS FROM (pg_catalog.unnest(wherry_enqueue_many.topics), pg_catalog.unnest(wherry_enqueue_many.payloads),
    pg_catalog.unnest(wherry_enqueue_many.keys), pg_catalog.unnest(wherry_enqueue_many.message_ids),
    pg_catalog.unnest(wherry_enqueue_many.headers), pg_catalog.unnest(wherry_enqueue_many.aggregate_types),
    pg_catalog.unnest(wherry_enqueue_many.aggregate_ids), pg_catalog.unnest(wherry_enqueue_many.trace_ids)) WITH ORDINALITY
    AS m(topic, payload, key, message_id, headers, aggregate_type, aggregate_id, trace_id, nth)$w$;
  {branch_variables}
BEGIN
  SELECT array_agg(f.name ORDER BY f.name COLLATE "C"), array_agg(f.type ORDER BY f.name COLLATE "C") INTO names, types
  FROM (SELECT u.name, u.type FROM ({function_tables}) AS of, unnest(of.names, of.types) AS u(name, type)
        JOIN pg_class AS c ON c.oid = to_regclass(concat(schema, quote_ident(u.name)))::oid AND c.relkind <> 'v') AS f;
  -- Drivers send a payload as text, JSON or bytes, and a key as text, a number or a UUID.  Only the
  -- function with a text key has a default for it, or a call without a key would fit three functions.
  FOREACH kind IN ARRAY ARRAY['bytea', 'text', 'json', 'jsonb'] LOOP
    FOREACH key_kind IN ARRAY ARRAY['text DEFAULT NULL', 'numeric', 'uuid'] LOOP
      made := $f$CREATE OR REPLACE FUNCTION @.wherry_enqueue(topic text, payload @type@, key @key@,
  message_id text DEFAULT NULL, headers json DEFAULT '{}', aggregate_type text DEFAULT '', aggregate_id text DEFAULT '',
  trace_id text DEFAULT NULL, lock_key boolean DEFAULT false, outbox text DEFAULT 'outbox')
RETURNS bigint LANGUAGE plpgsql AS $body$
<<own>>
DECLARE -- Adds a message in the caller's transaction.  Returns its id, or NULL if message ids are unique and the outbox has this one.
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
    FROM (VALUES (own.key_text, wherry_enqueue.aggregate_type, wherry_enqueue.aggregate_id)) AS m(key, aggregate_type, aggregate_id),
      LATERAL (SELECT {key_to_lock:m}) AS o(k)
    WHERE o.k IS NOT NULL;
  END IF;
  IF message_id OPERATOR(pg_catalog.<>) '' THEN
    INSERT INTO @table@(topic, aggregate_type, aggregate_id, partition_key, headers, trace_id, payload, message_id)
    VALUES (wherry_enqueue.topic, coalesce(wherry_enqueue.aggregate_type, ''), coalesce(wherry_enqueue.aggregate_id, ''),
      CASE WHEN own.key_text OPERATOR(pg_catalog.<>) '' THEN own.key_text END, own.said::pg_catalog.json, wherry_enqueue.trace_id, @value@, wherry_enqueue.message_id)
    @once@ RETURNING id INTO own.made;
  ELSE
    INSERT INTO @table@(topic, aggregate_type, aggregate_id, partition_key, headers, trace_id, payload)
    VALUES (wherry_enqueue.topic, coalesce(wherry_enqueue.aggregate_type, ''), coalesce(wherry_enqueue.aggregate_id, ''),
      CASE WHEN own.key_text OPERATOR(pg_catalog.<>) '' THEN own.key_text END, own.said::pg_catalog.json, wherry_enqueue.trace_id, @value@)
    @once@ RETURNING id INTO own.made;
  END IF;
  @end@
  RETURN made;
END $body$ $f$;
      made := replace(replace(replace(made, '@type@', kind), '@key@', key_kind), '@.', schema);
      {branch}
      EXECUTE replace(made, '@given@', 'wherry_enqueue.payload');
    END LOOP;
    made := $f$CREATE OR REPLACE FUNCTION @.wherry_enqueue_many(topics text[], payloads @type@[], keys text[] DEFAULT NULL,
  message_ids text[] DEFAULT NULL, headers json[] DEFAULT NULL, aggregate_types text[] DEFAULT NULL,
  aggregate_ids text[] DEFAULT NULL, trace_ids text[] DEFAULT NULL, lock_key boolean DEFAULT false, outbox text DEFAULT 'outbox')
RETURNS bigint[] LANGUAGE plpgsql AS $body$
<<own>>
DECLARE -- Adds a message for each element, in the order of the arrays.  Returns their ids, NULL for one that the outbox has.
  ids pg_catalog.int8[];
  wrong pg_catalog.int8;  -- A message that is refused; those before it may be refused, too.
  one record;
BEGIN
  IF greatest(@lengths@) OPERATOR(pg_catalog.<>) least(@lengths@) THEN
    RAISE 'the arrays have different lengths: each has an element for each message, or is NULL'
      USING ERRCODE = 'invalid_parameter_value';
  END IF;
  BEGIN
    wrong := (SELECT m.nth FROM @rows@ WHERE m.topic IS NULL OR m.topic OPERATOR(pg_catalog.=) '' OR m.payload IS NULL
      OR greatest(pg_catalog.octet_length(m.topic), pg_catalog.octet_length(m.message_id), pg_catalog.octet_length(m.aggregate_type),
        pg_catalog.octet_length(m.aggregate_id), pg_catalog.octet_length(m.trace_id)) OPERATOR(pg_catalog.>) 255
      OR pg_catalog.octet_length(m.key) OPERATOR(pg_catalog.>) 1024
      OR pg_catalog.octet_length(m.headers::pg_catalog.text) OPERATOR(pg_catalog.>) 262144
      OR CASE WHEN m.headers::pg_catalog.text OPERATOR(pg_catalog.=) '{}' THEN false
              WHEN pg_catalog.json_typeof(m.headers) OPERATOR(pg_catalog.<>) 'object' THEN true
              ELSE EXISTS (SELECT 1 FROM pg_catalog.json_each(m.headers) AS h(n, v)
                WHERE pg_catalog.json_typeof(h.v) OPERATOR(pg_catalog.<>) ALL (ARRAY['string', 'null'])) END
      ORDER BY m.nth LIMIT 1);
  EXCEPTION WHEN data_exception THEN
    wrong := 1;
  END;
  @each@
  @converts@
  IF wrong IS NULL THEN
    IF lock_key THEN -- before the ids are taken, in one order, so that two calls do not wait for each other
      PERFORM pg_catalog.pg_advisory_xact_lock(l.lock) FROM (SELECT DISTINCT pg_catalog.hashtextextended(
          o.k COLLATE pg_catalog."C", @quoted@::pg_catalog.regclass::pg_catalog.oid::bigint) AS lock
        FROM (SELECT {key_to_lock:m} FROM @rows@) AS o(k) WHERE o.k IS NOT NULL ORDER BY 1) AS l;
    END IF;
    WITH given AS MATERIALIZED (
      SELECT m.*, CASE WHEN m.message_id OPERATOR(pg_catalog.<>) '' THEN m.message_id ELSE {new_message_id} END AS made_id FROM @rows@),
    got AS (INSERT INTO @table@(topic, aggregate_type, aggregate_id, partition_key, headers, trace_id, payload, message_id)
      SELECT m.topic, coalesce(m.aggregate_type, ''), coalesce(m.aggregate_id, ''),
        CASE WHEN m.key OPERATOR(pg_catalog.<>) '' THEN m.key END, coalesce(m.headers, '{}'), m.trace_id, @value@, m.made_id
      FROM given AS m ORDER BY m.nth @once@ RETURNING id, message_id)
    SELECT pg_catalog.array_agg(@ids@;
  END IF;
  @end@
  -- The function for one message says what is wrong.
  FOR one IN SELECT m.* FROM @rows@ WHERE m.nth OPERATOR(pg_catalog.>=) own.wrong ORDER BY m.nth LOOP
    BEGIN
      PERFORM @.wherry_enqueue(one.topic, one.payload, one.key, one.message_id, one.headers, one.aggregate_type,
        one.aggregate_id, one.trace_id, false, outbox);
    {says_which}
  END LOOP;
  IF wrong IS NOT NULL THEN
    RAISE 'message % cannot be enqueued', wrong;
  END IF;
  RETURN coalesce(ids, '{}');
END $body$ $f$;
    made := replace(replace(made, '@type@', kind), '@.', schema);
    {branch}
    EXECUTE replace(replace(replace(made, '@given@', 'm.payload'), '@lengths@', lengths), '@rows@', rows);
  END LOOP;
END $do$;

-- include: postgres.functions.sql
