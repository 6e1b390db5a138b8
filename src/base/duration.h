/*
 * Durations and sizes as people write them: "1h30m", "250ms"; "64KB", "8MB".
 */
#ifndef WH_BASE_DURATION_H
#define WH_BASE_DURATION_H

#include <stdint.h>

#include "base/error.h"

/* Parse numbers with the units us, ms, s, m, h, d and w.  "0" needs no unit. */
wherry_code wh_duration_parse(const char *text, int64_t *out_us, wherry_error *err);

/* Parse a number with a unit B, KB, MB or GB (powers of 1024).  "0" needs no unit. */
wherry_code wh_size_parse(const char *text, int64_t *out_bytes, wherry_error *err);

/* Print a duration, rounded to three digits or two units, such as "1.5s", "3h 12m" and
 * "7d 0h". */
void wh_duration_print(int64_t us, char *out, int cap);

#endif
