#include "base/thread.h"

#include <signal.h>

bool wh_thread_start(pthread_t *out, wh_thread_end end, void *(*work)(void *), void *arg)
{
	sigset_t all, before;
	pthread_attr_t attr;
	bool started;

	(void)sigfillset(&all);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, end == WH_DETACHED
							 ? PTHREAD_CREATE_DETACHED
							 : PTHREAD_CREATE_JOINABLE);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(out, &attr, work, arg) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	return started;
}
