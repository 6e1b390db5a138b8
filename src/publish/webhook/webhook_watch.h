/*
 * The sockets of libcurl, in one epoll.
 *
 * Between two requests libcurl takes a connection's socket back and then gives it again.
 * The sockets of its connections stay registered meanwhile, which is two calls of the kernel
 * less for each request; what happens to one that nobody wants takes it out.
 */
#ifndef WH_PUBLISH_WEBHOOK_WATCH_H
#define WH_PUBLISH_WEBHOOK_WATCH_H

#include <curl/curl.h>
#include <sys/epoll.h>

#include "base/error.h"

typedef struct wh_watched wh_watched;

typedef struct wh_watch {
	int fd;          /* to poll for reading */
	wh_watched *all; /* by descriptor */
	size_t n;
} wh_watch;

wherry_code wh_watch_open(wh_watch *watch, wherry_error *err);
void wh_watch_close(wh_watch *watch);

/* CURLMOPT_SOCKETFUNCTION, CURLOPT_OPENSOCKETFUNCTION without the choice of an address, and
 * CURLOPT_CLOSESOCKETFUNCTION; ctx is the watch. */
int wh_watch_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known);
curl_socket_t wh_watch_connect(wh_watch *watch, const struct curl_sockaddr *address);
int wh_watch_end(void *ctx, curl_socket_t fd);

/* Get at most `most` events without waiting; returns their number. */
int wh_watch_ready(wh_watch *watch, struct epoll_event *out, int most);

#endif
