--
-- Statements of a subscription that is read behind a position, on SQLite: those of a log, and of a table of another
-- program that is read as one.

-- part: message
CASE WHEN {its_topic} THEN id END, 0, 0, created_at, 0, message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id, payload

-- part: no_message
NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL

-- include: sqlite.log.sql

-- name: log-ids
SELECT {message} FROM {table} WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id;

-- name: progress
SELECT high, NULL, NULL, 0, 1, high, EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {subscription})
FROM {table_progress} WHERE subscription = {subscription};

-- name: move
-- The fence is in the statement that writes.
UPDATE {table_progress} SET high = :high, moved_at = (SELECT ms FROM wherry_clock)
WHERE subscription = {subscription} AND EXISTS (SELECT 1 FROM wherry_lease WHERE {holds});

-- name: subscribe
-- A subscription that begins at a position.
INSERT INTO {table_progress}(subscription, high, topics, moved_at)
VALUES ({subscription}, :high, :topics, (SELECT ms FROM wherry_clock)) ON CONFLICT DO NOTHING;

-- name: subscribe-named
INSERT INTO wherry_outbox(name) VALUES (:name) ON CONFLICT DO NOTHING;

-- name: hold
-- Messages that the position passes before they are delivered.
INSERT INTO {table_exception}(subscription, id, changed_at)
SELECT {subscription}, value, (SELECT ms FROM wherry_clock) FROM json_each(:ids) WHERE true
ON CONFLICT DO NOTHING;

-- name: known
-- Exceptions that the position does not cover: a relay that begins there meets them among new messages.
SELECT x.id, x.state, x.attempts, max(0, {due} - (SELECT ms FROM wherry_clock)) FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.id > {high};

-- part: open_columns
id, status, attempts, created_at, max(0, {due} - (SELECT ms FROM wherry_clock)),
  message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id, payload

-- name: read
-- Messages that wait, failed or were tried, in the order of their ids.
SELECT {open_columns} FROM (
  {exceptional} AND (x.state = 0 OR x.state = 1 OR x.state = 3) AND x.id > :after
  ORDER BY x.id LIMIT :limit)
ORDER BY id;

-- name: read-ids
SELECT {open_columns} FROM (
  {exceptional} AND (x.state = 0 OR x.state = 1 OR x.state = 3) AND x.id IN (SELECT value FROM json_each(:ids)))
ORDER BY id;

-- name: dead-keys
-- Dead messages, for relays that park their keys.
SELECT id, aggregate_type, aggregate_id, partition_key
FROM ({exceptional} AND x.state = 4 AND x.id > :after ORDER BY x.id LIMIT :limit) ORDER BY id;

-- part: open_exception
SELECT x.id FROM {table_exception} AS x CROSS JOIN {table} AS t ON t.id = x.id
WHERE x.subscription = {subscription} AND (x.state = 0 OR x.state = 1 OR x.state = 3)

-- name: open-upto
-- Whether a message is open up to this id.
SELECT EXISTS (SELECT 1 FROM {table} AS t WHERE t.id > {high} AND t.id <= :upto AND {its_topic:t})
  OR EXISTS ({open_exception} AND x.id <= :upto);

-- name: last-open
SELECT max(coalesce((SELECT t.id FROM {table} AS t WHERE t.id > {high} AND {its_topic:t} ORDER BY t.id DESC LIMIT 1), 0),
           coalesce((SELECT max(id) FROM ({open_exception})), 0));

-- part: this
-- Condition: the row is this message, and not another that has its id now.
(:message_id IS NULL OR CAST(t.message_id AS TEXT) = :message_id)

-- name: done-delete
-- unused: token
-- A message may have been discarded, and another may have its id now: its exception stays.
DELETE FROM {table_exception} WHERE subscription = {subscription} AND id IN (SELECT value FROM json_each(:ids))
  AND (:names IS NULL OR NOT EXISTS (SELECT 1 FROM {table} AS t WHERE t.id = {table_exception}.id
                                     AND hex(t.message_id) NOT IN (SELECT value FROM json_each(:names))));

-- part: settleable
-- Condition: the message was not delivered or discarded.
(t.id > {high} OR EXISTS (SELECT 1 FROM {table_exception} AS o WHERE o.subscription = {subscription} AND o.id = t.id))

