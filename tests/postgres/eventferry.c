#include "postgres/eventferry.h"

const char eventferry_tables[] =
	"CREATE TABLE IF NOT EXISTS outbox ("
	"id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
	"message_id UUID NOT NULL DEFAULT gen_random_uuid(), "
	"topic VARCHAR(255) NOT NULL, aggregate_type VARCHAR(255) NOT NULL, "
	"aggregate_id VARCHAR(255) NOT NULL, \"key\" TEXT, payload JSONB NOT NULL, "
	"headers JSONB NOT NULL DEFAULT '{}'::jsonb, trace_id VARCHAR(64), "
	"status SMALLINT NOT NULL DEFAULT 0, attempts INT NOT NULL DEFAULT 0, "
	"next_retry_at TIMESTAMPTZ, claimed_at TIMESTAMPTZ, "
	"created_at TIMESTAMPTZ NOT NULL DEFAULT now(), processed_at TIMESTAMPTZ, "
	"CONSTRAINT uq_outbox_message_id UNIQUE (message_id));"
	"CREATE INDEX IF NOT EXISTS idx_outbox_ready ON outbox (id) "
	"WHERE status IN (0, 1, 3);"
	"CREATE INDEX IF NOT EXISTS idx_outbox_agg_order ON outbox (aggregate_id, id) "
	"WHERE status IN (0, 1, 3);";

/* A claim lasts a minute, as those of the suites do.  One that is made to expire by a time near
 * the epoch keeps its distance to others, by which claims are told apart. */
const char eventferry_views[] =
	"CREATE OR REPLACE VIEW wherry_clock(ms) AS "
	"SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint;"
	"CREATE VIEW native AS SELECT id, message_id::text AS message_id, topic, "
	"aggregate_type, aggregate_id, key AS partition_key, headers, trace_id, status, "
	"attempts, claimed_at, claimed_at::text AS claim_token, CASE WHEN status = 1 THEN "
	"claimed_at + interval '1 min' ELSE next_retry_at END AS next_retry_at, "
	"created_at, processed_at, NULL::text AS last_error, "
	"payload::text AS payload "
	"FROM outbox;"
	"CREATE VIEW outbox_archive AS SELECT * FROM native WHERE false;"
	"CREATE FUNCTION native_update() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
	"UPDATE outbox SET status = new.status, attempts = new.attempts, "
	"next_retry_at = CASE WHEN new.status = 3 THEN new.next_retry_at END, "
	"claimed_at = CASE WHEN new.status = 1 AND "
	"new.next_retry_at IS DISTINCT FROM old.next_retry_at "
	"THEN CASE WHEN new.next_retry_at >= '1980-01-01' "
	"THEN new.next_retry_at - interval '1 min' WHEN old.claimed_at < '1980-01-01' "
	"THEN old.claimed_at ELSE old.claimed_at - interval '60 years' "
	"+ (new.next_retry_at - 'epoch'::timestamptz) END "
	"WHEN new.claim_token IS DISTINCT FROM old.claim_token "
	"THEN new.claimed_at + interval '1 us' ELSE new.claimed_at END "
	"WHERE id = old.id; RETURN new; END$$;"
	"CREATE TRIGGER native_update INSTEAD OF UPDATE ON native FOR EACH ROW "
	"EXECUTE FUNCTION native_update();"
	"CREATE FUNCTION native_insert() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "
	"INSERT INTO outbox(topic, aggregate_type, aggregate_id, key, payload, status, "
	"attempts, next_retry_at, claimed_at) VALUES (new.topic, '', "
	"coalesce(new.partition_key, gen_random_uuid()::text), new.partition_key, "
	"coalesce(nullif(new.payload, ''), '{}')::jsonb, "
	"coalesce(new.status, 0), coalesce(new.attempts, 0), "
	"CASE WHEN new.status = 3 THEN new.next_retry_at END, "
	"CASE WHEN new.status = 1 THEN new.next_retry_at - interval '1 min' END); "
	"RETURN new; END$$;"
	"CREATE TRIGGER native_insert INSTEAD OF INSERT ON native FOR EACH ROW "
	"EXECUTE FUNCTION native_insert();";

const char eventferry_done[] = "status = 2, processed_at = now()";
const char eventferry_requeue[] = "status = 3, claimed_at = NULL, next_retry_at = now()";
