#include "publisher_suite.h"

#include <poll.h>

#include "publish/parts.h"

enum { CHUNK = 256, LONGEST_US = 40000000, AGAIN_US = 20000 };

static size_t key_of(const publisher_fixture *f, size_t n)
{
	return n % f->n_keys;
}

static bool is_ordered(const publisher_fixture *f)
{
	return f->pub->driver->caps & WH_PUB_ORDERED;
}

/* ---- which are next ---- */

/* Of each key, the last that is in flight; -1: none. */
static void find_in_flight(const publisher_fixture *f, int *last)
{
	for (size_t k = 0; k < f->n_keys; k++)
		last[k] = -1;
	for (size_t n = 0; f->n_keys && n < f->n; n++)
		if (f->legs[n].stage == LEG_IN_FLIGHT)
			last[key_of(f, n)] = (int)n;
}

static size_t choose(const publisher_fixture *f, const wherry_message **out)
{
	static int last[MESSAGES_MOST];
	static bool blocked[MESSAGES_MOST];
	int64_t now = wh_monotonic(&wh_env_system);
	size_t found = 0;

	find_in_flight(f, last);
	memset(blocked, 0, sizeof(blocked));
	for (size_t n = 0; n < f->n && found < CHUNK; n++) {
		const publisher_leg *leg = &f->legs[n];
		bool none = false, *stop = f->n_keys ? &blocked[key_of(f, n)] : &none;
		bool goes = leg->stage == LEG_READY && leg->ready_us <= now;

		if (leg->stage == LEG_OVER || *stop)
			continue;
		/* One that came back waits for those behind it, and all others for it. */
		if (f->n_keys && leg->stage == LEG_READY && last[key_of(f, n)] > (int)n)
			goes = false;
		if (goes)
			out[found++] = &f->messages[n];
		*stop = (leg->stage == LEG_READY && !goes) || !is_ordered(f);
	}
	return found;
}

/* ---- what becomes of them ---- */

static void fly_behind(publisher_fixture *f, size_t n)
{
	for (size_t i = n + 1; f->n_keys && i < f->n; i++)
		if (key_of(f, i) == key_of(f, n) && f->legs[i].stage == LEG_IN_FLIGHT)
			f->legs[i].behind = true;
}

static void end_leg(publisher_fixture *f, publisher_leg *leg)
{
	leg->stage = LEG_OVER;
	f->n_over++;
}

static void take_receipt(publisher_fixture *f, const wh_receipt *receipt)
{
	size_t n = (size_t)(receipt->message - f->messages);
	publisher_leg *leg = &f->legs[n];
	bool behind = leg->behind;

	assert_true(n < f->n);
	if (leg->stage != LEG_IN_FLIGHT)
		fail_msg("a receipt for message %zu, which is not in flight", n);
	leg->stage = LEG_READY;
	leg->behind = false;
	leg->last = *receipt;
	f->n_denied += receipt->denied;
	if (receipt->verdict == WHERRY_DELIVERED) {
		if (behind)
			fail_msg("message %zu was delivered behind one that failed", n);
		leg->receipts[WHERRY_DELIVERED]++;
		assert_string_equal(receipt->reason, "");
		end_leg(f, leg);
		return;
	}
	if (receipt->verdict != WHERRY_THROTTLED)
		assert_string_not_equal(receipt->reason, "");
	assert_null(strpbrk(receipt->reason, "\r\n"));
	fly_behind(f, n);
	leg->ready_us =
		wh_later(wh_monotonic(&wh_env_system),
			 receipt->retry_after_us ? receipt->retry_after_us : AGAIN_US);
	if (behind)
		return; /* nothing is counted */
	leg->receipts[receipt->verdict]++;
	if (receipt->verdict == WHERRY_REJECTED ||
	    (n + 1 == f->bad && receipt->verdict != WHERRY_THROTTLED))
		end_leg(f, leg);
}

static void failed(publisher_fixture *f, const wherry_error *err)
{
	if (!f->n_errors++)
		f->first_error = *err;
	f->error = *err;
}

/* The destination failed: what is in flight has no receipts. */
static void lose(publisher_fixture *f, const wherry_error *err)
{
	int64_t again = wh_later(wh_monotonic(&wh_env_system), AGAIN_US);

	assert_int_not_equal(err->code, WHERRY_OK);
	assert_string_not_equal(err->message, "");
	failed(f, err);
	wherry_publisher_close(f->pub);
	f->pub = NULL;
	for (size_t n = 0; n < f->n; n++) {
		publisher_leg *leg = &f->legs[n];

		if (leg->stage != LEG_IN_FLIGHT)
			continue;
		leg->stage = LEG_READY;
		leg->behind = false;
		leg->ready_us = again;
	}
}

/* ---- the course ---- */

