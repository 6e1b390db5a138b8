--
-- Statements of a subscription that is read behind a position, on PostgreSQL: those of a log, and of a table of another
-- program that is read as one.

-- part: mine
-- Condition: the row is of the caller's partitions, and their positions do not cover it, which may differ (:mixed).
CASE WHEN :mixed::bigint <> 0 THEN EXISTS (
       SELECT 1 FROM {table_progress} AS p, (SELECT {.}id, {.}tx) AS t
       WHERE p.subscription = {subscription} AND p.mask & ~:mask::bigint = 0 AND {of_p:.} AND {uncovered})
     WHEN :mask::bigint = -1 THEN true
     ELSE :mask::bigint >> {partition:.}::integer & 1::bigint = 1 END

-- part: judged_row
e.*, {fine}, {its_topic:e} AND {mine:e} AS its_topic

-- part: message
CASE WHEN its_topic THEN id END, 0::bigint AS status, 0::bigint AS attempts, created_at, 0::bigint AS due_in, {quick_texts},
  CASE WHEN its_topic THEN {quick_payload} END

-- include: postgres.log.sql

-- name: log-ids
-- New messages, by their ids: of a look that met a row which the server cannot send.
SELECT {message} FROM (
  SELECT e.*, {fine}, {its_topic:e} AS its_topic FROM {table} AS e WHERE e.id = ANY ({ids})) AS t ORDER BY id;

-- ---- progress ----

-- part: earlier
-- Snapshots of one server in the order in which they were taken: what an earlier one sees a later one sees too.
pg_snapshot_xmax({.}seen), -(SELECT count(*) FROM pg_snapshot_xip({.}seen))

-- name: progress
-- The position of a share, or one that covers no more than any of its positions, the number of these, and the
-- highest id of one; and whether there are exceptions.
SELECT min(p.high), (array_agg(p.seen::text ORDER BY {earlier:p}))[1], CASE WHEN count(*) = 1 THEN min(p.until::text) END,
  CASE WHEN count(*) = 1 THEN min(p.late) ELSE 0 END, count(*), max(p.high),
  EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {subscription})::integer
FROM {table_progress} AS p WHERE p.subscription = {subscription} AND p.mask & ~:mask::bigint = 0 HAVING count(*) > 0;

-- name: progress-take
-- A relay that begins waits for a consumer that reads the subscription, which has seen no lease.
UPDATE {table_progress} SET late = late WHERE subscription = {subscription} AND mask & ~:mask::bigint = 0;

-- name: progress-divide
-- Give a relay that begins to have these partitions, or has no others any more, separate rows.  Rows with the same
-- position become one.
WITH old AS (
  DELETE FROM {table_progress} WHERE subscription = {subscription} AND mask & :mask::bigint <> 0 RETURNING *),
pieces AS (
  SELECT true AS mine, mask & :mask::bigint AS part, o.* FROM old AS o
  UNION ALL
  SELECT false, mask & ~:mask::bigint, o.* FROM old AS o WHERE mask & ~:mask::bigint <> 0)
INSERT INTO {table_progress}(subscription, mask, high, seen, until, late, topics, shared, moved_at)
SELECT {subscription}, bit_or(part), high, seen::text::pg_snapshot, until::text::pg_snapshot, late, min(topics),
  bool_or(shared), max(moved_at)
FROM pieces GROUP BY mine, high, seen::text, until::text, late;

-- name: move
-- The fence is in the statement that writes.  The server need not write it to disk before it answers: if it is lost,
-- its messages are delivered again, which may happen anyway.
WITH held AS MATERIALIZED (
  SELECT set_config('synchronous_commit', 'off', true) FROM {wherry_lease}
  WHERE {holds} FOR SHARE)
UPDATE {table_progress} AS p SET high = :high::bigint, seen = :seen::text::pg_snapshot, until = :until::text::pg_snapshot,
  late = :late::bigint, moved_at = {now}
FROM held WHERE p.subscription = {subscription} AND p.mask & ~:mask::bigint = 0
  AND CASE WHEN :mixed::bigint = 0 THEN true ELSE p.high <= :high::bigint AND ({earlier:p}) <= (
    SELECT {earlier:s} FROM (SELECT :seen::text::pg_snapshot AS seen) AS s) END;

