/*
 * Frames from the broker.
 *
 * A confirm names a tag, or all tags up to one.  A message that no queue takes is returned
 * before it is confirmed.
 *
 * A message with a wrong exchange closes its channel, and the broker does not say which one
 * it was.  Messages sent after it are lost, messages before it may be unconfirmed.  So the first
 * message to an exchange is sent alone.  If a channel closes with several unanswered
 * messages, they go back to the queue, and each is sent alone.
 */
#include "publish/amqp/amqp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	REST_US = 1000000, /* Until an exchange that takes nothing is tried again. */
	REST_MOST_US = 30000000,
	FULL_US = 1000000 /* Until a message that a queue refused is sent again. */
};

/* ---- exchanges ---- */

bool wh_amqp_is_proven(const wh_amqp_client *c, uint64_t exchange)
{
	return c->proven[exchange % WH_AMQP_PROVEN] == exchange;
}

const wh_amqp_place *wh_amqp_place_of(const wh_amqp_client *c, uint64_t exchange)
{
	const wh_amqp_place *place = &c->places[exchange % WH_AMQP_PLACES];

	return place->exchange == exchange ? place : NULL;
}

static void prove(wh_amqp_client *c, uint64_t exchange)
{
	wh_amqp_place *place = &c->places[exchange % WH_AMQP_PLACES];

	c->proven[exchange % WH_AMQP_PROVEN] = exchange;
	if (place->exchange == exchange)
		*place = (wh_amqp_place){0};
}

static const wh_amqp_place *note_place(wh_amqp_client *c, uint64_t exchange, bool denied,
				       const char *why)
{
	wh_amqp_place *place = &c->places[exchange % WH_AMQP_PLACES];
	int64_t rest_us = place->exchange == exchange ? place->rest_us * 2 : REST_US;

	if (rest_us > REST_MOST_US)
		rest_us = REST_MOST_US;
	*place = (wh_amqp_place){.exchange = exchange,
				 .rest_us = rest_us,
				 .denied = denied,
				 .until_us =
					 wh_later(wh_monotonic(&wh_env_system), rest_us)};
	(void)snprintf(place->why, sizeof(place->why), "%s", why);
	return place;
}

/* ---- confirms ---- */

static void confirm(wh_amqp_client *c, uint64_t tag, bool taken)
{
	wh_amqp_job *job = wh_amqp_take(c, tag);

	if (!job)
		return;
	prove(c, job->exchange);
	c->answered_us = wh_monotonic(&wh_env_system);
	if (!taken) {
		c->counts[WH_AMQP_REFUSED]++;
		job->flight.held = true;
		job->flight.retry_after_us = FULL_US;
		wh_amqp_answer(c, job, WHERRY_RETRY,
			       "the broker refused it (basic.nack): a queue is full "
			       "(overflow=reject-publish), or has no leader");
	} else if (job->returned) {
		c->counts[WH_AMQP_RETURNED]++;
		job->flight.denied = true;
		wh_amqp_answer(c, job, WHERRY_REJECTED, NULL);
	} else {
		c->counts[WH_AMQP_CONFIRMED]++;
		wh_amqp_answer(c, job, WHERRY_DELIVERED, NULL);
	}
}

static void confirm_to(wh_amqp_client *c, uint64_t tag, bool multiple, bool taken)
{
	(void)pthread_mutex_lock(&c->lock);
	if (!multiple)
		confirm(c, tag, taken);
	else /* Tag 0 means all. */
		for (uint64_t at = c->first; at < c->next && (!tag || at <= tag); at++)
			confirm(c, at, taken);
	(void)pthread_mutex_unlock(&c->lock);
}

/* ---- returned messages ---- */

static void copy(char *out, size_t cap, amqp_bytes_t text)
{
	(void)snprintf(out, cap, "%.*s", (int)text.len,
		       text.len ? (const char *)text.bytes : "");
}

static void begin_return(wh_amqp_client *c, const amqp_basic_return_t *m)
{
	wh_amqp_return *back = &c->back;

	back->stage = WH_AMQP_METHOD;
	copy(back->text, sizeof(back->text), m->reply_text);
	copy(back->route.exchange, sizeof(back->route.exchange), m->exchange);
	copy(back->route.key, sizeof(back->route.key), m->routing_key);
}

