/*
 * Subscriptions of a log: making, moving, dropping and listing them.
 */
#include <wherry/subscription.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/date.h"
#include "base/sized.h"
#include "base/text.h"
#include "log/subscription.h"
#include "outbox/outbox.h"

enum { TOPICS_MAX = 1000 };

/* One pattern: a topic, in which * stands for any text. */
static bool is_pattern(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f || text[i] == '"' ||
		    text[i] == '\\' || (text[i] == ' ' && (!i || i + 1 == len)))
			return false;
	return len > 0;
}

static wherry_code check_topics(const char *topics, wherry_error *err)
{
	size_t len = topics ? strlen(topics) : 0;

	if (!topics)
		return WHERRY_OK;
	if (len > TOPICS_MAX || !wh_utf8_valid(topics, len))
		return wh_fail(err, WHERRY_INVALID,
			       "topics are text of at most %d bytes in UTF-8",
			       TOPICS_MAX);
	for (const char *at = topics;; at++) {
		size_t n = strcspn(at, ",");

		if (!is_pattern(at, n))
			return wh_fail(
				err, WHERRY_INVALID,
				"'%.*s' is not a pattern of topics: write topics with commas "
				"between them and without quotes, in which * stands for any "
				"text, such as orders.*,billing",
				(int)n, at);
		at += n;
		if (!*at)
			return WHERRY_OK;
	}
}

/* Does the topic match the pattern, in which "*" stands for any text? */
static bool matches(wh_view pattern, wh_view topic)
{
	size_t p = 0, t = 0, star = SIZE_MAX, from = 0; /* Of the last "*". */

	while (t < topic.len) {
		if (p < pattern.len && pattern.ptr[p] == '*') {
			star = p++;
			from = t;
		} else if (p < pattern.len && pattern.ptr[p] == topic.ptr[t]) {
			p++;
			t++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			t = ++from;
		} else {
			return false;
		}
	}
	while (p < pattern.len && pattern.ptr[p] == '*')
		p++;
	return p == pattern.len;
}

bool wh_subscription_has(const char *topics, wh_view topic)
{
	for (const char *at = topics; *at;) {
		size_t n = strcspn(at, ",");

		if (matches((wh_view){at, n}, topic))
			return true;
		at += n + (at[n] == ',');
	}
	return !*topics;
}

/* ---- positions ---- */

typedef struct ends {
	int64_t first, last;
} ends;

static wherry_code take_ends(void *ctx, const wh_row *row, wherry_error *err)
{
	ends *out = ctx;

	out->first = wh_row_int(row, 0);
	out->last = wh_row_int(row, 1);
	return wh_row_check(row, err);
}

/* The position before a message, which must have been written. */
static wherry_code before_id(wherry_outbox *outbox, wh_cursor *c, int64_t id,
			     wh_position *out, wherry_error *err)
{
	ends e = {0, 0};
	wherry_code code = wh_db_run(outbox->store.db, outbox->own.first_and_last, NULL,
				     0, take_ends, &e, NULL, err);

	if (code != WHERRY_OK)
		return code;
	if (id > e.last)
		return wh_fail(err, WHERRY_NOTFOUND,
			       "there is no message %" PRId64
			       " yet, the last one is %" PRId64
			       ": write `now` for what comes from now on",
			       id, e.last);
	return wh_cursor_after(c, id - 1, out, err);
}

/* The position before the first message that was made since then. */
static wherry_code before_time(wherry_outbox *outbox, wh_cursor *c, int64_t us,
			       wh_position *out, wherry_error *err)
{
	const wh_param at = WH_INT_PARAM("at", wh_ms(us));
	int64_t id = 0;
	wherry_code code = wh_db_run(outbox->store.db, outbox->own.first_since, &at, 1,
				     wh_take_int, &id, NULL, err);

	if (code != WHERRY_OK)
		return code;
	return id ? wh_cursor_after(c, id - 1, out, err) : wh_cursor_end(c, out, err);
}

