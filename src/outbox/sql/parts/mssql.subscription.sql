--
-- Statements of subscriptions of a log on SQL Server: what relays write and read beside messages, and what operators do.
-- Files include it behind mssql.positions.sql and mssql.lease.sql.

-- ---- progress ----

-- part: of_share
-- Condition: the position is of the caller's partitions.
subscription = {subscription} AND mask & ~:mask = 0

-- name: progress
-- The position of a share, or one that covers no more than any of its positions, the number of these, and the
-- highest of them; and whether there are exceptions.
SELECT CASE WHEN COUNT(*) = 1 THEN MIN(q.high) ELSE MIN(q.at) END, CASE WHEN COUNT(*) = 1 THEN MIN(q.seen) ELSE MIN(q.now) END,
  CAST(NULL AS NVARCHAR(1)), 0, COUNT(*), MAX(q.at),
  CASE WHEN EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {subscription}) THEN 1 ELSE 0 END
FROM (SELECT p.high, p.seen, {passed_at:p} AS at, {log_identity} AS now FROM {table_progress} AS p WHERE {of_share}) AS q
HAVING COUNT(*) > 0;

-- name: progress-take
-- A relay that begins waits for a consumer that reads the subscription, which has seen no lease.
UPDATE {table_progress} {by_seek} SET high = high WHERE {of_share};

-- name: progress-divide
-- Give a relay that begins to have these partitions, or has no others any more, separate rows.  Rows with the same
-- position become one.  Masks of different partitions are added: they have no bit in common.
SET NOCOUNT ON;
DECLARE @old TABLE (mask BIGINT NOT NULL, high BIGINT NOT NULL, seen NVARCHAR(100) COLLATE Latin1_General_BIN2 NOT NULL,
                    topics NVARCHAR(1000) COLLATE Latin1_General_BIN2, shared BIT NOT NULL, moved_at DATETIME2(3) NOT NULL);
DELETE FROM {table_progress} {by_seek}
OUTPUT deleted.mask, deleted.high, deleted.seen, deleted.topics, deleted.shared, deleted.moved_at
INTO @old(mask, high, seen, topics, shared, moved_at)
WHERE subscription = {subscription} AND mask & :mask <> 0;
SET NOCOUNT OFF;
INSERT INTO {table_progress}(subscription, mask, high, seen, topics, shared, moved_at)
SELECT {subscription}, SUM(w.part), w.high, w.seen, MIN(w.topics), MAX(CAST(w.shared AS INT)), MAX(w.moved_at)
FROM (SELECT 1 AS mine, o.mask & :mask AS part, o.high, o.seen, o.topics, o.shared, o.moved_at FROM @old AS o
      UNION ALL
      SELECT 0, o.mask & ~:mask, o.high, o.seen, o.topics, o.shared, o.moved_at FROM @old AS o
      WHERE o.mask & ~:mask <> 0) AS w
GROUP BY w.mine, w.high, w.seen;

-- name: move
-- The fence is in the statement that writes.  The condition is evaluated first, so without the lease no row is locked.
UPDATE p SET high = :high, seen = :seen, moved_at = {now}
FROM (SELECT TOP (1) epoch FROM {wherry_lease} WITH (REPEATABLEREAD, ROWLOCK) WHERE {holds}) AS f
CROSS JOIN {table_progress} AS p {by_seek}
WHERE p.subscription = {subscription} AND p.mask & ~:mask = 0
  AND (:mixed = 0 OR CASE WHEN p.seen = :seen THEN p.high ELSE 0 END <= :high)
{loop};

-- name: subscribe
-- A subscription that begins at a position.
INSERT INTO {table_progress}(subscription, high, seen, topics, shared)
SELECT {subscription}, :high, :seen, :topics,
  CASE WHEN EXISTS (SELECT 1 FROM {table_progress} AS o WHERE o.shared = 1) THEN 1 ELSE 0 END
WHERE NOT EXISTS (SELECT 1 FROM {table_progress} AS p WITH (UPDLOCK, HOLDLOCK) WHERE p.subscription = {subscription});

-- name: subscribe-named
INSERT INTO {wherry_outbox}(name)
SELECT :name WHERE NOT EXISTS (SELECT 1 FROM {wherry_outbox} WITH (UPDLOCK, HOLDLOCK) WHERE name = :name);

-- part: its_exception
{.}id = i.id AND {.}subscription = {subscription}

