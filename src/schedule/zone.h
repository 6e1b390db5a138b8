/*
 * Time zones of the system's tz database: which offset from UTC a zone has, and when the
 * offset changes.
 *
 * A zone is read once and does not change afterwards, so threads may share it.  Its
 * functions do not use the variable TZ or the state of localtime(), which the whole
 * process shares.
 */
#ifndef WH_SCHEDULE_ZONE_H
#define WH_SCHEDULE_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct wh_zone wh_zone;

enum {
	WH_ZONE_NAME_MAX = 64,    /* bytes */
	WH_ZONE_FILE_MAX = 65536, /* bytes; the longest file of the database has 4 kB */
	/* An offset is at least -24:59:59 and at most +25:59:59. */
	WH_OFFSET_LEAST = -89999,
	WH_OFFSET_MOST = 93599
};

/* Instants with the same offset: from start to before end, Unix time in seconds. */
typedef struct wh_span {
	int64_t start;    /* INT64_MIN: the span has no beginning. */
	int64_t end;      /* INT64_MAX: the span has no end. */
	int32_t offset_s; /* Local time is UTC + offset_s. */
	/* The offset before start; equal to offset_s if start is INT64_MIN. */
	int32_t before_s;
} wh_span;

/*
 * Read a zone of the database by its name, such as Europe/Amsterdam.  UTC needs no
 * database.
 *
 * @param name  NULL: UTC.
 * @param out   Receives the zone; free it with wh_zone_free().
 * @return WHERRY_OK; WHERRY_INVALID: there is no such zone, err names the nearest one;
 *         WHERRY_NOTFOUND: there is no database; WHERRY_CORRUPT: the file is not a zone;
 *         WHERRY_NOMEM; the code of a failed read.
 *
 * The database is in the folder that the variable TZDIR names, else in
 * /usr/share/zoneinfo.
 */
wherry_code wh_zone_load(const char *name, wh_zone **out, wherry_error *err);

/* Like wh_zone_load(), from the bytes of a file in the TZif format (RFC 8536, version 2
 * or later). */
wherry_code wh_zone_read(const char *name, const void *data, size_t len, wh_zone **out,
			 wherry_error *err);

void wh_zone_free(wh_zone *zone); /* NULL is fine */
const char *wh_zone_name(const wh_zone *zone);

/* Do both zones have the same offset at all times?  Their names may differ.  Two NULL
 * zones are the same. */
bool wh_zone_same(const wh_zone *a, const wh_zone *b);

/* The span that contains an instant: Unix time in seconds, WH_TIME_FIRST to
 * WH_TIME_LAST. */
wh_span wh_zone_span(const wh_zone *zone, int64_t at_s);

#endif
