/*
 * amqp, amqps: messages go to an exchange, and a confirm of the broker is the receipt.
 *
 * librabbitmq's calls wait for the broker: a broker without memory reads nothing, and then
 * a publish does not return.  A publisher's functions may not wait.  So one thread for each
 * open destination makes these calls (amqp_client.c).  The relay puts messages into its
 * queue, and collects verdicts:
 *
 *            submit          the thread sends it         confirmed, returned, refused
 *     ───────────► QUEUED ─────────────────────► SENT ───────────────────────► OVER
 *                     ▲                            │
 *                     └── the channel was closed ──┘
 *
 * The driver is not WH_PUB_ORDERED: a queue may refuse a message (a limit, no leader) and
 * take the next one, which was sent before the refusal came back.  So the relay has one
 * message of a key in flight at a time.
 */
#include "publish/amqp/amqp.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/duration.h"
#include "publish/parts.h"

enum {
	GRACE_US = 1000000,   /* For unanswered messages when the relay stops. */
	BLOCKED_US = 1000000, /* Until messages that a block kept back are tried again. */
	QUEUED_MOST = 4096,
	/* The relay sends nothing while it acknowledges, so it acknowledges seldom. */
	ACK_DELAY_US = 20000
};

typedef struct wh_amqp {
	wherry_publisher base;
	const wh_env *env;
	wh_amqp_client *client;
	int64_t limit_us;
	int64_t give_up_us; /* Unanswered messages end then; 0: never. */
	bool block_logged;
	char trouble[200];
} wh_amqp;

static wh_amqp *of(wherry_publisher *pub)
{
	return (wh_amqp *)pub;
}

static void lock(const wh_amqp *p)
{
	(void)pthread_mutex_lock(&p->client->lock);
}

static void unlock(const wh_amqp *p)
{
	(void)pthread_mutex_unlock(&p->client->lock);
}

/* Taken, and without a verdict.  Call it with the lock. */
static size_t open_jobs(const wh_amqp_client *c)
{
	return c->queued.n + c->n_sent;
}

/* ---- open and close ---- */

static wherry_code check_as(bool secure, const char *rest, const wherry_config *config,
			    wherry_error *err)
{
	wh_amqp_settings set = {0};
	wherry_code code = wh_amqp_settings_read(secure, rest, config, &set, err);

	if (code == WHERRY_OK)
		wh_amqp_settings_clear(&set);
	return code;
}

static wherry_code amqp_check(const char *rest, const wherry_config *config,
			      wherry_error *err)
{
	return check_as(false, rest, config, err);
}

static wherry_code amqps_check(const char *rest, const wherry_config *config,
			       wherry_error *err)
{
	return check_as(true, rest, config, err);
}

static wherry_code open_as(const wh_publisher_driver *driver, bool secure,
			   const char *rest, const wherry_config *config,
			   const wh_env *env, wherry_publisher **out, wherry_error *err)
{
	wh_amqp *p = calloc(1, sizeof(*p));
	wh_amqp_settings set = {0};
	wherry_code code;

	if (!p)
		return wh_oom(err);
	p->base.driver = driver;
	p->env = env;
	code = wh_amqp_settings_read(secure, rest, config, &set, err);
	p->limit_us = set.limit_us;
	if (code == WHERRY_OK)
		code = wh_amqp_client_new(&set, &p->client, err);
	if (code == WHERRY_OK)
		*out = &p->base;
	else
		free(p);
	return code;
}

static wherry_code amqp_open(const char *rest, const wherry_config *config,
			     const wh_env *env, wherry_publisher **out, wherry_error *err)
{
	return open_as(&wh_publisher_amqp, false, rest, config, env, out, err);
}

static wherry_code amqps_open(const char *rest, const wherry_config *config,
			      const wh_env *env, wherry_publisher **out,
			      wherry_error *err)
{
	return open_as(&wh_publisher_amqps, true, rest, config, env, out, err);
}

