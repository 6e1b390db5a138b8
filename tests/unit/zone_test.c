#include "wherry_test.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

#include "base/date.h"
#include "schedule/posix_rule.h"
#include "schedule/zone.h"

static const char folder[] = "/usr/share/zoneinfo";

/* ---- beside the C library ---- */

static void look(const wh_zone *zone, int64_t at_s)
{
	wh_span span = wh_zone_span(zone, at_s);
	time_t second = at_s;
	struct tm tm;

	assert_non_null(localtime_r(&second, &tm));
	if (span.offset_s != tm.tm_gmtoff)
		print_error("%s at %lld\n", wh_zone_name(zone), (long long)at_s);
	assert_int_equal(span.offset_s, tm.tm_gmtoff);
	assert_true(span.start <= at_s && at_s < span.end);
}

/* Each change of a zone from 1900 to 2200, and the seconds before and after it. */
static void compare(const char *name)
{
	wherry_error err = WHERRY_ERROR_INIT;
	int64_t at_s = INT64_C(-2208988800), last_s = INT64_C(7258118400);
	int32_t before_s;
	wh_zone *zone;
	wh_span span;

	WHERRY_PASS(wh_zone_load(name, &zone, &err));
	assert_int_equal(setenv("TZ", name, 1), 0);
	tzset();
	for (; at_s < last_s; at_s = span.end) {
		before_s = wh_zone_span(zone, at_s - 1).offset_s;
		span = wh_zone_span(zone, at_s);
		assert_true(span.start < span.end);
		if (span.start == at_s)
			assert_int_equal(span.before_s, before_s);
		look(zone, at_s);
		look(zone, at_s - 1);
		if (span.end == INT64_MAX)
			break;
	}
	look(zone, last_s);
	wh_zone_free(zone);
}

WHERRY_TEST(every_zone_changes_when_it_does_in_the_c_library)
{
	static const char *const areas[] = {
		"Africa", "America", "Antarctica", "Asia",    "Atlantic",       "Etc",
		"Europe", "Indian",  "Australia",  "Pacific", "America/Indiana"};
	int n = 0;

	for (size_t i = 0; i < sizeof(areas) / sizeof(*areas); i++) {
		char path[400];
		struct dirent *entry;
		struct stat st;
		DIR *dir;

		(void)snprintf(path, sizeof(path), "%s/%s", folder, areas[i]);
		dir = opendir(path);
		assert_non_null(dir);
		while ((entry = readdir(dir))) {
			(void)snprintf(path, sizeof(path), "%s/%s/%s", folder, areas[i],
				       entry->d_name);
			if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
				continue;
			compare(path + sizeof(folder));
			n++;
		}
		(void)closedir(dir);
	}
	assert_true(n > 300);
	compare("UTC");
}

/* ---- names ---- */

static void refused(const char *name, wherry_code code, const char *why)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_zone *zone = NULL;

	WHERRY_FAILS(code, wh_zone_load(name, &zone, &err));
	assert_null(zone);
	if (!strstr(err.message, why))
		print_error("%s: %s\n", name, err.message);
	assert_non_null(strstr(err.message, why));
}

WHERRY_TEST(an_offset_from_utc_is_a_zone)
{
	static const struct {
		const char *name;
		int32_t offset_s;
	} zones[] = {{"Z", 0},          {"+02:00", 7200}, {"-03:30", -12600},
		     {"+18:00", 64800}, {"+00:00", 0},    {"-18:00", -64800}};
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t i = 0; i < sizeof(zones) / sizeof(*zones); i++) {
		wh_zone *zone = NULL;

		WHERRY_PASS(wh_zone_load(zones[i].name, &zone, &err));
		assert_string_equal(wh_zone_name(zone), zones[i].name);
		assert_int_equal(wh_zone_span(zone, 0).offset_s, zones[i].offset_s);
		assert_int_equal(wh_zone_span(zone, 4102444800).offset_s,
				 zones[i].offset_s);
		wh_zone_free(zone);
	}
	refused("+18:01", WHERRY_INVALID, "there is no time zone '+18:01'");
	refused("+02:60", WHERRY_INVALID, "there is no time zone");
	refused("+2", WHERRY_INVALID, "there is no time zone");
	refused("02:00", WHERRY_INVALID, "there is no time zone");
	refused("+0::00", WHERRY_INVALID, "there is no time zone");
}

WHERRY_TEST(an_unknown_zone_is_refused_with_the_nearest_name)
{
	refused("Europe/Berln", WHERRY_INVALID, "did you mean 'Europe/Berlin'?");
	refused("europe/berlin", WHERRY_INVALID, "did you mean 'Europe/Berlin'?");
	refused("America/New York", WHERRY_INVALID, "did you mean 'America/New_York'?");
	refused("PST", WHERRY_INVALID, "there is no time zone 'PST': write a name");
	refused("Europe", WHERRY_INVALID, "there is no time zone 'Europe'");
	refused("tzdata.zi", WHERRY_INVALID, "there is no time zone");
	refused("zone1970", WHERRY_INVALID, "there is no time zone");
	refused("localtime", WHERRY_INVALID, "there is no time zone");
	refused("", WHERRY_INVALID, "there is no time zone ''");
	refused("right/Europe/Berlin", WHERRY_INVALID, "name the zone without 'right/'");
}

WHERRY_TEST(a_name_does_not_leave_the_folder)
{
	refused("../zoneinfo/UTC", WHERRY_INVALID, "there is no time zone");
	refused("/usr/share/zoneinfo/UTC", WHERRY_INVALID, "there is no time zone");
	refused("Europe//Berlin", WHERRY_INVALID, "there is no time zone");
	refused("Europe/Berlin/", WHERRY_INVALID, "there is no time zone");
	refused("Europe/./Berlin", WHERRY_INVALID, "there is no time zone");
	refused("Europe\nBerlin", WHERRY_INVALID, "there is no time zone");
	refused("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
		WHERRY_INVALID, "there is no time zone");
}

