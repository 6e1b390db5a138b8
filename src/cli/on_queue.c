#include "cli/on_queue.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "base/url.h"
#include "cli/again.h"
#include "cli/target.h"
#include "config/settings.h"
#include "publish/parts.h"
#include "queue/queue.h"
#include "relay/source.h"

enum { PAGE = 100 };

bool wh_is_on_queue(const wh_args *args)
{
	wh_source source = {.store = NULL};
	wherry_db *db = NULL;
	bool queue;

	if (!*args->table.table || *args->table.queue)
		return false;
	queue = wh_db_open_own(wh_operand(args, 0), args->config, &db, NULL) ==
			WHERRY_OK &&
		wh_source_open_set(db, args->config, &source, NULL) == WHERRY_OK &&
		source.queue;
	wh_source_close(&source);
	wherry_db_close(db);
	return queue;
}

wh_exit wh_on_queue_open(wh_queue_session *s, const wh_args *args)
{
	wh_exit status;

	wh_report_maker("wherry queue create", args->target);
	status = wh_queue_session_open(s, args);

	if (status == WH_EXIT_DONE)
		wh_show_database(wh_operand(args, 0), s->url, sizeof(s->url));
	return status;
}

bool wh_on_queue_allows(const wh_args *args, const wh_without *refused)
{
	for (; refused->option; refused++)
		if (wh_arg(args, refused->option) || wh_arg_on(args, refused->option)) {
			(void)wh_usage(args->command, "--%s: %s", refused->option,
				       refused->why);
			return false;
		}
	return true;
}

const char *wh_queue_topic(const wh_queue_session *s, const wherry_queue_message *msg)
{
	return msg->topic ? msg->topic : s->at.name;
}

/* ---- retry ---- */

typedef struct chosen {
	const wh_queue_session *session;
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
	if (!c->topic || strcmp(wh_queue_topic(c->session, msg), c->topic) == 0)
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

static wherry_code retry_topic(const wh_queue_session *s, const char *topic,
			       int64_t *out_n, wherry_error *err)
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
static wherry_code retry_one(const wh_queue_session *s, const char *ident, chosen *out,
			     int64_t *out_n, wherry_error *err)
{
	wherry_code code;

	*out = (chosen){.session = s};
	code = wherry_queue_show(s->queue, ident, choose, out, err);
	return code == WHERRY_OK && out->state == WHERRY_DEAD
		       ? retry_each(out, out_n, err)
		       : code;
}

static wh_exit retry(const wh_args *args, const wh_queue_session *s,
		     const wherry_filter *filter)
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
		wh_audit(args->command->name, wh_operand(args, 0), s->at.name, n);
	if (code != WHERRY_OK)
		return wh_report(&err);
	if (filter->ident && !n)
		return wh_complain(NULL, "message %s is %s, not dead", filter->ident,
				   wh_queue_state_name(one.state));
	if (wh_arg_on(args, "json"))
		(void)printf("{\"retried\":%" PRId64 "}\n", n);
	else
		(void)printf("%" PRId64 " message%s %s ready again\n", n, wh_plural(n),
			     n == 1 ? "is" : "are");
	return WH_EXIT_DONE;
}

wh_exit wh_on_queue_retry(const wh_args *args)
{
	static const wh_without refused[] = {
		{"key", "a queue has no keys: choose messages by ID or --topic"},
		{NULL, NULL}};
	const char *state = wh_arg(args, "state");
	wherry_filter filter;
	wh_queue_session s;
	wh_exit status;

	if (!wh_on_queue_allows(args, refused) || !wh_again_filter(args, &filter))
		return WH_EXIT_USAGE;
	if (state && strcmp(state, "dead") != 0)
		return wh_usage(args->command,
				"--state %s: in a queue only dead messages are retried; "
				"others are received as soon as they are due",
				state);
	status = wh_on_queue_open(&s, args);
	if (status != WH_EXIT_DONE)
		return status;
	status = retry(args, &s, &filter);
	wh_queue_session_close(&s);
	return status;
}

/* ---- discard ---- */

typedef struct discarded {
	const wh_queue_session *session;
	wh_gone gone;
} discarded;

static wherry_code note(void *ctx, const wherry_queue_message *msg)
{
	discarded *d = ctx;

	d->gone = (wh_gone){msg->id, wh_queue_state_name(msg->state),
			    strdup(wh_queue_topic(d->session, msg)),
			    strdup(msg->message_id ? msg->message_id : "")};
	return WHERRY_OK;
}

static wh_exit discard(const wh_args *args, const wh_queue_session *s, const char *ident)
{
	discarded d = {.session = s};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code = wherry_queue_show(s->queue, ident, note, &d, &err);

	if (code == WHERRY_OK)
		code = wherry_queue_discard(s->queue, d.gone.id, &err);
	if (code == WHERRY_OK)
		wh_audit_message(args, s->at.name, &d.gone);
	free(d.gone.topic);
	free(d.gone.message_id);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

void wh_print_discarded(const wh_args *args, int64_t n)
{
	if (wh_arg_on(args, "json"))
		(void)printf("{\"discarded\":%" PRId64 "}\n", n);
	else
		(void)printf("%" PRId64 " message%s discarded\n", n, wh_plural(n));
}

wh_exit wh_on_queue_discard(const wh_args *args)
{
	wh_queue_session s;
	wh_exit status = wh_on_queue_open(&s, args);
	int64_t n = 0;

	if (status != WH_EXIT_DONE)
		return status;
	for (size_t i = 1; i < args->n_operands; i++) {
		wh_exit each = discard(args, &s, wh_operand(args, i));

		n += each == WH_EXIT_DONE;
		if (each != WH_EXIT_DONE)
			status = each;
	}
	wh_print_discarded(args, n);
	wh_queue_session_close(&s);
	return status;
}
