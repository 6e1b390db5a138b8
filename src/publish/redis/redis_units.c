/*
 * Messages in flight, and the order of each key.
 *
 * One unit of a key is in flight at a time.  Messages of the key that are taken meanwhile wait,
 * and are the next unit.  A unit of several messages is a transaction (MULTI, EXEC), so Redis takes
 * all of them or none:
 *
 *     taken ──► wait for the key's unit ──► ready ──► with the server ──► done
 *
 * If a unit fails, the messages of its key that wait come back too, and so do those that are
 * taken until the relay has the receipts.
 */
#include "publish/redis/redis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publish/parts.h"

enum {
	UNIT_MOST = 256,      /* Messages of a unit. */
	UNIT_BYTES = 1 << 20, /* Bytes of bodies, from which none is added. */
};

/* ---- lists ---- */

void wh_redis_units_append(wh_redis_units *list, wh_redis_unit *unit)
{
	unit->next = NULL;
	if (list->tail)
		list->tail->next = unit;
	else
		list->head = unit;
	list->tail = unit;
	list->n++;
}

wh_redis_unit *wh_redis_units_pop(wh_redis_units *list)
{
	wh_redis_unit *unit = list->head;

	if (!unit)
		return NULL;
	list->head = unit->next;
	if (!list->head)
		list->tail = NULL;
	list->n--;
	unit->next = NULL;
	return unit;
}

void wh_redis_units_move(wh_redis_units *to, wh_redis_units *from)
{
	if (!from->head)
		return;
	if (to->tail)
		to->tail->next = from->head;
	else
		to->head = from->head;
	to->tail = from->tail;
	to->n += from->n;
	*from = (wh_redis_units){NULL, NULL, 0};
}

/* ---- keys ---- */

static wh_redis_key **place_of(wh_redis_keys *keys, uint64_t hash)
{
	wh_redis_key **at = &keys->buckets[hash % WH_REDIS_BUCKETS];

	while (*at && (*at)->hash != hash)
		at = &(*at)->next;
	return at;
}

static wh_redis_key *find_or_make(wh_redis_keys *keys, uint64_t hash)
{
	wh_redis_key **at = place_of(keys, hash);

	if (!*at) {
		*at = calloc(1, sizeof(**at));
		if (*at)
			(*at)->hash = hash;
	}
	return *at;
}

static void drop_if_idle(wh_redis_keys *keys, wh_redis_key *key)
{
	wh_redis_key **at;

	if (key->n_jobs || key->touched)
		return;
	at = place_of(keys, key->hash);
	*at = key->next;
	free(key);
}

static void touch(wh_redis_keys *keys, wh_redis_key *key)
{
	if (key->touched)
		return;
	key->touched = true;
	key->next_touched = keys->touched;
	keys->touched = key;
}

/* ---- taking ---- */

static void job_free(wh_redis_job *job)
{
	free(job->flight.reason);
	free(job->unit.error);
	free(job);
}

static void finish(wh_redis_flights *f, wh_redis_job *job,
		   const wh_redis_verdict *verdict)
{
	job->flight.verdict = verdict->verdict;
	job->flight.held = verdict->held;
	job->flight.own = verdict->own;
	job->flight.denied = verdict->denied;
	job->flight.retry_after_us = verdict->retry_after_us;
	if (verdict->verdict != WHERRY_DELIVERED) {
		free(job->flight.reason);
		job->flight.reason = strdup(verdict->reason);
		if (job->key)
			job->key->n_failed++;
	}
	wh_flights_append(&f->done, &job->flight);
}

static const wh_redis_verdict fine = {.verdict = WHERRY_DELIVERED};
static const wh_redis_verdict behind = {
	.verdict = WHERRY_RETRY,
	.held = true,
	.reason = "an earlier message of its key was not taken",
};

/* A message that can never be sent gets its receipt when it is its turn. */
static void refuse(wh_redis_flights *f, wh_redis_job *job)
{
	wh_redis_verdict verdict = {.verdict = WHERRY_REJECTED};

	(void)snprintf(verdict.reason, sizeof(verdict.reason), "%.199s",
		       job->flight.reason ? job->flight.reason : "it cannot be sent");
	wh_flights_remove(&f->open, &job->flight);
	finish(f, job, &verdict);
}

static void wait_for_key(wh_redis_flights *f, wh_redis_job *job)
{
	wh_redis_key *key = job->key;

	if (key->last)
		key->last->next = job;
	else
		key->first = job;
	key->last = job;
	if (!key->in_flight)
		touch(&f->keys, key);
}

static void make_unit(wh_redis_flights *f, wh_redis_job *first, wh_redis_job *last,
		      unsigned n)
{
	wh_redis_unit *unit = &first->unit;

	*unit = (wh_redis_unit){
		.kind = WH_REDIS_ADD, .first = first, .last = last, .n = n, .slot = -1};
	last->next = NULL;
	wh_redis_units_append(&f->ready, unit);
}

static void fail_waiting(wh_redis_flights *f, wh_redis_key *key)
{
	while (key->first) {
		wh_redis_job *job = key->first;

		key->first = job->next;
		wh_flights_remove(&f->open, &job->flight);
		finish(f, job, &behind);
	}
	key->last = NULL;
}

