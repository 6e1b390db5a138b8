/*
 * What must hold: see docs/guarantees in the table at the end of ARCHITECTURE.md.
 */
#include <string.h>

#include "relay/relay.h"
#include "sim.h"

enum { CLAIM_MOST_US = 10000000, ENDED_MOST_US = 240000000 };

static const char row_state[] = "SELECT status FROM sim_rows WHERE message_id = 'm' || ?";

static bool competes(const sim_world *w)
{
	return w->plan.engine == SIM_COMPETING;
}

/* The state of its row; where nothing is written to rows, of the message. */
static int64_t state_of(sim_world *w, int index)
{
	int64_t dead;

	if (w->plan.engine != SIM_UNMARKED)
		return sim_number(w, row_state, index);
	dead = sim_number(
		w, "SELECT count(*) FROM wherry_dead WHERE message_id = 'm' || ?", index);
	if (dead)
		return dead < 0 ? dead : WHERRY_DEAD;
	if (!w->messages[index].committed)
		return -1;
	/* one that ends relays or connections may arrive, but no relay hears of it */
	if (w->messages[index].kind == SIM_KILLS_RELAY ||
	    w->messages[index].kind == SIM_KILLS_CONNECTION)
		return WHERRY_PENDING;
	return w->messages[index].deliveries ? WHERRY_DONE : WHERRY_PENDING;
}

/* A relay that has lost its lease submits nothing new. */
void sim_judge_fence(sim_world *w, sim_process *p, int index)
{
	int lease = p->relay->lease.number;
	int64_t epoch =
		sim_number(w, "SELECT epoch FROM wherry_lease WHERE number = ?", lease);
	int64_t left = sim_number(
		w,
		"SELECT expires_at - (SELECT ms FROM wherry_clock) FROM wherry_lease "
		"WHERE number = ?",
		lease);

	if (competes(w) && w->now_us > w->jumped_us + CLAIM_MOST_US) {
		left = sim_claim_left(w, index, p->relay->lease.token);
		if (left != SIM_LOCKED && left <= 0)
			sim_wrong(w, "relay %d submits %d, on which its claim is over",
				  p->number, index);
	}
	if (competes(w) || epoch == SIM_LOCKED || left == SIM_LOCKED)
		return;
	if (epoch != p->relay->lease.epoch || (left <= 0 && w->jumped_epoch != epoch))
		if (w->jumped_epoch < p->relay->lease.epoch)
			sim_wrong(w,
				  "relay %d submits under epoch %lld, which ended: the "
				  "lease is of epoch %lld and lasts %lld ms",
				  p->number, (long long)p->relay->lease.epoch,
				  (long long)epoch, (long long)left);
}

static void judge_content(sim_world *w, const wherry_message *msg, int index)
{
	const sim_message *m = &w->messages[index];
	char body[40], key[16] = "";

	(void)snprintf(body, sizeof(body), "{\"message\":%d}", index);
	if (m->key < SIM_KEYS)
		(void)snprintf(key, sizeof(key), "k%d", m->key);
	if (msg->body_len != strlen(body) ||
	    memcmp(msg->body, body, msg->body_len) != 0 ||
	    strcmp(m->key % 2 && m->key < SIM_KEYS ? msg->key : msg->aggregate_id, key) !=
		    0 ||
	    strcmp(msg->topic, "sim") != 0)
		sim_wrong(w, "%d arrives with other content", index);
}

void sim_judge_submit(sim_world *w, sim_process *p, const sim_connection *c,
		      const wherry_message *msg, int index)
{
	sim_message *m = index >= 0 ? &w->messages[index] : NULL;
	int64_t epoch = p->relay->lease.epoch;
	bool known;

	if (!m || !m->committed) {
		sim_wrong(w, "%s was submitted, but never committed", msg->message_id);
		return;
	}
	judge_content(w, msg, index);
	if (competes(w) && sim_claim_left(w, index, p->relay->lease.token) < 0)
		return; /* it stood still, and another has it by now, or nobody can tell */
	known = m->last == SIM_NEW || m->last == SIM_REFUSED || m->last == SIM_LOST;
	if (w->plan.engine == SIM_UNMARKED) /* of what it had not told, all comes again */
		known |= m->last_epoch != epoch || m->again;
	if (!known && (competes(w) || (!w->expired[p->relay->lease.number][epoch] &&
				       !w->expired[m->last_lease][m->last_epoch])))
		sim_wrong(
			w,
			"%d is submitted under epoch %lld, though it was under %lld and "
			"nothing ended badly since",
			index, (long long)epoch, (long long)m->last_epoch);
	w->redeliveries += m->last != SIM_NEW;
	if (!w->plan.ordered_publisher && w->plan.ordered && m->key < SIM_KEYS)
		for (int i = 0; i < c->n; i++)
			if (w->messages[c->flights[i].index].key == m->key)
				sim_wrong(w, "%d and %d of key %d are both in flight",
					  c->flights[i].index, index, m->key);
	if (c->n >= w->plan.window && w->plan.engine != SIM_UNMARKED)
		sim_wrong(w, "more is in flight than the window of %d", w->plan.window);
	m->last = SIM_IN_FLIGHT;
	m->last_lease = p->relay->lease.number;
	m->last_epoch = epoch;
	m->last_by = p->number;
}

