/*
 * Offering messages.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "delayed/delayed.h"

enum {
	OFFER_PARAMS = 6,
	CHUNK_MAX = 64 * 1024 * 1024, /* Bytes of the bodies in one statement. */
	BODIES_MAX = CHUNK_MAX + WH_BODY_MAX,
	JSON_MAX = 256 * 1024 * 1024
};

static wh_view body_of(const wherry_delayed_message *msg)
{
	if (!msg->body)
		return (wh_view){"", 0};
	return (wh_view){msg->body, msg->body_len == WHERRY_TEXT ? strlen(msg->body)
								 : msg->body_len};
}

static wherry_code check(const wherry_delayed_message *msg, wherry_error *err)
{
	wherry_code code;

	if (msg->size != sizeof(*msg))
		return wh_fail(
			err, WHERRY_INVALID,
			"the message has size %zu, this library's have %zu: use "
			"WHERRY_DELAYED_MESSAGE or wherry_delayed_message_init, and "
			"recompile the program with its headers",
			msg->size, sizeof(*msg));
	if (!msg->body && msg->body_len)
		return wh_fail(err, WHERRY_INVALID,
			       "the message has a length, but no body");
	if (msg->at_us < 0 || msg->at_us >= WH_DELAYED_TIME_MOST_US)
		return wh_fail(err, WHERRY_INVALID,
			       "at_us is %" PRId64 ": a time is in microseconds since "
			       "1970, and before the year 10000",
			       msg->at_us);
	if (msg->delay_us < 0 || (msg->at_us && msg->delay_us))
		return wh_fail(err, WHERRY_INVALID,
			       "delay_us is %" PRId64 ": it is not negative, and 0 where "
			       "at_us is given",
			       msg->delay_us);
	code = wh_span_check("the delay", msg->delay_us, err);
	if (code != WHERRY_OK)
		return code;
	if (body_of(msg).len > WH_BODY_MAX)
		return wh_fail(err, WHERRY_TOOBIG,
			       "the body is %zu bytes, the limit is %d", body_of(msg).len,
			       WH_BODY_MAX);
	return wh_delayed_check_key(msg->key, err);
}

/* A call that offers one or more messages. */
typedef struct offering {
	wherry_delayed *delayed;
	const wherry_delayed_message *msgs;
	size_t n;
	wherry_offer_outcome *outcomes; /* One for each message. */
	size_t *order;                  /* Indexes of the messages, sorted by key. */
	/* The part of `order` that the current statement offers. */
	size_t first, end;
} offering;

/* The statement returns a row if it created (0) or replaced (1) the message. */
static wherry_code take_outcome(void *ctx, const wh_row *row, wherry_error *err)
{
	wherry_offer_outcome *out = ctx;

	(void)err;
	*out = wh_row_int(row, 0) ? WHERRY_UPDATED : WHERRY_CREATED;
	return WHERRY_OK;
}

static wherry_code offer_one(offering *o, size_t i, wherry_error *err)
{
	const wherry_delayed_message *msg = &o->msgs[i];
	wh_view body = body_of(msg);
	const wh_param params[OFFER_PARAMS] = {
		wh_delayed_kind_param(o->delayed),
		wh_delayed_now_param(o->delayed),
		WH_TEXT_PARAM("key", wh_view_of(msg->key)),
		o->delayed->store.layout.text ? WH_TEXT_PARAM("body", body)
					      : WH_BLOB_PARAM("body", body),
		msg->at_us ? WH_INT_PARAM("at", msg->at_us / 1000)
			   : (wh_param){.name = "at", .type = WH_NULL},
		WH_INT_PARAM("delay", wh_delayed_delay_ms(o->delayed, msg->delay_us)),
	};

	if (o->delayed->store.layout.text && !wh_utf8_valid(body.ptr, body.len))
		return wh_fail(err, WHERRY_INVALID,
			       "the body is not UTF-8: the table '%s' keeps texts",
			       o->delayed->store.name.ptr);
	o->outcomes[i] = WHERRY_IGNORED;
	return wh_db_run(o->delayed->store.db,
			 msg->if_absent ? o->delayed->own.offer_absent
					: o->delayed->own.offer,
			 params, OFFER_PARAMS, take_outcome, &o->outcomes[i], NULL, err);
}

