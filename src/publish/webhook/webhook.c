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
#include "publish/webhook/webhook.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <wherry/version.h>

#include "config/settings.h"
#include "publish/flight.h"
#include "publish/parts.h"
#include "publish/webhook/webhook_watch.h"

enum {
	EXCERPT = 200,       /* Bytes kept of an answer. */
	ANSWER_MAX = 262144, /* Most bytes read of an answer, */
	ANSWER_US = 2000000, /* and the longest time after its first byte. */
	WATCHED = 256,       /* Sockets whose answers are remembered. */
	BURST_US = 100000,   /* Longest pause that webhook.rate makes up for. */
	/* The relay sends nothing while it acknowledges, so it acknowledges seldom. */
	ACK_DELAY_US = 20000
};

typedef enum phase { FREE, IN_FLIGHT, OVER, BROKEN } phase;

typedef struct slot {
	wh_flight flight; /* First member. */
	struct webhook_publisher *of;
	CURL *easy; /* NULL: not needed yet. */
	phase phase;
	wh_webhook_request request;
	bool refused;                /* Its address is private. */
	size_t read;                 /* Bytes of the answer. */
	int64_t started_us, body_us; /* When the request, and the answer's body began. */
	char excerpt[EXCERPT + 1];
	char error[CURL_ERROR_SIZE];
	char reason[sizeof(((wh_receipt *)NULL)->reason)];
} slot;

/* The version of HTTP, which decides how many requests may be in flight.  With https: it
 * is UNKNOWN until the first answer. */
typedef enum speech { UNKNOWN, HTTP_1, HTTP_2 } speech;

typedef struct webhook_publisher {
	wherry_publisher base;
	const wh_env *env;
	wh_webhook_settings set;
	CURLM *multi;
	wh_watch watch;
	speech speech;
	slot *slots;
	wh_flights free, over;
	size_t n_slots, n_in_flight, n_broken;
	wherry_error broken; /* Why no messages are taken. */
	int64_t next_us;     /* webhook.rate: when the next request may start. */
	int64_t held_us;     /* Submit stopped until then; WH_NEVER: it did not. */
	int64_t timer_us;    /* When libcurl's timer ends. */
	wh_webhook_counts counts;
	/* When a connection last answered, by its socket modulo the size. */
	int64_t answered_us[WATCHED];
} webhook_publisher;

static webhook_publisher *of(wherry_publisher *pub)
{
	return (webhook_publisher *)pub;
}

/* ---- functions that libcurl calls ---- */

static size_t take_answer(char *data, size_t size, size_t n, void *ctx)
{
	slot *s = ctx;
	size_t len = size * n, room = s->read < EXCERPT ? EXCERPT - s->read : 0;
	int64_t now = wh_monotonic(s->of->env);

	if (!s->read)
		s->body_us = now;
	memcpy(s->excerpt + (EXCERPT - room), data, len < room ? len : room);
	s->read += len;
	return s->read > ANSWER_MAX || now - s->body_us > ANSWER_US ? 0 : len;
}

static curl_socket_t open_socket(void *ctx, curlsocktype purpose,
				 struct curl_sockaddr *address)
{
	slot *s = ctx;

	(void)purpose;
	s->refused = s->of->set.refuse_private && wh_address_private(&address->addr);
	return s->refused ? CURL_SOCKET_BAD : wh_watch_connect(&s->of->watch, address);
}

/* ---- open and close ---- */

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static CURLcode curl_ready;