-- name: renumber
-- The table came from another server, whose numbers of transactions mean nothing here.  Rows that were not read although
-- the position of a subscription is behind them become its exceptions; then every row may be seen.
WITH head AS MATERIALIZED (SELECT pg_current_snapshot() AS now),
held AS (
  INSERT INTO {table_exception}(subscription, id)
  SELECT p.subscription, t.id FROM {table_progress} AS p JOIN {table} AS t ON t.id <= p.high AND {of_p:t}
  WHERE {uncovered} AND coalesce(t.topic LIKE ANY ({patterns:p}), true)
    AND t.tx IS DISTINCT FROM pg_current_xact_id_if_assigned()
  ON CONFLICT DO NOTHING),
changed AS (
  UPDATE {table} AS t SET tx = '0'::xid8 FROM head AS h
  WHERE NOT pg_visible_in_snapshot(t.tx, h.now) AND t.tx IS DISTINCT FROM pg_current_xact_id_if_assigned()),
moved AS (
  UPDATE {table_progress} AS p SET seen = h.now, until = NULL, late = 0 FROM head AS h)
SELECT h.now::text FROM head AS h;

-- name: subscribe
-- A subscription that begins at a position.
INSERT INTO {table_progress}(subscription, high, seen, topics)
SELECT {subscription}, :high::bigint, :seen::text::pg_snapshot, :topics::text
WHERE NOT EXISTS (SELECT 1 FROM {table_progress} WHERE subscription = {subscription}) ON CONFLICT DO NOTHING;

-- name: subscribe-named
INSERT INTO {wherry_outbox}(name) VALUES (:name::text) ON CONFLICT DO NOTHING;

-- name: hold
-- Messages that the position passes before they are delivered.
INSERT INTO {table_exception}(subscription, id)
SELECT {subscription}, id FROM unnest({ids}) AS h(id)
ON CONFLICT DO NOTHING;

-- name: known
-- Exceptions that the position does not cover: a relay that begins there meets them among new messages.
SELECT x.id, x.state, x.attempts, {due_in} FROM {position} AS p CROSS JOIN {table_exception} AS x
LEFT JOIN LATERAL (SELECT {key_columns:e} FROM {table} AS e WHERE e.id = x.id OFFSET 0) AS t ON true
WHERE x.subscription = {subscription} AND p.mask & ~:mask::bigint = 0 AND {uncovered_exception};

-- name: read
-- Messages that wait, failed or were tried, in the order of their ids.
SELECT {quick_columns} FROM (SELECT *, {fine} FROM (
  {exceptional} AND x.state IN (0, 1, 3) AND x.id > :after::bigint
    AND (:mask::bigint = -1 OR :mask::bigint >> {partition:t}::integer & 1::bigint = 1)
  ORDER BY x.id LIMIT :limit::bigint) AS o) AS t
ORDER BY id;

-- name: read-ids
SELECT {quick_columns} FROM (SELECT *, {fine} FROM (
  {exceptional} AND x.state IN (0, 1, 3) AND x.id = ANY ({ids})) AS o) AS t ORDER BY id;

-- name: dead-keys
-- Dead messages, for relays that park their keys.
SELECT id, {key_texts}
FROM ({exceptional} AND x.state = 4 AND x.id > :after::bigint ORDER BY x.id LIMIT :limit::bigint) AS t ORDER BY id;

-- name: partitions-dead-keys
SELECT id, {key_texts}
FROM ({exceptional} AND x.state = 4 AND x.id > :after::bigint AND {partition:t} = ANY (:partitions::smallint[])
      ORDER BY x.id LIMIT :limit::bigint) AS t ORDER BY id;

-- part: open_exception
SELECT x.id FROM {table_exception} AS x
WHERE x.subscription = {subscription} AND x.state IN (0, 1, 3)
  AND EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = x.id OFFSET 0)

-- name: open-upto
-- Whether a message is open up to this id.
SELECT CASE
  WHEN EXISTS (SELECT 1 FROM ({first_fresh}) AS t WHERE t.id <= :upto::bigint) THEN 1
  WHEN EXISTS ({open_exception} AND x.id <= :upto::bigint) THEN 1
  WHEN EXISTS (SELECT 1 FROM ({late_rows}) AS l WHERE l.id <= :upto::bigint) THEN 1
  ELSE 0 END;

