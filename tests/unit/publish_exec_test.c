/*
 * exec:, what a command gets and says.  publish_exec_process_test.c has it as a process.
 */
#include "publish_exec_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/text.h"
#include "publish/exec/command.h"

WHERRY_TEST_WITH(exit_statuses_become_verdicts, set_up, tear_down)
{
	assert_run("exit 0", WHERRY_DELIVERED, "");
	assert_run("exit 1", WHERRY_RETRY, "exit status 1");
	assert_run("exit 75", WHERRY_RETRY, "exit status 75");
	assert_run("exit 65", WHERRY_REJECTED, "exit status 65");
	assert_run("kill -SEGV $$", WHERRY_RETRY, "killed by SIGSEGV");
	assert_run("kill -KILL $$", WHERRY_RETRY, "killed by SIGKILL");
}

WHERRY_TEST_WITH(the_last_line_of_stderr_is_the_reason, set_up, tear_down)
{
	wh_receipt receipt;

	assert_run("echo one >&2; echo two >&2; exit 1", WHERRY_RETRY, "two");
	assert_string_equal(said, "one\ntwo\n");
	assert_run("printf 'a\\nb\\tc\\n\\n' >&2; exit 65", WHERRY_REJECTED, "b c");
	assert_run("printf 'no newline' >&2; exit 1", WHERRY_RETRY, "no newline");
	assert_run("echo fine >&2; exit 0", WHERRY_DELIVERED, "");
	assert_string_equal(said, "fine\n");
	assert_run("printf '\\377x' >&2; exit 1", WHERRY_RETRY, "?x");
	receipt = run("printf '%0300d' 7 >&2; exit 1");
	assert_int_equal(strlen(receipt.reason), sizeof(receipt.reason) - 1);
}

WHERRY_TEST_WITH(a_command_gets_body_and_environment, set_up, tear_down)
{
	wherry_message m = message("line\nbody");
	wh_receipt receipt;

	m.id = 7;
	m.message_id = "m-7";
	m.aggregate_type = "order";
	m.aggregate_id = "42";
	m.trace_id = "tr=1";
	m.headers = "{\"h\":\"v w\"}";
	m.attempts = 2;
	m.created_at_us = 1700000000123456;
	(void)setenv("WHERRY_TOPIC", "not this", 1);
	(void)setenv("WHERRY_TEST_OTHER", "not passed on", 1);
	/* the tests themselves may run with others, such as WHERRY_BUILD */
	receipt = run_with(
		"cat >body; env | grep -E '^WHERRY_(ID|MESSAGE_ID|TOPIC|KEY|AGGREGATE|"
		"TRACE_ID|HEADERS|ATTEMPTS|CREATED_AT|TEST_OTHER)' | "
		"LC_ALL=C sort >env",
		&m, NULL);
	(void)unsetenv("WHERRY_TOPIC");
	(void)unsetenv("WHERRY_TEST_OTHER");
	assert_int_equal(receipt.verdict, WHERRY_DELIVERED);
	assert_file(in_dir("body"), "line\nbody");
	assert_file(in_dir("env"), "WHERRY_AGGREGATE_ID=42\nWHERRY_AGGREGATE_TYPE=order\n"
				   "WHERRY_ATTEMPTS=2\n"
				   "WHERRY_CREATED_AT=2023-11-14T22:13:20.123Z\n"
				   "WHERRY_HEADERS={\"h\":\"v w\"}\n"
				   "WHERRY_ID=7\nWHERRY_KEY=42\nWHERRY_MESSAGE_ID=m-7\n"
				   "WHERRY_TOPIC=t\n"
				   "WHERRY_TRACE_ID=tr=1\n");
}

/* The environment of a daemon holds its secrets. */
WHERRY_TEST_WITH(a_command_gets_no_secret_of_the_relay, set_up, tear_down)
{
	static const char *const names[] = {
		"SECRET_TOKEN", "PGPASSWORD", "MINE_KEY", "MINE_REGION",  "NAMED",
		"NAMED_NOT",    "LC_TEST",    "TZ",       "WHERRY_CONFIG"};
	static const char command[] =
		"env | grep -E '^(SECRET_TOKEN|PGPASSWORD|MINE_|NAMED|LC_TEST|TZ|WHERRY_C)' | "
		"grep -v ^WHERRY_CREATED_AT= | LC_ALL=C sort >env";
	wherry_message m = message("hello");
	wherry_publisher *pub;
	wh_receipt receipt;
	char url[600];

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		(void)setenv(names[i], "UTC", 1);
	assert_int_equal(run_with(command, &m, NULL).verdict, WHERRY_DELIVERED);
	assert_file(in_dir("env"), "LC_TEST=UTC\nTZ=UTC\n");
	(void)snprintf(url, sizeof(url), "exec:cd %s; %s", dir, command);
	pub = open_with(url, "exec.environment", " MINE_*, NAMED");
	submit_one(pub, &m);
	collect(pub, &receipt, 1);
	wherry_publisher_close(pub);
	assert_file(in_dir("env"), "LC_TEST=UTC\nMINE_KEY=UTC\nMINE_REGION=UTC\n"
				   "NAMED=UTC\nTZ=UTC\n");
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		(void)unsetenv(names[i]);
}