static wherry_code find_position(wherry_outbox *outbox, const char *to, wh_position *out,
				 wherry_error *err)
{
	wh_cursor *c = NULL;
	int64_t id = 0, us = 0;
	wherry_code code;

	*out = WH_POSITION_START;
	if (strcmp(to, "start") == 0)
		return WHERRY_OK;
	code = wh_cursor_open_layout(outbox->store.db, &outbox->store.sql, &c, err);
	if (code != WHERRY_OK)
		return code;
	if (strcmp(to, "now") == 0)
		code = wh_cursor_end(c, out, err);
	else if (wh_parse_int(to, &id) && id > 0)
		code = before_id(outbox, c, id, out, err);
	else if (wh_time_parse(to, &us, NULL) == WHERRY_OK)
		code = before_time(outbox, c, us, out, err);
	else
		code = wh_fail(
			err, WHERRY_INVALID,
			"'%.60s' is not a place in an outbox: write `start`, `now`, the "
			"id of a message, or a time such as 2026-11-25T10:00:00Z",
			to);
	wh_cursor_close(c);
	return code;
}

static wh_param seen_param(const wh_position *at)
{
	return WH_TEXT_PARAM("seen", wh_view_of(at->seen ? at->seen : "1:1:"));
}

/* ---- making ---- */

typedef struct making {
	wherry_outbox *outbox;
	const char *topics;
	wh_position at;
	int64_t made;
} making;

static wherry_code make(void *ctx, wherry_error *err)
{
	making *m = ctx;
	wh_store *store = &m->outbox->store;
	const wh_param params[] = {WH_INT_PARAM("high", m->at.high), seen_param(&m->at),
				   WH_TEXT_PARAM("topics", wh_view_of(m->topics))};
	const wh_param name = wh_store_lease_name(store);
	wherry_code code = wh_db_run(store->db, m->outbox->own.subscribe, params, 3, NULL,
				     NULL, &m->made, err);

	return code == WHERRY_OK ? wh_db_run(store->db, m->outbox->own.subscribe_named,
					     &name, 1, NULL, NULL, NULL, err)
				 : code;
}

static wherry_code take_topics(void *ctx, const wh_row *row, wherry_error *err)
{
	const char *text = wh_row_text(row, 1);

	(void)snprintf(ctx, TOPICS_MAX + 1, "%s", text ? text : "");
	return wh_row_check(row, err);
}

wherry_code wh_subscription_topics(wherry_outbox *outbox, char **out, wherry_error *err)
{
	char topics[TOPICS_MAX + 1] = "";
	wherry_code code = wh_db_run(outbox->store.db, outbox->own.subscribed, NULL, 0,
				     take_topics, topics, NULL, err);

	if (code != WHERRY_OK)
		return code;
	*out = strdup(topics);
	return *out ? WHERRY_OK : wh_oom(err);
}

/* One that exists must have the same topics. */
static wherry_code compare(const making *m, wherry_error *err)
{
	char topics[TOPICS_MAX + 1] = "";
	wherry_code code = wh_db_run(m->outbox->store.db, m->outbox->own.subscribed, NULL,
				     0, take_topics, topics, NULL, err);

	if (code != WHERRY_OK || strcmp(topics, m->topics ? m->topics : "") == 0)
		return code;
	return wh_fail(err, WHERRY_DUPLICATE,
		       "subscription '%s' of outbox '%s' exists, with %s%s",
		       m->outbox->subscription, m->outbox->store.name.ptr,
		       *topics ? "the topics " : "all topics", topics);
}

/* Open the outbox as if it had the subscription. */
static wherry_code open_for(wherry_db *db, const char *table, const char *name,
			    wherry_outbox **out, wherry_error *err)
{
	wherry_code code = wh_subscription_check(name, err);

	return code == WHERRY_OK ? wh_subscription_open_new(db, table, name, out, err)
				 : code;
}

