/*
 *            submit                 answered, or not              collect
 *   FREE ───────────► IN_FLIGHT ──────────────────► OVER ──────────────────► FREE
 *     │                    │                          ▲
 *     │                    └── the destination's ──► BROKEN
 *     └── refused: malformed or too large ────────────┘
 *
 * After a failure of the destination, such as wrong credentials, nothing more is taken.
 * collect waits for the requests in flight, and then fails.
 *
 * All sockets of libcurl are in one epoll, which is the descriptor to poll.
 */
#include "publish/webhook/webhook_slots.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <wherry/version.h>

#include "config/settings.h"
#include "publish/curl_start.h"
#include "publish/flight.h"
#include "publish/parts.h"
#include "publish/webhook/webhook_watch.h"

enum {
	BURST_US = 100000, /* Longest pause that webhook.rate makes up for. */
	/* The relay sends nothing while it acknowledges, so it acknowledges seldom. */
	ACK_DELAY_US = 20000
};

static wh_webhook *of(wherry_publisher *pub)
{
	return (wh_webhook *)pub;
}

/* ---- functions that libcurl calls ---- */

static curl_socket_t open_socket(void *ctx, curlsocktype purpose,
				 struct curl_sockaddr *address)
{
	wh_webhook_slot *s = ctx;

	(void)purpose;
	s->refused = s->of->set.refuse_private && wh_address_private(&address->addr);
	return s->refused ? CURL_SOCKET_BAD : wh_watch_connect(&s->of->watch, address);
}

/* ---- open and close ---- */

static void release(wh_webhook *p, wh_webhook_slot *s)
{
	s->phase = WH_SLOT_FREE;
	s->flight = (wh_flight){.reason = s->reason};
	wh_flights_append(&p->free, &s->flight);
}

static void webhook_drop(wherry_publisher *pub)
{
	wh_webhook *p = of(pub);

	p->free = p->over = (wh_flights){NULL, NULL, 0};
	for (size_t i = p->n_slots; i--;) {
		wh_webhook_slot *s = &p->slots[i];

		if (s->phase == WH_SLOT_IN_FLIGHT)
			(void)curl_multi_remove_handle(p->multi, s->easy);
		release(p, s);
	}
	p->n_in_flight = p->n_broken = p->n_in_body = 0;
	p->broken = (wherry_error)WHERRY_ERROR_INIT;
	p->held_us = p->timer_us = p->body_by_us = WH_NEVER;
}

static void webhook_close(wherry_publisher *pub)
{
	wh_webhook *p = of(pub);

	if (p->slots)
		webhook_drop(pub);
	for (size_t i = 0; p->slots && i < p->n_slots; i++) {
		curl_easy_cleanup(p->slots[i].easy);
		wh_webhook_request_clear(&p->slots[i].request);
	}
	/* It closes connections, and calls wh_watch_end(). */
	curl_multi_cleanup(p->multi);
	wh_watch_close(&p->watch);
	wh_webhook_forget(&p->set);
	free(p->slots);
	free(p);
}

static CURLM *make_multi(wh_webhook *p)
{
	CURLM *multi = curl_multi_init();

	if (!multi)
		return NULL;
	(void)curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, wh_watch_socket);
	(void)curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, &p->watch);
	(void)curl_multi_setopt(multi, CURLMOPT_MAX_HOST_CONNECTIONS, p->set.connections);
	(void)curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, p->set.connections);
	(void)curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, p->set.streams);
	return multi;
}

/*
 * The receiver reset a request of HTTP/2 that it may have answered: speak HTTP/1.1.  libcurl would use a connection
 * of HTTP/2 that it has for the next request, so close all, once nothing is in flight.
 */
static bool leave_http_2(wh_webhook *p)
{
	CURLM *multi = make_multi(p);

	if (!multi)
		return false;
	(void)curl_multi_cleanup(p->multi);
	p->multi = multi;
	p->set.http_1 = true;
	p->speech = WH_SPEECH_HTTP_1;
	p->timer_us = WH_NEVER;
	wh_log(p->env, WHERRY_LOG_WARN, "webhook", "http-1",
	       wh_log_note(
		       "the receiver reset a request of HTTP/2 without an answer: all "
		       "are sent over HTTP/1.1 from now on"));
	return true;
}

