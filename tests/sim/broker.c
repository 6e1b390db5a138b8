/*
 * Connections to a broker, and the broker.  It decides on what arrives in its own time;
 * answers come late, in any order, twice, or not at all; connections end at any moment,
 * and what was on its way may still arrive.
 *
 * Where the plan says so it keeps an ordered destination's word: once it refused a
 * message, those of its key behind it, and those that it takes until it told so, are
 * refused too; and none is delivered while one before it is undecided.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sim.h"

const char *const sim_kind_names[SIM_KINDS] = {
	[SIM_PLAIN] = "plain",
	[SIM_FLAKY] = "flaky",
	[SIM_REJECTED] = "rejected",
	[SIM_HOPELESS] = "hopeless",
	[SIM_KILLS_RELAY] = "relay killer",
	[SIM_KILLS_CONNECTION] = "connection killer",
};

static const char *const verdict_names[] = {
	[WHERRY_DELIVERED] = "delivered", [WHERRY_RETRY] = "retry",
	[WHERRY_REJECTED] = "rejected",   [WHERRY_THROTTLED] = "throttled",
	[WHERRY_UNKNOWN] = "unknown",
};

enum { ANSWER_TIMEOUT_US = 3000000 };

static bool same_key(const sim_world *w, int a, int b)
{
	return w->messages[a].key == w->messages[b].key && w->messages[a].key != SIM_KEYS;
}

/* ---- a relay's side ---- */

/* Unless another has submitted it since. */
static void note_outcome(sim_world *w, const sim_flight *f, sim_outcome outcome)
{
	if (w->messages[f->index].last == SIM_IN_FLIGHT &&
	    w->messages[f->index].last_by == f->by &&
	    w->messages[f->index].last_epoch == f->epoch)
		w->messages[f->index].last = outcome;
}

static wherry_code lose(sim_connection *c, wherry_error *err)
{
	sim_world *w = c->world;

	sim_say(w, "relay %d loses its connection with %d in flight", c->process, c->n);
	w->losses++;
	c->broken = true;
	for (int i = 0; i < c->n; i++)
		note_outcome(w, &c->flights[i], SIM_LOST);
	return wh_fail(err, WHERRY_CLOSED, "the connection was lost");
}

/* Is the message behind one of its key that was refused, which nobody was told of? */
static bool doomed(const sim_connection *c, int index)
{
	if (!c->world->plan.ordered_publisher)
		return false;
	for (int i = 0; i < c->n; i++) {
		const sim_flight *f = &c->flights[i];

		if (f->settled && f->verdict != WHERRY_DELIVERED &&
		    same_key(c->world, f->index, index))
			return true;
	}
	return false;
}

static void take(sim_connection *c, const wherry_message *msg, int index)
{
	sim_flight *f = &c->flights[c->n++];

	*f = (sim_flight){.msg = msg, .index = index};
	f->epoch = c->world->messages[index].last_epoch;
	f->by = c->process;
	f->doomed = doomed(c, index);
	sim_say(c->world, "relay %d submits %d (key %d, place %d, %s)", c->process, index,
		c->world->messages[index].key, c->world->messages[index].place,
		sim_kind_names[c->world->messages[index].kind]);
}

static wherry_code submit(wherry_publisher *pub, const wherry_message *const *msgs,
			  size_t n, size_t *out_taken, wherry_error *err)
{
	sim_connection *c = (sim_connection *)pub;
	sim_world *w = c->world;
	sim_process *p = &w->processes[c->process];

	*out_taken = 0;
	if (p->crashed)
		return wh_fail(err, WHERRY_CLOSED, "the process is gone");
	for (size_t i = 0; i < n; i++)
		sim_judge_fence(
			w, p,
			sim_index(msgs[i]->message_id, strlen(msgs[i]->message_id)));
	if (!sim_moment(p))
		return wh_fail(err, WHERRY_CLOSED, "the process is gone");
	if (sim_chance(w, 1, 3))
		n = (size_t)sim_below(w, (int)n + 1);
	for (size_t i = 0; i < n && c->n < SIM_FLIGHTS; i++) {
		int index = sim_index(msgs[i]->message_id, strlen(msgs[i]->message_id));

		sim_judge_submit(w, p, c, msgs[i], index);
		if (index < 0)
			break;
		take(c, msgs[i], index);
		(*out_taken)++;
		if (w->messages[index].kind == SIM_KILLS_RELAY) {
			sim_say(w, "which kills relay %d", c->process);
			p->crashed = true;
			break;
		}
	}
	if (p->crashed || !sim_moment(p))
		return wh_fail(err, WHERRY_CLOSED, "the process is gone");
	if (sim_chance(w, w->plan.lose, 20000))
		return lose(c, err);
	return WHERRY_OK;
}

