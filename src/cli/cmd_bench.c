#include "cli/bench.h"
#include "cli/commands.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/env.h"
#include "base/url.h"

/* ---- a database for the time of the bench ---- */

enum { PATH_CAP = 300, FILES = 3 };

/* The temporary folder; the handler of signals removes it. */
static char temp_dir[PATH_CAP];
static char temp_files[FILES][PATH_CAP + 16];

static void remove_temp(void)
{
	for (int i = 0; i < FILES && *temp_dir; i++)
		(void)unlink(temp_files[i]);
	if (*temp_dir)
		(void)rmdir(temp_dir);
	*temp_dir = 0;
}

static void on_signal(int number)
{
	remove_temp();
	_exit(128 + number);
}

static wherry_code make_temp(char *url, size_t cap, wherry_error *err)
{
	static const char *const ends[FILES] = {"", "-wal", "-shm"};
	const char *parent = secure_getenv("TMPDIR");
	char dir[PATH_CAP];

	(void)snprintf(dir, sizeof(dir), "%.200s/wherry-bench-XXXXXX",
		       parent && *parent ? parent : "/tmp");
	if (!mkdtemp(dir))
		return wh_fail_errno(err, errno, "%s", dir);
	for (int i = 0; i < FILES; i++)
		(void)snprintf(temp_files[i], sizeof(temp_files[i]), "%s/bench.db%s", dir,
			       ends[i]);
	memcpy(temp_dir, dir, sizeof(dir));
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGTERM, on_signal);
	(void)signal(SIGHUP, on_signal);
	(void)snprintf(url, cap, "sqlite:%s", temp_files[0]);
	return WHERRY_OK;
}

/* ---- running the parts ---- */

/* Resident memory of a process in KB; 0: unknown. */
static int64_t memory_of(int pid)
{
	char path[40], line[128];
	int64_t kb = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file))
		if (strncmp(line, "VmRSS:", 6) == 0)
			kb = wh_bench_digits(line + 6);
	(void)fclose(file);
	return kb;
}

/* Wait until a part ends, and raise *memory_kb to the most memory that it had. */
static int wait_part(int pid, int64_t *memory_kb)
{
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		int64_t kb = memory_of(pid);

		if (kb > *memory_kb)
			*memory_kb = kb;
		wh_sleep(&wh_env_system, 5000);
	}
	return status;
}

static wherry_code run_part(wh_bench *b, wh_bench_fn fn, wherry_error *err)
{
	int pid = wh_bench_start(b, fn), status;
	int64_t memory_kb = 0;

	if (pid < 0)
		return wh_fail_errno(err, errno, "cannot start a process");
	status = wait_part(pid, &memory_kb);
	if (fn == wh_bench_drain)
		b->shared->memory_kb = memory_kb;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return WHERRY_OK;
	if (*b->shared->failure)
		return wh_fail(err, WHERRY_IO, "%s", b->shared->failure);
	return wh_fail(err, WHERRY_IO, "a part of the bench died with status %d", status);
}

static void line(bool json, const char *name, double value, const char *unit, int digits)
{
	if (json)
		return;
	(void)printf("%-12s %12.*f  %s\n", name, digits, value, unit);
	(void)fflush(stdout); /* one by one, as they come */
}

static wherry_code run_all(wh_bench *b, bool json, wherry_error *err)
{
	wh_bench_shared *s = b->shared;
	wherry_code code = wh_bench_prepare(b, err);

	if (code == WHERRY_OK)
		code = run_part(b, wh_bench_enqueue, err);
	if (code != WHERRY_OK)
		return code;
	line(json, "enqueue", s->enqueue_rate, "messages/s, 100 in a transaction", 0);
	code = run_part(b, wh_bench_drain, err);
	if (code != WHERRY_OK)
		return code;
	line(json, "drain", s->drain_rate, "messages/s to null:, 1000 keys", 0);
	line(json, "memory", (double)s->memory_kb / 1024, "MB resident while draining",
	     1);
	code = run_part(b, wh_bench_latency, err);
	if (code != WHERRY_OK)
		return code;
	line(json, "latency-p50", s->p50_ms, "ms from commit to submit at 200/s", 3);
	line(json, "latency-p99", s->p99_ms, "ms", 3);
	return run_part(b, wh_bench_clean, err);
}

static void print_json(const wh_bench *b)
{
	const wh_bench_shared *s = b->shared;

	(void)printf(
		"{\"messages\":%lld,\"enqueue_per_second\":%.0f,"
		"\"drain_per_second\":%.0f,"
		"\"memory_kb\":%lld,\"latency_p50_ms\":%.3f,\"latency_p99_ms\":%.3f}\n",
		(long long)b->messages, s->enqueue_rate, s->drain_rate,
		(long long)s->memory_kb, s->p50_ms, s->p99_ms);
}

static wh_exit run(wh_args *args)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wh_bench b = {
		.url = wh_operand(args, 0),
		.config = args->config,
		.messages = 100000,
		.probes = WH_BENCH_PROBES,
	};
	wherry_code code = WHERRY_OK;
	char url[PATH_CAP + 32];

	if (!wh_arg_count(args, "messages", 1, 100000000, &b.messages))
		return WH_EXIT_USAGE;
	b.shared = mmap(NULL, sizeof(*b.shared), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (b.shared == MAP_FAILED)
		return wh_complain(NULL, "out of memory");
	if (!b.url) {
		code = make_temp(url, sizeof(url), &err);
		b.url = url;
	}
	if (code == WHERRY_OK)
		code = run_all(&b, wh_arg_on(args, "json"), &err);
	if (code == WHERRY_OK && wh_arg_on(args, "json"))
		print_json(&b);
	remove_temp();
	(void)munmap(b.shared, sizeof(*b.shared));
	if (code == WHERRY_INVALID)
		return wh_usage(args->command, "%s", err.message);
	return code == WHERRY_OK ? WH_EXIT_DONE : wh_report(&err);
}

static const wh_option options[] = {
	{"messages", "N", "How many to enqueue and to drain. (default 100000)", NULL, 0},
	WH_JSON_OPTION,
	{0},
};

const wh_command wh_cmd_bench = {
	.name = "bench",
	.operands = "[URL]",
	.synopsis = "[URL] [--messages N] [--json]",
	.brief = "Measure this machine: rates, latency, memory",
	.help = "Without a URL it works on a new file in TMPDIR, which should "
		"be on the disk that the real one is on; a URL must name an empty "
		"outbox, which is empty again afterwards.\n"
		"\n"
		"enqueue and drain are rates over all messages; memory is the relay's "
		"while it drains them; the latency is from a COMMIT in one process to "
		"the hand-over in another, at a calm 200 messages a second.\n"
		"\n"
		"Examples:\n"
		"  wherry bench\n"
		"  TMPDIR=/data wherry bench --messages 1000000 --json\n",
	.options = options,
	.preset = "db.create",
	.run = run,
};
