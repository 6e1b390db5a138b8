/*
 * The thread of an open destination, which owns the connection.
 *
 *               a message           connected            the broker, or the network
 *     IDLE ─────────────► CONNECTING ─────────► WORKING ─────────────────► FAILED
 *      ▲                      │                    │                         ▲ │
 *      │                      └── cannot connect ──│─────────────────────────┘ │
 *      └──── drop() ───────────────────────────────┴───────────────────────────┘
 *
 * In FAILED it waits until the relay drops the messages.  A connection that breaks while
 * nothing is in flight leads to IDLE.
 *
 * It reads a message that the relay lent only while `touching` is set.  To take
 * messages back, the relay shuts the socket down, which ends the thread's call, and waits
 * for that.
 */
#include "publish/amqp/amqp.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "base/thread.h"

enum { MS_PER_S = 1000, READ_EACH = 64, AWAIT_S = WH_AMQP_CONNECT_S + 1 };

/* ---- the connection ---- */

static void fail(wh_amqp_client *c, const wherry_error *error)
{
	wh_amqp_disconnect(c);
	(void)pthread_mutex_lock(&c->lock);
	if (!c->reset && (c->n_sent || c->queued.n)) {
		c->error = *error;
		wh_amqp_report(c);
	}
	(void)pthread_mutex_unlock(&c->lock);
}

static void connect_once(wh_amqp_client *c)
{
	wherry_error error = WHERRY_ERROR_INIT;

	if (wh_amqp_connect(c, &error) != WHERRY_OK) {
		fail(c, &error);
		return;
	}
	(void)pthread_mutex_lock(&c->lock);
	c->first = c->next = 1;
	c->counts[WH_AMQP_CONNECTED]++;
	(void)pthread_mutex_unlock(&c->lock);
}

/* ---- sending ---- */

typedef enum turn { SENT, OVER, WAIT } turn;

/* Choose the next message, which then has a tag.  SENT: the caller sends it. */
static turn choose(wh_amqp_client *c, const wh_amqp_route *route, wh_amqp_job *job)
{
	const wh_amqp_place *place;
	bool alone;

	job->exchange =
		1 | wh_hash(WH_HASH_START, route->exchange, strlen(route->exchange));
	place = wh_amqp_place_of(c, job->exchange);
	alone = job->alone || !wh_amqp_is_proven(c, job->exchange);
	if (place && wh_monotonic(&wh_env_system) < place->until_us) {
		job->flight.held = true;
		job->flight.denied = place->denied;
		job->flight.retry_after_us = place->rest_us;
		wh_flights_remove(&c->queued, &job->flight);
		wh_amqp_answer(c, job, WHERRY_RETRY, place->why);
		return OVER;
	}
	if (c->next - c->first >= WH_AMQP_RING || (alone && c->n_sent))
		return WAIT;
	/* Nothing goes out behind a message that is alone. */
	if (c->sent_alone && c->n_sent)
		return WAIT;
	c->sent_alone = alone;
	wh_flights_remove(&c->queued, &job->flight);
	if (!c->n_sent)
		c->first = c->next;
	c->ring[c->next++ % WH_AMQP_RING] = job;
	c->n_sent++;
	c->touching = true;
	return SENT;
}

/* Take the first message of the queue. */
static turn begin(wh_amqp_client *c, wh_amqp_route *route, wh_amqp_job **out)
{
	wh_amqp_job *job = (wh_amqp_job *)c->queued.head;
	wherry_error why = WHERRY_ERROR_INIT;

	if (!job || c->blocked || c->reset || c->leaving)
		return WAIT;
	*out = job;
	if (wh_amqp_route_of(&c->set, job->flight.message, route, &why) == WHERRY_OK)
		return choose(c, route, job);
	wh_flights_remove(&c->queued, &job->flight);
	wh_amqp_answer(c, job, WHERRY_REJECTED, why.message);
	return OVER;
}