static void begin_curl(void)
{
	curl_ready = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void release(webhook_publisher *p, slot *s)
{
	s->phase = FREE;
	s->flight = (wh_flight){.reason = s->reason};
	wh_flights_append(&p->free, &s->flight);
}

static void webhook_drop(wherry_publisher *pub)
{
	webhook_publisher *p = of(pub);

	p->free = p->over = (wh_flights){NULL, NULL, 0};
	for (size_t i = p->n_slots; i--;) {
		slot *s = &p->slots[i];

		if (s->phase == IN_FLIGHT)
			(void)curl_multi_remove_handle(p->multi, s->easy);
		release(p, s);
	}
	p->n_in_flight = p->n_broken = 0;
	p->broken = (wherry_error)WHERRY_ERROR_INIT;
	p->held_us = p->timer_us = WH_NEVER;
}

static void webhook_close(wherry_publisher *pub)
{
	webhook_publisher *p = of(pub);

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

static wherry_code allocate(webhook_publisher *p, wherry_error *err)
{
	long most = p->set.connections;
	wherry_code code;

	if (p->set.secure && p->set.streams > most)
		most = p->set.streams;
	p->slots = calloc((size_t)most, sizeof(*p->slots));
	p->multi = curl_multi_init();
	if (!p->slots || !p->multi)
		return wh_oom(err);
	p->n_slots = (size_t)most;
	for (size_t i = 0; i < p->n_slots; i++)
		p->slots[i] = (slot){.of = p, .request = WH_WEBHOOK_REQUEST_INIT};
	code = wh_watch_open(&p->watch, err);
	if (code != WHERRY_OK)
		return code;
	(void)curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, wh_watch_socket);
	(void)curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, &p->watch);
	(void)curl_multi_setopt(p->multi, CURLMOPT_MAX_HOST_CONNECTIONS,
				p->set.connections);
	(void)curl_multi_setopt(p->multi, CURLMOPT_MAXCONNECTS, p->set.connections);
	(void)curl_multi_setopt(p->multi, CURLMOPT_MAX_CONCURRENT_STREAMS,
				p->set.streams);
	webhook_drop(&p->base);
	return WHERRY_OK;
}

static wherry_code open_as(const wh_publisher_driver *driver, const char *rest,
			   const wherry_config *config, const wh_env *env,
			   wherry_publisher **out, wherry_error *err)
{
	webhook_publisher *p;
	wherry_code code;

	(void)pthread_once(&curl_once, begin_curl);
	if (curl_ready != CURLE_OK)
		return wh_fail(err, WHERRY_NOMEM, "libcurl cannot start: %s",
			       curl_easy_strerror(curl_ready));
	p = calloc(1, sizeof(*p));
	if (!p)
		return wh_oom(err);
	p->base.driver = driver;
	p->env = env;
	p->watch.fd = -1;
	code = wh_webhook_read(driver->scheme, rest, config, &p->set, err);
	p->speech = p->set.secure && !p->set.http_1 ? UNKNOWN : HTTP_1;
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
static bool make_easy(const webhook_publisher *p, slot *s)
{
	const wh_webhook_settings *set = &p->set;
	CURL *easy = curl_easy_init();

	if (!easy)
		return false;
	s->easy = easy;
	SET(easy, CURLOPT_PRIVATE, s);
	SET(easy, CURLOPT_NOSIGNAL, 1L);
	SET(easy, CURLOPT_PROTOCOLS_STR, set->secure ? "https" : "http");
	SET(easy, CURLOPT_HTTP_VERSION,
	    set->secure && !set->http_1 ? (long)CURL_HTTP_VERSION_2TLS
					: (long)CURL_HTTP_VERSION_1_1);
	SET(easy, CURLOPT_PATH_AS_IS, 1L);
	SET(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	SET(easy, CURLOPT_USERAGENT, "wherry/" WHERRY_VERSION);
	SET(easy, CURLOPT_TIMEOUT_MS, (long)(set->limit_us / 1000));
	SET(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)(set->connect_us / 1000));
	SET(easy, CURLOPT_ERRORBUFFER, s->error);
	SET(easy, CURLOPT_WRITEFUNCTION, take_answer);
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

static bool send_request(webhook_publisher *p, slot *s)
{
	const wh_webhook_request *request = &s->request;

	if (!s->easy && !make_easy(p, s))
		return false;
	s->refused = false;
	s->started_us = wh_monotonic(p->env);
	s->read = 0;
	memset(s->excerpt, 0, sizeof(s->excerpt));
	s->error[0] = 0;
	SET(s->easy, CURLOPT_HTTPHEADER, request->list);
	SET(s->easy, CURLOPT_POSTFIELDS, request->body);
	SET(s->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_len);
	SET(s->easy, CURLOPT_PIPEWAIT, p->speech == HTTP_2 ? 1L : 0L);
	if (p->set.topical &&
	    curl_easy_setopt(s->easy, CURLOPT_URL, request->url.ptr) != CURLE_OK)
		return false;
	return curl_multi_add_handle(p->multi, s->easy) == CURLM_OK;
}

/* The receipt is known: queue it for collect. */
static void finish(webhook_publisher *p, slot *s, wherry_verdict verdict,
		   const char *reason)
{
	s->phase = OVER;
	s->flight.verdict = verdict;
	(void)snprintf(s->reason, sizeof(s->reason), "%.*s", (int)sizeof(s->reason) - 1,
		       reason);
	wh_flights_append(&p->over, &s->flight);
}

static wherry_code start(webhook_publisher *p, const wherry_message *msg,
			 wherry_error *err)
{
	/* The slot used last: others may never need memory. */
	slot *s = (slot *)p->free.tail;
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
		finish(p, s, WHERRY_REJECTED, why.message);
		return WHERRY_OK;
	}
	s->phase = IN_FLIGHT;
	p->n_in_flight++;
	return WHERRY_OK;
}

/* ---- answers ---- */

static const char *header_of(CURL *easy, const char *name)
{
	struct curl_header *header = NULL;

	return curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK
		       ? header->value
		       : NULL;
}

/* Seconds of Retry-After.  A date is one of the receiver's clock, which may differ from
 * ours, so compare it with the answer's Date.  Some receivers send the seconds of a time
 * since 1970 where a duration belongs. */
static curl_off_t wait_by_their_clock(CURL *easy, curl_off_t wait, int64_t now_s)
{
	enum { YEAR_S = 365 * 24 * 3600 };
	const char *until = header_of(easy, "Retry-After");
	const char *date = header_of(easy, "Date");
	time_t until_s = -1, date_s = date ? curl_getdate(date, NULL) : -1;

	if (date_s < 0)
		date_s = now_s;
	if (until && strchr(until, ':'))
		until_s = curl_getdate(until, NULL);
	else if (wait > 20 * (curl_off_t)YEAR_S)
		until_s = wait;
	if (until_s < 0)
		return wait;
	return until_s > date_s ? until_s - date_s : 0;
}

static wh_webhook_verdict judge(const webhook_publisher *p, slot *s, CURLcode result)
{
	wh_webhook_answer answer = {
		.result = result,
		.refused = s->refused,
		.error = s->error,
		.text = s->excerpt,
	};
	curl_off_t wait = 0, ready = 0;
	char *elsewhere = NULL;

	(void)curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &answer.status);
	(void)curl_easy_getinfo(s->easy, CURLINFO_SSL_VERIFYRESULT, &answer.certificate);
	(void)curl_easy_getinfo(s->easy, CURLINFO_RETRY_AFTER, &wait);
	wait = wait_by_their_clock(s->easy, wait, wh_now(p->env) / WH_SECOND);
	(void)curl_easy_getinfo(s->easy, CURLINFO_PRETRANSFER_TIME_T, &ready);
	(void)curl_easy_getinfo(s->easy, CURLINFO_REDIRECT_URL, &elsewhere);
	answer.retry_after_s = wait > 0 ? wait : 0;
	answer.sent = ready > 0;
	answer.elsewhere = elsewhere;
	return wh_webhook_judge(&answer);
}