-- name: last-open
SELECT greatest(
  coalesce((SELECT max(t.id) FROM {position} AS p CROSS JOIN LATERAL (
              SELECT e.id FROM {table} AS e WHERE e.id > p.high ORDER BY e.id DESC LIMIT 1) AS t),
           (SELECT max(l.id) FROM ({late_rows}) AS l), 0),
  coalesce((SELECT max(x.id) FROM ({open_exception}) AS x), 0));

-- ---- results ----

-- name: done-delete
-- unused: token
DELETE FROM {table_exception} WHERE subscription = {subscription} AND id = ANY ({ids});

-- part: settleable
-- Condition: the message was not delivered or discarded.
({uncovered} OR EXISTS (SELECT 1 FROM {table_exception} AS o WHERE o.subscription = {subscription} AND o.id = t.id))

-- name: done-mark
-- In the transaction of a handler: the message is done, whether the position covers it already or not.  No row is
-- changed if it is done before.
INSERT INTO {table_exception} AS x (subscription, id, state)
SELECT {subscription}, t.id, 2 FROM {position} AS p CROSS JOIN LATERAL (
  SELECT {key_columns:e} FROM {table} AS e WHERE e.id = ANY ({ids}) OFFSET 0) AS t
WHERE {of_p:t} AND {settleable}
ON CONFLICT (subscription, id) DO UPDATE SET state = 2, next_retry_at = NULL, changed_at = {now}, claim_token = ''
  WHERE x.state IN (0, 1, 3);

-- name: forget-done
-- That a message is done need not be said once the position covers it.
DELETE FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.state = 2 AND NOT EXISTS (
  SELECT 1 FROM {position} AS p
  LEFT JOIN LATERAL (SELECT {key_columns:e} FROM {table} AS e WHERE e.id = x.id OFFSET 0) AS t ON true
  WHERE {uncovered_exception});

-- name: fail
-- unused: token
-- If the number of the attempt is known, it is set and not increased: a transaction whose answer was
-- lost is written again.  An operator may have set the number to 0 meanwhile.
INSERT INTO {table_exception} AS x (subscription, id, state, attempts, next_retry_at, changed_at, last_error)
SELECT {subscription}, t.id, CASE WHEN :dead::bigint <> 0 THEN 4 ELSE 3 END,
  CASE WHEN :nth::integer > 0 THEN :nth::integer ELSE greatest(:count::integer, 0) END,
  CASE WHEN :dead::bigint <> 0 THEN NULL ELSE {after_delay} END, {now}, :error
FROM {position} AS p CROSS JOIN LATERAL (SELECT * FROM {table} AS e WHERE e.id = :id OFFSET 0) AS t
WHERE {of_p:t} AND {this} AND {settleable}
ON CONFLICT (subscription, id) DO UPDATE SET state = excluded.state,
  attempts = CASE WHEN x.attempts BETWEEN :nth::integer - 1 AND :nth::integer AND :nth::integer > 0 THEN :nth::integer
                  ELSE greatest(least(x.attempts, 999999999) + :count::integer, 0) END,
  next_retry_at = excluded.next_retry_at, changed_at = excluded.changed_at, last_error = excluded.last_error
  WHERE x.state IN (0, 1, 3);

-- name: requeue
-- unused: token
UPDATE {table_exception} SET state = 0, next_retry_at = NULL, claim_token = '', changed_at = {now}
WHERE subscription = {subscription} AND id = ANY ({ids}) AND state IN (1, 3);

-- name: try
-- The attempt of a suspect is recorded before it is delivered, so that a message that crashes its relay
-- runs out of attempts.
INSERT INTO {table_exception} AS x (subscription, id, state, attempts, changed_at, claim_token)
SELECT {subscription}, t.id, 1, greatest(:nth::integer, 1), {now}, :token::text
FROM {position} AS p CROSS JOIN LATERAL (SELECT * FROM {table} AS e WHERE e.id = :id OFFSET 0) AS t
WHERE {of_p:t} AND {this} AND {settleable}
ON CONFLICT (subscription, id) DO UPDATE SET state = 1, claim_token = excluded.claim_token,
  changed_at = excluded.changed_at,
  attempts = CASE WHEN x.attempts BETWEEN :nth::integer - 1 AND :nth::integer AND :nth::integer > 0 THEN :nth::integer
                  ELSE least(x.attempts, 999999999) + 1 END
  WHERE x.state IN (0, 1, 3);

-- name: untry
-- The destination was down, so the attempt of the message does not count.
UPDATE {table_exception} SET state = 0, attempts = :nth::integer - 1, next_retry_at = NULL,
  changed_at = {now}, claim_token = ''
