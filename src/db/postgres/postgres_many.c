/*
 * One connection that listens to the writers of many tables.
 *
 * PostgreSQL wakes every session that listens in a database for each commit that notifies,
 * whatever its channel is.  So a thousand listeners make each such commit a thousand times
 * as expensive, and one session with two thousand channels does not.
 *
 * The caller takes the sleepers' locks (postgres_watch.c) with separate statements.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "db/postgres/postgres.h"

static const char control[] = "_control";

enum { PREFIX_LEN = sizeof("wherry_") - 1 };

/* Keep a notification for wh_postgres_heard_of().  Without memory it is lost, and the caller
 * finds the rows when it looks next. */
void wh_postgres_note(postgres_watch *w, const char *channel)
{
	size_t cap = w->heard_cap ? w->heard_cap * 2 : 64, len = strlen(channel);
	bool is_control = len > sizeof(control) &&
			  strcmp(channel + len - (sizeof(control) - 1), control) == 0;
	char number[32] = "";
	wh_heard *grown;
	int64_t key;

	if (is_control)
		len -= sizeof(control) - 1;
	if (len <= PREFIX_LEN || len - PREFIX_LEN >= sizeof(number))
		return;
	memcpy(number, channel + PREFIX_LEN, len - PREFIX_LEN);
	if (!wh_parse_int(number, &key))
		return;
	if (w->n_heard == w->heard_cap) {
		grown = reallocarray(w->heard, cap, sizeof(*grown));
		if (!grown)
			return;
		w->heard = grown;
		w->heard_cap = cap;
	}
	w->heard[w->n_heard++] = (wh_heard){.key = key, .rows = !is_control};
	w->rows = true;
}

size_t wh_postgres_noted(postgres_watch *w, wh_heard *out, size_t most)
{
	size_t n = w->n_heard < most ? w->n_heard : most;

	if (n)
		memcpy(out, w->heard, n * sizeof(*out));
	w->n_heard -= n;
	if (w->n_heard)
		memmove(w->heard, w->heard + n, w->n_heard * sizeof(*out));
	return n;
}
