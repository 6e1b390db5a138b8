/*
 * A writer on PostgreSQL: a few messages a transaction, each with its row in the table
 * ledger, some of it rolled back; by plain SQL, or with wherry_outbox_enqueue() on its own
 * connection.  Transactions that write a key come one after the other, since they update its
 * row in the table counter.  A lost connection is made again.  Ends when killed.
 *
 *     crash_postgres_main URL NAME SEED PACE_MS FILL
 */
#include <inttypes.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <wherry/postgres.h>
#include <wherry/wherry.h>

typedef struct writer {
	const char *url, *name;
	PGconn *conn;
	wherry_db *db;
	wherry_outbox *outbox;
	char *fill; /* for large bodies, */
	unsigned fill_max, pace_us;
	uint64_t random;
	long n;     /* messages so far, also those rolled back */
	bool plain; /* this transaction's are written by plain SQL */
} writer;

typedef struct place {
	char kind[16], name[16], key[40];
	int64_t n; /* within its key */
} place;

/* xorshift64 */
static unsigned pick(writer *w, unsigned n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (unsigned)(w->random >> 33) % n;
}

static void nap(unsigned us)
{
	struct timespec wait = {us / 1000000, us % 1000000 * 1000};

	(void)nanosleep(&wait, NULL);
}

/* ---- failures ---- */

/* What a server that is killed, two writers at once and an operator may do to one. */
static bool may_be(const char *state)
{
	static const char *const states[] = {"40001", "40P01", "57P01", "57P02",
					     "57P03", "08",    "53300"};

	for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++)
		if (strncmp(state, states[i], strlen(states[i])) == 0)
			return true;
	return false;
}

/* Anything else ends the writer. */
static bool failed(const writer *w, const char *what, const char *state, const char *why)
{
	if (PQstatus(w->conn) == CONNECTION_BAD || !state || may_be(state))
		return false; /* without a state it is libpq's: the connection is gone */
	(void)fprintf(stderr, "%s: %s: %s %s\n", w->name, what, state, why);
	exit(1);
}

static bool pass(const writer *w, wherry_code code, const wherry_error *err)
{
	wherry_remedy remedy = wherry_code_remedy(code);

	if (code == WHERRY_OK)
		return true;
	if (remedy != WHERRY_REMEDY_FIX)
		return false;
	return failed(w, "wherry", err->sqlstate, err->message);
}

/* The first column of the last row, if there is one. */
static bool sql(const writer *w, const char *text, int n, const char *const *values,
		int64_t *out)
{
	PGresult *res = PQexecParams(w->conn, text, n, NULL, values, NULL, NULL, 0);
	ExecStatusType status = PQresultStatus(res);
	bool done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;

	if (done && out && PQntuples(res) > 0)
		*out = strtoll(PQgetvalue(res, PQntuples(res) - 1, 0), NULL, 10);
	if (!done)
		done = failed(w, text, PQresultErrorField(res, PG_DIAG_SQLSTATE),
			      PQerrorMessage(w->conn));
	PQclear(res);
	return done;
}

static bool say(const writer *w, const char *text)
{
	return sql(w, text, 0, NULL, NULL);
}

/* ---- a message ---- */

static void make_place(writer *w, place *out)
{
	static const char *const kinds[] = {"key", "key", "aggregate", ""};
	const char *kind = kinds[pick(w, 4)];

	*out = (place){.n = 0};
	(void)snprintf(out->kind, sizeof(out->kind), "%s", kind);
	(void)snprintf(out->name, sizeof(out->name), "%u", pick(w, 6));
	if (*kind)
		(void)snprintf(out->key, sizeof(out->key), "%s:%s", kind, out->name);
}

/* From here on nobody else writes this key before this transaction ends. */
static bool take_place(const writer *w, place *p)
{
	return !*p->key ||
	       sql(w,
		   "INSERT INTO counter AS c VALUES ($1, 1) ON CONFLICT (k) DO "
		   "UPDATE SET n = c.n + 1 RETURNING n",
		   1, (const char *const[]){p->key}, &p->n);
}