WHERE subscription = {subscription} AND id = :id AND state = 1 AND claim_token = :token::text
  AND attempts = :nth::integer;

-- part: since
statement_timestamp() - least(:age::bigint, 3153600000000)::float8 * interval '1 millisecond'

-- part: is_young
-- Condition: the row is younger than the age.  A time of more than a day ahead says nothing about that, or one row with
-- such a time, which may be dead, would keep all rows after it.
{.}created_at > {since} AND {.}created_at <= statement_timestamp() + interval '1 day'

-- part: passed_by_all
-- Rows above this id are above the position of a subscription, which may stand still.
coalesce((SELECT min(m.high) FROM (SELECT max(p.high) AS high FROM {table_progress} AS p GROUP BY p.subscription) AS m),
         9223372036854775807)

-- part: unneeded
-- Condition: every subscription has passed the message, and has no exception of it.
NOT EXISTS (SELECT 1 FROM {table_progress} AS p WHERE {of_p:t} AND {uncovered})
  AND NOT EXISTS (SELECT 1 FROM {table_progress} AS p CROSS JOIN LATERAL (
    SELECT 1 FROM {table_exception} AS x WHERE x.subscription = p.subscription AND x.id = t.id AND x.state <> 2 OFFSET 0) AS x)

-- part: judged
-- All messages with their states.
SELECT t.*, coalesce(x.state, CASE WHEN {uncovered} THEN 0 ELSE 2 END)::smallint AS status,
       coalesce(x.attempts, 0) AS attempts, x.next_retry_at,
       CASE WHEN x.state <> 0 THEN x.changed_at END AS claimed_at,
       NULL::timestamptz AS processed_at, x.last_error
FROM {position} AS p JOIN {table} AS t ON {its_topic:t} AND {of_p:t}
LEFT JOIN LATERAL (SELECT * FROM {table_exception} AS e
                   WHERE e.subscription = {subscription} AND e.id = t.id OFFSET 0) AS x ON true

-- name: log-open
-- Whether the message is not done yet.
SELECT count(*) FROM ({judged} WHERE t.id = :id) AS j WHERE j.status <> 2;

-- part: unexcepted
-- Condition: the message has no exception.  It is looked for by its id, however few exceptions the planner expects.
NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.id = t.id OFFSET 0)

-- part: unread
-- Messages without an exception, as rows that commands show.
SELECT t.*, 0::smallint AS status, 0 AS attempts, NULL::timestamptz AS next_retry_at,
       NULL::timestamptz AS claimed_at, NULL::timestamptz AS processed_at, NULL::text AS last_error FROM {table} AS t

-- part: named
-- Messages with that message id, or else with that number.  Message ids may be in no index, so they are looked for once, and
-- not at all if none is given.
WITH m AS MATERIALIZED (
  SELECT e.id FROM {table} AS e WHERE :ident::text IS NOT NULL AND e.message_id = :ident::text)
SELECT j.* FROM m CROSS JOIN LATERAL ({judged} WHERE t.id = m.id OFFSET 0) AS j
UNION ALL
SELECT * FROM ({judged} WHERE t.id = :number::bigint) AS j WHERE NOT EXISTS (SELECT 1 FROM m)

-- part: not_delivered
-- Messages to discard: those that are named, in one of the states (0: in any).
SELECT n.id FROM ({named}) AS n
WHERE n.status <> 2 AND (:states::bigint = 0 OR :states::bigint >> n.status::integer & 1::bigint = 1)

-- name: consume
SELECT c.id, 0::smallint, 0, c.created_at, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz,
       c.message_id, c.topic, c.aggregate_type, c.aggregate_id, c.key, c.headers, c.trace_id,
       coalesce(c.bytes, pg_catalog.convert_to(c.payload, 'UTF8')), NULL::text, 0::bigint, 0::bigint
FROM {wherry_consume}({subscription}, :limit::integer, {name}) AS c ORDER BY c.id;

-- part: listed
{asked} AND (:states::integer >> status::integer) & 1 = 1

-- part: asked_exception
-- Conditions of lists.  Rows that are named are read elsewhere.
:ident::text IS NULL AND (:states::integer >> x.state::integer) & 1 = 1 AND {its_topic:t} AND {asked}

-- part: asked_unread
:ident::text IS NULL AND :states::integer & 1 = 1