/* Whatever comes before it in its key was delivered, or has died. */
static void judge_order(sim_world *w, int index)
{
	const sim_message *m = &w->messages[index];
	int64_t state;

	for (int i = 0; i < w->n_messages; i++) {
		sim_message *before = &w->messages[i];

		if (before->key != m->key || before->place >= m->place ||
		    !before->committed || before->deliveries || before->died)
			continue;
		state = w->plan.park ? -1 : state_of(w, i);
		before->died = state == WHERRY_DEAD;
		before->must_have_died |= state == SIM_LOCKED;
		if (before->died && w->plan.letters && !before->letters)
			sim_wrong(w, "%d is dead, but left no letter", i);
		if (before->died || before->must_have_died)
			continue;
		sim_wrong(w,
			  "%d (place %d of key %d) is delivered before %d (place %d, %s)",
			  index, m->place, m->key, i, before->place,
			  sim_kind_names[before->kind]);
	}
}

static void judge_dead(sim_world *w, int index)
{
	const sim_message *m = &w->messages[index];

	if ((m->kind == SIM_PLAIN || m->kind == SIM_FLAKY) &&
	    m->charges < w->plan.attempts)
		sim_wrong(w, "%d (%s) is dead, though only %d of its attempts failed",
			  index, sim_kind_names[m->kind], m->charges);
}

void sim_judge_letter(sim_world *w, const wherry_message *msg, int index)
{
	if (index < 0 || !w->messages[index].committed)
		sim_wrong(w, "a letter of %s, which was never committed",
			  msg->message_id);
	else
		judge_dead(w, index);
	if (!msg->headers || !strstr(msg->headers, "\"wherry-dead-error\":\""))
		sim_wrong(w, "the letter of %d does not say why", index);
}

void sim_judge_delivery(sim_world *w, const sim_flight *f)
{
	sim_message *m = &w->messages[f->index];

	sim_say(w, "%d is delivered", f->index);
	if (!m->deliveries)
		m->delivered_us = w->now_us;
	if (m->deliveries++) {
		w->duplicates++;
		return;
	}
	if (w->plan.ordered && m->key < SIM_KEYS && !m->died)
		judge_order(w, f->index);
}

/* ---- the end ---- */

/* Does it wait behind a dead one of its key? */
static bool is_parked(sim_world *w, int index)
{
	const sim_message *m = &w->messages[index];

	if (!w->plan.park || !w->plan.ordered || m->key == SIM_KEYS)
		return false;
	for (int i = 0; i < w->n_messages; i++)
		if (w->messages[i].key == m->key && i != index &&
		    sim_number(w, row_state, i) == WHERRY_DEAD)
			return true;
	return false;
}

static bool is_open(int64_t state)
{
	return state == WHERRY_PENDING || state == WHERRY_PROCESSING ||
	       state == WHERRY_FAILED;
}

/* Is one of its key refused for what it is? */
static bool behind_refused(const sim_world *w, const sim_message *m)
{
	if (m->key == SIM_KEYS || !w->plan.ordered)
		return false;
	for (int i = 0; i < w->n_messages; i++)
		if (w->messages[i].key == m->key && w->messages[i].kind != SIM_PLAIN)
			return true;
	return false;
}

/* How long those may wait that are not refused.  An engine that writes nothing to rows keeps the
 * refused ones in memory: they take turns as probes, of which there is one every five seconds.
 * While the broker takes others, they and what waits behind them fill the window until their
 * attempts are used up. */
static int64_t kept_most_us(const sim_world *w)
{
	enum { MOST_S = 20, PROBES_S = 90, CAP_S = 5 };
	int64_t refused = 0;

	if (w->plan.engine != SIM_UNMARKED)
		return MOST_S * WH_SECOND;
	for (int i = 0; i < w->n_messages; i++)
		refused += w->messages[i].kind != SIM_PLAIN;
	return (PROBES_S + refused / w->plan.window * w->plan.attempts * CAP_S) *
	       WH_SECOND;
}

