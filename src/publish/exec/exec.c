/*
 * exec: runs a shell command for each message, several at once.
 *
 *            submit                pump says over            collect
 *   free ─────────────► running ─────────────────► over ──────────────► free
 *     │                                              ▲
 *     └── refused: malformed or too large ───────────┘
 *
 * A command that cannot be run (exit status 126 or 127) is a failure of the destination,
 * not of the message.  The driver then takes no more messages, waits for the running
 * commands, and fails in collect.
 */
#include "publish/driver.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/json.h"
#include "base/url.h"
#include "config/settings.h"
#include "publish/exec/command.h"
#include "publish/exec/environment.h"
#include "publish/parts.h"

/* Exit statuses of the shell, and of sysexits.h. */
enum {
	EXIT_REJECTED = 65,
	EXIT_TEMPORARY = 75,
	EXIT_NOT_EXECUTABLE = 126,
	EXIT_NOT_FOUND
};

/* Most lines of stderr that are logged in a second, over all commands. */
enum { SAID_MOST = 100 };

typedef enum phase { FREE, RUNNING, OVER, BROKEN } phase;

typedef struct exec_job {
	wh_command command; /* First member: epoll events point to it. */
	struct exec_publisher *publisher;
	const wherry_message *message;
	phase phase;
	bool killed;         /* It was killed when its time was up. */
	int64_t deadline_us; /* WH_NEVER after it was killed. */
	wherry_verdict verdict;
	char reason[sizeof(((wh_receipt *)NULL)->reason)];
} exec_job;

typedef struct exec_publisher {
	wherry_publisher base;
	const wh_env *env;
	char *text; /* The shell command. */
	char *also; /* The setting exec.environment. */
	int64_t limit_us;
	int epoll;
	wh_environment environment;
	exec_job *jobs;
	exec_job **order; /* The first n are in use, the others are FREE. */
	size_t n, most;
	bool broken;
	int64_t said_from_us; /* Start of the second in which lines are counted. */
	int n_said, n_unsaid; /* Lines logged, and not logged, in that second. */
} exec_publisher;

static exec_publisher *of(wherry_publisher *pub)
{
	return (exec_publisher *)pub;
}

/* ---- what commands write to stderr ---- */

static void begin_second(exec_publisher *p, int64_t now_us)
{
	if (p->n_unsaid)
		wh_log(p->env, WHERRY_LOG_WARN, "exec", "child-stderr-dropped",
		       wh_log_int("lines", p->n_unsaid),
		       wh_log_note(
			       "commands wrote more lines than are logged in a second"));
	p->said_from_us = now_us;
	p->n_said = p->n_unsaid = 0;
}

static void log_said(void *ctx, const char *line)
{
	const exec_job *job = ctx;
	exec_publisher *p = job->publisher;
	int64_t now_us = wh_monotonic(p->env);

	if (now_us - p->said_from_us >= WH_SECOND)
		begin_second(p, now_us);
	if (p->n_said >= SAID_MOST) {
		p->n_unsaid++;
		return;
	}
	p->n_said++;
	wh_log(p->env, WHERRY_LOG_INFO, "exec", "child-stderr",
	       wh_log_int("id", job->message->id), wh_log_text("text", line));
}

/* ---- open and close ---- */

static void exec_drop(wherry_publisher *pub)
{
	exec_publisher *p = of(pub);

	for (size_t i = 0; i < p->n; i++)
		if (p->order[i]->phase == RUNNING)
			wh_command_kill(&p->order[i]->command);
	for (size_t i = 0; i < p->n; i++) {
		if (p->order[i]->phase == RUNNING)
			wh_command_close(&p->order[i]->command);
		p->order[i]->phase = FREE;
		p->order[i]->message = NULL;
	}
	p->n = 0;
	p->broken = false;
}

static void exec_close(wherry_publisher *pub)
{
	exec_publisher *p = of(pub);

	exec_drop(pub);
	begin_second(p, 0);
	if (p->epoll >= 0)
		(void)close(p->epoll);
	wh_environment_clear(&p->environment);
	free(p->text);
	free(p->also);
	free(p->jobs);
	free(p->order);
	free(p);
}

static wherry_code check_open(const char *rest, const wherry_config *config,
			      wherry_error *err)
{
	struct sigaction action;
	wherry_code code =
		wh_environment_check(wh_config_text(config, WH_EXEC_ENVIRONMENT), err);

	if (code != WHERRY_OK)
		return code;
	if (!rest[strspn(rest, " \t\r\n")])
		return wh_fail(err, WHERRY_INVALID,
			       "exec: needs a command, as in exec:./deliver.sh");
	if (sigaction(SIGCHLD, NULL, &action) == 0 &&
	    (action.sa_handler == SIG_IGN || (action.sa_flags & SA_NOCLDWAIT)))
		return wh_fail(
			err, WHERRY_INVALID,
			"exec: needs exit statuses, but this program ignores SIGCHLD: set "
			"it to SIG_DFL first");
	return WHERRY_OK;
}

