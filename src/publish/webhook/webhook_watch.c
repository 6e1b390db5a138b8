#include "publish/webhook/webhook_watch.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct wh_watched {
	uint32_t events; /* Events in the epoll; 0: the socket is not in it. */
	bool wanted;
	bool lasts; /* A connection: wh_watch_end() reports its end. */
};

enum { LEAST = 64 };

wherry_code wh_watch_open(wh_watch *watch, wherry_error *err)
{
	watch->fd = epoll_create1(EPOLL_CLOEXEC);
	if (watch->fd < 0)
		return wh_fail_errno(err, errno, "cannot watch connections");
	return WHERRY_OK;
}

void wh_watch_close(wh_watch *watch)
{
	if (watch->fd >= 0)
		(void)close(watch->fd);
	free(watch->all);
	*watch = (wh_watch){.fd = -1};
}

static wh_watched *find(wh_watch *watch, int fd)
{
	size_t n = watch->n ? watch->n : LEAST;
	wh_watched *grown;

	if (fd < 0)
		return NULL;
	while (n <= (size_t)fd)
		n *= 2;
	if (n > watch->n) {
		grown = realloc(watch->all, n * sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + watch->n, 0, (n - watch->n) * sizeof(*grown));
		watch->all = grown;
		watch->n = n;
	}
	return &watch->all[fd];
}

static void take_out(wh_watch *watch, wh_watched *s, int fd)
{
	(void)epoll_ctl(watch->fd, EPOLL_CTL_DEL, fd, NULL); /* Fails if it is closed. */
	s->events = 0;
}

int wh_watch_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known)
{
	wh_watch *watch = ctx;
	wh_watched *s = find(watch, fd);
	struct epoll_event event = {.data = {.fd = fd}};
	int op;

	(void)easy;
	(void)known;
	if (!s)
		return -1;
	s->wanted = what != CURL_POLL_REMOVE;
	if (!s->wanted) {
		if (!s->lasts)
			take_out(watch, s, fd);
		return 0;
	}
	if (what != CURL_POLL_OUT)
		event.events |= EPOLLIN;
	if (what != CURL_POLL_IN)
		event.events |= EPOLLOUT;
	if (event.events == s->events)
		return 0;
	op = s->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
	s->events = event.events;
	return epoll_ctl(watch->fd, op, fd, &event);
}

curl_socket_t wh_watch_connect(wh_watch *watch, const struct curl_sockaddr *address)
{
	int fd = socket(address->family, address->socktype | SOCK_CLOEXEC,
			address->protocol);
	wh_watched *s = fd < 0 ? NULL : find(watch, fd);

	if (s)
		*s = (wh_watched){.lasts = true};
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

int wh_watch_end(void *ctx, curl_socket_t fd)
{
	wh_watch *watch = ctx;

	if (fd >= 0 && (size_t)fd < watch->n)
		watch->all[fd] = (wh_watched){0}; /* close() removes it from the epoll. */
	return close(fd);
}

int wh_watch_ready(wh_watch *watch, struct epoll_event *out, int most)
{
	int ready = epoll_wait(watch->fd, out, most, 0), n = 0;

	for (int i = 0; i < ready; i++) {
		int fd = out[i].data.fd;
		wh_watched *s = &watch->all[fd];

		if (s->wanted)
			out[n++] = out[i];
		else
			take_out(watch, s, fd);
	}
	return n;
}
