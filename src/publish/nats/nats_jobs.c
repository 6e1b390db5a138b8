/*
 * Messages in flight by their tokens.
 *
 * A token is the place in a table and how many messages that place had.  So the answer to a
 * message that was given up finds none.
 */
#include "publish/nats/nats.h"

#include <stdlib.h>

enum { PLACE_BITS = 24, FIRST_SLOTS = 256 };

static bool grow(wh_nats_jobs *jobs)
{
	uint32_t n = jobs->n ? 2 * jobs->n : FIRST_SLOTS;
	wh_nats_slot *slots;

	if (n > 1u << PLACE_BITS)
		return false;
	slots = realloc(jobs->slots, n * sizeof(*slots));
	if (!slots)
		return false;
	for (uint32_t i = jobs->n; i < n; i++)
		slots[i] = (wh_nats_slot){.next_free = i + 1};
	jobs->slots = slots;
	jobs->first_free = jobs->n;
	jobs->n = n;
	return true;
}

bool wh_nats_jobs_add(wh_nats_jobs *jobs, wh_nats_job *job)
{
	uint32_t at;

	if (jobs->first_free == jobs->n && !grow(jobs))
		return false;
	at = jobs->first_free;
	jobs->first_free = jobs->slots[at].next_free;
	jobs->slots[at].job = job;
	job->token = (int64_t)++jobs->slots[at].generation << PLACE_BITS | at;
	return true;
}

wh_nats_job *wh_nats_jobs_find(const wh_nats_jobs *jobs, int64_t token)
{
	uint32_t at = (uint32_t)(token & ((1 << PLACE_BITS) - 1));
	wh_nats_job *job = token > 0 && at < jobs->n ? jobs->slots[at].job : NULL;

	return job && job->token == token ? job : NULL;
}

void wh_nats_jobs_remove(wh_nats_jobs *jobs, const wh_nats_job *job)
{
	uint32_t at = (uint32_t)(job->token & ((1 << PLACE_BITS) - 1));

	jobs->slots[at].job = NULL;
	jobs->slots[at].next_free = jobs->first_free;
	jobs->first_free = at;
}

void wh_nats_jobs_clear(wh_nats_jobs *jobs)
{
	free(jobs->slots);
	*jobs = (wh_nats_jobs){NULL, 0, 0};
}