static wherry_code allocate(exec_publisher *p, const char *rest, wherry_error *err)
{
	p->text = strdup(rest);
	p->jobs = calloc(p->most, sizeof(*p->jobs));
	p->order = calloc(p->most, sizeof(exec_job *));
	if (!p->text || !p->also || !p->jobs || !p->order)
		return wh_oom(err);
	for (size_t i = 0; i < p->most; i++)
		p->order[i] = &p->jobs[i];
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (p->epoll < 0)
		return wh_fail_errno(err, errno, "cannot watch commands");
	return WHERRY_OK;
}

static wherry_code exec_open(const char *rest, const wherry_config *config,
			     const wh_env *env, wherry_publisher **out, wherry_error *err)
{
	exec_publisher *p;
	wherry_code code = check_open(rest, config, err);

	if (code != WHERRY_OK)
		return code;
	p = calloc(1, sizeof(*p));
	if (!p)
		return wh_oom(err);
	p->base.driver = &wh_publisher_exec;
	p->env = env;
	p->epoll = -1;
	p->environment = (wh_environment)WH_ENVIRONMENT_INIT;
	p->also = strdup(wh_config_text(config, WH_EXEC_ENVIRONMENT));
	p->environment.also = p->also;
	p->most = (size_t)wh_config_int(config, WH_EXEC_JOBS);
	p->limit_us = wh_delivery_limit(config);
	code = allocate(p, rest, err);
	if (code == WHERRY_OK)
		*out = &p->base;
	else
		exec_close(&p->base);
	return code;
}

static wherry_code exec_check(const char *rest, const wherry_config *config,
			      wherry_error *err)
{
	return check_open(rest, config, err);
}

/* ---- running ---- */

static void finish(exec_job *job, wherry_verdict verdict, const char *reason)
{
	job->phase = OVER;
	job->verdict = verdict;
	(void)snprintf(job->reason, sizeof(job->reason), "%.*s",
		       (int)sizeof(job->reason) - 1, reason);
}

static wherry_code start(exec_publisher *p, exec_job *job, const wherry_message *msg,
			 wherry_error *err)
{
	const char *headers = wh_message_headers(msg);
	wherry_error why = WHERRY_ERROR_INIT;
	wherry_code code;

	job->message = msg;
	if (wh_json_headers(headers, strlen(headers), &why) != WHERRY_OK) {
		finish(job, WHERRY_REJECTED, why.message);
		return WHERRY_OK;
	}
	code = wh_environment_fill(&p->environment, msg, err);
	if (code != WHERRY_OK)
		return code;
	code = wh_command_start(&job->command, p->text, p->environment.list, msg->body,
				msg->body ? msg->body_len : 0, p->epoll, &why);
	if (code == WHERRY_TOOBIG) {
		finish(job, WHERRY_REJECTED, why.message);
		return WHERRY_OK;
	}
	if (code != WHERRY_OK)
		return wh_fail_native(err, code, why.native, "%s", why.message);
	job->phase = RUNNING;
	job->publisher = p;
	wh_command_listen(&job->command, log_said, job);
	job->killed = false;
	job->deadline_us = wh_later(wh_monotonic(p->env), p->limit_us);
	return WHERRY_OK;
}

static wherry_code exec_submit(wherry_publisher *pub, const wherry_message *const *msgs,
			       size_t n, size_t *out_taken, wherry_error *err)
{
	exec_publisher *p = of(pub);
	wherry_code code = WHERRY_OK;
	size_t i;

	for (i = 0; i < n && p->n < p->most && !p->broken; i++) {
		code = start(p, p->order[p->n], msgs[i], err);
		if (code != WHERRY_OK)
			break;
		p->n++;
	}
	*out_taken = i;
	/* Out of processes or descriptors: running commands will free some. */
	return p->n ? WHERRY_OK : code;
}

/* ---- ending ---- */

/* The reason is the last line that the command wrote, else `otherwise`. */
static void conclude(exec_job *job, wherry_verdict verdict, const char *otherwise)
{
	const char *last = job->command.last;

	finish(job, verdict, last[strspn(last, " \t\r")] ? last : otherwise);
}

static void conclude_exit(exec_publisher *p, exec_job *job)
{
	char text[40];

	(void)snprintf(text, sizeof(text), "exit status %d", job->command.status);
	switch (job->command.status) {
	case 0:
		finish(job, WHERRY_DELIVERED, "");
		break;
	case EXIT_REJECTED:
		conclude(job, WHERRY_REJECTED, text);
		break;
	case EXIT_NOT_EXECUTABLE:
	case EXIT_NOT_FOUND:
		conclude(job, WHERRY_UNKNOWN, text);
		job->phase = BROKEN;
		p->broken = true;
		break;
	case EXIT_TEMPORARY:
	default:
		conclude(job, WHERRY_RETRY, text);
	}
}

/* The name of a signal that ends a process; NULL: another one.  sigabbrev_np() needs glibc
 * 2.32. */
