/*
 * One call: its message, the middleware around its handler, and its result.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publish/handlers/handlers.h"
#include "publish/parts.h"

/* ---- making a call ---- */

/* The number of texts in a message. */
enum { TEXTS = 7 };

static void texts_of(wherry_message *msg, const char **out[TEXTS])
{
	const char **all[TEXTS] = {&msg->message_id,   &msg->topic, &msg->aggregate_type,
				   &msg->aggregate_id, &msg->key,   &msg->headers,
				   &msg->trace_id};

	memcpy(out, all, sizeof(all));
}

/* The message is copied, since a STRAY call may use it after the receipt was
 * collected. */
wherry_call *wh_call_make(wh_handlers *pool, const wherry_message *msg)
{
	size_t room = msg->body ? msg->body_len + 1 : 0;
	wherry_message copy = *msg;
	const char **texts[TEXTS];
	wherry_call *call;
	char *to;

	texts_of(&copy, texts);
	for (int i = 0; i < TEXTS; i++)
		room += *texts[i] ? strlen(*texts[i]) + 1 : 0;
	call = malloc(sizeof(*call) + room);
	if (!call)
		return NULL;
	*call = (wherry_call){
		.flight = {.message = msg},
		.pool = pool,
		.key_hash = wh_message_key_hash(msg),
	};
	call->flight.reason = call->reason;
	atomic_init(&call->cancelled, false);
	to = call->text;
	for (int i = 0; i < TEXTS; i++) {
		size_t len = *texts[i] ? strlen(*texts[i]) + 1 : 0;

		if (len)
			*texts[i] = memcpy(to, *texts[i], len);
		to += len;
	}
	if (msg->body) {
		copy.body = memcpy(to, msg->body, msg->body_len);
		to[msg->body_len] = 0;
	}
	if (!copy.topic)
		copy.topic = "";
	call->message = copy;
	return call;
}

/* ---- running it ---- */

/* May the transaction be committed?  If so, the time limit does not apply any more. */
static bool may_commit(wherry_call *call)
{
	bool may;

	(void)pthread_mutex_lock(&call->pool->lock);
	may = call->phase == WH_CALL_RUNNING;
	call->ending = may;
	(void)pthread_mutex_unlock(&call->pool->lock);
	return may;
}

static void close_step(wherry_call *call)
{
	(void)pthread_mutex_lock(&call->pool->lock);
	call->step = NULL; /* From now on nobody interrupts it. */
	(void)pthread_mutex_unlock(&call->pool->lock);
}

/* Commit or roll back the call's open transaction. */
static wherry_verdict end_step(wherry_call *call, wherry_verdict verdict)
{
	const wh_step *step = call->step;
	wherry_error err = WHERRY_ERROR_INIT;

	if (!step)
		return verdict;
	if (verdict != WHERRY_DELIVERED || !may_commit(call)) {
		close_step(call);
		step->rollback(call);
		return verdict == WHERRY_DELIVERED ? WHERRY_RETRY : verdict;
	}
	close_step(call);
	if (step->commit(call, &err) == WHERRY_OK) {
		call->flight.written = true;
		return WHERRY_DELIVERED;
	}
	wherry_call_reason(call, err.message);
	return WHERRY_RETRY;
}

static wherry_verdict no_handler(wherry_call *call)
{
	char why[sizeof(call->reason)];

	(void)snprintf(why, sizeof(why), "no handler for topic '%.120s'",
		       call->message.topic);
	wherry_call_reason(call, why);
	call->flight.own = true;
	return WHERRY_RETRY;
}

_Static_assert((int)WHERRY_CODE_COUNT <= (int)WHERRY_DELIVERED,
	       "no code may be taken for a verdict");

/* Any other value than a verdict is a mistake in the function: the message fails, and
 * that counts an attempt. */
static wherry_verdict check_verdict(wherry_call *call, wherry_verdict verdict)
{
	char why[sizeof(call->reason)];
	int value = (int)verdict;

	if (verdict >= WHERRY_DELIVERED && verdict <= WHERRY_UNKNOWN)
		return verdict;
	if (value >= 0 && value < WHERRY_CODE_COUNT)
		(void)snprintf(why, sizeof(why),
			       "a handler returned %d, the code WHERRY_%s, instead of a "
			       "verdict such as WHERRY_DELIVERED",
			       value, wherry_code_name((wherry_code)value));
	else
		(void)snprintf(why, sizeof(why),
			       "a handler returned %d, which is not a verdict", value);
	wherry_call_reason(call, why);
	call->flight.own = true;
	return WHERRY_RETRY;
}

static wherry_verdict handle(wherry_call *call)
{
	wh_layer *layer = call->layer;
	wherry_verdict verdict;

	if (!call->fn)
		return no_handler(call);
	call->layer = NULL; /* A handler must not call next. */
	call->handling = true;
	verdict = check_verdict(call, call->fn(call->ctx, call));
	call->handling = false;
	call->layer = layer;
	verdict = end_step(call, verdict);
	call->succeeded = verdict == WHERRY_DELIVERED;
	return verdict;
}

static wherry_verdict run_layer(wherry_call *call, const wh_middleware *m, size_t left)
{
	wh_layer layer = {.middleware = m, .left = left}, *outer = call->layer;
	wherry_verdict verdict;

	if (!left)
		return handle(call);
	call->layer = &layer;
	verdict = check_verdict(call, m->fn(m->ctx, call));
	call->layer = outer;
	if (verdict != WHERRY_DELIVERED || layer.called || call->dropped)
		return verdict;
	wherry_call_reason(call, "middleware neither called wherry_call_next() nor "
				 "wherry_call_drop()");
	return WHERRY_RETRY;
}

void wh_call_run(wherry_call *call)
{
	wherry_verdict verdict = run_layer(call, call->outermost, call->n_middleware);

	call->flight.verdict = call->flight.written ? WHERRY_DELIVERED : verdict;
}

wherry_verdict wherry_call_next(wherry_call *call)
{
	wh_layer *layer = call->layer;

	if (!layer || layer->called) {
		wherry_call_reason(call, layer ? "middleware called next twice"
					       : "only middleware has a next");
		return WHERRY_RETRY;
	}
	layer->called = true;
	return run_layer(call, layer->middleware->next, layer->left - 1);
}

wherry_verdict wherry_call_drop(wherry_call *call, const char *why)
{
	wherry_call_reason(call, why);
	call->dropped = true;
	return WHERRY_DELIVERED;
}

/* ---- functions for handlers and middleware ---- */

const wherry_message *wherry_call_message(const wherry_call *call)
{
	return &call->message;
}

int32_t wherry_call_attempt(const wherry_call *call)
{
	return call->message.attempts + 1;
}

bool wherry_call_is_last(const wherry_call *call)
{
	return call->grant.attempts && wherry_call_attempt(call) >= call->grant.attempts;
}

bool wherry_call_cancelled(const wherry_call *call)
{
	return atomic_load(&call->cancelled);
}

void wherry_call_reason(wherry_call *call, const char *text)
{
	(void)snprintf(call->reason, sizeof(call->reason), "%s", text ? text : "");
}

const char *wherry_call_why(const wherry_call *call)
{
	return call->reason;
}

void wherry_call_retry_after(wherry_call *call, int64_t us)
{
	call->flight.retry_after_us = us > 0 ? us : 0;
}
