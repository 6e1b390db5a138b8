/*
 * A writer for kill.sh, on an SQLite connection of its own: a few messages a transaction,
 * each with its row in the table ledger, some of it rolled back.  Ends when killed.
 *
 *     system_kill_main DATABASE NAME SEED
 */
#include <inttypes.h>
#include <sqlite3.h>
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
	uint64_t random;
	long n; /* messages so far, also those rolled back */
} writer;

static void die(const writer *w, const char *what, const wherry_error *err)
{
	(void)fprintf(stderr, "%s: %s: %s\n", w->name, what,
		      err ? err->message : sqlite3_errmsg(w->handle));
	exit(1);
}

static void sql(const writer *w, const char *text)
{
	if (sqlite3_exec(w->handle, text, NULL, NULL, NULL) != SQLITE_OK)
		die(w, text, NULL);
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
static int64_t next_of(const writer *w, const char *key)
{
	int64_t n;

	if (sqlite3_bind_text(w->next, 1, key, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_step(w->next) != SQLITE_ROW)
		die(w, "next", NULL);
	n = sqlite3_column_int64(w->next, 0);
	(void)sqlite3_reset(w->next);
	return n;
}

static void note(const writer *w, const char *id, const char *key, int64_t n)
{
	if (sqlite3_bind_text(w->note, 1, id, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_text(w->note, 2, key, -1, SQLITE_STATIC) != SQLITE_OK ||
	    sqlite3_bind_int64(w->note, 3, n) != SQLITE_OK ||
	    sqlite3_step(w->note) != SQLITE_DONE)
		die(w, "note", NULL);
	(void)sqlite3_reset(w->note);
}

static void send(writer *w)
{
	static const char *const kinds[] = {"key", "aggregate", ""};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message msg = WHERRY_MESSAGE(.topic = "kill");
	const char *kind = kinds[pick(w, 20) % 3];
	char id[64], name[32], key[64], body[128];
	int64_t n;

	(void)snprintf(id, sizeof(id), "%s-%ld", w->name, w->n++);
	(void)snprintf(name, sizeof(name), "%u", pick(w, 6));
	(void)snprintf(key, sizeof(key), "%s%s%s", kind, *kind ? ":" : "",
		       *kind ? name : "");
	n = next_of(w, key);
	(void)snprintf(body, sizeof(body), "{\"k\":\"%s\",\"n\":%" PRId64 "}", key, n);
	msg.message_id = id;
	msg.body = body;
	msg.body_len = strlen(body);
	if (*kind == 'k') {
		msg.key = name;
	} else if (*kind == 'a') {
		msg.aggregate_type = "thing";
		msg.aggregate_id = name;
	}
	if (wherry_outbox_enqueue(w->outbox, &msg, 0, NULL, &err) != WHERRY_OK)
		die(w, "enqueue", &err);
	note(w, id, key, n);
}

static void think(writer *w)
{
	struct timespec t = {0, 1000 * (long)pick(w, 20000)};

	(void)nanosleep(&t, NULL);
}

static void transact(writer *w)
{
	unsigned n = 1 + pick(w, 8);

	sql(w, "BEGIN IMMEDIATE");
	for (unsigned i = 0; i < n; i++)
		send(w);
	if (pick(w, 4) == 0) { /* change one's mind about some of it */
		sql(w, "SAVEPOINT some");
		send(w);
		sql(w, "ROLLBACK TO some");
		sql(w, "RELEASE some");
	}
	if (pick(w, 50) == 0)
		think(w); /* so that a kill may come here */
	sql(w, pick(w, 5) == 0 ? "ROLLBACK" : "COMMIT");
}

static void open_all(writer *w, const char *path)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (sqlite3_open(path, &w->handle) != SQLITE_OK ||
	    sqlite3_busy_timeout(w->handle, 60000) != SQLITE_OK)
		die(w, "open", NULL);
	if (sqlite3_prepare_v2(w->handle,
			       "SELECT coalesce(max(n), 0) + 1 FROM ledger WHERE k = ?1",
			       -1, &w->next, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(w->handle, "INSERT INTO ledger VALUES (?1, ?2, ?3)", -1,
			       &w->note, NULL) != SQLITE_OK)
		die(w, "prepare", NULL);
	if (wherry_sqlite_borrow(w->handle, &w->db, &err) != WHERRY_OK ||
	    wherry_outbox_open(w->db, "outbox", &w->outbox, &err) != WHERRY_OK)
		die(w, "open", &err);
}

int main(int argc, char **argv)
{
	writer w = {.name = argc == 4 ? argv[2] : ""};

	if (argc != 4) {
		(void)fprintf(stderr, "usage: system_kill_main DATABASE NAME SEED\n");
		return 2;
	}
	w.random = strtoull(argv[3], NULL, 10) * 2 + 1;
	open_all(&w, argv[1]);
	for (;;) {
		transact(&w);
		think(&w);
	}
}