/* Hand over the i-th receipt. */
static void hand_over(sim_connection *c, int i, wh_receipt *out)
{
	sim_flight f = c->flights[i];

	*out = (wh_receipt){
		.message = f.msg,
		.verdict = f.silent ? WHERRY_UNKNOWN : f.verdict,
		.retry_after_us = f.verdict == WHERRY_THROTTLED ? 20000 : 0,
	};
	if (out->verdict != WHERRY_DELIVERED)
		(void)snprintf(out->reason, sizeof(out->reason), "the broker said so");
	sim_say(c->world, "relay %d is told of %d: %s", c->process, f.index,
		verdict_names[out->verdict]);
	note_outcome(c->world, &f,
		     out->verdict == WHERRY_DELIVERED ? SIM_TAKEN : SIM_REFUSED);
	c->n--;
	memmove(c->flights + i, c->flights + i + 1,
		(size_t)(c->n - i) * sizeof(*c->flights));
}

/* The number of a receipt that is there; any of them. */
static int pick_receipt(const sim_connection *c)
{
	int from = c->n ? sim_below(c->world, c->n) : 0;

	for (int i = 0; i < c->n; i++) {
		int at = (from + i) % c->n;

		if (c->flights[at].settled && c->flights[at].at_us <= c->world->now_us)
			return at;
	}
	return -1;
}

static bool holds_killer(const sim_connection *c)
{
	for (int i = 0; i < c->n; i++)
		if (c->world->messages[c->flights[i].index].kind == SIM_KILLS_CONNECTION)
			return true;
	return false;
}

static wherry_code collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
			   size_t *out_n, wherry_error *err)
{
	sim_connection *c = (sim_connection *)pub;
	sim_world *w = c->world;
	size_t n = 0;
	int i;

	*out_n = 0;
	if (!sim_moment(&w->processes[c->process]))
		return wh_fail(err, WHERRY_CLOSED, "the process is gone");
	if (holds_killer(c) || sim_chance(w, w->plan.lose, 10000))
		return lose(c, err);
	while (n + 1 < cap && (i = pick_receipt(c)) >= 0) {
		hand_over(c, i, &out[n++]);
		if (sim_chance(w, 1, 20)) { /* told twice */
			out[n] = out[n - 1];
			n++;
		}
		if (sim_chance(w, 1, 4))
			break;
	}
	*out_n = n;
	return WHERRY_OK;
}

static int64_t deadline(wherry_publisher *pub)
{
	const sim_connection *c = (const sim_connection *)pub;
	int64_t at = WH_NEVER;

	for (int i = 0; i < c->n; i++)
		if (c->flights[i].settled && c->flights[i].at_us < at)
			at = c->flights[i].at_us;
	return at;
}

/* Gone, for its relay; what it carries may yet arrive. */
static void close_connection(wherry_publisher *pub)
{
	sim_connection *c = (sim_connection *)pub;

	c->open = false;
	for (int i = 0; i < c->n; i++)
		c->flights[i].msg = NULL;
}

static const wh_publisher_driver drivers[] = {
	{.scheme = "sim",
	 .caps = 0,
	 .close = close_connection,
	 .submit = submit,
	 .collect = collect,
	 .deadline = deadline},
	{.scheme = "sim",
	 .caps = WH_PUB_ORDERED,
	 .close = close_connection,
	 .submit = submit,
	 .collect = collect,
	 .deadline = deadline},
};

static sim_connection *unused(sim_world *w)
{
	sim_connection *c = NULL;

	for (int i = 0; i < w->n_connections; i++)
		if (!w->connections[i]->open && !w->connections[i]->n)
			return w->connections[i];
	if (w->n_connections < SIM_CONNECTIONS)
		c = calloc(1, sizeof(*c));
	if (c)
		w->connections[w->n_connections++] = c;
	return c;
}

wherry_code sim_broker_open(sim_process *p, wherry_publisher **out, wherry_error *err)
{
	sim_world *w = p->world;
	sim_connection *c;

	if (!sim_moment(p))
		return wh_fail(err, WHERRY_CLOSED, "the process is gone");
	if (w->now_us < w->outage_until_us && sim_below(w, 2))
		return wh_fail(err, sim_below(w, 2) ? WHERRY_CLOSED : WHERRY_DENIED,
			       "the broker is not there");
	c = unused(w);
	if (!c)
		return wh_oom(err);
	*c = (sim_connection){
		.base.driver = &drivers[w->plan.ordered_publisher],
		.world = w,
		.process = p->number,
		.open = true,
	};
	*out = &c->base;
	return WHERRY_OK;
}