-- part: these_exceptions
{ids} AS i JOIN {table_exception} AS x {by_seek} ON {its_exception:x}

-- part: until_written
-- Insert rows, or update those that are there.  If somebody else inserts one meanwhile, look again.  No lock of a range keeps
-- others from that: it would stop handlers and relays that write other messages.  XACT_ABORT is off, or the error that is
-- caught would doom the transaction.
SET XACT_ABORT OFF;
DECLARE @again BIT = 1, @tries INT = 0;
WHILE @again = 1

-- part: look_again_if_there
IF ERROR_NUMBER() NOT IN (2601, 2627) OR @tries >= 1000 THROW;
SET @again = 1;

-- part: once
SET @again = 0;
  SET @tries = @tries + 1;

-- name: hold
-- Messages that the position passes before they are delivered.  A handler may be writing that one of them is done.
{until_written}
BEGIN
  {once}
  BEGIN TRY
    INSERT INTO {table_exception}(subscription, id)
    SELECT {subscription}, i.id FROM {ids} AS i
    WHERE NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE {its_exception:x});
  END TRY
  BEGIN CATCH
    {look_again_if_there}
  END CATCH
END;

-- part: of_relay
-- Exceptions with their messages.  A relay waits for an owner who has changed a message: it would let later ones of its
-- key pass.
FROM {table_exception} AS x JOIN {table} AS t ON t.id = x.id
WHERE x.subscription = {subscription}

-- name: known
-- Exceptions that the position does not cover: a relay that begins there meets them among new messages.
SELECT x.id, x.state, x.attempts, {due_in} {of_relay}
  AND EXISTS (SELECT 1 FROM {position} AS p WHERE p.mask & ~:mask = 0 AND {of_p:t} AND t.rv > p.rv);

-- name: read
-- Messages that wait, failed or were tried, in the order of their ids.
SELECT {open_columns} FROM (
  SELECT TOP (:limit) {exception_columns} {of_relay} AND x.state IN (0, 1, 3) AND x.id > :after
    AND (:mask = -1 OR :mask & {bit:t} <> 0) ORDER BY x.id) AS o
ORDER BY id;

-- name: read-ids
SELECT {open_columns} FROM (
  SELECT {exception_columns} {of_relay} AND x.state IN (0, 1, 3)
    AND x.id IN (SELECT CAST(value AS BIGINT) FROM OPENJSON(:ids))) AS o
ORDER BY id;

-- name: dead-keys
-- Dead messages, for relays that park their keys.
SELECT id, {key_texts} FROM (
  SELECT TOP (:limit) {exception_columns} {of_relay} AND x.state = 4 AND x.id > :after ORDER BY x.id) AS o
ORDER BY id;

-- name: partitions-dead-keys
SELECT id, {key_texts} FROM (
  SELECT TOP (:limit) {exception_columns} {of_relay} AND x.state = 4 AND x.id > :after
    AND {partition:t} IN (SELECT CAST(value AS INT)
                          FROM OPENJSON(REPLACE(REPLACE(:partitions, NCHAR(123), N'['), NCHAR(125), N']')))
  ORDER BY x.id) AS o
ORDER BY id;

-- part: open_exception
SELECT e.id FROM ({exceptional} AND x.state IN (0, 1, 3)) AS e

-- name: open-upto
-- Whether a message is open up to this id.
SELECT CASE WHEN EXISTS (SELECT 1 FROM ({fresh}) AS f WHERE f.id <= :upto)
         OR EXISTS ({open_exception} WHERE e.id <= :upto) THEN 1 ELSE 0 END;

-- name: last-open
SELECT COALESCE(MAX(o.id), 0) FROM ({fresh} UNION ALL {open_exception}) AS o;

-- ---- results ----

-- name: done-delete
-- unused: token
DELETE x FROM {these_exceptions}
{loop};

