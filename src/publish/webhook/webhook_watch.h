/*
 * Keeps the sockets of libcurl in one epoll.
 *
 * Between two requests libcurl stops watching a connection's socket, and then watches it
 * again.  The sockets of its connections stay in the epoll meanwhile, which saves two
 * system calls a request.  An event on a socket that is not watched removes the socket.
 */
#ifndef WH_PUBLISH_WEBHOOK_WATCH_H
#define WH_PUBLISH_WEBHOOK_WATCH_H

#include <curl/curl.h>
#include <sys/epoll.h>

#include "base/error.h"

typedef struct wh_watched wh_watched;

typedef struct wh_watch {
	int fd;          /* The epoll, to poll for reading. */
	wh_watched *all; /* Indexed by descriptor. */
	size_t n;
} wh_watch;

wherry_code wh_watch_open(wh_watch *watch, wherry_error *err);
void wh_watch_close(wh_watch *watch);

/* For CURLMOPT_SOCKETFUNCTION, CURLOPT_OPENSOCKETFUNCTION (the caller checks the address)
 * and CURLOPT_CLOSESOCKETFUNCTION.  ctx is the watch. */
int wh_watch_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known);
curl_socket_t wh_watch_connect(wh_watch *watch, const struct curl_sockaddr *address);
int wh_watch_end(void *ctx, curl_socket_t fd);

/* Get up to `most` events without waiting.  Returns how many. */
int wh_watch_ready(wh_watch *watch, struct epoll_event *out, int most);

#endif