-- name: list
SELECT id, {shown} FROM (
  ({exceptional} AND x.state IN (0, 1, 3) AND x.id > :after::bigint AND {asked_exception} ORDER BY x.id {limited})
  UNION ALL
  ({exceptional} AND x.state = 4 AND x.id > :after::bigint AND {asked_exception} ORDER BY x.id {limited})
  UNION ALL
  (SELECT n.* FROM {position} AS p CROSS JOIN LATERAL (
     SELECT * FROM ({unread} WHERE {asked_unread} AND t.id > p.high AND t.id > :after::bigint AND {its_topic:t} AND {of_p:t}
                    AND {unexcepted} ORDER BY t.id) AS j WHERE {asked} ORDER BY id {limited}) AS n)
  UNION ALL
  (SELECT n.* FROM (SELECT l.id FROM ({late_rows}) AS l WHERE {asked_unread} AND l.id + 0 > :after::bigint ORDER BY l.id OFFSET 0) AS l
   CROSS JOIN LATERAL ({unread} WHERE t.id = l.id AND {unexcepted} OFFSET 0) AS n WHERE {asked} ORDER BY l.id {limited})
  UNION ALL
  (SELECT * FROM ({named}) AS n WHERE id > :after::bigint AND status <> 2 AND {listed})) AS t
ORDER BY id {limited};

-- name: list-newest
SELECT id, {shown} FROM (
  ({exceptional} AND x.state IN (0, 1, 3) AND x.id < :before::bigint AND {asked_exception} ORDER BY x.id DESC {limited})
  UNION ALL
  ({exceptional} AND x.state = 4 AND x.id < :before::bigint AND {asked_exception} ORDER BY x.id DESC {limited})
  UNION ALL
  (SELECT n.* FROM {position} AS p CROSS JOIN LATERAL (
     SELECT * FROM ({unread} WHERE {asked_unread} AND t.id > p.high AND t.id < :before::bigint AND {its_topic:t} AND {of_p:t}
                    AND {unexcepted} ORDER BY t.id DESC) AS j WHERE {asked} ORDER BY id DESC {limited}) AS n)
  UNION ALL
  (SELECT n.* FROM (SELECT l.id FROM ({late_rows}) AS l WHERE {asked_unread} AND l.id + 0 < :before::bigint ORDER BY l.id DESC OFFSET 0) AS l
   CROSS JOIN LATERAL ({unread} WHERE t.id = l.id AND {unexcepted} OFFSET 0) AS n WHERE {asked} ORDER BY l.id DESC {limited})
  UNION ALL
  (SELECT * FROM ({named}) AS n WHERE id < :before::bigint AND status <> 2 AND {listed})) AS t
ORDER BY id DESC {limited};

-- name: list-any
SELECT id, {shown} FROM (
  (SELECT * FROM ({judged} WHERE t.id > :after::bigint ORDER BY t.id) AS j
   WHERE :ident::text IS NULL AND {listed} ORDER BY id {limited})
  UNION ALL
  (SELECT * FROM ({named}) AS n WHERE id > :after::bigint AND {listed})) AS t
ORDER BY id {limited};

-- name: list-any-newest
SELECT id, {shown} FROM (
  (SELECT * FROM ({judged} WHERE t.id < :before::bigint ORDER BY t.id DESC) AS j
   WHERE :ident::text IS NULL AND {listed} ORDER BY id DESC {limited})
  UNION ALL
  (SELECT * FROM ({named}) AS n WHERE id < :before::bigint AND {listed})) AS t
ORDER BY id DESC {limited};

-- part: before_it
-- Open messages before c, among the first 1,000 of each kind, with the columns of their keys.
({exceptional} AND x.state IN (0, 1, 3) AND x.id < c.id AND {its_topic:t} ORDER BY x.id LIMIT 1000)
UNION ALL
(SELECT n.* FROM {position} AS p CROSS JOIN LATERAL (
   {unread} WHERE t.id > p.high AND t.id < c.id AND {its_topic:t} AND {of_p:t} AND {unexcepted} ORDER BY t.id LIMIT 1000) AS n)
UNION ALL
(SELECT n.* FROM (SELECT l.id FROM ({some_late}) AS l WHERE l.id < c.id ORDER BY l.id LIMIT 1000) AS l
 CROSS JOIN LATERAL ({unread} WHERE t.id = l.id AND {unexcepted} OFFSET 0) AS n)

