#include "relay_funfix.h"

#define MESSAGE_ID "\"pKind\" || '-' || later.id || '-' || \"createdAt\""
#define TRIES                                                                            \
	"LEFT JOIN later_tries AS s ON s.id = later.id AND s.version = \"createdAt\""

const char relay_funfix_sqlite_tables[] =
	"CREATE VIEW wherry_clock(ms) AS SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER);"
	"CREATE TABLE gone(id INTEGER, message_id TEXT, attempts INTEGER, last_error TEXT, "
	"payload TEXT);"
	"CREATE TRIGGER later_gone AFTER DELETE ON later WHEN OLD.\"lockUuid\" IS NOT NULL AND "
	"NOT EXISTS (SELECT 1 FROM later_dead WHERE id = OLD.id) BEGIN "
	"INSERT INTO gone SELECT OLD.id, OLD.\"pKind\" || '-' || OLD.id || '-' || OLD.\"createdAt\", "
	"coalesce((SELECT attempts FROM later_tries WHERE id = OLD.id), 0), "
	"(SELECT last_error FROM later_tries WHERE id = OLD.id), OLD.payload; END;";

const char relay_funfix_sqlite_views[] =
	"CREATE TEMP VIEW native AS SELECT later.id AS id, " MESSAGE_ID " AS message_id, "
	"'jobs' AS topic, CAST(payload AS TEXT) AS payload, coalesce(s.attempts, 0) AS attempts, "
	"s.last_error AS last_error, CASE WHEN \"lockUuid\" IS NOT NULL THEN 1 "
	"WHEN s.id IS NOT NULL OR \"scheduledAt\" <> \"scheduledAtInitially\" THEN 3 ELSE 0 END "
	"AS status, \"scheduledAt\" AS next_retry_at, NULL AS claimed_at, "
	"\"lockUuid\" AS claim_token FROM main.later " TRIES " UNION ALL "
	"SELECT id, '', 'jobs', CAST(payload AS TEXT), attempts, last_error, 4, NULL, NULL, NULL "
	"FROM main.later_dead UNION ALL "
	"SELECT id, message_id, 'jobs', CAST(payload AS TEXT), attempts, last_error, 2, NULL, NULL, NULL "
	"FROM main.gone;"
	"CREATE TEMP TRIGGER native_update INSTEAD OF UPDATE ON native BEGIN "
	"DELETE FROM later_tries WHERE id = OLD.id; "
	"INSERT INTO later_tries(id, version, attempts, last_error) SELECT id, \"createdAt\", "
	"NEW.attempts, CASE WHEN NEW.status = 3 THEN coalesce(NEW.last_error, 'x') ELSE NEW.last_error END "
	"FROM later WHERE id = OLD.id AND (NEW.attempts <> 0 OR NEW.status = 3 OR NEW.last_error IS NOT NULL); "
	"UPDATE later SET \"lockUuid\" = CASE WHEN NEW.status IN (1, 2) THEN coalesce(NEW.claim_token, 'x') END, "
	"\"scheduledAt\" = CASE WHEN NEW.status = 0 AND OLD.status <> 0 THEN \"scheduledAtInitially\" "
	"ELSE coalesce(NEW.next_retry_at, 0) END "
	"WHERE id = OLD.id; "
	"DELETE FROM later WHERE id = OLD.id AND NEW.status = 2; END;";

const char relay_funfix_postgres_tables[] =
	"CREATE VIEW wherry_clock(ms) AS SELECT floor(extract(epoch FROM clock_timestamp()) * 1000.0)::bigint;"
	"CREATE TABLE gone(id bigint, message_id text, attempts integer, last_error text, payload bytea);"
	"CREATE FUNCTION later_gone() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$BEGIN "
	"IF NOT EXISTS (SELECT 1 FROM later_dead WHERE id = old.id) THEN "
	"INSERT INTO gone VALUES (old.id, old.\"pKind\" || '-' || old.id || '-' || old.\"createdAt\", "
	"coalesce((SELECT attempts FROM later_tries WHERE id = old.id), 0), "
	"(SELECT last_error FROM later_tries WHERE id = old.id), old.payload); END IF; RETURN old; END$$;"
	"CREATE TRIGGER later_gone BEFORE DELETE ON later FOR EACH ROW WHEN (old.\"lockUuid\" IS NOT NULL) "
	"EXECUTE FUNCTION later_gone();";

