/*
 * list, show, retry, discard and drop on a delayed queue.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/text.h"
#include "base/url.h"
#include "cli/again.h"
#include "cli/item.h"
#include "cli/on_delayed.h"
#include "delayed/delayed.h"

enum { PAGE = 100 };

/* ---- list ---- */

typedef struct listing {
	wh_listing to;
	wh_item_filter filter;
	char *last_key; /* Of the last message read. */
	int64_t last_id;
	int64_t read; /* Messages read of this page. */
	bool failed;  /* Out of memory. */
} listing;

static void keep(listing *l, const char *key)
{
	free(l->last_key);
	l->last_key = strdup(key);
	l->failed |= !l->last_key;
}

/* Show a message if it is wanted. */
static wherry_code visit(void *ctx, const wherry_delayed_message *msg)
{
	listing *l = ctx;
	const wh_item item = wh_item_of_delayed(msg, l->to.now_us);

	l->read++;
	l->last_id = msg->id;
	keep(l, msg->key);
	if (l->failed)
		return WHERRY_NOMEM;
	if (l->to.more || !wh_item_is_wanted(&item, &l->filter, l->to.now_us))
		return WHERRY_OK;
	return wh_listing_add(&l->to, &item);
}

/* after: only messages whose ids are above this one. */
static wherry_code list_dead(listing *l, wherry_delayed *delayed, int64_t after,
			     wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	l->last_id = after;
	l->read = PAGE;
	while (code == WHERRY_OK && l->read == PAGE && !l->to.more) {
		l->read = 0;
		code = wherry_delayed_list_dead(delayed, l->last_id, PAGE, visit, l, err);
	}
	return code;
}

/* List messages that are not dead in the order of their keys.  prefix: with which their keys
 * begin; NULL: all. */
static wherry_code list_keys(listing *l, wherry_delayed *delayed, const char *prefix,
			     const char *after, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (after)
		keep(l, after);
	l->read = PAGE;
	while (code == WHERRY_OK && !l->failed && l->read == PAGE && !l->to.more) {
		char *from = l->last_key;

		l->read = 0;
		l->last_key = NULL;
		code = wherry_delayed_list(delayed,
					   &WHERRY_DELAYED_FILTER(.prefix = prefix,
								  .after = from,
								  .limit = PAGE),
					   visit, l, err);
		free(from);
	}
	return code;
}

/* The beginning of keys that the filter asks for; NULL: any.  free() it. */
static char *prefix_of(const char *key)
{
	size_t len = key ? strlen(key) : 0;

	if (!len)
		return NULL;
	return strndup(key, key[len - 1] == '*' ? len - 1 : len);
}

static wh_exit list(const wh_args *args, wh_session *s, listing *l, int64_t after_id)
{
	const unsigned dead = 1u << WHERRY_DEAD;
	const char *after = wh_arg(args, "after");
	unsigned states = l->filter.states;
	char *prefix = prefix_of(l->filter.key);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;

	if (states == dead || (!after && (!states || states & dead)))
		code = list_dead(l, s->delayed, after_id, &err);
	free(l->last_key);
	l->last_key = NULL;
	if (code == WHERRY_OK && states != dead && !l->to.more)
		code = list_keys(l, s->delayed, prefix, after, &err);
	free(prefix);
	wh_listing_end(&l->to);
	if (code != WHERRY_OK && !ferror(stdout))
		return wh_report(&err);
	if (!l->to.n && !l->to.json)
		(void)fprintf(stderr, "no messages\n");
	if (l->to.more)
		wh_say_more(args, "limit", 10 * l->to.limit);
	return WH_EXIT_DONE;
}