-- name: done-mark
-- In the transaction of a handler: the message is done, whether the position covers it already or not.  No row is
-- changed if it is done before.
INSERT INTO {table_exception}(subscription, id, state, changed_at)
SELECT {subscription}, t.id, 2, (SELECT ms FROM wherry_clock) FROM {table} AS t
WHERE t.id IN (SELECT value FROM json_each(:ids)) AND {settleable}
ON CONFLICT (subscription, id) DO UPDATE SET state = 2, next_retry_at = NULL, changed_at = excluded.changed_at,
  claim_token = '' WHERE state IN (0, 1, 3);

-- name: forget-done
-- That a message is done need not be said once the position covers it.
DELETE FROM {table_exception} WHERE subscription = {subscription} AND state = 2 AND id <= {high};

-- name: fail
-- unused: token
-- If the number of the attempt is known, it is set and not increased: a transaction whose answer was
-- lost is written again.  An operator may have set the number to 0 meanwhile.
INSERT INTO {table_exception}(subscription, id, state, attempts, next_retry_at, changed_at, last_error)
SELECT {subscription}, t.id, CASE WHEN :dead THEN 4 ELSE 3 END, CASE WHEN :nth > 0 THEN :nth ELSE max(:count, 0) END,
  CASE WHEN :dead THEN NULL ELSE (SELECT ms FROM wherry_clock) + min(:delay, 3153600000000) END,
  (SELECT ms FROM wherry_clock), :error
FROM {table} AS t WHERE t.id = :id AND {this} AND {settleable}
ON CONFLICT (subscription, id) DO UPDATE SET state = excluded.state,
  attempts = CASE WHEN attempts BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                  ELSE max(0, min(attempts, 999999999) + :count) END,
  next_retry_at = excluded.next_retry_at, changed_at = excluded.changed_at, last_error = excluded.last_error
  WHERE state IN (0, 1, 3);

-- name: requeue
-- unused: token
UPDATE {table_exception} SET state = 0, next_retry_at = NULL, claim_token = '', changed_at = (SELECT ms FROM wherry_clock)
WHERE subscription = {subscription} AND id IN (SELECT value FROM json_each(:ids)) AND state IN (1, 3);

-- name: try
-- The attempt of a suspect is recorded before it is delivered, so that a message that crashes its relay
-- runs out of attempts.
INSERT INTO {table_exception}(subscription, id, state, attempts, changed_at, claim_token)
SELECT {subscription}, t.id, 1, max(:nth, 1), (SELECT ms FROM wherry_clock), :token
FROM {table} AS t WHERE t.id = :id AND {this} AND {settleable}
ON CONFLICT (subscription, id) DO UPDATE SET state = 1, claim_token = excluded.claim_token,
  changed_at = excluded.changed_at,
  attempts = CASE WHEN attempts BETWEEN :nth - 1 AND :nth AND :nth > 0 THEN :nth
                  ELSE max(0, min(attempts, 999999999)) + 1 END
  WHERE state IN (0, 1, 3);

-- name: untry
-- The destination was down, so the attempt of the message does not count.
UPDATE {table_exception} SET state = 0, attempts = :nth - 1, next_retry_at = NULL,
  changed_at = (SELECT ms FROM wherry_clock), claim_token = ''
WHERE subscription = {subscription} AND id = :id AND state = 1 AND claim_token = :token AND attempts = :nth;

-- part: is_young
-- Condition: the row is younger than the age.  A time of more than a day ahead says nothing about that, or one row with
-- such a time, which may be dead, would keep all rows after it.
{.}created_at > (SELECT ms FROM wherry_clock) - :age AND {.}created_at <= (SELECT ms FROM wherry_clock) + 86400000

-- part: passed_by_all
(SELECT min(p.high) FROM {table_progress} AS p)

-- part: unneeded
-- Condition: no subscription has an exception of the message.
NOT EXISTS (SELECT 1 FROM {table_progress} AS p CROSS JOIN {table_exception} AS x
            ON x.subscription = p.subscription AND x.id = t.id AND x.state <> 2)

-- part: judged
-- All messages with their states.
SELECT t.id, coalesce(x.state, CASE WHEN t.id > {high} THEN 0 ELSE 2 END) AS status, coalesce(x.attempts, 0) AS attempts,
       t.created_at, CASE WHEN x.state <> 0 THEN x.changed_at END AS claimed_at, x.next_retry_at, NULL AS processed_at,
       t.message_id, t.topic, t.aggregate_type, t.aggregate_id, t.partition_key, t.headers, t.trace_id, t.payload,
       x.last_error
FROM (SELECT * FROM {table} AS w WHERE {its_topic:w}) AS t
LEFT JOIN {table_exception} AS x ON x.subscription = {subscription} AND x.id = t.id

