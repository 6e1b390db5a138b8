/*
 * doctor on a delayed queue: what its functions find, beside the checks of the database.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "cli/on_delayed.h"

enum { DEAD_SHOWN = 5 };

static void check_backlog(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_delayed_status st;
	char span[WH_SPAN_LEN];

	if (wherry_delayed_get_status(d->session->delayed, &st, sizeof(st), &err) !=
	    WHERRY_OK)
		wh_doctor_could_not(d, "backlog", &err);
	else if (st.due && st.oldest_due_us >= d->older_us)
		wh_doctor_add(d, "backlog", WH_WARN,
			      wh_doctor_sentence("%" PRId64
						 " message%s due, the first for %s: no "
						 "consumer or relay polls, or they are "
						 "too slow",
						 st.due, st.due == 1 ? " is" : "s are",
						 wh_span_text(st.oldest_due_us, span)),
			      strdup("start a consumer, or a relay: " WH_HOW_TO_RELAY));
	else
		wh_doctor_add(d, "backlog", WH_WELL,
			      strdup("no message has been due for long"), strdup(""));
}

static wherry_code take_dead(void *ctx, const wherry_delayed_message *msg)
{
	wh_doctor *d = ctx;

	wh_doctor_add(d, "dead", WH_WARN,
		      wh_doctor_sentence(
			      "message %" PRId64 " of key '%.200s' is dead after "
			      "%" PRId32 " attempt%s: %.300s",
			      msg->id, msg->key, msg->attempts, wh_plural(msg->attempts),
			      msg->last_error ? msg->last_error : "no reason given"),
		      wh_doctor_sentence("remove the cause, then `wherry retry%s "
					 "%" PRId64 "`",
					 d->session->target, msg->id));
	return WHERRY_OK;
}

static void check_dead(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	size_t before = d->n;

	if (wherry_delayed_list_dead(d->session->delayed, 0, DEAD_SHOWN, take_dead, d,
				     &err) != WHERRY_OK)
		wh_doctor_could_not(d, "dead", &err);
	else if (d->n == before)
		wh_doctor_add(d, "dead", WH_WELL, strdup("no message is dead"),
			      strdup(""));
}

void wh_on_delayed_check(wh_doctor *d)
{
	wh_doctor_relays(d, "delayed queue");
	check_dead(d);
	check_backlog(d);
}

/* ---- the message of one key ---- */

typedef struct asked {
	wh_doctor *d;
	const char *key;
	int64_t now_us;
	bool found;
} asked;

void wh_put_delayed_why(wh_buf *text, const wherry_delayed_message *msg, int64_t now_us)
{
	int64_t left_us = wh_since(msg->available_at_us, now_us);
	char span[WH_SPAN_LEN];

	if (msg->state == WHERRY_DEAD)
		wh_buf_printf(text, "is dead after %" PRId32 " attempt%s", msg->attempts,
			      wh_plural(msg->attempts));
	else if (msg->state == WHERRY_PROCESSING)
		wh_buf_printf(text, "is leased for %s more, in attempt %" PRId32,
			      wh_span_text(left_us, span), msg->attempts);
	else if (left_us <= 0)
		wh_buf_printf(text, "has been due for %s", wh_span_text(-left_us, span));
	else
		wh_buf_printf(text, "is due in %s%s", wh_span_text(left_us, span),
			      msg->state == WHERRY_FAILED ? ", after it was given back"
							  : "");
	if (msg->last_error)
		wh_buf_printf(text, "; last error: %.500s", msg->last_error);
}

static wherry_code take_message(void *ctx, const wherry_delayed_message *msg)
{
	wh_buf text = WH_BUF_INIT(2 * WH_SENTENCE_MAX);
	asked *a = ctx;

	if (strcmp(msg->key, a->key) != 0)
		return WHERRY_OK;
	a->found = true;
	wh_buf_printf(&text, "message %" PRId64 " of key '%s' ", msg->id, msg->key);
	wh_put_delayed_why(&text, msg, a->now_us);
	wh_doctor_add(a->d, "message",
		      msg->state == WHERRY_DEAD ? WH_BAD
		      : msg->last_error         ? WH_WARN
						: WH_WELL,
		      wh_buf_take(&text), strdup(""));
	wh_buf_clear(&text);
	return WHERRY_OK;
}

wherry_code wh_on_delayed_message(wh_doctor *d, const char *key, wherry_error *err)
{
	wherry_delayed *queue = d->session->delayed;
	asked a = {.d = d, .key = key};
	wherry_code code = wh_doctor_now(d, &a.now_us, err);

	if (code == WHERRY_OK)
		code = wherry_delayed_read(queue, key, take_message, &a, NULL, err);
	if (code == WHERRY_OK && !a.found)
		code = wherry_delayed_list_dead(queue, 0, 0, take_message, &a, err);
	if (code != WHERRY_OK || a.found)
		return code;
	wh_doctor_add(d, "message", WH_BAD,
		      wh_doctor_sentence("delayed queue '%s' has no message of key "
					 "'%.200s'",
					 d->store->topic, key),
		      strdup("it was acknowledged, delivered or dropped; or it was never "
			     "offered here, or its transaction was rolled back or is not "
			     "over yet: did the producer commit, and to this database?"));
	return WHERRY_OK;
}
