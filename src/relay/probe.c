/*
 * Decides what a refusal means, and which messages are tried while the destination is
 * down.
 *
 *     a message is refused                            counts as its attempt?
 *     like other messages                             no: the destination may refuse all
 *     again, after the destination took another one   yes: this message is the cause
 *
 * A message whose attempts are used up does not die while others could show that the destination
 * refuses all: it took none since it first refused this one, and the first message of another key
 * is untried.  Then this refusal does not count, and untried messages go first.
 *
 * If none is untried, too few have work to call the destination down, and nothing tells a bad
 * message from a bad destination.  Then its last attempt is spread in time: refusals do not count
 * for five minutes, and one message dies in five minutes.  It must die in the end: otherwise a few
 * keys that begin with bad messages would stop the outbox
 * (bad_messages_at_the_front_of_all_keys_die).
 *
 * A rejected message dies at once, unless the destination may reject every message: it
 * has taken none yet, or rejected several in a row.  Then the rejection is a failure like
 * any other, until the destination takes another message and rejects this one again.
 *
 * While the destination is down and answers, new messages probe: 1, 2, 4, … of them
 * together, at growing intervals.  So one message that it takes is found behind many that
 * it refuses.  When all messages in memory were refused, one message probes at a time.
 */
#include "relay/hooks.h"
#include "relay/relay.h"

void wh_down(wherry_relay *r, int64_t now, const char *why)
{
	int64_t delay;

	if (!r->destination.down)
		wh_relay_say(r, WHERRY_LOG_ERROR, "destination-down",
			     wh_log_text("why", why),
			     wh_log_note("one message probes, the others wait, and no "
					 "attempts are counted"));
	wh_report_error(r, now, why);
	if (!r->destination.down) {
		wh_hook_error(r, WHERRY_CLOSED, why);
		wh_report_soon(r, now);
	}
	r->destination.down = true;
	r->destination.probing = false;
	r->destination.probes++;
	delay = wh_backoff_delay(&r->set.probe, r->destination.probes, &r->env);
	if (delay < 1000)
		delay = 1000;
	r->destination.probe_at_us = wh_later(now, delay);
}

void wh_up(wherry_relay *r)
{
	if (r->destination.down) {
		wh_relay_say(r, WHERRY_LOG_INFO, "destination-up",
			     wh_log_int("probes", r->destination.probes));
		wh_report_soon(r, wh_monotonic(&r->env));
	}
	r->destination.down = r->destination.probing = false;
	r->destination.probes = 0;
	r->destination.probes_left = 0;
	r->destination.width = 1;
	r->destination.n_failing = 0;
	r->destination.doubts = false;
	r->destination.n_doubts = 0;
	r->destination.answered++;
}

/* Remember different messages that fail while the destination takes none.  If they are
 * enough, it is down. */
static void note_failing(wherry_relay *r, int64_t id, int64_t now, const char *why)
{
	for (int i = 0; i < r->destination.n_failing; i++)
		if (r->destination.failing[i] == id)
			return;
	if (r->destination.n_failing < WH_DOWN_MOST)
		r->destination.failing[r->destination.n_failing++] = id;
	if (r->destination.n_failing >= r->set.down_after)
		wh_down(r, now, why);
}

/* A probe was refused: twice as many messages probe in the next round.  If the
 * destination gave no answer, only one message probes. */
static void note_probe(wherry_relay *r, const wh_receipt *receipt, int64_t now,
		       const char *why)
{
	bool answers = receipt->verdict != WHERRY_UNKNOWN;

	if (r->destination.probing)
		wh_down(r, now, why);
	else if (answers)
		return;
	r->destination.width = answers ? 2 * r->destination.width : 1;
	if (r->destination.width > WH_PROBES_MOST)
		r->destination.width = WH_PROBES_MOST;
	if (!answers)
		r->destination.probes_left = 0;
}

bool wh_probe_refused(wherry_relay *r, const wh_entry *e, const wh_receipt *receipt,
		      int64_t now, const char *why)
{
	int64_t before = wh_refused_find(&r->destination.refused, e->msg.id);
	bool again = before == r->destination.answered;
	bool denied = receipt->denied && receipt->verdict != WHERRY_REJECTED;

	wh_refused_add(&r->destination.refused, e->msg.id, r->destination.answered, now);
	if (r->destination.down && e->probe)
		note_probe(r, receipt, now, why);
	if (before >= 0 && !again)
		return true;
	if (!r->destination.down && denied && (again || !r->destination.answered))
		wh_down(r, now, why);
	else if (!r->destination.down)
		note_failing(r, e->msg.id, now, why);
	return !r->destination.down && !denied;
}

bool wh_probe_rejects_all(wherry_relay *r, const wh_entry *e, const wh_receipt *receipt)
{
	wh_destination *d = &r->destination;
	int64_t before = wh_refused_find(&d->refused, e->msg.id);

	d->n_rejected++;
	if (!receipt->denied || (before >= 0 && before != d->answered))
		return false;
	return !d->taken || d->n_rejected >= r->set.down_after;
}

/* May this message probe together with others?  Suspects, messages that must die, and
 * messages that were in flight when the connection was lost are tried alone. */
static bool with_others(const wherry_relay *r, const wh_entry *e)
{
	bool lost = e->losses && e->lost_at == r->destination.answered;

	return !e->poison && e->losses < 2 && !lost && !r->lease.suspects;
}

