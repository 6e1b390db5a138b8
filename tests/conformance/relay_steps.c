/*
 * Stepping a relay until something holds, and looking at what was delivered.
 */
#include "relay_suite.h"

#include <inttypes.h>
#include <poll.h>

/* ---- steps ---- */

static int64_t patience_us, brief_lease_us;

/* A wait ends when what it waits for holds, so patience costs a test nothing but when it fails. */
void relay_be_patient(int64_t us)
{
	patience_us = us ? us : 60 * WH_SECOND;
	brief_lease_us = us ? us / 20 : WH_SECOND / 2;
}

int64_t relay_deadline(void)
{
	return wh_monotonic(&wh_env_system) + patience_us;
}

static void set_time(relay_fixture *f, const char *key, int64_t us)
{
	char text[32];

	(void)snprintf(text, sizeof(text), "%" PRId64 "ms", us / 1000);
	relay_set(f, key, text);
}

int64_t relay_lease_briefly(relay_fixture *f)
{
	set_time(f, "relay.lease", brief_lease_us);
	return brief_lease_us;
}

wherry_relay_stats relay_stats(const relay_side *side)
{
	wherry_relay_stats stats;

	wherry_relay_get_stats(side->relay, &stats, sizeof(wherry_relay_stats));
	return stats;
}

static void step(relay_side *side)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(
		wherry_relay_step(side->relay, &side->wake_us, &side->finished, &err));
}

static void check_time(const relay_fixture *f, int64_t by_us, const char *what, int line,
		       const char *file)
{
	if (wh_monotonic(&wh_env_system) < by_us)
		return;
	print_error("waited in vain for: %s\nthe last of the log:\n%s\n", what,
		    f->log_len > 2000 ? f->log + f->log_len - 2000 : f->log);
	_fail(file, line);
}

static void nap(int64_t us)
{
	struct timespec wait = {us / WH_SECOND, us % WH_SECOND * 1000};

	(void)ppoll(NULL, 0, &wait, NULL);
}

void relay_turn(relay_fixture *f, relay_side *side, int64_t by_us, const char *what,
		int line, const char *file)
{
	check_time(f, by_us, what, line, file);
	step(side);
	f->frozen_us += f->frozen_us ? f->tick_us : 0;
	if (side->wake_us > relay_now(f) && !f->frozen_us)
		nap(500);
}

void relay_turn_asleep(relay_fixture *f, relay_side *side, int64_t by_us,
		       const char *what, int line, const char *file)
{
	struct pollfd fds[WHERRY_RELAY_FDS];
	size_t n = wherry_relay_fds(side->relay, fds);
	int64_t left_us;

	check_time(f, by_us, what, line, file);
	left_us = side->wake_us - relay_now(f);
	if (left_us > by_us - wh_monotonic(&wh_env_system))
		left_us = by_us - wh_monotonic(&wh_env_system);
	if (left_us > 0) {
		struct timespec wait = {left_us / WH_SECOND, left_us % WH_SECOND * 1000};

		(void)ppoll(fds, n, &wait, NULL);
	}
	step(side);
}

void relay_quiet(relay_fixture *f, relay_side *side)
{
	int64_t by_us = relay_deadline();

	for (int i = 0; i < 3; i++)
		relay_turn(f, side, by_us, "a quiet relay", __LINE__, __FILE__);
	while (side->wake_us <= relay_now(f))
		relay_turn(f, side, by_us, "a quiet relay", __LINE__, __FILE__);
}

void relay_skip(relay_fixture *f, relay_side *side)
{
	assert_true(side->wake_us != WH_NEVER);
	if (side->wake_us > f->frozen_us)
		f->frozen_us = side->wake_us;
	step(side);
}

wherry_outcome relay_run_empty(relay_fixture *f, relay_side *side)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_outcome outcome = WHERRY_STOPPED;

	set_time(f, "relay.timeout", patience_us);
	if (!side->relay)
		relay_start(f, side);
	WHERRY_PASS(wherry_relay_run(side->relay, WHERRY_UNTIL_EMPTY, &outcome, &err));
	side->finished = true;
	return outcome;
}

/* ---- what was delivered ---- */

size_t relay_delivered(const relay_fixture *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_events; i++)
		n += f->events[i].verdict == WHERRY_DELIVERED;
	return n;
}

size_t relay_told(const relay_fixture *f, int64_t id, wherry_verdict verdict)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_events; i++)
		n += f->events[i].id == id && f->events[i].verdict == verdict;
	return n;
}

static void print_delivered(const relay_fixture *f)
{
	if (f->seed)
		print_error("seed %" PRIu64 " ", f->seed);
	print_error("delivered:");
	for (size_t i = 0; i < f->n_events; i++)
		if (f->events[i].verdict == WHERRY_DELIVERED)
			print_error(" %lld", (long long)f->events[i].id);
	print_error("\n");
}

void relay_check_delivered(const relay_fixture *f, const int64_t *ids, size_t n, int line,
			   const char *file)
{
	size_t next = 0;
	bool same = relay_delivered(f) == n;

	for (size_t i = 0; same && i < f->n_events; i++)
		if (f->events[i].verdict == WHERRY_DELIVERED)
			same = f->events[i].id == ids[next++];
	if (same)
		return;
	print_delivered(f);
	_fail(file, line);
}

void relay_check_once(const relay_fixture *f, int64_t n)
{
	for (int64_t id = 1; id <= n; id++) {
		if (relay_told(f, id, WHERRY_DELIVERED) != 1) {
			print_delivered(f);
			fail_msg("%lld was delivered %zu times", (long long)id,
				 relay_told(f, id, WHERRY_DELIVERED));
		}
	}
	assert_int_equal(relay_delivered(f), n);
}

/* Is the i-th event the first delivery of its message? */
static bool is_first(const relay_fixture *f, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (f->events[j].id == f->events[i].id &&
		    f->events[j].verdict == WHERRY_DELIVERED)
			return false;
	return f->events[i].verdict == WHERRY_DELIVERED;
}

void relay_check_order(const relay_fixture *f)
{
	for (size_t i = 0; i < f->n_events; i++) {
		const relay_event *e = &f->events[i];

		if (!*e->key || !is_first(f, i))
			continue;
		for (size_t j = 0; j < i; j++) {
			if (f->events[j].verdict != WHERRY_DELIVERED ||
			    strcmp(f->events[j].key, e->key) != 0 ||
			    f->events[j].id <= e->id)
				continue;
			print_delivered(f);
			fail_msg("%lld of key %s was overtaken by %lld", (long long)e->id,
				 e->key, (long long)f->events[j].id);
		}
	}
}

bool relay_logged(const relay_fixture *f, const char *text)
{
	assert_true(f->log_len + 4096 < sizeof(f->log)); /* nothing was left out */
	return strstr(f->log, text) != NULL;
}
