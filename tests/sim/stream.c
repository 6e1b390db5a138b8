/*
 * The WAL and a connection that reads it, as PostgreSQL's logical replication gives
 * them: transactions come whole, in the order of commits, mostly a moment after that; the
 * connection may end between any two rows; a row may come before others can see it in the table.
 * The server remembers what it was told is delivered, but after a crash it remembers less.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "db/stream.h"
#include "sim.h"

enum {
	COLUMNS = 13,
	TX = COLUMNS,
	EVENT_BYTES = 60,
	ALIVE_US = 1000000,
	TELL_US = 400000
};

typedef struct sim_stream {
	wh_stream base;
	sim_world *world;
	int process;
	bool create, made, snapshot, broken, started;
	bool temporary;          /* its slot ends with it, */
	int64_t from;            /* and begins here */
	uint32_t older_than;     /* these transactions end before the slot is made */
	int order[SIM_MESSAGES]; /* the snapshot's messages, by id */
	int n_order, n_read;
	int commit, row; /* the next to come; row -1: the beginning */
	bool inside;
	int64_t rest_us; /* when the rest of this transaction comes */
	int64_t place;   /* the last that was told */
	bool asked;
	int64_t tell_us;  /* when it is told though nobody asked */
	int64_t alive_us; /* of the next confirm() */
	sim_row buffer;
} sim_stream;

static sim_process *process_of(const sim_stream *s)
{
	return &s->world->processes[s->process];
}

static wherry_code gone(wherry_error *err)
{
	return wh_fail(err, WHERRY_CLOSED, "the stream's connection is gone");
}

/* A moment of the connection: it may be cut, or its process killed. */
static wherry_code moment(sim_stream *s, wherry_error *err)
{
	sim_world *w = s->world;

	if (!sim_moment(process_of(s)))
		return gone(err);
	if (!s->broken && sim_chance(w, w->plan.fault, 20000)) {
		sim_say(w, "relay %d loses its stream", s->process);
		s->broken = true;
	}
	return s->broken ? gone(err) : WHERRY_OK;
}

/* ---- rows ---- */

static wh_view text_of(const sim_row *row, int column)
{
	const char *const texts[COLUMNS] = {
		[5] = row->message_id,
		[6] = "sim",
		[7] = row->aggregate_type,
		[8] = row->aggregate_id,
		[9] = row->has_key ? row->key : NULL,
		[10] = "{}",
		[12] = row->payload,
	};

	return wh_view_of(texts[column]);
}

static int64_t row_int(const wh_row *row, int column)
{
	const sim_row *r = row->handle;

	if (column == TX)
		return r->tx;
	return column == 0 ? r->id : column == 3 ? r->created_ms : 0;
}

static wh_view row_bytes(const wh_row *row, int column)
{
	return text_of(row->handle, column);
}

static const wh_row_driver row_driver = {.integer = row_int, .bytes = row_bytes};

static wh_row row_of(sim_stream *s, int index)
{
	sim_row_of(s->world, index, &s->buffer);
	return (wh_row){.driver = &row_driver, .handle = &s->buffer};
}

/* ---- the slot ---- */

static bool is_over(const sim_world *w, uint32_t older_than)
{
	for (const sim_draft *d = w->drafts; d < w->drafts + SIM_DRAFTS; d++)
		if (d->open && d->xid < older_than)
			return false;
	return true;
}

static void take_snapshot(sim_stream *s)
{
	sim_world *w = s->world;

	for (int i = 0; i < w->n_log; i++)
		for (int j = 0; j < w->log[i].n; j++) {
			int index = w->log[i].rows[j], at = s->n_order++;

			while (at &&
			       w->messages[s->order[at - 1]].id > w->messages[index].id) {
				s->order[at] = s->order[at - 1];
				at--;
			}
			s->order[at] = index;
		}
}

static wherry_code ready(wh_stream *stream, bool *out_ready, wherry_error *err)
{
	sim_stream *s = (sim_stream *)stream;
	sim_world *w = s->world;
	wherry_code code = moment(s, err);

	if (code != WHERRY_OK)
		return code;
	*out_ready = !s->create || s->made || is_over(w, s->older_than);
	if (*out_ready && s->temporary && !s->made) {
		s->made = true;
		s->from = w->wal_end;
	}
	if (!*out_ready || !s->create || s->made)
		return WHERRY_OK;
	if (w->slot.there)
		return wh_fail(err, WHERRY_BUSY, "the slot is there already");
	s->made = true;
	w->slot = (sim_slot){
		.there = true,
		.made_at = w->wal_end,
		.confirmed = w->wal_end,
		.saved = w->wal_end,
		.reader = s->process + 1,
		.reader_until_us = WH_NEVER,
	};
	if (s->snapshot)
		take_snapshot(s);
	sim_say(w, "relay %d has made the replication slot", s->process);
	return WHERRY_OK;
}