static wherry_code allocate(wh_webhook *p, wherry_error *err)
{
	long most = p->set.connections;
	wherry_code code;

	if (p->set.secure && p->set.streams > most)
		most = p->set.streams;
	p->slots = calloc((size_t)most, sizeof(*p->slots));
	p->multi = make_multi(p);
	if (!p->slots || !p->multi)
		return wh_oom(err);
	p->n_slots = (size_t)most;
	for (size_t i = 0; i < p->n_slots; i++)
		p->slots[i] =
			(wh_webhook_slot){.of = p, .request = WH_WEBHOOK_REQUEST_INIT};
	code = wh_watch_open(&p->watch, err);
	if (code == WHERRY_OK)
		webhook_drop(&p->base);
	return code;
}

static wherry_code open_as(const wh_publisher_driver *driver, const char *rest,
			   const wherry_config *config, const wh_env *env,
			   wherry_publisher **out, wherry_error *err)
{
	wh_webhook *p;
	wherry_code code = wh_curl_start(err);

	if (code != WHERRY_OK)
		return code;
	p = calloc(1, sizeof(*p));
	if (!p)
		return wh_oom(err);
	p->base.driver = driver;
	p->env = env;
	p->watch.fd = -1;
	code = wh_webhook_read(driver->scheme, rest, config, &p->set, err);
	p->speech =
		p->set.secure && !p->set.http_1 ? WH_SPEECH_UNKNOWN : WH_SPEECH_HTTP_1;
	if (code == WHERRY_OK)
		code = allocate(p, err);
	if (code == WHERRY_OK)
		*out = &p->base;
	else
		webhook_close(&p->base);
	return code;
}

static wherry_code check_as(const char *scheme, const char *rest,
			    const wherry_config *config, wherry_error *err)
{
	wh_webhook_settings set = {.url = NULL};
	wherry_code code = wh_webhook_read(scheme, rest, config, &set, err);

	if (code == WHERRY_OK)
		wh_webhook_forget(&set);
	return code;
}

static wherry_code https_check(const char *rest, const wherry_config *config,
			       wherry_error *err)
{
	return check_as("https", rest, config, err);
}

static wherry_code http_check(const char *rest, const wherry_config *config,
			      wherry_error *err)
{
	return check_as("http", rest, config, err);
}

static wherry_code https_open(const char *rest, const wherry_config *config,
			      const wh_env *env, wherry_publisher **out,
			      wherry_error *err)
{
	return open_as(&wh_publisher_https, rest, config, env, out, err);
}

static wherry_code http_open(const char *rest, const wherry_config *config,
			     const wh_env *env, wherry_publisher **out, wherry_error *err)
{
	return open_as(&wh_publisher_http, rest, config, env, out, err);
}

/* ---- requests ---- */

#define SET(easy, option, value) ((void)curl_easy_setopt((easy), (option), (value)))

