#include "relay/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void wh_list_append(wh_list *list, wh_entry *e)
{
	e->next = NULL;
	e->prev = list->tail;
	if (list->tail)
		list->tail->next = e;
	else
		list->head = e;
	list->tail = e;
	list->n++;
}

void wh_list_prepend(wh_list *list, wh_entry *e)
{
	e->prev = NULL;
	e->next = list->head;
	if (list->head)
		list->head->prev = e;
	else
		list->tail = e;
	list->head = e;
	list->n++;
}

void wh_list_remove(wh_list *list, wh_entry *e)
{
	if (e->prev)
		e->prev->next = e->next;
	else
		list->head = e->next;
	if (e->next)
		e->next->prev = e->prev;
	else
		list->tail = e->prev;
	e->next = e->prev = NULL;
	list->n--;
}

void wh_list_insert(wh_list *list, wh_entry *e)
{
	wh_entry *after = list->tail;

	while (after && after->order > e->order)
		after = after->prev;
	if (after == list->tail) {
		wh_list_append(list, e);
	} else if (!after) {
		wh_list_prepend(list, e);
	} else {
		e->prev = after;
		e->next = after->next;
		after->next->prev = e;
		after->next = e;
		list->n++;
	}
}

wherry_code wh_window_init(wh_window *w, size_t most, wherry_error *err)
{
	size_t n = 64;

	*w = (wh_window){0};
	while (n < most)
		n *= 2;
	w->buckets = calloc(n, sizeof(wh_entry *));
	if (!w->buckets)
		return wh_oom(err);
	w->n_buckets = n;
	return WHERRY_OK;
}

static void free_batch(wh_window *w, wh_batch *batch)
{
	if (w->spare == batch)
		return;
	if (w->spare) {
		wh_arena_clear(&batch->arena);
		free(batch);
		return;
	}
	wh_arena_reset(&batch->arena);
	w->spare = batch;
}

void wh_window_empty(wh_window *w)
{
	for (size_t i = 0; i < w->n_buckets; i++)
		while (w->buckets[i])
			wh_window_drop(w, w->buckets[i]);
	w->ready = w->in_flight = w->dying = w->dead_letters = (wh_list){0};
	w->settled = w->unwritable = w->gone = (wh_list){0};
	w->n_undelivered = 0;
}

void wh_window_clear(wh_window *w)
{
	wh_window_empty(w);
	if (w->spare) {
		wh_arena_clear(&w->spare->arena);
		free(w->spare);
	}
	free(w->buckets);
	*w = (wh_window){0};
}

wherry_code wh_window_begin(wh_window *w, wherry_error *err)
{
	wh_batch *batch = w->spare;

	if (!batch)
		batch = calloc(1, sizeof(*batch));
	if (!batch)
		return wh_oom(err);
	w->spare = NULL;
	batch->n = 1; /* So that the open batch is not freed. */
	batch->again = false;
	w->batch = batch;
	return WHERRY_OK;
}

wherry_code wh_window_begin_again(wh_window *w, wherry_error *err)
{
	wherry_code code = wh_window_begin(w, err);

	if (code == WHERRY_OK)
		w->batch->again = true;
	return code;
}

/* The batch's memory has grown since it was `before`. */
static void count_bytes(wh_window *w, const wh_batch *batch, size_t before)
{
	w->bytes += batch->arena.used - before;
	w->bytes_again += batch->again ? batch->arena.used - before : 0;
}

static void release(wh_window *w, wh_batch *batch)
{
	if (--batch->n)
		return;
	w->bytes -= batch->arena.used;
	w->bytes_again -= batch->again ? batch->arena.used : 0;
	free_batch(w, batch);
}

void wh_window_end(wh_window *w)
{
	wh_batch *batch = w->batch;

	w->batch = NULL;
	release(w, batch);
}

static size_t bucket_of(const wh_window *w, int64_t id)
{
	return (uint64_t)id & (w->n_buckets - 1);
}

wh_entry *wh_window_find(const wh_window *w, int64_t id)
{
	wh_entry *e = w->buckets[bucket_of(w, id)];

	while (e && e->msg.id != id)
		e = e->bucket_next;
	return e;
}

/* A copy in the batch's memory; NULL if there is no text.  Sets *failed if
 * memory runs out. */
static const char *copy(wh_arena *arena, wh_view view, bool *failed)
{
	char *text = view.ptr ? wh_arena_copy(arena, view.ptr, view.len) : NULL;

	*failed |= view.ptr && !text;
	return text;
}

