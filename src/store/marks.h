/*
 * The claims of this program, for tables that have no column for a token.  A row is
 * identified by its message id and by the mark that the claim left on it.
 */
#ifndef WH_STORE_MARKS_H
#define WH_STORE_MARKS_H

#include "base/buf.h"

typedef struct wh_mark wh_mark;

typedef struct wh_marks {
	wh_mark **buckets;
	size_t n_buckets, n;
	int64_t made; /* Number of ids made up so far. */
} wh_marks;

/*
 * Remember a claimed row.  Replaces an earlier claim of the same message with that token.
 *
 * @param inout_id  The row's id.  Replaced by a made-up id if the token holds a different
 *                  message with that id.
 * @return WHERRY_OK; WHERRY_NOMEM.
 */
wherry_code wh_marks_add(wh_marks *set, const char *token, wh_view message_id,
			 wh_view mark, int64_t *inout_id, wherry_error *err);

/* Find the claim of this id with this token; false: there is none. */
bool wh_marks_find(const wh_marks *set, const char *token, int64_t id,
		   wh_view *out_message_id, wh_view *out_mark);

void wh_marks_drop(wh_marks *set, const char *token, int64_t id);
/* Replace the mark of a claim by one of the same length. */
void wh_marks_change(wh_marks *set, const char *token, int64_t id, wh_view mark);

void wh_marks_clear(wh_marks *set);

#endif