static bool enqueue(const writer *w, const place *p, const char *id, const char *body)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message msg = WHERRY_MESSAGE(.message_id = id, .topic = "crash",
					    .body = body, .body_len = strlen(body));
	const char *const values[] = {
		id,
		*p->kind == 'a' ? "thing" : "",
		*p->kind == 'a' ? p->name : "",
		*p->kind == 'k' ? p->name : NULL,
		body,
	};

	if (w->plain)
		return sql(w,
			   "INSERT INTO outbox(message_id, topic, aggregate_type, "
			   "aggregate_id, partition_key, payload) "
			   "VALUES ($1, 'crash', $2, $3, $4, $5)",
			   5, values, NULL);
	msg.aggregate_type = values[1];
	msg.aggregate_id = values[2];
	msg.key = values[3];
	return pass(w, wherry_outbox_enqueue(w->outbox, &msg, 0, NULL, &err), &err);
}

static bool send(writer *w)
{
	static char body[65536 + 128];
	int fill = w->fill_max && pick(w, 50) == 0 ? (int)pick(w, w->fill_max) : 0;
	char id[64], n[24];
	place p;

	make_place(w, &p);
	(void)snprintf(id, sizeof(id), "%s-%ld", w->name, w->n++);
	if (!take_place(w, &p))
		return false;
	(void)snprintf(n, sizeof(n), "%" PRId64, p.n);
	(void)snprintf(body, sizeof(body), "{\"k\":\"%s\",\"n\":%s,\"fill\":\"%.*s\"}",
		       p.key, n, fill, w->fill);
	return sql(w, "INSERT INTO ledger VALUES ($1, $2, $3)", 3,
		   (const char *const[]){id, p.key, n}, NULL) &&
	       enqueue(w, &p, id, body);
}

/* ---- a transaction ---- */

static bool transact(writer *w)
{
	unsigned n = 1 + pick(w, 8);

	w->plain = pick(w, 2);
	if (!say(w, pick(w, 3) ? "BEGIN" : "BEGIN ISOLATION LEVEL REPEATABLE READ"))
		return false;
	for (unsigned i = 0; i < n; i++)
		if (!send(w))
			return false;
	if (pick(w, 4) == 0 && /* change one's mind about some of it */
	    !(say(w, "SAVEPOINT part") && send(w) && say(w, "ROLLBACK TO part") &&
	      say(w, "RELEASE part")))
		return false;
	if (pick(w, 20) == 0)
		nap(pick(w, 100000)); /* others commit higher ids meanwhile */
	return say(w, pick(w, 5) == 0 ? "ROLLBACK" : "COMMIT");
}

/* ---- the connection ---- */

static void disconnect(writer *w)
{
	wherry_outbox_close(w->outbox);
	wherry_db_close(w->db);
	PQfinish(w->conn);
	w->outbox = NULL;
	w->db = NULL;
	w->conn = NULL;
}

static bool connect(writer *w)
{
	wherry_error err = WHERRY_ERROR_INIT;

	w->conn = PQconnectdb(w->url);
	return PQstatus(w->conn) == CONNECTION_OK &&
	       say(w, "SET client_min_messages = warning") &&
	       pass(w, wherry_postgres_borrow(w->conn, &w->db, &err), &err) &&
	       pass(w, wherry_outbox_open(w->db, "outbox", &w->outbox, &err), &err);
}

int main(int argc, char **argv)
{
	writer w = {.url = argv[1]};

	if (argc != 6) {
		(void)fprintf(stderr, "usage: crash_postgres_main URL NAME SEED PACE_MS "
				      "FILL\n");
		return 2;
	}
	w.name = argv[2];
	w.random = strtoull(argv[3], NULL, 10) * 2 + 1;
	w.pace_us = 1000 * (unsigned)strtoul(argv[4], NULL, 10) + 1;
	w.fill_max = (unsigned)strtoul(argv[5], NULL, 10) % 65536;
	w.fill = malloc(w.fill_max + 1);
	if (!w.fill)
		return 1;
	memset(w.fill, 'x', w.fill_max);
	for (;;) {
		if (!w.conn && !connect(&w)) {
			disconnect(&w);
			nap(20000);
			continue;
		}
		if (!transact(&w) && !say(&w, "ROLLBACK"))
			disconnect(&w);
		else
			nap(pick(&w, w.pace_us));
	}
}
