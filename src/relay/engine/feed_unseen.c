/*
 * Messages that came by the WAL and that the position does not cover: their commits may not be visible yet.
 */
#include "relay/engine/feed.h"

#include <stdlib.h>

#include "relay/engine/feed_parts.h"

static bool is_unseen(const wh_taken_one *one, const char *snapshot)
{
	return one && !wh_snapshot_sees(snapshot, one->tx);
}

wherry_code wh_feed_unseen(wherry_relay *r, int64_t *ids, size_t *inout_n,
			   wherry_error *err)
{
	const wh_taken *t = &wh_log_of(r)->taken;
	size_t n = *inout_n, came = 0;
	char *snapshot = NULL;
	wherry_code code;

	*inout_n = 0;
	if (!wh_feed_of(r) || !t->n)
		return WHERRY_OK;
	for (size_t i = 0; i < n; i++)
		if (wh_taken_find(t, ids[i]))
			ids[came++] = ids[i];
	if (!came)
		return WHERRY_OK;
	code = wh_wal_snapshot(wh_feed_of(r)->wal, &snapshot, err);
	if (code != WHERRY_OK)
		return code;
	for (size_t i = 0; i < came; i++)
		if (is_unseen(wh_taken_find(t, ids[i]), snapshot))
			ids[(*inout_n)++] = ids[i];
	free(snapshot);
	return WHERRY_OK;
}

wherry_code wh_feed_swept(wherry_relay *r, wherry_error *err)
{
	wh_taken *t = &wh_log_of(r)->taken;
	char *snapshot = NULL;
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; i < t->n && wh_feed_of(r); i++) {
		wh_taken_one *one = &t->all[i];

		if (!one->held || one->missed)
			continue;
		if (!snapshot)
			code = wh_wal_snapshot(wh_feed_of(r)->wal, &snapshot, err);
		if (code != WHERRY_OK)
			break;
		one->missed = is_unseen(one, snapshot);
	}
	free(snapshot);
	return code;
}

wherry_code wh_feed_leave_done(wherry_relay *r, wherry_error *err)
{
	wh_log *f = wh_log_of(r);
	wherry_code code = WHERRY_OK;
	int64_t *ids;
	size_t n = 0;

	if (!f->taken.n)
		return WHERRY_OK;
	ids = calloc(f->taken.n, sizeof(*ids));
	if (!ids)
		return wh_oom(err);
	for (size_t i = 0; i < f->taken.n; i++)
		if (!wh_window_find(&r->window, f->taken.all[i].id))
			ids[n++] = f->taken.all[i].id;
	code = wh_wal_leave_done(f->feed->wal, &r->lease, ids, n, err);
	free(ids);
	return code;
}
