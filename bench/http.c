/*
 * Posting to a web server on this machine: Wherry; libcurl alone with the same bodies and as
 * many requests at once; and that between libpq's reading and marking.  The server, a process
 * of its own, reads and answers 200.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <wherry/wherry.h>

#include "base/env.h"

enum { REQUEST_MOST = 65536, EVENTS = 64 };

/* ---- the server ---- */

typedef struct client {
	int fd;
	size_t have;
	char text[REQUEST_MOST];
} client;

/* Bytes of the first request, 0 while it is not all there. */
static size_t request_len(const client *c)
{
	static const char name[] = "content-length:";
	const char *end = memmem(c->text, c->have, "\r\n\r\n", 4), *at = c->text;
	size_t len;

	if (!end)
		return 0;
	len = (size_t)(end + 4 - c->text);
	while (at < end && strncasecmp(at, name, sizeof(name) - 1) != 0)
		at = (const char *)memchr(at, '\n', (size_t)(end + 4 - at)) + 1;
	if (at < end)
		len += strtoul(at + sizeof(name) - 1, NULL, 10);
	return len <= c->have ? len : 0;
}

/* False: it is gone. */
static bool answer(client *c)
{
	static const char ok[] = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
	ssize_t n = read(c->fd, c->text + c->have, sizeof(c->text) - c->have);
	size_t len;

	if (n <= 0)
		return n < 0 && errno == EAGAIN;
	c->have += (size_t)n;
	while ((len = request_len(c))) {
		if (send(c->fd, ok, sizeof(ok) - 1, MSG_NOSIGNAL) < 0)
			return false;
		c->have -= len;
		memmove(c->text, c->text + len, c->have);
	}
	return c->have < sizeof(c->text);
}

static void serve(int listener)
{
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = {.events = EPOLLIN}, events[EVENTS];

	(void)epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
	for (;;) {
		int n = epoll_wait(epoll, events, EVENTS, -1);

		for (int i = 0; i < n; i++) {
			client *c = events[i].data.ptr;

			if (c && !answer(c)) {
				(void)close(c->fd);
				free(c);
			}
			if (c || !(c = calloc(1, sizeof(*c))))
				continue;
			c->fd = accept4(listener, NULL, NULL,
					SOCK_NONBLOCK | SOCK_CLOEXEC);
			event = (struct epoll_event){.events = EPOLLIN,
						     .data = {.ptr = c}};
			(void)epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
		}
	}
}

/* Its process; 0: it cannot run. */
static pid_t start_server(char *url, size_t cap)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	socklen_t len = sizeof(in);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t pid;

	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (listener < 0 || bind(listener, (const struct sockaddr *)&in, len) != 0 ||
	    listen(listener, SOMAXCONN) != 0 ||
	    getsockname(listener, (struct sockaddr *)&in, &len) != 0)
		return 0;
	pid = fork();
	if (!pid)
		serve(listener);
	(void)close(listener);
	(void)snprintf(url, cap, "http://127.0.0.1:%d/hook", ntohs(in.sin_port));
	return pid > 0 ? pid : 0;
}

static void stop_server(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

/* ---- libcurl alone ---- */

typedef struct posting {
	pid_t server;
	char url[64];
	CURLM *multi;
	CURL *easy[BENCH_CONNECTIONS];
	CURL *idle[BENCH_CONNECTIONS];
	int n_idle;
	struct curl_slist *headers;
	bench_load *load;
	int64_t sent, done;
} posting;

static void post_next(posting *p, CURL *easy)
{
	wherry_message msg = bench_load_get(p->load, p->sent++);

	(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, msg.body);
	(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
			       (curl_off_t)msg.body_len);
	(void)curl_multi_add_handle(p->multi, easy);
}

static wherry_code take_answers(posting *p, wherry_error *err)
{
	CURLMsg *over;
	int left;

	while ((over = curl_multi_info_read(p->multi, &left))) {
		CURL *easy = over->easy_handle;
		long status = 0;

		(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
		if (over->data.result != CURLE_OK || status != 200)
			return wh_fail(err, WHERRY_IO, "the server answered %ld", status);
		(void)curl_multi_remove_handle(p->multi, easy);
		p->done++;
		p->idle[p->n_idle++] = easy;
	}
	return WHERRY_OK;
}

/* So many more, until all are answered. */
static wherry_code post_some(void *ctx, int64_t n, wherry_error *err)
{
	posting *p = ctx;
	int64_t all = p->done + n;
	wherry_code code = WHERRY_OK;
	int running;

	while (code == WHERRY_OK && p->done < all) {
		while (p->n_idle && p->sent < all)
			post_next(p, p->idle[--p->n_idle]);
		(void)curl_multi_perform(p->multi, &running);
		code = take_answers(p, err);
		if (code == WHERRY_OK && p->done < all && (!p->n_idle || p->sent == all))
			(void)curl_multi_poll(p->multi, NULL, 0, 1000, NULL);
	}
	return code;
}

static void end_posting(posting *p)
{
	for (int i = 0; i < BENCH_CONNECTIONS; i++)
		curl_easy_cleanup(p->easy[i]);
	(void)curl_multi_cleanup(p->multi);
	curl_slist_free_all(p->headers);
	bench_load_close(p->load);
	if (p->server)
		stop_server(p->server);
}

/* End it also when it fails. */
static wherry_code begin_posting(const bench_job *job, posting *p, wherry_error *err)
{
	wherry_code code = bench_load_open(job, &p->load, err);

	p->server = start_server(p->url, sizeof(p->url));
	p->multi = curl_multi_init();
	if (code == WHERRY_OK && (!p->server || !p->multi))
		code = wh_fail(err, WHERRY_IO, "no server to post to");
	p->headers = curl_slist_append(NULL, "content-type: application/json");
	p->headers = curl_slist_append(p->headers, "expect:");
	for (int i = 0; i < BENCH_CONNECTIONS; i++) {
		CURL *easy = curl_easy_init();

		(void)curl_easy_setopt(easy, CURLOPT_URL, p->url);
		(void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
		(void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, p->headers);
		p->easy[i] = p->idle[p->n_idle++] = easy;
	}
	return code;
}

wherry_code bench_curl_post(const bench_job *job, double out[BENCH_VALUES],
			    wherry_error *err)
{
	posting p = {.sent = 0};
	wherry_code code = begin_posting(job, &p, err);
	int64_t began = wh_monotonic(&wh_env_system);

	if (code == WHERRY_OK)
		code = post_some(&p, job->messages, err);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	end_posting(&p);
	return code;
}

/* The least that reads, posts and marks: one after the other, a batch at a time. */
wherry_code bench_libpq_post(const bench_job *job, double out[BENCH_VALUES],
			     wherry_error *err)
{
	posting p = {.sent = 0};
	bench_job posts = *job;
	wherry_code code = begin_posting(job, &p, err);

	posts.between = post_some;
	posts.ctx = &p;
	if (code == WHERRY_OK)
		code = bench_libpq_drain(&posts, out, err);
	end_posting(&p);
	return code;
}

/* ---- Wherry ---- */

wherry_code bench_wherry_post(const bench_job *job, double out[BENCH_VALUES],
			      wherry_error *err)
{
	bench_job posts = *job;
	char url[64];
	pid_t server = start_server(url, sizeof(url));
	wherry_code code;

	if (!server)
		return wh_fail(err, WHERRY_IO, "no server to post to");
	posts.to = url;
	code = bench_wherry_drain(&posts, out, err);
	stop_server(server);
	return code;
}
