/*
 * What the core may know of the outside: clock, randomness, sleep, processes and a log.  Tests
 * supply their own.  Nothing else in src/ asks the system for these.
 */
#ifndef WH_BASE_ENV_H
#define WH_BASE_ENV_H

#include <stdint.h>

#include <wherry/log.h>

#include "base/process.h"

#define WH_SECOND 1000000LL /* microseconds */
#define WH_NEVER INT64_MAX  /* a deadline that does not come */

typedef struct wh_env {
	int64_t (*now_us)(void *ctx);       /* Unix time, microseconds */
	int64_t (*monotonic_us)(void *ctx); /* for time-outs; never steps back */
	uint64_t (*random)(void *ctx);      /* for jitter and ids */
	void (*sleep_us)(void *ctx, int64_t us);
	/* As wh_process_self() and wh_process_look().  NULL: no process is known. */
	void (*process_self)(void *ctx, char out[WH_PROCESS_LEN]);
	wh_process_state (*process_look)(void *ctx, const char *who);
	wherry_log_fn
		log; /* records without a line, see base/log.h; NULL: nobody listens */
	void *ctx;
	void *log_ctx;
} wh_env;

/* The real thing; logs nowhere. */
extern const wh_env wh_env_system;

int64_t wh_now(const wh_env *env);
int64_t wh_monotonic(const wh_env *env);
uint64_t wh_random(const wh_env *env);
void wh_sleep(const wh_env *env, int64_t us);

/* Which process this is, "" if that is not known; and what became of one that said so. */
void wh_self(const wh_env *env, char out[WH_PROCESS_LEN]);
wh_process_state wh_look_at_process(const wh_env *env, const char *who);

/* a + b, WH_NEVER when either is never or it would overflow; a and b are not negative. */
int64_t wh_later(int64_t a_us, int64_t b_us);

/* Microseconds from milliseconds, and an int32_t from an int64_t, as near as there are. */
int64_t wh_us(int64_t ms);
int32_t wh_clamp32(int64_t n);

#endif
