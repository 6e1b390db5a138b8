#include "publish/exec/command.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "publish/parts.h"

enum { ERR_MOST = 64 * 1024 /* Bytes read at once: all that a pipe holds. */ };

/* P_PIDFD of waitid(2).  glibc has the name, and pidfd_open(), since 2.36. */
static const idtype_t of_pidfd = (idtype_t)3;

/* ---- start ---- */

static void close_fd(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

/* Move the descriptor above 2.  If the application has closed its standard descriptors, a
 * new one may be 0 to 2, and the child's dup2() to 0 and 2 would collide with it. */
static bool above_standard(int *fd)
{
	int higher;

	if (*fd > STDERR_FILENO)
		return true;
	higher = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close_fd(fd);
	*fd = higher;
	return higher >= 0;
}

/* The end that we read does not block.  The command's end blocks, as programs expect. */
static bool open_pipe(int *out_read, int *out_write)
{
	int fds[2];
	int flags;

	if (pipe2(fds, O_CLOEXEC) != 0)
		return false;
	*out_read = fds[0];
	*out_write = fds[1];
	if (!above_standard(out_read) || !above_standard(out_write))
		return false;
	flags = fcntl(*out_read, F_GETFL);
	return flags >= 0 && fcntl(*out_read, F_SETFL, flags | O_NONBLOCK) == 0;
}

/*
 * The command's stdin is a file in memory that has the whole input.  A pipe would not do:
 * if the relay were killed, the command would take the end of the pipe for the end of the
 * message (a_command_gets_the_whole_body_though_its_relay_is_killed).
 */
static bool open_input(int *out, const char *input, size_t len)
{
	*out = memfd_create("wherry message", MFD_CLOEXEC);
	if (*out < 0 || !above_standard(out))
		return false;
	for (size_t sent = 0; sent < len;) {
		ssize_t n = wh_quiet_write(*out, input + sent, len - sent);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		sent += (size_t)n;
	}
	return lseek(*out, 0, SEEK_SET) == 0;
}

/* The command gets a separate process group, so that all its processes can be killed.  In
 * it no signals are blocked, and SIGPIPE has its default action. */
static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t none, pipe_only;
	int number;

	(void)sigemptyset(&none);
	(void)sigemptyset(&pipe_only);
	(void)sigaddset(&pipe_only, SIGPIPE);
	number = posix_spawnattr_setpgroup(attributes, 0);
	if (!number)
		number = posix_spawnattr_setsigmask(attributes, &none);
	if (!number)
		number = posix_spawnattr_setsigdefault(attributes, &pipe_only);
	if (!number)
		number = posix_spawnattr_setflags(
			attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
					    POSIX_SPAWN_SETSIGDEF);
	return number;
}