/* ---- the broker's side ---- */

/* The next to be decided on: where there is order mostly the first, else any. */
static int next_unsettled(const sim_connection *c)
{
	bool first = !c->n ||
		     (c->world->plan.ordered_publisher && !sim_chance(c->world, 1, 8));
	int from = first ? 0 : sim_below(c->world, c->n);

	for (int i = 0; i < c->n; i++)
		if (!c->flights[(from + i) % c->n].settled)
			return (from + i) % c->n;
	return -1;
}

static wherry_verdict decide(sim_world *w, sim_message *m)
{
	static const wherry_verdict moods[] = {WHERRY_RETRY, WHERRY_RETRY,
					       WHERRY_THROTTLED, WHERRY_UNKNOWN};

	if (m->kind == SIM_REJECTED)
		return WHERRY_REJECTED;
	if (m->kind == SIM_HOPELESS)
		return WHERRY_RETRY;
	if (m->kind == SIM_FLAKY && m->refusals > 0) {
		m->refusals--;
		return WHERRY_RETRY;
	}
	if (w->now_us < w->outage_until_us)
		return WHERRY_RETRY;
	if (sim_chance(w, w->plan.refuse, 10000))
		return moods[sim_below(w, 4)];
	return WHERRY_DELIVERED;
}

static void doom_followers(sim_connection *c, const sim_flight *refused)
{
	if (!c->world->plan.ordered_publisher)
		return;
	for (sim_flight *f = c->flights; f < c->flights + c->n; f++)
		if (f > refused && !f->settled &&
		    same_key(c->world, f->index, refused->index))
			f->doomed = true;
}

/* An ordered destination may refuse a message, but not deliver it, while it has not
 * decided on one before it. */
static bool out_of_turn(const sim_connection *c, const sim_flight *f)
{
	if (!c->world->plan.ordered_publisher)
		return false;
	for (const sim_flight *before = c->flights; before < f; before++)
		if (!before->settled && same_key(c->world, before->index, f->index))
			return true;
	return false;
}

static void settle(sim_connection *c, sim_flight *f)
{
	sim_world *w = c->world;
	sim_message *m = &w->messages[f->index];
	bool arrives;

	if (f->doomed)
		f->verdict = WHERRY_RETRY;
	else if (out_of_turn(c, f))
		f->verdict = sim_below(w, 2) ? WHERRY_RETRY : WHERRY_THROTTLED;
	else
		f->verdict = decide(w, m);
	f->settled = true;
	f->silent = sim_chance(w, w->plan.refuse, 20000);
	f->at_us = w->now_us + sim_time(w, sim_chance(w, 1, 20) ? 2000000 : 5000);
	if (f->silent)
		f->at_us = w->now_us + ANSWER_TIMEOUT_US;
	arrives = f->verdict == WHERRY_DELIVERED ||
		  (f->verdict == WHERRY_UNKNOWN && !f->doomed && sim_below(w, 2));
	if (f->verdict != WHERRY_DELIVERED || f->silent) {
		m->charges++;
		doom_followers(c, f);
	}
	if (arrives)
		sim_judge_delivery(w, f);
}

/* Nobody waits for it any more: the rest may arrive, or be lost from here on. */
static void work_off(sim_connection *c)
{
	int i = next_unsettled(c);

	if (i < 0 || sim_below(c->world, 3) == 0) {
		c->n = 0;
		return;
	}
	settle(c, &c->flights[i]);
}

bool sim_broker_work(sim_world *w)
{
	int from = w->n_connections ? sim_below(w, w->n_connections) : 0;

	for (int i = 0; i < w->n_connections; i++) {
		sim_connection *c = w->connections[(from + i) % w->n_connections];
		int at;

		if (!c->open && c->n) {
			work_off(c);
			return true;
		}
		at = c->open && !c->broken ? next_unsettled(c) : -1;
		if (at >= 0) {
			settle(c, &c->flights[at]);
			return true;
		}
	}
	return false;
}

int64_t sim_broker_next(const sim_world *w, const sim_process *p)
{
	int64_t at = WH_NEVER;

	for (int i = 0; i < w->n_connections; i++) {
		sim_connection *c = w->connections[i];

		if (c->open && c->process == p->number && deadline(&c->base) < at)
			at = deadline(&c->base);
		if (c->open && c->process == p->number && holds_killer(c))
			at = w->now_us;
	}
	return at;
}

void sim_broker_close(sim_world *w)
{
	for (int i = 0; i < w->n_connections; i++)
		free(w->connections[i]);
}
