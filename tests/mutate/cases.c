/*
 * Linked into every test program of ./dev mutate.
 *
 * WHERRY_CASES_SEEN names a file: the program appends, for each of its cases, the places of
 * the code that the case ran.  The build calls __sanitizer_cov_trace_pc at each of them.
 *
 * WHERRY_CASES lists cases, "GROUP.NUMBER" with a blank behind each: the program runs these
 * alone, in this order, until one fails.  Cases that share a setup run in one group.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 4096 };

typedef int (*run_group)(const char *name, const struct CMUnitTest *tests, size_t n,
			 CMFixtureFunction setup, CMFixtureFunction teardown);

extern const char __executable_start[], etext[];

/* One byte for each byte of code, shared with the processes that the program forks. */
static unsigned char *seen;
static size_t seen_size;
static int out = -1;

static const struct CMUnitTest *real; /* the group that runs */
static struct CMUnitTest shown[MOST];
static int group, at = -1;
static double began;
static pid_t self;

__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void)
{
	size_t place;

	if (!seen)
		return;
	place = (size_t)((const char *)__builtin_return_address(0) - __executable_start);
	if (place < seen_size)
		seen[place] = 1;
}

static double now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Append a case, "GROUP.NUMBER SECONDS PLACES NAME" and the places as 32 bits each. */
static void report(const char *name)
{
	static uint32_t places[1 << 20];
	char line[256];
	size_t n = 0;

	if (!seen)
		return;
	for (size_t i = 0; i < seen_size; i += 8) {
		uint64_t eight;

		memcpy(&eight, seen + i, 8);
		for (size_t j = i; eight && j < i + 8; j++) {
			if (seen[j] && n < sizeof(places) / sizeof(*places))
				places[n++] = (uint32_t)j;
		}
	}
	memset(seen, 0, seen_size);
	(void)snprintf(line, sizeof(line), "%d.%d %.3f %zu %.150s\n", group, at,
		       now() - began, n, name);
	if (write(out, line, strlen(line)) < 0 || write(out, places, 4 * n) < 0)
		abort();
	began = now();
}

static void report_rest(void)
{
	if (getpid() != self)
		return;
	at = -1;
	report("*");
}

__attribute__((constructor)) static void begin(void)
{
	const char *path = getenv("WHERRY_CASES_SEEN");

	(void)setvbuf(stdout, NULL, _IOLBF,
		      0); /* a crash must not hide who ended before */
	if (!path)
		return;
	/* Programs that this one runs have other code. */
	out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	(void)unsetenv("WHERRY_CASES_SEEN");
	seen_size = ((size_t)(etext - __executable_start) + 7) & ~(size_t)7;
	seen = mmap(NULL, seen_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		    -1, 0);
	if (out < 0 || seen == MAP_FAILED)
		abort();
	began = now();
	self = getpid();
	(void)atexit(report_rest);
}

static int before(void **state)
{
	report(at < 0 ? "*" : real[at].name);
	at++;
	return real[at].setup_func ? real[at].setup_func(state) : 0;
}

static int survey(run_group run, const char *name, size_t n, CMFixtureFunction setup,
		  CMFixtureFunction teardown)
{
	int failed;

	at = -1;
	for (size_t i = 0; i < n; i++) {
		shown[i] = real[i];
		shown[i].setup_func = before;
	}
	failed = run(name, shown, n, setup, teardown);
	if (n)
		report(real[at].name);
	return failed;
}

static int run_chosen(run_group run, const char *chosen, const char *name, size_t n,
		      CMFixtureFunction setup, CMFixtureFunction teardown)
{
	size_t n_shown = 0;
	int of, number, length;

	while (sscanf(chosen, "%d.%d %n", &of, &number, &length) == 2) {
		chosen += length;
		if (of == group && number >= 0 && (size_t)number < n && n_shown < MOST)
			shown[n_shown++] = real[number];
	}
	if (setup || teardown)
		return n_shown ? run(name, shown, n_shown, setup, teardown) : 0;
	for (size_t i = 0; i < n_shown; i++) {
		int failed = run(name, shown + i, 1, NULL, NULL);

		if (failed)
			return failed;
	}
	return 0;
}

/* Instead of the function of cmocka, which each program calls. */
int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *const tests,
			    const size_t n, CMFixtureFunction setup,
			    CMFixtureFunction teardown)
{
	const char *chosen = getenv("WHERRY_CASES");
	void *found = dlsym(RTLD_NEXT, "_cmocka_run_group_tests");
	run_group run;

	if (!found || n > MOST)
		abort();
	memcpy(&run, &found, sizeof(run));
	group++;
	real = tests;
	if (seen)
		return survey(run, name, n, setup, teardown);
	if (chosen)
		return run_chosen(run, chosen, name, n, setup, teardown);
	return run(name, tests, n, setup, teardown);
}
