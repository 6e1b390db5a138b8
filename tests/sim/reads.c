/*
 * The server and the producers around an exclusive relay: rows, locks, row versions, transactions,
 * and the checks of what the relay delivers.
 */
#include "reads.h"

#include "model.h"

#include <stdio.h>

struct reads reads;

unsigned reads_chance(unsigned n)
{
	return model_chance(&reads.random, n);
}

void reads_fail(const char *what, int id, int other)
{
	if (!*reads.wrong)
		(void)snprintf(reads.wrong, sizeof(reads.wrong),
			       "step %lld: %s (rows %d and %d)", (long long)reads.now,
			       what, id, other);
}

/* ---- locks and row versions ---- */

bool reads_can_read(int id, part which)
{
	const row *r = &reads.rows[id];

	return r->there[which] && r->held[which] == NOBODY;
}

void reads_lock(int who, int id)
{
	for (int k = 0; k < PARTS; k++)
		reads.rows[id].held[k] = who;
}

void reads_take_version(process *p)
{
	reads.dbts++;
	if (!p->version)
		p->version = reads.dbts;
}

int64_t reads_oldest(void)
{
	int64_t oldest = reads.dbts + 1;

	for (int i = 0; i < PROCESSES; i++)
		if (reads.all[i].version && reads.all[i].version < oldest)
			oldest = reads.all[i].version;
	return oldest;
}

/* ---- producers ---- */

enum { START, TAKE_ID, TAKE_VERSION, ADD_ROW, ADD_ENTRY, INSERTED, ENDING };

/* Most messages of a phase have one key. */
static void take_id(process *p)
{
	enum { PHASE = 16 };
	int id = ++reads.n_ids, hot = 1 + (reads.hot_key + id / PHASE) % (KEYS - 1);

	reads.rows[id].key = reads_chance(3) ? hot : (int)reads_chance(KEYS);
	p->horizons = 0;
	p->ids[p->i] = id;
	p->patience = reads_chance(6) ? 0 : (int)reads_chance(20);
	p->at = TAKE_VERSION;
}

/* In some games two producers stay open for most of the time. */
static int patience(int who)
{
	if (reads.closing)
		return 0;
	if (who < 2 && reads.long_open)
		return 60 + (int)reads_chance(100);
	return (int)(reads_chance(8) ? reads_chance(6) : 40);
}

static void start(process *p)
{
	p->n = 1 + (int)reads_chance(RUN);
	p->i = 0;
	p->commits = reads_chance(5);
	p->at = reads.closing || reads.n_ids + PRODUCERS * RUN > IDS ? START : TAKE_ID;
}

static void inserted(int who, process *p)
{
	reads.rows[p->ids[p->i]].complete = reads.now;
	p->at = ++p->i < p->n ? TAKE_ID : ENDING;
	p->patience = p->at == ENDING ? patience(who) : (int)reads_chance(2);
	p->i = p->at == ENDING ? 0 : p->i;
}

/* A commit gives the locks back row by row, of the entry before that of the row. A rollback takes the
 * rows out, the last one first. The row version is active until then. */
static void end(process *p)
{
	int id;

	if (p->i == p->n) {
		p->version = 0;
		p->at = START;
		p->patience = (int)reads_chance(4);
		return;
	}
	id = p->ids[p->commits ? p->i : p->n - 1 - p->i];
	reads.rows[id].committed = p->commits;
	if (p->commits && reads.rows[id].held[ENTRY] != NOBODY) {
		reads.rows[id].held[ENTRY] = NOBODY;
		return;
	}
	if (!p->commits)
		reads.rows[id].there[ROW] = reads.rows[id].there[ENTRY] = false;
	reads_lock(NOBODY, id);
	p->i++;
}

/* An id is taken before its row version; then come the row and its entry. */
static void produce(int who, process *p)
{
	row *r = &reads.rows[p->ids[p->i < RUN ? p->i : 0]];

	switch (p->at) {
	case START:
		start(p);
		break;
	case TAKE_ID:
		take_id(p);
		break;
	case TAKE_VERSION:
		reads_take_version(p);
		p->at = ADD_ROW;
		break;
	case ADD_ROW:
		reads_lock(who, p->ids[p->i]);
		r->there[ROW] = true;
		p->at = ADD_ENTRY;
		break;
	case ADD_ENTRY:
		r->there[ENTRY] = true;
		p->at = INSERTED;
		break;
	case INSERTED:
		inserted(who, p);
		break;
	default:
		end(p);
	}
}

