/*
 * redis: adds messages to streams with XADD, many at a time.
 *
 * Redis executes the commands of a connection in their order, but may refuse one (no memory, still
 * loading, a replica that becomes the master) and take the next one.  So one unit of each key is in
 * flight: one message, or a transaction of several; see redis_units.c.  With that the driver is
 * WH_PUB_ORDERED.
 *
 * If the connection ends, nobody knows which messages were added.  They are sent again, with the
 * same message_id.
 */
#include "publish/redis/redis.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/duration.h"
#include "publish/readback.h"

enum {
	GRACE_US = 1000000, /* For messages in flight when the relay stops. */
	WINDOW = 4000,
	ACK_DELAY_US = 20000
};

typedef struct redis {
	wherry_publisher base;
	wh_redis_settings set;
	wh_redis_route route;
	int64_t give_up_us; /* Messages in flight end then; 0: never. */
} redis;

static redis *of(wherry_publisher *pub)
{
	return (redis *)pub;
}

/* The message that was taken first; NULL: there is none. */
static const wh_redis_job *oldest(const redis *p)
{
	return (const wh_redis_job *)p->route.flights.open.head;
}

/* ---- opening and closing ---- */

static void redis_close(wherry_publisher *pub)
{
	redis *p = of(pub);

	wh_redis_route_clear(&p->route);
	if (p->route.epoll_fd >= 0)
		(void)close(p->route.epoll_fd);
	wh_redis_settings_clear(&p->set);
	free(p);
}

static void redis_drop(wherry_publisher *pub)
{
	wh_redis_route_clear(&of(pub)->route);
	of(pub)->give_up_us = 0;
}

static wherry_code check_for(bool secure, bool sentinel, const char *rest,
			     const wherry_config *config, wherry_error *err)
{
	wh_redis_settings set;
	wherry_code code =
		wh_redis_settings_read(secure, sentinel, rest, config, &set, err);

	if (code == WHERRY_OK)
		wh_redis_settings_clear(&set);
	return code;
}

static wherry_code open_for(const wh_publisher_driver *driver, bool secure, bool sentinel,
			    const char *rest, const wherry_config *config,
			    const wh_env *env, wherry_publisher **out, wherry_error *err)
{
	redis *p = calloc(1, sizeof(*p));
	wherry_code code;

	if (!p)
		return wh_oom(err);
	p->base.driver = driver;
	p->route.set = &p->set;
	p->route.env = env;
	p->route.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	code = wh_redis_settings_read(secure, sentinel, rest, config, &p->set, err);
	if (code == WHERRY_OK && p->route.epoll_fd < 0)
		code = wh_fail(err, WHERRY_CLOSED,
			       "redis: there are too many open "
			       "files");
	if (code != WHERRY_OK) {
		redis_close(&p->base);
		return code;
	}
	wh_redis_route_step(&p->route); /* Begin to connect. */
	*out = &p->base;
	return WHERRY_OK;
}

/* ---- taking ---- */

static wherry_code error_of(const redis *p, wherry_error *err)
{
	const wherry_error *error = &p->route.error;

	return wh_fail(err, error->code, "%s", error->message);
}

/* Answers take so long that messages behind those in flight could be late. */
static bool is_slow(const redis *p)
{
	return p->route.flights.open.n && p->route.waited_us > p->set.limit_us / 8;
}

static wherry_code redis_submit(wherry_publisher *pub, const wherry_message *const *msgs,
				size_t n, size_t *out_taken, wherry_error *err)
{
	redis *p = of(pub);
	wh_redis_flights *f = &p->route.flights;
	int64_t now = wh_monotonic(p->route.env);
	wherry_code code = WHERRY_OK;
	size_t taken = 0;

	/* While nothing is in flight, a connection may end without harm, and nobody reads the answers of one that begins. */
	if (!f->open.n) {
		wh_redis_route_resume(&p->route, now);
		wh_redis_route_step(&p->route);
	}
	if (p->route.error.code != WHERRY_OK)
		return f->open.n || f->done.n ? WHERRY_OK : error_of(p, err);
	if (is_slow(p) || p->give_up_us)
		return WHERRY_OK;
	while (code == WHERRY_OK && taken < n) {
		code = wh_redis_take(f, &p->set, msgs[taken],
				     wh_later(now, p->set.limit_us), err);
		taken += code == WHERRY_OK;
	}
	*out_taken = taken;
	if (taken)
		wh_redis_route_step(&p->route);
	return taken || f->open.n ? WHERRY_OK : code;
}

/* ---- collecting ---- */

/* Nothing was answered in time. */
static void be_late(redis *p)
{
	char limit[32];

	wh_duration_print(p->set.limit_us, limit, sizeof(limit));
	if (p->set.replicas)
		(void)wh_fail(
			&p->route.error, WHERRY_CLOSED,
			"redis: messages were not on redis.replicas replicas within "
			"%s: are they connected?",
			limit);
	else
		(void)wh_fail(&p->route.error, WHERRY_CLOSED,
			      "redis: nothing was answered for %s", limit);
}

/* The relay stops: messages that are still unanswered get no answer. */
static void end_all(redis *p)
{
	wh_redis_route_give_up(&p->route, "not answered when the relay stopped");
	p->give_up_us = 0;
}

