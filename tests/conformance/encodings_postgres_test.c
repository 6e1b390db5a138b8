/*
 * Texts that have no form in UTF-8, in databases of four encodings, for connections on which an
 * application's SQL runs, too: its own, which it lends, and those of wherry_db_open().
 * tests/crash/encodings.py does the same for the commands.
 */
#include "wherry_test.h"

#include <wherry/postgres.h>
#include <wherry/wherry.h>

#include "postgres/server.h"

/* In UTF-8 the row has a character that exists. */
static const struct {
	const char *name, *byte;
} encodings[] = {
	{"LATIN1", "\\xe4"},
	{"WIN1252", "\\x81"},
	{"SQL_ASCII", "\\xff"},
	{"UTF8", "\\xc3\\xa4"},
};

enum { ENCODINGS = sizeof(encodings) / sizeof(*encodings), GOOD = 2 };

typedef struct place {
	char url[200];
	const char *byte;
	PGconn *conn; /* NULL: the connection is not lent. */
	wherry_db *db;
} place;

static void url_of(int which, char *out, size_t cap)
{
	(void)snprintf(out, cap, "postgresql://wherry@/in_%s?host=%s",
		       encodings[which].name, postgres_folder());
}

static bool make_databases(void)
{
	char url[200], sql[200];

	(void)snprintf(url, sizeof(url), "postgresql://wherry@/postgres?host=%s",
		       postgres_folder());
	for (int i = 0; i < ENCODINGS; i++) {
		(void)snprintf(
			sql, sizeof(sql),
			"CREATE DATABASE \"in_%s\" ENCODING '%s' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'",
			encodings[i].name, encodings[i].name);
		if (!postgres_raw(url, sql, NULL, 0))
			return false;
	}
	return true;
}

static void enter(place *p, int which, bool lent)
{
	wherry_error err = WHERRY_ERROR_INIT;

	*p = (place){.byte = encodings[which].byte};
	url_of(which, p->url, sizeof(p->url));
	if (!lent) {
		WHERRY_PASS(wherry_db_open(p->url, NULL, &p->db, &err));
		return;
	}
	p->conn = PQconnectdb(p->url);
	assert_int_equal(PQsetClientEncoding(p->conn, "UTF8"), 0);
	WHERRY_PASS(wherry_postgres_borrow(p->conn, &p->db, &err));
}

/* The application's texts are in its encoding, as before. */
static void leave(place *p)
{
	char got[24] = "";

	assert_true(postgres_exec(wherry_postgres_handle(p->db), "SHOW client_encoding",
				  got, sizeof(got)));
	assert_string_equal(got, "UTF8");
	wherry_db_close(p->db);
	PQfinish(p->conn);
}

/* Good rows, and among them one for each column that has the byte there. */
static void fill(const place *p, const char *table, const char *before,
		 const char *behind, const char *const *columns)
{
	char sql[1000];

	for (int i = 0; columns[i]; i++) {
		bool json = strcmp(columns[i], "headers") == 0;

		(void)snprintf(sql, sizeof(sql), "INSERT INTO %s%s'%s %d'%s", table,
			       before, i < GOOD ? "good" : "more", i, behind);
		assert_true(postgres_raw(p->url, sql, NULL, 0));
		(void)snprintf(sql, sizeof(sql), "INSERT INTO %s%s'odd %d'%s", table,
			       before, i, behind);
		assert_true(postgres_raw(p->url, sql, NULL, 0));
		(void)snprintf(
			sql, sizeof(sql),
			"UPDATE %s SET %s = (E'%s%s%s')%s WHERE id = (SELECT max(id) FROM %s)",
			table, columns[i], json ? "{\"a\":\"" : "odd ", p->byte,
			json ? "\"}" : "", json ? "::json" : "", table);
		assert_true(postgres_raw(p->url, sql, NULL, 0));
	}
}

typedef struct got {
	int good, n;
} got;

static void note(got *g, const void *body, size_t len)
{
	g->n++;
	g->good += len > 4 && memcmp(body, "good", 4) == 0;
}

static wherry_code note_message(void *ctx, const wherry_queue_message *m)
{
	note(ctx, m->body, m->body_len);
	return WHERRY_OK;
}

static wherry_code note_delayed(void *ctx, const wherry_delayed_message *m)
{
	note(ctx, m->key, strlen(m->key));
	return WHERRY_OK;
}

static wherry_code note_row(void *ctx, const wherry_row *row)
{
	note(ctx, row->message->message_id, strlen(row->message->message_id));
	return WHERRY_OK;
}

/* ---- each model ---- */

static void receive_all(place *p, wherry_queue *queue, wherry_receive_mode mode)
{
	const wherry_receive_options some =
		WHERRY_RECEIVE_OPTIONS(.mode = mode, .limit = 2, .lease_us = 600000000);
	wherry_error err = WHERRY_ERROR_INIT;
	got g = {0};

	for (int64_t n = 1; n > 0;) {
		if (mode == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_begin(p->db, &err));
		WHERRY_PASS(
			wherry_queue_receive(queue, &some, note_message, &g, &n, &err));
		if (mode == WHERRY_ATOMIC)
			WHERRY_PASS(wherry_db_commit(p->db, &err));
	}
	assert_int_equal(g.good, GOOD);
}

