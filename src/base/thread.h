/*
 * Threads of the library.
 */
#ifndef WH_BASE_THREAD_H
#define WH_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>

typedef enum wh_thread_end { WH_JOINED, WH_DETACHED } wh_thread_end;

/* Start a thread that blocks all signals of the application.  False: there are too many
 * threads. */
bool wh_thread_start(pthread_t *out, wh_thread_end end, void *(*work)(void *), void *arg);

#endif
