/*
 * The loop of a relay that has a thread to itself: step, then wait for the database, the
 * publisher, a stop, or the deadline.
 */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "relay/relay.h"

/* eventfd and an atomic flag: both are safe in a signal handler. */
void wherry_relay_stop(wherry_relay *relay)
{
	uint64_t one = 1;
	int saved = errno;

	atomic_store(&relay->stop, true);
	if (write(relay->stop_fd, &one, sizeof(one)) < 0)
		errno = saved; /* full: a wake is pending already */
	errno = saved;
}

/* Wait until wake_us, or until something stirs. */
static void wait_until(wherry_relay *r, int64_t wake_us)
{
	struct pollfd fds[3] = {
		{.fd = r->stop_fd, .events = POLLIN},
		{.fd = r->db && !r->reopen_db ? wh_db_fd(r->db) : -1, .events = POLLIN},
		{.fd = -1},
	};
	int64_t now = wh_monotonic(&r->env), left_us = wake_us - now;
	struct timespec wait = {left_us / WH_SECOND, left_us % WH_SECOND * 1000};
	uint64_t drained;

	if (left_us <= 0)
		return;
	if (r->pub && (r->window.flying.n || r->window.ready.n))
		fds[2].fd = wh_publisher_fd(r->pub, &fds[2].events);
	if (ppoll(fds, 3, wake_us == WH_NEVER ? NULL : &wait, NULL) > 0 &&
	    fds[0].revents && read(r->stop_fd, &drained, sizeof(drained)) < 0)
		return; /* somebody else drained it */
}

wherry_code wherry_relay_run(wherry_relay *r, unsigned flags, wherry_outcome *out_outcome,
			     wherry_error *err)
{
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
			wait_until(r, wake_us);
	}
	if (out_outcome)
		*out_outcome = r->outcome;
	return WHERRY_OK;
}