static bool has_rows(const wh_stream *stream)
{
	const sim_stream *s = (const sim_stream *)stream;

	return s->snapshot && s->made;
}

static wherry_code rows(wh_stream *stream, const char *select, int64_t limit,
			wh_row_fn visit, void *ctx, bool *out_more, wherry_error *err)
{
	sim_stream *s = (sim_stream *)stream;
	wherry_code code = moment(s, err);

	(void)select;
	for (; code == WHERRY_OK && limit && s->n_read < s->n_order; limit--) {
		wh_row row = row_of(s, s->order[s->n_read++]);

		code = visit(ctx, &row, err);
	}
	*out_more = s->n_read < s->n_order;
	return code;
}

static const char *slot(const wh_stream *stream)
{
	(void)stream;
	return "sim";
}

/* Some of what was committed before may come, too. */
static void start_temporary(sim_stream *s)
{
	sim_world *w = s->world;

	s->started = true;
	s->place = s->from;
	s->row = -1;
	while (s->commit < w->n_log && w->log[s->commit].at < s->from)
		s->commit++;
	while (s->commit && sim_chance(w, 1, 3))
		s->commit--;
	sim_say(w, "relay %d reads the WAL from %lld on", s->process, (long long)s->from);
}

static wherry_code start(wh_stream *stream, int64_t from, wherry_error *err)
{
	sim_stream *s = (sim_stream *)stream;
	sim_world *w = s->world;
	wherry_code code = moment(s, err);

	if (code == WHERRY_OK && s->temporary)
		start_temporary(s);
	if (code != WHERRY_OK || s->temporary)
		return code;
	if (sim_slot_reader(w) && w->slot.reader != s->process + 1)
		return wh_fail(err, WHERRY_BUSY, "the slot is read by another");
	if (!w->slot.there || w->slot.lost)
		return wh_fail(err, WHERRY_NOTFOUND, "the slot is not there");
	if (from < w->slot.confirmed)
		from = w->slot.confirmed;
	sim_judge_position(w, w->slot.confirmed);
	w->slot.reader = s->process + 1;
	w->slot.reader_until_us = WH_NEVER;
	s->started = true;
	s->place = from;
	s->row = -1;
	while (s->commit < w->n_log && w->log[s->commit].at < from)
		s->commit++;
	sim_say(w, "relay %d streams from %lld", s->process, (long long)from);
	return WHERRY_OK;
}

/* ---- what comes ---- */

static bool has_come(const sim_stream *s)
{
	const sim_world *w = s->world;

	if (!s->started || s->broken)
		return s->broken;
	if (s->commit < w->n_log)
		return w->now_us >= w->log[s->commit].sent_us && w->now_us >= s->rest_us;
	return s->place < w->wal_end && (s->asked || w->now_us >= s->tell_us);
}

static wherry_code next(wh_stream *stream, wh_stream_event *out, wherry_error *err)
{
	sim_stream *s = (sim_stream *)stream;
	sim_world *w = s->world;
	const sim_commit *c = &w->log[s->commit];
	wherry_code code = moment(s, err);

	if (code != WHERRY_OK)
		return code;
	*out = (wh_stream_event){.kind = WH_STREAM_NOTHING};
	if (!has_come(s))
		return WHERRY_OK;
	out->len = EVENT_BYTES;
	if (s->commit == w->n_log) {
		*out = (wh_stream_event){.kind = WH_STREAM_POSITION, .at = w->wal_end};
		s->place = w->wal_end;
		s->asked = false;
		s->tell_us = w->now_us + TELL_US;
	} else if (s->row < 0) {
		out->kind = WH_STREAM_BEGIN;
		out->at = c->at;
		out->xid = c->xid;
		s->row = 0;
	} else if (s->row < c->n) {
		out->kind = WH_STREAM_ROW;
		out->at = c->at - c->n + s->row;
		out->row = row_of(s, c->rows[s->row++]);
		if (sim_chance(w, 1, 20))
			s->rest_us = w->now_us + sim_time(w, 20000);
	} else {
		out->kind = WH_STREAM_END;
		out->at = s->place = c->end;
		s->row = -1;
		s->commit++;
	}
	out->committed_us = c->committed_us;
	return WHERRY_OK;
}