static void learn_speech(webhook_publisher *p, const slot *s)
{
	long version = 0;

	if (!p->set.secure ||
	    curl_easy_getinfo(s->easy, CURLINFO_HTTP_VERSION, &version) != CURLE_OK)
		return;
	if (version)
		p->speech = version >= CURL_HTTP_VERSION_2_0 ? HTTP_2 : HTTP_1;
}

/*
 * After a time-out libcurl ends the request and keeps the connection of HTTP/2, which may be
 * dead: a firewall or a proxy may have dropped it silently.  If it has answered nothing since
 * this request began, end it.  Requests that are in flight there fail now, not at their
 * time-outs, and the next one gets a new connection.
 */
static void end_silent(webhook_publisher *p, const slot *s, CURLcode result)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	long status = 0;
	int64_t *answered_us;

	if (curl_easy_getinfo(s->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK || fd < 0)
		return;
	answered_us = &p->answered_us[fd % WATCHED];
	(void)curl_easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, &status);
	if (status)
		*answered_us = wh_monotonic(p->env);
	else if (result == CURLE_OPERATION_TIMEDOUT && *answered_us <= s->started_us)
		(void)shutdown(fd, SHUT_RDWR);
}

static void conclude(webhook_publisher *p, slot *s, CURLcode result)
{
	wh_webhook_verdict v = judge(p, s, result);

	end_silent(p, s, result);
	learn_speech(p, s);
	wh_webhook_count(&p->counts, s->easy, result);
	(void)curl_multi_remove_handle(p->multi, s->easy);
	p->n_in_flight--;
	if (v.code == WHERRY_OK) {
		finish(p, s, v.verdict, v.reason);
		s->flight.retry_after_us = v.retry_after_us;
		s->flight.denied = v.denied;
		return;
	}
	s->phase = BROKEN;
	p->n_broken++;
	if (p->broken.code == WHERRY_OK)
		(void)wh_fail_native(&p->broken, v.code, (int)result, "%s", v.reason);
}

