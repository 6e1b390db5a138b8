/*
 * stdout: and file: write each message as one line of JSON.
 *
 * Lines gather in a buffer.  A message is delivered when its whole line is written, and
 * with file.sync when the line is on disk.  These counters count bytes since the opening:
 *
 *   safe <= written <= queued       safe: receipts may be given up to here
 */
#include "publish/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "config/settings.h"
#include "publish/parts.h"
#include "publish/file/tail.h"

enum {
	BUFFERED_MAX = 1 << 20, /* Bytes not written: take no more messages. */
	KEPT_MAX = 8 << 20,     /* Bytes of memory kept after a large message. */
	LOCKED_US = 5000        /* Wait while another process has the lock. */
};

typedef struct line_publisher {
	wherry_publisher base;
	const wh_env *env;
	char *path; /* NULL: standard output. */
	int fd;
	bool regular;        /* Writes never wait, and poll() does not work. */
	bool sync;           /* Give receipts only for lines on disk. */
	bool symlinks;       /* The path may be a symbolic link. */
	int sync_errno;      /* errno of a failed fdatasync; 0: none failed. */
	bool refusing;       /* A malformed message waits for its receipt. */
	int64_t retry_at_us; /* When to try the lock again; 0: at once. */
	wh_pending pending;  /* mark: position of the end of its line. */
	wh_buf buf;
	size_t sent; /* Bytes of buf that are written. */
	bool torn;   /* The stream has got a part of a line. */
	uint64_t queued, written, safe;
} line_publisher;

static line_publisher *of(wherry_publisher *pub)
{
	return (line_publisher *)pub;
}

/* ---- open and close ---- */

static wherry_code no_regular_file(const char *path, const char *what, wherry_error *err)
{
	return wh_fail(
		err, WHERRY_INVALID,
		"'%.120s' is %s: file: writes to regular files only; for anything else "
		"redirect stdout:",
		path, what);
}

static wherry_code open_failed(const char *path, wherry_error *err)
{
	if (errno == EISDIR)
		return no_regular_file(path, "a directory", err);
	if (errno == ELOOP)
		return wh_fail_native(
			err, WHERRY_INVALID, ELOOP,
			"'%.120s' is a symbolic link: give the path that it points to, or "
			"set file.symlinks=on",
			path);
	if (errno == ENXIO)
		return no_regular_file(path, "a device or a socket", err);
	if (errno == ENOENT)
		return wh_fail_native(
			err, WHERRY_NOTFOUND, ENOENT,
			"cannot open '%.120s': its directory does not exist; make "
			"it first",
			path);
	return wh_fail_errno(err, errno, "cannot open '%.120s' for reading and writing",
			     path);
}

/* Sync the directory of a new file: a crash could otherwise lose its name. */
static wherry_code sync_directory(const char *path, wherry_error *err)
{
	const char *slash = strrchr(path, '/');
	char *name = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path))
			   : strdup(".");
	wherry_code code = WHERRY_OK;
	int fd;

	if (!name)
		return wh_oom(err);
	fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL))
		code = wh_fail_errno(err, errno, "cannot sync the directory '%.120s'",
				     name);
	if (fd >= 0)
		(void)close(fd);
	free(name);
	return code;
}

/* Take the lock for writing and repairing.  Another process may append to the same file,
 * such as a relay that just lost its lease.  False: try again at retry_at_us. */
static bool lock_file(line_publisher *p)
{
	p->retry_at_us = 0;
	/* On a file system without locks, write without one. */
	if (flock(p->fd, LOCK_EX | LOCK_NB) == 0 ||
	    (errno != EWOULDBLOCK && errno != EINTR))
		return true;
	p->retry_at_us = wh_later(wh_monotonic(p->env), LOCKED_US);
	return false;
}

static void unlock_file(line_publisher *p)
{
	(void)flock(p->fd, LOCK_UN);
}

static wherry_code open_file(line_publisher *p, wherry_error *err)
{
	const char *path = p->path;
	int follow = p->symlinks ? 0 : O_NOFOLLOW;
	wherry_code code = WHERRY_OK;
	struct stat st;

	/* O_NONBLOCK: if the path is a FIFO, do not wait for its reader. */
	p->fd = open(path,
		     O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
			     follow,
		     0640);
	if (p->fd < 0)
		return open_failed(path, err);
	if (fstat(p->fd, &st) != 0)
		return wh_fail_errno(err, errno, "cannot look at '%.120s'", path);
	if (!S_ISREG(st.st_mode))
		return no_regular_file(path, "not a regular file", err);
	p->regular = true;
	if (p->sync && st.st_size == 0)
		code = sync_directory(path, err);
	if (code == WHERRY_OK && lock_file(p)) {
		code = wh_tail_mend(p->fd, p->path, err);
		unlock_file(p);
	}
	return code;
}

