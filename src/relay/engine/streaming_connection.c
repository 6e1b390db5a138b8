/*
 * The connection of the engine stream: opens it, and opens it again when it was lost; makes
 * the replication slot.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/settings.h"
#include "relay/engine/streaming.h"

enum {
	LOOK_US = 10 * 1000000,
	QUIET_LOOK_US = 60 * 1000000,
	/* A topic and headers of texts within their limit, which JSON makes 6 times as long. */
	ROUTED_MOST = 8 * WH_TEXT_MOST,
	CONFIRM_US = 10000, /* Only the position shows what is delivered. */
};

static const wh_fsm_state states[] = {
	[WH_STREAMING_OFF] = {"off", WH_BIT(WH_STREAMING_MAKING)},
	[WH_STREAMING_MAKING] = {"making", WH_BIT(WH_STREAMING_OFF) |
						   WH_BIT(WH_STREAMING_TABLE) |
						   WH_BIT(WH_STREAMING_ON)},
	[WH_STREAMING_TABLE] = {"table",
				WH_BIT(WH_STREAMING_OFF) | WH_BIT(WH_STREAMING_ON)},
	[WH_STREAMING_ON] = {"on", WH_BIT(WH_STREAMING_OFF)},
};

/* ---- memory ---- */

wh_streaming *wh_streaming_of(const wherry_relay *r)
{
	return r->state;
}

wherry_code wh_streaming_make(wherry_relay *r, wherry_error *err)
{
	wh_streaming *f = calloc(1, sizeof(*f));
	size_t n = wh_relay_entries_most(r);

	if (!f)
		return wh_oom(err);
	r->state = f;
	f->base = 1;
	f->routed = (wh_buf)WH_BUF_INIT(ROUTED_MOST);
	f->fsm = (wh_fsm){states, "relay.stream", WH_STREAMING_OFF};
	f->dead = calloc(n, sizeof(*f->dead));
	return f->dead ? WHERRY_OK : wh_oom(err);
}

wherry_code wh_streaming_attach(wherry_relay *r, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wh_wal_state state;
	wherry_code code = wh_wal_open(
		r->outbox, wh_config_text(r->config, WH_STREAM_SLOT),
		wh_config_text(r->config, WH_STREAM_PUBLICATION), &f->wal, err);

	if (code == WHERRY_OK)
		code = wh_wal_look(f->wal, &state, err);
	if (code == WHERRY_OK)
		code = wh_wal_check(f->wal, &state, err);
	return code;
}

static void turn_off(wherry_relay *r, const char *why)
{
	wh_streaming *f = wh_streaming_of(r);

	wh_stream_close(f->stream);
	f->stream = NULL;
	if (f->fsm.state != WH_STREAMING_OFF)
		wh_fsm_move(&f->fsm, WH_STREAMING_OFF, &r->env, why);
	f->cut = f->inside;
	f->skip = 0;
	f->taking = 0;
}

/* The database connection was lost: close the stream.  Messages in memory stay. */
void wh_streaming_detach(wherry_relay *r, int64_t now)
{
	wh_streaming *f = wh_streaming_of(r);

	(void)now;
	if (f->fsm.state == WH_STREAMING_TABLE) /* The snapshot is lost: begin again. */
		wh_streaming_end(r);
	turn_off(r, "the connection is lost");
	wh_wal_close(f->wal);
	f->wal = NULL;
}

void wh_streaming_end(wherry_relay *r)
{
	wh_streaming *f = wh_streaming_of(r);

	turn_off(r, "ended");
	f->base += f->n;
	f->first = f->n = 0;
	f->inside = f->cut = f->streamed = false;
	f->received = f->delivered = f->written = 0;
	f->retry_us = 0;
}

void wh_streaming_free(wherry_relay *r)
{
	wh_streaming *f = wh_streaming_of(r);

	wh_streaming_end(r);
	wh_wal_close(f->wal);
	free(f->txs);
	free(f->dead);
	wh_buf_clear(&f->routed);
	free(f);
}

/*
 * The server decodes a row whole before it sends it, and fails if its text is over 1 GB, or no text in the relay's
 * encoding.  Nothing behind it comes on this slot.  To fail costs the server a gigabyte and many seconds, so it is
 * asked again only now and then.
 */
