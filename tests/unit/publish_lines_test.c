/*
 * stdout: and file:, and what they do when no more can be written.
 */
#include "publish_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "publish/parts.h"

/* ---- file: ---- */

#define LINE(n)                                                                          \
	"{\"id\":" #n                                                                    \
	",\"message_id\":\"m\",\"topic\":\"t\",\"key\":null,\"headers\":{},"             \
	"\"body\":" #n ",\"created_at\":null,\"attempts\":0}\n"

WHERRY_TEST_WITH(a_file_gets_lines_in_order, set_up, tear_down)
{
	static const char *const syncs[] = {"on", "off"};
	wherry_message m[3] = {numbered(1), numbered(2), numbered(3)};
	const wherry_message *all[] = {&m[0], &m[1], &m[2]};
	wh_receipt receipts[3];
	char url[600];

	(void)snprintf(url, sizeof(url), "file:%s", in_dir("out"));
	for (int i = 0; i < 2; i++) {
		wherry_publisher *pub = open_with(url, "file.sync", syncs[i]);

		is_idle(pub);
		assert_int_equal(submit(pub, all, 3), 3);
		assert_int_equal(wh_publisher_deadline(pub), 0);
		collect(pub, receipts, 3);
		for (int j = 0; j < 3; j++) {
			assert_ptr_equal(receipts[j].message, all[j]);
			assert_int_equal(receipts[j].verdict, WHERRY_DELIVERED);
		}
		is_idle(pub);
		wherry_publisher_close(pub);
	}
	assert_file(in_dir("out"), LINE(1) LINE(2) LINE(3) LINE(1) LINE(2) LINE(3));
}

WHERRY_TEST_WITH(receipts_come_as_many_as_fit, set_up, tear_down)
{
	wherry_message m[3] = {numbered(1), numbered(2), numbered(3)};
	const wherry_message *all[] = {&m[0], &m[1], &m[2]};
	wherry_publisher *pub = open_in_dir("file", "out");
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[3];
	size_t n;

	assert_int_equal(submit(pub, all, 3), 3);
	WHERRY_PASS(wh_publisher_collect(pub, receipts, 2, &n, &err));
	assert_int_equal(n, 2);
	assert_int_equal(wh_publisher_deadline(pub), 0);
	WHERRY_PASS(wh_publisher_collect(pub, receipts, 2, &n, &err));
	assert_int_equal(n, 1);
	assert_ptr_equal(receipts[0].message, all[2]);
	wherry_publisher_close(pub);
}

static void mends(const char *before, const char *after)
{
	write_file(in_dir("torn"), before);
	wherry_publisher_close(open_in_dir("file", "torn"));
	assert_file(in_dir("torn"), after);
}

WHERRY_TEST_WITH(a_torn_last_line_is_mended, set_up, tear_down)
{
	char *text = calloc(1, 100000), *want = calloc(1, 100000);

	assert_non_null(text);
	assert_non_null(want);
	mends(LINE(1), LINE(1));
	mends(LINE(1) "{", LINE(1));
	mends(LINE(1) "{\"id\":2,\"mess", LINE(1));
	mends(LINE(1) "{\"id\":2}", LINE(1) "{\"id\":2}\n");
	mends("{\"id\":2", "");
	mends("", "");
	/* longer than a block */
	memset(text, 'x', 99000);
	memcpy(text, LINE(1) "{\"id\":", strlen(LINE(1)) + 6);
	mends(text, LINE(1));
	memcpy(text, "{\"id\":\"", 7);
	memcpy(text + 7, text + 1000, 200);
	memcpy(text + 98998, "\"}", 2);
	memcpy(want, text, 99000);
	want[99000] = '\n';
	mends(text, want);
	free(text);
	free(want);
}

/* What was not synced when the power failed may be zeros where the text was to be. */
static void write_with_zeros(const char *path, const char *text, size_t zeros)
{
	write_file(path, text);
	assert_int_equal(truncate(path, (off_t)(strlen(text) + zeros)), 0);
}

