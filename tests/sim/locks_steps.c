/*
 * What producers, claimers and operators do to the model, step by step.
 */
#include "locks.h"

#include <stddef.h>

/* ---- producers ---- */

/* A transaction of a few rows, which may stay open for long.  An id is taken before its row is
 * there; and the row, its entry among the open ones and that among the pending ones come one
 * after the other. */
static void produce(process *p)
{
	row *r = p->i < p->n ? &locks.rows[p->ids[p->i]] : NULL;

	switch (p->at) {
	case 0:
		locks_begin(p);
		p->n = locks.n_ids + 4 > ROWS ? 0 : 1 + (int)locks_chance(3);
		for (int i = 0; i < p->n; i++) {
			p->ids[i] = locks.n_ids++;
			locks.rows[p->ids[i]].key = (int)locks_chance(KEYS);
			locks.rows[p->ids[i]].token = -1;
			locks.rows[p->ids[i]].open_tx = true;
		}
		p->at = p->n ? 1 : 0;
		break;
	case 1:
		locks_note(p, p->ids[p->i]);
		for (int k = 0; k < PARTS; k++)
			r->held[k][locks_me(p)] = X;
		r->there[ROW] = true;
		r->status = WAITS;
		p->at = 2;
		break;
	case 2:
		r->there[OPEN] = true;
		p->at = 3;
		break;
	case 3:
		r->there[PENDING] = true;
		p->at = ++p->i < p->n ? 1 : 4;
		if (p->at == 1)
			break;
		for (int i = 0; i < p->n; i++)
			locks.rows[p->ids[i]].complete = locks.turn + 1;
		p->patience = locks_chance(4) ? (int)locks_chance(10) : 300;
		break;
	default:
		for (int i = 0; i < p->n; i++)
			locks.rows[p->ids[i]].open_tx = false;
		if (locks_chance(4))
			locks_commit(p);
		else
			locks_roll_back(p);
		p->at = 0;
		p->patience = (int)locks_chance(20);
	}
}

/* ---- claims ---- */

bool locks_is_open(const row *r)
{
	return r->status == WAITS || r->status == CLAIMED || r->status == FAILED;
}

/* Does the entry of a row among those that a claim looks at say that it is open?  NOLOCK. */
static bool seems_open(const process *p, int id)
{
	const row *r = &locks.rows[id];

	if (locks.broken == NO_NOLOCK)
		return r->there[ROW] && locks_is_open(r) && locks_can_read(p, id, ROW);
	if (locks.broken == MOVES)
		return r->there[PENDING] || r->there[BUSY];
	return r->there[OPEN];
}

/* The first open row of a key, also one that is not committed; -1: none. */
static int first_open(const process *p, int key)
{
	for (int id = 0; id < locks.n_ids; id++)
		if (locks.rows[id].key == key && seems_open(p, id))
			return id;
	return -1;
}

static bool has_chosen(const process *p, int id)
{
	for (int i = 0; i < p->n; i++)
		if (p->ids[i] == id && p->locked[i])
			return true;
	return false;
}

/* May this pending row, or this one whose claim has expired, be claimed, as far as can be seen? */
static bool is_free(int id)
{
	const row *r = &locks.rows[id];

	for (int b = 0; b < locks.n_ids; b++) {
		const row *o = &locks.rows[b];

		if (b == id || o->key != r->key || !o->there[BUSY])
			continue;
		if (o->status == CLAIMED && o->expires > locks.turn)
			return false;
		if (b < id && (o->status == CLAIMED || o->status == FAILED))
			return false;
	}
	return true;
}

/* No earlier row of its key may be open, unless the INSERT that made it still ran when the claim
 * began. */
static void judge_claim(const process *p, int id)
{
	for (int b = 0; b < id; b++) {
		const row *o = &locks.rows[b];

		if (o->key != locks.rows[id].key || !o->complete ||
		    o->complete > p->began || has_chosen(p, b))
			continue;
		if (o->there[ROW] && locks_is_open(o) && !o->delivered)
			locks_fail("a row was claimed before an earlier one of its key",
				   id, b);
	}
}

