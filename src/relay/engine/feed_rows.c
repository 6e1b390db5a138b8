/*
 * Takes in the rows of a log that come by the WAL.
 */
#include "relay/engine/feed_parts.h"

enum {
	/* While rows come: whether commits wait for a standby. */
	ASK_US = 1000000,
};

wherry_code wh_feed_check_standbys(wh_feed *d, int64_t now, wherry_error *err)
{
	bool waits = false;
	wherry_code code = wh_wal_waits_for_standbys(d->wal, &waits, err);

	d->asked_us = now;
	if (code != WHERRY_OK || !waits)
		return code;
	return wh_fail(
		err, WHERRY_INVALID,
		"synchronous_standby_names is set, and the WAL has a commit before "
		"the standby does");
}

typedef struct pulling {
	wherry_relay *r;
	int64_t now;
	int64_t rows, n_events;
	size_t bytes;
} pulling;

static wherry_code take_row(pulling *w, const wh_row *row, wherry_error *err)
{
	wh_log *f = wh_log_of(w->r);
	int64_t id = wh_row_int(row, WH_OPEN_ID);
	uint64_t tx = (uint64_t)wh_row_int(row, WH_WAL_TX);
	wh_view name = wh_row_bytes(row, WH_OPEN_MESSAGE_ID);
	wh_taken_one *same = wh_taken_find(&f->taken, id);
	wherry_code code = wh_row_check(row, err);

	if (code != WHERRY_OK || wh_position_covers(&f->read, id, tx) ||
	    (same && wh_taken_is(same, name)) ||
	    !wh_subscription_has(f->feed->topics, wh_row_bytes(row, WH_OPEN_TOPIC)))
		return code;
	if (w->now >= wh_later(f->feed->asked_us, ASK_US))
		code = wh_feed_check_standbys(f->feed, w->now, err);
	if (code != WHERRY_OK)
		return code;
	if (!f->taken.n && f->feed->check_us < w->now)
		f->feed->check_us = wh_later(w->now, WH_FEED_CHECK_US);
	if (!wh_taken_add(&f->taken, id, tx, name))
		return wh_oom(err);
	w->rows++;
	code = wh_log_take(w->r, w->now, row, err);
	if (code == WHERRY_OK)
		return code;
	wh_taken_remove(&f->taken, id); /* A look brings it. */
	return code;
}

static wherry_code take(pulling *w, const wh_stream_event *event, wherry_error *err)
{
	wh_feed *d = wh_feed_of(w->r);

	if (event->kind == WH_STREAM_ROW)
		return take_row(w, &event->row, err);
	if ((event->kind == WH_STREAM_END || event->kind == WH_STREAM_POSITION) &&
	    event->at > d->received)
		d->received = event->at;
	return WHERRY_OK;
}

bool wh_feed_has_room(const wherry_relay *r)
{
	const wh_log *f = wh_log_of(r);

	return !f->reader.sweeping && wh_intake_has_room(r) && wh_intake_keys_left(r) &&
	       f->taken.n < 2 * (size_t)r->set.window;
}

/* Was enough read in this step?  Gigabytes of other tables may pass. */
static bool is_enough(const pulling *w)
{
	enum { EVENTS_MOST = 4000, BYTES_MOST = 16 * 1024 * 1024 };

	return w->rows >= w->r->set.round_trip ||
	       w->n_events - 3 * w->rows >= EVENTS_MOST || w->bytes >= BYTES_MOST;
}

/* Take in what has come.  *out_all: nothing is left. */
static wherry_code take_all(pulling *w, bool *out_all, wherry_error *err)
{
	wherry_relay *r = w->r;
	wh_stream *stream = wh_feed_of(r)->stream;
	wh_stream_event event = {.kind = WH_STREAM_OTHERS};
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK && event.kind != WH_STREAM_NOTHING && !is_enough(w) &&
	       wh_feed_has_room(r)) {
		code = stream->driver->next(stream, &event, err);
		w->n_events++;
		w->bytes += event.len;
		if (code == WHERRY_OK)
			code = take(w, &event, err);
	}
	*out_all = event.kind == WH_STREAM_NOTHING;
	return code;
}

wherry_code wh_feed_pull(wherry_relay *r, int64_t now, bool *out_all, wherry_error *err)
{
	pulling w = {.r = r, .now = now};
	wherry_code code = wh_log_add_part(r, err);

	if (code != WHERRY_OK)
		return code;
	code = wh_window_begin(&r->window, err);
	if (code == WHERRY_OK) {
		code = take_all(&w, out_all, err);
		wh_window_end(&r->window);
	}
	(void)wh_log_end_part(r, w.rows, NULL, NULL);
	return code;
}
