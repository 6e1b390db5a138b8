/*
 * Messages by their keys: reading, listing and dropping them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/buf.h"
#include "base/text.h"
#include "delayed/delayed.h"

enum {
	LAST_CHARACTER = 4, /* Bytes of U+10FFFF. */
	END_MOST = LAST_CHARACTER * (WH_DELAYED_KEY_MOST + 1) + 1,
	MATCH_PARAMS = 6
};

static wherry_code check(const wherry_delayed *delayed, const char *key,
			 wherry_error *err)
{
	if (!delayed)
		return wh_fail(err, WHERRY_INVALID, "no delayed queue");
	/* The table may have keys that no offer of ours takes: longer ones, and the empty one. */
	return key ? WHERRY_OK : wh_fail(err, WHERRY_INVALID, "no key");
}

/* ---- one key ---- */

wherry_code wherry_delayed_read(wherry_delayed *delayed, const char *key,
				wherry_delayed_fn visit, void *ctx, bool *out_found,
				wherry_error *err)
{
	wh_error_clear(err);
	wh_delayed_batch batch = {.from = WH_DELAYED_READ};
	wherry_code code = check(delayed, key, err);

	if (code == WHERRY_OK && !visit)
		code = wh_fail(err, WHERRY_INVALID, "nobody who sees the message");
	if (code != WHERRY_OK)
		return code;
	const wh_param params[] = {
		wh_delayed_kind_param(delayed),
		wh_delayed_now_param(delayed),
		WH_TEXT_PARAM("key", wh_view_of(key)),
	};

	code = wh_db_run(delayed->store.db, delayed->own.read, params, 3, wh_delayed_take,
			 &batch, NULL, err);
	code = wh_delayed_failed(delayed, code, err);
	if (code == WHERRY_OK && out_found)
		*out_found = batch.n > 0;
	if (code == WHERRY_OK)
		code = wh_delayed_visit(&batch, visit, ctx, err);
	wh_delayed_batch_clear(&batch);
	return code;
}

wherry_code wherry_delayed_contains(wherry_delayed *delayed, const char *key,
				    bool *out_found, wherry_error *err)
{
	wh_error_clear(err);
	int64_t n = 0;
	wherry_code code = check(delayed, key, err);

	if (code == WHERRY_OK && !out_found)
		code = wh_fail(err, WHERRY_INVALID, "no place for the answer");
	if (code != WHERRY_OK)
		return code;
	const wh_param params[] = {
		wh_delayed_kind_param(delayed),
		WH_TEXT_PARAM("key", wh_view_of(key)),
	};

	code = wh_store_ask(&delayed->store, delayed->own.contains, params, 2, &n, err);
	if (code == WHERRY_OK)
		*out_found = n > 0;
	return code;
}

wherry_code wherry_delayed_drop_key(wherry_delayed *delayed, const char *key,
				    bool *out_found, wherry_error *err)
{
	wh_error_clear(err);
	int64_t n = 0;
	wherry_code code = check(delayed, key, err);

	if (code != WHERRY_OK)
		return code;
	const wh_param params[] = {
		wh_delayed_kind_param(delayed),
		WH_TEXT_PARAM("key", wh_view_of(key)),
	};

	code = wh_db_run(delayed->store.db, delayed->own.drop_key, params, 2, NULL, NULL,
			 &n, err);
	code = wh_delayed_failed(delayed, code, err);
	if (code == WHERRY_OK && out_found)
		*out_found = n > 0;
	return code;
}

/* ---- many keys ---- */

/* A filter as parameters of a statement. */
typedef struct matching {
	char prefix_end[END_MOST], except_end[END_MOST];
	wh_param params[MATCH_PARAMS];
} matching;

/* Write a text that is above all keys with this prefix, compared byte for byte.  It is
 * the prefix and more of the highest character than a key has room for. */
static void put_end(const char *prefix, char out[END_MOST])
{
	static const char last[] = "\xf4\x8f\xbf\xbf";
	size_t len = strlen(prefix);

	memcpy(out, prefix, len);
	for (; len + LAST_CHARACTER < END_MOST; len += LAST_CHARACTER)
		memcpy(out + len, last, LAST_CHARACTER);
	out[len] = 0;
}

static wherry_code read_filter(const wherry_delayed_filter *given,
			       wherry_delayed_filter *out, wherry_error *err)
{
	*out = (wherry_delayed_filter){.size = sizeof(*out)};
	return given ? wh_sized_read(out, sizeof(*out), given,
				     offsetof(wherry_delayed_filter, prefix), "filter",
				     "WHERRY_DELAYED_FILTER", err)
		     : WHERRY_OK;
}

/* The parameter "untouched".  0: all messages match.  Else only untouched messages match
 * that are due after this time, Unix milliseconds; -1: at any time. */
static int64_t untouched(const wherry_delayed_filter *filter)
{
	if (!filter->untouched)
		return 0;
	return filter->due_after_us >= 1000 ? filter->due_after_us / 1000 : -1;
}