WHERRY_TEST(tzdir_names_the_database)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_temp temp;
	wh_zone *zone;
	FILE *file;

	file = fopen(wherry_temp_make(&temp, "Short"), "w");
	assert_non_null(file);
	(void)fputs("TZif2", file);
	(void)fclose(file);
	assert_int_equal(setenv("TZDIR", temp.dir, 1), 0);
	refused("Short", WHERRY_CORRUPT, "is not in the TZif format");
	refused("Europe/Berlin", WHERRY_INVALID, "there is no time zone");
	WHERRY_PASS(wh_zone_load(NULL, &zone, &err));
	assert_string_equal(wh_zone_name(zone), "UTC");
	wh_zone_free(zone);
	assert_int_equal(truncate(temp.path, WH_ZONE_FILE_MAX + 1), 0);
	refused("Short", WHERRY_CORRUPT, "is longer than 65536 bytes");
	assert_int_equal(unlink(temp.path), 0);
	assert_int_equal(mkfifo(temp.path, 0600), 0);
	refused("Short", WHERRY_INVALID, "there is no time zone");
	assert_int_equal(setenv("TZDIR", temp.path, 1), 0);
	refused("Europe/Berlin", WHERRY_INVALID, "there is no time zone");
	assert_int_equal(setenv("TZDIR", "/nowhere", 1), 0);
	refused("Europe/Berlin", WHERRY_NOTFOUND, "install the package tzdata");
	assert_int_equal(unsetenv("TZDIR"), 0);
	wherry_temp_clear(&temp);
}

/* ---- rules ---- */

static bool rule(const char *text, wh_posix_rule *out)
{
	return wh_posix_rule_parse(text, strlen(text), out);
}

WHERRY_TEST(rules_of_posix_are_read)
{
	wh_posix_rule r;

	assert_true(rule("CET-1CEST,M3.5.0,M10.5.0/3", &r));
	assert_true(r.saves && r.standard_s == 3600 && r.saving_s == 7200);
	assert_true(wh_posix_rule_begin(&r, 2024) == 1711846800);
	assert_true(wh_posix_rule_end(&r, 2024) == 1729990800);
	assert_true(rule("<-0330>3:30", &r));
	assert_true(!r.saves && r.standard_s == -12600);
	/* Ireland: winter time is the one that saves. */
	assert_true(rule("IST-1GMT0,M10.5.0,M3.5.0/1", &r));
	assert_true(r.standard_s == 3600 && r.saving_s == 0);
	assert_true(wh_posix_rule_begin(&r, 2024) == 1729990800);
	/* The sixtieth day, with and without a leap day; hours beyond a day. */
	assert_true(rule("AAA0BBB,J60/0,59/-24", &r));
	assert_true(wh_posix_rule_begin(&r, 2024) == 1709251200);
	assert_true(wh_posix_rule_begin(&r, 2023) == 1677628800);
	assert_true(wh_posix_rule_end(&r, 2024) == 1709074800);
}

WHERRY_TEST(other_rules_are_refused)
{
	static const char *const rows[] = {
		"",
		"C1",
		"CET",
		"CET-",
		"CET-1CEST",
		"CET-1CEST,",
		"CET-1CEST,M3.5.0",
		"CET-1CEST,M3.5.0,M10.5.0/",
		"CET-1CEST,M3.5.0,M10.5.0 ",
		"CET-1CEST,M13.5.0,M10.5.0",
		"CET-1CEST,M3.6.0,M10.5.0",
		"CET-1CEST,M3.5.7,M10.5.0",
		"CET-1CEST,J0,J365",
		"CET-1CEST,J1,366",
		"CET-1CEST,0/168,1",
		"CET-27",
		"CET26",
		"<CET-1",
		"<>1",
		"CET99999999999999999999",
		"CET-1:60",
	};
	wh_posix_rule r;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		if (rule(rows[i], &r))
			print_error("'%s'\n", rows[i]);
		assert_false(rule(rows[i], &r));
	}
}

/* A zone of a rule alone: its header, one type that is not used, no changes. */
static wherry_code only_rule(const char *text, wh_zone **out, wherry_error *err)
{
	static const char header[20] = "TZif2";
	char file[256];
	size_t n = 0;

	for (int i = 0; i < 2; i++) {
		memcpy(file + n, header, sizeof(header));
		memset(file + n + 20, 0, 34);
		file[n + 39] = 1;
		file[n + 43] = 4;
		n += 54;
	}
	n += (size_t)snprintf(file + n, sizeof(file) - n, "\n%s\n", text);
	return wh_zone_read("made", file, n, out, err);
}

WHERRY_TEST(daylight_saving_time_may_last_all_year)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_zone *zone;

	WHERRY_PASS(only_rule("EST5EDT,0/0,J365/25", &zone, &err));
	for (int64_t s = 1700000000; s < 1800000000; s += 3600) {
		wh_span span = wh_zone_span(zone, s);

		assert_int_equal(span.offset_s, -4 * 3600);
		assert_int_equal(span.before_s, -4 * 3600);
	}
	wh_zone_free(zone);
	WHERRY_PASS(only_rule("<+13>-13", &zone, &err));
	assert_int_equal(wh_zone_span(zone, 0).offset_s, 13 * 3600);
	wh_zone_free(zone);
}

WHERRY_TEST_MAIN
