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

/*
 * Write one of several UUIDs that are made one after the other.  Only the first takes random bits
 * from the system, and each further one counts on from them (RFC 9562, section 6.2, method 2).
 *
 * @param inout_random  0 before the first UUID.
 */
void wh_uuid7_next(const wh_env *env, uint64_t *inout_random, char out[WH_UUID_LEN + 1]);

#endif