static bool is_same(const wh_amqp_client *c, const wherry_message *msg)
{
	const wh_amqp_return *back = &c->back;
	wh_amqp_route route;

	return back->size == msg->body_len &&
	       strcmp(back->id, msg->message_id ? msg->message_id : "") == 0 &&
	       wh_amqp_route_of(&c->set, msg, &route, NULL) == WHERRY_OK &&
	       strcmp(route.exchange, back->route.exchange) == 0 &&
	       strcmp(route.key, back->route.key) == 0;
}

/* Messages come back in the order in which they were sent. */
static void end_return(wh_amqp_client *c)
{
	char why[400];

	(void)pthread_mutex_lock(&c->lock);
	for (uint64_t tag = c->first; tag < c->next; tag++) {
		wh_amqp_job *job = c->ring[tag % WH_AMQP_RING];

		if (!job || job->returned || !is_same(c, job->flight.message))
			continue;
		job->returned = true;
		(void)snprintf(why, sizeof(why),
			       "%.40s: no queue takes it from exchange '%.60s' with "
			       "routing key '%.60s': make the queue or a binding",
			       c->back.text, c->back.route.exchange, c->back.route.key);
		job->flight.reason = strdup(why);
		break;
	}
	(void)pthread_mutex_unlock(&c->lock);
	c->back.stage = WH_AMQP_NONE;
}

static void take_header(wh_amqp_client *c, const amqp_frame_t *frame)
{
	const amqp_basic_properties_t *p = frame->payload.properties.decoded;
	amqp_bytes_t id =
		p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG ? p->message_id : amqp_empty_bytes;

	copy(c->back.id, sizeof(c->back.id), id);
	c->back.size = c->back.left = frame->payload.properties.body_size;
	c->back.stage = WH_AMQP_BODY;
	if (!c->back.left)
		end_return(c);
}

static void take_body(wh_amqp_client *c, const amqp_frame_t *frame)
{
	size_t len = frame->payload.body_fragment.len;

	c->back.left = len < c->back.left ? c->back.left - len : 0;
	if (!c->back.left)
		end_return(c);
}

/* ---- closed channels ---- */

/* The message is the only one that can have closed the channel. */
static void blame(wh_amqp_client *c, wh_amqp_job *job, int code, amqp_bytes_t text)
{
	const char *advice = NULL;
	const wh_amqp_place *place;
	char why[sizeof(place->why)], said[256];

	copy(said, sizeof(said), text);
	if (code == AMQP_NOT_FOUND)
		advice = "make it, or name another one in exchange=";
	else if (code == AMQP_ACCESS_REFUSED)
		advice = "give the user the right to write there";
	else if (code == AMQP_CONTENT_TOO_LARGE || strstr(said, "message size"))
		advice = "raise max_message_size, " WH_OR_BODY_STORE;
	wh_put_answer(why, sizeof(why), NULL, said, advice);
	if (code == AMQP_PRECONDITION_FAILED || code == AMQP_CONTENT_TOO_LARGE) {
		wh_amqp_answer(c, job, WHERRY_REJECTED, why);
		return;
	}
	if (code == AMQP_NOT_FOUND || code == AMQP_ACCESS_REFUSED) {
		place = note_place(c, job->exchange, true, why);
		job->flight.held = job->flight.denied = true;
		job->flight.retry_after_us = place->rest_us;
	}
	wh_amqp_answer(c, job, WHERRY_RETRY, why);
}

/* Put the unanswered messages in front of the queue, in their order. */
static void requeue(wh_amqp_client *c)
{
	wh_flights before = {0};
	wh_flight *f;

	for (uint64_t tag = c->first; tag < c->next; tag++) {
		wh_amqp_job *job = wh_amqp_take(c, tag);

		if (!job)
			continue;
		job->alone = true;
		job->returned = false;
		free(job->flight.reason);
		job->flight.reason = NULL;
		wh_flights_append(&before, &job->flight);
	}
	while ((f = wh_flights_pop(&c->queued)))
		wh_flights_append(&before, f);
	c->queued = before;
}