/* Returns AMQP_STATUS_…; AMQP_STATUS_INVALID_PARAMETER: *why says why it can never be
 * sent. */
static int publish(wh_amqp_client *c, const wherry_message *msg,
		   const wh_amqp_route *route, wherry_error *why)
{
	amqp_bytes_t body = {.len = msg->body_len};
	wh_amqp_record record;
	int status;

	if (wh_amqp_record_fill(msg, (size_t)amqp_get_frame_max(c->conn), &record, why) !=
	    WHERRY_OK)
		return AMQP_STATUS_INVALID_PARAMETER;
	memcpy(&body.bytes, &msg->body, sizeof(msg->body)); /* It is not const there. */
	status = amqp_basic_publish(c->conn, WH_AMQP_CHANNEL,
				    amqp_cstring_bytes(route->exchange),
				    amqp_cstring_bytes(route->key), c->set.mandatory, 0,
				    &record.properties, body);
	wh_amqp_record_clear(&record);
	return status;
}

/* Send one message. */
static turn send_next(wh_amqp_client *c, wherry_error *err)
{
	wherry_error why = WHERRY_ERROR_INIT;
	wh_amqp_route route;
	wh_amqp_job *job = NULL;
	int status = AMQP_STATUS_OK;
	turn next;

	(void)pthread_mutex_lock(&c->lock);
	next = begin(c, &route, &job);
	(void)pthread_mutex_unlock(&c->lock);
	if (next != SENT)
		return next;
	status = publish(c, job->flight.message, &route, &why);
	(void)pthread_mutex_lock(&c->lock);
	c->touching = false;
	(void)pthread_cond_broadcast(&c->changed);
	if (status == AMQP_STATUS_INVALID_PARAMETER) {
		c->next--;
		c->ring[c->next % WH_AMQP_RING] = NULL;
		c->n_sent--;
		c->sent_alone = false;
		wh_amqp_answer(c, job,
			       why.code == WHERRY_NOMEM ? WHERRY_RETRY : WHERRY_REJECTED,
			       why.message);
	} else if (status != AMQP_STATUS_OK) {
		(void)wh_fail_native(err, WHERRY_CLOSED, status,
				     "amqp: the connection broke: %s",
				     amqp_error_string2(status));
	}
	(void)pthread_mutex_unlock(&c->lock);
	return next;
}

/* Send what is queued, and read what is there.  An answer may let more messages go. */
static wherry_code work(wh_amqp_client *c, wherry_error *err)
{
	wherry_code code = wh_amqp_read(c, err);
	size_t n = 0;

	while (code == WHERRY_OK && err->code == WHERRY_OK) {
		turn last = send_next(c, err);

		if (last == WAIT)
			break;
		if (last == SENT && ++n % READ_EACH == 0 && err->code == WHERRY_OK)
			code = wh_amqp_read(c, err);
	}
	return err->code;
}

/* ---- the thread ---- */

static void wait_for_work(wh_amqp_client *c, bool working)
{
	struct pollfd fds[] = {{.fd = c->wake_fd, .events = POLLIN},
			       {.fd = -1, .events = POLLIN}};
	int most_ms = -1;
	eventfd_t seen;

	if (c->conn &&
	    working) { /* librabbitmq sends heartbeats while frames are read. */
		fds[1].fd = amqp_get_sockfd(c->conn);
		most_ms = c->set.heartbeat_s * MS_PER_S / 4;
	}
	(void)poll(fds, 2, most_ms);
	(void)pthread_mutex_lock(&c->lock);
	if (c->woken)
		(void)eventfd_read(c->wake_fd, &seen);
	c->woken = false;
	(void)pthread_mutex_unlock(&c->lock);
}

typedef enum order { GO, REST, LEAVE } order;