static void mends_zeros(const char *before, size_t zeros, const char *after)
{
	size_t len;

	write_with_zeros(in_dir("zeros"), before, zeros);
	wherry_publisher_close(open_in_dir("file", "zeros"));
	assert_file(in_dir("zeros"), after);
	free(read_file(in_dir("zeros"), &len));
	assert_int_equal(len, strlen(after));
}

WHERRY_TEST_WITH(zeros_that_a_power_loss_left_are_cut_off, set_up, tear_down)
{
	char url[600];

	mends_zeros(LINE(1), 1, LINE(1));
	mends_zeros(LINE(1), 100000, LINE(1));
	mends_zeros(LINE(1) "{\"i", 300, LINE(1));
	mends_zeros(LINE(1) "{\"id\":2,\"mess", 4096, LINE(1));
	mends_zeros(LINE(1) "{\"id\":2}", 4096, LINE(1));
	/* other files may end in zeros: a tape archive does */
	(void)snprintf(url, sizeof(url), "file:%s", in_dir("archive"));
	write_with_zeros(in_dir("archive"), "Dear diary,\nnothing\n", 1024);
	refuses(url, WHERRY_INVALID, "ends in something that is not a message");
	write_with_zeros(in_dir("archive"), "", 1024);
	refuses(url, WHERRY_INVALID, "ends in something that is not a message");
}

WHERRY_TEST_WITH(a_file_of_something_else_is_left_alone, set_up, tear_down)
{
	char url[600];

	(void)snprintf(url, sizeof(url), "file:%s", in_dir("notes"));
	write_file(in_dir("notes"), "Dear diary,\nnothing");
	refuses(url, WHERRY_INVALID, "ends in something that is not a message");
	assert_file(in_dir("notes"), "Dear diary,\nnothing");
}