static void reopen(publisher_fixture *f)
{
	wherry_error err = WHERRY_ERROR_INIT;

	if (f->pub ||
	    wherry_publisher_open(f->url, f->config, &f->pub, &err) == WHERRY_OK)
		return;
	failed(f, &err);
}

static void hand_over(publisher_fixture *f)
{
	const wherry_message *next[CHUNK];
	wherry_error err = WHERRY_ERROR_INIT;
	size_t n = choose(f, next), taken = 0;
	wherry_code code = wh_publisher_submit(f->pub, next, n, &taken, &err);

	assert_true(taken <= n);
	for (size_t i = 0; i < taken; i++)
		f->legs[next[i] - f->messages].stage = LEG_IN_FLIGHT;
	if (code != WHERRY_OK)
		lose(f, &err);
}

static size_t in_flight(const publisher_fixture *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++)
		n += f->legs[i].stage == LEG_IN_FLIGHT;
	return n;
}

static void collect(publisher_fixture *f)
{
	wh_receipt receipts[CHUNK];
	wherry_error err = WHERRY_ERROR_INIT;
	size_t n = 1;

	while (f->pub && n && in_flight(f)) {
		if (wh_publisher_collect(f->pub, receipts, CHUNK, &n, &err) !=
		    WHERRY_OK) {
			lose(f, &err);
			return;
		}
		for (size_t i = 0; i < n; i++)
			take_receipt(f, &receipts[i]);
	}
}

/* Is nothing in flight although a message may be handed over? */
static bool is_next_due(const publisher_fixture *f, int64_t now)
{
	bool due = false;

	for (size_t n = 0; n < f->n; n++) {
		if (f->legs[n].stage == LEG_IN_FLIGHT)
			return false;
		due = due ||
		      (f->legs[n].stage == LEG_READY && f->legs[n].ready_us <= now);
	}
	return due;
}

void suite_wait(publisher_fixture *f)
{
	struct pollfd event = {.fd = -1};
	int64_t now = wh_monotonic(&wh_env_system), until = wh_later(now, 50000);
	int64_t deadline = f->pub ? wh_publisher_deadline(f->pub) : WH_NEVER;

	if (f->pub)
		event.fd = wh_publisher_fd(f->pub, &event.events);
	for (size_t n = 0; n < f->n; n++)
		if (f->legs[n].stage == LEG_READY && f->legs[n].ready_us > now &&
		    f->legs[n].ready_us < until)
			until = f->legs[n].ready_us;
	if (deadline < until)
		until = deadline;
	if (is_next_due(f, now)) /* Its key had one in flight until now. */
		until = now + 1000;
	(void)poll(&event, event.fd >= 0,
		   until > now ? (int)((until - now) / 1000 + 1) : 0);
}

void suite_course(publisher_fixture *f)
{
	int64_t end = wh_later(wh_monotonic(&wh_env_system), LONGEST_US);

	while (f->n_over < f->n) {
		if (wh_monotonic(&wh_env_system) > end)
			fail_msg(
				"%zu of %zu messages have an end, %zu are in flight; last "
				"error: %s",
				f->n_over, f->n, in_flight(f), f->error.message);
		if (f->meanwhile)
			f->meanwhile(f);
		reopen(f);
		if (f->pub)
			hand_over(f);
		if (f->pub)
			collect(f);
		if (f->n_over < f->n)
			suite_wait(f);
	}
}

/* ---- what arrived ---- */

void suite_arrivals(publisher_fixture *f)
{
	static int numbers[MESSAGES_MOST * 8];
	static bool seen[MESSAGES_MOST];
	int last[MESSAGES_MOST];
	size_t n;

	if (!f->backend->arrived)
		return;
	n = f->backend->arrived(f->place, f->pub, numbers, MESSAGES_MOST * 8);
	memset(seen, 0, sizeof(seen));
	for (size_t k = 0; k < f->n_keys; k++)
		last[k] = -1;
	for (size_t i = 0; i < n; i++) {
		size_t number = (size_t)numbers[i];

		assert_true(number < f->n);
		if (seen[number])
			continue;
		seen[number] = true;
		if (!f->n_keys)
			continue;
		if (numbers[i] < last[key_of(f, number)])
			fail_msg("message %d arrived behind %d of its key", numbers[i],
				 last[key_of(f, number)]);
		last[key_of(f, number)] = numbers[i];
	}
	for (size_t i = 0; i < f->n; i++) {
		bool delivered = f->legs[i].receipts[WHERRY_DELIVERED];

		if (delivered && !seen[i])
			fail_msg("message %zu was delivered, and is not there", i);
		if (f->legs[i].receipts[WHERRY_REJECTED] && seen[i])
			fail_msg("message %zu was rejected, and is there", i);
	}
}
