#include "outbox/stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static uint32_t hash_part(uint32_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619u;
	/* 0xff never occurs in UTF-8, so it separates the parts. */
	return (hash ^ 0xffu) * 16777619u;
}

/* Derive the name of slot and publication.  All databases of a server share the names of
 * slots, so the name contains a hash of database, schema and table.  Slot names allow few
 * characters. */
static void derive(const wh_wal *wal, const char *database, char out[WH_WAL_NAME])
{
	uint32_t hash = hash_part(
		hash_part(hash_part(2166136261u, database), wal->schema), wal->table);
	char plain[40];
	size_t n = 0;

	for (const char *c = wal->table; *c && n < sizeof(plain) - 1; c++) {
		bool fits = (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9');
		char lower = *c >= 'A' && *c <= 'Z' ? (char)(*c + 'a' - 'A') : '_';

		plain[n++] = fits ? *c : lower;
	}
	plain[n] = 0;
	(void)snprintf(out, WH_WAL_NAME, "wherry_%s_%08x", plain, hash);
}

typedef struct naming {
	wh_wal *wal;
	char database[WH_WAL_NAME];
	bool found;
} naming;

static wherry_code take_which(void *ctx, const wh_row *row, wherry_error *err)
{
	naming *w = ctx;

	(void)err;
	w->found = true;
	(void)snprintf(w->database, sizeof(w->database), "%s", wh_row_text(row, 0));
	(void)snprintf(w->wal->schema, WH_WAL_NAME, "%s", wh_row_text(row, 1));
	(void)snprintf(w->wal->table, WH_WAL_NAME, "%s", wh_row_text(row, 2));
	return WHERRY_OK;
}

wherry_code wh_wal_run(wh_wal *wal, const char *name, const wh_param *params, size_t n,
		       wh_row_fn visit, void *ctx, wherry_error *err)
{
	const wh_stmt *stmt = wh_sql_find(&wal->sql, name);

	if (!stmt)
		return wh_fail(err, WHERRY_UNSUPPORTED, "there is no statement '%s'",
			       name);
	return wh_db_run(wal->outbox->store.db, stmt, params, n, visit, ctx, NULL, err);
}

static wherry_code name_all(wh_wal *wal, const char *which, const char *slot,
			    const char *publication, wherry_error *err)
{
	naming w = {.wal = wal};
	wherry_code code = wh_wal_run(wal, which, NULL, 0, take_which, &w, err);

	if (code != WHERRY_OK)
		return code;
	if (!w.found)
		return wh_store_missing(wal->outbox->store.model,
					wal->outbox->store.name.ptr, WHERRY_NOTFOUND,
					err);
	derive(wal, w.database, wal->slot);
	derive(wal, w.database, wal->publication);
	wal->own = !*publication || strcmp(publication, wal->publication) == 0;
	if (*slot)
		(void)snprintf(wal->slot, WH_WAL_NAME, "%s", slot);
	if (*publication)
		(void)snprintf(wal->publication, WH_WAL_NAME, "%s", publication);
	return WHERRY_OK;
}

/* word: that of the head line with the columns of the stream's rows; NULL: the table is gone. */
static wherry_code open_wal(wherry_outbox *outbox, const char *word, const char *slot,
			    const char *publication, wh_wal **out, wherry_error *err)
{
	const char *text =
		wh_sql_embedded("outbox", "stream", outbox->store.db->driver->scheme);
	const wh_sql_names names = {
		.dialect = outbox->store.db->driver->scheme,
		.schema = *outbox->store.names.schema ? outbox->store.names.schema : NULL,
		.table = outbox->store.names.table,
		.payload = "bytea",
		.topic = outbox->store.topic,
	};
	wh_wal *wal;
	wherry_code code;

	if (!outbox->store.db->driver->stream || !text)
		return wh_fail(err, WHERRY_INVALID,
			       "'%s:' has no log to stream from: use postgres:",
			       outbox->store.db->driver->scheme);
	wal = calloc(1, sizeof(*wal));
	if (!wal)
		return wh_oom(err);
	wal->outbox = outbox;
	if (word &&
	    !wh_sql_word(&outbox->store.sql, word, wal->columns, sizeof(wal->columns))) {
		code = wh_fail(err, WHERRY_INVALID,
			       "the outbox has the layout %s, which cannot be streamed",
			       outbox->store.layout.name);
		goto out;
	}
	wal->keeps_ids = *wal->columns != ',';
	code = wh_sql_parse_as(text, &names, &wal->sql, err);
	if (code == WHERRY_OK)
		code = name_all(wal, word ? "which" : "which-left", slot, publication,
				err);
	if (code != WHERRY_OK)
		goto out;
	*out = wal;
	wal = NULL; /* Owned by the caller now. */
out:
	wh_wal_close(wal);
	return code;
}

wherry_code wh_wal_open(wherry_outbox *outbox, const char *slot, const char *publication,
			wh_wal **out, wherry_error *err)
{
	return open_wal(outbox, "stream", slot, publication, out, err);
}

wherry_code wh_wal_open_log(wherry_outbox *outbox, const char *publication, wh_wal **out,
			    wherry_error *err)
{
	return open_wal(outbox, "wal", "", publication, out, err);
}

wherry_code wh_wal_unpublish_left(wherry_outbox *outbox, wherry_error *err)
{
	wh_wal *wal = NULL;
	wherry_code code;

	if (!outbox->store.db->driver->stream)
		return WHERRY_OK;
	code = open_wal(outbox, NULL, "", "", &wal, err);
	if (code == WHERRY_OK)
		code = wh_wal_unpublish(wal, err);
	wh_wal_close(wal);
	return code;
}

void wh_wal_close(wh_wal *wal)
{
	if (!wal)
		return;
	if (wal->sql.n)
		wh_db_forget(wal->outbox->store.db, &wal->sql);
	wh_sql_clear(&wal->sql);
	free(wal);
}

wherry_code wh_wal_meets(const wh_store *store, bool shared, wherry_error *err)
{
	char columns[256];

	if (store->stmt.read_log && shared)
		return wh_fail(err, WHERRY_INVALID,
			       "relays that share the keys of an outbox read the table: "
			       "set relay.source=table");
	if (wh_sql_word(&store->sql, "wal", columns, sizeof(columns)))
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_INVALID,
		"only a relay of an outbox of Wherry's own layout on PostgreSQL can "
		"find new messages in the WAL: set relay.source=table");
}

