/*
 * The suite on a destination that an application brings along: that of examples/unix_socket.c,
 * with a receiver on a thread of its own.
 */
#include "publisher_suite.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

int example_main(int argc, char **argv);

#define main example_main
#include "../../examples/unix_socket.c"
#undef main

enum { ARRIVED_MOST = 100000, INPUT = 1 << 16 };

/* Reads what is sent and answers, one connection at a time. */
typedef struct receiver {
	wherry_temp temp;
	pthread_t thread;
	bool runs;
	int stop[2];
	atomic_bool hangs;
	pthread_mutex_t lock;
	int *arrived;
	size_t n;
} receiver;

static void note(receiver *r, int number)
{
	assert_int_equal(pthread_mutex_lock(&r->lock), 0);
	if (r->n < ARRIVED_MOST)
		r->arrived[r->n++] = number;
	assert_int_equal(pthread_mutex_unlock(&r->lock), 0);
}

/* Bodies say what shall become of them: "17 is the number", or a word. */
static void answer(receiver *r, int fd, long long id, const char *body)
{
	char text[80];
	int len;

	if (atomic_load(&r->hangs) || strncmp(body, "hang", 4) == 0)
		return;
	if (strncmp(body, "reject", 6) == 0)
		len = snprintf(text, sizeof(text), "%lld reject it is bad\n", id);
	else if (strncmp(body, "retry", 5) == 0)
		len = snprintf(text, sizeof(text), "%lld retry not now\n", id);
	else
		len = snprintf(text, sizeof(text), "%lld ok\n", id);
	if (len > 0 && strstr(text, " ok"))
		note(r, (int)strtol(body, NULL, 10));
	(void)!send(fd, text, (size_t)len, MSG_NOSIGNAL);
}

/* All whole messages at the beginning of what was read; returns how many bytes they are. */
static size_t understand_all(receiver *r, int fd, const char *in, size_t len)
{
	size_t at = 0;

	for (;;) {
		const char *end = memchr(in + at, '\n', len - at);
		char body[64] = "", *rest;
		long long id, n;

		if (!end)
			return at;
		id = strtoll(in + at, &rest, 10);
		n = strtoll(rest, NULL, 10);
		if (n > in + len - (end + 1))
			return at;
		memcpy(body, end + 1,
		       (size_t)n < sizeof(body) ? (size_t)n : sizeof(body) - 1);
		answer(r, fd, id, body);
		at = (size_t)(end + 1 - in) + (size_t)n;
	}
}

static void serve(receiver *r, int fd)
{
	struct pollfd fds[2] = {{.fd = fd, .events = POLLIN},
				{.fd = r->stop[0], .events = POLLIN}};
	char *in = malloc(INPUT + 1);
	size_t len = 0, used;
	ssize_t n;

	while (in && poll(fds, 2, -1) >= 0 && !fds[1].revents) {
		n = recv(fd, in + len, INPUT - len, 0);
		if (n <= 0)
			break;
		len += (size_t)n;
		in[len] = 0;
		used = understand_all(r, fd, in, len);
		len -= used;
		memmove(in, in + used, len);
	}
	free(in);
	(void)close(fd);
}

static void *receive(void *arg)
{
	receiver *r = arg;
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct pollfd fds[2] = {{.events = POLLIN}, {.fd = r->stop[0], .events = POLLIN}};

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%.100s", r->temp.path);
	(void)unlink(at.sun_path);
	fds[0].fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(fds[0].fd, (const struct sockaddr *)&at, sizeof(at)) == 0 &&
	    listen(fds[0].fd, 8) == 0)
		while (poll(fds, 2, -1) >= 0 && !fds[1].revents)
			serve(r, accept(fds[0].fd, NULL, NULL));
	(void)close(fds[0].fd);
	return NULL;
}

static void run(receiver *r)
{
	if (r->runs)
		return;
	assert_int_equal(pipe(r->stop), 0);
	assert_int_equal(pthread_create(&r->thread, NULL, receive, r), 0);
	r->runs = true;
	for (int i = 0; i < 5000; i++) { /* until it listens */
		struct sockaddr_un to = {.sun_family = AF_UNIX};
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int failed;

		(void)snprintf(to.sun_path, sizeof(to.sun_path), "%.100s", r->temp.path);
		failed = connect(fd, (const struct sockaddr *)&to, sizeof(to));
		(void)close(fd);
		if (!failed)
			return;
		(void)poll(NULL, 0, 1);
	}
	fail_msg("the receiver does not listen");
}

static void end(receiver *r)
{
	if (!r->runs)
		return;
	assert_int_equal(write(r->stop[1], "", 1), 1);
	assert_int_equal(pthread_join(r->thread, NULL), 0);
	(void)close(r->stop[0]);
	(void)close(r->stop[1]);
	r->runs = false;
	(void)unlink(r->temp.path);
}

static void *start(char *url, size_t cap)
{
	receiver *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->arrived = calloc(ARRIVED_MOST, sizeof(*r->arrived));
	assert_non_null(r->arrived);
	assert_int_equal(pthread_mutex_init(&r->lock, NULL), 0);
	(void)snprintf(url, cap, "unix:%s", wherry_temp_make(&r->temp, "socket"));
	run(r);
	return r;
}

static void stop(void *arg)
{
	receiver *r = arg;

	end(r);
	wherry_temp_clear(&r->temp);
	(void)pthread_mutex_destroy(&r->lock);
	free(r->arrived);
	free(r);
}

static void prepare(void *place, wherry_config *config)
{
	wherry_error err = WHERRY_ERROR_INIT;

	WHERRY_PASS(wherry_publisher_register(config, &unix_socket, &err));
	WHERRY_PASS(wherry_config_set(config, "unix.timeout", "1s", &err));
}

static void play(void *arg, publisher_play how)
{
	receiver *r = arg;

	if (how == PLAY_KILLED)
		end(r);
	else
		run(r);
	atomic_store(&r->hangs, how == PLAY_HANGS);
}

static void doom(void *place, publisher_fate fate, wherry_message *msg, char *text,
		 size_t cap)
{
	static const char *const words[FATE_COUNT] = {[FATE_REJECTED] = "reject",
						      [FATE_RETRY] = "retry",
						      [FATE_UNKNOWN] = "hang"};

	msg->body = words[fate];
	msg->body_len = strlen(words[fate]);
}

static size_t arrived(void *arg, wherry_publisher *pub, int *numbers, size_t cap)
{
	receiver *r = arg;
	size_t n;

	assert_int_equal(pthread_mutex_lock(&r->lock), 0);
	n = r->n < cap ? r->n : cap;
	memcpy(numbers, r->arrived, n * sizeof(*numbers));
	assert_int_equal(pthread_mutex_unlock(&r->lock), 0);
	return n;
}

enum { FATES = 1 << FATE_REJECTED | 1 << FATE_RETRY | 1 << FATE_UNKNOWN };

int main(void)
{
	static const publisher_backend backend = {
		.name = "unix",
		.plays = 1 << PLAY_KILLED | 1 << PLAY_HANGS,
		.alone = FATES,
		.mixed = FATES,
		.start = start,
		.stop = stop,
		.prepare = prepare,
		.play = play,
		.doom = doom,
		.arrived = arrived,
	};
	static const publisher_backend *const all[] = {&backend};

	return publisher_suite_run(all, 1);
}
