#include "locks.h"

#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct locks locks;

unsigned locks_chance(unsigned n)
{
	return model_chance(&locks.random, n);
}

int locks_me(const process *p)
{
	return (int)(p - locks.all);
}

void locks_fail(const char *what, int id, int other)
{
	if (!*locks.wrong)
		(void)snprintf(locks.wrong, sizeof(locks.wrong),
			       "turn %d: %s (rows %d and %d)", locks.turn, what, id,
			       other);
}

/* ---- locks ---- */

static bool fits(mode wanted, mode held)
{
	if (wanted == NONE || held == NONE)
		return true;
	if (wanted == X || held == X)
		return false;
	return wanted == S || held == S; /* U goes with S, and not with U */
}

/* The process that has a lock in the way; -1: nobody. */
int locks_in_the_way(const mode *held, int who, mode wanted)
{
	for (int i = 0; i < PROCESSES; i++)
		if (i != who && !fits(wanted, held[i]))
			return i;
	return -1;
}

bool locks_get(mode *held, process *p, mode wanted)
{
	int other = locks_in_the_way(held, locks_me(p), wanted);

	p->waits_for = other;
	if (other >= 0)
		return false;
	if (held[locks_me(p)] < wanted)
		held[locks_me(p)] = wanted;
	return true;
}

bool locks_lock(process *p, int id, part which, mode wanted)
{
	return locks_get(locks.rows[id].held[which], p, wanted);
}

/* READPAST with a lock that is given back at once: is it committed, and unlocked? */
bool locks_can_read(const process *p, int id, part which)
{
	return locks_in_the_way(locks.rows[id].held[which], locks_me(p), S) < 0;
}

void locks_let_go(process *p)
{
	for (int id = 0; id < locks.n_ids; id++)
		for (int k = 0; k < PARTS; k++)
			locks.rows[id].held[k][locks_me(p)] = NONE;
	locks.claims_lock[locks_me(p)] = NONE;
	p->waits_for = -1;
}

/* ---- transactions ---- */

void locks_note(process *p, int id)
{
	change *c = &p->undo[p->n_undo];
	const row *r = &locks.rows[id];

	if (p->n_undo == (int)(sizeof(p->undo) / sizeof(*p->undo)))
		abort();
	*c = (change){id, r->key, r->token, r->expires, r->status, {false}};
	memcpy(c->there, r->there, sizeof(c->there));
	p->n_undo++;
}

void locks_begin(process *p)
{
	p->n_undo = 0;
	p->i = p->j = 0;
}

/* A message whose death is taken back was overtaken if later ones of its key were claimed since. */
static void judge_revival(int id)
{
	for (int b = id + 1; b < locks.n_ids; b++)
		if (locks.rows[b].key == locks.rows[id].key &&
		    locks.rows[b].claimed > locks.rows[id].died)
			locks_fail(
				"a row was claimed before one whose death was taken back",
				b, id);
}

void locks_roll_back(process *p)
{
	while (p->n_undo) {
		const change *c = &p->undo[--p->n_undo];
		row *r = &locks.rows[c->id];

		if (r->status == DEAD)
			judge_revival(c->id);
		r->status = c->status;
		r->token = c->token;
		r->expires = c->expires;
		memcpy(r->there, c->there, sizeof(r->there));
	}
	locks_let_go(p);
}

void locks_commit(process *p)
{
	p->n_undo = 0;
	locks_let_go(p);
}
