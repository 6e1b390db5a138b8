#include "store/marks.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_LEAST = 256, TOKEN_LEN = 40 };

/* No row has an id that high. */
static const int64_t made_up_from = (int64_t)1 << 60;

struct wh_mark {
	wh_mark *next;
	int64_t id;
	char token[TOKEN_LEN];
	size_t message_id_len, mark_len;
	char text[]; /* message id, NUL, mark, NUL */
};

static wh_mark **bucket(const wh_marks *set, int64_t id)
{
	uint64_t hash = (uint64_t)id * 0x9e3779b97f4a7c15u;

	return &set->buckets[(hash >> 32) & (set->n_buckets - 1)];
}

static wh_mark *find(const wh_marks *set, const char *token, int64_t id)
{
	wh_mark *held = set->n_buckets ? *bucket(set, id) : NULL;

	while (held && (held->id != id || strcmp(held->token, token) != 0))
		held = held->next;
	return held;
}

static bool grow(wh_marks *set)
{
	wh_marks more = {.n_buckets =
				 set->n_buckets ? 2 * set->n_buckets : BUCKETS_LEAST};

	if (set->n < set->n_buckets)
		return true;
	more.buckets = calloc(more.n_buckets, sizeof(*more.buckets));
	if (!more.buckets)
		return false;
	for (size_t i = 0; i < set->n_buckets; i++) {
		for (wh_mark *held = set->buckets[i], *next; held; held = next) {
			wh_mark **at = bucket(&more, held->id);

			next = held->next;
			held->next = *at;
			*at = held;
		}
	}
	free(set->buckets);
	set->buckets = more.buckets;
	set->n_buckets = more.n_buckets;
	return true;
}

wherry_code wh_marks_add(wh_marks *set, const char *token, wh_view message_id,
			 wh_view mark, int64_t *inout_id, wherry_error *err)
{
	size_t len = message_id.len + mark.len + 2, token_len = strlen(token);
	const wh_mark *old = find(set, token, *inout_id);
	int64_t id = *inout_id;
	wh_mark *held, **at;

	if (token_len >= TOKEN_LEN || !grow(set))
		return wh_oom(err);
	held = calloc(1, sizeof(*held) + len);
	if (!held)
		return wh_oom(err);
	if (old && !wh_view_eq((wh_view){old->text, old->message_id_len}, message_id))
		id = made_up_from + ++set->made;
	wh_marks_drop(set, token, id);
	held->id = id;
	memcpy(held->token, token, token_len);
	held->message_id_len = message_id.len;
	held->mark_len = mark.len;
	memcpy(held->text, message_id.ptr, message_id.len);
	memcpy(held->text + message_id.len + 1, mark.ptr, mark.len);
	at = bucket(set, id);
	held->next = *at;
	*at = held;
	set->n++;
	*inout_id = id;
	return WHERRY_OK;
}

bool wh_marks_find(const wh_marks *set, const char *token, int64_t id,
		   wh_view *out_message_id, wh_view *out_mark)
{
	const wh_mark *held = find(set, token, id);

	if (!held)
		return false;
	*out_message_id = (wh_view){held->text, held->message_id_len};
	*out_mark = (wh_view){held->text + held->message_id_len + 1, held->mark_len};
	return true;
}

void wh_marks_drop(wh_marks *set, const char *token, int64_t id)
{
	wh_mark *held = find(set, token, id), **at;

	if (!held)
		return;
	for (at = bucket(set, id); *at != held; at = &(*at)->next)
		;
	*at = held->next;
	free(held);
	set->n--;
}

void wh_marks_change(wh_marks *set, const char *token, int64_t id, wh_view mark)
{
	wh_mark *held = find(set, token, id);

	if (held && held->mark_len == mark.len)
		memcpy(held->text + held->message_id_len + 1, mark.ptr, mark.len);
}

void wh_marks_clear(wh_marks *set)
{
	for (size_t i = 0; i < set->n_buckets; i++) {
		for (wh_mark *held = set->buckets[i], *next; held; held = next) {
			next = held->next;
			free(held);
		}
	}
	free(set->buckets);
	*set = (wh_marks){0};
}