wherry_code wh_redis_take(wh_redis_flights *f, const wh_redis_settings *set,
			  const wherry_message *msg, int64_t deadline_us,
			  wherry_error *err)
{
	uint64_t hash = wh_message_key_hash(msg);
	wh_redis_job *job = calloc(1, sizeof(*job));
	wherry_error why = WHERRY_ERROR_INIT;

	if (!job)
		return wh_oom(err);
	job->flight.message = msg;
	job->deadline_us = deadline_us;
	if (hash && !(job->key = find_or_make(&f->keys, hash))) {
		free(job);
		return wh_oom(err);
	}
	if (job->key)
		job->key->n_jobs++;
	if (job->key && job->key->n_failed) {
		finish(f, job, &behind);
		return WHERRY_OK;
	}
	wh_flights_append(&f->open, &job->flight);
	if (wh_redis_check(set, msg, &why) != WHERRY_OK) {
		job->doomed = true;
		job->flight.reason = strdup(why.message);
	}
	if (job->key)
		wait_for_key(f, job);
	else if (job->doomed)
		refuse(f, job);
	else
		make_unit(f, job, job, 1);
	return WHERRY_OK;
}

static bool same_stream(const wh_redis_settings *set, const wh_redis_job *a,
			const wh_redis_job *b)
{
	char one[WH_REDIS_STREAM_LEN], other[WH_REDIS_STREAM_LEN];

	return wh_redis_stream(set->stream, a->flight.message, one, NULL) == WHERRY_OK &&
	       wh_redis_stream(set->stream, b->flight.message, other, NULL) ==
		       WHERRY_OK &&
	       strcmp(one, other) == 0;
}

static void gather_key(wh_redis_flights *f, const wh_redis_settings *set,
		       wh_redis_key *key)
{
	wh_redis_job *first = key->first, *last = first;
	size_t bytes;
	unsigned n = 1, most = key->alone || f->alone ? 1 : UNIT_MOST;

	if (!first || key->in_flight)
		return;
	if (first->doomed) {
		key->first = first->next;
		refuse(f, first);
		fail_waiting(f, key);
		return;
	}
	bytes = first->flight.message->body_len;
	while (last->next && n < most && bytes < UNIT_BYTES && !last->next->doomed &&
	       same_stream(set, first, last->next)) {
		last = last->next;
		bytes += last->flight.message->body_len;
		n++;
	}
	key->first = last->next;
	if (!key->first)
		key->last = NULL;
	key->in_flight = true;
	make_unit(f, first, last, n);
}

void wh_redis_gather(wh_redis_flights *f, const wh_redis_settings *set)
{
	while (f->keys.touched) {
		wh_redis_key *key = f->keys.touched;

		f->keys.touched = key->next_touched;
		key->touched = false;
		gather_key(f, set, key);
		drop_if_idle(&f->keys, key);
	}
}

/* ---- the end of a unit ---- */

void wh_redis_delivered(wh_redis_flights *f, wh_redis_unit *unit)
{
	wh_redis_key *key = unit->first->key;
	wh_redis_job *next;

	for (wh_redis_job *job = unit->first; job; job = next) {
		next = job->next;
		wh_flights_remove(&f->open, &job->flight);
		finish(f, job, &fine);
	}
	if (!key)
		return;
	key->in_flight = false;
	touch(&f->keys, key);
}

void wh_redis_failed(wh_redis_flights *f, wh_redis_unit *unit, unsigned n_taken,
		     const wh_redis_verdict *verdict)
{
	wh_redis_key *key = unit->first->key;
	wh_redis_job *next;
	unsigned i = 0;

	for (wh_redis_job *job = unit->first; job; job = next, i++) {
		next = job->next;
		wh_flights_remove(&f->open, &job->flight);
		finish(f, job, i < n_taken ? &fine : i == n_taken ? verdict : &behind);
	}
	if (!key)
		return;
	key->in_flight = false;
	fail_waiting(f, key);
}

void wh_redis_send_alone(wh_redis_flights *f, wh_redis_unit *unit)
{
	wh_redis_key *key = unit->first->key;

	free(unit->error);
	unit->error = NULL;
	if (!key) {
		wh_redis_units_append(&f->ready, unit);
		return;
	}
	unit->last->next = key->first;
	if (!key->first)
		key->last = unit->last;
	key->first = unit->first;
	key->in_flight = false;
	key->alone = true;
	touch(&f->keys, key);
}

bool wh_redis_next_receipt(wh_redis_flights *f, wh_receipt *out)
{
	wh_redis_job *job = (wh_redis_job *)wh_flights_pop(&f->done);
	wh_redis_key *key;

	if (!job)
		return false;
	key = job->key;
	wh_flight_receipt(&job->flight, out);
	if (key) {
		key->n_jobs--;
		key->n_failed -= job->flight.verdict != WHERRY_DELIVERED;
		drop_if_idle(&f->keys, key);
	}
	job_free(job);
	return true;
}

static void clear(wh_flights *list)
{
	wh_flight *flight;

	while ((flight = wh_flights_pop(list)))
		job_free((wh_redis_job *)flight);
}

void wh_redis_flights_clear(wh_redis_flights *f)
{
	clear(&f->open);
	clear(&f->done);
	for (size_t i = 0; i < WH_REDIS_BUCKETS; i++)
		while (f->keys.buckets[i]) {
			wh_redis_key *key = f->keys.buckets[i];

			f->keys.buckets[i] = key->next;
			free(key);
		}
	f->keys.touched = NULL;
	f->ready = (wh_redis_units){NULL, NULL, 0};
}
