/*
 * A PostgreSQL server that takes long to decode its WAL: a test says when the stream brings
 * what has come.
 */
#ifndef RELAY_SLOW_STREAM_H
#define RELAY_SLOW_STREAM_H

#include "relay_suite.h"

#include "db/stream.h"
#include "relay/engine/streaming.h"

typedef struct relay_slow_stream {
	wh_stream_driver driver;
	const wh_stream_driver *real;
	bool silent;        /* it brings nothing at all; */
	bool only_if_asked; /* its position is said only if the relay has asked for it */
	int asked;          /* how many times it has */
} relay_slow_stream;

static relay_slow_stream relay_slow;

static wherry_code relay_slow_next(wh_stream *s, wh_stream_event *out, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	*out = (wh_stream_event){.kind = WH_STREAM_NOTHING};
	if (!relay_slow.silent)
		code = relay_slow.real->next(s, out, err);
	if (out->kind == WH_STREAM_POSITION && relay_slow.only_if_asked &&
	    !relay_slow.asked)
		out->kind = WH_STREAM_OTHERS;
	return code;
}

static wherry_code relay_slow_confirm(wh_stream *s, int64_t now_us, int64_t delivered,
				      bool ask, wherry_error *err)
{
	relay_slow.asked += ask;
	return relay_slow.real->confirm(s, now_us, delivered, ask, err);
}

/* The server of a relay that streams is slow from now on. */
static inline void relay_slow_down(const relay_side *side)
{
	wh_stream *stream = wh_streaming_of(side->relay)->stream;

	relay_slow =
		(relay_slow_stream){.driver = *stream->driver, .real = stream->driver};
	relay_slow.driver.next = relay_slow_next;
	relay_slow.driver.confirm = relay_slow_confirm;
	stream->driver = &relay_slow.driver;
}

#endif
