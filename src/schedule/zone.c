#include "schedule/zone.h"

#include <stdlib.h>
#include <string.h>

#include "base/date.h"
#include "schedule/posix_rule.h"

/*
 * A file of the TZif format has a header and a block for readers that know 32-bit times only, then
 * a header and a block with 64-bit times, then the rule for later times between two newlines.
 */
enum {
	HEADER = 44, /* Bytes. */
	MOST_TYPES = 256,
	YEARS = 4 /* Years whose changes meet_rule() computes. */
};

/* Times are cut to -most_s to most_s, so that sums with an offset cannot overflow. */
static const int64_t most_s = INT64_C(1) << 55;

struct wh_zone {
	char name[WH_ZONE_NAME_MAX + 1];
	bool has_rule; /* `rule` is for times after the last change. */
	wh_posix_rule rule;
	int32_t first_s; /* Offset from UTC before the first change, seconds. */
	size_t n;        /* Number of changes, which are ascending. */
	struct change {
		int64_t at_s;
		int32_t offset_s;
	} changes[];
};

typedef struct counts {
	size_t isut, isstd, leap, time, type, chars;
} counts;

/* The part of a file that is not read yet. */
typedef struct bytes {
	const unsigned char *at;
	size_t left;
} bytes;

static uint64_t big_endian(const unsigned char *at, size_t n)
{
	uint64_t value = 0;

	while (n--)
		value = value << 8 | *at++;
	return value;
}

static bool skip(bytes *b, size_t n)
{
	if (b->left < n)
		return false;
	b->at += n;
	b->left -= n;
	return true;
}

static bool read_header(bytes *b, counts *out)
{
	const unsigned char *h = b->at;

	if (!skip(b, HEADER) || memcmp(h, "TZif", 4) != 0 || h[4] < '2')
		return false;
	*out = (counts){
		.isut = big_endian(h + 20, 4),
		.isstd = big_endian(h + 24, 4),
		.leap = big_endian(h + 28, 4),
		.time = big_endian(h + 32, 4),
		.type = big_endian(h + 36, 4),
		.chars = big_endian(h + 40, 4),
	};
	/* Each counted item has at least one byte in the file.  So these limits hold, and
	 * sums cannot overflow. */
	return out->isut < WH_ZONE_FILE_MAX && out->isstd < WH_ZONE_FILE_MAX &&
	       out->leap < WH_ZONE_FILE_MAX && out->time < WH_ZONE_FILE_MAX &&
	       out->type >= 1 && out->type <= MOST_TYPES && out->chars < WH_ZONE_FILE_MAX;
}

static size_t block_len(const counts *c, size_t time_len)
{
	return c->time * (time_len + 1) + c->type * 6 + c->chars +
	       c->leap * (time_len + 4) + c->isstd + c->isut;
}

static bool read_offset(const unsigned char *types, size_t i, int32_t *out)
{
	int32_t offset = (int32_t)big_endian(types + i * 6, 4);

	*out = offset;
	return offset >= WH_OFFSET_LEAST && offset <= WH_OFFSET_MOST;
}

static int64_t clamp(int64_t at_s)
{
	return at_s < -most_s ? -most_s : at_s > most_s ? most_s : at_s;
}

static bool read_changes(wh_zone *zone, const unsigned char *block, const counts *c)
{
	const unsigned char *index = block + c->time * 8, *types = index + c->time;

	if (!read_offset(types, 0, &zone->first_s))
		return false;
	for (size_t i = 0; i < c->time; i++) {
		int64_t at = clamp((int64_t)big_endian(block + i * 8, 8));

		if (index[i] >= c->type ||
		    !read_offset(types, index[i], &zone->changes[i].offset_s) ||
		    (i && at <= zone->changes[i - 1].at_s))
			return false;
		zone->changes[i].at_s = at;
	}
	zone->n = c->time;
	return true;
}

static bool read_rule(wh_zone *zone, const bytes *footer)
{
	const unsigned char *end;

	if (footer->left < 2 || footer->at[0] != '\n')
		return false;
	end = memchr(footer->at + 1, '\n', footer->left - 1);
	if (!end)
		return false;
	zone->has_rule = end > footer->at + 1;
	return !zone->has_rule ||
	       wh_posix_rule_parse((const char *)footer->at + 1,
				   (size_t)(end - footer->at - 1), &zone->rule);
}

