/*
 * Threads that store bodies.
 *
 *            give               a thread is idle           it ended           take
 *   caller ───────► queue ─────────────────────► busy ────────────────► over ───────► caller
 *
 * The caller's thread never waits for a store.  Only wh_uploads_close() waits for the
 * uploads that are running, which are asked to end.
 */
#include "publish/bodies/bodies.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"

void wh_upload_free(wh_upload *upload)
{
	if (upload)
		free(upload->body);
	free(upload);
}

static void append(wh_upload **list, wh_upload *upload)
{
	while (*list)
		list = &(*list)->next;
	upload->next = NULL;
	*list = upload;
}

static wh_upload *pop(wh_upload **list)
{
	wh_upload *first = *list;

	if (first)
		*list = first->next;
	return first;
}

static void store_one(wh_body_store *store, void *hand, wh_upload *upload)
{
	wherry_error why = WHERRY_ERROR_INIT;
	size_t len = strlen(upload->name);

	if (!wh_sha256((wh_view){upload->body, upload->len}, upload->sha256)) {
		upload->code = wh_oom(&why);
	} else {
		(void)snprintf(upload->name + len, sizeof(upload->name) - len, "-%s",
			       upload->sha256);
		upload->code = store->driver->put(store, hand, upload, &why);
	}
	(void)snprintf(upload->reason, sizeof(upload->reason), "%.*s",
		       (int)sizeof(upload->reason) - 1, why.message);
}

/* The place of a thread among those that are busy. */
static wh_upload **place_of(wh_uploads *u)
{
	size_t i = 0;

	while (u->busy[i])
		i++;
	return &u->busy[i];
}

static void *work(void *arg)
{
	wh_uploads *u = arg;
	wh_body_store *store = u->store;
	void *hand = store->driver->enter ? store->driver->enter(store) : NULL;
	wh_upload *upload, **place;

	(void)pthread_mutex_lock(&u->lock);
	while (true) {
		while (!u->queue && !u->ending) {
			u->n_idle++;
			(void)pthread_cond_wait(&u->changed, &u->lock);
			u->n_idle--;
		}
		if (u->ending)
			break;
		upload = pop(&u->queue);
		place = place_of(u);
		*place = upload;
		(void)pthread_mutex_unlock(&u->lock);
		store_one(store, hand, upload);
		(void)pthread_mutex_lock(&u->lock);
		*place = NULL;
		append(&u->over, upload);
		(void)eventfd_write(u->event, 1);
	}
	(void)pthread_mutex_unlock(&u->lock);
	if (store->driver->leave)
		store->driver->leave(hand);
	return NULL;
}

wherry_code wh_uploads_open(wh_uploads *u, wh_body_store *store, wherry_error *err)
{
	*u = (wh_uploads){.store = store,
			  .event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
	if (u->event < 0) {
		int number = errno;

		store->driver->close(store);
		return wh_fail_errno(err, number, "cannot wait for uploads");
	}
	(void)pthread_mutex_init(&u->lock, NULL);
	(void)pthread_cond_init(&u->changed, NULL);
	return WHERRY_OK;
}

void wh_uploads_close(wh_uploads *u)
{
	(void)pthread_mutex_lock(&u->lock);
	u->ending = true;
	for (size_t i = 0; i < WH_UPLOADS; i++)
		if (u->busy[i])
			atomic_store(&u->busy[i]->cancelled, true);
	(void)pthread_cond_broadcast(&u->changed);
	(void)pthread_mutex_unlock(&u->lock);
	for (size_t i = 0; i < u->n_threads; i++)
		(void)pthread_join(u->threads[i], NULL);
	while (u->queue)
		wh_upload_free(pop(&u->queue));
	while (u->over)
		wh_upload_free(pop(&u->over));
	(void)pthread_cond_destroy(&u->changed);
	(void)pthread_mutex_destroy(&u->lock);
	(void)close(u->event);
	u->store->driver->close(u->store);
}

bool wh_uploads_give(wh_uploads *u, wh_upload *upload)
{
	bool idle;

	(void)pthread_mutex_lock(&u->lock);
	idle = u->n_idle > 0;
	(void)pthread_mutex_unlock(&u->lock);
	if (!idle && u->n_threads < WH_UPLOADS &&
	    wh_thread_start(&u->threads[u->n_threads], WH_JOINED, work, u))
		u->n_threads++;
	if (!u->n_threads)
		return false;
	(void)pthread_mutex_lock(&u->lock);
	append(&u->queue, upload);
	(void)pthread_cond_signal(&u->changed);
	(void)pthread_mutex_unlock(&u->lock);
	u->n_running++;
	return true;
}

wh_upload *wh_uploads_take(wh_uploads *u)
{
	eventfd_t many;
	wh_upload *upload;

	if (!u->n_running)
		return NULL;
	(void)pthread_mutex_lock(&u->lock);
	upload = pop(&u->over);
	if (!upload)
		(void)eventfd_read(u->event, &many);
	(void)pthread_mutex_unlock(&u->lock);
	u->n_running -= upload != NULL;
	return upload;
}
