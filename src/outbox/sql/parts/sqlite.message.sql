--
-- Parts that the layouts log and adopted share: the columns that operators read, and
-- conditions on messages.

-- part: listed
SELECT id, status, attempts, created_at, claimed_at, next_retry_at, processed_at,
       message_id, topic, aggregate_type, aggregate_id, partition_key, headers, trace_id,
       payload, last_error, 0, 0

-- part: identified
(:ident IS NULL OR message_id = :ident
 OR (id = :number AND NOT EXISTS (SELECT 1 FROM {table} WHERE message_id = :ident)))

-- part: asked
(:topic IS NULL OR topic = :topic)
  AND (:prefix IS NULL OR substr(topic, 1, length(:prefix)) = :prefix)
  AND (:key IS NULL OR coalesce(nullif(partition_key, ''), aggregate_id) = :key)
  AND (:since = 0 OR created_at >= (SELECT ms FROM wherry_clock) - :since)
  AND (:older = 0 OR created_at <= (SELECT ms FROM wherry_clock) - :older)
  AND (:text IS NULL OR instr(topic, :text) OR instr(message_id, :text)
       OR instr(coalesce(partition_key, ''), :text) OR instr(coalesce(aggregate_id, ''), :text)
       OR instr(coalesce(last_error, ''), :text) OR instr(CAST(payload AS TEXT), :text))