static void cannot_send(wherry_relay *r, int64_t now, const wherry_error *why)
{
	enum { AGAIN_US = 300 * WH_SECOND };
	wh_streaming *f = wh_streaming_of(r);
	char text[sizeof(why->message) + 120];

	(void)snprintf(text, sizeof(text),
		       WH_CANNOT_SEND " that was committed behind the WAL position "
				      "%X/%X: %s",
		       (unsigned)((uint64_t)f->received >> 32), (unsigned)f->received,
		       why->message);
	f->retry_us = wh_later(now, AGAIN_US);
	wh_report_error(r, now, text);
	wh_report_soon(r, now);
	wh_relay_say(r, WHERRY_LOG_ERROR, "unsendable",
		     wh_log_note("all messages behind it wait: ask the doctor"),
		     wh_log_text("why", text));
}

wherry_code wh_streaming_trouble(wherry_relay *r, int64_t now, wherry_code code,
				 wherry_error *err)
{
	static const wh_backoff backoff = {WH_EXPONENTIAL, 10000, 2 * WH_SECOND, false,
					   0};
	wh_streaming *f = wh_streaming_of(r);
	const bool of_row = f->fsm.state == WH_STREAMING_ON && err &&
			    wh_db_about_row(r->db, code, err);

	if (f->fsm.state == WH_STREAMING_TABLE)
		wh_streaming_end(r);
	turn_off(r, "trouble");
	if (of_row) {
		cannot_send(r, now, err);
		return WHERRY_OK;
	}
	if (code == WHERRY_INVALID)
		return code; /* Rows that the WAL does not have are nowhere else. */
	f->failures++;
	f->retry_us = wh_later(now, wh_backoff_delay(&backoff, f->failures, &r->env));
	if (f->failures == 1 || f->failures % 10 == 0)
		wh_relay_say(r, WHERRY_LOG_WARN, "stream-trouble",
			     wh_log_text("code", wherry_code_name(code)),
			     wh_log_int("failures", f->failures),
			     wh_log_text("why", err ? err->message : ""));
	return WHERRY_OK;
}

/* ---- connecting ---- */

/* How to begin: whether to create the slot, whether to read the table, and the WAL
 * position to start at. */
typedef struct beginning {
	bool create, table;
	int64_t from;
} beginning;

/* Is the slot a new one, or was it moved on?  Then it lacks messages that were committed before it
 * was made.  This relay reported at most what it received, and the last one what it wrote when it
 * ended; nobody knows it after a crash. */
static bool is_made_again(const wh_streaming *f, const wh_wal_state *state,
			  const wh_wal_stored *position)
{
	if (f->streamed)
		return state->confirmed > f->received;
	return position->known && position->ended && state->confirmed > position->at;
}

/* Write that the slot is not the one that was read, so that the next relay sees it too. */
static wherry_code refuse_slot(wherry_relay *r, const wh_wal_stored *position,
			       wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	int64_t at = f->streamed ? f->delivered : position->at;
	wherry_code code = WHERRY_OK;

	if (f->streamed && at > 0)
		code = wh_wal_settle(f->wal, &r->lease, NULL, 0, at,
				     *position->suspect ? position->suspect : NULL,
				     position->tries, true, err);
	return code == WHERRY_OK ? wh_wal_gone(f->wal, at, err) : code;
}

/* Is it the server that sent what came?  If it began again, maybe from a copy, it has what is stored, and may lack the rest, even
 * if its WAL is longer by now.  So the relay goes on from what is stored; if it has more in memory, it begins again there. */
static wherry_code compare(wherry_relay *r, int64_t now, const wh_wal_stored *position,
			   int64_t from, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);

	if (!f->streamed)
		return WHERRY_OK;
	if (r->moved)
		return wh_lease_begin_again(r, now, WH_OTHER_SERVER, err);
	if (!r->restarted)
		return WHERRY_OK;
	if (position->at < f->written)
		return wh_lease_begin_again(
			r, now, "the database has an earlier position than before", err);
	if (f->received <= from)
		return WHERRY_OK;
	if (f->moved || f->n || r->window.n)
		return wh_lease_begin_again(r, now, WH_SERVER_BEGAN, err);
	f->received = f->delivered = from;
	return WHERRY_OK;
}

