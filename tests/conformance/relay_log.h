#ifndef RELAY_LOG_H
#define RELAY_LOG_H

#include "relay_suite.h"

/* Tests of a log alone. */
extern const relay_test relay_log_tests[];

/* For relay_target.views and .translate: a view in which a log looks like a native table, for statements that
 * read or write the state of a message. */
extern const char relay_log_sqlite_views[], relay_log_postgres_views[];
void relay_log_translate(const char *sql, char *out, size_t cap);

/* The same of a log whose messages are written to the table `rows`. */
/* clang-format off */
#define RELAY_LOG_COLUMNS                                                                                       \
	"t.id, t.message_id, t.topic, t.aggregate_type, t.aggregate_id, t.partition_key, t.headers, t.trace_id, "   \
	"t.created_at, t.payload, NULL AS processed_at, coalesce(x.attempts, 0) AS attempts, x.next_retry_at, " \
	"CASE WHEN x.state <> 0 THEN x.changed_at END AS claimed_at, x.claim_token, x.last_error, "                 \
	"coalesce(x.state, CASE WHEN "
#define RELAY_LOG_TABLES(join)                                                                                  \
	"FROM outbox_progress AS p " join                                                                           \
	"LEFT JOIN outbox_exception AS x ON x.id = t.id AND x.subscription = p.subscription "                       \
	"WHERE p.subscription = 'relay';"
#define RELAY_LOG_SQLITE_VIEWS(rows)                                                                            \
	"CREATE TEMP VIEW native AS SELECT " RELAY_LOG_COLUMNS "t.id > p.high THEN 0 ELSE 2 END) AS status "        \
	RELAY_LOG_TABLES("CROSS JOIN outbox AS t ")                                                                 \
	"CREATE TEMP TRIGGER native_insert INSTEAD OF INSERT ON native BEGIN "                                      \
	"INSERT INTO " rows "(id, topic, partition_key, payload) "                                                  \
	"VALUES (new.id, new.topic, new.partition_key, new.payload); "                                              \
	"INSERT OR REPLACE INTO outbox_exception(subscription, id, state, attempts) "                               \
	"VALUES ('relay', last_insert_rowid(), coalesce(new.status, 0), coalesce(new.attempts, 0)); END;"           \
	"CREATE TEMP TRIGGER native_update INSTEAD OF UPDATE ON native BEGIN "                                      \
	"UPDATE " rows " SET created_at = new.created_at WHERE id = old.id; "                                       \
	"INSERT OR REPLACE INTO outbox_exception(subscription, id, state, attempts, next_retry_at, changed_at, "    \
	"claim_token, last_error) VALUES ('relay', new.id, new.status, new.attempts, new.next_retry_at, "           \
	"coalesce(new.claimed_at, 0), new.claim_token, new.last_error); END;"
#define RELAY_LOG_POSTGRES_VIEWS(rows)                                                                          \
	"CREATE VIEW native AS SELECT " RELAY_LOG_COLUMNS                                                           \
	"t.id > p.high OR NOT pg_visible_in_snapshot(t.tx, p.seen) THEN 0 ELSE 2 END)::smallint AS status "         \
	RELAY_LOG_TABLES("JOIN outbox AS t ON p.mask = -1 OR "                                                      \
	"p.mask >> (coalesce(hashtextextended('=' || nullif(t.partition_key, ''), 0), t.id) & 63)::integer & 1 = 1 ") \
	"CREATE FUNCTION native_change() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$BEGIN " \
	"IF tg_op = 'INSERT' THEN "                                                                                 \
	"new.id = coalesce(new.id, nextval(pg_get_serial_sequence('" rows "', 'id'))); "                            \
	"INSERT INTO " rows "(id, topic, partition_key, payload) "                                                  \
	"VALUES (new.id, new.topic, new.partition_key, new.payload); END IF; "                                      \
	"UPDATE " rows " SET created_at = new.created_at WHERE id = new.id AND new.created_at IS NOT NULL; "        \
	"INSERT INTO outbox_exception AS x(subscription, id, state, attempts, next_retry_at, changed_at, "          \
	"claim_token, last_error) VALUES ('relay', new.id, coalesce(new.status, 0), coalesce(new.attempts, 0), "    \
	"new.next_retry_at, coalesce(new.claimed_at, now()), new.claim_token, new.last_error) "                     \
	"ON CONFLICT (subscription, id) DO UPDATE SET state = excluded.state, attempts = excluded.attempts, "       \
	"next_retry_at = excluded.next_retry_at, changed_at = excluded.changed_at, "                                \
	"claim_token = excluded.claim_token, last_error = excluded.last_error; RETURN new; END$$;"                  \
	"CREATE TRIGGER native_change INSTEAD OF INSERT OR UPDATE ON native FOR EACH ROW "                          \
	"EXECUTE FUNCTION native_change();"
/* clang-format on */

/* For relay_target.except; ends with NULL. */
extern const char *const relay_log_except[];

#endif
