/*
 * The engine stream: finds rows that are in the table and that the stream does not bring.
 *
 * A publication can lose its table while a relay reads the WAL.  The server does not
 * report this: it only sends no more rows.  Pending rows in the table show it.
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

/* The lowest pending id, if its message should be in memory and is not; else 0.  While a
 * key is held or parked, pending rows are not in memory, and sweeps meet them. */
static int64_t first_unknown(const wherry_relay *r)
{
	wh_streaming *f = wh_streaming_of(r);
	int64_t id = r->lease.first_open;

	if (!wh_streaming_on(r) || f->unmarked || f->reader.sweeping || r->stats.paused ||
	    r->keys.n_held || r->keys.n_parked || !id || is_known(r, id))
		return 0;
	if (f->reader
		    .replaced) /* Rows that cannot be acknowledged are read again later. */
		return 0;
	return id;
}

/* The stream did not bring a row: check the publication, and read the table.  The
 * publication may have lost the table for a while. */
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
 * When a pending row is visible, it is in the WAL before the position of that moment.  If
 * the stream has passed that position without the row, the publication does not send it.
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
	code = f->stream->driver->confirm(f->stream, now, wh_streaming_safe(f), true,
					  err);
	return code == WHERRY_OK ? code : wh_streaming_trouble(r, now, code, err);
}