static void amqp_close(wherry_publisher *pub)
{
	wh_amqp_client_leave(of(pub)->client);
	free(of(pub));
}

static void amqp_drop(wherry_publisher *pub)
{
	wh_amqp_client_reset(of(pub)->client);
	of(pub)->give_up_us = 0;
}

/* ---- submit ---- */

static wh_amqp_job *make_job(const wherry_message *msg, int64_t now)
{
	wh_amqp_job *job = calloc(1, sizeof(*job));

	if (job) {
		job->flight.message = msg;
		job->since_us = now;
	}
	return job;
}

static wherry_code amqp_submit(wherry_publisher *pub, const wherry_message *const *msgs,
			       size_t n, size_t *out_taken, wherry_error *err)
{
	wh_amqp *p = of(pub);
	wh_amqp_client *c = p->client;
	int64_t now = wh_monotonic(p->env);
	wherry_code code = WHERRY_OK;
	size_t most, taken = 0;

	lock(p);
	most = open_jobs(c) < QUEUED_MOST ? QUEUED_MOST - open_jobs(c) : 0;
	if (c->blocked) /* One waits, so that the relay notices the end. */
		most = open_jobs(c) + c->over.n ? 0 : 1;
	if (c->error.code != WHERRY_OK || p->give_up_us)
		most = 0; /* collect() returns the error. */
	while (taken < n && taken < most) {
		wh_amqp_job *job = make_job(msgs[taken], now);

		if (!job)
			break;
		wh_flights_append(&c->queued, &job->flight);
		taken++;
	}
	if (taken)
		wh_amqp_client_wake(c);
	*out_taken = taken;
	if (c->error.code != WHERRY_OK && !open_jobs(c))
		code = wh_fail_native(err, c->error.code, c->error.native, "%s",
				      c->error.message);
	else if (most && !taken && !open_jobs(c) && !c->over.n)
		code = wh_oom(err);
	unlock(p);
	return code;
}

/* ---- collect ---- */

/* The message that has waited longest; NULL: there is none. */
static wh_amqp_job *oldest(const wh_amqp_client *c)
{
	return c->n_sent ? c->ring[c->first % WH_AMQP_RING]
			 : (wh_amqp_job *)c->queued.head;
}

/* The broker does not read.  Unsent messages go back, since the claims on them end; sent
 * ones are with the broker. */
static void give_back(wh_amqp_client *c, int64_t since_us)
{
	char why[200];

	(void)snprintf(why, sizeof(why), "the broker takes no messages now: %s",
		       c->why_blocked);
	while (c->queued.head && ((wh_amqp_job *)c->queued.head)->since_us <= since_us) {
		wh_flight *f = wh_flights_pop(&c->queued);

		f->retry_after_us = BLOCKED_US;
		wh_amqp_answer(c, (wh_amqp_job *)f, WHERRY_THROTTLED, why);
	}
}

/* The oldest message is late.  If others were confirmed meanwhile, only it failed. */
static void end_late(const wh_amqp *p, int64_t now)
{
	wh_amqp_client *c = p->client;
	wh_amqp_job *job = oldest(c);
	int64_t since_us = now - p->limit_us;
	char limit[32], text[100];

	if (!job || job->since_us > since_us)
		return;
	wh_duration_print(p->limit_us, limit, sizeof(limit));
	if (c->n_sent && c->answered_us > job->since_us &&
	    !(c->touching && c->n_sent == 1)) {
		(void)snprintf(text, sizeof(text),
			       "not confirmed within %s, perhaps taken", limit);
		wh_amqp_answer(c, wh_amqp_take(c, c->first), WHERRY_UNKNOWN, text);
		return;
	}
	(void)wh_fail(&c->error, WHERRY_CLOSED, "amqp: nothing was confirmed for %s",
		      limit);
}

