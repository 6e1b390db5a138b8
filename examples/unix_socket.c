/*
 * A destination that this program implements: messages go to a Unix socket, and a relay delivers there.
 *
 *     unix_socket shop.db /run/shop.sock [SETTING=VALUE...]
 *
 * What is sent for each message is a line with its id and the length of its body, then the body.
 * The receiver answers each with a line: "ID ok", "ID retry WHY" or "ID reject WHY".
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <wherry/wherry.h>

typedef struct bytes {
	char *at;
	size_t len, cap;
} bytes;

/* A message that was sent and has no answer yet. */
typedef struct sent {
	const wherry_message *message;
	int64_t deadline_us; /* then it counts as unknown */
} sent;

typedef struct line {
	int fd;
	int64_t timeout_us;
	sent *flight; /* in the order in which they were sent */
	size_t n, window;
	bytes out, in; /* still to be written; read and not understood yet */
} line;

static int64_t now_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* ---- bytes ---- */

static bool reserve(bytes *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 4096;
	char *grown;

	while (cap - b->len < more)
		cap *= 2;
	if (cap == b->cap)
		return true;
	grown = realloc(b->at, cap);
	if (!grown)
		return false;
	b->at = grown;
	b->cap = cap;
	return true;
}

static void forget(bytes *b, size_t n)
{
	b->len -= n;
	memmove(b->at, b->at + n, b->len);
}

/* ---- open and close ---- */

static void line_close(void *state)
{
	line *l = state;

	if (l->fd >= 0)
		(void)close(l->fd);
	free(l->flight);
	free(l->out.at);
	free(l->in.at);
	free(l);
}

static wherry_code line_check(const char *path, const wherry_config *config,
			      wherry_error *err)
{
	struct sockaddr_un to;

	(void)config;
	if (*path != '/' || strlen(path) >= sizeof(to.sun_path))
		return wherry_error_set(err, WHERRY_INVALID,
					"unix: needs a short absolute path, as in "
					"unix:/run/shop.sock");
	return WHERRY_OK;
}

static wherry_code connect_to(line *l, const char *path, wherry_error *err)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", path);
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (l->fd < 0)
		return wherry_error_set(err, WHERRY_IO, "there is no socket left");
	if (connect(l->fd, (const struct sockaddr *)&to, sizeof(to)) != 0)
		return wherry_error_set(err, WHERRY_CLOSED,
					"nobody listens at the socket: is its receiver "
					"running?");
	return WHERRY_OK;
}

static wherry_code line_open(const char *path, const wherry_config *config,
			     void **out_state, wherry_error *err)
{
	line *l = calloc(1, sizeof(*l));
	wherry_code code = line_check(path, config, err);

	if (!l)
		return wherry_error_set(err, WHERRY_NOMEM, NULL);
	l->fd = -1;
	l->timeout_us = wherry_config_number(config, "unix.timeout");
	l->window = (size_t)wherry_config_number(config, "unix.window");
	l->flight = calloc(l->window, sizeof(*l->flight));
	if (!l->flight)
		code = wherry_error_set(err, WHERRY_NOMEM, NULL);
	if (code == WHERRY_OK)
		code = connect_to(l, path, err);
	if (code == WHERRY_OK)
		*out_state = l;
	else
		line_close(l);
	return code;
}

/* ---- sending ---- */