static wherry_code match(const wherry_delayed *delayed,
			 const wherry_delayed_filter *filter, matching *out,
			 wherry_error *err)
{
	const char *prefix = filter->prefix ? filter->prefix : "";
	const char *except = filter->except ? filter->except : "";
	const wh_field fields[] = {
		{"prefix", prefix, 4 * WH_DELAYED_KEY_MOST},
		{"except", except, 4 * WH_DELAYED_KEY_MOST},
	};
	wherry_code code = wh_fields_check(fields, 2, err);

	if (code == WHERRY_OK && filter->limit < 0)
		code = wh_fail(err, WHERRY_INVALID, "a limit is not negative");
	if (code == WHERRY_OK &&
	    (filter->due_after_us < 0 || (filter->due_after_us && !filter->untouched)))
		code = wh_fail(err, WHERRY_INVALID,
			       "due_after_us is a time, and only for messages that are "
			       "untouched");
	if (code != WHERRY_OK)
		return code;
	put_end(prefix, out->prefix_end);
	if (*except)
		put_end(except, out->except_end);
	else
		*out->except_end = 0; /* The range from "" to "" contains no key. */
	out->params[0] = wh_delayed_kind_param(delayed);
	out->params[1] = WH_TEXT_PARAM("prefix", wh_view_of(prefix));
	out->params[2] = WH_TEXT_PARAM("prefix_end", wh_view_of(out->prefix_end));
	out->params[3] = WH_TEXT_PARAM("except", wh_view_of(except));
	out->params[4] = WH_TEXT_PARAM("except_end", wh_view_of(out->except_end));
	out->params[5] = WH_INT_PARAM("untouched", untouched(filter));
	return WHERRY_OK;
}

/* The first key behind `after`, or the empty key, which is the first of all: no key has a character
 * below U+0001. */
static wherry_code put_from(const char *after, wh_buf *out, wherry_error *err)
{
	if (after) {
		wh_buf_puts(out, after);
		wh_buf_putc(out, 1);
	}
	return wh_buf_check(out, err);
}

wherry_code wherry_delayed_list(wherry_delayed *delayed,
				const wherry_delayed_filter *filter,
				wherry_delayed_fn visit, void *ctx, wherry_error *err)
{
	wh_error_clear(err);
	wherry_delayed_filter own;
	wh_delayed_batch batch = {.from = WH_DELAYED_READ};
	wh_buf from = WH_BUF_INIT(INT32_MAX);
	wh_param params[MATCH_PARAMS + 3];
	matching m;
	wherry_code code;

	if (!delayed || !visit)
		return wh_fail(err, WHERRY_INVALID,
			       "no delayed queue to list, or nobody who sees messages");
	code = read_filter(filter, &own, err);
	if (code == WHERRY_OK)
		code = match(delayed, &own, &m, err);
	if (code == WHERRY_OK)
		code = put_from(own.after, &from, err);
	if (code != WHERRY_OK) {
		wh_buf_clear(&from);
		return code;
	}
	memcpy(params, m.params, sizeof(m.params));
	params[MATCH_PARAMS] = wh_delayed_now_param(delayed);
	params[MATCH_PARAMS + 1] = WH_TEXT_PARAM("from", wh_view_of(wh_buf_str(&from)));
	params[MATCH_PARAMS + 2] =
		WH_INT_PARAM("limit", own.limit ? own.limit : INT64_MAX);
	code = wh_db_run(delayed->store.db, delayed->own.list, params, MATCH_PARAMS + 3,
			 wh_delayed_take, &batch, NULL, err);
	code = wh_delayed_failed(delayed, code, err);
	if (code == WHERRY_OK)
		code = wh_delayed_visit(&batch, visit, ctx, err);
	wh_delayed_batch_clear(&batch);
	wh_buf_clear(&from);
	return code;
}

/* Passes on the keys of messages that were dropped, and counts them. */
typedef struct dropping {
	wh_row_fn visit; /* May be NULL. */
	void *ctx;
	int64_t n;
} dropping;

static wherry_code take_key(void *ctx, const wh_row *row, wherry_error *err)
{
	dropping *d = ctx;

	d->n++;
	return d->visit ? d->visit(d->ctx, row, err) : WHERRY_OK;
}

wherry_code wh_delayed_drop_many(wherry_delayed *delayed,
				 const wherry_delayed_filter *filter, wh_row_fn visit,
				 void *ctx, int64_t *out_n, wherry_error *err)
{
	dropping d = {.visit = visit, .ctx = ctx};
	wherry_delayed_filter own;
	matching m;
	wherry_code code = read_filter(filter, &own, err);

	if (code != WHERRY_OK)
		return code;
	if (!delayed || !own.prefix || !*own.prefix)
		return wh_fail(err, WHERRY_INVALID,
			       "no delayed queue, or no prefix of the keys to drop: "
			       "wherry_delayed_drop_all() drops all messages");
	code = match(delayed, &own, &m, err);
	if (code == WHERRY_OK)
		code = wh_db_run(delayed->store.db, delayed->own.drop_keys, m.params,
				 MATCH_PARAMS, take_key, &d, NULL, err);
	code = wh_delayed_failed(delayed, code, err);
	if (code == WHERRY_OK && out_n)
		*out_n = d.n;
	return code;
}

wherry_code wherry_delayed_drop_many(wherry_delayed *delayed,
				     const wherry_delayed_filter *filter, int64_t *out_n,
				     wherry_error *err)
{
	wh_error_clear(err);
	return wh_delayed_drop_many(delayed, filter, NULL, NULL, out_n, err);
}

wherry_code wherry_delayed_drop_all(wherry_delayed *delayed, const char *confirm,
				    int64_t *out_n, wherry_error *err)
{
	wh_error_clear(err);
	if (!delayed)
		return wh_fail(err, WHERRY_INVALID, "no delayed queue");
	if (!confirm || strcmp(confirm, WHERRY_DELAYED_DROP_ALL) != 0)
		return wh_fail(
			err, WHERRY_INVALID,
			"dropping all messages of a delayed queue needs the text \"%s\"",
			WHERRY_DELAYED_DROP_ALL);
	const wh_param kind = wh_delayed_kind_param(delayed);
	int64_t n = 0;
	wherry_code code = wh_db_run(delayed->store.db, delayed->own.drop_all, &kind, 1,
				     NULL, NULL, &n, err);

	code = wh_delayed_failed(delayed, code, err);
	if (code == WHERRY_OK && out_n)
		*out_n = n;
	return code;
}
