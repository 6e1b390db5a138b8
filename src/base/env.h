/*
 * Access to the outside: clock, randomness, sleep, processes and a log.  Tests supply
 * their own.  Nothing else in src/ asks the system for these.
 */
#ifndef WH_BASE_ENV_H
#define WH_BASE_ENV_H

#include <stdint.h>

#include <wherry/log.h>

#include "base/process.h"

#define WH_SECOND 1000000LL /* In microseconds. */
#define WH_NEVER INT64_MAX  /* A time that never comes. */

typedef struct wh_env {
	int64_t (*now_us)(void *ctx); /* Unix time, microseconds. */
	/* A clock for time limits, microseconds; never steps back. */
	int64_t (*monotonic_us)(void *ctx);
	uint64_t (*random)(void *ctx); /* Random bits for jitter and ids. */
	void (*sleep_us)(void *ctx, int64_t us);
	/* Like wh_process_self() and wh_process_look().  NULL: processes are unknown. */
	void (*process_self)(void *ctx, char out[WH_PROCESS_LEN]);
	wh_process_state (*process_look)(void *ctx, const char *who);
	/* Receives records without a line, see base/log.h.  NULL: nothing is logged. */
	wherry_log_fn log;
	void *ctx;
	void *log_ctx;
} wh_env;

/* The system's clock, randomness and processes; logs nothing. */
extern const wh_env wh_env_system;

int64_t wh_now(const wh_env *env);
int64_t wh_monotonic(const wh_env *env);
uint64_t wh_random(const wh_env *env);
void wh_sleep(const wh_env *env, int64_t us);

/* Write the identity of this process ("": unknown); find out whether the process of an
 * identity has ended. */
void wh_self(const wh_env *env, char out[WH_PROCESS_LEN]);
wh_process_state wh_look_at_process(const wh_env *env, const char *who);

/* a + b, or WH_NEVER if one of them is WH_NEVER or the sum overflows.  a and b are not
 * negative. */
int64_t wh_later(int64_t a_us, int64_t b_us);

/* The earlier of two times. */
static inline int64_t wh_sooner(int64_t a_us, int64_t b_us)
{
	return a_us < b_us ? a_us : b_us;
}

/* a - b: the time from b to a.  A result that overflows becomes INT64_MAX or -INT64_MAX, so it can
 * be negated.  Any two times may be given, such as those of a row. */
int64_t wh_since(int64_t a_us, int64_t b_us);

/* Convert milliseconds to microseconds; convert to int32_t.  A value out of range becomes
 * the nearest one in range. */
int64_t wh_us(int64_t ms);
int32_t wh_clamp32(int64_t n);

#endif
