/*
 * retry, discard and drop on a queue.
 */
#include "cli/on_queue.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/again.h"
#include "cli/item.h"

enum { PAGE = 100, BATCH = 1000 };

static const char *topic_of(const wh_session *s, const wherry_queue_message *msg)
{
	return msg->topic ? msg->topic : s->table;
}

/* ---- retry ---- */

typedef struct chosen {
	const wh_session *session;
	const char *topic; /* Choose messages of this topic; NULL: any. */
	int64_t ids[PAGE], last;
	size_t n, seen;
	wherry_state state; /* State of the last message seen. */
} chosen;

static wherry_code choose(void *ctx, const wherry_queue_message *msg)
{
	chosen *c = ctx;

	c->last = msg->id;
	c->state = msg->state;
	c->seen++;
	if (!c->topic || strcmp(topic_of(c->session, msg), c->topic) == 0)
		c->ids[c->n++] = msg->id;
	return WHERRY_OK;
}

static wherry_code retry_each(const chosen *c, int64_t *inout_n, wherry_error *err)
{
	for (size_t i = 0; i < c->n; i++) {
		int64_t n = 0;
		wherry_code code =
			wherry_queue_retry(c->session->queue, c->ids[i], &n, err);

		if (code != WHERRY_OK && code != WHERRY_NOTFOUND)
			return code;
		*inout_n += n;
	}
	return WHERRY_OK;
}

static wherry_code retry_topic(const wh_session *s, const char *topic, int64_t *out_n,
			       wherry_error *err)
{
	chosen c = {.session = s, .topic = topic, .seen = PAGE};
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK && c.seen == PAGE) {
		c.n = c.seen = 0;
		code = wherry_queue_peek(s->queue,
					 &WHERRY_QUEUE_FILTER(.states = 1u << WHERRY_DEAD,
							      .after_id = c.last,
							      .limit = PAGE),
					 choose, &c, err);
		if (code == WHERRY_OK)
			code = retry_each(&c, out_n, err);
	}
	return code;
}

/* Retry one message of the queue.  If it is not dead, *out_n stays 0, and out->state is
 * its state. */
static wherry_code retry_one(const wh_session *s, const char *ident, chosen *out,
			     int64_t *out_n, wherry_error *err)
{
	wherry_code code;

	*out = (chosen){.session = s};
	code = wherry_queue_show(s->queue, ident, choose, out, err);
	return code == WHERRY_OK && out->state == WHERRY_DEAD
		       ? retry_each(out, out_n, err)
		       : code;
}

static wh_exit retry(const wh_args *args, const wh_session *s,
		     const wherry_outbox_filter *filter)
{
	wherry_error err = WHERRY_ERROR_INIT;
	chosen one = {.n = 0};
	int64_t n = 0;
	wherry_code code;

	if (filter->ident)
		code = retry_one(s, filter->ident, &one, &n, &err);
	else if (filter->topic)
		code = retry_topic(s, filter->topic, &n, &err);
	else
		code = wherry_queue_retry(s->queue, 0, &n, &err);
	if (n)
		wh_audit(args, s->table, n);
	if (code != WHERRY_OK)
		return wh_report(&err);
	if (filter->ident && !n)
		return wh_complain(NULL, "message %s is %s, not dead", filter->ident,
				   wh_queue_state_name(one.state));
	wh_print_retried(args, n, "ready");
	return WH_EXIT_DONE;
}

wh_exit wh_on_queue_retry(const wh_args *args, wh_session *s)
{
	const char *state = wh_arg(args, "state");
	wherry_outbox_filter filter;

	if (!wh_again_filter(args, &filter))
		return WH_EXIT_USAGE;
	if (state && strcmp(state, "dead") != 0)
		return wh_usage(args->command,
				"--state %s: in a queue only dead messages are retried; "
				"others are received as soon as they are due",
				state);
	return retry(args, s, &filter);
}

/* ---- discard ---- */

typedef struct discarded {
	const wh_session *session;
	wh_gone gone;
} discarded;