-- name: log-open
-- Whether the message is not done yet.
SELECT count(*) FROM ({judged} WHERE t.id = :id) WHERE status <> 2;

-- part: not_delivered
-- Ids of messages to discard, in one of the states (0: in any): those with that message id, or else the one with that number.
-- Without a message id no row is searched for one.
SELECT id FROM ({judged} WHERE t.id IN (
  SELECT e.id FROM {table} AS e WHERE :ident IS NOT NULL AND e.message_id = :ident
  UNION ALL
  SELECT :number WHERE NOT EXISTS (SELECT 1 FROM {table} AS e WHERE :ident IS NOT NULL AND e.message_id = :ident)))
WHERE status <> 2 AND (:states = 0 OR :states >> status & 1)

-- part: unexcepted
NOT EXISTS (SELECT 1 FROM {table_exception} AS x WHERE x.subscription = {subscription} AND x.id = t.id)

-- part: unread
-- Messages without an exception that the position has not passed.
SELECT t.id, 0 AS status, 0 AS attempts, t.created_at, NULL AS claimed_at, NULL AS next_retry_at,
       NULL AS processed_at, t.message_id, t.topic, t.aggregate_type, t.aggregate_id, t.partition_key, t.headers, t.trace_id,
       t.payload, NULL AS last_error
FROM {table} AS t WHERE {unexcepted} AND {its_topic:t}

-- name: consume-begin
-- Consumers of a subscription take turns: this waits for the transaction of the one before.
UPDATE {table_progress} SET moved_at = (SELECT ms FROM wherry_clock) WHERE subscription = {subscription};

-- name: consume-held
-- Whether a relay reads the subscription, and whether it is paused.
SELECT EXISTS (SELECT 1 FROM wherry_lease WHERE outbox = :name AND expires_at > (SELECT ms FROM wherry_clock)),
       EXISTS (SELECT 1 FROM wherry_outbox WHERE name = :name AND paused_at IS NOT NULL);

-- name: consume
-- The next messages: first those that the position has passed before they were delivered.
{listed} FROM (
  SELECT * FROM ({exceptional} AND (x.state = 0 OR x.state = 1 OR x.state = 3) AND x.id <= {high} ORDER BY x.id LIMIT :limit)
  UNION ALL
  SELECT * FROM ({judged} WHERE t.id > {high} AND (x.state IS NULL OR x.state = 0 OR x.state = 1 OR x.state = 3)
                 ORDER BY t.id LIMIT :limit))
ORDER BY id LIMIT :limit;

-- name: consume-end
-- Behind the last of n messages, or if these were all, behind all rows.
UPDATE {table_progress} SET high = max(high,
  CASE WHEN :n < :limit THEN coalesce((SELECT max(t.id) FROM {table} AS t), 0) ELSE :last END)
WHERE subscription = {subscription};

-- name: consume-forget
DELETE FROM {table_exception} WHERE subscription = {subscription}
  AND (id IN (SELECT value FROM json_each(:ids)) OR state = 2 AND id <= {high});

-- part: wanted
{asked} AND (:states >> status & 1) AND {identified}

-- name: list
{listed} FROM (
  SELECT * FROM (SELECT * FROM ({exceptional} AND {its_topic:t} AND x.state <> 2 AND x.id > :after ORDER BY x.id) WHERE {wanted} LIMIT :limit)
  UNION ALL
  SELECT * FROM (SELECT * FROM ({unread} AND t.id > max({high}, :after)) WHERE {wanted} ORDER BY id LIMIT :limit))
ORDER BY id LIMIT :limit;

-- name: list-any
{listed}
FROM ({judged}) WHERE id > :after AND {wanted}
ORDER BY id LIMIT :limit;

-- name: list-newest
{listed} FROM (
  SELECT * FROM (SELECT * FROM ({exceptional} AND {its_topic:t} AND x.state <> 2 AND x.id < :before ORDER BY x.id DESC) WHERE {wanted} LIMIT :limit)
  UNION ALL
  SELECT * FROM (SELECT * FROM ({unread} AND t.id > {high} AND t.id < :before) WHERE {wanted} ORDER BY id DESC LIMIT :limit))
ORDER BY id DESC LIMIT :limit;

-- name: list-any-newest
{listed}
FROM ({judged}) WHERE id < :before AND {wanted}
ORDER BY id DESC LIMIT :limit;

-- part: same_key
coalesce(e.partition_key, '') = coalesce(m.partition_key, '')
  AND (coalesce(m.partition_key, '') <> ''
       OR (e.aggregate_type = m.aggregate_type AND e.aggregate_id = m.aggregate_id
           AND m.aggregate_type || m.aggregate_id <> ''))