-- name: show
-- The message, with the lowest open one of the same ordering key before it, and the lowest dead one.
SELECT c.id, c.status, c.attempts, c.created_at, c.claimed_at, c.next_retry_at,
       c.processed_at,
       {texts},
       {error_text},
       (SELECT min(b.id) FROM ({before_it}) AS b WHERE {key:b} = {key:c}),
       (SELECT min(b.id) FROM ({exceptional} AND x.state = 4 ORDER BY x.id LIMIT 1000) AS b
        WHERE c.status IN (0, 1, 3) AND {key:b} = {key:c})
FROM (SELECT * FROM ({named}) AS n ORDER BY id DESC LIMIT 1) AS c;

-- name: retry-dead
UPDATE {table_exception} SET state = 0, attempts = 0, next_retry_at = NULL, changed_at = {now}, claim_token = ''
WHERE subscription = {subscription} AND state IN (3, 4) AND id = ANY (ARRAY(
  SELECT id FROM (
    SELECT * FROM ({exceptional} AND :ident::text IS NULL) AS e
    UNION ALL
    SELECT * FROM ({named}) AS n) AS t
  WHERE (status = 4 AND :states::bigint & 16::bigint <> 0 OR status = 3 AND :states::bigint & 8::bigint <> 0)
    AND {topic_and_key} AND {since_created} AND id > :after::bigint
  ORDER BY id {limited}));

-- name: count
-- Each row is counted once: rows above all positions of the subscription, up to :most of them, rows below them, up to
-- :done, and those between.  If it has all topics, rows above and below are counted in the primary key; otherwise they are
-- read, and so a tenth of these numbers.  Late rows are looked for among the first :most of later transactions.  If there are
-- more, only what is known to be done is counted as done.  The last number has the bit of a state, if there may be more
-- messages of it.
WITH ends AS MATERIALIZED (
  SELECT min(p.high) AS low, max(p.high) AS high, {topics} IS NULL AS all_topics FROM {position} AS p),
x AS MATERIALIZED (
  SELECT t.state, {uncovered} AS is_open FROM (
    SELECT x.state, t.* FROM {table_exception} AS x
    CROSS JOIN LATERAL (SELECT {key_columns:e} FROM {table} AS e WHERE e.id = x.id AND {its_topic:e} OFFSET 0) AS t
    WHERE x.subscription = {subscription} OFFSET 0) AS t
  JOIN {position} AS p ON {of_p:t}),
excepted AS MATERIALIZED (
  SELECT count(*) FILTER (WHERE state = 0) AS pending, count(*) FILTER (WHERE state = 1) AS processing,
    count(*) FILTER (WHERE state = 3) AS failed, count(*) FILTER (WHERE state = 4) AS dead,
    count(*) FILTER (WHERE is_open) AS is_open,
    count(*) FILTER (WHERE is_open AND state = 2) - count(*) FILTER (WHERE NOT is_open AND state <> 2) AS done FROM x),
above AS MATERIALIZED (
  SELECT i.n + f.n AS n, i.n + f.looked * 10 AS looked FROM ends
  CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT e.id FROM {table} AS e WHERE ends.all_topics AND e.id > ends.high ORDER BY e.id LIMIT :most::bigint) AS e) AS i
  CROSS JOIN LATERAL (SELECT count(*) AS looked, count(*) FILTER (WHERE {its_topic:e}) AS n FROM (
    SELECT e.topic FROM {table} AS e WHERE NOT ends.all_topics AND e.id > ends.high ORDER BY e.id LIMIT :most::bigint / 10) AS e) AS f),
below AS MATERIALIZED (
  SELECT i.n + f.n AS n, i.n + f.looked * 10 AS looked FROM ends
  CROSS JOIN LATERAL (SELECT count(*) AS n FROM (
    SELECT e.id FROM {table} AS e WHERE ends.all_topics AND e.id <= ends.low ORDER BY e.id DESC LIMIT :done::bigint) AS e) AS i
  CROSS JOIN LATERAL (SELECT count(*) AS looked, count(*) FILTER (WHERE {its_topic:e}) AS n FROM (
    SELECT e.topic FROM {table} AS e WHERE NOT ends.all_topics AND e.id <= ends.low ORDER BY e.id DESC LIMIT :done::bigint / 10) AS e) AS f),
