/*
 * Durations and sizes as people write them: "1h30m", "250ms"; "64KB", "8MB".
 */
#ifndef WH_BASE_DURATION_H
#define WH_BASE_DURATION_H

#include <stdint.h>

#include "base/error.h"

/* One or more numbers, each with a unit us, ms, s, m, h, d or w; "0" needs none. */
wherry_code wh_duration_parse(const char *text, int64_t *out_us, wherry_error *err);

/* A number with a unit B, KB, MB or GB (powers of 1024); "0" needs none. */
wherry_code wh_size_parse(const char *text, int64_t *out_bytes, wherry_error *err);

/* The largest unit that loses nothing much: "1.5s", "3h 12m", "7d". */
void wh_duration_print(int64_t us, char *out, int cap);

#endif