static const char *signal_name(int number)
{
	static const struct {
		int number;
		const char *name;
	} signals[] = {
		{SIGABRT, "ABRT"}, {SIGALRM, "ALRM"}, {SIGBUS, "BUS"},
		{SIGFPE, "FPE"},   {SIGHUP, "HUP"},   {SIGILL, "ILL"},
		{SIGINT, "INT"},   {SIGKILL, "KILL"}, {SIGPIPE, "PIPE"},
		{SIGQUIT, "QUIT"}, {SIGSEGV, "SEGV"}, {SIGSYS, "SYS"},
		{SIGTERM, "TERM"}, {SIGTRAP, "TRAP"}, {SIGUSR1, "USR1"},
		{SIGUSR2, "USR2"}, {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"},
	};

	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (signals[i].number == number)
			return signals[i].name;
	return NULL;
}

static void conclude_signal(exec_publisher *p, exec_job *job)
{
	const char *name = signal_name(job->command.status);
	char text[60], limit[32];

	if (job->killed) {
		wh_duration_print(p->limit_us, limit, sizeof(limit));
		(void)snprintf(text, sizeof(text), "timed out after %s", limit);
		finish(job, WHERRY_UNKNOWN, text);
		return;
	}
	(void)snprintf(text, sizeof(text), "killed by SIG%s", name ? name : "NAL");
	conclude(job, WHERRY_RETRY, text);
}

static void pump(exec_publisher *p, exec_job *job)
{
	if (job->phase != RUNNING || !wh_command_pump(&job->command))
		return;
	if (job->command.how == CLD_EXITED)
		conclude_exit(p, job);
	else if (job->command.how)
		conclude_signal(p, job);
	else
		finish(job, WHERRY_UNKNOWN,
		       "its exit status was taken by another part of this program");
}

/* Kill commands whose time is up.  The receipt follows when the command is reaped.  If it
 * came earlier, the next message of the key could overtake a command that still runs. */
static void kill_late(exec_publisher *p)
{
	int64_t now_us = wh_monotonic(p->env);

	for (size_t i = 0; i < p->n; i++) {
		exec_job *job = p->order[i];

		if (job->phase != RUNNING || now_us < job->deadline_us)
			continue;
		wh_command_kill(&job->command);
		job->killed = true;
		job->deadline_us = WH_NEVER;
	}
}

static void release(exec_publisher *p, size_t i)
{
	exec_job *job = p->order[i];

	job->phase = FREE;
	job->message = NULL;
	p->order[i] = p->order[--p->n];
	p->order[p->n] = job;
}

static wherry_code fail_broken(const exec_publisher *p, wherry_error *err)
{
	const char *reason = "";
	char program[80];

	for (size_t i = 0; i < p->n; i++)
		if (p->order[i]->phase == BROKEN)
			reason = p->order[i]->reason;
		else
			return WHERRY_OK; /* Wait for this command first. */
	if (!p->n)
		return WHERRY_OK;
	wh_url_show_command(p->text, program, sizeof(program));
	return wh_fail(err, WHERRY_INVALID, "the command '%s' cannot be run: %.120s",
		       program, reason);
}

static wherry_code exec_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				size_t *out_n, wherry_error *err)
{
	exec_publisher *p = of(pub);
	struct epoll_event events[64];
	size_t n = 0;
	int ready = epoll_wait(p->epoll, events, 64, 0);

	/* Events that do not fit stay ready for the next call. */
	for (int i = 0; i < ready; i++)
		pump(p, events[i].data.ptr);
	kill_late(p);
	for (size_t i = 0; i < p->n && n < cap;) {
		const exec_job *job = p->order[i];

		if (job->phase != OVER) {
			i++;
			continue;
		}
		wh_receipt_fill(&out[n++], job->message, job->verdict, job->reason);
		release(p, i);
	}
	*out_n = n;
	return n ? WHERRY_OK : fail_broken(p, err);
}

static int exec_fd(wherry_publisher *pub, short *out_events)
{
	const exec_publisher *p = of(pub);

	if (!p->n)
		return -1;
	*out_events = POLLIN;
	return p->epoll;
}

static int64_t exec_deadline(wherry_publisher *pub)
{
	const exec_publisher *p = of(pub);
	int64_t deadline_us = WH_NEVER;
	bool runs = false;

	for (size_t i = 0; i < p->n; i++) {
		const exec_job *job = p->order[i];

		runs = runs || job->phase == RUNNING;
		if (job->phase == OVER)
			return 0;
		if (job->phase == RUNNING && job->deadline_us < deadline_us)
			deadline_us = job->deadline_us;
	}
	return p->n && !runs ? 0 : deadline_us;
}

const wh_publisher_driver wh_publisher_exec = {
	.scheme = "exec",
	.caps = 0,
	.check = exec_check,
	.open = exec_open,
	.close = exec_close,
	.submit = exec_submit,
	.collect = exec_collect,
	.drop = exec_drop,
	.fd = exec_fd,
	.deadline = exec_deadline,
};
