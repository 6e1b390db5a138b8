/*
 * A producer or a consumer of a delayed queue.  Runs until it is killed.
 *
 *     crash_delayed_postgres_main ROLE DATABASE NAME KEYS
 *
 * ROLE is produce, or how messages are consumed: atomic: polled, applied and acknowledged in one
 * transaction; lease: polled under a lease, then applied and acknowledged in one transaction;
 * apart: applied, and then acknowledged.  DATABASE is the file of a SQLite database, or a URL of
 * PostgreSQL or SQL Server.  NAME is that of the process.  KEYS: how many keys messages have.
 *
 * The table "offered" has each offer that was committed, and whether it created its message, and each
 * drop of a message as an offer of "drop NAME" that created none; "applied" has each message that was applied, and by whom.
 */
#include "app_postgres.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	DROPS = 10, /* One of so many operations of a producer drops a message. */
	BATCH = 3,
	LEASE_US = 700000,
	APART_LEASE_US = 5000000, /* Longer than a process can be kept from working. */
	DELAY_MS_MOST = 60,
	PAUSE_US = 4000,
	WAIT_US = 200000
};

typedef struct program {
	const char *role, *name;
	app app;
	wherry_delayed *queue;
	unsigned random, keys;
	int n; /* offers */
	struct {
		char token[100], body[60];
	} polled[BATCH];
	int n_polled;
} program;

static bool open_program(program *p, const char *database, wherry_error *err)
{
	if (!app_open(&p->app, database, err))
		return false;
	return wherry_delayed_open(p->app.db, NULL, "moves", NULL, &p->queue, err) ==
	       WHERRY_OK;
}

static unsigned below(program *p, unsigned n)
{
	p->random = p->random * 1664525 + 1013904223;
	return (p->random >> 8) % n;
}

/* End the transaction that is open, by what its statements said. */
static wherry_code finish(program *p, wherry_code code, wherry_error *err)
{
	if (code == WHERRY_OK)
		return wherry_db_commit(p->app.db, err);
	wherry_db_rollback(p->app.db);
	return code;
}

/* ---- producers ---- */

static wherry_code offer(program *p, const char *key, const char *body, bool *out_created,
			 wherry_error *err)
{
	wherry_offer_outcome outcome = WHERRY_IGNORED;
	wherry_code code = wherry_delayed_offer(
		p->queue,
		&WHERRY_DELAYED_MESSAGE(.key = key, .body = body, .body_len = WHERRY_TEXT,
					.delay_us = below(p, DELAY_MS_MOST) * 1000),
		&outcome, err);

	*out_created = outcome == WHERRY_CREATED;
	return code;
}

static wherry_code produce(program *p, wherry_error *err)
{
	bool drops = below(p, DROPS) == 0, created = false, found = true;
	char key[24], body[60], sql[200];
	wherry_code code;

	(void)snprintf(key, sizeof(key), "k%u", below(p, p->keys));
	(void)snprintf(body, sizeof(body), "%s%.30s-%d", drops ? "drop " : "", p->name,
		       p->n++);
	code = wherry_db_begin(p->app.db, err);
	if (code != WHERRY_OK)
		return code;
	code = drops ? wherry_delayed_drop_key(p->queue, key, &found, err)
		     : offer(p, key, body, &created, err);
	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO offered(k, body, created) VALUES ('%s', '%s', %d)",
		       key, body, created);
	if (code == WHERRY_OK && found && !app_run(&p->app, sql))
		code = WHERRY_BUSY;
	code = finish(p, code, err);
	(void)usleep(PAUSE_US);
	return code;
}

/* ---- consumers ---- */

static wherry_code note(void *ctx, const wherry_delayed_message *msg)
{
	program *p = ctx;

	(void)snprintf(p->polled[p->n_polled].token, sizeof(p->polled->token), "%s",
		       msg->token);
	(void)snprintf(p->polled[p->n_polled].body, sizeof(p->polled->body), "%.*s",
		       (int)msg->body_len, (const char *)msg->body);
	p->n_polled++;
	return WHERRY_OK;
}