/* Mark the key as seen in this round.  True: it was not, or there is no key. */
static bool first_in_round(wh_key *key, uint32_t round)
{
	if (!key)
		return true;
	if (key->round == round)
		return false;
	key->round = round;
	return true;
}

/* Is the first message of another key in this list one that the destination has not refused since
 * it last took one? */
static bool has_untried(const wherry_relay *r, const wh_list *list)
{
	const wh_destination *d = &r->destination;

	for (const wh_entry *e = list->head; e; e = e->next)
		if (first_in_round(e->key, d->round) && with_others(r, e) &&
		    wh_refused_find(&d->refused, e->msg.id) != d->answered)
			return true;
	return false;
}

/* How long a message is tried that the destination refuses while it takes no other, in
 * microseconds.  A handler knows which attempt is the last, and its verdict is about the message.
 * Where a message ends relays, nobody waits for this one: each relay would try it first, as the
 * suspect, and begin to count the time again. */
static int64_t alone_us(const wherry_relay *r)
{
	return r->caps & WH_PUB_ACKS || r->destination.hurried ? 0 : r->set.alone_us;
}

static bool doubt(wherry_relay *r, const wh_entry *e, int64_t until_us, int64_t now)
{
	wh_destination *d = &r->destination;

	if (!d->n_doubts++)
		wh_relay_say(r, WHERRY_LOG_WARN, "last-attempt",
			     wh_log_int("id", e->msg.id),
			     wh_log_int("seconds", (until_us - now) / WH_SECOND),
			     wh_log_note("the destination has taken no other message "
					 "since it refused this one; its last attempt "
					 "does not count until then"));
	return false;
}

bool wh_probe_may_die(wherry_relay *r, const wh_entry *e, int64_t now)
{
	wh_destination *d = &r->destination;
	int64_t since_us = now, until_us;

	if (d->answered > wh_refused_first(&d->refused, e->msg.id, &since_us))
		return true;
	until_us = wh_later(since_us, alone_us(r));
	if (until_us < d->next_death_us)
		until_us = d->next_death_us;
	d->round++;
	if (e->key)
		e->key->round = d->round;
	/* Messages of a key that are ready come after those in flight. */
	if (has_untried(r, &r->window.in_flight) || has_untried(r, &r->window.ready)) {
		d->doubts = true;
		return doubt(r, e, until_us, now);
	}
	if (now < until_us)
		return doubt(r, e, until_us, now);
	d->next_death_us = wh_later(now, alone_us(r));
	return true;
}

int64_t wh_probe_rest_us(const wherry_relay *r, int64_t now)
{
	int64_t rest = r->destination.probe_at_us - now;

	if (!r->destination.down || rest < 0)
		rest = wh_backoff_delay(
			&r->set.probe,
			r->destination.n_doubts ? r->destination.n_doubts : 1, &r->env);
	return rest;
}

/* ---- choosing probes ---- */

/* Only the first message of a key may probe, to keep the key's order. */
static bool first_of_key(wh_key *key, uint32_t round)
{
	return !(key && key->in_flight) && first_in_round(key, round);
}

typedef struct choice {
	wh_entry *fresh[WH_PROBES_MOST]; /* Never refused, without an attempt. */
	wh_entry *other[WH_PROBES_MOST]; /* Not refused since the last answer. */
	size_t n_fresh, n_other;
} choice;

static void consider(const wherry_relay *r, choice *c, wh_entry *e, size_t most)
{
	int64_t refused = wh_refused_find(&r->destination.refused, e->msg.id);

	if (!with_others(r, e))
		return;
	if (refused < 0 && !e->msg.attempts && c->n_fresh < most)
		c->fresh[c->n_fresh++] = e;
	else if (refused != r->destination.answered && c->n_other < most)
		c->other[c->n_other++] = e;
}

size_t wh_probe_choose(wherry_relay *r, wh_entry **out, size_t most)
{
	choice c = {.n_fresh = 0};
	size_t n = 0;

	r->destination.round++;
	for (wh_entry *e = r->window.ready.head; e && c.n_fresh < most; e = e->next)
		if (first_of_key(e->key, r->destination.round))
			consider(r, &c, e, most);
	for (size_t i = 0; i < c.n_fresh; i++)
		out[n++] = c.fresh[i];
	for (size_t i = 0; i < c.n_other && n < most; i++)
		out[n++] = c.other[i];
	return n;
}

/* Messages take turns: otherwise bad messages at the front would keep a destination down
 * that takes others. */
wh_entry *wh_probe_next(wherry_relay *r)
{
	r->destination.round++;
	for (wh_entry *e = r->window.ready.head; e; e = e->next)
		if (first_of_key(e->key, r->destination.round) &&
		    e->order > r->destination.probed)
			return e;
	return r->window.ready.head;
}

wh_entry *wh_probe_unlocked(wherry_relay *r, int64_t now)
{
	if (now >= r->locks_until_us)
		return r->window.ready.head;
	r->destination.round++;
	for (wh_entry *e = r->window.ready.head; e; e = e->next)
		if (first_of_key(e->key, r->destination.round) && !e->locked)
			return e;
	return r->window.ready.head;
}

size_t wh_failed_probes(const wherry_relay *r)
{
	return r->destination.n_failed_probes;
}
