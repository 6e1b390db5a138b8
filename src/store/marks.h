/*
 * The claims of a program, for tables without a column for its token: a row is known by the
 * message's own id and by the mark that this claim left on it.
 */
#ifndef WH_STORE_MARKS_H
#define WH_STORE_MARKS_H

#include "base/buf.h"

typedef struct wh_mark wh_mark;

typedef struct wh_marks {
	wh_mark **buckets;
	size_t n_buckets, n;
	int64_t made; /* ids made up so far */
} wh_marks;

/*
 * Remember a claimed row; an earlier claim of the same message under that token is
 * replaced.
 *
 * @param inout_id  Its number; another one is made up if a different message is held by it.
 * @return WHERRY_OK; WHERRY_NOMEM.
 */
wherry_code wh_marks_add(wh_marks *set, const char *token, wh_view message_id,
			 wh_view mark, int64_t *inout_id, wherry_error *err);

/* The claim of this id under this token; false: there is none. */
bool wh_marks_find(const wh_marks *set, const char *token, int64_t id,
		   wh_view *out_message_id, wh_view *out_mark);

void wh_marks_drop(wh_marks *set, const char *token, int64_t id);
/* A claim has another mark now, as long as the one before. */
void wh_marks_change(wh_marks *set, const char *token, int64_t id, wh_view mark);

void wh_marks_clear(wh_marks *set);

#endif