static wherry_code confirm(wh_stream *stream, int64_t now_us, int64_t delivered, bool ask,
			   wherry_error *err)
{
	sim_stream *s = (sim_stream *)stream;
	sim_world *w = s->world;
	wherry_code code = s->broken || process_of(s)->crashed ? gone(err) : WHERRY_OK;

	(void)now_us;
	if (code != WHERRY_OK)
		return code;
	s->asked |= ask;
	s->alive_us = w->now_us + ALIVE_US;
	if (s->temporary || delivered <= w->slot.confirmed)
		return WHERRY_OK;
	sim_judge_position(w, delivered);
	w->slot.confirmed = delivered;
	if (sim_below(w, 20) == 0)
		w->slot.saved = delivered;
	return WHERRY_OK;
}

static int64_t deadline(const wh_stream *stream)
{
	return ((const sim_stream *)stream)->alive_us;
}

static int fd(const wh_stream *stream, short *out_events)
{
	*out_events = POLLIN;
	return ((const sim_stream *)stream)->world->ready;
}

static bool waiting(const wh_stream *stream)
{
	const sim_stream *s = (const sim_stream *)stream;

	return s->started && s->row >= 0 && has_come(s);
}

/* The server notices in time that nobody reads any more. */
static void close_stream(wh_stream *stream)
{
	sim_stream *s = (sim_stream *)stream;
	sim_world *w = s->world;

	if (s->snapshot && s->made && !s->started)
		sim_judge_anew(w);
	if (w->slot.reader == s->process + 1 && w->streams[s->process] == s)
		w->slot.reader_until_us =
			w->now_us + (sim_chance(w, 1, 3) ? sim_time(w, 3000000) : 0);
	if (w->streams[s->process] == s)
		w->streams[s->process] = NULL;
	free(s);
}

wherry_code sim_stream_open(wherry_db *db, const struct wh_stream_options *options,
			    struct wh_stream **out, wherry_error *err)
{
	static const wh_stream_driver driver = {
		.close = close_stream,
		.ready = ready,
		.slot = slot,
		.has_rows = has_rows,
		.rows = rows,
		.start = start,
		.next = next,
		.confirm = confirm,
		.deadline = deadline,
		.fd = fd,
		.waiting = waiting,
	};
	sim_world *w = sim_store_world();
	sim_process *p = w->processes;
	sim_stream *s;

	while (p->db != db)
		p++;
	if (!sim_moment(p) || sim_chance(w, w->plan.fault, 1000))
		return gone(err);
	s = calloc(1, sizeof(*s));
	if (!s)
		return wh_oom(err);
	*s = (sim_stream){
		.base.driver = &driver,
		.world = w,
		.process = p->number,
		.create = options->create,
		.snapshot = options->snapshot,
		.temporary = options->temporary,
		.older_than = w->next_xid,
		.alive_us = w->now_us + ALIVE_US,
	};
	w->streams[p->number] = s;
	*out = &s->base;
	return WHERRY_OK;
}

/* ---- the server ---- */

int sim_slot_reader(const sim_world *w)
{
	return w->now_us < w->slot.reader_until_us ? w->slot.reader : 0;
}

/* Whoever reads the slot is cut off. */
bool sim_slot_end_reader(sim_world *w)
{
	int reader = sim_slot_reader(w);

	w->slot.reader = 0;
	if (reader && w->streams[reader - 1])
		w->streams[reader - 1]->broken = true;
	return reader > 0;
}

bool sim_slot_drop(sim_world *w)
{
	if (!w->slot.there || sim_slot_reader(w))
		return false;
	w->slot = (sim_slot){.there = false};
	return true;
}

/* The server crashes: it remembers what was told as of its last checkpoint. */
void sim_server_crash(sim_world *w)
{
	sim_say(w, "the server crashes: its slot is at %lld, not %lld",
		(long long)w->slot.saved, (long long)w->slot.confirmed);
	w->slot.confirmed = w->slot.saved;
	w->slot.reader = 0;
	for (int i = 0; i < SIM_RELAYS; i++)
		if (w->streams[i])
			w->streams[i]->broken = true;
}

/* When something comes that the relay waits for. */
int64_t sim_stream_next(const sim_world *w, const sim_process *p)
{
	const sim_stream *s = w->streams[p->number];
	int64_t at;

	if (!s || !sim_process_polls(p, w->ready))
		return WH_NEVER;
	if (has_come(s))
		return w->now_us;
	if (!s->started)
		return WH_NEVER;
	if (s->commit == w->n_log)
		return s->place < w->wal_end ? s->tell_us : WH_NEVER;
	at = w->log[s->commit].sent_us;
	return at > s->rest_us ? at : s->rest_us;
}