static void set_tls(CURL *easy, const wh_webhook_settings *set)
{
	SET(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	if (set->ca_file) {
		SET(easy, CURLOPT_CAINFO, set->ca_file);
		SET(easy, CURLOPT_CAPATH, NULL);
	}
	if (set->cert)
		SET(easy, CURLOPT_SSLCERT, set->cert);
	if (set->key)
		SET(easy, CURLOPT_SSLKEY, set->key);
}

/* Set the options that are the same for every message. */
static bool make_easy(const wh_webhook *p, wh_webhook_slot *s)
{
	const wh_webhook_settings *set = &p->set;
	CURL *easy = curl_easy_init();

	if (!easy)
		return false;
	s->easy = easy;
	SET(easy, CURLOPT_PRIVATE, s);
	SET(easy, CURLOPT_NOSIGNAL, 1L);
	SET(easy, CURLOPT_PROTOCOLS_STR, set->secure ? "https" : "http");
	SET(easy, CURLOPT_PATH_AS_IS, 1L);
	SET(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	SET(easy, CURLOPT_USERAGENT, "wherry/" WHERRY_VERSION);
	SET(easy, CURLOPT_TIMEOUT_MS, (long)(set->limit_us / 1000));
	SET(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(set->connect_us / 1000));
	SET(easy, CURLOPT_ERRORBUFFER, s->error);
	SET(easy, CURLOPT_HEADERFUNCTION, wh_webhook_take_header);
	SET(easy, CURLOPT_HEADERDATA, s);
	SET(easy, CURLOPT_WRITEFUNCTION, wh_webhook_take_body);
	SET(easy, CURLOPT_WRITEDATA, s);
	SET(easy, CURLOPT_POST, 1L);
	SET(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	SET(easy, CURLOPT_OPENSOCKETDATA, s);
	SET(easy, CURLOPT_CLOSESOCKETFUNCTION, wh_watch_end);
	SET(easy, CURLOPT_CLOSESOCKETDATA, &s->of->watch);
	if (set->refuse_private)
		SET(easy, CURLOPT_PROXY, "");
	set_tls(easy, set);
	/* The only option that copies its value, and so may fail. */
	if (curl_easy_setopt(easy, CURLOPT_URL, set->url) == CURLE_OK)
		return true;
	curl_easy_cleanup(easy);
	s->easy = NULL;
	return false;
}

static bool send_request(wh_webhook *p, wh_webhook_slot *s)
{
	const wh_webhook_request *request = &s->request;

	if (!s->easy && !make_easy(p, s))
		return false;
	s->refused = false;
	s->started_us = wh_monotonic(p->env);
	s->read = 0;
	s->headers_us = 0;
	memset(s->excerpt, 0, sizeof(s->excerpt));
	s->error[0] = 0;
	SET(s->easy, CURLOPT_HTTP_VERSION,
	    p->set.secure && !p->set.http_1 ? (long)CURL_HTTP_VERSION_2TLS
					    : (long)CURL_HTTP_VERSION_1_1);
	SET(s->easy, CURLOPT_HTTPHEADER, request->list);
	SET(s->easy, CURLOPT_POSTFIELDS, request->body);
	SET(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
	SET(s->easy, CURLOPT_PIPEWAIT, p->speech == WH_SPEECH_HTTP_2 ? 1L : 0L);
	if (p->set.topical &&
	    curl_easy_setopt(s->easy, CURLOPT_URL, request->url.ptr) != CURLE_OK)
		return false;
	return curl_multi_add_handle(p->multi, s->easy) == CURLM_OK;
}

static wherry_code start(wh_webhook *p, const wherry_message *msg, wherry_error *err)
{
	/* The slot used last: others may never need memory. */
	wh_webhook_slot *s = (wh_webhook_slot *)p->free.tail;
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code =
		wh_webhook_write(&s->request, &p->set, msg, wh_now(p->env), &why);
	bool refused = code == WHERRY_INVALID || code == WHERRY_TOOBIG;

	if (code != WHERRY_OK && !refused)
		return wh_fail(err, code, "%s", why.message);
	if (!refused && !send_request(p, s))
		return wh_oom(err);
	wh_flights_remove(&p->free, &s->flight);
	s->flight.message = msg;
	if (refused) {
		wh_webhook_finish(p, s, WHERRY_REJECTED, why.message);
		return WHERRY_OK;
	}
	s->phase = WH_SLOT_IN_FLIGHT;
	if (!p->n_in_flight++)
		p->quiet_us = s->started_us;
	return WHERRY_OK;
}

/* ---- submit and collect ---- */

static bool has_room(const wh_webhook *p)
{
	size_t most = (size_t)p->set.connections;

	if (p->speech == WH_SPEECH_HTTP_2)
		most = (size_t)p->set.streams;
	if (p->speech == WH_SPEECH_UNKNOWN)
		most = 1;
	if (p->was_reset && !p->set.http_1)
		return false; /* Until nothing is in flight. */
	return p->free.n && p->n_in_flight < most && !p->n_broken;
}

/* May the next request start?  webhook.rate spreads requests evenly over the second,
 * except for a burst after a pause. */
static bool may_leave(wh_webhook *p)
{
	int64_t now_us;

	if (!p->set.rate)
		return true;
	now_us = wh_monotonic(p->env);
	if (now_us < p->next_us) {
		p->held_us = p->next_us;
		return false;
	}
	if (p->next_us < now_us - BURST_US)
		p->next_us = now_us - BURST_US;
	p->next_us += WH_SECOND / p->set.rate;
	return true;
}

static wherry_code webhook_submit(wherry_publisher *pub,
				  const wherry_message *const *msgs, size_t n,
				  size_t *out_taken, wherry_error *err)
{
	wh_webhook *p = of(pub);
	wherry_code code = WHERRY_OK;
	size_t i;

	*out_taken = 0;
	p->held_us = WH_NEVER;
	if (p->was_reset && !p->set.http_1 && !p->n_in_flight && !leave_http_2(p))
		return wh_oom(err);
	for (i = 0; i < n && has_room(p) && may_leave(p); i++) {
		code = start(p, msgs[i], err);
		if (code != WHERRY_OK)
			break;
	}
	*out_taken = i;
	if (i)
		wh_webhook_go_on(p);
	/* Out of memory: requests in flight will free some. */
	return p->n_in_flight + p->over.n + p->n_broken ? WHERRY_OK : code;
}

static wherry_code webhook_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				   size_t *out_n, wherry_error *err)
{
	wh_webhook *p = of(pub);
	size_t n = 0;

	if (p->n_in_flight)
		wh_webhook_drive(p);
	for (; n < cap && p->over.n; n++) {
		wh_webhook_slot *s = (wh_webhook_slot *)wh_flights_pop(&p->over);

		wh_flight_receipt(&s->flight, &out[n]);
		release(p, s);
	}
	*out_n = n;
	if (n || p->n_in_flight || !p->n_broken)
		return WHERRY_OK;
	return wh_fail_native(err, p->broken.code, p->broken.native, "%s",
			      p->broken.message);
}

static int webhook_fd(wherry_publisher *pub, short *out_events)
{
	const wh_webhook *p = of(pub);

	if (!p->n_in_flight)
		return -1;
	*out_events = POLLIN;
	return p->watch.fd;
}

static int64_t webhook_deadline(wherry_publisher *pub)
{
	const wh_webhook *p = of(pub);
	int64_t at;

	if (p->over.n || (p->n_broken && !p->n_in_flight))
		return 0;
	if (!p->n_in_flight)
		return p->held_us;
	at = wh_sooner(wh_sooner(p->timer_us, p->held_us), p->body_by_us);
	return wh_monotonic(p->env) < wh_webhook_trouble_at(p)
		       ? wh_sooner(at, wh_webhook_trouble_at(p))
		       : at;
}

static size_t webhook_numbers(const wherry_publisher *pub, wh_number *out)
{
	return wh_webhook_numbers(&((const wh_webhook *)pub)->counts, out);
}

/* 20 attempts.  The delay doubles from 5 s to 6 h, and each wait is a random part of it:
 * about a day in all. */
static const wh_persistence persistence = {20, 5 * WH_SECOND, 6 * 3600 * WH_SECOND};

/* Without TLS, anyone on the path can read the request. */
static void http_warn(const char *rest, const wherry_config *config, wh_buf *out)
{
	if (strpbrk(rest, "@?"))
		wh_buf_puts(out, "http: sends user, password and parameters of the URL "
				 "unencrypted: use https:\n");
	if (*wh_config_text(config, WH_WEBHOOK_HEADERS))
		wh_buf_puts(out, "http: sends webhook.headers unencrypted: use https:\n");
}

static const wh_binding binding = {"ce-", true, false, "application/cloudevents+json"};

/* Both schemes have the same functions, except those that depend on the scheme. */
#define WEBHOOK(name, checks, opens, warns)                                              \
	{                                                                                \
		.scheme = (name), .caps = 0, .persistence = &persistence,                \
		.no_readback = "a web server does not say which messages it has",        \
		.ack_delay_us = ACK_DELAY_US, .check = (checks), .open = (opens),        \
		.close = webhook_close, .submit = webhook_submit,                        \
		.collect = webhook_collect, .drop = webhook_drop, .fd = webhook_fd,      \
		.deadline = webhook_deadline, .numbers = webhook_numbers,                \
		.trouble = wh_webhook_trouble, .warn = (warns), .binding = &binding,     \
	}

const wh_publisher_driver wh_publisher_https =
	WEBHOOK("https", https_check, https_open, NULL);
const wh_publisher_driver wh_publisher_http =
	WEBHOOK("http", http_check, http_open, http_warn);
