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
	if (w->plan.picky && !w->calm && sim_below(w, 4) == 0)
		return sim_below(w, 4) ? SIM_HOPELESS : SIM_REJECTED;
	if (w->calm || w->plan.picky || sim_below(w, 1000) >= w->plan.bad)
		return SIM_PLAIN;
	return (sim_kind)(1 + sim_below(w, SIM_KINDS - 1));
}

/* Has a transaction that committed written it, which others do not see yet? */
static bool is_unseen(const sim_world *w, int key)
{
	for (const sim_commit *c = w->log; c < w->log + w->n_log; c++)
		for (int i = 0; !c->visible && i < c->n; i++)
			if (w->messages[c->rows[i]].key == key)
				return true;
	return false;
}

/* A key that no other open transaction has written. */
static int draw_key(sim_world *w, const sim_draft *mine)
{
	int key = sim_below(w, w->plan.keys + 1);

	if (key == w->plan.keys || w->calm)
		return SIM_KEYS;
	if (is_unseen(w, key))
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

	for (int i = 0; !w->plan.picky && i < w->n_messages; i++)
		n += w->messages[i].kind == kind;
	return (kind == SIM_KILLS_RELAY || kind == SIM_KILLS_CONNECTION ||
		kind == SIM_HOPELESS) &&
	       n >= 2;
}

/*
 * Two limits.  A message that ends its connection stays in the window: if the window holds nothing else but what is
 * refused, the destination seems to be down.  And a relay that writes nothing to rows begins with all of the table
 * again until the first position is written: it remembers the tries of one message that ended its relay, not of two.
 */
static bool blocks(const sim_world *w, sim_kind kind)
{
	enum { ROOM = 8 };
	bool killed = false;

	if (w->plan.engine == SIM_LOG || w->plan.engine == SIM_WAL)
		return false;
	for (int i = 0; i < w->n_messages; i++)
		killed |= w->messages[i].kind == SIM_KILLS_RELAY;
	return (kind == SIM_KILLS_RELAY && killed && w->plan.engine == SIM_UNMARKED) ||
	       (kind == SIM_KILLS_CONNECTION && w->plan.window < ROOM);
}

static int compose(sim_world *w, sim_draft *d)
{
	int index = w->n_messages++;
	sim_message *m = &w->messages[index];
	sim_kind kind = draw_kind(w);

	*m = (sim_message){.key = draw_key(w, d)};
	m->kind = too_many(w, kind) || blocks(w, kind) ? SIM_PLAIN : kind;
	m->refusals = 1 + sim_below(w, w->plan.attempts > 2 ? w->plan.attempts - 2 : 1);
	m->id = w->plan.late ? w->next_id++ : 0;
	m->tx = d->xid;
	d->rows[d->n++] = index;
	return index;
}

/* Half of the keys are written as aggregates. */
void sim_row_of(const sim_world *w, int index, sim_row *out)
{
	const sim_message *m = &w->messages[index];
	bool aggregate = m->key < SIM_KEYS && m->key % 2 == 0;

	*out = (sim_row){
		.id = m->id,
		.created_ms = w->now_us / 1000,
		.tx = m->tx,
		.has_key = m->key < SIM_KEYS && m->key % 2,
	};
	(void)snprintf(out->message_id, sizeof(out->message_id), "m%d", index);
	(void)snprintf(out->payload, sizeof(out->payload), "{\"message\":%d}", index);
	if (out->has_key)
		(void)snprintf(out->key, sizeof(out->key), "k%d", m->key);
	if (!aggregate)
		return;
	(void)snprintf(out->aggregate_type, sizeof(out->aggregate_type), "order");
	(void)snprintf(out->aggregate_id, sizeof(out->aggregate_id), "k%d", m->key);
}

