/*
 * Ends slow connections.  libmicrohttpd ends a connection that is silent for a while, but
 * single bytes keep it open.  Here each connection has a deadline, whatever arrives:
 *
 *     open ────────── headers are there ────────── answered, closed
 *          ASK_US at most          ANSWER_US at most
 *
 * A thread shuts down the sockets whose time is up.  The server then closes them.
 */
#include "daemon/http_guard.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/env.h"
#include "base/thread.h"

static const int64_t ask_us = 5 * WH_SECOND, answer_us = 30 * WH_SECOND;

typedef struct client {
	struct MHD_Connection *connection;
	int socket;
	bool asked; /* Its headers have arrived. */
	bool cut;   /* Its socket was shut down. */
	int64_t until_us;
	struct client *older, *newer;
} client;

struct wh_http_guard {
	pthread_mutex_t lock; /* Guards the members below. */
	pthread_cond_t changed;
	client *oldest, *newest;
	size_t n; /* Connections that are not cut. */
	bool leaving;
	pthread_t thread;
};

static void cut(wh_http_guard *g, client *c)
{
	(void)shutdown(c->socket, SHUT_RDWR);
	c->cut = true;
	g->n--;
}

/* Cut late connections.  Returns when the next one is due; WH_NEVER: none. */
static int64_t cut_late(wh_http_guard *g)
{
	int64_t now_us = wh_monotonic(&wh_env_system), next_us = WH_NEVER;

	for (client *c = g->oldest; c; c = c->newer) {
		if (!c->cut && c->until_us <= now_us)
			cut(g, c);
		if (!c->cut && c->until_us < next_us)
			next_us = c->until_us;
	}
	return next_us;
}

static void *watch(void *arg)
{
	wh_http_guard *g = arg;

	(void)pthread_mutex_lock(&g->lock);
	while (!g->leaving) {
		int64_t until_us = cut_late(g);
		struct timespec until = {until_us / WH_SECOND,
					 until_us % WH_SECOND * 1000};

		if (until_us == WH_NEVER)
			(void)pthread_cond_wait(&g->changed, &g->lock);
		else
			(void)pthread_cond_clockwait(&g->changed, &g->lock,
						     CLOCK_MONOTONIC, &until);
	}
	(void)pthread_mutex_unlock(&g->lock);
	return NULL;
}

static client *find(wh_http_guard *g, const struct MHD_Connection *connection)
{
	client *c = g->newest;

	while (c && c->connection != connection)
		c = c->older;
	return c;
}

static void add(wh_http_guard *g, struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	client *c = calloc(1, sizeof(*c));

	/* Only the server's time-out applies to it. */
	if (!c || !info) {
		free(c);
		return;
	}
	*c = (client){.connection = connection,
		      .socket = info->connect_fd,
		      .until_us = wh_later(wh_monotonic(&wh_env_system), ask_us),
		      .older = g->newest};
	for (client *old = g->oldest; old && g->n >= WH_HTTP_CROWD; old = old->newer)
		if (!old->cut && !old->asked)
			cut(g, old);
	if (g->newest)
		g->newest->newer = c;
	else
		g->oldest = c;
	g->newest = c;
	g->n++;
	(void)pthread_cond_signal(&g->changed);
}

static void drop(wh_http_guard *g, client *c)
{
	if (!c)
		return;
	g->n -= !c->cut;
	if (c->older)
		c->older->newer = c->newer;
	else
		g->oldest = c->newer;
	if (c->newer)
		c->newer->older = c->older;
	else
		g->newest = c->older;
	free(c);
}

void wh_http_guard_notify(void *guard, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	wh_http_guard *g = guard;

	(void)context;
	(void)pthread_mutex_lock(&g->lock);
	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		add(g, connection);
	else
		drop(g, find(g, connection));
	(void)pthread_mutex_unlock(&g->lock);
}

void wh_http_guard_asked(wh_http_guard *g, struct MHD_Connection *connection)
{
	client *c;

	(void)pthread_mutex_lock(&g->lock);
	c = find(g, connection);
	if (c && !c->asked) {
		c->asked = true;
		c->until_us = wh_later(wh_monotonic(&wh_env_system), answer_us);
	}
	(void)pthread_mutex_unlock(&g->lock);
}

wherry_code wh_http_guard_new(wh_http_guard **out, wherry_error *err)
{
	wh_http_guard *g = calloc(1, sizeof(*g));

	if (!g)
		return wh_oom(err);
	(void)pthread_mutex_init(&g->lock, NULL);
	(void)pthread_cond_init(&g->changed, NULL);
	if (wh_thread_start(&g->thread, WH_JOINED, watch, g)) {
		*out = g;
		return WHERRY_OK;
	}
	(void)pthread_cond_destroy(&g->changed);
	(void)pthread_mutex_destroy(&g->lock);
	free(g);
	return wh_fail(err, WHERRY_BUSY, "cannot start a thread for HTTP");
}

void wh_http_guard_free(wh_http_guard *g)
{
	if (!g)
		return;
	(void)pthread_mutex_lock(&g->lock);
	g->leaving = true;
	(void)pthread_cond_signal(&g->changed);
	(void)pthread_mutex_unlock(&g->lock);
	(void)pthread_join(g->thread, NULL);
	for (client *c = g->oldest, *newer; c; c = newer) {
		newer = c->newer;
		free(c);
	}
	(void)pthread_cond_destroy(&g->changed);
	(void)pthread_mutex_destroy(&g->lock);
	free(g);
}
