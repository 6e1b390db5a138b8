/*
 * Looking up a host in a thread, since getaddrinfo() waits for servers of names.
 */
#include "publish/redis/redis.h"

#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"

struct wh_redis_lookup {
	atomic_int refs; /* The thread, and who asked. */
	atomic_bool ended;
	int fd;
	char host[WH_REDIS_HOST_LEN], port[8];
	struct addrinfo *found;
	int error;
};

static void leave(wh_redis_lookup *lookup)
{
	if (atomic_fetch_sub(&lookup->refs, 1) != 1)
		return;
	if (lookup->found)
		freeaddrinfo(lookup->found);
	(void)close(lookup->fd);
	free(lookup);
}

static void look(wh_redis_lookup *lookup, int flags)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC,
				       .ai_socktype = SOCK_STREAM,
				       .ai_flags = flags | AI_NUMERICSERV};

	lookup->error = getaddrinfo(lookup->host, lookup->port, &hints, &lookup->found);
	if (lookup->error)
		lookup->found = NULL;
	atomic_store(&lookup->ended, true);
	(void)eventfd_write(lookup->fd, 1);
}

static void *work(void *arg)
{
	wh_redis_lookup *lookup = arg;

	look(lookup, 0);
	leave(lookup);
	return NULL;
}

wh_redis_lookup *wh_redis_lookup_new(const char *host, int port)
{
	wh_redis_lookup *lookup = calloc(1, sizeof(*lookup));
	pthread_t thread;

	if (!lookup)
		return NULL;
	atomic_init(&lookup->refs, 1);
	(void)snprintf(lookup->host, sizeof(lookup->host), "%s", host);
	(void)snprintf(lookup->port, sizeof(lookup->port), "%d", port);
	lookup->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (lookup->fd >= 0)
		look(lookup, AI_NUMERICHOST);
	if (lookup->fd < 0) {
		free(lookup);
		return NULL;
	}
	if (lookup->found)
		return lookup;
	atomic_store(&lookup->ended, false);
	atomic_store(&lookup->refs, 2);
	if (wh_thread_start(&thread, WH_DETACHED, work, lookup))
		return lookup;
	atomic_store(&lookup->refs, 1);
	leave(lookup);
	return NULL;
}

int wh_redis_lookup_fd(const wh_redis_lookup *lookup)
{
	return lookup->fd;
}

bool wh_redis_lookup_take(wh_redis_lookup *lookup, struct addrinfo **out,
			  const char **out_why)
{
	if (!atomic_load(&lookup->ended))
		return false;
	*out = lookup->found;
	lookup->found = NULL;
	*out_why = lookup->error ? gai_strerror(lookup->error) : "";
	return true;
}

void wh_redis_lookup_leave(wh_redis_lookup *lookup)
{
	if (lookup)
		leave(lookup);
}