/* ---- many messages in one statement ---- */

static int compare_places(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return x < y ? -1 : x > y;
}

static int compare_keys(const void *a, const void *b, void *ctx)
{
	const wherry_delayed_message *msgs = ((const offering *)ctx)->msgs;
	int order = strcmp(msgs[*(const size_t *)a].key, msgs[*(const size_t *)b].key);

	return order ? order : compare_places(a, b);
}

/* Append a message to the JSON array, and its body to the bodies.  "first" is the place
 * of its first byte there, from 1. */
static void put_message(const wherry_delayed *delayed, wh_buf *to, wh_buf *bodies,
			const wherry_delayed_message *msg)
{
	wh_view body = body_of(msg);

	wh_buf_puts(to, to->len > 1 ? ",{\"key\":" : "{\"key\":");
	wh_buf_json(to, msg->key, strlen(msg->key));
	wh_buf_printf(to, ",\"first\":%zu,\"bytes\":%zu", bodies->len + 1, body.len);
	if (msg->at_us)
		wh_buf_printf(to, ",\"at\":%" PRId64 "}", msg->at_us / 1000);
	else
		wh_buf_printf(to, ",\"delay\":%" PRId64 "}",
			      wh_delayed_delay_ms(delayed, msg->delay_us));
	wh_buf_put(bodies, body.ptr, body.len);
}

/* Set the outcome of the message with the key that the row contains.  The statement's
 * messages are sorted by key. */