wherry_code wherry_subscription_create(wherry_db *db, const char *table, const char *name,
				       const wherry_subscription_options *options,
				       wherry_error *err)
{
	wherry_subscription_options own = {.from = NULL};
	making m = {.at = WH_POSITION_START};
	wherry_code code;

	wh_error_clear(err);
	code = options ? wh_sized_read(&own, sizeof(own), options,
				       offsetof(wherry_subscription_options, from),
				       "options", "WHERRY_SUBSCRIPTION_OPTIONS", err)
		       : WHERRY_OK;
	if (code == WHERRY_OK)
		code = check_topics(own.topics, err);
	if (code == WHERRY_OK)
		code = open_for(db, table, name, &m.outbox, err);
	if (code == WHERRY_OK)
		code = find_position(m.outbox, own.from ? own.from : "start", &m.at, err);
	m.topics = own.topics;
	if (code == WHERRY_OK)
		code = wh_db_transact(db, make, &m, err);
	if (code == WHERRY_OK && !m.made)
		code = compare(&m, err);
	wh_position_clear(&m.at);
	wherry_outbox_close(m.outbox);
	return code;
}

/* ---- moving ---- */

typedef struct moving {
	wherry_outbox *outbox;
	const char *to;
} moving;

static wherry_code move_to(wherry_outbox *outbox, const wh_position *at,
			   wherry_error *err)
{
	const wh_param params[] = {WH_INT_PARAM("high", at->high), seen_param(at)};
	int64_t changed = 0;
	wherry_code code = wh_db_run(outbox->store.db, outbox->own.seek, params, 2, NULL,
				     NULL, &changed, err);

	if (code == WHERRY_OK && !changed)
		return wh_no_subscription(&outbox->store, err);
	return code == WHERRY_OK ? wh_db_run(outbox->store.db, outbox->own.seek_end, NULL,
					     0, NULL, NULL, NULL, err)
				 : code;
}

/* No relay gets other partitions, whose positions are in other rows then, before the transaction ends.  Without
 * advisory locks there are no shares. */
static wherry_code lock_shares(const wherry_outbox *outbox, wherry_error *err)
{
	const wh_stmt *lock = outbox->store.stmt.partitions_lock;

	return lock && wh_db_has(outbox->store.db, WH_DB_SIGNALS)
		       ? wh_db_run(outbox->store.db, lock, NULL, 0, NULL, NULL, NULL, err)
		       : WHERRY_OK;
}

static wherry_code seek(void *ctx, wherry_error *err)
{
	const moving *m = ctx;
	wherry_db *db = m->outbox->store.db;
	const wh_param name = wh_store_lease_name(&m->outbox->store);
	wh_position at = WH_POSITION_START;
	wherry_code code = lock_shares(m->outbox, err);

	if (code == WHERRY_OK)
		code = wh_db_run(db, m->outbox->own.seek_begin, &name, 1, NULL, NULL,
				 NULL, err);
	if (code == WHERRY_OK)
		code = find_position(m->outbox, m->to, &at, err);
	if (code == WHERRY_OK)
		code = move_to(m->outbox, &at, err);
	wh_position_clear(&at);
	return code;
}

wherry_code wherry_subscription_seek(wherry_outbox *outbox, const char *to,
				     wherry_error *err)
{
	moving m = {outbox, to};

	wh_error_clear(err);
	if (!outbox || !to)
		return wh_fail(err, WHERRY_INVALID, "no outbox, or no place to go to");
	if (!outbox->own.seek)
		return wh_store_cannot(&outbox->store, "which has no position to move",
				       err);
	return wh_db_transact(outbox->store.db, seek, &m, err);
}

typedef struct setting {
	wherry_outbox *outbox;
	const char *topics;
} setting;

