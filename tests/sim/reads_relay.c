/*
 * What an exclusive relay on SQL Server does, step by step: the statements "sweep", "read" and
 * "horizon" of native.mssql.sql, and what read_ahead.c does with their rows.
 */
#include "reads.h"

#include <string.h>

static relay *const me = &reads.relay;

/* ---- a relay begins, and crashes ---- */

void reads_relay_begin(void)
{
	memset(me, 0, sizeof(*me));
	me->sweeping = true;
	for (int id = 1; id <= IDS; id++)
		reads.rows[id].in_memory = false;
}

/* Its transaction stays open until the server notices. */
static void crash(void)
{
	process *mine = &reads.all[RELAY], *left = &reads.all[REMNANT];

	*left = *mine;
	left->patience = (int)reads_chance(60);
	left->commits = reads_chance(2);
	for (int i = 0; i < left->n; i++)
		reads_lock(REMNANT, left->ids[i]);
	*mine = (process){0};
	reads.n_crashes++;
	reads_relay_begin();
}

/* ---- acknowledging ---- */

/* One row in a step; then the transaction is committed. */
static void acknowledge(process *p)
{
	int id = 1;

	while (id <= IDS && !(reads.rows[id].in_memory && !reads.rows[id].done &&
			      reads_can_read(id, ROW)))
		id++;
	if (id <= IDS && reads_chance(8)) {
		if (!p->n)
			reads_take_version(p);
		p->ids[p->n++] = id;
		reads_lock(RELAY, id);
		reads.rows[id].there[ENTRY] = false;
		reads.rows[id].done = true;
		return;
	}
	while (p->n) {
		reads_lock(NOBODY, p->ids[--p->n]);
		reads.rows[p->ids[p->n]].in_memory = false;
	}
	p->version = 0;
	me->at = BEGIN;
}

/* ---- the statement ---- */

static bool in_gap(int id)
{
	for (size_t i = 0; i < me->gaps.n; i++)
		if (me->gaps.ranges[i].first <= id && id <= me->gaps.ranges[i].last)
			return true;
	return false;
}

bool reads_relay_asks_for(int id)
{
	return id > me->cursor || in_gap(id);
}

static int last_chosen(void)
{
	int id = IDS;

	while (id && !me->chosen[id])
		id--;
	return id;
}

static void scan_from(int scan)
{
	me->scan = scan;
	me->pos = 0;
}

static bool scans_holes(void)
{
	return (me->scan == 0) == me->holes_first;
}

/* The next entry that is there, in the gaps or ahead; 0: there is none. */
static int next_entry(void)
{
	while (++me->pos <= reads.n_ids) {
		if (!reads.rows[me->pos].there[ENTRY])
			continue;
		if (scans_holes() ? in_gap(me->pos) : me->pos > me->after)
			return me->pos;
	}
	return 0;
}

static void choose_anew(void)
{
	memset(me->chosen, 0, sizeof(me->chosen));
	me->ahead = 0;
	me->holes_first = reads_chance(2);
	me->at = CHOOSE;
	scan_from(0);
}

static void begin(void)
{
	if (reads.sweeps && !reads.closing && !reads_chance(40)) {
		me->cursor = 0;
		me->sweeping = true;
	}
	me->after = me->cursor;
	me->limit = 2 + (int)reads_chance(BATCH - 1);
	me->room = reads_chance(16) ? BATCH : (int)reads_chance(BATCH);
	me->rounds = me->rows = me->n_taken = me->n_delivered = 0;
	me->stopped = false;
	memset(me->waits, 0, sizeof(me->waits));
	memset(me->locked, 0, sizeof(me->locked));
	reads_note_free();
	choose_anew();
}

/* TOP (:limit) of both, in the order of ids. */
static void keep_first(void)
{
	int n = 0;

	for (int id = 1; id <= IDS; id++) {
		me->chosen[id] = me->chosen[id] && n < me->limit;
		n += me->chosen[id];
	}
	me->full = n == me->limit;
	me->found = false;
	me->at = CHECK;
	me->pos = 0;
}

/* An entry was free; is its row? */
static void check(void)
{
	while (++me->pos <= IDS && !me->chosen[me->pos])
		;
	if (me->pos <= IDS && reads.broken != NO_CHECK) {
		me->chosen[me->pos] = reads_can_read(me->pos, ROW);
		me->locked[me->pos] = !me->chosen[me->pos];
		me->found |= me->locked[me->pos];
		return;
	}
	me->looked = reads.now;
	memset(me->passed, 0, sizeof(me->passed));
	me->at = reads.broken == NO_LOOK ? RETURN : LOOK;
	scan_from(0);
}

/* Committed, unlocked rows of keys that need not wait. */
static void choose(void)
{
	bool enough = !scans_holes() && me->ahead == me->limit;
	int id = enough ? 0 : next_entry();
	int key = reads.rows[id].key;

	if (!id && me->scan == 0)
		scan_from(1);
	else if (!id)
		keep_first();
	else if (scans_holes() && id > me->after)
		return;
	else if (!reads_can_read(id, ENTRY))
		reads.n_passed++;
	else if (!me->locked[id] && (!me->waits[key] || id < me->waits[key])) {
		me->ahead += !scans_holes();
		me->chosen[id] = true;
	}
}