-- name: done-mark
-- In the transaction of a handler: the message is done, whether the position covers it already or not.  No row is
-- changed, and none returned, if it is done before.
DECLARE @done TABLE (id BIGINT NOT NULL);
DECLARE @new TABLE (id BIGINT NOT NULL);
SET NOCOUNT ON;
{until_written}
BEGIN
  {once}
  DELETE FROM @new;
  UPDATE x SET state = 2, next_retry_at = NULL, changed_at = {now}, claim_token = N''
  OUTPUT inserted.id INTO @done(id)
  FROM {these_exceptions} WHERE x.state IN (0, 1, 3)
  {loop};
  BEGIN TRY
    INSERT INTO {table_exception}(subscription, id, state)
    OUTPUT inserted.id INTO @new(id)
    SELECT {subscription}, t.id, 2 FROM {ids} AS i JOIN {table} AS t ON t.id = i.id
    WHERE {uncovered:t}
      AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE {its_exception:x});
    IF EXISTS (SELECT 1 FROM {these_exceptions} WHERE x.state IN (0, 1, 3)) SET @again = 1;
  END TRY
  BEGIN CATCH
    {look_again_if_there}
  END CATCH
END;
SET NOCOUNT OFF;
SELECT id FROM @done UNION ALL SELECT id FROM @new;

-- name: forget-done
-- That a message is done need not be said once the position covers it.
DELETE x FROM (
  SELECT e.id FROM {table_exception} AS e WHERE e.subscription = {subscription} AND e.state = 2 AND NOT EXISTS (
    SELECT 1 FROM {table} AS t WHERE t.id = e.id AND {uncovered:t})) AS i
JOIN {table_exception} AS x {by_seek} ON {its_exception:x}
{loop};

-- part: this
-- Condition: the row is this message, and not another that has its id now.
(:message_id IS NULL OR message_id = :message_id AND DATALENGTH(message_id) = DATALENGTH(:message_id))

-- part: here
-- Whether the message is there.  NOLOCK: an owner who has changed the message does not stop its relay.  Only if he may
-- have deleted it, the relay waits for him.
DECLARE @here BIT = CASE WHEN EXISTS (SELECT 1 FROM {table} WITH (NOLOCK) WHERE id = :id AND {this}) THEN 1 ELSE 0 END;
IF @here = 0
  SET @here = CASE WHEN EXISTS (SELECT 1 FROM {table} WHERE id = :id AND {this}) THEN 1 ELSE 0 END

-- part: if_new
-- A new exception, of a message that was not delivered or discarded.
FROM {table} AS t WITH (NOLOCK)
WHERE t.id = :id AND @here = 1 AND {uncovered:t}
  AND NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.id = :id AND x.subscription = {subscription})

-- part: is_open_exception
id = :id AND subscription = {subscription} AND @here = 1 AND state IN (0, 1, 3)

-- part: if_written_meanwhile
IF @@ROWCOUNT = 0 AND EXISTS (SELECT 1 FROM {table_exception} WHERE {is_open_exception}) SET @again = 1;

-- name: fail
-- unused: token
-- If the number of the attempt is known, it is set and not increased: a transaction whose answer was
-- lost is written again.  An operator may have set the number to 0 meanwhile.
{here};
{until_written}
BEGIN
  {once}
  UPDATE {table_exception} SET state = CASE WHEN :dead <> 0 THEN 4 ELSE 3 END,
    attempts = CASE WHEN attempts BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                    WHEN attempts + :count < 0 THEN 0
                    WHEN attempts < 999999999 THEN attempts + :count ELSE 999999999 + :count END,
    next_retry_at = CASE WHEN :dead <> 0 THEN NULL ELSE {after_delay} END, changed_at = {now}, last_error = :error
  WHERE {is_open_exception};
  IF @@ROWCOUNT = 0
    BEGIN TRY
      INSERT INTO {table_exception}(subscription, id, state, attempts, next_retry_at, last_error)
      SELECT {subscription}, t.id, CASE WHEN :dead <> 0 THEN 4 ELSE 3 END,
        CASE WHEN :nth > 0 THEN :nth WHEN :count > 0 THEN :count ELSE 0 END,
        CASE WHEN :dead <> 0 THEN NULL ELSE {after_delay} END, :error
      {if_new};
      {if_written_meanwhile}
    END TRY
    BEGIN CATCH
      {look_again_if_there}
    END CATCH
END;

-- name: requeue
-- unused: token
UPDATE x SET state = 0, next_retry_at = NULL, claim_token = N'', changed_at = {now}
FROM {these_exceptions} WHERE x.state IN (1, 3)
{loop};