static bool choose(process *p)
{
	int id = p->i;
	row *r = &locks.rows[id];
	bool expired = r->status == CLAIMED && r->expires <= locks.turn;
	part by = expired || r->status == FAILED ? BUSY : PENDING;
	int first;

	if (id >= locks.n_ids || p->n == LIMIT)
		return true;
	if (r->there[by] && locks.broken == NO_READPAST && !locks_lock(p, id, by, S))
		return false;
	p->i++;
	if (!r->there[by] || !locks_can_read(p, id, by) || !locks_can_read(p, id, ROW)) {
		locks.passed += r->there[by];
		return false;
	}
	if (r->status != WAITS && r->status != FAILED && !expired)
		return false;
	first = first_open(p, r->key);
	if (!is_free(id) || (r->status != WAITS && first != id))
		return false;
	if (first >= 0 && first != id &&
	    (!locks_can_read(p, first, ROW) || locks.rows[first].status != WAITS)) {
		locks.held_back++;
		return false;
	}
	p->ids[p->n] = id;
	p->locked[p->n++] = false;
	return false;
}

/* The rows of a claim are chosen, locked, looked at again, and marked: each a step per row. */
static void claim(process *p)
{
	row *r;
	int id;

	switch (p->at) {
	case 0:
		locks_begin(p);
		p->began = locks.turn;
		p->n = 0;
		if (locks_get(locks.claims_lock, p, X))
			p->at = 1;
		break;
	case 1:
		if (choose(p)) {
			p->i = 0;
			p->at = 2;
		}
		break;
	case 2: /* READPAST, UPDLOCK */
		if (p->i == p->n) {
			p->i = 0;
			p->at = 3;
			for (int k = 0; k < KEYS; k++)
				p->first_blocked[k] = ROWS;
			break;
		}
		id = p->ids[p->i];
		r = &locks.rows[id];
		if (locks_in_the_way(r->held[ROW], locks_me(p), U) < 0 && r->there[ROW] &&
		    (r->status == WAITS || r->status == FAILED ||
		     (r->status == CLAIMED && r->expires <= locks.turn))) {
			if (locks.broken != NO_UPDLOCK)
				(void)locks_lock(p, id, ROW, U);
			p->locked[p->i] = true;
		}
		p->i++;
		break;
	case 3: /* What stands before them?  NOLOCK, entry by entry. */
		if (p->i < locks.n_ids) {
			r = &locks.rows[p->i];
			if (locks.broken != NO_CHECK && seems_open(p, p->i) &&
			    !has_chosen(p, p->i) && p->first_blocked[r->key] > p->i)
				p->first_blocked[r->key] = p->i;
			p->i++;
			break;
		}
		p->i = p->j = 0;
		p->at = 4;
		break;
	case 4: /* UPDATE: the row, then its entries. */
		if (p->i == p->n) {
			p->at = 5;
			break;
		}
		id = p->ids[p->i];
		r = &locks.rows[id];
		if (!p->locked[p->i] || id > p->first_blocked[r->key]) {
			p->locked[p->i] = false;
			p->i++;
			break;
		}
		if (!locks_lock(p, id, (part)p->j, X))
			break;
		if (p->j == ROW) {
			if (r->status == CLAIMED && r->expires > locks.turn)
				locks_fail("a row was claimed twice", id, id);
			if (!r->there[ROW] || !locks_is_open(r)) {
				p->locked[p->i++] = false;
				break;
			}
			judge_claim(p, id);
			locks_note(p, id);
			r->status = CLAIMED;
			r->token = locks_me(p);
			r->claimed = locks.turn;
			r->expires = locks.turn + CLAIM_LASTS;
			locks.claims++;
		}
		if (p->j == PENDING)
			r->there[PENDING] = false;
		if (p->j == BUSY)
			r->there[BUSY] = true;
		if (++p->j == PARTS) {
			p->j = 0;
			p->i++;
		}
		break;
	case 5:
		locks_commit(p);
		for (int k = 0; k < KEYS; k++)
			p->first_blocked[k] = ROWS;
		p->i = 0;
		p->at = 6;
		locks.stalled = 0;
		break;
	case 6: /* deliver */
		while (p->i < p->n && !p->locked[p->i])
			p->i++;
		if (p->i == p->n || !locks_chance(12)) { /* or crash: the claims expire */
			p->at = p->i == p->n ? 7 : 0;
			p->i = p->j = 0;
			p->patience = (int)locks_chance(20);
			break;
		}
		id = p->ids[p->i++];
		r = &locks.rows[id];
		if (!locks_chance(4) && p->first_blocked[r->key] > id)
			p->first_blocked[r->key] =
				id; /* and those of its key behind it */
		if (r->token == locks_me(p) && r->status == CLAIMED &&
		    r->expires > locks.turn && p->first_blocked[r->key] > id) {
			r->delivered = true;
			locks.deliveries++;
		}
		break;
	default:
		p->at = 0;
		break;
	}
}