static wherry_code poll(program *p, int64_t lease_us, wherry_error *err)
{
	const wherry_poll_options options =
		WHERRY_POLL_OPTIONS(.limit = BATCH, .lease_us = lease_us);

	p->n_polled = 0;
	return wherry_delayed_poll(p->queue, &options, note, p, NULL, err);
}

static wherry_code apply(program *p, int i)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO applied(body, who) VALUES ('%s', '%.30s')",
		       p->polled[i].body, p->name);
	return app_run(&p->app, sql) ? WHERRY_OK : WHERRY_BUSY;
}

/* STALE: it was replaced, or another consumer has it. */
static wherry_code acknowledge(program *p, int i, wherry_error *err)
{
	const char *token = p->polled[i].token;
	wherry_ack_outcome outcome = WHERRY_ACKNOWLEDGED;
	wherry_code code = wherry_delayed_ack(p->queue, &token, 1, &outcome, err);

	return code == WHERRY_OK && outcome != WHERRY_ACKNOWLEDGED ? WHERRY_STALE : code;
}

static wherry_code consume_atomically(program *p, wherry_error *err)
{
	wherry_code code = wherry_db_begin(p->app.db, err);

	if (code != WHERRY_OK)
		return code;
	code = poll(p, app_lease_us(&p->app, LEASE_US), err);
	for (int i = 0; code == WHERRY_OK && i < p->n_polled; i++) {
		code = apply(p, i);
		if (code == WHERRY_OK)
			code = acknowledge(p, i, err);
	}
	return finish(p, code, err);
}

static wherry_code consume_leased(program *p, wherry_error *err)
{
	wherry_code code = poll(p, app_lease_us(&p->app, LEASE_US), err);

	for (int i = 0; code == WHERRY_OK && i < p->n_polled; i++) {
		code = wherry_db_begin(p->app.db, err);
		if (code != WHERRY_OK)
			break;
		code = apply(p, i);
		if (code == WHERRY_OK)
			code = acknowledge(p, i, err);
		code = finish(p, code, err);
		if (code == WHERRY_STALE)
			code = WHERRY_OK; /* Not applied: nothing was committed. */
	}
	return code;
}

static wherry_code note_late(program *p, int i)
{
	char sql[200];

	(void)snprintf(sql, sizeof(sql),
		       "INSERT INTO late(body, who) VALUES ('%s', '%.30s')",
		       p->polled[i].body, p->name);
	return app_run(&p->app, sql) ? WHERRY_OK : WHERRY_BUSY;
}

static wherry_code consume_apart(program *p, wherry_error *err)
{
	wherry_code code = poll(p, app_lease_us(&p->app, APART_LEASE_US), err);

	for (int i = 0; code == WHERRY_OK && i < p->n_polled; i++) {
		code = apply(p, i);
		if (code == WHERRY_OK)
			code = acknowledge(p, i, err);
		if (code == WHERRY_STALE) /* applied, and another has it */
			code = note_late(p, i);
	}
	return code;
}

static wherry_code step(program *p, wherry_error *err)
{
	wherry_code code;
	bool any;

	if (strcmp(p->role, "produce") == 0)
		return produce(p, err);
	code = strcmp(p->role, "atomic") == 0  ? consume_atomically(p, err)
	       : strcmp(p->role, "lease") == 0 ? consume_leased(p, err)
					       : consume_apart(p, err);
	if (code == WHERRY_OK && !p->n_polled)
		code = wherry_delayed_wait(p->queue, WAIT_US, &any, err);
	return code;
}

int main(int argc, char **argv)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	program p = {.n = 0};

	if (argc != 5)
		return 2;
	p.keys = (unsigned)strtoul(argv[4], NULL, 10);
	p.role = argv[1];
	p.name = argv[3];
	for (const char *c = p.name; *c; c++)
		p.random = p.random * 31 + (unsigned char)*c;
	if (!open_program(&p, argv[2], &err)) {
		(void)fprintf(stderr, "cannot begin: %s\n", err.message);
		return 1;
	}
	while (code == WHERRY_OK || code == WHERRY_CONFLICT || code == WHERRY_BUSY)
		code = step(&p, &err);
	(void)fprintf(stderr, "%s ends: %s\n", p.role, err.message);
	return 1;
}