static bool insert(sim_world *w, int index)
{
	const bool has_tx = w->plan.engine == SIM_WAL;
	char sql[400], key[32] = "NULL", id[32] = "NULL", tx[16] = "";
	sim_row row;

	sim_row_of(w, index, &row);
	if (row.has_key)
		(void)snprintf(key, sizeof(key), "'%s'", row.key);
	if (row.id)
		(void)snprintf(id, sizeof(id), "%lld", (long long)row.id);
	if (has_tx)
		(void)snprintf(tx, sizeof(tx), ", %u", (unsigned)row.tx);
	(void)snprintf(
		sql, sizeof(sql),
		"INSERT INTO outbox(id, message_id, topic, aggregate_type, aggregate_id, "
		"partition_key, payload%s) VALUES (%s, '%s', 'sim', '%s', '%s', %s, '%s'%s)",
		has_tx ? ", tx" : "", id, row.message_id, row.aggregate_type,
		row.aggregate_id, key, row.payload, tx);
	return sqlite3_exec(w->db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static void end(sim_world *w, sim_draft *d, bool commit)
{
	sim_say(w, "a transaction of %d %s", d->n, commit ? "commits" : "is rolled back");
	for (int i = 0; commit && i < d->n; i++) {
		sim_message *m = &w->messages[d->rows[i]];

		m->committed = true;
		m->committed_us = w->now_us;
		m->place = ++w->place[m->key];
	}
	*d = (sim_draft){.open = false};
}

bool sim_streams(const sim_world *w)
{
	return w->plan.engine == SIM_UNMARKED || w->plan.engine == SIM_WAL;
}

/* Into the log, whose readers may see it before those of the table do. */
static void log_commit(sim_world *w, sim_draft *d)
{
	sim_commit *c = &w->log[w->n_log];
	int64_t before_us = w->n_log ? c[-1].sent_us : 0;

	w->wal_end += 1 + sim_below(w, 100);
	*c = (sim_commit){
		.at = w->wal_end + d->n,
		.end = w->wal_end + d->n + 1,
		.committed_us = w->now_us,
		.sent_us = w->now_us + sim_time(w, sim_chance(w, 1, 10) ? 300000 : 2000),
		.visible_us = w->now_us,
		.xid = d->xid,
		.n = d->n,
	};
	if (c->sent_us < before_us)
		c->sent_us = before_us;
	if (sim_chance(w, 1, 4)) /* On PostgreSQL it may wait for a standby. */
		c->visible_us += sim_time(
			w, w->plan.engine == SIM_WAL && w->seed % 4 ? 2000000 : 200000);
	memcpy(c->rows, d->rows, sizeof(c->rows));
	w->wal_end = c->end;
	w->n_log++;
	end(w, d, true);
}

/* What is in the log comes into the table, on PostgreSQL in any order; elsewhere one after the other.  False: not all
 * of it did. */
static bool show_commits(sim_world *w)
{
	for (sim_commit *c = w->log; c < w->log + w->n_log; c++) {
		bool ok = true;

		if (c->visible)
			continue;
		if (c->visible_us > w->now_us && !w->calm && w->plan.engine == SIM_WAL)
			continue;
		if (c->visible_us > w->now_us && !w->calm)
			return false;
		if (sqlite3_exec(w->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
			return false;
		for (int i = 0; ok && i < c->n; i++)
			ok = insert(w, c->rows[i]);
		c->visible = ok &&
			     sqlite3_exec(w->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK;
		if (!c->visible) {
			(void)sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
			return false;
		}
	}
	return true;
}

/* Write all of it, unless it is written already, and commit.  False: the database is
 * locked. */
static bool commit(sim_world *w, sim_draft *d)
{
	bool ok;

	if (sim_streams(w)) {
		log_commit(w, d);
		(void)show_commits(w);
		return true;
	}
	ok = d->begun ||
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
	*d = (sim_draft){.open = true, .xid = w->next_xid++};
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
	if (sim_streams(w))
		(void)show_commits(w);
}

bool sim_produce_settle(sim_world *w)
{
	bool any = false;

	for (sim_draft *d = w->drafts; d < w->drafts + SIM_DRAFTS; d++) {
		if (d->open && !commit(w, d))
			roll_back(w, d);
		any |= d->open;
	}
	return !any && (!sim_streams(w) || show_commits(w));
}

/* Something for the destination to take, by each of the relays, while the last that are
 * open break it. */
void sim_produce_filler(sim_world *w)
{
	sim_draft d = {.open = true, .xid = w->next_xid++};

	if (w->n_messages + SIM_DRAFT_ROWS > SIM_MESSAGES)
		return;
	for (int i = 0; i < 4 * w->plan.relays; i++)
		w->messages[compose(w, &d)].kind = SIM_PLAIN;
	(void)commit(w, &d);
}

/* ---- operators ---- */

static void each_in_state(sim_world *w, int state, void (*fn)(sim_message *m))
{
	sqlite3_stmt *stmt = NULL;

	(void)sqlite3_prepare_v2(w->db,
				 "SELECT message_id FROM sim_rows WHERE status = ?", -1,
				 &stmt, NULL);
	(void)sqlite3_bind_int(stmt, 1, state);
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		const char *id = (const char *)sqlite3_column_text(stmt, 0);
		int index = id ? sim_index(id, strlen(id)) : -1;

		if (index >= 0)
			fn(&w->messages[index]);
	}
	sqlite3_finalize(stmt);
}

static void note_dead(sim_message *m)
{
	m->died = m->retried = true;
}

static void note_mended(sim_message *m)
{
	m->kind = SIM_PLAIN;
}

/* Nobody else can commit between these calls. */
static bool retry_dead(sim_world *w, bool mend)
{
	wherry_outbox_filter filter = WHERRY_OUTBOX_FILTER(.states = 1U << WHERRY_DEAD);
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t n = 0;

	if (sqlite3_exec(w->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		return false;
	if (sim_number(w, "SELECT count(*) FROM sim_rows WHERE status = 4", 0) > 0) {
		each_in_state(w, WHERRY_DEAD, note_dead);
		if (mend)
			each_in_state(w, WHERRY_DEAD, note_mended);
		if (wherry_outbox_retry(w->outbox, &filter, &n, &err) != WHERRY_OK)
			sim_wrong(w, "retry: %s", err.message);
		sim_say(w, "an operator retries %d", (int)n);
	}
	if (sqlite3_exec(w->db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) {
		(void)sqlite3_exec(w->db, "ROLLBACK", NULL, NULL, NULL);
		return false; /* locked: what is noted allows more than happened */
	}
	return n > 0;
}

void sim_operate(sim_world *w)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_filter filter = WHERRY_OUTBOX_FILTER(.states = 1U << WHERRY_FAILED);
	wherry_code code = WHERRY_OK;
	/* Rows that say nothing of what became of them leave pauses to do. */
	int what = sim_below(w, w->plan.engine == SIM_UNMARKED ? 2 : 5);
	int64_t n = 0;

	for (const sim_draft *d = w->drafts; d < w->drafts + SIM_DRAFTS; d++)
		if (d->begun)
			return; /* it is the same connection */
	if (what == 0)
		code = wherry_outbox_pause(w->outbox, &err);
	else if (what == 1)
		code = wherry_outbox_resume(w->outbox, &err);
	else if (what == 2)
		(void)retry_dead(w, false);
	else if (what == 3)
		code = wherry_outbox_retry(w->outbox, &filter, &n, &err);
	else
		code = wherry_outbox_purge(w->outbox, 1000000, 20, 20, &n, &err);
	sim_say(w, "an operator does %d: %s", what, wherry_code_name(code));
	if (code != WHERRY_OK && code != WHERRY_BUSY)
		sim_wrong(w, "an operator meets %s", err.message);
}

bool sim_operate_fix(sim_world *w)
{
	w->fixed = true;
	return retry_dead(w, true);
}