/* ---- settling ---- */

/* Each row is acknowledged, fails, is given back or dies, in one transaction, which may be rolled
 * back. */
static void settle(process *p)
{
	row *r = p->i < p->n ? &locks.rows[p->ids[p->i]] : NULL;

	if (p->at == 7) {
		locks_begin(p);
		p->dies = locks_chance(2);
		p->commits = locks_chance(3);
		p->at = 8;
	}
	if (p->at == 8) { /* who waits for a row keeps no claim waiting */
		if (p->dies && p->i < p->n) {
			p->i += !p->locked[p->i] || locks_lock(p, p->ids[p->i], ROW, U);
			return;
		}
		if (p->dies && locks.broken != NO_QUIET &&
		    !locks_get(locks.claims_lock, p, S))
			return;
		p->i = 0;
		p->at = 9;
		return;
	}
	if (!r) {
		if (locks_chance(2)) { /* the transaction takes its time */
			p->patience = (int)locks_chance(8);
			return;
		}
		if (p->commits)
			locks_commit(p);
		else
			locks_roll_back(p);
		p->at = 0;
		p->patience = (int)locks_chance(10);
		return;
	}
	if (!p->j && (!p->locked[p->i] || r->token != locks_me(p) ||
		      r->status != CLAIMED || r->expires <= locks.turn)) {
		p->i++;
		return;
	}
	if (p->j == PARTS) { /* The entry among the pending ones is made last. */
		r->there[PENDING] = r->status == WAITS;
		p->j = 0;
		p->i++;
		return;
	}
	if (!locks_lock(p, p->ids[p->i], (part)p->j, X))
		return;
	if (p->j == ROW) {
		locks_note(p, p->ids[p->i]);
		r->status = r->delivered                               ? DONE
			    : p->first_blocked[r->key] != p->ids[p->i] ? WAITS
			    : p->dies                                  ? DEAD
			    : locks_chance(2)                          ? WAITS
								       : FAILED;
		r->token = -1;
		r->died = locks.turn;
	}
	if (p->j == BUSY) {
		r->there[BUSY] = r->status == FAILED;
		p->patience =
			(int)locks_chance(6); /* an index after the other, of all rows */
	}
	if (p->j == OPEN)
		r->there[OPEN] = locks_is_open(r);
	p->j++;
}

/* ---- an operator ---- */

/* Locks a row for a while, as an UPDATE by hand does; or reads a row by an index, with a lock on its
 * entry until it has read the row: the other way round than a change locks them. */
static void operate(process *p)
{
	if (p->at == 3 || p->at == 4) {
		if (locks_lock(p, p->ids[0], p->at == 3 ? PENDING : ROW, S))
			p->at++;
	} else if (p->at == 0 && locks.n_ids && locks_chance(2)) {
		locks_begin(p);
		p->n = 0;
		p->ids[0] = (int)locks_chance((unsigned)locks.n_ids);
		p->at = 3;
	} else if (p->at == 0) {
		locks_begin(p);
		p->n = 0;
		p->ids[0] = locks.n_ids ? (int)locks_chance((unsigned)locks.n_ids) : 0;
		p->patience = (int)locks_chance(40);
		p->at = locks.n_ids ? 1 : 0;
	} else if (p->at == 1) {
		if (locks_lock(p, p->ids[0], ROW, X)) {
			p->patience = locks_chance(5) ? (int)locks_chance(20) : 400;
			p->at = 2;
		}
	} else {
		locks_commit(p);
		p->at = 0;
		p->patience = (int)locks_chance(60);
	}
}

/* ---- a step ---- */

/* A circle of those that wait: its last member is the victim. */
static bool resolve(process *p)
{
	int at = locks_me(p), n = 0;

	while (at >= 0 && n++ <= PROCESSES) {
		at = locks.all[at].waits_for;
		if (at == locks_me(p))
			break;
	}
	if (at != locks_me(p))
		return false;
	locks.deadlocks++;
	for (int i = 0; p->role == PRODUCER && i < p->n; i++)
		locks.rows[p->ids[i]].open_tx = false;
	locks_roll_back(p);
	p->at = 0;
	p->patience = 5;
	return true;
}

void locks_step(process *p)
{
	p->waits_for = -1;
	if (p->role == PRODUCER)
		produce(p);
	else if (p->role == OPERATOR)
		operate(p);
	else if (p->at >= 7)
		settle(p);
	else
		claim(p);
	if (p->waits_for >= 0)
		(void)resolve(p);
}
