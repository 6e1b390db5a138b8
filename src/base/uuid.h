/*
 * UUIDv7 (RFC 9562): ids that sort by time.
 */
#ifndef WH_BASE_UUID_H
#define WH_BASE_UUID_H

#include <stdint.h>

#include "base/env.h"

#define WH_UUID_LEN 36

/* Write the UUID of this millisecond and these random bits, with a NUL. */
void wh_uuid7(int64_t unix_ms, uint64_t random_a, uint64_t random_b,
	      char out[WH_UUID_LEN + 1]);

/* Write a UUID of the current time.  Bits that may be random or a finer time are a finer
 * time, which saves a system call (RFC 9562, section 6.2, method 3). */
void wh_uuid7_now(const wh_env *env, char out[WH_UUID_LEN + 1]);

#endif
