/*
 * doctor on a queue: what the queue's own functions find, beside the checks of the database.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "cli/item.h"
#include "cli/on_queue.h"

enum { DEAD_SHOWN = 5, LEASES_READ = 1000 };

/* ---- the tables ---- */

static wherry_code take_finding(void *ctx, const char *what, const char *repair)
{
	wh_buf text = WH_BUF_INIT(256 * 1024);

	wh_put_repair(&text, repair);
	wh_doctor_add(ctx, "tables", WH_BAD, strdup(what),
		      wh_doctor_sentence("`%s`", wh_buf_str(&text)));
	wh_buf_clear(&text);
	return WHERRY_OK;
}

static void check_tables(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	size_t before = d->n;

	if (wherry_queue_inspect(d->session->queue, take_finding, d, &err) != WHERRY_OK)
		wh_doctor_could_not(d, "tables", &err);
	else if (d->n == before)
		wh_doctor_add(d, "tables", WH_WELL,
			      strdup("the tables, indexes and triggers of the queue are "
				     "there"),
			      strdup(""));
}

static wherry_code print_repair(void *ctx, const char *what, const char *repair)
{
	wh_buf text = WH_BUF_INIT(WH_OUTPUT_MOST);

	(void)ctx;
	wh_buf_printf(&text, "-- %s\n", what);
	wh_put_repair(&text, repair);
	wh_print_buf(&text, "\n");
	wh_buf_clear(&text);
	return ferror(stdout) ? WHERRY_INTERRUPTED : WHERRY_OK;
}

wh_exit wh_on_queue_repairs(const wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;

	return wherry_queue_inspect(s->queue, print_repair, NULL, &err) == WHERRY_OK
		       ? WH_EXIT_DONE
		       : wh_report(&err);
}

/* ---- the messages ---- */

static void check_backlog(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status st;
	char span[WH_SPAN_LEN];

	if (wherry_queue_get_status(d->session->queue, &st, sizeof(st), &err) !=
	    WHERRY_OK)
		wh_doctor_could_not(d, "backlog", &err);
	else if (st.ready && st.oldest_ready_us >= d->older_us)
		wh_doctor_add(d, "backlog", WH_WARN,
			      wh_doctor_sentence(
				      "%" PRId64 " message%s ready, the oldest for %s: "
				      "no worker or relay receives, or they are too slow",
				      st.ready, st.ready == 1 ? " is" : "s are",
				      wh_span_text(st.oldest_ready_us, span)),
			      strdup("start a worker, or a relay: " WH_HOW_TO_RELAY));
	else
		wh_doctor_add(d, "backlog", WH_WELL,
			      strdup("no message has been ready for long"), strdup(""));
}

static wherry_code take_dead(void *ctx, const wherry_queue_message *msg)
{
	wh_doctor *d = ctx;

	wh_doctor_add(
		d, "dead", WH_WARN,
		wh_doctor_sentence("message %" PRId64 " is dead after %" PRId32
				   " attempt%s: %.300s",
				   msg->id, msg->attempts, wh_plural(msg->attempts),
				   msg->last_error ? msg->last_error : "no reason given"),
		wh_doctor_sentence("remove the cause, then `wherry retry%s %" PRId64 "`",
				   d->session->target, msg->id));
	return WHERRY_OK;
}

static void check_dead(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	size_t before = d->n;

	if (wherry_queue_peek(d->session->queue,
			      &WHERRY_QUEUE_FILTER(.states = 1u << WHERRY_DEAD,
						   .limit = DEAD_SHOWN),
			      take_dead, d, &err) != WHERRY_OK)
		wh_doctor_could_not(d, "dead", &err);
	else if (d->n == before)
		wh_doctor_add(d, "dead", WH_WELL, strdup("no message is dead"),
			      strdup(""));
}

typedef struct leases {
	int64_t now_us, n, first, ended_us;
} leases;

static wherry_code take_lease(void *ctx, const wherry_queue_message *msg)
{
	leases *l = ctx;

	if (!wh_is_lease_over(msg, l->now_us))
		return WHERRY_OK;
	if (!l->n++ || msg->available_at_us < l->ended_us) {
		l->first = msg->id;
		l->ended_us = msg->available_at_us;
	}
	return WHERRY_OK;
}

static void check_leases(wh_doctor *d)
{
	wherry_error err = WHERRY_ERROR_INIT;
	leases l = {.n = 0};
	char span[WH_SPAN_LEN];
	wherry_code code = wh_doctor_now(d, &l.now_us, &err);

	if (code == WHERRY_OK)
		code = wherry_queue_peek(
			d->session->queue,
			&WHERRY_QUEUE_FILTER(.states = 1u << WHERRY_PROCESSING,
					     .limit = LEASES_READ),
			take_lease, &l, &err);
	if (code != WHERRY_OK)
		wh_doctor_could_not(d, "leases", &err);
	else if (l.n)
		wh_doctor_add(d, "leases", WH_WARN,
			      wh_doctor_sentence(
				      "the lease of %" PRId64
				      " message%s is over, of message %" PRId64
				      " for %s: the receiver is gone, or too slow",
				      l.n, wh_plural(l.n), l.first,
				      wh_span_text(wh_since(l.now_us, l.ended_us), span)),
			      strdup("the next receive takes them; if their receivers "
				     "still work on them, ask for longer leases"));
	else
		wh_doctor_add(d, "leases", WH_WELL, strdup("no lease is over"),
			      strdup(""));
}

void wh_on_queue_check(wh_doctor *d)
{
	check_tables(d);
	wh_doctor_relays(d, "queue");
	check_dead(d);
	check_leases(d);
	check_backlog(d);
}

/* ---- one message ---- */

typedef struct asked {
	wh_doctor *d;
	int64_t now_us;
} asked;

static wh_level level_of(const asked *a, const wherry_queue_message *msg)
{
	if (msg->state == WHERRY_DEAD)
		return WH_BAD;
	return msg->attempts && (msg->state == WHERRY_FAILED ||
				 wh_is_lease_over(msg, a->now_us))
		       ? WH_WARN
		       : WH_WELL;
}

static wherry_code take_message(void *ctx, const wherry_queue_message *msg)
{
	wh_buf text = WH_BUF_INIT(2 * WH_SENTENCE_MAX);
	asked *a = ctx;

	wh_buf_printf(&text, "message %" PRId64 " (%s) is %s: ", msg->id,
		      msg->message_id ? msg->message_id : "",
		      wh_queue_state_name(msg->state));
	wh_put_queue_why(&text, a->d->session, msg, a->now_us);
	wh_doctor_add(a->d, "message", level_of(a, msg), wh_buf_take(&text), strdup(""));
	wh_buf_clear(&text);
	return WHERRY_OK;
}

wherry_code wh_on_queue_message(wh_doctor *d, const char *ident, wherry_error *err)
{
	asked a = {.d = d};
	wherry_code code = wh_doctor_now(d, &a.now_us, err);

	if (code == WHERRY_OK)
		code = wherry_queue_show(d->session->queue, ident, take_message, &a, err);
	if (code != WHERRY_NOTFOUND)
		return code;
	wh_doctor_add(
		d, "message", WH_BAD,
		wh_doctor_sentence("there is no message '%.100s' in queue '%s'", ident,
				   d->session->table),
		strdup("it was received and deleted, or it expired; or it was "
		       "never sent here, or its transaction was rolled back or is "
		       "not over yet: did the sender commit, and to this database?"));
	return WHERRY_OK;
}
