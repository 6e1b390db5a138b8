/*
 * What the tests of destinations share: messages, and a publisher driven as the relay
 * drives it, waiting for its descriptor and its deadline.
 */
#ifndef PUBLISH_FIXTURE_H
#define PUBLISH_FIXTURE_H

#include "wherry_test.h"

#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sys/stat.h>

#include "publish/driver.h"

enum { MOST = 64, BIG = 1 << 20 };

static char dir[256]; /* of the test that runs */

static inline int remove_entry(const char *path, const struct stat *st, int kind,
			       struct FTW *at)
{
	return remove(path);
}

/* Every test has an empty directory, and standard output and error as they were. */
typedef struct fixture {
	int out, err;
} fixture;

static inline int set_up(void **state)
{
	static fixture f;
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(dir, sizeof(dir), "%s/wherry-publish-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return -1;
	(void)fflush(stdout);
	f.out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
	f.err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
	*state = &f;
	return f.out < 0 || f.err < 0 ? -1 : 0;
}

static inline int tear_down(void **state)
{
	fixture *f = *state;

	(void)dup2(f->out, STDOUT_FILENO);
	(void)dup2(f->err, STDERR_FILENO);
	(void)close(f->out);
	(void)close(f->err);
	return nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static inline const char *in_dir(const char *name)
{
	static char paths[4][512];
	static unsigned next;
	char *path = paths[next++ % 4];

	(void)snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static inline void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

/* Given; ends in NUL. */
static inline char *read_file(const char *path, size_t *out_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *text;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	text = calloc(1, (size_t)st.st_size + 1);
	assert_non_null(text);
	assert_int_equal(read(fd, text, (size_t)st.st_size), st.st_size);
	(void)close(fd);
	if (out_len)
		*out_len = (size_t)st.st_size;
	return text;
}

static inline void assert_file(const char *path, const char *want)
{
	char *text = read_file(path, NULL);

	assert_string_equal(text, want);
	free(text);
}

static inline wherry_publisher *open_with(const char *url, const char *key,
					  const char *value)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;
	wherry_config *config = NULL;

	WHERRY_PASS(wherry_config_new(&config, &err));
	if (key)
		WHERRY_PASS(wherry_config_set(config, key, value, &err));
	WHERRY_PASS(wherry_publisher_open(url, config, &pub, &err));
	wherry_config_free(config);
	return pub;
}

static inline wherry_publisher *open_url(const char *url)
{
	return open_with(url, NULL, NULL);
}

static inline wherry_publisher *open_in_dir(const char *scheme, const char *name)
{
	char url[600];

	(void)snprintf(url, sizeof(url), "%s:%s", scheme, in_dir(name));
	return open_url(url);
}

static inline void refuses(const char *url, wherry_code want, const char *text)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_publisher *pub = NULL;

	assert_int_equal(wherry_publisher_open(url, NULL, &pub, &err), want);
	assert_null(pub);
	if (!strstr(err.message, text))
		fail_msg("'%s' lacks '%s'", err.message, text);
}

static inline wherry_message message(const char *body)
{
	wherry_message m = WHERRY_MESSAGE(.topic = "t", .body = body);

	m.message_id = "m";
	m.body_len = strlen(body);
	return m;
}

static inline size_t submit(wherry_publisher *pub, const wherry_message *const *msgs,
			    size_t n)
{
	wherry_error err = WHERRY_ERROR_INIT;
	size_t taken = 99;

	WHERRY_PASS(wh_publisher_submit(pub, msgs, n, &taken, &err));
	return taken;
}

static inline void submit_one(wherry_publisher *pub, const wherry_message *msg)
{
	assert_int_equal(submit(pub, &msg, 1), 1);
}

/* Wait for what the publisher waits for. */
static inline void await(wherry_publisher *pub)
{
	struct pollfd event = {.fd = -1};
	int64_t deadline_us = wh_publisher_deadline(pub),
		now_us = wh_monotonic(&wh_env_system);
	int64_t wait_ms = 30000;

	event.fd = wh_publisher_fd(pub, &event.events);
	if (deadline_us != WH_NEVER)
		wait_ms = deadline_us > now_us ? (deadline_us - now_us) / 1000 + 1 : 0;
	assert_true(event.fd >= 0 || deadline_us != WH_NEVER);
	if (poll(&event, event.fd >= 0, (int)(wait_ms < 30000 ? wait_ms : 30000)) == 0 &&
	    wait_ms == 30000)
		fail_msg("nothing happened for 30 seconds");
}

/* Collect until n receipts are there. */
static inline void collect(wherry_publisher *pub, wh_receipt *out, size_t n)
{
	wherry_error err = WHERRY_ERROR_INIT;

	for (size_t have = 0, more; have < n; have += more) {
		WHERRY_PASS(wh_publisher_collect(pub, out + have, n - have, &more, &err));
		if (have + more < n)
			await(pub);
	}
}

/* Collect until it fails. */
static inline wherry_code collect_error(wherry_publisher *pub, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	wh_receipt receipt;
	size_t n;

	while ((code = wh_publisher_collect(pub, &receipt, 1, &n, err)) == WHERRY_OK)
		if (!n)
			await(pub);
	assert_int_equal(n, 0);
	return code;
}

static inline void delivers(wherry_publisher *pub, const wherry_message *msg)
{
	wh_receipt receipt;

	submit_one(pub, msg);
	collect(pub, &receipt, 1);
	assert_ptr_equal(receipt.message, msg);
	if (receipt.verdict != WHERRY_DELIVERED)
		fail_msg("verdict %d: %s", receipt.verdict, receipt.reason);
	assert_string_equal(receipt.reason, "");
}

static inline void is_idle(wherry_publisher *pub)
{
	short events;

	assert_int_equal(wh_publisher_fd(pub, &events), -1);
	assert_int_equal(wh_publisher_deadline(pub), WH_NEVER);
}

static inline wherry_message numbered(int n)
{
	static char bodies[MOST][16];
	wherry_message m;

	(void)snprintf(bodies[n], sizeof(bodies[n]), "%d", n);
	m = message(bodies[n]);
	m.id = n;
	return m;
}

static inline int pipe_stdout(void)
{
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_true(dup2(fds[1], STDOUT_FILENO) >= 0);
	(void)close(fds[1]);
	assert_int_equal(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	return fds[0];
}

static inline size_t drain(int fd, wh_buf *into)
{
	char text[65536];
	size_t before = into->len;
	ssize_t n;

	while ((n = read(fd, text, sizeof(text))) > 0)
		wh_buf_put(into, text, (size_t)n);
	return into->len - before;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