wherry_code wh_zone_read(const char *name, const void *data, size_t len, wh_zone **out,
			 wherry_error *err)
{
	bytes file = {data, len};
	const unsigned char *block;
	wh_zone *zone;
	counts c;

	if (!read_header(&file, &c) || !skip(&file, block_len(&c, 4)) ||
	    !read_header(&file, &c))
		return wh_fail(
			err, WHERRY_CORRUPT,
			"the file of time zone '%s' is not in the TZif format, version "
			"2 or later: install the package tzdata again",
			name);
	if (c.leap)
		return wh_fail(
			err, WHERRY_INVALID,
			"time zone '%s' counts leap seconds, which Unix time does not: "
			"name the zone without 'right/'",
			name);
	block = file.at;
	zone = calloc(1, sizeof(*zone) + c.time * sizeof(*zone->changes));
	if (!zone)
		return wh_oom(err);
	(void)memcpy(zone->name, name, strnlen(name, WH_ZONE_NAME_MAX));
	if (!skip(&file, block_len(&c, 8)) || !read_changes(zone, block, &c) ||
	    !read_rule(zone, &file)) {
		wh_zone_free(zone);
		return wh_fail(
			err, WHERRY_CORRUPT,
			"the file of time zone '%s' is damaged: install the package "
			"tzdata again",
			name);
	}
	*out = zone;
	return WHERRY_OK;
}

void wh_zone_free(wh_zone *zone)
{
	free(zone);
}

const char *wh_zone_name(const wh_zone *zone)
{
	return zone->name;
}

/* ---- finding a span ---- */

/* The number of changes of the table at or before an instant. */
static size_t passed(const wh_zone *zone, int64_t at_s)
{
	size_t low = 0, high = zone->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (zone->changes[middle].at_s <= at_s)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Narrow the span around at_s by a change of the rule at change_s, from the offset
 * before_s to after_s. */
static void meet_change(wh_span *span, int64_t at_s, int64_t change_s, int32_t before_s,
			int32_t after_s)
{
	if (change_s > at_s) {
		if (change_s < span->end)
			span->end = change_s;
	} else if (change_s >= span->start) {
		if (change_s > span->start)
			span->before_s = before_s;
		span->start = change_s;
		span->offset_s = after_s;
	}
}

/*
 * Narrow a span behind the table's last change by the rule's changes in the two years
 * before at_s, in its year and in the next year.  If daylight saving time lasts all year,
 * it ends at the instant at which it begins again.  The beginning must win, so it comes
 * second.
 */
static void meet_rule(const wh_posix_rule *rule, int64_t at_s, int64_t last_s,
		      wh_span *span)
{
	int year = wh_date_of(wh_floor_div(at_s, WH_DAY)).year - 2;

	for (int i = 0; i < YEARS; i++, year++) {
		int64_t begin = wh_posix_rule_begin(rule, year);
		int64_t end = wh_posix_rule_end(rule, year);

		if (end > last_s)
			meet_change(span, at_s, end, rule->saving_s, rule->standard_s);
		if (begin > last_s)
			meet_change(span, at_s, begin, rule->standard_s, rule->saving_s);
	}
}

wh_span wh_zone_span(const wh_zone *zone, int64_t at_s)
{
	size_t i = passed(zone, at_s);
	wh_span span = {INT64_MIN, INT64_MAX, zone->first_s, zone->first_s};

	if (i) {
		span.start = zone->changes[i - 1].at_s;
		span.offset_s = zone->changes[i - 1].offset_s;
		span.before_s = i > 1 ? zone->changes[i - 2].offset_s : zone->first_s;
	}
	if (i < zone->n) {
		span.end = zone->changes[i].at_s;
	} else if (zone->has_rule && zone->rule.saves) {
		meet_rule(&zone->rule, at_s, span.start, &span);
	} else if (zone->has_rule && !zone->n) {
		span.offset_s = span.before_s = zone->rule.standard_s;
	}
	return span;
}

bool wh_zone_same(const wh_zone *a, const wh_zone *b)
{
	int64_t at_s = WH_TIME_FIRST;

	if (!a || !b)
		return a == b;
	while (at_s <= WH_TIME_LAST) {
		wh_span one = wh_zone_span(a, at_s), other = wh_zone_span(b, at_s);

		if (one.offset_s != other.offset_s)
			return false;
		at_s = one.end < other.end ? one.end : other.end;
	}
	return true;
}
