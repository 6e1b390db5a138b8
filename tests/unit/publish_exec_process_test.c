/*
 * exec:, and processes: children, descriptors, signals, commands that cannot be run.
 */
#include "publish_exec_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/text.h"
#include "publish/exec/command.h"

/* Submit as a relay that is killed before it does anything else. */
static void submit_and_die(const char *url, const wherry_message *msg)
{
	pid_t relay = fork();
	int status;

	if (!relay) {
		submit_one(open_url(url), msg);
		(void)raise(SIGKILL);
	}
	assert_int_equal(waitpid(relay, &status, 0), relay);
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

/* It may deliver half a message otherwise, whose whole is then dropped as a duplicate. */
WHERRY_TEST_WITH(a_command_gets_the_whole_body_though_its_relay_is_killed, set_up,
		 tear_down)
{
	static char body[BIG];
	wherry_message m = message("hello");
	char url[600], c;
	int reader;

	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	reader = open(in_dir("fifo"), O_RDWR | O_NONBLOCK | O_CLOEXEC);
	(void)snprintf(url, sizeof(url), "exec:cd %s; cat >body; echo >fifo", dir);
	for (int i = 0; i < 2; i++) {
		char *got;
		size_t len;

		submit_and_die(url, &m);
		assert_int_equal(
			poll(&(struct pollfd){.fd = reader, .events = POLLIN}, 1, 30000),
			1);
		assert_int_equal(read(reader, &c, 1), 1); /* it is through */
		got = read_file(in_dir("body"), &len);
		assert_int_equal(len, m.body_len);
		assert_memory_equal(got, m.body, len);
		free(got);
		memset(body, 'x', BIG);
		m.body = body;
		m.body_len = BIG;
	}
	(void)close(reader);
}

static int count_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

WHERRY_TEST_WITH(nothing_is_left_open, set_up, tear_down)
{
	int before = count_descriptors();
	wherry_publisher *pub;
	wherry_message m = message("");

	pub = open_url("exec:sleep 1000");
	submit_one(pub, &m);
	wherry_publisher_close(pub);
	pub = open_in_dir("file", "out");
	delivers(pub, &m);
	wherry_publisher_close(pub);
	pub = open_url("exec:exit 0");
	delivers(pub, &m);
	assert_int_equal(count_descriptors(), before + 1); /* the epoll */
	wherry_publisher_close(pub);
	assert_int_equal(count_descriptors(), before);
}

WHERRY_TEST_WITH(other_children_are_never_reaped, set_up, tear_down)
{
	pid_t other = fork();
	int status;

	if (!other)
		_exit(42);
	assert_run("exit 0", WHERRY_DELIVERED, "");
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(WEXITSTATUS(status), 42);
}

WHERRY_TEST_WITH(an_exit_status_taken_by_the_application_is_unknown, set_up, tear_down)
{
	wherry_publisher *pub = open_url("exec:exit 0");
	wherry_message m = message("");
	wh_receipt receipt;

	submit_one(pub, &m);
	assert_true(waitpid(-1, NULL, 0) > 0);
	collect(pub, &receipt, 1);
	assert_int_equal(receipt.verdict, WHERRY_UNKNOWN);
	assert_non_null(strstr(receipt.reason, "another part of this program"));
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(a_command_that_cannot_be_run_is_the_destinations_fault, set_up,
		 tear_down)
{
	wherry_message m = message("x");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub;
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	const wherry_message *one = &m;
	char url[600];

	assert_true(dup2(null, STDERR_FILENO) >= 0);
	(void)close(null);
	pub = open_url("exec:wherry-no-such-command");
	submit_one(pub, &m);
	assert_int_equal(collect_error(pub, &err), WHERRY_INVALID);
	assert_non_null(strstr(err.message, "'wherry-no-such-command' cannot be run: "));
	assert_non_null(strstr(err.message, "not found"));
	assert_int_equal(submit(pub, &one, 1), 0);
	assert_int_equal(collect_error(pub, &err), WHERRY_INVALID);
	wherry_publisher_close(pub);
	write_file(in_dir("script"), "no program\n");
	(void)snprintf(url, sizeof(url), "exec:%s", in_dir("script"));
	pub = open_url(url);
	submit_one(pub, &m);
	assert_int_equal(collect_error(pub, &err), WHERRY_INVALID);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(others_are_accounted_for_before_a_broken_command_fails, set_up,
		 tear_down)
{
	wherry_message m[2] = {numbered(0), numbered(1)};
	const wherry_message *all[] = {&m[0], &m[1]};
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub;
	wh_receipt receipt;
	char url[600];

	/* message 0 ends only once 1 has failed */
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	(void)snprintf(
		url, sizeof(url),
		"exec:cd %s; if test $WHERRY_ID = 0; then read x <fifo; exit 0; fi; "
		"echo >fifo; exit 127",
		dir);
	pub = open_url(url);
	assert_int_equal(submit(pub, all, 2), 2);
	collect(pub, &receipt, 1);
	assert_ptr_equal(receipt.message, &m[0]);
	assert_int_equal(receipt.verdict, WHERRY_DELIVERED);
	assert_int_equal(collect_error(pub, &err), WHERRY_INVALID);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(headers_too_large_or_malformed_are_rejected, set_up, tear_down)
{
	wherry_message m = message("x");
	char *headers = malloc(BIG);
	wh_receipt receipt;

	assert_non_null(headers);
	memset(headers, 'x', BIG);
	memcpy(headers, "{\"a\":\"", 6);
	memcpy(headers + BIG - 3, "\"}", 3);
	m.headers = headers;
	receipt = run_with("exit 0", &m, NULL);
	assert_int_equal(receipt.verdict, WHERRY_REJECTED);
	assert_string_equal(receipt.reason, "headers too large for the environment");
	m.headers = "{";
	receipt = run_with("exit 0", &m, NULL);
	assert_int_equal(receipt.verdict, WHERRY_REJECTED);
	assert_string_equal(receipt.reason, "headers are not a JSON object");
	free(headers);
}

WHERRY_TEST_WITH(a_command_has_default_signals, set_up, tear_down)
{
	sigset_t set, before;

	(void)sigfillset(&set);
	(void)sigprocmask(SIG_SETMASK, &set, &before);
	(void)signal(SIGPIPE, SIG_IGN);
	/* bit 12 of both masks is SIGPIPE */
	assert_run(
		"exec awk '/^SigBlk/ { exit $2 != \"0000000000000000\" }' /proc/self/status",
		WHERRY_DELIVERED, "");
	assert_run("kill -PIPE $$; exit 0", WHERRY_RETRY, "killed by SIGPIPE");
	(void)signal(SIGPIPE, SIG_DFL);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
}

WHERRY_TEST_WITH(an_ignored_sigchld_is_refused, set_up, tear_down)
{
	(void)signal(SIGCHLD, SIG_IGN);
	refuses("exec:true", WHERRY_INVALID, "SIGCHLD");
	(void)signal(SIGCHLD, SIG_DFL);
}

WHERRY_TEST_WITH(closed_standard_descriptors_do_not_matter, set_up, tear_down)
{
	int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
	wherry_message m = message("hello");
	wherry_publisher *pub;
	wh_receipt receipt;

	(void)close(STDIN_FILENO);
	(void)close(STDOUT_FILENO);
	(void)close(STDERR_FILENO);
	pub = open_url("exec:test $(cat) = hello || exit 3; echo why >&2; exit 1");
	submit_one(pub, &m);
	collect(pub, &receipt, 1);
	wherry_publisher_close(pub);
	if (in >= 0)
		(void)dup2(in, STDIN_FILENO);
	(void)close(in);
	assert_string_equal(receipt.reason, "why");
}

WHERRY_TEST_WITH(running_out_of_descriptors_waits_for_others, set_up, tear_down)
{
	wherry_publisher *pub = open_with("exec:cat >/dev/null", "exec.jobs", "50");
	const wherry_message *all[50];
	wherry_message m = message("x");
	wherry_error err = WHERRY_ERROR_INIT;
	struct rlimit before, less;
	wh_receipt receipts[50];
	size_t taken, none = 9;
	wherry_code code;

	for (int i = 0; i < 50; i++)
		all[i] = &m;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	less = before;
	less.rlim_cur = 40;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
	taken = submit(pub, all, 50);
	collect(pub, receipts, taken);
	less.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
	code = wh_publisher_submit(pub, all, 1, &none, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_in_range(taken, 1, 20);
	assert_int_equal(code, WHERRY_BUSY);
	assert_int_equal(none, 0);
	wherry_publisher_close(pub);
}

int main(void)
{
	/* What a shell says of a missing command depends on the folders it looks in. */
	assert_int_equal(setenv("PATH", "/usr/bin:/bin", 1), 0);
	return wherry_run_tests(NULL, NULL);
}
