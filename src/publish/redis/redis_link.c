/*
 * A connection to a server.  Nothing here waits.
 *
 *     LOOKING ──► CONNECTING ──► SHAKING ──► OPEN
 *                  │      ▲       (TLS)
 *                  └──────┘ the next address
 */
#include "publish/redis/redis.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"

enum {
	CHUNK = 65536,
	READ_MOST = 1 << 20, /* Bytes in one step. */
	ALIVE_S = 15 /* Silence until the kernel asks whether the server is there. */
};

typedef enum stage { LOOKING, CONNECTING, SHAKING, OPEN } stage;

struct wh_redis_link {
	const wh_redis_settings *set;
	wh_redis_host host;
	int epoll_fd;
	stage stage;
	wh_redis_lookup *lookup;
	struct addrinfo *addresses, *next; /* next: to be tried. */
	int fd;                            /* -1: none. */
	bool wants_out;                    /* epoll_fd watches for it. */
	wh_redis_tls *tls;                 /* NULL: none. */
	wh_buf out;                        /* Commands. */
	wh_buf wire;                       /* With TLS: out, encrypted. */
	size_t at;                         /* Bytes of them that were sent. */
	redisReader *reader;
	char last_error[80]; /* Of the last address. */
	char chunk[CHUNK];   /* The bytes read last. */
};

static wherry_code watch(wh_redis_link *link, int fd, uint32_t events, int how,
			 wherry_error *err)
{
	struct epoll_event event = {.events = events};

	if (epoll_ctl(link->epoll_fd, how, fd, &event) == 0)
		return WHERRY_OK;
	return wh_fail_errno(err, errno, "the connection cannot be watched");
}

wherry_code wh_redis_link_new(const wh_redis_settings *set, const wh_redis_host *host,
			      int epoll_fd, wh_redis_link **out, wherry_error *err)
{
	wh_redis_link *link = calloc(1, sizeof(*link));
	wherry_code code = WHERRY_OK;

	if (!link)
		return wh_oom(err);
	link->set = set;
	link->host = *host;
	link->epoll_fd = epoll_fd;
	link->fd = -1;
	link->out = link->wire = (wh_buf)WH_BUF_INIT(SIZE_MAX);
	link->lookup = wh_redis_lookup_new(host->name, host->port);
	link->reader = redisReaderCreate();
	if (set->secure)
		code = wh_redis_tls_new(set, host->name, &link->tls, err);
	if (code == WHERRY_OK && (!link->lookup || !link->reader))
		code = wh_fail(err, WHERRY_CLOSED,
			       "there are too many threads, or there is no memory");
	if (code == WHERRY_OK)
		code = watch(link, wh_redis_lookup_fd(link->lookup), EPOLLIN,
			     EPOLL_CTL_ADD, err);
	if (code == WHERRY_OK)
		*out = link;
	else
		wh_redis_link_free(link);
	return code;
}

static void close_fd(wh_redis_link *link)
{
	if (link->fd >= 0)
		(void)close(link->fd);
	link->fd = -1;
	link->wants_out = false;
}

/* The thread may keep the descriptor open, so it would be watched on. */
static void end_lookup(wh_redis_link *link)
{
	if (!link->lookup)
		return;
	(void)epoll_ctl(link->epoll_fd, EPOLL_CTL_DEL, wh_redis_lookup_fd(link->lookup),
			NULL);
	wh_redis_lookup_leave(link->lookup);
	link->lookup = NULL;
}

void wh_redis_link_free(wh_redis_link *link)
{
	if (!link)
		return;
	end_lookup(link);
	close_fd(link);
	if (link->addresses)
		freeaddrinfo(link->addresses);
	wh_redis_tls_free(link->tls);
	if (link->reader)
		redisReaderFree(link->reader);
	wh_buf_clear(&link->out);
	wh_buf_clear(&link->wire);
	free(link);
}

bool wh_redis_link_is_open(const wh_redis_link *link)
{
	return link->stage == OPEN;
}

wh_buf *wh_redis_link_out(wh_redis_link *link)
{
	return &link->out;
}

/* ---- connecting ---- */

static wherry_code look(wh_redis_link *link, wherry_error *err)
{
	const char *why;

	if (!wh_redis_lookup_take(link->lookup, &link->addresses, &why))
		return WHERRY_OK;
	end_lookup(link);
	if (!link->addresses)
		return wh_fail(err, WHERRY_CLOSED, "the host is not known: %s", why);
	link->next = link->addresses;
	link->stage = CONNECTING;
	return WHERRY_OK;
}

static void set_options(int fd)
{
	const int on = 1, alive = ALIVE_S;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &alive, sizeof(alive));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &alive, sizeof(alive));
}

/* Begin to connect to the next address. */
static wherry_code begin(wh_redis_link *link, wherry_error *err)
{
	const struct addrinfo *to = link->next;

	link->next = to->ai_next;
	link->fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (link->fd < 0)
		return wh_fail_errno(err, errno, "there is no socket");
	set_options(link->fd);
	if (connect(link->fd, to->ai_addr, to->ai_addrlen) != 0 && errno != EINPROGRESS) {
		(void)snprintf(link->last_error, sizeof(link->last_error), "%s",
			       wh_errno_text(errno));
		close_fd(link);
		return WHERRY_OK;
	}
	link->wants_out = true;
	return watch(link, link->fd, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD, err);
}