wh_exit wh_on_delayed_list(const wh_args *args, wh_session *s)
{
	listing l = {.last_key = NULL};
	wh_exit status = WH_EXIT_USAGE;
	const char *state = wh_arg(args, "state");
	int64_t after_id = 0;

	if (state && strcmp(state, "dead") == 0 &&
	    !wh_arg_count(args, "after", 0, INT64_MAX, &after_id))
		return WH_EXIT_USAGE;
	if (wh_arg(args, "after") && (!state || (strstr(state, "dead") && !after_id)))
		return wh_usage(
			args->command,
			"--after is a key with --state ready,leased,waiting, and an "
			"ID with --state dead: a page has the one or the other");
	if (wh_listing_begin(&l.to, WH_OF_DELAYED, args) &&
	    wh_item_filter_read(&l.filter, args))
		status = list(args, s, &l, after_id);
	free(l.last_key);
	return status;
}

/* ---- show ---- */

typedef struct shown {
	const char *key;
	bool json, found;
	int64_t now_us;
} shown;

static wherry_code show(void *ctx, const wherry_delayed_message *msg)
{
	shown *s = ctx;
	wh_item item = wh_item_of_delayed(msg, s->now_us);
	wh_buf why = WH_BUF_INIT(4096);

	if (strcmp(msg->key, s->key) != 0)
		return WHERRY_OK;
	s->found = true;
	wh_buf_puts(&why, "it ");
	wh_put_delayed_why(&why, msg, s->now_us);
	item.why = wh_buf_str(&why);
	item.token = NULL; /* It is for those who polled. */
	wh_show_item(&item, s->json, s->now_us);
	wh_buf_clear(&why);
	return WHERRY_OK;
}

/* The message of the key; if it has none, its dead messages. */
wh_exit wh_on_delayed_show(const wh_args *args, wh_session *s)
{
	shown how = {.key = wh_operand(args, 1),
		     .json = wh_arg_on(args, "json"),
		     .now_us = wh_now(&wh_env_system)};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code =
		wherry_delayed_read(s->delayed, how.key, show, &how, NULL, &err);

	if (code == WHERRY_OK && !how.found)
		code = wherry_delayed_list_dead(s->delayed, 0, 0, show, &how, &err);
	if (code != WHERRY_OK)
		return wh_call_failed(args, code, &err);
	if (how.found)
		return WH_EXIT_DONE;
	return wh_complain(NULL, "delayed queue '%s' has no message of key '%s'",
			   args->table.queue, how.key);
}

/* ---- retry ---- */

static bool read_id(const wh_args *args, const char *text, int64_t *out)
{
	if (wh_parse_int(text, out) && *out > 0)
		return true;
	(void)wh_usage(args->command,
		       "'%s' is not an id: dead messages have ids, which `wherry list%s "
		       "--state dead` shows",
		       text, args->target);
	return false;
}

wh_exit wh_on_delayed_retry(const wh_args *args, wh_session *s)
{
	const char *state = wh_arg(args, "state");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outbox_filter filter;
	int64_t id = 0, n = 0;
	wherry_code code;

	if (!wh_again_filter(args, &filter) ||
	    (filter.ident && !read_id(args, filter.ident, &id)))
		return WH_EXIT_USAGE;
	if (state && strcmp(state, "dead") != 0)
		return wh_usage(args->command,
				"--state %s: in a delayed queue only dead messages are "
				"retried",
				state);
	code = wherry_delayed_retry(s->delayed, id, &n, &err);
	if (code == WHERRY_DUPLICATE || code == WHERRY_UNSUPPORTED)
		return wh_complain(NULL,
				   "%s: `wherry discard%s %" PRId64
				   " --state dead` discards the dead one",
				   err.message, args->target, id);
	if (code != WHERRY_OK)
		return wh_report(&err);
	if (n)
		wh_audit(args, wh_url_table(wh_operand(args, 0)), n);
	wh_print_retried(args, n, "ready");
	return WH_EXIT_DONE;
}

/* ---- discard ---- */

/* Discard the messages that are named: dead ones by their ids, others by their keys.  One
 * that is missing is reported, and the others go. */
