/*
 * Of the engine stream: tables for relays that mark no rows, and how far the WAL is delivered.
 */
#include "outbox/stream.h"

#include <stdio.h>
#include <string.h>

/* ---- tables ---- */

wherry_code wh_wal_tables(wh_wal *wal, wherry_error *err)
{
	const wh_stmt *stmt = wh_sql_find(&wal->sql, "tables");
	int64_t n = 0;
	wherry_code code = wh_wal_run(wal, "has-tables", NULL, 0, wh_take_int, &n, err);

	if (code != WHERRY_OK || n == 2)
		return code;
	code = wh_db_script(wal->outbox->store.db, stmt->text, err);
	if (code == WHERRY_DENIED)
		return wh_repair(
			err,
			wh_prefix(err, code,
				  "the tables wherry_stream and wherry_dead have "
				  "to be made by the outbox's owner"),
			WHERRY_REPAIR_STREAM, WHERRY_KIND_OUTBOX,
			wal->outbox->store.name.ptr);
	return code;
}

static wherry_code take_position(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_wal_stored *out = ctx;

	(void)err;
	*out = (wh_wal_stored){.known = wh_row_int(row, 0) > 0,
			       .at = wh_row_int(row, 0),
			       .tries = (int32_t)wh_row_int(row, 2),
			       .ended = wh_row_int(row, 4) != 0};
	(void)snprintf(out->slot, sizeof(out->slot), "%s", wh_row_text(row, 1));
	(void)snprintf(out->suspect, sizeof(out->suspect), "%s", wh_row_text(row, 3));
	return WHERRY_OK;
}

wherry_code wh_wal_read_stored(wh_wal *wal, wh_wal_stored *out, wherry_error *err)
{
	const wh_param name = WH_TEXT_PARAM("name", wal->outbox->store.name);
	wh_wal_stored position = {0};
	wherry_code code = wh_wal_run(wal, "stored-position", &name, 1, take_position,
				      &position, err);

	if (code == WHERRY_OK)
		*out = position;
	return code;
}

wherry_code wh_wal_gone(const wh_wal *wal, int64_t at, wherry_error *err)
{
	return wh_fail(err, WHERRY_INVALID,
		       "replication slot '%s' is gone or was moved on, and with it "
		       "what was committed behind %X/%X and is not in the table: let a "
		       "relay go on with --from now, or deliver all that is in the "
		       "table once more with --from table",
		       wal->slot, (unsigned)((uint64_t)at >> 32), (unsigned)at);
}

/* ---- how far relays are behind ---- */

/* How long ago the last relay that does not mark rows left; -1: relays mark rows. */
static wherry_code left_ago(wh_wal *wal, int64_t *out_us, wherry_error *err)
{
	const wh_param params[] = {
		WH_TEXT_PARAM("name", wal->outbox->store.name),
		WH_TEXT_PARAM("slot", wh_view_of(wal->slot)),
	};
	int64_t n = 0;
	wherry_code code = wh_wal_run(wal, "has-tables", NULL, 0, wh_take_int, &n, err);

	*out_us = -1;
	if (code != WHERRY_OK || n != 2)
		return code;
	return wh_wal_run(wal, "left", params, 2, wh_take_int, out_us, err);
}

wherry_code wh_wal_behind(wh_wal *wal, const wh_wal_state *state, wh_wal_lag *out,
			  wherry_error *err)
{
	wh_wal_lag lag = {0};
	int64_t left_us;
	wherry_code code = left_ago(wal, &left_us, err);

	if (code != WHERRY_OK)
		return code;
	if (left_us < 0 && !wal->outbox->layout.streams) {
		lag.by = "rows";
		code = wherry_outbox_oldest_ready(wal->outbox, &lag.us, err);
		if (code != WHERRY_OK)
			return code;
	} else if (state->confirmed >= state->flushed) {
		lag.us = 0; /* The whole WAL is delivered. */
	} else if (state->reader) {
		lag = (wh_wal_lag){state->behind_us, "reader"};
	} else if (state->unread_us) {
		lag = (wh_wal_lag){state->unread_us, "slot"};
	} else {
		lag = (wh_wal_lag){left_us, "relay"};
	}
	*out = lag.us > 0 ? lag : (wh_wal_lag){0};
	return WHERRY_OK;
}

/* Count the dead messages in wherry_dead. */
static wherry_code count_dead(wh_wal *wal, int64_t *out_n, wherry_error *err)
{
	const wh_param name = WH_TEXT_PARAM("name", wal->outbox->store.name);
	int64_t n = 0;
	wherry_code code = wh_wal_run(wal, "has-tables", NULL, 0, wh_take_int, &n, err);

	if (code != WHERRY_OK || n != 2) {
		*out_n = 0;
		return code;
	}
	return wh_wal_run(wal, "dead", &name, 1, wh_take_int, out_n, err);
}

