/*
 * Running sides: each in a process of its own.
 *
 * The parent opens no database, so that a child begins with as little memory as a program
 * of its own would.
 */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { URL_CAP = 300, NAME_CAP = 64 };

/* What a child leaves behind. */
typedef struct answer {
	double value[BENCH_VALUES];
	char failure[240];
} answer;

typedef struct runner {
	bench_place place;
	answer *answers; /* shared, one for each side, and one for a backlog */
	bool progress;
	int group, n_groups; /* for the progress */
} runner;

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	stopped = number;
}

/* ---- processes ---- */

wherry_error bench_error = WHERRY_ERROR_INIT;
static answer *mine; /* of this process, if it is that of a side */

void bench_die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(mine->failure, sizeof(mine->failure), fmt, args);
	va_end(args);
	_exit(1);
}

void bench_must(wherry_code code)
{
	if (code != WHERRY_OK)
		bench_die("%s", bench_error.message);
}

void *bench_alloc(size_t n, size_t size)
{
	void *memory = calloc(n, size);

	if (!memory)
		bench_die("no memory");
	return memory;
}

void bench_must_be_all(const bench_job *job, int64_t n)
{
	if (n != job->messages)
		bench_die("%" PRId64 " of %" PRId64 " messages", n, job->messages);
}

int bench_fork(void)
{
	pid_t pid = fork();

	if (pid == 0)
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (pid < 0)
		bench_die("cannot start a process");
	return pid;
}

bench_server bench_serve(const char *script, char *line, size_t cap)
{
	bench_server server;
	int to[2], from[2];
	ssize_t n;

	if (pipe(to) != 0 || pipe(from) != 0)
		bench_die("no pipe");
	server.in = to[1];
	server.pid = fork();
	if (server.pid < 0)
		bench_die("cannot start a process");
	if (server.pid == 0) {
		(void)dup2(to[0], STDIN_FILENO);
		(void)dup2(from[1], STDOUT_FILENO);
		(void)close(to[1]);
		(void)execl("/bin/bash", "bash", script, (char *)NULL);
		_exit(127);
	}
	(void)close(to[0]);
	(void)close(from[1]);
	n = read(from[0], line, cap - 1);
	if (n <= 0)
		bench_die("%s starts no server: is it installed?", script);
	line[n] = 0;
	return server;
}

void bench_serve_end(const bench_server *server)
{
	(void)close(server->in);
	(void)waitpid(server->pid, NULL, 0);
}

void bench_kill(int pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static void be_child(bench_work *run, const bench_job *job, answer *a)
{
	mine = a;
	(void)signal(SIGINT, SIG_DFL);
	(void)signal(SIGTERM, SIG_DFL);
	(void)signal(SIGHUP, SIG_DFL);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(job, a->value);
	_exit(0);
}

static pid_t start(bench_work *run, const bench_job *job, answer *a)
{
	pid_t pid;

	*a = (answer){.failure = ""};
	(void)fflush(NULL); /* or the child writes it as well */
	pid = fork();
	if (pid == 0)
		be_child(run, job, a);
	return pid;
}

static wherry_code await(pid_t pid, const answer *a, const char *name, wherry_error *err)
{
	int status = 0;

	if (pid < 0)
		return wh_fail_errno(err, errno, "cannot start a process");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		if (stopped)
			(void)kill(pid, SIGKILL);
	if (stopped)
		return wh_fail(err, WHERRY_INTERRUPTED, "stopped by a signal");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_IO, "%s: %s", name,
		       *a->failure ? a->failure : "its process died");
}

