/*
 * status and show on a queue.
 */
#include <inttypes.h>
#include <string.h>

#include "base/env.h"
#include "cli/item.h"
#include "cli/on_queue.h"
#include "cli/relays.h"
#include "queue/queue.h"

/* ---- status ---- */

typedef struct glance {
	const wh_session *session;
	wherry_queue_status st;
	int64_t due_us; /* until the first message can be received; -1: there is none */
	wh_relays relays;
	wh_warned warned;
} glance;

static void look(glance *g)
{
	const wherry_queue_status *st = &g->st;
	const char *target = g->session->target;
	char advice[WH_WARNING_MAX];

	(void)snprintf(advice, sizeof(advice),
		       "`wherry list%s --state dead` shows why; remove the cause, then "
		       "`wherry retry%s --all`",
		       target, target);
	wh_warn_of(&g->warned,
		   &(wh_facts){.what = "queue",
			       .target = target,
			       .state = "ready",
			       .nobody = "no worker or relay receives",
			       .dead_advice = advice,
			       .paused = st->paused,
			       .ready = st->ready,
			       .oldest_us = st->oldest_ready_us,
			       .leased = st->leased,
			       .open = st->ready + st->leased + st->waiting,
			       .dead = st->dead},
		   &g->relays);
}

static const char *well(const wherry_queue_status *st)
{
	if (st->ready)
		return "messages are ready to be received";
	if (st->leased)
		return "messages are being handled";
	return st->waiting ? "no message is ready" : "no message waits";
}

static void print_text(const glance *g)
{
	const wherry_queue_status *st = &g->st;
	wh_buf relays = WH_BUF_INIT(WH_OUTPUT_MOST);
	char span[WH_SPAN_LEN];

	wh_print_warned(&g->warned, well(st));
	(void)printf("table       %s in %s%s\n", g->session->table, g->session->url,
		     st->paused ? " (paused)" : "");
	if (strcmp(st->layout, "native") != 0)
		(void)printf("layout      %s\n", st->layout);
	(void)printf("ready       %" PRId64 "%s%s\n", st->ready,
		     st->ready ? ", the oldest for " : "",
		     st->ready ? wh_span_text(st->oldest_ready_us, span) : "");
	(void)printf("leased      %" PRId64 "\n", st->leased);
	(void)printf("waiting     %" PRId64, st->waiting);
	if (st->waiting && !st->ready && !st->leased && g->due_us >= 0)
		(void)printf(", the next is due in %s", wh_span_text(g->due_us, span));
	(void)printf("\ndead        %" PRId64 "\n", st->dead);
	if (st->expired)
		(void)printf("expired     %" PRId64 " of these, which receivers delete\n",
			     st->expired);
	wh_put_relays(&relays, &g->relays, "workers that receive");
	wh_print_buf(&relays, "");
	wh_buf_clear(&relays);
}

static void print_json(const glance *g)
{
	const wherry_queue_status *st = &g->st;
	wh_buf buf = WH_BUF_INIT(WH_OUTPUT_MOST);

	wh_buf_puts(&buf, "{\"table\":");
	wh_buf_json(&buf, g->session->table, strlen(g->session->table));
	wh_put_text_field(&buf, "kind", "queue");
	wh_put_text_field(&buf, "layout", st->layout);
	wh_buf_printf(&buf,
		      ",\"ready\":%" PRId64 ",\"leased\":%" PRId64 ",\"waiting\":%" PRId64
		      ",\"dead\":%" PRId64 ",\"expired\":%" PRId64
		      ",\"oldest_ready_us\":%" PRId64 ",\"paused\":%s",
		      st->ready, st->leased, st->waiting, st->dead, st->expired,
		      st->oldest_ready_us, st->paused ? "true" : "false");
	wh_put_relays_field(&buf, &g->relays);
	wh_buf_printf(&buf, ",\"schema_version\":%d,\"warnings\":", st->schema_version);
	wh_put_warned(&buf, &g->warned);
	wh_buf_putc(&buf, '}');
	wh_print_buf(&buf, "\n");
	wh_buf_clear(&buf);
}

wh_exit wh_on_queue_status(const wh_args *args, wh_session *s)
{
	glance g = {.session = s, .due_us = -1};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code =
		wherry_queue_get_status(g.session->queue, &g.st, sizeof(g.st), &err);

	if (code == WHERRY_OK)
		code = wherry_queue_next_due(g.session->queue, &g.due_us, &err);
	if (code == WHERRY_OK)
		code = wh_relays_read(&g.session->queue->store, &g.relays, &err);
	if (code == WHERRY_OK) {
		look(&g);
		if (wh_arg_on(args, "json"))
			print_json(&g);
		else
			print_text(&g);
	}
	wh_relays_clear(&g.relays);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

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