void reads_before_horizon(void)
{
	for (int i = 0; i < PRODUCERS; i++)
		if (reads.all[i].at == TAKE_VERSION && reads.all[i].horizons)
			produce(i, &reads.all[i]);
}

void reads_after_horizon(void)
{
	for (int i = 0; i < PRODUCERS; i++)
		reads.all[i].horizons++;
}

/* ---- others ---- */

/* The server commits or rolls back the acknowledgement that a crashed relay left open. */
static void end_remnant(process *p)
{
	int id;

	if (!p->n) {
		p->version = 0;
		return;
	}
	id = p->ids[--p->n];
	if (!p->commits) {
		reads.rows[id].done = false;
		reads.rows[id].there[ENTRY] = true;
	}
	reads_lock(NOBODY, id);
}

/* An UPDATE by hand of a column that is in no index locks the row and not its entry. */
static void change(process *p)
{
	enum { CHANGED = 1, LASTS = 20 };
	int id = 1 + (int)reads_chance(IDS);

	if (p->at == CHANGED) {
		reads_lock(NOBODY, p->ids[0]);
		*p = (process){.patience = (int)reads_chance(LASTS)};
	} else if (!reads.closing && reads.rows[id].committed &&
		   reads_can_read(id, ROW)) {
		reads.rows[id].held[ROW] = OPERATOR;
		reads_take_version(p);
		p->ids[0] = id;
		p->at = CHANGED;
		p->patience = (int)reads_chance(LASTS);
	}
}

void reads_step(int who)
{
	process *p = &reads.all[who];

	if (who < PRODUCERS)
		produce(who, p);
	else if (who == REMNANT)
		end_remnant(p);
	else if (reads.broken == CHANGES)
		change(p);
}

/* ---- what must hold ---- */

/* Messages that are committed, and have no earlier one of their key that is not. */
static void find_free(bool *out)
{
	bool waits[KEYS] = {false};

	for (int id = 1; id <= reads.n_ids; id++) {
		const row *r = &reads.rows[id];
		bool readable = reads_can_read(id, ROW) && reads_can_read(id, ENTRY);

		out[id] = readable && r->committed && !r->delivered && !waits[r->key];
		if ((r->there[ROW] || r->there[ENTRY]) && !readable && !r->done)
			waits[r->key] |= r->key != NO_KEY;
	}
}

void reads_note_free(void)
{
	bool can_leave[IDS + 1] = {false};

	find_free(can_leave);
	for (int id = 1; id <= reads.n_ids; id++)
		reads.rows[id].was_free = can_leave[id];
}

/* The relay reads no row that is behind its cursor and in no gap. */
static void judge_gaps(void)
{
	for (int id = 1; id <= reads.n_ids; id++) {
		const row *r = &reads.rows[id];

		if (r->there[ROW] && !r->delivered && !reads_relay_asks_for(id))
			reads_fail("the relay gave up a message unread", id, 0);
	}
}

void reads_judge_progress(void)
{
	enum { STALLS = 12, WAITS = 80 };
	bool can_leave[IDS + 1] = {false}, any = false;

	judge_gaps();
	find_free(can_leave);
	for (int id = 1; id <= reads.n_ids; id++) {
		row *r = &reads.rows[id];

		r->waited = can_leave[id] && r->was_free ? r->waited + 1 : 0;
		if (r->waited > WAITS)
			reads_fail("a message could leave for 80 reads", id, 0);
		any |= r->waited;
	}
	reads.stalled = any && !reads.relay.n_taken && !reads.relay.sweeping
				? reads.stalled + 1
				: 0;
	if (reads.stalled > STALLS)
		reads_fail("for 12 reads nothing left, though something could", 0, 0);
}

/* No earlier row of its key may be there that is not delivered, unless its INSERT had not ended
 * when the read began to look. */
void reads_judge_order(int id)
{
	int key = reads.rows[id].key;

	for (int b = 1; b < id && key != NO_KEY; b++) {
		const row *r = &reads.rows[b];

		if (r->key == key && r->there[ROW] && !r->done && !r->delivered &&
		    r->complete && r->complete <= reads.relay.looked)
			reads_fail("a message left before an earlier one of its key", id,
				   b);
	}
}

void reads_judge_end(void)
{
	for (int id = 1; id <= reads.n_ids; id++) {
		const row *r = &reads.rows[id];

		if (r->committed && !r->delivered)
			reads_fail("a committed message was not delivered", id, 0);
		else if (r->committed && !r->done)
			reads_fail("a message was not acknowledged", id, 0);
		else if (!r->committed && r->delivered)
			reads_fail("a message left that is not committed", id, 0);
	}
}