/* ---- the server's side ---- */

static wherry_code take_state(void *ctx, const wh_row *row, wherry_error *err)
{
	wh_wal_state *out = ctx;
	const char *kind = wh_row_text(row, 5), *left_out = wh_row_text(row, 15);
	const char *filter = wh_row_text(row, 16);

	(void)err;
	*out = (wh_wal_state){
		.logical = wh_row_int(row, 0) != 0,
		.may = wh_row_int(row, 1) != 0,
		.retained = wh_row_int(row, 2),
		.has_slot = wh_row_int(row, 3) != 0,
		.ours = wh_row_int(row, 4) != 0,
		.reader = wh_row_int(row, 6),
		.lost = wh_row_int(row, 7) != 0,
		.confirmed = wh_row_int(row, 8),
		.flushed = wh_row_int(row, 9),
		.published = wh_row_int(row, 10) != 0,
		.publishes_inserts = wh_row_int(row, 11) != 0,
		.has_table = wh_row_int(row, 12) != 0,
		.behind_us = wh_row_int(row, 13),
		.unread_us = wh_row_int(row, 14),
	};
	(void)snprintf(out->kind, sizeof(out->kind), "%s", kind ? kind : "");
	(void)snprintf(out->left_out, sizeof(out->left_out), "%s",
		       left_out ? left_out : "");
	(void)snprintf(out->filter, sizeof(out->filter), "%s", filter ? filter : "");
	(void)snprintf(out->role, sizeof(out->role), "%s", wh_row_text(row, 17));
	return WHERRY_OK;
}

wherry_code wh_wal_look(wh_wal *wal, wh_wal_state *out, wherry_error *err)
{
	const wh_param params[] = {
		WH_TEXT_PARAM("slot", wh_view_of(wal->slot)),
		WH_TEXT_PARAM("publication", wh_view_of(wal->publication)),
		WH_TEXT_PARAM("columns", wh_view_of(wal->columns)),
	};
	wh_wal_state state = {0};
	wherry_code code = wh_wal_run(wal, "state", params, 3, take_state, &state, err);

	if (code == WHERRY_OK)
		*out = state;
	return code;
}