static wherry_code open_stdout(line_publisher *p, wherry_error *err)
{
	struct stat st;

	p->fd = STDOUT_FILENO;
	if (fstat(p->fd, &st) != 0)
		return wh_fail_errno(err, errno, "standard output cannot be used");
	p->regular = S_ISREG(st.st_mode);
	return WHERRY_OK;
}

/* NULL: out of memory. */
static line_publisher *new_publisher(const wh_publisher_driver *driver, const wh_env *env)
{
	line_publisher *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->base.driver = driver;
	p->env = env;
	p->fd = -1;
	/* Limited by memory alone: outbox.body_max bounds each message, BUFFERED_MAX the
	 * buffer. */
	p->buf = (wh_buf)WH_BUF_INIT(SIZE_MAX / 2);
	return p;
}

static wherry_code flush_stream(line_publisher *p, size_t end, wherry_error *err);

/* Where the partly written line ends in buf; p->sent: there is no such line. */
static size_t torn_end(const line_publisher *p)
{
	const char *newline;

	if (!p->torn)
		return p->sent;
	newline = memchr(p->buf.ptr + p->sent, '\n', p->buf.len - p->sent);
	return newline ? (size_t)(newline - p->buf.ptr) + 1 : p->sent;
}

static void line_close(wherry_publisher *pub)
{
	line_publisher *p = of(pub);

	/* Complete the line, so that the next writer of this stream begins on a new
	 * one. */
	if (p->fd >= 0 && !p->regular)
		(void)flush_stream(p, torn_end(p), NULL);
	if (p->path && p->fd >= 0)
		(void)close(p->fd);
	free(p->path);
	wh_pending_clear(&p->pending);
	wh_buf_clear(&p->buf);
	free(p);
}

static wherry_code stdout_open(const char *rest, const wherry_config *config,
			       const wh_env *env, wherry_publisher **out,
			       wherry_error *err)
{
	line_publisher *p;
	wherry_code code;

	(void)config;
	if (*rest)
		return wh_fail(
			err, WHERRY_INVALID,
			"stdout: stands alone; to write to a file, say file:%.100s",
			rest);
	p = new_publisher(&wh_publisher_stdout, env);
	if (!p)
		return wh_oom(err);
	code = open_stdout(p, err);
	if (code == WHERRY_OK)
		*out = &p->base;
	else
		line_close(&p->base);
	return code;
}

static wherry_code file_open(const char *rest, const wherry_config *config,
			     const wh_env *env, wherry_publisher **out, wherry_error *err)
{
	line_publisher *p;
	wherry_code code;

	if (!*rest)
		return wh_fail(err, WHERRY_INVALID,
			       "file: needs a path, as in file:events.jsonl");
	p = new_publisher(&wh_publisher_file, env);
	if (!p)
		return wh_oom(err);
	p->sync = wh_config_switch(config, WH_FILE_SYNC);
	p->symlinks = wh_config_switch(config, WH_FILE_SYMLINKS);
	p->path = strdup(rest);
	code = p->path ? open_file(p, err) : wh_oom(err);
	if (code == WHERRY_OK)
		*out = &p->base;
	else
		line_close(&p->base);
	return code;
}

/* ---- taking ---- */

/* Remove written bytes from the buffer, if that moves no more bytes than it frees. */
static void compact(line_publisher *p)
{
	if (p->sent < p->buf.len && p->sent < p->buf.len / 2)
		return;
	wh_buf_cut(&p->buf, p->sent);
	p->sent = 0;
	if (!p->buf.len && p->buf.cap > KEPT_MAX)
		wh_buf_clear(&p->buf);
}

static wherry_code line_submit(wherry_publisher *pub, const wherry_message *const *msgs,
			       size_t n, size_t *out_taken, wherry_error *err)
{
	line_publisher *p = of(pub);
	wherry_code code = WHERRY_OK;
	size_t i;

	compact(p);
	/* After a malformed message take nothing until the relay has its receipt: the
	 * next message of its key may have to wait. */
	for (i = 0; i < n && !p->refusing && p->buf.len - p->sent < BUFFERED_MAX; i++) {
		size_t before = p->buf.len;

		if (!wh_pending_reserve(&p->pending)) {
			code = wh_oom(err);
			break;
		}
		code = wh_message_line(&p->buf, msgs[i], err);
		if (code == WHERRY_NOMEM)
			break;
		p->refusing = code != WHERRY_OK;
		p->queued += p->buf.len - before;
		wh_pending_push(&p->pending,
				(wh_pending_item){msgs[i], p->queued, p->refusing});
	}
	*out_taken = i;
	return code == WHERRY_NOMEM && !p->pending.n ? code : WHERRY_OK;
}