/* The relay that leads may have passed over messages that match now: it begins again at the stored position. */
static wherry_code set_topics(void *ctx, wherry_error *err)
{
	const setting *s = ctx;
	wherry_db *db = s->outbox->store.db;
	const wh_param name = wh_store_lease_name(&s->outbox->store);
	const wh_param topics = WH_TEXT_PARAM("topics", wh_view_of(s->topics));
	int64_t changed = 0;
	wherry_code code = lock_shares(s->outbox, err);

	if (code == WHERRY_OK)
		code = wh_db_run(db, s->outbox->own.seek_begin, &name, 1, NULL, NULL,
				 NULL, err);
	if (code == WHERRY_OK)
		code = wh_db_run(db, s->outbox->own.set_topics, &topics, 1, NULL, NULL,
				 &changed, err);
	if (code == WHERRY_OK && !changed)
		return wh_no_subscription(&s->outbox->store, err);
	return code;
}

wherry_code wherry_subscription_set_topics(wherry_outbox *outbox, const char *topics,
					   wherry_error *err)
{
	setting s = {outbox, topics};
	wherry_code code = check_topics(topics, err);

	if (code != WHERRY_OK)
		return code;
	wh_error_clear(err);
	if (!outbox)
		return wh_fail(err, WHERRY_INVALID, "no outbox");
	if (!outbox->own.set_topics)
		return wh_store_cannot(&outbox->store, "which has no subscriptions", err);
	return wh_db_transact(outbox->store.db, set_topics, &s, err);
}

/* ---- dropping ---- */

static wherry_code drop(void *ctx, wherry_error *err)
{
	wherry_outbox *outbox = ctx;
	wherry_db *db = outbox->store.db;
	const wh_param name = wh_store_lease_name(&outbox->store);
	wherry_code code = lock_shares(outbox, err);

	if (code == WHERRY_OK)
		code = wh_db_run(db, outbox->own.unsubscribe_lease, &name, 1, NULL, NULL,
				 NULL, err);
	if (code == WHERRY_OK && outbox->own.unsubscribe_function)
		code = wh_db_run(db, outbox->own.unsubscribe_function, NULL, 0, NULL,
				 NULL, NULL, err);
	if (code == WHERRY_OK)
		code = wh_db_run(db, outbox->own.unsubscribe, NULL, 0, NULL, NULL, NULL,
				 err);
	if (code == WHERRY_OK)
		code = wh_db_run(db, outbox->own.unsubscribe_exceptions, NULL, 0, NULL,
				 NULL, NULL, err);
	return code == WHERRY_OK ? wh_db_run(db, outbox->own.unsubscribe_named, &name, 1,
					     NULL, NULL, NULL, err)
				 : code;
}

wherry_code wherry_subscription_drop(wherry_db *db, const char *table, const char *name,
				     wherry_error *err)
{
	wherry_outbox *outbox = NULL;
	wherry_code code = wherry_subscription_open(db, table, name, &outbox, err);

	if (code == WHERRY_OK)
		code = wh_db_transact(db, drop, outbox, err);
	wherry_outbox_close(outbox);
	return code;
}

/* ---- listing ---- */

typedef struct listing {
	wherry_subscription_visit visit;
	void *ctx;
} listing;

static wherry_code take_subscription(void *ctx, const wh_row *row, wherry_error *err)
{
	const listing *l = ctx;
	wherry_code code = wh_row_check(row, err);
	const wherry_subscription_state out = {
		.name = wh_row_text(row, 0),
		.topics = wh_row_text(row, 1),
		.position = wh_row_int(row, 2),
		.moved_us = wh_us(wh_row_int(row, 3)),
		.kept_us = wh_us(wh_row_int(row, 4)),
	};

	return code == WHERRY_OK ? l->visit(l->ctx, &out) : code;
}

wherry_code wherry_subscription_list(wherry_outbox *outbox,
				     wherry_subscription_visit visit, void *ctx,
				     wherry_error *err)
{
	listing l = {visit, ctx};

	wh_error_clear(err);
	if (!outbox || !visit)
		return wh_fail(err, WHERRY_INVALID, "no outbox, or no visit");
	if (!outbox->own.subscriptions)
		return WHERRY_OK;
	return wh_db_run(outbox->store.db, outbox->own.subscriptions, NULL, 0,
			 take_subscription, &l, NULL, err);
}
