/*
 * C11's threads on POSIX threads, for programs with the thread sanitizer: it knows those
 * alone, and librdkafka uses these.  In glibc they are made of the same parts.
 */
#pragma GCC visibility push(default) /* librdkafka is to find them */

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

/* librdkafka is not built with the sanitizer, which does not see what its atomics order.
 * This leaves out whatever has a function of its in a stack: also what we would do wrong
 * within a call to it. */
const char *__tsan_default_suppressions(void);

const char *__tsan_default_suppressions(void)
{
	return "race:librdkafka.so\n";
}

_Static_assert(sizeof(thrd_t) == sizeof(pthread_t), "glibc's");
_Static_assert(sizeof(mtx_t) >= sizeof(pthread_mutex_t), "glibc's");
_Static_assert(sizeof(cnd_t) >= sizeof(pthread_cond_t), "glibc's");

typedef struct start {
	thrd_start_t function;
	void *argument;
} start;

static int outcome(int error)
{
	if (error == ETIMEDOUT)
		return thrd_timedout;
	return error ? thrd_error : thrd_success;
}

static void *run(void *arg)
{
	start todo = *(start *)arg;

	free(arg);
	return (void *)(intptr_t)todo.function(todo.argument);
}

int thrd_create(thrd_t *thread, thrd_start_t function, void *argument)
{
	start *todo = malloc(sizeof(*todo));
	int error;

	if (!todo)
		return thrd_nomem;
	*todo = (start){function, argument};
	error = pthread_create(thread, NULL, run, todo);
	if (error)
		free(todo);
	return outcome(error);
}

int thrd_join(thrd_t thread, int *out_result)
{
	void *result = NULL;
	int error = pthread_join(thread, &result);

	if (out_result)
		*out_result = (int)(intptr_t)result;
	return outcome(error);
}

int mtx_init(mtx_t *mutex, int type)
{
	pthread_mutexattr_t attr;
	int error;

	(void)pthread_mutexattr_init(&attr);
	if (type & mtx_recursive)
		(void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	error = pthread_mutex_init((pthread_mutex_t *)mutex, &attr);
	(void)pthread_mutexattr_destroy(&attr);
	return outcome(error);
}

void mtx_destroy(mtx_t *mutex)
{
	(void)pthread_mutex_destroy((pthread_mutex_t *)mutex);
}

int mtx_lock(mtx_t *mutex)
{
	return outcome(pthread_mutex_lock((pthread_mutex_t *)mutex));
}

int mtx_unlock(mtx_t *mutex)
{
	return outcome(pthread_mutex_unlock((pthread_mutex_t *)mutex));
}

int cnd_init(cnd_t *condition)
{
	return outcome(pthread_cond_init((pthread_cond_t *)condition, NULL));
}

void cnd_destroy(cnd_t *condition)
{
	(void)pthread_cond_destroy((pthread_cond_t *)condition);
}

int cnd_signal(cnd_t *condition)
{
	return outcome(pthread_cond_signal((pthread_cond_t *)condition));
}

int cnd_broadcast(cnd_t *condition)
{
	return outcome(pthread_cond_broadcast((pthread_cond_t *)condition));
}

int cnd_wait(cnd_t *condition, mtx_t *mutex)
{
	return outcome(
		pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until)
{
	return outcome(pthread_cond_timedwait((pthread_cond_t *)condition,
					      (pthread_mutex_t *)mutex, until));
}

void call_once(once_flag *flag, void (*function)(void))
{
	(void)pthread_once((pthread_once_t *)flag, function);
}