static void receives(place *p)
{
	static const char *const columns[] = {"message_id", "topic",   "correlation_id",
					      "reply_to",   "headers", "body",
					      NULL};
	static const wherry_receive_mode modes[] = {WHERRY_LEASE, WHERRY_ATOMIC,
						    WHERRY_AT_MOST_ONCE};
	const wherry_queue_options text = WHERRY_QUEUE_OPTIONS(.payload = "text");
	const wherry_queue_message sent =
		WHERRY_QUEUE_MESSAGE(.body = "good \xc3\xa4", .body_len = WHERRY_TEXT,
				     .topic = "\xc3\xa4");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue *queue = NULL;

	for (int i = 0; i < 3; i++) {
		got g = {0};

		WHERRY_PASS(wherry_queue_create(p->db, "jobs", &text, &err));
		WHERRY_PASS(wherry_queue_open(p->db, "jobs", &queue, &err));
		fill(p, "jobs", "(topic, body) VALUES ('t', ", ")", columns);
		WHERRY_PASS(wherry_queue_peek(queue, NULL, note_message, &g, &err));
		assert_int_equal(g.good, GOOD);
		receive_all(p, queue, modes[i]);
		assert_true(postgres_raw(p->url, "DELETE FROM jobs", NULL, 0));
		WHERRY_PASS(wherry_queue_send(queue, &sent, NULL, &err));
		g = (got){0};
		WHERRY_PASS(
			wherry_queue_receive(queue, NULL, note_message, &g, NULL, &err));
		assert_int_equal(g.good, 1);
		WHERRY_PASS(wherry_queue_drop(queue, &err));
		wherry_queue_close(queue);
	}
}

static void polls(place *p)
{
	static const char *const columns[] = {"\"pKey\"", "last_error", NULL};
	const wherry_poll_options some =
		WHERRY_POLL_OPTIONS(.limit = 2, .lease_us = 600000000);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed *queue = NULL;
	got g = {0};

	WHERRY_PASS(wherry_delayed_create(p->db, NULL, NULL, &err));
	WHERRY_PASS(wherry_delayed_open(p->db, NULL, "mail", NULL, &queue, &err));
	fill(p, "delayed",
	     "(\"pKey\", \"pKind\", payload, \"scheduledAt\", \"scheduledAtInitially\", \"createdAt\") VALUES (",
	     ", md5('mail|bytes'), 'x', 1000, 1000, 1000)", columns);
	WHERRY_PASS(wherry_delayed_list(queue, &WHERRY_DELAYED_FILTER(.limit = 9),
					note_delayed, &g, &err));
	assert_int_equal(g.good, GOOD);
	g = (got){0};
	for (int64_t n = 1; n > 0;)
		WHERRY_PASS(
			wherry_delayed_poll(queue, &some, note_delayed, &g, &n, &err));
	assert_int_equal(g.good, GOOD);
	WHERRY_PASS(wherry_delayed_drop(queue, &err));
	wherry_delayed_close(queue);
}

static void lists(place *p)
{
	static const char *const columns[] = {"topic",   "aggregate_id", "partition_key",
					      "headers", "trace_id",     "payload",
					      NULL};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox *box = NULL;
	got g = {0};

	WHERRY_PASS(wherry_outbox_create(
		p->db, "outbox", &WHERRY_OUTBOX_OPTIONS(.payload = "text"), &err));
	WHERRY_PASS(wherry_outbox_open(p->db, "outbox", &box, &err));
	fill(p, "outbox", "(message_id, topic, payload) VALUES (", ", 't', 'x')",
	     columns);
	WHERRY_PASS(wherry_outbox_list(box, &WHERRY_OUTBOX_FILTER(.limit = 99), note_row,
				       &g, &err));
	assert_int_equal(g.good, GOOD);
	wherry_outbox_close(box);
	assert_true(postgres_raw(
		p->url, "DROP TABLE outbox, outbox_progress, outbox_exception CASCADE",
		NULL, 0));
}

/* ---- */

WHERRY_TEST(one_text_without_a_form_in_utf_8_stops_no_call)
{
	for (int i = 0; i < ENCODINGS; i++) {
		for (int lent = 0; lent < 2; lent++) {
			place p;

			print_message("# %s, %s\n", encodings[i].name,
				      lent ? "a connection that is lent"
					   : "wherry_db_open()");
			enter(&p, i, lent);
			receives(&p);
			polls(&p);
			lists(&p);
			leave(&p);
		}
	}
}

/* The end of an aborted transaction sets the encoding back. */
WHERRY_TEST(a_call_that_fails_leaves_the_application_its_encoding)
{
	wherry_error err = WHERRY_ERROR_INIT;

	for (int i = 0; i < ENCODINGS; i++) {
		wherry_queue *queue = NULL;
		got g = {0};
		place p;

		enter(&p, i, true);
		WHERRY_PASS(wherry_queue_create(p.db, "jobs", NULL, &err));
		WHERRY_PASS(wherry_queue_open(p.db, "jobs", &queue, &err));
		assert_true(postgres_exec(p.conn, "BEGIN; DROP TABLE jobs", NULL, 0));
		WHERRY_FAILS(
			WHERRY_NOTFOUND,
			wherry_queue_receive(queue, NULL, note_message, &g, NULL, &err));
		assert_true(postgres_exec(p.conn, "ROLLBACK", NULL, 0));
		WHERRY_PASS(
			wherry_queue_receive(queue, NULL, note_message, &g, NULL, &err));
		WHERRY_PASS(wherry_queue_drop(queue, &err));
		wherry_queue_close(queue);
		leave(&p);
	}
}

int main(void)
{
	if (!postgres_start())
		return 0;
	if (!make_databases())
		return 1;
	return wherry_run_tests(NULL, NULL);
}
