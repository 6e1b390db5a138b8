/*
 * Those who write messages, in transactions of plain SQL that may last and may be rolled
 * back; and operators.
 *
 * Where ids are taken early (as a sequence gives them out), several transactions run at
 * once and commit in any order, each alone with its keys; elsewhere one writes at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

int sim_index(const char *message_id, size_t len)
{
	int index = 0;

	if (len < 2 || message_id[0] != 'm')
		return -1;
	for (size_t i = 1; i < len; i++) {
		if (message_id[i] < '0' || message_id[i] > '9')
			return -1;
		index = index * 10 + (message_id[i] - '0');
		if (index >= SIM_MESSAGES)
			return -1;
	}
	return index;
}

static sim_kind draw_kind(sim_world *w)
{
	if (w->calm || sim_below(w, 1000) >= w->plan.bad)
		return SIM_PLAIN;
	return (sim_kind)(1 + sim_below(w, SIM_KINDS - 1));
}

/* A key that no other open transaction has written. */
static int draw_key(sim_world *w, const sim_draft *mine)
{
	int key = sim_below(w, w->plan.keys + 1);

	if (key == w->plan.keys || w->calm)
		return SIM_KEYS;
	for (const sim_draft *d = w->drafts; d < w->drafts + SIM_DRAFTS; d++)
		for (int i = 0; d != mine && d->open && i < d->n; i++)
			if (w->messages[d->rows[i]].key == key)
				return SIM_KEYS;
	return key;
}

/* There are few of a kind that ends relays or connections, or never works. */
static bool too_many(const sim_world *w, sim_kind kind)
{
	int n = 0;

	for (int i = 0; i < w->n_messages; i++)
		n += w->messages[i].kind == kind;
	return (kind == SIM_KILLS_RELAY || kind == SIM_KILLS_CONNECTION ||
		kind == SIM_HOPELESS) &&
	       n >= 2;
}

static int compose(sim_world *w, sim_draft *d)
{
	int index = w->n_messages++;
	sim_message *m = &w->messages[index];
	sim_kind kind = draw_kind(w);

	*m = (sim_message){.key = draw_key(w, d)};
	m->kind = too_many(w, kind) ? SIM_PLAIN : kind;
	m->refusals = 1 + sim_below(w, w->plan.attempts > 2 ? w->plan.attempts - 2 : 1);
	m->place = ++w->place[m->key];
	m->id = w->plan.late ? w->next_id++ : 0;
	d->rows[d->n++] = index;
	return index;
}