between_them AS MATERIALIZED (
  SELECT count(*) * 10 AS looked, count(*) FILTER (WHERE {its_topic:t} AND t.id > p.high) AS above,
    count(*) FILTER (WHERE {its_topic:t} AND t.id <= p.high) AS below
  FROM (SELECT {key_columns:e}, e.topic FROM ends CROSS JOIN LATERAL (
          SELECT * FROM {table} AS e WHERE e.id > ends.low AND e.id <= ends.high ORDER BY e.id LIMIT :most::bigint / 10) AS e) AS t
  JOIN {position} AS p ON {of_p:t}),
late AS MATERIALIZED (
  SELECT coalesce(sum(l.n), 0)::bigint AS n, coalesce(max(l.looked) >= :most::bigint, false) AS cut
  FROM {position} AS p CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE t.id <= p.high AND {uncovered} AND {of_whole}) AS n, count(*) FILTER (WHERE t.is_later) AS looked
    FROM ((SELECT e.id, e.tx, true AS is_later FROM {table} AS e
           WHERE e.tx >= pg_snapshot_xmax(p.seen) ORDER BY e.tx LIMIT :most::bigint)
          UNION ALL
          SELECT o.id, o.tx, false FROM ({late_of_open}) AS o) AS t) AS l),
known AS MATERIALIZED (
  SELECT count(*) AS n FROM late CROSS JOIN {position} AS p CROSS JOIN LATERAL (
    SELECT e.id, e.tx FROM {table} AS e WHERE e.tx < pg_snapshot_xmax(p.seen) ORDER BY e.tx DESC LIMIT :done::bigint) AS t
  WHERE late.cut AND p.whole AND NOT {uncovered})
SELECT greatest(above.n + between_them.above + late.n - excepted.is_open, 0) + excepted.pending, excepted.processing,
  greatest(CASE WHEN late.cut THEN known.n ELSE below.n + between_them.below - late.n END + excepted.done, 0),
  excepted.failed, excepted.dead,
  CASE WHEN late.cut OR above.looked >= :most::bigint / 10 * 10 OR between_them.looked >= :most::bigint / 10 * 10 THEN 1 ELSE 0 END
  + CASE WHEN late.cut OR below.looked >= :done::bigint / 10 * 10 OR between_them.looked >= :most::bigint / 10 * 10 THEN 4 ELSE 0 END
FROM excepted, above, below, between_them, late, known;

-- name: ready
-- Number of failed messages that are due, and the age of the oldest message that may be delivered now.
SELECT count(*), coalesce(max({age:m}), 0)
FROM ({exceptional} AND x.state = 3 AND x.next_retry_at <= {now}) AS t CROSS JOIN LATERAL (SELECT t.created_at) AS m(at);

-- part: key_of
-- A text that is equal for all messages of a key; NULL: the message has no key.
CASE WHEN {.}partition_key <> '' THEN 'k' || {.}partition_key
     WHEN {.}aggregate_type <> '' OR {.}aggregate_id <> ''
     THEN length({.}aggregate_type)::text || ' ' || {.}aggregate_type || {.}aggregate_id END

-- part: blocking
-- The first failed message of each key that is not due yet: later ones wait behind it.
SELECT {key_of:f} AS key, min(f.id) AS id FROM ({exceptional} AND x.state = 3 AND x.next_retry_at > {now}) AS f GROUP BY 1

-- part: compared
-- Pending messages, up to :most of each kind, each with the first failed one of its key.  A full join is not made as a loop
-- in a loop, of which all messages of all failed keys would be compared.
SELECT t.id, t.created_at, b.id AS blocked_by FROM (
  SELECT t.id, t.created_at, {key_of:t} AS key FROM (
    SELECT x.id FROM {table_exception} AS x
    WHERE x.subscription = {subscription} AND x.state = 0 AND x.state IN (0, 1, 3) ORDER BY x.id LIMIT :most::bigint) AS i
  CROSS JOIN LATERAL (SELECT * FROM {table} AS e WHERE e.id = i.id AND {its_topic:e} OFFSET 0) AS t
  UNION ALL
  SELECT t.id, t.created_at, {key_of:t} FROM {position} AS p CROSS JOIN LATERAL (
    SELECT * FROM (SELECT * FROM {table} AS e WHERE e.id > p.high ORDER BY e.id LIMIT 1000000) AS e
    WHERE {its_topic:e} AND {of_p:e} ORDER BY e.id LIMIT :most::bigint) AS t
  WHERE {unexcepted}
  UNION ALL
  SELECT t.id, t.created_at, {key_of:t} FROM (SELECT l.id FROM ({some_late}) AS l LIMIT :most::bigint) AS i
  CROSS JOIN LATERAL (SELECT * FROM {table} AS e WHERE e.id = i.id OFFSET 0) AS t WHERE {unexcepted}) AS t