/* ---- writing ---- */

static wherry_code write_failed(const line_publisher *p, int number, wherry_error *err)
{
	const char *name = p->path ? p->path : "standard output";

	if (number == EPIPE)
		return wh_fail_native(err, WHERRY_CLOSED, number,
				      "the reader of standard output is gone");
	if (number == ENOSPC || number == EDQUOT || number == EFBIG)
		return wh_fail_native(
			err, WHERRY_FULL, number,
			"no room to write to %.120s: free some, then it goes on", name);
	return wh_fail_errno(err, number, "cannot write to %.120s", name);
}

/* How many bytes to write next.  POSIX guarantees that a writable pipe takes up to
 * PIPE_BUF bytes in one piece, so only lines longer than that can be torn. */
static size_t stream_chunk(const line_publisher *p, size_t end)
{
	const char *from = p->buf.ptr + p->sent;
	const char *newline;

	if (end - p->sent <= PIPE_BUF)
		return end - p->sent;
	newline = memrchr(from, '\n', PIPE_BUF);
	return newline ? (size_t)(newline - from) + 1 : PIPE_BUF;
}

/* Write the buffer up to end, or until the stream would block. */
static wherry_code flush_stream(line_publisher *p, size_t end, wherry_error *err)
{
	struct pollfd ready = {.fd = p->fd, .events = POLLOUT};
	wherry_code code = WHERRY_OK;

	while (code == WHERRY_OK && p->sent < end && poll(&ready, 1, 0) > 0) {
		ssize_t n =
			wh_quiet_write(p->fd, p->buf.ptr + p->sent, stream_chunk(p, end));

		if (n > 0) {
			p->sent += (size_t)n;
			p->written += (uint64_t)n;
			p->torn = p->buf.ptr[p->sent - 1] != '\n';
		} else if (n == 0 || errno == EAGAIN) {
			break;
		} else if (errno != EINTR) {
			code = write_failed(p, errno, err);
		}
	}
	p->safe = p->written;
	return code;
}

/* Remove the last len bytes written, if they are still the end of the file. */
static void unwrite(int fd, size_t len)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	struct stat st;

	if (at < (off_t)len || fstat(fd, &st) != 0 || st.st_size != at)
		return;
	/* If this fails, file: repairs the line before it writes the next one. */
	if (ftruncate(fd, at - (off_t)len) == 0)
		(void)lseek(fd, at - (off_t)len, SEEK_SET);
}

/* Write the whole buffer, or as many whole lines as the disk has room for. */
static wherry_code write_regular(line_publisher *p, wherry_error *err)
{
	wherry_code code = WHERRY_OK;
	size_t from = p->sent;

	while (code == WHERRY_OK && p->sent < p->buf.len) {
		ssize_t n =
			wh_quiet_write(p->fd, p->buf.ptr + p->sent, p->buf.len - p->sent);

		if (n > 0)
			p->sent += (size_t)n;
		else if (n == 0 || errno != EINTR)
			code = write_failed(p, n ? errno : EIO, err);
	}
	if (p->sent > from && p->buf.ptr[p->sent - 1] != '\n') {
		const char *line = memrchr(p->buf.ptr + from, '\n', p->sent - from);
		size_t whole = line ? (size_t)(line - p->buf.ptr) + 1 : from;

		unwrite(p->fd, p->sent - whole);
		p->sent = whole;
	}
	p->written += p->sent - from;
	return code;
}

/* Is the open file still the one that the path names? */
static bool is_named(const line_publisher *p)
{
	struct stat named, st;
	int failed = p->symlinks ? stat(p->path, &named) : lstat(p->path, &named);

	return !failed && fstat(p->fd, &st) == 0 && named.st_dev == st.st_dev &&
	       named.st_ino == st.st_ino;
}

/* The file was renamed or removed, for example by logrotate: open the file that the path
 * names now, or make it. */
static wherry_code open_named(line_publisher *p, wherry_error *err)
{
	int before = p->fd;
	wherry_code code = open_file(p, err);

	if (code != WHERRY_OK) {
		if (p->fd >= 0)
			(void)close(p->fd);
		p->fd = before;
		return code;
	}
	(void)close(before);
	p->sync_errno = 0;
	wh_log(p->env, WHERRY_LOG_INFO, "file", "file-changed",
	       wh_log_text("path", p->path),
	       wh_log_note("the file was renamed or removed, and messages go to the one "
			   "that the path names now"));
	return WHERRY_OK;
}

/* Lines may be in a file that somebody has renamed meanwhile, and compresses or removes.
 * The relay delivers their messages again. */
