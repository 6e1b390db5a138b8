/*
 * show on a queue.
 */
#include <inttypes.h>
#include <string.h>

#include "base/env.h"
#include "cli/item.h"
#include "cli/on_queue.h"

/* ---- why a message is where it is ---- */

bool wh_is_lease_over(const wherry_queue_message *msg, int64_t now_us)
{
	return msg->state == WHERRY_PROCESSING && msg->available_at_us <= now_us;
}

static void put_waiting(wh_buf *why, const wherry_queue_message *msg, int64_t now_us)
{
	int64_t left_us = wh_since(msg->available_at_us, now_us);
	char span[WH_SPAN_LEN];

	if (msg->attempts)
		wh_buf_printf(why, "attempt %" PRId32 " failed: %s; ", msg->attempts,
			      msg->last_error ? msg->last_error : "no reason given");
	if (left_us > 0)
		wh_buf_printf(why, "%s due in %s",
			      msg->attempts ? "the next is" : "it is delayed, and",
			      wh_span_text(left_us, span));
	else
		wh_buf_puts(why, "it is due: the next that receives takes it, a worker "
				 "or a relay");
}

static void put_leased(wh_buf *why, const wherry_queue_message *msg, int64_t now_us)
{
	int64_t left_us = wh_since(msg->available_at_us, now_us);
	char span[WH_SPAN_LEN];

	if (left_us > 0)
		wh_buf_printf(why,
			      "a receiver has leased it; if that one is gone, the lease "
			      "ends in %s, and the next takes it",
			      wh_span_text(left_us, span));
	else
		wh_buf_printf(why,
			      "its lease ended %s ago and nobody acknowledged it: the "
			      "next that receives takes it",
			      wh_span_text(-left_us, span));
}

void wh_put_queue_why(wh_buf *why, const wh_session *s, const wherry_queue_message *msg,
		      int64_t now_us)
{
	char span[WH_SPAN_LEN];

	if (msg->state == WHERRY_DEAD)
		wh_buf_printf(why,
			      "given up after %" PRId32
			      " attempt%s: %s; remove the cause, then "
			      "`wherry retry%s %" PRId64 "`",
			      msg->attempts, wh_plural(msg->attempts),
			      msg->last_error ? msg->last_error : "no reason given",
			      s->target, msg->id);
	else if (msg->state == WHERRY_PROCESSING)
		put_leased(why, msg, now_us);
	else if (msg->expires_at_us && msg->expires_at_us <= now_us)
		wh_buf_printf(why, "it expired %s ago: receivers delete it",
			      wh_span_text(wh_since(now_us, msg->expires_at_us), span));
	else if (msg->state == WHERRY_FAILED)
		put_waiting(why, msg, now_us);
	else
		wh_buf_puts(why, "it is ready: the next that receives takes it, a worker "
				 "or a relay; " WH_HOW_TO_RELAY);
}

/* ---- show ---- */

typedef struct shown {
	const wh_session *session;
	bool json;
	int64_t now_us;
} shown;

static wherry_code show(void *ctx, const wherry_queue_message *msg)
{
	wh_buf why = WH_BUF_INIT(4096);
	const shown *s = ctx;
	wh_item item = wh_item_of_queue(msg, s->session->table);

	wh_put_queue_why(&why, s->session, msg, s->now_us);
	item.why = wh_buf_str(&why);
	wh_show_item(&item, s->json, s->now_us);
	wh_buf_clear(&why);
	return WHERRY_OK;
}

wh_exit wh_on_queue_show(const wh_args *args, wh_session *session)
{
	shown s = {session, wh_arg_on(args, "json"), wh_now(&wh_env_system)};
	wherry_error err = WHERRY_ERROR_INIT;

	return wherry_queue_show(session->queue, wh_operand(args, 1), show, &s, &err) ==
			       WHERRY_OK
		       ? WH_EXIT_DONE
		       : wh_report(&err);
}
