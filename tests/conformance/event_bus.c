#include "event_bus.h"

#include <ctype.h>

#include "outbox_sqlite.h"

const char event_bus_tables[] =
	"CREATE TABLE IF NOT EXISTS outbox (id TEXT PRIMARY KEY, type TEXT NOT NULL, "
	"payload TEXT NOT NULL, occurred_at TEXT NOT NULL, "
	"status TEXT NOT NULL DEFAULT 'created', "
	"retry_count INTEGER NOT NULL DEFAULT 0, last_error TEXT, next_retry_at TEXT, "
	"created_on TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), "
	"started_on TEXT, completed_on TEXT, keep_alive TEXT, "
	"expire_in_seconds INTEGER NOT NULL DEFAULT 300);"
	"CREATE TABLE IF NOT EXISTS outbox_archive (id TEXT PRIMARY KEY, "
	"type TEXT NOT NULL, payload TEXT NOT NULL, occurred_at TEXT NOT NULL, "
	"status TEXT NOT NULL, retry_count INTEGER NOT NULL, last_error TEXT, "
	"created_on TEXT NOT NULL, started_on TEXT, completed_on TEXT NOT NULL);"
	"CREATE INDEX IF NOT EXISTS idx_outbox_status_retry "
	"ON outbox (status, next_retry_at);";

#define MS(time) "CAST((julianday(" time ") - 2440587.5) * 86400000.0 + 0.5 AS INTEGER)"
#define ISO(ms)                                                                          \
	"strftime('%Y-%m-%dT%H:%M:%fZ', min(" ms                                         \
	", 253402300799000) / 1000.0, 'unixepoch')"

const char event_bus_views[] = "CREATE TEMP VIEW wherry_clock(ms) AS SELECT " MS(
	"'now'") ";"
		 "CREATE TEMP VIEW native AS SELECT CAST(id AS INTEGER) AS id, "
		 "id AS message_id, type AS topic, payload, retry_count AS attempts, last_error, "
		 "CASE status WHEN 'created' THEN 0 WHEN 'active' THEN 1 ELSE "
		 "CASE WHEN next_retry_at IS NULL THEN 4 ELSE 3 END END AS status, "
		 "CASE status WHEN 'active' THEN " MS(
			 "keep_alive") " + expire_in_seconds * 1000 "
				       "ELSE " MS("next_retry_at") " END AS next_retry_at, " MS(
					       "started_on") " AS claimed_at, '' AS claim_token FROM main.outbox "
							     "UNION ALL SELECT CAST(id AS INTEGER), id, type, payload, retry_count, last_error, 2, "
							     "NULL, " MS(
								     "started_on") ", NULL FROM main.outbox_archive;"
										   "CREATE TEMP TRIGGER native_update INSTEAD OF UPDATE ON native BEGIN "
										   "UPDATE outbox SET retry_count = NEW.attempts, "
										   "status = CASE NEW.status WHEN 0 THEN 'created' WHEN 1 THEN 'active' "
										   "ELSE 'failed' END, "
										   "started_on = CASE WHEN NEW.claimed_at IS OLD.claimed_at THEN started_on "
										   "ELSE " ISO(
											   "NEW.claimed_at") " END, "
													     "next_retry_at = CASE NEW.status WHEN 3 THEN " ISO("coalesce(NEW.next_retry_at, 0)") " END, keep_alive = CASE NEW.status WHEN 1 THEN " ISO(
														     "coalesce(NEW.next_retry_at, 1) - expire_in_seconds * 1000") " END "
																						  "WHERE id = OLD.message_id; END;";

void event_bus_translate(const char *sql, char *out, size_t cap)
{
	size_t n = 0;

	while (*sql && n + 8 < cap) {
		size_t len = strspn(sql, "abcdefghijklmnopqrstuvwxyz_0123456789");

		if (len == 6 && memcmp(sql, "outbox", 6) == 0) {
			memcpy(out + n, "native", 6);
			n += 6;
			sql += 6;
			continue;
		}
		for (len = len ? len : 1; len && n + 1 < cap; len--)
			out[n++] = *sql++;
	}
	out[n] = 0;
}