static wherry_code check_named(const line_publisher *p, wherry_error *err)
{
	if (p->written == p->safe || is_named(p))
		return WHERRY_OK;
	return wh_fail(
		err, WHERRY_CLOSED,
		"'%.120s' was renamed or removed while messages were written to it",
		p->path);
}

static wherry_code flush_file(line_publisher *p, wherry_error *err)
{
	wherry_code code = WHERRY_OK;

	if (p->written == p->safe && !is_named(p))
		code = open_named(p, err);
	if (code != WHERRY_OK || !lock_file(p))
		return code;
	code = wh_tail_mend(p->fd, p->path, err);
	if (code == WHERRY_OK)
		code = write_regular(p, err);
	unlock_file(p);
	if (!p->sync || p->written == p->safe)
		return code == WHERRY_OK ? check_named(p, err) : code;
	/* After a failed sync the kernel may have dropped the data.  A second sync could
	 * succeed and prove nothing. */
	if (!p->sync_errno && fdatasync(p->fd) != 0)
		p->sync_errno = errno;
	if (p->sync_errno)
		return wh_fail_errno(err, p->sync_errno, "cannot sync '%.120s'", p->path);
	if (code == WHERRY_OK)
		code = check_named(p, err);
	if (is_named(p))
		p->safe = p->written;
	return code;
}

static wherry_code flush(line_publisher *p, wherry_error *err)
{
	wherry_code code;

	if (p->sent == p->buf.len && p->written == p->safe)
		return WHERRY_OK;
	if (!p->regular)
		return flush_stream(p, p->buf.len, err);
	code = p->path ? flush_file(p, err) : write_regular(p, err);
	if (!p->sync && (code == WHERRY_OK || !p->path || is_named(p)))
		p->safe = p->written;
	return code;
}

/* ---- receipts ---- */

static void fill_refused(wh_receipt *out, const wherry_message *msg)
{
	const char *headers = wh_message_headers(msg);
	wherry_error why = WHERRY_ERROR_INIT;

	if (wh_json_headers(headers, strlen(headers), &why) == WHERRY_OK)
		(void)wh_fail(&why, WHERRY_INVALID, "malformed");
	wh_receipt_fill(out, msg, WHERRY_REJECTED, why.message);
}

static wherry_code line_collect(wherry_publisher *pub, wh_receipt *out, size_t cap,
				size_t *out_n, wherry_error *err)
{
	line_publisher *p = of(pub);
	wherry_code code = flush(p, err);
	const wh_pending_item *item;
	size_t n = 0;

	while (n < cap && (item = wh_pending_first(&p->pending)) &&
	       item->mark <= p->safe) {
		if (item->refused) {
			fill_refused(&out[n++], item->message);
			p->refusing = false;
		} else {
			wh_receipt_fill(&out[n++], item->message, WHERRY_DELIVERED, NULL);
		}
		wh_pending_pop(&p->pending);
	}
	*out_n = n;
	return n ? WHERRY_OK : code; /* Receipts come first; the next call fails again. */
}

/* Keep the rest of a partly written line, so that the next line begins on a new one. */
static void line_drop(wherry_publisher *pub)
{
	line_publisher *p = of(pub);
	size_t end = torn_end(p);

	wh_pending_drop(&p->pending);
	p->buf.len = end;
	if (p->buf.ptr)
		p->buf.ptr[end] = 0;
	p->queued = p->written + (end - p->sent);
	p->safe = p->written;
	p->sync_errno = 0;
	p->refusing = false;
}

static int line_fd(wherry_publisher *pub, short *out_events)
{
	line_publisher *p = of(pub);

	if (p->regular || p->sent == p->buf.len)
		return -1;
	*out_events = POLLOUT;
	return p->fd;
}

static int64_t line_deadline(wherry_publisher *pub)
{
	const line_publisher *p = of(pub);
	const wh_pending_item *item = wh_pending_first(&p->pending);

	if (!item)
		return WH_NEVER;
	if (item->mark <= p->safe)
		return 0;
	return p->regular ? p->retry_at_us : WH_NEVER;
}

const wh_publisher_driver wh_publisher_stdout = {
	.scheme = "stdout",
	.caps = WH_PUB_ORDERED,
	.open = stdout_open,
	.close = line_close,
	.submit = line_submit,
	.collect = line_collect,
	.drop = line_drop,
	.fd = line_fd,
	.deadline = line_deadline,
};

const wh_publisher_driver wh_publisher_file = {
	.scheme = "file",
	.caps = WH_PUB_ORDERED,
	.open = file_open,
	.close = line_close,
	.submit = line_submit,
	.collect = line_collect,
	.drop = line_drop,
	.fd = line_fd,
	.deadline = line_deadline,
};