static wherry_code publish_by(wh_wal *wal, const char *statement, wherry_error *err)
{
	const wh_param name = WH_TEXT_PARAM("publication", wh_view_of(wal->publication));
	wherry_code code = wh_wal_run(wal, "name-publication", &name, 1, NULL, NULL, err);

	return code == WHERRY_OK ? wh_wal_run(wal, statement, NULL, 0, NULL, NULL, err)
				 : code;
}

static wherry_code publish(void *ctx, wherry_error *err)
{
	return publish_by(ctx, "publish", err);
}

static wherry_code publish_again(void *ctx, wherry_error *err)
{
	return publish_by(ctx, "republish", err);
}

static wherry_code unpublish(void *ctx, wherry_error *err)
{
	return publish_by(ctx, "unpublish", err);
}

wherry_code wh_wal_unpublish(wh_wal *wal, wherry_error *err)
{
	return wh_db_transact(wal->outbox->store.db, unpublish, wal, err);
}

wherry_code wh_wal_publish(wh_wal *wal, wherry_error *err)
{
	wherry_code code = wh_db_transact(wal->outbox->store.db, publish, wal, err);

	if (code != WHERRY_DENIED)
		return code;
	return wh_repair(err,
			 wh_prefix(err, code,
				   "publication '%s' has to be made by the table's owner",
				   wal->publication),
			 WHERRY_REPAIR_STREAM, WHERRY_KIND_OUTBOX,
			 wal->outbox->store.name.ptr);
}

wherry_code wh_wal_publish_again(wh_wal *wal, wherry_error *err)
{
	wherry_code code;

	if (!wal->own)
		return WHERRY_OK;
	code = wh_db_transact(wal->outbox->store.db, publish_again, wal, err);
	if (code != WHERRY_DENIED)
		return code;
	return wh_prefix(err, code,
			 "publication '%s' does not have the table %s.%s, and only the "
			 "owner of both can add it",
			 wal->publication, wal->schema, wal->table);
}

/* Refuse a publication that leaves out rows or columns: their messages could not be
 * delivered. */
static wherry_code check_sent(const wh_wal *wal, const wh_wal_state *state,
			      wherry_error *err)
{
	if (*state->left_out)
		return wh_fail(
			err, WHERRY_INVALID,
			"publication '%s' leaves out columns of the outbox (%s): "
			"ALTER PUBLICATION \"%s\" DROP TABLE %s.%s, then ADD TABLE "
			"%s.%s without a list of columns",
			wal->publication, state->left_out, wal->publication, wal->schema,
			wal->table, wal->schema, wal->table);
	if (*state->filter)
		return wh_fail(
			err, WHERRY_INVALID,
			"publication '%s' leaves out rows of the outbox (WHERE %s): "
			"ALTER PUBLICATION \"%s\" DROP TABLE %s.%s, then ADD TABLE "
			"%s.%s without WHERE",
			wal->publication, state->filter, wal->publication, wal->schema,
			wal->table, wal->schema, wal->table);
	return WHERRY_OK;
}

static wherry_code check_publication(const wh_wal *wal, const wh_wal_state *state,
				     wherry_error *err)
{
	if (!state->published)
		return WHERRY_OK;
	if (!state->has_table && wal->own)
		return wh_repair(
			err,
			wh_fail(err, WHERRY_INVALID,
				"publication '%s' does not have the table %s.%s, which "
				"its owner can add",
				wal->publication, wal->schema, wal->table),
			WHERRY_REPAIR_STREAM, WHERRY_KIND_OUTBOX,
			wal->outbox->store.name.ptr);
	if (!state->has_table)
		return wh_fail(err, WHERRY_INVALID,
			       "publication '%s' does not have the outbox: ALTER "
			       "PUBLICATION \"%s\" ADD TABLE %s.%s, or name another with "
			       "stream.publication",
			       wal->publication, wal->publication, wal->schema,
			       wal->table);
	if (!state->publishes_inserts)
		return wh_fail(err, WHERRY_INVALID,
			       "publication '%s' leaves inserts out: ALTER PUBLICATION "
			       "\"%s\" SET (publish = 'insert')",
			       wal->publication, wal->publication);
	return check_sent(wal, state, err);
}

wherry_code wh_wal_check(const wh_wal *wal, const wh_wal_state *state, wherry_error *err)
{
	if (!state->logical)
		return wh_fail(err, WHERRY_INVALID,
			       "the server writes no WAL that can be streamed: set "
			       "wal_level = logical in postgresql.conf and restart it");
	if (!state->may)
		return wh_fail(
			err, WHERRY_DENIED,
			"this role may not read the WAL: ALTER ROLE %s REPLICATION",
			state->role);
	if (state->has_slot && !state->ours)
		return wh_fail(err, WHERRY_INVALID,
			       "replication slot '%s' is another's: it is of '%s', or of "
			       "another database; name one with stream.slot",
			       wal->slot, state->kind);
	return check_publication(wal, state, err);
}