const char relay_funfix_postgres_views[] =
	"CREATE VIEW native AS SELECT later.id, " MESSAGE_ID " AS message_id, "
	"'jobs'::text AS topic, convert_from(payload, 'UTF8') AS payload, coalesce(s.attempts, 0) AS attempts, "
	"s.last_error, CASE WHEN \"lockUuid\" IS NOT NULL THEN 1 "
	"WHEN s.id IS NOT NULL OR \"scheduledAt\" <> \"scheduledAtInitially\" THEN 3 "
	"ELSE 0 END::smallint AS status, to_timestamp(\"scheduledAt\" / 1000.0) AS next_retry_at, "
	"NULL::timestamptz AS claimed_at, \"lockUuid\"::text AS claim_token FROM later " TRIES
	" UNION ALL "
	"SELECT id, '', 'jobs', convert_from(payload, 'UTF8'), attempts, last_error, 4::smallint, NULL, NULL, NULL "
	"FROM later_dead UNION ALL "
	"SELECT id, message_id, 'jobs', convert_from(payload, 'UTF8'), attempts, last_error, 2::smallint, NULL, NULL, "
	"NULL FROM gone;"
	"CREATE FUNCTION native_update() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$BEGIN "
	"DELETE FROM later_tries WHERE id = old.id; "
	"INSERT INTO later_tries(id, version, attempts, last_error) SELECT id, \"createdAt\", new.attempts, "
	"CASE WHEN new.status = 3 THEN coalesce(new.last_error, 'x') ELSE new.last_error END "
	"FROM later WHERE id = old.id AND (new.attempts <> 0 OR new.status = 3 OR new.last_error IS NOT NULL); "
	"UPDATE later SET \"lockUuid\" = CASE WHEN new.status IN (1, 2) THEN left(coalesce(new.claim_token, 'x'), 36) END, "
	"\"scheduledAt\" = CASE WHEN new.status = 0 AND old.status <> 0 THEN \"scheduledAtInitially\" "
	"ELSE coalesce(floor(extract(epoch FROM new.next_retry_at) * 1000.0), 0) END "
	"WHERE id = old.id; "
	"DELETE FROM later WHERE id = old.id AND new.status = 2; RETURN new; END$$;"
	"CREATE TRIGGER native_update INSTEAD OF UPDATE ON native FOR EACH ROW "
	"EXECUTE FUNCTION native_update();";

const char relay_funfix_mssql_tables[] =
	"IF OBJECT_ID(N'wherry_clock') IS NULL EXEC(N'CREATE VIEW wherry_clock(ms) AS "
	"SELECT DATEDIFF_BIG(MILLISECOND, ''19700101'', SYSUTCDATETIME())'); "
	"CREATE TABLE gone(id BIGINT, message_id NVARCHAR(255), attempts INT, last_error NVARCHAR(500), "
	"payload VARBINARY(MAX)); "
	"EXEC(N'CREATE TRIGGER later_gone ON later AFTER DELETE AS INSERT INTO gone "
	"SELECT d.id, CONCAT(d.\"pKind\", N''-'', d.id, N''-'', d.\"createdAt\"), COALESCE(s.attempts, 0), "
	"s.last_error, d.payload FROM deleted AS d LEFT JOIN later_tries AS s ON s.id = d.id "
	"WHERE d.\"lockUuid\" IS NOT NULL AND NOT EXISTS (SELECT 1 FROM later_dead AS x WHERE x.id = d.id)')";

const char relay_funfix_mssql_views[] =
	"EXEC(N'CREATE VIEW native AS SELECT later.id, CONCAT(\"pKind\", N''-'', later.id, N''-'', \"createdAt\") AS "
	"message_id, N''jobs'' AS topic, CAST(payload AS VARCHAR(MAX)) AS payload, COALESCE(s.attempts, 0) AS attempts, "
	"s.last_error, CAST(CASE WHEN \"lockUuid\" IS NOT NULL THEN 1 "
	"WHEN s.id IS NOT NULL OR \"scheduledAt\" <> \"scheduledAtInitially\" THEN 3 ELSE 0 END AS INT) AS status, "
	"dbo.ms_time(\"scheduledAt\") AS next_retry_at, CAST(NULL AS DATETIME2(3)) AS claimed_at, "
	"\"lockUuid\" AS claim_token FROM later " TRIES " UNION ALL "
	"SELECT id, N'''', N''jobs'', CAST(payload AS VARCHAR(MAX)), attempts, last_error, 4, NULL, NULL, NULL "
	"FROM later_dead UNION ALL "
	"SELECT id, message_id, N''jobs'', CAST(payload AS VARCHAR(MAX)), attempts, last_error, 2, NULL, NULL, NULL "
	"FROM gone'); "
	"EXEC(N'CREATE TRIGGER native_update ON native INSTEAD OF UPDATE AS BEGIN "
	"DELETE s FROM later_tries AS s JOIN inserted AS n ON n.id = s.id; "
	"INSERT INTO later_tries(id, version, attempts, last_error) SELECT t.id, t.\"createdAt\", n.attempts, "
	"CASE WHEN n.status = 3 THEN COALESCE(n.last_error, N''x'') ELSE n.last_error END "
	"FROM later AS t JOIN inserted AS n ON n.id = t.id "
	"WHERE n.attempts <> 0 OR n.status = 3 OR n.last_error IS NOT NULL; "
	"UPDATE t SET \"lockUuid\" = CASE WHEN n.status IN (1, 2) THEN LEFT(COALESCE(n.claim_token, ''x''), 36) END, "
	"\"scheduledAt\" = CASE WHEN n.status = 0 AND d.status <> 0 THEN t.\"scheduledAtInitially\" "
	"ELSE COALESCE(DATEDIFF_BIG(MILLISECOND, ''19700101'', n.next_retry_at), 0) END "
	"FROM later AS t JOIN inserted AS n ON n.id = t.id JOIN deleted AS d ON d.id = t.id; "
	"DELETE t FROM later AS t JOIN inserted AS n ON n.id = t.id WHERE n.status = 2; END')";

const char *const relay_funfix_except[] = {
	/* As of native delayed queues. */
	"a_retry_by_an_operator_need_not_wait",
	"a_relay_that_waits_to_try_what_expired_goes_on_when_another_took_it",

	/* Nothing is written about relays. */
	"a_paused_queue_is_not_relayed_until_it_is_resumed",
	"each_relay_of_a_queue_is_shown",
	"a_relay_of_a_queue_says_that_its_destination_refuses",
	"relays_of_other_queues_of_the_table_go_on",
	"a_table_that_is_removed_takes_its_relays_and_pauses_along",
	NULL,
};