/* NOLOCK: what is there and was not chosen, the first of each key. */
static void look(void)
{
	int id = reads.broken == NO_GAP_LOOK && scans_holes() ? 0 : next_entry();
	int key = reads.rows[id].key;

	if (!scans_holes() && id > last_chosen())
		id = 0;
	if (!id && me->scan == 0)
		scan_from(1);
	else if (!id)
		me->at = DROP;
	else if (key != NO_KEY && !me->chosen[id] &&
		 (!me->passed[key] || id < me->passed[key]))
		me->passed[key] = id;
}

/* From the first row of a key that was passed over on, later rows of the key wait. */
static void drop(void)
{
	bool dropped = false, again;

	for (int id = 1; id <= IDS; id++) {
		int key = reads.rows[id].key;

		if (!me->chosen[id] || !me->passed[key] || id < me->passed[key])
			continue;
		me->chosen[id] = false;
		if (!me->waits[key] || me->waits[key] > me->passed[key])
			me->waits[key] = me->passed[key];
		dropped = true;
	}
	again = (dropped || me->found) && me->full && reads.broken != NO_AGAIN &&
		(reads.broken != ONE_AGAIN || !me->rounds);
	me->at = RETURN;
	me->rounds++;
	if (!again)
		return;
	reads.n_again++;
	choose_anew();
}

/* ---- what the relay does with the rows ---- */

static void move_cursor(int id)
{
	me->cursor = id;
	if (id <= me->highest)
		return;
	wh_gaps_add(&me->gaps, me->highest + 1, id - 1);
	me->highest = id;
}

static void meet(int id)
{
	me->rows++;
	if (!reads.rows[id].in_memory)
		me->taken[me->n_taken++] = id;
	if (id > me->cursor)
		move_cursor(id);
	else
		wh_gaps_fill(&me->gaps, id);
}

/* Return the rows that were chosen.  Who has locked one meanwhile is waited for. */
static void give_back(void)
{
	int id = 1;

	while (id <= IDS && !me->chosen[id])
		id++;
	if (id > IDS) {
		me->at = HORIZON;
		return;
	}
	if (reads.rows[id].there[ROW] && reads.rows[id].held[ROW] != NOBODY &&
	    reads.broken != NO_CHECK)
		return;
	me->chosen[id] = false;
	if (!reads_can_read(id, ROW) || reads.rows[id].done)
		return;
	if (me->rows == me->room) {
		me->stopped = true;
		me->at = HORIZON;
		return;
	}
	meet(id);
}

/* The server may compute the two numbers in either order. */
static void ask_horizon(void)
{
	bool next_first = reads_chance(2);

	if (!me->new_oldest && !me->new_next)
		reads_before_horizon();
	if (me->new_oldest || (next_first && !me->new_next))
		me->new_next = reads.dbts + 1;
	else
		me->new_oldest = reads_oldest();
	if (me->new_oldest && me->new_next) {
		reads_after_horizon();
		me->at = FINISH;
	}
}

static void date_gaps(void)
{
	bool at_once = reads.broken == DATED_AT_ONCE;

	wh_gaps_date(&me->gaps, at_once ? INT64_MAX : me->running, me->new_next);
	if (at_once)
		wh_gaps_date(&me->gaps, INT64_MAX, me->new_next);
	me->oldest = me->new_oldest;
	me->running = me->new_next;
	me->new_oldest = me->new_next = 0;
}

/* As ack_and_read() and read_ahead() in read_ahead.c. */
static void finish(void)
{
	size_t before = me->gaps.n;
	bool few = me->rows < me->limit || reads.broken == FULL_EXPIRES;

	if (!me->stopped && few)
		wh_gaps_expire(&me->gaps,
			       reads.broken == LATE_OLDEST ? me->new_oldest : me->oldest);
	reads.n_expired += (long)(before - me->gaps.n);
	date_gaps();
	if (!me->stopped && me->rows < me->limit)
		me->sweeping = false;
	reads.n_reads++;
	me->at = DELIVER;
}

static void deliver(void)
{
	row *r;

	if (me->n_delivered == me->n_taken) {
		reads_judge_progress();
		me->at = reads.closing || reads_chance(2) ? ACKNOWLEDGE : BEGIN;
		if (!me->n_taken) /* it rests */
			reads.all[RELAY].patience = (int)reads_chance(6);
		return;
	}
	r = &reads.rows[me->taken[me->n_delivered++]];
	if (!r->delivered)
		reads_judge_order((int)(r - reads.rows));
	r->delivered = r->in_memory = true;
	reads.n_delivered++;
}

void reads_relay_step(void)
{
	static void (*const steps[])(void) = {
		[BEGIN] = begin,         [CHOOSE] = choose, [CHECK] = check,
		[LOOK] = look,           [DROP] = drop,     [RETURN] = give_back,
		[HORIZON] = ask_horizon, [FINISH] = finish, [DELIVER] = deliver,
	};

	if (reads.crashes && !reads.closing && !reads.all[REMNANT].n &&
	    !reads_chance(600))
		crash();
	else if (me->at == ACKNOWLEDGE)
		acknowledge(&reads.all[RELAY]);
	else
		steps[me->at]();
}
