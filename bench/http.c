/*
 * Posting to a web server on this machine: Wherry, and libcurl alone with the same bodies
 * and as many requests at once.  The server, a process of its own, reads and answers 200.
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
	static const char name[] = "\ncontent-length:";
	const char *end = memmem(c->text, c->have, "\r\n\r\n", 4);
	size_t head, body = 0;

	if (!end)
		return 0;
	head = (size_t)(end - c->text) + 4;
	for (size_t i = 0; i + sizeof(name) < head; i++)
		if (strncasecmp(c->text + i, name, sizeof(name) - 1) == 0)
			for (i += sizeof(name) - 1; c->text[i] != '\r'; i++)
				if (c->text[i] != ' ')
					body = body * 10 + (size_t)(c->text[i] - '0');
	return head + body <= c->have ? head + body : 0;
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
	CURLM *multi;
	CURL *easy[BENCH_CONNECTIONS];
	struct curl_slist *headers;
	const bench_load *load;
	int64_t sent, done, messages;
} posting;

static void post_next(posting *p, CURL *easy)
{
	wherry_message msg = bench_load_get(p->load, p->sent);

	if (p->sent == p->messages)
		return;
	p->sent++;
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
		post_next(p, easy);
	}
	return WHERRY_OK;
}

static wherry_code post_all(posting *p, const char *url, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	int running;

	p->headers = curl_slist_append(NULL, "content-type: application/json");
	p->headers = curl_slist_append(p->headers, "expect:");
	for (int i = 0; i < BENCH_CONNECTIONS; i++) {
		p->easy[i] = curl_easy_init();
		(void)curl_easy_setopt(p->easy[i], CURLOPT_URL, url);
		(void)curl_easy_setopt(p->easy[i], CURLOPT_NOSIGNAL, 1L);
		(void)curl_easy_setopt(p->easy[i], CURLOPT_HTTPHEADER, p->headers);
		post_next(p, p->easy[i]);
	}
	while (code == WHERRY_OK && p->done < p->messages) {
		(void)curl_multi_perform(p->multi, &running);
		code = take_answers(p, err);
		if (code == WHERRY_OK && p->done < p->messages)
			(void)curl_multi_poll(p->multi, NULL, 0, 1000, NULL);
	}
	return code;
}

wherry_code bench_curl_post(const bench_job *job, double out[BENCH_VALUES],
			    wherry_error *err)
{
	posting p = {.messages = job->messages};
	bench_load *load = NULL;
	wherry_code code = bench_load_open(job, &load, err);
	char url[64];
	pid_t server = start_server(url, sizeof(url));
	int64_t began = wh_monotonic(&wh_env_system);

	p.multi = curl_multi_init();
	p.load = load;
	if (code == WHERRY_OK && (!server || !p.multi))
		code = wh_fail(err, WHERRY_IO, "no server to post to");
	if (code == WHERRY_OK)
		code = post_all(&p, url, err);
	out[0] = bench_rate(job->messages, began);
	out[1] = bench_memory_mb();
	for (int i = 0; i < BENCH_CONNECTIONS; i++)
		curl_easy_cleanup(p.easy[i]);
	(void)curl_multi_cleanup(p.multi);
	curl_slist_free_all(p.headers);
	bench_load_close(load);
	if (server)
		stop_server(server);
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