-- name: try
-- The attempt of a suspect is recorded before it is delivered, so that a message that crashes its relay
-- runs out of attempts.
{here};
{until_written}
BEGIN
  {once}
  UPDATE {table_exception} SET state = 1, claim_token = :token, changed_at = {now},
    attempts = CASE WHEN attempts BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                    WHEN attempts < 0 THEN 1
                    WHEN attempts < 999999999 THEN attempts + 1 ELSE 1000000000 END
  WHERE {is_open_exception};
  IF @@ROWCOUNT = 0
    BEGIN TRY
      INSERT INTO {table_exception}(subscription, id, state, attempts, claim_token)
      SELECT {subscription}, t.id, 1, CASE WHEN :nth > 0 THEN :nth ELSE 1 END, :token
      {if_new};
      {if_written_meanwhile}
    END TRY
    BEGIN CATCH
      {look_again_if_there}
    END CATCH
END;

-- name: untry
-- The destination was down, so the attempt of the message does not count.
UPDATE {table_exception} SET state = 0, attempts = :nth - 1, next_retry_at = NULL, changed_at = {now}, claim_token = N''
WHERE id = :id AND subscription = {subscription} AND state = 1 AND claim_token = :token AND attempts = :nth;

-- part: passed_by_all
-- Last row version that every subscription has passed.
CONVERT(BINARY(8), (SELECT MIN(w.at) FROM (SELECT {passed_at:p} AS at FROM {table_progress} AS p) AS w))

-- ---- operators ----

-- part: judged
-- All messages with their states, in the columns that commands show.
SELECT t.*, COALESCE(x.state, CASE WHEN t.rv > p.rv THEN 0 ELSE 2 END) AS status, COALESCE(x.attempts, 0) AS attempts,
  x.next_retry_at, CASE WHEN x.state <> 0 THEN x.changed_at END AS claimed_at,
  CAST(NULL AS DATETIME2(3)) AS processed_at, x.last_error
FROM {position} AS p JOIN {table} AS t {unlocked} ON {of_p:t}
LEFT JOIN {table_exception} AS x ON x.id = t.id AND x.subscription = {subscription}
WHERE {its_topic:t}

-- part: unexcepted
NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.id = t.id AND x.subscription = {subscription})

-- part: lowest
-- The subscription's lowest position.
DECLARE @low BINARY(8) = CONVERT(BINARY(8), CAST((SELECT MIN(w.at) FROM (
  SELECT {passed_at:q} AS at FROM {table_progress} AS q WHERE q.subscription = {subscription}) AS w) AS BIGINT))

-- part: unread
-- Messages without an exception that the position does not cover, in the same columns.
SELECT t.*, 0 AS status, 0 AS attempts, CAST(NULL AS DATETIME2(3)) AS next_retry_at, CAST(NULL AS DATETIME2(3)) AS claimed_at,
  CAST(NULL AS DATETIME2(3)) AS processed_at, CAST(NULL AS NVARCHAR(MAX)) AS last_error
FROM {table} AS t {unlocked} WHERE t.rv > @low AND {uncovered:t} AND {unexcepted} AND {its_topic:t}

-- part: between
-- The ids between which the messages above it are, if pending ones are asked for: the index on rv has them.
{lowest};
DECLARE @first BIGINT = (SELECT MIN(t.id) FROM {table} AS t {unlocked} WHERE :states & 1 <> 0 AND t.rv > @low),
  @last BIGINT = (SELECT MAX(t.id) FROM {table} AS t {unlocked} WHERE :states & 1 <> 0 AND t.rv > @low)

-- name: log-open
-- Whether the message is not done yet.
SELECT COUNT(*) FROM {table} AS t LEFT JOIN {table_exception} AS x ON x.id = t.id AND x.subscription = {subscription}
WHERE t.id = :id AND {its_topic:t}
  AND COALESCE(x.state, CASE WHEN {uncovered:t} THEN 0 ELSE 2 END) <> 2;

-- part: is_called
{.}message_id = :ident AND DATALENGTH({.}message_id) = DATALENGTH(:ident)

-- part: named
-- Messages with that message id, or else with that number.  Without a message id no row is searched for one.
SELECT n.id FROM {table} AS n {unlocked} WHERE :ident IS NOT NULL AND {is_called:n}
  UNION ALL
  SELECT n.id FROM {table} AS n {unlocked} WHERE n.id = :number
    AND NOT EXISTS (SELECT 1 FROM {table} AS o {unlocked} WHERE :ident IS NOT NULL AND {is_called:o})