static wherry_code connect_on(wh_redis_link *link, wherry_error *err)
{
	struct pollfd polled = {.fd = link->fd, .events = POLLOUT};
	int error = 0;
	socklen_t len = sizeof(error);

	if (link->fd >= 0) {
		if (poll(&polled, 1, 0) != 1)
			return WHERRY_OK;
		if (getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 &&
		    !error) {
			link->stage = link->tls ? SHAKING : OPEN;
			return WHERRY_OK;
		}
		(void)snprintf(link->last_error, sizeof(link->last_error), "%s",
			       wh_errno_text(error));
		close_fd(link);
	}
	while (link->fd < 0) {
		wherry_code code;

		if (!link->next)
			return wh_fail(err, WHERRY_CLOSED, "%s", link->last_error);
		code = begin(link, err);
		if (code != WHERRY_OK)
			return code;
	}
	return WHERRY_OK;
}

/* ---- writing ---- */

static wherry_code lost(int number, wherry_error *err)
{
	return wh_fail(err, WHERRY_CLOSED, "the connection ended: %s",
		       wh_errno_text(number));
}

static wherry_code write_out(wh_redis_link *link, wherry_error *err)
{
	wh_buf *from = link->tls ? &link->wire : &link->out;
	bool wants;
	wherry_code code = WHERRY_OK;

	if (link->tls && link->stage == OPEN && link->out.len) {
		code = wh_redis_tls_write(link->tls, link->out.ptr, link->out.len, err);
		wh_buf_reset(&link->out);
	}
	if (link->tls)
		wh_redis_tls_drain(link->tls, &link->wire);
	if (code == WHERRY_OK)
		code = wh_buf_check(from, err);
	while (code == WHERRY_OK && link->at < from->len) {
		ssize_t n = send(link->fd, from->ptr + link->at, from->len - link->at,
				 MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0 && errno != EINTR)
			return lost(errno, err);
		link->at += n > 0 ? (size_t)n : 0;
	}
	if (link->at == from->len) {
		wh_buf_reset(from);
		link->at = 0;
	} else if (link->at > from->len / 2) {
		wh_buf_cut(from, link->at);
		link->at = 0;
	}
	wants = from->len > 0;
	if (code != WHERRY_OK || wants == link->wants_out)
		return code;
	link->wants_out = wants;
	return watch(link, link->fd, EPOLLIN | (wants ? EPOLLOUT : 0), EPOLL_CTL_MOD,
		     err);
}

/* ---- reading ---- */

static wherry_code feed(wh_redis_link *link, const char *bytes, size_t n,
			wherry_error *err)
{
	if (redisReaderFeed(link->reader, bytes, n) == REDIS_OK)
		return WHERRY_OK;
	return wh_fail(err, WHERRY_CLOSED, "its answer cannot be read: %s",
		       link->reader->errstr);
}

static wherry_code decrypt(wh_redis_link *link, wherry_error *err)
{
	char bytes[16384];
	size_t n = 1;
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK && n) {
		code = wh_redis_tls_read(link->tls, bytes, sizeof(bytes), &n, err);
		if (code == WHERRY_OK && n)
			code = feed(link, bytes, n, err);
	}
	return code;
}

static wherry_code shake(wh_redis_link *link, wherry_error *err)
{
	bool done;
	wherry_code code = wh_redis_tls_shake(link->tls, &done, err);

	if (code == WHERRY_OK && done)
		link->stage = OPEN;
	return code;
}

static wherry_code take_bytes(wh_redis_link *link, const char *bytes, size_t n,
			      wherry_error *err)
{
	wherry_code code;

	if (!link->tls)
		return feed(link, bytes, n, err);
	code = wh_redis_tls_feed(link->tls, bytes, n, err);
	if (code == WHERRY_OK && link->stage == SHAKING)
		code = shake(link, err);
	if (code == WHERRY_OK && link->stage == OPEN)
		code = decrypt(link, err);
	return code;
}

static wherry_code read_in(wh_redis_link *link, wherry_error *err)
{
	for (size_t all = 0; all < READ_MOST;) {
		ssize_t n = recv(link->fd, link->chunk, sizeof(link->chunk), 0);
		wherry_code code;

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return WHERRY_OK;
		if (n < 0)
			return lost(errno, err);
		if (!n)
			return wh_fail(err, WHERRY_CLOSED,
				       "the server has ended the "
				       "connection");
		code = take_bytes(link, link->chunk, (size_t)n, err);
		if (code != WHERRY_OK)
			return code;
		if ((size_t)n < sizeof(link->chunk))
			return WHERRY_OK;
		all += (size_t)n;
	}
	return WHERRY_OK;
}

wherry_code wh_redis_link_step(wh_redis_link *link, wherry_error *err)
{
	wherry_code code = WHERRY_OK, written;

	if (link->stage == LOOKING)
		code = look(link, err);
	if (code == WHERRY_OK && link->stage == CONNECTING)
		code = connect_on(link, err);
	if (code == WHERRY_OK && link->stage == SHAKING)
		code = shake(link, err);
	if (code != WHERRY_OK || link->stage < SHAKING)
		return code;
	written = write_out(link, err);
	/* The reason may have arrived before the connection ended. */
	code = read_in(link, written == WHERRY_OK ? err : NULL);
	if (written == WHERRY_OK && code == WHERRY_OK && link->tls)
		return write_out(link, err);
	return written == WHERRY_OK ? code : written;
}

wherry_code wh_redis_link_reply(wh_redis_link *link, redisReply **out, wherry_error *err)
{
	void *reply = NULL;

	*out = NULL;
	if (redisReaderGetReply(link->reader, &reply) != REDIS_OK)
		return wh_fail(err, WHERRY_CLOSED, "its answer cannot be read: %s",
			       link->reader->errstr);
	*out = reply;
	return WHERRY_OK;
}