static wherry_code note(void *ctx, const wherry_queue_message *msg)
{
	discarded *d = ctx;

	d->gone = (wh_gone){msg->id, wh_queue_state_name(msg->state),
			    strdup(topic_of(d->session, msg)),
			    strdup(msg->message_id ? msg->message_id : "")};
	return WHERRY_OK;
}

static wh_exit discard_one(const wh_args *args, const wh_session *s, const char *ident)
{
	discarded d = {.session = s};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_queue_show(s->queue, ident, note, &d, &err);

	if (code == WHERRY_OK)
		code = wherry_queue_discard(s->queue, d.gone.id, &err);
	if (code == WHERRY_OK)
		wh_audit_message(args, s->table, &d.gone);
	free(d.gone.topic);
	free(d.gone.message_id);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

/* Discard the messages in some states; 0: in all of them. */
static wh_exit discard_states(const wh_args *args, wh_session *s, unsigned states)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status st;
	wherry_code code;
	wh_exit status;
	int64_t n, counted;

	if (wherry_queue_get_status(s->queue, &st, sizeof(st), &err) != WHERRY_OK)
		return wh_report(&err);
	counted = (!states || states & 1u << WHERRY_DEAD ? st.dead : 0) +
		  (!states || states & 1u << WHERRY_PENDING ? st.ready : 0) +
		  (!states || states & 1u << WHERRY_FAILED ? st.waiting : 0);
	if (!wh_confirm(args, s->db, &status,
			"delete %" PRId64 " message%s of queue '%s', none of them leased",
			counted, wh_plural(counted), s->table))
		return status;
	n = 0;
	code = wherry_queue_purge(s->queue, states, BATCH, &n, &err);
	if (n)
		wh_audit(args, s->table, n);
	if (code != WHERRY_OK)
		return wh_report(&err);
	wh_print_discarded(args, wh_is_dry(args) ? counted : n);
	return WH_EXIT_DONE;
}

wh_exit wh_on_queue_discard(const wh_args *args, wh_session *s)
{
	wh_exit status = WH_EXIT_DONE;
	unsigned states = 0;
	int64_t n = 0;

	if (!wh_arg_states(args, "state", wh_queue_state_name, &states))
		return WH_EXIT_USAGE;
	if (states & 1u << WHERRY_PROCESSING)
		return wh_usage(args->command,
				"--state leased: a receiver has these messages; name one "
				"by its ID to discard it all the same");
	if (args->n_operands == 1)
		return discard_states(args, s, states);
	if (!wh_confirm(args, s->db, &status, "delete %zu message%s for good",
			args->n_operands - 1, wh_plural((int64_t)args->n_operands - 1)))
		return status;
	for (size_t i = 1; i < args->n_operands; i++) {
		wh_exit each = discard_one(args, s, wh_operand(args, i));

		n += each == WH_EXIT_DONE;
		if (each != WH_EXIT_DONE)
			status = each;
	}
	wh_print_discarded(args, n);
	return status;
}

/* ---- drop ---- */

wh_exit wh_on_queue_drop(const wh_args *args, wh_session *s)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_queue_status st;
	wh_exit status;
	int64_t n;

	if (wherry_queue_get_status(s->queue, &st, sizeof(st), &err) != WHERRY_OK)
		return wh_report(&err);
	n = st.ready + st.leased + st.waiting + st.dead;
	if (!wh_confirm(args, s->db, &status,
			"delete queue '%s' with %" PRId64 " message%s", s->table, n,
			wh_plural(n)))
		return status;
	if (wherry_queue_drop(s->queue, &err) != WHERRY_OK)
		return wh_report(&err);
	wh_audit(args, s->table, n);
	wh_print_deleted(args, (const wh_count[]){{"messages", n}, {NULL, 0}},
			 "queue '%s' is gone, with %" PRId64 " message%s", s->table, n,
			 wh_plural(n));
	return WH_EXIT_DONE;
}
