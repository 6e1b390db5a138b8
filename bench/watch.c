/*
 * What a process costs.  Statements are counted by SQLite itself, on every connection
 * that the process opens, whoever opens it.
 */
#include "bench.h"

#include <sqlite3.h>
#include <string.h>

#include "base/env.h"
#include "cli/bench.h"

static int64_t n_statements;

static int count(unsigned event, void *ctx, void *stmt, void *text)
{
	if (strcmp(text, "PRAGMA data_version") != 0)
		n_statements++;
	return 0;
}

static int attach(sqlite3 *db, char **why, const struct sqlite3_api_routines *api)
{
	return sqlite3_trace_v2(db, SQLITE_TRACE_STMT, count, NULL);
}

void bench_watch_statements(void)
{
	(void)sqlite3_auto_extension((void (*)(void))attach);
}

int64_t bench_statements(void)
{
	return n_statements;
}

double bench_memory_mb(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[128];
	int64_t kb = 0;

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "VmHWM:", 6) == 0)
			kb = wh_bench_digits(line + 6);
	if (file)
		(void)fclose(file);
	return (double)kb / 1024;
}

int64_t bench_now(void)
{
	return wh_monotonic(&wh_env_system);
}

double bench_rate(int64_t n, int64_t began_us)
{
	return (double)n * 1e6 / (double)(bench_now() - began_us + 1);
}