wherry_code wh_wal_take_over(wh_wal *wal, bool *out_ended, wherry_error *err)
{
	const wh_param slot = WH_TEXT_PARAM("slot", wh_view_of(wal->slot));
	int64_t n = 0;
	wherry_code code = wh_wal_run(wal, "end-reader", &slot, 1, wh_take_int, &n, err);

	if (code == WHERRY_OK)
		*out_ended = n > 0;
	return code;
}

wherry_code wh_wal_drop(wh_wal *wal, wherry_error *err)
{
	const wh_param slot = WH_TEXT_PARAM("slot", wh_view_of(wal->slot));

	return wh_wal_run(wal, "drop-slot", &slot, 1, NULL, NULL, err);
}

wherry_code wh_wal_make(wh_wal *wal, wherry_error *err)
{
	const wh_param slot = WH_TEXT_PARAM("slot", wh_view_of(wal->slot));

	wherry_code code = wh_wal_run(wal, "name-slot", &slot, 1, NULL, NULL, err);

	return code == WHERRY_OK ? wh_wal_run(wal, "make-slot", NULL, 0, NULL, NULL, err)
				 : code;
}

static wherry_code take_now(void *ctx, const wh_row *row, wherry_error *err)
{
	(void)err;
	*(wh_wal_now *)ctx = (wh_wal_now){wh_row_int(row, 0), wh_row_int(row, 1)};
	return WHERRY_OK;
}

wherry_code wh_wal_position(wh_wal *wal, wh_wal_now *out, wherry_error *err)
{
	return wh_wal_run(wal, "now", NULL, 0, take_now, out, err);
}

/* ---- a log ---- */

static wherry_code take_text(void *ctx, const wh_row *row, wherry_error *err)
{
	char **out = ctx;
	wherry_code code = wh_row_check(row, err);

	if (code != WHERRY_OK)
		return code;
	*out = strdup(wh_row_text(row, 0));
	return *out ? WHERRY_OK : wh_oom(err);
}

wherry_code wh_wal_snapshot(wh_wal *wal, char **out, wherry_error *err)
{
	char *text = NULL;
	wherry_code code = wh_wal_run(wal, "snapshot", NULL, 0, take_text, &text, err);

	if (code == WHERRY_OK)
		*out = text;
	else /* It may fail after it brought the row. */
		free(text);
	return code;
}

wherry_code wh_wal_waits_for_standbys(wh_wal *wal, bool *out, wherry_error *err)
{
	int64_t waits = 0;
	wherry_code code =
		wh_wal_run(wal, "waits-for-standbys", NULL, 0, wh_take_int, &waits, err);

	*out = waits != 0;
	return code;
}

typedef struct leaving {
	wh_wal *wal;
	const wherry_lease *lease;
	wh_buf ids;
} leaving;

static wherry_code leave_done(void *ctx, wherry_error *err)
{
	leaving *w = ctx;
	const wh_param ids = WH_TEXT_PARAM("delivered", wh_view_of(wh_buf_str(&w->ids)));
	wherry_code code = wh_store_fence(&w->wal->outbox->store, w->lease, err);

	return code == WHERRY_OK
		       ? wh_wal_run(w->wal, "leave-done", &ids, 1, NULL, NULL, err)
		       : code;
}

wherry_code wh_wal_leave_done(wh_wal *wal, const wherry_lease *lease, const int64_t *ids,
			      size_t n, wherry_error *err)
{
	enum { DIGITS = 21 };
	leaving w = {.wal = wal, .lease = lease, .ids = WH_BUF_INIT(DIGITS * n + 2)};
	wherry_code code;

	for (size_t i = 0; i < n; i++)
		wh_buf_printf(&w.ids, "%c%" PRId64, i ? ',' : '{', ids[i]);
	wh_buf_putc(&w.ids, '}');
	code = wh_buf_check(&w.ids, err);
	if (code == WHERRY_OK && n)
		code = wh_db_transact(wal->outbox->store.db, leave_done, &w, err);
	wh_buf_clear(&w.ids);
	return code;
}