bool event_bus_run(sqlite3 *handle, const char *sql, char *out, size_t cap)
{
	char native[8192];

	event_bus_translate(sql, native, sizeof(native));
	return outbox_sqlite_run(handle, event_bus_views, NULL, 0) &&
	       outbox_sqlite_run(handle, native, out, cap);
}

static bool raw(void *place, wherry_db *db, const char *sql, char *out, size_t cap)
{
	sqlite3 *handle = NULL;
	bool ok;

	ok = sqlite3_open(((wherry_temp *)place)->path, &handle) == SQLITE_OK;
	ok = ok && sqlite3_busy_timeout(handle, 30000) == SQLITE_OK &&
	     outbox_sqlite_run(handle, "PRAGMA synchronous = OFF", NULL, 0);
	ok = ok && event_bus_run(handle, sql, out, cap);
	return sqlite3_close(handle) == SQLITE_OK && ok;
}

static void *make(void)
{
	void *place = outbox_sqlite_file.make();

	assert_true(outbox_sqlite_raw(place, NULL, event_bus_tables, NULL, 0));
	return place;
}

static void drop(void *place)
{
	outbox_sqlite_file.drop(place);
}

static wherry_db *connect(void *place)
{
	return outbox_sqlite_file.connect(place);
}

static bool disconnect(wherry_db *db)
{
	return outbox_sqlite_file.disconnect(db);
}

const outbox_backend event_bus_file = {
	.name = "event-bus",
	.several = true,
	.lacks = NEEDS_KEYS | NEEDS_LEASE | NEEDS_TOKEN,
	.make = make,
	.drop = drop,
	.connect = connect,
	.disconnect = disconnect,
	.raw = raw,
};

/* ---- the library's side ---- */

__attribute__((format(printf, 2, 0))) static void run(outbox_fixture *f, const char *fmt,
						      va_list args, char *out, size_t cap)
{
	char sql[4096];

	(void)vsnprintf(sql, sizeof(sql), fmt, args);
	if (!outbox_sqlite_raw(f->place, NULL, sql, out, cap)) {
		print_error("%s\n", sql);
		fail();
	}
}

void bus_raw(outbox_fixture *f, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	run(f, fmt, args, NULL, 0);
	va_end(args);
}

int64_t bus_int(outbox_fixture *f, const char *fmt, ...)
{
	char text[64] = "";
	va_list args;

	va_start(args, fmt);
	run(f, fmt, args, text, sizeof(text));
	va_end(args);
	return strtoll(text, NULL, 10);
}

const char *bus_text(outbox_fixture *f, const char *fmt, ...)
{
	va_list args;

	*f->text = 0;
	va_start(args, fmt);
	run(f, fmt, args, f->text, sizeof(f->text));
	va_end(args);
	return f->text;
}

void bus_publish(outbox_fixture *f, const char *id, const char *payload)
{
	bus_raw(f,
		"INSERT INTO outbox (id, type, payload, occurred_at, status) VALUES "
		"('%s', 't', '%s', strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now'), 'created')",
		id, payload);
}

int64_t bus_claimable(outbox_fixture *f, int max_retries)
{
	return bus_int(
		f,
		"WITH now(t) AS (SELECT strftime('%%Y-%%m-%%dT%%H:%%M:%%fZ', 'now')) "
		"SELECT count(*) FROM outbox, now WHERE status = 'created' "
		"OR (status = 'failed' AND retry_count < %d AND next_retry_at <= t) "
		"OR (status = 'active' AND datetime(keep_alive, '+' || expire_in_seconds || "
		"' seconds') < datetime(t))",
		max_retries);
}