static wherry_code take_close(wh_amqp_client *c, const amqp_channel_close_t *m,
			      wherry_error *err)
{
	amqp_channel_close_ok_t ok = {0};

	(void)pthread_mutex_lock(&c->lock);
	if (c->n_sent == 1)
		for (uint64_t tag = c->first; c->n_sent; tag++) {
			wh_amqp_job *job = wh_amqp_take(c, tag);

			if (job)
				blame(c, job, m->reply_code, m->reply_text);
		}
	else
		requeue(c);
	c->first = c->next = 1;
	(void)pthread_mutex_unlock(&c->lock);
	memset(c->proven, 0, sizeof(c->proven));
	c->back.stage = WH_AMQP_NONE;
	if (amqp_send_method(c->conn, WH_AMQP_CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD,
			     &ok) != AMQP_STATUS_OK)
		return wh_fail(err, WHERRY_CLOSED, "amqp: the connection broke");
	amqp_maybe_release_buffers(c->conn);
	return wh_amqp_open_channel(c, err);
}

/* ---- the connection ---- */

static void block(wh_amqp_client *c, amqp_bytes_t reason)
{
	(void)pthread_mutex_lock(&c->lock);
	if (!c->blocked)
		c->blocked_us = wh_monotonic(&wh_env_system);
	c->blocked = true;
	copy(c->why_blocked, sizeof(c->why_blocked), reason);
	(void)pthread_mutex_unlock(&c->lock);
}

/* The time of the block does not count for the messages that waited. */
static void unblock(wh_amqp_client *c)
{
	int64_t us;

	(void)pthread_mutex_lock(&c->lock);
	us = c->blocked ? wh_monotonic(&wh_env_system) - c->blocked_us : 0;
	c->blocked = false;
	for (uint64_t tag = c->first; tag < c->next; tag++)
		if (c->ring[tag % WH_AMQP_RING])
			c->ring[tag % WH_AMQP_RING]->since_us += us;
	for (wh_flight *f = c->queued.head; f; f = f->next)
		((wh_amqp_job *)f)->since_us += us;
	(void)pthread_mutex_unlock(&c->lock);
}

static wherry_code take_method(wh_amqp_client *c, const amqp_method_t *method,
			       wherry_error *err)
{
	const amqp_basic_ack_t *ack = method->decoded;
	const amqp_basic_nack_t *nack = method->decoded;
	const amqp_connection_close_t *end = method->decoded;
	const amqp_connection_blocked_t *blocked = method->decoded;
	amqp_connection_close_ok_t ok = {0};

	switch (method->id) {
	case AMQP_BASIC_ACK_METHOD:
		confirm_to(c, ack->delivery_tag, ack->multiple, true);
		break;
	case AMQP_BASIC_NACK_METHOD:
		confirm_to(c, nack->delivery_tag, nack->multiple, false);
		break;
	case AMQP_BASIC_RETURN_METHOD:
		begin_return(c, method->decoded);
		break;
	case AMQP_CHANNEL_CLOSE_METHOD:
		return take_close(c, method->decoded, err);
	case AMQP_CONNECTION_CLOSE_METHOD:
		(void)amqp_send_method(c->conn, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
		return wh_amqp_closed(end->reply_code, end->reply_text, err);
	case AMQP_CONNECTION_BLOCKED_METHOD:
		block(c, blocked->reason);
		break;
	case AMQP_CONNECTION_UNBLOCKED_METHOD:
		unblock(c);
		break;
	default:
		break;
	}
	return WHERRY_OK;
}

wherry_code wh_amqp_read(wh_amqp_client *c, wherry_error *err)
{
	const struct timeval now = {0, 0};
	wherry_code code = WHERRY_OK;
	amqp_frame_t frame;

	while (code == WHERRY_OK) {
		int status = amqp_simple_wait_frame_noblock(c->conn, &frame, &now);

		if (status == AMQP_STATUS_TIMEOUT)
			break;
		if (status != AMQP_STATUS_OK)
			return wh_fail_native(err, WHERRY_CLOSED, status,
					      "amqp: the connection broke: %s",
					      amqp_error_string2(status));
		if (frame.frame_type == AMQP_FRAME_METHOD)
			code = take_method(c, &frame.payload.method, err);
		else if (c->back.stage == WH_AMQP_METHOD &&
			 frame.frame_type == AMQP_FRAME_HEADER)
			take_header(c, &frame);
		else if (c->back.stage == WH_AMQP_BODY &&
			 frame.frame_type == AMQP_FRAME_BODY)
			take_body(c, &frame);
		if (code == WHERRY_OK)
			amqp_maybe_release_buffers(c->conn);
	}
	return code;
}