-- part: before_it
-- Open messages before m, among the first 1,000 of each kind.
SELECT * FROM ({exceptional} AND {its_topic:t} AND (x.state = 0 OR x.state = 1 OR x.state = 3) AND x.id < m.id
               ORDER BY x.id LIMIT 1000)
UNION ALL
SELECT * FROM ({unread} AND t.id > {high} AND t.id < m.id ORDER BY t.id LIMIT 1000)

-- name: show
-- The message, with the lowest open one of the same ordering key before it, and the lowest dead one.
SELECT m.id, m.status, m.attempts, m.created_at, m.claimed_at, m.next_retry_at,
       m.processed_at, m.message_id, m.topic, m.aggregate_type, m.aggregate_id,
       m.partition_key, m.headers, m.trace_id, m.payload, m.last_error,
       (SELECT min(e.id) FROM ({before_it}) AS e WHERE {same_key}),
       (SELECT min(e.id) FROM ({exceptional} AND x.state = 4 ORDER BY x.id LIMIT 1000) AS e
        WHERE m.status IN (0, 1, 3) AND {same_key})
FROM ({judged}) AS m
WHERE m.message_id = :ident OR m.id = :number
ORDER BY m.message_id = :ident DESC, m.id DESC LIMIT 1;

-- name: retry-dead
UPDATE {table_exception} SET state = 0, attempts = 0, next_retry_at = NULL,
  changed_at = (SELECT ms FROM wherry_clock), claim_token = ''
WHERE subscription = {subscription} AND id IN (
  SELECT id FROM ({exceptional} AND (x.state = 4 AND (:states & 16) OR x.state = 3 AND (:states & 8)))
  WHERE {identified}
    AND (:topic IS NULL OR topic = :topic)
    AND (:key IS NULL OR coalesce(nullif(partition_key, ''), aggregate_id) = :key)
    AND (:since = 0 OR created_at >= (SELECT ms FROM wherry_clock) - :since)
    AND id > :after
  ORDER BY id LIMIT :limit);

-- part: all_topics
(SELECT w.topics IS NULL FROM {table_progress} AS w WHERE w.subscription = {subscription})

-- name: count
-- Each row is counted once, up to :most behind the position and up to :done before it.  If the subscription does not have
-- all topics, each row is compared with them, and so a tenth of these numbers.  The last number has the bit of a state, if
-- there may be more messages of it.
WITH m AS MATERIALIZED (
  SELECT iif({all_topics}, :most, :most / 10) AS most, iif({all_topics}, :done, :done / 10) AS done),
n AS MATERIALIZED (
  SELECT (SELECT count(*) FROM (SELECT 1 FROM {table} AS t WHERE t.id > {high} ORDER BY t.id LIMIT (SELECT most FROM m))) AS above,
    (SELECT count(*) FROM (SELECT 1 FROM {table} AS t WHERE t.id <= {high} ORDER BY t.id DESC LIMIT (SELECT done FROM m))) AS below),
x AS MATERIALIZED (
  SELECT count(*) FILTER (WHERE state = 0) AS pending, count(*) FILTER (WHERE state = 1) AS processing,
    count(*) FILTER (WHERE state = 3) AS failed, count(*) FILTER (WHERE state = 4) AS dead, count(*) FILTER (WHERE is_open) AS is_open,
    count(*) FILTER (WHERE is_open AND state = 2) - count(*) FILTER (WHERE NOT is_open AND state <> 2) AS done
  FROM (SELECT x.state, x.id > {high} AS is_open FROM {table_exception} AS x CROSS JOIN {table} AS t ON t.id = x.id
        WHERE x.subscription = {subscription} AND {its_topic:t}))
SELECT max(iif({all_topics}, n.above, (SELECT count(*) FROM (
         SELECT t.topic FROM {table} AS t WHERE t.id > {high} ORDER BY t.id LIMIT (SELECT most FROM m)) AS t WHERE {its_topic:t}))
       - x.is_open, 0) + x.pending, x.processing,
  max(iif({all_topics}, n.below, (SELECT count(*) FROM (
        SELECT t.topic FROM {table} AS t WHERE t.id <= {high} ORDER BY t.id DESC LIMIT (SELECT done FROM m)) AS t WHERE {its_topic:t}))
      + x.done, 0), x.failed, x.dead, iif(n.above >= m.most, 1, 0) + iif(n.below >= m.done, 4, 0)