/* The relay stops: messages that are still unanswered get no answer. */
static void end_all(wh_amqp *p)
{
	wh_amqp_client *c = p->client;

	if (c->touching) { /* The message may be read until the call has ended. */
		wh_amqp_client_interrupt(c);
		while (c->touching)
			(void)pthread_cond_wait(&c->changed, &c->lock);
	}
	while (c->n_sent)
		wh_amqp_answer(c, wh_amqp_take(c, c->first), WHERRY_UNKNOWN,
			       "not confirmed when the relay stopped");
	p->give_up_us = 0;
}

/* Log the beginning and the end of a block. */
static void log_block(wh_amqp *p, bool blocked, const char *why)
{
	if (blocked == p->block_logged)
		return;
	p->block_logged = blocked;
	if (blocked)
		wh_log(p->env, WHERRY_LOG_WARN, "amqp", "broker-blocked",
		       wh_log_text("why", why),
		       wh_log_note("the broker takes no messages until it has memory "
				   "and disk space again; messages wait, and no attempts "
				   "are counted"));
	else
		wh_log(p->env, WHERRY_LOG_INFO, "amqp", "broker-unblocked");
}

static wherry_code amqp_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				size_t *out_n, wherry_error *err)
{
	wh_amqp *p = of(pub);
	wh_amqp_client *c = p->client;
	int64_t now = wh_monotonic(p->env);
	wherry_code code = WHERRY_OK;
	wh_flights ended = {0};
	bool blocked;
	char why[sizeof(c->why_blocked)];
	eventfd_t seen;
	size_t n = 0;

	lock(p);
	if (c->blocked)
		give_back(c, now - p->limit_us);
	else if (c->error.code == WHERRY_OK)
		end_late(p, now);
	if (p->give_up_us && (now >= p->give_up_us || !c->n_sent))
		end_all(p);
	while (ended.n < cap && c->over.n)
		wh_flights_append(&ended, wh_flights_pop(&c->over));
	if (!ended.n && c->error.code != WHERRY_OK && open_jobs(c))
		code = wh_fail_native(err, c->error.code, c->error.native, "%s",
				      c->error.message);
	if (c->reported && !c->over.n && code == WHERRY_OK &&
	    c->error.code == WHERRY_OK) {
		(void)eventfd_read(c->done_fd, &seen);
		c->reported = false;
	}
	blocked = c->blocked;
	memcpy(why, c->why_blocked, sizeof(why));
	unlock(p);
	while (ended.n) {
		wh_amqp_job *job = (wh_amqp_job *)wh_flights_pop(&ended);

		wh_flight_receipt(&job->flight, &out[n++]);
		wh_amqp_job_free(job);
	}
	*out_n = n;
	log_block(p, blocked, why);
	return code;
}

/* ---- waiting ---- */

/* Unsent messages come back at once; sent ones get GRACE_US. */
static void amqp_cancel(wherry_publisher *pub)
{
	wh_amqp *p = of(pub);
	wh_amqp_client *c = p->client;

	lock(p);
	while (c->queued.head)
		wh_amqp_answer(c, (wh_amqp_job *)wh_flights_pop(&c->queued),
			       WHERRY_THROTTLED, "the relay stops");
	if (c->n_sent && !p->give_up_us)
		p->give_up_us = wh_later(wh_monotonic(p->env), GRACE_US);
	unlock(p);
}

static int amqp_fd(wherry_publisher *pub, short *out_events)
{
	const wh_amqp *p = of(pub);
	bool any;

	lock(p);
	any = open_jobs(p->client) + p->client->over.n;
	unlock(p);
	*out_events = POLLIN;
	return any ? p->client->done_fd : -1;
}

