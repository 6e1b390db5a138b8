/*
 * The delay before the next attempt.
 */
#ifndef WH_BASE_BACKOFF_H
#define WH_BASE_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/env.h"

typedef enum wh_strategy { WH_FIXED, WH_LINEAR, WH_EXPONENTIAL } wh_strategy;

typedef struct wh_backoff {
	wh_strategy strategy;
	int64_t base_us;
	int64_t cap_us;
	bool jitter; /* Full jitter: a random delay from 0 to the computed one. */
	/* Number of first retries without a delay.  The strategy counts from the retry
	 * after them. */
	int immediate;
} wh_backoff;

/* The delay after `attempts` failures (1 or more), in microseconds. */
int64_t wh_backoff_delay(const wh_backoff *backoff, int attempts, const wh_env *env);

#endif
