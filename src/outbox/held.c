#include "outbox/held.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS_LEAST = 256, TOKEN_LEN = 40 };

/* No rowid comes near it. */
static const int64_t made_up_from = (int64_t)1 << 60;

struct wh_held {
	wh_held *next;
	int64_t id;
	char token[TOKEN_LEN];
	size_t message_id_len, mark_len;
	char text[]; /* message id, NUL, mark, NUL */
};

static wh_held **bucket(const wh_held_set *set, int64_t id)
{
	uint64_t hash = (uint64_t)id * 0x9e3779b97f4a7c15u;

	return &set->buckets[(hash >> 32) & (set->n_buckets - 1)];
}

static wh_held *find(const wh_held_set *set, const char *token, int64_t id)
{
	wh_held *held = set->n_buckets ? *bucket(set, id) : NULL;

	while (held && (held->id != id || strcmp(held->token, token) != 0))
		held = held->next;
	return held;
}

static bool grow(wh_held_set *set)
{
	wh_held_set more = {.n_buckets =
				    set->n_buckets ? 2 * set->n_buckets : BUCKETS_LEAST};

	if (set->n < set->n_buckets)
		return true;
	more.buckets = calloc(more.n_buckets, sizeof(*more.buckets));
	if (!more.buckets)
		return false;
	for (size_t i = 0; i < set->n_buckets; i++) {
		for (wh_held *held = set->buckets[i], *next; held; held = next) {
			wh_held **at = bucket(&more, held->id);

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

wherry_code wh_held_add(wh_held_set *set, const char *token, wh_view message_id,
			wh_view mark, int64_t *inout_id, wherry_error *err)
{
	size_t len = message_id.len + mark.len + 2, token_len = strlen(token);
	const wh_held *old = find(set, token, *inout_id);
	int64_t id = *inout_id;
	wh_held *held, **at;

	if (token_len >= TOKEN_LEN || !grow(set))
		return wh_oom(err);
	held = calloc(1, sizeof(*held) + len);
	if (!held)
		return wh_oom(err);
	if (old && !wh_view_eq((wh_view){old->text, old->message_id_len}, message_id))
		id = made_up_from + ++set->made;
	wh_held_drop(set, token, id);
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

bool wh_held_find(const wh_held_set *set, const char *token, int64_t id,
		  wh_view *out_message_id, wh_view *out_mark)
{
	const wh_held *held = find(set, token, id);

	if (!held)
		return false;
	*out_message_id = (wh_view){held->text, held->message_id_len};
	*out_mark = (wh_view){held->text + held->message_id_len + 1, held->mark_len};
	return true;
}

void wh_held_drop(wh_held_set *set, const char *token, int64_t id)
{
	wh_held *held = find(set, token, id), **at;

	if (!held)
		return;
	for (at = bucket(set, id); *at != held; at = &(*at)->next)
		;
	*at = held->next;
	free(held);
	set->n--;
}

void wh_held_mark(wh_held_set *set, const char *token, int64_t id, wh_view mark)
{
	wh_held *held = find(set, token, id);

	if (held && held->mark_len == mark.len)
		memcpy(held->text + held->message_id_len + 1, mark.ptr, mark.len);
}

void wh_held_clear(wh_held_set *set)
{
	for (size_t i = 0; i < set->n_buckets; i++) {
		for (wh_held *held = set->buckets[i], *next; held; held = next) {
			next = held->next;
			free(held);
		}
	}
	free(set->buckets);
	*set = (wh_held_set){0};
}