/* Half of the keys are written as aggregates. */
static bool insert(sim_world *w, int index)
{
	const sim_message *m = &w->messages[index];
	char sql[400], key[64] = "NULL", id[32] = "NULL", aggregate[40] = "''",
		       type[8] = "";

	if (m->key < SIM_KEYS && m->key % 2)
		(void)snprintf(key, sizeof(key), "'k%d'", m->key);
	else if (m->key < SIM_KEYS) {
		(void)snprintf(aggregate, sizeof(aggregate), "'k%d'", m->key);
		(void)snprintf(type, sizeof(type), "order");
	}
	if (m->id)
		(void)snprintf(id, sizeof(id), "%lld", (long long)m->id);
	(void)snprintf(
		sql, sizeof(sql),
		"INSERT INTO outbox(id, message_id, topic, aggregate_type, aggregate_id, "
		"partition_key, payload) VALUES (%s, 'm%d', 'sim', '%s', %s, %s, "
		"'{\"message\":%d}')",
		id, index, type, aggregate, key, index);
	return sqlite3_exec(w->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static void end(sim_world *w, sim_draft *d, bool commit)
{
	sim_say(w, "a transaction of %d %s", d->n, commit ? "commits" : "is rolled back");
	for (int i = 0; commit && i < d->n; i++)
		w->messages[d->rows[i]].committed = true;
	*d = (sim_draft){.open = false};
}

/* Write all of it, unless it is written already, and commit.  False: the database is
 * locked. */
static bool commit(sim_world *w, sim_draft *d)
{
	bool ok = d->begun ||
		  sqlite3_exec(w->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;

	for (int i = 0; ok && !d->begun && i < d->n; i++)
		ok = insert(w, d->rows[i]);
	ok = ok && sqlite3_exec(w->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
	if (ok)
		end(w, d, true);
	else if (!d->begun)
		(void)sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
	return ok;
}

static void roll_back(sim_world *w, sim_draft *d)
{
	if (d->begun)
		(void)sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
	end(w, d, false);
}

static void begin(sim_world *w, sim_draft *d)
{
	int n = 1 + sim_below(w, SIM_DRAFT_ROWS);

	if (w->n_messages + n > w->plan.messages)
		return;
	*d = (sim_draft){.open = true};
	for (int i = 0; i < n; i++)
		(void)compose(w, d);
	d->commit_by_us = w->now_us + sim_time(w, 800000);
}

/* On a database that takes ids while writing, what is begun locks out all others. */
static void write_and_wait(sim_world *w, sim_draft *d)
{
	if (sqlite3_exec(w->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		return;
	d->begun = true;
	for (int i = 0; i < d->n; i++)
		if (!insert(w, d->rows[i]))
			sim_wrong(w, "insert: %s", sqlite3_errmsg(w->db));
}

void sim_produce(sim_world *w)
{
	sim_draft *d = &w->drafts[w->plan.late ? sim_below(w, SIM_DRAFTS) : 0];

	if (!d->open) {
		begin(w, d);
		if (d->open && !w->plan.late && sim_below(w, 10) == 0)
			write_and_wait(w, d);
		if (!d->open || d->begun || (w->plan.late && sim_below(w, 2)))
			return;
	}
	if (sim_below(w, 6) == 0)
		roll_back(w, d);
	else
		(void)commit(w, d);
}

/* Where a second stands for "every transaction that ran then is over", none lasts longer;
 * and nobody keeps the database locked for ever. */
void sim_produce_due(sim_world *w)
{
	for (sim_draft *d = w->drafts; d < w->drafts + SIM_DRAFTS; d++)
		if (d->open && w->now_us >= d->commit_by_us && !commit(w, d))
			roll_back(w, d);
}

bool sim_produce_settle(sim_world *w)
{
	bool any = false;

	for (sim_draft *d = w->drafts; d < w->drafts + SIM_DRAFTS; d++) {
		if (d->open && !commit(w, d))
			roll_back(w, d);
		any |= d->open;
	}
	return !any;
}

/* Something for the destination to take, by each of the relays, while the last that are
 * open break it. */
void sim_produce_filler(sim_world *w)
{
	sim_draft d = {.open = true};

	if (w->n_messages + SIM_DRAFT_ROWS > SIM_MESSAGES)
		return;
	for (int i = 0; i < 4 * w->plan.relays; i++)
		w->messages[compose(w, &d)].kind = SIM_PLAIN;
	(void)commit(w, &d);
}

/* ---- operators ---- */

static void each_in_state(sim_world *w, int state, void (*fn)(sim_message *m, int64_t n))
{
	sqlite3_stmt *stmt = NULL;

	(void)sqlite3_prepare_v2(
		w->db, "SELECT message_id, generation FROM outbox WHERE status = ?", -1,
		&stmt, NULL);
	(void)sqlite3_bind_int(stmt, 1, state);
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		const char *id = (const char *)sqlite3_column_text(stmt, 0);
		int index = id ? sim_index(id, strlen(id)) : -1;

		if (index >= 0)
			fn(&w->messages[index], sqlite3_column_int64(stmt, 1));
	}
	sqlite3_finalize(stmt);
}

static void note_dead(sim_message *m, int64_t generation)
{
	(void)generation;
	m->died = m->redriven = true;
}

static void note_mended(sim_message *m, int64_t generation)
{
	(void)generation;
	m->kind = SIM_PLAIN;
}

static void note_generation(sim_message *m, int64_t generation)
{
	if (generation == m->generation)
		return;
	m->generation = (int)generation;
	m->deliveries = 0;
	m->last = SIM_NEW;
	m->replayed = true;
}

/* Nobody else can commit between these calls. */
static bool redrive(sim_world *w, bool mend)
{
	wherry_filter filter = {.states = 1U << WHERRY_DEAD};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	if (sqlite3_exec(w->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		return false;
	if (sim_number(w, "SELECT count(*) FROM outbox WHERE status = 4", 0) > 0) {
		each_in_state(w, WHERRY_DEAD, note_dead);
		if (mend)
			each_in_state(w, WHERRY_DEAD, note_mended);
		if (wherry_outbox_redrive(w->box, &filter, &n, &err) != WHERRY_OK)
			sim_wrong(w, "redrive: %s", err.message);
		sim_say(w, "an operator redrives %d", (int)n);
	}
	if (sqlite3_exec(w->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
		(void)sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
		return false; /* locked: what is noted allows more than happened */
	}
	return n > 0;
}

static void replay(sim_world *w)
{
	wherry_filter filter = {.limit = 1 + sim_below(w, 5)};
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	if (wherry_outbox_replay(w->box, &filter, &n, &err) != WHERRY_OK)
		return;
	sim_say(w, "an operator replays %d", (int)n);
	each_in_state(w, WHERRY_PENDING, note_generation);
}

void sim_operate(sim_world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_filter filter = {.states = 1U << WHERRY_FAILED};
	wherry_code code = WHERRY_OK;
	int what = sim_below(w, 6);
	int64_t n = 0;

	for (const sim_draft *d = w->drafts; d < w->drafts + SIM_DRAFTS; d++)
		if (d->begun)
			return; /* it is the same connection */
	if (what == 0)
		code = wherry_outbox_pause(w->box, &err);
	else if (what == 1)
		code = wherry_outbox_resume(w->box, &err);
	else if (what == 2)
		(void)redrive(w, false);
	else if (what == 3)
		replay(w);
	else if (what == 4)
		code = wherry_outbox_redrive(w->box, &filter, &n, &err);
	else
		code = wherry_outbox_purge(w->box, 1000000, 20, 20, &n, &err);
	sim_say(w, "an operator does %d: %s", what, wherry_code_name(code));
	if (code != WHERRY_OK && code != WHERRY_BUSY)
		sim_wrong(w, "an operator meets %s", err.message);
}

bool sim_operate_fix(sim_world *w)
{
	w->fixed = true;
	return redrive(w, true);
}