WHERRY_TEST_WITH(a_variable_with_a_value_is_refused, set_up, tear_down)
{
	static const char *const lists[] = {"A=B", "NAMED, MINE=x", "A*B", "=", "**"};
	wherry_config *config = NULL;
	wherry_publisher *pub = NULL;
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_config_new(&config, &err));
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		WHERRY_PASS(
			wherry_config_set(config, "exec.environment", lists[i], &err));
		assert_int_equal(wherry_publisher_open("exec:true", config, &pub, &err),
				 WHERRY_INVALID);
		assert_non_null(strstr(err.message, "exec.environment: '"));
		assert_non_null(strstr(err.message, "AWS_* for all"));
		assert_int_equal(wh_publisher_check("exec:true", config, NULL),
				 WHERRY_INVALID);
	}
	wherry_config_free(config);
}

WHERRY_TEST_WITH(absent_parts_are_set_and_empty, set_up, tear_down)
{
	assert_run(
		"set -u; test \"$WHERRY_KEY$WHERRY_TRACE_ID$WHERRY_AGGREGATE_ID\" = '' "
		"&& test \"$WHERRY_HEADERS\" = '{}'",
		WHERRY_DELIVERED, "");
}

WHERRY_TEST_WITH(the_output_of_a_command_is_ours, set_up, tear_down)
{
	wh_buf got = WH_BUF_INIT(4096);
	int reader = pipe_stdout();

	assert_run("cat; echo !", WHERRY_DELIVERED, "");
	(void)drain(reader, &got);
	assert_string_equal(wh_buf_str(&got), "hello!\n");
	wh_buf_clear(&got);
	(void)close(reader);
}

WHERRY_TEST_WITH(a_big_body_is_read_or_not, set_up, tear_down)
{
	char *body = malloc(BIG);
	wherry_message m = message("");
	wh_receipt receipt;

	assert_non_null(body);
	(void)signal(SIGPIPE, SIG_DFL);
	memset(body, 'x', BIG);
	m.body = body;
	m.body_len = BIG;
	receipt = run_with("test $(wc -c) = 1048576", &m, NULL);
	assert_int_equal(receipt.verdict, WHERRY_DELIVERED);
	receipt = run_with("exit 0", &m, NULL);
	assert_int_equal(receipt.verdict, WHERRY_DELIVERED);
	receipt = run_with("exec <&-; exit 3", &m, NULL);
	assert_string_equal(receipt.reason, "exit status 3");
	receipt = run_with("head -c 100000 >/dev/null; exec <&-; echo done >&2; exit 1",
			   &m, NULL);
	assert_string_equal(receipt.reason, "done");
	free(body);
}

WHERRY_TEST_WITH(an_empty_body_is_an_empty_stdin, set_up, tear_down)
{
	wherry_message m = message("");

	assert_int_equal(run_with("test -z \"$(cat)\"", &m, NULL).verdict,
			 WHERRY_DELIVERED);
	m.body = NULL;
	assert_int_equal(run_with("test -z \"$(cat)\"", &m, NULL).verdict,
			 WHERRY_DELIVERED);
}

WHERRY_TEST_WITH(a_lot_of_stderr_does_not_block_a_command, set_up, tear_down)
{
	assert_run(
		"head -c 1000000 /dev/zero | tr '\\0' 'x' >&2; echo >&2; echo end >&2; exit 1",
		WHERRY_RETRY, "end");
	assert_int_equal(strlen(said), WH_COMMAND_LINE - 1 + strlen("\nend\n"));
	assert_string_equal(said + WH_COMMAND_LINE - 3, "xx\nend\n");
}

WHERRY_TEST_WITH(each_line_on_stderr_is_an_event, set_up, tear_down)
{
	(void)run("printf 'a b=c\\n\\n  \\033[2J\\nno newline' >&2");
	assert_string_equal(said, "a b=c\n  \033[2J\nno newline\n");
}

WHERRY_TEST_WITH(a_flood_of_lines_is_logged_in_part, set_up, tear_down)
{
	int n = 0;

	(void)run("seq 1 100000 >&2");
	assert_int_equal(strncmp(said, "1\n2\n3\n", 6), 0);
	assert_non_null(strstr(said, "dropped\n"));
	for (const char *at = said; (at = strchr(at, '\n')); at++)
		n++;
	assert_true(n < 1000); /* 100 in a second, and it took some */
}