wherry_code wh_wal_watch(wh_wal *wal, wh_wal_watched *out, wherry_error *err)
{
	wh_wal_watched view = {.any = false};
	wherry_code code = wh_wal_look(wal, &view.state, err);

	if (code == WHERRY_OK)
		code = count_dead(wal, &view.dead, err);
	if (code == WHERRY_OK)
		code = wh_wal_behind(wal, &view.state, &view.lag, err);
	if (code != WHERRY_OK)
		return code;
	view.any = view.state.has_slot || view.dead;
	if (view.state.has_slot && view.state.flushed > view.state.confirmed)
		view.behind = view.state.flushed - view.state.confirmed;
	memcpy(view.slot, wal->slot, sizeof(view.slot));
	*out = view;
	return WHERRY_OK;
}

/* ---- writing the position ---- */

typedef struct settling {
	wh_wal *wal;
	const wherry_lease *lease;
	const wh_dead *dead;
	size_t n_dead;
	int64_t at;
	const char *suspect;
	int32_t tries;
	bool ended;
} settling;

static wherry_code make_dead(const settling *w, const wh_dead *dead, wherry_error *err)
{
	const wherry_message *m = dead->message;
	const char *none = "";
	const wh_param params[] = {
		WH_TEXT_PARAM("name", w->wal->outbox->store.name),
		WH_TEXT_PARAM("message_id",
			      wh_view_of(m->message_id ? m->message_id : none)),
		WH_TEXT_PARAM("topic", wh_view_of(m->topic ? m->topic : none)),
		WH_TEXT_PARAM("aggregate_type",
			      wh_view_of(m->aggregate_type ? m->aggregate_type : none)),
		WH_TEXT_PARAM("aggregate_id",
			      wh_view_of(m->aggregate_id ? m->aggregate_id : none)),
		WH_TEXT_PARAM("key", wh_view_of(m->key)),
		WH_TEXT_PARAM("headers", wh_view_of(m->headers)),
		WH_TEXT_PARAM("trace_id", wh_view_of(m->trace_id)),
		WH_BLOB_PARAM("payload",
			      ((wh_view){m->body ? m->body : none, m->body_len})),
		WH_INT_PARAM("attempts", m->attempts),
		WH_TEXT_PARAM("error", wh_view_of(dead->error)),
		WH_INT_PARAM("created", m->created_at_us / 1000),
	};

	return wh_wal_run(w->wal, "make-dead", params, sizeof(params) / sizeof(*params),
			  NULL, NULL, err);
}

/* The server ends a transaction that is idle while a large message comes. */
static wherry_code be_patient(const settling *w, wherry_error *err)
{
	const wh_param most = WH_INT_PARAM("most_ms", w->lease->lasts_us / 1000);

	return w->n_dead ? wh_wal_run(w->wal, "be-patient", &most, 1, NULL, NULL, err)
			 : WHERRY_OK;
}

static wherry_code settle(void *ctx, wherry_error *err)
{
	const settling *w = ctx;
	wherry_code code = wh_store_fence(&w->wal->outbox->store, w->lease, err);

	if (code == WHERRY_OK)
		code = be_patient(w, err);
	for (size_t i = 0; code == WHERRY_OK && i < w->n_dead; i++)
		code = make_dead(w, &w->dead[i], err);
	if (code == WHERRY_OK) {
		const wh_param params[] = {
			WH_TEXT_PARAM("name", w->wal->outbox->store.name),
			WH_TEXT_PARAM("slot", wh_view_of(w->wal->slot)),
			WH_INT_PARAM("position", w->at),
			WH_INT_PARAM("epoch", w->lease->epoch),
			WH_TEXT_PARAM("suspect", wh_view_of(w->suspect)),
			WH_INT_PARAM("tries", w->tries),
			WH_INT_PARAM("ended", w->ended),
		};

		code = wh_wal_run(w->wal, "write-position", params, 7, NULL, NULL, err);
	}
	return code;
}

wherry_code wh_wal_settle(wh_wal *wal, const wherry_lease *lease, const wh_dead *dead,
			  size_t n_dead, int64_t at, const char *suspect, int32_t tries,
			  bool ended, wherry_error *err)
{
	settling w = {wal, lease, dead, n_dead, at, suspect, tries, ended};

	return wh_db_transact(wal->outbox->store.db, settle, &w, err);
}

wherry_code wh_wal_move(wh_wal *wal, const wherry_lease *lease, int64_t at,
			bool *out_moved, wherry_error *err)
{
	const wh_param params[] = {
		WH_TEXT_PARAM("name", wal->outbox->store.name),
		WH_TEXT_PARAM("slot", wh_view_of(wal->slot)),
		WH_INT_PARAM("number", lease->number),
		WH_INT_PARAM("position", at),
		WH_INT_PARAM("epoch", lease->epoch),
		WH_TEXT_PARAM("holder", wh_view_of(lease->holder)),
	};
	int64_t n = 0;
	wherry_code code =
		wh_db_run(wal->outbox->store.db, wh_sql_find(&wal->sql, "move-position"),
			  params, sizeof(params) / sizeof(*params), NULL, NULL, &n, err);

	if (code == WHERRY_OK)
		*out_moved = n == 1;
	return code;
}
