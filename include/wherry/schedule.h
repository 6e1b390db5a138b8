/*
 * Schedules: the times at which something recurs.
 *
 * A schedule is one of these texts:
 *
 *     30 4 1,15 * MON-FRI   a crontab expression: minute, hour, day of month, month, day of week
 *     @daily                @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually
 *     12:00, 18:00          times of day
 *     @every 15m            a period, counted from 1970-01-01T00:00:00Z
 *
 * Crontab expressions and times of day are local times of a zone.  When the zone's clock changes:
 *
 *  - If the clock is put forward, a skipped time occurs later by the same amount: if 02:00 becomes
 *    03:00, 02:30 occurs at 03:30.  If two times then coincide, they occur once.
 *  - If the clock is put back, a repeated time occurs only the first time.
 *  - A crontab expression that names every hour (*, 0-23) is meant to recur at an interval: its
 *    times occur in both repeated hours, and do not occur in a skipped one.
 */
#ifndef WHERRY_SCHEDULE_H
#define WHERRY_SCHEDULE_H

#include <stdint.h>

#include <wherry/error.h>

/* A parsed schedule.  It does not change, so threads may share it. */
typedef struct wherry_schedule wherry_schedule;

enum { WHERRY_HASH_LEN = 32 }; /* Length of a schedule's hash, in bytes. */

WHERRY_BEGIN

/**
 * Parse a schedule.
 *
 * A field of a crontab expression is *, a number, a range such as 1-5, or a list such as 1,15.  A
 * step may follow * and ranges: 8-18/2; 5/15 means 5-59/15.  Months and days of the week may be
 * written as JAN and MON, in either case; 0 and 7 are Sunday.  If both day of month and day of
 * week are restricted, a day needs to match one of them; if one of them begins with *, a day must
 * match both.
 *
 * @param text  Text of the schedule, at most 256 bytes.
 * @param zone  Name of a zone of the tz database, such as Europe/Berlin; NULL: UTC.  Must be NULL
 *              for a period.  Its rules are read now: parse again after an update of the database.
 * @param out   Receives the schedule; the caller frees it with wherry_schedule_free().
 * @return WHERRY_OK; WHERRY_INVALID (a malformed field, which err names; an unknown zone, for which
 *         err names the nearest; an expression that matches no day of any year); WHERRY_NOTFOUND
 *         (there is no tz database); WHERRY_CORRUPT (the zone's file is damaged); WHERRY_DENIED;
 *         WHERRY_IO; WHERRY_NOMEM.
 *
 * Blocks: while it reads the zone's file in /usr/share/zoneinfo, or in the folder that the
 * environment variable TZDIR names.
 */
WHERRY_API WHERRY_MUST_USE wherry_code wherry_schedule_parse(const char *text,
							     const char *zone,
							     wherry_schedule **out,
							     wherry_error *err);

/** Free a schedule.  NULL is allowed. */
WHERRY_API void wherry_schedule_free(wherry_schedule *schedule);

/**
 * Find the first time after an instant.
 *
 * @param after_us  Unix time in microseconds, in the years 1 to 9999.
 * @param out_us    Receives a later time, never the same one; Unix time in microseconds.
 * @return WHERRY_OK; WHERRY_INVALID (after_us is out of range); WHERRY_NOTFOUND (there is no time
 *         before the year 10000).
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_schedule_next(const wherry_schedule *schedule, int64_t after_us, int64_t *out_us,
		     wherry_error *err);

/**
 * Write the hash of a schedule, which changes with its text and zone: 32 hexadecimal digits and a
 * NUL.  For times of day and for a period it is the hash of the JVM library DelayedQueue.
 *
 * @return WHERRY_OK; WHERRY_INVALID (schedule or out is NULL); WHERRY_UNSUPPORTED (the system's
 *         libcrypto refuses MD5); WHERRY_NOMEM.
 */
WHERRY_API WHERRY_MUST_USE wherry_code
wherry_schedule_hash(const wherry_schedule *schedule, char out[WHERRY_HASH_LEN + 1],
		     wherry_error *err);

WHERRY_END

#endif