/* Write what can be written without waiting. */
static wherry_code flush(line *l, wherry_error *err)
{
	while (l->out.len) {
		ssize_t n = send(l->fd, l->out.at, l->out.len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return WHERRY_OK;
		if (n < 0)
			return wherry_error_set(err, WHERRY_CLOSED,
						"the receiver closed the socket");
		forget(&l->out, (size_t)n);
	}
	return WHERRY_OK;
}

static bool put(line *l, const wherry_message *m)
{
	char head[64];
	int len =
		snprintf(head, sizeof(head), "%lld %zu\n", (long long)m->id, m->body_len);

	if (len < 0 || !reserve(&l->out, (size_t)len + m->body_len))
		return false;
	memcpy(l->out.at + l->out.len, head, (size_t)len);
	l->out.len += (size_t)len;
	if (m->body_len)
		memcpy(l->out.at + l->out.len, m->body, m->body_len);
	l->out.len += m->body_len;
	return true;
}

static wherry_code line_submit(void *state, const wherry_message *const *messages,
			       size_t n, size_t *out_taken, wherry_error *err)
{
	line *l = state;

	for (size_t i = 0; i < n && l->n < l->window; i++) {
		if (!put(l, messages[i]))
			return wherry_error_set(err, WHERRY_NOMEM, NULL);
		l->flight[l->n++] = (sent){messages[i], now_us() + l->timeout_us};
		*out_taken = i + 1;
	}
	return flush(l, err);
}

/* ---- answers ---- */

static wherry_receipt land(line *l, size_t i, wherry_verdict verdict, const char *reason)
{
	wherry_receipt receipt = {.message = l->flight[i].message, .verdict = verdict};

	(void)snprintf(receipt.reason, sizeof(receipt.reason), "%s", reason);
	l->n--;
	memmove(&l->flight[i], &l->flight[i + 1], (l->n - i) * sizeof(*l->flight));
	return receipt;
}

/* "42 retry the disk is full".  False: it is about none of those in flight. */
static bool understand(line *l, const char *text, wherry_receipt *out)
{
	char *rest;
	long long id = strtoll(text, &rest, 10);

	for (size_t i = 0; i < l->n; i++) {
		if (l->flight[i].message->id != id)
			continue;
		if (strcmp(rest, " ok") == 0)
			*out = land(l, i, WHERRY_DELIVERED, "");
		else if (strncmp(rest, " reject ", 8) == 0)
			*out = land(l, i, WHERRY_REJECTED, rest + 8);
		else if (strncmp(rest, " retry ", 7) == 0)
			*out = land(l, i, WHERRY_RETRY, rest + 7);
		else
			*out = land(l, i, WHERRY_UNKNOWN, "the answer makes no sense");
		return true;
	}
	return false;
}

static bool next_answer(line *l, wherry_receipt *out)
{
	char *end;
	bool found = false;

	while (!found && l->in.len && (end = memchr(l->in.at, '\n', l->in.len))) {
		*end = 0;
		found = understand(l, l->in.at, out);
		forget(&l->in, (size_t)(end - l->in.at) + 1);
	}
	return found;
}

static wherry_code hear(line *l, wherry_error *err)
{
	ssize_t n;

	do {
		if (!reserve(&l->in, 4096))
			return wherry_error_set(err, WHERRY_NOMEM, NULL);
		n = recv(l->fd, l->in.at + l->in.len, l->in.cap - l->in.len, 0);
		l->in.len += n > 0 ? (size_t)n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	if (n == 0 || errno != EAGAIN)
		return wherry_error_set(err, WHERRY_CLOSED,
					"the receiver closed the socket");
	return WHERRY_OK;
}

/* What was answered before the end of the socket counts: so an error is told last. */
static wherry_code line_collect(void *state, wherry_receipt *out, size_t cap,
				size_t *out_n, wherry_error *err)
{
	line *l = state;
	wherry_code code = flush(l, err);
	int64_t now = now_us();

	if (code == WHERRY_OK)
		code = hear(l, err);
	while (*out_n < cap && next_answer(l, &out[*out_n]))
		++*out_n;
	while (*out_n < cap && l->n && l->flight[0].deadline_us <= now)
		out[(*out_n)++] = land(l, 0, WHERRY_UNKNOWN, "no answer in time");
	return *out_n ? WHERRY_OK : code;
}

static int line_fd(void *state, short *out_events)
{
	const line *l = state;

	*out_events = l->out.len ? POLLIN | POLLOUT : POLLIN;
	return l->n ? l->fd : -1;
}

static int64_t line_deadline(void *state)
{
	const line *l = state;

	if (!l->n)
		return WHERRY_PUBLISHER_NEVER;
	if (l->in.len && memchr(l->in.at, '\n', l->in.len))
		return 0; /* there was no room for all receipts */
	return l->flight[0].deadline_us;
}

static const wherry_setting settings[] = {
	{"unix.window", "number", "100", "1 to 10000",
	 "Messages without an answer, at most."},
	{"unix.timeout", "duration", "10s", "1ms to 1h", "How long an answer may take."},
	{NULL, NULL, NULL, NULL, NULL},
};

/* A message that comes back may be overtaken by those behind it: so it is not ORDERED. */
static const wherry_publisher_driver unix_socket = {
	.version = WHERRY_PUBLISHER_VERSION,
	.scheme = "unix",
	.settings = settings,
	.check = line_check,
	.open = line_open,
	.close = line_close,
	.submit = line_submit,
	.collect = line_collect,
	.fd = line_fd,
	.deadline_us = line_deadline,
};

/* ---- a relay that delivers there ---- */

static wherry_code set_all(wherry_config *config, int n, char **words, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	for (int i = 0; code == WHERRY_OK && i < n; i++) {
		char *value = strchr(words[i], '=');

		if (!value)
			return wherry_error_set(err, WHERRY_INVALID,
						"write settings as SETTING=VALUE");
		*value++ = 0;
		code = wherry_config_set(config, words[i], value, err);
	}
	return code;
}

int main(int argc, char **argv)
{
	wherry_error err = WHERRY_ERROR_INIT;
	wherry_config *config = NULL;
	wherry_relay *relay = NULL;
	char from[512], to[512];
	bool ok;

	if (argc < 3) {
		(void)fprintf(stderr, "usage: %s DATABASE SOCKET [SETTING=VALUE...]\n",
			      argv[0]);
		return 2;
	}
	(void)snprintf(from, sizeof(from), "sqlite:%s", argv[1]);
	(void)snprintf(to, sizeof(to), "unix:%s", argv[2]);
	ok = wherry_config_new(&config, &err) == WHERRY_OK &&
	     wherry_publisher_register(config, &unix_socket, &err) == WHERRY_OK &&
	     set_all(config, argc - 3, argv + 3, &err) == WHERRY_OK &&
	     wherry_relay_open(from, to, config, &relay, &err) == WHERRY_OK &&
	     wherry_relay_run(relay, WHERRY_UNTIL_EMPTY, NULL, &err) == WHERRY_OK;
	if (!ok)
		(void)fprintf(stderr, "%s\n", err.message);
	wherry_relay_close(relay);
	wherry_config_free(config);
	return ok ? 0 : 1;
}