void sim_judge_waits(sim_world *w)
{
	if (!w->plan.picky || w->fixed)
		return;
	w->ended_us = w->now_us - w->calm_us;
	for (const sim_message *m = w->messages; m < w->messages + w->n_messages; m++) {
		int64_t since =
			m->committed_us > w->calm_us ? m->committed_us : w->calm_us;

		if (m->deliveries && m->kind == SIM_PLAIN && !m->retried &&
		    !behind_refused(w, m) && m->delivered_us - since > w->kept_us)
			w->kept_us = m->delivered_us - since;
	}
	if (w->kept_us > kept_most_us(w))
		sim_wrong(w, "a message that is not refused waited %lld ms",
			  (long long)(w->kept_us / 1000));
	if (w->ended_us > ENDED_MOST_US)
		sim_wrong(w, "what is refused ended after %lld ms",
			  (long long)(w->ended_us / 1000));
}

int sim_judge_open(sim_world *w)
{
	if (w->plan.engine != SIM_UNMARKED &&
	    sim_number(w, "SELECT count(*) FROM sim_rows WHERE status IN (0, 1, 3)", 0) ==
		    0)
		return -1;
	for (int i = 0; i < w->n_messages; i++) {
		int64_t state = state_of(w, i);

		if ((is_open(state) || state == SIM_LOCKED) && !is_parked(w, i))
			return i;
	}
	return -1;
}

static void judge_attempts(sim_world *w, int index)
{
	const sim_message *m = &w->messages[index];
	int64_t attempts = sim_number(
		w, "SELECT attempts FROM sim_rows WHERE message_id = 'm' || ?", index);

	if (attempts > m->charges && m->kind != SIM_REJECTED && !m->retried)
		sim_wrong(w, "%d counts %d attempts, though %d failed at most", index,
			  (int)attempts, m->charges);
}

static void judge_message(sim_world *w, int index)
{
	const sim_message *m = &w->messages[index];
	int64_t state = state_of(w, index);

	judge_attempts(w, index);
	if (m->must_have_died && !m->died && state != WHERRY_DEAD)
		sim_wrong(w, "%d was overtaken by others of key %d", index, m->key);
	if (!m->committed) {
		if (state >= 0 || m->deliveries)
			sim_wrong(w, "%d was never committed, but is there", index);
	} else if (state == WHERRY_DEAD) {
		judge_dead(w, index);
		if (w->plan.letters && !m->letters)
			sim_wrong(w, "%d is dead, but left no letter", index);
	} else if (is_open(state)) {
		if (!is_parked(w, index))
			sim_wrong(w, "%d is left behind", index);
	} else if (!m->deliveries) {
		sim_wrong(w, "%d (%s) is lost: it is %s, but was never delivered", index,
			  sim_kind_names[m->kind], state < 0 ? "gone" : "done");
	} else if (m->kind == SIM_KILLS_RELAY || m->kind == SIM_KILLS_CONNECTION ||
		   m->kind == SIM_REJECTED || m->kind == SIM_HOPELESS) {
		sim_wrong(w, "%d (%s) should be dead", index, sim_kind_names[m->kind]);
	}
}

void sim_judge_end(sim_world *w)
{
	for (int i = 0; i < w->n_messages && !*w->wrong; i++)
		judge_message(w, i);
}

/* ---- positions of the log ---- */

/* A relay that has lost its lease does not take the position of another one back. */
void sim_judge_high(sim_world *w)
{
	int64_t high = sim_number(w, "SELECT high FROM outbox_progress", 0);

	if (high != SIM_LOCKED && high < w->high)
		sim_wrong(w, "the position goes back from %lld to %lld",
			  (long long)w->high, (long long)high);
	if (high > w->high)
		w->high = high;
}

void sim_judge_position(sim_world *w, int64_t position)
{
	int64_t written = -1;

	if (w->plan.engine == SIM_UNMARKED)
		written = sim_number(w, "SELECT position FROM wherry_stream", 0);
	if (position > w->wal_end)
		sim_wrong(w, "position %lld is behind the end of the log",
			  (long long)position);
	for (const sim_commit *c = w->log; c < w->log + w->n_log; c++) {
		if (c->end > written && (c->end <= w->slot.made_at || c->end > position))
			continue; /* it is in the slot's snapshot, or still to come */
		for (int i = 0; i < c->n; i++) {
			int64_t state = state_of(w, c->rows[i]);

			if (!w->messages[c->rows[i]].deliveries && state != WHERRY_DEAD &&
			    state != SIM_LOCKED)
				sim_wrong(w,
					  "%d was neither delivered nor is it dead, but "
					  "the position is behind it",
					  c->rows[i]);
		}
	}
}

/* A relay's snapshot of the table is lost: the next one has all of it again.  Rows have no numbers, so the relay
 * may have a message twice in memory then, and try each of the two. */
void sim_judge_anew(sim_world *w)
{
	for (sim_message *m = w->messages; m < w->messages + w->n_messages; m++)
		m->again |= m->committed;
}