WHERRY_TEST_WITH(a_line_torn_by_another_is_mended_before_the_next, set_up, tear_down)
{
	wherry_publisher *pub = open_in_dir("file", "out");
	wherry_message m = numbered(2);

	write_file(in_dir("out"), LINE(1) "{\"id\":9,\"me");
	delivers(pub, &m);
	assert_file(in_dir("out"), LINE(1) LINE(2));
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(a_file_that_another_writes_is_waited_for, set_up, tear_down)
{
	wherry_publisher *pub = open_in_dir("file", "out");
	int other = open(in_dir("out"), O_RDWR | O_CLOEXEC);
	wherry_message m = numbered(1);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipt;
	size_t n;

	assert_int_equal(flock(other, LOCK_EX), 0);
	submit_one(pub, &m);
	WHERRY_PASS(wh_publisher_collect(pub, &receipt, 1, &n, &err));
	assert_int_equal(n, 0);
	assert_file(in_dir("out"), "");
	assert_true(wh_publisher_deadline(pub) > 0);
	assert_true(wh_publisher_deadline(pub) < WH_NEVER);
	(void)close(other);
	collect(pub, &receipt, 1);
	assert_file(in_dir("out"), LINE(1));
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(only_a_regular_file_is_opened, set_up, tear_down)
{
	char url[600];

	(void)snprintf(url, sizeof(url), "file:%s", dir);
	refuses(url, WHERRY_INVALID, "is a directory");
	(void)snprintf(url, sizeof(url), "file:%s", in_dir("none/out"));
	refuses(url, WHERRY_NOTFOUND, "its directory does not exist");
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	(void)snprintf(url, sizeof(url), "file:%s", in_dir("fifo"));
	refuses(url, WHERRY_INVALID, "regular files only");
	refuses("file:/dev/zero", WHERRY_INVALID, "regular files only");
}

WHERRY_TEST_WITH(a_new_file_is_not_for_everybody, set_up, tear_down)
{
	mode_t before = umask(0);
	char url[600];
	struct stat st;

	(void)snprintf(url, sizeof(url), "file:%s", in_dir("new"));
	wherry_publisher_close(open_with(url, "file.sync", "off"));
	assert_int_equal(stat(in_dir("new"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(chmod(in_dir("new"), 0604), 0);
	wherry_publisher_close(open_with(url, "file.sync", "off"));
	assert_int_equal(stat(in_dir("new"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0604); /* as somebody wanted it */
	(void)umask(before);
}

/* Who may write to its directory could have the relay append to any file. */
WHERRY_TEST_WITH(a_symbolic_link_is_followed_only_where_that_is_wanted, set_up, tear_down)
{
	char url[600];

	assert_int_equal(symlink("aim", in_dir("link")), 0);
	(void)snprintf(url, sizeof(url), "file:%s", in_dir("link"));
	refuses(url, WHERRY_INVALID, "is a symbolic link");
	assert_int_equal(access(in_dir("aim"), F_OK), -1);
	wherry_publisher_close(open_with(url, "file.symlinks", "on"));
	assert_int_equal(access(in_dir("aim"), F_OK), 0);
}

/* Ways to put another file, or none, in the place of "out". */
static void remove_it(void)
{
	assert_int_equal(unlink(in_dir("out")), 0);
}

static void rename_it(void)
{
	char before[600];

	(void)snprintf(before, sizeof(before), "%s", in_dir("out"));
	assert_int_equal(rename(before, in_dir("out.1")), 0);
}

static void replace_it(void)
{
	rename_it();
	write_file(in_dir("out"), "");
}

/* What logrotate does with `copytruncate`. */
static void truncate_it(void)
{
	assert_int_equal(truncate(in_dir("out"), 0), 0);
}

WHERRY_TEST_WITH(lines_go_to_the_file_that_the_path_names, set_up, tear_down)
{
	static void (*const ways[])(void) = {remove_it, rename_it, replace_it,
					     truncate_it};
	static const char *const syncs[] = {"on", "off"};

	for (size_t i = 0; i < 2 * sizeof(ways) / sizeof(*ways); i++) {
		wherry_message m[2] = {numbered(1), numbered(2)};
		wherry_publisher *pub;
		char url[600];

		(void)snprintf(url, sizeof(url), "file:%s", in_dir("out"));
		pub = open_with(url, "file.sync", syncs[i % 2]);
		delivers(pub, &m[0]);
		ways[i / 2]();
		delivers(pub, &m[1]);
		wherry_publisher_close(pub);
		assert_file(in_dir("out"), LINE(2));
		remove_it();
	}
}

/* A limit on the size of files stands in for a full disk. */
static void limit_files(size_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes ? bytes : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	(void)signal(SIGXFSZ, bytes ? SIG_IGN : SIG_DFL);
}

WHERRY_TEST_WITH(a_full_disk_leaves_whole_lines, set_up, tear_down)
{
	wherry_message m[3] = {numbered(1), numbered(2), numbered(3)};
	const wherry_message *all[] = {&m[0], &m[1], &m[2]};
	wherry_publisher *pub = open_in_dir("file", "out");
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_code code;
	wh_receipt receipts[3];
	size_t n, n2 = 9;

	assert_int_equal(submit(pub, all, 3), 3);
	limit_files(strlen(LINE(1)) * 2 + 10);
	WHERRY_PASS(wh_publisher_collect(pub, receipts, 3, &n, &err));
	code = wh_publisher_collect(pub, receipts + 2, 1, &n2, &err);
	limit_files(0);
	assert_int_equal(n, 2);
	assert_int_equal(code, WHERRY_FULL);
	assert_int_equal(n2, 0);
	assert_file(in_dir("out"), LINE(1) LINE(2));
	/* with room again it goes on where it was */
	collect(pub, receipts, 1);
	assert_ptr_equal(receipts[0].message, all[2]);
	wherry_publisher_close(pub);
	assert_file(in_dir("out"), LINE(1) LINE(2) LINE(3));
}

WHERRY_TEST_WITH(malformed_headers_are_one_messages_fault, set_up, tear_down)
{
	wherry_message m[3] = {numbered(1), numbered(2), numbered(3)};
	const wherry_message *all[] = {&m[0], &m[1], &m[2]};
	wherry_publisher *pub = open_in_dir("file", "out");
	wh_receipt receipts[2];

	m[1].headers = "{\"a\":[]}";
	/* what is behind it may be of its key, and must not overtake the verdict */
	assert_int_equal(submit(pub, all, 3), 2);
	assert_int_equal(submit(pub, all + 2, 1), 0);
	collect(pub, receipts, 2);
	assert_int_equal(receipts[0].verdict, WHERRY_DELIVERED);
	assert_ptr_equal(receipts[1].message, all[1]);
	assert_int_equal(receipts[1].verdict, WHERRY_REJECTED);
	assert_string_equal(receipts[1].reason,
			    "header 'a' is not a string: put its value in quotes");
	delivers(pub, all[2]);
	assert_file(in_dir("out"), LINE(1) LINE(3));
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(what_is_buffered_is_bounded, set_up, tear_down)
{
	wherry_publisher *pub = open_in_dir("file", "out");
	const wherry_message *all[3];
	wherry_message m = message("");
	char *body = malloc(BIG);
	wh_receipt receipts[2];
	size_t len;

	assert_non_null(body);
	memset(body, 'x', BIG);
	m.body = body;
	m.body_len = BIG * 3 / 4;
	all[0] = all[1] = all[2] = &m;
	assert_int_equal(submit(pub, all, 3), 2);
	assert_int_equal(submit(pub, all, 1), 0);
	collect(pub, receipts, 2);
	assert_int_equal(submit(pub, all, 1), 1);
	collect(pub, receipts, 1);
	wherry_publisher_close(pub);
	free(read_file(in_dir("out"), &len));
	assert_true(len > 3 * m.body_len);
	free(body);
}

/* ---- stdout: ---- */

WHERRY_TEST_WITH(stdout_to_a_pipe_never_blocks, set_up, tear_down)
{
	wh_buf got = WH_BUF_INIT(64 << 20);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message m = message("");
	const wherry_message *one = &m;
	char *body = malloc(BIG);
	wherry_publisher *pub;
	wh_receipt receipt;
	int reader = pipe_stdout();
	size_t n = 0;

	assert_non_null(body);
	memset(body, 'x', BIG);
	m.body = body;
	m.body_len = BIG;
	pub = open_url("stdout:");
	is_idle(pub);
	assert_int_equal(submit(pub, &one, 1), 1);
	WHERRY_PASS(wh_publisher_collect(pub, &receipt, 1, &n, &err));
	assert_int_equal(n, 0); /* the pipe is full, and we are here */
	while (!n) {
		(void)drain(reader, &got);
		await(pub);
		WHERRY_PASS(wh_publisher_collect(pub, &receipt, 1, &n, &err));
	}
	(void)drain(reader, &got);
	assert_int_equal(receipt.verdict, WHERRY_DELIVERED);
	assert_true(got.len > BIG);
	assert_int_equal(got.ptr[got.len - 1], '\n');
	is_idle(pub);
	wherry_publisher_close(pub);
	(void)close(reader);
	wh_buf_clear(&got);
	free(body);
}

WHERRY_TEST_WITH(close_finishes_a_line_that_a_stream_has_half_of, set_up, tear_down)
{
	wh_buf got = WH_BUF_INIT(64 << 20);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_message m[2] = {message(""), numbered(2)};
	const wherry_message *all[] = {&m[0], &m[1]};
	char *body = malloc(BIG);
	wherry_publisher *pub;
	wh_receipt receipt;
	int reader = pipe_stdout();
	size_t n;

	assert_non_null(body);
	memset(body, 'x', BIG);
	m[0].body = body;
	m[0].body_len =
		100000; /* does not fit the pipe, but the rest does once it is read */
	pub = open_url("stdout:");
	assert_int_equal(submit(pub, all, 2), 2);
	WHERRY_PASS(wh_publisher_collect(pub, &receipt, 1, &n, &err));
	assert_int_equal(n, 0);
	assert_int_equal(submit(pub, all, 0), 0);
	(void)drain(reader, &got);
	wherry_publisher_close(pub);
	(void)drain(reader, &got);
	assert_true(got.len > m[0].body_len);
	assert_int_equal(got.ptr[got.len - 1], '\n');
	assert_null(strstr(got.ptr, LINE(2)));
	(void)close(reader);
	wh_buf_clear(&got);
	free(body);
}

WHERRY_TEST_WITH(a_reader_that_is_gone_is_an_error_and_no_signal, set_up, tear_down)
{
	wherry_message m = numbered(1);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub;
	int reader = pipe_stdout();
	sigset_t waiting;

	(void)signal(SIGPIPE, SIG_DFL);
	pub = open_url("stdout:");
	(void)close(reader);
	submit_one(pub, &m);
	assert_int_equal(collect_error(pub, &err), WHERRY_CLOSED);
	assert_string_equal(err.message, "the reader of standard output is gone");
	assert_int_equal(err.native, EPIPE);
	assert_int_equal(sigpending(&waiting), 0);
	assert_false(sigismember(&waiting, SIGPIPE));
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(a_pending_sigpipe_of_the_application_stays, set_up, tear_down)
{
	wherry_message m = numbered(1);
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub;
	int reader = pipe_stdout(), got;
	sigset_t set, before, waiting;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGPIPE);
	(void)sigprocmask(SIG_BLOCK, &set, &before);
	(void)raise(SIGPIPE);
	pub = open_url("stdout:");
	(void)close(reader);
	submit_one(pub, &m);
	assert_int_equal(collect_error(pub, &err), WHERRY_CLOSED);
	wherry_publisher_close(pub);
	assert_int_equal(sigpending(&waiting), 0);
	assert_true(sigismember(&waiting, SIGPIPE));
	assert_int_equal(sigwait(&set, &got), 0);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
}

WHERRY_TEST_WITH(a_full_device_is_full, set_up, tear_down)
{
	wherry_message m = numbered(1);
	wherry_error err = WHERRY_ERROR_INIT;
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	wherry_publisher *pub;

	assert_true(full >= 0);
	assert_true(dup2(full, STDOUT_FILENO) >= 0);
	(void)close(full);
	pub = open_url("stdout:");
	submit_one(pub, &m);
	assert_int_equal(collect_error(pub, &err), WHERRY_FULL);
	wherry_publisher_close(pub);
}

WHERRY_TEST_WITH(stdout_to_a_file_keeps_whole_lines, set_up, tear_down)
{
	wherry_message m[3] = {numbered(1), numbered(2), numbered(3)};
	const wherry_message *all[] = {&m[0], &m[1], &m[2]};
	int out = open(in_dir("out"), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	wherry_error err = WHERRY_ERROR_INIT;
	wh_receipt receipts[3];
	wherry_publisher *pub;
	wherry_code code;
	size_t n, n2;

	assert_true(dup2(out, STDOUT_FILENO) >= 0);
	(void)close(out);
	pub = open_url("stdout:");
	assert_int_equal(submit(pub, all, 3), 3);
	limit_files(strlen(LINE(1)) + 10);
	code = wh_publisher_collect(pub, receipts, 3, &n, &err);
	limit_files(0);
	assert_int_equal(code, WHERRY_OK);
	assert_int_equal(n, 1);
	assert_file(in_dir("out"), LINE(1));
	WHERRY_PASS(wh_publisher_collect(pub, receipts, 3, &n2, &err));
	assert_int_equal(n2, 2);
	wherry_publisher_close(pub);
	assert_file(in_dir("out"), LINE(1) LINE(2) LINE(3));
}

WHERRY_TEST_WITH(a_closed_standard_output_is_refused, set_up, tear_down)
{
	(void)close(STDOUT_FILENO);
	refuses("stdout:", WHERRY_IO, "standard output cannot be used");
}

/* ---- times ---- */

WHERRY_TEST_WITH(times_are_printed_to_the_millisecond, set_up, tear_down)
{
	static const struct {
		int64_t us;
		const char *text;
	} times[] = {
		{0, "1970-01-01T00:00:00.000Z"},
		{1700000000123456, "2023-11-14T22:13:20.123Z"},
		{-1, "1969-12-31T23:59:59.999Z"},
		{253402300800000000, "010000-01-01T00:00:00.000Z"},
		{INT64_MAX, "294247-01-10T04:00:54.775Z"},
		{-62198755200000000, "0000-01-01T00:00:00.000Z"}, /* before the year 0 */
	};

	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		char text[WH_TIME_LEN];

		wh_time_print(times[i].us, text);
		assert_string_equal(text, times[i].text);
	}
}

WHERRY_TEST_MAIN
