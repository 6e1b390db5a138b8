--
-- wherry_consume() on PostgreSQL: a consumer with the same database reads a subscription of a log in its own transaction.
-- It does what the cursor does (postgres.log.sql); here a look and the position are in one transaction.
--
-- That transaction may have written messages itself.  It sees them, although their transaction is open.  So its number is
-- added to the open ones of each snapshot that is stored, and its own messages are left for the next transaction.  Rows of an
-- adopted table that were there before name no transaction: every snapshot sees them.

-- part: make_consume
DO $do$
DECLARE
  schema CONSTANT text := current_setting('wherry.schema') || '.';
  key CONSTANT text := 'outbox';
  otherwise CONSTANT text := concat('IF EXISTS (SELECT 1 FROM ', schema, 'wherry_schema AS s WHERE s.model = ''outbox'' AND s.name = wherry_consume.outbox) THEN
    RAISE ''outbox % has no subscriptions'', quote_literal(outbox) USING ERRCODE = ''feature_not_supported'',
      HINT = ''Create one with wherry create --layout log.'';
  END IF;
  PERFORM ', schema, 'wherry_missing(''outbox'', outbox);');
  kind CONSTANT text := '';
  made text := $f$CREATE OR REPLACE FUNCTION @.wherry_consume(subscription text, n integer DEFAULT 100, outbox text DEFAULT 'outbox')
RETURNS TABLE (id bigint, message_id text, topic text, key text, headers json, payload text, bytes bytea,
  aggregate_type text, aggregate_id text, trace_id text, created_at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan AS $body$
<<own>>
DECLARE -- Returns the next messages of a subscription and moves its position in the caller's transaction.
  called CONSTANT text := CASE WHEN subscription = 'relay' THEN outbox ELSE concat(outbox, chr(92), subscription) END;
  mine CONSTANT xid8 := pg_current_xact_id();
  high bigint;
  seen pg_snapshot;
  until pg_snapshot;
  late bigint;
  patterns text[];
  most bigint;        -- Rows of a look.
  snap pg_snapshot;   -- That of the look, in which this transaction is open.
  restored boolean;
  below bigint[];     -- Late rows.
  above bigint[];     -- Rows above the position.
  batch bigint[];     -- Those of the look, or of a page of a round, in the order of their ids.
  matched bigint[];   -- Of these, messages of the subscription.
  last bigint;        -- The last row that was taken over.
  ended boolean;      -- No more rows are there.
  given bigint[] := ARRAY[]::bigint[];
  one bigint;
  long boolean;
  reason text;        -- An expression fails for the row.
  moved boolean := false;
  granted regprocedure;  -- The function of a role that may consume this subscription alone.
BEGIN
  IF n IS NULL OR n < 1 THEN
    RAISE 'n is %, and must be 1 or more', coalesce(n::pg_catalog.text, 'NULL') USING ERRCODE = 'invalid_parameter_value',
      HINT = 'n is how many messages to consume at most.';
  END IF;
  @each@
  IF NOT has_table_privilege(@quoted_progress@, 'UPDATE') THEN
    granted := to_regprocedure(concat(@schema@, 'consume_', md5(concat(outbox, '/', subscription)), '(integer)'));
    IF has_function_privilege(own.granted, 'EXECUTE') THEN
      RETURN QUERY EXECUTE format('SELECT * FROM %s($1)', own.granted::oid::regproc) USING wherry_consume.n;
      RETURN;
    END IF;
  END IF;
  -- Consumers of a subscription take turns: the next one waits here for the end of this transaction.
  SELECT p.high, p.seen, p.until, p.late, {patterns:p}
  INTO own.high, own.seen, own.until, own.late, own.patterns
  FROM @progress@ AS p WHERE p.subscription = wherry_consume.subscription FOR UPDATE;
  IF high IS NULL THEN
    RAISE 'outbox % has no subscription %', quote_literal(outbox), coalesce(quote_literal(subscription), 'NULL')
      USING ERRCODE = 'undefined_object', HINT = concat('Create it, with WHERRY_URL set to this database: `wherry create ',
        '@', outbox, '/', subscription, '`.');
  END IF;
  IF EXISTS (SELECT 1 FROM @.wherry_lease AS l WHERE l.outbox = own.called AND l.expires_at > clock_timestamp()) THEN
    RAISE 'a relay reads subscription % of outbox %', quote_literal(subscription), quote_literal(outbox)
      USING ERRCODE = 'object_in_use', HINT = 'Stop the relay, or consume another subscription.';
  END IF;
  IF EXISTS (SELECT 1 FROM @progress@ AS p WHERE p.subscription = wherry_consume.subscription AND p.mask <> -1) THEN
    RAISE 'subscription % of outbox % has several positions, which relays left that shared it', quote_literal(subscription),
      quote_literal(outbox) USING ERRCODE = 'object_not_in_prerequisite_state', HINT = 'Relay it with one relay first.';
  END IF;
  IF EXISTS (SELECT 1 FROM @.wherry_outbox AS o WHERE o.name = own.called AND o.paused_at IS NOT NULL) THEN
    RETURN;
  END IF;
  -- Messages that the position has passed before they were delivered, which a relay leaves, and the retry of a dead one.
  given := ARRAY(SELECT t.id FROM @exception@ AS x
    CROSS JOIN LATERAL (SELECT e.id, e.tx FROM @table@ AS e WHERE e.id = x.id OFFSET 0) AS t
    WHERE x.subscription = wherry_consume.subscription AND x.state IN (0, 1, 3)
      AND t.id <= own.high AND (coalesce(pg_visible_in_snapshot(t.tx, own.seen), true)
        OR own.until IS NOT NULL AND t.id <= own.late AND pg_visible_in_snapshot(t.tx, own.until))
    ORDER BY x.id LIMIT wherry_consume.n);
  -- If the numbers of transactions began again, that is noticed before others write with new ones.
  ended := cardinality(given) >= n AND pg_snapshot_xmax(own.seen) <= pg_snapshot_xmax(pg_current_snapshot());
  WHILE NOT ended LOOP
    most := CASE WHEN patterns IS NULL THEN n - cardinality(given) ELSE greatest(n - cardinality(given), 1000) END;
    IF until IS NULL THEN
      WITH late AS MATERIALIZED (
        SELECT x.id, x.tx FROM (
          (SELECT e.id, e.tx FROM @table@ AS e
           WHERE e.tx >= pg_snapshot_xmax(own.seen) AND e.tx <> own.mine AND e.id + 0 <= own.high
           ORDER BY e.tx LIMIT own.most + 1)
          UNION ALL
          (SELECT e.id, e.tx FROM pg_snapshot_xip(own.seen) AS open(tx) CROSS JOIN LATERAL (
             SELECT o.id, o.tx FROM @table@ AS o WHERE o.tx BETWEEN open.tx AND open.tx AND o.tx <> own.mine AND o.id + 0 <= own.high
             ORDER BY o.tx LIMIT own.most + 1) AS e LIMIT own.most + 1)) AS x),
      head AS MATERIALIZED (SELECT pg_current_snapshot() AS now),
      fresh AS MATERIALIZED (
        SELECT e.id, e.tx FROM @table@ AS e WHERE e.id > own.high ORDER BY e.id LIMIT own.most)
      SELECT h.now,
        pg_snapshot_xmax(h.now) < pg_snapshot_xmax(own.seen)
          OR EXISTS (SELECT 1 FROM (SELECT * FROM late UNION ALL SELECT * FROM fresh WHERE tx <> own.mine) AS r
                     WHERE NOT pg_visible_in_snapshot(r.tx, h.now)),
        ARRAY(SELECT l.id FROM late AS l ORDER BY l.id),
        ARRAY(SELECT f.id FROM fresh AS f ORDER BY f.id)
      INTO own.snap, own.restored, own.below, own.above FROM head AS h;
    ELSE
      SELECT pg_snapshot_xmax(pg_current_snapshot()) < pg_snapshot_xmax(own.until), ARRAY(
        SELECT e.id FROM @table@ AS e WHERE e.id > own.late AND e.id <= own.high
          AND NOT pg_visible_in_snapshot(e.tx, own.seen) AND pg_visible_in_snapshot(e.tx, own.until)
        ORDER BY e.id LIMIT own.most) INTO own.restored, own.batch;
    END IF;
    IF restored THEN -- See "renumber".
      PERFORM 1 FROM @progress@ AS p ORDER BY p.subscription FOR UPDATE;
      WITH head AS MATERIALIZED (SELECT pg_current_snapshot() AS now),
      held AS (
        INSERT INTO @exception@(subscription, id)
        SELECT p.subscription, t.id FROM @progress@ AS p JOIN @table@ AS t ON t.id <= p.high AND (p.mask = -1 OR p.mask >> {partition:t}::integer & 1::bigint = 1)
        WHERE NOT pg_visible_in_snapshot(t.tx, p.seen) AND t.tx <> own.mine
          AND coalesce(t.topic LIKE ANY ({patterns:p}), true)
          AND (p.until IS NULL OR t.id > p.late OR NOT pg_visible_in_snapshot(t.tx, p.until))
        ON CONFLICT DO NOTHING),
      changed AS (
        UPDATE @table@ AS t SET tx = '0'::xid8 FROM head AS h
        WHERE NOT pg_visible_in_snapshot(t.tx, h.now) AND t.tx <> own.mine)
      SELECT h.now INTO own.snap FROM head AS h;
      snap := @open@;
      UPDATE @progress@ AS p SET seen = own.snap, until = NULL, late = 0;
      RETURN QUERY SELECT * FROM @.wherry_consume(wherry_consume.subscription, wherry_consume.n, wherry_consume.outbox);
      RETURN;
    END IF;
    IF until IS NULL THEN
      snap := @open@;
      IF cardinality(below) > most THEN -- A round reads them page by page.
        until := snap;
        moved := true;
        late := coalesce((SELECT least(
          (SELECT min(e.id + 0) FROM @table@ AS e WHERE e.tx >= pg_snapshot_xmax(own.seen) AND e.id + 0 <= own.high),
          (SELECT min(e.id) FROM pg_snapshot_xip(own.seen) AS open(tx) CROSS JOIN LATERAL (
             SELECT min(o.id + 0) AS id FROM @table@ AS o
             WHERE o.tx BETWEEN open.tx AND open.tx AND o.id + 0 <= own.high) AS e))) - 1, high);
        CONTINUE;
      END IF;
      batch := below || above;
      ended := cardinality(above) < most;
    END IF;
    moved := moved OR cardinality(batch) > 0 OR until IS NOT NULL;
    matched := ARRAY(SELECT t.id FROM unnest(own.batch) AS r(id)
      CROSS JOIN LATERAL (SELECT e.id, e.tx, e.topic FROM @table@ AS e WHERE e.id = r.id OFFSET 0) AS t
      WHERE t.tx IS DISTINCT FROM own.mine AND coalesce(t.topic LIKE ANY (own.patterns), true)
        AND NOT EXISTS (SELECT 1 FROM @exception@ AS x
                        WHERE x.subscription = wherry_consume.subscription AND x.id = t.id AND x.state IN (2, 4))
      ORDER BY t.id LIMIT wherry_consume.n - cardinality(own.given));
    given := given || matched;
    last := batch[cardinality(batch)];
    IF cardinality(given) >= n THEN
      ended := true;
      last := matched[cardinality(matched)];
    END IF;
    DELETE FROM @exception@ AS x WHERE x.subscription = wherry_consume.subscription AND x.state = 2
      AND x.id = ANY (own.batch) AND x.id <= own.last;
    IF until IS NOT NULL THEN
      IF cardinality(batch) < most AND last IS NOT DISTINCT FROM batch[cardinality(batch)] THEN
        seen := until;
        until := NULL;
        late := 0;
      ELSE
        late := last;
      END IF;
    ELSIF last < batch[cardinality(batch)] AND last <= high THEN
      until := snap;
      late := last;
    ELSE
      seen := snap;
      high := greatest(high, last);
    END IF;
  END LOOP;
  IF moved THEN
    UPDATE @progress@ AS p SET high = own.high, seen = own.seen, until = own.until, late = own.late,
      moved_at = clock_timestamp() WHERE p.subscription = wherry_consume.subscription;
  END IF;
  IF cardinality(given) = 0 THEN
    RETURN;
  END IF;
  DELETE FROM @exception@ AS x WHERE x.subscription = wherry_consume.subscription AND x.id = ANY (own.given);
  -- A message that the server cannot send to this client is dead.
  FOR one IN SELECT m.id FROM @table@ AS m WHERE m.id = ANY (own.given)
    AND (@doubt@ OR pg_client_encoding() <> current_setting('server_encoding'))
  LOOP
    BEGIN
      SELECT @long@, CASE WHEN m.message_id IS NULL THEN concat('the row cannot be read: ', m.trace_id) END
      INTO own.long, own.reason FROM @table@ AS m WHERE m.id = own.one;
      IF long THEN
        RAISE program_limit_exceeded USING MESSAGE = 'the payload is over its limit of 67108864 bytes';
      END IF;
      IF reason IS NOT NULL THEN
        RAISE data_exception USING MESSAGE = reason;
      END IF;
      PERFORM convert_to(concat(m.message_id, m.topic, m.partition_key, m.headers, m.aggregate_type, m.aggregate_id,
        m.trace_id, m.created_at, @text@), pg_client_encoding())
      FROM @table@ AS m WHERE m.id = own.one;
    EXCEPTION WHEN data_exception OR program_limit_exceeded OR internal_error OR out_of_memory THEN
      INSERT INTO @exception@(subscription, id, state, last_error) VALUES (wherry_consume.subscription, own.one, 4,
        left(sqlerrm, 500));
      given := array_remove(given, one);
    END;
  END LOOP;
  RETURN QUERY SELECT m.id::bigint, m.message_id, m.topic, m.partition_key, m.headers, @body@,
    m.aggregate_type, m.aggregate_id, m.trace_id, m.created_at
  FROM @table@ AS m WHERE m.id = ANY (own.given) ORDER BY m.id;
  @end@
END $body$ $f$;
  {branch_variables}
BEGIN
  SELECT array_agg(f.name ORDER BY f.name COLLATE "C"), array_agg(f.type ORDER BY f.name COLLATE "C") INTO names, types
  FROM (SELECT u.name, u.type FROM ({function_tables}) AS of, unnest(of.names, of.types) AS u(name, type)
        JOIN {wherry_schema} AS s ON s.model = 'log' AND s.name = u.name) AS f;
  made := replace(replace(made, '@open@', $w$CASE WHEN mine >= pg_snapshot_xmax(snap) THEN snap
        ELSE concat(pg_snapshot_xmin(snap), ':', pg_snapshot_xmax(snap), ':', (
          SELECT string_agg(x.tx::pg_catalog.text, ',' ORDER BY x.tx)
          FROM (SELECT o.tx FROM pg_snapshot_xip(own.snap) AS o(tx) UNION SELECT own.mine) AS x))::pg_snapshot END$w$),
    '@.', schema);
  made := replace(made, '@schema@', quote_literal(schema));
  {branch}
  EXECUTE made;
END $do$;