wh_entry *wh_window_add(wh_window *w, const wh_open_row *row)
{
	wh_batch *batch = w->batch;
	wh_arena *arena = &batch->arena;
	size_t before = arena->used;
	wh_entry *e = wh_arena_alloc(arena, sizeof(*e));
	wh_view body = wh_open_body(row);
	bool failed = !e;

	if (e) {
		memset(e, 0, sizeof(*e));
		e->msg.size = sizeof(e->msg);
		e->msg.message_id = copy(arena, row->message_id, &failed);
		e->msg.topic = copy(arena, row->topic, &failed);
		e->msg.aggregate_type = copy(arena, row->aggregate_type, &failed);
		e->msg.aggregate_id = copy(arena, row->aggregate_id, &failed);
		e->msg.key = row->key.len ? copy(arena, row->key, &failed) : NULL;
		e->msg.headers = copy(arena, row->headers, &failed);
		e->msg.trace_id = copy(arena, row->trace_id, &failed);
		e->msg.body = copy(arena, body, &failed); /* NULL stays NULL. */
		e->msg.body_len = body.len;
		failed |= row->row && wh_row_check(row->row, NULL) != WHERRY_OK;
		e->msg.id = row->id;
		e->msg.created_at_us = row->created_at_us;
		e->msg.attempts = row->attempts;
	}
	count_bytes(w, batch, before);
	if (failed)
		return NULL;
	e->batch = batch;
	batch->n++;
	w->n++;
	w->added++;
	e->bucket_next = w->buckets[bucket_of(w, row->id)];
	w->buckets[bucket_of(w, row->id)] = e;
	return e;
}

/* A copy of a text in which bytes that are not UTF-8, or NUL, are written as \xHH. */
static const char *escape(wh_arena *arena, wh_view view, bool *failed)
{
	char *out, *at;

	if (!view.len ||
	    (wh_utf8_valid(view.ptr, view.len) && !memchr(view.ptr, 0, view.len)))
		return copy(arena, view, failed);
	out = at =
		view.len < SIZE_MAX / 4 ? wh_arena_alloc(arena, 4 * view.len + 1) : NULL;
	*failed |= !out;
	for (size_t i = 0, n; out && i < view.len; i += n) {
		n = view.ptr[i] ? wh_utf8_len(view.ptr + i, view.len - i) : 0;
		for (size_t j = 0; j < n; j++)
			*at++ = view.ptr[i + j];
		if (!n) {
			*at++ = '\\';
			*at++ = 'x';
			wh_hex(view.ptr + i, 1, at);
			at += 2;
			n = 1;
		}
	}
	if (out)
		*at = 0;
	return out;
}

bool wh_window_keep(wh_window *w, wh_entry *e, const wh_open_row *row)
{
	wh_arena *arena = &e->batch->arena;
	size_t before = arena->used;
	wherry_message *whole = wh_arena_alloc(arena, sizeof(*whole));
	wh_view body = wh_open_body(row);
	bool failed = !whole;

	if (whole) {
		*whole = e->msg;
		whole->message_id = escape(arena, row->message_id, &failed);
		whole->topic = escape(arena, row->topic, &failed);
		whole->aggregate_type = escape(arena, row->aggregate_type, &failed);
		whole->aggregate_id = escape(arena, row->aggregate_id, &failed);
		whole->key = row->key.len ? escape(arena, row->key, &failed) : NULL;
		whole->headers = escape(arena, row->headers, &failed);
		whole->trace_id = escape(arena, row->trace_id, &failed);
		if (!e->msg.body)
			whole->body = copy(arena, body, &failed);
		whole->body_len = body.len;
		failed |= row->row && wh_row_check(row->row, NULL) != WHERRY_OK;
	}
	count_bytes(w, e->batch, before);
	e->whole = failed ? NULL : whole;
	return !failed;
}

void *wh_window_alloc(wh_window *w, wh_entry *e, size_t n)
{
	wh_arena *arena = &e->batch->arena;
	size_t before = arena->used;
	void *out = wh_arena_alloc(arena, n);

	count_bytes(w, e->batch, before);
	return out;
}

const char *wh_window_copy(wh_window *w, wh_entry *e, const char *text)
{
	wh_arena *arena = &e->batch->arena;
	size_t before = arena->used;
	const char *out = wh_arena_copy(arena, text, strlen(text));

	count_bytes(w, e->batch, before);
	return out;
}

void wh_window_forget_versions(wh_window *w)
{
	for (size_t i = 0; w->n && i < w->n_buckets; i++)
		for (wh_entry *e = w->buckets[i]; e; e = e->bucket_next)
			e->version = 0;
}

int64_t wh_window_lowest(const wh_window *w)
{
	int64_t lowest = INT64_MAX;

	for (size_t i = 0; w->n && i < w->n_buckets; i++)
		for (const wh_entry *e = w->buckets[i]; e; e = e->bucket_next)
			if (e->msg.id < lowest)
				lowest = e->msg.id;
	return lowest;
}

void wh_window_drop(wh_window *w, wh_entry *e)
{
	wh_entry **at = &w->buckets[bucket_of(w, e->msg.id)];

	while (*at != e)
		at = &(*at)->bucket_next;
	*at = e->bucket_next;
	w->n--;
	release(w, e->batch);
}
