/*
 * The loop of a relay that has a thread to itself: step, then wait for the database, the
 * publisher, a stop, or the deadline.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "relay/dead_letters.h"
#include "relay/engine/engine.h"

/* An eventfd and an atomic flag: both can be used in a signal handler. */
void wherry_relay_stop(wherry_relay *relay)
{
	uint64_t one = 1;
	int saved = errno;

	atomic_store(&relay->stop, true);
	if (write(relay->stop_fd, &one, sizeof(one)) < 0)
		errno = saved; /* The eventfd is full: a wake-up is pending already. */
	errno = saved;
}

size_t wherry_relay_fds(wherry_relay *r, struct pollfd *out)
{
	size_t n = 0;

	out[n++] = (struct pollfd){.fd = r->stop_fd, .events = POLLIN};
	if (r->db && !r->reopen_db && wh_db_fd(r->db) >= 0)
		out[n++] = (struct pollfd){.fd = wh_db_fd(r->db), .events = POLLIN};
	out[n].events = 0;
	out[n].fd = r->engine->fd ? r->engine->fd(r, &out[n].events) : -1;
	out[n].revents = 0;
	n += out[n].fd >= 0;
	if (r->pub && (r->window.in_flight.n || r->window.ready.n)) {
		out[n].fd = wh_publisher_fd(r->pub, &out[n].events);
		out[n].revents = 0;
		n += out[n].fd >= 0;
	}
	out[n].fd = wh_dead_letters_fd(r, &out[n].events);
	out[n].revents = 0;
	n += out[n].fd >= 0;
	return n;
}

void wherry_relay_wait(wherry_relay *r, int64_t wake_us)
{
	struct pollfd fds[WHERRY_RELAY_FDS];
	int64_t left_us = wake_us - wh_monotonic(&r->env);
	struct timespec wait = {left_us / WH_SECOND, left_us % WH_SECOND * 1000};
	size_t n = wherry_relay_fds(r, fds);

	if (left_us > 0)
		(void)ppoll(fds, n, wake_us == WH_NEVER ? NULL : &wait, NULL);
}

wherry_code wherry_relay_run(wherry_relay *r, unsigned flags, wherry_outcome *out_outcome,
			     wherry_error *err)
{
	wh_error_clear(err);
	bool finished = false;
	wherry_code code = WHERRY_OK;

	if (!r)
		return wh_fail(err, WHERRY_INVALID, "no relay to run");
	wherry_relay_target(r, flags);
	while (!finished) {
		int64_t wake_us = 0;

		code = wherry_relay_step(r, &wake_us, &finished, err);
		if (code != WHERRY_OK)
			return code;
		if (!finished)
			wherry_relay_wait(r, wake_us);
	}
	if (out_outcome)
		*out_outcome = r->outcome;
	return WHERRY_OK;
}