FULL JOIN ({blocking}) AS b ON b.key = t.key OFFSET 0

-- name: oldest-pending
SELECT {age:o} FROM (
  SELECT min(j.created_at) AS at FROM ({compared}) AS j
  WHERE j.id IS NOT NULL AND (j.blocked_by IS NULL OR j.blocked_by >= j.id)) AS o
WHERE o.at IS NOT NULL;

-- name: held-pending
-- Number of messages that wait behind a failed one of their key.
SELECT count(*) FROM ({compared}) AS j WHERE j.blocked_by < j.id;

-- ---- subscriptions ----

-- name: subscribed
SELECT min(p.high), coalesce(min(p.topics), '') FROM {table_progress} AS p WHERE p.subscription = {subscription}
HAVING count(*) > 0;

-- name: subscriptions
-- With the age of the first message that the position has not passed, of whatever topic: it is kept.
SELECT s.subscription, s.topics, s.high, {age:s},
  coalesce((SELECT greatest({age:f}, 0) FROM (
              SELECT t.created_at AS at FROM {table} AS t WHERE t.id > s.high ORDER BY t.id LIMIT 1) AS f), -1)
FROM (SELECT p.subscription, coalesce(min(p.topics), '') AS topics, min(p.high) AS high, max(p.moved_at) AS at
      FROM {table_progress} AS p GROUP BY p.subscription) AS s
ORDER BY s.subscription;

-- name: unsubscribe
DELETE FROM {table_progress} WHERE subscription = {subscription};

-- name: unsubscribe-exceptions
DELETE FROM {table_exception} WHERE subscription = {subscription};

-- name: unsubscribe-named
DELETE FROM {wherry_outbox} WHERE name = :name::text AND name <> {name};

-- name: unsubscribe-function
-- That of roles that may consume this subscription.  Only the owner may drop it: for others it stays.
DO $$
DECLARE
  f CONSTANT regprocedure := to_regprocedure(concat((SELECT {consume_function:p} FROM (SELECT {subscription} AS subscription) AS p), '(integer)'));
BEGIN
  IF pg_has_role((SELECT proowner FROM pg_proc WHERE oid = f), 'USAGE') THEN
    EXECUTE format('DROP FUNCTION %s', f);
  END IF;
END $$;

-- name: unsubscribe-lease
DELETE FROM {wherry_lease} WHERE outbox = :name::text;

-- name: seek-begin
-- The relay that leads loses its lease, so it does not write its position any more, and begins at the new one.
UPDATE {wherry_lease} SET expires_at = '1970-01-01 00:00:00+00', clean = 1, unclean = 0
WHERE outbox = :name::text;

-- name: seek
UPDATE {table_progress} SET high = :high::bigint, seen = :seen::text::pg_snapshot, until = NULL, late = 0, moved_at = {now}
WHERE subscription = {subscription};

-- name: seek-end
-- Messages behind the position are delivered again, whatever they were; of those before it the dead ones stay.
DELETE FROM {table_exception} AS x
WHERE x.subscription = {subscription} AND (x.state <> 4 OR EXISTS (
  SELECT 1 FROM {position} AS p, {table} AS t WHERE t.id = x.id AND {uncovered}));

-- name: set-topics
UPDATE {table_progress} SET topics = :topics::text WHERE subscription = {subscription};

-- name: first-since
-- The first id of the messages that were made since then; 0: there is none.
SELECT coalesce(min(t.id), 0) FROM {table} AS t WHERE t.created_at >= '1970-01-01 00:00:00+00'::timestamptz
  + :at::bigint::float8 * interval '1 millisecond';

-- name: first-and-last
-- The first and the last id; 0: there is none.
SELECT coalesce((SELECT t.id FROM {table} AS t ORDER BY t.id LIMIT 1), 0),
       coalesce((SELECT t.id FROM {table} AS t ORDER BY t.id DESC LIMIT 1), 0);

-- name: discard-here
-- Messages that failed, died or wait are as good as delivered in this subscription.
DELETE FROM {table_exception} WHERE subscription = {subscription} AND id = ANY (ARRAY(
  {not_delivered}));
