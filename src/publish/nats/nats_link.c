/*
 * One connection.  Its thread (nats_loop.c) is the only one that waits for a server.
 *
 *     relay's thread            the link's thread                libnats' threads
 *     send: out ──────────────► publishes, writes, reads ──────► deliver answers
 *     answers ◄────────────────────────────────────────────────── eventfd
 *
 * No lock is held while libnats is called, because libnats calls back under its locks.
 */
#include "publish/nats/nats_link.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/env.h"

void wh_nats_ring(int fd)
{
	const uint64_t one = 1;

	(void)!write(fd, &one, sizeof(one));
}

void wh_nats_hush(int fd)
{
	uint64_t n;

	(void)!read(fd, &n, sizeof(n));
}

/* ---- what the threads call ---- */

void wh_nats_link_fail(wh_nats_link *link, const wherry_error *why)
{
	(void)pthread_mutex_lock(&link->lock);
	if (link->error.code == WHERRY_OK)
		link->error = *why;
	(void)pthread_mutex_unlock(&link->lock);
	wh_nats_ring(link->answers_fd);
	wh_nats_ring(link->wake_fd);
}

static bool have_room(wh_nats_answers *answers, size_t n)
{
	size_t cap = answers->cap ? answers->cap : 256;
	wh_nats_answer *all;

	while (cap < answers->n + n)
		cap *= 2;
	if (cap == answers->cap)
		return true;
	all = realloc(answers->all, cap * sizeof(*all));
	if (!all)
		return false;
	answers->all = all;
	answers->cap = cap;
	return true;
}

void wh_nats_link_push(wh_nats_link *link, const wh_nats_answer *answers, size_t n)
{
	bool first, room;

	if (!n)
		return;
	(void)pthread_mutex_lock(&link->lock);
	room = have_room(&link->answers, n);
	first = room && !link->answers.n;
	if (room) {
		memcpy(link->answers.all + link->answers.n, answers,
		       n * sizeof(*answers));
		link->answers.n += n;
	}
	(void)pthread_mutex_unlock(&link->lock);
	for (size_t i = 0; !room && i < n; i++)
		free(answers[i].text); /* The message is late, and tried again. */
	if (first)
		wh_nats_ring(link->answers_fd);
}

void wh_nats_link_destroy(wh_nats_link *link)
{
	while (link->out) {
		wh_nats_batch *batch = link->out;

		link->out = batch->next;
		wh_nats_batch_free(batch);
	}
	for (size_t i = 0; i < link->answers.n; i++)
		free(link->answers.all[i].text);
	free(link->answers.all);
	free(link->lent.all);
	if (link->answers_fd >= 0)
		(void)close(link->answers_fd);
	if (link->wake_fd >= 0)
		(void)close(link->wake_fd);
	(void)pthread_mutex_destroy(&link->lock);
	(void)pthread_cond_destroy(&link->changed);
	wh_nats_settings_leave(link->set);
	free(link);
}

/* ---- the relay's side ---- */

int wh_nats_link_fd(const wh_nats_link *link)
{
	return link->answers_fd;
}

void wh_nats_link_reply(const wh_nats_link *link, int64_t token,
			char out[WH_NATS_REPLY_LEN])
{
	(void)snprintf(out, WH_NATS_REPLY_LEN, "%s.%" PRId64, link->inbox, token);
}

void wh_nats_batch_free(wh_nats_batch *batch)
{
	for (size_t i = 0; i < batch->n; i++)
		natsMsg_Destroy(batch->msgs[i]);
	free(batch);
}

void wh_nats_link_send(wh_nats_link *link, wh_nats_batch *batch)
{
	bool first;

	batch->next = NULL;
	(void)pthread_mutex_lock(&link->lock);
	first = !link->out;
	if (link->out)
		link->last_out->next = batch;
	else
		link->out = batch;
	link->last_out = batch;
	(void)pthread_mutex_unlock(&link->lock);
	if (first) /* The thread takes all of them. */
		wh_nats_ring(link->wake_fd);
}

/* The two lists change places, so that the lock is held for a moment only. */
const wh_nats_answer *wh_nats_link_answers(wh_nats_link *link, size_t *out_n)
{
	wh_nats_answers taken;

	link->lent.n = 0;
	(void)pthread_mutex_lock(&link->lock);
	taken = link->answers;
	link->answers = link->lent;
	if (taken.n && link->error.code == WHERRY_OK)
		wh_nats_hush(link->answers_fd);
	(void)pthread_mutex_unlock(&link->lock);
	link->lent = taken;
	*out_n = taken.n;
	return taken.all;
}

wherry_code wh_nats_link_failed(wh_nats_link *link, wherry_error *err)
{
	wherry_code code;

	(void)pthread_mutex_lock(&link->lock);
	code = link->error.code;
	if (code != WHERRY_OK && err)
		*err = link->error;
	(void)pthread_mutex_unlock(&link->lock);
	return code;
}

void wh_nats_link_leave(wh_nats_link *link)
{
	(void)pthread_mutex_lock(&link->lock);
	link->leaving = true;
	if (link->sock >= 0) /* The thread may wait in a write of TLS. */
		(void)shutdown(link->sock, SHUT_RDWR);
	(void)pthread_cond_signal(&link->changed);
	(void)pthread_mutex_unlock(&link->lock);
	wh_nats_ring(link->wake_fd);
}

bool wh_nats_link_free(wh_nats_link *link, int64_t wait_us)
{
	struct timespec until;

	(void)timespec_get(&until, TIME_UTC);
	until.tv_nsec += (long)(wait_us % WH_SECOND) * 1000;
	until.tv_sec += wait_us / WH_SECOND + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	if (pthread_timedjoin_np(link->thread, NULL, &until) != 0)
		return false;
	wh_nats_link_destroy(link);
	return true;
}

void wh_nats_link_abandon(wh_nats_link *link)
{
	bool ended;

	(void)pthread_detach(link->thread);
	(void)pthread_mutex_lock(&link->lock);
	link->abandoned = true;
	ended = link->ended;
	(void)pthread_mutex_unlock(&link->lock);
	if (ended)
		wh_nats_link_destroy(link);
}
