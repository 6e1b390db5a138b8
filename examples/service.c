/* A relay as a service: it delivers until SIGTERM or SIGINT, another thread reports how it is
 * doing, and a relay that fails is opened again. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <wherry/wherry.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static wherry_relay *running; /* under the lock; NULL while none is open */
static bool stopping;         /* under the lock */

/* Waits for the signals, which all other threads have blocked. */
static void *wait_for_signals(void *signals)
{
	int number = 0;

	(void)sigwait(signals, &number);
	(void)pthread_mutex_lock(&lock);
	stopping = true;
	if (running)
		wherry_relay_stop(running);
	(void)pthread_mutex_unlock(&lock);
	return NULL;
}

/* Called for each event, on the relay's thread or one of its destination. */
static void write_log(void *ctx, const wherry_log_record *record)
{
	(void)ctx;
	if (record->level <= WHERRY_LOG_INFO)
		(void)fprintf(stderr, "%s\n", record->line);
}

/* False: the service is to stop. */
static bool begin(wherry_relay *relay)
{
	bool go_on;

	(void)pthread_mutex_lock(&lock);
	go_on = !stopping;
	running = go_on ? relay : NULL;
	(void)pthread_mutex_unlock(&lock);
	return go_on;
}

static void end(void)
{
	(void)pthread_mutex_lock(&lock);
	running = NULL;
	(void)pthread_mutex_unlock(&lock);
}

/* Reports once a second, from another thread: numbers may be read at any time. */
static void *report(void *ctx)
{
	const struct timespec second = {.tv_sec = 1};
	wherry_relay_stats stats;
	int64_t told = 0;
	bool done = false;

	(void)ctx;
	while (!done) {
		stats.delivered = 0;
		(void)pthread_mutex_lock(&lock);
		done = stopping;
		if (running)
			wherry_relay_get_stats(running, &stats, sizeof(stats));
		(void)pthread_mutex_unlock(&lock);
		if (stats.delivered > told) {
			told = stats.delivered;
			(void)printf("%lld delivered\n", (long long)told);
			(void)fflush(stdout);
		}
		(void)nanosleep(&second, NULL);
	}
	return NULL;
}

/* One life of the relay.  Errors that pass are waited out inside; this returns those that do
 * not, such as a table that is missing. */
static wherry_code relay(const char *from, const char *to, wherry_error *err)
{
	wherry_relay *r = NULL;
	wherry_code code = wherry_relay_open(from, to, NULL, &r, err);

	if (code != WHERRY_OK)
		return code;
	wherry_relay_log(r, write_log, NULL);
	if (begin(r))
		code = wherry_relay_run(r, 0, NULL, err);
	end();
	wherry_relay_close(r);
	return code;
}

int main(int argc, char **argv)
{
	const struct timespec pause = {.tv_sec = 1};
	wherry_error err = WHERRY_ERROR_INIT;
	pthread_t waiter, reporter;
	sigset_t signals;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: service FROM TO\n");
		return 2;
	}
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGTERM);
	(void)sigaddset(&signals, SIGINT);
	(void)pthread_sigmask(SIG_BLOCK, &signals, NULL); /* before any thread begins */
	if (pthread_create(&waiter, NULL, wait_for_signals, &signals) != 0 ||
	    pthread_create(&reporter, NULL, report, NULL) != 0)
		return 1;
	while (relay(argv[1], argv[2], &err) != WHERRY_OK && begin(NULL)) {
		(void)fprintf(stderr, "%s\n", err.message);
		(void)nanosleep(&pause, NULL);
	}
	(void)pthread_join(waiter, NULL);
	(void)pthread_join(reporter, NULL);
	return 0;
}