/* Decide how to begin: only the position shows what is delivered. */
static wherry_code decide(wherry_relay *r, int64_t now, const wh_wal_state *state,
			  beginning *out, wherry_error *err)
{
	enum { POSITION, TABLE, NOW };
	wh_streaming *f = wh_streaming_of(r);
	int from = f->began ? POSITION : wh_config_choice(r->config, WH_STREAM_FROM);
	bool there = state->has_slot && !state->lost, made_again;
	wh_wal_stored position = {0};
	wherry_code code = wh_wal_tables(f->wal, err);

	if (code == WHERRY_OK)
		code = wh_wal_read_stored(f->wal, &position, err);
	if (code != WHERRY_OK)
		return code;
	(void)snprintf(f->suspect, sizeof(f->suspect), "%s", position.suspect);
	f->tries = position.tries;
	if (position.known && strcmp(position.slot, f->wal->slot) != 0 &&
	    from == POSITION)
		return wh_fail(
			err, WHERRY_INVALID,
			"what is delivered is known of replication slot '%s', not of "
			"'%s': name that with stream.slot, or begin again with --from "
			"now, or with --from table, which delivers all in it again",
			position.slot, f->wal->slot);
	if (strcmp(position.slot, f->wal->slot) != 0)
		position = (wh_wal_stored){.known = false};
	out->from = position.at > state->confirmed ? position.at : state->confirmed;
	code = compare(r, now, &position, out->from, err);
	if (code != WHERRY_OK)
		return code;
	made_again = is_made_again(f, state, &position);
	if (there && made_again && from == POSITION)
		return refuse_slot(r, &position, err);
	f->fresh = !position.known;
	if (there && (position.known || from == NOW || f->streamed) &&
	    (!made_again || from == NOW))
		return WHERRY_OK;
	if (!there && position.known && from == POSITION)
		return wh_wal_gone(f->wal, position.at, err);
	out->create = f->fresh = true;
	out->table = from != NOW;
	out->from = 0;
	return state->has_slot ? wh_wal_drop(f->wal, err) : WHERRY_OK;
}

/* Another process reads the slot: a relay that lost its lease, or another program. */
static wherry_code busy(wherry_relay *r, int64_t now, int64_t reader, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	bool ended = false;
	wherry_code code = WHERRY_OK;

	if (f->failures > 2)
		code = wh_wal_take_over(f->wal, &ended, err);
	if (code == WHERRY_OK)
		code = wh_fail(err, WHERRY_BUSY,
			       "replication slot '%s' is read by process %" PRId64 "%s",
			       f->wal->slot, reader,
			       ended ? ", which ends now"
				     : ": stop that, or name another slot with "
				       "stream.slot");
	return wh_streaming_trouble(r, now, code, err);
}

static wherry_code look(wherry_relay *r, int64_t now, wh_wal_state *state, beginning *out,
			wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wherry_code code = WHERRY_OK;

	if (!f->wal)
		return wh_streaming_attach(r, err);
	if (code == WHERRY_OK)
		code = wh_wal_look(f->wal, state, err);
	if (code == WHERRY_OK)
		code = wh_wal_check(f->wal, state, err);
	if (code == WHERRY_OK && !state->published)
		code = wh_wal_publish(f->wal, err);
	if (code == WHERRY_OK)
		code = wh_wal_waits_for_standbys(f->wal, &r->waits_for_standbys, err);
	if (code != WHERRY_OK || state->reader)
		return code;
	return decide(r, now, state, out, err);
}

wherry_code wh_streaming_connect(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wh_wal_state state = {0};
	beginning how = {0};
	wherry_code code = look(r, now, &state, &how, err);

	if (code != WHERRY_OK)
		return code;
	if (state.reader)
		return busy(r, now, state.reader, err);
	const wh_stream_options options = {
		.slot = f->wal->slot,
		.publication = f->wal->publication,
		.schema = f->wal->schema,
		.table = f->wal->table,
		.columns = f->wal->columns,
		.confirm_us = CONFIRM_US,
		.create = how.create,
		.snapshot = how.table,
	};
	if (f->received > state.flushed) {
		wh_relay_say(r, WHERRY_LOG_WARN, "log-behind",
			     wh_log_note("the server's WAL ends before the position "
					 "received; it is another server, or it was "
					 "restored"));
		wh_streaming_end(r);
	}
	r->moved = r->restarted = false;
	if (f->received < how.from) /* It may be higher from an earlier connection. */
		f->received = f->delivered = how.from;
	if (f->fresh)
		f->written = 0;
	code = wh_stream_open(r->db, &options, &f->stream, err);
	if (code != WHERRY_OK)
		return wh_streaming_trouble(r, now, code, err);
	wh_fsm_move(&f->fsm, WH_STREAMING_MAKING, &r->env, "connected");
	return WHERRY_OK;
}