static wh_exit discard_named(const wh_args *args, wh_session *s, bool dead,
			     int64_t *out_n)
{
	wh_exit status = WH_EXIT_DONE;

	for (size_t i = 1; i < args->n_operands; i++) {
		const char *name = wh_operand(args, i);
		wherry_error err = WHERRY_ERROR_INIT;
		int64_t id = 0, n = 0;
		bool found = false;
		wherry_code code;

		(void)wh_parse_int(name, &id); /* read_id() checked it. */
		code = dead ? wherry_delayed_purge_dead(s->delayed, id, &n, &err)
			    : wherry_delayed_drop_key(s->delayed, name, &found, &err);
		if (code == WHERRY_OK && !dead && !found)
			code = wh_fail(&err, WHERRY_NOTFOUND,
				       "delayed queue '%s' has no message of key '%s'",
				       args->table.queue, name);
		*out_n += dead ? n : found;
		if (code != WHERRY_OK)
			status = wh_call_failed(args, code, &err);
	}
	return status;
}

/* Discard all messages, dead ones too. */
static wherry_code discard_all(wh_session *s, int64_t *out_n, wherry_error *err)
{
	int64_t dead = 0;
	wherry_code code =
		wherry_delayed_drop_all(s->delayed, WHERRY_DELAYED_DROP_ALL, out_n, err);

	if (code == WHERRY_OK)
		code = wherry_delayed_purge_dead(s->delayed, 0, &dead, err);
	*out_n += dead;
	return code;
}

/* named: how many messages are named; 0: all that are dead, or all. */
static bool confirm_discard(const wh_args *args, wh_session *s, size_t named, bool dead,
			    wh_exit *status)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_status st;
	int64_t n = (int64_t)named;

	if (!named) {
		if (wherry_delayed_get_status(s->delayed, &st, sizeof(st), &err) !=
		    WHERRY_OK) {
			*status = wh_report(&err);
			return false;
		}
		n = dead ? st.dead : st.due + st.leased + st.waiting + st.dead;
	}
	return wh_confirm(args, s->db, status,
			  "delete %" PRId64 " %smessage%s of delayed queue '%s'%s", n,
			  dead ? "dead " : "", wh_plural(n), args->table.queue,
			  named || dead ? "" : ", also those that are leased");
}

wh_exit wh_on_delayed_discard(const wh_args *args, wh_session *s)
{
	const char *state = wh_arg(args, "state");
	size_t named = args->n_operands - 1;
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = WHERRY_OK;
	wh_exit status;
	int64_t id, n = 0;

	if (state && strcmp(state, "dead") != 0)
		return wh_usage(args->command,
				"--state %s: of a delayed queue, name keys, or choose "
				"dead messages or --all",
				state);
	for (size_t i = 1; state && i < args->n_operands; i++)
		if (!read_id(args, wh_operand(args, i), &id))
			return WH_EXIT_USAGE;
	if (!confirm_discard(args, s, named, state != NULL, &status))
		return status;
	if (named)
		status = discard_named(args, s, state != NULL, &n);
	else
		code = state ? wherry_delayed_purge_dead(s->delayed, 0, &n, &err)
			     : discard_all(s, &n, &err);
	if (n)
		wh_audit(args, wh_url_table(wh_operand(args, 0)), n);
	if (code != WHERRY_OK)
		return wh_call_failed(args, code, &err);
	wh_print_discarded(args, n);
	return status;
}

/* ---- drop ---- */

wh_exit wh_on_delayed_drop(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_delayed_counts counts;
	wh_exit status;
	int64_t n = 0;

	if (wh_delayed_count_table(s->delayed, &counts, &err) != WHERRY_OK)
		return wh_report(&err);
	n = counts.messages + counts.dead;
	if (!wh_confirm(args, s->db, &status,
			"delete the table '%s' of delayed queues with %" PRId64
			" message%s",
			s->table, n, wh_plural(n)))
		return status;
	if (wherry_delayed_drop(s->delayed, &err) != WHERRY_OK)
		return wh_report(&err);
	wh_audit(args, s->table, n);
	wh_print_deleted(args, (const wh_count[]){{"messages", n}, {NULL, 0}},
			 "the table '%s' of delayed queues is gone, with %" PRId64
			 " message%s",
			 s->table, n, wh_plural(n));
	return WH_EXIT_DONE;
}