static wherry_code take_outcome_of(void *ctx, const wh_row *row, wherry_error *err)
{
	const char *key = wh_row_text(row, 0);
	offering *o = ctx;
	size_t low = o->first, high = o->end;

	while (key && low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(o->msgs[o->order[middle]].key, key) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (!key || low == o->end || strcmp(o->msgs[o->order[low]].key, key) != 0)
		return wh_fail(err, WHERRY_CORRUPT,
			       "the table returned a key that was not offered");
	o->outcomes[o->order[low]] = wh_row_int(row, 1) ? WHERRY_UPDATED : WHERRY_CREATED;
	return WHERRY_OK;
}

/* The end of the statement that begins at `first`.  It ends before a key that occurs
 * again, before a message with another if_absent, and before CHUNK_MAX would be
 * exceeded. */
static size_t end_of_statement(const offering *o, size_t first)
{
	const wherry_delayed_message *begin = &o->msgs[o->order[first]];
	size_t end = first + 1, bytes = body_of(begin).len;

	for (; end < o->n; end++) {
		const wherry_delayed_message *next = &o->msgs[o->order[end]];

		bytes += body_of(next).len;
		if (next->if_absent != begin->if_absent || bytes > CHUNK_MAX ||
		    strcmp(next->key, o->msgs[o->order[end - 1]].key) == 0)
			break;
	}
	return end;
}

static wherry_code offer_statement(offering *o, wherry_error *err)
{
	const wh_delayed_stmts *own = &o->delayed->own;
	bool absent = o->msgs[o->order[o->first]].if_absent;
	size_t n = o->end - o->first, *places = malloc(n * sizeof(*places));
	wh_buf text = WH_BUF_INIT(JSON_MAX), bodies = WH_BUF_INIT(BODIES_MAX);
	wherry_code code = places ? WHERRY_OK : wh_oom(err);

	if (code == WHERRY_OK) {
		memcpy(places, &o->order[o->first], n * sizeof(*places));
		qsort(places, n, sizeof(*places), compare_places);
		wh_buf_putc(&text, '[');
		for (size_t i = 0; i < n; i++) {
			o->outcomes[places[i]] = WHERRY_IGNORED;
			put_message(o->delayed, &text, &bodies, &o->msgs[places[i]]);
		}
		wh_buf_putc(&text, ']');
		code = wh_buf_check(&text, err);
	}
	if (code == WHERRY_OK)
		code = wh_buf_check(&bodies, err);
	if (code == WHERRY_OK) {
		const wh_param params[] = {
			wh_delayed_kind_param(o->delayed),
			wh_delayed_now_param(o->delayed),
			WH_TEXT_PARAM("messages", ((wh_view){text.ptr, text.len})),
			WH_BLOB_PARAM("bodies",
				      ((wh_view){wh_buf_str(&bodies), bodies.len})),
		};

		code = wh_db_run(o->delayed->store.db,
				 absent ? own->offer_many_absent : own->offer_many,
				 params, 4, take_outcome_of, o, NULL, err);
	}
	wh_buf_clear(&text);
	wh_buf_clear(&bodies);
	free(places);
	return code;
}

static wherry_code offer_sorted(offering *o, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (size_t i = 0; i < o->n; i++)
		o->order[i] = i;
	qsort_r(o->order, o->n, sizeof(*o->order), compare_keys, o);
	for (o->first = 0; code == WHERRY_OK && o->first < o->n; o->first = o->end) {
		o->end = end_of_statement(o, o->first);
		code = offer_statement(o, err);
	}
	return code;
}

/* ---- the calls ---- */

static wherry_code offer_all(void *ctx, wherry_error *err)
{
	offering *o = ctx;
	wherry_code code = WHERRY_OK;

	if (o->n > 1 && o->delayed->own.offer_many)
		return offer_sorted(o, err);
	for (size_t i = 0; code == WHERRY_OK && i < o->n; i++)
		code = offer_one(o, i, err);
	return code;
}

/* A single statement needs no transaction around it.  Inside the caller's transaction it
 * gets a savepoint if its failure would abort that transaction. */
static wherry_code run(offering *o, wherry_error *err)
{
	wherry_db *db = o->delayed->store.db;
	bool spreads = db->driver->failure_spreads && wherry_db_in_transaction(db);
	wherry_code code = o->n == 1 && !spreads ? wh_db_again(db, offer_all, o, err)
						 : wh_db_transact(db, offer_all, o, err);

	for (size_t i = 0; i < o->n; i++)
		if (o->msgs[i].at_us)
			wh_delayed_came_back(o->delayed, o->msgs[i].at_us / 1000);
	return wh_delayed_failed(o->delayed, code, err);
}

wherry_code wherry_delayed_offer(wherry_delayed *delayed,
				 const wherry_delayed_message *msg,
				 wherry_offer_outcome *out_outcome, wherry_error *err)
{
	wh_error_clear(err);
	wherry_offer_outcome outcome = WHERRY_IGNORED;
	offering o = {.delayed = delayed, .msgs = msg, .n = 1, .outcomes = &outcome};
	wherry_code code;

	if (!delayed || !msg)
		return wh_fail(err, WHERRY_INVALID,
			       "no delayed queue, or no message to offer");
	code = check(msg, err);
	if (code == WHERRY_OK)
		code = run(&o, err);
	if (code == WHERRY_OK && out_outcome)
		*out_outcome = outcome;
	return code;
}

wherry_code wherry_delayed_offer_many(wherry_delayed *delayed,
				      const wherry_delayed_message *msgs, size_t n,
				      wherry_offer_outcome *out_outcomes,
				      wherry_error *err)
{
	wh_error_clear(err);
	offering o = {.delayed = delayed, .msgs = msgs, .n = n};
	wherry_code code = WHERRY_OK;

	if (!delayed || (!msgs && n))
		return wh_fail(err, WHERRY_INVALID,
			       "no delayed queue, or no messages to offer");
	for (size_t i = 0; code == WHERRY_OK && i < n; i++) {
		code = check(&msgs[i], err);
		if (code != WHERRY_OK)
			return wh_prefix(err, code, "message %zu", i);
	}
	if (!n)
		return WHERRY_OK;
	o.outcomes = calloc(n, sizeof(*o.outcomes));
	o.order = calloc(n, sizeof(*o.order));
	code = o.outcomes && o.order ? run(&o, err) : wh_oom(err);
	if (code == WHERRY_OK && out_outcomes)
		memcpy(out_outcomes, o.outcomes, n * sizeof(*out_outcomes));
	free(o.outcomes);
	free(o.order);
	return code;
}
