/*
 * Posting to a web server on this machine: Wherry; libcurl alone with the same bodies and as
 * many requests at once; and that between libpq's reading and marking.  The server, a process
 * of its own, reads and answers 200.
 */
#include "bench.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* Its process. */
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
		bench_die("no server to post to");
	pid = bench_fork();
	if (!pid)
		serve(listener);
	(void)close(listener);
	(void)snprintf(url, cap, "http://127.0.0.1:%d/hook", ntohs(in.sin_port));
	return pid;
}

/* ---- libcurl alone ---- */

typedef struct posting {
	pid_t server;
	char url[64];
	CURLM *multi;
	CURL *idle[BENCH_CONNECTIONS];
	int n_idle;
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

static void take_answers(posting *p)
{
	CURLMsg *over;
	int left;

	while ((over = curl_multi_info_read(p->multi, &left))) {
		CURL *easy = over->easy_handle;
		long status = 0;

		(void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
		if (over->data.result != CURLE_OK || status != 200)
			bench_die("the server answered %ld", status);
		(void)curl_multi_remove_handle(p->multi, easy);
		p->done++;
		p->idle[p->n_idle++] = easy;
	}
}

/* So many more, until all are answered. */
static void post_some(void *ctx, int64_t n)
{
	posting *p = ctx;
	int64_t all = p->done + n;
	int running;

	while (p->done < all) {
		while (p->n_idle && p->sent < all)
			post_next(p, p->idle[--p->n_idle]);
		(void)curl_multi_perform(p->multi, &running);
		take_answers(p);
		if (p->done < all && (!p->n_idle || p->sent == all))
			(void)curl_multi_poll(p->multi, NULL, 0, 1000, NULL);
	}
}

static posting begin_posting(const bench_job *job)
{
	posting p = {.load = bench_load_open(job), .multi = curl_multi_init()};
	struct curl_slist *headers =
		curl_slist_append(NULL, "content-type: application/json");

	p.server = start_server(p.url, sizeof(p.url));
	headers = curl_slist_append(headers, "expect:");
	for (int i = 0; i < BENCH_CONNECTIONS; i++) {
		CURL *easy = curl_easy_init();

		(void)curl_easy_setopt(easy, CURLOPT_URL, p.url);
		(void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
		(void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
		p.idle[p.n_idle++] = easy;
	}
	return p;
}

void bench_curl_post(const bench_job *job, double *out)
{
	posting p = begin_posting(job);
	int64_t began = bench_now();

	post_some(&p, job->messages);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	bench_kill(p.server);
}

/* The least that reads, posts and marks: one after the other, a batch at a time. */
void bench_libpq_post(const bench_job *job, double *out)
{
	posting p = begin_posting(job);
	bench_job posts = *job;

	posts.between = post_some;
	posts.ctx = &p;
	bench_libpq_drain(&posts, out);
	bench_kill(p.server);
}

/* ---- Wherry ---- */

void bench_wherry_post(const bench_job *job, double *out)
{
	bench_job posts = *job;
	char url[64];
	pid_t server = start_server(url, sizeof(url));

	posts.to = url;
	bench_wherry_drain(&posts, out);
	bench_kill(server);
}