wherry_code bench_in_child(const char *what, bench_work *run, const bench_job *job,
			   double *out, wherry_error *err)
{
	answer *a = mmap(NULL, sizeof(*a), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	wherry_code code;

	if (a == MAP_FAILED)
		return wh_oom(err);
	code = await(start(run, job, a), a, what, err);
	memcpy(out, a->value, sizeof(a->value));
	(void)munmap(a, sizeof(*a));
	return code;
}

/* ---- a side's database ---- */

static bench_work *backlog_maker(const runner *r)
{
#ifdef WHERRY_ODBC
	if (r->place.mssql)
		return bench_odbc_backlog;
#else
#endif
	return bench_make_backlog;
}

/* Made once, then copied for each run; on SQL Server made for each. */
static wherry_code backlog(runner *r, const bench_side *side, char *name, size_t cap,
			   wherry_error *err)
{
	answer *a = &r->answers[BENCH_SIDES_MOST];
	bench_job job = side->job;
	char url[URL_CAP];
	wherry_code code;

	(void)snprintf(name, cap, "backlog_%" PRId64 "_%d_%d%s", side->backlog,
		       side->backlog ? job.keys : 0, side->backlog ? job.body : 0,
		       job.stream ? "_stream" : "");
	if (bench_place_has(&r->place, name))
		return WHERRY_OK;
	code = bench_place_new(&r->place, name, err);
	if (code != WHERRY_OK)
		return code;
	bench_place_url(&r->place, name, url, sizeof(url));
	job.url = url;
	job.messages = side->backlog;
	job.per_transaction = 10000;
	job.full = false;
	return await(start(backlog_maker(r), &job, a), a, "making a backlog", err);
}

static wherry_code prepare(runner *r, bench_side *side, int i, wherry_error *err)
{
	char from[NAME_CAP], to[NAME_CAP];
	wherry_code code = backlog(r, side, from, sizeof(from), err);

	if (code != WHERRY_OK)
		return code;
	(void)snprintf(to, sizeof(to), "side_%d", i);
	bench_place_url(&r->place, to, side->url, sizeof(side->url));
	side->job.url = side->url;
	return bench_place_copy(&r->place, from, to, err);
}

/* ---- turns ---- */

static void show(const runner *r, const bench_side *side, int turn, int turns)
{
	if (r->progress)
		(void)fprintf(stderr, "\r\033[K[%d of %d] turn %d of %d: %s", r->group,
			      r->n_groups, turn + 1, turns, side->name);
}

static void hide(const runner *r)
{
	if (r->progress)
		(void)fprintf(stderr, "\r\033[K");
}

static void keep(bench_side *side, const answer *a)
{
	for (int i = 0; i < BENCH_VALUES; i++)
		side->runs[i][side->n_runs] = a->value[i];
	side->n_runs++;
}

static wherry_code run_in_turn(runner *r, bench_group *g, wherry_error *err)
{
	int turns = g->runs + g->warm_up;
	wherry_code code = WHERRY_OK;

	for (int turn = 0; turn < turns; turn++) {
		for (int i = 0; i < g->n && code == WHERRY_OK; i++) {
			bench_side *side = &g->sides[i];
			answer *a = &r->answers[i];

			if (!side->wanted)
				continue;
			show(r, side, turn, turns);
			code = prepare(r, side, i, err);
			if (code == WHERRY_OK)
				code = await(start(side->run, &side->job, a), a,
					     side->name, err);
			if (code == WHERRY_OK && turn >= g->warm_up)
				keep(side, a);
		}
	}
	return code;
}

static wherry_code run_at_once(runner *r, bench_group *g, wherry_error *err)
{
	pid_t pids[BENCH_SIDES_MOST] = {0};
	wherry_code code = WHERRY_OK, one;

	for (int i = 0; i < g->n && code == WHERRY_OK; i++)
		if (g->sides[i].wanted)
			code = prepare(r, &g->sides[i], i, err);
	for (int i = 0; i < g->n && code == WHERRY_OK; i++) {
		if (!g->sides[i].wanted)
			continue;
		show(r, &g->sides[i], 0, 1);
		pids[i] = start(g->sides[i].run, &g->sides[i].job, &r->answers[i]);
	}
	for (int i = 0; i < g->n; i++) {
		if (!pids[i])
			continue;
		one = await(pids[i], &r->answers[i], g->sides[i].name, err);
		if (one == WHERRY_OK)
			keep(&g->sides[i], &r->answers[i]);
		else
			code = one;
	}
	return code;
}

/* A server whose log is as the group needs it. */
static wherry_code move(runner *r, const bench *b, const bench_group *g,
			wherry_error *err)
{
	if (*r->place.dir && r->place.logical == g->logical)
		return WHERRY_OK;
	bench_place_close(&r->place);
	return bench_place_open(&r->place, &b->options, g->logical, err);
}

static bool wanted(const bench_group *g)
{
	for (int i = 0; i < g->n; i++)
		if (g->sides[i].wanted)
			return true;
	return false;
}

static wherry_code run_all(runner *r, bench *b,
			   void (*done)(bench *b, const bench_group *group),
			   wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (int i = 0; i < b->n_groups; i++)
		r->n_groups += wanted(&b->groups[i]);
	for (int i = 0; i < b->n_groups && code == WHERRY_OK; i++) {
		bench_group *g = &b->groups[i];

		if (!wanted(g))
			continue;
		r->group++;
		code = move(r, b, g, err);
		if (code == WHERRY_OK)
			code = g->at_once ? run_at_once(r, g, err)
					  : run_in_turn(r, g, err);
		hide(r);
		if (code == WHERRY_OK)
			done(b, g);
	}
	return code;
}

wherry_code bench_run(bench *b, void (*done)(bench *b, const bench_group *group),
		      wherry_error *err)
{
	struct sigaction action = {.sa_handler = on_signal}; /* waitpid is to notice */
	size_t size = (BENCH_SIDES_MOST + 1) * sizeof(answer);
	runner r = {.place.server = -1, .progress = isatty(STDERR_FILENO)};
	wherry_code code;

	r.answers = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			 -1, 0);
	if (r.answers == MAP_FAILED)
		return wh_oom(err);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGHUP, &action, NULL);
	code = run_all(&r, b, done, err);
	bench_place_close(&r.place);
	(void)munmap(r.answers, size);
	return code;
}