/* Process answers, and end late requests. */
static void go_on(webhook_publisher *p)
{
	long wait_ms = -1;
	int running, left;
	CURLMsg *over;

	(void)curl_multi_socket_action(p->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	while ((over = curl_multi_info_read(p->multi, &left))) {
		slot *s = NULL;

		if (over->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(over->easy_handle, CURLINFO_PRIVATE, (char **)&s);
		conclude(p, s, over->data.result);
	}
	(void)curl_multi_timeout(p->multi, &wait_ms);
	p->timer_us = wait_ms < 0
			      ? WH_NEVER
			      : wh_later(wh_monotonic(p->env), (int64_t)wait_ms * 1000);
}

/* Let libcurl read and write the sockets that are ready. */
static void drive(webhook_publisher *p)
{
	struct epoll_event events[64];
	int ready = wh_watch_ready(&p->watch, events, 64), running;

	for (int i = 0; i < ready; i++) {
		unsigned got = events[i].events;
		int what = (got & EPOLLIN ? CURL_CSELECT_IN : 0) |
			   (got & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
			   (got & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);

		(void)curl_multi_socket_action(p->multi, events[i].data.fd, what,
					       &running);
	}
	go_on(p);
}

/* ---- submit and collect ---- */

static bool has_room(const webhook_publisher *p)
{
	size_t most = (size_t)p->set.connections;

	if (p->speech == HTTP_2)
		most = (size_t)p->set.streams;
	if (p->speech == UNKNOWN)
		most = 1;
	return p->free.n && p->n_in_flight < most && !p->n_broken;
}

/* May the next request start?  webhook.rate spreads requests evenly over the second,
 * except for a burst after a pause. */
static bool may_leave(webhook_publisher *p)
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
	webhook_publisher *p = of(pub);
	wherry_code code = WHERRY_OK;
	size_t i;

	p->held_us = WH_NEVER;
	for (i = 0; i < n && has_room(p) && may_leave(p); i++) {
		code = start(p, msgs[i], err);
		if (code != WHERRY_OK)
			break;
	}
	*out_taken = i;
	if (i)
		go_on(p);
	/* Out of memory: requests in flight will free some. */
	return p->n_in_flight + p->over.n + p->n_broken ? WHERRY_OK : code;
}

static wherry_code webhook_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				   size_t *out_n, wherry_error *err)
{
	webhook_publisher *p = of(pub);
	size_t n = 0;

	if (p->n_in_flight)
		drive(p);
	for (; n < cap && p->over.n; n++) {
		slot *s = (slot *)wh_flights_pop(&p->over);

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
	const webhook_publisher *p = of(pub);

	if (!p->n_in_flight)
		return -1;
	*out_events = POLLIN;
	return p->watch.fd;
}

static int64_t webhook_deadline(wherry_publisher *pub)
{
	const webhook_publisher *p = of(pub);

	if (p->over.n || (p->n_broken && !p->n_in_flight))
		return 0;
	if (!p->n_in_flight)
		return p->held_us;
	return p->timer_us < p->held_us ? p->timer_us : p->held_us;
}

static size_t webhook_numbers(const wherry_publisher *pub, wh_number *out)
{
	return wh_webhook_numbers(&((const webhook_publisher *)pub)->counts, out);
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

/* Both schemes have the same functions, except those that depend on the scheme. */
#define WEBHOOK(name, checks, opens, warns)                                              \
	{                                                                                \
		.scheme = (name), .caps = 0, .persistence = &persistence,                \
		.ack_delay_us = ACK_DELAY_US, .check = (checks), .open = (opens),        \
		.close = webhook_close, .submit = webhook_submit,                        \
		.collect = webhook_collect, .drop = webhook_drop, .fd = webhook_fd,      \
		.deadline = webhook_deadline, .numbers = webhook_numbers,                \
		.warn = (warns),                                                         \
	}

const wh_publisher_driver wh_publisher_https =
	WEBHOOK("https", https_check, https_open, NULL);
const wh_publisher_driver wh_publisher_http =
	WEBHOOK("http", http_check, http_open, http_warn);