FROM m, n, x;

-- name: ready
-- Number of failed messages that are due, and the age of the oldest message that may be delivered now.
SELECT count(*), coalesce(max((SELECT ms FROM wherry_clock) - created_at), 0)
FROM ({exceptional} AND x.state = 3 AND x.next_retry_at <= (SELECT ms FROM wherry_clock));

-- part: key_of
-- A text that is equal for all messages of a key; NULL: the message has no key.
CASE WHEN {.}partition_key <> '' THEN 'k' || {.}partition_key
     WHEN {.}aggregate_type || {.}aggregate_id <> '' THEN length({.}aggregate_type) || ' ' || {.}aggregate_type || {.}aggregate_id END

-- part: blocking
-- The first failed message of each key that is not due yet: later ones wait behind it.
SELECT {key_of:f} AS key, min(f.id) AS id FROM ({exceptional} AND x.state = 3 AND {due:x} > {now}) AS f GROUP BY 1

-- part: compared
-- Pending messages, up to :most of each kind, each with the first failed one of its key.
SELECT t.id, t.created_at, b.id AS blocked_by FROM (
  SELECT * FROM (SELECT t.id, t.created_at, {key_of:t} AS key FROM {table_exception} AS x CROSS JOIN {table} AS t ON t.id = x.id
                 WHERE x.subscription = {subscription} AND x.state = 0 AND {its_topic:t} ORDER BY x.id LIMIT :most)
  UNION ALL
  SELECT * FROM (SELECT t.id, t.created_at, {key_of:t} FROM (
    SELECT t.id, t.created_at, t.topic, t.aggregate_type, t.aggregate_id, t.partition_key FROM {table} AS t
    WHERE t.id > {high} ORDER BY t.id LIMIT 1000000) AS t WHERE {its_topic:t} AND {unexcepted} LIMIT :most)) AS t
LEFT JOIN ({blocking}) AS b ON b.key = t.key

-- name: oldest-pending
SELECT {now} - min(created_at) FROM ({compared}) WHERE blocked_by IS NULL OR blocked_by >= id;

-- name: held-pending
-- Number of messages that wait behind a failed one of their key.
SELECT count(*) FROM ({compared}) WHERE blocked_by < id;

-- name: subscribed
SELECT high, coalesce(topics, '') FROM {table_progress} WHERE subscription = {subscription};

-- name: subscriptions
-- With the age of the first message that the position has not passed, of whatever topic: it is kept.
SELECT p.subscription, coalesce(p.topics, ''), p.high, c.ms - p.moved_at,
  coalesce((SELECT c.ms - t.created_at FROM {table} AS t WHERE t.id > p.high ORDER BY t.id LIMIT 1), -1)
FROM {table_progress} AS p, wherry_clock AS c ORDER BY p.subscription;

-- name: unsubscribe
DELETE FROM {table_progress} WHERE subscription = {subscription};

-- name: unsubscribe-exceptions
DELETE FROM {table_exception} WHERE subscription = {subscription};

-- name: unsubscribe-named
DELETE FROM wherry_outbox WHERE name = :name AND name <> {name};

-- name: unsubscribe-lease
DELETE FROM wherry_lease WHERE outbox = :name;

-- name: seek-begin
-- The relay that leads loses its lease, so it does not write its position any more, and begins at the new one.
UPDATE wherry_lease SET expires_at = 0, clean = 1, unclean = 0 WHERE outbox = :name;

-- name: seek
UPDATE {table_progress} SET high = :high, moved_at = (SELECT ms FROM wherry_clock) WHERE subscription = {subscription};

-- name: seek-end
-- Messages behind the position are delivered again, whatever they were; of those before it the dead ones stay.
DELETE FROM {table_exception} WHERE subscription = {subscription} AND (state <> 4 OR id > {high});

-- name: set-topics
UPDATE {table_progress} SET topics = :topics WHERE subscription = {subscription};

-- name: first-since
-- The first id of the messages that were made since then; 0: there is none.
SELECT coalesce(min(id), 0) FROM {table} WHERE created_at >= :at;

-- name: first-and-last
-- The first and the last id; 0: there is none.
SELECT coalesce((SELECT id FROM {table} ORDER BY id LIMIT 1), 0),
       coalesce((SELECT id FROM {table} ORDER BY id DESC LIMIT 1), 0);

-- name: discard-here
-- Messages that failed, died or wait are as good as delivered in this subscription.
DELETE FROM {table_exception} WHERE subscription = {subscription} AND id IN ({not_delivered});