static int64_t amqp_deadline(wherry_publisher *pub)
{
	const wh_amqp *p = of(pub);
	const wh_amqp_client *c = p->client;
	const wh_amqp_job *job;
	int64_t at = WH_NEVER;

	lock(p);
	job = c->blocked ? (const wh_amqp_job *)c->queued.head : oldest(c);
	if (c->over.n || (open_jobs(c) && c->error.code != WHERRY_OK))
		at = 0;
	else if (p->give_up_us)
		at = p->give_up_us;
	else if (job)
		at = wh_later(job->since_us, p->limit_us);
	unlock(p);
	return at;
}

static const char *amqp_trouble(wherry_publisher *pub)
{
	wh_amqp *p = of(pub);
	const wh_amqp_client *c = p->client;
	bool blocked;

	lock(p);
	blocked = c->blocked && open_jobs(c);
	if (blocked)
		(void)snprintf(p->trouble, sizeof(p->trouble),
			       "the broker takes no messages now: %s", c->why_blocked);
	unlock(p);
	return blocked ? p->trouble : NULL;
}

static size_t amqp_numbers(const wherry_publisher *pub, wh_number *out)
{
	const wh_amqp *p = (const wh_amqp *)pub;
	static const wh_number numbers[] = {
		{"amqp_confirmed_total", "Messages that the broker confirmed", 0},
		{"amqp_refused_total", "Messages that a queue refused (basic.nack)", 0},
		{"amqp_returned_total", "Messages that no queue took", 0},
		{"amqp_connections_total", "Connections that were opened", 0}};
	size_t n = sizeof(numbers) / sizeof(*numbers);

	lock(p);
	for (size_t i = 0; i < n; i++) {
		out[i] = numbers[i];
		out[i].value = p->client->counts[i];
	}
	unlock(p);
	return n;
}

/* ---- the drivers ---- */

static bool is_local(const char *host)
{
	return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
	       strcmp(host, "::1") == 0;
}

static void amqp_warn(const char *rest, const wherry_config *config, wh_buf *out)
{
	wh_amqp_settings set = {0};
	bool local = true;

	if (wh_amqp_settings_read(false, rest, config, &set, NULL) != WHERRY_OK)
		return;
	for (size_t i = 0; i < set.n_hosts; i++)
		local = local && is_local(set.hosts[i].name);
	if (!local)
		wh_buf_puts(out, "amqp: sends user, password and messages unencrypted: "
				 "use amqps:\n");
	wh_amqp_settings_clear(&set);
}

static void amqps_warn(const char *rest, const wherry_config *config, wh_buf *out)
{
	wh_amqp_settings set = {0};

	if (wh_amqp_settings_read(true, rest, config, &set, NULL) != WHERRY_OK)
		return;
	if (!set.verify)
		wh_buf_puts(out, "verify=verify_none accepts any server as the broker: "
				 "trust its certificate by cacertfile instead\n");
	wh_amqp_settings_clear(&set);
}

/* The protocol does not say what a broker takes: this is the default of RabbitMQ 4. */
static size_t amqp_body_most(wherry_publisher *pub)
{
	(void)pub;
	return (size_t)16 << 20;
}

static const wh_binding binding = {"cloudEvents:", false, false,
				   "application/cloudevents+json"};

/* clang-format off */
#define DRIVER(name) { \
	.scheme = #name, \
	.caps = 0, \
	.binding = &binding, \
	.no_readback = "a queue of RabbitMQ gives messages away when they are read", \
	.ack_delay_us = ACK_DELAY_US, \
	.check = name##_check, \
	.warn = name##_warn, \
	.open = name##_open, \
	.close = amqp_close, \
	.submit = amqp_submit, \
	.collect = amqp_collect, \
	.drop = amqp_drop, \
	.cancel = amqp_cancel, \
	.body_most = amqp_body_most, \
	.fd = amqp_fd, \
	.deadline = amqp_deadline, \
	.trouble = amqp_trouble, \
	.numbers = amqp_numbers, \
}
/* clang-format on */

const wh_publisher_driver wh_publisher_amqp = DRIVER(amqp);
const wh_publisher_driver wh_publisher_amqps = DRIVER(amqps);
