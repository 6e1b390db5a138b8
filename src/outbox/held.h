/*
 * What a program holds by claims, where the table has no column for its token: a row is
 * known by the message's own id and by the mark that this very claim left on it.
 */
#ifndef WH_OUTBOX_HELD_H
#define WH_OUTBOX_HELD_H

#include "base/buf.h"

typedef struct wh_held wh_held;

typedef struct wh_held_set {
	wh_held **buckets;
	size_t n_buckets, n;
	int64_t made; /* ids made up so far */
} wh_held_set;

/*
 * Remember a claimed row; an earlier claim of the same message under that token is
 * replaced.
 *
 * @param inout_id  Its number; another one is made up if a different message is held by it.
 * @return WHERRY_OK; WHERRY_NOMEM.
 */
wherry_code wh_held_add(wh_held_set *set, const char *token, wh_view message_id,
			wh_view mark, int64_t *inout_id, wherry_error *err);

/* What is held by this id under this token; false: nothing. */
bool wh_held_find(const wh_held_set *set, const char *token, int64_t id,
		  wh_view *out_message_id, wh_view *out_mark);

void wh_held_drop(wh_held_set *set, const char *token, int64_t id);
/* A claim has another mark now, as long as the one before. */
void wh_held_mark(wh_held_set *set, const char *token, int64_t id, wh_view mark);

void wh_held_clear(wh_held_set *set);

#endif