-- part: consumed_columns
m.id, 0, 0, m.created_at, NULL, NULL, NULL, m.message_id, m.topic, m.aggregate_type, m.aggregate_id, m.partition_key, m.headers,
  m.trace_id, m.payload, NULL, 0, 0

-- name: consume
DECLARE @subscription NVARCHAR(4000) = {subscription}, @n BIGINT = :limit, @outbox NVARCHAR(4000) = N{name},
  @columns NVARCHAR(MAX) = N{'consumed_columns};
{consumption};
SET NOCOUNT OFF;

-- part: of_states
CASE status WHEN 0 THEN 1 WHEN 1 THEN 2 WHEN 2 THEN 4 WHEN 3 THEN 8 ELSE 16 END & :states <> 0

-- part: wanted
{of_states} AND (:ident IS NULL OR id IN ({named})) AND {asked}

-- name: list
{between};
SELECT {any} id, {shown} FROM (
  SELECT * FROM (SELECT {any} e.* FROM ({exceptional} AND x.state <> 2 AND x.id > :after AND {its_topic:t}) AS e
                 WHERE {wanted} ORDER BY e.id) AS a
  UNION ALL
  SELECT * FROM (SELECT {any} n.* FROM ({unread} AND t.id BETWEEN @first AND @last AND t.id > :after) AS n
                 WHERE {wanted} ORDER BY n.id) AS b) AS j
ORDER BY id;

-- name: list-any
SELECT {any} id, {shown} FROM ({judged}) AS j WHERE id > :after AND {wanted} ORDER BY id;

-- name: list-newest
{between};
SELECT {any} id, {shown} FROM (
  SELECT * FROM (SELECT {any} e.* FROM ({exceptional} AND x.state <> 2 AND x.id < :before AND {its_topic:t}) AS e
                 WHERE {wanted} ORDER BY e.id DESC) AS a
  UNION ALL
  SELECT * FROM (SELECT {any} n.* FROM ({unread} AND t.id BETWEEN @first AND @last AND t.id < :before) AS n
                 WHERE {wanted} ORDER BY n.id DESC) AS b) AS j
ORDER BY id DESC;

-- name: list-any-newest
SELECT {any} id, {shown} FROM ({judged}) AS j WHERE id < :before AND {wanted} ORDER BY id DESC;

-- part: first_open
-- Open messages, the first 1,000 of each kind.
SELECT * FROM (SELECT TOP (1000) e.* FROM ({exceptional} AND x.state IN (0, 1, 3) AND {its_topic:t}) AS e ORDER BY e.id) AS v
UNION ALL
SELECT * FROM (SELECT TOP (1000) n.* FROM ({unread}) AS n ORDER BY n.rv) AS w

-- name: show
-- The message, with the lowest open one of the same ordering key before it, and the lowest dead one.
{lowest};
SELECT TOP (1) c.id, c.status, c.attempts, c.created_at, c.claimed_at, c.next_retry_at,
       c.processed_at,
       {texts},
       {error_text},
       (SELECT MIN(b.id) FROM ({first_open}) AS b WHERE b.id < c.id AND {key:b} = {key:c}),
       (SELECT MIN(b.id) FROM (SELECT TOP (1000) e.* FROM ({exceptional} AND x.state = 4) AS e ORDER BY e.id) AS b
        WHERE c.status IN (0, 1, 3) AND {key:b} = {key:c})
FROM ({judged} AND (t.id = :number OR {is_called:t})) AS c
ORDER BY CASE WHEN {is_called:c} THEN 0 ELSE 1 END, c.id DESC;

-- part: some_exceptions
@some AS i JOIN {table_exception} AS x {by_seek} ON {its_exception:x}

-- name: retry-dead
{some}
SELECT {any} id FROM ({exceptional}) AS e
WHERE (status = 4 AND :states & 16 <> 0 OR status = 3 AND :states & 8 <> 0) AND (:ident IS NULL OR id IN ({named}))
  AND {topic_and_key} AND {since_created} AND id > :after
ORDER BY id;
{of_some}
UPDATE x SET state = 0, attempts = 0, next_retry_at = NULL, changed_at = {now}, claim_token = N''
FROM {some_exceptions} WHERE x.state = 4 AND :states & 16 <> 0 OR x.state = 3 AND :states & 8 <> 0
{loop};

-- part: not_delivered
-- Ids of the messages that are meant, in one of the states (0: in any).
{some}
SELECT j.id FROM ({judged} AND t.id IN ({named})) AS j
WHERE j.status <> 2 AND (:states = 0 OR {of_states})

-- name: count
SELECT COALESCE(SUM(CASE status WHEN 0 THEN CAST(1 AS BIGINT) END), 0), COALESCE(SUM(CASE status WHEN 1 THEN CAST(1 AS BIGINT) END), 0),
  COALESCE(SUM(CASE status WHEN 2 THEN CAST(1 AS BIGINT) END), 0), COALESCE(SUM(CASE status WHEN 3 THEN CAST(1 AS BIGINT) END), 0),
  COALESCE(SUM(CASE status WHEN 4 THEN CAST(1 AS BIGINT) END), 0), 0
FROM ({judged}) AS j;

-- name: ready
-- Number of failed messages that are due, and the age of the oldest message that may be delivered now.
SELECT COUNT_BIG(*), COALESCE(MAX({age}), 0) FROM ({exceptional} AND x.state = 3 AND x.next_retry_at <= {now}) AS e;

-- part: blocking
-- The first failed message of each key that is not due yet: later ones wait behind it.
SELECT f.k, MIN(f.id) AS id FROM (
  SELECT {key:e} AS k, e.id FROM ({exceptional} AND x.state = 3 AND x.next_retry_at > {now}) AS e) AS f
GROUP BY f.k

-- part: unblocked
NOT EXISTS (SELECT 1 FROM ({blocking}) AS b WHERE b.k = t.k AND b.id < t.id)

-- name: oldest-pending
-- Among the first 10,000.
SELECT {age} FROM (SELECT MIN(u.created_at) AS created_at FROM (
  SELECT * FROM (SELECT TOP (1) t.created_at FROM (
    SELECT TOP (10000) e.id, e.created_at, {key:e} AS k FROM ({exceptional} AND x.state = 0) AS e ORDER BY e.id) AS t
    WHERE {unblocked} ORDER BY t.id) AS w
  UNION ALL
  SELECT * FROM (SELECT TOP (1) t.created_at FROM {position} AS p CROSS APPLY (
    SELECT TOP (10000) n.id, n.rv, n.created_at, {key:n} AS k FROM {table} AS n {unlocked}
    WHERE n.rv > p.rv AND {its_topic:n} AND {of_p:n} ORDER BY n.rv) AS t
    WHERE {unblocked} AND {unexcepted} ORDER BY t.rv) AS v) AS u) AS o
WHERE o.created_at IS NOT NULL;

-- name: held-pending
-- Number of messages that wait behind a failed one of their key, among the first :most pending ones of each kind.
{lowest};
SELECT COUNT_BIG(*) FROM (
  SELECT * FROM (SELECT TOP (:most) e.id, {key:e} AS k FROM ({exceptional} AND x.state = 0 AND {its_topic:t}) AS e ORDER BY e.id) AS v
  UNION ALL
  SELECT * FROM (SELECT TOP (:most) n.id, {key:n} AS k FROM ({unread}) AS n ORDER BY n.rv) AS w) AS t
JOIN ({blocking}) AS b ON b.k = t.k AND b.id < t.id;

-- part: some_in
-- Exceptions without a row are of messages that a purge has taken.
SELECT TOP (:most) x.id FROM {table_exception} AS x JOIN {table} AS t {unlocked} ON t.id = x.id
WHERE x.subscription = {subscription} AND {its_topic:t} AND x.state

-- name: backlog
-- Numbers of waiting messages, each counted up to a limit, since metrics read them often.
SELECT (SELECT COUNT_BIG(*) FROM (SELECT TOP (:most) w.id FROM (
          {fresh} AND {unexcepted}
          UNION ALL {some_in} = 0) AS w) AS a),
       (SELECT COUNT_BIG(*) FROM ({some_in} = 1) AS b),
       (SELECT COUNT_BIG(*) FROM ({some_in} = 3) AS c),
       (SELECT COUNT_BIG(*) FROM ({some_in} = 4) AS d);

-- ---- subscriptions ----

-- name: subscribed
SELECT MIN(p.high), COALESCE(MIN(p.topics), N'') FROM {table_progress} AS p WHERE p.subscription = {subscription}
HAVING COUNT(*) > 0;

-- name: subscriptions
-- The position is shown as the id of the last message before it; with the age of the first one behind it, which is kept.
SELECT p.subscription, COALESCE(p.topics, N''),
  COALESCE((SELECT TOP (1) t.id FROM {table} AS t {unlocked} WHERE t.rv <= CONVERT(BINARY(8), p.at) ORDER BY t.rv DESC), 0),
  DATEDIFF_BIG(MILLISECOND, p.moved_at, {now}),
  COALESCE((SELECT TOP (1) DATEDIFF_BIG(MILLISECOND, t.created_at, {now}) FROM {table} AS t {unlocked}
            WHERE t.rv > CONVERT(BINARY(8), p.at) ORDER BY t.rv), -1)
FROM (SELECT w.subscription, MIN(w.topics) AS topics, MIN(w.at) AS at, MAX(w.moved_at) AS moved_at
      FROM (SELECT q.subscription, q.topics, {passed_at:q} AS at, q.moved_at FROM {table_progress} AS q) AS w
      GROUP BY w.subscription) AS p
ORDER BY p.subscription;

-- name: unsubscribe
DELETE FROM {table_progress} {by_seek} WHERE subscription = {subscription};

-- name: unsubscribe-exceptions
DELETE FROM {table_exception} {by_seek} WHERE subscription = {subscription};

-- name: unsubscribe-named
DELETE FROM {wherry_outbox} WHERE name = :name AND name <> N{name};

-- part: drop_consumer
DECLARE @called NVARCHAR(600) = (SELECT {consume_procedure:r} FROM (SELECT N{name} AS outbox, {subscription} AS subscription) AS r),
  @sql NVARCHAR(2000);
IF HAS_PERMS_BY_NAME(@called, N'OBJECT', N'CONTROL') = 1 AND OBJECT_ID(@called, N'P') IS NOT NULL
BEGIN
  SET @sql = N'DROP PROCEDURE ' + @called;
  EXEC (@sql);
END

-- name: unsubscribe-function
-- That of roles that may consume this subscription.  Only the owner may drop it: for others it stays.
{drop_consumer};

-- name: unsubscribe-lease
DELETE FROM {wherry_lease} WHERE outbox = :name;

-- name: seek-begin
-- The relay that leads loses its lease, so it does not write its position any more, and begins at the new one.
UPDATE {wherry_lease} SET expires_at = {ended}, clean = 1, unclean = 0 WHERE outbox = :name;

-- name: seek
UPDATE {table_progress} {by_seek} SET high = :high, seen = :seen, moved_at = {now} WHERE subscription = {subscription};

-- name: seek-end
-- Messages behind the position are delivered again, whatever they were; of those before it the dead ones stay.
DELETE x FROM (
  SELECT e.id FROM {table_exception} AS e WHERE e.subscription = {subscription} AND (e.state <> 4 OR EXISTS (
    SELECT 1 FROM {table} AS t WHERE t.id = e.id AND {uncovered:t}))) AS i
JOIN {table_exception} AS x {by_seek} ON {its_exception:x}
{loop};

-- name: set-topics
UPDATE {table_progress} {by_seek} SET topics = :topics WHERE subscription = {subscription};

-- name: first-since
-- The first id of the messages that were made since then; 0: there is none.
SELECT COALESCE(MIN(t.id), 0) FROM {table} AS t {unlocked}
WHERE t.created_at >= DATEADD(MILLISECOND, CAST(:at % 86400000 AS INT),
                              DATEADD(DAY, CAST(:at / 86400000 AS INT), CAST('19700101' AS DATETIME2(3))));

-- name: first-and-last
-- The first and the last id; 0: there is none.
SELECT COALESCE(MIN(t.id), 0), COALESCE(MAX(t.id), 0) FROM {table} AS t {unlocked};

-- name: discard-here
-- Messages that failed, died or wait are as good as delivered in this subscription.  One that its owner changed since is marked as
-- done until the position covers it.
{not_delivered};
DECLARE @gone TABLE (id BIGINT NOT NULL);
DELETE x OUTPUT deleted.id INTO @gone(id)
FROM {some_exceptions}
{loop};
INSERT INTO {table_exception}(subscription, id, state)
SELECT {subscription}, g.id, 2 FROM @gone AS g JOIN {table} AS t ON t.id = g.id WHERE {uncovered:t};
SET NOCOUNT OFF;
SELECT g.id FROM @gone AS g;
