/* The next times of many schedules: lines "UNIX-SECONDS ZONE COUNT SCHEDULE" in, the times of each
 * in a line out, as Unix seconds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <wherry/schedule.h>

static int show(int64_t at_s, const char *zone, int count, const char *text)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_schedule *schedule = NULL;
	int64_t at_us = at_s * 1000000;

	if (wherry_schedule_parse(text, zone, &schedule, &err) != WHERRY_OK) {
		(void)fprintf(stderr, "%s\n", err.message);
		return 1;
	}
	for (int i = 0; i < count; i++) {
		if (wherry_schedule_next(schedule, at_us, &at_us, &err) != WHERRY_OK)
			break;
		(void)printf("%s%" PRId64, i ? " " : "", at_us / 1000000);
	}
	(void)putchar('\n');
	wherry_schedule_free(schedule);
	return 0;
}

int main(void)
{
	char line[512], zone[100];
	long long at_s;
	int count, skip;

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%lld %99s %d %n", &at_s, zone, &count, &skip) != 3 ||
		    show(at_s, zone, count, line + skip) != 0)
			return 1;
	}
	return 0;
}