static order next_order(wh_amqp_client *c)
{
	order next = REST;
	bool reset;

	(void)pthread_mutex_lock(&c->lock);
	reset = c->reset;
	c->reset = false;
	if (c->leaving)
		next = LEAVE;
	else if (c->error.code == WHERRY_OK && (c->conn || c->queued.n))
		next = GO;
	(void)pthread_mutex_unlock(&c->lock);
	if (reset || next == LEAVE)
		wh_amqp_disconnect(c);
	return next;
}

static void free_client(wh_amqp_client *c)
{
	if (c->wake_fd >= 0)
		(void)close(c->wake_fd);
	if (c->done_fd >= 0)
		(void)close(c->done_fd);
	wh_amqp_jobs_clear(c);
	wh_amqp_settings_clear(&c->set);
	(void)pthread_cond_destroy(&c->changed);
	(void)pthread_mutex_destroy(&c->lock);
	free(c);
}

static void *run(void *arg)
{
	wh_amqp_client *c = arg;
	order next;
	bool left;

	while ((next = next_order(c)) != LEAVE) {
		wherry_error error = WHERRY_ERROR_INIT;

		if (next == GO && !c->conn)
			connect_once(c);
		if (next == GO && c->conn && work(c, &error) != WHERRY_OK)
			fail(c, &error);
		wait_for_work(c, next == GO);
	}
	(void)pthread_mutex_lock(&c->lock);
	c->ended = true;
	left = c->left;
	(void)pthread_cond_broadcast(&c->changed);
	(void)pthread_mutex_unlock(&c->lock);
	if (left)
		free_client(c);
	return NULL;
}

/* ---- for the relay ---- */

wherry_code wh_amqp_client_new(wh_amqp_settings *set, wh_amqp_client **out,
			       wherry_error *err)
{
	wh_amqp_client *c = calloc(1, sizeof(*c));

	if (!c)
		return wh_oom(err);
	c->set = *set;
	*set = (wh_amqp_settings){0};
	c->fd = -1;
	c->first = c->next = 1;
	c->error = (wherry_error)WHERRY_ERROR_INIT;
	(void)pthread_mutex_init(&c->lock, NULL);
	(void)pthread_cond_init(&c->changed, NULL);
	c->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	c->done_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (c->wake_fd >= 0 && c->done_fd >= 0 &&
	    wh_thread_start(&c->thread, WH_JOINED, run, c)) {
		*out = c;
		return WHERRY_OK;
	}
	free_client(c);
	return wh_fail(err, WHERRY_IO, "amqp: no thread or descriptor is left");
}

/* Take the messages back from the thread.  Call it with the lock. */
static void forget(wh_amqp_client *c)
{
	wh_amqp_client_interrupt(c);
	while (c->touching)
		(void)pthread_cond_wait(&c->changed, &c->lock);
	wh_amqp_jobs_clear(c);
	c->error = (wherry_error)WHERRY_ERROR_INIT;
	wh_amqp_client_wake(c);
}

void wh_amqp_client_reset(wh_amqp_client *c)
{
	(void)pthread_mutex_lock(&c->lock);
	c->reset = true;
	forget(c);
	(void)pthread_mutex_unlock(&c->lock);
}

/* OpenSSL must not be used while the process ends, so the thread should have ended by then.
 * Only resolving a name and connecting cannot be interrupted. */
void wh_amqp_client_leave(wh_amqp_client *c)
{
	pthread_t thread = c->thread;
	struct timespec until;
	bool ended;

	(void)timespec_get(&until, TIME_UTC);
	until.tv_sec += AWAIT_S;
	(void)pthread_mutex_lock(&c->lock);
	c->leaving = true;
	forget(c);
	while (!c->ended && pthread_cond_timedwait(&c->changed, &c->lock, &until) == 0)
		;
	ended = c->ended;
	c->left = !ended;
	(void)pthread_mutex_unlock(&c->lock);
	if (!ended) {
		(void)pthread_detach(thread);
		return;
	}
	(void)pthread_join(thread, NULL);
	free_client(c);
}
