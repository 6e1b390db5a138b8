/*
 * A writer, on an SQLite connection of its own: a few messages a transaction, each with its
 * row in the table ledger, some of it rolled back.  Ends when killed, or with 3 if the disk
 * is too full to open the database.
 *
 *     crash_writer_main DATABASE NAME SEED PACE_MS FILL
 */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wherry/sqlite.h>
#include <wherry/wherry.h>

typedef struct writer {
	sqlite3 *handle;
	wherry_db *db;
	wherry_outbox *outbox;
	sqlite3_stmt *next, *note;
	const char *name;
	char *fill; /* for large bodies, */
	unsigned fill_max, pace_us;
	uint64_t random;
	long n; /* messages so far, also those rolled back */
} writer;

enum { NO_ROOM = 3 };

static bool no_room(const writer *w, const wherry_error *err)
{
	int code = sqlite3_errcode(w->handle) & 0xff;

	if (err)
		return err->code == WHERRY_FULL || err->code == WHERRY_IO;
	return code == SQLITE_FULL || code == SQLITE_IOERR;
}

/* False: the disk is full.  Anything else ends the writer. */
static bool pass(const writer *w, bool holds, const char *what, const wherry_error *err)
{
	bool full = !holds && no_room(w, err);

	if (holds)
		return true;
	(void)fprintf(stderr, "%s: %s%s: %s\n", w->name, full ? "no room: " : "", what,
		      err ? err->message : sqlite3_errmsg(w->handle));
	if (!full)
		exit(1);
	return false;
}

static bool sql(const writer *w, const char *text)
{
	return pass(w, sqlite3_exec(w->handle, text, NULL, NULL, NULL) == SQLITE_OK, text,
		    NULL);
}

/* xorshift64 */
static unsigned pick(writer *w, unsigned n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (unsigned)(w->random >> 33) % n;
}

/* The next number of a key; nobody else can take it before this transaction ends. */
static bool next_of(const writer *w, const char *key, int64_t *out)
{
	bool holds = sqlite3_bind_text(w->next, 1, key, -1, SQLITE_STATIC) == SQLITE_OK &&
		     sqlite3_step(w->next) == SQLITE_ROW;

	if (holds)
		*out = sqlite3_column_int64(w->next, 0);
	holds = pass(w, holds, "next", NULL);
	(void)sqlite3_reset(w->next);
	return holds;
}

static bool note(const writer *w, const char *id, const char *key, int64_t n)
{
	bool holds = sqlite3_bind_text(w->note, 1, id, -1, SQLITE_STATIC) == SQLITE_OK &&
		     sqlite3_bind_text(w->note, 2, key, -1, SQLITE_STATIC) == SQLITE_OK &&
		     sqlite3_bind_int64(w->note, 3, n) == SQLITE_OK &&
		     sqlite3_step(w->note) == SQLITE_DONE;

	holds = pass(w, holds, "note", NULL);
	(void)sqlite3_reset(w->note);
	return holds;
}

/* {"k": key, "n": number} and now and then something long. */
static void make_body(writer *w, char *body, size_t cap, const char *key, int64_t n)
{
	int fill = w->fill_max && pick(w, 50) == 0 ? (int)pick(w, w->fill_max) : 0;

	(void)snprintf(body, cap, "{\"k\":\"%s\",\"n\":%" PRId64 ",\"fill\":\"%.*s\"}",
		       key, n, fill, w->fill);
}

static bool send(writer *w)
{
	static const char *const kinds[] = {"key", "aggregate", ""};
	static char body[65536 + 128];
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message msg = WHERRY_MESSAGE(.topic = "crash");
	const char *kind = kinds[pick(w, 20) % 3];
	char id[64], name[32], key[64];
	int64_t n = 0;

	(void)snprintf(id, sizeof(id), "%s-%ld", w->name, w->n++);
	(void)snprintf(name, sizeof(name), "%u", pick(w, 6));
	(void)snprintf(key, sizeof(key), "%s%s%s", kind, *kind ? ":" : "",
		       *kind ? name : "");
	if (!next_of(w, key, &n))
		return false;
	make_body(w, body, sizeof(body), key, n);
	msg.message_id = id;
	msg.body = body;
	msg.body_len = strlen(body);
	if (*kind == 'k') {
		msg.key = name;
	} else if (*kind == 'a') {
		msg.aggregate_type = "thing";
		msg.aggregate_id = name;
	}
	return pass(w, wherry_outbox_enqueue(w->outbox, &msg, 0, NULL, &err) == WHERRY_OK,
		    "enqueue", &err) &&
	       note(w, id, key, n);
}

static void think(writer *w)
{
	unsigned us = pick(w, w->pace_us + 1);
	struct timespec t = {us / 1000000, us % 1000000 * 1000L};

	(void)nanosleep(&t, NULL);
}

/* False: the disk is full, and the transaction is yet to be rolled back. */
static bool transact(writer *w)
{
	unsigned n = 1 + pick(w, 8);

	if (!sql(w, "BEGIN IMMEDIATE"))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!send(w))
			return false;
	if (pick(w, 4) == 0 && /* change one's mind about some of it */
	    !(sql(w, "SAVEPOINT some") && send(w) && sql(w, "ROLLBACK TO some") &&
	      sql(w, "RELEASE some")))
		return false;
	if (pick(w, 50) == 0)
		think(w); /* so that a kill may come here */
	return sql(w, pick(w, 5) == 0 ? "ROLLBACK" : "COMMIT");
}

static void open_all(writer *w, const char *path)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int rc = sqlite3_open(path, &w->handle);

	if (rc == SQLITE_OK)
		rc = sqlite3_busy_timeout(w->handle, 60000);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(
			w->handle,
			"SELECT coalesce(max(n), 0) + 1 FROM ledger WHERE k = ?1", -1,
			&w->next, NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_prepare_v2(w->handle,
					"INSERT INTO ledger VALUES (?1, ?2, ?3)", -1,
					&w->note, NULL);
	if (!pass(w, rc == SQLITE_OK, "open", NULL))
		exit(NO_ROOM);
	if (!pass(w,
		  wherry_sqlite_borrow(w->handle, &w->db, &err) == WHERRY_OK &&
			  wherry_outbox_open(w->db, "outbox", &w->outbox, &err) ==
				  WHERRY_OK,
		  "open", &err))
		exit(NO_ROOM);
}

int main(int argc, char **argv)
{
	writer w = {.name = argc == 6 ? argv[2] : ""};

	if (argc != 6) {
		(void)fprintf(stderr,
			      "usage: crash_writer_main DATABASE NAME SEED PACE_MS "
			      "FILL\n");
		return 2;
	}
	w.random = strtoull(argv[3], NULL, 10) * 2 + 1;
	w.pace_us = 1000 * (unsigned)strtoul(argv[4], NULL, 10);
	w.fill_max = (unsigned)strtoul(argv[5], NULL, 10) % 65536;
	w.fill = malloc(w.fill_max + 1);
	if (!w.fill)
		return 1;
	memset(w.fill, 'x', w.fill_max);
	open_all(&w, argv[1]);
	for (;;) {
		if (!transact(&w) && !sqlite3_get_autocommit(w.handle))
			(void)sqlite3_exec(w.handle, "ROLLBACK", NULL, NULL, NULL);
		think(&w);
	}
}