WHERRY_TEST_WITH(stderr_of_the_program_is_left_alone, set_up, tear_down)
{
	int err = open(in_dir("err"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(dup2(err, STDERR_FILENO) >= 0);
	(void)close(err);
	(void)run("echo text >&2");
	assert_file(in_dir("err"), "");
}

WHERRY_TEST_WITH(a_command_over_its_time_is_killed_with_its_children, set_up, tear_down)
{
	wherry_message m = message("");
	wh_receipt receipt;
	int writer, reader;
	char c;

	/* the sleep holds the FIFO open; its end is the end of the group */
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	reader = open(in_dir("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	writer = open(in_dir("fifo"), O_WRONLY | O_CLOEXEC);
	receipt = run_with("exec 5>fifo; sleep 1000 & sleep 1000; exit 0", &m, "1s500ms");
	assert_int_equal(receipt.verdict, WHERRY_UNKNOWN);
	assert_string_equal(receipt.reason, "timed out after 1.5s");
	(void)close(writer);
	assert_int_equal(fcntl(reader, F_SETFL, 0), 0);
	assert_int_equal(read(reader, &c, 1), 0);
	(void)close(reader);
}

WHERRY_TEST_WITH(the_time_limit_is_half_of_the_claim_by_default, set_up, tear_down)
{
	wherry_publisher *pub =
		open_with("exec:cat; sleep 1000", "relay.claim_timeout", "80s");
	wherry_message m = message("");
	int64_t before_us = wh_monotonic(&wh_env_system), deadline_us;

	submit_one(pub, &m);
	deadline_us = wh_publisher_deadline(pub);
	assert_in_range(deadline_us - before_us, 40 * WH_SECOND, 60 * WH_SECOND);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(a_grandchild_in_the_background_is_not_waited_for, set_up, tear_down)
{
	int64_t pid;
	char *text;

	assert_run("sleep 1000 & echo $! >pid; echo gone >&2; exit 1", WHERRY_RETRY,
		   "gone");
	text = read_file(in_dir("pid"), NULL);
	text[strcspn(text, "\n")] = 0;
	assert_true(wh_parse_int(text, &pid));
	free(text);
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0); /* it lives on */
}

WHERRY_TEST_WITH(commands_run_side_by_side, set_up, tear_down)
{
	wherry_message m[5];
	const wherry_message *all[5];
	wh_receipt receipts[5];
	wherry_publisher *pub;
	char url[600];

	/* two commands that each wait for the other */
	assert_int_equal(mkfifo(in_dir("ping"), 0600), 0);
	assert_int_equal(mkfifo(in_dir("pong"), 0600), 0);
	(void)snprintf(
		url, sizeof(url),
		"exec:cd %s; if test $WHERRY_ID = 0; then echo >ping; read x <pong; "
		"else read x <ping; echo >pong; fi",
		dir);
	pub = open_with(url, "exec.jobs", "2");
	for (int i = 0; i < 5; i++) {
		m[i] = numbered(i);
		m[i].id = i % 2;
		all[i] = &m[i];
	}
	assert_int_equal(submit(pub, all, 5), 2);
	assert_int_equal(submit(pub, all, 5), 0);
	collect(pub, receipts, 2);
	assert_int_equal(receipts[0].verdict, WHERRY_DELIVERED);
	assert_int_equal(receipts[1].verdict, WHERRY_DELIVERED);
	assert_int_equal(submit(pub, all + 2, 3), 2);
	collect(pub, receipts, 2);
	assert_int_equal(receipts[0].verdict, WHERRY_DELIVERED);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(a_hundred_messages_each_get_one_receipt, set_up, tear_down)
{
	wherry_publisher *pub = open_with("exec:exit $WHERRY_ID", "exec.jobs", "7");
	static wherry_message m[100];
	bool seen[100] = {false};
	size_t sent = 0, done = 0;

	for (int i = 0; i < 100; i++) {
		m[i] = message("x");
		m[i].id = i % 3;
	}
	while (done < 100) {
		const wherry_message *next = sent < 100 ? &m[sent] : NULL;
		wh_receipt receipt;

		if (next && submit(pub, &next, 1)) {
			sent++;
			continue;
		}
		collect(pub, &receipt, 1);
		assert_false(seen[receipt.message - m]);
		seen[receipt.message - m] = true;
		assert_int_equal(receipt.verdict,
				 receipt.message->id ? WHERRY_RETRY : WHERRY_DELIVERED);
		done++;
	}
	is_idle(pub);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(close_kills_what_still_runs, set_up, tear_down)
{
	wherry_publisher *pub;
	wherry_message m = message("");
	char url[600], c;
	int reader;

	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	reader = open(in_dir("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	(void)snprintf(url, sizeof(url), "exec:cd %s; exec 5>fifo; echo >&5; sleep 1000",
		       dir);
	pub = open_url(url);
	submit_one(pub, &m);
	assert_int_equal(poll(&(struct pollfd){.fd = reader, .events = POLLIN}, 1, 30000),
			 1);
	assert_int_equal(read(reader, &c, 1), 1); /* it runs */
	wherry_publisher_close(pub);
	assert_int_equal(fcntl(reader, F_SETFL, 0), 0);
	assert_int_equal(read(reader, &c, 1), 0); /* nobody holds the FIFO */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD); /* no zombie either */
	(void)close(reader);
}

int main(void)
{
	/* What a shell says of a missing command depends on the folders it looks in. */
	assert_int_equal(setenv("PATH", "/usr/bin:/bin", 1), 0);
	return wherry_run_tests(NULL, NULL);
}