/* Start the command.  Returns 0, or an errno. */
static int spawn(pid_t *out, char *text, char *const *environment, int in, int err)
{
	char sh[] = "sh", option[] = "-c";
	char *const argv[] = {sh, option, text, NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int number;

	number = posix_spawn_file_actions_init(&actions);
	if (number)
		return number;
	number = posix_spawnattr_init(&attributes);
	if (number)
		goto out_actions;
	number = set_attributes(&attributes);
	if (!number)
		number = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	if (!number)
		number = posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
	if (!number)
		number = posix_spawn(out, "/bin/sh", &actions, &attributes, argv,
				     environment);
	(void)posix_spawnattr_destroy(&attributes);
out_actions:
	(void)posix_spawn_file_actions_destroy(&actions);
	return number;
}

static bool watch(wh_command *command, int fd, uint32_t events)
{
	struct epoll_event event = {.events = events, .data = {.ptr = command}};

	return epoll_ctl(command->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* Remove the descriptor from the epoll and close it.  Closing alone does not remove it
 * while a fork of the application has a copy open. */
static void unwatch(wh_command *command, int *fd)
{
	if (*fd >= 0)
		(void)epoll_ctl(command->epoll, EPOLL_CTL_DEL, *fd, NULL);
	close_fd(fd);
}

static bool watch_all(wh_command *command)
{
	command->pidfd = (int)syscall(SYS_pidfd_open, command->pid, 0);
	return command->pidfd >= 0 && watch(command, command->pidfd, EPOLLIN) &&
	       watch(command, command->err, EPOLLIN);
}

static wherry_code start_failed(int number, wherry_error *err)
{
	if (number == E2BIG)
		return wh_fail_native(err, WHERRY_TOOBIG, number,
				      "headers too large for the environment");
	return wh_fail_errno(err, number, "cannot start a command");
}

wherry_code wh_command_start(wh_command *command, char *text, char *const *environment,
			     const void *input, size_t input_len, int epoll,
			     wherry_error *err)
{
	int their_in = -1, their_err = -1;
	int number = 0;

	*command = (wh_command){.epoll = epoll, .pidfd = -1, .err = -1};
	if (!open_input(&their_in, input, input_len) ||
	    !open_pipe(&command->err, &their_err))
		number = errno;
	if (!number)
		number = spawn(&command->pid, text, environment, their_in, their_err);
	close_fd(&their_in);
	close_fd(&their_err);
	if (!number && !watch_all(command)) {
		number = errno;
		(void)kill(-command->pid, SIGKILL);
		while (waitpid(command->pid, NULL, 0) < 0 && errno == EINTR)
			;
		unwatch(command, &command->pidfd);
	}
	if (number) {
		unwatch(command, &command->err);
		return start_failed(number, err);
	}
	return WHERRY_OK;
}

/* ---- pump ---- */

/* Pass on the last line unless it is empty or has already been passed on. */
static void say_last(wh_command *command)
{
	if (command->said && !command->last_ended && command->last_len)
		command->said(command->said_ctx, command->last);
}

static void remember(wh_command *command, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '\n') {
			command->last[command->last_len] = 0;
			say_last(command);
			command->last_ended = true;
			continue;
		}
		if (command->last_ended)
			command->last_len = 0;
		command->last_ended = false;
		if (command->last_len + 1 < sizeof(command->last))
			command->last[command->last_len++] = text[i] ? text[i] : ' ';
	}
	command->last[command->last_len] = 0;
}

static void listen_to(wh_command *command)
{
	char text[PIPE_BUF];

	for (size_t done = 0; command->err >= 0 && done < ERR_MOST;) {
		ssize_t n = read(command->err, text, sizeof(text));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			unwatch(command, &command->err);
			return;
		}
		done += (size_t)n;
		remember(command, text, (size_t)n);
	}
}

/* Reap the process.  True: it has ended, and how and status are set. */
static bool reap(wh_command *command, int options)
{
	siginfo_t info = {0};

	while (waitid(of_pidfd, (id_t)command->pidfd, &info, WEXITED | options) != 0) {
		if (errno == EINTR)
			continue;
		command->how = 0; /* ECHILD: the application has reaped it. */
		return true;
	}
	if (!info.si_pid)
		return false;
	command->how = info.si_code;
	command->status = info.si_status;
	return true;
}

void wh_command_listen(wh_command *command, wh_said_fn said, void *ctx)
{
	command->said = said;
	command->said_ctx = ctx;
}

bool wh_command_pump(wh_command *command)
{
	bool over;

	if (command->pidfd < 0)
		return true;
	over = reap(command, WNOHANG);
	/* Read after the process has ended, so that no line is missed.  Do not wait for
	 * the end of stderr: background processes may keep it open. */
	listen_to(command);
	if (!over)
		return false;
	say_last(command);
	unwatch(command, &command->pidfd);
	unwatch(command, &command->err);
	return true;
}

/* ---- end ---- */

void wh_command_kill(wh_command *command)
{
	/* The process is not reaped yet, so no other group can have its number. */
	if (command->pidfd >= 0)
		(void)kill(-command->pid, SIGKILL);
}

void wh_command_close(wh_command *command)
{
	if (command->pidfd >= 0)
		(void)reap(command, 0);
	unwatch(command, &command->pidfd);
	unwatch(command, &command->err);
}
