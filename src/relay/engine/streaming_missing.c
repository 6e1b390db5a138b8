/*
 * The stream engine: rows that the table has and the log does not bring.
 *
 * A publication can lose its table while a relay reads the log.  The server says nothing then:
 * it sends no rows any more.  The table shows it, where rows are marked.
 */
#include "relay/engine/streaming.h"

static bool is_known(const wherry_relay *r, int64_t id)
{
	const wh_streaming *f = wh_streaming_of(r);
	int64_t place;

	for (size_t i = 0; i < f->n_ids; i++)
		if (f->ids[i] == id)
			return true;
	return wh_window_find(&r->window, id) || wh_places_of(&f->places, id, &place);
}

/* Is there a pending row that ought to be in memory?  Behind a key that waits there are
 * others, which sweeps meet. */
static int64_t first_unknown(const wherry_relay *r)
{
	wh_streaming *f = wh_streaming_of(r);
	int64_t id = r->lease.first_open;

	if (!wh_streaming_on(r) || f->unmarked || f->reader.sweeping || r->stats.paused ||
	    r->keys.n_held || r->keys.n_parked || !id || is_known(r, id))
		return 0;
	if (f->reader
		    .replaced) /* rows that could not be acknowledged are read when it is time */
		return 0;
	return id;
}

/* The publication may have lost the table, or have lost it for a while. */
static wherry_code read_missing(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	int64_t id = f->missing_id;
	wh_wal_state state;
	wherry_code code = wh_wal_look(f->wal, &state, err);

	if (code != WHERRY_OK)
		return code;
	f->missing_id = 0;
	wh_relay_say(r, WHERRY_LOG_WARN, "stream-missed", wh_log_int("id", id),
		     wh_log_text("publication", f->wal->publication),
		     wh_log_note("the WAL did not bring this row; the relay reads the "
				 "table"));
	code = wh_wal_check(f->wal, &state, err);
	if (code != WHERRY_OK)
		return wh_streaming_trouble(r, now, code, err);
	wh_reader_sweep_all(r, now);
	return WHERRY_OK;
}

/*
 * A row that is pending comes by the log before the position at which the log was when the
 * row could be seen.  If it has not come by then, it is not in the publication.
 */
wherry_code wh_streaming_missing(wherry_relay *r, int64_t now, wherry_error *err)
{
	wh_streaming *f = wh_streaming_of(r);
	int64_t id = first_unknown(r), soon = wh_later(now, WH_SECOND);
	wh_wal_now at;
	wherry_code code = WHERRY_OK;

	if (!id || id != f->missing_id)
		f->missing_id = 0;
	if (!id)
		return WHERRY_OK;
	if (f->missing_id && f->received >= f->missing_at)
		return read_missing(r, now, err);
	if (!f->missing_id)
		code = wh_wal_position(f->wal, &at, err);
	if (code != WHERRY_OK)
		return code;
	if (!f->missing_id)
		f->missing_at = at.written;
	f->missing_id = id;
	if (soon < r->renew_at_us)
		r->renew_at_us = soon;
	code = f->stream->driver->confirm(f->stream, now, f->delivered, true, err);
	return code == WHERRY_OK ? code : wh_streaming_trouble(r, now, code, err);
}