static wherry_code redis_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				 size_t *out_n, wherry_error *err)
{
	redis *p = of(pub);
	wh_redis_flights *f = &p->route.flights;
	int64_t now = wh_monotonic(p->route.env);
	size_t n = 0;

	if (f->open.n)
		wh_redis_route_step(&p->route);
	if (f->open.n && p->route.error.code == WHERRY_OK &&
	    now >= oldest(p)->deadline_us)
		be_late(p);
	if (f->open.n && p->give_up_us && now >= p->give_up_us)
		end_all(p);
	while (n < cap && wh_redis_next_receipt(f, &out[n]))
		n++;
	*out_n = n;
	if (!f->open.n && p->give_up_us)
		p->give_up_us = 0;
	if (n || p->route.error.code == WHERRY_OK || !f->open.n)
		return WHERRY_OK;
	return error_of(p, err);
}

/* Redis's own limit.  The server may have a smaller one, which few users may ask for. */
static size_t redis_body_most(wherry_publisher *pub)
{
	enum { ROOM = 65536 }; /* For key and headers. */

	(void)pub;
	return WH_REDIS_VALUE_MOST - ROOM;
}

/* ---- waiting ---- */

static void redis_cancel(wherry_publisher *pub)
{
	redis *p = of(pub);

	if (p->route.flights.open.n && !p->give_up_us)
		p->give_up_us = wh_later(wh_monotonic(p->route.env), GRACE_US);
}

static int redis_fd(wherry_publisher *pub, short *out_events)
{
	*out_events = POLLIN;
	return of(pub)->route.flights.open.n ? of(pub)->route.epoll_fd : -1;
}

static int64_t redis_deadline(wherry_publisher *pub)
{
	const redis *p = of(pub);
	const wh_redis_flights *f = &p->route.flights;
	int64_t at;

	if (f->done.n || (f->open.n && p->route.error.code != WHERRY_OK))
		return 0;
	if (!f->open.n)
		return WH_NEVER;
	at = wh_sooner(oldest(p)->deadline_us, wh_redis_route_deadline(&p->route));
	return p->give_up_us ? wh_sooner(at, p->give_up_us) : at;
}

static const char *redis_trouble(wherry_publisher *pub)
{
	const wh_redis_route *route = &of(pub)->route;

	return route->busy_since_us ? route->busy : NULL;
}

static size_t redis_numbers(const wherry_publisher *pub, wh_number *out)
{
	const wh_redis_stats *s = &((const redis *)pub)->route.stats;
	const wh_number numbers[] = {
		{"redis_delivered_total", "Messages that were added to a stream.",
		 s->delivered},
		{"redis_refused_total", "Messages that were not added.", s->refused},
		{"redis_redirected_total",
		 "Messages that another node of the cluster had to take.", s->redirected},
		{"redis_bytes_total", "Bytes of bodies added.", s->bytes},
		{"redis_connections_total", "Connections begun.", s->connections},
	};

	memcpy(out, numbers, sizeof(numbers));
	return sizeof(numbers) / sizeof(*numbers);
}

/* ---- the drivers ---- */

static bool is_local(const char *host)
{
	return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
	       strcmp(host, "::1") == 0;
}

static void warn_for(bool secure, bool sentinel, const char *rest,
		     const wherry_config *config, wh_buf *out)
{
	wh_redis_settings set;
	bool local = true;

	if (wh_redis_settings_read(secure, sentinel, rest, config, &set, NULL) !=
	    WHERRY_OK)
		return;
	for (size_t i = 0; i < set.n_hosts; i++)
		local = local && is_local(set.hosts[i].name);
	if (!secure && !local && set.password)
		wh_buf_puts(out,
			    "redis: sends the password and all messages unencrypted: "
			    "use rediss:\n");
	if (secure && set.verify != WH_REDIS_VERIFY_HOST)
		wh_buf_printf(out,
			      "redis.verify=%s accepts %s: name its authority as "
			      "redis.ca_file, and its host as the certificate does\n",
			      set.verify == WH_REDIS_VERIFY_CA ? "ca" : "none",
			      set.verify == WH_REDIS_VERIFY_CA
				      ? "the certificate of any host of the authority"
				      : "any server");
	wh_redis_settings_clear(&set);
}

/* clang-format off */
#define DRIVER(name, text, secure, sentinel) \
static wherry_code name##_check(const char *rest, const wherry_config *config, \
				wherry_error *err) \
{ \
	return check_for(secure, sentinel, rest, config, err); \
} \
static void name##_warn(const char *rest, const wherry_config *config, wh_buf *out) \
{ \
	warn_for(secure, sentinel, rest, config, out); \
} \
static wherry_code name##_open(const char *rest, const wherry_config *config, \
			       const wh_env *env, wherry_publisher **out, \
			       wherry_error *err) \
{ \
	return open_for(&wh_publisher_##name, secure, sentinel, rest, config, env, out, err); \
} \
const wh_publisher_driver wh_publisher_##name = { \
	.scheme = text, \
	.caps = WH_PUB_ORDERED, \
	.ack_delay_us = ACK_DELAY_US, \
	.window = WINDOW, \
	.check = name##_check, \
	.warn = name##_warn, \
	.open = name##_open, \
	.close = redis_close, \
	.submit = redis_submit, \
	.collect = redis_collect, \
	.drop = redis_drop, \
	.cancel = redis_cancel, \
	.fd = redis_fd, \
	.deadline = redis_deadline, \
	.trouble = redis_trouble, \
	.body_most = redis_body_most, \
	.numbers = redis_numbers, \
	.readback = &wh_readback_##name, \
}

DRIVER(redis, "redis", false, false);
DRIVER(rediss, "rediss", true, false);
DRIVER(redis_sentinel, "redis+sentinel", false, true);
DRIVER(rediss_sentinel, "rediss+sentinel", true, true);
/* clang-format on */
