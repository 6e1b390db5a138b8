/*
 * The messages in flight, which the relay and the client's thread share.  All functions
 * but wh_amqp_job_free() are called with the client's lock.
 */
#include "publish/amqp/amqp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

void wh_amqp_job_free(wh_amqp_job *job)
{
	if (!job)
		return;
	free(job->flight.reason);
	free(job);
}

static void clear(wh_flights *jobs)
{
	wh_flight *f;

	while ((f = wh_flights_pop(jobs)))
		wh_amqp_job_free((wh_amqp_job *)f);
}

void wh_amqp_client_wake(wh_amqp_client *c)
{
	if (!c->woken)
		(void)eventfd_write(c->wake_fd, 1);
	c->woken = true;
}

void wh_amqp_client_interrupt(wh_amqp_client *c)
{
	if (c->fd >= 0)
		(void)shutdown(c->fd, SHUT_RDWR);
}

void wh_amqp_report(wh_amqp_client *c)
{
	if (!c->reported)
		(void)eventfd_write(c->done_fd, 1);
	c->reported = true;
}

void wh_amqp_answer(wh_amqp_client *c, wh_amqp_job *job, wherry_verdict verdict,
		    const char *reason)
{
	job->flight.verdict = verdict;
	if (reason) {
		free(job->flight.reason);
		job->flight.reason = strdup(reason);
	}
	wh_flights_append(&c->over, &job->flight);
	wh_amqp_report(c);
}

wh_amqp_job *wh_amqp_take(wh_amqp_client *c, uint64_t tag)
{
	wh_amqp_job *job;

	if (tag < c->first || tag >= c->next)
		return NULL;
	job = c->ring[tag % WH_AMQP_RING];
	c->ring[tag % WH_AMQP_RING] = NULL;
	c->n_sent -= job != NULL;
	while (c->first < c->next && !c->ring[c->first % WH_AMQP_RING])
		c->first++;
	return job;
}

void wh_amqp_jobs_clear(wh_amqp_client *c)
{
	clear(&c->queued);
	clear(&c->over);
	for (uint64_t tag = c->first; tag < c->next; tag++)
		wh_amqp_job_free(wh_amqp_take(c, tag));
}