/* ---- beginning ---- */

/* Start the stream.  A transaction that was cut comes again, and its rows that
 * came are skipped. */
static wherry_code start(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wherry_code code = f->stream->driver->start(f->stream, f->received, err);
	char position[24];

	if (code != WHERRY_OK)
		return wh_streaming_trouble(r, now, code, err);
	(void)snprintf(position, sizeof(position), "%X/%X",
		       (unsigned)((uint64_t)f->received >> 32), (unsigned)f->received);
	wh_relay_say(r, WHERRY_LOG_INFO, "streaming", wh_log_text("slot", f->wal->slot),
		     wh_log_text("position", position));
	wh_fsm_move(&f->fsm, WH_STREAMING_ON, &r->env, "streaming");
	f->failures = 0;
	f->streamed = f->began = f->moved = true;
	f->written = 0; /* The server may have lost the last write. */
	return WHERRY_OK;
}

wherry_code wh_streaming_begin(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	wh_wal_state state;
	bool ready = false;
	wherry_code code = f->stream->driver->ready(f->stream, &ready, err);

	if (code != WHERRY_OK)
		return wh_streaming_trouble(r, now, code, err);
	if (!ready)
		return WHERRY_OK;
	code = wh_wal_look(f->wal, &state, err);
	if (code != WHERRY_OK)
		return code;
	if (state.confirmed > f->received)
		f->received = f->delivered = state.confirmed;
	if (f->stream->driver->has_rows(f->stream)) {
		/* Nothing counts as delivered before the whole table is. */
		f->delivered = 0;
		if (!wh_tx_begin(f, 0))
			return wh_oom(err);
		wh_relay_say(r, WHERRY_LOG_INFO, "stream-table",
			     wh_log_text("slot", f->wal->slot),
			     wh_log_note("the relay reads the table before it streams"));
		wh_fsm_move(&f->fsm, WH_STREAMING_TABLE, &r->env, "the slot is made");
		return WHERRY_OK;
	}
	return start(r, now, err);
}

wherry_code wh_streaming_table_done(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);

	wh_tx_find(f, wh_tx_last(f))->end = f->received;
	return start(r, now, err);
}

/* ---- how much WAL the server keeps ---- */

static bool is_quiet(const wherry_relay *r)
{
	return r->window.n == 0 && r->keys.n_held == 0;
}

wherry_code wh_streaming_watch(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	int64_t warn = wh_config_int(r->config, WH_STREAM_LAG_WARN);
	wh_wal_state state;
	wherry_code code;

	if (f->stream && r->window.n && now >= f->standbys_us) {
		f->standbys_us = wh_later(now, WH_SECOND);
		code = wh_wal_waits_for_standbys(f->wal, &r->waits_for_standbys, err);
		if (code != WHERRY_OK)
			return code;
	}
	if (now < f->look_us || !f->stream)
		return WHERRY_OK;
	f->look_us = wh_later(now, is_quiet(r) ? QUIET_LOOK_US : LOOK_US);
	code = wh_wal_look(f->wal, &state, err);
	if (code != WHERRY_OK)
		return code;
	code = wh_wal_check(f->wal, &state, err);
	if (code != WHERRY_OK)
		return wh_streaming_trouble(r, now, code, err);
	if (state.retained > warn && !f->lag_logged)
		wh_relay_say(r, WHERRY_LOG_WARN, "slot-lag",
			     wh_log_text("slot", f->wal->slot),
			     wh_log_int("retained", state.retained),
			     wh_log_note("the server keeps this much WAL for the relay, "
					 "over stream.lag_warn"));
	f->lag_logged = state.retained > warn;
	return WHERRY_OK;
}
